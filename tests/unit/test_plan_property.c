/* test_plan_property.c - what holds for every plan, tried on the shipped catalog: for each
 * provider, each pattern of it (by one model id that it takes), both endpoints, each parameter,
 * values at and around the bounds of its claim, and every policy; then random combinations.
 *
 * What a sent value must satisfy is written here a second time, from claim.h and not from the
 * planner. PLAN_PROPERTY_STRIDE=N tries every Nth case only (sanitizers do by themselves).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/check.h"
#include "catalog/plan.h"
#include "catalog/versions.h"
#include "plan_values.h"

#define DAY           "2026-11-30"
#define TARGETS_MAX   4096
#define N_RANDOM      300
#define UNKNOWN_MODEL "no-pattern-takes-this"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STRIDE 23
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STRIDE 23
#endif
#endif
#ifndef STRIDE
#define STRIDE 1
#endif

static char folder[] = "/tmp/isotherm-property-XXXXXX";
static char db_path[128];
static struct snapshot *shipped;
static unsigned long stride = STRIDE, at_case, n_cases, n_routes[3];

/* ---- the catalog: all of catalog/providers, and one in which every claim looks at another */

static bool build_shipped(struct catalog_error *err)
{
    glob_t files;
    struct catalog_version v;
    struct catalog *c = NULL;
    if (glob("catalog/providers/*.json", 0, NULL, &files) != 0 ||
        glob("tests/lib/tangled.json", GLOB_APPEND, NULL, &files) != 0) {
        return false;
    }
    bool ok = catalog_build(db_path, (const char *const *)files.gl_pathv, files.gl_pathc,
                            &(struct version_stamp){"a", "r", DAY}, &v, err) &&
              catalog_open(&c, db_path, err) && catalog_snapshot(c, 0, &shipped, err);
    catalog_close(c);
    globfree(&files);
    return ok;
}

static int open_shipped(void **state)
{
    struct catalog_error err = {0};
    const char *wanted = getenv("PLAN_PROPERTY_STRIDE");
    (void)state;
    if (wanted && strtoul(wanted, NULL, 10) > 0) {
        stride = strtoul(wanted, NULL, 10);
    }
    if (!mkdtemp(folder)) {
        return -1;
    }
    (void)snprintf(db_path, sizeof db_path, "%s/catalog.db", folder);
    if (!build_shipped(&err)) {
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
}

static int close_shipped(void **state)
{
    (void)state;
    snapshot_release(shipped);
    (void)remove(db_path);
    (void)rmdir(folder);
    return 0;
}

/* ---- targets: one model id for each pattern of each provider */

struct target {
    const char *provider, *pattern;
    char model[256];
};
static struct target targets[TARGETS_MAX];
static size_t n_targets;

static bool add_target(const struct claim *c, void *ud)
{
    (void)ud;
    for (size_t i = n_targets; i-- > 0;) {
        if (strcmp(targets[i].pattern, c->models) == 0 &&
            strcmp(targets[i].provider, c->provider) == 0) {
            return true;
        }
    }
    assert_true(n_targets < TARGETS_MAX);
    struct target *t = &targets[n_targets++];
    *t = (struct target){.provider = c->provider, .pattern = c->models};
    if (strcmp(c->models, "*") == 0) {
        (void)snprintf(t->model, sizeof t->model, "%s", UNKNOWN_MODEL);
    } else if (!check_common_model(c->models, "*", t->model, sizeof t->model)) {
        fail_msg("%s: no model id for '%s'", c->provider, c->models);
    }
    return true;
}

static bool count_match(const struct claim *c, void *ud)
{
    const struct target *t = ((void **)ud)[0];
    *(bool *)((void **)ud)[1] |= strcmp(c->models, t->pattern) == 0;
    return true;
}

/* Each id is one that the pattern takes, so that every row of the catalog is asked. */
static void find_targets(void)
{
    snapshot_each(shipped, NULL, NULL, NULL, add_target, NULL);
    for (size_t i = 0; i < n_targets; i++) {
        bool is_there = false;
        void *ud[] = {&targets[i], &is_there};
        snapshot_each(shipped, targets[i].provider, targets[i].model, NULL, count_match, ud);
        assert_true(is_there);
    }
    for (size_t i = 0; i < snapshot_n_providers(shipped); i++) {
        struct target *t = &targets[n_targets++];
        assert_true(n_targets < TARGETS_MAX);
        *t = (struct target){.provider = snapshot_provider_at(shipped, i)->id, .pattern = "(none)"};
        (void)snprintf(t->model, sizeof t->model, "%s", UNKNOWN_MODEL);
    }
}

/* ---- what must hold */

struct trial {
    const struct target *target;
    const struct rules *rules;
    struct policy policy;
    struct plan_context how;
    struct sampling asked;
};

static void show(const struct trial *t, const struct plan *p, const char *what, enum param about)
{
    print_error("%s: %s, model '%s' (%s), policy %d/%d require %llx%s%s%s\n", what,
                about < PARAM_COUNT ? sampling_table[about].name : "", t->target->model,
                t->target->provider, (int)t->policy.on_out_of_range, (int)t->policy.on_unsupported,
                (unsigned long long)t->policy.require, t->how.is_fallback ? " fallback" : "",
                t->how.stream ? " stream" : "", t->how.prefill ? " prefill" : "");
    for (int i = 0; i < PARAM_COUNT; i++) {
        enum param q = (enum param)i;
        if (sampling_has(&t->asked, q) || sampling_has(&p->send, q)) {
            json_t *a = value_json(t->asked.v[q]), *s = value_json(p->send.v[q]);
            char *x = json_dumps(a, JSON_ENCODE_ANY), *y = json_dumps(s, JSON_ENCODE_ANY);
            print_error("  %s: asked %.80s, sent %.80s\n", sampling_table[q].name, x, y);
            free(x);
            free(y);
            json_decref(a);
            json_decref(s);
        }
    }
    for (size_t i = 0; i < p->n_adj; i++) {
        print_error("  %s %s %s claim %lld\n", p->adj[i].name, action_name(p->adj[i].action),
                    reason_name(p->adj[i].reason), (long long)p->adj[i].claim);
    }
    if (p->route == PLAN_REJECT) {
        print_error("  rejected: %s\n", p->reject_text);
    }
    fail();
}

static bool is_word_in(const json_t *list, const char *word)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *item = json_string_value(json_array_get(list, i));
        if (item && strcmp(item, word) == 0) {
            return true;
        }
    }
    return false;
}

