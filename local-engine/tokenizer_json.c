/* tokenizer_json.c - tokenizer.json's two large tables are read straight from the text
 * (jsonscan.h); everything small goes through jansson as a span. Splitting into spans first makes
 * the order of the file's fields indifferent.
 */
#include "tokenizer_private.h"

#include "jsontree.h"

#include <stdlib.h>
#include <string.h>

struct tokenizer_quoted tokenizer_quote(const char *s, size_t len)
{
    struct tokenizer_quoted q = {""};
    size_t n = 0;
    for (; n < len && n + 4 < sizeof q.s; n++) {
        q.s[n] = s[n] > ' ' && s[n] < 0x7f && s[n] != '\'' ? s[n] : '?';
    }
    if (n < len) {
        memcpy(q.s + n, "...", 3);
    }
    return q;
}

static bool fail_scan(const struct jsonscan *s, const char *field, struct engine_error *err)
{
    const char *problem = s->problem ? s->problem : "damaged";
    enum engine_code code = strcmp(problem, "out of memory") == 0 ? ENGINE_NOMEM : ENGINE_BAD_FILE;
    return engine_fail(err, code, "", "tokenizer.json: %s: at its byte %zu: %s", field,
                       s->problem_at, problem);
}

/* ---- splitting */

struct place {
    const char *name;
    struct jsonscan_span *span;
};

/* Steps over the value of `key`, keeping its span where it is one of the places. */
static bool keep_span(struct jsonscan *s, const struct jsonscan_span *key,
                      const struct place *places, size_t n_places)
{
    struct jsonscan_span ignored = {0}, *to = &ignored;
    for (size_t i = 0; i < n_places; i++) {
        if (strlen(places[i].name) == key->len && memcmp(places[i].name, key->at, key->len) == 0) {
            to = places[i].span;
        }
    }
    if (to->at) {
        return jsonscan_fail(s, "the field comes twice");
    }
    return jsonscan_skip(s, to);
}

static bool split_model(struct jsonscan *s, struct tokenizer_parts *p)
{
    const struct place places[] = {
        {"type", &p->type},
        {"vocab", &p->vocab},
        {"merges", &p->merges},
        {"unk_token", &p->unk_token},
        {"dropout", &p->dropout},
        {"continuing_subword_prefix", &p->subword_prefix},
        {"end_of_word_suffix", &p->word_suffix},
        {"fuse_unk", &p->fuse_unk},
        {"byte_fallback", &p->byte_fallback},
        {"ignore_merges", &p->ignore_merges},
        {"unk_id", &p->unk_id},
    };
    struct jsonscan_span key;
    size_t n = 0;
    if (p->vocab.at) {
        return jsonscan_fail(s, "the field 'model' comes twice");
    }
    if (!jsonscan_open(s, '{')) {
        return false;
    }
    while (jsonscan_next(s, '}', &n)) {
        if (!jsonscan_key(s, &key) || !keep_span(s, &key, places, sizeof places / sizeof *places)) {
            return false;
        }
    }
    return !s->problem;
}

static bool split_top(struct jsonscan *s, struct tokenizer_parts *p)
{
    const struct place places[] = {{"added_tokens", &p->added_tokens},
                                   {"normalizer", &p->normalizer},
                                   {"pre_tokenizer", &p->pre_tokenizer},
                                   {"post_processor", &p->post_processor},
                                   {"decoder", &p->decoder}};
    struct jsonscan_span key;
    size_t n = 0;
    if (!jsonscan_open(s, '{')) {
        return false;
    }
    while (jsonscan_next(s, '}', &n)) {
        if (!jsonscan_key(s, &key)) {
            return false;
        }
        bool is_model = key.len == 5 && memcmp(key.at, "model", 5) == 0;
        if (!(is_model ? split_model(s, p)
                       : keep_span(s, &key, places, sizeof places / sizeof *places))) {
            return false;
        }
    }
    return jsonscan_end(s);
}

bool tokenizer_json_split(struct tokenizer_parts *p, const char *json, size_t len,
                          struct engine_error *err)
{
    struct jsonscan s;
    struct tokenizer_parts parts = {0};
    jsonscan_init(&s, json, len);
    bool done = split_top(&s, &parts);
    if (!done) {
        fail_scan(&s, "file", err);
    } else {
        *p = parts;
    }
    jsonscan_release(&s);
    return done;
}

