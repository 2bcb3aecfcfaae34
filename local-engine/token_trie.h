/* token_trie.h - all tokens of a vocabulary by their bytes, so that a walk meets each common
 * beginning once.
 *
 * The nodes lie in the order of a walk: a node's first child is behind it, `skip` is the node
 * behind all that begin like it. Special tokens and those without bytes are left out. Immutable.
 */
#ifndef ISOTHERM_TOKEN_TRIE_H
#define ISOTHERM_TOKEN_TRIE_H

#include "engine_error.h"
#include "tokenizer.h"

enum {
    TOKEN_TRIE_DEPTH_MAX = 1024
}; /* bytes of a token; the longest that are published have 512 */

struct token_trie_node {
    uint32_t skip;
    int32_t token;  /* the first that ends here, -1: none */
    uint16_t depth; /* bytes up to and with its own; 1 at the roots */
    uint8_t byte;
    bool has_others; /* of the same bytes: next[token]. Few have, and to look there costs most */
};
struct token_trie {
    struct token_trie_node *nodes;
    int32_t *next; /* [n_vocab] another token of the same bytes, -1: none */
    size_t n_nodes;
    int32_t n_vocab;
    int depth; /* bytes of the longest token */
};

/* Tokens from n_vocab on, which the model does not have, are left out; a model may have more than
 * the tokenizer. */
ENGINE_WARN_UNUSED bool token_trie_init(struct token_trie *t, const struct tokenizer *tokenizer,
                                        int32_t n_vocab, struct engine_error *err);
void token_trie_release(struct token_trie *t);

#endif
