/* test_link.c - frames over a stream that cuts where it likes, and what the parameters of a
 * request mean. */
#include "catalog/sampling.h"
#include "local-engine/link.h"
#include "local-engine/link_params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Feeds pieces of `piece` bytes and counts the frames, which must be {"i":0}, {"i":1} ... */
static int feed(struct link_reader *r, const char *bytes, size_t n, size_t piece)
{
    int n_frames = 0;
    for (size_t i = 0; i < n; i += piece) {
        const char *frame;
        size_t len;
        assert_true(link_reader_feed(r, bytes + i, n - i < piece ? n - i : piece, NULL));
        while (link_reader_next(r, &frame, &len) == 1) {
            json_t *o = json_loadb(frame, len, 0, NULL);
            assert_int_equal(json_integer_value(json_object_get(o, "i")), n_frames);
            json_decref(o);
            n_frames++;
        }
    }
    return n_frames;
}

static void test_any_split(void **state)
{
    (void)state;
    enum { N = 50 };
    char *stream = NULL;
    size_t total = 0;
    for (int i = 0; i < N; i++) {
        size_t len;
        json_t *o = json_pack("{s:i, s:o}", "i", i, "filler",
                              json_stringn("ααααααααααααααααααα", (size_t)(i % 10) * 2));
        char *frame = link_frame(o, &len);
        assert_non_null(frame);
        json_decref(o);
        stream = realloc(stream, total + len);
        memcpy(stream + total, frame, len);
        total += len;
        free(frame);
    }
    for (size_t piece = 1; piece < 70; piece++) {
        struct link_reader r;
        link_reader_init(&r);
        assert_int_equal(feed(&r, stream, total, piece), N);
        assert_true(r.cap < 4096); /* what was given out is dropped */
        link_reader_release(&r);
    }
    free(stream);
}

static void test_header(void **state)
{
    (void)state;
    size_t len;
    json_t *o = json_object();
    char *frame = link_frame(o, &len);
    assert_int_equal(len, 6);
    assert_memory_equal(frame, "\x02\0\0\0{}", 6);
    free(frame);
    json_decref(o);
}

static void test_doubles_keep_their_bits(void **state)
{
    (void)state;
    static const double x[] = {0.1, -0.45844, 1.0 / 3, 5e-324, 1.7976931348623157e308, -9999.0};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        size_t len;
        json_t *o = json_pack("{s:f}", "x", x[i]);
        char *frame = link_frame(o, &len);
        json_t *back = json_loadb(frame + 4, len - 4, 0, NULL);
        double y = json_real_value(json_object_get(back, "x"));
        assert_memory_equal(&y, &x[i], sizeof y);
        json_decref(back);
        json_decref(o);
        free(frame);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct link_reader r;
    const char *frame;
    size_t len;
    link_reader_init(&r);
    assert_int_equal(link_reader_next(&r, &frame, &len), 0);
    assert_true(link_reader_feed(&r, "\x01\x00\x00\x02", 4, NULL)); /* 32 MiB and one byte */
    assert_int_equal(link_reader_next(&r, &frame, &len), -1);
    assert_int_equal(link_reader_next(&r, &frame, &len), -1);
    link_reader_release(&r);
    assert_true(link_reader_feed(&r, "\x00\x00\x00\x00\x00\x00\x00\x02", 8, NULL));
    assert_int_equal(link_reader_next(&r, &frame, &len), 1);
    assert_int_equal(len, 0);
    assert_int_equal(link_reader_next(&r, &frame, &len), 0); /* exactly the limit: waits */
    link_reader_release(&r);
    link_reader_release(NULL);

    char *big = malloc(LINK_FRAME_MAX);
    memset(big, 'x', LINK_FRAME_MAX);
    json_t *o = json_pack("{s:s#}", "t", big, (int)(LINK_FRAME_MAX - 8));
    char *bytes = link_frame(o, &len);
    assert_non_null(bytes);
    assert_int_equal(len, LINK_FRAME_MAX + 4);
    free(bytes);
    json_decref(o);
    o = json_pack("{s:s#}", "t", big, (int)(LINK_FRAME_MAX - 7));
    assert_null(link_frame(o, &len));
    json_decref(o);
    free(big);
}

/* ---- parameters */

static bool parse(const char *text, struct link_params *p, struct engine_error *err)
{
    json_t *o = json_loads(text, JSON_ALLOW_NUL, NULL);
    assert_non_null(o);
    memset(err, 0, sizeof *err);
    bool ok = link_params_parse(o, p, err);
    if (ok) {
        link_params_release(p); /* numbers can still be read; strings not */
    }
    json_decref(o);
    return ok;
}

