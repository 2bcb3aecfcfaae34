/* test_session_echo.c - a prompt is scored as if the model had said it, bit by bit, and in any
 * number of tokens at once; its text is what its tokens say. */
#include "local-engine/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MODEL "tests/vectors/stories260k"

enum { TOKENS_MAX = 600, SAID = 150, N_ONCE = 5 };
static const int32_t once[N_ONCE] = {1, 403, 407, 261, 378};

/* What one choice was told. */
struct told {
    char text[4096];
    size_t len, n;
    int32_t ids[TOKENS_MAX], tops[TOKENS_MAX];
    double logprobs[TOKENS_MAX];
    const char *finish;
    int64_t n_generated;
};

static struct engine *engine;
static struct told told[2];

static int open_engine(void **state)
{
    (void)state;
    return engine_open(&engine, MODEL, &(struct engine_options){.n_threads = 2}, NULL) ? 0 : -1;
}

static int close_engine(void **state)
{
    (void)state;
    engine_close(engine);
    return 0;
}

static void on_event(const struct session_event *ev, void *ud)
{
    struct told *t = (struct told *)ud + ev->choice;
    if (ev->kind == SESSION_FINISH) {
        t->finish = ev->finish;
        t->n_generated = ev->n_generated;
        return;
    }
    assert_int_equal(ev->kind, SESSION_TEXT);
    assert_true(t->len + ev->len < sizeof t->text);
    memcpy(t->text + t->len, ev->text, ev->len);
    t->len += ev->len;
    for (size_t i = 0; i < ev->n_tokens; i++, t->n++) {
        const struct session_token *token = &ev->tokens[i];
        assert_true(t->n < TOKENS_MAX);
        assert_int_equal(token->is_unscored, t->n == 0 && token->id == once[0]);
        t->ids[t->n] = token->id;
        t->logprobs[t->n] = token->logprob;
        t->tops[t->n] = token->top && !token->is_unscored ? token->top[1].id : -1;
    }
}

/* r is changed by nothing but sampling, which is taken over. */
static void run(struct session_request r, struct told out[2])
{
    struct sampler_config sampling;
    struct session *s;
    sampler_config_init(&sampling);
    sampling.ignore_eos = true;
    r.sampling = &sampling;
    r.seed = 42;
    r.best_of = r.n;
    memset(out, 0, 2 * sizeof *out);
    assert_true(session_start(engine, &r, on_event, out, &s, NULL));
    while (engine_step(engine)) {
    }
    assert_true(session_is_done(s));
    session_free(s);
}

static void check_scored(const struct told *seen, const struct told *said, const int32_t *prompt,
                         int n_new)
{
    assert_string_equal(seen->finish, "length");
    assert_int_equal(seen->n_generated, n_new);
    assert_int_equal(seen->n, N_ONCE + SAID + n_new);
    assert_memory_equal(seen->ids, prompt, (N_ONCE + SAID) * sizeof *prompt);
    assert_memory_equal(seen->logprobs + N_ONCE, said->logprobs, SAID * sizeof(double));
    assert_memory_equal(seen->tops + N_ONCE, said->tops, SAID * sizeof(int32_t));
    assert_memory_equal(seen->text, "Once upon a time", 16);
    assert_memory_equal(seen->text + 16, said->text, said->len);
}

static void test_what_was_said_is_scored_the_same(void **state)
{
    (void)state;
    static struct told said[2], plain[2];
    int32_t prompt[N_ONCE + SAID];
    run((struct session_request){.prompt = once,
                                 .n_prompt = N_ONCE,
                                 .n = 1,
                                 .max_tokens = SAID,
                                 .logprobs = true,
                                 .n_top_logprobs = 2},
        said);
    assert_int_equal(said[0].n, SAID);
    memcpy(prompt, once, sizeof once);
    memcpy(prompt + N_ONCE, said[0].ids, SAID * sizeof prompt[0]);
    for (int n_new = 0; n_new < 3; n_new += 2) {
        struct session_request r = {.prompt = prompt,
                                    .n_prompt = N_ONCE + SAID,
                                    .n = 2,
                                    .max_tokens = n_new,
                                    .generates_nothing = n_new == 0,
                                    .echo = true,
                                    .logprobs = true,
                                    .n_top_logprobs = 2};
        run(r, told);
        check_scored(&told[0], said, prompt, n_new);
        check_scored(&told[1], said, prompt, n_new);
        r.logprobs = false;
        r.n_top_logprobs = 0;
        run(r, plain);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(plain[i].n, 0);
            assert_int_equal(plain[i].len, told[i].len);
            assert_memory_equal(plain[i].text, told[i].text, told[i].len);
        }
    }
}

/* A prompt that fills the context leaves room for no token, but it can be scored. */
static void test_a_whole_context(void **state)
{
    (void)state;
    enum { CONTEXT = 512 };
    static int32_t prompt[CONTEXT + 1];
    struct sampler_config sampling;
    sampler_config_init(&sampling);
    struct session_request r = {.sampling = &sampling, .prompt = prompt, .n = 1, .best_of = 1};
    struct engine_error err = {.code = ENGINE_OK};
    assert_int_equal(engine_shape(engine)->context, CONTEXT);
    for (int32_t i = 0; i <= CONTEXT; i++) {
        prompt[i] = i == 0 ? once[0] : 300 + i % 200;
    }
    r.n_prompt = CONTEXT;
    assert_false(session_check(engine, &r, &err));
    assert_int_equal(err.code, ENGINE_CONTEXT_FULL);
    r.echo = r.logprobs = r.generates_nothing = true;
    run(r, told);
    assert_int_equal(told[0].n, CONTEXT);
    r.n_prompt++;
    err = (struct engine_error){.code = ENGINE_OK};
    assert_false(session_check(engine, &r, &err));
    assert_int_equal(err.code, ENGINE_CONTEXT_FULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_said_is_scored_the_same),
        cmocka_unit_test(test_a_whole_context),
    };
    return cmocka_run_group_tests_name("session_echo", tests, open_engine, close_engine);
}
