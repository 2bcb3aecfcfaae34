/* ctl_catalog_write.c - verbs that make versions: build, set, unset, rollback, import, upgrade. */
#include "gateway/ctl/ctl_catalog.h"

#include "catalog/versions.h"
#include "gateway/base/program.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

/* Options of every verb here. */
struct options {
    const char *db, *author, *reason;
    char **words;
    int n_words;
};

static const char build_help[] =
    "usage: isothermctl catalog build SRC... -o DB [--author NAME] [--reason TEXT]\n"
    "\n"
    "Reads provider files (catalog/providers/NAME.json) into a new version of DB, which is made "
    "where "
    "it is\nnot there. The same content adds none. What is wrong in a file is named with file, "
    "claim "
    "and field,\nand nothing is written. Overrides made with 'catalog set' are carried on.\n";

/* 0 done, 1 help was asked for, -1 wrong. */
static int parse_options(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"db", required_argument, NULL, 'o'},
        {"author", required_argument, NULL, 'a'},
        {"reason", required_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;
    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":o:h", longs, NULL)) != -1) {
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
        case 'h':
            return 1;
        default:
            (void)program_bad_option("isothermctl catalog", c, argv);
            return -1;
        }
    }
    o->words = argv + optind;
    o->n_words = argc - optind;
    return 0;
}

int ctl_catalog_build(int argc, char **argv)
{
    struct options o = {0};
    struct catalog_error err = {0};
    struct catalog_version v;
    char created[32];
    int rc = parse_options(&o, argc, argv);
    if (rc > 0) {
        (void)fputs(build_help, stdout);
    }
    if (rc != 0) {
        return rc > 0 ? 0 : 2;
    }
    if (o.n_words == 0 || !o.db || !*o.db) {
        return ctl_catalog_usage("build", "it needs source files and -o DB");
    }
    ctl_catalog_now(created);
    struct version_stamp stamp = {.author = ctl_catalog_author(o.author),
                                  .reason = o.reason ? o.reason : "built from files",
                                  .created = created};
    if (!catalog_build(o.db, (const char *const *)o.words, (size_t)o.n_words, &stamp, &v, &err)) {
        return ctl_catalog_failed(&err);
    }
    (void)printf("catalog version %lld: %lld claims, %.12s%s\n", (long long)v.number,
                 (long long)v.n_claims, v.hash,
                 strcmp(v.created, created) == 0 ? "" : " (unchanged)");
    return 0;
}
