/* ctl_catalog.c - the catalog on the command line: options, then one function for each verb, then
 * tables or JSON. */
#include "gateway/ctl/ctl_catalog.h"

#include "catalog/catalog.h"
#include "gateway/base/paths.h"
#include "gateway/base/program.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CTL_PATH_MAX 4096

struct options {
    const char *db, *author, *reason, *model, *param;
    int64_t version;
    bool is_json;
    char default_db[CTL_PATH_MAX];
    char **words; /* what is no option, borrowed from argv */
    int n_words;
};

static const char help[] =
    "usage: isothermctl catalog build SRC... -o DB [--author NAME] [--reason TEXT]\n"
    "       isothermctl catalog versions [--db DB] [--json]\n"
    "       isothermctl catalog show [PROVIDER] [--model M] [--param P] [--version N] [--db DB] "
    "[--json]\n"
    "\n"
    "build     read provider files into a new version of DB; the same content adds none\n"
    "versions  what was built when, by whom and why\n"
    "show      what providers take: of every model, or with --model of the one\n"
    "The default DB is catalog.db beside the program.\n";

static int usage(const char *text)
{
    (void)fprintf(stderr, "isothermctl: %s: see 'isothermctl catalog --help'\n", text);
    return 2;
}

static int failed(const struct catalog_error *err)
{
    (void)fprintf(stderr, "isothermctl: %s\n", err->text);
    return 1;
}

static bool parse_number(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || end == text || *end || n < 1) {
        return false;
    }
    *out = n;
    return true;
}

/* 0 done, 1 help was asked for, -1 wrong. */
static int parse_options(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"db", required_argument, NULL, 'o'},
        {"author", required_argument, NULL, 'a'},
        {"reason", required_argument, NULL, 'r'},
        {"model", required_argument, NULL, 'm'},
        {"param", required_argument, NULL, 'p'},
        {"version", required_argument, NULL, 'v'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;
    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":o:m:h", longs, NULL)) != -1) {
        switch (c) {
        case 'o':
            o->db = optarg;
            break;
        case 'a':
            o->author = optarg;
            break;
        case 'r':
            o->reason = optarg;
            break;
        case 'm':
            o->model = optarg;
            break;
        case 'p':
            o->param = optarg;
            break;
        case 'j':
            o->is_json = true;
            break;
        case 'h':
            return 1;
        case 'v':
            if (!parse_number(optarg, &o->version)) {
                (void)usage("--version takes a number from 1");
                return -1;
            }
            break;
        default:
            (void)program_bad_option("isothermctl catalog", c, argv);
            return -1;
        }
    }
    o->words = argv + optind;
    o->n_words = argc - optind;
    return 0;
}

static int print_json(json_t *j)
{
    bool ok = j && json_dumpf(j, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF;
    json_decref(j);
    if (!ok) {
        (void)fprintf(stderr, "isothermctl: cannot write the answer\n");
    }
    return ok ? 0 : 1;
}

/* ---- build */

static int build(const struct options *o)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    char created[32];
    time_t now = time(NULL);
    struct tm tm;
    if (o->n_words == 0 || !o->db || !*o->db) {
        return usage("catalog build needs source files and -o DB");
    }
    const char *author = o->author ? o->author : getenv("USER");
    (void)strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    if (!catalog_build(o->db, (const char *const *)o->words, (size_t)o->n_words,
                       author && *author ? author : "unknown",
                       o->reason ? o->reason : "built from files", created, &v, &err)) {
        return failed(&err);
    }
    (void)printf("catalog version %lld: %lld claims, %.12s%s\n", (long long)v.number,
                 (long long)v.n_claims, v.hash,
                 strcmp(v.created, created) == 0 ? "" : " (unchanged)");
    return 0;
}

/* ---- versions */

static json_t *version_json(const struct catalog_version *v)
{
    return json_pack("{s:I, s:I, s:s, s:s, s:s, s:s, s:I}", "version", (json_int_t)v->number,
                     "parent", (json_int_t)v->parent, "hash", v->hash, "created", v->created,
                     "author", v->author, "reason", v->reason, "claims", (json_int_t)v->n_claims);
}

static bool add_version(const struct catalog_version *v, void *ud)
{
    return json_array_append_new(ud, version_json(v)) == 0;
}

