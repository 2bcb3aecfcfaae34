/* test_probe.c - probes against a provider played in this process: an honest next-token sampler
 * over a made-up distribution, with ranges, names and effects that can be changed one at a time.
 *
 * What is counted: changes that one probe finds, findings against an unchanged provider, and the
 * errors of the statistics by simulation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/probe_inside.h"
#include "catalog/versions.h"

static char folder[] = "/tmp/isotherm-probe-XXXXXX";
static char db_path[128];
static struct snapshot *snap;
static struct rules rules;

static int open_catalog(void **state)
{
    static const char *const sources[] = {"tests/lib/probed.json", "tests/lib/probed-names.json"};
    struct catalog_error err = {0};
    struct catalog_version v;
    struct catalog *c = NULL;
    (void)state;
    if (!mkdtemp(folder)) {
        return -1;
    }
    (void)snprintf(db_path, sizeof db_path, "%s/catalog.db", folder);
    bool ok = catalog_build(db_path, sources, 2, &(struct version_stamp){"a", "r", "2026-11-30"},
                            &v, &err) &&
              catalog_open(&c, db_path, &err) && catalog_snapshot(c, 0, &snap, &err) &&
              snapshot_rules(snap, "probed", "dice-1", CATALOG_CHAT, "2026-11-30", &rules, &err);
    if (!ok) {
        print_error("%s\n", err.text);
    }
    catalog_close(c);
    return ok ? 0 : -1;
}

static int close_catalog(void **state)
{
    (void)state;
    snapshot_release(snap);
    (void)remove(db_path);
    (void)rmdir(folder);
    return 0;
}

/* ---- the provider */

#define VOCABULARY 40
struct knob {
    bool is_known, is_honoured;
    const char *wire;
    double lo, hi;
    bool lo_open;
    int64_t items_max, len_max;
    const json_t *values;
};
struct sim {
    struct knob knob[PARAM_COUNT];
    bool is_strict, names_faults;
    double noise; /* of each token, where the setting leaves one answer */
    uint64_t state;
    double weight[VOCABULARY]; /* logits of the flat distribution, largest first */
    unsigned fails_every;      /* each so many answers are a 503; 0: none */
    unsigned n_answered;
};

