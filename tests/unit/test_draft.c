/* test_draft.c - what a draft model guesses does not depend on what it guessed wrongly before, and
 * how far it guesses follows what was right. */
#include "local-engine/draft.h"
#include "local-engine/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODEL "tests/vectors/stories260k"

enum { CONTEXT = 512 };

static struct tokenizer *tokenizer;
static struct draft *draft;
static int32_t tokens[CONTEXT]; /* a sequence that is no text */

static int setup(void **state)
{
    (void)state;
    for (int32_t i = 0; i < CONTEXT; i++) {
        tokens[i] = 3 + (i * 131 + i * i * 7) % 500;
    }
    return tokenizer_open(&tokenizer, MODEL, NULL) && draft_map(&draft, MODEL, NULL) &&
                   draft_load(draft, tokenizer, 1, NULL)
               ? 0
               : -1;
}

static int teardown(void **state)
{
    (void)state;
    draft_close(draft);
    tokenizer_close(tokenizer);
    return 0;
}

/* What a sequence that has seen nothing before guesses. */
static size_t guess_fresh(size_t n, int32_t *out)
{
    struct draft_sequence *s = draft_sequence_new(draft, CONTEXT);
    size_t n_guessed = 0;
    assert_non_null(s);
    for (size_t i = 0; n_guessed == 0 && i < 8; i++) { /* a part a call */
        n_guessed = draft_guess(s, tokens, n, out, DRAFT_GUESSES_MAX);
    }
    draft_sequence_free(s);
    return n_guessed;
}

static void test_wrong_guesses_leave_no_trace(void **state)
{
    (void)state;
    struct draft_sequence *s = draft_sequence_new(draft, CONTEXT);
    size_t n_calls = 0;
    for (size_t n = 5; n < 300; n++) {
        int32_t out[DRAFT_GUESSES_MAX], want[DRAFT_GUESSES_MAX];
        size_t n_guessed = draft_guess(s, tokens, n, out, DRAFT_GUESSES_MAX);
        if (n_guessed > 0) {
            size_t n_want = guess_fresh(n, want);
            size_t n_both = n_guessed < n_want ? n_guessed : n_want;
            assert_memory_equal(out, want, n_both * sizeof *out);
            n_calls++;
        }
    }
    assert_in_range(n_calls, 3, 60); /* they are nearly all wrong: fewer and fewer */
    draft_sequence_free(s);
}

/* When the sequence takes every guess and then the draft's own next token, none is ever wrong. */
static void test_right_guesses_grow(void **state)
{
    (void)state;
    struct draft_sequence *s = draft_sequence_new(draft, CONTEXT);
    int32_t text[CONTEXT] = {1, 403, 407, 261, 378}, out[DRAFT_GUESSES_MAX];
    size_t n = 5, n_guessed = 0, n_last = 0;
    while (n + DRAFT_GUESSES_MAX < CONTEXT) {
        n_guessed = draft_guess(s, text, n, out, DRAFT_GUESSES_MAX);
        assert_true(n_guessed >= n_last && n_guessed > 0);
        n_last = n_guessed;
        memcpy(text + n, out, n_guessed * sizeof *out);
        n += n_guessed;
        text[n] = 1 + (int32_t)n % 400; /* any token may follow a guess that was right */
        n++;
    }
    assert_int_equal(n_guessed, DRAFT_GUESSES_MAX);
    draft_sequence_free(s);
    s = draft_sequence_new(draft, CONTEXT);
    assert_int_equal(draft_guess(s, text, 20, out, 2), 2);
    assert_int_equal(draft_guess(s, text, 21, out, 0), 0);
    draft_sequence_free(s);
}

static void test_the_end_of_its_context(void **state)
{
    (void)state;
    struct draft_sequence *s = draft_sequence_new(draft, 100000); /* the model has 512 */
    int32_t out[DRAFT_GUESSES_MAX];
    size_t n_guessed = 0;
    for (int i = 0; i < 8 && n_guessed == 0; i++) {
        n_guessed = draft_guess(s, tokens, CONTEXT - 1, out, DRAFT_GUESSES_MAX);
        assert_true(i > 5 || n_guessed == 0); /* 64 tokens a call */
    }
    assert_int_equal(n_guessed, 1);
    assert_int_equal(draft_guess(s, tokens, CONTEXT, out, DRAFT_GUESSES_MAX), 0);
    draft_sequence_free(s);
    draft_sequence_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_guesses_leave_no_trace),
        cmocka_unit_test(test_right_guesses_grow),
        cmocka_unit_test(test_the_end_of_its_context),
    };
    return cmocka_run_group_tests_name("draft", tests, setup, teardown);
}
