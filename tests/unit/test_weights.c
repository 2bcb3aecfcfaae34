/* test_weights.c - folders and .gguf files of one model give the same bits, damaged files are
 * refused or run, and the numbers that are written are the nearest of their type. */
#include "gguf_builder.h"
#include "local-engine/gguf.h"
#include "local-engine/model.h"
#include "local-engine/quantize.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#define N_IDS 24

static const char *const NAMES[] = {"stories260k", "tiny-gpt2", "tiny-gpt2-bf16", "tiny-llama-f16",
                                    "tiny-llama-bf16"};
enum { N_NAMES = 5 };

#define ok(call)                                                                                   \
    do {                                                                                           \
        struct engine_error err = {0};                                                             \
        if (!(call)) {                                                                             \
            print_error("%s\n", err.text);                                                         \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

static struct model *open_vector(const char *name)
{
    char path[128];
    struct model *m = NULL;
    (void)snprintf(path, sizeof path, "tests/vectors/%s", name);
    ok(model_open(&m, path, &err));
    return m;
}

/* Logits of some ids in one batch, yours to free. */
static float *logits_of(const struct model *m, size_t *n)
{
    struct model_row row[N_IDS];
    struct kvcache *c = NULL;
    struct model_worker *w = NULL;
    size_t n_vocab = (size_t)model_get_shape(m)->n_vocab;
    float *logits = calloc(N_IDS * n_vocab, sizeof *logits);
    assert_non_null(logits);
    ok(kvcache_new(&c, m, N_IDS, &err));
    ok(model_worker_new(&w, m, N_IDS, 1, &err));
    for (size_t i = 0; i < N_IDS; i++) {
        row[i] = (struct model_row){c, (int32_t)(i * 37 % n_vocab), logits + i * n_vocab};
    }
    ok(model_forward(w, row, N_IDS, &err));
    model_worker_free(w);
    kvcache_free(c);
    *n = N_IDS * n_vocab;
    return logits;
}

/* An empty file with that ending, whose name the caller removes. */
static void temporary(char path[64])
{
    (void)snprintf(path, 64, "/tmp/isotherm-test-XXXXXX.gguf");
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void assert_same_logits(const struct model *a, const struct model *b)
{
    size_t n, n_b;
    float *x = logits_of(a, &n), *y = logits_of(b, &n_b);
    assert_int_equal(n, n_b);
    assert_memory_equal(x, y, n * sizeof *x);
    free(x);
    free(y);
}

static struct model *rewritten(const struct model *m, enum kernels_type type, char path[64])
{
    struct model *copy = NULL;
    temporary(path);
    ok(quantize_file(model_weights(m), type, path, NULL, NULL, &err));
    ok(model_open(&copy, path, &err));
    return copy;
}

static void a_folder_written_as_gguf_gives_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NAMES; i++) {
        char path[64], again_path[64];
        struct model *m = open_vector(NAMES[i]), *copy = rewritten(m, KERNELS_F32, path);
        assert_non_null(weights_gguf(model_weights(copy)));
        assert_same_logits(m, copy);
        struct model *again = rewritten(copy, KERNELS_F32, again_path);
        assert_same_logits(m, again);
        model_close(again);
        model_close(copy);
        model_close(m);
        (void)unlink(path);
        (void)unlink(again_path);
    }
}

/* What is written in few bits computes as its own values in float32 do. */
static void blocks_compute_as_their_values_do(void **state)
{
    (void)state;
    static const enum kernels_type types[] = {KERNELS_Q8_0, KERNELS_Q4_0, KERNELS_F16};
    struct model *m = open_vector("stories260k");
    for (size_t i = 0; i < 3; i++) {
        char path[64], wide_path[64];
        struct model *narrow = rewritten(m, types[i], path);
        struct model *wide = rewritten(narrow, KERNELS_F32, wide_path);
        assert_string_equal(model_get_shape(narrow)->dtype, kernels_type_name(types[i]));
        assert_string_equal(model_get_shape(wide)->dtype, "F32");
        assert_int_equal(model_get_shape(narrow)->n_params, 260032);
        assert_same_logits(narrow, wide);
        model_close(narrow);
        model_close(wide);
        (void)unlink(path);
        (void)unlink(wide_path);
    }
    model_close(m);
}

static void published_files_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const folder = "../shared/models/stories260k/stories260k";
    static const struct {
        const char *ending;
        enum kernels_type type;
    } files[] = {
        {"f32", KERNELS_F32}, {"f16", KERNELS_F16}, {"q8_0", KERNELS_Q8_0}, {"q4_0", KERNELS_Q4_0}};
    struct model *m = open_vector("stories260k");
    for (size_t i = 0; i < 4; i++) {
        char published[128], path[64];
        struct model *theirs = NULL;
        (void)snprintf(published, sizeof published, "%s-%s.gguf", folder, files[i].ending);
        if (access(published, R_OK) != 0) {
            print_message("%s is not here: left out\n", published);
            continue;
        }
        ok(model_open(&theirs, published, &err));
        struct model *ours = rewritten(m, files[i].type, path);
        assert_same_logits(ours, theirs);
        model_close(ours);
        model_close(theirs);
        (void)unlink(path);
    }
    model_close(m);
}

