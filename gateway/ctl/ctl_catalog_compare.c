/* ctl_catalog_compare.c - `isothermctl catalog compare FILE`: another catalog held against ours.
 *
 * Every line says whose word it is. The version is that of the package.json above the file, where
 * there is one and it is the package's.
 */
#include "gateway/ctl/ctl_catalog.h"

#include "catalog/compare.h"
#include "gateway/base/program.h"

#include <getopt.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESULTS       (COMPARE_NOT_COMPARED + 1)
#define PACKAGE       "modelparams"
#define PACKAGE_BYTES 65536 /* of its package.json; it has 2 KB */

static const char help[] =
    "usage: isothermctl catalog compare FILE [--provider P] [--only RESULT,RESULT] [--db DB] "
    "[--json]\n"
    "\n"
    "Holds the data of the npm package modelparams (MIT) against the newest version of the "
    "catalog. It is one\n"
    "more source, taken unverified: nothing of it enters the catalog. RESULT is one of:\n"
    "\n"
    "  agrees        what both say is the same; what only one says is no difference\n"
    "  differs       range, values, default or support are not the same\n"
    "  only_theirs   they list it; ours says nothing, or that it is absent\n"
    "  only_ours     ours says yes; they do not list it\n"
    "  not_compared  a model, provider or parameter without counterpart\n"
    "\n"
    "Without --only, agrees and differs are listed and all five are counted. FILE is the "
    "package's\n"
    "dist/generated/data.js, or JSON of the same form, which any later form becomes by\n"
    "  node -e 'import(process.argv[1]).then(m => console.log(JSON.stringify(m.CATALOG)))' "
    "FILE > FILE.json\n"
    "The exit status is 0 whatever it finds, 1 when FILE or the catalog cannot be read, 2 for "
    "wrong usage.\n";

struct options {
    const char *db, *provider, *file;
    unsigned only; /* bits 1 << result */
    bool is_json;
};

struct output {
    const struct options *o;
    const char *source; /* "modelparams 0.0.18" */
    json_t *list;       /* NULL: a table */
    size_t n_of[RESULTS];
    bool has_failed;
};

/* ---- options */

static bool parse_results(const char *list, unsigned *out)
{
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ",");
        int r = 0;
        while (r < RESULTS && (strlen(compare_result_name((enum compare_result)r)) != n ||
                               strncmp(compare_result_name((enum compare_result)r), at, n) != 0)) {
            r++;
        }
        if (r == RESULTS) {
            return false;
        }
        *out |= 1u << r;
        at += n;
        if (!*at) {
            return true;
        }
    }
}

/* -1 go on; else the exit status. */
static int parse_options(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"db", required_argument, NULL, 'o'},   {"provider", required_argument, NULL, 'p'},
        {"only", required_argument, NULL, 'r'}, {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
    };
    int c;
    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":o:h", longs, NULL)) != -1) {
        switch (c) {
        case 'o':
            o->db = optarg;
            break;
        case 'p':
            o->provider = optarg;
            break;
        case 'r':
            if (!parse_results(optarg, &o->only)) {
                return ctl_catalog_usage("compare", "--only takes results with commas between");
            }
            break;
        case 'j':
            o->is_json = true;
            break;
        case 'h':
            (void)fputs(help, stdout);
            return 0;
        default:
            return program_bad_option("isothermctl catalog compare", c, argv);
        }
    }
    if (optind + 1 != argc) {
        return ctl_catalog_usage("compare", "it needs one FILE");
    }
    o->file = argv[optind];
    o->only = o->only ? o->only : 1u << COMPARE_AGREES | 1u << COMPARE_DIFFERS;
    return -1;
}

/* ---- whose word it is */

/* The version in the package.json of that folder; false: it is another package's, or not there. */
static bool version_in(const char *folder, char *out, size_t cap)
{
    char path[CTL_PATH_MAX], text[PACKAGE_BYTES];
    if ((size_t)snprintf(path, sizeof path, "%s/package.json", folder) >= sizeof path) {
        return false;
    }
    FILE *f = fopen(path, "rb");
    if (!f) {
        return false;
    }
    size_t n = fread(text, 1, sizeof text, f);
    (void)fclose(f); /* only read */
    json_t *package = json_loadb(text, n, 0, NULL);
    const char *name = json_string_value(json_object_get(package, "name"));
    const char *version = json_string_value(json_object_get(package, "version"));
    bool ok = name && version && strcmp(name, PACKAGE) == 0 &&
              strspn(version, "0123456789.-abcdefghijklmnopqrstuvwxyz") == strlen(version);
    if (ok) {
        (void)snprintf(out, cap, PACKAGE " %.32s", version);
    }
    json_decref(package);
    return ok;
}

