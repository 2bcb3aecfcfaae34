/* ctl_catalog_check.c - `isothermctl catalog check`: what is wrong or doubtful in the catalog.
 *
 * The models in use come from the configuration, from the command line, and from the records of
 * the last days: names as clients wrote them, brought to the catalog's providers as a request is.
 * A name in the records that leads nowhere was a 404 and is left out; one in the configuration is
 * a finding.
 *
 * Findings are gathered first: the JSON needs them whole, and stale claims are said by family.
 */
#include "gateway/ctl/ctl_catalog.h"

#include "catalog/check.h"
#include "catalog/claim_json.h"
#include "catalog/versions.h"
#include "gateway/base/config.h"
#include "gateway/base/limits.h"
#include "gateway/base/program.h"
#include "gateway/io/records.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FINDINGS_MAX   50000 /* 20 MB; a whole catalog that is stale has 5,000 */
#define MODELS_MAX     20000
#define IN_USE_DAYS    30
#define STALE_DAYS_MAX 36500
#define COULD_NOT_TELL 3

static const char help[] =
    "usage: isothermctl catalog check [--db DB] [--config FILE] [--provider P] [--stale-days N]\n"
    "                                 [--skip KIND,KIND] [--models M,M] [--records FILE] [--json] "
    "[--verbose]\n"
    "\n"
    "Lists what is wrong or doubtful in the newest version (or the one that FILE pins), by kind:\n"
    "\n"
    "  stale         last seen to be so more than N days ago; what has ended is left alone\n"
    "  contradicted  a provider did otherwise in a probe or in live traffic\n"
    "  disputed      two sources disagree; both are shown, with the one that is planned with\n"
    "  overlapping   two claims hold for one model and differ, and nothing decides between them\n"
    "  impossible    nothing fits the claim\n"
    "  sourceless    nobody says so, or nobody says when\n"
    "  unmatched     a model in use that no claim knows: of FILE's providers and aliases, of "
    "--models,\n"
    "                and of the records of the last 30 days\n"
    "  conflict      an upgrade and a local override changed the same claim\n"
    "\n"
    "N is catalog_stale_days of FILE (180) unless given; 0: nothing is stale. --verbose lists each "
    "stale claim.\n"
    "The exit status is 0 for nothing, 1 when something was found that is not skipped, 2 for wrong "
    "usage,\n"
    "3 when it could not tell.\n";

struct options {
    const char *db, *config, *provider, *records, *models;
    long stale_days; /* -1: not given */
    unsigned skip;
    bool is_json, is_verbose;
};

/* What is found, in order. */
struct findings {
    struct finding *list; /* owned */
    size_t n, cap, n_of[CHECK_COUNT];
    bool is_cut, has_failed;
};

/* Names of models in use, as the catalog's providers have them. */
struct names {
    char **list; /* owned, each too */
    size_t n, cap;
    bool has_failed;
};

struct check {
    struct options o;
    struct config *conf;
    struct snapshot *snapshot;
    struct names names;
    struct findings found;
    char today[32];
    int stale_days;
};

/* ---- options */

static bool parse_kinds(const char *list, unsigned *out)
{
    unsigned bits = 0;
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ",");
        int k = 0;
        while (k < CHECK_COUNT && (strlen(check_kind_name((enum check_kind)k)) != n ||
                                   strncmp(check_kind_name((enum check_kind)k), at, n) != 0)) {
            k++;
        }
        if (k == CHECK_COUNT) {
            return false;
        }
        bits |= 1u << k;
        at += n;
        if (!*at) {
            break;
        }
    }
    *out |= bits;
    return true;
}

static bool parse_days(const char *text, long *out)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 6 || text[n]) {
        return false;
    }
    *out = strtol(text, NULL, 10);
    return *out <= STALE_DAYS_MAX;
}

/* NULL: taken; else what is wrong with it. */
static const char *take_option(struct options *o, int c)
{
    switch (c) {
    case 'o':
        o->db = optarg;
        break;
    case 'c':
        o->config = optarg;
        break;
    case 'p':
        o->provider = optarg;
        break;
    case 'r':
        o->records = optarg;
        break;
    case 'm':
        o->models = optarg;
        break;
    case 'j':
        o->is_json = true;
        break;
    case 'v':
        o->is_verbose = true;
        break;
    case 'd':
        return parse_days(optarg, &o->stale_days) ? NULL : "--stale-days takes 0 to 36500";
    default:
        return parse_kinds(optarg, &o->skip) ? NULL : "--skip takes kinds with commas between";
    }
    return NULL;
}

