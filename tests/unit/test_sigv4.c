/* The vectors of the official signer, byte for byte; what cannot be sent is refused, and no key is
 * ever in a failure. */
#include "gateway/backend/sigv4.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const char *text(const json_t *v, const char *name)
{
    return json_string_value(json_object_get(v, name));
}

static int64_t read_date(const char *date)
{
    struct tm tm = {.tm_year = 0};
    assert_non_null(strptime(date, "%Y%m%dT%H%M%SZ", &tm));
    return timegm(&tm);
}

static void check_vector(const json_t *v)
{
    const json_t *keys = json_object_get(v, "credentials"),
                 *headers = json_object_get(v, "headers");
    const struct sigv4_request r = {
        .method = text(v, "method"),
        .host = text(v, "host"),
        .path = text(v, "wire_path"),
        .content_type = text(headers, "content-type"),
        .body = slice_str(text(v, "body")),
        .region = text(v, "region"),
        .service = text(v, "service"),
        .access_key_id = text(keys, "access_key_id"),
        .secret_access_key = text(keys, "secret_access_key"),
        .session_token = text(keys, "session_token"),
        .time_s = read_date(text(headers, "x-amz-date")),
    };
    struct sigv4_headers h;
    struct failure f = {.status = 0};
    assert_true(sigv4_sign(&r, &h, &f));
    assert_int_equal(f.status, 0);
    assert_string_equal(h.date, text(headers, "x-amz-date"));
    assert_string_equal(h.content_sha256, text(headers, "x-amz-content-sha256"));
    assert_string_equal(h.authorization, text(v, "authorization"));
    const char *model = text(v, "model");
    if (model) { /* the path that the official signer was given holds the id as we write it */
        char id[400];
        assert_true(sigv4_url_path(model, id, sizeof id));
        assert_non_null(strstr(r.path, id));
    }
}

static void test_vectors(void **state)
{
    (void)state;
    json_t *file = json_load_file("tests/vectors/sigv4.json", 0, NULL);
    const json_t *vectors = json_object_get(file, "vectors");
    size_t n = json_array_size(vectors);
    assert_true(n >= 10);
    for (size_t i = 0; i < n; i++) {
        check_vector(json_array_get(vectors, i));
    }
    json_decref(file);
}

static const struct sigv4_request good = {
    .method = "POST",
    .host = "bedrock-runtime.us-east-1.amazonaws.com",
    .path = "/model/m%3A0/converse",
    .content_type = "application/json",
    .body = {"{}", 2},
    .region = "us-east-1",
    .service = "bedrock",
    .access_key_id = "AKIDSECRETNAME",
    .secret_access_key = "sampleSecretKey",
    .session_token = "SECRETNAMEToken",
    .time_s = 1796000000,
};

static void check_refused(const struct sigv4_request *r, const char *code, const char *what)
{
    struct sigv4_headers h = {.date = "untouched"};
    struct failure f = {.status = 0};
    assert_false(sigv4_sign(r, &h, &f));
    assert_int_equal(f.status, 500);
    assert_string_equal(f.code, code);
    assert_non_null(strstr(f.message, what));
    assert_null(strstr(f.message, "SECRETNAME"));
    assert_string_equal(h.date, "untouched");
    assert_false(sigv4_sign(r, &h, NULL));
}

/* Sets one string of a good request and expects a refusal. */
static void check_string(size_t field, const char *value, const char *code, const char *what)
{
    struct sigv4_request r = good;
    memcpy((char *)&r + field, &value, sizeof value);
    check_refused(&r, code, what);
}
#define FIELD(name) offsetof(struct sigv4_request, name)