static double draw(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* As its claims say. spread: the standard deviation of the logits. */
static struct sim sim_new(uint64_t seed, double noise, double spread)
{
    struct sim s = {.is_strict = true, .names_faults = true, .noise = noise, .state = seed};
    for (int i = 0; i < PARAM_COUNT; i++) {
        const struct claim *c = rules.param[i];
        struct knob *k = &s.knob[i];
        if (!c || c->support == CLAIM_ABSENT || c->support == CLAIM_REJECTED) {
            continue;
        }
        *k = (struct knob){.is_known = true,
                           .is_honoured = c->support == CLAIM_YES,
                           .wire = c->wire,
                           .lo = c->has_min ? c->min : -HUGE_VAL,
                           .hi = c->has_max ? c->max : HUGE_VAL,
                           .lo_open = c->min_exclusive,
                           .items_max = c->items_max ? c->items_max : 1 << 20,
                           .len_max = c->len_max ? c->len_max : 1 << 20,
                           .values = c->values};
    }
    for (int i = 0; i < VOCABULARY; i++) {
        double u = -6;
        for (int k = 0; k < 12; k++) {
            u += draw(&s.state);
        }
        int at = i; /* insertion sort */
        for (; at > 0 && s.weight[at - 1] < spread * u; at--) {
            s.weight[at] = s.weight[at - 1];
        }
        s.weight[at] = spread * u;
    }
    return s;
}

static double number_of(struct value v)
{
    return v.type == VALUE_INT ? (double)v.i : v.d;
}

/* Which of the provider's parameters stands under that name; PARAM_COUNT: none. */
static enum param known_as(const struct sim *s, const char *wire)
{
    for (int i = 0; i < PARAM_COUNT; i++) {
        if (s->knob[i].is_known && strcmp(s->knob[i].wire, wire) == 0) {
            return (enum param)i;
        }
    }
    return PARAM_COUNT;
}

static bool takes_word(const struct knob *k, const char *word)
{
    bool is_listed = !k->values;
    for (size_t i = 0; i < json_array_size(k->values); i++) {
        is_listed = is_listed || strcmp(json_string_value(json_array_get(k->values, i)), word) == 0;
    }
    return is_listed && (int64_t)strlen(word) <= k->len_max;
}

static bool takes_json(const struct knob *k, enum param p, json_t *j)
{
    const char *key;
    json_t *item;
    json_object_foreach (j, key, item) {
        double x = json_number_value(item);
        if ((p == PARAM_LOGIT_BIAS && (x < k->lo || x > k->hi)) ||
            (int64_t)json_string_length(item) > k->len_max) {
            return false;
        }
    }
    bool is_list = p == PARAM_STOP || p == PARAM_STOP_TOKEN_IDS || p == PARAM_LOGIT_BIAS ||
                   p == PARAM_METADATA;
    return !is_list || (int64_t)(json_array_size(j) + json_object_size(j)) <= k->items_max;
}

static bool takes_value(const struct knob *k, enum param p, struct value v)
{
    if (v.type == VALUE_INT || v.type == VALUE_NUMBER) {
        double x = number_of(v);
        return x >= k->lo && x <= k->hi && !(k->lo_open && x == k->lo);
    }
    if (v.type == VALUE_STRING) {
        return takes_word(k, v.s);
    }
    return v.type != VALUE_JSON || takes_json(k, p, (json_t *)v.j);
}

static void refuse(struct probe_outcome *o, int named, bool is_unknown, const char *text)
{
    o->status = 400;
    o->names_param = true;
    o->named = (enum param)named;
    o->is_unknown = is_unknown;
    (void)snprintf(o->excerpt, sizeof o->excerpt, "%s", text);
}

/* What holds of a request: a parameter that is known and honoured, at its value. */
struct asked {
    struct sampling s;
};

static bool validate(const struct sim *s, const struct probe_trial *t, struct asked *a,
                     struct probe_outcome *o)
{
    bool has[PARAM_COUNT] = {false};
    for (int i = 0; i < PARAM_COUNT; i++) {
        if (!sampling_has(&t->send, (enum param)i)) {
            continue;
        }
        assert_non_null(t->wire[i]);
        enum param p = known_as(s, t->wire[i]);
        if (p == PARAM_COUNT) {
            if (s->is_strict) {
                refuse(o, i, true, "unknown parameter");
                return false;
            }
            continue;
        }
        if (!takes_value(&s->knob[p], p, t->send.v[i])) {
            refuse(o, i, false, "out of range");
            return false;
        }
        has[p] = true;
        if (s->knob[p].is_honoured) {
            sampling_set(&a->s, p, t->send.v[i]);
        }
    }
    if ((has[PARAM_PRESENCE_PENALTY] && has[PARAM_REPETITION_PENALTY]) ||
        (has[PARAM_TOP_LOGPROBS] && !has[PARAM_LOGPROBS])) {
        refuse(o, has[PARAM_TOP_LOGPROBS] ? PARAM_TOP_LOGPROBS : PARAM_PRESENCE_PENALTY, false,
               "may not be combined");
        return false;
    }
    return true;
}

static double asked_number(const struct asked *a, enum param p, double otherwise)
{
    return sampling_has(&a->s, p) ? number_of(a->s.v[p]) : otherwise;
}

/* One token of the flat prompt. */
static unsigned next_token(const struct sim *s, const struct asked *a, uint64_t *state,
                           bool *is_fixed)
{
    double t = asked_number(a, PARAM_TEMPERATURE, 1), p[VOCABULARY], sum = 0;
    unsigned n = 0, at = 0;
    for (unsigned i = 0; i < VOCABULARY; i++) {
        p[i] = exp((s->weight[i] - s->weight[0]) / fmax(t, 0.01));
        sum += p[i];
    }
    double top_k = asked_number(a, PARAM_TOP_K, VOCABULARY), before = 0;
    double top_p = asked_number(a, PARAM_TOP_P, 1), min_p = asked_number(a, PARAM_MIN_P, 0);
    for (; n < VOCABULARY; n++) {
        if (n > 0 && (n >= top_k || before >= top_p || p[n] < min_p * p[0] || t < 0.01)) {
            break;
        }
        before += p[n] / sum;
    }
    double kept = before;
    *is_fixed = n == 1;
    if (sampling_has(&a->s, PARAM_LOGIT_BIAS) &&
        json_number_value(json_object_get(a->s.v[PARAM_LOGIT_BIAS].j, "100")) >= 50) {
        *is_fixed = true;
        return 0;
    }
    double u = draw(state) * kept;
    for (before = 0; at + 1 < n; at++) {
        before += p[at] / sum;
        if (u < before) {
            break;
        }
    }
    return at;
}

static void say_flat(struct sim *s, const struct asked *a, unsigned n, struct probe_outcome *o)
{
    bool has_seed = sampling_has(&a->s, PARAM_SEED), is_fixed;
    uint64_t seeded = has_seed ? (uint64_t)a->s.v[PARAM_SEED].i * 7919 + 1 : 0;
    char *at = o->text;
    for (unsigned i = 0; i < n; i++) {
        unsigned token = next_token(s, a, has_seed ? &seeded : &s->state, &is_fixed);
        if ((is_fixed || has_seed) && draw(&s->state) < s->noise) {
            token = (token + 1) % VOCABULARY;
        }
        *at++ = (char)('!' + token);
    }
    *at = '\0';
    o->n_tokens = n;
}

static void say_count(const struct asked *a, unsigned n, struct probe_outcome *o)
{
    char all[128] = "";
    for (int i = 1; i <= 20; i++) {
        size_t len = strlen(all);
        (void)snprintf(all + len, sizeof all - len, "%s%d", i > 1 ? " " : "", i);
    }
    size_t len = strlen(all), most = 2 * (size_t)n; /* a token is two letters */
    all[most < len ? most : len] = '\0';
    const char *stop = sampling_has(&a->s, PARAM_STOP)
                           ? json_string_value(json_array_get(a->s.v[PARAM_STOP].j, 0))
                           : NULL;
    char *cut = stop ? strstr(all, stop) : NULL;
    if (cut) {
        *cut = '\0';
    }
    (void)snprintf(o->text, sizeof o->text, "%s", all);
    o->n_tokens = (unsigned)(strlen(all) + 1) / 2;
}

static void answer(struct sim *s, const struct probe_trial *t, struct probe_outcome *o)
{
    struct asked a = {0};
    memset(o, 0, sizeof *o);
    if (s->fails_every && ++s->n_answered % s->fails_every == 0) {
        o->status = 503;
        return;
    }
    if (!validate(s, t, &a, o)) {
        o->names_param = o->names_param && s->names_faults;
        return;
    }
    unsigned limit = (unsigned)asked_number(&a, PARAM_MAX_TOKENS, 40);
    o->status = 200;
    o->n_choices = (unsigned)asked_number(&a, PARAM_N, 1);
    o->has_logprobs = sampling_has(&a.s, PARAM_LOGPROBS) && a.s.v[PARAM_LOGPROBS].b;
    o->n_top_logprobs = o->has_logprobs ? (unsigned)asked_number(&a, PARAM_TOP_LOGPROBS, 0) : 0;
    if (t->prompt == probe_prompt_flat) {
        say_flat(s, &a, limit, o);
    } else if (t->prompt == probe_prompt_count) {
        say_count(&a, limit, o);
    } else {
        bool is_json = sampling_has(&a.s, PARAM_RESPONSE_FORMAT_JSON_OBJECT) ||
                       sampling_has(&a.s, PARAM_RESPONSE_FORMAT_JSON_SCHEMA);
        bool goes_on = sampling_has(&a.s, PARAM_IGNORE_EOS) && a.s.v[PARAM_IGNORE_EOS].b;
        unsigned least = goes_on ? limit : (unsigned)asked_number(&a, PARAM_MIN_TOKENS, 0);
        (void)snprintf(o->text, sizeof o->text, "%s", is_json ? "{\"ok\": true}" : "ok");
        o->n_tokens = least > 2 ? least : 2;
        o->n_tokens = o->n_tokens > limit ? limit : o->n_tokens;
    }
}

static struct probe_report run_rules(struct sim *s, const struct rules *r, enum param p)
{
    struct probe *probe = probe_new(r, snap, p);
    assert_non_null(probe);
    struct probe_cost most = probe_cost_max(probe);
    struct probe_report report;
    struct probe_outcome o;
    const struct probe_trial *t;
    unsigned n = 0;
    while ((t = probe_next(probe)) != NULL) {
        answer(s, t, &o);
        probe_take(probe, &o);
        n++;
    }
    probe_report(probe, &report);
    assert_int_equal(report.n_trials, n);
    assert_true(n <= most.n_requests);
    assert_true(n <= PROBE_TRIALS_MAX);
    if (report.verdict != PROBE_HOLDS && report.verdict != PROBE_NOT_TOLD_APART) {
        assert_true(report.error_rate <= PROBE_ALPHA);
    }
    report.name = report.name ? "(named)" : NULL;
    probe_free(probe);
    return report;
}

static struct probe_report run(struct sim *s, enum param p)
{
    return run_rules(s, &rules, p);
}

static bool is_finding(const struct probe_report *r)
{
    return r->verdict != PROBE_HOLDS && r->verdict != PROBE_NOT_TOLD_APART;
}

/* ---- an unchanged provider */

static void test_unchanged(void **state)
{
    unsigned n_runs = 0, n_findings = 0, n_untold = 0, n_verdicts = 0, n_requests = 0;
    (void)state;
    for (unsigned k = 0; k < 400; k++) { /* 200 without noise, 200 with what it may have */
        struct sim s = sim_new(1000 + k, k < 200 ? 0 : PROBE_NOISE, k % 4 < 2 ? 1.0 : 1.6);
        s.names_faults = k % 3 > 0;
        for (int p = 0; p < PARAM_COUNT; p++) {
            if (!rules.param[p]) {
                continue;
            }
            struct probe_report r = run(&s, (enum param)p);
            n_verdicts++;
            n_requests += r.n_trials;
            n_untold += r.verdict == PROBE_NOT_TOLD_APART;
            if (is_finding(&r)) {
                n_findings++;
                print_error("%s: %s: %s\n", sampling_table[p].name, probe_verdict_name(r.verdict),
                            r.text);
            }
        }
        n_runs++;
    }
    print_message("%u runs against an unchanged provider: %u findings in %u verdicts, %u not told "
                  "apart, %u requests a run\n",
                  n_runs, n_findings, n_verdicts, n_untold, n_requests / n_runs);
    assert_int_equal(n_findings, 0);
}

/* An honest provider that also fails and is noisier than supposed: nothing may be said against it.
 */
static void test_unchanged_but_poor(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 100; k++) {
        struct sim s = sim_new(77 + k, 0.1, 1.0);
        s.fails_every = 3 + k % 5;
        s.is_strict = k % 2;
        for (int p = 0; p < PARAM_COUNT; p++) {
            if (rules.param[p]) {
                struct probe_report r = run(&s, (enum param)p);
                if (is_finding(&r)) {
                    fail_msg("%s: %s", sampling_table[p].name, r.text);
                }
            }
        }
    }
}

