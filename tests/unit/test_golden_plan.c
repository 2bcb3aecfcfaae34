/* test_golden_plan.c - plans as data: tests/golden/plan/<case>/in.json is a catalog and requests,
 * want.json the plans.
 *
 * in.json: {"note", "catalog": "shipped" | source | [source, ...] (versions in that order),
 * "provider", "day", "requests": [{"model", "asked": {name: value}, "policy": {"on_out_of_range",
 * "on_unsupported", "on_many", "require"}, "version", "day", "is_fallback", "is_local", "stream",
 * "prefill"},
 * ...]} want.json: one plan
 * for each request. GOLDEN_UPDATE=1 rewrites it; read the diff.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/plan.h"
#include "catalog/versions.h"

#define CASES "tests/golden/plan"
#define DAY   "2026-11-30"

static char folder[] = "/tmp/isotherm-golden-XXXXXX";

static void path_in(char *out, size_t cap, const char *name)
{
    assert_true((size_t)snprintf(out, cap, "%s/%s", folder, name) < cap);
}

static json_t *load(const char *path)
{
    json_error_t e;
    json_t *j = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    if (!j) {
        fail_msg("%s line %d: %s", path, e.line, e.text);
    }
    return j;
}

static void build(const char *db, const char *const *sources, size_t n)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    if (!catalog_build(db, sources, n,
                       &(struct version_stamp){"test", "golden", "2026-11-30T00:00:00Z"}, &v,
                       &err)) {
        fail_msg("%s", err.text);
    }
}

/* Builds the case's catalog; every source of a list is one more version. */
static void build_case(const char *db, const json_t *catalog)
{
    static const char *const shipped[] = {
        "catalog/providers/openai.json",          "catalog/providers/anthropic.json",
        "catalog/providers/mistral.json",         "catalog/providers/local.json",
        "catalog/providers/google-gemini.json",   "catalog/providers/google-palm.json",
        "catalog/providers/aws-bedrock.json",     "catalog/providers/cohere.json",
        "catalog/providers/ollama.json",          "catalog/providers/alibaba-dashscope.json",
        "catalog/providers/huggingface-tgi.json", "catalog/providers/perplexity.json"};
    char path[128];
    if (json_is_string(catalog)) {
        build(db, shipped, sizeof shipped / sizeof shipped[0]);
        return;
    }
    size_t n = json_is_array(catalog) ? json_array_size(catalog) : 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *source = json_is_array(catalog) ? json_array_get(catalog, i) : catalog;
        const char *one = path;
        path_in(path, sizeof path, "source.json");
        assert_int_equal(json_dump_file(source, path, 0), 0);
        build(db, &one, 1);
    }
}

/* ---- requests */

static struct value parse_value(enum param p, const json_t *j)
{
    if (json_is_boolean(j)) {
        return (struct value){.type = VALUE_BOOL, .b = json_is_true(j)};
    }
    if (json_is_integer(j)) {
        return (struct value){.type = VALUE_INT, .i = json_integer_value(j)};
    }
    if (json_is_real(j)) {
        return (struct value){.type = VALUE_NUMBER, .d = json_real_value(j)};
    }
    if (json_is_string(j) && sampling_table[p].type == VALUE_STRING) {
        return (struct value){.type = VALUE_STRING, .s = json_string_value(j)};
    }
    return (struct value){.type = VALUE_JSON, .j = j};
}

static struct sampling parse_asked(const json_t *asked)
{
    struct sampling s = {0};
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)asked, name, v) {
        enum param p = sampling_find(name);
        if (p == PARAM_COUNT) {
            fail_msg("no parameter '%s'", name);
        }
        sampling_set(&s, p, parse_value(p, v));
    }
    return s;
}

static int find(const char *word, const char *a, const char *b, const char *c)
{
    return !word || strcmp(word, a) == 0 ? 0
           : strcmp(word, b) == 0        ? 1
           : strcmp(word, c) == 0        ? 2
                                         : -1;
}

