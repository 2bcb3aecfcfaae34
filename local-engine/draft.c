/* draft.c - the cache keeps what it has evaluated: the known tokens and all guesses but the last.
 * At the next call those guesses that came true stay, the others are cut off.
 *
 * The length of a guess grows by one when all of it was right and shrinks to what was right when it
 * was not. Where nothing was right at all, twice as many tokens as the last time pass without a
 * guess.
 */
#include "draft.h"
#include "model.h"
#include "tokenizer_source.h"
#include "weights.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, LENGTH_START = 3, PAUSE_MAX = 128 };

struct draft {
    char *path;
    struct model *model;
    struct tokenizer_source source;
    struct model_worker *worker;
    float *logits; /* [n_vocab] of the model, which may have more than the tokenizer */
    int32_t n_vocab;
};

struct draft_sequence {
    struct draft *draft;
    struct kvcache *cache;
    int32_t n_tokens_max;
    size_t n_known; /* tokens of the sequence in the cache; guesses follow */
    int32_t guess[DRAFT_GUESSES_MAX];
    size_t n_guess; /* of the last call */
    size_t length;  /* of the next guess */
    size_t pause, n_paused;
    bool is_over; /* memory has run out */
};

/* ---- opening */

static bool check_vocabulary(const char *path, const struct tokenizer *mine,
                             const struct tokenizer *t, struct engine_error *err)
{
    int32_t n = tokenizer_n_vocab(t);
    if (tokenizer_n_vocab(mine) != n) {
        return engine_fail(err, ENGINE_BAD_FILE, "draft_model",
                           "draft model '%s': its vocabulary has %d tokens, that of the model %d: "
                           "they must be the same",
                           path, tokenizer_n_vocab(mine), n);
    }
    for (int32_t id = 0; id < n; id++) {
        const char *a = tokenizer_spelling(mine, id), *b = tokenizer_spelling(t, id);
        if (a != b && (!a || !b || strcmp(a, b) != 0)) {
            return engine_fail(err, ENGINE_BAD_FILE, "draft_model",
                               "draft model '%s': its token %d is '%.64s', that of the model "
                               "'%.64s': the vocabularies must be the same",
                               path, id, a ? a : "", b ? b : "");
        }
    }
    return true;
}

static bool check_tokens(const struct draft *d, const struct tokenizer *t, struct engine_error *err)
{
    struct tokenizer *mine;
    if (!tokenizer_source_read(&d->source, &mine, err)) {
        return false;
    }
    bool is_same = check_vocabulary(d->path, mine, t, err);
    tokenizer_close(mine);
    return is_same;
}

bool draft_map(struct draft **out, const char *path, struct engine_error *err)
{
    struct draft *d = calloc(1, sizeof *d);
    char *copy = strdup(path);
    if (!d || !copy) {
        free(d);
        free(copy);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a draft model");
    }
    d->path = copy;
    struct engine_error why = {.code = ENGINE_OK}; /* would pass for the model's own */
    if (!model_open(&d->model, path, &why) ||
        !tokenizer_source_open(&d->source, model_weights(d->model), &why)) {
        draft_close(d);
        return engine_fail(err, why.code, "draft_model", "draft model '%.150s': %s", path,
                           why.text);
    }
    *out = d;
    return true;
}

bool draft_load(struct draft *d, const struct tokenizer *t, int n_threads, struct engine_error *err)
{
    int32_t n_logits = model_get_shape(d->model)->n_vocab;
    if (!check_tokens(d, t, err) || !model_worker_new(&d->worker, d->model, ROWS, n_threads, err)) {
        return false;
    }
    d->n_vocab = n_logits < tokenizer_n_vocab(t) ? n_logits : tokenizer_n_vocab(t);
    d->logits = calloc((size_t)n_logits, sizeof *d->logits);
    if (!d->logits) {
        draft_unload(d);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a draft model");
    }
    return true;
}

void draft_unload(struct draft *d)
{
    if (!d || !d->worker) {
        return;
    }
    model_worker_free(d->worker);
    free(d->logits);
    d->worker = NULL;
    d->logits = NULL;
    tokenizer_source_forget(&d->source);
    weights_forget(model_weights(d->model));
}

void draft_need(const struct draft *d)
{
    weights_need(model_weights(d->model));
}

int64_t draft_bytes(const struct draft *d)
{
    return (int64_t)weights_file_bytes(model_weights(d->model));
}

