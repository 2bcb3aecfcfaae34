/* tokenizer_encode.c - text to ids, in Hugging Face's order:
 *
 *   added tokens -> normalizer -> added tokens that are `normalized` -> pre-tokenizer -> merges
 *
 * with the one difference that special tokens are never looked for: text is text.
 */
#include "tokenizer_private.h"

#include "codepoint.h"

#include <stdlib.h>
#include <string.h>

/* The cache has 512 to 16384 places, one for eight bytes of the text: new memory costs as much as
 * merging. */
enum { CACHE_TEXT = 32, CACHE_IDS = 8, CACHE_MIN = 512, CACHE_MAX = 16384, CACHE_BYTES = 8 };

/* A piece that was merged before in this text, and its ids: nine of ten pieces come again. */
struct cached {
    char text[CACHE_TEXT]; /* zeros behind it */
    uint8_t len, n_ids;    /* len 0: empty */
    int32_t ids[CACHE_IDS];
};

struct encoder {
    const struct tokenizer *t;
    struct engine_error *err;
    struct bpe_work work;
    struct unigram_work cuts;
    struct cached *cache; /* [cache_n], a power of two; NULL: the text is not worth it */
    size_t cache_n;
    char *spelled; /* a piece in the vocabulary's characters, for ignores_merges */
    size_t spelled_cap;
    int32_t *ids;
    size_t n_ids, ids_cap;
    bool is_start, is_first; /* as the caller said; nothing was encoded before in this call */
};

static bool fail_memory(struct encoder *e)
{
    return engine_fail(e->err, ENGINE_NOMEM, "", "out of memory");
}

static bool put_id(struct encoder *e, int32_t id)
{
    if (e->n_ids == e->ids_cap) {
        size_t cap = e->ids_cap ? 2 * e->ids_cap : 64;
        int32_t *p = realloc(e->ids, cap * sizeof *p);
        if (!p) {
            return fail_memory(e);
        }
        e->ids = p;
        e->ids_cap = cap;
    }
    e->ids[e->n_ids++] = id;
    return true;
}

/* ---- one piece */

static bool push(struct encoder *e, int32_t id)
{
    return bpe_work_push(&e->work, id) || fail_memory(e);
}

/* A character that the vocabulary lacks: the unknown token, one for a row of them where the file
 * says so. */
static bool push_unknown(struct encoder *e, const char *s)
{
    const struct tokenizer *t = e->t;
    if (t->unk < 0) {
        return engine_fail(e->err, ENGINE_BAD_PARAM, "prompt",
                           "the model's vocabulary has no token for the byte 0x%02x of this text; "
                           "leave its character out",
                           (unsigned)(unsigned char)s[0]);
    }
    bool is_fused =
        t->fuses_unk && e->work.n_sym > 0 && e->work.sym[e->work.n_sym - 1].id == t->unk;
    return is_fused || push(e, t->unk);
}

static bool push_bytes(struct encoder *e, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int32_t id = e->t->byte_ids[(unsigned char)s[i]];
        if (!(id >= 0 ? push(e, id) : push_unknown(e, s + i))) {
            return false;
        }
    }
    return true;
}

/* One character (or one byte that belongs to none): its token, else its bytes' tokens if all are
 * there, else unknown. */
static bool push_char(struct encoder *e, const char *s, size_t len)
{
    int32_t id = len == 1 && (unsigned char)s[0] < 0x80 ? e->t->ascii_ids[(unsigned char)s[0]]
                                                        : vocab_find(&e->t->vocab, s, len);
    bool has_all = true;
    if (id >= 0 && !(e->t->flags[id] & TOKENIZER_SPECIAL)) {
        return push(e, id);
    }
    for (size_t i = 0; i < len; i++) {
        has_all = has_all && e->t->byte_ids[(unsigned char)s[i]] >= 0;
    }
    return has_all ? push_bytes(e, s, len) : push_unknown(e, s);
}

static bool push_chars(struct encoder *e, const char *s, size_t len)
{
    uint32_t cp;
    for (size_t i = 0, n; i < len; i += n) {
        n = codepoint_read(s + i, len - i, &cp);
        n = n > 0 ? n : 1;
        if (!push_char(e, s + i, n)) {
            return false;
        }
    }
    return true;
}

/* The id of a piece that is a token as a whole, -1: it is none. */
static bool find_whole(struct encoder *e, const char *s, size_t len, int32_t *id)
{
    *id = -1;
    if (len > 4096) { /* no token is that long, and the spelling would take memory */
        return true;
    }
    if (2 * len > e->spelled_cap) {
        char *p = realloc(e->spelled, 2 * len);
        if (!p) {
            return fail_memory(e);
        }
        e->spelled = p;
        e->spelled_cap = 2 * len;
    }
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (e->t->kind == TOKENIZER_BYTES) {
            n += codepoint_write(
                e->spelled + n,
                tokenizer_byte_char((unsigned char)s[i])); /* at most U+0143: two bytes */
        } else {
            e->spelled[n++] = s[i];
        }
    }
    int32_t found = vocab_find(&e->t->vocab, e->spelled, n);
    *id = found >= 0 && !(e->t->flags[found] & TOKENIZER_SPECIAL) ? found : -1;
    return true;
}

