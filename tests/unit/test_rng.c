/* test_rng.c - against numpy.random.default_rng: values computed by numpy 1.24.2. The steps in
 * between are in tests/vectors/rng.jsonl. */
#include "local-engine/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct known {
    int64_t seed;
    uint32_t choice;
    double value[5];
};

static const struct known known[] = {
    {0,
     0,
     {0.6369616873214543, 0.2697867137638703, 0.04097352393619469, 0.016527635528529094,
      0.8132702392002724}},
    {42,
     0,
     {0.7739560485559633, 0.4388784397520523, 0.8585979199113825, 0.6973680290593639,
      0.09417734788764953}},
    {INT64_C(1) << 32,
     0,
     {0.8897387912781343, 0.5571380502062263, 0.8009080868919721, 0.9565138174753386,
      0.05861516014935442}},
    {INT64_MAX,
     0,
     {0.1754661243027813, 0.4699286514015091, 0.8250374441530688, 0.3049326362166703,
      0.4761663305375816}},
    {42,
     1,
     {0.4674907799518424, 0.04644889644868733, 0.5955100095961371, 0.10727525115747005,
      0.9748964849195676}},
    {42,
     2,
     {0.07123920291270869, 0.7101597228953526, 0.07180046455623235, 0.31932759405679634,
      0.6707990246296597}},
};

static void is_numpy(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct rng r;
        rng_init(&r, known[i].seed, known[i].choice);
        for (size_t k = 0; k < 5; k++) {
            assert_true(rng_double(&r) == known[i].value[k]);
        }
    }
}

static void negative_seed_is_taken_modulo_2_64(void **state)
{
    (void)state;
    struct rng a, b;
    rng_init(&a, -2, 0);
    rng_init_spawn(&b, UINT64_MAX - 1, NULL, 0);
    assert_true(rng_next(&a) == rng_next(&b));
}

static void spawn_key_zero_is_not_no_key(void **state)
{
    (void)state;
    struct rng a, b;
    const uint32_t zero = 0;
    rng_init_spawn(&a, 42, &zero, 1);
    rng_init_spawn(&b, 42, NULL, 0);
    assert_true(rng_next(&a) != rng_next(&b));
}

static void advance_is_as_many_steps(void **state)
{
    (void)state;
    static const uint64_t steps[] = {0, 1, 2, 3, 7, 64, 1000, 4097};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct rng a, b;
        rng_init(&a, 7, 3);
        b = a;
        for (uint64_t k = 0; k < steps[i]; k++) {
            (void)rng_next(&a);
        }
        rng_advance(&b, steps[i]);
        assert_true(a.state == b.state);
        assert_true(rng_next(&a) == rng_next(&b));
    }
    /* Beyond what can be stepped: jumps add up. */
    struct rng a, b;
    rng_init(&a, 7, 0);
    b = a;
    rng_advance(&a, UINT64_MAX);
    rng_advance(&b, UINT64_MAX - 12345);
    rng_advance(&b, 12345);
    assert_true(a.state == b.state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_numpy),
        cmocka_unit_test(negative_seed_is_taken_modulo_2_64),
        cmocka_unit_test(spawn_key_zero_is_not_no_key),
        cmocka_unit_test(advance_is_as_many_steps),
    };
    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
