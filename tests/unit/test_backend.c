/* test_backend.c - headers, the check of what was sent, and refusals: every status and every shape
 * of error body that is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/backend/backend.h"
#include "gateway/backend/refusal.h"
#include "gateway/base/jsonio.h"

static void test_find(void **state)
{
    (void)state;
    assert_ptr_equal(backend_find("openai"), &backend_openai);
    assert_ptr_equal(backend_find("anthropic"), &backend_anthropic);
    assert_ptr_equal(backend_find("engine"), &backend_engine);
    assert_null(backend_find("morse"));
    assert_null(backend_find(NULL));
}

/* ---- what was sent */

static struct plan plan;
static const struct provider provider = {.id = "acme", .dialect = "openai"};

static void send_double(enum param p, double d, const char *wire)
{
    sampling_set(&plan.send, p, (struct value){.type = VALUE_NUMBER, .d = d});
    plan.wire[p] = wire;
}

static struct call some_call(const json_t *messages)
{
    memset(&plan, 0, sizeof plan);
    send_double(PARAM_TEMPERATURE, 0.7, "temperature");
    send_double(PARAM_TOP_P, 1.0, "generation.topP");
    sampling_set(&plan.send, PARAM_SEED, (struct value){.type = VALUE_INT, .i = 0});
    plan.wire[PARAM_SEED] = "seed";
    return (struct call){.provider = &provider,
                         .model = "m",
                         .messages = messages,
                         .send = &plan.send,
                         .plan = &plan};
}

static const char *first_bad(const struct call *c, const char *body)
{
    const char *bad = "";
    return backend_check_sent(c, slice_str(body), &bad) ? "" : bad;
}

static void test_exact_bytes(void **state)
{
    (void)state;
    json_t *messages = json_loads("[{\"role\":\"user\",\"content\":\"hi\"}]", 0, NULL);
    struct call c = some_call(messages);
    struct headers h = {.n = 0};
    struct failure f = {.status = 0};
    struct buf b;
    buf_init(&b, 1 << 16);
    assert_true(backend_openai.encode(&c, &b, &h, &f));
    assert_string_equal(b.p, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}"
                             "],\"temperature\":0.7,\"generation\":{\"topP\":1},\"seed\":0}");
    assert_string_equal(first_bad(&c, b.p), "");
    buf_release(&b);
    headers_release(&h);
    buf_init(&b, 20); /* too small: an error, not half a body */
    assert_false(backend_openai.encode(&c, &b, &h, &f));
    assert_int_equal(f.status, 413);
    buf_release(&b);
    headers_release(&h);
    json_decref(messages);
}

