/* perplexity.c - a window of `context` tokens moves over the text by `stride` tokens. Of each
 * window only what the one before did not predict counts, so every token counts once, and all but
 * the first window's have at least context - stride tokens before them.
 *
 * The negative log-likelihoods x_i of n tokens have mean m and standard error s / sqrt(n); the
 * perplexity is exp(m), and by the delta method its standard error exp(m) s / sqrt(n). Neighbours
 * are not independent, so the interval says how far this many tokens decide, not how other texts
 * would do.
 */
#include "gateway/ctl/perplexity.h"

#include "local-engine/engine.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_BYTES_MAX (256u << 20)
#define ROWS           64
#define Z95            1.959963984540054 /* of the normal distribution */

struct run {
    const struct perplexity_options *o;
    const char *file; /* for errors */
    struct engine *engine;
    const struct model *m;
    const struct tokenizer *t;
    struct model_worker *w;
    struct kvcache *cache;
    float *logits; /* [ROWS][n_vocab] */
    size_t n_vocab, context, stride;
    int32_t *ids;
    size_t n_ids, n_bytes;
    /* of the tokens that count */
    size_t n, n_computed;
    double mean, squares; /* squares: sum of squared deviations (Welford) */
    double began_s;
    struct engine_error *err;
};

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the model and the text */

bool perplexity_read(const char *file, struct buf *text, struct engine_error *err)
{
    char bytes[1 << 16];
    size_t n;
    bool is_stdin = strcmp(file, "-") == 0, fits = true;
    FILE *f = is_stdin ? stdin : fopen(file, "re");
    if (!f) {
        return engine_fail(err, ENGINE_IO, "file", "'%s': %s", file, strerror(errno));
    }
    buf_init(text, TEXT_BYTES_MAX);
    while (fits && (n = fread(bytes, 1, sizeof bytes, f)) > 0) {
        fits = buf_append(text, bytes, n);
    }
    bool ok =
        fits ? !ferror(f) || engine_fail(err, ENGINE_IO, "file", "'%s': %s", file, strerror(errno))
             : engine_fail(err, ENGINE_BAD_PARAM, "file", "'%s' is longer than %u MiB", file,
                           TEXT_BYTES_MAX >> 20);
    if (!is_stdin) {
        (void)fclose(f); /* it was only read */
    }
    return ok;
}

/* The ids of the text, behind bos where a sequence begins with it. */
static bool encode(struct run *r, struct slice text)
{
    int32_t *ids;
    size_t n, has_bos = tokenizer_adds_bos(r->t);
    if (!tokenizer_encode(r->t, text.p ? text.p : "", text.len, true, &ids, &n, r->err)) {
        return false;
    }
    r->ids = malloc((n + 1) * sizeof *r->ids);
    if (!r->ids) {
        free(ids);
        return engine_fail(r->err, ENGINE_NOMEM, "", "out of memory for %zu token ids", n);
    }
    r->ids[0] = tokenizer_bos(r->t);
    if (n > 0) {
        memcpy(r->ids + has_bos, ids, n * sizeof *ids);
    }
    free(ids);
    r->n_ids = n + has_bos;
    r->n_bytes = text.len;
    return r->n_ids >= 2 ||
           engine_fail(r->err, ENGINE_BAD_PARAM, "file",
                       "'%s' has %zu tokens: at least 2 are needed", r->file, r->n_ids);
}

static bool check_ids(struct run *r)
{
    for (size_t i = 0; i < r->n_ids; i++) {
        if (r->ids[i] < 0 || (size_t)r->ids[i] >= r->n_vocab) {
            return engine_fail(r->err, ENGINE_BAD_FILE, "",
                               "the tokenizer's id %d is outside the model's vocabulary of %zu",
                               r->ids[i], r->n_vocab);
        }
    }
    return true;
}

static bool choose_window(struct run *r)
{
    long most = model_get_shape(r->m)->context, context = r->o->context;
    if (context > most) {
        return engine_fail(r->err, ENGINE_BAD_PARAM, "context",
                           "--context %ld: the model's context has %ld tokens", context, most);
    }
    r->context = (size_t)(context ? context : most < 2048 ? most : 2048);
    r->stride = r->o->stride ? (size_t)r->o->stride : r->context / 2;
    return r->stride < r->context ||
           engine_fail(r->err, ENGINE_BAD_PARAM, "stride",
                       "--stride %zu is not below the context of %zu: nothing would predict a "
                       "window's first token",
                       r->stride, r->context);
}

static bool open_model(struct run *r, const char *path)
{
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    long n_threads = r->o->n_threads ? r->o->n_threads
                     : n_cores < 1   ? 1
                     : n_cores > 8   ? 8
                                     : n_cores;
    struct engine_options options = {.n_threads = 1, .n_sessions_max = 1}; /* it only reads files */
    if (!engine_open(&r->engine, path, &options, r->err)) {
        return false;
    }
    r->m = engine_model(r->engine);
    r->t = engine_tokenizer(r->engine);
    r->n_vocab = (size_t)model_get_shape(r->m)->n_vocab;
    if (!choose_window(r) || !kvcache_new(&r->cache, r->m, (int32_t)r->context, r->err) ||
        !model_worker_new(&r->w, r->m, ROWS, (int)n_threads, r->err)) {
        return false;
    }
    r->logits = malloc(ROWS * r->n_vocab * sizeof *r->logits);
    return r->logits || engine_fail(r->err, ENGINE_NOMEM, "", "out of memory for the logits");
}

