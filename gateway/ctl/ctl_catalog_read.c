/* ctl_catalog_read.c - verbs that read the catalog: versions, show, diff, history, export. */
#include "gateway/ctl/ctl_catalog.h"

#include "catalog/claim_json.h"
#include "gateway/base/program.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

struct options {
    const char *db, *model, *param;
    int64_t version;
    bool is_json;
    char **words; /* what is no option, borrowed from argv */
    int n_words;
};

static const char help[] =
    "usage: isothermctl catalog versions [--db DB] [--json]\n"
    "       isothermctl catalog show [PROVIDER] [--model M] [--param P] [--version N] [--db DB] "
    "[--json]\n";

/* 0 done, 1 help was asked for, -1 wrong: said. */
static int parse_options(struct options *o, const char *verb, int argc, char **argv)
{
    static const struct option longs[] = {
        {"db", required_argument, NULL, 'o'},
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
            if (!ctl_catalog_number(optarg, &o->version)) {
                (void)ctl_catalog_usage(verb, "--version takes a number from 1");
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

/* Options and the open catalog: -1 go on; else the exit status. */
static int begin(struct options *o, const char *verb, int n_words_max, struct catalog **c, int argc,
                 char **argv)
{
    int rc = parse_options(o, verb, argc, argv);
    if (rc > 0) {
        (void)fputs(help, stdout);
        return 0;
    }
    if (rc < 0) {
        return 2;
    }
    if (o->n_words > n_words_max) {
        return ctl_catalog_usage(verb, "too many words");
    }
    return ctl_catalog_open(c, o->db) ? -1 : 1;
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

int ctl_catalog_versions(int argc, char **argv)
{
    struct options o = {0};
    struct catalog_error err = {0};
    struct catalog *c;
    int rc = begin(&o, "versions", 0, &c, argc, argv);
    if (rc >= 0) {
        return rc;
    }
    json_t *list = o.is_json ? json_array() : NULL;
    if (!o.is_json) {
        (void)printf("%7s  %-20s  %6s  %-12s  %-16s  %s\n", "VERSION", "CREATED", "CLAIMS", "HASH",
                     "AUTHOR", "REASON");
    }
    bool ok = catalog_versions(c, o.is_json ? add_version : print_version, list, &err);
    catalog_close(c);
    if (!ok) {
        json_decref(list);
        return ctl_catalog_failed(&err);
    }
    return o.is_json ? ctl_print_json(list) : 0;
}

/* ---- show */

static void print_claim(const struct claim *c)
{
    char range[96];
    claim_range_text(c, range, sizeof range);
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
        return ctl_catalog_failed(&err);
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
        rc = ctl_print_json(shown.has_memory ? shown.list : NULL);
    } else if (shown.n == 0) {
        (void)fprintf(stderr, "isothermctl: no claim in version %lld matches\n",
                      (long long)snapshot_version(s));
        rc = 1;
    }
    snapshot_release(s);
    return rc;
}

int ctl_catalog_show(int argc, char **argv)
{
    struct options o = {0};
    struct catalog *c;
    int rc = begin(&o, "show", 1, &c, argc, argv);
    if (rc < 0) {
        rc = show(&o, c);
        catalog_close(c);
    }
    return rc;
}
