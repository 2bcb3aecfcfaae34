/* test_stop.c - what a split of the bytes must not change, holding back, min_tokens, broken UTF-8.
 * More in tests/vectors/stops.jsonl. */
#include "local-engine/stop.h"
#include "local-engine/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct stop *make(const char *const *stops, size_t n)
{
    struct stop *s;
    struct engine_error err = {0};
    assert_true(stop_new(&s, stops, n, &err));
    return s;
}

static int push(struct stop *s, const char *piece, bool may_match, const char *want)
{
    const char *text;
    size_t len;
    int matched;
    assert_true(stop_push(s, piece, strlen(piece), may_match, &text, &len, &matched, NULL));
    assert_string_equal(text, want);
    assert_int_equal(len, strlen(want));
    return matched;
}

static int finish(struct stop *s, const char *want)
{
    const char *text;
    size_t len;
    int matched;
    assert_true(stop_finish(s, &text, &len, &matched, NULL));
    assert_string_equal(text, want);
    return matched;
}

/* Every split of the text into pieces: bit i of `split` ends a piece after byte i. */
static void every_split_gives_the_same_text(void **state)
{
    (void)state;
    static const char *const stops[] = {"\nUser:", "\n\n\xE2\x82\xAC"};
    const char *all = "Hi\nUse\nUser: more";
    size_t n = strlen(all);
    for (uint32_t split = 0; split < 1u << (n - 1); split += 7) {
        struct stop *s = make(stops, 2);
        char out[64] = "";
        int matched = -1;
        for (size_t from = 0, i = 0; i < n && matched < 0; i++) {
            if (i + 1 < n && !((split >> i) & 1)) {
                continue;
            }
            const char *text;
            size_t len;
            assert_true(stop_push(s, all + from, i + 1 - from, true, &text, &len, &matched, NULL));
            strncat(out, text, len);
            from = i + 1;
        }
        assert_string_equal(out, "Hi\nUse");
        assert_int_equal(matched, 0);
        stop_free(s);
    }
}

static void earliest_occurrence_wins_then_the_list(void **state)
{
    (void)state;
    static const char *const a[] = {"cd", "bcde"};
    struct stop *s = make(a, 2);
    assert_int_equal(push(s, "abcdef", true, "a"), 1);
    assert_int_equal(push(s, "more", true, ""), 1);
    assert_int_equal(finish(s, ""), 1);
    stop_free(s);
    static const char *const b[] = {"bcd", "bc"};
    s = make(b, 2);
    assert_int_equal(push(s, "abcd", true, "a"), 0);
    stop_free(s);
}

static void only_the_longest_possible_prefix_is_held(void **state)
{
    (void)state;
    static const char *const stops[] = {"abab!", "bx"};
    struct stop *s = make(stops, 2);
    assert_int_equal(push(s, "zab", true, "z"), -1);
    assert_int_equal(push(s, "ab", true, ""), -1);
    assert_int_equal(push(s, "ab", true, "ab"), -1);
    assert_int_equal(push(s, "c", true, "ababc"), -1);
    assert_int_equal(push(s, "b", true, ""), -1);
    assert_int_equal(finish(s, "b"), -1);
    stop_free(s);
}

static void min_tokens_text_cannot_end_but_can_begin_a_match(void **state)
{
    (void)state;
    static const char *const stops[] = {"aa"};
    struct stop *s = make(stops, 1);
    assert_int_equal(push(s, "xaa", false, "xa"), -1);
    assert_int_equal(push(s, "ab", true, ""), 0);
    stop_free(s);
    s = make(stops, 1);
    assert_int_equal(push(s, "aab", false, "aab"), -1);
    assert_int_equal(push(s, "c", true, "c"), -1);
    stop_free(s);
}

static void half_characters_wait(void **state)
{
    (void)state;
    struct stop *s = make(NULL, 0);
    assert_int_equal(push(s, "a\xF0\x9F", true, "a"), -1);
    assert_int_equal(push(s, "\x98", true, ""), -1);
    assert_int_equal(push(s, "\x80z", true, "\xF0\x9F\x98\x80z"), -1);
    assert_int_equal(push(s, "\xE2\x82", true, ""), -1);
    assert_int_equal(finish(s, "\xEF\xBF\xBD"), -1);
    assert_int_equal(finish(s, ""), -1);
    stop_free(s);
}

static void incomplete_rest_can_complete_a_match(void **state)
{
    (void)state;
    static const char *const stops[] = {"b\xEF\xBF\xBD"};
    struct stop *s = make(stops, 1);
    assert_int_equal(push(s, "ab\xE2", true, "a"), -1);
    assert_int_equal(finish(s, ""), 0);
    stop_free(s);
}

static void bad_stop_strings_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "\xC3", "a\xED\xA0\x80"};
    for (size_t i = 0; i < 3; i++) {
        const char *const list[] = {"good", bad[i]};
        struct stop *s = NULL;
        struct engine_error err = {0};
        assert_false(stop_new(&s, list, 2, &err));
        assert_null(s);
        assert_int_equal(err.code, ENGINE_BAD_PARAM);
        assert_string_equal(err.param, "stop");
    }
}

static void long_held_text_survives_growth(void **state)
{
    (void)state;
    static char stop_text[5002], piece[2001];
    memset(stop_text, 'a', 5000);
    stop_text[5000] = 'b';
    memset(piece, 'a', 2000);
    const char *const stops[] = {stop_text};
    struct stop *s = make(stops, 1);
    size_t released = 0;
    const char *text;
    size_t len;
    int matched;
    for (int i = 0; i < 5; i++) {
        assert_true(stop_push(s, piece, 2000, true, &text, &len, &matched, NULL));
        released += len;
    }
    assert_int_equal(released, 5000);
    assert_int_equal(push(s, "b", true, ""), 0);
    stop_free(s);
}

/* One U+FFFD for each maximal subpart; Unicode's own example (chapter 3, table 3-11). */
static void maximal_subparts(void **state)
{
    (void)state;
    static const char in[] = "a\xF1\x80\x80\xE1\x80\xC2"
                             "b\x80"
                             "c\x80\xBF"
                             "d\xC0\xAF\xE0\x80\xED\xA0\xF4\x90\xFF";
#define R "\xEF\xBF\xBD"
    static const char want[] = "a" R R R "b" R "c" R R "d" R R R R R R R R R;
    char out[UTF8_OUT_MAX(sizeof in)];
    struct utf8 whole = {0};
    size_t len = utf8_feed(&whole, in, sizeof in - 1, out);
    len += utf8_finish(&whole, out + len);
    assert_int_equal(len, sizeof want - 1);
    assert_memory_equal(out, want, len);
    struct utf8 bytes = {0};
    len = 0;
    for (size_t i = 0; i + 1 < sizeof in; i++) {
        len += utf8_feed(&bytes, in + i, 1, out + len);
    }
    assert_int_equal(len, sizeof want - 1);
    assert_memory_equal(out, want, len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_gives_the_same_text),
        cmocka_unit_test(earliest_occurrence_wins_then_the_list),
        cmocka_unit_test(only_the_longest_possible_prefix_is_held),
        cmocka_unit_test(min_tokens_text_cannot_end_but_can_begin_a_match),
        cmocka_unit_test(half_characters_wait),
        cmocka_unit_test(incomplete_rest_can_complete_a_match),
        cmocka_unit_test(bad_stop_strings_are_refused),
        cmocka_unit_test(long_held_text_survives_growth),
        cmocka_unit_test(maximal_subparts),
    };
    return cmocka_run_group_tests_name("stop", tests, NULL, NULL);
}
