/* test_golden_refusal.c - tests/golden/refusal/<dialect>/<case>: an answer that is no 2xx -> the
 * failure as the client sees it.
 *
 * in.json: {status, retry_after, body | text}; want.json: {status, type, code, param, message,
 * retry_after, refused}: `refused` is the parameter that the provider would not take.
 */
#include "golden.h"

#include "gateway/backend/backend.h"

static void run_case(const char *folder, const char *dialect, const char *name)
{
    (void)name;
    const struct backend *b = backend_find(dialect);
    assert_non_null(b);
    json_t *in = golden_load(folder, "in.json");
    assert_non_null(in);
    const json_t *body = json_object_get(in, "body");
    char *text = body ? json_dumps(body, JSON_ENCODE_ANY)
                      : strdup(json_string_value(json_object_get(in, "text")));
    size_t len = strlen(text);
    char *exact = malloc(len ? len : 1); /* of its own, so that a sanitizer sees a read beyond it */
    memcpy(exact, text, len);
    struct failure f = {.status = 0};
    char refused[64] = "?";
    b->refusal((int)json_integer_value(json_object_get(in, "status")), (struct slice){exact, len},
               json_string_value(json_object_get(in, "retry_after")), refused, &f);
    json_t *got = json_pack("{s:i,s:s,s:s,s:s,s:s,s:i,s:s}", "status", f.status, "type", f.type,
                            "code", f.code, "param", f.param, "message", f.message, "retry_after",
                            f.retry_after_s, "refused", refused);
    assert_non_null(got);
    golden_check(folder, got);
    json_decref(got);
    json_decref(in);
    free(exact);
    free(text);
}

static void test_all(void **state)
{
    (void)state;
    assert_true(golden_each("refusal", run_case) >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests_name("golden_refusal", tests, NULL, NULL);
}
