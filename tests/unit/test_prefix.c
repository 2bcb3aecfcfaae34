/* test_prefix.c - sessions that share keys and values, and those that wait for room: what was
 * computed by whom, when and in what company cannot be seen in any byte of an answer. */
#include "local-engine/engine.h"
#include "local-engine/kvpool.h"
#include "local-engine/quantize.h"
#include "small_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL "tests/vectors/stories260k"

enum { PROMPT_MAX = 400, ASKS = 24, BLOCK = KVPOOL_TOKENS, SEEN = 3, STEP_ROWS = 64 };

static struct engine *engine;

/* ---- asking */

struct answer {
    uint64_t hash; /* over all that came, choice by choice */
    uint64_t of_choice[ENGINE_CHOICES_MAX];
    size_t n_events;
    int32_t ids[SEEN][PROMPT_MAX]; /* of the first choices */
    double logprobs[SEEN][PROMPT_MAX];
    size_t n_ids[SEEN];
    struct engine_error err;
    struct session *s;
};

static uint64_t mix_bytes(uint64_t h, const void *p, size_t n)
{
    const unsigned char *c = p;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ c[i]) * UINT64_C(0x100000001b3);
    }
    return h;
}

static void on_event(const struct session_event *ev, void *ud)
{
    struct answer *a = ud;
    a->n_events++;
    if (ev->kind == SESSION_ERROR) {
        a->err = *ev->error;
        return;
    }
    uint64_t *h = &a->of_choice[ev->choice];
    if (ev->kind == SESSION_FINISH) {
        *h = mix_bytes(*h, ev->finish, strlen(ev->finish));
        *h = mix_bytes(*h, &ev->n_generated, sizeof ev->n_generated);
        return;
    }
    *h = mix_bytes(*h, ev->text, ev->len);
    for (size_t i = 0; i < ev->n_tokens; i++) {
        *h = mix_bytes(*h, &ev->tokens[i].id, sizeof ev->tokens[i].id);
        *h = mix_bytes(*h, &ev->tokens[i].logprob, sizeof ev->tokens[i].logprob);
        if (ev->choice < SEEN && a->n_ids[ev->choice] < PROMPT_MAX) {
            size_t at = a->n_ids[ev->choice]++;
            a->ids[ev->choice][at] = ev->tokens[i].id;
            a->logprobs[ev->choice][at] = ev->tokens[i].logprob;
        }
    }
}

struct ask {
    struct sampler_config sampling;
    struct session_request r;
    int32_t ids[PROMPT_MAX];
};

/* Prompts of one long beginning, left at `same`, and of own tokens up to n. */
static void ask_init(struct ask *a, size_t same, size_t n, uint32_t own)
{
    memset(a, 0, sizeof *a);
    sampler_config_init(&a->sampling);
    for (size_t i = 0; i < n; i++) {
        a->ids[i] =
            (int32_t)(i == 0 ? 1 : 3 + (i < same ? i * 7919 % 251 : (i + own) * 6007 % 241));
    }
    a->r = (struct session_request){.prompt = a->ids,
                                    .n_prompt = n,
                                    .n = 1,
                                    .best_of = 1,
                                    .seed = own,
                                    .max_tokens = 20,
                                    .logprobs = true};
}

/* The i-th of a set that has all kinds: lengths at and beside the ends of blocks, several choices,
 * beams, cold and hot ones. */
static void ask_some(struct ask *a, uint32_t i)
{
    static const size_t same[] = {0, 33, 64, 96, 120, 128}, n[] = {1, 32, 33, 64, 97, 129, 150, 31};
    size_t n_prompt = n[i % 8], n_same = same[i % 6];
    ask_init(a, n_same < n_prompt ? n_same : n_prompt, n_prompt, i % 5);
    a->r.max_tokens = 1 + i * 11 % 40;
    a->sampling.temperature = i % 4 ? 0.9 : 0;
    a->r.n = a->r.best_of = i % 3 == 1 ? 2 : 1;
    if (i % 7 == 5) {
        a->r.n_beams = 3;
    } else if (i % 7 == 6) {
        a->r.best_of = 4;
    }
}

