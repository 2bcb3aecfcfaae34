/* test_plan.c - the planner through its header: invariants over random requests to every family of
 * the shipped catalog, and the parts that data cannot show. What single requests lead to is in
 * tests/golden/plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/plan.h"
#include "catalog/versions.h"

static char folder[] = "/tmp/isotherm-plan-XXXXXX";
static char db_path[128];
static struct snapshot *shipped;
static json_t *pool; /* values that random requests take from */

static int open_shipped(void **state)
{
    static const char *const sources[] = {
        "catalog/providers/openai.json", "catalog/providers/anthropic.json",
        "catalog/providers/mistral.json", "catalog/providers/local.json",
        "tests/lib/scripted.json"};
    struct catalog_error err = {0};
    struct catalog_version v;
    struct catalog *c = NULL;
    (void)state;
    if (!mkdtemp(folder)) {
        return -1;
    }
    (void)snprintf(db_path, sizeof db_path, "%s/catalog.db", folder);
    if (!catalog_build(db_path, sources, 5, &(struct version_stamp){"a", "r", "2026-11-30"}, &v,
                       &err) ||
        !catalog_open(&c, db_path, &err) || !catalog_snapshot(c, 0, &shipped, &err)) {
        print_error("%s\n", err.text);
        return -1;
    }
    catalog_close(c);
    pool =
        json_loads("[[], [\"END\"], [\" \", \"a\", \"b\", \"c\", \"d\", \"e\"], {}, {\"5\": 1.5}, "
                   "{\"a\": \"b\"}, \"auto\", \"required\", {\"name\": \"f\"}, [{}]]",
                   0, NULL);
    return pool ? 0 : -1;
}

static int close_shipped(void **state)
{
    (void)state;
    snapshot_release(shipped);
    json_decref(pool);
    (void)remove(db_path);
    (void)rmdir(folder);
    return 0;
}

static struct rules rules_of(const char *provider, const char *model)
{
    struct catalog_error err = {0};
    struct rules r;
    if (!snapshot_rules(shipped, provider, model, CATALOG_CHAT, "2026-11-30", &r, &err)) {
        fail_msg("%s", err.text);
    }
    return r;
}

/* ---- random requests; the generator is fixed, so that a failure can be had again */

static uint64_t seed;

static uint64_t draw(uint64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % n;
}

static struct value draw_value(enum param p)
{
    static const char *const words[] = {"none", "low", "high", "auto", "generated", "all", "x"};
    static const double numbers[] = {-1, 0, 0.2, 0.995, 1, 1.5, 2, 150};
    static const int64_t integers[] = {-5, -1, 0, 1, 2, 16, 129, 70000, INT64_MAX};
    switch (sampling_table[p].type) {
    case VALUE_BOOL:
        return (struct value){.type = VALUE_BOOL, .b = draw(2)};
    case VALUE_INT:
        return (struct value){.type = VALUE_INT, .i = integers[draw(9)]};
    case VALUE_NUMBER:
        return (struct value){.type = VALUE_NUMBER, .d = numbers[draw(8)]};
    case VALUE_STRING:
        return (struct value){.type = VALUE_STRING, .s = words[draw(7)]};
    default:
        return (struct value){.type = VALUE_JSON,
                              .j = json_array_get(pool, draw(json_array_size(pool)))};
    }
}

static struct sampling draw_request(void)
{
    struct sampling s = {0};
    uint64_t density = 1 + draw(4);
    for (int i = 0; i < PARAM_COUNT; i++) {
        enum param p = (enum param)i;
        if (draw(density) == 0) {
            struct sampling one = {0};
            sampling_set(&one, p, draw_value(p));
            /* What no request may ask for never reaches the planner. */
            if (sampling_check(&one, true, NULL)) {
                sampling_set(&s, p, one.v[p]);
            }
        }
    }
    return s;
}

static struct policy draw_policy(void)
{
    struct policy p = {(enum plan_range)draw(3), (enum plan_unsupported)draw(3),
                       (enum plan_many)draw(2), 0};
    if (draw(3) == 0) {
        p.require = PARAM_BIT(draw(PARAM_COUNT)) | PARAM_BIT(draw(PARAM_COUNT));
    }
    return p;
}

