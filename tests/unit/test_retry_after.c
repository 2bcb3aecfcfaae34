/* test_retry_after.c - seconds with and without a fraction, the three forms of a date, and neither.
 */
#include "gateway/base/retry_after.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NONE (-1)

static void test_what_providers_write(void **state)
{
    (void)state;
    const int64_t now = INT64_C(784111777000); /* Sun, 06 Nov 1994 08:49:37 GMT */
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {NULL, NONE},
        {"", NONE},
        {"soon", NONE},
        {"-1", NONE},
        {"1x", NONE},
        {"0", 0},
        {"7", 7000},
        {"0.2", 1000},
        {"1.", 1000},
        {"86400", 86400000},
        {"99999999999999999999", 86400000},
        {"Sun, 06 Nov 1994 08:49:39 GMT", 2000},
        {"Sun, 06 Nov 1994 08:49:37 GMT", 0},
        {"Sun, 06 Nov 1994 08:00:00 GMT", 0},
        {"Fri, 06 Nov 2094 08:00:00 GMT", 86400000},
        {"Sun Nov  6 08:49:40 1994", 3000},
        {"Thursday, 06-Nov-25 08:49:37 GMT", 86400000},
        {"Sun, 06 Nov 1994 08:49:39", NONE},
        {"Sun, 06 Nov 1994 08:49:39 CET", NONE},
        {"Sun, 06 Nox 1994 08:49:39 GMT", NONE},
        {"Sun, 06 anF 1994 08:49:39 GMT", NONE},
        {"Sun, 06 Nov 1994 28:49:39 GMT", NONE},
        {"Sun, 06 Nov 1994 08:49:39 GMT and so on", NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t ms = retry_after_ms(cases[i].text, now);
        if (ms != cases[i].ms) {
            fail_msg("'%s': %lld", cases[i].text, (long long)ms);
        }
    }
}

static void test_a_date_needs_a_clock(void **state)
{
    (void)state;
    assert_int_equal(retry_after_ms("Wed, 21 Oct 2015 07:28:00 GMT", -1), NONE);
    assert_int_equal(retry_after_ms("7", -1), 7000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_providers_write),
        cmocka_unit_test(test_a_date_needs_a_clock),
    };
    return cmocka_run_group_tests_name("retry_after", tests, NULL, NULL);
}
