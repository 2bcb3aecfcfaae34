/* tokenizer_gguf.c - reads, in this order: tokens and their types, ids of bos, eos and unknown,
 * the steps (by name), then merges or scores. Key words and numbers as the format's documentation
 * has them (ggml's docs/gguf.md); what the names of pre-tokenisations stand for is what the
 * tokenizer.json of those models says.
 */
#include "tokenizer_gguf.h"
#include "tokenizer_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY "tokenizer.ggml."

enum token_type {
    TYPE_NORMAL = 1,
    TYPE_UNKNOWN,
    TYPE_CONTROL,
    TYPE_USER_DEFINED,
    TYPE_UNUSED,
    TYPE_BYTE
};

struct reader {
    struct tokenizer *t;
    const struct gguf *g;
    struct engine_error *err;
    char list[128]; /* the one that is read, as errors name it */
};

static bool fail_field(const struct reader *r, const char *field, const char *why)
{
    return engine_fail(r->err, ENGINE_BAD_FILE, "", "%s: " KEY "%s: %s", gguf_label(r->g), field,
                       why);
}

static const char *name_list(struct reader *r, const char *field)
{
    (void)snprintf(r->list, sizeof r->list, "%s: " KEY "%s", gguf_label(r->g), field);
    return r->list;
}

/* ---- tokens */

static bool read_tokens(struct reader *r)
{
    struct gguf_array a;
    size_t at = 0;
    if (!gguf_get_array(r->g, KEY "tokens", GGUF_STRING, &a, r->err)) {
        return false;
    }
    if (!a.is_there || a.n == 0 || a.n > VOCAB_IDS_MAX) {
        return fail_field(r, "tokens", "missing, empty or more than a million");
    }
    if (!vocab_reserve(&r->t->vocab, a.n, 8 * a.n)) {
        return engine_fail(r->err, ENGINE_NOMEM, "", "out of memory");
    }
    for (size_t i = 0; i < a.n; i++) {
        struct gguf_string s = gguf_array_string(&a, &at);
        enum vocab_result result = vocab_add(&r->t->vocab, s.text, s.len, (int64_t)i);
        if (result != VOCAB_DONE) {
            return engine_fail(r->err, result == VOCAB_NOMEM ? ENGINE_NOMEM : ENGINE_BAD_FILE, "",
                               "%s: " KEY "tokens[%zu]: '%s': %s", gguf_label(r->g), i,
                               tokenizer_quote(s.text, s.len).s, vocab_result_text(result));
        }
    }
    r->t->flags = calloc(a.n, 1);
    return r->t->flags || engine_fail(r->err, ENGINE_NOMEM, "", "out of memory");
}

static bool read_types(struct reader *r)
{
    struct gguf_array a;
    if (!gguf_get_array(r->g, KEY "token_type", GGUF_INTEGER, &a, r->err)) {
        return false;
    }
    if (a.is_there && a.n != r->t->vocab.n_ids) {
        return fail_field(r, "token_type", "not as many as tokens");
    }
    for (size_t i = 0; a.is_there && i < a.n; i++) {
        int64_t type = gguf_array_int(&a, i);
        if (type == TYPE_UNKNOWN || type == TYPE_CONTROL) {
            r->t->flags[i] = TOKENIZER_SPECIAL | TOKENIZER_ADDED;
        } else if (type == TYPE_USER_DEFINED) {
            size_t len = 0;
            const char *s = vocab_spelling(&r->t->vocab, (int64_t)i, &len);
            bool is_mark = s && tokenizer_is_turn_mark(s, len);
            r->t->flags[i] = TOKENIZER_ADDED | (is_mark ? TOKENIZER_SPECIAL : 0);
        } else if (type == TYPE_BYTE) {
            r->t->has_byte_fallback = true;
        } else if (type != TYPE_NORMAL && type != TYPE_UNUSED) {
            return fail_field(r, "token_type", "a number that is not 1 to 6");
        }
    }
    return true;
}