/* ---- one change at a time */

static unsigned n_pairs;

static void expect(struct sim *s, enum param p, enum probe_verdict want, const char *what)
{
    struct probe_report r = run(s, p);
    n_pairs++;
    if (r.verdict != want) {
        fail_msg("%s %s: %s: %s", sampling_table[p].name, what, probe_verdict_name(r.verdict),
                 r.text);
    }
}

static bool has_test(enum param p)
{
    struct probe *probe = probe_new(&rules, snap, p);
    assert_non_null(probe);
    bool is_yes = probe_effect_has_test(probe);
    probe_free(probe);
    return is_yes;
}

static void test_widened(void **state)
{
    unsigned before = n_pairs;
    (void)state;
    for (int i = 0; i < PARAM_COUNT; i++) {
        const struct claim *c = rules.param[i];
        enum param p = (enum param)i;
        bool is_number =
            sampling_table[i].type == VALUE_NUMBER || sampling_table[i].type == VALUE_INT;
        if (!c || c->support != CLAIM_YES) {
            continue;
        }
        if (is_number && c->has_max && c->max < sampling_table[i].hi) {
            struct sim s = sim_new(i, PROBE_NOISE, 1);
            s.knob[p].hi = c->max * 1.5 + 2;
            expect(&s, p, PROBE_TOO_NARROW, "widened at its max");
        }
        if (is_number && c->has_min && c->min > sampling_table[i].lo && p != PARAM_TOP_K) {
            struct sim s = sim_new(i, PROBE_NOISE, 1);
            s.knob[p].lo = c->min - 3;
            expect(&s, p, PROBE_TOO_NARROW, "widened at its min");
        }
        if (c->items_max) {
            struct sim s = sim_new(i, PROBE_NOISE, 1);
            s.knob[p].items_max = c->items_max + 4;
            expect(&s, p, PROBE_TOO_NARROW, "with longer lists");
        }
        if (c->len_max) {
            struct sim s = sim_new(i, PROBE_NOISE, 1);
            s.knob[p].len_max = c->len_max * 2;
            expect(&s, p, PROBE_TOO_NARROW, "with longer strings");
        }
        if (c->values) {
            struct sim s = sim_new(i, PROBE_NOISE, 1);
            s.knob[p].values = NULL;
            expect(&s, p, PROBE_TOO_NARROW, "with any value");
        }
    }
    struct sim s = sim_new(5, 0, 1);
    s.knob[PARAM_TYPICAL_P] = s.knob[PARAM_BEST_OF] = s.knob[PARAM_TOP_P];
    s.knob[PARAM_TYPICAL_P].wire = "typical_p";
    s.knob[PARAM_BEST_OF].wire = "best_of";
    s.knob[PARAM_BEST_OF].hi = 20;
    s.knob[PARAM_BEST_OF].is_honoured = s.knob[PARAM_TYPICAL_P].is_honoured = false;
    expect(&s, PARAM_BEST_OF, PROBE_TOO_NARROW, "accepted after all");
    expect(&s, PARAM_TYPICAL_P, PROBE_IGNORED, "accepted without effect after all");
    print_message("widened: %u changes found\n", n_pairs - before);
}

