/* ctl_probe.c - `isothermctl catalog probe`: asks a provider itself whether claims hold. It never
 * runs by itself, says before what it may cost, and stops at once on ^C with what is known.
 *
 * max_tokens is asked about first: every other request carries it, so its new name, where it has
 * one, is used from then on. */
#include "gateway/ctl/ctl_catalog.h"

#include "catalog/evidence.h"
#include "gateway/base/program.h"
#include "gateway/ctl/probe_print.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "usage: isothermctl catalog probe PROVIDER [--model M] [--param P]... [options]\n"
    "\n"
    "Asks PROVIDER (a name of the configuration or of the catalog) whether the claims about one of "
    "its models\nhold: sends few and short requests at and just beyond each limit, and compares "
    "answers where only they can\ntell. It costs money: what it can come to at most is said "
    "first.\n"
    "\n"
    "  --model M           the provider's own id (default: the model that stands in for unknown "
    "ones)\n"
    "  --param P           only this parameter; may be given several times (default: all with a "
    "claim)\n"
    "  --dry-run           list what would be sent and the bound of its cost; sends nothing\n"
    "  --yes               do not ask before sending; needed where there is no terminal\n"
    "  --max-requests N    stop after N requests with what is known by then\n"
    "  --config FILE       configuration with providers\n"
    "  --base-url URL      another address, as base_url in the configuration\n"
    "  --api-key-env NAME  environment variable or credential with the key (default: as "
    "configured)\n"
    "  --no-store          keep no evidence in the catalog\n"
    "  --db DB             the catalog\n"
    "  --json              one JSON object\n"
    "\n"
    "Verdicts: holds; too narrow (the provider takes what the claim says it does not); too wide "
    "(it refuses\nwhat the claim says it takes); ignored; renamed; not told apart. Exit status: 0 "
    "nothing found, 1 something\nfound or failed, 2 usage, 3 no answer told anything.\n";

struct options {
    const char *provider, *model, *config, *base_url, *key_env, *db;
    uint64_t params; /* bits; 0: all */
    bool is_dry, is_json, no_store, is_sure;
    int64_t requests_max; /* 0: any number */
};

struct job {
    struct options o;
    struct config *conf;
    struct catalog *catalog;
    struct snapshot *snap;
    struct target target;
    struct rules rules;
    struct probe_sender *sender;
    char db[CTL_PATH_MAX], day[11], now[32];
    struct credentials with;
    struct probe *probe[PARAM_COUNT];
    enum param param[PARAM_COUNT];
    struct probe_result result[PARAM_COUNT];
    size_t n, n_asked; /* probes; those that were begun */
    bool is_dead;      /* nothing more can be sent */
    bool is_cut;       /* at --max-requests, by ^C */
};

/* ---- options */

static int bad(const char *text)
{
    return ctl_catalog_usage("probe", text);
}

static int take_param(struct options *o, const char *name)
{
    enum param p = sampling_find(name);
    if (p == PARAM_COUNT) {
        (void)fprintf(stderr,
                      "isothermctl: catalog probe: '%.64s' is no parameter: see "
                      "'isothermctl catalog show'\n",
                      name);
        return 2;
    }
    o->params |= PARAM_BIT(p);
    return -1;
}

static int take_option(struct options *o, int c, char **argv)
{
    switch (c) {
    case 'm':
        o->model = optarg;
        return -1;
    case 'p':
        return take_param(o, optarg);
    case 'c':
        o->config = optarg;
        return -1;
    case 'u':
        o->base_url = optarg;
        return strncmp(optarg, "http://", 7) == 0 || strncmp(optarg, "https://", 8) == 0
                   ? -1
                   : bad("--base-url takes an address that begins with http:// or https://");
    case 'k':
        o->key_env = optarg;
        return -1;
    case 'o':
        o->db = optarg;
        return -1;
    case 'n':
        return ctl_catalog_number(optarg, &o->requests_max)
                   ? -1
                   : bad("--max-requests takes a number from 1");
    case 'd':
        o->is_dry = true;
        return -1;
    case 'j':
        o->is_json = true;
        return -1;
    case 's':
        o->no_store = true;
        return -1;
    case 'y':
        o->is_sure = true;
        return -1;
    case 'h':
        (void)fputs(help, stdout);
        return 0;
    default:
        return program_bad_option("isothermctl catalog probe", c, argv);
    }
}