/* A row of characters that Unigram does not know: their bytes' tokens if all are there, else
 * unknown. */
static bool put_unknown(struct encoder *e, const char *s, size_t len)
{
    e->work.n_sym = 0;
    bool has_all = e->t->has_byte_fallback;
    for (size_t i = 0; i < len; i++) {
        has_all = has_all && e->t->byte_ids[(unsigned char)s[i]] >= 0;
    }
    if (!(has_all ? push_bytes(e, s, len) : push_unknown(e, s))) {
        return false;
    }
    for (size_t i = 0; i < e->work.n_sym; i++) {
        if (!put_id(e, e->work.sym[i].id)) {
            return false;
        }
    }
    return true;
}

static bool encode_unigram(struct encoder *e, const char *s, size_t len)
{
    if (!unigram_run(&e->t->unigram, s, len, &e->cuts)) {
        return fail_memory(e);
    }
    for (size_t i = 0; i < e->cuts.n_pieces; i++) {
        const struct unigram_piece *p = &e->cuts.pieces[i];
        if (!(p->id >= 0 ? put_id(e, p->id) : put_unknown(e, s + p->from, p->to - p->from))) {
            return false;
        }
    }
    return true;
}

static bool merge_piece(struct encoder *e, const char *s, size_t len)
{
    int32_t id = -1;
    if (e->t->ignores_merges && !find_whole(e, s, len, &id)) {
        return false;
    }
    if (id >= 0) {
        return put_id(e, id);
    }
    e->work.n_sym = 0;
    if (!(e->t->kind == TOKENIZER_BYTES ? push_bytes(e, s, len) : push_chars(e, s, len))) {
        return false;
    }
    if (!bpe_run(&e->t->bpe, &e->work)) {
        return fail_memory(e);
    }
    for (size_t i = 0; i < e->work.n_sym; i++) {
        if (!put_id(e, e->work.sym[i].id)) {
            return false;
        }
    }
    return true;
}

static struct cached *find_cached(const struct encoder *e, const char text[CACHE_TEXT])
{
    uint64_t w[CACHE_TEXT / 8], h = 0;
    memcpy(w, text, sizeof w);
    for (size_t i = 0; i < CACHE_TEXT / 8; i++) {
        h = (h ^ w[i]) * 0xd6e8feb86659fd93u;
        h ^= h >> 32;
    }
    return &e->cache[h & (e->cache_n - 1)];
}

static bool encode_merged(struct encoder *e, const char *s, size_t len)
{
    char text[CACHE_TEXT] = {0};
    size_t n_before = e->n_ids;
    if (!e->cache || len > CACHE_TEXT) {
        return merge_piece(e, s, len);
    }
    memcpy(text, s, len);
    struct cached *c = find_cached(e, text);
    if (c->len == len && memcmp(c->text, text, CACHE_TEXT) == 0) {
        for (size_t i = 0; i < c->n_ids; i++) {
            if (!put_id(e, c->ids[i])) {
                return false;
            }
        }
        return true;
    }
    if (!merge_piece(e, s, len)) {
        return false;
    }
    if (e->n_ids - n_before <= CACHE_IDS) {
        memcpy(c->text, text, CACHE_TEXT);
        c->len = (uint8_t)len;
        c->n_ids = (uint8_t)(e->n_ids - n_before);
        memcpy(c->ids, e->ids + n_before, c->n_ids * sizeof *c->ids);
    }
    return true;
}

static bool is_word_start(const char *s, size_t len, size_t at)
{
    const size_t n = TOKENIZER_SPACE_LEN;
    return len - at >= n && memcmp(s + at, TOKENIZER_SPACE, n) == 0 &&
           !(at >= n && memcmp(s + at - n, TOKENIZER_SPACE, n) == 0);
}

static bool encode_words(struct encoder *e, const char *s, size_t len)
{
    size_t from = 0;
    for (size_t at = 1; at < len; at++) {
        if (s[at] == TOKENIZER_SPACE[0] && is_word_start(s, len, at) &&
            !e->t->joins_word[(unsigned char)s[at - 1]]) {
            if (!encode_merged(e, s + from, at - from)) {
                return false;
            }
            from = at;
        }
    }
    return encode_merged(e, s + from, len - from);
}

static bool encode_piece(void *ud, const char *s, size_t len, struct engine_error *err)
{
    struct encoder *e = ud;
    (void)err; /* the same as e->err */
    if (e->t->is_unigram) {
        return encode_unigram(e, s, len);
    }
    return e->t->cuts_words ? encode_words(e, s, len) : encode_merged(e, s, len);
}

/* Notes what stands before the beginnings of words inside this spelling. */
static void note_joins(struct tokenizer *t, const char *s, size_t len)
{
    for (size_t at = 1; at < len; at++) {
        if (s[at] == TOKENIZER_SPACE[0] && is_word_start(s, len, at)) {
            t->joins_word[(unsigned char)s[at - 1]] = true;
        }
    }
}

