/* ctl_model_quantize.c - the model is opened whole first, so that only what the engine can use is
 * rewritten; a signal ends the work and leaves nothing half done behind.
 *
 * What the other type costs is measured on a text that the user has: the perplexity of IN first, so
 * that a text that cannot be used is told before anything is written, then that of OUT.
 */
#include "ctl_model.h"

#include "gateway/ctl/ctl_options.h"
#include "gateway/ctl/perplexity.h"
#include "local-engine/model.h"
#include "local-engine/quantize.h"
#include "local-engine/weights.h"

#include <errno.h>
#include <getopt.h> /* optind */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: isothermctl model quantize IN OUT.gguf --type q8_0|q4_0|f16|f32 [options]\n"
    "\n"
    "Writes the weights of IN (a folder or a .gguf file) in another type. Matrices get it where "
    "their rows fit its blocks\n"
    "of 32, others become F16; norms and biases stay F32; in q4_0 files the token embedding and "
    "the output matrix are\n"
    "Q8_0. OUT.gguf appears when it is whole. From a folder tokenizer.json goes into the file "
    "under the format's key for\n"
    "it, which not every program reads.\n"
    "\n"
    "  --type T     the type of the matrices\n"
    "  --force      replace OUT.gguf where it exists\n"
    "  --text FILE  tell the perplexity of this text ('-': standard input) before and after; "
    "without it none is\n"
    "               measured. It should be like what the model is for, and have some thousand "
    "tokens\n"
    "  --context N, --stride N, --threads N   as in isothermctl perplexity, for --text\n"
    "  --json       one JSON object in place of text\n";

struct options {
    const char *in, *out, *type_name, *text_file;
    enum kernels_type type;
    bool is_forced, is_json;
    struct perplexity_options how;
};

/* What is told at the end. */
struct result {
    uint64_t bytes_before, bytes_after;
    struct perplexity before, after; /* n_counted 0: not measured */
};

static volatile sig_atomic_t g_stopped;

static void on_signal(int number)
{
    g_stopped = number;
}

static bool parse_type(struct options *o)
{
    static const enum kernels_type types[] = {KERNELS_F32, KERNELS_F16, KERNELS_Q8_0, KERNELS_Q4_0};
    for (size_t i = 0; o->type_name && i < sizeof types / sizeof *types; i++) {
        if (strcasecmp(o->type_name, kernels_type_name(types[i])) == 0) {
            o->type = types[i];
            return true;
        }
    }
    return false;
}

/* -1: go on; otherwise the exit status. */
static int parse_options(int argc, char **argv, struct options *o)
{
    const struct ctl_option options[] = {
        {.name = "type", .text = &o->type_name},
        {.name = "force", .flag = &o->is_forced},
        {.name = "text", .text = &o->text_file},
        {.name = "context", .number = &o->how.context, .min = 2, .max = INT32_MAX},
        {.name = "stride", .number = &o->how.stride, .min = 1, .max = INT32_MAX},
        {.name = "threads", .number = &o->how.n_threads, .min = 1, .max = 64},
        {.name = "json", .flag = &o->is_json},
    };
    const struct ctl_verb verb = {"model quantize", usage, 2, "IN, OUT.gguf and --type are needed",
                                  options,          7};
    int status = ctl_options_parse(&verb, argc, argv);
    if (status >= 0) {
        return status;
    }
    o->in = argv[optind];
    o->out = argv[optind + 1];
    bool has_how = o->how.context || o->how.stride || o->how.n_threads;
    return !parse_type(o) ? ctl_options_misused(&verb, "--type takes q8_0, q4_0, f16 or f32")
           : has_how && !o->text_file
               ? ctl_options_misused(&verb, "--context, --stride and --threads are for --text FILE")
               : -1;
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
        (void)fprintf(stderr, "\r%5.1f %% of %" PRIu64 " numbers\033[K%s",
                      100.0 * (double)done / (double)total, total, done == total ? "\n" : "");
        p->last_ms = now_ms;
    }
    return g_stopped == 0;
}

/* ---- the work */

