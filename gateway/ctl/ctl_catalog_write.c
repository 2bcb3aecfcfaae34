/* ctl_catalog_write.c - verbs that make versions: build, upgrade, unset, rollback, import (`set` is
 * in ctl_catalog_set.c). */
#include "gateway/ctl/ctl_catalog_write.h"

#include "catalog/claim_json.h"
#include "gateway/base/paths.h"
#include "gateway/base/program.h"
#include "gateway/ctl/ctl_catalog_read.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Options of every verb here. */
struct options {
    const char *db, *author, *reason, *endpoint;
    bool is_json;
    char **words;
    int n_words;
};

static const char build_help[] =
    "usage: isothermctl catalog build SRC... -o DB [--author NAME] [--reason TEXT]\n"
    "\n"
    "Reads provider files (catalog/providers/NAME.json) into a new version of DB, which is made "
    "where it is\nnot there. The same content adds none. What is wrong in a file is named with "
    "file, claim and field,\nand nothing is written. Overrides made with 'catalog set' are carried "
    "on.\n";
static const char upgrade_help[] =
    "usage: isothermctl catalog upgrade [SHIPPED.db] [--db DB] [--author NAME] [--reason TEXT] "
    "[--json]\n"
    "\n"
    "Takes the newest shipped version of SHIPPED.db (default: the catalog that came with the "
    "program) into\nthe machine's own catalog, or DB. What was set here is kept: a claim that was "
    "changed on both sides\nstays as it was set, and is listed by 'catalog check' until it is set "
    "or unset again.\n";
static const char unset_help[] =
    "usage: isothermctl catalog unset PROVIDER [MODELS [PARAM]] [--endpoint E] [--db DB]\n"
    "                                 [--author NAME] [--reason TEXT] [--json]\n"
    "\n"
    "Takes back what was set on this machine: what the shipped data say holds again. MODELS is as "
    "given to\n'catalog set'; without it everything of the provider is meant. Exit status 1: "
    "nothing was set there.\n";
static const char rollback_help[] =
    "usage: isothermctl catalog rollback N [--db DB] [--author NAME] [--reason TEXT] [--json]\n"
    "\n"
    "Makes a new version with the content of version N ('catalog versions' lists them). Nothing is "
    "lost: the\nversions since then stay. Shipped data that are newer than those of today end "
    "it.\n";
static const char import_help[] =
    "usage: isothermctl catalog import FILE [--db DB] [--author NAME] [--reason TEXT] [--json]\n"
    "\n"
    "Takes in a document of 'catalog export': a whole version as shipped data, overrides as one "
    "local version\nwith all of them. The file is checked as sources are, and its hash; what is "
    "wrong is named, and nothing\nis written.\n";

/* 0 done, 1 help was asked for, -1 wrong. */
static int parse_options(struct options *o, const char *verb, int argc, char **argv)
{
    static const struct option longs[] = {
        {"db", required_argument, NULL, 'o'},
        {"author", required_argument, NULL, 'a'},
        {"reason", required_argument, NULL, 'r'},
        {"endpoint", required_argument, NULL, 'e'},
        {"json", no_argument, NULL, 'j'},
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
        case 'e':
            o->endpoint = optarg;
            break;
        case 'j':
            o->is_json = true;
            break;
        case 'h':
            return 1;
        default:
            (void)program_bad_option("isothermctl catalog", c, argv);
            return -1;
        }
    }
    if (o->endpoint && strcmp(verb, "unset") != 0) {
        (void)ctl_catalog_usage(verb, "it takes no --endpoint");
        return -1;
    }
    o->words = argv + optind;
    o->n_words = argc - optind;
    return 0;
}

/* Options and words; `needed` names the first, or is NULL. -1: go on, else the exit status, said.
 */
static int begin(struct options *o, const char *verb, const char *help, const char *needed,
                 int n_max, int argc, char **argv)
{
    char line[64];
    int rc = parse_options(o, verb, argc, argv);
    if (rc > 0) {
        (void)fputs(help, stdout);
        return 0;
    }
    if (rc < 0) {
        return 2;
    }
    if (needed && o->n_words == 0) {
        (void)snprintf(line, sizeof line, "it needs %s", needed);
        return ctl_catalog_usage(verb, line);
    }
    if (o->n_words > n_max) {
        return ctl_catalog_usage(verb, "too many words");
    }
    return -1;
}

/* ---- what they share */

void write_stamp_init(struct write_stamp *s, const char *author, const char *reason)
{
    ctl_catalog_now(s->created);
    s->stamp = (struct version_stamp){
        .author = ctl_catalog_author(author), .reason = reason, .created = s->created};
}

bool write_models(const char *given, char out[WRITE_MODELS_MAX])
{
    if (strcmp(given, "*") == 0 || given[0] == '^') {
        return (size_t)snprintf(out, WRITE_MODELS_MAX, "%s", given) < WRITE_MODELS_MAX;
    }
    return catalog_models_exact(given, out, WRITE_MODELS_MAX);
}