static void test_narrowed(void **state)
{
    unsigned before = n_pairs;
    (void)state;
    for (int i = 0; i < PARAM_COUNT; i++) {
        const struct claim *c = rules.param[i];
        enum param p = (enum param)i;
        bool is_number =
            sampling_table[i].type == VALUE_NUMBER || sampling_table[i].type == VALUE_INT;
        if (!c || c->support != CLAIM_YES) {
            continue;
        }
        if (is_number && c->has_max) {
            struct sim s = sim_new(i, PROBE_NOISE, 1);
            s.knob[p].hi = floor(c->max * 90) / 100;
            expect(&s, p, PROBE_TOO_WIDE, "narrowed at its max");
        }
        if (is_number && c->has_min && p != PARAM_N && p != PARAM_TOP_K && p != PARAM_MAX_TOKENS) {
            struct sim s = sim_new(i, PROBE_NOISE, 1);
            s.knob[p].lo = c->min + fmax(0.02, fabs(c->min) / 10);
            s.knob[p].lo_open = false;
            expect(&s, p, PROBE_TOO_WIDE, "narrowed at its min");
        }
        if (c->items_max) {
            struct sim s = sim_new(i, PROBE_NOISE, 1);
            s.knob[p].items_max = c->items_max - 1;
            expect(&s, p, PROBE_TOO_WIDE, "with shorter lists");
        }
        if (c->len_max) {
            struct sim s = sim_new(i, PROBE_NOISE, 1);
            s.knob[p].len_max = c->len_max / 2;
            expect(&s, p, PROBE_TOO_WIDE, "with shorter strings");
        }
        if (c->values) {
            struct sim s = sim_new(i, PROBE_NOISE, 1);
            json_t *fewer = json_pack("[ss]", "low", "high");
            s.knob[p].values = fewer;
            expect(&s, p, PROBE_TOO_WIDE, "with fewer values");
            json_decref(fewer);
        }
    }
    print_message("narrowed: %u changes found\n", n_pairs - before);
}

