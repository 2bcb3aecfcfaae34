/* test_sampler_orders.c - where the orders of other implementations differ from ours: the boundary
 * cases of the sampling semantics, one by one. Random rows: tests/reference. */
#include "local-engine/distribution.h"
#include "local-engine/sampler.h"
#include "local-engine/sampler_others.h"
#include "local-engine/sampler_stages.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VOCAB_MAX = 100 };

struct ask {
    struct sampler_config config;
    int32_t prompt[128], given[128];
    size_t n_prompt, n_given;
    double p[VOCAB_MAX]; /* probabilities; their logarithms are the logits */
    size_t n;
};

static struct ask ask_of(enum sampler_order order, const double *p, size_t n)
{
    struct ask a = {.n = n};
    sampler_config_init(&a.config);
    a.config.order = order;
    memcpy(a.p, p, n * sizeof *p);
    return a;
}

/* The distribution that is drawn from: out [n]. */
static void distribution_of(const struct ask *a, double *out)
{
    double logits[VOCAB_MAX];
    struct sampler *s;
    const int32_t *ids;
    const double *p;
    int32_t id;
    for (size_t i = 0; i < a->n; i++) {
        logits[i] = a->p[i] > 0 ? log(a->p[i]) : -INFINITY;
        out[i] = 0.0;
    }
    assert_true(
        sampler_new(&s, &a->config, (int32_t)a->n, NULL, 0, a->prompt, a->n_prompt, 1, 0, NULL));
    assert_true(sampler_assume(s, a->given, a->n_given, NULL));
    assert_true(sampler_next_wide(s, logits, NULL, &id, NULL));
    size_t n = sampler_distribution(s, &ids, &p);
    for (size_t i = 0; i < n; i++) {
        out[ids[i]] = p[i];
    }
    sampler_free(s);
}

/* kept: "110" for the first two of three. */
static void assert_kept(const struct ask *a, const char *kept)
{
    double p[VOCAB_MAX];
    char got[VOCAB_MAX + 1] = "";
    distribution_of(a, p);
    for (size_t i = 0; i < a->n; i++) {
        got[i] = p[i] > 0 ? '1' : '0';
    }
    if (strcmp(got, kept) != 0) {
        fail_msg("%s: kept %s, wanted %s", sampler_order_names[a->config.order], got, kept);
    }
}

#define N(a) (sizeof(a) / sizeof *(a))

static void test_names(void **state)
{
    (void)state;
    enum sampler_order o = SAMPLER_ISOTHERM;
    assert_true(sampler_order_parse("llama.cpp", &o));
    assert_int_equal(o, SAMPLER_LLAMA_CPP);
    assert_false(sampler_order_parse("llama", &o));
    assert_false(sampler_order_parse("", &o));
    assert_int_equal(o, SAMPLER_LLAMA_CPP);
}

/* One filter alone on probabilities that no logarithm has rounded. */
static void assert_filtered(const double *p, size_t n, enum sampler_order order, double top_p,
                            double typical_p, const char *kept)
{
    struct stage_candidates c;
    assert_true(stage_candidates_init(&c, (int32_t)n));
    for (size_t i = 0; i < n; i++) {
        c.id[i] = (int32_t)i;
        c.p[i] = p[i];
    }
    c.n = n;
    if (typical_p < 1) {
        (order == SAMPLER_LLAMA_CPP ? others_typical : stage_typical)(&c, typical_p);
    } else if (order == SAMPLER_SGLANG) {
        others_top_k_top_p_joint(&c, 0, top_p);
    } else {
        bool is_ascending = order == SAMPLER_HF || order == SAMPLER_VLLM;
        (is_ascending ? others_top_p_ascending : stage_top_p)(&c, top_p);
    }
    char got[VOCAB_MAX + 1] = "";
    memset(got, '0', n);
    for (size_t i = 0; i < c.n; i++) {
        got[c.id[i]] = '1';
    }
    assert_string_equal(got, kept);
    stage_candidates_release(&c);
}

/* Sums that are exact: the mass before a rank equal to top_p. */
static void test_at_equality(void **state)
{
    (void)state;
    static const double p[] = {0.5, 0.25, 0.125, 0.125}, q[] = {0.625, 0.125, 0.125, 0.125};
    static const char *const kept[] = {"1100", "1100", "1100", "1100", "1110"};
    for (int o = 0; o < SAMPLER_ORDERS; o++) {
        assert_filtered(p, 4, (enum sampler_order)o, 0.75, 1.0, kept[o]);
    }
    assert_filtered(q, 4, SAMPLER_ISOTHERM, 1.0, 0.625, "1000");
    assert_filtered(q, 4, SAMPLER_LLAMA_CPP, 1.0, 0.625, "1100");
    assert_filtered(q, 4, SAMPLER_ISOTHERM, 1.0, 0.7, "1111"); /* all as typical as the last one */
    assert_filtered(q, 4, SAMPLER_LLAMA_CPP, 1.0, 0.7, "1100");
}