static bool start(struct ask *a, struct answer *out, struct engine_error *err)
{
    memset(out, 0, sizeof *out);
    a->r.sampling = &a->sampling;
    return session_start(engine, &a->r, on_event, out, &out->s, err);
}

static void finish(struct answer *a)
{
    assert_int_equal(a->err.code, ENGINE_OK);
    a->hash = mix_bytes(1, a->of_choice, sizeof a->of_choice);
    session_free(a->s);
    a->s = NULL;
}

/* Steps until it is done. */
static size_t run(struct ask *a, struct answer *out)
{
    struct engine_error err = {.code = ENGINE_OK};
    size_t n = 0;
    if (!start(a, out, &err)) {
        fail_msg("%s", err.text);
    }
    while (!session_is_done(out->s)) {
        assert_true(engine_step(engine));
        n++;
    }
    finish(out);
    return n;
}

static void open_model(const char *path, const struct engine_options *o)
{
    struct engine_error err = {.code = ENGINE_OK};
    if (!engine_open(&engine, path, o, &err)) {
        fail_msg("%s", err.text);
    }
}

static int64_t blocks(int64_t n) /* bytes of so many blocks of MODEL in float32 */
{
    return n * BLOCK * 5 * 4 * 8 * 2 * (int64_t)sizeof(float);
}

/* ---- a prompt that is known */

static void a_known_beginning_is_not_evaluated_again(void **state)
{
    (void)state;
    static struct ask a;
    static struct answer cold, warm, other;
    open_model(MODEL, &(struct engine_options){.n_threads = 1});
    ask_init(&a, 300, 300, 0);
    size_t n_cold = run(&a, &cold);
    assert_int_equal(n_cold, (300 + STEP_ROWS - 1) / STEP_ROWS + 19);
    ask_init(&a, 300, 300, 0);
    assert_int_equal(run(&a, &warm), 20); /* 288 of 300 are there */
    assert_true(warm.hash == cold.hash);
    ask_init(&a, 200, 300, 9); /* 192 are */
    assert_int_equal(run(&a, &other), 21);
    assert_true(engine_rest(engine));
    ask_init(&a, 200, 300, 9);
    assert_int_equal(run(&a, &warm), 24); /* forgotten */
    assert_true(warm.hash == other.hash && warm.hash != cold.hash);
    engine_close(engine);
}

/* What was generated is the beginning of the next turn's prompt. */
static void an_answer_is_known_too(void **state)
{
    (void)state;
    static struct ask a;
    static struct answer first, next, cold;
    open_model(MODEL, &(struct engine_options){.n_threads = 1});
    ask_init(&a, 60, 60, 0);
    a.r.max_tokens = 80;
    a.sampling.ignore_eos = true;
    (void)run(&a, &first);
    assert_int_equal(first.n_ids[0], 80);
    ask_init(&a, 60, 150, 0);
    memcpy(a.ids + 60, first.ids[0], first.n_ids[0] * sizeof first.ids[0][0]);
    assert_int_equal(run(&a, &next), 20); /* 128 of 150 are there */
    (void)engine_rest(engine);
    ask_init(&a, 60, 150, 0);
    memcpy(a.ids + 60, first.ids[0], first.n_ids[0] * sizeof first.ids[0][0]);
    assert_int_equal(run(&a, &cold), 22);
    assert_true(next.hash == cold.hash);
    engine_close(engine);
}

/* Choices and hypotheses share blocks until they write to them: each has the log-probabilities of
 * its own tokens, evaluated by themselves. */
