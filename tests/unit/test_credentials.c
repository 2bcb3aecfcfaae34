/* test_credentials.c - which key goes where: bearers, AWS credentials, the provider's own hosts and
 * others; signatures as the official signer makes them; nothing secret in a failure. */
#include "gateway/credentials.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define OWN "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m%3A0/converse"

static const char *const names[] = {
    "AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",        "OTHER_KEY",         "CREDENTIALS_DIRECTORY"};

static struct provider signed_provider = {
    .id = "aws-bedrock",
    .auth = CATALOG_AUTH_SIGV4,
    .sign_service = "bedrock",
    .sign_hosts = "bedrock-runtime.{region}.amazonaws.com bedrock-runtime-fips.{region}.amazonaws"
                  ".com",
    .key_env = "AWS_BEARER_TOKEN_BEDROCK"};
static struct config_provider configured = {.name = (char *)"aws"};
static struct config conf = {.providers = &configured, .n_providers = 1};

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        unsetenv(names[i]);
    }
    configured.region = NULL;
    return 0;
}

static struct target target_of(const char *url, const char *key_name)
{
    struct target t = {.provider_name = "aws", .provider = &signed_provider, .key_name = key_name};
    (void)snprintf(t.url, sizeof t.url, "%s", url);
    return t;
}

static void set_pair(void)
{
    setenv("AWS_ACCESS_KEY_ID", "AKIDSAMPLE", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "sampleSecretKey", 1);
}

/* key: the bearer that is found; region: signed for it; both NULL: nothing is sent. */
static void finds(const char *url, const char *key_name, const char *key, const char *region)
{
    struct target t = target_of(url, key_name);
    struct credentials c;
    struct failure f = {.status = 0};
    if (!credentials_find(&conf, &t, &c, &f)) {
        fail_msg("%s: %s", url, f.message);
    }
    assert_string_equal(c.key, key ? key : "");
    assert_int_equal(c.signs, region != NULL);
    if (region) {
        assert_string_equal(c.region, region);
        assert_string_equal(c.access_key_id, "AKIDSAMPLE");
    }
    assert_int_equal(credentials_are_sent(&conf, &t), key || region);
    credentials_wipe(&c);
    static const struct credentials nothing;
    assert_memory_equal(&c, &nothing, sizeof c);
}

static void refuses(const char *url, const char *key_name, const char *words)
{
    struct target t = target_of(url, key_name);
    struct credentials c;
    struct failure f = {.status = 0};
    assert_false(credentials_find(&conf, &t, &c, &f));
    assert_int_equal(f.status, 502);
    assert_string_equal(f.code, "upstream_auth");
    if (!strstr(f.message, words)) {
        fail_msg("%s", f.message);
    }
    assert_null(strstr(f.message, "AKID"));
    assert_true(credentials_are_sent(&conf, &t));
    credentials_wipe(&c);
}

static void test_own_host(void **state)
{
    (void)state;
    refuses(OWN, NULL, "AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,");
    setenv("AWS_ACCESS_KEY_ID", "AKIDSAMPLE", 1);
    refuses(OWN, NULL, "AWS_SECRET_ACCESS_KEY");
    set_pair();
    finds(OWN, NULL, NULL, "eu-west-1");
    finds("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/x", NULL, NULL,
          "us-gov-west-1");
    finds("https://bedrock-runtime.eu-west-1.amazonaws.com:443/x", NULL, NULL, "eu-west-1");
    finds(OWN, "OTHER_KEY", NULL, "eu-west-1"); /* a key that is not set */
    setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-key", 1);
    finds(OWN, NULL, "bedrock-key", NULL);
    setenv("OTHER_KEY", "other", 1);
    finds(OWN, "OTHER_KEY", "other", NULL);
    unsetenv("AWS_BEARER_TOKEN_BEDROCK");
    unsetenv("OTHER_KEY");
    configured.region = (char *)"us-west-2";
    finds(OWN, NULL, NULL, "us-west-2");
}