static bool number_fits(const struct claim *c, double x)
{
    bool is_listed = c->values == NULL;
    for (size_t i = 0; i < json_array_size(c->values); i++) {
        is_listed = is_listed || json_number_value(json_array_get(c->values, i)) == x;
    }
    if (c->values) { /* the list is all there is */
        return is_listed;
    }
    return (!c->has_min || x > c->min || (x == c->min && !c->min_exclusive)) &&
           (!c->has_max || x < c->max || (x == c->max && !c->max_exclusive)) &&
           (!c->is_integer || x == floor(x));
}

static bool stop_fits(const struct plan *p, const struct claim *c, const json_t *stop)
{
    int64_t n = 0;
    for (size_t i = 0; i < json_array_size(stop); i++) {
        const char *s = json_string_value(json_array_get(stop, i));
        if (!plan_stop_is_sent(p, stop, i)) {
            continue;
        }
        n++;
        if ((c->len_max > 0 && (int64_t)strlen(s) > c->len_max) ||
            (c->no_blank && strspn(s, " \t\n\v\f\r") == strlen(s))) {
            return false;
        }
    }
    return n > 0 && (c->items_max == 0 || n <= c->items_max);
}

static bool biases_fit(const struct claim *c, const json_t *j)
{
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)j, key, v) {
        if (!number_fits(c, json_number_value(v))) {
            return false;
        }
    }
    return true;
}

static bool labels_fit(const struct claim *c, const json_t *j)
{
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)j, key, v) {
        if (c->len_max > 0 && (int64_t)json_string_length(v) > c->len_max) {
            return false;
        }
    }
    return true;
}

static bool json_fits(const struct plan *p, const struct claim *c, enum param q, const json_t *j)
{
    switch (q) {
    case PARAM_STOP:
        return stop_fits(p, c, j);
    case PARAM_TOOL_CHOICE:
        return !c->values ||
               is_word_in(c->values, json_is_string(j) ? json_string_value(j) : "required") ||
               (json_is_object(j) && is_word_in(c->values, "function"));
    default:
        return (q != PARAM_LOGIT_BIAS || biases_fit(c, j)) &&
               (q != PARAM_METADATA || labels_fit(c, j)) &&
               (c->items_max == 0 ||
                (int64_t)(json_array_size(j) + json_object_size(j)) <= c->items_max);
    }
}

