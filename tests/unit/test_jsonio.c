/* Numbers keep the form that people wrote, strings keep their bytes, paths are made and found. */
#include "gateway/base/jsonio.h"
#include "gateway/base/limits.h"
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void expect_text(const char *in, const char *want)
{
    struct failure f = {.status = 0};
    json_t *v = jsonio_parse(in, strlen(in), &f);
    struct buf b;
    assert_non_null(v);
    buf_init(&b, 1u << 16);
    assert_true(jsonio_write(&b, v));
    assert_string_equal(b.p, want);
    buf_release(&b);
    json_decref(v);
}

static void test_numbers_keep_their_shortest_form(void **state)
{
    (void)state;
    expect_text(
        "[0.7,0.95,0.05,-0.1,0.125,1e-7,0.30000000000000004,1e300,5e-324]",
        "[0.7,0.95,0.05,-0.1,0.125,1e-07,0.30000000000000004,1e+300,4.94065645841247e-324]");
    expect_text("[1.0,0.0,-0.0,9007199254740993]", "[1,0,-0,9007199254740993]");
}

static void test_every_double_reads_back(void **state)
{
    (void)state;
    unsigned long long x = 88172645463325252ULL;
    for (int i = 0; i < 20000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        double d;
        memcpy(&d, &x, sizeof d);
        char text[JSONIO_DOUBLE_MAX];
        (void)jsonio_format_double(d, text);
        if (d == d && d - d == 0) {
            assert_true(strtod(text, NULL) == d);
        } else {
            assert_string_equal(text, "null");
        }
    }
}

/* Numbers as people write them have a way of their own: it must say what printf says. */
static void test_short_decimals_are_printfs(void **state)
{
    (void)state;
    static const double scales[] = {1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e9};
    unsigned long long x = 88172645463325252ULL;
    for (int i = 0; i < 90000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        double d = (double)(long long)(x % 2000000000ULL) / scales[i % 9];
        d = i & 16 ? -d : d;
        d = i & 32 ? d / 1e5 : d;
        char got[JSONIO_DOUBLE_MAX], want[JSONIO_DOUBLE_MAX];
        size_t len = jsonio_format_double(d, got);
        assert_int_equal(len, strlen(got));
        for (int digits = 15; digits <= 17; digits++) {
            (void)snprintf(want, sizeof want, "%.*g", digits, d);
            if (strtod(want, NULL) == d) {
                break;
            }
        }
        assert_string_equal(got, want);
    }
}

static void test_integers_to_both_ends(void **state)
{
    (void)state;
    expect_text("[0,-1,10,9223372036854775807,-9223372036854775808]",
                "[0,-1,10,9223372036854775807,-9223372036854775808]");
}

static void test_every_byte_at_every_place(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        for (size_t at = 0; at < 20; at++) {
            char text[20], own[8], want[64];
            memset(text, 'x', sizeof text);
            text[at] = (char)c;
            bool is_plain = c >= 0x20 && c != '"' && c != '\\' && c != 0x7f;
            const char *pair = strchr("\"\"\\\\\nn\rr\tt\bb\ff", (int)c);
            if (is_plain) {
                (void)snprintf(own, sizeof own, "%c", (int)c);
            } else if (c && pair) {
                (void)snprintf(own, sizeof own, "\\%c", pair[1]);
            } else {
                (void)snprintf(own, sizeof own, "\\u%04x", c);
            }
            (void)snprintf(want, sizeof want, "\"%.*s%s%.*s\"", (int)at, "xxxxxxxxxxxxxxxxxxxx",
                           own, (int)(19 - at), "xxxxxxxxxxxxxxxxxxxx");
            struct buf b;
            buf_init(&b, 100);
            assert_true(jsonio_write_string(&b, text, sizeof text));
            assert_string_equal(b.p, want);
            buf_release(&b);
        }
    }
}

