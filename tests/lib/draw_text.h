/* draw_text.h - a text of a constraint, drawn by its masks from random logits over a small
 * vocabulary: every byte, and pieces that end and begin several things at once, as real
 * vocabularies have them. What closes something is favoured, the more the longer the text, so that
 * texts end.
 */
#ifndef ISOTHERM_TESTS_DRAW_TEXT_H
#define ISOTHERM_TESTS_DRAW_TEXT_H

#include "local-engine/constrain.h"
#include "tests/lib/tokenizer_recipe.h"

#include <math.h>

enum { DRAW_TOKENS_MAX = 2000, DRAW_WEIGHTS = 8192, DRAW_VOCABULARY_MAX = 512, DRAW_WORDS = 9 };

static const char *const
    draw_pieces[] = {"ecole", "X_",   "foo",     "bar\"", "12",    "99",    "x_",     "9\"",
                     "_n\"", /* words: patterns search for them */
                     "\"}",   "\"}}", "]]",      "],[",   "{\"",   "\":",   "\",\"",  "}]",
                     "]}",    "[[",   ":{\"",    "null",  "true",  "false", "0.",     "\\u00",
                     "-1",    "e+",   "\"foo\"", "[]",    "{}",    "[{",    "}]}",    "00",
                     ",\"",   "\"]",  "[\"",     "},{",   ":null", ":true", "\",\"b", "1,2",
                     "\\\"",  "20",   "-0",      "},\""};
static double draw_weights[DRAW_WEIGHTS]; /* e to the logits */

static inline uint32_t draw_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return (uint32_t)(*s >> 32);
}

static inline double draw_uniform(uint64_t *s)
{
    return (draw_random(s) + 0.5) / 4294967296.0;
}

static inline struct tokenizer *draw_vocabulary(void)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct tokenizer *t = NULL;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    if (!f) {
        return NULL;
    }
    (void)fprintf(f, "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                     "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
                     "\"merges\":[],\"vocab\":{");
    for (unsigned b = 0; b < 256; b++) {
        (void)fputs(b ? ",\"" : "\"", f);
        put_byte_char(f, b);
        (void)fprintf(f, "\":%u", b);
    }
    for (unsigned i = 0; i < sizeof draw_pieces / sizeof draw_pieces[0]; i++) {
        (void)fputs(",\"", f);
        for (const char *s = draw_pieces[i]; *s; s++) {
            put_byte_char(f, (unsigned char)*s);
        }
        (void)fprintf(f, "\":%u", 256 + i);
    }
    (void)fputs("}}}", f);
    if (fclose(f) != 0 || !tokenizer_parse(&t, text, len, NULL, 0, &err)) {
        (void)fprintf(stderr, "%s\n", err.text);
    }
    free(text);
    return t;
}

static inline void draw_fill_weights(void)
{
    uint64_t seed = 88172645463325252u;
    for (size_t i = 0; i < DRAW_WEIGHTS; i++) {
        double normal =
            sqrt(-2 * log(draw_uniform(&seed))) * cos(6.283185307179586 * draw_uniform(&seed));
        draw_weights[i] = exp(1.5 * normal);
    }
}

/* How much longer texts favour a token that begins like this. */
static inline double draw_favour(int32_t id, char first, size_t n_tokens)
{
    double patience = 1 + (double)n_tokens / 16, hurry = n_tokens > 100 ? 1000 : 1;
    if (first == '"' || first == '}' || first == ']') {
        return 6 * patience * hurry;
    }
    bool is_word = id >= 256 && id < 256 + DRAW_WORDS;
    return is_word ? hurry : first == 'n' || first == ':' || first == ',' ? patience : 1;
}

/* The next token, -1: the end. */
static inline int32_t draw_token(const struct tokenizer *t, const uint8_t *mask, int32_t n,
                                 size_t n_tokens, bool may_end, uint64_t *seed)
{
    double w[DRAW_VOCABULARY_MAX], all = may_end ? 20 + (double)n_tokens : 0;
    uint32_t from = draw_random(seed);
    for (int32_t id = 0; id < n; id++) {
        size_t len;
        w[id] = mask[id] ? draw_weights[(from + (uint32_t)id * 7) % DRAW_WEIGHTS] *
                               draw_favour(id, tokenizer_piece(t, id, false, &len)[0], n_tokens)
                         : 0;
        all += w[id];
    }
    double left = draw_uniform(seed) * all;
    int32_t last = -1;
    for (int32_t id = 0; id < n; id++) {
        if (w[id] > 0) {
            last = id;
            left -= w[id];
            if (left <= 0) {
                return id;
            }
        }
    }
    return may_end ? -1 : last;
}

static inline void draw_stop(const char *what)
{
    (void)fprintf(stderr, "schema_texts: %s\n", what);
    exit(1);
}

/* A document, or null when it was cut. */
static inline json_t *draw_document(struct constrain *c, const struct constrain_cache *k,
                                    const struct tokenizer *t, uint64_t seed)
{
    static uint8_t mask[DRAW_VOCABULARY_MAX];
    static char text[DRAW_TOKENS_MAX * 8];
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain_state *s;
    size_t n = 0, n_tokens = 0;
    const struct token_trie *trie = constrain_cache_trie(k);
    int32_t id = 0;
    if (!constrain_state_new(&s, c, trie, &err)) {
        draw_stop(err.text);
    }
    for (; n_tokens < DRAW_TOKENS_MAX && !constrain_is_final(s); n_tokens++) {
        size_t len;
        if (!constrain_mask(s, mask, &err)) {
            draw_stop(err.text);
        }
        bool may_end = constrain_is_complete(s);
        id = draw_token(t, mask, trie->n_vocab, n_tokens, may_end, &seed);
        if (id < 0) {
            break;
        }
        const char *bytes = tokenizer_piece(t, id, false, &len);
        if (!constrain_advance(s, bytes, len, &err)) {
            draw_stop(err.text);
        }
        memcpy(text + n, bytes, len);
        n += len;
    }
    bool is_whole = constrain_is_complete(s);
    if (id < 0 && !is_whole) {
        draw_stop("a prefix that cannot be completed");
    }
    constrain_state_free(s);
    return is_whole ? json_stringn(text, n) : json_null();
}

#endif
