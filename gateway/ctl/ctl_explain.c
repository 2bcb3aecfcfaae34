/* ctl_explain.c - `isothermctl explain`: the plan and the exact upstream body of a request, with no
 * daemon and no network. */
#include "ctl_explain.h"

#include "gateway/ctl/ctl_catalog.h"

#include "gateway/base/jsonio.h"
#include "gateway/base/paths.h"
#include "gateway/base/program.h"
#include "gateway/explain.h"
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static const char usage[] =
    "usage: isothermctl explain -m MODEL [-m MODEL ...] [options] [FILE]\n"
    "\n"
    "Shows for each MODEL what would be sent for the chat request in FILE (standard input for - or "
    "none), what\n"
    "differs from what was asked and why, and who would answer: each call, where it takes several. "
    "Calls nobody.\n"
    "\n"
    "  -m, --model MODEL   provider/model, an alias, or local; may be given several times\n"
    "  --config FILE       configuration with providers, aliases and policies\n"
    "  --catalog, --db DB  catalog (default: the configuration's, else the machine's own, else the "
    "one that\n                      came with the program)\n"
    "  --json              the answer of POST /v1/explain\n";

#define TARGETS_MAX 64
struct options {
    const char *models[TARGETS_MAX];
    size_t n_models;
    const char *config, *catalog, *file;
    bool json;
};

static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {{"model", required_argument, NULL, 'm'},
                                          {"config", required_argument, NULL, 'c'},
                                          {"catalog", required_argument, NULL, 'd'},
                                          {"db", required_argument, NULL, 'd'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":m:h", longs, NULL)) != -1) {
        switch (c) {
        case 'm':
            if (o->n_models == TARGETS_MAX) {
                (void)fprintf(stderr, "isothermctl explain: at most %d models at once\n",
                              TARGETS_MAX);
                return 2;
            }
            o->models[o->n_models++] = optarg;
            break;
        case 'c':
            o->config = optarg;
            break;
        case 'd':
            o->catalog = optarg;
            break;
        case 'j':
            o->json = true;
            break;
        case 'h':
            (void)fputs(usage, stdout);
            return 0;
        default:
            return program_bad_option("isothermctl explain", c, argv);
        }
    }
    o->file = optind < argc ? argv[optind] : "-";
    if (optind + 1 < argc) {
        (void)fputs("isothermctl explain: one FILE at most: see isothermctl explain --help\n",
                    stderr);
        return 2;
    }
    return -1;
}

/* NULL, or why not. */
static const char *read_all(const char *path, struct buf *b)
{
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char piece[65536];
    size_t n;
    const char *why = in ? NULL : strerror(errno);
    while (!why && (n = fread(piece, 1, sizeof piece, in)) > 0) {
        why = buf_append(b, piece, n) ? NULL : "it is larger than a request may be";
    }
    if (!why && ferror(in)) {
        why = strerror(errno);
    }
    if (in && in != stdin) {
        (void)fclose(in); /* only read */
    }
    return why ? why : b->len ? NULL : "it is empty, a chat request in JSON is expected";
}

/* Puts the models of the command line into the body as `targets`. */
static bool add_targets(struct buf *b, const struct options *o, struct failure *f)
{
    json_t *body = jsonio_parse(b->p ? b->p : "", b->len, f);
    json_t *targets = json_array();
    for (size_t i = 0; i < o->n_models; i++) {
        (void)json_array_append_new(targets, json_string(o->models[i]));
    }
    bool ok = json_is_object(body);
    if (ok && o->n_models) {
        ok = json_object_set(body, "targets", targets) == 0;
        buf_clear(b);
        ok = ok && jsonio_write(b, body);
    }
    json_decref(targets);
    json_decref(body);
    return ok || failure_set(f, 400, "invalid_json", NULL, "the request must be a JSON object");
}

/* ---- readable output */

static void print_value(const json_t *v)
{
    struct buf b;
    buf_init(&b, 1u << 20);
    if (v && !json_is_null(v) && jsonio_write(&b, v) && b.len > 60) {
        (void)printf("%.57s...", b.p);
    } else {
        (void)fputs(v && !json_is_null(v) && b.p ? b.p : "-", stdout);
    }
    buf_release(&b);
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "-";
}

static void print_adjustments(const json_t *list)
{
    size_t i;
    const json_t *a;
    json_array_foreach (list, i, a) {
        (void)printf("  %-22s ", text_of(a, "param"));
        print_value(json_object_get(a, "asked"));
        (void)fputs(" -> ", stdout);
        print_value(json_object_get(a, "sent"));
        (void)printf("  %s, %s\n", text_of(a, "action"), text_of(a, "reason"));
    }
    if (json_array_size(list) == 0) {
        (void)puts("  what is sent is what was asked");
    }
}