bool tokenizer_json_value(const struct jsonscan_span *span, const char *field, json_t **out,
                          struct engine_error *err)
{
    json_error_t why;
    if (!span->at) {
        *out = json_null();
        return true;
    }
    if (!jsontree_fits(span->at, span->len)) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "tokenizer.json: %s: too many values", field);
    }
    json_t *j = json_loadb(span->at, span->len,
                           JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    if (!j && why.text[0] == '\0') { /* jansson has words for everything else */
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    if (!j) {
        struct tokenizer_quoted q = tokenizer_quote(why.text, strlen(why.text));
        for (char *c = q.s; *c; c++) {
            *c = *c == '?' ? ' ' : *c;
        }
        return engine_fail(err, ENGINE_BAD_FILE, "", "tokenizer.json: %s: %s", field, q.s);
    }
    *out = j;
    return true;
}

/* ---- small fields of the model */

static bool read_flag(const struct jsonscan_span *span, const char *field, bool *out,
                      struct engine_error *err)
{
    json_t *j;
    if (!tokenizer_json_value(span, field, &j, err)) {
        return false;
    }
    bool is_good = json_is_boolean(j) || json_is_null(j);
    *out = json_is_true(j);
    json_decref(j);
    return is_good || engine_fail(err, ENGINE_BAD_FILE, "",
                                  "tokenizer.json: %s is neither true nor false", field);
}

/* Refuses a field that has a value other than null, "" and 0: what it asks for is not done here. */
static bool refuse_set(const struct jsonscan_span *span, const char *field,
                       struct engine_error *err)
{
    json_t *j;
    if (!tokenizer_json_value(span, field, &j, err)) {
        return false;
    }
    bool is_unset = json_is_null(j) || (json_is_string(j) && json_string_length(j) == 0) ||
                    (json_is_number(j) && !(json_number_value(j) > 0 || json_number_value(j) < 0));
    json_decref(j);
    return is_unset || engine_fail(err, ENGINE_BAD_FILE, "",
                                   "tokenizer.json: %s is set, which is not supported", field);
}

static bool read_type(struct tokenizer *t, const struct tokenizer_parts *p,
                      struct engine_error *err)
{
    json_t *j;
    if (!tokenizer_json_value(&p->type, "model.type", &j, err)) {
        return false;
    }
    t->is_unigram = json_is_string(j) && strcmp(json_string_value(j), "Unigram") == 0;
    /* files of the first versions do not say; only BPE has merges */
    bool is_bpe = json_is_null(j) ? p->merges.at != NULL
                                  : json_is_string(j) && strcmp(json_string_value(j), "BPE") == 0;
    struct tokenizer_quoted q =
        tokenizer_quote(json_is_string(j) ? json_string_value(j) : "", json_string_length(j));
    json_decref(j);
    return is_bpe || t->is_unigram ||
           engine_fail(err, ENGINE_BAD_FILE, "",
                       "tokenizer.json: model.type '%s' is not supported; use a model with BPE or "
                       "Unigram",
                       q.s);
}

static bool read_model_fields(struct tokenizer *t, const struct tokenizer_parts *p,
                              struct engine_error *err)
{
    return read_type(t, p, err) && refuse_set(&p->dropout, "model.dropout", err) &&
           refuse_set(&p->subword_prefix, "model.continuing_subword_prefix", err) &&
           refuse_set(&p->word_suffix, "model.end_of_word_suffix", err) &&
           read_flag(&p->fuse_unk, "model.fuse_unk", &t->fuses_unk, err) &&
           read_flag(&p->byte_fallback, "model.byte_fallback", &t->has_byte_fallback, err) &&
           read_flag(&p->ignore_merges, "model.ignore_merges", &t->ignores_merges, err);
}

/* ---- vocabulary */

static bool read_vocab(struct jsonscan *s, struct vocab *v, struct engine_error *err)
{
    struct jsonscan_span key;
    int64_t id = 0;
    size_t n = 0;
    if (!jsonscan_open(s, '{')) {
        return false;
    }
    while (jsonscan_next(s, '}', &n)) {
        if (!jsonscan_key(s, &key) || !jsonscan_int(s, &id)) {
            return false;
        }
        enum vocab_result r = vocab_add(v, key.at, key.len, id);
        if (r != VOCAB_DONE) {
            return engine_fail(err, r == VOCAB_NOMEM ? ENGINE_NOMEM : ENGINE_BAD_FILE, "",
                               "tokenizer.json: model.vocab: '%s' with id %lld: %s",
                               tokenizer_quote(key.at, key.len).s, (long long)id,
                               vocab_result_text(r));
        }
    }
    return !s->problem;
}

bool tokenizer_json_vocab(struct tokenizer *t, const struct tokenizer_parts *p,
                          struct engine_error *err)
{
    struct jsonscan s;
    if (!read_model_fields(t, p, err)) {
        return false;
    }
    if (!p->vocab.at) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "tokenizer.json: model.vocab is missing");
    }
    if (t->is_unigram) {
        return tokenizer_unigram_vocab(t, p, err);
    }
    /* an entry has one string, one of the added tokens eight: tables that are made once, and no
     * larger than they must be, are filled in half the time */
    size_t n = p->vocab.n_strings + p->added_tokens.n_strings / 8;
    if (!vocab_reserve(&t->vocab, n, p->vocab.len)) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    jsonscan_init(&s, p->vocab.at, p->vocab.len);
    bool done = read_vocab(&s, &t->vocab, err);
    if (!done && s.problem) {
        fail_scan(&s, "model.vocab", err);
    }
    jsonscan_release(&s);
    if (done && t->vocab.n_ids == 0) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "tokenizer.json: model.vocab is empty");
    }
    return done;
}