/* -1: go on; else the exit status. */
static int parse_options(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {{"model", required_argument, NULL, 'm'},
                                          {"param", required_argument, NULL, 'p'},
                                          {"config", required_argument, NULL, 'c'},
                                          {"base-url", required_argument, NULL, 'u'},
                                          {"api-key-env", required_argument, NULL, 'k'},
                                          {"db", required_argument, NULL, 'o'},
                                          {"max-requests", required_argument, NULL, 'n'},
                                          {"dry-run", no_argument, NULL, 'd'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"no-store", no_argument, NULL, 's'},
                                          {"yes", no_argument, NULL, 'y'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int c, rc;
    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":m:p:h", longs, NULL)) != -1) {
        if ((rc = take_option(o, c, argv)) >= 0) {
            return rc;
        }
    }
    if (optind + 1 != argc) {
        return bad(optind == argc ? "it needs a provider" : "one provider at a time");
    }
    o->provider = argv[optind];
    if (!o->is_dry && !o->is_sure && !isatty(STDIN_FILENO)) {
        return bad("it costs money and there is no terminal to ask at: say --yes, or --dry-run "
                   "for what it would send");
    }
    return -1;
}

/* ---- what is needed: configuration, catalog, target */

static bool failed(const char *text)
{
    (void)fprintf(stderr, "isothermctl: catalog probe: %s\n", text);
    return false;
}

static bool open_catalog(struct job *j)
{
    struct catalog_error err = {0};
    bool is_stored = !j->o.is_dry && !j->o.no_store;
    const char *given = j->o.db ? j->o.db : j->o.config ? j->conf->catalog_path : NULL;
    if (!ctl_catalog_path(given, is_stored, j->db)) {
        return false;
    }
    return (catalog_open(&j->catalog, j->db, &err) &&
            catalog_snapshot(j->catalog, j->conf->catalog_pin, &j->snap, &err)) ||
           failed(err.text);
}

/* The provider's own model that stands for those nobody knows. */
static const char *default_model(const struct job *j)
{
    const char *id = j->o.provider;
    for (unsigned i = 0; i < j->conf->n_providers; i++) {
        const struct config_provider *p = &j->conf->providers[i];
        id = strcmp(p->name, j->o.provider) == 0 && p->catalog ? p->catalog : id;
    }
    const struct provider *p = snapshot_provider(j->snap, id);
    return p ? p->stand_in : NULL;
}

/* Another address is nobody's usual one: the usual key does not go there by itself. */
static bool set_address(struct job *j)
{
    struct failure f = {.status = 0};
    if (j->o.base_url) {
        if (!resolve_at(&j->target, j->o.base_url, REQUEST_CHAT, false, &f)) {
            return failed(f.message);
        }
        j->target.key_name = j->target.key_file = NULL;
    }
    if (j->o.key_env) {
        j->target.key_name = j->o.key_env;
        j->target.key_file = NULL;
    }
    return true;
}

static bool is_configured(const struct job *j)
{
    for (unsigned i = 0; i < j->conf->n_providers; i++) {
        if (strcmp(j->conf->providers[i].name, j->o.provider) == 0) {
            return true;
        }
    }
    return false;
}

static bool find_target(struct job *j)
{
    struct failure f = {.status = 0};
    struct catalog_error err = {0};
    char name[LIMIT_MODEL_NAME + 1];
    const char *model = j->o.model ? j->o.model : default_model(j);
    if (!model && !is_configured(j) &&
        !catalog_check_names(j->catalog, snapshot_version(j->snap), j->o.provider, NULL, &err)) {
        return failed(err.text);
    }
    if (!model) {
        (void)fprintf(stderr,
                      "isothermctl: catalog probe: no model of '%.64s' stands in for others: name "
                      "one with --model\n",
                      j->o.provider);
        return false;
    }
    if ((size_t)snprintf(name, sizeof name, "%s/%s", j->o.provider, model) >= sizeof name) {
        return failed("the model's name is too long");
    }
    if (strcmp(j->o.provider, "local") == 0) {
        return failed("'local' is the built-in engine, whose claims are tested with the program");
    }
    if (!resolve(j->conf, j->snap, REQUEST_CHAT, false, name, &j->target, &f)) {
        return failed(f.message);
    }
    return set_address(j) &&
           (snapshot_rules_with(j->snap, j->target.provider->id, j->target.model,
                                j->target.switches, CATALOG_CHAT, j->day, &j->rules, &err) ||
            failed(err.text));
}