/* -1 go on; else the exit status. */
static int parse_options(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"db", required_argument, NULL, 'o'},
        {"config", required_argument, NULL, 'c'},
        {"provider", required_argument, NULL, 'p'},
        {"stale-days", required_argument, NULL, 'd'},
        {"skip", required_argument, NULL, 's'},
        {"records", required_argument, NULL, 'r'},
        {"models", required_argument, NULL, 'm'},
        {"json", no_argument, NULL, 'j'},
        {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;
    optind = 1;
    opterr = 0;
    o->stale_days = -1;
    while ((c = getopt_long(argc, argv, ":o:m:vh", longs, NULL)) != -1) {
        if (c == 'h') {
            (void)fputs(help, stdout);
            return 0;
        }
        if (c == '?' || c == ':') {
            return program_bad_option("isothermctl catalog check", c, argv);
        }
        const char *wrong = take_option(o, c);
        if (wrong) {
            return ctl_catalog_usage("check", wrong);
        }
    }
    return optind < argc ? ctl_catalog_usage("check", "it takes options only") : -1;
}

static int could_not_tell(const char *why)
{
    (void)fprintf(stderr, "isothermctl: %s\n", why);
    return COULD_NOT_TELL;
}

/* ---- models in use */

static void add_name(struct names *all, const char *provider, const char *model)
{
    if (all->n == MODELS_MAX || all->has_failed) {
        return; /* so many are no configuration; the rest is left out */
    }
    if (all->n == all->cap) {
        size_t wanted = all->cap ? all->cap * 2 : 64;
        char **more = realloc(all->list, wanted * sizeof *more);
        all->has_failed = !more;
        if (!more) {
            return;
        }
        all->list = more;
        all->cap = wanted;
    }
    size_t len = strlen(provider) + strlen(model) + 2;
    char *name = malloc(len);
    all->has_failed = !name;
    if (name) {
        (void)snprintf(name, len, "%s/%s", provider, model);
        all->list[all->n++] = name;
    }
}

/* The catalog's provider behind the part of a name before its slash; NULL: none is meant. */
static const char *catalog_provider(const struct check *k, const char *prefix)
{
    for (unsigned i = 0; i < k->conf->n_providers; i++) {
        if (strcmp(k->conf->providers[i].name, prefix) == 0) {
            return k->conf->providers[i].catalog ? k->conf->providers[i].catalog : prefix;
        }
    }
    const struct provider *p = snapshot_provider(k->snapshot, prefix);
    return p ? p->id : NULL;
}

/* "provider/model"; local models are not of interest. */
static void add_target(struct check *k, const char *name, bool must_lead)
{
    char prefix[65];
    const char *slash = strchr(name, '/');
    size_t n = slash ? (size_t)(slash - name) : strlen(name);
    if (n >= sizeof prefix || strcmp(name, "local") == 0 || strncmp(name, "local/", 6) == 0) {
        return;
    }
    (void)snprintf(prefix, sizeof prefix, "%.*s", (int)n, name);
    const char *provider = slash ? catalog_provider(k, prefix) : NULL;
    if (provider || must_lead) {
        add_name(&k->names, provider ? provider : prefix, slash ? slash + 1 : "");
    }
}

/* A name as a client writes it. must_lead: it is a finding where it leads to no provider. */
static void add_model(struct check *k, const char *name, bool must_lead)
{
    for (unsigned i = 0; i < k->conf->n_aliases; i++) {
        if (strcmp(k->conf->aliases[i].name, name) == 0) {
            for (unsigned t = 0; t < k->conf->aliases[i].n_targets; t++) {
                add_target(k, k->conf->aliases[i].targets[t], must_lead);
            }
            return;
        }
    }
    add_target(k, name, must_lead);
}

static bool add_recorded(const char *model, void *ud)
{
    struct check *k = ud;
    add_model(k, model, false);
    return !k->names.has_failed;
}

