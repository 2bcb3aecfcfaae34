/* ctl_catalog.c - the catalog on the command line: the table of verbs, and what they share. */
#include "gateway/ctl/ctl_catalog.h"
#include "gateway/ctl/ctl_catalog_write.h"

#include "gateway/base/paths.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what;
} verbs[] = {
    {"build", ctl_catalog_build, "read provider files into a new version"},
    {"upgrade", ctl_catalog_upgrade, "take in shipped data, what was set here is kept"},
    {"set", ctl_catalog_set, "override what is believed of one parameter"},
    {"unset", ctl_catalog_unset, "take back what was set here"},
    {"rollback", ctl_catalog_rollback, "make a new version with the content of an older one"},
    {"import", ctl_catalog_import, "take in what 'export' has written"},
    {"versions", ctl_catalog_versions, "what was made when, by whom and why"},
    {"show", ctl_catalog_show, "what providers take: now, as was believed once, as held on a day"},
    {"diff", ctl_catalog_diff, "what differs between two versions"},
    {"history", ctl_catalog_history, "every claim that was ever held about a parameter"},
    {"export", ctl_catalog_export, "a version, or what was set here, as one JSON document"},
    {"check", ctl_catalog_check, "stale, contradicted, disputed, overlapping, impossible, ..."},
    {"probe", ctl_catalog_probe, "ask a provider itself whether claims hold; costs money"},
    {"compare", ctl_catalog_compare, "another catalog held against this one"},
};
#define N_VERBS (sizeof verbs / sizeof verbs[0])

static void print_help(void)
{
    (void)fputs("usage: isothermctl catalog VERB ...\n\n", stdout);
    for (size_t i = 0; i < N_VERBS; i++) {
        (void)printf("  %-10s %s\n", verbs[i].name, verbs[i].what);
    }
    (void)fputs("\n'isothermctl catalog VERB --help' says more. The database is the machine's own "
                "(catalog.db in the\nstate folder) where there is one, else the one that came with "
                "the program; --db names another.\n",
                stdout);
}

int ctl_catalog(int argc, char **argv)
{
    if (argc < 2) {
        (void)fprintf(stderr, "isothermctl: catalog needs a verb: see 'isothermctl catalog "
                              "--help'\n");
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help();
        return 0;
    }
    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) {
            return verbs[i].run(argc - 1, argv + 1);
        }
    }
    (void)fprintf(stderr,
                  "isothermctl: catalog has no verb '%.64s': see 'isothermctl catalog --help'\n",
                  argv[1]);
    return 2;
}

/* ---- what the verbs share */

bool ctl_catalog_path(const char *given, bool for_writing, char out[CTL_PATH_MAX])
{
    if (given) {
        if ((size_t)snprintf(out, CTL_PATH_MAX, "%s", given) < CTL_PATH_MAX && *given) {
            return true;
        }
        (void)fprintf(stderr, "isothermctl: --db takes the name of a file\n");
        return false;
    }
    if (for_writing) {
        return ctl_catalog_own(out);
    }
    paths_state("catalog.db", out, CTL_PATH_MAX);
    if (access(out, F_OK) != 0) {
        (void)paths_find("catalog.db", out, CTL_PATH_MAX); /* for an error text too */
    }
    return true;
}

bool ctl_catalog_open(struct catalog **out, const char *given)
{
    struct catalog_error err = {0};
    char path[CTL_PATH_MAX];
    if (!ctl_catalog_path(given, false, path)) {
        return false;
    }
    if (!catalog_open(out, path, &err)) {
        (void)ctl_catalog_failed(&err);
        return false;
    }
    return true;
}

int ctl_catalog_failed(const struct catalog_error *err)
{
    (void)fprintf(stderr, "isothermctl: %s\n", err->text);
    return 1;
}

int ctl_catalog_usage(const char *verb, const char *text)
{
    (void)fprintf(stderr, "isothermctl: catalog %s: %s: see 'isothermctl catalog %s --help'\n",
                  verb, text, verb);
    return 2;
}

bool ctl_catalog_number(const char *text, int64_t *out)
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

void ctl_catalog_now(char out[32])
{
    time_t now = time(NULL);
    struct tm tm;
    (void)strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
}

const char *ctl_catalog_author(const char *given)
{
    const char *author = given ? given : getenv("USER");
    if (author && *author) {
        return author;
    }
    const struct passwd *user = getpwuid(geteuid()); /* a service has no $USER */
    return user && user->pw_name && *user->pw_name ? user->pw_name : "unknown";
}

int ctl_print_json(json_t *j)
{
    bool ok = j && json_dumpf(j, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF;
    json_decref(j);
    if (!ok) {
        (void)fprintf(stderr, "isothermctl: cannot write the answer\n");
    }
    return ok ? 0 : 1;
}
