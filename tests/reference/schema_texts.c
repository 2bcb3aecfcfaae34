/* schema_texts.c - our side of the comparison of constrained answers with a validator: each line of
 * standard input is {"schema": SCHEMA, "seeds": N, "texts": [TEXT...]}, and its answer either
 * {"refused": WHY} or {"documents": [TEXT or null...], "accepts": [BOOLEAN...]}: a document for
 * each seed, null where it was cut at the limit, and which of the texts are allowed whole.
 *
 * Documents are drawn by masks over a small vocabulary: every byte, and pieces that end and begin
 * several things at once, as real vocabularies have them. Logits are random; what closes something
 * is favoured, the more the longer the text, so that documents end.
 */
#include "local-engine/constrain.h"
#include "tests/lib/tokenizer_recipe.h"

#include <math.h>

enum { TOKENS_MAX = 2000, WEIGHTS = 8192, VOCABULARY_MAX = 512 };

enum { N_WORDS = 6 };
static const char *const pieces[] = {
    "ecole",   "X_",    "foo",   "bar\"",  "12",    "99", /* words that patterns search for */
    "\"}",     "\"}}",  "]]",    "],[",    "{\"",   "\":",  "\",\"", "}]",  "]}",
    "[[",      ":{\"",  "null",  "true",   "false", "0.",   "\\u00", "-1",  "e+",
    "\"foo\"", "[]",    "{}",    "[{",     "}]}",   "00",   ",\"",   "\"]", "[\"",
    "},{",     ":null", ":true", "\",\"b", "1,2",   "\\\"", "20",    "-0",  "},\"",
};
static double weights[WEIGHTS]; /* e to the logits */

static uint32_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return (uint32_t)(*s >> 32);
}

static double uniform(uint64_t *s)
{
    return (next_random(s) + 0.5) / 4294967296.0;
}

static struct tokenizer *make_vocabulary(void)
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
    for (unsigned i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        (void)fputs(",\"", f);
        for (const char *s = pieces[i]; *s; s++) {
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

static void fill_weights(void)
{
    uint64_t seed = 88172645463325252u;
    for (size_t i = 0; i < WEIGHTS; i++) {
        double normal = sqrt(-2 * log(uniform(&seed))) * cos(6.283185307179586 * uniform(&seed));
        weights[i] = exp(1.5 * normal);
    }
}

/* How much longer texts favour a token that begins like this. */
static double favour(int32_t id, char first, size_t n_tokens)
{
    double patience = 1 + (double)n_tokens / 16, hurry = n_tokens > 100 ? 1000 : 1;
    if (first == '"' || first == '}' || first == ']') {
        return 6 * patience * hurry;
    }
    bool is_word = id >= 256 && id < 256 + N_WORDS;
    return is_word ? hurry : first == 'n' || first == ':' || first == ',' ? patience : 1;
}

/* The next token, -1: the end. */
static int32_t draw(const struct tokenizer *t, const uint8_t *mask, int32_t n, size_t n_tokens,
                    bool may_end, uint64_t *seed)
{
    double w[VOCABULARY_MAX], all = may_end ? 20 + (double)n_tokens : 0;
    uint32_t from = next_random(seed);
    for (int32_t id = 0; id < n; id++) {
        size_t len;
        w[id] = mask[id] ? weights[(from + (uint32_t)id * 7) % WEIGHTS] *
                               favour(id, tokenizer_piece(t, id, false, &len)[0], n_tokens)
                         : 0;
        all += w[id];
    }
    double left = uniform(seed) * all;
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

static void stop(const char *what)
{
    (void)fprintf(stderr, "schema_texts: %s\n", what);
    exit(1);
}

/* A document, or null when it was cut. */
static json_t *write_document(struct constrain *c, const struct constrain_cache *k,
                              const struct tokenizer *t, uint64_t seed)
{
    static uint8_t mask[VOCABULARY_MAX];
    static char text[TOKENS_MAX * 8];
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain_state *s;
    size_t n = 0, n_tokens = 0;
    const struct token_trie *trie = constrain_cache_trie(k);
    int32_t id = 0;
    if (!constrain_state_new(&s, c, trie, &err)) {
        stop(err.text);
    }
    for (; n_tokens < TOKENS_MAX && !constrain_is_final(s); n_tokens++) {
        size_t len;
        if (!constrain_mask(s, mask, &err)) {
            stop(err.text);
        }
        bool may_end = constrain_is_complete(s);
        id = draw(t, mask, trie->n_vocab, n_tokens, may_end, &seed);
        if (id < 0) {
            break;
        }
        const char *bytes = tokenizer_piece(t, id, false, &len);
        if (!constrain_advance(s, bytes, len, &err)) {
            stop(err.text);
        }
        memcpy(text + n, bytes, len);
        n += len;
    }
    bool is_whole = constrain_is_complete(s);
    if (id < 0 && !is_whole) {
        stop("a prefix that cannot be completed");
    }
    constrain_state_free(s);
    return is_whole ? json_stringn(text, n) : json_null();
}

static bool accepts(struct constrain *c, const json_t *text)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain_state *s;
    if (!constrain_state_new(&s, c, NULL, &err)) {
        stop(err.text);
    }
    bool ok = constrain_advance(s, json_string_value(text), json_string_length(text), NULL) &&
              constrain_is_complete(s);
    constrain_state_free(s);
    return ok;
}

static json_t *answer(struct constrain_cache *k, const struct tokenizer *t, const json_t *line)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain *c;
    struct constrain_spec spec = {CONSTRAIN_JSON_SCHEMA, json_object_get(line, "schema"), "schema"};
    const json_t *texts = json_object_get(line, "texts");
    json_t *documents = json_array(), *accepted = json_array();
    if (!constrain_cache_get(k, &spec, &c, &err)) {
        json_decref(documents);
        json_decref(accepted);
        return json_pack("{s:s}", "refused", err.text);
    }
    for (json_int_t i = 0; i < json_integer_value(json_object_get(line, "seeds")); i++) {
        uint64_t seed = (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;
        if (json_array_append_new(documents, write_document(c, k, t, seed)) != 0) {
            stop("a document that is no UTF-8");
        }
    }
    for (size_t i = 0; i < json_array_size(texts); i++) {
        if (json_array_append_new(accepted, json_boolean(accepts(c, json_array_get(texts, i))))) {
            stop("out of memory");
        }
    }
    constrain_free(c);
    return json_pack("{s:o, s:o}", "documents", documents, "accepts", accepted);
}

int main(void)
{
    char *bytes = NULL;
    size_t cap = 0;
    ssize_t n;
    struct engine_error err = {.code = ENGINE_OK};
    struct tokenizer *t = make_vocabulary();
    struct constrain_cache *k;
    if (!t || !constrain_cache_new(&k, t, tokenizer_n_vocab(t), &err)) {
        return 1;
    }
    fill_weights();
    while ((n = getline(&bytes, &cap, stdin)) > 0) {
        json_error_t why;
        json_t *line = json_loadb(bytes, (size_t)n, JSON_ALLOW_NUL, &why);
        json_t *out =
            line ? answer(k, t, line) : json_pack("{s:s+}", "refused", "no JSON: ", why.text);
        if (!out || json_dumpf(out, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF) {
            return 1;
        }
        json_decref(out);
        json_decref(line);
    }
    free(bytes);
    constrain_cache_free(k);
    tokenizer_close(t);
    return fflush(stdout) == 0 ? 0 : 1;
}
