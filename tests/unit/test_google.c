/* test_google.c - what of the google dialect no golden case shows: ids there and back, the subset
 * of JSON Schema keyword by keyword, error bodies.
 */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/backend/backend.h"
#include "gateway/backend/google_ids.h"
#include "gateway/backend/google_schema.h"
#include "gateway/backend/refusal.h"

/* ---- ids */

/* Writes an id and reads it again; signature NULL: none comes back. */
static void there_and_back(const char *id, const char *signature, const char *want, const char *own,
                           const char *back)
{
    struct buf b, s;
    buf_init(&b, 65536);
    buf_init(&s, 65536);
    assert_true(google_id_write(&b, id, signature, UINT64_C(0xab)));
    if (want) {
        assert_string_equal(b.p, want);
    }
    struct slice got = google_id_own(b.p);
    assert_int_equal(got.len, strlen(own));
    assert_true(got.len == 0 || memcmp(got.p, own, got.len) == 0);
    assert_true(google_id_signature(&s, b.p));
    assert_string_equal(s.p ? s.p : "", back);
    for (size_t i = 0; i < b.len; i++) {
        assert_non_null(
            strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", b.p[i]));
    }
    buf_release(&b);
    buf_release(&s);
}

static void test_ids(void **state)
{
    (void)state;
    there_and_back(NULL, NULL, "call_00000000000000ab", "", "");
    there_and_back("x1", NULL, "x1__sig_", "x1", "");
    there_and_back("x1", "QUJD", "x1__sig_QUJD", "x1", "QUJD");
    there_and_back("x1", "QUI=", "x1__sig_QUI", "x1", "QUI=");
    there_and_back("x1", "+/8=", "x1__sig_-_8", "x1", "+/8=");
    there_and_back("x1", "-_8", "x1__sig_-_8", "x1", "+/8="); /* the same bytes */
    there_and_back(NULL, "QQ==", "call_00000000000000ab__sig_QQ", "", "QQ==");
    there_and_back("a__sig_b", "QUJD", "call_00000000000000ab__sig_QUJD", "", "QUJD");
    there_and_back("a b", "QUJD", "call_00000000000000ab__sig_QUJD", "", "QUJD");
    there_and_back("", "Q", "call_00000000000000ab", "", "");
    there_and_back("x1", "QU=D", "x1__sig_", "x1", "");
    there_and_back("x1", "QUJD=", "x1__sig_", "x1", "");
    there_and_back("x1", "a b=", "x1__sig_", "x1", "");
}

static void test_ids_bounds(void **state)
{
    (void)state;
    char long_id[GOOGLE_ID_MAX + 2], *sig = malloc(GOOGLE_SIGNATURE_MAX + 5);
    memset(long_id, 'x', sizeof long_id);
    long_id[GOOGLE_ID_MAX + 1] = '\0';
    there_and_back(long_id, NULL, "call_00000000000000ab", "", "");
    there_and_back(long_id + 1, NULL, NULL, long_id + 1, "");
    memset(sig, 'A', GOOGLE_SIGNATURE_MAX + 4);
    sig[GOOGLE_SIGNATURE_MAX + 4] = '\0';
    there_and_back("x", sig, "x__sig_", "x", "");
    there_and_back("x", sig + 4, NULL, "x", sig + 4);
    free(sig);
}

static void test_foreign_ids(void **state)
{
    (void)state;
    static const char *const ids[] = {"",       "call_abc", "toolu_1", "call_0123456789abcdef",
                                      "__sig_", "x__sig"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct buf s;
        buf_init(&s, 100);
        assert_null(google_id_own(ids[i]).p);
        assert_true(google_id_signature(&s, ids[i]));
        assert_int_equal(s.len, 0);
        buf_release(&s);
    }
}

/* ---- schemas */

static void check_schema(enum google_form form, const char *in, const char *want,
                         const char *dropped, const char *refused)
{
    json_t *schema = json_loads(in, 0, NULL), *expected = want ? json_loads(want, 0, NULL) : NULL;
    assert_non_null(schema);
    json_t *before = json_deep_copy(schema);
    struct google_report r;
    json_t *got = google_schema(schema, form, &r);
    char *text = got ? json_dumps(got, 0) : NULL;
    if (!json_equal(got, expected) && (got || expected)) {
        fail_msg("%s\n gave %s", in, text ? text : "nothing");
    }
    free(text);
    assert_string_equal(r.dropped ? r.dropped : "", dropped ? dropped : "");
    assert_string_equal(r.refused ? r.refused : "", refused ? refused : "");
    assert_true(json_equal(schema, before)); /* the client's own is not touched */
    json_decref(before);
    json_decref(got);
    json_decref(expected);
    json_decref(schema);
}

static void test_schema_json(void **state)
{
    (void)state;
    const enum google_form j = GOOGLE_JSON;
    check_schema(j, "{}", "{}", NULL, NULL);
    check_schema(j, "{\"const\":3}", "{\"enum\":[3]}", NULL, NULL);
    check_schema(j, "{\"const\":{}}", "{}", "const", NULL);
    check_schema(j, "{\"type\":\"string\",\"pattern\":\"a\"}", "{\"type\":\"string\"}", "pattern",
                 NULL);
    check_schema(j, "{\"newWord\":1}", "{}", "newWord", NULL);
    check_schema(j, "{\"items\":true}", "{\"items\":{}}", NULL, NULL);
    check_schema(j, "{\"items\":false}", NULL, NULL, "items");
    check_schema(j, "{\"allOf\":[{\"type\":\"string\"}]}", "{\"type\":\"string\"}", NULL, NULL);
    check_schema(j, "{\"allOf\":[{},{}]}", NULL, NULL, "allOf");
    check_schema(j, "{\"oneOf\":[{\"type\":\"null\"}]}", "{\"oneOf\":[{\"type\":\"null\"}]}", NULL,
                 NULL);
    check_schema(j, "{\"additionalProperties\":{\"minLength\":1}}", "{\"additionalProperties\":{}}",
                 "minLength", NULL);
    check_schema(j, "{\"$ref\":\"#/definitions/A\",\"definitions\":{\"A\":{\"if\":{}}}}", NULL,
                 NULL, "if");
    check_schema(j, "{\"properties\":{\"a\":{\"$ref\":\"#\"}}}",
                 "{\"properties\":{\"a\":{\"$ref\":\"#\"}}}", NULL, NULL);
    check_schema(j, "{\"properties\":{\"a\":3}}", NULL, NULL, "properties");
    check_schema(j, "[]", NULL, NULL, "schema");
}

static void test_schema_openapi(void **state)
{
    (void)state;
    const enum google_form o = GOOGLE_OPENAPI;
    check_schema(o, "{\"type\":\"array\",\"maxItems\":3}",
                 "{\"type\":\"ARRAY\",\"maxItems\":\"3\"}", NULL, NULL);
    check_schema(o, "{\"type\":[\"string\",\"integer\"]}", NULL, NULL, "type");
    check_schema(o, "{\"type\":\"null\"}", NULL, NULL, "type");
    check_schema(o, "{\"type\":\"integer\",\"const\":3}", "{\"type\":\"INTEGER\"}", "const", NULL);
    check_schema(o, "{\"$ref\":\"#/$defs/A\",\"$defs\":{\"A\":{\"type\":\"string\"}}}",
                 "{\"type\":\"STRING\"}", NULL, NULL);
    check_schema(o, "{\"$ref\":\"#/$defs/B\"}", NULL, NULL, "$ref");
    check_schema(o, "{\"$ref\":\"https://x\"}", NULL, NULL, "$ref");
    check_schema(o, "{\"items\":{\"$ref\":\"#\"}}", NULL, NULL, "$ref");
    check_schema(o, "{\"additionalProperties\":{}}", NULL, NULL, "additionalProperties");
    check_schema(o, "{\"maxLength\":1.5}", "{}", "maxLength", NULL);
    check_schema(o, "{\"prefixItems\":[]}", NULL, NULL, "prefixItems");
}

/* Each level names the next one twice: a few dozen bytes that would be written out as millions. */
static void test_schema_that_doubles(void **state)
{
    (void)state;
    json_t *defs = json_object();
    for (int i = 0; i < 40; i++) {
        char name[8], ref[24];
        (void)snprintf(name, sizeof name, "d%d", i);
        (void)snprintf(ref, sizeof ref, "#/$defs/d%d", i + 1);
        json_object_set_new(defs, name,
                            json_pack("{s:[{s:s},{s:s}]}", "anyOf", "$ref", ref, "$ref", ref));
    }
    json_object_set_new(defs, "d40", json_pack("{s:s}", "type", "string"));
    json_t *schema = json_pack("{s:s,s:o}", "$ref", "#/$defs/d0", "$defs", defs);
    struct google_report r;
    assert_null(google_schema(schema, GOOGLE_OPENAPI, &r));
    assert_string_equal(r.refused, "$ref");
    json_decref(schema);
}

/* ---- refusals */

static void check_refusal(int status, const char *body, int want_status, const char *code,
                          const char *param, int retry_after)
{
    struct failure f = {.status = 0};
    char named[64];
    backend_google.refusal(status, slice_str(body), NULL, named, &f);
    assert_int_equal(f.status, want_status);
    assert_string_equal(f.code, code);
    assert_string_equal(named, param);
    assert_int_equal(f.retry_after_s, retry_after);
    assert_true(strlen(f.message) > 5);
}

#define ERROR(code, status, text)                                                                  \
    "{\"error\":{\"code\":" code ",\"message\":\"" text "\",\"status\":\"" status "\"}}"

static void test_refusals(void **state)
{
    (void)state;
    check_refusal(400,
                  ERROR("400", "INVALID_ARGUMENT",
                        "Invalid JSON payload received. Unknown name \\\"min_p\\\" at "
                        "'generation_config': Cannot find field."),
                  400, "INVALID_ARGUMENT", "min_p", 0);
    check_refusal(400,
                  ERROR("400", "INVALID_ARGUMENT",
                        "Unable to submit request because Logprobs is not supported for this "
                        "model. Remove the Logprobs parameter and try again."),
                  400, "INVALID_ARGUMENT", "logprobs", 0);
    check_refusal(
        400, ERROR("400", "INVALID_ARGUMENT", "Multiple candidates is not enabled for this model"),
        400, "INVALID_ARGUMENT", "n", 0);
    check_refusal(400,
                  ERROR("400", "INVALID_ARGUMENT",
                        "The input token count (40000) exceeds the maximum number of tokens "
                        "allowed (32768)."),
                  400, "context_length_exceeded", "messages", 0);
    check_refusal(400,
                  ERROR("400", "INVALID_ARGUMENT", "API key not valid. Please pass a valid one."),
                  502, "upstream_auth", "", 0);
    check_refusal(403, ERROR("403", "PERMISSION_DENIED", "Permission denied on resource"), 502,
                  "upstream_auth", "", 0);
    check_refusal(402, ERROR("402", "RESOURCE_EXHAUSTED", "Your prepaid credit is gone"), 502,
                  "insufficient_quota", "", 0);
    check_refusal(404, ERROR("404", "NOT_FOUND", "models/x is not found"), 404, "NOT_FOUND", "", 0);
    check_refusal(503, ERROR("503", "UNAVAILABLE", "The model is overloaded."), 503,
                  "upstream_overloaded", "", 0);
    check_refusal(504, ERROR("504", "DEADLINE_EXCEEDED", "Deadline expired"), 504,
                  "upstream_timeout", "", 0);
    check_refusal(500, "[" ERROR("500", "INTERNAL", "An internal error") "]", 502, "upstream_error",
                  "", 0);
    check_refusal(429,
                  "[{\"error\":{\"code\":429,\"message\":\"Quota exceeded\",\"status\":"
                  "\"RESOURCE_EXHAUSTED\",\"details\":[{\"retryDelay\":\"11.2s\"}]}}]",
                  429, "rate_limit_exceeded", "", 12);
}

static void test_refused_parameters(void **state)
{
    (void)state;
    assert_true(refusal_is_of_parameter("", "Unknown name \"topK\": Cannot find field."));
    assert_true(refusal_is_of_parameter("", "Penalty is not enabled for this model"));
    assert_false(refusal_is_of_parameter(
        "", "Unable to submit request because it has a topK value of 64 but the supported range is "
            "from 1 (inclusive) to 41 (exclusive)."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_ids_bounds),
        cmocka_unit_test(test_foreign_ids),
        cmocka_unit_test(test_schema_json),
        cmocka_unit_test(test_schema_openapi),
        cmocka_unit_test(test_schema_that_doubles),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_refused_parameters),
    };
    return cmocka_run_group_tests_name("google", tests, NULL, NULL);
}
