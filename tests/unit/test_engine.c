/* test_engine.c - sessions on a real small model: what it says, that company changes no bit, and
 * every way to end. */
#include "local-engine/engine.h"

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
#define GREEDY_TEXT                                                                                \
    ", there was a little girl named Lily. She loved to play outside in the park. One day, she "   \
    "saw a big, red ball. She wanted to play with it, but it was too high."

enum { CHOICES = 8 };

struct choice_result {
    char text[8192];
    size_t len;
    const char *finish;
    int32_t matched;
    int64_t n_generated;
    double logprobs[600];
    int32_t ids[600], tops[600];
    size_t n_tokens;
};

struct result {
    struct choice_result c[CHOICES];
    struct engine_error err;
    size_t n_events;
    struct session *s;
};

static struct engine *engine;

static int open_engine(void **state)
{
    (void)state;
    struct engine_error err = {.code = ENGINE_OK};
    if (!engine_open(&engine, MODEL, &(struct engine_options){.n_threads = 2}, &err)) {
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
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
    r->n_events++;
    if (ev->kind == SESSION_ERROR) {
        r->err = *ev->error;
        return;
    }
    assert_true(ev->choice < CHOICES);
    struct choice_result *c = &r->c[ev->choice];
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
        assert_true(c->n_tokens < 600);
        c->ids[c->n_tokens] = ev->tokens[i].id;
        c->tops[c->n_tokens] = ev->tokens[i].top ? ev->tokens[i].top[0].id : -1;
        c->logprobs[c->n_tokens++] = ev->tokens[i].logprob;
    }
}

/* A request, with "Once upon a time" as its prompt unless another is given. */
struct ask {
    struct sampler_config sampling;
    struct session_request r;
    int32_t ids[1024];
};

static void ask_text(struct ask *a, const char *text)
{
    int32_t *ids;
    size_t n;
    struct engine_error err = {.code = ENGINE_OK};
    assert_true(
        tokenizer_encode(engine_tokenizer(engine), text, strlen(text), true, &ids, &n, &err));
    assert_true(n < 1000);
    a->ids[0] = tokenizer_bos(engine_tokenizer(engine));
    memcpy(a->ids + 1, ids, n * sizeof *ids);
    free(ids);
    a->r.prompt = a->ids;
    a->r.n_prompt = n + 1;
}

static void ask_init(struct ask *a)
{
    memset(a, 0, sizeof *a);
    sampler_config_init(&a->sampling);
    a->r = (struct session_request){.sampling = &a->sampling, .n = 1, .best_of = 1, .seed = 42};
    ask_text(a, "Once upon a time");
}

static void start(struct ask *a, struct result *out)
{
    struct engine_error err = {.code = ENGINE_OK};
    memset(out, 0, sizeof *out);
    if (!session_start(engine, &a->r, on_event, out, &out->s, &err)) {
        fail_msg("%s", err.text);
    }
}

static void run_all(void)
{
    while (engine_step(engine)) {
    }
}

static void run(struct ask *a, struct result *out)
{
    start(a, out);
    run_all();
    assert_true(session_is_done(out->s));
    session_free(out->s);
}

static void test_greedy_text(void **state)
{
    (void)state;
    struct ask a;
    static struct result r;
    ask_init(&a);
    assert_int_equal(a.r.n_prompt, 5);
    a.sampling.temperature = 0;
    a.r.max_tokens = 100;
    run(&a, &r);
    assert_memory_equal(r.c[0].text, GREEDY_TEXT, strlen(GREEDY_TEXT));
    assert_string_equal(r.c[0].finish, "length");
    assert_int_equal(r.c[0].n_generated, 100);
}

static void test_seeds(void **state)
{
    (void)state;
    static const int64_t seeds[] = {
        0, 1, -2, 4294967297, 2147483648, 9007199254740992, 9007199254740993, INT64_MAX};
    enum { N = sizeof seeds / sizeof *seeds };
    static struct result r[N], again;
    for (int i = 0; i < N; i++) {
        struct ask a;
        ask_init(&a);
        a.r.seed = seeds[i];
        a.r.max_tokens = 48;
        run(&a, &r[i]);
        ask_init(&a);
        a.r.seed = seeds[i];
        a.r.max_tokens = 48;
        run(&a, &again);
        assert_string_equal(r[i].c[0].text, again.c[0].text);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(r[i].c[0].text, r[j].c[0].text);
        }
    }
}