/* What holds for every plan beyond plan_check_invariants(). */
static void check_plan(const struct rules *r, const struct policy *pol,
                       const struct sampling *asked, bool is_fallback, const struct plan *p)
{
    assert_true(plan_check_invariants(p, asked));
    assert_false(is_fallback && p->route == PLAN_FALLBACK);
    for (int i = 0; i < PARAM_COUNT; i++) {
        enum param q = (enum param)i;
        if (p->route == PLAN_REJECT || !sampling_has(&p->send, q)) {
            continue;
        }
        const struct claim *c = rules_claim(r, q, asked);
        assert_non_null(c);
        assert_int_equal(c->support, CLAIM_YES);
        struct value v = p->send.v[q];
        double x = v.type == VALUE_INT ? (double)v.i : v.d;
        if (v.type == VALUE_INT || v.type == VALUE_NUMBER) {
            assert_true(!c->has_min || x >= c->min);
            assert_true(!c->has_max || x <= c->max);
        }
        for (size_t k = 0; k < json_array_size(c->conflicts); k++) {
            enum param other = sampling_find(json_string_value(json_array_get(c->conflicts, k)));
            assert_true(other == PARAM_COUNT || !sampling_has(&p->send, other));
        }
        if (sampling_has(asked, q) && (pol->require & PARAM_BIT(q)) && p->route == PLAN_TARGET) {
            assert_true(value_equal(v, asked->v[q]));
        }
    }
    assert_int_equal(p->because & ~asked->has, 0);
}

static void test_invariants(void **state)
{
    (void)state;
    static const char *const models[][2] = {
        {"openai", "gpt-4o"},
        {"openai", "o3"},
        {"openai", "gpt-5.2"},
        {"openai", "gpt-5.6"},
        {"openai", "gpt-6-sol"},
        {"openai", "unheard-of"},
        {"anthropic", "claude-2.1"},
        {"anthropic", "claude-sonnet-4-5"},
        {"anthropic", "claude-opus-5-5"},
        {"anthropic", "claude-opus-4-1"},
        {"mistral", "mistral-small"},
        {"local", "x"},
        {"scripted", "s"},
    };
    seed = 7;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct rules r = rules_of(models[m][0], models[m][1]);
        for (int i = 0; i < 2000; i++) {
            struct sampling asked = draw_request();
            struct policy pol = draw_policy();
            struct plan_context how = {.is_fallback = draw(4) == 0, .stream = draw(4) == 0};
            struct plan p;
            plan_make(&r, &pol, &asked, &how, &p);
            check_plan(&r, &pol, &asked, how.is_fallback, &p);
        }
    }
}

/* The same input, the same plan, whatever lay in `out` before. */
static void test_overwrites(void **state)
{
    (void)state;
    struct rules r = rules_of("anthropic", "claude-sonnet-4-5");
    struct policy pol = {0};
    struct sampling asked = {0};
    struct plan a, b;
    sampling_set(&asked, PARAM_SEED, (struct value){.type = VALUE_INT, .i = 7});
    memset(&a, 0xff, sizeof a);
    memset(&b, 0x55, sizeof b);
    plan_make(&r, &pol, &asked, NULL, &a);
    plan_make(&r, &pol, &asked, NULL, &b);
    assert_int_equal(a.route, PLAN_FALLBACK);
    assert_int_equal(a.because, PARAM_BIT(PARAM_SEED));
    assert_int_equal(a.n_adj, b.n_adj);
    assert_int_equal(a.send.has, b.send.has);
    assert_int_equal(b.because, a.because);
}

static void test_full(void **state)
{
    (void)state;
    struct plan p = {0};
    struct adjustment a = {.param = PARAM_COUNT, .name = "x"};
    for (int i = 0; i < PLAN_ADJ_MAX; i++) {
        assert_true(plan_adjust(&p, a));
    }
    assert_false(plan_adjust(&p, a));
    assert_int_equal(p.n_adj, PLAN_ADJ_MAX);
}

