/* test_weights.c - folders and .gguf files of one model give the same bits, and the numbers that
 * are written are the nearest of their type. Damaged files: test_damaged_models.c. */
#include "local-engine/gguf.h"
#include "local-engine/model.h"
#include "local-engine/quantize.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_written_as_gguf_gives_the_same_bits),
        cmocka_unit_test(blocks_compute_as_their_values_do),
        cmocka_unit_test(published_files_give_the_same_bits),
        cmocka_unit_test(blocks_are_within_half_a_step),
        cmocka_unit_test(every_float16_comes_back),
        cmocka_unit_test(float16_is_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