static void test_choices(void **state)
{
    (void)state;
    struct ask a;
    static struct result three, one;
    ask_init(&a);
    a.r.max_tokens = 40;
    a.r.n = a.r.best_of = 3;
    run(&a, &three);
    ask_init(&a);
    a.r.max_tokens = 40;
    run(&a, &one);
    assert_string_equal(three.c[0].text, one.c[0].text);
    assert_string_not_equal(three.c[0].text, three.c[1].text);
    assert_string_not_equal(three.c[1].text, three.c[2].text);
    for (int i = 0; i < 3; i++) {
        assert_non_null(three.c[i].finish);
    }
}

/* With one candidate left every stream says the same, so every choice must have the prompt. */
static void test_choices_have_the_prompt(void **state)
{
    (void)state;
    struct ask a;
    static struct result r;
    ask_init(&a);
    a.r.max_tokens = 20;
    a.r.n = a.r.best_of = 3;
    a.sampling.top_k = 1;
    run(&a, &r);
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(r.c[i].text, GREEDY_TEXT, r.c[i].len);
    }
}

static void test_greedy_choices_are_copies(void **state)
{
    (void)state;
    struct ask a;
    static struct result r;
    ask_init(&a);
    a.sampling.temperature = 0;
    a.r.max_tokens = 20;
    a.r.n = 2;
    a.r.best_of = 5;
    a.r.logprobs = true;
    run(&a, &r);
    assert_string_equal(r.c[0].text, r.c[1].text);
    assert_int_equal(r.c[0].n_tokens, 20);
    assert_int_equal(r.c[1].n_tokens, 20);
    assert_int_equal(r.c[1].n_generated, 20);
    assert_null(r.c[2].finish);
}

static void ask_busy(struct ask *a, int i)
{
    static const char *const prompts[] = {
        "Once upon a time",
        "The cat",
        "One day, a big dog and a small boy went to the park. They saw a ball.",
        "Tom",
        "She was sad because",
        "He",
        "In the forest there lived a bear who liked honey more than anything",
        "A"};
    ask_init(a);
    ask_text(a, prompts[i]);
    a->r.seed = 42 + (i % 3);
    a->r.max_tokens = 100 + 10 * i;
    a->r.logprobs = true;
    a->r.n_top_logprobs = 3;
    a->sampling.temperature = i == 5 ? 0 : 0.8;
    a->sampling.top_p = i % 2 ? 0.9 : 1;
    a->sampling.top_k = i == 3 ? 7 : 0;
    a->sampling.repetition_penalty = i == 4 ? 1.2 : 1;
    a->r.n = a->r.best_of = i == 6 ? 3 : 1;
}

static void assert_same(const struct result *a, const struct result *b)
{
    for (int i = 0; i < CHOICES; i++) {
        const struct choice_result *x = &a->c[i], *y = &b->c[i];
        assert_int_equal(x->len, y->len);
        assert_memory_equal(x->text, y->text, x->len);
        assert_int_equal(x->n_tokens, y->n_tokens);
        assert_memory_equal(x->ids, y->ids, sizeof x->ids);
        assert_memory_equal(x->tops, y->tops, sizeof x->tops);
        assert_memory_equal(x->logprobs, y->logprobs, sizeof x->logprobs);
    }
}

static void test_company_changes_no_bit(void **state)
{
    (void)state;
    static struct result alone[8], together[8];
    static struct ask a[8];
    for (int i = 0; i < 8; i++) {
        ask_busy(&a[i], i);
        run(&a[i], &alone[i]);
        assert_true(alone[i].c[0].n_tokens > 5);
    }
    for (int i = 0; i < 8; i++) {
        ask_busy(&a[i], i);
        start(&a[i], &together[i]);
        for (int j = 0; j < 3 * i; j++) { /* each joins when the others are somewhere else */
            assert_true(engine_step(engine));
        }
    }
    run_all();
    for (int i = 0; i < 8; i++) {
        session_free(together[i].s);
        assert_same(&alone[i], &together[i]);
    }
}