static bool bool_fits(const struct claim *c, bool b)
{
    bool is_listed = false, is_said = false;
    for (size_t i = 0; i < json_array_size(c->values); i++) {
        const json_t *item = json_array_get(c->values, i);
        is_said = is_said || json_is_boolean(item);
        is_listed = is_listed || (json_is_boolean(item) && json_is_true(item) == b);
    }
    return is_listed || !is_said;
}

static bool value_fits(const struct plan *p, const struct claim *c, enum param q)
{
    struct value v = p->send.v[q];
    switch (v.type) {
    case VALUE_INT:
        return number_fits(c, (double)v.i);
    case VALUE_NUMBER:
        return number_fits(c, v.d);
    case VALUE_STRING:
        return (!c->values || is_word_in(c->values, v.s)) &&
               (c->len_max == 0 || (int64_t)strlen(v.s) <= c->len_max) &&
               (int64_t)strlen(v.s) >= c->len_min;
    case VALUE_JSON:
        return json_fits(p, c, q, v.j);
    default:
        return bool_fits(c, v.b);
    }
}

static bool forces(const struct plan *p)
{
    struct value v = p->send.v[PARAM_TOOL_CHOICE];
    return sampling_has(&p->send, PARAM_TOOL_CHOICE) &&
           (!json_is_string(v.j) || strcmp(json_string_value(v.j), "required") == 0);
}

/* Whether what a word of `conflicts` or `needs` names is in the request as it leaves. */
static bool is_present(const struct trial *t, const struct plan *p, const char *word)
{
    enum param q = sampling_find(word);
    if (q != PARAM_COUNT) {
        return sampling_has(&p->send, q);
    }
    return (t->how.stream && strcmp(word, "stream") == 0) ||
           (t->how.prefill && strcmp(word, "prefill") == 0) ||
           (strcmp(word, "tool_choice_required") == 0 && forces(p));
}

/* Beam search goes by two names. */
static bool is_need_met(const struct trial *t, const struct plan *p, const char *word)
{
    return is_present(t, p, word) ||
           (strcmp(word, "use_beam_search") == 0 && sampling_is_search(&p->send));
}

static bool is_known_word(const char *word)
{
    return sampling_find(word) != PARAM_COUNT || strcmp(word, "stream") == 0 ||
           strcmp(word, "prefill") == 0;
}

static bool is_added(const struct plan *p, const char *wire, const json_t *value)
{
    for (size_t i = 0; i < p->n_extra; i++) {
        if (strcmp(p->extra[i].wire, wire) == 0) {
            return json_equal((json_t *)p->extra[i].value, (json_t *)value);
        }
    }
    for (int i = 0; i < PARAM_COUNT; i++) {
        if (sampling_has(&p->send, (enum param)i) && strcmp(p->wire[i], wire) == 0) {
            json_t *sent = value_json(p->send.v[i]);
            bool is_equal = json_equal(sent, (json_t *)value);
            json_decref(sent);
            return is_equal;
        }
    }
    return false;
}

static void check_company(const struct trial *t, const struct plan *p, const struct claim *c,
                          enum param q)
{
    const char *wire;
    json_t *value;
    for (size_t i = 0; i < json_array_size(c->conflicts); i++) {
        const char *word = json_string_value(json_array_get(c->conflicts, i));
        bool is_self = strcmp(word, sampling_table[q].name) == 0;
        if (!is_self && !c->is_required && is_present(t, p, word)) {
            show(t, p, "sent against a conflict", q);
        }
    }
    for (size_t i = 0; i < json_array_size(c->needs); i++) {
        const char *word = json_string_value(json_array_get(c->needs, i));
        if (is_known_word(word) && !is_need_met(t, p, word)) {
            show(t, p, "sent without what it needs", q);
        }
    }
    if ((q == PARAM_TOOL_CHOICE || q == PARAM_PARALLEL_TOOL_CALLS) &&
        !sampling_has(&p->send, PARAM_TOOLS)) {
        show(t, p, "sent without tools", q);
    }
    bool asks = !sampling_has(&t->asked, q) || !sampling_is_neutral(q, t->asked.v[q]);
    json_object_foreach ((json_t *)(asks ? c->adds : NULL), wire, value) {
        if (!is_added(p, wire, value)) {
            show(t, p, "sent without what its claim adds", q);
        }
    }
}