/* Each broken invariant is seen. */
static void test_check_sees(void **state)
{
    (void)state;
    struct sampling asked = {0};
    struct plan good = {.n_calls = 1}, p;
    struct value v = {.type = VALUE_NUMBER, .d = 0.5};
    sampling_set(&asked, PARAM_TEMPERATURE, v);
    sampling_set(&good.send, PARAM_TEMPERATURE, v);
    good.wire[PARAM_TEMPERATURE] = "temperature";
    assert_true(plan_check_invariants(&good, &asked));
    p = good;
    p.wire[PARAM_TEMPERATURE] = NULL;
    assert_false(plan_check_invariants(&p, &asked));
    p = good;
    p.send.v[PARAM_TEMPERATURE].d = 0.4; /* changed in silence */
    assert_false(plan_check_invariants(&p, &asked));
    p = good;
    sampling_clear(&p.send, PARAM_TEMPERATURE); /* lost in silence */
    assert_false(plan_check_invariants(&p, &asked));
    p = good;
    sampling_set(&p.send, PARAM_TOP_P, v); /* invented */
    p.wire[PARAM_TOP_P] = "top_p";
    assert_false(plan_check_invariants(&p, &asked));
    p = good;
    p.because = PARAM_BIT(PARAM_SEED);
    assert_false(plan_check_invariants(&p, &asked));
    p = good;
    p.route = PLAN_REJECT;
    assert_false(plan_check_invariants(&p, &asked));
    p = good;
    p.extra[p.n_extra++] = (struct plan_extra){"do_sample", NULL, 5}; /* added in silence */
    assert_false(plan_check_invariants(&p, &asked));
    assert_true(plan_adjust(
        &p,
        (struct adjustment){.param = PARAM_COUNT, .name = "do_sample", .action = ACTION_ADDED}));
    assert_true(plan_check_invariants(&p, &asked));
}

static void test_check_sees_calls(void **state)
{
    (void)state;
    struct sampling asked = {0};
    struct plan good = {.n_calls = 3, .n_last = 1}, p;
    struct adjustment split = {.param = PARAM_N, .name = "n", .action = ACTION_SPLIT};
    struct adjustment seeds = {.param = PARAM_SEED, .name = "seed", .action = ACTION_REWRITTEN};
    sampling_set(&asked, PARAM_N, (struct value){.type = VALUE_INT, .i = 3});
    assert_false(plan_check_invariants(&good, &asked)); /* made in silence */
    assert_true(plan_adjust(&good, split));
    assert_true(plan_check_invariants(&good, &asked));
    for (size_t n_calls = 0; n_calls < 5; n_calls++) {
        p = good;
        p.n_calls = n_calls;
        assert_int_equal(plan_check_invariants(&p, &asked), n_calls == 3);
    }
    p = good;
    p.n_last = 2; /* one choice too many */
    assert_false(plan_check_invariants(&p, &asked));
    sampling_set(&asked, PARAM_SEED, (struct value){.type = VALUE_INT, .i = 7});
    sampling_set(&p.send, PARAM_SEED, asked.v[PARAM_SEED]);
    p.wire[PARAM_SEED] = "seed";
    p.n_last = 1;
    assert_false(plan_check_invariants(&p, &asked)); /* its seeds go unsaid */
    assert_true(plan_adjust(&p, seeds));
    assert_true(plan_check_invariants(&p, &asked));
}

static void test_stop_is_sent(void **state)
{
    (void)state;
    struct rules r = rules_of("anthropic", "claude-sonnet-4-5");
    struct policy pol = {0};
    struct sampling asked = {0};
    struct plan p;
    json_t *stop = json_pack("[s, s, s]", "\n", "END", " \t");
    sampling_set(&asked, PARAM_STOP, (struct value){.type = VALUE_JSON, .j = stop});
    plan_make(&r, &pol, &asked, NULL, &p);
    assert_true(p.stop_is_local);
    assert_int_equal(p.stop_sent, 1);
    assert_false(plan_stop_is_sent(&p, stop, 0));
    assert_true(plan_stop_is_sent(&p, stop, 1));
    assert_false(plan_stop_is_sent(&p, stop, 2));
    assert_false(plan_stop_is_sent(&p, stop, 3));
    assert_int_equal(p.adj[0].action, ACTION_SPLIT);
    json_t *sent = plan_sent_json(&p, &p.adj[0]), *was = plan_asked_json(&p.adj[0]);
    assert_int_equal(json_array_size(sent), 1);
    assert_int_equal(json_array_size(was), 3);
    json_decref(sent);
    json_decref(was);

    r = rules_of("openai", "o3"); /* takes none at all */
    plan_make(&r, &pol, &asked, NULL, &p);
    assert_int_equal(p.route, PLAN_TARGET);
    assert_true(p.stop_is_local);
    assert_false(plan_stop_is_sent(&p, stop, 1));
    json_decref(stop);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(action_name(ACTION_NOT_SERVED), "not_served");
    assert_string_equal(reason_name(REASON_ENFORCED_LOCALLY), "enforced_locally");
    for (int i = 0; i <= REASON_NOT_SERVED; i++) {
        assert_non_null(reason_name((enum reason)i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_invariants),
        cmocka_unit_test(test_overwrites),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_check_sees),
        cmocka_unit_test(test_check_sees_calls),
        cmocka_unit_test(test_stop_is_sent),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("plan", tests, open_shipped, close_shipped);
}
