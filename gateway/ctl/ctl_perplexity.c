/* ctl_perplexity.c - a window of --context tokens moves over the text by --stride tokens. Of each
 * window only what the one before did not predict counts, so every token counts once, and all but
 * the first window's have at least context - stride tokens before them.
 *
 * The negative log-likelihoods x_i of n tokens have mean m and standard error s / sqrt(n); the
 * perplexity is exp(m), and by the delta method its standard error exp(m) s / sqrt(n). Neighbours
 * are not independent, so the interval says how far this many tokens decide, not how other texts
 * would do.
 */
#include "gateway/ctl/ctl_perplexity.h"

#include "gateway/base/buf.h"
#include "gateway/base/program.h"
#include "gateway/ctl/ctl_generate.h"
#include "local-engine/engine.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_BYTES_MAX (256u << 20)
#define ROWS           64
#define Z95            1.959963984540054 /* of the normal distribution */

static const char usage[] =
    "usage: isothermctl perplexity [-m MODEL] FILE [options]\n"
    "How well a model predicts the text in FILE ('-': standard input): the exponential of the "
    "mean\n"
    "negative log-likelihood of its tokens, with a 95 % confidence interval.\n"
    "  -m, --model MODEL  a model's folder or .gguf file, or 'local' (default): the one that came\n"
    "                     with the program\n"
    "  --context N        tokens that are seen at once (default: the model's context, at most\n"
    "                     2048)\n"
    "  --stride N         tokens by which the window moves on, below the context (default: half\n"
    "                     of it); the smaller, the better the figure and the longer it takes\n"
    "  --threads N        1 to 64 (default: one a core, at most 8)\n"
    "  --json             one JSON object in place of text\n"
    "  --help             this text\n";

struct options {
    const char *model, *file;
    long context, stride, n_threads; /* 0: by default */
    bool is_json;
};

struct run {
    const struct options *o;
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
    bool shows_progress;
    struct engine_error err;
};

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- options */

static bool read_number(const char *text, long max, long *out)
{
    char *end;
    errno = 0;
    *out = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
    return *out >= 1 && *out <= max && errno == 0 && *end == '\0';
}

static int misused(const char *what)
{
    (void)fprintf(stderr, "isothermctl perplexity: %s: see isothermctl perplexity --help\n", what);
    return 2;
}

/* -1: go on; otherwise the exit status. */
static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"model", required_argument, NULL, 'm'},
        {"context", required_argument, NULL, 'c'},
        {"stride", required_argument, NULL, 's'},
        {"threads", required_argument, NULL, 't'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":m:h", longs, NULL)) != -1) {
        bool ok = true;
        switch (c) {
        case 'm':
            o->model = optarg;
            break;
        case 'c':
            ok = read_number(optarg, INT32_MAX, &o->context) && o->context > 1;
            break;
        case 's':
            ok = read_number(optarg, INT32_MAX, &o->stride);
            break;
        case 't':
            ok = read_number(optarg, 64, &o->n_threads);
            break;
        case 'j':
            o->is_json = true;
            break;
        case 'h':
            (void)fputs(usage, stdout);
            return 0;
        default:
            return program_bad_option("isothermctl perplexity", c, argv);
        }
        if (!ok) {
            return misused("--context takes a number from 2, --stride from 1, --threads 1 to 64");
        }
    }
    o->file = argv[optind];
    return optind + 1 == argc ? -1 : misused("one FILE is needed, nothing else");
}

/* ---- the model and the text */

