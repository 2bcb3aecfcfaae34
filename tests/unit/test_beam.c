/* test_beam.c - the search against the rule written out plainly: every extension sorted, no early
 * end. */
#include "local-engine/beam.h"
#include "local-engine/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VOCAB_MAX = 6, LEN_MAX = 7, WIDTH_MAX = 9, PLAIN_MAX = 4096 };

/* Scores of the next token after the last one; row 0 follows nothing. The end is token 0. */
struct table {
    int32_t n_vocab;
    double row[VOCAB_MAX + 1][VOCAB_MAX];
};

struct plain {
    int32_t tokens[LEN_MAX];
    size_t len;
    double total, score;
    size_t age; /* order of creation within its list: breaks ties */
};

static int by_total(const void *a, const void *b)
{
    const struct plain *x = a, *y = b;
    return x->total != y->total ? (x->total > y->total ? -1 : 1) : x->age < y->age ? -1 : 1;
}

static int by_score(const void *a, const void *b)
{
    const struct plain *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score ? -1 : 1) : x->age < y->age ? -1 : 1;
}

static size_t extend_all(const struct table *t, const struct plain *alive, size_t n_alive,
                         struct plain *out)
{
    size_t n = 0;
    for (size_t i = 0; i < n_alive; i++) {
        const struct plain *h = &alive[i];
        const double *row = t->row[h->len ? h->tokens[h->len - 1] + 1 : 0];
        for (int32_t v = 0; v < t->n_vocab; v++) {
            if (row[v] > -INFINITY) {
                out[n] = *h;
                out[n].tokens[out[n].len++] = v;
                out[n].total += row[v];
                out[n].age = n;
                n++;
            }
        }
    }
    qsort(out, n, sizeof *out, by_total);
    return n;
}

/* Returns the number of results in `list`, best first. */
static size_t search_plainly(const struct table *t, const struct beam_config *c, struct plain *list)
{
    static struct plain alive[WIDTH_MAX], next[WIDTH_MAX * VOCAB_MAX];
    size_t n_alive = 1, n_list = 0;
    memset(alive, 0, sizeof alive);
    for (int64_t step = 0; step < c->len_max && n_alive > 0; step++) {
        size_t n = extend_all(t, alive, n_alive, next);
        n_alive = 0;
        for (size_t i = 0; i < n && i < c->width; i++) {
            if (next[i].tokens[next[i].len - 1] == 0) {
                list[n_list++] = next[i];
            } else {
                alive[n_alive++] = next[i];
            }
        }
    }
    for (size_t i = 0; c->len_max > 0 && i < n_alive; i++) {
        list[n_list++] = alive[i];
    }
    for (size_t i = 0; i < n_list; i++) {
        list[i].score = list[i].total / pow((double)list[i].len, c->length_penalty);
        list[i].age = i;
    }
    qsort(list, n_list, sizeof *list, by_score);
    return n_list < c->n_best ? n_list : c->n_best;
}

static bool ends_at_zero(const struct beam *b, int32_t node, uint32_t parent, bool *ends, void *ud,
                         struct engine_error *err)
{
    (void)parent;
    (void)ud;
    (void)err;
    *ends = beam_token(b, node) == 0;
    return true;
}

/* Offers rows last first, for their order must not matter. */
static size_t search(const struct table *t, struct beam *b)
{
    size_t n_steps = 0;
    for (; beam_n_alive(b) > 0; n_steps++) {
        for (uint32_t i = beam_n_alive(b); i-- > 0;) {
            int32_t node = beam_node(b, i);
            beam_offer(b, i, t->row[node < 0 ? 0 : beam_token(b, node) + 1], t->n_vocab);
        }
        assert_true(beam_step(b, ends_at_zero, NULL, NULL));
    }
    return n_steps;
}

/* Multiples of 1/2, so that ties are frequent, or any numbers. */
static void fill(struct rng *r, struct table *t, bool has_ties)
{
    t->n_vocab = 1 + (int32_t)(rng_next(r) % VOCAB_MAX);
    for (size_t i = 0; i <= VOCAB_MAX; i++) {
        for (size_t v = 0; v < VOCAB_MAX; v++) {
            double x = -4 * rng_double(r);
            t->row[i][v] = has_ties ? ceil(x * 2) / 2 : x;
            if (rng_next(r) % 8 == 0) {
                t->row[i][v] = -INFINITY;
            }
        }
    }
}