/* Longer than what is written in one step, escapes on either side of each seam. */
static void test_long_strings_come_back(void **state)
{
    (void)state;
    static const char odd[] = "\n\"\\\x01\x7f\xc3\xa9x";
    char text[2600];
    for (size_t len = 0; len < sizeof text; len += 1 + len / 9) {
        for (size_t i = 0; i < len; i++) {
            bool is_last = len - (i - i % 11) < 11; /* no character is cut */
            text[i] = i % 11 < 3 || is_last ? 'a' : odd[i % 11 - 3];
        }
        struct buf b;
        buf_init(&b, 1u << 16);
        assert_true(jsonio_write_string(&b, text, len));
        json_t *v = json_loadb(b.p, b.len, JSON_DECODE_ANY, NULL);
        assert_non_null(v);
        assert_int_equal(json_string_length(v), len);
        assert_memory_equal(json_string_value(v), text, len);
        json_decref(v);
        buf_release(&b);
    }
}

/* What is gathered before it is appended may be full at any byte of any value. */
static void test_values_of_every_kind_at_every_place(void **state)
{
    (void)state;
    struct buf b;
    char pad[700];
    buf_init(&b, 1u << 16);
    memset(pad, '\n', sizeof pad);
    for (size_t len = 0; len < sizeof pad; len++) {
        json_t *all = json_array();
        for (int i = 0; i < 60; i++) {
            json_t *one = json_pack("{s:b,s:b,s:n,s:[i,f,{}],s:{s:s%}}", "yes", 1, "no", 0, "none",
                                    "list", -1234567, 0.5, "in", "text", pad, i == 0 ? len : 50);
            assert_int_equal(json_array_append_new(all, one), 0);
        }
        char *want = json_dumps(all, JSON_COMPACT);
        buf_clear(&b);
        assert_true(jsonio_write(&b, all));
        assert_string_equal(b.p, want);
        free(want);
        json_decref(all);
    }
    buf_release(&b);
}

