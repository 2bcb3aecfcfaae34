/* test_draws.c - two million draws from fifty distributions follow them: chi-square, every p-value
 * above 1e-4. Seeds are fixed, so it cannot fail by chance. */
#include "local-engine/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DISTRIBUTIONS = 50, DRAWS = 40000, VOCAB_MAX = 300, EXPECTED_MIN = 5 };

/* Q(a, x), the upper regularised incomplete gamma function: by its series below a + 1, else by
 * Lentz's continued fraction. */
static double gamma_upper(double a, double x)
{
    double scale = exp(-x + a * log(x) - lgamma(a));
    if (x < a + 1) {
        double term = 1 / a, sum = term;
        for (double n = a + 1; term > sum * 1e-15; n++) {
            term *= x / n;
            sum += term;
        }
        return 1 - sum * scale;
    }
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int i = 1; i < 10000; i++) {
        double an = -i * (i - a), delta;
        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        delta = d * c;
        h *= delta;
        if (fabs(delta - 1) < 1e-15) {
            break;
        }
    }
    return scale * h;
}

/* Of that many degrees of freedom. */
static double p_value(double chi_square, size_t n_free)
{
    return n_free ? gamma_upper((double)n_free / 2, chi_square / 2) : 1.0;
}

static void test_p_values_are_those_of_tables(void **state)
{
    (void)state;
    assert_true(fabs(p_value(3.841458820694124, 1) - 0.05) < 1e-12);
    assert_true(fabs(p_value(18.307038053275146, 10) - 0.05) < 1e-12);
    assert_true(fabs(p_value(149.4492530044598, 100) - 0.001) < 1e-9);
    assert_true(fabs(p_value(4.0, 10) - 0.9473469826562889) < 1e-12);
}

struct drawn {
    int32_t n_vocab;
    float logits[VOCAB_MAX];
    double p[VOCAB_MAX]; /* what the sampler says that it draws from */
    size_t count[VOCAB_MAX];
};

static void draw_all(struct drawn *d, const struct sampler_config *c, int64_t seed)
{
    struct sampler *s;
    const int32_t *ids;
    const double *p;
    assert_true(sampler_new(&s, c, d->n_vocab, NULL, 0, NULL, 0, seed, 0, NULL));
    memset(d->count, 0, sizeof d->count);
    memset(d->p, 0, sizeof d->p);
    for (size_t i = 0; i < DRAWS; i++) {
        int32_t id = -1;
        assert_true(sampler_next(s, d->logits, NULL, &id, NULL));
        d->count[id]++;
    }
    size_t n = sampler_distribution(s, &ids, &p);
    for (size_t i = 0; i < n; i++) {
        d->p[ids[i]] = p[i];
    }
    sampler_free(s);
}

/* What is expected less than five times counts together. */
static double test_fit(const struct drawn *d)
{
    double chi = 0, rare = 0, rare_count = 0;
    size_t n = 0;
    for (int32_t i = 0; i < d->n_vocab; i++) {
        double expected = d->p[i] * DRAWS, off = (double)d->count[i] - expected;
        if (d->p[i] == 0) {
            assert_int_equal(d->count[i], 0); /* what was cut is never drawn */
        } else if (expected < EXPECTED_MIN) {
            rare += expected;
            rare_count += (double)d->count[i];
        } else {
            chi += off * off / expected;
            n++;
        }
    }
    if (rare >= EXPECTED_MIN) {
        chi += (rare_count - rare) * (rare_count - rare) / rare;
        n++;
    }
    return p_value(chi, n > 0 ? n - 1 : 0);
}

static void test_draws_follow_the_distribution(void **state)
{
    (void)state;
    static struct drawn d;
    struct rng r;
    double least = 1, sum = 0;
    rng_init(&r, 5, 0);
    for (int64_t k = 0; k < DISTRIBUTIONS; k++) {
        struct sampler_config c;
        sampler_config_init(&c);
        d.n_vocab = 2 + (int32_t)(rng_next(&r) % (VOCAB_MAX - 2));
        for (int32_t i = 0; i < d.n_vocab; i++) {
            d.logits[i] = (float)(6 * rng_double(&r) * (k % 3 ? 1 : 0.1));
        }
        c.temperature = 0.5 + rng_double(&r);
        c.top_p = k % 2 ? 1.0 : 0.9;
        c.top_k = k % 5 ? 0 : 20;
        draw_all(&d, &c, k);
        double p = test_fit(&d);
        least = p < least ? p : least;
        sum += p;
    }
    print_message("%d draws: least p-value %.5f, mean %.3f\n", DISTRIBUTIONS * DRAWS, least,
                  sum / DISTRIBUTIONS);
    assert_true(least > 1e-4);
    assert_true(sum / DISTRIBUTIONS > 0.3 && sum / DISTRIBUTIONS < 0.7); /* nor too good */
}

/* A token of each of 4,000 seeds: exactly those that a filter keeps come, in their proportions. */
static void test_edges_of_the_filters(void **state)
{
    (void)state;
    enum { V = 4, SEEDS = 4000 };
    static const struct {
        double top_p;
        int64_t top_k;
        int n_kept; /* the first ones */
    } cases[] = {{0.65, 0, 2}, {0.75, 0, 3},    {0.05, 0, 1},       {0, 0, 1},
                 {1, 0, 4},    {1, -1, 4},      {1, 1, 1},          {1, 2, 2},
                 {1, 3, 3},    {1, 1000000, 4}, {1, 2147483647, 4}, {1, INT64_MAX, 4}};
    static const double p[V] = {0.4, 0.3, 0.2, 0.1};
    float logits[V];
    for (int i = 0; i < V; i++) {
        logits[i] = (float)log(p[i]);
    }
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct sampler_config c;
        size_t count[V] = {0};
        double kept = 0;
        sampler_config_init(&c);
        c.top_p = cases[k].top_p;
        c.top_k = cases[k].top_k;
        for (int64_t seed = 0; seed < SEEDS; seed++) {
            struct sampler *s;
            int32_t id = -1;
            assert_true(sampler_new(&s, &c, V, NULL, 0, NULL, 0, seed, 0, NULL));
            assert_true(sampler_next(s, logits, NULL, &id, NULL));
            count[id]++;
            sampler_free(s);
        }
        for (int i = 0; i < cases[k].n_kept; i++) {
            kept += p[i];
        }
        for (int i = 0; i < V; i++) {
            double q = i < cases[k].n_kept ? p[i] / kept : 0;
            assert_true(q > 0 ? count[i] > 0 : count[i] == 0);
            assert_true(fabs((double)count[i] / SEEDS - q) <= 4 * sqrt(q * (1 - q) / SEEDS));
        }
    }
}

/* Two draws of a hundred that go astray are seen. */
static void test_a_bias_would_be_seen(void **state)
{
    (void)state;
    static struct drawn d;
    struct sampler_config c;
    sampler_config_init(&c);
    d.n_vocab = 4;
    memset(d.logits, 0, sizeof d.logits);
    draw_all(&d, &c, 1);
    assert_true(test_fit(&d) > 1e-4);
    for (size_t i = 0; i < DRAWS / 50; i++) {
        d.count[0]++;
        d.count[1]--;
    }
    assert_true(test_fit(&d) < 1e-4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_p_values_are_those_of_tables),
        cmocka_unit_test(test_draws_follow_the_distribution),
        cmocka_unit_test(test_edges_of_the_filters),
        cmocka_unit_test(test_a_bias_would_be_seen),
    };
    return cmocka_run_group_tests_name("draws", tests, NULL, NULL);
}