/* What a claim about streams or prefills says may not be there. */
static void check_circumstance(const struct trial *t, const struct plan *p, enum behaviour b)
{
    const struct claim *c = t->rules->behaviour[b];
    for (size_t i = 0; c && i < json_array_size(c->conflicts); i++) {
        const char *word = json_string_value(json_array_get(c->conflicts, i));
        if (is_present(t, p, word)) {
            show(t, p, "sent against a conflict with the request", sampling_find(word));
        }
    }
}

static void check_sent(const struct trial *t, const struct plan *p)
{
    if (t->how.stream) {
        check_circumstance(t, p, BEHAVIOUR_STREAM);
    }
    if (t->how.prefill) {
        check_circumstance(t, p, BEHAVIOUR_PREFILL);
    }
    for (int i = 0; i < PARAM_COUNT; i++) {
        enum param q = (enum param)i;
        const struct claim *c = rules_claim(t->rules, q, &p->send);
        if (!sampling_has(&p->send, q)) {
            if (c && c->is_required && c->support == CLAIM_YES) {
                show(t, p, "required and not sent", q);
            }
            continue;
        }
        if (!c || c->support != CLAIM_YES || !c->wire) {
            show(t, p, "sent against its claim", q);
            return;
        }
        if (strcmp(c->wire, p->wire[q]) != 0) {
            show(t, p, "sent in the wrong place", q);
        }
        if (!value_fits(p, c, q)) {
            show(t, p, "sent out of range", q);
        }
        check_company(t, p, c, q);
    }
}

static void check_asked(const struct trial *t, const struct plan *p, enum param q)
{
    bool is_strict = (t->policy.require & PARAM_BIT(q)) != 0;
    bool may_fall_back = t->policy.on_unsupported == PLAN_UNSUPPORTED_LOCAL &&
                         t->policy.on_out_of_range != PLAN_RANGE_REJECT && !t->how.is_fallback &&
                         !is_strict && sampling_table[q].kind == PARAM_SHAPES;
    if (sampling_is_neutral(q, t->asked.v[q]) &&
        ((p->because & PARAM_BIT(q)) || p->rejected == q)) {
        show(t, p, "a neutral value is no reason", q);
    }
    if (is_strict && p->route == PLAN_TARGET && sampling_has(&p->send, q) &&
        !value_equal(p->send.v[q], t->asked.v[q])) {
        show(t, p, "strict and changed", q);
    }
    if (p->rejected == q && may_fall_back) {
        show(t, p, "rejected where the fallback could answer", q);
    }
}

/* ---- several calls */

static bool picks_from_a_search(const struct sampling *asked)
{
    static const enum param searches[] = {PARAM_BEST_OF, PARAM_USE_BEAM_SEARCH, PARAM_NUM_BEAMS};
    for (size_t i = 0; i < sizeof searches / sizeof searches[0]; i++) {
        if (sampling_has(asked, searches[i]) &&
            !sampling_is_neutral(searches[i], asked->v[searches[i]])) {
            return true;
        }
    }
    return false;
}

/* Several choices are asked for, and nobody says that they should come otherwise. */
static bool may_be_split(const struct trial *t)
{
    const struct sampling *asked = &t->asked;
    bool has_seed = sampling_has(asked, PARAM_SEED) && asked->v[PARAM_SEED].i != -1;
    bool is_strict = (t->policy.require & PARAM_BIT(PARAM_N)) ||
                     (has_seed && (t->policy.require & PARAM_BIT(PARAM_SEED)));
    return sampling_has(asked, PARAM_N) && asked->v[PARAM_N].i > 1 && !is_strict &&
           t->policy.on_many == PLAN_MANY_CALLS && !picks_from_a_search(asked);
}