static void test_top_p_of_equals(void **state)
{
    (void)state;
    static const double p[] = {0.25, 0.25, 0.25, 0.25};
    static const char *const kept[] = {"1100", "0011", "0011", "1100", "1110"};
    for (int o = 0; o < SAMPLER_ORDERS; o++) {
        struct ask a = ask_of((enum sampler_order)o, p, N(p));
        a.config.top_p = 0.5;
        assert_kept(&a, kept[o]);
        a.config.top_p = 0.0;
        assert_kept(&a, o == SAMPLER_HF || o == SAMPLER_VLLM ? "0001" : "1000");
    }
}

static void test_top_k_of_equals(void **state)
{
    (void)state;
    static const double p[] = {0.125, 0.25, 0.25, 0.25, 0.125};
    static const char *const kept[] = {"01110", "01110", "01110", "01100", "01100"};
    for (int o = 0; o < SAMPLER_ORDERS; o++) {
        struct ask a = ask_of((enum sampler_order)o, p, N(p));
        a.config.top_k = 2;
        assert_kept(&a, kept[o]);
        a.config.top_k = 0;
        assert_kept(&a, "11111");
    }
}

/* top_k 2 leaves 5/8 and 3/8 of 0.8: top_p 0.6 is measured on that, or on the whole. */
static void test_top_k_and_top_p_together(void **state)
{
    (void)state;
    static const double p[] = {0.5, 0.3, 0.2};
    static const char *const kept[] = {"100", "100", "100", "100", "110"};
    for (int o = 0; o < SAMPLER_ORDERS; o++) {
        struct ask a = ask_of((enum sampler_order)o, p, N(p));
        a.config.top_k = 2;
        a.config.top_p = 0.6;
        assert_kept(&a, kept[o]);
    }
}

/* Hot: 0.7, 0.2, 0.1 become 0.51, 0.29, 0.2. Filters before temperature see the first. */
static void test_temperature_last(void **state)
{
    (void)state;
    static const double p[] = {0.7, 0.2, 0.1};
    static const char *const kept[] = {"111", "111", "111", "110", "111"};
    for (int o = 0; o < SAMPLER_ORDERS; o++) {
        struct ask a = ask_of((enum sampler_order)o, p, N(p));
        a.config.temperature = 2.0;
        a.config.top_p = 0.85;
        assert_kept(&a, kept[o]);
        if (o == SAMPLER_LLAMA_CPP) {
            double got[VOCAB_MAX], sum = sqrt(0.7) + sqrt(0.2);
            distribution_of(&a, got);
            assert_true(fabs(got[0] - sqrt(0.7) / sum) < 1e-12);
            assert_true(fabs(got[1] - sqrt(0.2) / sum) < 1e-12);
        }
    }
}

/* With min_p first, top_p is measured on what it leaves: 0.6, 0.4 of 0.5 and 0.333. */
static void test_min_p_first(void **state)
{
    (void)state;
    double p[] = {0.4, 0.3, 0.1, 0.1, 0.1};
    static const char *const kept[] = {"11000", "11000", "10000", "11000", "11000"};
    for (int o = 0; o < SAMPLER_ORDERS; o++) {
        struct ask a = ask_of((enum sampler_order)o, p, N(p));
        a.config.min_p = 0.5;
        a.config.top_p = 0.55;
        assert_kept(&a, kept[o]);
    }
}

/* Token 0 in the prompt, token 1 generated, token 2 in neither. */
static void test_what_penalties_count(void **state)
{
    (void)state;
    static const double p[] = {0.25, 0.25, 0.5};
    static const bool prompt_repeats[] = {false, true, true, true, false};
    for (int o = 0; o < SAMPLER_ORDERS; o++) {
        double got[VOCAB_MAX];
        struct ask a = ask_of((enum sampler_order)o, p, N(p));
        a.n_prompt = a.n_given = 1;
        a.given[0] = 1;
        a.config.repetition_penalty = 2.0; /* logits are negative: doubled, so p becomes p * p */
        distribution_of(&a, got);
        assert_true(fabs(got[1] / got[2] - 0.125) < 1e-12);
        assert_true(fabs(got[0] / got[2] - (prompt_repeats[o] ? 0.125 : 0.5)) < 1e-12);
        a.config.repetition_penalty = 1.0;
        a.config.presence_penalty = log(2.0);
        distribution_of(&a, got);
        assert_true(fabs(got[1] / got[2] - 0.25) < 1e-12);
        assert_true(fabs(got[0] / got[2] - (o == SAMPLER_LLAMA_CPP ? 0.25 : 0.5)) < 1e-12);
    }
}