static void test_threads_change_no_bit(void **state)
{
    (void)state;
    static struct result two, one;
    static struct ask a;
    struct engine *other, *kept = engine;
    ask_busy(&a, 2);
    run(&a, &two);
    assert_true(engine_open(&other, MODEL, &(struct engine_options){.n_threads = 1}, NULL));
    engine = other;
    ask_busy(&a, 2);
    run(&a, &one);
    engine = kept;
    engine_close(other);
    assert_same(&two, &one);
}

/* The text of tokens equals the text that came, and the alternatives' first is the token at
 * temperature 0. */
static void test_logprobs(void **state)
{
    (void)state;
    struct ask a;
    static struct result r;
    ask_init(&a);
    a.sampling.temperature = 0;
    a.r.max_tokens = 30;
    a.r.logprobs = true;
    a.r.n_top_logprobs = 1;
    run(&a, &r);
    assert_int_equal(r.c[0].n_tokens, 30);
    size_t at = 0;
    for (int i = 0; i < 30; i++) {
        size_t len;
        const char *p = tokenizer_piece(engine_tokenizer(engine), r.c[0].ids[i], false, &len);
        assert_memory_equal(r.c[0].text + at, p, len);
        at += len;
        assert_int_equal(r.c[0].ids[i], r.c[0].tops[i]);
        assert_true(r.c[0].logprobs[i] <= 0 && r.c[0].logprobs[i] > -3);
    }
    assert_int_equal(at, r.c[0].len);
}

static void test_stop_strings(void **state)
{
    (void)state;
    struct ask a;
    static struct result r;
    static const char *const stops[] = {"never there", "loved to pl"};
    ask_init(&a);
    a.sampling.temperature = 0;
    a.r.stops = stops;
    a.r.n_stops = 2;
    a.r.logprobs = true;
    a.r.max_tokens = 200;
    run(&a, &r);
    assert_string_equal(r.c[0].text, ", there was a little girl named Lily. She ");
    assert_string_equal(r.c[0].finish, "stop");
    assert_int_equal(r.c[0].matched, 1);
    assert_true(r.c[0].n_generated >
                (int64_t)r.c[0].n_tokens); /* tokens of the stop string are not reported */
    size_t len = 0;
    for (size_t i = 0; i < r.c[0].n_tokens; i++) {
        size_t n;
        (void)tokenizer_piece(engine_tokenizer(engine), r.c[0].ids[i], false, &n);
        len += n;
    }
    assert_true(len >= r.c[0].len);
}

static void test_min_tokens_delays_stop_strings(void **state)
{
    (void)state;
    struct ask a;
    static struct result r;
    static const char *const stops[] = {" Lily"};
    ask_init(&a);
    a.sampling.temperature = 0;
    a.sampling.min_tokens = 40;
    a.r.stops = stops;
    a.r.n_stops = 1;
    a.r.max_tokens = 200;
    run(&a, &r);
    assert_string_equal(r.c[0].finish, "stop");
    assert_true(r.c[0].n_generated > 40);
    assert_non_null(strstr(r.c[0].text, "Lily"));
}

static void test_stop_token(void **state)
{
    (void)state;
    struct ask a;
    static struct result free_run, r;
    ask_init(&a);
    a.sampling.temperature = 0;
    a.r.max_tokens = 10;
    a.r.logprobs = true;
    run(&a, &free_run);
    ask_init(&a);
    a.sampling.temperature = 0;
    a.r.max_tokens = 10;
    a.r.logprobs = true;
    a.sampling.stop_ids = malloc(sizeof(int32_t));
    a.sampling.stop_ids[0] = free_run.c[0].ids[4];
    a.sampling.n_stop_ids = 1;
    run(&a, &r);
    assert_null(a.sampling.stop_ids); /* moved */
    assert_string_equal(r.c[0].finish, "stop");
    assert_int_equal(r.c[0].matched, -1);
    assert_int_equal(r.c[0].n_generated, 5);
    assert_int_equal(r.c[0].n_tokens, 4);
    assert_true(r.c[0].len < free_run.c[0].len);
    assert_memory_equal(r.c[0].text, free_run.c[0].text, r.c[0].len);
}

