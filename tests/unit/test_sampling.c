/* test_sampling.c - the parameter table: neutral values, equality, and what is meaningless whatever
 * backend answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "catalog/sampling.h"

static struct value number(double d)
{
    return (struct value){.type = VALUE_NUMBER, .d = d};
}
static struct value integer(int64_t i)
{
    return (struct value){.type = VALUE_INT, .i = i};
}
static struct value boolean(bool b)
{
    return (struct value){.type = VALUE_BOOL, .b = b};
}
static struct value word(const char *s)
{
    return (struct value){.type = VALUE_STRING, .s = s};
}

static json_t *kept; /* of the test that runs */

static struct value json(const char *text)
{
    json_t *j = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(j);
    assert_int_equal(json_array_append_new(kept, j), 0);
    return (struct value){.type = VALUE_JSON, .j = j};
}

static int setup(void **state)
{
    (void)state;
    kept = json_array();
    return kept ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    json_decref(kept);
    return 0;
}

static void test_names_and_presence(void **state)
{
    (void)state;
    struct sampling s = {0};
    for (int p = 0; p < PARAM_COUNT; p++) {
        assert_int_equal(sampling_find(sampling_table[p].name), p);
    }
    assert_int_equal(sampling_find("temprature"), PARAM_COUNT);
    assert_false(sampling_has(&s, PARAM_SEED));
    sampling_set(&s, PARAM_SEED, integer(0));
    assert_true(sampling_has(&s, PARAM_SEED));
    assert_int_equal(s.v[PARAM_SEED].i, 0);
    sampling_clear(&s, PARAM_SEED);
    assert_false(sampling_has(&s, PARAM_SEED));
}