/* ---- computing */

/* -log p(id): the sum runs in double precision over all of the vocabulary. */
static double nll(const float *logits, size_t n_vocab, int32_t id)
{
    double most = -HUGE_VAL, sum = 0;
    for (size_t i = 0; i < n_vocab; i++) {
        most = logits[i] > most ? logits[i] : most;
    }
    for (size_t i = 0; i < n_vocab; i++) {
        sum += exp(logits[i] - most);
    }
    return log(sum) + most - logits[id];
}

static bool count(struct run *r, double x)
{
    if (!isfinite(x)) {
        return engine_fail(r->err, ENGINE_NONFINITE, "",
                           "the model's logits are not all finite numbers");
    }
    double delta = x - r->mean;
    r->n++;
    r->mean += delta / (double)r->n;
    r->squares += delta * (x - r->mean);
    return true;
}

static void show_progress(const struct run *r, size_t at)
{
    if (r->o->shows_progress) {
        double seconds = now_s() - r->began_s;
        (void)fprintf(stderr, "\r%s%5.1f %%  %.0f tokens/s  perplexity %.4f \033[K",
                      r->o->label ? r->o->label : "", 100.0 * (double)at / (double)r->n_ids,
                      seconds > 0 ? (double)r->n_computed / seconds : 0.0, exp(r->mean));
    }
}

/* The window of ids from .. end; tokens before `fresh` were predicted by an earlier one. */
static bool run_window(struct run *r, size_t from, size_t end, size_t fresh)
{
    kvcache_truncate(r->cache, 0);
    for (size_t at = from; at < end; at += ROWS) {
        struct model_row rows[ROWS];
        size_t n = end - at < ROWS ? end - at : ROWS;
        for (size_t i = 0; i < n; i++) { /* a row at k predicts the token at k + 1 */
            bool is_wanted = at + i + 1 >= fresh && at + i + 1 < end;
            rows[i] = (struct model_row){r->cache, r->ids[at + i],
                                         is_wanted ? r->logits + i * r->n_vocab : NULL};
        }
        if (!model_forward(r->w, rows, n, r->err)) {
            return false;
        }
        for (size_t i = 0; i < n; i++) {
            if (rows[i].logits && !count(r, nll(rows[i].logits, r->n_vocab, r->ids[at + i + 1]))) {
                return false;
            }
        }
        r->n_computed += n;
        if (r->o->stop && *r->o->stop) {
            return engine_fail(r->err, ENGINE_CANCELLED, "", "interrupted");
        }
        show_progress(r, at + n);
    }
    return true;
}

static bool compute(struct run *r)
{
    size_t fresh = 1; /* nothing predicts the first token */
    r->began_s = now_s();
    for (size_t from = 0; fresh < r->n_ids; from += r->stride) {
        size_t end = r->n_ids - from < r->context ? r->n_ids : from + r->context;
        if (!run_window(r, from, end, fresh)) {
            return false;
        }
        fresh = end;
    }
    return true;
}

/* ---- */

static void tell(const struct run *r, struct perplexity *out)
{
    double seconds = now_s() - r->began_s;
    *out =
        (struct perplexity){.value = exp(r->mean),
                            .mean_nll = r->mean,
                            .nll_deviation = r->n > 1 ? sqrt(r->squares / (double)(r->n - 1)) : 0,
                            .seconds = seconds,
                            .tokens_per_second = seconds > 0 ? (double)r->n_computed / seconds : 0,
                            .n_tokens = r->n_ids,
                            .n_counted = r->n,
                            .n_computed = r->n_computed,
                            .n_bytes = r->n_bytes,
                            .context = r->context,
                            .stride = r->stride};
    out->half = Z95 * out->value * out->nll_deviation / sqrt((double)r->n);
    (void)snprintf(out->fingerprint, sizeof out->fingerprint, "%s", engine_fingerprint(r->engine));
}

bool perplexity_measure(struct perplexity *out, const char *path, const char *file,
                        struct slice text, const struct perplexity_options *o,
                        struct engine_error *err)
{
    struct run r = {.o = o, .file = file, .err = err};
    bool ok = open_model(&r, path) && encode(&r, text) && check_ids(&r) && compute(&r);
    if (ok) {
        tell(&r, out);
    }
    if (o->shows_progress) {
        (void)fputs("\r\033[K", stderr);
    }
    free(r.ids);
    free(r.logits);
    model_worker_free(r.w);
    kvcache_free(r.cache);
    engine_close(r.engine);
    return ok;
}

void perplexity_print_json(const struct perplexity *p)
{
    (void)printf("{\"perplexity\": %.17g, \"confidence_95\": [%.17g, %.17g], "
                 "\"mean_nll\": %.17g, \"nll_deviation\": %.17g, \"tokens\": %zu, "
                 "\"tokens_counted\": %zu, \"tokens_computed\": %zu, \"bytes\": %zu, "
                 "\"context\": %zu, \"stride\": %zu, \"seconds\": %.3f, "
                 "\"tokens_per_second\": %.1f, \"fingerprint\": \"%s\"}",
                 p->value, p->value - p->half, p->value + p->half, p->mean_nll, p->nll_deviation,
                 p->n_tokens, p->n_counted, p->n_computed, p->n_bytes, p->context, p->stride,
                 p->seconds, p->tokens_per_second, p->fingerprint);
}