static bool print_version(const struct catalog_version *v, void *ud)
{
    (void)ud;
    (void)printf("%7lld  %-20s  %6lld  %.12s  %-16s  %s\n", (long long)v->number, v->created,
                 (long long)v->n_claims, v->hash, v->author, v->reason);
    return true;
}

static int versions(const struct options *o, struct catalog *c)
{
    struct catalog_error err = {0};
    json_t *list = o->is_json ? json_array() : NULL;
    if (!o->is_json) {
        (void)printf("%7s  %-20s  %6s  %-12s  %-16s  %s\n", "VERSION", "CREATED", "CLAIMS", "HASH",
                     "AUTHOR", "REASON");
    }
    if (!catalog_versions(c, o->is_json ? add_version : print_version, list, &err)) {
        json_decref(list);
        return failed(&err);
    }
    return o->is_json ? print_json(list) : 0;
}

/* ---- show */

static json_t *text_or_null(const char *s)
{
    return s ? json_string(s) : json_null();
}

static json_t *number_or_null(bool has, double x)
{
    if (!has) {
        return json_null();
    }
    bool is_whole = x < 9e15 && x > -9e15 && x == (double)(int64_t)x;
    return is_whole ? json_integer((json_int_t)x) : json_real(x);
}

static json_t *shared(const json_t *j)
{
    return j ? json_incref((json_t *)j) : json_null(); /* jansson counts without const */
}

static json_t *when_json(const struct claim_condition *w)
{
    if (!w->param) {
        return json_null();
    }
    return json_pack("{s:s, s:o}", "param", w->param, w->is_negated ? "not_in" : "in",
                     shared(w->values));
}

static json_t *claim_json(const struct claim *c)
{
    return json_pack(
        "{s:I, s:s, s:s, s:s, s:s, s:o, s:s, s:b, s:o, s:o, s:b, s:b, s:b, s:o, s:o, s:I, s:I, "
        "s:o, "
        "s:o, s:o, s:s, s:b, s:o, s:o, s:s, s:s, s:s, s:o}",
        "id", (json_int_t)c->id, "provider", c->provider, "models", c->models, "endpoint",
        c->endpoint, "param", c->param, "wire", text_or_null(c->wire), "support",
        claim_support_name(c->support), "required", c->is_required, "min",
        number_or_null(c->has_min, c->min), "max", number_or_null(c->has_max, c->max),
        "min_exclusive", c->min_exclusive, "max_exclusive", c->max_exclusive, "integer",
        c->is_integer, "values", shared(c->values), "default", value_json(c->fallback), "items_max",
        (json_int_t)c->items_max, "len_max", (json_int_t)c->len_max, "conflicts",
        shared(c->conflicts), "needs", shared(c->needs), "when", when_json(&c->when), "variant",
        claim_variant_name(c->variant), "derived", c->is_derived, "valid_from",
        text_or_null(c->valid_from), "valid_to", text_or_null(c->valid_to), "source", c->source,
        "as_of", c->as_of, "confidence", c->confidence, "note", text_or_null(c->note));
}

/* "0..2", or with brackets where a bound itself is not taken: "(0..1]". */
static size_t bounds_text(const struct claim *c, char *out, size_t cap)
{
    bool is_closed = !c->min_exclusive && !c->max_exclusive;
    char lo[32] = "", hi[32] = "";
    if (!c->has_min && !c->has_max) {
        return 0;
    }
    if (c->has_min) {
        (void)snprintf(lo, sizeof lo, "%.10g", c->min);
    }
    if (c->has_max) {
        (void)snprintf(hi, sizeof hi, "%.10g", c->max);
    }
    const char *left = c->min_exclusive ? "(" : "[", *right = c->max_exclusive ? ")" : "]";
    return (size_t)snprintf(out, cap, "%s%s..%s%s", is_closed ? "" : left, lo, hi,
                            is_closed ? "" : right);
}

/* Range, values and limits of a claim in a few characters: "0..2", "low|high", "4 items". */
static void range_text(const struct claim *c, char *out, size_t cap)
{
    out[0] = '\0';
    size_t n = bounds_text(c, out, cap);
    for (size_t i = 0; i < json_array_size(c->values) && n < cap; i++) {
        char *text = json_dumps(json_array_get(c->values, i), JSON_ENCODE_ANY);
        n += (size_t)snprintf(out + n, cap - n, "%s%s", i ? "|" : n ? " " : "", text ? text : "?");
        free(text);
    }
    if (c->items_max && n < cap) {
        n += (size_t)snprintf(out + n, cap - n, "%s%lld items", n ? " " : "",
                              (long long)c->items_max);
    }
    if (c->len_max && n < cap) {
        (void)snprintf(out + n, cap - n, "%s%lld chars", n ? " " : "", (long long)c->len_max);
    }
}