static void check_choices(uint32_t n_beams)
{
    static struct ask a;
    static struct answer r;
    struct model_worker *w;
    const struct model *m = engine_model(engine);
    size_t n_vocab = (size_t)engine_shape(engine)->n_vocab, n_prompt = 40;
    float *logits = malloc(n_vocab * sizeof *logits);
    assert_true(model_worker_new(&w, m, 8, 1, NULL));
    ask_init(&a, 0, n_prompt, 1);
    a.r.n = a.r.best_of = SEEN;
    a.r.n_beams = n_beams;
    a.r.max_tokens = 60;
    a.sampling.temperature = 0.9;
    a.sampling.ignore_eos = true;
    (void)run(&a, &r);
    for (size_t c = 0; c < SEEN; c++) {
        struct kvcache *cache;
        assert_true(r.n_ids[c] > 20);
        assert_true(kvcache_new(&cache, m, 200, NULL));
        for (size_t i = 0; i + 1 < n_prompt + r.n_ids[c]; i++) {
            double logprob;
            struct model_row row = {cache, i < n_prompt ? a.ids[i] : r.ids[c][i - n_prompt],
                                    logits};
            assert_true(model_forward(w, &row, 1, NULL));
            if (i + 1 >= n_prompt) {
                size_t at = i + 1 - n_prompt;
                sampler_logprobs(NULL, logits, (int32_t)n_vocab, r.ids[c][at], 0, &logprob, NULL);
                assert_true(logprob == r.logprobs[c][at]);
            }
        }
        kvcache_free(cache);
    }
    model_worker_free(w);
    free(logits);
}

static void choices_are_those_of_their_own_tokens(void **state)
{
    (void)state;
    open_model(MODEL, &(struct engine_options){.n_threads = 1});
    check_choices(0);
    check_choices(4);
    engine_close(engine);
}

/* Several that come at once evaluate a common prompt once. */
static void those_who_come_together_share_the_work(void **state)
{
    (void)state;
    enum { N = 6 };
    static struct ask a[N];
    static struct answer alone[N], together[N];
    struct engine_error err = {.code = ENGINE_OK};
    open_model(MODEL, &(struct engine_options){.n_threads = 1});
    for (uint32_t i = 0; i < N; i++) {
        ask_init(&a[i], 290, 300, i);
        (void)run(&a[i], &alone[i]);
        (void)engine_rest(engine);
    }
    for (uint32_t i = 0; i < N; i++) {
        ask_init(&a[i], 290, 300, i);
        assert_true(start(&a[i], &together[i], &err));
    }
    size_t n_steps = 0;
    while (engine_step(engine)) {
        n_steps++;
    }
    assert_true(n_steps <= 36); /* 28 for six whole prompts, 19 for the answers of the last */
    for (uint32_t i = 0; i < N; i++) {
        finish(&together[i]);
        assert_true(alone[i].hash == together[i].hash);
    }
    engine_close(engine);
}

/* Whoever waits for another's work goes on alone when that one leaves. */
static void a_leader_that_leaves_stops_nobody(void **state)
{
    (void)state;
    static struct ask a[2];
    static struct answer alone, leader, follower;
    struct engine_error err = {.code = ENGINE_OK};
    open_model(MODEL, &(struct engine_options){.n_threads = 1});
    ask_init(&a[0], 300, 300, 0);
    (void)run(&a[0], &alone);
    (void)engine_rest(engine);
    for (int i = 0; i < 2; i++) {
        ask_init(&a[i], 300, 300, 0);
        assert_true(start(&a[i], i ? &follower : &leader, &err));
    }
    assert_true(engine_step(engine));
    session_free(leader.s);
    while (engine_step(engine)) {
    }
    finish(&follower);
    assert_true(follower.hash == alone.hash);
    engine_close(engine);
}

/* ---- a random schedule */

struct lane {
    uint32_t ask; /* which one */
    bool is_busy;
    struct ask a;
    struct answer answer;
};

static uint64_t next(uint64_t *x)
{
    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *x >> 33;
}

static void check_done(struct lane *l, const struct answer *alone)
{
    if (l->is_busy && session_is_done(l->answer.s)) {
        finish(&l->answer);
        l->is_busy = false;
        assert_true(l->answer.hash == alone[l->ask].hash);
    }
}