static void check_choices(const struct trial *t, const struct plan *p)
{
    bool is_wanted = may_be_split(t);
    if (is_wanted && (p->rejected == PARAM_N || (p->because & PARAM_BIT(PARAM_N)))) {
        show(t, p, "choices that several calls could have made", PARAM_N);
    }
    if (is_wanted && p->route == PLAN_TARGET && p->n_calls == 1 &&
        (!sampling_has(&p->send, PARAM_N) || p->send.v[PARAM_N].i != t->asked.v[PARAM_N].i)) {
        show(t, p, "fewer choices than were asked for", PARAM_N);
    }
    if (!is_wanted && p->route != PLAN_REJECT && p->n_calls != 1) {
        show(t, p, "several calls that nobody wants", PARAM_N);
    }
}

/* Every call holds what the claims take, and no seed of another one where there are as many. */
static void check_calls(const struct trial *t, const struct plan *p)
{
    static struct plan one;
    static int64_t seeds[128];
    bool has_seed = sampling_has(&p->send, PARAM_SEED) && p->send.v[PARAM_SEED].i != -1;
    const struct claim *c = rules_claim(t->rules, PARAM_SEED, &p->send);
    bool is_narrow = c && c->has_min && c->has_max && c->max - c->min < (double)p->n_calls;
    for (size_t i = 0; p->n_calls > 1 && i < p->n_calls; i++) {
        one = *p;
        plan_call_send(p, i, &one.send);
        check_sent(t, &one);
        seeds[i] = one.send.v[PARAM_SEED].i;
        for (size_t k = 0; has_seed && !is_narrow && k < i; k++) {
            if (seeds[k] == seeds[i] || seeds[i] == -1) {
                show(t, p, "two calls with one seed", PARAM_SEED);
            }
        }
    }
}

/* A 400 or a fallback is somebody's wish: under clamp and drop everything is sent or named. */
static void check_policy(const struct trial *t, const struct plan *p)
{
    bool is_mild = t->policy.on_unsupported == PLAN_UNSUPPORTED_DROP &&
                   t->policy.on_out_of_range == PLAN_RANGE_CLAMP && !t->policy.require &&
                   !t->how.is_fallback;
    if (is_mild && p->route != PLAN_TARGET) {
        show(t, p, "not sent to the target under clamp and drop", p->rejected);
    }
    for (size_t i = 0; i < p->n_adj; i++) {
        const struct adjustment *a = &p->adj[i];
        bool is_known = a->claim != 0 || a->param == PARAM_COUNT ||
                        !rules_claim(t->rules, a->param, &t->asked) ||
                        !rules_claim(t->rules, a->param, &p->send);
        if (!is_known) {
            show(t, p, "an adjustment without its claim", a->param);
        }
    }
}

/* ---- names */

/* The first or the last word of the path is the parameter's own. */
static bool is_named_so(const char *wire, enum param q)
{
    bool is_format =
        q == PARAM_RESPONSE_FORMAT_JSON_OBJECT || q == PARAM_RESPONSE_FORMAT_JSON_SCHEMA;
    const char *name = is_format ? "response_format" : sampling_table[q].name;
    size_t first = strcspn(wire, "."), len = strlen(name), all = strlen(wire);
    bool is_last = all > len && wire[all - len - 1] == '.' && strcmp(wire + all - len, name) == 0;
    return is_last || (first == len && strncmp(wire, name, len) == 0);
}

static size_t count_of(const struct plan *p, enum param q, enum action action)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_adj; i++) {
        n += p->adj[i].param == q && p->adj[i].action == action;
    }
    return n;
}

/* Another name is said, once; but what asks for nothing is not what stands in a field of two. */
static void check_names(const struct trial *t, const struct plan *p)
{
    for (int i = 0; i < PARAM_COUNT; i++) {
        enum param q = (enum param)i;
        if (!sampling_has(&t->asked, q) || !sampling_has(&p->send, q) ||
            count_of(p, q, ACTION_ADDED) > 0) {
            continue;
        }
        bool is_shared = false;
        for (int k = 0; k < PARAM_COUNT; k++) {
            is_shared = is_shared || (k != i && sampling_has(&p->send, (enum param)k) &&
                                      strcmp(p->wire[k], p->wire[q]) == 0);
        }
        bool is_lost = is_shared && sampling_is_neutral(q, p->send.v[q]);
        size_t wanted = !is_named_so(p->wire[q], q) && !is_lost ? 1 : 0;
        if (count_of(p, q, ACTION_RENAMED) != wanted) {
            show(t, p, wanted ? "another name unsaid" : "said to be another name", q);
        }
    }
}