static struct policy parse_policy(const json_t *j)
{
    struct policy p = {0};
    int range =
        find(json_string_value(json_object_get(j, "on_out_of_range")), "clamp", "reject", "local");
    int unsupported =
        find(json_string_value(json_object_get(j, "on_unsupported")), "local", "drop", "reject");
    int many = find(json_string_value(json_object_get(j, "on_many")), "calls", "local", "");
    assert_true(range >= 0 && unsupported >= 0 && many >= 0);
    p.on_many = (enum plan_many)many;
    p.on_out_of_range = (enum plan_range)range;
    p.on_unsupported = (enum plan_unsupported)unsupported;
    const json_t *require = json_object_get(j, "require");
    for (size_t i = 0; i < json_array_size(require); i++) {
        enum param q = sampling_find(json_string_value(json_array_get(require, i)));
        assert_true(q < PARAM_COUNT);
        p.require |= PARAM_BIT(q);
    }
    return p;
}

/* ---- plans */

struct wanted_claim {
    int64_t id;
    char text[256];
};

static bool find_claim(const struct claim *c, void *ud)
{
    struct wanted_claim *w = ud;
    if (c->id != w->id) {
        return true;
    }
    (void)snprintf(w->text, sizeof w->text, "%s %s, %s", c->models, c->param, c->as_of);
    return false;
}

/* Row ids move when data is added; what the claim says of itself does not. */
static json_t *claim_text(const struct snapshot *s, int64_t id)
{
    struct wanted_claim w = {.id = id};
    if (id == 0) {
        return json_null();
    }
    snapshot_each(s, NULL, NULL, NULL, find_claim, &w);
    return json_string(w.text);
}

static json_t *adjustments(const struct snapshot *s, const struct plan *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->n_adj; i++) {
        const struct adjustment *a = &p->adj[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:o, s:s, s:s, s:o}", "param", a->name, "asked",
                                        plan_asked_json(a), "sent", plan_sent_json(p, a), "action",
                                        action_name(a->action), "reason", reason_name(a->reason),
                                        "claim", claim_text(s, a->claim)));
    }
    return list;
}

static json_t *sent_value(const struct plan *p, enum param param)
{
    struct adjustment a = {.param = param, .sent = p->send.v[param]};
    if (param == PARAM_STOP) {
        a.sent = (struct value){.type = VALUE_INT, .i = (int64_t)p->stop_sent};
    }
    return plan_sent_json(p, &a);
}

/* What differs between several calls. */
static json_t *calls_json(const struct plan *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < p->n_calls; i++) {
        struct sampling send;
        plan_call_send(p, i, &send);
        json_t *call = json_pack("{s:I}", "choices", (json_int_t)plan_call_choices(p, i));
        if (sampling_has(&send, PARAM_N)) {
            json_object_set_new(call, "n", json_integer(send.v[PARAM_N].i));
        }
        if (sampling_has(&send, PARAM_SEED)) {
            json_object_set_new(call, "seed", json_integer(send.v[PARAM_SEED].i));
        }
        json_array_append_new(list, call);
    }
    return list;
}

static json_t *plan_json(const struct snapshot *s, const struct plan *p)
{
    static const char *const routes[] = {"target", "fallback", "reject"};
    json_t *because = json_array(), *send = json_object();
    if (p->route == PLAN_REJECT) {
        json_decref(because);
        json_decref(send);
        return json_pack("{s:s, s:s, s:s}", "route", "reject", "param",
                         sampling_table[p->rejected].name, "text", p->reject_text);
    }
    for (int i = 0; i < PARAM_COUNT; i++) {
        if (p->because & PARAM_BIT(i)) {
            json_array_append_new(because, json_string(sampling_table[i].name));
        }
        if (sampling_has(&p->send, (enum param)i)) {
            json_object_set_new(send, p->wire[i], sent_value(p, (enum param)i));
        }
    }
    for (size_t i = 0; i < p->n_extra; i++) {
        json_object_set(send, p->extra[i].wire, (json_t *)p->extra[i].value);
    }
    json_t *j = json_pack("{s:s, s:o, s:o, s:o}", "route", routes[p->route], "because", because,
                          "send", send, "adjustments", adjustments(s, p));
    if (p->stop_is_local) {
        json_object_set_new(j, "stop_is_local", json_true());
    }
    if (p->n_calls > 1) {
        json_object_set_new(j, "calls", calls_json(p));
    }
    return j;
}