/* As a call of the daemon would have them; a dry run needs none. */
static bool find_credentials(struct job *j)
{
    const char *name = j->target.key_name;
    struct failure f = {.status = 0};
    if (j->o.is_dry || (j->o.base_url && !name) ||
        credentials_find(j->conf, &j->target, &j->with, &f)) {
        return true;
    }
    if (j->target.key_file) {
        (void)fprintf(stderr, "isothermctl: catalog probe: %.200s: %s\n", j->target.key_file,
                      f.message);
        return false;
    }
    if (!name || j->target.provider->auth == CATALOG_AUTH_SIGV4) {
        return failed(f.message);
    }
    (void)fprintf(stderr,
                  "isothermctl: catalog probe: no key: set the environment variable %.64s, or "
                  "name another with --api-key-env\n",
                  name);
    return false;
}

static bool add_probe(struct job *j, enum param p)
{
    static const struct sampling nothing;
    const struct claim *c = rules_claim(&j->rules, p, &nothing);
    bool is_wanted = j->o.params ? (j->o.params & PARAM_BIT(p)) != 0 : c && c->param_id == p;
    if (!is_wanted) {
        return true;
    }
    j->param[j->n] = p;
    j->probe[j->n] = probe_new(&j->rules, j->snap, p);
    return j->probe[j->n++] != NULL;
}

static bool make_probes(struct job *j)
{
    bool ok = add_probe(j, PARAM_MAX_TOKENS);
    for (int i = 0; i < PARAM_COUNT && ok; i++) {
        ok = i == PARAM_MAX_TOKENS || add_probe(j, (enum param)i);
    }
    if (!ok) {
        return failed("out of memory");
    }
    return j->n > 0 || failed("the catalog has no claim about a parameter of this model");
}

/* ---- the bound, and whether to go on */

static void print_bound(const struct job *j, FILE *out)
{
    struct {
        uint64_t requests, prompt, answer, limit;
    } sum = {0, 0, 0, 0};
    for (size_t i = 0; i < j->n; i++) {
        struct probe_cost c = probe_cost_max(j->probe[i]);
        sum.requests += c.n_requests;
        sum.prompt += c.prompt_tokens;
        sum.answer += c.answer_tokens;
        sum.limit += c.limit_tokens;
    }
    (void)fprintf(out,
                  "%s: %zu parameters, at most %" PRIu64 " requests, %" PRIu64
                  " prompt and %" PRIu64 " answer tokens",
                  j->target.name, j->n, sum.requests, sum.prompt, sum.answer);
    if (sum.limit) {
        (void)fprintf(out,
                      "\n(up to %" PRIu64
                      " more where max_tokens itself is tried at its limits, if "
                      "the model does not stop after the one word that it is asked for)",
                      sum.limit);
    }
    (void)fputc('\n', out);
}

static int dry_run(struct job *j)
{
    json_t *list = j->o.is_json ? json_array() : NULL;
    for (size_t i = 0; i < j->n; i++) {
        if (!probe_print_requests(j->sender, j->probe[i], j->param[i], list)) {
            json_decref(list);
            return 1;
        }
    }
    if (j->o.is_json) {
        return ctl_print_json(list);
    }
    (void)fputc('\n', stdout);
    print_bound(j, stdout);
    return 0;
}

static bool is_agreed(const struct job *j)
{
    char line[16];
    print_bound(j, stderr);
    if (j->o.is_sure) {
        return true;
    }
    (void)fputs("Send them? [y/N] ", stderr);
    return fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
}

/* ---- sending */

static void show_progress(const struct job *j, size_t i, const struct probe_trial *t)
{
    if (isatty(STDERR_FILENO)) {
        (void)fprintf(stderr, "\r\033[K[%zu/%zu] %s: %.50s", i + 1, j->n,
                      sampling_table[j->param[i]].name, t->why);
    }
}

static void clear_line(void)
{
    if (isatty(STDERR_FILENO)) {
        (void)fputs("\r\033[K", stderr);
    }
}

static void show_verdict(const struct job *j, size_t i)
{
    const struct probe_report *r = &j->result[i].report;
    clear_line();
    if (!isatty(STDERR_FILENO)) {
        (void)fprintf(stderr, "%s: %s, %u request%s\n", sampling_table[r->param].name,
                      probe_verdict_name(r->verdict), r->n_trials, r->n_trials == 1 ? "" : "s");
    }
}

static bool may_go_on(struct job *j)
{
    bool is_full = j->o.requests_max &&
                   probe_sender_count(j->sender).n_requests >= (uint64_t)j->o.requests_max;
    j->is_cut = j->is_cut || is_full || probe_sender_is_stopped();
    return !j->is_cut && !j->is_dead;
}