static void test_names_are_the_daemons(void **state)
{
    (void)state;
    for (size_t i = 0; link_param_names[i]; i++) {
        char text[128];
        struct link_params p;
        struct engine_error err;
        assert_int_not_equal(sampling_find(link_param_names[i]), PARAM_COUNT);
        /* Each is known: an object is the wrong type for all but logit_bias. */
        (void)snprintf(text, sizeof text, "{\"seed\":1,\"%s\":{\"x\":1}}", link_param_names[i]);
        if (strcmp(link_param_names[i], "seed") == 0) {
            (void)snprintf(text, sizeof text, "{\"seed\":{}}");
        }
        assert_false(parse(text, &p, &err));
        assert_int_equal(err.code, ENGINE_BAD_PARAM);
        /* two of them are one field of a request */
        bool is_format = strncmp(link_param_names[i], "response_format_", 16) == 0;
        assert_string_equal(err.param, is_format ? "response_format" : link_param_names[i]);
        assert_null(strstr(err.text, "has no parameter"));
        (void)snprintf(text, sizeof text, "{\"%s\":null,\"seed\":1}", link_param_names[i]);
        assert_true(strcmp(link_param_names[i], "seed") == 0 || parse(text, &p, &err));
    }
}

static void test_ranges_are_the_daemons(void **state)
{
    (void)state;
    static const enum param ints[] = {PARAM_N,          PARAM_BEST_OF,
                                      PARAM_NUM_BEAMS,  PARAM_MAX_TOKENS,
                                      PARAM_MIN_TOKENS, PARAM_NO_REPEAT_NGRAM_SIZE};
    struct link_params p;
    struct engine_error err;
    char text[128];
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        const struct param_info *info = &sampling_table[ints[i]];
        for (int d = 0; d < 2; d++) {
            (void)snprintf(text, sizeof text, "{\"seed\":1,\"%s\":%.0f,\"echo\":true}", info->name,
                           d ? info->hi + 1 : info->lo - 1);
            assert_false(parse(text, &p, &err));
            assert_string_equal(err.param, info->name);
        }
        bool is_n = ints[i] == PARAM_N; /* best_of follows n */
        (void)snprintf(text, sizeof text, "{\"seed\":1,\"%s\":%.0f,\"echo\":true}", info->name,
                       is_n ? info->hi : info->lo);
        assert_true(parse(text, &p, &err));
    }
}

/* No token at all is for those who want to see their prompt. */
static void test_zero_tokens_need_echo(void **state)
{
    (void)state;
    struct link_params p;
    struct engine_error err;
    assert_true(parse("{\"seed\":1,\"max_tokens\":0,\"echo\":true}", &p, &err));
    struct session_request r = link_params_request(&p, NULL, 0);
    assert_true(r.generates_nothing && r.echo);
    assert_true(parse("{\"seed\":1}", &p, &err));
    r = link_params_request(&p, NULL, 0);
    assert_true(!r.generates_nothing && !r.echo && r.max_tokens <= 0);
    assert_false(parse("{\"seed\":1,\"max_tokens\":0}", &p, &err));
    assert_string_equal(err.param, "max_tokens");
    assert_false(parse("{\"seed\":1,\"max_tokens\":0,\"min_tokens\":1,\"echo\":true}", &p, &err));
    assert_string_equal(err.param, "min_tokens");
}