static void test_a_comma_locale_changes_nothing(void **state)
{
    (void)state;
    char folder[] = "/tmp/isotherm-locale-XXXXXX", command[256], number[8];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(command, sizeof command, "localedef -f UTF-8 -i de_DE %s/de_DE.UTF-8", folder);
    assert_int_equal(system(command), 0); /* of the package `locales` */
    (void)setenv("LOCPATH", folder, 1);
    assert_non_null(setlocale(LC_NUMERIC, "de_DE.UTF-8"));
    (void)snprintf(number, sizeof number, "%.1f", 0.7);
    assert_string_equal(number, "0,7");
    expect_text("[0.7,1e-7]", "[0.7,1e-07]");
    (void)setlocale(LC_NUMERIC, "C");
    (void)unsetenv("LOCPATH");
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void test_strings_are_escaped_as_json_needs(void **state)
{
    (void)state;
    expect_text("[\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u007f/\\u00e9\\ud83d\\ude00\"]",
                "[\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u007f/\xc3\xa9\xf0\x9f\x98\x80\"]");
}

static void expect_refused(const char *p, size_t n)
{
    struct failure f = {.status = 0};
    assert_null(jsonio_parse(p, n, &f));
    assert_int_equal(f.status, 400);
    assert_string_equal(f.code, "invalid_json");
}

static void test_bad_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",        "{",          "{} x",       "{\"a\":1,\"a\":2}",
                                      "[01]",    "[1.]",       "[\"\xff\"]", "nul",
                                      "[1e999]", "\"\\u0000\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_refused(bad[i], strlen(bad[i]));
    }
    char *deep = malloc(200000);
    assert_non_null(deep);
    memset(deep, '[', 200000);
    expect_refused(deep, 200000);
    free(deep);
}

static void test_brackets_inside_strings_are_no_nesting(void **state)
{
    (void)state;
    char text[1024] = "[\"";
    memset(text + 2, '[', 900);
    (void)memcpy(text + 902, "\\\"]\"]", 6);
    struct failure f = {.status = 0};
    json_t *v = jsonio_parse(text, strlen(text), &f);
    assert_non_null(v);
    json_decref(v);
}

static void test_integers_beyond_64_bits_become_reals(void **state)
{
    (void)state;
    struct failure f = {.status = 0};
    json_t *v = jsonio_parse("{\"seed\":9223372036854775808}", 28, &f);
    assert_non_null(v);
    assert_true(json_is_real(json_object_get(v, "seed")));
    json_decref(v);
}

static void test_paths(void **state)
{
    (void)state;
    json_t *o = json_object();
    assert_true(jsonio_set_path(o, "a.b.c", json_integer(5)));
    assert_true(jsonio_set_path(o, "a.d", json_true()));
    assert_false(jsonio_set_path(o, "a.d.e", json_true()));
    assert_false(jsonio_set_path(o, "", json_true()));
    assert_int_equal(json_integer_value(jsonio_get_path(o, "a.b.c")), 5);
    assert_null(jsonio_get_path(o, "a.x.c"));
    assert_null(jsonio_get_path(o, "a..c"));
    json_decref(o);
}

static void test_the_limit_of_the_buffer_holds(void **state)
{
    (void)state;
    json_t *v = json_string("a long enough text");
    struct buf b;
    buf_init(&b, 10);
    assert_false(jsonio_write(&b, v));
    buf_release(&b);
    json_decref(v);
}

/* Only what is too large for 64 bits becomes a double; what a double does not hold stays one. */
static void test_one_integer_too_large(void **state)
{
    (void)state;
    struct failure f = {.status = 0};
    const char *text =
        "{\"big\":9223372036854775808,\"n\":2,\"list\":[1,[-7],{\"x\":9007199254740991}],"
        "\"odd\":9007199254740993,\"t\":0.5}";
    json_t *v = jsonio_parse(text, strlen(text), &f);
    assert_true(json_is_real(json_object_get(v, "big")));
    assert_true(json_is_real(json_object_get(v, "t")));
    assert_true(json_is_real(json_object_get(v, "odd")));
    assert_int_equal(json_integer_value(json_object_get(v, "n")), 2);
    const json_t *list = json_object_get(v, "list");
    assert_true(json_is_integer(json_array_get(list, 0)));
    assert_int_equal(json_integer_value(json_array_get(json_array_get(list, 1), 0)), -7);
    assert_true(json_is_integer(json_object_get(json_array_get(list, 2), "x")));
    json_decref(v);
}

static void test_values_are_counted(void **state)
{
    (void)state;
    struct failure f = {.status = 0};
    const char *text = "{\"a\":[1,2,{\"b\":null}],\"c\":\"x\"}"; /* seven of them */
    json_t *v = jsonio_parse(text, strlen(text), &f);
    assert_true(jsonio_has_more(v, 6));
    assert_true(jsonio_has_more(v, 0));
    assert_false(jsonio_has_more(v, 7));
    json_decref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_keep_their_shortest_form),
        cmocka_unit_test(test_every_double_reads_back),
        cmocka_unit_test(test_short_decimals_are_printfs),
        cmocka_unit_test(test_integers_to_both_ends),
        cmocka_unit_test(test_every_byte_at_every_place),
        cmocka_unit_test(test_long_strings_come_back),
        cmocka_unit_test(test_values_of_every_kind_at_every_place),
        cmocka_unit_test(test_a_comma_locale_changes_nothing),
        cmocka_unit_test(test_strings_are_escaped_as_json_needs),
        cmocka_unit_test(test_bad_texts_are_refused),
        cmocka_unit_test(test_brackets_inside_strings_are_no_nesting),
        cmocka_unit_test(test_integers_beyond_64_bits_become_reals),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_the_limit_of_the_buffer_holds),
        cmocka_unit_test(test_one_integer_too_large),
        cmocka_unit_test(test_values_are_counted),
    };
    return cmocka_run_group_tests_name("jsonio", tests, NULL, NULL);
}
