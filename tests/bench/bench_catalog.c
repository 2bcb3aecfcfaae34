/* bench_catalog.c - speed of the catalog: one request planned, and the whole catalog loaded.
 * Medians of 21 runs, in time of the processor: one thread that waits for nothing, so that a busy
 * machine does not count. Usage: bench_catalog [CATALOG.DB]; without one it builds
 * catalog/providers into a temporary file. BENCH_CHECK=1: fails where a figure is above its target.
 */
#include "catalog/plan.h"
#include "catalog/versions.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RUNS       21
#define ITERATIONS 20000
#define DAY        "2026-11-30"
#define PLAN_US    5.0  /* at the median */
#define LOAD_MS    50.0 /* open with its check, and the snapshot */

static int n_above;

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *runs)
{
    qsort(runs, RUNS, sizeof *runs, compare);
    return runs[RUNS / 2];
}

static void stop(const char *what, const struct catalog_error *err)
{
    (void)fprintf(stderr, "%s: %s\n", what, err->text);
    exit(1);
}

static void report(const char *what, double got, const char *unit, double target)
{
    bool is_above = target > 0 && got > target;
    n_above += is_above;
    (void)printf("%-52s %9.2f %s%s\n", what, got, unit, is_above ? "  ABOVE ITS TARGET" : "");
}

/* ---- planning */

struct request {
    const char *provider, *model;
    struct sampling asked;
};

static struct value number(double d)
{
    return (struct value){.type = VALUE_NUMBER, .d = d};
}

static struct value integer(int64_t i)
{
    return (struct value){.type = VALUE_INT, .i = i};
}

static void ask(struct request *r, json_t *stop_list)
{
    sampling_set(&r->asked, PARAM_TEMPERATURE, number(0.7));
    sampling_set(&r->asked, PARAM_TOP_P, number(0.9));
    sampling_set(&r->asked, PARAM_MAX_TOKENS, integer(256));
    sampling_set(&r->asked, PARAM_SEED, integer(7));
    sampling_set(&r->asked, PARAM_PRESENCE_PENALTY, number(0.1));
    sampling_set(&r->asked, PARAM_STOP, (struct value){.type = VALUE_JSON, .j = stop_list});
    sampling_set(&r->asked, PARAM_REASONING_EFFORT,
                 (struct value){.type = VALUE_STRING, .s = "low"});
    sampling_set(&r->asked, PARAM_USER, (struct value){.type = VALUE_STRING, .s = "u"});
}

static double time_plan(const struct snapshot *s, const struct request *r, bool with_rules)
{
    struct catalog_error err = {0};
    struct policy policy = {0};
    struct rules rules;
    static struct plan plan;
    double runs[RUNS];
    if (!snapshot_rules(s, r->provider, r->model, CATALOG_CHAT, DAY, &rules, &err)) {
        stop(r->provider, &err);
    }
    for (int i = 0; i < RUNS; i++) {
        double start = now_us();
        for (int k = 0; k < ITERATIONS; k++) {
            if (with_rules &&
                !snapshot_rules(s, r->provider, r->model, CATALOG_CHAT, DAY, &rules, &err)) {
                stop(r->provider, &err);
            }
            plan_make(&rules, &policy, &r->asked, NULL, &plan);
        }
        runs[i] = (now_us() - start) / ITERATIONS;
    }
    return median(runs);
}

/* Models that nobody has asked for before: what the first request of each costs. */
static double time_first(const struct snapshot *s, const char *provider)
{
    struct catalog_error err = {0};
    struct rules rules;
    double runs[RUNS];
    for (int i = 0; i < RUNS; i++) {
        char model[64];
        (void)snprintf(model, sizeof model, "gpt-5.%d-never-asked", i);
        double start = now_us();
        if (!snapshot_rules(s, provider, model, CATALOG_CHAT, DAY, &rules, &err)) {
            stop(provider, &err);
        }
        runs[i] = now_us() - start;
    }
    return median(runs);
}

static void bench_plans(const struct snapshot *s)
{
    static const char *const models[][2] = {
        {"openai", "gpt-4o"},
        {"openai", "gpt-5.2"},
        {"anthropic", "claude-sonnet-4-5"},
        {"mistral", "mistral-small-latest"},
    };
    json_t *stop_list = json_pack("[s, s]", "END", "\n\n");
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct request r = {.provider = models[i][0], .model = models[i][1]};
        char what[96];
        if (!snapshot_provider(s, r.provider)) {
            continue;
        }
        ask(&r, stop_list);
        (void)snprintf(what, sizeof what, "plan of 8 parameters, %s", r.model);
        report(what, time_plan(s, &r, false), "us", PLAN_US);
        (void)snprintf(what, sizeof what, "rules and plan, %s", r.model);
        report(what, time_plan(s, &r, true), "us", PLAN_US);
    }
    json_decref(stop_list);
    report("rules of a model not asked before, openai", time_first(s, "openai"), "us", 0);
}

/* ---- loading */

static void bench_load(const char *path)
{
    double opening[RUNS], loading[RUNS], both[RUNS];
    for (int i = 0; i < RUNS; i++) {
        struct catalog_error err = {0};
        struct catalog *c = NULL;
        struct snapshot *s = NULL;
        double start = now_us();
        if (!catalog_open(&c, path, &err)) {
            stop(path, &err);
        }
        double opened = now_us();
        if (!catalog_snapshot(c, 0, &s, &err)) {
            stop(path, &err);
        }
        double loaded = now_us();
        opening[i] = (opened - start) / 1e3;
        loading[i] = (loaded - opened) / 1e3;
        both[i] = (loaded - start) / 1e3;
        snapshot_release(s);
        catalog_close(c);
    }
    report("open, with the check of the whole file", median(opening), "ms", 0);
    report("snapshot of the newest version", median(loading), "ms", 0);
    report("both: the catalog is loaded", median(both), "ms", LOAD_MS);
}

static bool count(const struct claim *c, void *ud)
{
    (void)c;
    ++*(size_t *)ud;
    return true;
}

static void build(const char *path)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    glob_t files;
    if (glob("catalog/providers/*.json", 0, NULL, &files) != 0 ||
        !catalog_build(path, (const char *const *)files.gl_pathv, files.gl_pathc,
                       &(struct version_stamp){"bench", "bench", DAY}, &v, &err)) {
        stop("catalog/providers", &err);
    }
    globfree(&files);
}

int main(int argc, char **argv)
{
    char made[] = "/tmp/isotherm-bench-XXXXXX.db";
    const char *path = argc > 1 ? argv[1] : made;
    struct catalog_error err = {0};
    struct catalog *c = NULL;
    struct snapshot *s = NULL;
    size_t n = 0;
    if (argc <= 1) {
        int fd = mkstemps(made, 3);
        if (fd < 0 || close(fd) != 0) {
            return 1;
        }
        build(made);
    }
    if (!catalog_open(&c, path, &err) || !catalog_snapshot(c, 0, &s, &err)) {
        stop(path, &err);
    }
    snapshot_each(s, NULL, NULL, NULL, count, &n);
    (void)printf("%zu claims of %zu providers\n", n, snapshot_n_providers(s));
    bench_plans(s);
    snapshot_release(s);
    catalog_close(c);
    bench_load(path);
    if (argc <= 1) {
        (void)unlink(made);
    }
    return n_above && getenv("BENCH_CHECK") ? 1 : 0;
}
