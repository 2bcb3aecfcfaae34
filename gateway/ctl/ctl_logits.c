/* ctl_logits.c - runs the ids through the model in parts, and writes each part's logits before
 * the next, so memory stays small. */
#include "ctl_logits.h"

#include "gateway/base/program.h"
#include "local-engine/model.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS    64
#define IDS_MAX 1000000 /* more than any context that would finish */

static const char usage[] =
    "usage: isothermctl logits -m MODEL --ids 1,2,3 -o FILE [options]\n"
    "\n"
    "Writes the model's raw logits for every position: float32, little-endian, one row of the "
    "vocabulary's size\n"
    "after the other. MODEL is a folder with config.json and its safetensors, or a .gguf file.\n"
    "\n"
    "  -m, --model MODEL   the model\n"
    "  --ids LIST          token ids, separated by commas, the beginning-of-text token included "
    "where wanted\n"
    "  -o, --output FILE   - for standard output\n"
    "  --threads N         1 to 64 (default 1); the bits do not depend on it\n"
    "  --kernels NAME      ref or avx2 (default: the best here); the bits do not depend on it\n";

struct options {
    const char *model, *output, *kernels, *ids;
    long n_threads;
};

static int misused(const char *what)
{
    (void)fprintf(stderr, "isothermctl logits: %s: see isothermctl logits --help\n", what);
    return 2;
}

/* A whole number of min .. max at *text, which is moved behind it; -1: none. */
static long read_number(const char **text, long max)
{
    char *end;
    errno = 0;
    long n = **text >= '0' && **text <= '9' ? strtol(*text, &end, 10) : -1;
    if (n < 0 || n > max || errno != 0) {
        return -1;
    }
    *text = end;
    return n;
}

/* -1: go on; otherwise the exit status. */
static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {{"model", required_argument, NULL, 'm'},
                                          {"ids", required_argument, NULL, 'i'},
                                          {"output", required_argument, NULL, 'o'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"kernels", required_argument, NULL, 'k'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int c;
    o->n_threads = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":m:o:h", longs, NULL)) != -1) {
        switch (c) {
        case 'm':
            o->model = optarg;
            break;
        case 'i':
            o->ids = optarg;
            break;
        case 'o':
            o->output = optarg;
            break;
        case 'k':
            o->kernels = optarg;
            break;
        case 't': {
            const char *text = optarg;
            o->n_threads = read_number(&text, 64);
            if (o->n_threads < 1 || *text != '\0') {
                return misused("--threads takes a number from 1 to 64");
            }
            break;
        }
        case 'h':
            (void)fputs(usage, stdout);
            return 0;
        default:
            return program_bad_option("isothermctl logits", c, argv);
        }
    }
    return o->model && o->ids && o->output && optind == argc
               ? -1
               : misused("-m, --ids and -o are needed, nothing else");
}

/* The ids of a list, yours to free; NULL: no such list. */
static int32_t *parse_ids(const char *text, size_t *n)
{
    size_t cap = strlen(text) / 2 + 1;
    int32_t *ids = malloc((cap < IDS_MAX ? cap : IDS_MAX) * sizeof *ids);
    for (*n = 0; ids && *n < IDS_MAX; text++) {
        long id = read_number(&text, INT32_MAX);
        if (id < 0) {
            break;
        }
        ids[(*n)++] = (int32_t)id;
        if (*text == '\0') {
            return ids;
        }
        if (*text != ',') {
            break;
        }
    }
    free(ids);
    return NULL;
}

static bool write_rows(FILE *out, float *logits, size_t n)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, logits + i, sizeof bits);
        bits = __builtin_bswap32(bits);
        memcpy(logits + i, &bits, sizeof bits);
    }
#endif
    return fwrite(logits, sizeof *logits, n, out) == n;
}

static bool run(struct model_worker *w, struct kvcache *c, const int32_t *ids, size_t n_ids,
                size_t n_vocab, float *logits, FILE *out, struct engine_error *err)
{
    for (size_t at = 0; at < n_ids; at += ROWS) {
        struct model_row row[ROWS];
        size_t n = 0;
        for (; n < ROWS && at + n < n_ids; n++) {
            row[n] = (struct model_row){c, ids[at + n], logits + n * n_vocab};
        }
        if (!model_forward(w, row, n, err)) {
            return false;
        }
        if (!write_rows(out, logits, n * n_vocab)) {
            return engine_fail(err, ENGINE_IO, "", "the output cannot be written: %s",
                               strerror(errno));
        }
    }
    return true;
}

/* Runs the model with the output open: it is opened late, so that a model or ids that will not do
 * leave no file. */
static bool run_into(const struct options *o, struct model_worker *w, struct kvcache *c,
                     const int32_t *ids, size_t n_ids, size_t n_vocab, struct engine_error *err)
{
    float *logits = malloc(ROWS * n_vocab * sizeof *logits);
    if (!logits) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    FILE *out = strcmp(o->output, "-") == 0 ? stdout : fopen(o->output, "wb");
    bool ok = out ? run(w, c, ids, n_ids, n_vocab, logits, out, err)
                  : engine_fail(err, ENGINE_IO, "", "'%s' cannot be written: %s", o->output,
                                strerror(errno));
    if (out && (out == stdout ? fflush(out) : fclose(out)) != 0 && ok) {
        ok = engine_fail(err, ENGINE_IO, "", "the output cannot be written: %s", strerror(errno));
    }
    free(logits);
    return ok;
}

static bool check_ids(const int32_t *ids, size_t n_ids, size_t n_vocab, struct engine_error *err)
{
    for (size_t i = 0; i < n_ids; i++) {
        if ((size_t)ids[i] >= n_vocab) {
            return engine_fail(err, ENGINE_BAD_PARAM, "ids",
                               "token %d is outside the vocabulary 0..%zu", (int)ids[i],
                               n_vocab - 1);
        }
    }
    return true;
}

static bool compute(const struct options *o, const int32_t *ids, size_t n_ids,
                    struct engine_error *err)
{
    struct model *m = NULL;
    struct kvcache *c = NULL;
    struct model_worker *w = NULL;
    bool ok = model_open(&m, o->model, err) && kvcache_new(&c, m, (int32_t)n_ids, err) &&
              model_worker_new(&w, m, ROWS, (int)o->n_threads, err);
    if (ok && o->kernels && !model_worker_set_kernels(w, o->kernels)) {
        ok = engine_fail(err, ENGINE_BAD_PARAM, "kernels",
                         "kernels '%.20s' do not exist or need another processor", o->kernels);
    }
    if (ok) {
        size_t n_vocab = (size_t)model_get_shape(m)->n_vocab;
        ok = check_ids(ids, n_ids, n_vocab, err) && run_into(o, w, c, ids, n_ids, n_vocab, err);
    }
    model_worker_free(w);
    kvcache_free(c);
    model_close(m);
    return ok;
}

int ctl_logits(int argc, char **argv)
{
    struct options o = {0};
    struct engine_error err = {0};
    size_t n_ids;
    int status = parse_options(argc, argv, &o);
    if (status >= 0) {
        return status;
    }
    int32_t *ids = parse_ids(o.ids, &n_ids);
    if (!ids) {
        return misused("--ids takes whole numbers separated by commas");
    }
    bool ok = compute(&o, ids, n_ids, &err);
    free(ids);
    if (!ok) {
        (void)fprintf(stderr, "isothermctl logits: %s\n", err.text);
    }
    return ok ? 0 : 1;
}