static bool read_scores(struct reader *r)
{
    struct gguf_array a;
    size_t n = r->t->vocab.n_ids;
    if (!gguf_get_array(r->g, KEY "scores", GGUF_REAL, &a, r->err)) {
        return false;
    }
    if (!a.is_there || a.n != n) {
        return fail_field(r, "scores", "missing, or not as many as tokens");
    }
    r->t->scores = malloc(n * sizeof *r->t->scores);
    if (!r->t->scores) {
        return engine_fail(r->err, ENGINE_NOMEM, "", "out of memory");
    }
    for (size_t i = 0; i < n; i++) {
        r->t->scores[i] = gguf_array_real(&a, i);
        if (isnan(r->t->scores[i])) {
            return fail_field(r, "scores", "one is not a number");
        }
    }
    r->t->n_scores = n;
    return true;
}

/* Non-special tokens that text is searched for. */
static bool index_added(struct reader *r)
{
    struct tokenizer *t = r->t;
    for (size_t id = 0; id < t->vocab.n_ids; id++) {
        size_t len = 0;
        const char *s = vocab_spelling(&t->vocab, (int64_t)id, &len);
        const struct added_token flags = {.id = (int32_t)id};
        if (t->flags[id] != TOKENIZER_ADDED || len == 0) {
            continue;
        }
        if (len > ADDED_TEXT_MAX) {
            return fail_field(r, "tokens", "a user-defined one is longer than 256 bytes");
        }
        if (!added_add(&t->added, s, len, &flags)) {
            return engine_fail(r->err, ENGINE_NOMEM, "", "out of memory");
        }
    }
    added_sort(&t->added);
    return true;
}

/* ---- bos, eos, unknown */

static bool read_id(struct reader *r, const char *key, int32_t *out)
{
    int64_t id = -1;
    if (!gguf_get_int(r->g, key, 0, (int64_t)r->t->vocab.n_ids - 1, -1, &id, r->err)) {
        return false;
    }
    *out = (int32_t)id;
    return true;
}

static void add_eos(struct tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->n_eos; i++) {
        if (t->eos[i] == id) {
            return;
        }
    }
    if (id >= 0 && t->n_eos < TOKENIZER_EOS_MAX) {
        t->eos[t->n_eos++] = id;
        t->flags[id] |= (t->flags[id] & TOKENIZER_ADDED) ? TOKENIZER_SPECIAL : 0;
    }
}

/* A file has one id for the end, where generation_config.json may have a list: the marks that end a
 * turn end the answer, too. */
static void add_turn_ends(struct tokenizer *t)
{
    static const char *const marks[] = {"<|im_end|>",    "<|eot_id|>", "<|eom_id|>",
                                        "<end_of_turn>", "<|end|>",    "<|endoftext|>"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        add_eos(t, tokenizer_find_special(t, marks[i]));
    }
}

static bool read_ids(struct reader *r)
{
    int32_t eos, eot, eom;
    if (!read_id(r, KEY "bos_token_id", &r->t->bos) || !read_id(r, KEY "eos_token_id", &eos) ||
        !read_id(r, KEY "eot_token_id", &eot) || !read_id(r, KEY "eom_token_id", &eom) ||
        !read_id(r, KEY "unknown_token_id", &r->t->unk)) {
        return false;
    }
    add_eos(r->t, eos);
    add_eos(r->t, eot);
    add_eos(r->t, eom);
    add_turn_ends(r->t);
    if (r->t->bos >= 0 && (r->t->flags[r->t->bos] & TOKENIZER_ADDED)) {
        r->t->flags[r->t->bos] |= TOKENIZER_SPECIAL;
    }
    return true;
}

static bool read_adds_bos(struct reader *r, bool absent)
{
    if (!gguf_get_bool(r->g, KEY "add_bos_token", absent && r->t->bos >= 0, &r->t->adds_bos,
                       r->err)) {
        return false;
    }
    return !r->t->adds_bos || r->t->bos >= 0 ||
           fail_field(r, "add_bos_token", "true, but there is no bos_token_id");
}

/* ---- steps */

enum { PATTERNS_MAX = 3 };
struct pre {
    const char *name;
    enum wordscan_kind scan; /* the last pattern, if it is one of those ... */
    const char *patterns[PATTERNS_MAX];
    bool is_nfc, ignores_merges, adds_bos;
};