/* Requests join, leave and wait for room; blocks are found, shared and given up. */
static void schedule(const struct answer *alone, uint64_t seed, size_t n_steps, size_t *n_busy)
{
    enum { LANES = 12 };
    static struct lane lanes[LANES];
    struct engine_error err;
    uint64_t x = seed;
    memset(lanes, 0, sizeof lanes);
    for (size_t step = 0; step < n_steps; step++) {
        struct lane *l = &lanes[next(&x) % LANES];
        if (!l->is_busy) {
            l->ask = (uint32_t)(next(&x) % ASKS);
            ask_some(&l->a, l->ask);
            err = (struct engine_error){.code = ENGINE_OK};
            l->is_busy = start(&l->a, &l->answer, &err);
            assert_true(l->is_busy || err.code == ENGINE_BUSY);
            *n_busy += !l->is_busy;
            sampler_config_release(&l->a.sampling);
        } else if (next(&x) % 16 == 0) {
            session_free(l->answer.s);
            l->is_busy = false;
        }
        for (uint64_t n = next(&x) % 6; n > 0; n--) {
            (void)engine_step(engine);
        }
        for (size_t i = 0; i < LANES; i++) {
            check_done(&lanes[i], alone);
        }
        if (next(&x) % 64 == 0) {
            (void)engine_rest(engine);
        }
    }
    while (engine_step(engine)) {
    }
    for (size_t i = 0; i < LANES; i++) {
        check_done(&lanes[i], alone);
    }
}

/* Some blocks of the model at hand. */
static int64_t little_room(const struct engine_options *o)
{
    const struct model_shape *m = engine_shape(engine);
    int64_t n = (int64_t)m->n_layers * m->n_kv_heads * m->head_dim;
    return 16 * BLOCK * n * 2 * (o->is_kv_f16 ? 2 : 4);
}

static void check_schedules(const char *path, bool is_f16)
{
    static struct answer alone[ASKS];
    size_t n_busy = 0;
    struct engine_options o = {.n_threads = 2, .is_kv_f16 = is_f16};
    open_model(path, &o);
    for (uint32_t i = 0; i < ASKS; i++) {
        struct ask a;
        ask_some(&a, i);
        (void)run(&a, &alone[i]);
        (void)engine_rest(engine);
    }
    o.kv_bytes_max = little_room(&o);
    engine_close(engine);
    open_model(path, &o);
    schedule(alone, 1, 300, &n_busy);
    engine_close(engine);
    o.n_threads = 1;
    o.kv_bytes_max = 0;
    open_model(path, &o);
    size_t n_none = 0;
    schedule(alone, 2, 300, &n_none);
    assert_true(n_busy > 0 && n_none == 0); /* little room, much room */
    engine_close(engine);
}

static void schedules_change_no_bit(void **state)
{
    (void)state;
    check_schedules(MODEL, false);
}

static void schedules_change_no_bit_with_float16(void **state)
{
    (void)state;
    check_schedules(MODEL, true);
}

