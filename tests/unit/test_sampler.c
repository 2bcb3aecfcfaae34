/* test_sampler.c - the sampler against a plain version of the rules (full sort, one loop a rule),
 * and its edges. More in tests/vectors. */
#include "local-engine/fmath.h"
#include "local-engine/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VOCAB_MAX 3000

static struct sampler *make(const struct sampler_config *c, int32_t n_vocab)
{
    static const int32_t eos[] = {0};
    struct sampler *s;
    struct engine_error err = {0};
    assert_true(sampler_new(&s, c, n_vocab, eos, 1, NULL, 0, 42, 0, &err));
    return s;
}

static int32_t next(struct sampler *s, const float *logits)
{
    int32_t id = -1;
    struct engine_error err = {0};
    assert_true(sampler_next(s, logits, NULL, &id, &err));
    return id;
}

/* ---- a plain version of stages 7 to 11: p [n], 0 for those that are out ---- */

static double plain_key[VOCAB_MAX];
static bool plain_falling;

static int by_plain_key(const void *a, const void *b)
{
    int i = *(const int *)a, j = *(const int *)b;
    if (plain_key[i] != plain_key[j]) {
        return (plain_key[i] < plain_key[j]) != plain_falling ? -1 : 1;
    }
    return (i > j) - (i < j);
}

static void plain_renormalise(double *p, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        sum += p[i];
    }
    for (int i = 0; i < n; i++) {
        p[i] /= sum;
    }
}

/* Keeps ranks while the mass before them is < limit; with_ties: also all of the last one's key. */
static void plain_mass(double *p, int n, double limit, bool with_ties)
{
    static int order[VOCAB_MAX];
    int m = 0;
    for (int i = 0; i < n; i++) {
        if (p[i] > 0) {
            order[m++] = i;
        }
    }
    qsort(order, (size_t)m, sizeof *order, by_plain_key);
    double before = 0.0, last = plain_key[order[0]];
    for (int r = 0; r < m; r++) {
        double own = p[order[r]];
        bool stays = r == 0 || before < limit;
        if (stays) {
            last = plain_key[order[r]];
        } else if (!with_ties || plain_key[order[r]] != last) {
            p[order[r]] = 0.0;
        }
        before += own;
    }
    plain_renormalise(p, n);
}

static void plain_top_k(double *s, int n, int64_t k)
{
    static double sorted[VOCAB_MAX];
    if (k <= 0 || k >= n) {
        return;
    }
    memcpy(sorted, s, (size_t)n * sizeof *s);
    for (int64_t j = 0; j < k; j++) { /* selection sort of the first k */
        for (int i = (int)j + 1; i < n; i++) {
            if (sorted[i] > sorted[j]) {
                double t = sorted[i];
                sorted[i] = sorted[j];
                sorted[j] = t;
            }
        }
    }
    for (int i = 0; i < n; i++) {
        s[i] = s[i] >= sorted[k - 1] ? s[i] : -INFINITY;
    }
}

static void plain_filter(const struct sampler_config *c, const float *logits, int n, double *p)
{
    double max = -INFINITY;
    for (int i = 0; i < n; i++) {
        max = fmax(max, (double)logits[i]);
    }
    for (int i = 0; i < n; i++) {
        p[i] = ((double)logits[i] - max) / c->temperature;
    }
    plain_top_k(p, n, c->top_k);
    fmath_exp_all(p, (size_t)n);
    plain_renormalise(p, n);
    if (c->top_p < 1) {
        memcpy(plain_key, p, (size_t)n * sizeof *p);
        plain_falling = true;
        plain_mass(p, n, c->top_p, false);
    }
    if (c->min_p > 0) {
        double best = 0.0;
        for (int i = 0; i < n; i++) {
            best = fmax(best, p[i]);
        }
        for (int i = 0; i < n; i++) {
            p[i] = p[i] >= c->min_p * best ? p[i] : 0.0;
        }
        plain_renormalise(p, n);
    }
    if (c->typical_p < 1) {
        double entropy = 0.0;
        for (int i = 0; i < n; i++) {
            entropy -= p[i] > 0 ? p[i] * fmath_log(p[i]) : 0.0;
        }
        for (int i = 0; i < n; i++) {
            plain_key[i] = p[i] > 0 ? fabs(-fmath_log(p[i]) - entropy) : INFINITY;
        }
        plain_falling = false;
        plain_mass(p, n, c->typical_p, true);
    }
}