static size_t compare_once(struct rng *r)
{
    /* The first two are exact, so ties of totals are ties of scores too. */
    static const double exponents[] = {0, 1, 0.5, 0.6, 1.5, 3, -1, -0.5};
    static struct plain list[PLAIN_MAX];
    struct table t;
    struct beam *b;
    bool has_ties = rng_next(r) % 2;
    fill(r, &t, has_ties);
    struct beam_config c = {.width = 1 + (uint32_t)(rng_next(r) % WIDTH_MAX),
                            .n_best = 1 + (uint32_t)(rng_next(r) % WIDTH_MAX),
                            .len_max = (int64_t)(rng_next(r) % (LEN_MAX + 1)),
                            .length_penalty = exponents[rng_next(r) % (has_ties ? 2 : 8)]};
    size_t n = search_plainly(&t, &c, list);
    assert_true(beam_new(&b, &c, NULL));
    size_t n_steps = search(&t, b);
    const struct beam_result *found;
    assert_int_equal(beam_results(b, &found), n);
    for (size_t i = 0; i < n; i++) {
        int32_t tokens[LEN_MAX];
        assert_int_equal(beam_depth(b, found[i].node), list[i].len);
        beam_tokens(b, found[i].node, tokens, NULL);
        assert_memory_equal(tokens, list[i].tokens, list[i].len * sizeof *tokens);
        assert_true(found[i].total == list[i].total);
        assert_true(fabs(found[i].score - list[i].score) <= 1e-13 * fabs(list[i].score));
    }
    beam_free(b);
    return n_steps < (size_t)c.len_max;
}

static void test_is_the_plain_rule(void **state)
{
    (void)state;
    struct rng r;
    size_t n_early = 0;
    rng_init(&r, 7, 0);
    for (int i = 0; i < 20000; i++) {
        n_early += compare_once(&r);
    }
    assert_true(n_early > 2000); /* the early end was among what was compared */
}

/* A 0.6, B 0.4; after A three ways, after B one: greedy says A, the best sequence begins with B. */
static void test_finds_what_greedy_misses(void **state)
{
    (void)state;
    enum { END, A, B, C, D, F };
    struct table t = {.n_vocab = 6};
    for (size_t i = 0; i < 7; i++) {
        for (size_t v = 0; v < 6; v++) {
            t.row[i][v] = -INFINITY;
        }
    }
    t.row[0][A] = log(0.6), t.row[0][B] = log(0.4);
    t.row[A + 1][C] = log(0.3), t.row[A + 1][D] = log(0.3), t.row[A + 1][F] = log(0.4);
    t.row[B + 1][F] = log(0.95), t.row[B + 1][C] = log(0.05);
    t.row[C + 1][END] = t.row[D + 1][END] = t.row[F + 1][END] = 0;
    for (uint32_t width = 1; width <= 4; width++) {
        struct beam *b;
        struct beam_config c = {width, 1, 20, 1.0};
        const struct beam_result *best;
        int32_t tokens[20];
        assert_true(beam_new(&b, &c, NULL));
        (void)search(&t, b);
        assert_int_equal(beam_results(b, &best), 1);
        beam_tokens(b, best->node, tokens, NULL);
        assert_int_equal(tokens[0], width == 1 ? A : B);
        assert_int_equal(beam_depth(b, best->node), 3);
        assert_true(fabs(exp(best->total) - (width == 1 ? 0.24 : 0.38)) < 1e-12);
        beam_free(b);
    }
}

static bool refuses(const struct beam *b, int32_t node, uint32_t parent, bool *ends, void *ud,
                    struct engine_error *err)
{
    (void)b;
    (void)node;
    (void)parent;
    (void)ends;
    (void)ud;
    return engine_fail(err, ENGINE_INTERNAL, "", "no");
}

static void test_a_callers_error_is_passed_on(void **state)
{
    (void)state;
    struct engine_error err = {.code = ENGINE_OK};
    struct beam_config c = {2, 1, 3, 1.0};
    struct beam *b;
    const double scores[] = {-1, -2};
    assert_true(beam_new(&b, &c, NULL));
    beam_offer(b, 0, scores, 2);
    assert_false(beam_step(b, refuses, NULL, &err));
    assert_int_equal(err.code, ENGINE_INTERNAL);
    beam_free(b);
    beam_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_the_plain_rule),
        cmocka_unit_test(test_finds_what_greedy_misses),
        cmocka_unit_test(test_a_callers_error_is_passed_on),
    };
    return cmocka_run_group_tests_name("beam", tests, NULL, NULL);
}