static void test_other_hosts(void **state)
{
    (void)state;
    static const char *const others[] = {
        "http://bedrock-runtime.eu-west-1.amazonaws.com/x",
        "https://bedrock-runtime.eu-west-1.amazonaws.com.example.com/x",
        "https://bedrock-runtime.eu-west-1.amazonaws.org/x",
        "https://bedrock-runtime.eu.west.amazonaws.com/x",
        "https://bedrock-runtime.a@b.amazonaws.com/x",
        "https://bedrock-runtime..amazonaws.com/x",
        "https://x.bedrock-runtime.eu-west-1.amazonaws.com/x",
        "https://bedrock-runtime.amazonaws.com/x",
        "https://example.com/bedrock-runtime.eu-west-1.amazonaws.com",
        "http://127.0.0.1:8080/x"};
    set_pair();
    setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-key", 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        finds(others[i], NULL, NULL, NULL);
        finds(others[i], "AWS_BEARER_TOKEN_BEDROCK", "bedrock-key", NULL);
        refuses(others[i], "OTHER_KEY", "OTHER_KEY, or a region");
        configured.region = (char *)"eu-west-1"; /* says that it may be signed for */
        finds(others[i], NULL, NULL, "eu-west-1");
        configured.region = NULL;
    }
    configured.region = (char *)"eu-west-1";
    unsetenv("AWS_SECRET_ACCESS_KEY");
    refuses("http://127.0.0.1:8080/x", NULL, "variables AWS_ACCESS_KEY_ID");
}

static void test_credential_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/isotherm-credentials-XXXXXX", path[80];
    static const char *const files[][2] = {{"AWS_ACCESS_KEY_ID", "AKIDSAMPLE\n"},
                                           {"AWS_SECRET_ACCESS_KEY", "sampleSecretKey"},
                                           {"AWS_SESSION_TOKEN", "token\n"}};
    assert_non_null(mkdtemp(folder));
    setenv("CREDENTIALS_DIRECTORY", folder, 1);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, files[i][0]);
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        (void)fputs(files[i][1], out);
        (void)fclose(out);
    }
    struct target t = target_of(OWN, NULL);
    struct credentials c;
    assert_true(credentials_find(&conf, &t, &c, NULL));
    assert_true(c.signs);
    assert_string_equal(c.secret_access_key, "sampleSecretKey");
    assert_string_equal(c.session_token, "token");
    credentials_wipe(&c);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, files[i][0]);
        (void)remove(path);
    }
    (void)rmdir(folder);
}

static void test_bearers_as_ever(void **state)
{
    (void)state;
    struct provider p = {.id = "x", .auth = CATALOG_AUTH_BEARER};
    struct target t = target_of("https://example.com/x", "OTHER_KEY");
    struct credentials c;
    struct failure f = {.status = 0};
    t.provider = &p;
    set_pair();
    assert_false(credentials_find(&conf, &t, &c, &f));
    assert_non_null(strstr(f.message, "set the environment variable OTHER_KEY"));
    setenv("OTHER_KEY", "other", 1);
    assert_true(credentials_find(&conf, &t, &c, NULL));
    assert_string_equal(c.key, "other");
    assert_false(c.signs);
    struct headers h = {.n = 0};
    assert_true(credentials_sign(&c, &t, SLICE_LIT("{}"), 0, &h, NULL));
    assert_int_equal(h.n, 0);
    t.key_name = NULL;
    assert_true(credentials_find(&conf, &t, &c, NULL));
    assert_string_equal(c.key, "");
    assert_false(credentials_are_sent(&conf, &t));
}

/* ---- signatures */

static const char *text(const json_t *v, const char *name)
{
    return json_string_value(json_object_get(v, name));
}

static const char *value_of(const struct headers *h, const char *name, bool is_secret)
{
    for (size_t i = 0; i < h->n; i++) {
        bool is_it = strcmp(h->h[i].name, name) == 0;
        assert_true(!is_it || h->h[i].is_secret == is_secret);
    }
    const char *value = headers_get(h, name);
    return value ? value : "";
}