static void test_check_sent(void **state)
{
    (void)state;
    struct call c = some_call(NULL);
    static const struct {
        const char *body, *bad;
    } cases[] = {
        {"{\"temperature\":0.7,\"generation\":{\"topP\":1.0},\"seed\":0}", ""},
        {"{\"generation\":{\"topP\":1},\"seed\":0}", "temperature"},
        {"{\"temperature\":0.71,\"generation\":{\"topP\":1},\"seed\":0}", "temperature"},
        {"{\"temperature\":\"0.7\",\"generation\":{\"topP\":1},\"seed\":0}", "temperature"},
        {"{\"temperature\":0.7,\"topP\":1,\"seed\":0}", "top_p"},
        {"{\"temperature\":0.7,\"generation\":{\"topP\":1},\"seed\":false}", "seed"},
        {"{\"temperature\":0.7,\"generation\":{\"topP\":1},\"seed\":0,\"top_k\":40}", "top_k"},
        {"{\"temperature\":0.7,\"generation\":{\"topP\":1},\"seed\":0,\"params\":{\"min_p\":0}}",
         "min_p"},
        {"nonsense", "body"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(first_bad(&c, cases[i].body), cases[i].bad);
    }
}

/* A claim's own name for a parameter that was not to be sent counts as well. */
static void test_check_sent_knows_wire_names(void **state)
{
    (void)state;
    struct call c = some_call(NULL);
    struct claim claim = {.wire = "random_length"};
    struct rules rules = {.param = {[PARAM_MAX_TOKENS] = &claim}};
    c.rules = &rules;
    assert_string_equal(
        first_bad(
            &c, "{\"temperature\":0.7,\"generation\":{\"topP\":1},\"seed\":0,\"random_length\":5}"),
        "max_tokens");
}

static void test_no_wire_path(void **state)
{
    (void)state;
    struct call c = some_call(NULL);
    struct failure f = {.status = 0};
    plan.wire[PARAM_SEED] = NULL;
    json_t *o = json_object();
    assert_false(backend_encode_params(&c, o, &f));
    assert_string_equal(f.param, "seed");
    json_decref(o);
}

/* A provider's second route speaks another dialect than its first one. */
static void test_dialect_of_the_route(void **state)
{
    (void)state;
    json_t *messages = json_loads("[{\"role\":\"user\",\"content\":\"hi\"}]", 0, NULL),
           *format = json_loads("{\"type\":\"json_object\"}", 0, NULL);
    struct call c = some_call(messages);
    struct headers h = {.n = 0};
    struct failure f = {.status = 0};
    struct buf b;
    memset(&plan, 0, sizeof plan);
    sampling_set(&plan.send, PARAM_RESPONSE_FORMAT_JSON_OBJECT,
                 (struct value){.type = VALUE_JSON, .j = format});
    plan.wire[PARAM_RESPONSE_FORMAT_JSON_OBJECT] = "format";
    c.backend = &backend_ollama;
    buf_init(&b, 1 << 16);
    assert_true(backend_ollama.encode(&c, &b, &h, &f));
    assert_non_null(strstr(b.p, "\"format\":\"json\""));
    assert_string_equal(first_bad(&c, b.p), "");
    buf_release(&b);
    headers_release(&h);
    json_decref(format);
    json_decref(messages);
}

static void test_too_many_adjustments(void **state)
{
    (void)state;
    json_t *messages = json_loads("[{\"role\":\"developer\",\"content\":\"hi\"}]", 0, NULL);
    struct call c = some_call(messages);
    struct headers h = {.n = 0};
    struct failure f = {.status = 0};
    struct buf b;
    plan.n_adj = PLAN_ADJ_MAX;
    buf_init(&b, 1 << 16);
    assert_false(backend_openai.encode(&c, &b, &h, &f));
    assert_string_equal(f.code, "too_many_adjustments");
    buf_release(&b);
    headers_release(&h);
    json_decref(messages);
}

/* ---- refusals */

static struct failure refused(int status, const char *body, const char *retry_after, char param[64])
{
    struct failure f = {.status = 0};
    backend_openai.refusal(status, slice_str(body), retry_after, param, &f);
    assert_int_not_equal(f.status, 0);
    return f;
}

#define OWN "{\"error\":{\"message\":\"no\",\"type\":\"t\",\"param\":null,\"code\":\"its_code\"}}"

static void test_statuses(void **state)
{
    (void)state;
    static const struct {
        int from, to;
        const char *code, *type;
    } cases[] = {
        {400, 400, "its_code", "invalid_request_error"},
        {404, 404, "its_code", "not_found_error"},
        {413, 413, "its_code", "invalid_request_error"},
        {422, 400, "its_code", "invalid_request_error"},
        {401, 502, "upstream_auth", "upstream_error"},
        {403, 502, "upstream_auth", "upstream_error"},
        {402, 502, "insufficient_quota", "upstream_error"},
        {408, 504, "upstream_timeout", "upstream_error"},
        {504, 504, "upstream_timeout", "upstream_error"},
        {429, 429, "its_code", "rate_limit_error"},
        {500, 502, "upstream_error", "upstream_error"},
        {502, 502, "upstream_error", "upstream_error"},
        {503, 503, "upstream_overloaded", "server_error"},
        {529, 503, "upstream_overloaded", "server_error"},
        {409, 502, "upstream_error", "upstream_error"},
        {302, 502, "upstream_error", "upstream_error"},
        {418, 502, "upstream_error", "upstream_error"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char param[64];
        struct failure f = refused(cases[i].from, OWN, NULL, param);
        assert_int_equal(f.status, cases[i].to);
        assert_string_equal(f.code, cases[i].code);
        assert_string_equal(f.type, cases[i].type);
        assert_string_equal(param, "");
    }
}

static void test_retry_after(void **state)
{
    (void)state;
    char param[64];
    assert_int_equal(refused(429, OWN, "7", param).retry_after_s, 7);
    assert_int_equal(refused(429, OWN, "1.2", param).retry_after_s, 2);
    assert_int_equal(refused(503, OWN, "3", param).retry_after_s, 3);
    assert_int_equal(refused(429, OWN, "99999999999", param).retry_after_s, 86400);
    assert_int_equal(refused(429, OWN, "Wed, 21 Oct 2015 07:28:00 GMT", param).retry_after_s, 0);
    assert_int_equal(refused(429, OWN, "-5", param).retry_after_s, 0);
    assert_int_equal(refused(429, OWN, NULL, param).retry_after_s, 0);
    assert_int_equal(refused(400, OWN, "7", param).retry_after_s, 0);
    const char *quota =
        "{\"error\":{\"message\":\"You exceeded your quota\",\"code\":\"insufficient_quota\"}}";
    assert_string_equal(refused(429, quota, NULL, param).code, "insufficient_quota");
    assert_string_equal(refused(429, "", NULL, param).code, "rate_limit_exceeded");
}

/* One provider's 498 is a full tier, another's a text that it blocks. */
static void test_status_of_one_provider(void **state)
{
    (void)state;
    char param[64];
    struct failure f = {.status = 0};
    assert_int_equal(refused(498, OWN, NULL, param).status, 503);
    backend_cohere.refusal(498, SLICE_LIT("{\"message\":\"blocked\"}"), NULL, param, &f);
    assert_int_equal(f.status, 400);
    assert_string_equal(f.message, "blocked");
}

/* Every shape of body, and the parameter that it names. */
static const struct {
    int status;
    const char *body, *message, *param;
} shapes[] = {
    {400,
     "{\"message\":\"1 validation error detected: Value '1.5' at 'inferenceConfig.topP' failed to "
     "satisfy constraint: Member must have value less than or equal to 1\"}",
     "1 validation error detected: Value '1.5' at 'inferenceConfig.topP' failed to satisfy "
     "constraint: Member must have value less than or equal to 1",
     "top_p"},
    {400,
     "{\"message\":\"1 validation error detected: Value 'a b' at "
     "'toolConfig.tools.1.member.toolSpec.name' failed to satisfy constraint: Member must satisfy "
     "regular expression pattern: [a-z]+\"}",
     "1 validation error detected: Value 'a b' at 'toolConfig.tools.1.member.toolSpec.name' failed "
     "to satisfy constraint: Member must satisfy regular expression pattern: [a-z]+",
     "tools"},
    {400,
     "{\"message\":\"Malformed input request: #: extraneous key [logit_bias] is not permitted\"}",
     "Malformed input request: #: extraneous key [logit_bias] is not permitted", "logit_bias"},
    {400,
     "{\"message\":\"The model returned the following errors: `temperature` and `top_p` cannot "
     "both be specified for this model. Please use only one.\"}",
     "The model returned the following errors: `temperature` and `top_p` cannot both be specified "
     "for this model. Please use only one.",
     "top_p"},
    {424, "{\"Message\":\"The model could not be reached\"}", "The model could not be reached", ""},
    {400,
     "{\"error\":{\"message\":\"Unknown parameter: "
     "'top_k'.\",\"param\":\"top_k\",\"code\":\"unknown_parameter\"}}",
     "Unknown parameter: 'top_k'.", "top_k"},
    {400,
     "{\"error\":{\"message\":\"Unsupported parameter: 'max_tokens' is not supported with this "
     "model.\"}}",
     "Unsupported parameter: 'max_tokens' is not supported with this model.", "max_tokens"},
    {400, "{\"error\":{\"message\":\"Unsupported value: 'temperature' does not support 0.5\"}}",
     "Unsupported value: 'temperature' does not support 0.5", "temperature"},
    {400, "{\"error\":{\"message\":\"property 'top_k' is unsupported, did you mean 'top_p'?\"}}",
     "property 'top_k' is unsupported, did you mean 'top_p'?", "top_k"},
    {400,
     "{\"message\":\"store: property 'store' is "
     "unsupported\",\"type\":\"t\",\"param\":\"validation_error\",\"code\":\"wrong_api_"
     "format\"}",
     "store: property 'store' is unsupported", "store"},
    {400,
     "{\"code\":\"Client specified an invalid argument\",\"error\":\"Argument not supported on "
     "this model: presencePenalty\"}",
     "Argument not supported on this model: presencePenalty", "presence_penalty"},
    {400,
     "{\"error\":{\"object\":\"error\",\"message\":\"Extra inputs are not permitted, field: "
     "'best_of', value: 2\"}}",
     "Extra inputs are not permitted, field: 'best_of', value: 2", "best_of"},
    {422,
     "{\"detail\":[{\"loc\":[\"body\",\"temperature\"],\"msg\":\"Input should be a valid "
     "number\",\"type\":\"float_type\"}]}",
     "temperature: Input should be a valid number", "temperature"},
    {422,
     "{\"object\":\"error\",\"message\":{\"detail\":[{\"type\":\"extra_forbidden\",\"loc\":["
     "\"body\",\"seed\"],\"msg\":\"Extra inputs are not permitted\"}]}}",
     "seed: Extra inputs are not permitted", "seed"},
    {400,
     "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"seed: "
     "Extra inputs are not permitted\"}}",
     "seed: Extra inputs are not permitted", "seed"},
    {400,
     "{\"type\":\"error\",\"error\":{\"message\":\"`temperature` and `top_p` cannot both be "
     "specified for this model.\"}}",
     "`temperature` and `top_p` cannot both be specified for this model.", "top_p"},
    {422,
     "{\"error\":\"Input validation error: `top_p` must be > 0.0 and < "
     "1.0\",\"error_type\":\"validation\"}",
     "Input validation error: `top_p` must be > 0.0 and < 1.0", "top_p"},
    {400,
     "{\"object\":\"error\",\"message\":\"top_k must be -1 (disable) or at least 1, got "
     "0.\",\"type\":\"BadRequestError\",\"param\":null,\"code\":400}",
     "top_k must be -1 (disable) or at least 1, got 0.", "top_k"},
    {400, "{\"error\":{\"message\":\"x\",\"param\":\"body.top_k\",\"code\":400}}", "x", "top_k"},
    {422,
     "{\"id\":\"00000000\",\"message\":\"unknown field: parameter 'min_p' is not a valid "
     "field.\"}",
     "unknown field: parameter 'min_p' is not a valid field.", "min_p"},
    {400,
     "{\"id\":\"00000000\",\"message\":\"invalid request: cannot specify both "
     "frequency_penalty and presence_penalty\"}",
     "invalid request: cannot specify both frequency_penalty and presence_penalty",
     "presence_penalty"},
    {400, "{\"message\":\"invalid request: temperature must be between 0 and 1.0 inclusive\"}",
     "invalid request: temperature must be between 0 and 1.0 inclusive", "temperature"},
    {400,
     "{\"code\":\"InvalidParameter\",\"message\":\"Temperature should be in [0.0, "
     "2.0)\",\"request_id\":\"0000\"}",
     "Temperature should be in [0.0, 2.0)", "temperature"},
    {400,
     "{\"error\":{\"message\":\"<400> InternalError.Algo.InvalidParameter: Temperature should be "
     "in [0.0, 2.0)\",\"type\":\"invalid_request_error\",\"param\":null}}",
     "<400> InternalError.Algo.InvalidParameter: Temperature should be in [0.0, 2.0)",
     "temperature"},
    {400, "{\"message\":\"Access should be granted first\"}", "Access should be granted first", ""},
    {400, "{\"error\":{\"code\":400,\"message\":\"Field 'repeat_last_n': Value must be between\"}}",
     "Field 'repeat_last_n': Value must be between", "repeat_last_n"},
    {422,
     "{\"type\":\"urn:x\",\"title\":\"Unprocessable Entity\",\"status\":422,\"detail\":\"body "
     "-> frequency_penalty\\n  Extra inputs\"}",
     "body -> frequency_penalty Extra inputs", "frequency_penalty"},
    {403, "{\"error\":{\"message\":\"You are not allowed to request logprobs from this model\"}}",
     "You are not allowed to request logprobs from this model", "logprobs"},
    {429, "{\"status\":429,\"title\":\"Too Many Requests\"}", "Too Many Requests", ""},
    {500, "{\"error\":{\"message\":\"temperature: broken\"}}", "temperature: broken", ""},
    {400,
     "{\"error\":{\"message\":\"The model `seed` does not exist or Error: "
     "something\",\"param\":null}}",
     "The model `seed` does not exist or Error: something", "seed"},
    {404, "{\"error\":\"model 'nope' not found\"}", "model 'nope' not found", ""},
    {400, "{\"error\":{}}", "the backend answered with status 400: {\"error\":{}}", ""},
    {400, "{\"error\":{\"message\":\"\"}}", "the backend gave no reason", ""},
    {400, "Error: something went wrong",
     "the backend answered with status 400: Error: something went wrong", ""},
    {503, "", "the backend answered with status 503 and no text", ""},
};

static void test_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char param[64] = "untouched";
        struct failure f = refused(shapes[i].status, shapes[i].body, NULL, param);
        assert_string_equal(f.message, shapes[i].message);
        assert_string_equal(param, shapes[i].param);
        assert_string_equal(f.param, f.status < 500 ? shapes[i].param : "");
    }
}

