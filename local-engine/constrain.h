/* constrain.h - which tokens may come next, so that a text stays one that a JSON schema, a pattern
 * or a list of texts allows.
 *
 * A token is allowed exactly where the text so far with its bytes is the beginning of an allowed
 * text; the end token where the text is whole. Every text that is reached can be completed. Which
 * documents of a schema are allowed texts is constrain_schema.h.
 *
 * A compiled constraint is shared by all its sequences, which remember in it what they have found
 * out: one thread at a time, that of the engine.
 */
#ifndef ISOTHERM_CONSTRAIN_H
#define ISOTHERM_CONSTRAIN_H

#include "token_trie.h"
#include <jansson.h>

enum constrain_kind {
    CONSTRAIN_NOTHING,
    CONSTRAIN_JSON_OBJECT, /* any JSON object; no value */
    CONSTRAIN_JSON_SCHEMA, /* value: the schema */
    CONSTRAIN_REGEX,       /* value: a string; the whole text must match */
    CONSTRAIN_CHOICE       /* value: a list of strings */
};
struct constrain_spec {
    enum constrain_kind kind;
    const json_t *value; /* borrowed */
    const char *param;   /* names it in errors; static */
};

#define CONSTRAIN_CHOICES_MAX 1024

/* ---- compiled */

struct constrain;
/* ENGINE_BAD_PARAM of spec->param: what is wrong with it, with the JSON pointer of the keyword. */
ENGINE_WARN_UNUSED bool constrain_new(struct constrain **out, const struct constrain_spec *spec,
                                      struct engine_error *err);
/* Counted: one more owner, one less. */
struct constrain *constrain_hold(struct constrain *c);
void constrain_free(struct constrain *c);

/* The last ones that were compiled, for one vocabulary. */
struct constrain_cache;
ENGINE_WARN_UNUSED bool constrain_cache_new(struct constrain_cache **out,
                                            const struct tokenizer *t /* borrowed */,
                                            int32_t n_vocab, struct engine_error *err);
void constrain_cache_free(struct constrain_cache *k);
/* *out is yours (constrain_free). The first one of all takes the time to sort the vocabulary. */
ENGINE_WARN_UNUSED bool constrain_cache_get(struct constrain_cache *k,
                                            const struct constrain_spec *spec,
                                            struct constrain **out, struct engine_error *err);
const struct token_trie *constrain_cache_trie(const struct constrain_cache *k);

/* ---- one sequence */

struct constrain_state;
/* Holds c. `trie` is the same for all sequences of c; NULL: no masks are wanted. */
ENGINE_WARN_UNUSED bool constrain_state_new(struct constrain_state **out, struct constrain *c,
                                            const struct token_trie *trie,
                                            struct engine_error *err);
void constrain_state_free(struct constrain_state *s);

/* mask [trie->n_vocab]: 1 for each token that may come next, 0 for others, for special tokens, too:
 * whoever has an end token asks constrain_is_complete(). ENGINE_BAD_PARAM of the spec's param: too
 * many alternatives are open at once, so that this would take more than parts of a second. */
ENGINE_WARN_UNUSED bool constrain_mask(struct constrain_state *s, uint8_t *mask,
                                       struct engine_error *err);
/* The same for the first token of a text that follows nothing (tokenizer.h: is_first). */
ENGINE_WARN_UNUSED bool constrain_mask_first(struct constrain_state *s, const struct tokenizer *t,
                                             uint8_t *mask, struct engine_error *err);
/* The bytes of a token. ENGINE_INTERNAL: it was not allowed; then the state is as it was. */
ENGINE_WARN_UNUSED bool constrain_advance(struct constrain_state *s, const char *bytes, size_t n,
                                          struct engine_error *err);
bool constrain_is_complete(const struct constrain_state *s); /* the text is a whole one */
bool constrain_is_final(const struct constrain_state *s);    /* and nothing can follow */

#endif