static int32_t plain_draw(const double *p, int n, double r)
{
    double total = 0.0, sum = 0.0;
    int last = 0;
    for (int i = 0; i < n; i++) {
        total += p[i];
        last = p[i] > 0 ? i : last;
    }
    for (int i = 0; i < n; i++) {
        sum += p[i];
        if (sum > r * total) {
            return i;
        }
    }
    return last;
}

static void fill_row(struct rng *r, float *logits, int n, int kind)
{
    for (int i = 0; i < n; i++) {
        double u = rng_double(r);
        if (kind == 0) {
            logits[i] = (float)(20.0 * u - 10.0);
        } else if (kind == 1) {
            logits[i] = (float)floor(6.0 * u); /* ties */
        } else if (kind == 2) {
            logits[i] = (float)(0.01 * u); /* flat */
        } else {
            logits[i] = u < 0.3 ? -INFINITY : (float)(u - 0.5) * 0.0f + (u < 0.4 ? -0.0f : 0.0f);
        }
    }
    logits[rng_next(r) % (uint64_t)n] = 1.0f; /* never all -inf */
}

static void agrees(const struct sampler_config *c, const float *logits, int n, int64_t seed)
{
    static double p[VOCAB_MAX];
    struct sampler *s;
    int32_t id = -1;
    assert_true(sampler_new(&s, c, n, NULL, 0, NULL, 0, seed, 0, NULL));
    assert_true(sampler_next(s, logits, NULL, &id, NULL));
    plain_filter(c, logits, n, p);
    const int32_t *ids;
    const double *probs;
    size_t n_left = sampler_distribution(s, &ids, &probs), k = 0;
    for (int i = 0; i < n; i++) {
        if (p[i] > 0) {
            assert_true(k < n_left);
            assert_int_equal(ids[k], i);
            assert_true(probs[k] == p[i]); /* to the last bit */
            k++;
        }
    }
    assert_int_equal(k, n_left);
    struct rng r;
    rng_init(&r, seed, 0);
    assert_int_equal(id, plain_draw(p, n, rng_double(&r)));
    sampler_free(s);
}

static void agrees_with_plain_rules(void **state)
{
    (void)state;
    static float logits[VOCAB_MAX];
    static const int sizes[] = {1, 2, 63, 64, 65, 129, 1000, 2999};
    static const double temperatures[] = {1.0, 0.3, 2.5, 1e-8};
    static const int64_t ks[] = {0, 1, 5, 40, 700, 1000000};
    static const double min_ps[] = {0.0, 0.0, 0.07, 1.0};
    static const double top_ps[] = {1.0, 0.95, 0.5, 0.0};
    struct rng r;
    rng_init(&r, 3, 0);
    const char *rows = getenv("SAMPLER_ROWS"); /* make check-reference takes a million */
    for (int64_t round = 0; round < (rows ? atoll(rows) : 600); round++) {
        int n = sizes[rng_next(&r) % 8];
        fill_row(&r, logits, n, (int)(round % 4));
        struct sampler_config c;
        sampler_config_init(&c);
        c.temperature = temperatures[rng_next(&r) % 4];
        c.top_k = ks[rng_next(&r) % 6];
        c.top_p = top_ps[rng_next(&r) % 4];
        c.min_p = min_ps[rng_next(&r) % 4];
        c.typical_p = rng_next(&r) % 2 ? 1.0 : 0.6;
        agrees(&c, logits, n, round);
    }
}

/* ---- edges ---- */

static void greedy_takes_the_lowest_id_and_no_random_number(void **state)
{
    (void)state;
    static const float tied[] = {1, 3, 3, -INFINITY, 3};
    static const float flat[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    struct sampler_config c;
    sampler_config_init(&c);
    c.temperature = 0;
    struct sampler *s = make(&c, 5);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(next(s, tied), 1);
    }
    sampler_free(s);
    s = make(&c, 10);
    assert_int_equal(next(s, flat), 0);
    c.temperature =
        1; /* the configuration is borrowed: the next token uses the stream's first number */
    struct rng r;
    rng_init(&r, 42, 0);
    assert_int_equal(next(s, flat), (int)(rng_double(&r) * 10));
    sampler_free(s);
}