static bool is_same_list(const struct plan *a, const struct plan *b)
{
    for (size_t i = 0; i < a->n_adj; i++) {
        const struct adjustment *x = &a->adj[i], *y = &b->adj[i];
        if (x->param != y->param || x->action != y->action || x->reason != y->reason ||
            x->claim != y->claim) {
            return false;
        }
    }
    return true;
}

static bool is_same_request(const struct plan *a, const struct plan *b)
{
    for (int i = 0; i < PARAM_COUNT; i++) {
        if (sampling_has(&a->send, (enum param)i) &&
            (a->wire[i] != b->wire[i] || !value_equal(a->send.v[i], b->send.v[i]))) {
            return false;
        }
    }
    return a->stop_is_local == b->stop_is_local && a->stop_sent == b->stop_sent;
}

static bool is_same(const struct plan *a, const struct plan *b)
{
    return a->route == b->route && a->because == b->because && a->rejected == b->rejected &&
           a->send.has == b->send.has && a->n_adj == b->n_adj && a->n_extra == b->n_extra &&
           strcmp(a->reject_text, b->reject_text) == 0 && is_same_request(a, b) &&
           is_same_list(a, b);
}

static void try_one(const struct trial *t)
{
    static struct plan p, again;
    if (at_case++ % stride != 0) {
        return;
    }
    n_cases++;
    plan_make(t->rules, &t->policy, &t->asked, &t->how, &p);
    if (!plan_check_invariants(&p, &t->asked)) {
        show(t, &p, "an invariant is broken", PARAM_COUNT);
    }
    n_routes[p.route]++;
    if (p.route == PLAN_TARGET) {
        check_sent(t, &p);
        check_names(t, &p);
        check_calls(t, &p);
    }
    check_choices(t, &p);
    for (int i = 0; i < PARAM_COUNT; i++) {
        if (sampling_has(&t->asked, (enum param)i)) {
            check_asked(t, &p, (enum param)i);
        }
    }
    check_policy(t, &p);
    if (n_cases % 8 == 0) {
        memset(&again, 0xa5, sizeof again);
        plan_make(t->rules, &t->policy, &t->asked, &t->how, &again);
        if (!is_same(&p, &again)) {
            show(t, &p, "two plans for one request", PARAM_COUNT);
        }
    }
}

/* ---- one parameter at a time */

static void try_policies(struct trial *t, enum param p)
{
    for (int i = 0; i < (p == PARAM_N || p == PARAM_SEED ? 36 : 18); i++) {
        t->policy = (struct policy){(enum plan_range)(i % 3), (enum plan_unsupported)(i / 3 % 3),
                                    i < 18 ? PLAN_MANY_CALLS : PLAN_MANY_LOCAL,
                                    i % 18 < 9 ? 0 : PARAM_BIT(p)};
        t->how.stream = (i & 1) != 0;
        try_one(t);
    }
}

/* The request around the parameter: empty, or with what its conditional claims look at. */
static void try_value(struct trial *t, enum param p)
{
    const struct rules *r = t->rules;
    struct sampling alone = t->asked;
    try_policies(t, p);
    for (size_t i = r->conditional_first[p]; i < r->conditional_first[p + 1]; i++) {
        const struct claim_condition *when = &r->conditional[i]->when;
        const char *word = json_string_value(json_array_get(when->values, 0));
        if (when->id == PARAM_COUNT || when->id == p || !word) {
            continue;
        }
        struct value v = {.type = sampling_table[when->id].type};
        if (v.type == VALUE_STRING) {
            v.s = word;
        } else if (v.type == VALUE_NUMBER) {
            v.d = strtod(word, NULL);
        } else if (v.type == VALUE_INT) {
            v.i = strtoll(word, NULL, 10);
        } else {
            continue;
        }
        sampling_set(&t->asked, when->id, v);
        try_policies(t, p);
        t->asked = alone;
    }
}

static void try_param(struct trial *t, enum param p)
{
    struct values vs;
    values_init(&vs, t->rules, p);
    for (size_t i = 0; i < vs.n; i++) {
        t->asked = (struct sampling){0};
        sampling_set(&t->asked, p, vs.v[i]);
        if (p == PARAM_TOP_LOGPROBS) {
            sampling_set(&t->asked, PARAM_LOGPROBS, (struct value){.type = VALUE_BOOL, .b = true});
        }
        try_value(t, p);
    }
    values_release(&vs);
}