static void test_values(void **state)
{
    (void)state;
    json_t *o = json_loads("{\"temperature\":0,\"top_k\":-1,\"top_p\":0.5,\"seed\":-"
                           "9223372036854775808,\"stop\":[\"a\",\"b c\"],\"stop_token_ids\":[7],"
                           "\"max_tokens\":5,\"n\":2,\"best_of\":3,\"logit_bias\":{\"0\":-100,"
                           "\"12\":2.5},\"logprobs\":true,\"top_logprobs\":20,"
                           "\"penalty_scope\":\"all\",\"logprobs_mode\":\"processed\",\"echo\":"
                           "true,\"ignore_eos\":true,\"repetition_penalty\":1.5}",
                           0, NULL);
    struct link_params p;
    assert_true(link_params_parse(o, &p, NULL));
    int32_t prompt = 1;
    struct session_request r = link_params_request(&p, &prompt, 1);
    assert_true(r.sampling->temperature == 0 && r.sampling->top_k == -1 &&
                r.sampling->top_p == 0.5 && r.sampling->repetition_penalty == 1.5);
    assert_true(r.sampling->min_p == 0 && r.sampling->typical_p == 1);
    assert_true(r.seed == INT64_MIN && r.max_tokens == 5 && r.n == 2 && r.best_of == 3 &&
                r.n_top_logprobs == 20);
    assert_true(r.logprobs && r.logprobs_processed && p.echo && r.sampling->ignore_eos &&
                r.sampling->penalty_counts_prompt);
    assert_int_equal(r.n_stops, 2);
    assert_string_equal(r.stops[1], "b c");
    assert_int_equal(r.sampling->stop_ids[0], 7);
    assert_int_equal(r.sampling->n_bias, 2);
    assert_true(r.sampling->bias[1].id == 12 && r.sampling->bias[1].bias == 2.5);
    link_params_release(&p);
    json_decref(o);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *param;
    } cases[] = {
        {"{}", "seed"},
        {"{\"seed\":null}", "seed"},
        {"{\"seed\":1.0}", "seed"},
        {"{\"seed\":\"7\"}", "seed"},
        {"{\"seed\":1,\"nonsense\":1}", "nonsense"},
        {"{\"seed\":1,\"use_beam_search\":1}", "use_beam_search"},
        {"{\"seed\":1,\"num_beams\":65}", "num_beams"},
        {"{\"seed\":1,\"num_beams\":0}", "num_beams"},
        {"{\"seed\":1,\"length_penalty\":0.5}", "length_penalty"},
        {"{\"seed\":1,\"num_beams\":1,\"length_penalty\":2}", "length_penalty"},
        {"{\"seed\":1,\"num_beams\":4,\"length_penalty\":101}", "length_penalty"},
        {"{\"seed\":1,\"num_beams\":4,\"temperature\":0}", "temperature"},
        {"{\"seed\":1,\"num_beams\":4,\"top_p\":0.9}", "top_p"},
        {"{\"seed\":1,\"num_beams\":4,\"top_k\":5}", "top_k"},
        {"{\"seed\":1,\"num_beams\":4,\"min_p\":0.1}", "min_p"},
        {"{\"seed\":1,\"num_beams\":4,\"typical_p\":0.1}", "typical_p"},
        {"{\"seed\":1,\"num_beams\":4,\"best_of\":2}", "best_of"},
        {"{\"seed\":1,\"num_beams\":4,\"n\":5}", "n"},
        {"{\"seed\":1,\"use_beam_search\":true,\"num_beams\":1,\"n\":2}", "n"},
        {"{\"seed\":1,\"use_beam_search\":true,\"logprobs_mode\":\"processed\"}", "logprobs_mode"},
        {"{\"seed\":1,\"temperature\":-0.1}", "temperature"},
        {"{\"seed\":1,\"temperature\":true}", "temperature"},
        {"{\"seed\":1,\"top_k\":1.5}", "top_k"},
        {"{\"seed\":1,\"top_k\":-2}", "top_k"},
        {"{\"seed\":1,\"repetition_penalty\":0}", "repetition_penalty"},
        {"{\"seed\":1,\"n\":2,\"best_of\":1}", "best_of"},
        {"{\"seed\":1,\"top_logprobs\":1}", "top_logprobs"},
        {"{\"seed\":1,\"logprobs\":1}", "logprobs"},
        {"{\"seed\":1,\"logprobs\":true,\"top_logprobs\":21}", "top_logprobs"},
        {"{\"seed\":1,\"stop\":\"x\"}", "stop"},
        {"{\"seed\":1,\"stop\":[\"\"]}", "stop"},
        {"{\"seed\":1,\"stop\":[\"a\\u0000b\"]}", "stop"},
        {"{\"seed\":1,\"stop_token_ids\":[-1]}", "stop_token_ids"},
        {"{\"seed\":1,\"stop_token_ids\":[2147483648]}", "stop_token_ids"},
        {"{\"seed\":1,\"logit_bias\":{\"01\":1}}", "logit_bias"},
        {"{\"seed\":1,\"logit_bias\":{\"-1\":1}}", "logit_bias"},
        {"{\"seed\":1,\"logit_bias\":{\"99999999999\":1}}", "logit_bias"},
        {"{\"seed\":1,\"logit_bias\":{\"0\":100.5}}", "logit_bias"},
        {"{\"seed\":1,\"logit_bias\":{\"0\":\"1\"}}", "logit_bias"},
        {"{\"seed\":1,\"penalty_scope\":\"prompt\"}", "penalty_scope"},
        {"{\"seed\":1,\"logprobs_mode\":1}", "logprobs_mode"},
        {"{\"seed\":1,\"sampler_order\":\"tgi\"}", "sampler_order"},
        {"[1]", "params"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct link_params p;
        struct engine_error err;
        if (parse(cases[i].text, &p, &err)) {
            fail_msg("taken: %s", cases[i].text);
        }
        assert_int_equal(err.code, ENGINE_BAD_PARAM);
        assert_string_equal(err.param, cases[i].param);
        assert_true(err.text[0] != '\0');
    }
}

static void test_beams(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t n_beams;
    } cases[] = {
        {"{\"seed\":1}", 0},
        {"{\"seed\":1,\"use_beam_search\":false,\"num_beams\":1,\"length_penalty\":1}", 0},
        {"{\"seed\":1,\"use_beam_search\":true}", LINK_BEAMS_DEFAULT},
        {"{\"seed\":1,\"use_beam_search\":true,\"n\":2}", 2},
        {"{\"seed\":1,\"use_beam_search\":true,\"num_beams\":1}", 1},
        {"{\"seed\":1,\"num_beams\":64,\"n\":64,\"temperature\":1,\"top_k\":0}", 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct link_params p;
        struct engine_error err;
        assert_true(parse(cases[i].text, &p, &err));
        struct session_request r = link_params_request(&p, NULL, 0);
        assert_int_equal(r.n_beams, cases[i].n_beams);
        assert_true(r.length_penalty == 1.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_split),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_doubles_keep_their_bits),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_names_are_the_daemons),
        cmocka_unit_test(test_ranges_are_the_daemons),
        cmocka_unit_test(test_zero_tokens_need_echo),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_beams),
    };
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