static void one_random_number_even_for_one_candidate(void **state)
{
    (void)state;
    static const float flat[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const float one[] = {0, 9, 0, 0, 0, 0, 0, 0, 0, 0};
    struct sampler_config c;
    sampler_config_init(&c);
    c.top_k = 1;
    struct sampler *s = make(&c, 10);
    assert_int_equal(next(s, one), 1);
    assert_int_equal(next(s, one), 1);
    struct rng r;
    rng_init(&r, 42, 0);
    rng_advance(&r, 2);
    assert_int_equal(next(s, flat), (int)(rng_double(&r) * 10));
    sampler_free(s);
}

static void bad_logits_change_nothing(void **state)
{
    (void)state;
    static const float flat[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    struct sampler_config c;
    sampler_config_init(&c);
    struct sampler *s = make(&c, 10);
    static const float bad[] = {NAN, -NAN, INFINITY};
    for (size_t i = 0; i < 3; i++) {
        float row[10] = {0};
        row[9] = bad[i];
        struct engine_error err = {0};
        int32_t id = -7;
        assert_false(sampler_next(s, row, NULL, &id, &err));
        assert_int_equal(err.code, ENGINE_NONFINITE);
        assert_string_equal(engine_code_name(err.code), "nonfinite_logits");
        assert_int_equal(id, -7);
    }
    static const uint8_t nothing[10] = {0};
    struct engine_error err = {0};
    int32_t id = -7;
    assert_false(sampler_next(s, flat, nothing, &id, &err));
    assert_int_equal(err.code, ENGINE_NO_CANDIDATE);
    assert_int_equal(sampler_n_generated(s), 0);
    struct rng r;
    rng_init(&r, 42, 0);
    assert_int_equal(next(s, flat), (int)(rng_double(&r) * 10));
    sampler_free(s);
}

static void bad_logits_are_found_in_whole_blocks(void **state)
{
    (void)state;
    static float row[200];
    struct sampler_config c;
    sampler_config_init(&c);
    struct sampler *s = make(&c, 200);
    static const size_t places[] = {0, 63, 64, 127, 191, 192, 199};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int32_t id;
        row[places[i]] = NAN;
        assert_false(sampler_next(s, row, NULL, &id, NULL));
        row[places[i]] = -INFINITY;
        assert_true(sampler_next(s, row, NULL, &id, NULL));
        row[places[i]] = 0;
    }
    sampler_free(s);
}

/* From a model it is damage; from a caller's own numbers it may be bans. */
static void all_minus_inf_is_no_sound_model(void **state)
{
    (void)state;
    static float row[130];
    static double wide[130];
    for (int i = 0; i < 130; i++) {
        row[i] = -INFINITY;
        wide[i] = -INFINITY;
    }
    struct sampler_config c;
    sampler_config_init(&c);
    for (int greedy = 0; greedy < 2; greedy++) {
        c.temperature = greedy ? 0 : 1;
        struct sampler *s = make(&c, 130);
        struct engine_error err = {0};
        int32_t id;
        assert_false(sampler_next(s, row, NULL, &id, &err));
        assert_int_equal(err.code, ENGINE_NONFINITE);
        err = (struct engine_error){0};
        assert_false(sampler_next_wide(s, wide, NULL, &id, &err));
        assert_int_equal(err.code, ENGINE_NO_CANDIDATE);
        row[129] = -3e38f;
        assert_int_equal(next(s, row), 129);
        row[129] = -INFINITY;
        sampler_free(s);
    }
}

static void min_tokens_bans_eos_and_stop_ids(void **state)
{
    (void)state;
    static const float row[] = {9, 8, 7, 6};
    static int32_t stop_ids[] = {1};
    struct sampler_config c;
    sampler_config_init(&c);
    c.temperature = 0;
    c.min_tokens = 2;
    c.stop_ids = stop_ids;
    c.n_stop_ids = 1;
    struct sampler *s = make(&c, 4);
    assert_int_equal(next(s, row), 2);
    assert_int_equal(next(s, row), 2);
    assert_int_equal(next(s, row), 0);
    c.ignore_eos = true;
    assert_int_equal(next(s, row), 1);
    assert_int_equal(sampler_n_generated(s), 4);
    sampler_free(s);
}

static void penalties_count_what_they_should(void **state)
{
    (void)state;
    static const float row[] = {0, 4, 3.5f, 3};
    static const int32_t prompt[] = {1, 1};
    struct sampler_config c;
    sampler_config_init(&c);
    c.temperature = 0;
    c.repetition_penalty = 2;
    for (int counts_prompt = 0; counts_prompt < 2; counts_prompt++) {
        c.penalty_counts_prompt = counts_prompt;
        struct sampler *s;
        assert_true(sampler_new(&s, &c, 4, NULL, 0, prompt, 2, 1, 0, NULL));
        assert_int_equal(next(s, row), counts_prompt ? 2 : 1);
        assert_int_equal(next(s, row), counts_prompt ? 3 : 2);
        sampler_free(s);
    }
    /* Frequency counts each occurrence, and never the prompt: 4, 4 - 0.3, 4 - 0.6 < 3.5. */
    c.repetition_penalty = 1;
    c.frequency_penalty = 0.3;
    struct sampler *s;
    assert_true(sampler_new(&s, &c, 4, NULL, 0, prompt, 2, 1, 0, NULL));
    assert_int_equal(next(s, row), 1);
    assert_int_equal(next(s, row), 1);
    assert_int_equal(next(s, row), 2);
    sampler_free(s);
}

static void bias_is_clamped_and_is_no_ban(void **state)
{
    (void)state;
    static const float row[] = {0, 150, 0};
    static struct sampler_bias bias[] = {{0, 1e9}, {1, -1e9}};
    struct sampler_config c;
    sampler_config_init(&c);
    c.temperature = 0;
    c.bias = bias;
    c.n_bias = 2;
    struct sampler *s = make(&c, 3);
    assert_int_equal(next(s, row), 0); /* 100 against 50 */
    bias[0].bias = 49;
    assert_int_equal(next(s, row), 1); /* 49 against 50 */
    sampler_free(s);
}

static void ngrams_span_prompt_and_answer(void **state)
{
    (void)state;
    static const float row[] = {0, 5, 4, 3, 2};
    static const int32_t prompt[] = {1, 2, 1};
    struct sampler_config c;
    sampler_config_init(&c);
    c.temperature = 0;
    c.no_repeat_ngram_size = 2;
    struct sampler *s;
    assert_true(sampler_new(&s, &c, 5, NULL, 0, prompt, 3, 1, 0, NULL));
    assert_int_equal(next(s, row), 1); /* after 1: 2 was seen */
    assert_int_equal(next(s, row), 3); /* after 1: 2 and 1 were seen */
    assert_int_equal(next(s, row), 1);
    assert_int_equal(next(s, row), 4);
    sampler_free(s);
}

static void history_grows(void **state)
{
    (void)state;
    static const float row[] = {1, 0};
    struct sampler_config c;
    sampler_config_init(&c);
    c.temperature = 0;
    c.no_repeat_ngram_size = 5000;
    struct sampler *s = make(&c, 2);
    for (int i = 0; i < 4999; i++) {
        assert_int_equal(next(s, row), 0);
    }
    assert_int_equal(next(s, row), 0); /* 4,999 zeros were never followed by one */
    assert_int_equal(next(s, row), 1);
    assert_true(sampler_reserve(s, 100000, NULL));
    sampler_free(s);
}

static void tiny_temperature_is_almost_greedy(void **state)
{
    (void)state;
    static const float row[] = {-0.9f, -1.2f, -1.6f, -2.3f};
    static const double temperatures[] = {1e-3, 1e-7, 1e-30, 5e-324};
    for (size_t i = 0; i < 4; i++) {
        struct sampler_config c;
        sampler_config_init(&c);
        c.temperature = temperatures[i];
        struct sampler *s = make(&c, 4);
        for (int k = 0; k < 50; k++) {
            assert_int_equal(next(s, row), 0);
        }
        sampler_free(s);
    }
}

static void wrong_parameters_are_named(void **state)
{
    (void)state;
    static struct sampler_bias bias[] = {{4, 1}};
    static int32_t ids[] = {-1};
    struct sampler_config c[14];
    for (size_t i = 0; i < 14; i++) {
        sampler_config_init(&c[i]);
    }
    static const char *const names[] = {"temperature",
                                        "temperature",
                                        "temperature",
                                        "top_p",
                                        "top_p",
                                        "min_p",
                                        "min_p",
                                        "typical_p",
                                        "repetition_penalty",
                                        "frequency_penalty",
                                        "presence_penalty",
                                        "min_tokens",
                                        "logit_bias",
                                        "stop_token_ids"};
    c[0].temperature = -1e-9;
    c[1].temperature = NAN;
    c[2].temperature = INFINITY;
    c[3].top_p = -0.1;
    c[4].top_p = NAN;
    c[5].min_p = -0.1;
    c[6].min_p = 1.1;
    c[7].typical_p = NAN;
    c[8].repetition_penalty = 0;
    c[9].frequency_penalty = INFINITY;
    c[10].presence_penalty = NAN;
    c[11].min_tokens = -1;
    c[12].bias = bias;
    c[12].n_bias = 1;
    c[13].stop_ids = ids;
    c[13].n_stop_ids = 1;
    for (size_t i = 0; i < 14; i++) {
        struct engine_error err = {0};
        assert_false(sampler_config_check(&c[i], 4, &err));
        assert_int_equal(err.code, ENGINE_BAD_PARAM);
        assert_string_equal(err.param, names[i]);
    }
    struct sampler *s = NULL;
    static const int32_t prompt[] = {4};
    struct engine_error err = {0};
    sampler_config_init(&c[0]);
    assert_false(sampler_new(&s, &c[0], 4, NULL, 0, prompt, 1, 1, 0, &err));
    assert_string_equal(err.param, "prompt");
    assert_null(s);
}

static void logprobs_raw_and_processed(void **state)
{
    (void)state;
    static const float row[] = {1, 3, 3, -INFINITY, -20000};
    struct sampler_config c;
    sampler_config_init(&c);
    c.temperature = 0.5;
    c.top_k = 2;
    struct sampler *s = make(&c, 5);
    (void)next(s, row);
    struct sampler_top top[7];
    double logprob;
    sampler_logprobs(NULL, row, 5, 0, 7, &logprob, top);
    double log_sum = log(2 + exp(-2));
    assert_true(fabs(logprob - (-2 - log_sum)) < 1e-15);
    static const int32_t order[] = {1, 2, 0, 4, 3, -1, -1};
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(top[i].id, order[i]);
    }
    assert_true(fabs(top[0].logprob + log_sum) < 1e-15);
    assert_true(top[3].logprob == -9999 && top[4].logprob == -9999 && top[6].logprob == -9999);
    sampler_logprobs(s, row, 5, 0, 3, &logprob, top);
    assert_true(logprob == -9999);
    assert_true(top[0].id == 1 && top[1].id == 2 && top[2].id == 0);
    assert_true(top[1].logprob == log(0.5) && top[2].logprob == -9999);
    sampler_free(s);
}