#define DIGIT "\\p{N}"
#define TEKKEN                                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"    \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"   \
    "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct pre pres[] = {
    {"gpt-2", WORDSCAN_GPT2, {NULL}, false, false, false},
    {"phi-2", WORDSCAN_GPT2, {NULL}, false, false, false},
    {"mpt", WORDSCAN_GPT2, {NULL}, false, false, false},
    {"olmo", WORDSCAN_GPT2, {NULL}, false, false, false},
    {"smollm", WORDSCAN_GPT2, {DIGIT}, false, false, false},
    {"starcoder", WORDSCAN_GPT2, {DIGIT}, false, false, false},
    {"refact", WORDSCAN_GPT2, {DIGIT}, false, false, false},
    {"command-r", WORDSCAN_GPT2, {DIGIT}, false, false, false},
    {"llama3", WORDSCAN_LLAMA3, {NULL}, false, true, true},
    {"llama-v3", WORDSCAN_LLAMA3, {NULL}, false, true, true},
    {"llama-bpe", WORDSCAN_LLAMA3, {NULL}, false, true, true},
    {"qwen2", WORDSCAN_QWEN2, {NULL}, true, false, false},
    {"deepseek-r1-qwen", WORDSCAN_QWEN2, {NULL}, true, false, false},
    {"stablelm2", WORDSCAN_QWEN2, {NULL}, false, false, false},
    {"tekken", WORDSCAN_NONE, {TEKKEN}, false, true, true},
};

static bool add_patterns(struct reader *r, const struct pre *pre)
{
    const struct pretokenize_rule isolated = {PRETOKENIZE_ISOLATED, false};
    for (size_t i = 0; i <= PATTERNS_MAX; i++) {
        const char *pattern = i < PATTERNS_MAX ? pre->patterns[i] : wordscan_pattern(pre->scan);
        if (pattern &&
            !pretokenize_add(&r->t->pre, pattern, strlen(pattern), isolated, KEY "pre", r->err)) {
            return false;
        }
    }
    return true;
}

static bool use_pre(struct reader *r, const struct pre *pre)
{
    if (pre->is_nfc) {
        r->t->normal.steps[r->t->normal.n_steps++] =
            (struct normalize_step){.kind = NORMALIZE_FORM, .form = NFC_C};
    }
    r->t->ignores_merges = pre->ignores_merges;
    return add_patterns(r, pre) && read_adds_bos(r, pre->adds_bos);
}

static bool read_pre(struct reader *r)
{
    struct gguf_string name;
    bool has_prefix = false;
    if (!gguf_get_string(r->g, KEY "pre", &name, r->err) ||
        !gguf_get_bool(r->g, KEY "add_space_prefix", false, &has_prefix, r->err)) {
        return false;
    }
    if (has_prefix) {
        return fail_field(r, "add_space_prefix", "true, which model 'gpt2' does not know here");
    }
    for (size_t i = 0; name.is_there && i < sizeof pres / sizeof *pres; i++) {
        if (strlen(pres[i].name) == name.len && memcmp(pres[i].name, name.text, name.len) == 0) {
            return use_pre(r, &pres[i]);
        }
    }
    return engine_fail(r->err, ENGINE_BAD_FILE, "",
                       "%s: " KEY "pre: '%s' is not known, so its text cannot be cut; use the "
                       "model's folder with tokenizer.json",
                       gguf_label(r->g),
                       name.is_there ? tokenizer_quote(name.text, name.len).s : "nothing");
}

/* The space in front and the U+2581 for spaces, as SentencePiece has them. */
static bool read_spaces(struct reader *r)
{
    struct tokenizer *t = r->t;
    bool has_prefix = true, squeezes = false;
    if (!gguf_get_bool(r->g, KEY "add_space_prefix", true, &has_prefix, r->err) ||
        !gguf_get_bool(r->g, KEY "remove_extra_whitespaces", false, &squeezes, r->err)) {
        return false;
    }
    t->normalizes_spaces = true;
    t->prefix = has_prefix ? TOKENIZER_PREFIX_ALWAYS : TOKENIZER_PREFIX_NONE;
    t->strips_first = has_prefix;
    t->fuses_unk = true;
    if (squeezes) {
        t->normal.steps[t->normal.n_steps++] =
            (struct normalize_step){.kind = NORMALIZE_STRIP, .at_left = true, .at_right = true};
        t->normal.steps[t->normal.n_steps++] =
            (struct normalize_step){.kind = NORMALIZE_SQUEEZE, .to = " ", .to_len = 1};
    }
    return read_adds_bos(r, !t->is_unigram);
}