static void test_ignored(void **state)
{
    unsigned before = n_pairs;
    (void)state;
    for (int i = 0; i < PARAM_COUNT; i++) {
        enum param p = (enum param)i;
        const struct claim *c = rules.param[i];
        if (!c || c->support != CLAIM_YES || !has_test(p)) {
            continue;
        }
        for (unsigned k = 0; k < 20; k++) {
            struct sim s = sim_new(31 * k + (unsigned)i, k % 2 ? PROBE_NOISE : 0, 1);
            s.knob[p].is_honoured = false;
            if (p == PARAM_RESPONSE_FORMAT_JSON_OBJECT || p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA) {
                s.knob[PARAM_RESPONSE_FORMAT_JSON_OBJECT].is_honoured = false;
                s.knob[PARAM_RESPONSE_FORMAT_JSON_SCHEMA].is_honoured = false;
            }
            struct probe_report r = run(&s, p);
            if (r.verdict != PROBE_IGNORED) {
                fail_msg("%s ignored: %s: %s", sampling_table[i].name,
                         probe_verdict_name(r.verdict), r.text);
            }
            assert_true(r.mend.has_support && r.mend.support == CLAIM_IGNORED);
        }
        n_pairs++;
    }
    print_message("silently ignored: %u changes found, 20 times each\n", n_pairs - before);
}