static bool read_text(struct run *r, struct buf *text)
{
    char bytes[1 << 16];
    size_t n;
    bool is_stdin = strcmp(r->o->file, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(r->o->file, "re");
    if (!f) {
        return engine_fail(&r->err, ENGINE_IO, "file", "'%s': %s", r->o->file, strerror(errno));
    }
    bool fits = true;
    while (fits && (n = fread(bytes, 1, sizeof bytes, f)) > 0) {
        fits = buf_append(text, bytes, n);
    }
    bool ok = fits ? !ferror(f) || engine_fail(&r->err, ENGINE_IO, "file", "'%s': %s", r->o->file,
                                               strerror(errno))
                   : engine_fail(&r->err, ENGINE_BAD_PARAM, "file", "'%s' is longer than %u MiB",
                                 r->o->file, TEXT_BYTES_MAX >> 20);
    if (!is_stdin) {
        (void)fclose(f); /* it was only read */
    }
    return ok;
}

/* The ids of the text, behind bos where a sequence begins with it. */
static bool encode(struct run *r, const struct buf *text)
{
    int32_t *ids;
    size_t n, has_bos = tokenizer_adds_bos(r->t);
    if (!tokenizer_encode(r->t, text->p ? text->p : "", text->len, true, &ids, &n, &r->err)) {
        return false;
    }
    r->ids = malloc((n + 1) * sizeof *r->ids);
    if (!r->ids) {
        free(ids);
        return engine_fail(&r->err, ENGINE_NOMEM, "", "out of memory for %zu token ids", n);
    }
    r->ids[0] = tokenizer_bos(r->t);
    if (n > 0) {
        memcpy(r->ids + has_bos, ids, n * sizeof *ids);
    }
    free(ids);
    r->n_ids = n + has_bos;
    r->n_bytes = text->len;
    return r->n_ids >= 2 ||
           engine_fail(&r->err, ENGINE_BAD_PARAM, "file",
                       "'%s' has %zu tokens: at least 2 are needed", r->o->file, r->n_ids);
}

static bool check_ids(struct run *r)
{
    for (size_t i = 0; i < r->n_ids; i++) {
        if (r->ids[i] < 0 || (size_t)r->ids[i] >= r->n_vocab) {
            return engine_fail(&r->err, ENGINE_BAD_FILE, "",
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
        return engine_fail(&r->err, ENGINE_BAD_PARAM, "context",
                           "--context %ld: the model's context has %ld tokens", context, most);
    }
    r->context = (size_t)(context ? context : most < 2048 ? most : 2048);
    r->stride = r->o->stride ? (size_t)r->o->stride : r->context / 2;
    return r->stride < r->context ||
           engine_fail(&r->err, ENGINE_BAD_PARAM, "stride",
                       "--stride %zu is not below the context of %zu: nothing would predict a "
                       "window's first token",
                       r->stride, r->context);
}

static bool open_model(struct run *r)
{
    char path[PATH_MAX];
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    long n_threads = r->o->n_threads ? r->o->n_threads
                     : n_cores < 1   ? 1
                     : n_cores > 8   ? 8
                                     : n_cores;
    struct engine_options options = {.n_threads = 1, .n_sessions_max = 1}; /* it only reads files */
    if (!ctl_generate_find_model(r->o->model, path, &r->err) ||
        !engine_open(&r->engine, path, &options, &r->err)) {
        return false;
    }
    r->m = engine_model(r->engine);
    r->t = engine_tokenizer(r->engine);
    r->n_vocab = (size_t)model_get_shape(r->m)->n_vocab;
    if (!choose_window(r) || !kvcache_new(&r->cache, r->m, (int32_t)r->context, &r->err) ||
        !model_worker_new(&r->w, r->m, ROWS, (int)n_threads, &r->err)) {
        return false;
    }
    r->logits = malloc(ROWS * r->n_vocab * sizeof *r->logits);
    return r->logits || engine_fail(&r->err, ENGINE_NOMEM, "", "out of memory for the logits");
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
        return engine_fail(&r->err, ENGINE_NONFINITE, "",
                           "the model's logits are not all finite numbers");
    }
    double delta = x - r->mean;
    r->n++;
    r->mean += delta / (double)r->n;
    r->squares += delta * (x - r->mean);
    return true;
}

static double perplexity(const struct run *r)
{
    return exp(r->mean);
}

static void show_progress(const struct run *r, size_t at)
{
    if (r->shows_progress) {
        double seconds = now_s() - r->began_s;
        (void)fprintf(stderr, "\r%5.1f %%  %.0f tokens/s  perplexity %.4f \033[K",
                      100.0 * (double)at / (double)r->n_ids,
                      seconds > 0 ? (double)r->n_computed / seconds : 0.0, perplexity(r));
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
        if (!model_forward(r->w, rows, n, &r->err)) {
            return false;
        }
        for (size_t i = 0; i < n; i++) {
            if (rows[i].logits && !count(r, nll(rows[i].logits, r->n_vocab, r->ids[at + i + 1]))) {
                return false;
            }
        }
        r->n_computed += n;
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
    if (r->shows_progress) {
        (void)fputs("\r\033[K", stderr);
    }
    return true;
}

/* ---- output */

static bool print(const struct run *r, double seconds, struct engine_error *err)
{
    double deviation = r->n > 1 ? sqrt(r->squares / (double)(r->n - 1)) : 0.0;
    double half = Z95 * perplexity(r) * deviation / sqrt((double)r->n);
    double rate = seconds > 0 ? (double)r->n_computed / seconds : 0.0;
    if (r->o->is_json) {
        (void)printf("{\"perplexity\": %.17g, \"confidence_95\": [%.17g, %.17g], "
                     "\"mean_nll\": %.17g, \"nll_deviation\": %.17g, \"tokens\": %zu, "
                     "\"tokens_counted\": %zu, \"tokens_computed\": %zu, \"bytes\": %zu, "
                     "\"context\": %zu, \"stride\": %zu, \"seconds\": %.3f, "
                     "\"tokens_per_second\": %.1f, \"fingerprint\": \"%s\"}\n",
                     perplexity(r), perplexity(r) - half, perplexity(r) + half, r->mean, deviation,
                     r->n_ids, r->n, r->n_computed, r->n_bytes, r->context, r->stride, seconds,
                     rate, engine_fingerprint(r->engine));
    } else {
        (void)printf("perplexity %.4f +- %.4f (95 %%), %zu tokens of %zu bytes, context %zu, "
                     "stride %zu, %.1f tokens/s\n",
                     perplexity(r), half, r->n, r->n_bytes, r->context, r->stride, rate);
    }
    return fflush(stdout) == 0 ||
           engine_fail(err, ENGINE_IO, "", "standard output: %s", strerror(errno));
}

static bool measure(struct run *r)
{
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    bool ok = open_model(r) && read_text(r, &text) && encode(r, &text) && check_ids(r);
    buf_release(&text);
    return ok && compute(r) && print(r, now_s() - r->began_s, &r->err);
}

int ctl_perplexity(int argc, char **argv)
{
    struct options o = {.model = "local"};
    int status = parse_options(argc, argv, &o);
    if (status >= 0) {
        return status;
    }
    struct run r = {.o = &o, .shows_progress = isatty(STDERR_FILENO) == 1};
    status = measure(&r) ? 0 : r.err.code == ENGINE_BAD_PARAM ? 2 : 1;
    if (status) {
        (void)fprintf(stderr, "%sisothermctl perplexity: %s\n", r.shows_progress ? "\r\033[K" : "",
                      r.err.text);
    }
    free(r.ids);
    free(r.logits);
    model_worker_free(r.w);
    kvcache_free(r.cache);
    engine_close(r.engine);
    return status;
}