static bool make_folders(const char *path)
{
    if (!paths_make_folders(path, 0700)) {
        (void)fprintf(stderr,
                      "isothermctl: the folder of '%s' cannot be made: %s: name a catalog with "
                      "--db\n",
                      path, strerror(errno));
        return false;
    }
    return true;
}

bool ctl_catalog_own(char out[CTL_PATH_MAX])
{
    struct catalog_error err = {0};
    struct stat st;
    struct write_stamp s;
    char shipped[CTL_PATH_MAX];
    paths_state("catalog.db", out, CTL_PATH_MAX);
    if (stat(out, &st) == 0) {
        return true;
    }
    write_stamp_init(&s, NULL, "came with the program");
    (void)paths_find("catalog.db", shipped, sizeof shipped); /* for an error text too */
    return make_folders(out) && (catalog_upgrade(out, shipped, &s.stamp, NULL, NULL, &err) ||
                                 ctl_catalog_failed(&err) == 0);
}

/* The newest version of a database; 0: there is none, or no database. */
static int64_t newest_of(const char *db)
{
    struct catalog_error err = {0};
    struct catalog *c;
    int64_t number = 0;
    if (catalog_open_quick(&c, db, &err)) {
        if (!catalog_newest(c, &number, &err)) {
            number = 0;
        }
        catalog_close(c);
    }
    return number;
}

static bool add_difference(const struct version_difference *d, void *ud)
{
    return json_array_append_new(ud, difference_json(d)) == 0;
}

static int report_json(const char *db, int64_t before, const struct catalog_version *v,
                       bool is_tried)
{
    struct catalog_error err = {0};
    struct catalog *c;
    json_t *list = json_array();
    bool ok = list && catalog_open_quick(&c, db, &err);
    if (ok) {
        ok = before == 0 || catalog_diff(c, before, v->number, add_difference, list, &err);
        catalog_close(c);
    }
    if (!ok) {
        json_decref(list);
        (void)catalog_fail(&err, CATALOG_NOMEM, "out of memory");
        return ctl_catalog_failed(&err);
    }
    json_t *o =
        json_pack("{s:I, s:s, s:s, s:I, s:I, s:b, s:b, s:o}", "version", (json_int_t)v->number,
                  "hash", v->hash, "kind", version_kind_name(v->kind), "claims",
                  (json_int_t)v->n_claims, "conflicts", (json_int_t)v->n_conflicts, "changed",
                  v->number != before, "dry_run", is_tried, "differences", list);
    ok = o && read_print_json(o) && putchar('\n') != EOF;
    json_decref(o);
    return ok ? 0 : read_no_memory();
}

static void print_conflicts(const struct catalog_version *v)
{
    if (v->n_conflicts) {
        (void)printf("%lld conflict%s: see 'isothermctl catalog check'\n",
                     (long long)v->n_conflicts, v->n_conflicts == 1 ? "" : "s");
    }
}

int write_report(const char *db, int64_t before, const struct catalog_version *v, bool is_tried,
                 bool is_json)
{
    char from[24], to[24];
    int rc = 0;
    if (is_json) {
        return report_json(db, before, v, is_tried);
    }
    if (before && before != v->number) {
        (void)snprintf(from, sizeof from, "%lld", (long long)before);
        (void)snprintf(to, sizeof to, "%lld", (long long)v->number);
        char *words[] = {"diff", from, to, "--db", (char *)db, NULL}; /* getopt permutes, no more */
        rc = ctl_catalog_diff(5, words);
    }
    if (is_tried) {
        (void)printf("tried only: nothing was written\n");
        return rc;
    }
    (void)printf("catalog version %lld: %lld claims, %.12s%s\n", (long long)v->number,
                 (long long)v->n_claims, v->hash, v->number == before ? " (unchanged)" : "");
    print_conflicts(v);
    if (v->number != before) {
        (void)printf("a daemon that runs takes it up within a second\n");
    }
    return rc;
}

/* ---- the verbs */

int ctl_catalog_build(int argc, char **argv)
{
    struct options o = {0};
    struct catalog_error err = {0};
    struct catalog_version v;
    struct write_stamp s;
    int rc = parse_options(&o, "build", argc, argv);
    if (rc > 0) {
        (void)fputs(build_help, stdout);
    }
    if (rc != 0) {
        return rc > 0 ? 0 : 2;
    }
    if (o.n_words == 0 || !o.db || !*o.db) {
        return ctl_catalog_usage("build", "it needs source files and -o DB");
    }
    int64_t before = newest_of(o.db);
    write_stamp_init(&s, o.author, o.reason ? o.reason : "built from files");
    if (!catalog_build(o.db, (const char *const *)o.words, (size_t)o.n_words, &s.stamp, &v, &err)) {
        return ctl_catalog_failed(&err);
    }
    if (o.is_json) {
        return report_json(o.db, before, &v, false);
    }
    (void)printf("catalog version %lld: %lld claims, %.12s%s\n", (long long)v.number,
                 (long long)v.n_claims, v.hash, v.number == before ? " (unchanged)" : "");
    print_conflicts(&v);
    return 0;
}