static void test_context_is_the_last_end(void **state)
{
    (void)state;
    struct ask a;
    static struct result r;
    ask_init(&a);
    a.sampling.temperature = 0;
    a.sampling.ignore_eos = true;
    run(&a, &r);
    assert_string_equal(r.c[0].finish, "length");
    assert_int_equal(r.c[0].n_generated, engine_shape(engine)->context - 5);
    for (int i = 0; i < 511; i++) {
        a.ids[i] = 1 + i % 300;
    }
    a.r.n_prompt = 511;
    run(&a, &r);
    assert_int_equal(r.c[0].n_generated, 1);
    assert_string_equal(r.c[0].finish, "length");
}

static void assert_refused(struct ask *a, enum engine_code code, const char *param,
                           const char *text)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct session *s;
    assert_false(session_start(engine, &a->r, on_event, NULL, &s, &err));
    assert_int_equal(err.code, code);
    assert_string_equal(err.param, param);
    if (text) {
        assert_string_equal(err.text, text);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    struct ask a;
    ask_init(&a);
    a.r.n_prompt = 0;
    assert_refused(&a, ENGINE_BAD_PARAM, "prompt", NULL);
    a.r.n_prompt = 512;
    assert_refused(&a, ENGINE_CONTEXT_FULL, "prompt", NULL);
    a.r.n_prompt = 600;
    assert_refused(&a, ENGINE_CONTEXT_FULL, "prompt",
                   "prompt has 600 tokens, the context of the model is 512: at most 511 leave room "
                   "for a new one");
    ask_init(&a);
    a.ids[2] = 512;
    assert_refused(&a, ENGINE_BAD_PARAM, "prompt",
                   "token id 512 of the prompt is outside the vocabulary 0..511");
    a.ids[2] = -1;
    assert_refused(&a, ENGINE_BAD_PARAM, "prompt", NULL);
    ask_init(&a);
    a.r.best_of = 0;
    assert_refused(&a, ENGINE_BAD_PARAM, "best_of", NULL);
    ask_init(&a);
    a.sampling.min_tokens = 9;
    a.r.max_tokens = 8;
    assert_refused(&a, ENGINE_BAD_PARAM, "min_tokens", NULL);
    ask_init(&a);
    a.sampling.temperature = NAN;
    assert_refused(&a, ENGINE_BAD_PARAM, "temperature", NULL);
    ask_init(&a);
    a.r.stops = (const char *const[]){""};
    a.r.n_stops = 1;
    assert_refused(&a, ENGINE_BAD_PARAM, "stop", NULL);
    ask_init(&a);
    a.sampling.stop_ids = malloc(sizeof(int32_t));
    a.sampling.stop_ids[0] = 512;
    a.sampling.n_stop_ids = 1;
    assert_refused(&a, ENGINE_BAD_PARAM, "stop_token_ids", NULL);
    assert_non_null(a.sampling.stop_ids); /* still ours */
    sampler_config_release(&a.sampling);
}

static void test_slots(void **state)
{
    (void)state;
    static struct result r[17];
    static struct ask a;
    for (int i = 0; i < 16; i++) {
        ask_init(&a);
        a.r.max_tokens = 3 + i;
        start(&a, &r[i]);
    }
    ask_init(&a);
    assert_refused(&a, ENGINE_BUSY, "", NULL);
    assert_true(engine_step(engine));
    session_free(r[4].s); /* in the middle */
    size_t n_events = r[4].n_events;
    ask_init(&a);
    a.r.max_tokens = 5;
    start(&a, &r[16]);
    run_all();
    assert_int_equal(r[4].n_events, n_events);
    for (int i = 0; i < 17; i++) {
        if (i != 4) {
            assert_true(session_is_done(r[i].s));
            session_free(r[i].s);
        }
    }
    assert_int_equal(r[16].c[0].n_generated, 5);
}

