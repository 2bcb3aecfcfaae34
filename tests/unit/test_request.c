/* A body becomes what was asked, whole: nothing of it vanishes, nothing is invented. Wrong bodies
 * are in the end-to-end table too. */
#include "gateway/request.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define USER "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
static const struct policy defaults = {.on_out_of_range = PLAN_RANGE_CLAMP};

static void parse(struct request *r, enum request_kind kind, const char *body)
{
    struct failure f = {.status = 0};
    if (!request_parse(r, kind, body, strlen(body), &defaults, &f)) {
        fail_msg("%s: %s", body, f.message);
    }
}

static void refuse(enum request_kind kind, const char *body, const char *param)
{
    struct request r;
    struct failure f = {.status = 0};
    assert_false(request_parse(&r, kind, body, strlen(body), &defaults, &f));
    assert_int_equal(f.status, 400);
    assert_string_equal(f.param, param);
    assert_true(f.message[0] != '\0');
}

static void test_an_explicit_zero_is_a_value_and_null_is_none(void **state)
{
    (void)state;
    struct request r;
    parse(&r, REQUEST_CHAT,
          "{\"model\":\"m\"," USER ",\"temperature\":0,\"top_p\":null,\"seed\":0}");
    assert_true(sampling_has(&r.asked, PARAM_TEMPERATURE));
    assert_true(r.asked.v[PARAM_TEMPERATURE].d == 0);
    assert_true(sampling_has(&r.asked, PARAM_SEED));
    assert_false(sampling_has(&r.asked, PARAM_TOP_P));
    assert_int_equal(r.n_unknown, 0);
    request_release(&r);
}

static void test_a_single_stop_string_is_a_list_of_one(void **state)
{
    (void)state;
    struct request r;
    parse(&r, REQUEST_CHAT, "{\"model\":\"m\"," USER ",\"stop\":\"END\"}");
    assert_true(json_is_array(r.asked.v[PARAM_STOP].j));
    assert_string_equal(json_string_value(json_array_get(r.asked.v[PARAM_STOP].j, 0)), "END");
    request_release(&r);
}

static void test_the_newer_name_of_the_limit_holds(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"model\":\"m\"," USER ",\"max_tokens\":50,\"max_completion_tokens\":5}",
        "{\"max_completion_tokens\":5,\"max_tokens\":50,\"model\":\"m\"," USER "}"};
    for (size_t i = 0; i < 2; i++) {
        struct request r;
        parse(&r, REQUEST_CHAT, bodies[i]);
        assert_int_equal(r.asked.v[PARAM_MAX_TOKENS].i, 5);
        assert_string_equal(r.max_tokens_name, "max_completion_tokens");
        request_release(&r);
    }
}

static void test_unknown_fields_are_kept_by_name(void **state)
{
    (void)state;
    struct request r;
    parse(&r, REQUEST_CHAT, "{\"model\":\"m\",\"colour\":1," USER ",\"shape\":null}");
    assert_int_equal(r.n_unknown, 1);
    assert_string_equal(r.unknown[0], "colour");
    request_release(&r);
}

static void test_the_isotherm_object(void **state)
{
    (void)state;
    struct request r;
    parse(&r, REQUEST_CHAT,
          "{\"model\":\"m\"," USER
          ",\"isotherm\":{\"on_out_of_range\":\"reject\",\"on_unsupported\":\"drop\",\"require\":["
          "\"seed\",\"response_format\"],"
          "\"catalog_version\":3}}");
    assert_int_equal(r.policy.on_out_of_range, PLAN_RANGE_REJECT);
    assert_int_equal(r.policy.on_unsupported, PLAN_UNSUPPORTED_DROP);
    assert_true(r.policy.require & PARAM_BIT(PARAM_SEED));
    assert_true(r.policy.require & PARAM_BIT(PARAM_RESPONSE_FORMAT_JSON_SCHEMA));
    assert_int_equal(r.catalog_version, 3);
    request_release(&r);
}

static void test_integer_logprobs_belong_to_completions(void **state)
{
    (void)state;
    struct request r;
    parse(&r, REQUEST_TEXT, "{\"model\":\"m\",\"prompt\":\"x\",\"logprobs\":0}");
    assert_true(r.asked.v[PARAM_LOGPROBS].b);
    assert_int_equal(r.asked.v[PARAM_TOP_LOGPROBS].i, 0);
    request_release(&r);
    refuse(REQUEST_CHAT, "{\"model\":\"m\"," USER ",\"logprobs\":0}", "logprobs");
    refuse(REQUEST_TEXT, "{\"model\":\"m\",\"prompt\":\"x\",\"logprobs\":21}", "logprobs");
}

static void test_prompts_of_every_shape(void **state)
{
    (void)state;
    static const char *const good[] = {"\"\"", "\"x\"", "[\"a\",\"b\"]", "[1,2]", "[[1],[2,3]]"};
    static const char *const bad[] = {"null",      "[]",        "5",  "[[]]",
                                      "[1,\"a\"]", "[\"a\",1]", "{}", "[[\"a\"]]"};
    char body[128];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct request r;
        (void)snprintf(body, sizeof body, "{\"model\":\"m\",\"prompt\":%s}", good[i]);
        parse(&r, REQUEST_TEXT, body);
        request_release(&r);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(body, sizeof body, "{\"model\":\"m\",\"prompt\":%s}", bad[i]);
        refuse(REQUEST_TEXT, body, "prompt");
    }
}

static void test_types_are_checked(void **state)
{
    (void)state;
    refuse(REQUEST_CHAT, "{\"model\":\"m\"," USER ",\"seed\":9223372036854775808}", "seed");
    refuse(REQUEST_CHAT, "{\"model\":\"m\"," USER ",\"temperature\":\"hot\"}", "temperature");
    refuse(REQUEST_CHAT, "{\"model\":\"m\"," USER ",\"ignore_eos\":1}", "ignore_eos");
    refuse(REQUEST_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"tool\"}]}", "messages");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_explicit_zero_is_a_value_and_null_is_none),
        cmocka_unit_test(test_a_single_stop_string_is_a_list_of_one),
        cmocka_unit_test(test_the_newer_name_of_the_limit_holds),
        cmocka_unit_test(test_unknown_fields_are_kept_by_name),
        cmocka_unit_test(test_the_isotherm_object),
        cmocka_unit_test(test_integer_logprobs_belong_to_completions),
        cmocka_unit_test(test_prompts_of_every_shape),
        cmocka_unit_test(test_types_are_checked),
    };
    return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
