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

#define DAY           "2026-11-30"
#define VALUES_MAX    40
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

/* ---- values at and around what a claim says */

struct values {
    struct value v[VALUES_MAX];
    json_t *made[VALUES_MAX]; /* owned */
    char *text[VALUES_MAX];   /* owned */
    size_t n, n_made, n_text;
};

static void values_release(struct values *vs)
{
    for (size_t i = 0; i < vs->n_made; i++) {
        json_decref(vs->made[i]);
    }
    for (size_t i = 0; i < vs->n_text; i++) {
        free(vs->text[i]);
    }
}

/* Only what a request may ask for reaches the planner. */
static void add(struct values *vs, enum param p, struct value v)
{
    struct sampling one = {0};
    sampling_set(&one, p, v);
    if (p == PARAM_TOP_LOGPROBS) {
        sampling_set(&one, PARAM_LOGPROBS, (struct value){.type = VALUE_BOOL, .b = true});
    } else if (p == PARAM_BEST_OF || p == PARAM_MIN_TOKENS) {
        sampling_set(&one, PARAM_N, (struct value){.type = VALUE_INT, .i = 1});
    }
    if (vs->n < VALUES_MAX && sampling_check(&one, true, NULL)) {
        vs->v[vs->n++] = v;
    }
}

static void add_number(struct values *vs, enum param p, double x)
{
    if (sampling_table[p].type == VALUE_INT) {
        int64_t i = x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x;
        add(vs, p, (struct value){.type = VALUE_INT, .i = i});
    } else {
        add(vs, p, (struct value){.type = VALUE_NUMBER, .d = x});
    }
}

static void add_numbers(struct values *vs, enum param p, const struct claim *c)
{
    const struct param_info *t = &sampling_table[p];
    double low = c && c->has_min ? c->min : t->lo, high = c && c->has_max ? c->max : t->hi;
    high = isfinite(high) ? high : 4;
    double step = t->type == VALUE_INT ? 1 : 1e-6 * fmax(1, fabs(high));
    static const double neutral[] = {1, 0, -1};
    for (size_t i = 0; i < 3; i++) {
        add_number(vs, p, neutral[i]);
    }
    add_number(vs, p, low + (high - low) / 2);
    add_number(vs, p, low + (high - low) * 0.3);
    add_number(vs, p, low);
    add_number(vs, p, high);
    add_number(vs, p, low - step);
    add_number(vs, p, high + step);
    add_number(vs, p, t->lo);
    add_number(vs, p, isfinite(t->hi) ? t->hi : 1e9);
    for (size_t i = 0; c && i < json_array_size(c->values); i++) {
        if (json_is_number(json_array_get(c->values, i))) {
            add_number(vs, p, json_number_value(json_array_get(c->values, i)));
        }
    }
}

static void add_json(struct values *vs, enum param p, json_t *j)
{
    assert_non_null(j);
    assert_true(vs->n_made < VALUES_MAX);
    vs->made[vs->n_made++] = j;
    add(vs, p, (struct value){.type = VALUE_JSON, .j = j});
}

static json_t *list_of(size_t n, const char *text)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, json_sprintf("%s%zu", text, i));
    }
    return list;
}

static json_t *bias_of(size_t n, double x)
{
    json_t *o = json_object();
    for (size_t i = 0; i < n; i++) {
        char key[24];
        (void)snprintf(key, sizeof key, "%zu", i);
        json_object_set_new(o, key, json_real(x));
    }
    return o;
}

static json_t *text_of(size_t len)
{
    char *text = calloc(1, len + 1);
    assert_non_null(text);
    memset(text, 'x', len);
    json_t *j = json_string(text);
    free(text);
    return j;
}

static json_t *labels_of(size_t n, size_t len)
{
    json_t *o = json_object();
    for (size_t i = 0; i < n; i++) {
        char key[24];
        (void)snprintf(key, sizeof key, "k%zu", i);
        json_object_set_new(o, key, text_of(len));
    }
    return o;
}

