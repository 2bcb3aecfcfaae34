/* test_sampler_select.c - buckets against a plain sort: random, tied, sorted, huge ranges, and
 * limits that lie exactly on a sum. */
#include "local-engine/rng.h"
#include "local-engine/sampler_select.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_MAX 6000

static uint64_t key[N_MAX], copy[N_MAX];
static uint32_t at[N_MAX], swap[N_MAX];
static double weight[N_MAX];
static const struct select_room room = {key, at, swap};

static int by_key_then_index(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (key[i] != key[j]) {
        return key[i] < key[j] ? -1 : 1;
    }
    return (i > j) - (i < j);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The rule, word for word. sums [n] gets the mass strictly before each rank. */
static struct select_cut cut_plainly(size_t n, double limit, double *sums)
{
    static uint32_t order[N_MAX];
    for (size_t i = 0; i < n; i++) {
        order[i] = (uint32_t)i;
    }
    qsort(order, n, sizeof *order, by_key_then_index);
    struct select_cut cut = {key[order[0]], order[0]};
    double before = 0.0;
    for (size_t r = 0; r < n; r++) {
        sums[r] = before;
        if (before < limit) {
            cut = (struct select_cut){key[order[r]], order[r]};
        }
        before += weight[order[r]];
    }
    return cut;
}

static void fill(struct rng *r, size_t n, int kind)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double u = rng_double(r);
        switch (kind) {
        case 0: /* nearly equal */
            weight[i] = 1.0 + 0.01 * u;
            break;
        case 1: /* over hundreds of orders of magnitude */
            weight[i] = exp(-700.0 * u);
            break;
        case 2: /* few values, many ties */
            weight[i] = exp(-floor(8.0 * u));
            break;
        case 3: /* all equal */
            weight[i] = 1.0;
            break;
        default: /* sorted */
            weight[i] = (double)(n - i);
        }
        sum += weight[i];
    }
    for (size_t i = 0; i < n; i++) {
        weight[i] /= sum;
        key[i] = select_key_descending(weight[i]);
    }
}

static void same_cut(size_t n, double limit)
{
    static double sums[N_MAX];
    struct select_cut want = cut_plainly(n, limit, sums);
    struct select_cut got = select_by_mass(&room, weight, n, limit);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(select_keeps(got, key[i], (uint32_t)i),
                         select_keeps(want, key[i], (uint32_t)i));
    }
}

static void mass_is_that_of_a_sort(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 63, 64, 65, 200, 1024, 5999};
    static const double limits[] = {0.0, 1e-300, 1e-12, 0.1, 0.5, 0.9, 0.999999, 1.0 - 1e-16};
    struct rng r;
    rng_init(&r, 11, 0);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int kind = 0; kind < 5; kind++) {
            fill(&r, sizes[s], kind);
            for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
                same_cut(sizes[s], limits[l]);
            }
        }
    }
}

/* The limit is one of the left-to-right sums, or its neighbour: only exact sums decide it. */
static void limits_on_a_sum_are_exact(void **state)
{
    (void)state;
    static double sums[N_MAX];
    struct rng r;
    rng_init(&r, 12, 0);
    for (int kind = 0; kind < 5; kind++) {
        size_t n = 3000;
        fill(&r, n, kind);
        (void)cut_plainly(n, 0.5, sums);
        for (size_t k = 0; k < 40; k++) {
            double sum = sums[rng_next(&r) % n];
            same_cut(n, sum);
            same_cut(n, nextafter(sum, 0.0));
            same_cut(n, nextafter(sum, 2.0));
        }
    }
}

static void kth_is_that_of_a_sort(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 13, 0);
    for (int kind = 0; kind < 5; kind++) {
        for (size_t n = 1; n <= 4000; n = n * 3 + 1) {
            fill(&r, n, kind);
            memcpy(copy, key, n * sizeof *key);
            qsort(copy, n, sizeof *copy, by_number);
            for (size_t k = 1; k <= n; k += 1 + n / 7) {
                fill(&r, n, kind);
                memcpy(copy, key, n * sizeof *key);
                qsort(copy, n, sizeof *copy, by_number);
                assert_true(select_kth(key, n, k) == copy[k - 1]);
            }
        }
    }
}

static void keys_keep_the_order_of_values(void **state)
{
    (void)state;
    static const double falling[] = {INFINITY, 1e300, 1.0,    5e-324,   0.0,
                                     -5e-324,  -2.0,  -1e300, -INFINITY};
    for (size_t i = 0; i + 1 < sizeof falling / sizeof *falling; i++) {
        assert_true(select_key_descending(falling[i]) < select_key_descending(falling[i + 1]));
        assert_true(select_value_descending(select_key_descending(falling[i])) == falling[i]);
    }
    assert_true(select_key_descending(0.0) == select_key_descending(-0.0));
    assert_true(select_key_ascending(0.0) == select_key_ascending(-0.0));
    assert_true(select_key_ascending(1.0) < select_key_ascending(2.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mass_is_that_of_a_sort),
        cmocka_unit_test(limits_on_a_sum_are_exact),
        cmocka_unit_test(kth_is_that_of_a_sort),
        cmocka_unit_test(keys_keep_the_order_of_values),
    };
    return cmocka_run_group_tests_name("sampler_select", tests, NULL, NULL);
}