static bool measure(struct options *o, const char *label, const char *path, struct slice text,
                    struct perplexity *out, struct engine_error *err)
{
    o->how.label = label;
    return !o->text_file || perplexity_measure(out, path, o->text_file, text, &o->how, err);
}

static bool rewrite(const struct options *o, struct progress *p, struct result *r,
                    struct engine_error *err)
{
    struct model *m = NULL;
    bool ok = model_open(&m, o->in, err) &&
              quantize_file(model_weights(m), o->type, o->out, show, p, err);
    r->bytes_before = ok ? weights_file_bytes(model_weights(m)) : 0;
    model_close(m);
    return ok;
}

static bool count_bytes(const char *path, uint64_t *out, struct engine_error *err)
{
    struct weights *w = NULL;
    bool ok = weights_open(&w, path, err);
    *out = ok ? weights_file_bytes(w) : 0;
    weights_close(w);
    return ok;
}

static bool work(struct options *o, struct progress *p, struct result *r, struct engine_error *err)
{
    struct buf text = {0};
    bool ok = (o->is_forced || access(o->out, F_OK) != 0 ||
               engine_fail(err, ENGINE_IO, "", "'%.150s' exists: --force replaces it", o->out)) &&
              (!o->text_file || perplexity_read(o->text_file, &text, err)) &&
              measure(o, "before: ", o->in, buf_slice(&text), &r->before, err) &&
              rewrite(o, p, r, err) && count_bytes(o->out, &r->bytes_after, err) &&
              measure(o, "after: ", o->out, buf_slice(&text), &r->after, err);
    buf_release(&text);
    return ok;
}

/* ---- output */

static void print_measured(const char *name, const struct perplexity *p)
{
    (void)printf(", \"%s\": ", name);
    if (p->n_counted) {
        perplexity_print_json(p);
    } else {
        (void)fputs("null", stdout);
    }
}

static void print_json(const struct options *o, const struct result *r)
{
    (void)printf("{\"type\": \"%s\", \"file_bytes_before\": %" PRIu64
                 ", \"file_bytes_after\": %" PRIu64,
                 kernels_type_name(o->type), r->bytes_before, r->bytes_after);
    print_measured("perplexity_before", &r->before);
    print_measured("perplexity_after", &r->after);
    (void)puts("}");
}

static void print_text(const struct options *o, const struct result *r)
{
    const struct perplexity *a = &r->before, *b = &r->after;
    (void)printf("%s: %s, %.1f MB of %.1f MB\n", o->out, kernels_type_name(o->type),
                 (double)r->bytes_after / 1e6, (double)r->bytes_before / 1e6);
    if (!a->n_counted) {
        (void)puts("perplexity: not measured; --text FILE tells it before and after");
        return;
    }
    (void)printf("perplexity %.4f +- %.4f before, %.4f +- %.4f after (95 %%): %+.2f %%; %zu tokens "
                 "of %zu bytes, context %zu, stride %zu\n",
                 a->value, a->half, b->value, b->half, 100 * (b->value / a->value - 1),
                 a->n_counted, a->n_bytes, a->context, a->stride);
}

int ctl_model_quantize(int argc, char **argv)
{
    bool is_terminal = isatty(STDERR_FILENO) == 1;
    struct options o = {.how = {.shows_progress = is_terminal, .stop = &g_stopped}};
    struct result r = {0};
    struct engine_error err = {.code = ENGINE_OK};
    struct progress p = {.is_shown = is_terminal};
    int status = parse_options(argc, argv, &o);
    if (status >= 0) {
        return status;
    }
    const struct sigaction stop = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGTERM, &stop, NULL);
    if (!work(&o, &p, &r, &err)) {
        (void)fprintf(stderr, "%sisothermctl model quantize: %s\n",
                      p.is_shown && p.last_ms ? "\n" : "", err.text);
        return err.code == ENGINE_BAD_PARAM ? 2 : 1;
    }
    if (o.is_json) {
        print_json(&o, &r);
    } else {
        print_text(&o, &r);
    }
    return 0; /* main() sees whether standard output took it */
}
