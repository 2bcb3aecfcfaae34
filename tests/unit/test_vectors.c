/* test_vectors.c - every case of tests/vectors through the operations of `isothermctl sample`, in
 * this process.
 *
 * Numbers agree within 1e-12 * max(1, |x|); integers, strings, lists of ids and chunks exactly; of
 * an object the fields that are wanted.
 */
#include "gateway/ctl/sample_ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool same(const json_t *want, const json_t *got);

static bool same_number(const json_t *want, const json_t *got)
{
    if (json_is_integer(want) && json_is_integer(got)) {
        return json_integer_value(want) == json_integer_value(got);
    }
    double a = json_number_value(want), b = json_number_value(got);
    return fabs(a - b) <= 1e-12 * fmax(1.0, fabs(a));
}

static bool same_array(const json_t *want, const json_t *got)
{
    bool is_same = json_is_array(got) && json_array_size(want) == json_array_size(got);
    for (size_t i = 0; is_same && i < json_array_size(want); i++) {
        is_same = same(json_array_get(want, i), json_array_get(got, i));
    }
    return is_same;
}

static bool same_object(const json_t *want, const json_t *got)
{
    const char *k;
    json_t *v;
    bool is_same = json_is_object(got);
    json_object_foreach ((json_t *)want, k, v) {
        is_same = is_same && json_object_get(got, k) && same(v, json_object_get(got, k));
    }
    return is_same;
}

static bool same(const json_t *want, const json_t *got)
{
    if (json_is_number(want) && json_is_number(got)) {
        return same_number(want, got);
    }
    if (json_is_array(want)) {
        return same_array(want, got);
    }
    return json_is_object(want) ? same_object(want, got) : json_equal(want, got);
}

static bool run_case(const char *text, size_t len)
{
    json_error_t at;
    json_t *line = json_loadb(text, len, JSON_ALLOW_NUL, &at);
    assert_non_null(line);
    json_t *got = sample_ops_run(line);
    const json_t *want = json_object_get(line, "out");
    bool is_same = got && same(want, got);
    if (!is_same) {
        char *w = json_dumps(want, JSON_ENCODE_ANY), *g = json_dumps(got, JSON_ENCODE_ANY);
        print_error("%s: want %.300s got %.300s\n", json_string_value(json_object_get(line, "id")),
                    w, g ? g : "nothing");
        free(w);
        free(g);
    }
    json_decref(got);
    json_decref(line);
    return is_same;
}

/* *state: the file and how many cases it has at least, so that an empty file fails. */
struct file {
    const char *path;
    size_t n_cases;
};

static void all_cases(void **state)
{
    const struct file *file = *state;
    FILE *f = fopen(file->path, "r");
    assert_non_null(f);
    char *line = NULL;
    size_t cap = 0, n_cases = 0, n_failed = 0;
    ssize_t len;
    while ((len = getline(&line, &cap, f)) > 0) {
        n_cases++;
        n_failed += !run_case(line, (size_t)len);
    }
    free(line);
    (void)fclose(f);
    assert_int_equal(n_cases, file->n_cases);
    assert_int_equal(n_failed, 0);
}

static void comparison_sees_differences(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"[1.0]", "[1.00000000001]"}, {"[1]", "[2]"},       {"[1]", "[1,1]"},
        {"\"a\"", "\"b\""},           {"{\"a\":1}", "{}"},  {"null", "0"},
        {"[\"-inf\"]", "[-1e308]"},   {"{\"a\":1}", "[1]"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        json_t *a = json_loads(pairs[i][0], JSON_DECODE_ANY, NULL);
        json_t *b = json_loads(pairs[i][1], JSON_DECODE_ANY, NULL);
        assert_non_null(a);
        assert_non_null(b);
        assert_true(same(a, a));
        assert_false(same(a, b));
        json_decref(a);
        json_decref(b);
    }
}

static void wrong_input_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"op\":\"nothing\",\"in\":{}}", "unknown_op"},
        {"{\"op\":\"mask\"}", "in"},
        {"{\"op\":\"mask\",\"in\":{\"logits\":[]}}", "logits"},
        {"{\"op\":\"mask\",\"in\":{\"logits\":[1],\"allowed\":[1]}}", "allowed"},
        {"{\"op\":\"logit_bias\",\"in\":{\"logits\":[1],\"bias\":{\"1\":2}}}", "logit_bias"},
        {"{\"op\":\"temperature_probs\",\"in\":{\"logits\":[1,\"nan\"]}}", "nonfinite_logits"},
        {"{\"op\":\"temperature_probs\",\"in\":{\"logits\":[1,\"inf\"]}}", "nonfinite_logits"},
        {"{\"op\":\"filter_probs\",\"in\":{\"logits\":[[1]],\"min_p\":1.5}}", "min_p"},
        {"{\"op\":\"top_p_filter\",\"in\":{\"probs\":[1],\"top_p\":-0.5}}", "top_p"},
        {"{\"op\":\"inverse_cdf\",\"in\":{\"probs\":[0],\"r\":0.5}}", "no_candidate"},
        {"{\"op\":\"chain\",\"in\":{\"logits_per_step\":[[1]],\"seed\":\"1x\"}}", "seed"},
        {"{\"op\":\"beam_search\",\"in\":{\"logprobs\":[[0],[0]],\"vocab\":1,\"beam_width\":65}}",
         "beam_width"},
        {"{\"op\":\"beam_search\",\"in\":{\"logprobs\":[[0]],\"vocab\":1}}", "logprobs"},
        {"{\"op\":\"stream_with_stops\",\"in\":{\"pieces\":[],\"stops\":[\"\"]}}", "stop"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *line = json_loads(cases[i][0], 0, NULL);
        assert_non_null(line);
        json_t *out = sample_ops_run(line);
        const char *error = json_string_value(json_object_get(out, "error"));
        assert_non_null(error);
        assert_string_equal(error, cases[i][1]);
        json_decref(out);
        json_decref(line);
    }
}

int main(void)
{
    static struct file sampler = {"tests/vectors/sampler.jsonl", 323};
    static struct file rng = {"tests/vectors/rng.jsonl", 35};
    static struct file stops = {"tests/vectors/stops.jsonl", 159};
    static struct file beam = {"tests/vectors/beam.jsonl", 45};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparison_sees_differences),
        cmocka_unit_test(wrong_input_is_refused_by_name),
        {"sampler.jsonl", all_cases, NULL, NULL, &sampler},
        {"rng.jsonl", all_cases, NULL, NULL, &rng},
        {"stops.jsonl", all_cases, NULL, NULL, &stops},
        {"beam.jsonl", all_cases, NULL, NULL, &beam},
    };
    return cmocka_run_group_tests_name("vectors", tests, NULL, NULL);
}
