/* test_headers.c - what is no header is not taken; secrets are marked and go with their headers. */
#include "gateway/backend/headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_what_is_no_header(void **state)
{
    (void)state;
    struct headers h = {.n = 0};
    char name[HEADERS_NAME_MAX + 2], value[HEADERS_VALUE_MAX + 2];
    memset(name, 'n', sizeof name - 1);
    memset(value, 'v', sizeof value - 1);
    name[sizeof name - 1] = value[sizeof value - 1] = '\0';
    assert_false(headers_add(&h, "x-a", "b\r\nx-evil: 1"));
    assert_false(headers_add(&h, "x-a", "b\x7f"));
    assert_false(headers_add(&h, "x a", "b"));
    assert_false(headers_add(&h, "", "b"));
    assert_false(headers_add(&h, name, "b"));
    assert_false(headers_add(&h, "x-a", value));
    assert_false(headers_add_secret(&h, "x-a", "Bearer ", value + 7)); /* one byte too many */
    assert_int_equal(h.n, 0);
    assert_false(h.is_failed);
    assert_true(headers_add(&h, name + 1, value + 1));
    assert_true(headers_add_secret(&h, "x-a", "Bearer ", value + 8));
    headers_release(&h);
}

static void test_as_many_as_there_may_be(void **state)
{
    (void)state;
    struct headers h = {.n = 0};
    while (h.n < HEADERS_MAX) {
        assert_true(headers_add(&h, "x-b", "c"));
    }
    assert_false(headers_add(&h, "x-c", "d"));
    assert_int_equal(h.n, HEADERS_MAX);
    headers_release(&h);
    assert_true(headers_add(&h, "x-c", "d"));
    headers_release(&h);
}

static void test_secrets_are_marked(void **state)
{
    (void)state;
    struct headers h = {.n = 0};
    assert_true(headers_add(&h, "accept", "text/plain\tq=1"));
    assert_true(headers_add_secret(&h, "authorization", "Bearer ", "sk"));
    assert_string_equal(headers_get(&h, "authorization"), "Bearer sk");
    assert_false(h.h[0].is_secret);
    assert_true(h.h[1].is_secret);
    headers_release(&h);
}

static void test_the_first_ones_stay(void **state)
{
    (void)state;
    struct headers h = {.n = 0};
    assert_true(headers_add(&h, "a", "1"));
    assert_true(headers_add(&h, "b", "2"));
    headers_cut(&h, 5);
    assert_int_equal(h.n, 2);
    headers_cut(&h, 1);
    assert_string_equal(headers_get(&h, "a"), "1");
    assert_null(headers_get(&h, "b"));
    headers_release(&h);
    assert_null(headers_get(&h, "a"));
    headers_release(&h);
    headers_release(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_header),
        cmocka_unit_test(test_as_many_as_there_may_be),
        cmocka_unit_test(test_secrets_are_marked),
        cmocka_unit_test(test_the_first_ones_stay),
    };
    return cmocka_run_group_tests_name("headers", tests, NULL, NULL);
}