static void test_error_leaves_others_alone(void **state)
{
    (void)state;
    static struct result bad, good, alone;
    static struct ask a, b;
    ask_init(&a);
    a.sampling.no_repeat_ngram_size =
        1; /* every token once: runs out of candidates after the vocabulary */
    a.sampling.ignore_eos = true;
    ask_init(&b);
    b.r.max_tokens = 60;
    run(&b, &alone);
    /* All tokens but those of the prompt are used up within the context of 512, so bias cannot
     * help either. */
    for (int i = 0; i < 500; i++) {
        a.ids[i] = i;
    }
    a.r.prompt = a.ids;
    a.r.n_prompt = 500;
    a.sampling.stop_ids = malloc(11 * sizeof(int32_t));
    for (int i = 0; i < 11; i++) {
        a.sampling.stop_ids[i] = 500 + i;
    }
    a.sampling.n_stop_ids = 11;
    a.sampling.min_tokens = 11;
    start(&a, &bad);
    ask_init(&b);
    b.r.max_tokens = 60;
    start(&b, &good);
    run_all();
    session_free(bad.s);
    session_free(good.s);
    assert_int_equal(bad.err.code, ENGINE_NO_CANDIDATE);
    assert_same(&alone, &good);
}

static void test_best_of(void **state)
{
    (void)state;
    static struct result all, best;
    static struct ask a;
    ask_init(&a);
    a.r.max_tokens = 12;
    a.r.n = a.r.best_of = 6;
    a.r.logprobs = true;
    a.sampling.ignore_eos = true; /* so that every generated token is reported */
    run(&a, &all);
    ask_init(&a);
    a.r.max_tokens = 12;
    a.r.n = 2;
    a.r.best_of = 6;
    a.r.logprobs = true;
    a.sampling.ignore_eos = true;
    run(&a, &best);
    double mean[6];
    for (int i = 0; i < 6; i++) {
        mean[i] = 0;
        for (size_t j = 0; j < all.c[i].n_tokens; j++) {
            mean[i] += all.c[i].logprobs[j];
        }
        mean[i] /= (double)all.c[i].n_generated;
    }
    int first = 0, second = -1;
    for (int i = 1; i < 6; i++) {
        first = mean[i] > mean[first] ? i : first;
    }
    for (int i = 0; i < 6; i++) {
        if (i != first && (second < 0 || mean[i] > mean[second])) {
            second = i;
        }
    }
    assert_string_equal(best.c[0].text, all.c[first].text);
    assert_string_equal(best.c[1].text, all.c[second].text);
    assert_int_equal(best.c[0].n_tokens, 12);
    assert_non_null(best.c[1].finish);
    assert_null(best.c[2].finish);
}

/* More choices than fit into one batch: each still gets its own stream, and none falls back by
 * more than a batch. */
static struct {
    char first[256];
    uint32_t n_finished;
    size_t n_tokens[128];
} many;

static void check_spread(void)
{
    size_t least = SIZE_MAX, most = 0;
    for (int i = 0; i < 128; i++) {
        least = many.n_tokens[i] < least ? many.n_tokens[i] : least;
        most = many.n_tokens[i] > most ? many.n_tokens[i] : most;
    }
    assert_true(most - least <= 1);
}

static void on_many(const struct session_event *ev, void *ud)
{
    (void)ud;
    if (ev->kind == SESSION_FINISH) {
        assert_int_equal(ev->n_generated, 8);
        many.n_finished++;
        return;
    }
    many.n_tokens[ev->choice] += ev->n_tokens;
    if (ev->choice == 0) {
        (void)strncat(many.first, ev->text, sizeof many.first - strlen(many.first) - 1);
    }
}

static void test_more_choices_than_rows(void **state)
{
    (void)state;
    static struct ask a;
    static struct result one;
    struct session *s;
    ask_init(&a);
    a.r.max_tokens = 8;
    a.sampling.ignore_eos = true;
    run(&a, &one);
    ask_init(&a);
    a.r.n = a.r.best_of = 128;
    a.r.max_tokens = 8;
    a.r.logprobs = true;
    a.sampling.ignore_eos = true;
    assert_true(session_start(engine, &a.r, on_many, NULL, &s, NULL));
    while (engine_step(engine)) {
        check_spread();
    }
    session_free(s);
    assert_int_equal(many.n_finished, 128);
    assert_string_equal(many.first, one.c[0].text);
}

