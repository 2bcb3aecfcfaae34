/* ctl_model_verify.c - a table of checks, in order; one that failed ends the list, since the later
 * ones stand on it. */
#include "ctl_model.h"

#include "gateway/ctl/ctl_options.h"
#include "local-engine/model.h"
#include "local-engine/tokenizer_source.h"
#include "local-engine/weights.h"

#include <ctype.h>
#include <getopt.h> /* optind */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define CHUNK 4096 /* elements at a time: a multiple of every block */

static const char usage[] =
    "usage: isothermctl model verify PATH [--sha256 HEX] [--json]\n"
    "\n"
    "Holds the model's files against everything that the engine asks of them: headers and extents, "
    "configuration against\n"
    "tensors, the tokenizer, every number (neither NaN nor infinite), and tells the SHA-256 of the "
    "weights.\n"
    "\n"
    "  --sha256 HEX  what that must be\n"
    "  --json        one object\n"
    "Exit status: 0 all is well, 1 something is not, 2 usage.\n";

struct verify {
    const char *path, *want;
    struct weights *weights;
    struct model *model;
    char hash[65];
    char note[160]; /* what a check that passed has to say */
    struct engine_error err;
};

static bool check_files(struct verify *v)
{
    return weights_open(&v->weights, v->path, &v->err);
}

static bool check_model(struct verify *v)
{
    return model_open(&v->model, v->path, &v->err);
}

static bool check_tokenizer(struct verify *v)
{
    struct tokenizer *t = NULL;
    bool ok = tokenizer_source_tokenizer(&t, v->weights, &v->err);
    tokenizer_close(t);
    return ok;
}

/* The first element that is no number; n: none. */
static size_t find_bad(const float *x, size_t n)
{
    size_t i = 0;
    while (i < n && isfinite(x[i])) {
        i++;
    }
    return i;
}

static bool check_tensor(struct verify *v, const struct weights_tensor *t, float *x)
{
    const struct kernels *k = kernels_best();
    size_t n = (size_t)t->n_elements;
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t len = n - at < CHUNK ? n - at : CHUNK;
        k->expand(t->type, t->data + kernels_row_bytes(t->type, at), len, x);
        size_t bad = find_bad(x, len);
        if (bad < len) {
            return engine_fail(&v->err, ENGINE_BAD_FILE, "",
                               "%s: tensor '%.80s' holds %s at element %zu", t->file, t->name,
                               isnan(x[bad]) ? "NaN" : "an infinite number", at + bad);
        }
    }
    return true;
}

static bool check_numbers(struct verify *v)
{
    size_t n;
    const struct weights_tensor *t = weights_all(v->weights, &n);
    float *x = malloc(CHUNK * sizeof *x);
    bool ok = x || engine_fail(&v->err, ENGINE_NOMEM, "", "out of memory");
    for (size_t i = 0; ok && i < n; i++) {
        ok = !t[i].is_computable || check_tensor(v, &t[i], x);
    }
    free(x);
    return ok;
}

static bool check_hash(struct verify *v)
{
    weights_hash(v->weights, v->hash);
    (void)snprintf(v->note, sizeof v->note, "%s", v->hash);
    return !v->want || strcasecmp(v->want, v->hash) == 0 ||
           engine_fail(&v->err, ENGINE_BAD_FILE, "", "%s: is %s, %s expected",
                       weights_label(v->weights), v->hash, v->want);
}

static const struct {
    const char *name;
    bool (*fn)(struct verify *v);
} checks[] = {{"files", check_files},
              {"model", check_model},
              {"tokenizer", check_tokenizer},
              {"numbers", check_numbers},
              {"sha256", check_hash}};

int ctl_model_verify(int argc, char **argv)
{
    struct verify v = {0};
    bool is_json = false, ok = true;
    const struct ctl_option options[] = {{.name = "json", .flag = &is_json},
                                         {.name = "sha256", .sha256 = &v.want}};
    const struct ctl_verb verb = {"model verify", usage, 1, "one PATH is needed", options, 2};
    int status = ctl_options_parse(&verb, argc, argv);
    if (status >= 0) {
        return status;
    }
    v.path = argv[optind];
    json_t *passed = json_array();
    for (size_t i = 0; ok && i < sizeof checks / sizeof *checks; i++) {
        v.note[0] = '\0';
        ok = checks[i].fn(&v);
        if (ok) {
            (void)json_array_append_new(passed, json_string(checks[i].name));
        }
        if (!is_json) {
            (void)printf("%-10s %s%s%s\n", checks[i].name, ok ? "ok" : "FAILED",
                         v.note[0] ? "  " : "", v.note);
        }
    }
    if (is_json) {
        json_t *o = json_pack("{s:b,s:O,s:s?,s:s?}", "ok", ok, "passed", passed, "sha256",
                              v.hash[0] ? v.hash : NULL, "error", ok ? NULL : v.err.text);
        (void)json_dumpf(o, stdout, JSON_INDENT(2));
        (void)putchar('\n');
        json_decref(o);
    } else if (!ok) {
        (void)fflush(stdout);
        (void)fprintf(stderr, "isothermctl model verify: %s\n", v.err.text);
    }
    json_decref(passed);
    model_close(v.model);
    weights_close(v.weights);
    return ok ? 0 : 1;
}