void tokenizer_encode_prepare(struct tokenizer *t)
{
    int32_t space = vocab_find(&t->vocab, TOKENIZER_SPACE, TOKENIZER_SPACE_LEN);
    if (t->kind != TOKENIZER_SPACES || t->is_unigram || t->ignores_merges || space < 0 ||
        (t->flags[space] & TOKENIZER_SPECIAL)) {
        return;
    }
    for (size_t i = 0; i < t->bpe.n_merges; i++) {
        size_t len = 0;
        const char *s = vocab_spelling(&t->vocab, t->bpe.merges[i].result, &len);
        note_joins(t, s, len);
    }
    t->cuts_words = true;
}

/* ---- from text to pieces */

bool tokenizer_encode_spaces(const struct tokenizer *t, const char *s, size_t len, bool has_prefix,
                             char **out, size_t *out_len, struct engine_error *err)
{
    char *buf = malloc(TOKENIZER_SPACE_LEN * (len + 1)), *w = buf;
    bool begins_with_space =
        len > 0 && (s[0] == ' ' || (len >= TOKENIZER_SPACE_LEN &&
                                    memcmp(s, TOKENIZER_SPACE, TOKENIZER_SPACE_LEN) == 0));
    if (!buf) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    if (has_prefix && !(t->is_metaspace && begins_with_space)) {
        memcpy(w, TOKENIZER_SPACE, TOKENIZER_SPACE_LEN);
        w += TOKENIZER_SPACE_LEN;
    }
    for (size_t i = 0; i < len; i++) {
        if (s[i] == ' ') {
            memcpy(w, TOKENIZER_SPACE, TOKENIZER_SPACE_LEN);
            w += TOKENIZER_SPACE_LEN;
        } else {
            *w++ = s[i];
        }
    }
    *out = buf;
    *out_len = (size_t)(w - buf);
    return true;
}

/* Whether the text that comes now gets a space in front. */
static bool wants_prefix(const struct encoder *e)
{
    bool is_front = e->is_first ? e->is_start : e->t->prefix == TOKENIZER_PREFIX_ALWAYS;
    return is_front && e->t->prefix != TOKENIZER_PREFIX_NONE;
}

/* Text without added tokens, normalized. */
static bool encode_plain(struct encoder *e, const char *s, size_t len)
{
    char *spaced = NULL;
    bool has_prefix = wants_prefix(e);
    if (len == 0) {
        return true;
    }
    if (e->t->is_metaspace &&
        !tokenizer_encode_spaces(e->t, s, len, has_prefix, &spaced, &len, e->err)) {
        return false;
    }
    bool done =
        pretokenize_run(&e->t->pre, spaced ? spaced : s, len, has_prefix, encode_piece, e, e->err);
    free(spaced);
    e->is_first = false;
    return done;
}

typedef bool text_fn(struct encoder *e, const char *s, size_t len);

/* Puts the ids of the added tokens of one table; what is between them goes to `next`. */
static bool encode_around(struct encoder *e, const struct added *table, const char *s, size_t len,
                          text_fn *next)
{
    struct added_match m;
    size_t at = 0;
    while (added_find(table, s, len, at, &m)) {
        if (!next(e, s + at, m.from - at) || !put_id(e, m.id)) {
            return false;
        }
        e->is_first = false;
        at = m.to;
    }
    return next(e, s + at, len - at);
}

static bool encode_text(struct encoder *e, const char *s, size_t len)
{
    char *composed = NULL, *spaced = NULL;
    bool done = len == 0 || e->t->normal.n_steps == 0 ||
                normalize_run(&e->t->normal, s, len, &composed, &len, e->err);
    s = composed ? composed : s;
    if (done && len > 0 && e->t->normalizes_spaces) {
        done = tokenizer_encode_spaces(e->t, s, len, wants_prefix(e), &spaced, &len, e->err);
        s = spaced ? spaced : s;
    }
    done = done && encode_around(e, &e->t->added_normalized, s, len, encode_plain);
    free(composed);
    free(spaced);
    return done;
}

/* Without memory it is done without. */
static void make_cache(struct encoder *e, size_t len)
{
    e->cache_n = CACHE_MIN;
    while (e->cache_n < CACHE_MAX && e->cache_n < len / CACHE_BYTES) {
        e->cache_n *= 2;
    }
    if (len / CACHE_BYTES >= CACHE_MIN) {
        e->cache = calloc(e->cache_n, sizeof *e->cache);
    }
}

bool tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, bool is_start,
                      int32_t **ids, size_t *n_ids, struct engine_error *err)
{
    struct encoder e = {.t = t, .err = err, .is_start = is_start, .is_first = true};
    make_cache(&e, len);
    bool done = encode_around(&e, &t->added, text, len, encode_text);
    if (done && !e.ids) {
        e.ids = malloc(sizeof *e.ids); /* so that the answer is never NULL */
        done = e.ids || fail_memory(&e);
    }
    bpe_work_release(&e.work);
    unigram_work_release(&e.cuts);
    free(e.cache);
    free(e.spelled);
    if (!done) {
        free(e.ids);
        return false;
    }
    *ids = e.ids;
    *n_ids = e.n_ids;
    return true;
}