void draft_close(struct draft *d)
{
    if (d) {
        draft_unload(d);
        tokenizer_source_close(&d->source);
        model_close(d->model);
        free(d->path);
        free(d);
    }
}

/* ---- a sequence */

struct draft_sequence *draft_sequence_new(struct draft *d, int32_t n_tokens_max)
{
    struct draft_sequence *s = calloc(1, sizeof *s);
    int32_t context = model_get_shape(d->model)->context;
    if (!s) {
        return NULL;
    }
    s->draft = d;
    s->length = LENGTH_START;
    s->n_tokens_max = n_tokens_max < context ? n_tokens_max : context;
    if (!kvcache_new(&s->cache, d->model, s->n_tokens_max, NULL)) {
        draft_sequence_free(s);
        return NULL;
    }
    return s;
}

void draft_sequence_free(struct draft_sequence *s)
{
    if (s) {
        kvcache_free(s->cache);
        free(s);
    }
}

/* Evaluates tokens [n], and the logits after the last one where it is to be the last. */
static bool evaluate(struct draft_sequence *s, const int32_t *tokens, size_t n, bool is_last)
{
    struct model_row rows[ROWS];
    for (size_t i = 0; i < n; i++) {
        rows[i] = (struct model_row){.cache = s->cache,
                                     .token = tokens[i],
                                     .logits = is_last && i + 1 == n ? s->draft->logits : NULL};
    }
    s->is_over = !model_forward(s->draft->worker, rows, n, NULL);
    return !s->is_over;
}

static int32_t most_likely(const struct draft *d)
{
    int32_t best = 0;
    for (int32_t i = 1; i < d->n_vocab; i++) {
        best = d->logits[i] > d->logits[best] ? i : best;
    }
    return best;
}

/* What the last guesses were worth, now that the tokens are known. */
static void learn(struct draft_sequence *s, const int32_t *tokens, size_t n)
{
    size_t n_right = 0;
    while (n_right < s->n_guess && s->n_known + n_right < n &&
           tokens[s->n_known + n_right] == s->guess[n_right]) {
        n_right++;
    }
    size_t n_cached = s->n_guess ? s->n_guess - 1 : 0;
    if (s->n_guess > 0) {
        bool is_all = n_right == s->n_guess;
        s->length = is_all ? s->length + 1 : n_right > 0 ? n_right : 1;
        s->length = s->length > DRAFT_GUESSES_MAX ? DRAFT_GUESSES_MAX : s->length;
        s->pause = n_right > 0 ? 0 : s->pause ? 2 * s->pause : 1;
        s->pause = s->pause > PAUSE_MAX ? PAUSE_MAX : s->pause;
        s->n_paused = 0;
    }
    s->n_known += n_right < n_cached ? n_right : n_cached;
    s->n_guess = 0;
    kvcache_truncate(s->cache, (int32_t)s->n_known);
}

/* Reads what is new of tokens [n], a part at a time; whether that was all. */
static bool catch_up(struct draft_sequence *s, const int32_t *tokens, size_t n)
{
    assert(s->n_known < n);
    size_t n_new = n - s->n_known, n_part = n_new < ROWS ? n_new : ROWS;
    if (!evaluate(s, tokens + s->n_known, n_part, n_part == n_new)) {
        return false;
    }
    s->n_known += n_part;
    return n_part == n_new;
}

size_t draft_guess(struct draft_sequence *s, const int32_t *tokens, size_t n, int32_t *out,
                   size_t n_max)
{
    if (s->is_over || n_max == 0) {
        return 0;
    }
    learn(s, tokens, n);
    size_t room = n < (size_t)s->n_tokens_max ? (size_t)s->n_tokens_max - n : 0;
    size_t n_wanted = s->length < n_max ? s->length : n_max;
    n_wanted = n_wanted < room ? n_wanted : room;
    if (s->n_paused++ < s->pause || n_wanted == 0 || !catch_up(s, tokens, n)) {
        return 0;
    }
    s->guess[s->n_guess++] = most_likely(s->draft);
    while (s->n_guess < n_wanted && evaluate(s, &s->guess[s->n_guess - 1], 1, true)) {
        s->guess[s->n_guess++] = most_likely(s->draft);
    }
    memcpy(out, s->guess, s->n_guess * sizeof *out);
    return s->n_guess;
}
