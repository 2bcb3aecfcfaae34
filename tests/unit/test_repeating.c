/* test_repeating.c - streams of texts that repeat themselves, and of pieces that only look like it.
 */
#include "gateway/backend/repeating.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define PIECES_MAX 20

struct stream {
    const char *pieces[PIECES_MAX];
    const char *text; /* NULL: refused */
    enum repeating_pace pace;
};

static bool run(const struct stream *s, enum repeating_pace *pace, char *out, size_t cap)
{
    struct repeating r;
    struct slice fresh;
    size_t n = 0;
    bool ok = true;
    repeating_init(&r);
    for (size_t i = 0; ok && i < PIECES_MAX && s->pieces[i]; i++) {
        ok = repeating_take(&r, pace, slice_str(s->pieces[i]), &fresh);
        if (ok) {
            n += (size_t)snprintf(out + n, cap - n, "%.*s", (int)fresh.len, fresh.p);
        }
    }
    ok = ok && repeating_end(&r, *pace, &fresh);
    if (ok) {
        (void)snprintf(out + n, cap - n, "%.*s", (int)fresh.len, fresh.p);
    }
    repeating_release(&r);
    return ok;
}

static void test_streams(void **state)
{
    (void)state;
    static const struct stream streams[] = {
        {{"A", " quiet", " lake"}, "A quiet lake", REPEATING_NOT},
        {{"A", "A quiet", "A quiet lake"}, "A quiet lake", REPEATING_ALL},
        {{"A", "", "A quiet", "A quiet", "A quiet lake", ""}, "A quiet lake", REPEATING_ALL},
        {{"A quiet", "A quiet lake"}, "A quiet lake", REPEATING_UNKNOWN},
        {{"ha", "haha"}, "hahaha", REPEATING_UNKNOWN}, /* too short to be sure: as asked */
        {{"ha", "ha", "ha"}, "hahaha", REPEATING_UNKNOWN},
        {{"ha", "ha", "!"}, "haha!", REPEATING_NOT},
        {{"1", "10", "100", "7"}, "1101007", REPEATING_NOT},
        {{"1", "10", "100", "1000", "10000", "100000", "1000007"}, "1000007", REPEATING_ALL},
        {{"-", "--", "----"}, "-------", REPEATING_UNKNOWN},
        {{"x", "x", "x", "x", "x", "x", "x", "x", "x", "x", "x", "x", "x", "x"},
         "xxxxxxxxxxxxxx",
         REPEATING_NOT}, /* not held back for ever */
        {{"\xc3\xa5", "\xc3\xa5r", "\xc3\xa5r d"}, "\xc3\xa5r d", REPEATING_ALL},
        {{"A", "A b", "A b c", "B"}, NULL, REPEATING_ALL},
        {{NULL}, "", REPEATING_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        char out[256] = "";
        enum repeating_pace pace = REPEATING_UNKNOWN;
        bool ok = run(&streams[i], &pace, out, sizeof out);
        assert_int_equal(ok, streams[i].text != NULL);
        if (ok) {
            assert_string_equal(out, streams[i].text);
        }
        assert_int_equal(pace, streams[i].pace);
    }
}

/* What one text of the stream has shown holds for the others. */
static void test_known_pace(void **state)
{
    (void)state;
    char out[256] = "";
    enum repeating_pace pace = REPEATING_ALL;
    static const struct stream all = {{"1", "10", "10", "100"}, NULL, REPEATING_ALL};
    assert_true(run(&all, &pace, out, sizeof out));
    assert_string_equal(out, "100");
    pace = REPEATING_NOT;
    static const struct stream none = {{"A quiet", "A quiet lake", "A quiet lake is"}, NULL, 0};
    assert_true(run(&none, &pace, out, sizeof out));
    assert_string_equal(out, "A quietA quiet lakeA quiet lake is");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_known_pace),
    };
    return cmocka_run_group_tests_name("repeating", tests, NULL, NULL);
}