/* ---- merges */

/* "a b": exactly one space, something on both sides. */
static bool read_pair_string(struct jsonscan *s, struct tokenizer_merges *m,
                             struct engine_error *err)
{
    struct jsonscan_span line;
    if (!jsonscan_string(s, &line)) {
        return false;
    }
    const char *space = memchr(line.at, ' ', line.len);
    size_t left = space ? (size_t)(space - line.at) : 0, right = space ? line.len - left - 1 : 0;
    if (left == 0 || right == 0 || memchr(space + 1, ' ', right)) {
        return jsonscan_fail(s, "a merge is not two tokens with one space between");
    }
    return tokenizer_merges_put(m, line.at, left, err) &&
           tokenizer_merges_put(m, space + 1, right, err);
}

/* ["a", "b"] */
static bool read_pair_array(struct jsonscan *s, struct tokenizer_merges *m,
                            struct engine_error *err)
{
    struct jsonscan_span half;
    size_t n = 0;
    if (!jsonscan_open(s, '[')) {
        return false;
    }
    while (jsonscan_next(s, ']', &n)) {
        if (n > 2 || !jsonscan_string(s, &half) || half.len == 0) {
            return jsonscan_fail(s, "a merge is not a pair of tokens");
        }
        if (!tokenizer_merges_put(m, half.at, half.len, err)) {
            return false;
        }
    }
    return n == 2 || jsonscan_fail(s, "a merge is not a pair of tokens");
}

static bool read_merges(struct jsonscan *s, struct tokenizer_merges *m, struct engine_error *err)
{
    size_t n = 0;
    if (!jsonscan_open(s, '[')) {
        return false;
    }
    while (jsonscan_next(s, ']', &n)) {
        bool is_array = jsonscan_peek(s) == '[';
        if (!(is_array ? read_pair_array(s, m, err) : read_pair_string(s, m, err))) {
            return false;
        }
    }
    return !s->problem && tokenizer_merges_end(m, err);
}

/* As many as there are, and perhaps more. */
static size_t count_merges(const struct jsonscan_span *merges)
{
    struct jsonscan s;
    jsonscan_init(&s, merges->at + 1, merges->len - 1); /* behind the bracket */
    return jsonscan_peek(&s) == '[' ? merges->n_strings / 2 : merges->n_strings;
}

bool tokenizer_json_merges(struct tokenizer *t, const struct tokenizer_parts *p,
                           struct engine_error *err)
{
    struct jsonscan s;
    struct tokenizer_merges m = {.t = t, .field = "tokenizer.json: model.merges"};
    if (!p->merges.at) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "tokenizer.json: model.merges is missing");
    }
    if (!bpe_reserve(&t->bpe, count_merges(&p->merges))) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    jsonscan_init(&s, p->merges.at, p->merges.len);
    bool done = read_merges(&s, &m, err);
    if (!done && s.problem) {
        fail_scan(&s, "model.merges", err);
    }
    tokenizer_merges_release(&m);
    jsonscan_release(&s);
    return done;
}