static void add_configured(struct check *k)
{
    for (unsigned i = 0; i < k->conf->n_providers; i++) {
        const struct config_provider *p = &k->conf->providers[i];
        for (unsigned m = 0; m < p->n_models; m++) {
            add_name(&k->names, p->catalog ? p->catalog : p->name, p->models[m]);
        }
    }
    for (unsigned i = 0; i < k->conf->n_aliases; i++) {
        add_model(k, k->conf->aliases[i].name, true);
    }
    add_model(k, k->conf->fallback, true);
}

static bool add_listed(struct check *k)
{
    char name[LIMIT_MODEL_NAME + 1];
    for (const char *at = k->o.models; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t n = strcspn(at, ",");
        if (n == 0 || n >= sizeof name) {
            return false;
        }
        memcpy(name, at, n);
        name[n] = '\0';
        add_model(k, name, true);
    }
    return true;
}

/* The records where there are any: those that were named must be there. 0, or the exit status. */
static int add_records(struct check *k)
{
    char path[CTL_PATH_MAX];
    struct records_reader *r = NULL;
    struct failure f = {0};
    if (!k->o.records && !config_records_path(k->conf, path, sizeof path)) {
        return could_not_tell("the path of the records is too long, name a shorter one");
    }
    if (!records_reader_open(&r, k->o.records ? k->o.records : path, &f)) {
        return f.status == 404 && !k->o.records ? 0 : could_not_tell(f.message);
    }
    int64_t since = ((int64_t)time(NULL) - IN_USE_DAYS * 86400) * 1000000;
    bool ok = records_models(r, since, add_recorded, k, &f);
    records_reader_close(r);
    return ok ? 0 : could_not_tell(f.message);
}

static int compare_names(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static void sort_names(struct names *all)
{
    size_t n = 0;
    if (all->n) {
        qsort(all->list, all->n, sizeof *all->list, compare_names);
    }
    for (size_t i = 0; i < all->n; i++) {
        if (n && strcmp(all->list[n - 1], all->list[i]) == 0) {
            free(all->list[i]);
        } else {
            all->list[n++] = all->list[i];
        }
    }
    all->n = n;
}

static int gather_names(struct check *k)
{
    int rc = 0;
    if (k->o.skip >> CHECK_UNMATCHED & 1) {
        return 0;
    }
    add_configured(k);
    if (!add_listed(k)) {
        return ctl_catalog_usage("check", "--models takes names with commas between");
    }
    rc = add_records(k);
    sort_names(&k->names);
    return rc == 0 && k->names.has_failed ? could_not_tell("out of memory") : rc;
}

/* ---- findings */

static bool take(const struct finding *f, void *ud)
{
    struct findings *all = ud;
    if (all->n == FINDINGS_MAX) {
        all->is_cut = true;
        return false;
    }
    if (all->n == all->cap) {
        size_t wanted = all->cap ? all->cap * 2 : 256;
        struct finding *more = realloc(all->list, wanted * sizeof *more);
        all->has_failed = !more;
        if (!more) {
            return false;
        }
        all->list = more;
        all->cap = wanted;
    }
    all->list[all->n++] = *f;
    all->n_of[f->kind]++;
    return true;
}

static const char *word_at(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "?";
}

/* "; max was 1, is shipped as 2, here 1.5" where the two sides differ. */
static void say_field(const struct version_conflict *c, const char *key, char *out, size_t cap)
{
    static const char *const about[] = {
        "id",   "version",    "source", "as_of",
        "note", "confidence", "local",  "derived"}; /* the claim, not what it claims */
    const json_t *v[] = {json_object_get(c->base, key), json_object_get(c->shipped, key),
                         json_object_get(c->local, key)};
    size_t n = strlen(out);
    for (size_t i = 0; i < sizeof about / sizeof *about; i++) {
        if (strcmp(about[i], key) == 0) {
            return;
        }
    }
    if (v[1] && v[2] && json_equal((json_t *)v[1], (json_t *)v[2])) { /* jansson's lack const */
        return;
    }
    char *text[3];
    for (size_t i = 0; i < 3; i++) {
        text[i] = v[i] ? json_dumps(v[i], JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15))
                       : NULL;
    }
    (void)snprintf(out + n, cap - n, "; %s was %.30s, is shipped as %.30s, here %.30s", key,
                   text[0] ? text[0] : "not there", text[1] ? text[1] : "not there",
                   text[2] ? text[2] : "not there");
    for (size_t i = 0; i < 3; i++) {
        free(text[i]);
    }
}

