/* test_session_beam.c - beam search on a real small model: that keys and values passed from one
 * hypothesis to another are what evaluating it anew gives, and what a request sees of it. */
#include "local-engine/beam.h"
#include "local-engine/engine.h"
#include "local-engine/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODEL "tests/vectors/stories260k"
enum { CHOICES = 8, TOKENS_MAX = 64 };

struct choice {
    char text[4096];
    size_t len, n_tokens;
    const char *finish;
    int32_t matched;
    int64_t n_generated;
    int32_t ids[TOKENS_MAX];
    double logprobs[TOKENS_MAX], tops[TOKENS_MAX];
};

struct result {
    struct choice c[CHOICES];
    struct engine_error err;
    struct session *s;
};

static struct engine *engine;

static int open_engine(void **state)
{
    (void)state;
    return engine_open(&engine, MODEL, &(struct engine_options){.n_threads = 1}, NULL) ? 0 : -1;
}

static int close_engine(void **state)
{
    (void)state;
    engine_close(engine);
    return 0;
}

static void on_event(const struct session_event *ev, void *ud)
{
    struct result *r = ud;
    if (ev->kind == SESSION_ERROR) {
        r->err = *ev->error;
        return;
    }
    assert_true(ev->choice < CHOICES);
    struct choice *c = &r->c[ev->choice];
    assert_null(c->finish);
    if (ev->kind == SESSION_FINISH) {
        c->finish = ev->finish;
        c->matched = ev->matched_stop;
        c->n_generated = ev->n_generated;
        return;
    }
    assert_true(c->len + ev->len < sizeof c->text);
    memcpy(c->text + c->len, ev->text, ev->len);
    c->len += ev->len;
    for (size_t i = 0; i < ev->n_tokens; i++) {
        assert_true(c->n_tokens < TOKENS_MAX);
        c->ids[c->n_tokens] = ev->tokens[i].id;
        c->tops[c->n_tokens] = ev->tokens[i].top ? ev->tokens[i].top[0].logprob : 0.0;
        c->logprobs[c->n_tokens++] = ev->tokens[i].logprob;
    }
}

struct ask {
    struct sampler_config sampling;
    struct session_request r;
    int32_t ids[64];
};

static void ask_init(struct ask *a, const char *text, uint32_t n_beams, uint32_t n)
{
    int32_t *ids;
    size_t n_ids;
    const struct tokenizer *t = engine_tokenizer(engine);
    memset(a, 0, sizeof *a);
    sampler_config_init(&a->sampling);
    assert_true(tokenizer_encode(t, text, strlen(text), true, &ids, &n_ids, NULL));
    assert_true(n_ids < 60);
    a->ids[0] = tokenizer_bos(t);
    memcpy(a->ids + 1, ids, n_ids * sizeof *ids);
    free(ids);
    a->r = (struct session_request){.sampling = &a->sampling,
                                    .prompt = a->ids,
                                    .n_prompt = n_ids + 1,
                                    .max_tokens = 24,
                                    .n = n,
                                    .best_of = n,
                                    .n_beams = n_beams,
                                    .length_penalty = 1.0,
                                    .seed = 1};
}

static void start(struct ask *a, struct result *out)
{
    struct engine_error err = {.code = ENGINE_OK};
    memset(out, 0, sizeof *out);
    if (!session_start(engine, &a->r, on_event, out, &out->s, &err)) {
        fail_msg("%s", err.text);
    }
}

static void finish(struct result *r)
{
    while (engine_step(engine)) {
    }
    assert_true(session_is_done(r->s));
    session_free(r->s);
}

static void run(struct ask *a, struct result *out)
{
    start(a, out);
    finish(out);
}

static void assert_same(const struct result *a, const struct result *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct choice *x = &a->c[i], *y = &b->c[i];
        assert_string_equal(x->text, y->text);
        assert_string_equal(x->finish, y->finish);
        assert_int_equal(x->n_generated, y->n_generated);
        assert_int_equal(x->n_tokens, y->n_tokens);
        assert_memory_equal(x->ids, y->ids, sizeof x->ids);
        assert_memory_equal(x->logprobs, y->logprobs, sizeof x->logprobs);
    }
}

/* ---- the same search, every hypothesis evaluated from its first token */

struct anew {
    struct ask *ask;
    struct sampler *sampler;
    struct model_worker *worker;
    float *logits;
};