static void test_known_faults(void **state)
{
    (void)state;
    char param[64];
    struct failure f = refused(
        400, "{\"error\":{\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}",
        NULL, param);
    assert_string_equal(f.code, "context_length_exceeded");
    assert_string_equal(f.param, "messages");
    f = refused(400, "{\"error\":\"Incorrect API key provided: ab***yz\"}", NULL,
                param); /* xAI says so with 400 */
    assert_int_equal(f.status, 502);
    assert_string_equal(f.code, "upstream_auth");
    assert_null(strstr(f.message, "yz"));
    f = refused(401,
                "{\"error\":{\"message\":\"bad sk-abcdefghijkl\",\"code\":\"invalid_api_key\"}}",
                NULL, param);
    assert_null(strstr(f.message, "sk-"));
}

static void check_clean(const char *in, const char *want)
{
    char out[REFUSAL_TEXT_MAX];
    refusal_clean(slice_str(in), out, sizeof out);
    assert_string_equal(out, want);
}

static void test_clean(void **state)
{
    (void)state;
    check_clean("  plain\n text\t ", "plain text");
    check_clean("a < b and b > c", "a < b and b > c");
    check_clean("<html><head><title>502</title><style>p{x:y}</style><script>evil(1<2)</script></"
                "head><body><p>Bad&nbsp;gateway</p>",
                "502 Bad&nbsp;gateway");
    check_clean("see https://api.example.com/v1/x?key=abc for more", "see [address] for more");
    check_clean("dial tcp: lookup node7.acme.internal:8080 failed, 10.0.0.12 too",
                "dial tcp: lookup [address] failed, [address] too");
    check_clean("key 'sk-proj-abcdef123' or Bearer abcdef.ghi, gsk_12345678",
                "key '[key]' or Bearer [key], [key]");
    check_clean("the model gpt-4.1-mini of version 3.5 v1.2.3",
                "the model gpt-4.1-mini of version 3.5 v1.2.3");
    check_clean("token 0123456789abcdef0123456789abcdef01234567 here", "token [key] here");
    check_clean("\xff\xfe caf\xc3\xa9 \xe4\xb8 \x01", "?? caf\xc3\xa9 ?? ?");
    check_clean("<unclosed", "");
    char out[8];
    refusal_clean(SLICE_LIT("abcde\xe4\xb8\x96\xe4\xb8\x96"), out,
                  sizeof out); /* never half a character */
    assert_string_equal(out, "abcde");
}