static void add_lists(struct values *vs, enum param p, const struct claim *c)
{
    size_t most = c && c->items_max > 0 ? (size_t)c->items_max : 4;
    size_t len = c && c->len_max > 0 ? (size_t)c->len_max : 40;
    if (p == PARAM_STOP) {
        add_json(vs, p, json_array());
        add_json(vs, p, list_of(1, "END"));
        add_json(vs, p, list_of(most, "s"));
        add_json(vs, p, list_of(most + 1, "s"));
        add_json(vs, p, json_pack("[s, s, s]", "\n", "a", " "));
        add_json(vs, p, json_pack("[o]", text_of(len)));
        add_json(vs, p, json_pack("[o, s]", text_of(len + 1), "b"));
        add_json(vs, p, list_of(SAMPLING_STOP_MAX, "s"));
    } else if (p == PARAM_LOGIT_BIAS) {
        add_json(vs, p, json_object());
        add_json(vs, p, bias_of(1, c && c->has_max ? c->max : 5));
        add_json(vs, p, bias_of(1, c && c->has_min ? c->min : -5));
        add_json(vs, p, bias_of(2, 1.5));
        add_json(vs, p, bias_of(1, 100));
        add_json(vs, p, bias_of(most + 1, 1));
        add_json(vs, p, bias_of(SAMPLING_BIAS_MAX, 1));
    } else if (p == PARAM_METADATA) {
        add_json(vs, p, json_object());
        add_json(vs, p, labels_of(1, len));
        add_json(vs, p, labels_of(most + 1, 2));
        add_json(vs, p, labels_of(1, len + 1));
    } else if (p == PARAM_STOP_TOKEN_IDS) {
        add_json(vs, p, json_array());
        add_json(vs, p, json_pack("[i, i]", 1, 2));
    }
}

