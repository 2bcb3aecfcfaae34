/* The same events, whatever the line ends and wherever the pieces are cut. */
#include "gateway/io/sse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* "event|data;" of each event. */
static bool collect(struct slice event, struct slice data, void *ud)
{
    struct buf *b = ud;
    return buf_append(b, event.p, event.len) && buf_puts(b, "|") &&
           buf_append(b, data.p, data.len) && buf_puts(b, ";");
}

static const char text[] = "\xef\xbb\xbf: comment\n"
                           "event: start\n"
                           "data: {\"a\":1}\n"
                           "\n"
                           "data:no space\n"
                           "data:  two spaces\n"
                           "data\n"
                           "id: 7\n"
                           "retry: 5\n"
                           "\n"
                           "event: nothing\n"
                           "\n"
                           "datax: no\n"
                           "\xef\xbb\xbf"
                           "data: only the first line has a BOM\n"
                           "data: na\xc3\xafve \xe2\x82\xac\n"
                           ":\n"
                           "\n"
                           "\n"
                           "data:\n"
                           "\n"
                           "data: [DONE]\n"
                           "\n";
static const char want[] =
    "start|{\"a\":1};|no space\n two spaces\n;|na\xc3\xafve \xe2\x82\xac;|;|[DONE];";

/* LF, CRLF, CR, or all three by turns. */
static size_t write_framed(char *to, int framing)
{
    size_t n = 0;
    int turn = 0;
    for (const char *p = text; *p; p++) {
        if (*p != '\n') {
            to[n++] = *p;
            continue;
        }
        int f = framing == 3 ? turn++ % 3 : framing;
        if (framing == 3 && f == 0 && n > 0 && to[n - 1] == '\r') {
            f = 1; /* LF after a lone CR would be one line end */
        }
        if (f != 0) {
            to[n++] = '\r';
        }
        if (f != 2) {
            to[n++] = '\n';
        }
    }
    return n;
}

static void check_pieces(const char *p, size_t len, unsigned seed, size_t piece_max)
{
    struct sse s;
    struct buf got;
    struct failure f = {0};
    sse_init(&s, 1000);
    buf_init(&got, 10000);
    while (len > 0) {
        seed = seed * 1103515245u + 12345u;
        size_t n = 1 + (seed >> 16) % piece_max;
        n = n < len ? n : len;
        assert_true(sse_feed(&s, (struct slice){p, n}, collect, &got, &f));
        p += n;
        len -= n;
    }
    assert_true(sse_end(&s, collect, &got));
    assert_string_equal(got.p, want);
    sse_release(&s);
    buf_release(&got);
}

static void test_framings(void **state)
{
    (void)state;
    char framed[sizeof text * 2];
    for (int framing = 0; framing < 4; framing++) {
        size_t len = write_framed(framed, framing);
        check_pieces(framed, len, 0, 1);
        for (unsigned seed = 0; seed < 100; seed++) {
            check_pieces(framed, len, seed, 1 + seed % 30);
        }
        check_pieces(framed, len, 0, sizeof framed);
    }
}

static void check_end(const char *bytes, const char *wanted)
{
    struct sse s;
    struct buf got;
    struct failure f = {0};
    sse_init(&s, 1000);
    buf_init(&got, 10000);
    assert_true(sse_feed(&s, slice_str(bytes), collect, &got, &f));
    assert_true(sse_end(&s, collect, &got));
    assert_string_equal(buf_slice(&got).p, wanted);
    sse_release(&s);
    buf_release(&got);
}

static void test_missing_end(void **state)
{
    (void)state;
    check_end("data: a\n\ndata: b", "|a;|b;");
    check_end("data: a\n\ndata: b\n", "|a;|b;");
    check_end("data: a\r", "|a;");
    check_end("event: x", "");
    check_end("", "");
}

static void test_limit(void **state)
{
    (void)state;
    struct buf got;
    buf_init(&got, 10000);
    static const char *const long_ones[] = {"data: 12345678901234567890",
                                            "data: 1234567890\ndata: 1234567890\n\n",
                                            ": 12345678901234567890"};
    for (size_t i = 0; i < 3; i++) {
        struct sse s;
        struct failure f = {0};
        sse_init(&s, 20);
        assert_true(sse_feed(&s, SLICE_LIT("data: ok\n\n"), collect, &got, &f));
        assert_false(sse_feed(&s, slice_str(long_ones[i]), collect, &got, &f));
        assert_int_equal(f.status, 502);
        assert_string_equal(f.code, "upstream_too_large");
        sse_release(&s);
    }
    assert_string_equal(got.p, "|ok;|ok;|ok;");
    buf_release(&got);
}

/* A line at the limit and one byte beyond, cut in two anywhere: the verdict is the same. */
static void test_limit_wherever_it_is_cut(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
    } cases[] = {{"data: 34567890123456\n\n", true}, {"data: 345678901234567\n\n", false},
                 {": 345678901234567890\r\r", true}, {": 3456789012345678901\r\r", false},
                 {"id: 5678901234567890\n\n", true}, {"id: 56789012345678901\n\n", false}};
    struct buf got;
    buf_init(&got, 10000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct slice t = slice_str(cases[i].text);
        for (size_t at = 0; at <= t.len; at++) {
            struct sse s;
            struct failure f = {0};
            sse_init(&s, 20);
            bool ok = sse_feed(&s, (struct slice){t.p, at}, collect, &got, &f) &&
                      sse_feed(&s, (struct slice){t.p + at, t.len - at}, collect, &got, &f);
            assert_true(ok == cases[i].ok && ok == (f.status == 0));
            sse_release(&s);
        }
    }
    buf_release(&got);
}

static bool refuse(struct slice event, struct slice data, void *ud)
{
    (void)event;
    (void)data;
    ++*(int *)ud;
    return false;
}

static void test_stop(void **state)
{
    (void)state;
    struct sse s;
    struct failure f = {0};
    int n = 0;
    sse_init(&s, 100);
    assert_false(sse_feed(&s, SLICE_LIT("data: a\n\ndata: b\n\n"), refuse, &n, &f));
    assert_int_equal(n, 1);
    assert_int_equal(f.status, 0);
    sse_release(&s);
    sse_release(NULL);
}

static void test_write(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 30);
    assert_true(sse_write(&b, SLICE_LIT("{\"a\":1}")));
    assert_string_equal(b.p, "data: {\"a\":1}\n\n");
    assert_false(sse_write(&b, SLICE_LIT("1234567890")));
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_framings),
        cmocka_unit_test(test_missing_end),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_limit_wherever_it_is_cut),
        cmocka_unit_test(test_write),
    };
    return cmocka_run_group_tests_name("sse", tests, NULL, NULL);
}