/* ---------------------------------------------------------------- numbers */

static void blocks_are_within_half_a_step(void **state)
{
    (void)state;
    static const struct {
        enum kernels_type type;
        float step; /* of the largest value */
    } cases[] = {{KERNELS_Q8_0, 1.0f / 127.0f}, {KERNELS_Q4_0, 1.0f / 8.0f}};
    uint32_t random = 9;
    for (size_t i = 0; i < 2000; i++) {
        float x[32], y[32], most = 0.0f;
        unsigned char w[34];
        for (int k = 0; k < 32; k++) {
            random = random * 1664525u + 1013904223u;
            x[k] = i == 0 ? 0.0f : (float)(int32_t)random * 0x1p-33f;
            most = fabsf(x[k]) > most ? fabsf(x[k]) : most;
        }
        for (size_t t = 0; t < 2; t++) {
            quantize_row(cases[t].type, x, 32, w);
            kernels_ref.expand(cases[t].type, w, 32, y);
            for (int k = 0; k < 32; k++) {
                /* half a step and what float16 makes of it; Q4_0 has 16 steps, one side of which is
                 * short: a whole one may be missing */
                float bound = cases[t].step * most * (t == 0 ? 0.57f : 1.01f);
                assert_true(fabsf(x[k] - y[k]) <= bound);
            }
        }
    }
}

static void every_float16_comes_back(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        unsigned char w[2] = {(unsigned char)h, (unsigned char)(h >> 8)}, back[2];
        float x;
        kernels_ref.expand(KERNELS_F16, w, 1, &x);
        quantize_row(KERNELS_F16, &x, 1, back);
        if (!isnan(x)) {
            assert_memory_equal(w, back, 2);
        }
    }
}

