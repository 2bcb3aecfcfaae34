/* test_fingerprint.c - SHA-256 against FIPS 180-4, the canonical text against what another program
 * computed, and what a record may hold. */
#include "gateway/base/jsonio.h"
#include "gateway/fingerprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *json(const char *text)
{
    json_error_t e;
    json_t *v = json_loads(text, JSON_DECODE_ANY, &e);
    if (!v) {
        fail_msg("%s: %s", text, e.text);
    }
    return v;
}

static void fill(struct fingerprint *f, const char *sent)
{
    fingerprint_init(f);
    (void)snprintf(f->request_id, sizeof f->request_id, "req_%032d", 1);
    (void)snprintf(f->backend, sizeof f->backend, "openai");
    (void)snprintf(f->build, sizeof f->build, "isotherm 0.1.0");
    (void)snprintf(f->model, sizeof f->model, "openai/gpt-4o-mini");
    (void)snprintf(f->served_model, sizeof f->served_model, "gpt-4o-mini-2024-07-18");
    (void)snprintf(f->provider_fingerprint, sizeof f->provider_fingerprint, "fp_1");
    f->catalog_version = 7;
    f->sent = json(sent);
}

static void sealed(const char *sent, char out[24])
{
    struct fingerprint f;
    fill(&f, sent);
    assert_true(fingerprint_seal(&f));
    memcpy(out, f.system_fingerprint, 24);
    fingerprint_release(&f);
}

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/* FIPS 180-4 examples, NIST. */
static void test_sha256(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hex;
    } v[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char hex[65];
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        fingerprint_sha256(v[i].text, strlen(v[i].text), hex);
        assert_string_equal(hex, v[i].hex);
    }
    char piece[1000];
    memset(piece, 'a', sizeof piece);
    struct fingerprint_hash *h = fingerprint_hash_new();
    assert_non_null(h);
    for (int i = 0; i < 1000; i++) { /* a million, in pieces that fit no block */
        fingerprint_hash_add(h, piece, 7);
        fingerprint_hash_add(h, piece, 0);
        fingerprint_hash_add(h, piece + 7, sizeof piece - 7);
    }
    fingerprint_hash_end(h, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    fingerprint_hash_end(NULL, hex);
    assert_string_equal(hex, "");
}

#define SENT                                                                                       \
    "\"temperature\":0.7,\"top_p\":1.0,\"stop\":[\"b\",\"a\"],\"logit_bias\":{\"9\":-1.5,\"10\":"  \
    "2},\"max_tokens\":5"

/* The text and its hash were computed with Python's json.dumps(sort_keys=True) and hashlib. */
static void test_canonical(void **state)
{
    (void)state;
    struct fingerprint f;
    struct buf b;
    buf_init(&b, 4096);
    fill(&f, "{" SENT "}");
    assert_true(fingerprint_canonical(&f, &b));
    assert_string_equal(
        b.p, "{\"backend\":\"openai\",\"build\":\"isotherm 0.1.0\",\"catalog_version\":7,"
             "\"model\":\"openai/gpt-4o-mini\",\"provider_fingerprint\":\"fp_1\",\"sent\":{"
             "\"logit_bias\":{\"10\":2,\"9\":-1.5},\"max_tokens\":5,\"stop\":[\"b\",\"a\"],"
             "\"temperature\":0.7,\"top_p\":1},\"served_model\":\"gpt-4o-mini-2024-07-18\"}");
    assert_true(fingerprint_seal(&f));
    assert_string_equal(f.system_fingerprint, "iso_d68a7a32cfee31cc");
    buf_release(&b);
    buf_init(&b, 20);
    assert_false(fingerprint_canonical(&f, &b));
    buf_release(&b);
    fingerprint_release(&f);
    fingerprint_release(&f);
    fingerprint_release(NULL);
}