int ctl_catalog_upgrade(int argc, char **argv)
{
    struct options o = {0};
    struct catalog_error err = {0};
    struct catalog_version v;
    struct write_stamp s;
    char path[CTL_PATH_MAX], shipped[CTL_PATH_MAX];
    int rc = begin(&o, "upgrade", upgrade_help, NULL, 1, argc, argv);
    if (rc >= 0) {
        return rc;
    }
    (void)paths_find("catalog.db", shipped, sizeof shipped); /* for an error text too */
    if (o.db && !ctl_catalog_path(o.db, true, path)) {
        return 1;
    }
    if (!o.db) {
        paths_state("catalog.db", path, sizeof path);
        if (!make_folders(path)) {
            return 1;
        }
    }
    int64_t before = newest_of(path);
    write_stamp_init(&s, o.author, o.reason ? o.reason : "upgraded to shipped data");
    if (!catalog_upgrade(path, o.n_words ? o.words[0] : shipped, &s.stamp, NULL, &v, &err)) {
        return ctl_catalog_failed(&err);
    }
    return write_report(path, before, &v, false, o.is_json);
}

/* A slip in a name is told as such: "nothing was set" would be true and no help. */
static bool check_names(const char *db, const struct options *o)
{
    struct catalog_error err = {0};
    struct catalog *c;
    if (!catalog_open_quick(&c, db, &err)) {
        return true; /* what is wrong with it is told by who opens it to write */
    }
    bool ok = catalog_check_names(c, CATALOG_ANY_VERSION, o->words[0],
                                  o->n_words > 2 ? o->words[2] : NULL, &err);
    catalog_close(c);
    return ok || ctl_catalog_failed(&err) == 0;
}

int ctl_catalog_unset(int argc, char **argv)
{
    struct options o = {0};
    struct catalog_error err = {0};
    struct catalog_version v;
    struct write_stamp s;
    char path[CTL_PATH_MAX], models[WRITE_MODELS_MAX];
    int rc = begin(&o, "unset", unset_help, "PROVIDER", 3, argc, argv);
    if (rc >= 0) {
        return rc;
    }
    if (o.n_words > 1 && !write_models(o.words[1], models)) {
        return ctl_catalog_usage("unset", "MODELS is too long");
    }
    if (!ctl_catalog_path(o.db, true, path)) {
        return 1;
    }
    struct version_override what = {.provider = o.words[0],
                                    .models = o.n_words > 1 ? models : NULL,
                                    .param = o.n_words > 2 ? o.words[2] : NULL,
                                    .endpoint = o.endpoint};
    if (!check_names(path, &o)) {
        return 1;
    }
    int64_t before = newest_of(path);
    write_stamp_init(&s, o.author, o.reason ? o.reason : "taken back");
    if (!catalog_unset(path, &what, &s.stamp, &v, &err)) {
        return ctl_catalog_failed(&err);
    }
    return write_report(path, before, &v, false, o.is_json);
}

int ctl_catalog_rollback(int argc, char **argv)
{
    struct options o = {0};
    struct catalog_error err = {0};
    struct catalog_version v;
    struct write_stamp s;
    char path[CTL_PATH_MAX], reason[64];
    int64_t number;
    int rc = begin(&o, "rollback", rollback_help, "N", 1, argc, argv);
    if (rc >= 0) {
        return rc;
    }
    if (!ctl_catalog_number(o.words[0], &number)) {
        return ctl_catalog_usage("rollback", "N is a number of 'catalog versions'");
    }
    if (!ctl_catalog_path(o.db, true, path)) {
        return 1;
    }
    int64_t before = newest_of(path);
    (void)snprintf(reason, sizeof reason, "back to version %lld", (long long)number);
    write_stamp_init(&s, o.author, o.reason ? o.reason : reason);
    if (!catalog_rollback(path, number, &s.stamp, &v, &err)) {
        return ctl_catalog_failed(&err);
    }
    return write_report(path, before, &v, false, o.is_json);
}

int ctl_catalog_import(int argc, char **argv)
{
    struct options o = {0};
    struct catalog_error err = {0};
    struct catalog_version v;
    struct write_stamp s;
    char path[CTL_PATH_MAX];
    int rc = begin(&o, "import", import_help, "FILE", 1, argc, argv);
    if (rc >= 0) {
        return rc;
    }
    if (!ctl_catalog_path(o.db, true, path)) {
        return 1;
    }
    int64_t before = newest_of(path);
    write_stamp_init(&s, o.author, o.reason ? o.reason : "imported from a file");
    if (!catalog_import(path, o.words[0], &s.stamp, &v, &err)) {
        return ctl_catalog_failed(&err);
    }
    return write_report(path, before, &v, false, o.is_json);
}