static void float16_is_the_nearest(void **state)
{
    (void)state;
    static const struct {
        float x;
        uint16_t want;
    } cases[] = {{1.0f + 0x1p-11f, 0x3c00},
                 {1.0f + 0x1.8p-10f, 0x3c02},
                 {65519.0f, 0x7bff},
                 {65520.0f, 0x7c00},
                 {-0.0f, 0x8000},
                 {0x1p-25f, 0x0000},
                 {0x1.8p-25f, 0x0001},
                 {0x1.ffcp-15f, 0x0400},
                 {-2.0f, 0xc000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char w[2];
        quantize_row(KERNELS_F16, &cases[i].x, 1, w);
        assert_int_equal(w[0] | w[1] << 8, cases[i].want);
    }
}

/* ---------------------------------------------------------------- metadata */

/* A small llama whose one key or tensor is wrong. */
struct change {
    const char *key; /* NULL: none */
    const char *text;
    uint32_t value;    /* in place of the right one */
    bool is_left_out;  /* instead */
    const char *extra; /* one more tensor of 32 zeros */
};

static const struct {
    const char *key;
    uint32_t value;
} KEYS[] = {{"llama.embedding_length", 32},
            {"llama.feed_forward_length", 32},
            {"llama.block_count", 1},
            {"llama.attention.head_count", 2},
            {"llama.attention.head_count_kv", 1},
            {"llama.context_length", 64},
            {"llama.rope.dimension_count", 16},
            {"llama.vocab_size", 4}};
enum { N_KEYS = 8 };

static const struct {
    const char *name;
    uint64_t rows;
} TENSORS[] = {
    {"token_embd.weight", 4},         {"output_norm.weight", 1},    {"blk.0.attn_norm.weight", 1},
    {"blk.0.attn_q.weight", 32},      {"blk.0.attn_k.weight", 16},  {"blk.0.attn_v.weight", 16},
    {"blk.0.attn_output.weight", 32}, {"blk.0.ffn_norm.weight", 1}, {"blk.0.ffn_gate.weight", 32},
    {"blk.0.ffn_up.weight", 32},      {"blk.0.ffn_down.weight", 32}};
enum { N_TENSORS = 11 };

static bool is_changed(const struct change *c, const char *key)
{
    return c->key && strcmp(c->key, key) == 0;
}

static bool is_tensor(const struct change *c)
{
    return c->key && strstr(c->key, ".weight") != NULL;
}

/* A key that the right file does not have. */
static bool is_more(const struct change *c)
{
    bool is_known = !c->key || is_tensor(c) || strcmp(c->key, "tokens") == 0;
    for (size_t i = 0; i < N_KEYS; i++) {
        is_known = is_known || is_changed(c, KEYS[i].key);
    }
    return !is_known;
}

static void put_tokens(struct gguf_bytes *b, uint32_t n)
{
    gguf_put_key(b, "tokenizer.ggml.tokens", 9);
    gguf_put_int(b, 8, 4);
    gguf_put_int(b, n, 8);
    for (uint32_t i = 0; i < n; i++) {
        gguf_put_text(b, "t");
    }
}

static void put_keys(struct gguf_bytes *b, const struct change *c)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        bool is = is_changed(c, KEYS[i].key);
        if (!is || !c->is_left_out) {
            gguf_put_u32(b, KEYS[i].key, is ? c->value : KEYS[i].value);
        }
    }
    if (is_more(c)) {
        gguf_put_u32(b, c->key, c->value);
    }
}

/* Returns the bytes of data that they need. */
static uint64_t put_tensors(struct gguf_bytes *b, const struct change *c)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < N_TENSORS; i++) {
        bool is = is_changed(c, TENSORS[i].name);
        uint64_t rows = is ? c->value : TENSORS[i].rows;
        if (!is || !c->is_left_out) {
            gguf_put_tensor(b, TENSORS[i].name, rows, 32, 0, offset);
            offset += rows * 128;
        }
    }
    if (c->extra) {
        gguf_put_tensor(b, c->extra, 1, 32, 0, offset);
        offset += 128;
    }
    return offset;
}

static struct gguf_bytes small_llama(const struct change *c)
{
    struct gguf_bytes b = {0};
    uint64_t n_less = c->is_left_out;
    gguf_put_head(&b, N_TENSORS + (c->extra ? 1 : 0) - (is_tensor(c) ? n_less : 0),
                  N_KEYS + 3 + (is_more(c) ? 1 : 0) - (is_tensor(c) ? 0 : n_less));
    gguf_put_string(&b, "general.architecture", "llama");
    gguf_put_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    put_tokens(&b, is_changed(c, "tokens") ? c->value : 4);
    put_keys(&b, c);
    uint64_t n_data = put_tensors(&b, c);
    gguf_pad(&b, 32);
    for (uint64_t i = 0; i < n_data; i++) {
        gguf_put(&b, "", 1);
    }
    return b;
}

static void write_file(const char *path, const struct gguf_bytes *b)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->p, 1, b->n, f), b->n);
    assert_int_equal(fclose(f), 0);
}