/* ---- combinations; the generator is fixed, so that a failure can be had again */

static uint64_t seed = 11;

static uint64_t draw(uint64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % n;
}

static void try_combinations(struct trial *t)
{
    static struct values all[PARAM_COUNT];
    for (int i = 0; i < PARAM_COUNT; i++) {
        values_init(&all[i], t->rules, (enum param)i);
    }
    int n = strcmp(t->target->provider, "tangled") == 0 ? 100 * N_RANDOM : N_RANDOM;
    for (int k = 0; k < n; k++) {
        uint64_t sparse = 1 + draw(8);
        t->asked = (struct sampling){0};
        for (int i = 0; i < PARAM_COUNT; i++) {
            if (draw(sparse) == 0) {
                sampling_set(&t->asked, (enum param)i, all[i].v[draw(all[i].n)]);
            }
        }
        t->policy = (struct policy){(enum plan_range)draw(3), (enum plan_unsupported)draw(3),
                                    (enum plan_many)draw(2), 0};
        if (draw(3) == 0) {
            t->policy.require = PARAM_BIT(draw(PARAM_COUNT)) | PARAM_BIT(draw(PARAM_COUNT));
        }
        t->how = (struct plan_context){draw(4) == 0, draw(2) == 0, draw(3) == 0};
        try_one(t);
    }
    for (int i = 0; i < PARAM_COUNT; i++) {
        values_release(&all[i]);
    }
}

/* What the provider's claims make depend on a switch: "" and each "name=value" that they name. */
#define SWITCHES_MAX 8
struct switches {
    char text[SWITCHES_MAX][96];
    size_t n;
};

static bool add_switches(const struct claim *c, void *ud)
{
    struct switches *s = ud;
    for (size_t i = 0;
         c->when.param && c->when.id == PARAM_COUNT && i < json_array_size(c->when.values); i++) {
        char text[96];
        size_t k = 0;
        (void)snprintf(text, sizeof text, "%s=%s", c->when.param,
                       json_string_value(json_array_get(c->when.values, i)));
        while (k < s->n && strcmp(s->text[k], text) != 0) {
            k++;
        }
        if (k == s->n && k < SWITCHES_MAX) {
            memcpy(s->text[s->n++], text, sizeof text);
        }
    }
    return true;
}

static void try_route(const struct target *target, enum catalog_route route, const char *switches)
{
    struct catalog_error err = {0};
    struct rules r;
    struct trial t = {.target = target, .rules = &r};
    if (!snapshot_rules_with(shipped, target->provider, target->model, switches, route, DAY, &r,
                             &err)) {
        fail_msg("%s", err.text);
    }
    try_one(&t); /* all absent */
    for (int p = 0; p < PARAM_COUNT; p++) {
        try_param(&t, (enum param)p);
    }
    t.how = (struct plan_context){0};
    try_combinations(&t);
}

static void test_every_plan(void **state)
{
    (void)state;
    find_targets();
    size_t n_rules = 0;
    for (size_t i = 0; i < n_targets; i++) {
        const struct provider *p = snapshot_provider(shipped, targets[i].provider);
        struct switches s = {.n = 1}; /* the first sets none */
        snapshot_each(shipped, p->id, NULL, NULL, add_switches, &s);
        enum catalog_route last = p->also.dialect ? CATALOG_CHAT_ALSO : CATALOG_TEXT;
        for (size_t k = 0; k < s.n; k++) {
            for (int route = CATALOG_CHAT; route <= (int)last; route++) {
                try_route(&targets[i], (enum catalog_route)route, s.text[k]);
                n_rules++;
            }
        }
    }
    print_message("%lu plans for %zu targets of %zu providers: %lu to the target, %lu to the "
                  "fallback, %lu refused\n",
                  n_cases, n_rules, snapshot_n_providers(shipped), n_routes[PLAN_TARGET],
                  n_routes[PLAN_FALLBACK], n_routes[PLAN_REJECT]);
    assert_true(stride > 1 || n_cases >= 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_plan)};
    return cmocka_run_group_tests_name("plan_property", tests, open_shipped, close_shipped);
}