static void test_renamed(void **state)
{
    unsigned before = n_pairs;
    (void)state;
    for (int i = 0; i < PARAM_COUNT; i++) {
        enum param p = (enum param)i;
        const struct claim *c = rules.param[i];
        struct probe *probe = c && c->support == CLAIM_YES ? probe_new(&rules, snap, p) : NULL;
        for (size_t k = 0; probe && k < probe->n_names; k++) {
            if (strchr(probe->name[k], '.')) {
                continue;
            }
            struct sim s = sim_new(i, PROBE_NOISE, 1);
            s.knob[p].wire = probe->name[k];
            expect(&s, p, PROBE_RENAMED, "renamed");
        }
        probe_free(probe);
    }
    struct sim gone = sim_new(1, 0, 1);
    gone.knob[PARAM_TOP_K].is_known = false;
    struct probe_report r = run(&gone, PARAM_TOP_K);
    assert_int_equal(r.verdict, PROBE_TOO_WIDE);
    assert_true(r.mend.has_support && r.mend.support == CLAIM_ABSENT);
    print_message("renamed: %u changes found\n", n_pairs - before);
}

/* The mended bound is the new one, or what was seen accepted next to it. */
static void test_where_a_bound_has_gone(void **state)
{
    (void)state;
    static const struct {
        enum param p;
        double hi, want;
    } cases[] = {{PARAM_TEMPERATURE, 1, 1},    {PARAM_TEMPERATURE, 1.5, 1.5},
                 {PARAM_TEMPERATURE, 5, 5},    {PARAM_TOP_P, 0.9, 0.9},
                 {PARAM_TOP_K, 50, 50},        {PARAM_N, 4, 4},
                 {PARAM_TOP_LOGPROBS, 20, 20}, {PARAM_FREQUENCY_PENALTY, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sim s = sim_new(i, 0, 1);
        s.knob[cases[i].p].hi = cases[i].hi;
        struct probe_report r = run(&s, cases[i].p);
        assert_true(r.mend.has_max && !r.mend.has_min && !r.mend.has_support);
        if (r.mend.max > cases[i].hi || r.mend.max < 0.9 * cases[i].want) {
            fail_msg("%s at most %g: mended to %g", sampling_table[cases[i].p].name, cases[i].hi,
                     r.mend.max);
        }
    }
}

static void test_pairs(void **state)
{
    (void)state;
    struct rules r = rules;
    struct claim c = *rules.param[PARAM_FREQUENCY_PENALTY];
    json_t *conflicts = json_pack("[s]", "temperature");
    c.conflicts = conflicts;
    r.param[PARAM_FREQUENCY_PENALTY] = &c;
    struct sim s = sim_new(1, 0, 1);
    struct probe_report got = run_rules(&s, &r, PARAM_FREQUENCY_PENALTY);
    assert_int_equal(got.verdict, PROBE_TOO_NARROW);
    assert_non_null(strstr(got.text, "with temperature"));
    json_decref(conflicts);
}

/* A refusal that is about another field says nothing, and neither do failures. */
static void test_nothing_is_told(void **state)
{
    (void)state;
    struct sim s = sim_new(1, 0, 1);
    s.knob[PARAM_MAX_TOKENS].wire = "max_completion_tokens";
    struct probe_report r = run(&s, PARAM_TEMPERATURE);
    assert_int_equal(r.verdict, PROBE_NOT_TOLD_APART);
    assert_non_null(strstr(r.text, "unknown parameter"));
    s.names_faults = false;
    r = run(&s, PARAM_TEMPERATURE);
    assert_int_equal(r.verdict, PROBE_NOT_TOLD_APART);
    assert_non_null(strstr(r.text, "without it too"));
    struct sim down = sim_new(1, 0, 1);
    down.fails_every = 1;
    r = run(&down, PARAM_TEMPERATURE);
    assert_int_equal(r.verdict, PROBE_NOT_TOLD_APART);
    assert_non_null(strstr(r.text, "503"));
    assert_true(r.n_trials < 12);
    struct sim peaked = sim_new(1, 0, 60); /* one answer whatever is asked */
    r = run(&peaked, PARAM_TEMPERATURE);
    assert_int_equal(r.verdict, PROBE_NOT_TOLD_APART);
    r = run(&peaked, PARAM_SEED);
    assert_int_equal(r.verdict, PROBE_NOT_TOLD_APART);
}

/* What --dry-run shows is the bound, and every request in it can be written. */
static void test_the_list_is_the_bound(void **state)
{
    (void)state;
    for (int i = 0; i < PARAM_COUNT; i++) {
        struct probe *p = probe_new(&rules, snap, (enum param)i);
        assert_non_null(p);
        struct probe_cost cost = probe_cost_max(p);
        const struct probe_trial *t;
        unsigned n, sum = 0;
        for (size_t k = 0; (t = probe_list(p, k, &n)) != NULL; k++) {
            sum += n;
            assert_true(t->prompt && t->why[0]);
            for (int q = 0; q < PARAM_COUNT; q++) {
                assert_true(!sampling_has(&t->send, (enum param)q) || t->wire[q]);
            }
        }
        assert_int_equal(sum, cost.n_requests);
        assert_true(cost.n_requests <= PROBE_TRIALS_MAX);
        probe_free(p);
    }
}

/* ---- the statistics by themselves */

static void test_tails(void **state)
{
    (void)state;
    assert_true(fabs(probe_stat_binomial_tail(10, 0.5, 8) - 56.0 / 1024) < 1e-12);
    assert_true(probe_stat_binomial_tail(10, 0.5, 0) == 1);
    assert_true(fabs(probe_stat_hyper_tail(24, 12, 12, 12) - 1 / 2704156.0) < 1e-15);
    assert_true(fabs(probe_stat_hyper_tail(5, 2, 3, 0) - 1) < 1e-12);
    assert_true(fabs(probe_stat_hyper_tail(5, 2, 3, 2) - 0.3) < 1e-12);
}

/* Which judgement a row of experiments comes to. ignored: the sharp answers are drawn as the flat
 * ones are. */
static void simulate(bool is_ignored, double noise, double spread, unsigned n, unsigned counts[3])
{
    memset(counts, 0, 3 * sizeof counts[0]);
    for (unsigned k = 0; k < n; k++) {
        struct sim s = sim_new(k * 2654435761u + 17, noise, spread);
        struct asked sharp = {0}, flat = {0};
        struct probe_samples *samples = calloc(1, sizeof *samples);
        enum probe_effect e = PROBE_UNKNOWN;
        double error = 1;
        assert_non_null(samples);
        if (!is_ignored) {
            sampling_set(&sharp.s, PARAM_TEMPERATURE, (struct value){.type = VALUE_NUMBER, .d = 0});
        }
        while (samples->n_flat < PROBE_REPEATS_MAX && e == PROBE_UNKNOWN) {
            struct probe_outcome o = {0};
            say_flat(&s, &sharp, PROBE_ANSWER_TOKENS, &o);
            memcpy(samples->sharp[samples->n_sharp++], o.text, 64);
            say_flat(&s, &flat, PROBE_ANSWER_TOKENS, &o);
            memcpy(samples->flat[samples->n_flat++], o.text, 64);
            if (probe_stat_is_look(samples->n_flat)) {
                e = probe_stat_judge(samples, &error);
            }
        }
        counts[e == PROBE_HAS_EFFECT ? 0 : e == PROBE_NO_EFFECT ? 1 : 2]++;
        free(samples);
    }
}

static void test_error_rates(void **state)
{
    static const struct {
        double noise, spread;
        bool is_supposed; /* the noise is what the bound is proved for */
    } cases[] = {{0, 1, true},           {PROBE_NOISE, 1, true}, {PROBE_NOISE, 2, true},
                 {PROBE_NOISE, 4, true}, {0.1, 1, false},        {0.3, 1, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned ignored[3], honoured[3];
        simulate(true, cases[i].noise, cases[i].spread, 10000, ignored);
        simulate(false, cases[i].noise, cases[i].spread, 10000, honoured);
        print_message("noise %.2f, spread %g: ignored -> effect %u, ignored %u, not told %u; "
                      "honoured -> effect %u, ignored %u, not told %u\n",
                      cases[i].noise, cases[i].spread, ignored[0], ignored[1], ignored[2],
                      honoured[0], honoured[1], honoured[2]);
        assert_int_equal(ignored[0], 0);
        if (cases[i].is_supposed) {
            assert_int_equal(honoured[1], 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tails),
        cmocka_unit_test(test_widened),
        cmocka_unit_test(test_narrowed),
        cmocka_unit_test(test_ignored),
        cmocka_unit_test(test_renamed),
        cmocka_unit_test(test_where_a_bound_has_gone),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_nothing_is_told),
        cmocka_unit_test(test_the_list_is_the_bound),
        cmocka_unit_test(test_unchanged),
        cmocka_unit_test(test_unchanged_but_poor),
        cmocka_unit_test(test_error_rates),
    };
    return cmocka_run_group_tests(tests, open_catalog, close_catalog);
}