static void metadata_that_contradict_the_tensors_are_refused(void **state)
{
    (void)state;
    static const struct change changes[] = {
        {"llama.embedding_length", "key 'llama.embedding_length' is missing", 0, true, NULL},
        {"llama.embedding_length", "'hidden_size' is 0, 1 to 65536 expected", 0, false, NULL},
        {"llama.embedding_length", "'partial_rotary_factor' is 0.5", 64, false, NULL},
        {"llama.embedding_length", "key 'llama.embedding_length' is 4294967295", UINT32_MAX, false,
         NULL},
        {"llama.block_count", "tensor 'model.layers.1.", 2, false, NULL},
        {"llama.block_count", "'num_hidden_layers' is 2147483647, 1 to 1024 expected", INT32_MAX,
         false, NULL},
        {"llama.attention.head_count", "'num_attention_heads' is 0", 0, false, NULL},
        {"llama.attention.head_count", "does not divide 'hidden_size' 32", 3, false, NULL},
        {"llama.attention.head_count_kv", "'num_key_value_heads' is 5, 1 to 2 expected", 5, false,
         NULL},
        {"llama.feed_forward_length", "has shape [32, 32], [48, 32] expected", 48, false, NULL},
        {"llama.context_length", "'max_position_embeddings' is 0", 0, false, NULL},
        {"llama.vocab_size", "key 'llama.vocab_size' speaks of 5 tokens", 5, false, NULL},
        {"tokens", "key 'tokenizer.ggml.tokens' speaks of 3 tokens", 3, false, NULL},
        {"llama.rope.dimension_count", "'partial_rotary_factor' is 0.5", 8, false, NULL},
        {"llama.expert_count", "key 'llama.expert_count' is 8, which is not supported", 8, false,
         NULL},
        {"llama.rope.scaling.attn_factor",
         "key 'llama.rope.scaling.attn_factor' is 2, which is not supported", 2, false, NULL},
        {"blk.0.attn_q.weight", "tensor 'model.layers.0.self_attn.q_proj.weight' is missing", 0,
         true, NULL},
        {"blk.0.attn_k.weight", "has shape [32, 32], [16, 32] expected", 32, false, NULL},
        {"token_embd.weight", "tensor 'token_embd.weight' of 2 dimensions is missing", 0, true,
         NULL},
        {NULL, "tensor 'blk.1.attn_q.weight.x' is no part", 0, false, "blk.1.attn_q.weight.x"},
        {NULL, "tensor 'rope_freqs.weight' holds a factor that is not above 0", 0, false,
         "rope_freqs.weight"},
        {NULL, "tensor 'model.layers.1.self_attn.q_proj.weight' is no part", 0, false,
         "blk.1.attn_q.weight"},
        {NULL, "tensor 'blk.00.attn_q.weight' is no part", 0, false, "blk.00.attn_q.weight"},
        {NULL, "tensor 'model.norm.weight' is there twice", 0, false, "model.norm.weight"},
    };
    char path[64];
    temporary(path);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct model *m = NULL;
        struct engine_error err = {0};
        struct gguf_bytes b = small_llama(&changes[i]);
        write_file(path, &b);
        bool opened = model_open(&m, path, &err);
        if (opened || !strstr(err.text, changes[i].text) || strchr(err.text, '\n')) {
            print_error("got '%s', '%s' expected\n", opened ? "a model" : err.text,
                        changes[i].text);
            fail();
        }
        free(b.p);
    }
    struct gguf_bytes right = small_llama(&(struct change){0});
    struct model *m = NULL;
    write_file(path, &right);
    ok(model_open(&m, path, &err));
    model_close(m);
    free(right.p);
    (void)unlink(path);
}

/* As much of a gemma2 as is read before its keys are judged, and one more key. */
static void write_gemma2(const char *path, const char *key, uint32_t value)
{
    static const char *const keys[] = {"embedding_length",     "feed_forward_length",
                                       "block_count",          "context_length",
                                       "attention.head_count", "attention.key_length"};
    struct gguf_bytes b = {0};
    gguf_put_head(&b, 1, 9);
    gguf_put_string(&b, "general.architecture", "gemma2");
    gguf_put_f32(&b, "gemma2.attention.layer_norm_rms_epsilon", 1e-6f);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char full[64];
        (void)snprintf(full, sizeof full, "gemma2.%s", keys[i]);
        gguf_put_u32(&b, full, 32);
    }
    gguf_put_u32(&b, key, value);
    gguf_put_tensor(&b, "token_embd.weight", 4, 32, 0, 0);
    gguf_pad(&b, 32);
    for (size_t i = 0; i < (size_t)4 * 32 * 4; i++) {
        gguf_put(&b, "", 1);
    }
    write_file(path, &b);
    free(b.p);
}

