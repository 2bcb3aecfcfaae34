/* test_think.c - reasoning in tags: every text in every pair of cuts gives the same two texts. */
#include "gateway/backend/think.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct got {
    struct buf reasoning, text;
    size_t n, n_max; /* calls; 0: no end */
};

static bool take(struct slice s, bool is_reasoning, void *ud)
{
    struct got *g = ud;
    assert_true(s.len > 0);
    assert_true(buf_append(is_reasoning ? &g->reasoning : &g->text, s.p, s.len));
    return ++g->n != g->n_max;
}

static void read_cut(const char *in, size_t a, size_t b, const char *reasoning, const char *text)
{
    struct got g = {.n = 0};
    struct think t = {.at = THINK_START};
    size_t n = strlen(in);
    buf_init(&g.reasoning, 4096);
    buf_init(&g.text, 4096);
    assert_true(think_feed(&t, (struct slice){in, a}, take, &g));
    assert_true(think_feed(&t, (struct slice){in + a, b - a}, take, &g));
    assert_true(think_feed(&t, (struct slice){in + b, n - b}, take, &g));
    assert_true(think_end(&t, take, &g));
    assert_string_equal(g.reasoning.p ? g.reasoning.p : "", reasoning);
    assert_string_equal(g.text.p ? g.text.p : "", text);
    buf_release(&g.reasoning);
    buf_release(&g.text);
}

static void test_every_cut(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"", "", ""},
        {"Blue.", "", "Blue."},
        {"<think>One.</think>Blue.", "One.", "Blue."},
        {"<think>\nOne.\n</think>\n\nBlue.", "One.\n", "Blue."},
        {"<think></think>Blue.", "", "Blue."},
        {"<think>a < b </thin <</think>c <think>d</think>", "a < b </thin <", "c <think>d</think>"},
        {"<<think>a</think>b", "", "<<think>a</think>b"},
        {" <think>a</think>b", "", " <think>a</think>b"},
        {"<thinking>a", "", "<thinking>a"},
        {"<thi", "", "<thi"},
        {"<think>a</thin", "a</thin", ""},
        {"<think>a", "a", ""},
        {"<think>", "", ""},
        {"<think>  ", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i][0]);
        for (size_t a = 0; a <= n; a++) {
            for (size_t b = a; b <= n; b++) {
                read_cut(cases[i][0], a, b, cases[i][1], cases[i][2]);
            }
        }
    }
}

static void test_the_receiver_stops_it(void **state)
{
    (void)state;
    struct got g = {.n_max = 1};
    struct think t = {.at = THINK_START};
    buf_init(&g.reasoning, 64);
    buf_init(&g.text, 64);
    assert_false(think_feed(&t, SLICE_LIT("<think>a</think>b"), take, &g));
    assert_int_equal(g.n, 1);
    buf_release(&g.reasoning);
    buf_release(&g.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_the_receiver_stops_it),
    };
    return cmocka_run_group_tests_name("think", tests, NULL, NULL);
}