static void add_objects(struct values *vs, enum param p, const struct claim *c)
{
    static const char *const choices[] = {"auto", "none", "required"};
    size_t len = c && c->len_max > 0 ? (size_t)c->len_max : 40;
    if (p == PARAM_TOOLS) {
        size_t most = c && c->items_max > 0 ? (size_t)c->items_max : 4;
        add_json(vs, p, json_array());
        add_json(vs, p, json_pack("[{s:s, s:{s:s}}]", "type", "function", "function", "name", "f"));
        json_t *many = json_array();
        for (size_t i = 0; i <= most; i++) {
            json_array_append_new(many, json_object());
        }
        add_json(vs, p, many);
    } else if (p == PARAM_TOOL_CHOICE) {
        for (size_t i = 0; i < 3; i++) {
            add_json(vs, p, json_string(choices[i]));
        }
        add_json(vs, p, json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", "f"));
    } else if (p == PARAM_RESPONSE_FORMAT_JSON_OBJECT) {
        add_json(vs, p, json_pack("{s:s}", "type", "json_object"));
    } else if (p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA) {
        for (size_t more = 0; more < 2; more++) {
            add_json(vs, p,
                     json_pack("{s:s, s:{s:o, s:{}}}", "type", "json_schema", "json_schema", "name",
                               text_of(len + more), "schema"));
        }
    } else if (p == PARAM_PREDICTION) {
        add_json(vs, p, json_pack("{s:s, s:s}", "type", "content", "content", "x"));
    }
}

static void add_text(struct values *vs, enum param p, const char *text)
{
    assert_true(vs->n_text < VALUES_MAX);
    char *copy = vs->text[vs->n_text++] = strdup(text);
    assert_non_null(copy);
    add(vs, p, (struct value){.type = VALUE_STRING, .s = copy});
}

static void add_words(struct values *vs, enum param p, const struct claim *c)
{
    static const char *const words[] = {"none", "low", "high",      "auto", "generated",
                                        "all",  "raw", "processed", "zzz"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        add_text(vs, p, words[i]);
    }
    for (size_t i = 0; c && i < json_array_size(c->values) && i < 20; i++) {
        const char *word = json_string_value(json_array_get(c->values, i));
        if (word) {
            add_text(vs, p, word);
        }
    }
    for (int more = 0; c && c->len_max > 0 && more < 2; more++) {
        json_t *j = text_of((size_t)c->len_max + (size_t)more);
        add_text(vs, p, json_string_value(j));
        json_decref(j);
    }
}

static void values_init(struct values *vs, const struct rules *r, enum param p)
{
    static const struct sampling empty;
    const struct claim *c = rules_claim(r, p, &empty);
    memset(vs, 0, sizeof *vs);
    switch (sampling_table[p].type) {
    case VALUE_BOOL:
        add(vs, p, (struct value){.type = VALUE_BOOL, .b = false});
        add(vs, p, (struct value){.type = VALUE_BOOL, .b = true});
        break;
    case VALUE_INT:
    case VALUE_NUMBER:
        add_numbers(vs, p, c);
        break;
    case VALUE_STRING:
        add_words(vs, p, c);
        break;
    default:
        add_lists(vs, p, c);
        add_objects(vs, p, c);
    }
    assert_true(vs->n > 0);
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

static bool json_fits(const struct plan *p, const struct claim *c, enum param q, const json_t *j)
{
    const char *key;
    json_t *v;
    if (q == PARAM_STOP) {
        return stop_fits(p, c, j);
    }
    if (q == PARAM_TOOL_CHOICE) {
        return !c->values ||
               is_word_in(c->values, json_is_string(j) ? json_string_value(j) : "required");
    }
    if (q == PARAM_LOGIT_BIAS) {
        json_object_foreach ((json_t *)j, key, v) {
            double x = json_number_value(v);
            if ((c->has_min && x < c->min) || (c->has_max && x > c->max) ||
                (c->is_integer && x != floor(x))) {
                return false;
            }
        }
    }
    if (q == PARAM_METADATA && c->len_max > 0) {
        json_object_foreach ((json_t *)j, key, v) {
            if ((int64_t)json_string_length(v) > c->len_max) {
                return false;
            }
        }
    }
    return c->items_max == 0 || (int64_t)(json_array_size(j) + json_object_size(j)) <= c->items_max;
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
               (c->len_max == 0 || (int64_t)strlen(v.s) <= c->len_max);
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
        if (is_known_word(word) && !is_present(t, p, word)) {
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

static void check_asked(const struct trial *t, const struct plan *p)
{
    bool is_local = t->policy.on_unsupported == PLAN_UNSUPPORTED_LOCAL && !t->how.is_fallback;
    for (int i = 0; i < PARAM_COUNT; i++) {
        enum param q = (enum param)i;
        if (!sampling_has(&t->asked, q)) {
            continue;
        }
        bool is_strict = (t->policy.require & PARAM_BIT(q)) != 0;
        if (sampling_is_neutral(q, t->asked.v[q]) &&
            ((p->because & PARAM_BIT(q)) || p->rejected == q)) {
            show(t, p, "a neutral value is no reason", q);
        }
        if (is_strict && p->route == PLAN_TARGET && sampling_has(&p->send, q) &&
            !value_equal(p->send.v[q], t->asked.v[q])) {
            show(t, p, "strict and changed", q);
        }
        if (p->rejected == q && is_local && !is_strict &&
            t->policy.on_out_of_range != PLAN_RANGE_REJECT &&
            sampling_table[q].kind == PARAM_SHAPES) {
            show(t, p, "rejected where the fallback could answer", q);
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

static bool is_same(const struct plan *a, const struct plan *b)
{
    if (a->route != b->route || a->because != b->because || a->rejected != b->rejected ||
        a->send.has != b->send.has || a->n_adj != b->n_adj || a->n_extra != b->n_extra ||
        a->stop_is_local != b->stop_is_local || a->stop_sent != b->stop_sent ||
        strcmp(a->reject_text, b->reject_text) != 0) {
        return false;
    }
    for (int i = 0; i < PARAM_COUNT; i++) {
        if (sampling_has(&a->send, (enum param)i) &&
            (a->wire[i] != b->wire[i] || !value_equal(a->send.v[i], b->send.v[i]))) {
            return false;
        }
    }
    for (size_t i = 0; i < a->n_adj; i++) {
        if (a->adj[i].param != b->adj[i].param || a->adj[i].action != b->adj[i].action ||
            a->adj[i].reason != b->adj[i].reason || a->adj[i].claim != b->adj[i].claim) {
            return false;
        }
    }
    return true;
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
    }
    check_asked(t, &p);
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
    for (int i = 0; i < 18; i++) {
        t->policy = (struct policy){(enum plan_range)(i % 3), (enum plan_unsupported)(i / 3 % 3),
                                    i < 9 ? 0 : PARAM_BIT(p)};
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
        t->policy = (struct policy){(enum plan_range)draw(3), (enum plan_unsupported)draw(3), 0};
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

static void test_every_plan(void **state)
{
    (void)state;
    find_targets();
    size_t n_rules = 0;
    for (size_t i = 0; i < n_targets; i++) {
        for (int route = CATALOG_CHAT; route <= CATALOG_TEXT; route++) {
            struct catalog_error err = {0};
            struct rules r;
            struct trial t = {.target = &targets[i], .rules = &r};
            if (!snapshot_rules(shipped, targets[i].provider, targets[i].model,
                                (enum catalog_route)route, DAY, &r, &err)) {
                fail_msg("%s", err.text);
            }
            n_rules++;
            try_one(&t); /* all absent */
            for (int p = 0; p < PARAM_COUNT; p++) {
                try_param(&t, (enum param)p);
            }
            t.how = (struct plan_context){0};
            try_combinations(&t);
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