static void check_vector(const json_t *v, const char *port)
{
    const json_t *keys = json_object_get(v, "credentials"),
                 *headers = json_object_get(v, "headers");
    struct credentials c = {.signs = true};
    char url[1024];
    struct tm tm = {.tm_year = 0};
    const char *token = text(keys, "session_token");
    (void)snprintf(c.access_key_id, sizeof c.access_key_id, "%s", text(keys, "access_key_id"));
    (void)snprintf(c.secret_access_key, sizeof c.secret_access_key, "%s",
                   text(keys, "secret_access_key"));
    (void)snprintf(c.session_token, sizeof c.session_token, "%s", token ? token : "");
    (void)snprintf(c.region, sizeof c.region, "%s", text(v, "region"));
    (void)snprintf(url, sizeof url, "https://%s%s%s", text(v, "host"), port, text(v, "wire_path"));
    assert_non_null(strptime(text(headers, "x-amz-date"), "%Y%m%dT%H%M%SZ", &tm));
    struct target t = target_of(url, NULL);
    struct headers h = {.n = 0};
    struct failure f = {.status = 0};
    assert_true(headers_add(&h, "content-type", text(headers, "content-type")));
    if (!credentials_sign(&c, &t, slice_str(text(v, "body")), timegm(&tm), &h, &f)) {
        fail_msg("%s", f.message);
    }
    assert_string_equal(value_of(&h, "authorization", true), text(v, "authorization"));
    assert_string_equal(value_of(&h, "x-amz-date", false), text(headers, "x-amz-date"));
    assert_string_equal(value_of(&h, "x-amz-content-sha256", false),
                        text(headers, "x-amz-content-sha256"));
    assert_string_equal(value_of(&h, "x-amz-security-token", true), token ? token : "");
    headers_release(&h);
}

static void test_vectors(void **state)
{
    (void)state;
    json_t *file = json_load_file("tests/vectors/sigv4.json", 0, NULL);
    size_t i, n_checked = 0;
    const json_t *v;
    json_array_foreach (json_object_get(file, "vectors"), i, v) {
        bool is_post = strcmp(text(v, "method"), "POST") == 0 && !strchr(text(v, "host"), ':');
        if (is_post && strcmp(text(v, "service"), "bedrock") == 0) {
            check_vector(v, "");
            check_vector(v, ":443"); /* the scheme's own port is not in the Host header */
            n_checked++;
        }
    }
    assert_true(n_checked >= 5);
    json_decref(file);
}

static void test_what_cannot_be_signed(void **state)
{
    (void)state;
    struct credentials c = {.signs = true,
                            .access_key_id = "AKIDSAMPLE",
                            .secret_access_key = "sample\nSecretKey",
                            .region = "eu-west-1"};
    struct target t = target_of(OWN, NULL);
    struct headers h = {.n = 0};
    struct failure f = {.status = 0};
    assert_true(headers_add(&h, "content-type", "application/json"));
    assert_false(credentials_sign(&c, &t, SLICE_LIT("{}"), 1, &h, &f));
    assert_string_equal(f.code, "bad_api_key");
    assert_null(strstr(f.message, "Secret"));
    assert_int_equal(h.n, 1);
    (void)snprintf(c.secret_access_key, sizeof c.secret_access_key, "sampleSecretKey");
    f = (struct failure){.status = 0};
    while (h.n < HEADERS_MAX - 1) { /* no room for all of them */
        assert_true(headers_add(&h, "x-other", ""));
    }
    assert_false(credentials_sign(&c, &t, SLICE_LIT("{}"), 1, &h, &f));
    assert_string_equal(f.code, "bad_header");
    f = (struct failure){.status = 0};
    headers_cut(&h, 1);
    t.url[0] = '\0';
    assert_false(credentials_sign(&c, &t, SLICE_LIT("{}"), 1, &h, &f));
    assert_string_equal(f.code, "bad_signature");
    headers_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_own_host, clear),
        cmocka_unit_test_setup(test_other_hosts, clear),
        cmocka_unit_test_setup(test_credential_files, clear),
        cmocka_unit_test_setup(test_bearers_as_ever, clear),
        cmocka_unit_test_setup(test_vectors, clear),
        cmocka_unit_test_setup(test_what_cannot_be_signed, clear),
    };
    return cmocka_run_group_tests_name("credentials", tests, NULL, NULL);
}