static void say_sides(const struct version_conflict *c, char *out, size_t cap)
{
    const char *key;
    json_t *value;
    if (!c->shipped || !c->local) {
        (void)snprintf(out, cap, "; it is %s", c->shipped ? "taken away here" : "shipped no more");
        return;
    }
    json_object_foreach ((json_t *)c->shipped, key, value) {
        say_field(c, key, out, cap);
    }
    json_object_foreach ((json_t *)c->local, key, value) {
        if (!json_object_get(c->shipped, key)) {
            say_field(c, key, out, cap);
        }
    }
}

static bool take_conflict(const struct version_conflict *c, void *ud)
{
    struct check *k = ud;
    const json_t *any = c->local ? c->local : c->shipped ? c->shipped : c->base;
    struct finding f = {.kind = CHECK_CONFLICT};
    if (k->o.provider && strcmp(word_at(any, "provider"), k->o.provider) != 0) {
        return true;
    }
    char sides[140] = "";
    say_sides(c, sides, sizeof sides);
    (void)snprintf(
        f.text, sizeof f.text,
        "%.40s %.60s %.30s: version %lld changed what was set here, which still holds%s: "
        "set it again, or 'catalog unset' it",
        word_at(any, "provider"), word_at(any, "models"), word_at(any, "param"),
        (long long)c->version, sides);
    return take(&f, &k->found);
}

static int find(struct check *k, struct catalog *c)
{
    struct catalog_error err = {0};
    const struct check_options o = {.today = k->today,
                                    .stale_days = k->stale_days,
                                    .provider = k->o.provider,
                                    .models = (const char *const *)k->names.list,
                                    .n_models = k->names.n,
                                    .skip = k->o.skip};
    bool ok = catalog_check(k->snapshot, &o, take, &k->found, &err);
    if (ok && !(k->o.skip >> CHECK_CONFLICT & 1)) {
        ok = catalog_conflicts(c, snapshot_version(k->snapshot), take_conflict, k, &err);
    }
    return !ok                   ? could_not_tell(err.text)
           : k->found.has_failed ? could_not_tell("out of memory")
                                 : 0;
}

/* ---- as a table. Text of a database from elsewhere: control bytes are not printed. */

static void put(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        (void)putchar(*c < 0x20 || *c == 0x7f ? '?' : *c);
    }
}

static void put_finding(const struct finding *f)
{
    (void)fputs("  ", stdout);
    if (f->claim) {
        (void)printf("claim %lld  ", (long long)f->claim->id);
        put(f->claim->provider);
        (void)fputs("  ", stdout);
        put(f->claim->models);
        (void)fputs("  ", stdout);
        put(f->claim->param);
        (void)fputs(": ", stdout);
    }
    put(f->text);
    (void)putchar('\n');
}

/* One line for each provider and family: how many, and the oldest. The list is in the order of the
 * sources, so those of a family mostly stand together; `is_told` marks what was counted. */
static bool put_stale(const struct findings *all)
{
    bool *is_told = calloc(all->n + 1, sizeof *is_told);
    for (size_t i = 0; is_told && i < all->n; i++) {
        const struct claim *first = all->list[i].claim;
        if (all->list[i].kind != CHECK_STALE || is_told[i]) {
            continue;
        }
        const char *oldest = first->as_of;
        size_t n = 0;
        for (size_t j = i; j < all->n && all->list[j].kind == CHECK_STALE; j++) {
            const struct claim *c = all->list[j].claim;
            if (is_told[j] || strcmp(c->provider, first->provider) != 0 ||
                strcmp(c->models, first->models) != 0) {
                continue;
            }
            is_told[j] = true;
            n++;
            oldest = strcmp(c->as_of, oldest) < 0 ? c->as_of : oldest;
        }
        (void)fputs("  ", stdout);
        put(first->provider);
        (void)fputs("  ", stdout);
        put(first->models);
        (void)printf(": %zu claim%s, the oldest of ", n, n == 1 ? "" : "s");
        put(oldest);
        (void)putchar('\n');
    }
    free(is_told);
    return is_told != NULL;
}