/* A short prompt that comes during a long one's evaluation is answered before it. */
static void test_short_passes_long(void **state)
{
    (void)state;
    static struct result slow, fast;
    static struct ask a, b;
    ask_init(&a);
    for (int i = 0; i < 500; i++) {
        a.ids[i] = 3 + i % 400;
    }
    a.r.n_prompt = 500;
    a.r.max_tokens = 4;
    ask_init(&b);
    b.r.max_tokens = 2;
    start(&a, &slow);
    assert_true(engine_step(engine));
    start(&b, &fast);
    while (!session_is_done(fast.s)) {
        assert_true(engine_step(engine));
    }
    assert_int_equal(slow.n_events, 0);
    run_all();
    assert_string_equal(fast.c[0].finish, "length");
    assert_string_equal(slow.c[0].finish, "length");
    session_free(slow.s);
    session_free(fast.s);
}

/* Copies FROM/name to TO/name; with `spoil` the tensors' bytes become NaN. */
static void copy_file(const char *from, const char *to, const char *name, bool spoil)
{
    char path[256];
    static unsigned char bytes[4 << 20];
    (void)snprintf(path, sizeof path, "%s/%s", from, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    (void)fclose(f);
    assert_true(n < sizeof bytes);
    for (size_t i = 8 + bytes[0] + 256 * (size_t)bytes[1]; spoil && i < n; i++) {
        bytes[i] = 0xff;
    }
    (void)snprintf(path, sizeof path, "%s/%s", to, name);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void test_nan_is_an_error(void **state)
{
    (void)state;
    static const char *const names[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                        "generation_config.json", "model.safetensors"};
    char folder[] = "/tmp/test_engine_XXXXXX", path[256];
    static struct result r;
    static struct ask a;
    struct engine *other, *kept = engine;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < 5; i++) {
        copy_file(MODEL, folder, names[i], i == 4);
    }
    assert_true(engine_open(&other, folder, &(struct engine_options){.n_threads = 1}, NULL));
    engine = other;
    ask_init(&a);
    a.r.n = a.r.best_of = 2;
    run(&a, &r);
    assert_int_equal(r.err.code, ENGINE_NONFINITE);
    assert_int_equal(r.n_events, 1);
    assert_false(engine_step(engine));
    engine = kept;
    engine_close(other);
    for (size_t i = 0; i < 5; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)remove(path);
    }
    (void)remove(folder);
}

static void test_fingerprint(void **state)
{
    (void)state;
    const char *f = engine_fingerprint(engine);
    assert_non_null(strstr(f, "exact weights:"));
    assert_null(strstr(f, "none"));
    assert_true(strlen(f) < 128);
    assert_true(f == engine_fingerprint(engine));
}

static void test_bad_folder(void **state)
{
    (void)state;
    struct engine *e = NULL;
    struct engine_error err = {.code = ENGINE_OK};
    assert_false(engine_open(&e, "tests/nothing-here", NULL, &err));
    assert_null(e);
    assert_int_not_equal(err.code, ENGINE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_text),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_choices_have_the_prompt),
        cmocka_unit_test(test_greedy_choices_are_copies),
        cmocka_unit_test(test_company_changes_no_bit),
        cmocka_unit_test(test_threads_change_no_bit),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_min_tokens_delays_stop_strings),
        cmocka_unit_test(test_stop_token),
        cmocka_unit_test(test_context_is_the_last_end),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_error_leaves_others_alone),
        cmocka_unit_test(test_best_of),
        cmocka_unit_test(test_more_choices_than_rows),
        cmocka_unit_test(test_short_passes_long),
        cmocka_unit_test(test_nan_is_an_error),
        cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_bad_folder),
    };
    return cmocka_run_group_tests_name("engine", tests, open_engine, close_engine);
}
