/* ctl_model_quantize.c - the model is opened whole first, so that only what the engine can use is
 * rewritten; a signal ends the work and leaves nothing behind. */
#include "ctl_model.h"

#include "gateway/base/program.h"
#include "local-engine/model.h"
#include "local-engine/quantize.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: isothermctl model quantize IN OUT.gguf --type q8_0|q4_0|f16|f32 [--force]\n"
    "\n"
    "Writes the weights of IN (a folder or a .gguf file) in another type. Matrices get it where "
    "their rows fit its blocks\n"
    "of 32, others become F16; norms and biases stay F32; in q4_0 files the token embedding and "
    "the "
    "output matrix are Q8_0.\n"
    "OUT.gguf appears when it is whole. From a folder tokenizer.json goes into the file under the "
    "format's key for it, which\n"
    "not every program reads.\n"
    "\n"
    "  --type T  the type of the matrices\n"
    "  --force   replace OUT.gguf where it exists\n";

struct options {
    const char *in, *out;
    enum kernels_type type;
    bool has_type, is_forced;
};

static volatile sig_atomic_t g_stopped;

static void on_signal(int number)
{
    g_stopped = number;
}

static int misused(const char *what)
{
    (void)fprintf(stderr, "isothermctl model quantize: %s: see isothermctl model quantize --help\n",
                  what);
    return 2;
}

static bool parse_type(const char *text, struct options *o)
{
    static const enum kernels_type types[] = {KERNELS_F32, KERNELS_F16, KERNELS_Q8_0, KERNELS_Q4_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcasecmp(text, kernels_type_name(types[i])) == 0) {
            o->type = types[i];
            o->has_type = true;
            return true;
        }
    }
    return false;
}

/* -1: go on; otherwise the exit status. */
static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {{"type", required_argument, NULL, 't'},
                                          {"force", no_argument, NULL, 'f'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
        switch (c) {
        case 't':
            if (!parse_type(optarg, o)) {
                return misused("--type takes q8_0, q4_0, f16 or f32");
            }
            break;
        case 'f':
            o->is_forced = true;
            break;
        case 'h':
            (void)fputs(usage, stdout);
            return 0;
        default:
            return program_bad_option("isothermctl model quantize", c, argv);
        }
    }
    if (optind + 2 != argc || !o->has_type) {
        return misused("IN, OUT.gguf and --type are needed");
    }
    o->in = argv[optind];
    o->out = argv[optind + 1];
    return -1;
}

/* A line that is written over, where somebody looks; at most ten times a second. */
struct progress {
    bool is_shown;
    int64_t last_ms;
};

static bool show(void *ud, uint64_t done, uint64_t total)
{
    struct progress *p = ud;
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t now_ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    if (p->is_shown && (now_ms - p->last_ms >= 100 || done == total)) {
        (void)fprintf(stderr, "\r%5.1f %% of %" PRIu64 " numbers%s",
                      100.0 * (double)done / (double)total, total, done == total ? "\n" : "");
        p->last_ms = now_ms;
    }
    return g_stopped == 0;
}

int ctl_model_quantize(int argc, char **argv)
{
    struct options o = {0};
    struct model *m = NULL;
    struct engine_error err = {0};
    struct progress p = {.is_shown = isatty(STDERR_FILENO) == 1};
    int status = parse_options(argc, argv, &o);
    if (status >= 0) {
        return status;
    }
    const struct sigaction stop = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGTERM, &stop, NULL);
    bool ok = o.is_forced || access(o.out, F_OK) != 0 ||
              engine_fail(&err, ENGINE_IO, "", "'%.150s' exists: --force replaces it", o.out);
    ok = ok && model_open(&m, o.in, &err) &&
         quantize_file(model_weights(m), o.type, o.out, show, &p, &err);
    model_close(m);
    if (!ok) {
        (void)fprintf(stderr, "%sisothermctl model quantize: %s\n",
                      p.is_shown && p.last_ms ? "\n" : "", err.text);
    }
    return ok ? 0 : 1;
}