static void print_request(const json_t *request)
{
    struct buf b;
    (void)printf("  %s %s\n  ", text_of(request, "method"), text_of(request, "url"));
    buf_init(&b, LIMIT_BODY_BYTES * 2);
    if (jsonio_write(&b, json_object_get(request, "body"))) {
        (void)puts(b.p);
    }
    buf_release(&b);
}

static void print_plan(const json_t *plan)
{
    const json_t *error = json_object_get(plan, "error"),
                 *requests = json_object_get(plan, "requests"), *request;
    size_t at;
    if (error) {
        (void)printf("%s: refused: %s\n", text_of(plan, "target"), text_of(error, "message"));
        return;
    }
    (void)printf("%s: answered by %s", text_of(plan, "target"), text_of(plan, "model"));
    const json_t *because = json_object_get(json_object_get(plan, "fallback"), "because");
    for (size_t i = 0; i < json_array_size(because); i++) {
        (void)printf("%s%s", i ? ", " : " because of ",
                     json_string_value(json_array_get(because, i)));
    }
    (void)printf("\n");
    print_adjustments(json_object_get(plan, "adjustments"));
    if (!requests) {
        print_request(json_object_get(plan, "request"));
    }
    json_array_foreach (requests, at, request) {
        print_request(request);
    }
}

static int print_all(const json_t *out, bool as_json)
{
    const json_t *plans = json_object_get(out, "plans"), *plan;
    size_t i;
    int rc = 0;
    if (as_json) {
        struct buf b;
        buf_init(&b, LIMIT_BODY_BYTES * 4);
        if (jsonio_write(&b, out)) {
            (void)puts(b.p);
        }
        buf_release(&b);
    }
    json_array_foreach (plans, i, plan) {
        rc = json_object_get(plan, "error") ? 1 : rc;
        if (!as_json) {
            print_plan(plan);
        }
    }
    return rc;
}

static int explain(const struct options *o, struct config *conf, struct snapshot *snap)
{
    struct failure f = {.status = 0};
    struct prepare_env env = {.conf = conf, .snap = snap};
    char day[11];
    struct tm tm;
    time_t now = time(NULL);
    (void)strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&now, &tm));
    env.day = day;
    if (getrandom(&env.random, sizeof env.random, 0) != (ssize_t)sizeof env.random) {
        env.random = (uint64_t)now; /* shown as the seed that a call would draw */
    }
    (void)request_policy_range(conf->on_out_of_range, &env.policy.on_out_of_range);
    (void)request_policy_unsupported(conf->on_unsupported, &env.policy.on_unsupported);
    (void)request_policy_many(conf->on_many, &env.policy.on_many);
    struct buf body;
    buf_init(&body, LIMIT_BODY_BYTES);
    json_t *out = NULL;
    const char *why = read_all(o->file, &body);
    if (why) {
        (void)failure_set(&f, 400, "io", NULL, "the request cannot be read from %s: %s",
                          strcmp(o->file, "-") == 0 ? "standard input" : o->file, why);
    } else if (add_targets(&body, o, &f)) {
        out = explain_body(&env, buf_slice(&body), &f);
    }
    buf_release(&body);
    if (!out) {
        (void)fprintf(stderr, "isothermctl explain: %s\n", f.message);
        return 1;
    }
    int rc = print_all(out, o->json);
    json_decref(out);
    return rc;
}

int ctl_explain(int argc, char **argv)
{
    struct options o = {.n_models = 0};
    struct config_error ce;
    struct catalog_error e = {.code = CATALOG_OK};
    struct config *conf = NULL;
    struct catalog *catalog = NULL;
    struct snapshot *snap = NULL;
    char path[CTL_PATH_MAX];
    int rc = parse_options(argc, argv, &o);
    if (rc >= 0) {
        return rc;
    }
    if (!config_load(&conf, o.config, &ce)) {
        (void)fprintf(stderr, "isothermctl explain: %s\n", ce.text);
        return 1;
    }
    /* as the daemon does: what was set on this machine holds */
    if (!ctl_catalog_path(o.catalog ? o.catalog : conf->catalog_path, false, path)) {
        rc = 1;
    } else if (!catalog_open(&catalog, path, &e) ||
               !catalog_snapshot(catalog, conf->catalog_pin, &snap, &e)) {
        (void)fprintf(stderr, "isothermctl explain: %s\n", e.text);
        rc = 1;
    } else {
        rc = explain(&o, conf, snap);
    }
    snapshot_release(snap);
    catalog_close(catalog);
    config_free(conf);
    return rc;
}
