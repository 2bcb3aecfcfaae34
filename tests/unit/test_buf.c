#include "gateway/base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_append(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    assert_int_equal(buf_slice(&b).len, 0);
    assert_non_null(buf_slice(&b).p);
    for (int i = 0; i < 1000; i++) {
        assert_true(buf_append(&b, i % 2 ? "b" : "a", 1));
        assert_int_equal(b.p[b.len], '\0');
        assert_true(b.cap <= 1001);
    }
    assert_int_equal(b.len, 1000);
    assert_memory_equal(b.p, "ababab", 6);
    buf_release(&b);
    assert_null(b.p);
    buf_release(&b);
    buf_release(NULL);
}

static void test_limit(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 5);
    assert_true(buf_puts(&b, "abcd"));
    assert_false(buf_puts(&b, "ef"));
    assert_true(b.is_failed);
    assert_string_equal(b.p, "abcd");
    assert_false(buf_printf(&b, "%d", 12));
    assert_string_equal(b.p, "abcd");
    assert_true(buf_printf(&b, "%d", 1));
    assert_string_equal(b.p, "abcd1");
    assert_true(b.is_failed); /* a row of appends is checked at its end */
    assert_true(buf_append(&b, NULL, 0));
    buf_clear(&b);
    assert_false(b.is_failed);
    assert_string_equal(b.p, "");
    assert_false(buf_append(&b, "x", SIZE_MAX));
    buf_release(&b);
}

static void test_printf(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10000);
    for (int i = 0; i < 100; i++) {
        assert_true(buf_printf(&b, "%03d,", i));
    }
    assert_int_equal(b.len, 400);
    assert_string_equal(b.p + 392, "098,099,");
    buf_release(&b);
}

static void test_drop_and_take(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    buf_drop(&b, 0);
    size_t len = 7;
    assert_null(buf_take(&b, &len));
    assert_int_equal(len, 0);
    assert_true(buf_puts(&b, "hello world"));
    buf_drop(&b, 6);
    assert_string_equal(b.p, "world");
    char *p = buf_take(&b, &len);
    assert_string_equal(p, "world");
    assert_int_equal(len, 5);
    assert_int_equal(b.len, 0);
    assert_true(buf_puts(&b, "again")); /* the limit is still there */
    buf_drop(&b, 5);
    assert_null(buf_take(&b, NULL));
    free(p);
    buf_release(&b);
}

static void test_slices(void **state)
{
    (void)state;
    assert_int_equal(slice_str(NULL).len, 0);
    assert_int_equal(slice_str("abc").len, 3);
    assert_int_equal(SLICE_LIT("ab\0c").len, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append), cmocka_unit_test(test_limit),
        cmocka_unit_test(test_printf), cmocka_unit_test(test_drop_and_take),
        cmocka_unit_test(test_slices),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
