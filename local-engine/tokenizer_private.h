/* tokenizer_private.h - what the tokenizer's own files share. Nobody else includes this.
 *
 * Order of loading: tokenizer.json's tables and parts (tokenizer_json.c), its steps
 * (tokenizer_steps.c), bos and eos (tokenizer_config.c), then what needs to know the special
 * tokens: merges, added tokens, pieces.
 */
#ifndef ISOTHERM_TOKENIZER_PRIVATE_H
#define ISOTHERM_TOKENIZER_PRIVATE_H

#include "added.h"
#include "bpe.h"
#include "jsonscan.h"
#include "normalize.h"
#include "pretokenize.h"
#include "tokenizer.h"
#include "unigram.h"
#include "vocab.h"

#include <jansson.h>

#define TOKENIZER_SPACE "\xe2\x96\x81" /* U+2581, SentencePiece's space */
enum {
    TOKENIZER_SPACE_LEN = 3,
    TOKENIZER_FILE_MAX = 64 << 20,  /* three times the largest that is published */
    TOKENIZER_CONFIG_MAX = 8 << 20, /* chat templates and lists of added tokens make them long */
    TOKENIZER_EOS_MAX = 32,
    TOKENIZER_ADDED_MAX = 100000
};

enum tokenizer_kind { TOKENIZER_UNKNOWN, TOKENIZER_BYTES, TOKENIZER_SPACES };
/* Where a space is put in front: nowhere, at the beginning of a sequence, also after each added or
 * special token. */
enum tokenizer_prefix { TOKENIZER_PREFIX_NONE, TOKENIZER_PREFIX_FIRST, TOKENIZER_PREFIX_ALWAYS };
enum { TOKENIZER_SPECIAL = 1, TOKENIZER_ADDED = 2 };

struct tokenizer {
    enum tokenizer_kind kind;
    enum tokenizer_prefix prefix;
    bool is_unigram; /* `unigram` instead of `bpe` */
    /* Words are merged alone: no merge goes over the beginning of a word (U+2581 behind another
     * character) but behind the bytes in joins_word. */
    bool cuts_words, joins_word[256];
    bool normalizes_spaces; /* U+2581 is put in by the normalizer, before added tokens that are
                               `normalized` are found */
    bool is_metaspace;      /* ... by the pre-tokenizer, after that, and no prefix before a space */
    bool strips_first;      /* the decoder takes one space from the front */
    bool has_byte_fallback, fuses_unk, ignores_merges, adds_bos;
    struct vocab vocab;
    struct bpe bpe;
    struct unigram unigram;
    double *scores; /* [n_scores] while loading: of Unigram, and of .gguf files */
    size_t n_scores;
    struct normalize normal;
    struct pretokenize pre;
    struct added added, added_normalized;
    uint8_t *flags;         /* [vocab.n_ids] */
    char *pieces;           /* bytes of all tokens */
    uint32_t *pieces_at;    /* [vocab.n_ids + 1] */
    int32_t byte_ids[256];  /* TOKENIZER_BYTES: of the character that stands for it;
                               TOKENIZER_SPACES: <0xNN>; -1: none */
    int32_t ascii_ids[128]; /* of the characters themselves; -1: none */
    int32_t unk, bos;       /* -1: none */
    int32_t eos[TOKENIZER_EOS_MAX];
    size_t n_eos;
};

/* The parts of tokenizer.json, as spans of its text. */
struct tokenizer_parts {
    struct jsonscan_span added_tokens, normalizer, pre_tokenizer, post_processor, decoder;
    struct jsonscan_span type, vocab, merges, unk_token, dropout, subword_prefix, word_suffix,
        fuse_unk, byte_fallback, ignore_merges, unk_id;
};

/* tokenizer_json.c */
ENGINE_WARN_UNUSED bool tokenizer_json_split(struct tokenizer_parts *p, const char *json,
                                             size_t len, struct engine_error *err);
ENGINE_WARN_UNUSED bool tokenizer_json_vocab(struct tokenizer *t, const struct tokenizer_parts *p,
                                             struct engine_error *err);
ENGINE_WARN_UNUSED bool tokenizer_json_merges(struct tokenizer *t, const struct tokenizer_parts *p,
                                              struct engine_error *err);