/* Its local layers are every second one, with the positions of the others. */
static void keys_that_would_change_a_familys_layers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *text;
        uint32_t value;
    } keys[] = {
        {"gemma2.rope.freq_base_swa", "key 'gemma2.rope.freq_base_swa' is 500, which is not", 500},
        {"gemma2.rope.freq_base_swa", "tensor 'model.norm.weight' is missing", 10000},
        {"gemma2.attention.sliding_window_pattern",
         "key 'gemma2.attention.sliding_window_pattern' is 3, which is not", 3},
        {"gemma2.attention.sliding_window_pattern", "tensor 'model.norm.weight' is missing", 2},
        {"gemma2.rope.scaling.attn_factor",
         "key 'gemma2.rope.scaling.attn_factor' is 3, which is not", 3},
    };
    char path[64];
    temporary(path);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct model *m = NULL;
        struct engine_error err = {.code = ENGINE_OK};
        write_gemma2(path, keys[i].key, keys[i].value);
        assert_false(model_open(&m, path, &err));
        if (!strstr(err.text, keys[i].text)) {
            fail_msg("%s %u: '%s'", keys[i].key, keys[i].value, err.text);
        }
    }
    (void)unlink(path);
}

/* ---------------------------------------------------------------- damage */

/* Refused, or it runs. */
static void try_file(const char *path)
{
    struct model *m = NULL;
    struct kvcache *c = NULL;
    struct model_worker *w = NULL;
    struct engine_error said = {0};
    if (!model_open(&m, path, &said)) {
        assert_true(said.text[0] != '\0' && !strchr(said.text, '\n'));
        return;
    }
    float *logits = calloc((size_t)model_get_shape(m)->n_vocab, sizeof *logits);
    ok(kvcache_new(&c, m, 2, &err));
    ok(model_worker_new(&w, m, 1, 1, &err));
    ok(model_forward(w, &(struct model_row){c, 1, logits}, 1, &err));
    free(logits);
    model_worker_free(w);
    kvcache_free(c);
    model_close(m);
}

static void a_file_with_a_changed_byte_is_refused_or_runs(void **state)
{
    (void)state;
    char path[64];
    uint32_t random = 3;
    struct gguf_bytes b = small_llama(&(struct change){0});
    temporary(path);
    write_file(path, &b);
    int fd = open(path, O_RDWR);
    for (int i = 0; i < 10000; i++) {
        random = random * 1664525u + 1013904223u;
        size_t at = (random >> 8) % (i % 8 == 0 ? b.n : 1400); /* most in the header */
        unsigned char byte = (unsigned char)(random >> 24);
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        try_file(path);
        assert_int_equal(pwrite(fd, b.p + at, 1, (off_t)at), 1);
    }
    (void)close(fd);
    (void)unlink(path);
    free(b.p);
}

static void a_file_that_is_cut_is_refused(void **state)
{
    (void)state;
    char path[64];
    struct gguf_bytes b = small_llama(&(struct change){0});
    temporary(path);
    write_file(path, &b);
    for (size_t n = b.n - 1; n > 0; n -= n > 1500 ? 97 : 1) {
        struct model *m = NULL;
        assert_int_equal(truncate(path, (off_t)n), 0);
        assert_false(model_open(&m, path, NULL));
    }
    (void)unlink(path);
    free(b.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_written_as_gguf_gives_the_same_bits),
        cmocka_unit_test(blocks_compute_as_their_values_do),
        cmocka_unit_test(published_files_give_the_same_bits),
        cmocka_unit_test(blocks_are_within_half_a_step),
        cmocka_unit_test(every_float16_comes_back),
        cmocka_unit_test(float16_is_the_nearest),
        cmocka_unit_test(metadata_that_contradict_the_tensors_are_refused),
        cmocka_unit_test(keys_that_would_change_a_familys_layers_are_refused),
        cmocka_unit_test(a_file_with_a_changed_byte_is_refused_or_runs),
        cmocka_unit_test(a_file_that_is_cut_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
