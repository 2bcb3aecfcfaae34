/* test_speculate.c - the table against a search through the whole sequence, and when guesses are
 * worth a row. */
#include "local-engine/speculate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUESSES = 15 };

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

/* The place that follows the last n-gram where it stood last before; 0: nowhere. */
static size_t search(const int32_t *tokens, size_t n)
{
    for (size_t at = n - 1; n > SPECULATE_GRAM && at >= SPECULATE_GRAM; at--) {
        if (memcmp(tokens + at - SPECULATE_GRAM, tokens + n - SPECULATE_GRAM,
                   SPECULATE_GRAM * sizeof *tokens) == 0) {
            return at;
        }
    }
    return 0;
}

/* Pushes n tokens; after each, the place is the one followed before where that was right, and the
 * one that the search finds where it was not. */
static void check_against_search(const int32_t *tokens, size_t n, size_t *n_found)
{
    struct speculate s;
    speculate_init(&s, 0.5);
    for (size_t i = 0; i < n; i++) {
        size_t before = s.at;
        speculate_push(&s, tokens[i]);
        assert_int_equal(s.n, i + 1);
        size_t want = before && tokens[before] == tokens[i] ? before + 1 : search(tokens, i + 1);
        assert_int_equal(s.at, want);
        int32_t guess[GUESSES];
        size_t n_guessed = speculate_guess_all(&s, guess, GUESSES);
        assert_int_equal(n_guessed, want ? GUESSES : 0);
        for (size_t k = 0; k < n_guessed; k++) {
            size_t place = want + k;
            while (place > i) {
                place -= i + 1 - want; /* in the guesses themselves */
            }
            assert_int_equal(guess[k], tokens[place]);
        }
        for (size_t k = 1; want && k <= s.n_match; k++) {
            assert_int_equal(tokens[want - k], tokens[i + 1 - k]);
        }
        *n_found += want != 0;
    }
    speculate_release(&s);
}

static void test_table_is_a_search(void **state)
{
    (void)state;
    static int32_t tokens[3000];
    for (uint32_t run = 0; run < 24; run++) {
        size_t n_found = 0, n = 1 + random_below(3000);
        uint32_t n_kinds = 1 + run * run;
        for (size_t i = 0; i < n; i++) {
            bool repeats = i > 50 && random_below(40) > 0;
            tokens[i] = repeats && run % 2 ? tokens[i - 37] : (int32_t)random_below(n_kinds);
        }
        tokens[0] = run % 3 ? tokens[0] : INT32_MAX;
        check_against_search(tokens, n, &n_found);
        assert_true(n < 500 || (run % 2 == 0 && n_kinds > 5) || n_found > n / 4);
    }
}

static void test_short_sequences_have_no_guess(void **state)
{
    (void)state;
    struct speculate s;
    int32_t guess[4];
    speculate_init(&s, 0.1);
    assert_int_equal(speculate_guess(&s, guess, 4), 0);
    for (int i = 0; i < SPECULATE_GRAM; i++) {
        speculate_push(&s, 7);
        assert_int_equal(speculate_guess_all(&s, guess, 4), 0);
    }
    speculate_push(&s, 7);
    assert_int_equal(speculate_guess_all(&s, guess, 4), 4);
    assert_int_equal(guess[3], 7);
    assert_int_equal(speculate_guess_all(&s, guess, 0), 0);
    speculate_release(&s);
    speculate_release(&s);
}

/* How many guesses there are, and how many are right, when each step takes what is right and one
 * token more. */
static void follow(const int32_t *tokens, size_t n, double cost, size_t *n_guessed, size_t *n_right)
{
    struct speculate s;
    speculate_init(&s, cost);
    *n_guessed = *n_right = 0;
    for (size_t i = 0; i < n;) {
        int32_t guess[GUESSES];
        size_t k = speculate_guess(&s, guess, GUESSES), right = 0;
        *n_guessed += k;
        while (right < k && i + right + 1 < n && guess[right] == tokens[i + right]) {
            right++;
        }
        *n_right += right;
        for (size_t j = 0; j <= right && i < n; j++) {
            speculate_push(&s, tokens[i++]);
        }
    }
    speculate_release(&s);
}

static void test_repetition_is_guessed_nearly_whole(void **state)
{
    (void)state;
    static int32_t tokens[2000];
    size_t n_guessed, n_right;
    for (size_t i = 0; i < 2000; i++) {
        tokens[i] = i < 50 ? (int32_t)random_below(1000) : tokens[i - 50];
    }
    follow(tokens, 2000, 0.55, &n_guessed, &n_right);
    assert_true(n_right > 1700);
    assert_true(n_guessed < n_right + 20);
}

/* Short matches by chance are wrong as often as right: none of them is worth a row for long. */
static void test_chance_is_not_guessed(void **state)
{
    (void)state;
    static int32_t tokens[20000];
    size_t n_guessed, n_right;
    for (size_t i = 0; i < 20000; i++) {
        tokens[i] = (int32_t)random_below(8);
    }
    follow(tokens, 20000, 0.55, &n_guessed, &n_right);
    assert_true(n_guessed < 200);
    follow(tokens, 20000, 0, &n_guessed, &n_right);
    assert_true(n_guessed > 10 * 15000); /* they would be there */
}

/* Text that stops repeating is not guessed any more, and again when it repeats again. */
static void test_it_shrinks_and_grows(void **state)
{
    (void)state;
    struct speculate s;
    int32_t guess[GUESSES];
    speculate_init(&s, 0.55);
    for (int32_t i = 0; i < 400; i++) {
        speculate_push(&s, i % 20);
    }
    assert_int_equal(speculate_guess(&s, guess, GUESSES), GUESSES);
    size_t n = 0;
    for (int32_t i = 0; i < 400; i++) { /* the loop is broken in every second round of it */
        speculate_push(&s, i % 40 == 39 ? 1000 + i : i % 20);
        n += i > 200 ? speculate_guess(&s, guess, GUESSES) > 0 : 0;
    }
    assert_true(n > 0);
    for (int32_t i = 0; i < 400; i++) { /* three known ones, then a new one */
        speculate_push(&s, i % 4 == 3 ? 2000 + i : 100 + i % 4);
    }
    speculate_push(&s, 100);
    speculate_push(&s, 101);
    speculate_push(&s, 102);
    assert_int_equal(speculate_guess_all(&s, guess, 1), 1);
    assert_int_equal(speculate_guess(&s, guess, GUESSES), 0);
    for (int32_t i = 0; i < 400; i++) {
        speculate_push(&s, i % 20);
    }
    assert_int_equal(speculate_guess(&s, guess, GUESSES), GUESSES);
    speculate_release(&s);
}

int main(void)
{
    random_state = 88172645463325252u;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_a_search),
        cmocka_unit_test(test_short_sequences_have_no_guess),
        cmocka_unit_test(test_repetition_is_guessed_nearly_whole),
        cmocka_unit_test(test_chance_is_not_guessed),
        cmocka_unit_test(test_it_shrinks_and_grows),
    };
    return cmocka_run_group_tests_name("speculate", tests, NULL, NULL);
}