static void test_same_configuration_same_fingerprint(void **state)
{
    (void)state;
    static const char *const same[] = {
        "{" SENT ",\"seed\":4}",
        "{\"user\":\"u\"," SENT ",\"metadata\":{\"a\":\"b\"}}",
        "{\"max_tokens\":5,\"logit_bias\":{\"10\":2.0,\"9\":-1.5},\"stop\":[\"b\",\"a\"],\"top_p\":"
        "1,"
        "\"temperature\":0.7}",
        "{" SENT
        ",\"prediction\":{\"type\":\"content\",\"content\":\"x\"},\"safety_identifier\":\"s\","
        "\"prompt_cache_key\":\"k\"}",
    };
    static const char *const other[] = {
        "{}",
        "{" SENT ",\"top_k\":4}",
        "{\"temperature\":0.7000000000000001,\"top_p\":1.0,\"stop\":[\"b\",\"a\"],\"logit_bias\":{"
        "\"9\":-1.5,\"10\":2},\"max_tokens\":5}",
        "{\"temperature\":0.7,\"top_p\":1.0,\"stop\":[\"a\",\"b\"],\"logit_bias\":{\"9\":-1.5,"
        "\"10\":"
        "2},\"max_tokens\":5}",
    };
    char want[24], have[24];
    sealed("{" SENT "}", want);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        sealed(same[i], have);
        assert_string_equal(have, want);
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        sealed(other[i], have);
        assert_string_not_equal(have, want);
    }
}

static void test_whole_numbers_are_one(void **state)
{
    (void)state;
    char a[24], b[24];
    sealed("{\"presence_penalty\":-0.0,\"top_k\":1e15}", a);
    sealed("{\"presence_penalty\":0,\"top_k\":1000000000000000}", b);
    assert_string_equal(a, b);
}

/* Each field of the configuration part counts; the others do not. */
static void test_fields_that_count(void **state)
{
    (void)state;
    char want[24];
    sealed("{" SENT "}", want);
    struct fingerprint f;
    fill(&f, "{" SENT "}");
    f.started_us = 5;
    f.status = 500;
    f.has_seed = true;
    f.seed = 9;
    (void)snprintf(f.requested_model, sizeof f.requested_model, "fast");
    f.asked = json("{\"temperature\":1.7}");
    assert_true(fingerprint_seal(&f));
    assert_string_equal(f.system_fingerprint, want);
    char *const field[] = {f.backend, f.build, f.model, f.served_model, f.provider_fingerprint};
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        field[i][0] ^= 1;
        assert_true(fingerprint_seal(&f));
        assert_string_not_equal(f.system_fingerprint, want);
        field[i][0] ^= 1;
    }
    f.catalog_version++;
    assert_true(fingerprint_seal(&f));
    assert_string_not_equal(f.system_fingerprint, want);
    fingerprint_release(&f);
}

static void test_record(void **state)
{
    (void)state;
    struct fingerprint f;
    fill(&f, "{\"temperature\":1}");
    f.started_us = 1700000000000000;
    f.asked = json("{\"temperature\":1.7,\"top_p\":0.7,\"seed\":9007199254740993,\"top_k\":0}");
    f.adjustments =
        json("[{\"param\":\"temperature\",\"asked\":1.7,\"sent\":1,\"action\":\"clamped\"}]");
    f.outcome = OUTCOME_TRUNCATED;
    f.has_seed = true;
    f.seed = INT64_MIN;
    json_t *o = fingerprint_json(&f);
    assert_non_null(o);
    struct buf b;
    buf_init(&b, 8192);
    assert_true(jsonio_write(&b, o));
    /* Exact digits, in the order of the header. */
    assert_non_null(strstr(
        b.p, "\"asked\":{\"temperature\":1.7,\"top_p\":0.7,\"seed\":9007199254740993,\"top_k\":0},"
             "\"sent\":{\"temperature\":1},\"adjustments\":[{"));
    assert_non_null(strstr(b.p, "\"seed\":-9223372036854775808,\"asked\""));
    assert_int_equal(strncmp(b.p, "{\"request_id\":\"req_0", 20), 0);
    assert_string_equal(text_of(o, "outcome"), "truncated");
    assert_true(json_is_null(json_object_get(o, "error_code")));
    assert_true(json_is_null(json_object_get(o, "fallback")));
    buf_release(&b);
    json_decref(o);
    f.has_seed = false;
    o = fingerprint_json(&f);
    assert_true(json_is_null(json_object_get(o, "seed")));
    json_decref(o);
    fingerprint_release(&f);
    assert_null(f.sent);

    fingerprint_init(&f); /* nothing at all is a record too: a request that was refused at once */
    o = fingerprint_json(&f);
    assert_non_null(o);
    assert_true(fingerprint_seal(&f));
    json_decref(o);
}

