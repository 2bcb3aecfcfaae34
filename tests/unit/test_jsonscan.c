/* test_jsonscan.c - what steps over eight bytes at a time finds the same as what looks at each:
 * every place that a byte can have in such a step, and every length that is left at the end. */
#include "local-engine/jsonscan.h"

#include <setjmp.h> /* cmocka wants these before it */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { AT_MAX = 20 };

/* n copies of `fill`, then `rest`; yours. No byte behind it belongs to it, for the sanitizer. */
static char *text_of(const char *before, char fill, size_t n, const char *rest, size_t *len)
{
    size_t a = strlen(before), b = strlen(rest);
    char *text = malloc(a + n + b);
    assert_non_null(text);
    memcpy(text, before, a);
    memset(text + a, fill, n);
    memcpy(text + a + n, rest, b);
    *len = a + n + b;
    return text;
}

static void check_string(const char *rest, size_t n_after, const char *problem)
{
    for (size_t n = 0; n < AT_MAX; n++) {
        struct jsonscan s;
        struct jsonscan_span span = {0};
        size_t len;
        char *text = text_of("\"", 'x', n, rest, &len);
        jsonscan_init(&s, text, len);
        bool done = jsonscan_string(&s, &span);
        assert_int_equal(done, problem == NULL);
        if (problem) {
            assert_string_equal(s.problem, problem);
        } else {
            assert_int_equal(span.len, n + n_after);
            assert_true(jsonscan_end(&s));
        }
        jsonscan_release(&s);
        free(text);
    }
}

static void test_strings(void **state)
{
    (void)state;
    check_string("\"", 0, NULL);
    check_string("\x7f~!\"", 3, NULL);
    check_string("\xc3\xa9\"", 2, NULL);
    check_string("\xf0\x9f\x99\x82 good\"", 9, NULL);
    check_string("\\\"\\\\\"", 2, NULL);
    check_string("\\u00e9\\n\"", 3, NULL);
    check_string("\\ud83d\\ude42 and more\"", 13, NULL);
    check_string("", 0, "a string has no end");
    check_string("\\", 0, "a string has no end");
    check_string("\\\"", 0, "a string has no end");
    check_string("\n\"", 0, "a control character in a string");
    check_string("\x1f\"", 0, "a control character in a string");
    check_string("\x80\"", 0, "a string is not UTF-8");
    check_string("\xc3\"", 0, "a string is not UTF-8");
}

/* A list of such values is as many values, with white space of every length around them. */
static void check_skip(const char *value, size_t n_strings)
{
    for (size_t n = 0; n < AT_MAX; n++) {
        struct jsonscan s;
        struct jsonscan_span span = {0};
        size_t len, n_seen = 0;
        char *text = text_of("[", n % 3 ? ' ' : '\n', n, value, &len);
        text = realloc(text, len + n + 1);
        assert_non_null(text);
        memset(text + len, ' ', n);
        text[len + n] = ']';
        jsonscan_init(&s, text, len + n + 1);
        assert_true(jsonscan_open(&s, '['));
        assert_true(jsonscan_next(&s, ']', &n_seen));
        assert_true(jsonscan_skip(&s, &span));
        assert_int_equal(span.len, strlen(value));
        assert_memory_equal(span.at, value, span.len);
        assert_int_equal(span.n_strings, n_strings);
        assert_false(jsonscan_next(&s, ']', &n_seen));
        assert_true(jsonscan_end(&s));
        free(text);
    }
}

static void test_skip(void **state)
{
    (void)state;
    check_skip("{}", 0);
    check_skip("-1.5e3", 0);
    check_skip("\"a [ { ] } b\"", 0); /* inside a value: this one is none */
    check_skip("[\"a\", \"b\"]", 2);
    check_skip("{\"a\": {\"bb\": [1, 22, 333, 4444, 55555, 666666, 7777777]}, \"c\\\\\": \"\\\"\"}",
               4);
    check_skip("[[\"Z\", \"[\"],          [\"{\", \"}\"]]", 4);
}

static void check_bad(const char *text, const char *problem)
{
    for (size_t n = 0; n < AT_MAX; n++) {
        struct jsonscan s;
        struct jsonscan_span span = {0};
        size_t len;
        char *padded = text_of("", ' ', n, text, &len);
        jsonscan_init(&s, padded, len);
        assert_false(jsonscan_skip(&s, &span));
        assert_null(span.at);
        assert_string_equal(s.problem, problem);
        free(padded);
    }
}

static void test_skip_damaged(void **state)
{
    (void)state;
    check_bad("[1, 2, 3, 4, 5, 6, 7", "the text ends too early");
    check_bad("[1, 2}", "a bracket closes nothing");
    check_bad("{\"a\": \"b]}", "a string has no end");
    check_bad("{\"a\": \"b\\\"}", "a string has no end");
    check_bad("\"\\", "a string has no end");
    check_bad("", "a value is expected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_skip_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