static void run_probe(struct job *j, size_t i)
{
    const struct probe_trial *t;
    struct probe_outcome o;
    struct failure f = {.status = 0};
    while (may_go_on(j) && (t = probe_next(j->probe[i])) != NULL) {
        show_progress(j, i, t);
        enum probe_sent sent = probe_sender_send(j->sender, t, &o, &f);
        if (sent == PROBE_SENT) {
            probe_take(j->probe[i], &o);
        } else if (sent == PROBE_DEAD) {
            j->is_dead = true;
            clear_line();
            (void)failed(f.message);
        }
    }
    probe_report(j->probe[i], &j->result[i].report);
    probe_print_set(&j->result[i], &j->target, j->day);
    show_verdict(j, i);
    if (j->param[i] == PARAM_MAX_TOKENS && j->result[i].report.verdict == PROBE_RENAMED) {
        probe_sender_rename_limit(j->sender, j->result[i].report.name);
    }
}

/* ---- what stays */

/* A claim that only stands in for this model says nothing about it. */
static bool is_about_model(const struct job *j, const struct claim *c)
{
    const char *stand_in = j->target.provider->stand_in;
    return c && (!j->rules.is_stand_in || strcmp(c->models, "*") == 0 ||
                 (stand_in && strcmp(j->target.model, stand_in) == 0));
}

static bool store(struct job *j)
{
    static struct evidence list[PARAM_COUNT];
    struct catalog_error err = {0};
    size_t n = 0;
    for (size_t i = 0; i < j->n_asked; i++) {
        const struct probe_report *r = &j->result[i].report;
        if (!is_about_model(j, r->claim) || r->verdict == PROBE_NOT_TOLD_APART) {
            continue;
        }
        struct evidence *e = &list[n++];
        *e = (struct evidence){.claim = r->claim->id,
                               .verdict =
                                   r->verdict == PROBE_HOLDS ? CLAIM_CONFIRMED : CLAIM_CONTRADICTED,
                               .origin = EVIDENCE_PROBE,
                               .n = 1};
        (void)snprintf(e->model, sizeof e->model, "%s", j->target.model);
        (void)snprintf(e->excerpt, sizeof e->excerpt, "%s: %.200s", probe_verdict_name(r->verdict),
                       r->text);
        (void)snprintf(e->seen, sizeof e->seen, "%s", j->now);
    }
    return n == 0 || evidence_add(j->db, list, n, &err) || failed(err.text);
}

static int finish(struct job *j)
{
    struct probe_summary s = {.target = &j->target,
                              .day = j->day,
                              .is_whole = !j->is_cut && !j->is_dead,
                              .count = probe_sender_count(j->sender)};
    unsigned n_found = 0;
    for (size_t i = 0; i < j->n_asked; i++) {
        enum probe_verdict v = j->result[i].report.verdict;
        n_found += v != PROBE_HOLDS && v != PROBE_NOT_TOLD_APART;
    }
    if (s.count.n_answers == 0) {
        return j->is_dead && s.count.n_requests < PROBE_SEND_TRIES * PROBE_SEND_LOST_MAX ? 1 : 3;
    }
    int rc = probe_print(j->result, j->n_asked, &s, j->o.is_json);
    if (!j->o.no_store && !store(j)) {
        rc = 1;
    }
    return rc || n_found || j->is_dead ? 1 : j->is_cut && !j->o.requests_max ? 3 : 0;
}

static int run(struct job *j)
{
    if (j->o.is_dry) {
        return dry_run(j);
    }
    if (!is_agreed(j)) {
        (void)failed("nothing was sent");
        return 1;
    }
    for (; j->n_asked < j->n && may_go_on(j); j->n_asked++) {
        run_probe(j, j->n_asked);
    }
    return finish(j);
}

static bool prepare(struct job *j)
{
    struct config_error ce;
    ctl_catalog_now(j->now);
    (void)snprintf(j->day, sizeof j->day, "%.10s", j->now);
    if (!config_load(&j->conf, j->o.config, &ce)) {
        return failed(ce.text);
    }
    if (!open_catalog(j) || !find_target(j) || !make_probes(j) || !find_credentials(j)) {
        return false;
    }
    return probe_sender_new(&j->sender, j->conf, &j->target, &j->rules, &j->with) ||
           failed("out of memory or descriptors");
}

int ctl_catalog_probe(int argc, char **argv)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j) {
        (void)failed("out of memory");
        return 1;
    }
    int rc = parse_options(&j->o, argc, argv);
    if (rc < 0) {
        rc = prepare(j) ? run(j) : 1;
    }
    probe_sender_free(j->sender);
    for (size_t i = 0; i < j->n; i++) {
        probe_free(j->probe[i]);
    }
    snapshot_release(j->snap);
    catalog_close(j->catalog);
    config_free(j->conf);
    credentials_wipe(&j->with);
    free(j);
    return rc;
}