static void put_summary(const struct check *k)
{
    const char *between = "";
    for (int i = 0; i < CHECK_COUNT; i++) {
        if (k->found.n_of[i]) {
            (void)printf("%s%zu %s", between, k->found.n_of[i],
                         check_kind_name((enum check_kind)i));
            between = ", ";
        }
    }
    (void)printf("%s in version %lld on %s\n", k->found.n ? "" : "nothing found",
                 (long long)snapshot_version(k->snapshot), k->today);
    if (k->found.is_cut) {
        (void)printf("there is more than %d: check one provider at a time\n", FINDINGS_MAX);
    }
}

static int print_table(const struct check *k)
{
    int last = -1;
    for (size_t i = 0; i < k->found.n; i++) {
        const struct finding *f = &k->found.list[i];
        bool is_new = (int)f->kind != last;
        last = (int)f->kind;
        if (is_new) {
            (void)printf("%s (%zu)\n", check_kind_name(f->kind), k->found.n_of[f->kind]);
        }
        if (f->kind != CHECK_STALE || k->o.is_verbose) {
            put_finding(f);
        } else if (is_new && !put_stale(&k->found)) {
            return could_not_tell("out of memory");
        }
    }
    put_summary(k);
    return k->found.n ? 1 : 0;
}

/* ---- as JSON */

static json_t *claim_or_null(const struct claim *c)
{
    return c ? claim_json(c) : json_null();
}

static int print_json(const struct check *k)
{
    json_t *counts = json_object(), *list = json_array();
    bool ok = counts && list;
    for (int i = 0; ok && i < CHECK_COUNT; i++) {
        ok = json_object_set_new(counts, check_kind_name((enum check_kind)i),
                                 json_integer((json_int_t)k->found.n_of[i])) == 0;
    }
    for (size_t i = 0; ok && i < k->found.n; i++) {
        const struct finding *f = &k->found.list[i];
        ok = json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o}", "kind",
                                                   check_kind_name(f->kind), "text", f->text,
                                                   "claim", claim_or_null(f->claim), "other",
                                                   claim_or_null(f->other))) == 0;
    }
    json_t *all =
        json_pack("{s:I, s:s, s:i, s:b, s:o, s:o}", "version",
                  (json_int_t)snapshot_version(k->snapshot), "today", k->today, "stale_days",
                  k->stale_days, "is_cut", k->found.is_cut, "counts", counts, "findings", list);
    if (!ok) {
        json_decref(all);
        all = NULL;
    }
    int rc = ctl_print_json(all);
    return rc != 0 ? COULD_NOT_TELL : k->found.n ? 1 : 0;
}

/* ---- the verb */

static int run(struct check *k, struct catalog *c)
{
    struct catalog_error err = {0};
    if (!catalog_snapshot(c, k->conf->catalog_pin, &k->snapshot, &err)) {
        return could_not_tell(err.text);
    }
    if (!catalog_check_names(c, snapshot_version(k->snapshot), k->o.provider, NULL, &err)) {
        return could_not_tell(err.text);
    }
    int rc = gather_names(k);
    rc = rc ? rc : find(k, c);
    rc = rc ? rc : k->o.is_json ? print_json(k) : print_table(k);
    /* "found" with nothing to read would be taken for a failure that has been told */
    return rc != 1 || (fflush(stdout) == 0 && !ferror(stdout))
               ? rc
               : could_not_tell("standard output cannot be written");
}

static void release(struct check *k)
{
    for (size_t i = 0; i < k->names.n; i++) {
        free(k->names.list[i]);
    }
    free(k->names.list);
    free(k->found.list);
    snapshot_release(k->snapshot);
    config_free(k->conf);
}

int ctl_catalog_check(int argc, char **argv)
{
    struct check k = {.conf = NULL};
    struct config_error err = {0};
    struct catalog *c = NULL;
    int rc = parse_options(&k.o, argc, argv);
    if (rc >= 0) {
        return rc;
    }
    if (!config_load(&k.conf, k.o.config, &err)) {
        return could_not_tell(err.text);
    }
    ctl_catalog_now(k.today);
    k.today[10] = '\0'; /* the day of an ISO time */
    k.stale_days = k.o.stale_days >= 0 ? (int)k.o.stale_days : (int)k.conf->catalog_stale_days;
    if (ctl_catalog_open(&c, k.o.db ? k.o.db : k.conf->catalog_path)) {
        rc = run(&k, c);
    } else {
        rc = COULD_NOT_TELL;
    }
    release(&k);
    catalog_close(c);
    return rc;
}