/* An empty file, whose name the caller removes. */
static void temporary(char path[64])
{
    (void)snprintf(path, 64, "/tmp/isotherm-test-XXXXXX.gguf");
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void schedules_change_no_bit_in_q8_0(void **state)
{
    (void)state;
    char path[64];
    struct model *m = NULL;
    temporary(path);
    assert_true(model_open(&m, MODEL, NULL));
    assert_true(quantize_file(model_weights(m), KERNELS_Q8_0, path, NULL, NULL, NULL));
    model_close(m);
    check_schedules(path, false);
    (void)unlink(path);
}

enum { Q4_K = 12, DIM = 256, BLOCK_BYTES = 144 }; /* of 256 weights */

/* A llama of one layer whose matrices are Q4_K of random bits. */
static struct gguf_bytes make_q4_k(void)
{
    static const struct {
        const char *name;
        uint32_t rows; /* 1: a norm */
    } tensors[] = {{"token_embd.weight", SMALL_TOKENS}, {"output_norm.weight", 1},
                   {"blk.0.attn_norm.weight", 1},       {"blk.0.attn_q.weight", DIM},
                   {"blk.0.attn_k.weight", DIM / 4},    {"blk.0.attn_v.weight", DIM / 4},
                   {"blk.0.attn_output.weight", DIM},   {"blk.0.ffn_norm.weight", 1},
                   {"blk.0.ffn_gate.weight", DIM},      {"blk.0.ffn_up.weight", DIM},
                   {"blk.0.ffn_down.weight", DIM}};
    static const struct {
        const char *key;
        uint32_t value;
    } keys[] = {{"llama.embedding_length", DIM},
                {"llama.feed_forward_length", DIM},
                {"llama.block_count", 1},
                {"llama.attention.head_count", 8},
                {"llama.attention.head_count_kv", 2},
                {"llama.context_length", 256},
                {"llama.rope.dimension_count", 32},
                {"llama.vocab_size", SMALL_TOKENS},
                {"tokenizer.ggml.bos_token_id", SMALL_BOS},
                {"tokenizer.ggml.eos_token_id", SMALL_BOS + 1}};
    enum { N_TENSORS = sizeof tensors / sizeof *tensors, N_KEYS = sizeof keys / sizeof *keys };
    struct gguf_bytes b = {0};
    uint64_t x = 3, offset = 0;
    gguf_put_head(&b, N_TENSORS, N_KEYS + SMALL_KEYS + 2);
    gguf_put_string(&b, "general.architecture", "llama");
    gguf_put_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    put_small_tokenizer(&b, SMALL_TOKENS);
    for (size_t i = 0; i < N_KEYS; i++) {
        gguf_put_u32(&b, keys[i].key, keys[i].value);
    }
    for (size_t i = 0; i < N_TENSORS; i++) {
        bool is_norm = tensors[i].rows == 1;
        gguf_put_tensor(&b, tensors[i].name, tensors[i].rows, DIM, is_norm ? 0 : Q4_K, offset);
        offset += is_norm ? DIM * sizeof(float) : (uint64_t)tensors[i].rows * BLOCK_BYTES;
    }
    gguf_pad(&b, 32);
    for (size_t i = 0; i < N_TENSORS; i++) {
        for (uint32_t j = 0; tensors[i].rows == 1 && j < DIM; j++) {
            gguf_put_int(&b, 0x3f800000, 4); /* 1 */
        }
        for (uint32_t j = 0; tensors[i].rows > 1 && j < tensors[i].rows; j++) {
            gguf_put_int(&b, 0x1c000c00, 4); /* m, d: 1 / 256, 1 / 4096 */
            for (int k = 4; k < BLOCK_BYTES; k++) {
                gguf_put_int(&b, next(&x) & 255, 1);
            }
        }
    }
    return b;
}

static void schedules_change_no_bit_in_q4_k(void **state)
{
    (void)state;
    char path[64];
    temporary(path);
    struct gguf_bytes b = make_q4_k();
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(b.p, 1, b.n, f), b.n);
    assert_int_equal(fclose(f), 0);
    free(b.p);
    check_schedules(path, false);
    (void)unlink(path);
}

/* ---- room */

