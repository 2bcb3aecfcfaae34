/* test_wordscan.c - the patterns cut by hand against the same patterns in PCRE2. */
#include "local-engine/codepoint.h"
#include "local-engine/pretokenize.h"
#include "local-engine/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PIECES_MAX = 4096 };
struct pieces {
    size_t len[PIECES_MAX];
    size_t n;
};

static bool note(void *ud, const char *s, size_t len, struct engine_error *err)
{
    struct pieces *p = ud;
    (void)s;
    (void)err;
    assert_true(p->n < PIECES_MAX);
    p->len[p->n++] = len;
    return true;
}

/* The pattern as PCRE2 has it: in brackets it is not recognised. */
static void make_slow(struct pretokenize *p, enum wordscan_kind kind)
{
    char text[512];
    struct engine_error err = {0};
    const struct pretokenize_rule rule = {PRETOKENIZE_ISOLATED, false};
    int n = snprintf(text, sizeof text, "(?:%s)", wordscan_pattern(kind));
    *p = (struct pretokenize){0};
    assert_true(pretokenize_add(p, text, (size_t)n, rule, "test", &err));
    assert_int_equal(p->stages[0].scan, WORDSCAN_NONE);
}

static bool is_same(const struct pretokenize *slow, enum wordscan_kind kind, const char *s,
                    size_t len)
{
    static struct pieces want;
    struct engine_error err = {0};
    size_t at = 0;
    want.n = 0;
    assert_true(pretokenize_run(slow, s, len, false, note, &want, &err));
    for (size_t i = 0; i < want.n; i++) {
        size_t n = wordscan_next(kind, s + at, len - at);
        assert_true(n > 0 && n <= len - at);
        if (n != want.len[i]) {
            return false;
        }
        at += n;
    }
    return at == len;
}

static const char *const parts[] = {"'s",
                                    "'S",
                                    "'T",
                                    "'re",
                                    "'lL",
                                    "'v",
                                    "'\xc5\xbf",
                                    "'",
                                    "a",
                                    "B",
                                    "word",
                                    "\xc3\xa4",
                                    "\xe3\x81\x82",
                                    "\xcc\x81",
                                    "1",
                                    "22",
                                    "333",
                                    "4444",
                                    "\xc2\xbd",
                                    "\xd9\xa3",
                                    " ",
                                    "  ",
                                    "\t",
                                    "\n",
                                    "\r\n",
                                    "\r",
                                    "\v",
                                    "\xc2\xa0",
                                    "\xc2\x85",
                                    "\xe3\x80\x80",
                                    "\xe2\x80\xa8",
                                    "!",
                                    "?!",
                                    "_",
                                    "-",
                                    "\xf0\x9f\x98\x80",
                                    "\xe2\x80\x8d",
                                    "\xef\xbb\xbf",
                                    "\xe1\xa0\x8e",
                                    "\x01",
                                    "\x7f",
                                    "\xc7\x85",
                                    "\xca\xb0"};

static void test_same_as_regular_expressions(void **state)
{
    (void)state;
    struct rng r;
    rng_init(&r, 1, 0);
    for (int kind = WORDSCAN_GPT2; kind < WORDSCAN_N; kind++) {
        struct pretokenize slow;
        make_slow(&slow, (enum wordscan_kind)kind);
        for (int i = 0; i < 20000; i++) {
            char text[256] = "";
            size_t len = 0;
            for (uint64_t n = 1 + rng_next(&r) % 14; n > 0; n--) {
                const char *part = parts[rng_next(&r) % (sizeof parts / sizeof *parts)];
                memcpy(text + len, part, strlen(part));
                len += strlen(part);
            }
            if (!is_same(&slow, (enum wordscan_kind)kind, text, len)) {
                fail_msg("pattern %d, text '%.*s'", kind, (int)len, text);
            }
        }
        pretokenize_release(&slow);
    }
}

/* The two libraries need not know the same version of Unicode: a few thousand letters are new. */
static void test_classes_of_all_characters(void **state)
{
    (void)state;
    struct pretokenize slow;
    size_t n_other = 0, n_old = 0;
    make_slow(&slow, WORDSCAN_GPT2);
    for (uint32_t cp = 1; cp <= 0x10ffff; cp++) {
        char text[8] = "a";
        size_t len = 1;
        if (cp >= 0xd800 && cp <= 0xdfff) {
            continue;
        }
        len += codepoint_write(text + len, cp);
        text[len++] = '1';
        bool is_other = !is_same(&slow, WORDSCAN_GPT2, text, len);
        n_other += is_other;
        n_old += is_other && cp < 0x800;
    }
    assert_int_equal(n_old, 0);
    if (n_other > 12000) {
        fail_msg("%zu characters are of another class", n_other);
    }
    pretokenize_release(&slow);
}

static void test_recognised_by_text(void **state)
{
    (void)state;
    for (int kind = WORDSCAN_GPT2; kind < WORDSCAN_N; kind++) {
        const char *pattern = wordscan_pattern((enum wordscan_kind)kind);
        assert_int_equal(wordscan_recognise(pattern, strlen(pattern)), kind);
        assert_int_equal(wordscan_recognise(pattern, strlen(pattern) - 1), WORDSCAN_NONE);
    }
    assert_null(wordscan_pattern(WORDSCAN_NONE));
    assert_int_equal(wordscan_recognise("", 0), WORDSCAN_NONE);
}

/* ---- what becomes of matches */

static const struct {
    struct pretokenize_rule rule;
    const char *want;
} rules[] = {
    {{PRETOKENIZE_ISOLATED, false}, "a|-|-|b|-|c"},
    {{PRETOKENIZE_REMOVED, false}, "a|b|c"},
    {{PRETOKENIZE_REMOVED, true}, "-|-|-"},
    {{PRETOKENIZE_MERGED_WITH_PREVIOUS, false}, "a-|-|b-|c"},
    {{PRETOKENIZE_MERGED_WITH_NEXT, false}, "a|-|-b|-c"},
    {{PRETOKENIZE_CONTIGUOUS, false}, "a|--|b|-|c"},
    {{PRETOKENIZE_MERGED_WITH_PREVIOUS, true}, "a|-|-b|-c"},
};

static bool join(void *ud, const char *s, size_t len, struct engine_error *err)
{
    char *out = ud;
    size_t at = strlen(out);
    (void)err;
    (void)snprintf(out + at, 64 - at, "%s%.*s", at ? "|" : "", (int)len, s);
    return true;
}

static void test_behaviors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct pretokenize p = {0};
        struct engine_error err = {0};
        char got[64] = "";
        assert_true(pretokenize_add(&p, "-", 1, rules[i].rule, "test", &err));
        assert_true(pretokenize_run(&p, "a--b-c", 6, false, join, got, &err));
        assert_string_equal(got, rules[i].want);
        pretokenize_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_as_regular_expressions),
                                       cmocka_unit_test(test_classes_of_all_characters),
                                       cmocka_unit_test(test_recognised_by_text),
                                       cmocka_unit_test(test_behaviors)};
    return cmocka_run_group_tests_name("wordscan", tests, NULL, NULL);
}
