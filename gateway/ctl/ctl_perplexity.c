/* ctl_perplexity.c - isothermctl perplexity; perplexity.c computes. */
#include "gateway/ctl/ctl_perplexity.h"

#include "gateway/ctl/ctl_local.h"
#include "gateway/ctl/ctl_options.h"
#include "gateway/ctl/perplexity.h"

#include <errno.h>
#include <getopt.h> /* optind */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    struct perplexity_options how;
    bool is_json;
};

static bool print(const struct perplexity *p, bool is_json, struct engine_error *err)
{
    if (is_json) {
        perplexity_print_json(p);
        (void)putchar('\n');
    } else {
        (void)printf("perplexity %.4f +- %.4f (95 %%), %zu tokens of %zu bytes, context %zu, "
                     "stride %zu, %.1f tokens/s\n",
                     p->value, p->half, p->n_counted, p->n_bytes, p->context, p->stride,
                     p->tokens_per_second);
    }
    return fflush(stdout) == 0 ||
           engine_fail(err, ENGINE_IO, "", "standard output: %s", strerror(errno));
}

static bool run(const struct options *o, struct engine_error *err)
{
    char path[PATH_MAX];
    struct buf text = {0};
    struct perplexity p;
    bool ok = ctl_local_find_model(o->model, path, err) && perplexity_read(o->file, &text, err) &&
              perplexity_measure(&p, path, o->file, buf_slice(&text), &o->how, err) &&
              print(&p, o->is_json, err);
    buf_release(&text);
    return ok;
}

int ctl_perplexity(int argc, char **argv)
{
    struct options o = {.model = "local", .how.shows_progress = isatty(STDERR_FILENO) == 1};
    const struct ctl_option options[] = {
        {.name = "model", .letter = 'm', .text = &o.model},
        {.name = "context", .number = &o.how.context, .min = 2, .max = INT32_MAX},
        {.name = "stride", .number = &o.how.stride, .min = 1, .max = INT32_MAX},
        {.name = "threads", .number = &o.how.n_threads, .min = 1, .max = 64},
        {.name = "json", .flag = &o.is_json},
    };
    const struct ctl_verb verb = {"perplexity", usage, 1, "one FILE is needed, nothing else",
                                  options,      5};
    struct engine_error err = {.code = ENGINE_OK};
    int status = ctl_options_parse(&verb, argc, argv);
    if (status >= 0) {
        return status;
    }
    o.file = argv[optind];
    if (run(&o, &err)) {
        return 0;
    }
    (void)fprintf(stderr, "isothermctl perplexity: %s\n", err.text);
    return err.code == ENGINE_BAD_PARAM ? 2 : 1;
}
