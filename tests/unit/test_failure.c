/* test_failure.c - the first failure wins, its type follows from the status, and whatever was in
 * its texts can be said in JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/base/failure.h"
#include <jansson.h>

static void expect_utf8(const char *text)
{
    json_t *s = json_string(text);
    assert_non_null(s);
    json_decref(s);
}

static void test_first_wins(void **state)
{
    (void)state;
    struct failure f = {.status = 0};
    assert_false(failure_set(&f, 429, "busy", NULL, "wait %d s", 7));
    assert_false(failure_set(&f, 500, "other", "x", "later"));
    assert_int_equal(f.status, 429);
    assert_string_equal(f.type, "rate_limit_error");
    assert_string_equal(f.code, "busy");
    assert_string_equal(f.param, "");
    assert_string_equal(f.message, "wait 7 s");
    assert_false(failure_set(NULL, 500, NULL, NULL, "nobody"));
}

/* Texts of two-, three- and four-byte characters, moved so that each byte of one is the last that
 * fits. */
static void test_what_is_too_long_ends_at_a_character(void **state)
{
    (void)state;
    static const char *const characters[] = {"x", "\xc3\xa9", "\xe6\xb9\x96", "\xf0\x9f\x98\x80"};
    for (size_t i = 0; i < 4; i++) {
        size_t n = strlen(characters[i]);
        for (size_t before = 0; before < 4; before++) {
            char text[1001] = "";
            memset(text, 'a', before);
            for (size_t at = before; at + n < sizeof text; at += n) {
                memcpy(text + at, characters[i], n + 1);
            }
            struct failure f = {.status = 0};
            assert_false(failure_set(&f, 400, text, text, "%s", text));
            expect_utf8(f.message);
            expect_utf8(f.param);
            expect_utf8(f.code);
            assert_in_range(strlen(f.message), sizeof f.message - n, sizeof f.message - 1);
            assert_in_range(strlen(f.param), sizeof f.param - n, sizeof f.param - 1);
        }
    }
}

static void test_what_fits_is_whole(void **state)
{
    (void)state;
    struct failure f = {.status = 0};
    assert_false(failure_set(&f, 502, NULL, "\xc3\xa9", "a\xf0\x9f\x98\x80"));
    assert_string_equal(f.message, "a\xf0\x9f\x98\x80");
    assert_string_equal(f.param, "\xc3\xa9");
    struct failure empty = {.status = 0};
    assert_false(failure_set(&empty, 502, "", "", "%s", ""));
    assert_string_equal(empty.message, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_wins),
        cmocka_unit_test(test_what_is_too_long_ends_at_a_character),
        cmocka_unit_test(test_what_fits_is_whole),
    };
    return cmocka_run_group_tests_name("failure", tests, NULL, NULL);
}