/* A span's value; yours. An absent one is null. */
ENGINE_WARN_UNUSED bool tokenizer_json_value(const struct jsonscan_span *span, const char *field,
                                             json_t **out, struct engine_error *err);

/* tokenizer_unigram.c: the vocabulary with its scores; the trie, once it is known which tokens are
 * special. */
ENGINE_WARN_UNUSED bool tokenizer_unigram_vocab(struct tokenizer *t,
                                                const struct tokenizer_parts *p,
                                                struct engine_error *err);
ENGINE_WARN_UNUSED bool tokenizer_unigram_make(struct tokenizer *t, const char *label,
                                               struct engine_error *err);

/* tokenizer_merges.c: a list of merges on its way into t->bpe, in blocks, so that the tables'
 * memory is asked for before it is needed. */
enum { TOKENIZER_MERGES_BLOCK = 32 };
struct tokenizer_merges {
    struct tokenizer *t;
    const char *field; /* file and list, for errors */
    char *text;        /* the halves of the block's merges, one behind the other */
    size_t text_len, text_cap;
    size_t half_len[2 * TOKENIZER_MERGES_BLOCK], n_halves;
    size_t n_before; /* merges of the blocks before */
};
/* Left half, right half, and so on; copied. */
ENGINE_WARN_UNUSED bool tokenizer_merges_put(struct tokenizer_merges *m, const char *s, size_t len,
                                             struct engine_error *err);
/* After the last: nothing more can be put. */
ENGINE_WARN_UNUSED bool tokenizer_merges_end(struct tokenizer_merges *m, struct engine_error *err);
void tokenizer_merges_release(struct tokenizer_merges *m);

/* tokenizer_scores.c: merges from scores: of each token every way to put it together from two
 * others, the highest score first. */
ENGINE_WARN_UNUSED bool tokenizer_scores_merges(struct tokenizer *t, struct engine_error *err);

/* tokenizer_steps.c. *has_template: a post-processor said whether there is a bos. */
ENGINE_WARN_UNUSED bool tokenizer_steps_read(struct tokenizer *t, const struct tokenizer_parts *p,
                                             bool *has_template, struct engine_error *err);

/* tokenizer_added.c. Whether an added token that is spelled so opens or ends somebody's turn in a
 * chat template: those are special whatever the file says (deepseek's are not, by theirs), or a
 * user's text could open a turn. */
bool tokenizer_is_turn_mark(const char *s, size_t len);
ENGINE_WARN_UNUSED bool tokenizer_added_register(struct tokenizer *t,
                                                 const struct jsonscan_span *list,
                                                 struct engine_error *err);
ENGINE_WARN_UNUSED bool tokenizer_added_index(struct tokenizer *t, const struct jsonscan_span *list,
                                              struct engine_error *err);

/* tokenizer_config.c: any of the three may be NULL. */
ENGINE_WARN_UNUSED bool tokenizer_config_apply(struct tokenizer *t, bool has_template,
                                               const json_t *tokenizer_config,
                                               const json_t *generation_config,
                                               const json_t *config, struct engine_error *err);

/* tokenizer_pieces.c: byte_ids, ascii_ids and pieces. */
ENGINE_WARN_UNUSED bool tokenizer_pieces_make(struct tokenizer *t, struct engine_error *err);
/* The character that stands for a byte in byte-level vocabularies. */
uint32_t tokenizer_byte_char(unsigned char b);

/* tokenizer_encode.c: spaces become U+2581; one more in front if asked, but with is_metaspace only
 * where none is. out: yours. */
ENGINE_WARN_UNUSED bool tokenizer_encode_spaces(const struct tokenizer *t, const char *s,
                                                size_t len, bool has_prefix, char **out,
                                                size_t *out_len, struct engine_error *err);

/* Finds out whether words can be merged alone. After the merges. */
void tokenizer_encode_prepare(struct tokenizer *t);

/* A spelling for an error text: printable ASCII, cut to fit. */
struct tokenizer_quoted {
    char s[48];
};
struct tokenizer_quoted tokenizer_quote(const char *s, size_t len);

#endif