/* A page of 200 KB: at most 1 KiB of text, no markup, still valid. */
static void test_big_page(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1 << 20);
    (void)buf_puts(&b, "<!DOCTYPE html><html><body>");
    while (b.len < 200000) {
        (void)buf_puts(&b, "<div class=\"x\">Sorry, caf\xc3\xa9 is closed</div>\n");
    }
    char param[64];
    struct failure f = refused(502, b.p, NULL, param);
    buf_release(&b);
    assert_int_equal(f.status, 502);
    assert_true(strlen(f.message) < 512);
    assert_null(strchr(f.message, '<'));
    assert_non_null(strstr(f.message, "Sorry"));
    json_t *s = json_string(f.message);
    assert_non_null(s); /* valid UTF-8 */
    json_decref(s);
}

static void test_first_failure_stays(void **state)
{
    (void)state;
    struct failure f = {.status = 0};
    char param[64];
    (void)failure_set(&f, 504, "first", NULL, "first");
    backend_openai.refusal(429, slice_str(OWN), "7", param, &f);
    assert_int_equal(f.status, 504);
    assert_int_equal(f.retry_after_s, 0);
    backend_engine.refusal(429, slice_str(OWN), "7", param, NULL);
}

static bool refuse_delta(const struct delta *d, void *ud)
{
    (void)d;
    (*(int *)ud)++;
    return false;
}