/* Token 0 was generated 64 or 65 tokens ago. */
static void test_window_of_llama(void **state)
{
    (void)state;
    static const double p[] = {0.25, 0.25, 0.5};
    for (int o = 0; o < SAMPLER_ORDERS; o++) {
        for (size_t n = 64; n <= 65; n++) {
            double got[VOCAB_MAX];
            struct ask a = ask_of((enum sampler_order)o, p, N(p));
            a.n_given = n;
            for (size_t i = 1; i < n; i++) {
                a.given[i] = 1;
            }
            a.config.presence_penalty = log(2.0);
            distribution_of(&a, got);
            bool is_forgotten = o == SAMPLER_LLAMA_CPP && n == 65;
            assert_true(fabs(got[0] / got[2] - (is_forgotten ? 0.5 : 0.25)) < 1e-12);
        }
    }
}

/* The bias changes the sign that the repetition penalty looks at, unless it comes after. */
static void test_bias_before_or_after(void **state)
{
    (void)state;
    static const double p[] = {0.5, 0.5};
    for (int o = 0; o < SAMPLER_ORDERS; o++) {
        double got[VOCAB_MAX], z = log(0.5) + 2.0;
        struct sampler_bias bias = {0, 2.0};
        struct ask a = ask_of((enum sampler_order)o, p, N(p));
        a.n_given = 1;
        a.config.repetition_penalty = 2.0;
        a.config.bias = &bias;
        a.config.n_bias = 1;
        distribution_of(&a, got);
        double want = o == SAMPLER_SGLANG ? log(0.5) * 2.0 + 2.0 : z / 2.0;
        assert_true(fabs(log(got[0] / got[1]) - (want - log(0.5))) < 1e-12);
    }
}

static void test_small_temperatures(void **state)
{
    (void)state;
    static const double p[] = {0.4, 0.4, 0.2};
    for (int o = 0; o < SAMPLER_ORDERS; o++) {
        struct ask a = ask_of((enum sampler_order)o, p, N(p));
        a.config.temperature = 0;
        assert_kept(&a, "100");
        a.config.temperature = 9e-7; /* of two maxima both, unless it is as good as 0 */
        assert_kept(&a, o == SAMPLER_VLLM || o == SAMPLER_SGLANG ? "100" : "110");
        a.config.temperature = 9e-6;
        assert_kept(&a, o == SAMPLER_VLLM ? "100" : "110");
    }
    double got[VOCAB_MAX];
    static const double near[] = {0.5, 0.49};
    struct ask a = ask_of(SAMPLER_VLLM, near, N(near));
    a.config.temperature = 0.001;
    distribution_of(&a, got);
    assert_true(fabs(got[1] / got[0] - pow(0.98, 100.0)) < 1e-12); /* as 0.01 */
}

/* Every order can be shown stage by stage, and its last stage is what is drawn from. */
static void test_distributions(void **state)
{
    (void)state;
    static const double p[] = {0.3, 0.25, 0.2, 0.1, 0.08, 0.05, 0.02};
    float logits[N(p)];
    for (size_t i = 0; i < N(p); i++) {
        logits[i] = (float)log(p[i]);
    }
    for (int o = 0; o < SAMPLER_ORDERS; o++) {
        struct ask a = ask_of((enum sampler_order)o, p, N(p));
        struct distribution *d;
        struct sampler *s;
        const int32_t *ids;
        const double *last;
        a.config.temperature = 1.7;
        a.config.top_k = 6;
        a.config.top_p = 0.9;
        a.config.min_p = 0.1;
        a.config.typical_p = 0.95;
        assert_true(sampler_new(&s, &a.config, (int32_t)N(p), NULL, 0, NULL, 0, 1, 0, NULL));
        assert_true(distribution_new(&d, s, &a.config, logits, NULL, (int32_t)N(p), 10, NULL));
        assert_int_equal(d->n_tokens, N(p));
        size_t n = sampler_distribution(s, &ids, &last), n_left = 0;
        const struct distribution_stage *end = &d->stages[d->n_stages - 1];
        assert_int_equal(end->n_tokens, n);
        for (size_t i = 0; i < d->n_tokens; i++) {
            const struct distribution_token *t = &d->tokens[i];
            bool is_left = t->p[d->n_stages - 1] > 0;
            assert_true(is_left == !t->cut_by);
            for (size_t k = 0; is_left && k < n; k++) {
                assert_true(ids[k] != t->id || fabs(last[k] - t->p[d->n_stages - 1]) < 1e-12);
            }
            n_left += is_left;
        }
        assert_int_equal(n_left, n);
        assert_true(fabs(end->entropy - log(end->n_effective)) < 1e-12);
        distribution_free(d);
        sampler_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_at_equality),
        cmocka_unit_test(test_top_p_of_equals),
        cmocka_unit_test(test_top_k_of_equals),
        cmocka_unit_test(test_top_k_and_top_p_together),
        cmocka_unit_test(test_temperature_last),
        cmocka_unit_test(test_min_p_first),
        cmocka_unit_test(test_what_penalties_count),
        cmocka_unit_test(test_window_of_llama),
        cmocka_unit_test(test_bias_before_or_after),
        cmocka_unit_test(test_small_temperatures),
        cmocka_unit_test(test_distributions),
    };
    return cmocka_run_group_tests_name("sampler_orders", tests, NULL, NULL);
}