/* ---- merges */

/* "left right" */
static bool put_merge(const struct reader *r, struct tokenizer_merges *m,
                      const struct gguf_string *s, size_t index)
{
    const char *space = s->len > 1 ? memchr(s->text + 1, ' ', s->len - 1) : NULL;
    size_t left = space ? (size_t)(space - s->text) : 0, right = space ? s->len - left - 1 : 0;
    if (right == 0) {
        return engine_fail(r->err, ENGINE_BAD_FILE, "",
                           "%s: " KEY "merges[%zu]: not two tokens with a space between",
                           gguf_label(r->g), index);
    }
    return tokenizer_merges_put(m, s->text, left, r->err) &&
           tokenizer_merges_put(m, space + 1, right, r->err);
}

static bool read_merges(struct reader *r)
{
    struct gguf_array a;
    struct tokenizer_merges m = {.t = r->t, .field = name_list(r, "merges")};
    size_t at = 0;
    bool done = true;
    if (!gguf_get_array(r->g, KEY "merges", GGUF_STRING, &a, r->err)) {
        return false;
    }
    if (!a.is_there || a.n > BPE_MERGES_MAX) {
        return fail_field(r, "merges", "missing, or more than four million");
    }
    if (!bpe_reserve(&r->t->bpe, a.n)) {
        return engine_fail(r->err, ENGINE_NOMEM, "", "out of memory");
    }
    for (size_t i = 0; done && i < a.n; i++) {
        struct gguf_string s = gguf_array_string(&a, &at);
        done = put_merge(r, &m, &s, i);
    }
    done = done && tokenizer_merges_end(&m, r->err);
    tokenizer_merges_release(&m);
    return done;
}

/* ---- the whole */

static bool read_gpt2(struct reader *r)
{
    r->t->kind = TOKENIZER_BYTES;
    return read_pre(r) && read_merges(r);
}

static bool read_llama(struct reader *r)
{
    r->t->kind = TOKENIZER_SPACES;
    if (!read_spaces(r) || !read_scores(r) || !tokenizer_scores_merges(r->t, r->err)) {
        return false;
    }
    tokenizer_encode_prepare(r->t);
    return true;
}

static bool read_t5(struct reader *r)
{
    r->t->kind = TOKENIZER_SPACES;
    r->t->is_unigram = true;
    if (gguf_has(r->g, KEY "precompiled_charsmap")) {
        return fail_field(r, "precompiled_charsmap", "a table of replacements is not supported");
    }
    return read_spaces(r) && read_scores(r) &&
           tokenizer_unigram_make(r->t, name_list(r, "tokens"), r->err);
}

struct model {
    const char *name;
    bool (*read)(struct reader *r);
};
static const struct model models[] = {{"gpt2", read_gpt2}, {"llama", read_llama}, {"t5", read_t5}};

static bool read_model(struct reader *r)
{
    struct gguf_string name;
    if (!gguf_get_string(r->g, KEY "model", &name, r->err)) {
        return false;
    }
    for (size_t i = 0; name.is_there && i < sizeof models / sizeof *models; i++) {
        if (strlen(models[i].name) == name.len &&
            memcmp(models[i].name, name.text, name.len) == 0) {
            return read_tokens(r) && read_types(r) && read_ids(r) && models[i].read(r) &&
                   index_added(r) && tokenizer_pieces_make(r->t, r->err);
        }
    }
    return engine_fail(r->err, ENGINE_BAD_FILE, "",
                       "%s: " KEY "model: '%s' is not supported; those of gpt2, llama and t5 are",
                       gguf_label(r->g),
                       name.is_there ? tokenizer_quote(name.text, name.len).s : "nothing");
}

bool tokenizer_from_gguf(struct tokenizer **out, const struct gguf *g, struct engine_error *err)
{
    struct tokenizer *t = calloc(1, sizeof *t);
    if (!t) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    t->unk = t->bos = -1;
    struct reader r = {.t = t, .g = g, .err = err};
    if (!read_model(&r)) {
        tokenizer_close(t);
        return false;
    }
    free(t->scores);
    t->scores = NULL;
    *out = t;
    return true;
}