static void test_no_text_of_the_client(void **state)
{
    (void)state;
    struct fingerprint f;
    fill(&f, "{\"prediction\":{\"type\":\"content\",\"content\":\"secret\"},\"stop\":[\"END\"]}");
    f.asked = json("{\"prediction\":{\"type\":\"content\",\"content\":\"secret\"}}");
    f.adjustments = json(
        "[{\"param\":\"prediction\",\"asked\":{\"content\":\"secret\"},\"sent\":null,\"reason\":"
        "\"unsupported\"},"
        "{\"param\":\"story\",\"asked\":\"secret\",\"sent\":null,\"reason\":\"unknown_parameter\"},"
        "{\"param\":\"level\",\"asked\":4,\"sent\":null,\"reason\":\"unknown_parameter\"},"
        "{\"param\":\"stop\",\"asked\":[\"END\"],\"sent\":null,\"reason\":\"unsupported\"}]");
    json_t *o = fingerprint_json(&f);
    assert_non_null(o);
    char *text = json_dumps(o, JSON_COMPACT);
    assert_null(strstr(text, "secret"));
    assert_non_null(strstr(text,
                           "\"sent\":{\"prediction\":{\"sha256\":"
                           "\"83d084ad9696ef518090b22cca5ac42c34850e5aa1cf45abb34569bfbcfc02c7\","
                           "\"bytes\":37},\"stop\":[\"END\"]}"));
    assert_non_null(strstr(text, "\"asked\":4,"));
    assert_non_null(strstr(text, "\"asked\":[\"END\"],"));
    free(text);
    json_decref(o);
    fingerprint_release(&f);
}

static void test_long_values_become_digests(void **state)
{
    (void)state;
    struct fingerprint f;
    fill(&f, "{}");
    char *text = malloc(FINGERPRINT_VALUE_BYTES_MAX + 1);
    assert_non_null(text);
    memset(text, 'x', FINGERPRINT_VALUE_BYTES_MAX);
    for (int more = 0; more < 2; more++) {
        text[FINGERPRINT_VALUE_BYTES_MAX - 2 + more] = '\0'; /* two quotes */
        assert_int_equal(json_object_set_new(f.sent, "user", json_string(text)), 0);
        json_t *o = fingerprint_json(&f), *v = json_object_get(json_object_get(o, "sent"), "user");
        assert_int_equal(json_is_string(v), more == 0);
        assert_int_equal(json_integer_value(json_object_get(v, "bytes")),
                         more ? FINGERPRINT_VALUE_BYTES_MAX + 1 : 0);
        json_decref(o);
        text[FINGERPRINT_VALUE_BYTES_MAX - 2 + more] = 'x';
    }
    free(text);
    fingerprint_release(&f);
}

/* A provider's id that is no UTF-8, or was cut inside a character, must not cost the record. */
static void test_strings_that_are_not_utf8(void **state)
{
    (void)state;
    struct fingerprint f;
    fill(&f, "{}");
    (void)snprintf(f.provider_request_id, sizeof f.provider_request_id, "id-\xc3");
    (void)snprintf(f.served_model, sizeof f.served_model, "m\xff\xfe");
    (void)snprintf(f.requested_model, sizeof f.requested_model, "mod\xc3\xa8le");
    assert_true(fingerprint_seal(&f));
    json_t *o = fingerprint_json(&f);
    assert_non_null(o);
    assert_string_equal(text_of(o, "provider_request_id"), "id-?");
    assert_string_equal(text_of(o, "served_model"), "m??");
    assert_string_equal(text_of(o, "requested_model"), "mod\xc3\xa8le");
    json_decref(o);
    fingerprint_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_canonical),
        cmocka_unit_test(test_same_configuration_same_fingerprint),
        cmocka_unit_test(test_whole_numbers_are_one),
        cmocka_unit_test(test_fields_that_count),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_no_text_of_the_client),
        cmocka_unit_test(test_long_values_become_digests),
        cmocka_unit_test(test_strings_that_are_not_utf8),
    };
    return cmocka_run_group_tests_name("fingerprint", tests, NULL, NULL);
}