static void test_refused(void **state)
{
    (void)state;
    static char long_text[9000];
    memset(long_text, 'x', sizeof long_text - 1);
    static const size_t keys[] = {FIELD(access_key_id), FIELD(secret_access_key),
                                  FIELD(session_token)};
    static const char *const bad_keys[] = {
        "", " ", "SECRETNAME\n", "SECRETNAME\r\nx: y", "\x7f", "SECRETNAM\xc3\x89", long_text};
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < sizeof bad_keys / sizeof *bad_keys; k++) {
            check_string(keys[i], bad_keys[k], "bad_api_key", "AWS credentials");
        }
    }
    check_string(FIELD(access_key_id), "SECRETNAME/x", "bad_api_key", "AWS credentials");
    static const char *const bad_paths[] = {"",      "model", "//",        "/model//x", "/./x",
                                            "/a/..", "/../a", "/a?",       "/a?x=y",    "/a#b",
                                            "/a b",  "/a\nb", "/\xc3\xa9", long_text};
    for (size_t i = 0; i < sizeof bad_paths / sizeof *bad_paths; i++) {
        check_string(FIELD(path), bad_paths[i], "bad_signature", "path");
    }
    check_string(FIELD(region), "", "bad_signature", "region");
    check_string(FIELD(region), "us/east", "bad_signature", "region");
    check_string(FIELD(region), long_text, "bad_signature", "region");
    check_string(FIELD(service), "a,b", "bad_signature", "service");
    check_string(FIELD(method), "PO ST", "bad_signature", "method");
    check_string(FIELD(host), "a\r\nb", "bad_signature", "host");
    check_string(FIELD(content_type), "a  b", "bad_signature", "content type");
    check_string(FIELD(content_type), " a", "bad_signature", "content type");
    check_string(FIELD(content_type), "a ", "bad_signature", "content type");
    struct sigv4_request r = good;
    r.time_s = -1;
    check_refused(&r, "bad_signature", "time");
    r.time_s = INT64_MAX;
    check_refused(&r, "bad_signature", "time");
}

/* What is allowed to be longest still fits; whatever is signed changes the signature. */
static void test_longest(void **state)
{
    (void)state;
    char name[129], secret[257];
    memset(name, 'n', sizeof name);
    memset(secret, 's', sizeof secret);
    name[128] = secret[256] = '\0';
    struct sigv4_request r = good;
    r.region = r.service = r.access_key_id = name;
    r.secret_access_key = secret;
    r.time_s = 253402300799;
    struct sigv4_headers h;
    assert_true(sigv4_sign(&r, &h, NULL));
    assert_string_equal(h.date, "99991231T235959Z");
    const char *signature = strstr(h.authorization, ", Signature=");
    assert_non_null(signature);
    assert_int_equal(strlen(signature), 12 + 64);
}

static void test_all_is_signed(void **state)
{
    (void)state;
    struct sigv4_request r[12];
    struct sigv4_headers h[12];
    for (size_t i = 0; i < 12; i++) {
        r[i] = good;
    }
    r[1].method = "PUT";
    r[2].host = "b";
    r[3].path = "/model/m%3A0/converse-stream";
    r[4].content_type = "text/plain";
    r[5].body = SLICE_LIT("{} ");
    r[6].region = "us-east-2";
    r[7].service = "bedrocks";
    r[8].secret_access_key = "sampleSecretKez";
    r[9].session_token = "SECRETNAMETokem";
    r[10].time_s++;
    r[11].session_token = NULL;
    for (size_t i = 0; i < 12; i++) {
        assert_true(sigv4_sign(&r[i], &h[i], NULL));
        assert_null(strstr(h[i].authorization, "sampleSecretKe"));
        assert_null(strstr(h[i].authorization, "Token"));
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(strstr(h[i].authorization, "Signature="),
                                    strstr(h[k].authorization, "Signature="));
        }
    }
}

static void test_url_path(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"anthropic.claude-3-haiku-20240307-v1:0", "anthropic.claude-3-haiku-20240307-v1%3A0"},
        {"arn:aws:bedrock:us-east-1:1:inference-profile/x", "arn%3Aaws%3Abedrock%3Aus-east-1%3A1"
                                                            "%3Ainference-profile%2Fx"},
        {"AZaz09-_.~", "AZaz09-_.~"},
        {"...", "..."},
        {"a%3Ab ?#\xc3\xa9\n\x7f", "a%253Ab%20%3F%23%C3%A9%0A%7F"},
    };
    char out[200];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i][1]);
        assert_true(sigv4_url_path(cases[i][0], out, n + 1));
        assert_string_equal(out, cases[i][1]);
        for (size_t k = 1; k <= n; k++) {
            memset(out, '!', sizeof out);
            assert_false(sigv4_url_path(cases[i][0], out, k));
            assert_string_equal(out, "");
            assert_int_equal(out[k], '!');
        }
    }
    assert_false(sigv4_url_path("", out, sizeof out));
    assert_false(sigv4_url_path(".", out, sizeof out));
    assert_false(sigv4_url_path("..", out, sizeof out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_longest),  cmocka_unit_test(test_all_is_signed),
        cmocka_unit_test(test_url_path),
    };
    return cmocka_run_group_tests_name("sigv4", tests, NULL, NULL);
}