static void print_claim(const struct claim *c)
{
    char range[96];
    range_text(c, range, sizeof range);
    (void)printf("%6lld  %-10s  %-27s  %-8s  %-24s  %-24s  %-10s  %-6s  %s%s%s\n", (long long)c->id,
                 c->provider, c->param, claim_support_name(c->support), c->wire ? c->wire : "-",
                 range[0] ? range : "-", c->as_of, c->confidence, c->models,
                 c->variant == CLAIM_CURRENT ? "" : "  ",
                 c->variant == CLAIM_CURRENT ? "" : claim_variant_name(c->variant));
}

struct shown {
    json_t *list; /* NULL: a table */
    size_t n;
    bool has_memory;
};

static bool show_claim(const struct claim *c, void *ud)
{
    struct shown *s = ud;
    s->n++;
    if (!s->list) {
        print_claim(c);
        return true;
    }
    s->has_memory = json_array_append_new(s->list, claim_json(c)) == 0;
    return s->has_memory;
}

static int show(const struct options *o, struct catalog *c)
{
    struct catalog_error err = {0};
    struct snapshot *s;
    const char *provider = o->n_words > 0 ? o->words[0] : NULL;
    if (!catalog_snapshot(c, o->version, &s, &err)) {
        return failed(&err);
    }
    if (provider && !snapshot_provider(s, provider)) {
        (void)fprintf(stderr, "isothermctl: the catalog has no provider '%s'\n", provider);
        snapshot_release(s);
        return 1;
    }
    struct shown shown = {.list = o->is_json ? json_array() : NULL, .has_memory = true};
    if (!o->is_json) {
        (void)printf("%6s  %-10s  %-27s  %-8s  %-24s  %-24s  %-10s  %-6s  %s\n", "CLAIM",
                     "PROVIDER", "PARAMETER", "SUPPORT", "WIRE", "RANGE", "AS OF", "TRUST",
                     "MODELS");
    }
    snapshot_each(s, provider, o->model, o->param, show_claim, &shown);
    int rc = 0;
    if (o->is_json) {
        rc = print_json(shown.has_memory ? shown.list : NULL);
    } else if (shown.n == 0) {
        (void)fprintf(stderr, "isothermctl: no claim in version %lld matches\n",
                      (long long)snapshot_version(s));
        rc = 1;
    }
    snapshot_release(s);
    return rc;
}

/* ---- verbs */

static int with_catalog(const struct options *o,
                        int (*verb)(const struct options *, struct catalog *))
{
    struct catalog_error err = {0};
    struct catalog *c;
    if (!catalog_open(&c, o->db ? o->db : o->default_db, &err)) {
        return failed(&err);
    }
    int rc = verb(o, c);
    catalog_close(c);
    return rc;
}

int ctl_catalog(int argc, char **argv)
{
    struct options o = {0};
    if (argc < 2) {
        return usage("catalog needs a verb");
    }
    int rc = parse_options(&o, argc - 1, argv + 1);
    if (rc > 0 || strcmp(argv[1], "--help") == 0) {
        (void)fputs(help, stdout);
        return 0;
    }
    if (rc < 0) {
        return 2; /* what is wrong has been said */
    }
    (void)paths_find("catalog.db", o.default_db, sizeof o.default_db); /* for an error text too */
    if (strcmp(argv[1], "build") == 0) {
        return build(&o);
    }
    if (strcmp(argv[1], "versions") == 0) {
        return o.n_words == 0 ? with_catalog(&o, versions) : usage("versions takes no words");
    }
    if (strcmp(argv[1], "show") == 0) {
        return o.n_words <= 1 ? with_catalog(&o, show) : usage("show takes one provider");
    }
    (void)fprintf(stderr,
                  "isothermctl: catalog has no verb '%.64s': see 'isothermctl catalog --help'\n",
                  argv[1]);
    return 2;
}