static const double *scores_of(struct anew *w, const struct beam *b, int32_t node)
{
    int32_t tokens[TOKENS_MAX];
    size_t n = beam_depth(b, node), n_prompt = w->ask->r.n_prompt;
    struct model_row rows[2 * TOKENS_MAX];
    struct kvcache *cache;
    const double *scores;
    beam_tokens(b, node, tokens, NULL);
    assert_true(kvcache_new(&cache, engine_model(engine), (int32_t)(n_prompt + n), NULL));
    for (size_t i = 0; i < n_prompt + n; i++) {
        int32_t token = i < n_prompt ? w->ask->ids[i] : tokens[i - n_prompt];
        rows[i] = (struct model_row){cache, token, i + 1 == n_prompt + n ? w->logits : NULL};
    }
    assert_true(model_forward(w->worker, rows, n_prompt + n, NULL));
    kvcache_free(cache);
    assert_true(sampler_assume(w->sampler, tokens, n, NULL));
    assert_true(sampler_scores(w->sampler, w->logits, NULL, &scores, NULL));
    return scores;
}

static bool ends_at_eos(const struct beam *b, int32_t node, uint32_t parent, bool *ends, void *ud,
                        struct engine_error *err)
{
    size_t n;
    (void)parent;
    (void)ud;
    (void)err;
    *ends = beam_token(b, node) == tokenizer_eos(engine_tokenizer(engine), &n)[0];
    return true;
}

static struct beam *search_anew(struct ask *a)
{
    struct anew w = {.ask = a};
    struct beam_config c = {a->r.n_beams, a->r.n, a->r.max_tokens, a->r.length_penalty};
    const struct model *m = engine_model(engine);
    int32_t n_vocab = model_get_shape(m)->n_vocab;
    size_t n_eos;
    const int32_t *eos = tokenizer_eos(engine_tokenizer(engine), &n_eos);
    struct beam *b;
    w.logits = malloc((size_t)n_vocab * sizeof *w.logits);
    assert_non_null(w.logits);
    assert_true(beam_new(&b, &c, NULL));
    assert_true(model_worker_new(&w.worker, m, 64, 1, NULL));
    assert_true(sampler_new(&w.sampler, &a->sampling, n_vocab, eos, n_eos, a->ids, a->r.n_prompt, 1,
                            0, NULL));
    while (beam_n_alive(b) > 0) {
        for (uint32_t i = 0; i < beam_n_alive(b); i++) {
            beam_offer(b, i, scores_of(&w, b, beam_node(b, i)), n_vocab);
        }
        assert_true(beam_step(b, ends_at_eos, NULL, NULL));
    }
    sampler_free(w.sampler);
    model_worker_free(w.worker);
    free(w.logits);
    return b;
}

/* Makes the end likely: the model's own comes after hundreds of tokens. */
static void favour_end(struct ask *a)
{
    size_t n;
    a->sampling.bias = malloc(sizeof *a->sampling.bias);
    assert_non_null(a->sampling.bias);
    a->sampling.bias[0] =
        (struct sampler_bias){tokenizer_eos(engine_tokenizer(engine), &n)[0], 20.0};
    a->sampling.n_bias = 1;
}

/* With penalties and bans too, so that a hypothesis must be judged by its own tokens. */
static void test_caches_are_as_if_evaluated_anew(void **state)
{
    (void)state;
    static struct result r;
    size_t n_ended = 0;
    for (uint32_t n_beams = 1; n_beams <= 7; n_beams += 2) {
        struct ask a;
        ask_init(&a, "Once upon a time", n_beams, n_beams < 4 ? n_beams : 4);
        a.sampling.repetition_penalty = n_beams == 3 ? 1.3 : 1.0;
        a.sampling.no_repeat_ngram_size = n_beams == 5 ? 2 : 0;
        a.sampling.frequency_penalty = n_beams == 7 ? 0.5 : 0.0;
        a.r.length_penalty = n_beams == 7 ? 0.4 : 1.0;
        a.r.logprobs = true;
        if (n_beams >= 5) {
            favour_end(&a);
        }
        struct beam *b = search_anew(&a);
        run(&a, &r);
        const struct beam_result *want;
        size_t n = beam_results(b, &want);
        assert_int_equal(n, a.r.n);
        for (size_t i = 0; i < n; i++) {
            int32_t tokens[TOKENS_MAX];
            beam_tokens(b, want[i].node, tokens, NULL);
            assert_int_equal(r.c[i].n_generated, beam_depth(b, want[i].node));
            assert_memory_equal(r.c[i].ids, tokens, r.c[i].n_tokens * sizeof *tokens);
            assert_true(r.c[i].n_tokens > 0);
            n_ended += strcmp(r.c[i].finish, "stop") == 0;
        }
        beam_free(b);
    }
    assert_in_range(n_ended, 1, 7);
}