/* From the file's folder upwards: dist/generated/data.js lies two below. */
static void name_source(const char *file, char *out, size_t cap)
{
    char copy[CTL_PATH_MAX], path[CTL_PATH_MAX];
    (void)snprintf(out, cap, PACKAGE);
    if ((size_t)snprintf(copy, sizeof copy, "%s", file) >= sizeof copy) {
        return;
    }
    (void)snprintf(path, sizeof path, "%s", dirname(copy));
    for (int i = 0; i < 3 && !version_in(path, out, cap); i++) {
        size_t n = strlen(path);
        if (n + 4 > sizeof path) {
            return;
        }
        memcpy(path + n, "/..", 4);
    }
}

/* ---- output. Names of the file come from elsewhere: control bytes are not printed. */

static void put(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        (void)putchar(*c < 0x20 || *c == 0x7f ? '?' : *c);
    }
}

static void put_comparison(const struct output *out, const struct comparison *c)
{
    (void)printf("%-12s  ", compare_result_name(c->result));
    put(c->model);
    (void)fputs("  ", stdout);
    put(c->param);
    (void)fputs(": ours ", stdout);
    put(c->ours);
    if (c->claim) {
        (void)printf(" (claim %lld, as of ", (long long)c->claim->id);
        put(c->claim->as_of);
        (void)putchar(')');
    }
    (void)fputs(", theirs ", stdout);
    put(c->theirs);
    (void)printf(" (%s, unverified)\n", out->source);
}

static json_t *comparison_json(const struct output *out, const struct comparison *c)
{
    return json_pack("{s:s, s:s, s:s?, s:s, s:o, s:s, s:s, s:s, s:b}", "result",
                     compare_result_name(c->result), "model", c->model, "provider", c->provider,
                     "param", c->param, "claim",
                     c->claim ? json_integer((json_int_t)c->claim->id) : json_null(), "ours",
                     c->ours, "theirs", c->theirs, "source", out->source, "verified", 0);
}

static bool take(const struct comparison *c, void *ud)
{
    struct output *out = ud;
    if (out->o->provider && (!c->provider || strcmp(c->provider, out->o->provider) != 0)) {
        return true;
    }
    out->n_of[c->result]++;
    if (!(out->o->only >> c->result & 1)) {
        return true;
    }
    if (!out->list) {
        put_comparison(out, c);
        return true;
    }
    out->has_failed = json_array_append_new(out->list, comparison_json(out, c)) != 0;
    return !out->has_failed;
}

static int put_json(struct output *out, int64_t version)
{
    json_t *counts = json_object();
    bool ok = counts != NULL && !out->has_failed;
    for (int r = 0; ok && r < RESULTS; r++) {
        ok = json_object_set_new(counts, compare_result_name((enum compare_result)r),
                                 json_integer((json_int_t)out->n_of[r])) == 0;
    }
    json_t *all = json_pack("{s:I, s:s, s:b, s:o, s:o}", "version", (json_int_t)version, "source",
                            out->source, "verified", 0, "counts", counts, "comparisons", out->list);
    if (!ok) {
        json_decref(all);
        all = NULL;
    }
    return ctl_print_json(all);
}

/* ---- the verb */

static int run(const struct options *o, struct catalog *c, const struct snapshot *s)
{
    struct catalog_error err = {0};
    char source[64], now[32];
    struct output out = {.o = o, .source = source, .list = o->is_json ? json_array() : NULL};
    if (!catalog_check_names(c, snapshot_version(s), o->provider, NULL, &err)) {
        json_decref(out.list);
        return ctl_catalog_failed(&err);
    }
    name_source(o->file, source, sizeof source);
    ctl_catalog_now(now);
    now[10] = '\0'; /* the day of an ISO time */
    out.has_failed = o->is_json && !out.list;
    if (!out.has_failed && !catalog_compare(s, o->file, now, take, &out, &err)) {
        json_decref(out.list);
        return ctl_catalog_failed(&err);
    }
    if (o->is_json) {
        return put_json(&out, snapshot_version(s));
    }
    for (int r = 0; r < RESULTS; r++) {
        (void)printf("%s%zu %s", r ? ", " : "", out.n_of[r],
                     compare_result_name((enum compare_result)r));
    }
    (void)printf(": version %lld against %s, unverified\n", (long long)snapshot_version(s),
                 out.source);
    return 0;
}

int ctl_catalog_compare(int argc, char **argv)
{
    struct options o = {.db = NULL};
    struct catalog_error err = {0};
    struct catalog *c = NULL;
    struct snapshot *s = NULL;
    int rc = parse_options(&o, argc, argv);
    if (rc >= 0) {
        return rc;
    }
    if (!ctl_catalog_open(&c, o.db)) {
        return 1;
    }
    rc = catalog_snapshot(c, 0, &s, &err) ? run(&o, c, s) : ctl_catalog_failed(&err);
    snapshot_release(s);
    catalog_close(c);
    return rc;
}