/* A receiver that has enough stops a decoder for good, and no failure is made up for it. */
static void test_receiver_has_enough(void **state)
{
    (void)state;
    static const struct backend *const all[] = {&backend_openai, &backend_anthropic,
                                                &backend_engine};
    static const char *const pieces[] = {
        "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n",
        "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n",
        "{\"op\":\"text\",\"choice\":0,\"text\":\"x\"}",
    };
    for (size_t i = 0; i < 3; i++) {
        int n = 0;
        struct failure f = {.status = 0};
        struct decoder *d = all[i]->decoder_new(FORM_SSE, true);
        assert_false(all[i]->decode(d, slice_str(pieces[i]), refuse_delta, &n, &f));
        assert_false(all[i]->decode(d, slice_str(pieces[i]), refuse_delta, &n, &f));
        assert_false(all[i]->decode_end(d, refuse_delta, &n, &f));
        assert_int_equal(n, 1);
        assert_int_equal(f.status, 0);
        all[i]->decoder_free(d);
        all[i]->decoder_free(NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_exact_bytes),
        cmocka_unit_test(test_check_sent),
        cmocka_unit_test(test_check_sent_knows_wire_names),
        cmocka_unit_test(test_no_wire_path),
        cmocka_unit_test(test_dialect_of_the_route),
        cmocka_unit_test(test_too_many_adjustments),
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_status_of_one_provider),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_known_faults),
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_big_page),
        cmocka_unit_test(test_first_failure_stays),
        cmocka_unit_test(test_receiver_has_enough),
    };
    return cmocka_run_group_tests_name("backend", tests, NULL, NULL);
}