struct watched {
    size_t n_calls;
    size_t n_after[32];
};

static void on_stage(const struct sampler_view *v, void *ud)
{
    struct watched *w = ud;
    assert_string_equal(v->stage, sampler_stage_names[w->n_calls]);
    w->n_after[w->n_calls++] = v->n;
    assert_true((v->z != NULL) || (v->ids != NULL));
}

static void stages_can_be_watched(void **state)
{
    (void)state;
    static const float row[] = {5, 4, 3, 2, 1, 0};
    struct sampler_config c;
    sampler_config_init(&c);
    c.top_k = 4;
    c.top_p = 0.7;
    struct sampler *s = make(&c, 6);
    struct watched w = {0};
    sampler_watch(s, on_stage, &w);
    (void)next(s, row);
    size_t n = 0;
    while (sampler_stage_names[n]) {
        n++;
    }
    assert_int_equal(w.n_calls, n);
    assert_int_equal(w.n_after[8], 4);
    assert_int_equal(w.n_after[10], 2);
    c.temperature = 0;
    w = (struct watched){0};
    (void)next(s, row);
    assert_int_equal(w.n_calls, 8);
    assert_int_equal(w.n_after[7], 1);
    sampler_free(s);
}

static void choices_have_streams_of_their_own(void **state)
{
    (void)state;
    static const float flat[64] = {0};
    struct sampler_config c;
    sampler_config_init(&c);
    int32_t ids[3][20];
    for (uint32_t choice = 0; choice < 3; choice++) {
        struct sampler *s;
        assert_true(sampler_new(&s, &c, 64, NULL, 0, NULL, 0, 7, choice, NULL));
        for (size_t i = 0; i < 20; i++) {
            ids[choice][i] = next(s, flat);
        }
        sampler_free(s);
    }
    assert_memory_not_equal(ids[0], ids[1], sizeof ids[0]);
    assert_memory_not_equal(ids[1], ids[2], sizeof ids[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_plain_rules),
        cmocka_unit_test(greedy_takes_the_lowest_id_and_no_random_number),
        cmocka_unit_test(one_random_number_even_for_one_candidate),
        cmocka_unit_test(bad_logits_change_nothing),
        cmocka_unit_test(bad_logits_are_found_in_whole_blocks),
        cmocka_unit_test(all_minus_inf_is_no_sound_model),
        cmocka_unit_test(min_tokens_bans_eos_and_stop_ids),
        cmocka_unit_test(penalties_count_what_they_should),
        cmocka_unit_test(bias_is_clamped_and_is_no_ban),
        cmocka_unit_test(ngrams_span_prompt_and_answer),
        cmocka_unit_test(history_grows),
        cmocka_unit_test(tiny_temperature_is_almost_greedy),
        cmocka_unit_test(wrong_parameters_are_named),
        cmocka_unit_test(logprobs_raw_and_processed),
        cmocka_unit_test(stages_can_be_watched),
        cmocka_unit_test(choices_have_streams_of_their_own),
    };
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