static void test_one_beam_is_greedy(void **state)
{
    (void)state;
    static struct result greedy, beam;
    struct ask a;
    ask_init(&a, "Once upon a time", 0, 1);
    a.sampling.temperature = 0;
    a.r.logprobs = true;
    run(&a, &greedy);
    ask_init(&a, "Once upon a time", 1, 1);
    a.r.logprobs = true;
    run(&a, &beam);
    assert_same(&greedy, &beam, 1);
}

static void test_results_differ_and_descend(void **state)
{
    (void)state;
    static struct result r;
    struct ask a;
    ask_init(&a, "The dog", 6, 6);
    a.r.logprobs = true;
    a.r.n_top_logprobs = 2;
    run(&a, &r);
    double before = 0;
    for (size_t i = 0; i < 6; i++) {
        double sum = 0;
        assert_string_equal(r.c[i].finish, "length");
        assert_int_equal(r.c[i].n_tokens, 24);
        for (size_t k = 0; k < 24; k++) {
            sum += r.c[i].logprobs[k];
            assert_true(r.c[i].tops[k] >= r.c[i].logprobs[k]);
        }
        assert_true(i == 0 || sum <= before + 1e-9);
        before = sum;
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(r.c[i].text, r.c[k].text);
        }
    }
}

static void test_company_changes_nothing(void **state)
{
    (void)state;
    static struct result alone, busy[8];
    static struct ask a[8];
    ask_init(&a[0], "The dog", 16, 4);
    a[0].r.logprobs = true;
    run(&a[0], &alone);
    for (size_t i = 0; i < 8; i++) {
        ask_init(&a[i], i % 2 ? "Lily" : "The dog", i % 2 ? 5 : 16, 4);
        a[i].r.logprobs = true;
        start(&a[i], &busy[i]);
    }
    for (size_t i = 0; i < 8; i++) {
        finish(&busy[i]);
    }
    for (size_t i = 0; i < 8; i += 2) {
        assert_same(&alone, &busy[i], 4);
    }
}

static void test_stops(void **state)
{
    (void)state;
    static struct result r;
    static const char *const stops[] = {"no such text", "girl"};
    struct ask a;
    ask_init(&a, "Once upon a time", 4, 1);
    a.r.stops = stops;
    a.r.n_stops = 2;
    run(&a, &r);
    assert_string_equal(r.c[0].finish, "stop");
    assert_int_equal(r.c[0].matched, 1);
    assert_null(strstr(r.c[0].text, "girl"));
    assert_true(r.c[0].n_generated < 24);
}

/* Whatever is asked for: an error, and the engine goes on. */
static void test_no_way_to_go_on(void **state)
{
    (void)state;
    static struct result r;
    struct ask a;
    ask_init(&a, "Once", 4, 2);
    a.sampling.no_repeat_ngram_size = 1; /* each token once: after the vocabulary there is none */
    a.r.max_tokens = 0;
    run(&a, &r);
    assert_true(r.c[0].finish || r.err.code == ENGINE_NO_CANDIDATE);
    ask_init(&a, "Once", 4, 4);
    a.r.n_beams = 3;
    struct engine_error err = {.code = ENGINE_OK};
    assert_false(session_check(engine, &a.r, &err));
    assert_string_equal(err.param, "n");
    a.r.n_beams = BEAM_WIDTH_MAX + 1;
    err = (struct engine_error){.code = ENGINE_OK};
    assert_false(session_check(engine, &a.r, &err));
    assert_string_equal(err.param, "num_beams");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_caches_are_as_if_evaluated_anew),
        cmocka_unit_test(test_one_beam_is_greedy),
        cmocka_unit_test(test_results_differ_and_descend),
        cmocka_unit_test(test_company_changes_nothing),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_no_way_to_go_on),
    };
    return cmocka_run_group_tests_name("session_beam", tests, open_engine, close_engine);
}