static json_t *run_request(struct catalog *c, const char *provider, const char *day,
                           const json_t *request)
{
    struct catalog_error err = {0};
    struct snapshot *s;
    struct rules rules;
    struct plan plan;
    struct sampling_fault fault;
    struct sampling asked = parse_asked(json_object_get(request, "asked"));
    struct policy policy = parse_policy(json_object_get(request, "policy"));
    if (!sampling_check(&asked, json_is_true(json_object_get(request, "is_local")), &fault)) {
        return json_pack("{s:s, s:s, s:s}", "route", "fault", "param",
                         sampling_table[fault.param].name, "text", fault.text);
    }
    if (!catalog_snapshot(c, json_integer_value(json_object_get(request, "version")), &s, &err) ||
        !snapshot_rules(s, provider, json_string_value(json_object_get(request, "model")),
                        CATALOG_CHAT, day, &rules, &err)) {
        fail_msg("%s", err.text);
    }
    struct plan_context how = {
        .is_fallback = json_is_true(json_object_get(request, "is_fallback")),
        .stream = json_is_true(json_object_get(request, "stream")),
        .prefill = json_is_true(json_object_get(request, "prefill")),
    };
    plan_make(&rules, &policy, &asked, &how, &plan);
    assert_true(plan_check_invariants(&plan, &asked));
    json_t *j = plan_json(s, &plan);
    snapshot_release(s);
    return j;
}

static json_t *run_case(const json_t *in)
{
    struct catalog_error err = {0};
    struct catalog *c;
    char db[128];
    const json_t *requests = json_object_get(in, "requests");
    const char *day = json_string_value(json_object_get(in, "day"));
    json_t *plans = json_array();
    path_in(db, sizeof db, "catalog.db");
    (void)unlink(db);
    build_case(db, json_object_get(in, "catalog"));
    if (!catalog_open(&c, db, &err)) {
        fail_msg("%s", err.text);
    }
    for (size_t i = 0; i < json_array_size(requests); i++) {
        const json_t *request = json_array_get(requests, i);
        const char *own = json_string_value(json_object_get(request, "day"));
        json_array_append_new(plans,
                              run_request(c, json_string_value(json_object_get(in, "provider")),
                                          own   ? own
                                          : day ? day
                                                : DAY,
                                          request));
    }
    catalog_close(c);
    return plans;
}

/* One plan a line: so that a diff shows the plan that changed. */
static void write_plans(const char *path, const json_t *plans)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs("[\n", f);
    for (size_t i = 0; i < json_array_size(plans); i++) {
        assert_int_equal(json_dumpf(json_array_get(plans, i), f, 0), 0);
        (void)fputs(i + 1 < json_array_size(plans) ? ",\n" : "\n", f);
    }
    (void)fputs("]\n", f);
    assert_int_equal(fclose(f), 0);
}

static void compare(const char *name, const json_t *got, const json_t *want)
{
    assert_int_equal(json_array_size(got), json_array_size(want));
    for (size_t i = 0; i < json_array_size(want); i++) {
        const json_t *g = json_array_get(got, i), *w = json_array_get(want, i);
        if (!json_equal(g, w)) {
            char *a = json_dumps(g, 0), *b = json_dumps(w, 0);
            print_error("%s request %zu:\n  got  %s\n  want %s\n", name, i, a, b);
            free(a);
            free(b);
            fail();
        }
    }
}

static void test_case(void **state)
{
    const char *name = *state;
    char path[512];
    (void)snprintf(path, sizeof path, CASES "/%s/in.json", name);
    json_t *in = load(path);
    json_t *got = run_case(in);
    (void)snprintf(path, sizeof path, CASES "/%s/want.json", name);
    if (getenv("GOLDEN_UPDATE")) {
        write_plans(path, got);
    }
    json_t *want = load(path);
    compare(name, got, want);
    json_decref(want);
    json_decref(got);
    json_decref(in);
}

static int is_case(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

int main(void)
{
    struct dirent **names;
    int n = scandir(CASES, &names, is_case, alphasort);
    if (n <= 0 || !mkdtemp(folder)) {
        (void)fprintf(stderr, "no cases in %s\n", CASES);
        return 1;
    }
    struct CMUnitTest *tests = calloc((size_t)n, sizeof *tests);
    for (int i = 0; tests && i < n; i++) {
        tests[i] = (struct CMUnitTest){names[i]->d_name, test_case, NULL, NULL, names[i]->d_name};
    }
    int rc = tests ? _cmocka_run_group_tests("golden_plan", tests, (size_t)n, NULL, NULL) : 1;
    for (int i = 0; i < n; i++) {
        free(names[i]);
    }
    free(names);
    free(tests);
    char path[128];
    static const char *const made[] = {"source.json", "catalog.db", ""};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, made[i]);
        (void)remove(path);
    }
    return rc;
}