static void test_neutral(void **state)
{
    (void)state;
    const struct {
        enum param p;
        struct value v;
        bool is_neutral;
    } cases[] = {
        {PARAM_TEMPERATURE, number(1), true},
        {PARAM_TEMPERATURE, integer(1), true},
        {PARAM_TEMPERATURE, number(0), false},
        {PARAM_TOP_P, number(1), true},
        {PARAM_TOP_P, number(0), false},
        {PARAM_TOP_K, integer(0), true},
        {PARAM_TOP_K, integer(-1), true},
        {PARAM_TOP_K, integer(1), false},
        {PARAM_MIN_P, number(0), true},
        {PARAM_SEED, integer(-1), true},
        {PARAM_SEED, integer(0), false},
        {PARAM_N, integer(1), true},
        {PARAM_N, integer(2), false},
        {PARAM_PRESENCE_PENALTY, number(-0.0), true},
        {PARAM_REPETITION_PENALTY, number(1), true},
        {PARAM_REPETITION_PENALTY, number(0), false},
        {PARAM_LOGPROBS, boolean(false), true},
        {PARAM_LOGPROBS, boolean(true), false},
        {PARAM_TOP_LOGPROBS, integer(0), true},
        {PARAM_STOP, json("[]"), true},
        {PARAM_STOP, json("[\"a\"]"), false},
        {PARAM_LOGIT_BIAS, json("{}"), true},
        {PARAM_LOGIT_BIAS, json("{\"1\":0}"), false},
        {PARAM_TOOL_CHOICE, json("\"auto\""), true},
        {PARAM_TOOL_CHOICE, word("auto"), true},
        {PARAM_TOOL_CHOICE, json("{}"), false},
        {PARAM_PARALLEL_TOOL_CALLS, boolean(true), true},
        {PARAM_PARALLEL_TOOL_CALLS, boolean(false), false},
        {PARAM_SAMPLER_ORDER, word("isotherm"), true},
        {PARAM_SAMPLER_ORDER, word("hf"), false},
        {PARAM_PENALTY_SCOPE, word("generated"), true},
        {PARAM_PENALTY_SCOPE, word("all"), false},
        {PARAM_MAX_TOKENS, integer(1), false},
        {PARAM_USER, word(""), false},
        {PARAM_LENGTH_PENALTY, number(1), true},
        {PARAM_STORE, boolean(false), true},
        {PARAM_REASONING_EFFORT, word("none"), false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (sampling_is_neutral(cases[i].p, cases[i].v) != cases[i].is_neutral) {
            fail_msg("case %zu: %s", i, sampling_table[cases[i].p].name);
        }
    }
}

static void test_equal(void **state)
{
    (void)state;
    assert_true(value_equal(integer(1), number(1.0)));
    assert_false(value_equal(integer(1), number(1.5)));
    assert_true(value_equal(number(0.0), number(-0.0)));
    assert_false(value_equal(integer(INT64_MAX), integer(INT64_MAX - 1))); /* equal as doubles */
    assert_false(value_equal(integer(1), boolean(true)));
    assert_true(value_equal(json("{\"a\":1,\"b\":[2]}"), json("{\"b\":[2],\"a\":1}")));
    assert_false(value_equal(json("[1,2]"), json("[2,1]")));
    assert_true(value_equal(word("x"), word("x")));
    assert_true(
        value_equal((struct value){.type = VALUE_NONE}, (struct value){.type = VALUE_NONE}));
}

/* Expects one value to be refused (or taken) with the parameter named. */
static void check(enum param p, struct value v, bool is_good)
{
    struct sampling s = {0};
    struct sampling_fault fault = {.param = PARAM_COUNT};
    sampling_set(&s, p, v);
    if (sampling_check(&s, false, &fault) != is_good) {
        fail_msg("%s: %s", sampling_table[p].name, is_good ? fault.text : "taken");
    }
    assert_int_equal(fault.param, is_good ? PARAM_COUNT : p);
    assert_int_equal(sampling_check(&s, false, NULL), is_good);
}

static void test_ranges(void **state)
{
    (void)state;
    check(PARAM_TEMPERATURE, number(0), true);
    check(PARAM_TEMPERATURE, number(2), true);
    check(PARAM_TEMPERATURE, integer(2), true);
    check(PARAM_TEMPERATURE, number(2.0001), false);
    check(PARAM_TEMPERATURE, number(-0.5), false);
    check(PARAM_TEMPERATURE, number(NAN), false);
    check(PARAM_TEMPERATURE, number(INFINITY), false);
    check(PARAM_TEMPERATURE, word("0.7"), false);
    check(PARAM_TOP_P, number(0), true);
    check(PARAM_TOP_P, number(1.01), false);
    check(PARAM_TOP_K, integer(-1), true);
    check(PARAM_TOP_K, integer(-2), false);
    check(PARAM_TOP_K, number(1.5), false);
    check(PARAM_SEED, integer(INT64_MIN), true);
    check(PARAM_SEED, integer(INT64_MAX), true);
    check(PARAM_N, integer(0), false);
    check(PARAM_N, integer(129), false);
    check(PARAM_MAX_TOKENS, integer(0), false);
    check(PARAM_REPETITION_PENALTY, number(0), false);
    check(PARAM_REPETITION_PENALTY, number(1e-9), true);
    check(PARAM_LOGPROBS, integer(1), false);
    check(PARAM_PENALTY_SCOPE, word("prompt"), false);
    check(PARAM_LOGPROBS_MODE, word("raw"), true);
    check(PARAM_SAMPLER_ORDER, word("llama.cpp"), true);
    check(PARAM_SAMPLER_ORDER, word("llamacpp"), false);
    check(PARAM_USER, integer(1), false);
}

static void test_local_temperature(void **state)
{
    (void)state;
    struct sampling s = {0};
    struct sampling_fault fault;
    sampling_set(&s, PARAM_TEMPERATURE, number(50));
    assert_true(sampling_check(&s, true, &fault));
    assert_false(sampling_check(&s, false, &fault));
    assert_int_equal(fault.param, PARAM_TEMPERATURE);
}

static void test_search(void **state)
{
    (void)state;
    struct sampling s = {0};
    struct sampling_fault fault;
    sampling_set(&s, PARAM_N, integer(4));
    sampling_set(&s, PARAM_NUM_BEAMS, integer(1));
    assert_false(sampling_is_search(&s));
    assert_true(sampling_check(&s, true, &fault));
    sampling_set(&s, PARAM_USE_BEAM_SEARCH, boolean(true));
    assert_true(sampling_is_search(&s));
    assert_false(sampling_check(&s, true, &fault));
    assert_int_equal(fault.param, PARAM_N);
    sampling_set(&s, PARAM_NUM_BEAMS, integer(4));
    assert_true(sampling_check(&s, true, &fault));
    sampling_set(&s, PARAM_USE_BEAM_SEARCH, boolean(false));
    assert_true(sampling_is_search(&s));
    sampling_set(&s, PARAM_NUM_BEAMS, integer(3));
    assert_false(sampling_check(&s, true, &fault));
    sampling_clear(&s, PARAM_NUM_BEAMS);
    sampling_set(&s, PARAM_USE_BEAM_SEARCH, boolean(true));
    sampling_set(&s, PARAM_N, integer(65));
    assert_false(sampling_check(&s, true, &fault));
}

static void test_lists(void **state)
{
    (void)state;
    check(PARAM_STOP, json("[\"a\",\"\\n\"]"), true);
    check(PARAM_STOP, json("[\"\"]"), false);
    check(PARAM_STOP, json("[1]"), false);
    check(PARAM_STOP, json("\"a\""), false);
    check(PARAM_STOP_TOKEN_IDS, json("[0,2147483647]"), true);
    check(PARAM_STOP_TOKEN_IDS, json("[-1]"), false);
    check(PARAM_STOP_TOKEN_IDS, json("[2147483648]"), false);
    check(PARAM_STOP_TOKEN_IDS, json("[1.0]"), false);
    check(PARAM_LOGIT_BIAS, json("{\"0\":-100,\"2147483647\":100}"), true);
    check(PARAM_LOGIT_BIAS, json("{\"2147483648\":0}"), false);
    check(PARAM_LOGIT_BIAS, json("{\"1\":100.5}"), false);
    check(PARAM_LOGIT_BIAS, json("{\"-1\":1}"), false);
    check(PARAM_LOGIT_BIAS, json("{\"01\":1}"), false);
    check(PARAM_LOGIT_BIAS, json("{\"\":1}"), false);
    check(PARAM_LOGIT_BIAS, json("{\"a\":1}"), false);
    check(PARAM_LOGIT_BIAS, json("{\"1\":true}"), false);
    check(PARAM_LOGIT_BIAS, json("[]"), false);
    check(PARAM_TOOLS, json("{}"), false);
    check(PARAM_TOOL_CHOICE, json("[]"), false);
    check(PARAM_TOOL_CHOICE, word("required"), true);
    check(PARAM_METADATA, json("[]"), false);
}

static void test_list_limits(void **state)
{
    (void)state;
    json_t *stop = json_array(), *bias = json_object();
    char key[16];
    for (int i = 0; i < SAMPLING_STOP_MAX; i++) {
        json_array_append_new(stop, json_string("s"));
    }
    for (int i = 0; i < SAMPLING_BIAS_MAX; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        json_object_set_new(bias, key, json_integer(1));
    }
    check(PARAM_STOP, (struct value){.type = VALUE_JSON, .j = stop}, true);
    check(PARAM_LOGIT_BIAS, (struct value){.type = VALUE_JSON, .j = bias}, true);
    json_array_append_new(stop, json_string("s"));
    json_object_set_new(bias, "99999", json_integer(1));
    check(PARAM_STOP, (struct value){.type = VALUE_JSON, .j = stop}, false);
    check(PARAM_LOGIT_BIAS, (struct value){.type = VALUE_JSON, .j = bias}, false);
    json_decref(stop);
    json_decref(bias);
}

static void check_pair(enum param p, struct value v, enum param q, struct value w, int wrong)
{
    struct sampling s = {0};
    struct sampling_fault fault = {.param = PARAM_COUNT};
    sampling_set(&s, p, v);
    sampling_set(&s, q, w);
    assert_int_equal(sampling_check(&s, false, &fault), wrong == PARAM_COUNT);
    assert_int_equal(fault.param, wrong);
}

static void test_together(void **state)
{
    (void)state;
    check(PARAM_TOP_LOGPROBS, integer(0), true);
    check(PARAM_TOP_LOGPROBS, integer(1), false);
    check_pair(PARAM_TOP_LOGPROBS, integer(1), PARAM_LOGPROBS, boolean(true), PARAM_COUNT);
    check_pair(PARAM_TOP_LOGPROBS, integer(1), PARAM_LOGPROBS, boolean(false), PARAM_TOP_LOGPROBS);
    check_pair(PARAM_MIN_TOKENS, integer(5), PARAM_MAX_TOKENS, integer(5), PARAM_COUNT);
    check_pair(PARAM_MIN_TOKENS, integer(6), PARAM_MAX_TOKENS, integer(5), PARAM_MIN_TOKENS);
    check_pair(PARAM_BEST_OF, integer(2), PARAM_N, integer(2), PARAM_COUNT);
    check_pair(PARAM_BEST_OF, integer(2), PARAM_N, integer(3), PARAM_BEST_OF);
    check_pair(PARAM_RESPONSE_FORMAT_JSON_OBJECT, json("{}"), PARAM_RESPONSE_FORMAT_JSON_SCHEMA,
               json("{}"), PARAM_RESPONSE_FORMAT_JSON_SCHEMA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_presence),
        cmocka_unit_test_setup_teardown(test_neutral, setup, teardown),
        cmocka_unit_test_setup_teardown(test_equal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ranges, setup, teardown),
        cmocka_unit_test(test_local_temperature),
        cmocka_unit_test(test_search),
        cmocka_unit_test_setup_teardown(test_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_together, setup, teardown),
    };
    return cmocka_run_group_tests_name("sampling", tests, NULL, NULL);
}