static void what_can_never_fit_is_refused(void **state)
{
    (void)state;
    static struct ask a;
    struct engine_error err = {.code = ENGINE_OK};
    open_model(MODEL, &(struct engine_options){.n_threads = 1, .kv_bytes_max = blocks(6)});
    assert_int_equal(engine_context(engine), 6 * BLOCK);
    assert_non_null(strstr(engine_fingerprint(engine), " context:192 "));
    ask_init(&a, 40, 40, 0);
    a.r.sampling = &a.sampling;
    a.r.n = a.r.best_of = 3;
    a.sampling.temperature = 1;
    a.r.max_tokens = 100; /* one block together, four for each */
    assert_false(session_check(engine, &a.r, &err));
    assert_int_equal(err.code, ENGINE_CONTEXT_FULL);
    assert_string_equal(err.param, "max_tokens");
    assert_string_equal(err.text,
                        "the choices may come to 416 tokens of keys and values, 'kv_memory' of the "
                        "model has room for 192: ask for fewer choices, fewer beams or a lower "
                        "max_tokens, or raise it");
    a.r.max_tokens = 20;
    assert_true(session_check(engine, &a.r, NULL));
    ask_init(&a, 200, 200, 0);
    a.r.sampling = &a.sampling;
    err = (struct engine_error){.code = ENGINE_OK};
    assert_false(session_check(engine, &a.r, &err));
    assert_non_null(strstr(err.text, "context of the model is 192 (for its 'kv_memory'"));
    engine_close(engine);
    err = (struct engine_error){.code = ENGINE_OK};
    assert_false(engine_open(&engine, MODEL, &(struct engine_options){.kv_bytes_max = 100}, &err));
    assert_non_null(strstr(err.text, "raise it"));
}

/* Without a limit of its own a request gets what the memory has room for. */
static void little_memory_is_a_short_context(void **state)
{
    (void)state;
    static struct ask a;
    static struct answer r;
    open_model(MODEL, &(struct engine_options){.n_threads = 1, .kv_bytes_max = blocks(2)});
    ask_init(&a, 40, 40, 0);
    a.r.max_tokens = 0;
    a.sampling.ignore_eos = true;
    assert_int_equal(run(&a, &r), 2 * BLOCK - 40);
    engine_close(engine);
}

/* The second waits for the first's blocks, not for those that are only kept. */
static void who_has_no_room_waits(void **state)
{
    (void)state;
    static struct ask a[3];
    static struct answer r[3];
    struct engine_error err = {.code = ENGINE_OK};
    open_model(MODEL, &(struct engine_options){.n_threads = 1, .kv_bytes_max = blocks(10)});
    for (uint32_t i = 0; i < 3; i++) {
        ask_init(&a[i], 0, 150, i); /* six blocks */
    }
    (void)run(&a[2], &r[2]);
    assert_true(start(&a[0], &r[0], &err));
    assert_false(start(&a[1], &r[1], &err));
    assert_int_equal(err.code, ENGINE_BUSY);
    while (engine_step(engine)) {
    }
    finish(&r[0]);
    assert_true(start(&a[1], &r[1], &err));
    while (engine_step(engine)) {
    }
    finish(&r[1]);
    engine_close(engine);
}

static void float16_is_said_in_the_fingerprint(void **state)
{
    (void)state;
    static struct ask a;
    static struct answer f32, f16;
    open_model(MODEL, &(struct engine_options){.n_threads = 1});
    assert_null(strstr(engine_fingerprint(engine), "kv:"));
    ask_init(&a, 100, 100, 0);
    (void)run(&a, &f32);
    engine_close(engine);
    open_model(MODEL, &(struct engine_options){.n_threads = 1, .is_kv_f16 = true});
    assert_non_null(strstr(engine_fingerprint(engine), " exact kv:f16 "));
    ask_init(&a, 100, 100, 0);
    (void)run(&a, &f16);
    assert_true(f16.hash != f32.hash); /* log-probabilities, at least */
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_beginning_is_not_evaluated_again),
        cmocka_unit_test(an_answer_is_known_too),
        cmocka_unit_test(choices_are_those_of_their_own_tokens),
        cmocka_unit_test(those_who_come_together_share_the_work),
        cmocka_unit_test(a_leader_that_leaves_stops_nobody),
        cmocka_unit_test(schedules_change_no_bit),
        cmocka_unit_test(schedules_change_no_bit_with_float16),
        cmocka_unit_test(schedules_change_no_bit_in_q8_0),
        cmocka_unit_test(schedules_change_no_bit_in_q4_k),
        cmocka_unit_test(what_can_never_fit_is_refused),
        cmocka_unit_test(little_memory_is_a_short_context),
        cmocka_unit_test(who_has_no_room_waits),
        cmocka_unit_test(float16_is_said_in_the_fingerprint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
