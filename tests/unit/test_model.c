/* test_model.c - logits against the float64 reference, equal bits over batches, threads and
 * kernels, damaged folders refused. */
#include "local-engine/kvcache.h"
#include "local-engine/model.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define TOLERANCE 1e-4
#define IDS_MAX   64

/* Of make_logits.py and, in families/, of tests/reference/make_families.py */
static const char *const NAMES[] = {"stories260k",           "tiny-gpt2",
                                    "tiny-gpt2-bf16",        "tiny-llama-f16",
                                    "tiny-llama-bf16",       "families/gemma2",
                                    "families/gemma3",       "families/gemma3-images",
                                    "families/llama-linear", "families/llama-llama3",
                                    "families/mistral",      "families/llama-yarn",
                                    "families/phi3",         "families/phi3-longrope",
                                    "families/qwen2",        "families/qwen3"};
enum { N_NAMES = sizeof NAMES / sizeof NAMES[0] };

struct fixture {
    struct model *m;
    int32_t n_vocab;
    json_t *want; /* logits.json */
    int32_t ids[IDS_MAX];
    size_t n_ids;
    float *alone; /* [n_ids][n_vocab]: one batch, one thread, best kernels */
};

static void say(const struct engine_error *err)
{
    print_error("%s\n", err->text);
}

#define ok(call)                                                                                   \
    do {                                                                                           \
        struct engine_error err = {0};                                                             \
        if (!(call)) {                                                                             \
            say(&err);                                                                             \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

static struct kvcache *new_cache(const struct model *m, int32_t n)
{
    struct kvcache *c = NULL;
    ok(kvcache_new(&c, m, n, &err));
    return c;
}

static struct model_worker *new_worker(const struct model *m, int32_t n_rows, int n_threads)
{
    struct model_worker *w = NULL;
    ok(model_worker_new(&w, m, n_rows, n_threads, &err));
    return w;
}

/* All ids of the fixture through worker w in parts of `step` rows. */
static void run_parts(const struct fixture *f, struct model_worker *w, size_t step, float *logits)
{
    struct kvcache *c = new_cache(f->m, IDS_MAX);
    struct model_row row[IDS_MAX];
    for (size_t at = 0; at < f->n_ids; at += step) {
        size_t n = 0;
        for (; n < step && at + n < f->n_ids; n++) {
            row[n] = (struct model_row){c, f->ids[at + n], logits + (at + n) * (size_t)f->n_vocab};
        }
        ok(model_forward(w, row, n, &err));
    }
    assert_int_equal(kvcache_len(c), f->n_ids);
    kvcache_free(c);
}

static float *new_logits(const struct fixture *f, size_t n)
{
    float *p = calloc(n * (size_t)f->n_vocab, sizeof *p);
    assert_non_null(p);
    return p;
}

static void fixture_open(struct fixture *f, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "tests/vectors/%s", name);
    memset(f, 0, sizeof *f);
    ok(model_open(&f->m, path, &err));
    f->n_vocab = model_get_shape(f->m)->n_vocab;
    (void)snprintf(path, sizeof path, "tests/vectors/%s/logits.json", name);
    f->want = json_load_file(path, 0, NULL);
    const json_t *ids = json_object_get(f->want, "ids");
    f->n_ids = json_array_size(ids);
    assert_in_range(f->n_ids, 1, IDS_MAX);
    for (size_t i = 0; i < f->n_ids; i++) {
        f->ids[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    }
    struct model_worker *w = new_worker(f->m, IDS_MAX, 1);
    f->alone = new_logits(f, f->n_ids);
    run_parts(f, w, f->n_ids, f->alone);
    model_worker_free(w);
}

static void fixture_close(struct fixture *f)
{
    model_close(f->m);
    json_decref(f->want);
    free(f->alone);
}

static void assert_same_bits(const struct fixture *f, const float *logits)
{
    assert_memory_equal(logits, f->alone, f->n_ids * (size_t)f->n_vocab * sizeof *logits);
}

static void each_model(void (*test)(struct fixture *))
{
    for (size_t i = 0; i < N_NAMES; i++) {
        struct fixture f;
        fixture_open(&f, NAMES[i]);
        test(&f);
        fixture_close(&f);
    }
}

/* ---------------------------------------------------------------- against the reference */

static void check_reference(struct fixture *f)
{
    double worst = 0.0;
    size_t i, n;
    const json_t *row, *x;
    json_array_foreach (json_object_get(f->want, "rows"), i, row) {
        size_t position = (size_t)json_integer_value(json_object_get(row, "position"));
        const json_t *logits = json_object_get(row, "logits");
        assert_int_equal(json_array_size(logits), f->n_vocab);
        json_array_foreach (logits, n, x) {
            double want = json_number_value(x);
            double d = fabs(want - (double)f->alone[position * (size_t)f->n_vocab + n]);
            worst = d > worst || isnan(d) ? d : worst;
        }
    }
    print_message("%s %s: largest difference %.2g\n", model_get_shape(f->m)->family,
                  model_get_shape(f->m)->dtype, worst);
    assert_true(worst <= TOLERANCE);
}

static void logits_are_those_of_the_reference(void **state)
{
    (void)state;
    each_model(check_reference);
}

static int32_t largest(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        best = x[i] > x[best] ? i : best;
    }
    return best;
}

static void check_greedy(struct fixture *f)
{
    const json_t *greedy = json_object_get(f->want, "greedy");
    size_t n_prompt = (size_t)json_integer_value(json_object_get(f->want, "n_prompt"));
    struct model_worker *w = new_worker(f->m, 8, 1);
    struct kvcache *c = new_cache(f->m, IDS_MAX);
    float *logits = new_logits(f, 1);
    for (size_t i = 0; i < n_prompt; i++) {
        struct model_row row = {c, f->ids[i], i + 1 == n_prompt ? logits : NULL};
        ok(model_forward(w, &row, 1, &err));
    }
    for (size_t i = 0; i < json_array_size(greedy); i++) {
        struct model_row row = {c, largest(logits, f->n_vocab), logits};
        assert_int_equal(row.token, json_integer_value(json_array_get(greedy, i)));
        ok(model_forward(w, &row, 1, &err));
    }
    free(logits);
    kvcache_free(c);
    model_worker_free(w);
}

static void greedy_continuation_is_that_of_the_reference(void **state)
{
    (void)state;
    each_model(check_greedy);
}

/* ---------------------------------------------------------------- equal bits */

static void check_parts(struct fixture *f)
{
    static const size_t steps[] = {1, 2, 3, 7, 16};
    float *logits = new_logits(f, f->n_ids);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct model_worker *w = new_worker(f->m, 16, 1);
        run_parts(f, w, steps[i], logits);
        assert_same_bits(f, logits);
        model_worker_free(w);
    }
    /* a batch of more rows than the worker takes at once */
    struct model_worker *w = new_worker(f->m, 5, 1);
    run_parts(f, w, f->n_ids, logits);
    assert_same_bits(f, logits);
    model_worker_free(w);
    free(logits);
}

static void bits_do_not_depend_on_parts(void **state)
{
    (void)state;
    each_model(check_parts);
}

static void check_threads(struct fixture *f)
{
    float *logits = new_logits(f, f->n_ids);
    for (int n = 2; n <= 3; n++) {
        struct model_worker *w = new_worker(f->m, IDS_MAX, n);
        run_parts(f, w, f->n_ids, logits);
        assert_same_bits(f, logits);
        run_parts(f, w, 6, logits);
        assert_same_bits(f, logits);
        model_worker_free(w);
    }
    free(logits);
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    each_model(check_threads);
}

static void check_kernels(struct fixture *f)
{
    struct model_worker *w = new_worker(f->m, 16, 1);
    float *logits = new_logits(f, f->n_ids);
    assert_true(model_worker_set_kernels(w, "ref"));
    assert_string_equal(model_worker_kernels(w), "ref");
    run_parts(f, w, 9, logits);
    assert_same_bits(f, logits);
    assert_false(model_worker_set_kernels(w, "none"));
    free(logits);
    model_worker_free(w);
}

static void bits_do_not_depend_on_kernels(void **state)
{
    (void)state;
    each_model(check_kernels);
}

/* Three sequences of the same ids, started at different times, in mixed batches. */
static void check_neighbours(struct fixture *f)
{
    struct model_worker *w = new_worker(f->m, 16, 2);
    struct kvcache *c[3];
    float *logits[3];
    for (size_t s = 0; s < 3; s++) {
        c[s] = new_cache(f->m, IDS_MAX);
        logits[s] = new_logits(f, f->n_ids);
    }
    for (size_t round = 0; (size_t)kvcache_len(c[2]) < f->n_ids; round++) {
        struct model_row row[16];
        size_t n = 0;
        for (size_t turn = 0; turn < 6; turn++) {
            size_t s = (turn + round) % 3, at = (size_t)kvcache_len(c[s]);
            for (size_t i = 0; i < n; i++) {
                at += row[i].cache == c[s];
            }
            if (at < f->n_ids && round >= 2 * s) {
                row[n++] =
                    (struct model_row){c[s], f->ids[at], logits[s] + at * (size_t)f->n_vocab};
            }
        }
        ok(model_forward(w, row, n, &err));
    }
    for (size_t s = 0; s < 3; s++) {
        assert_same_bits(f, logits[s]);
        kvcache_free(c[s]);
        free(logits[s]);
    }
    model_worker_free(w);
}

static void bits_do_not_depend_on_neighbours(void **state)
{
    (void)state;
    each_model(check_neighbours);
}

static void check_cache(struct fixture *f)
{
    size_t n_vocab = (size_t)f->n_vocab;
    struct model_worker *w = new_worker(f->m, 16, 1);
    struct kvcache *a, *b;
    struct kvaccount account = {0};
    float *logits = new_logits(f, 1);
    ok(kvpool_new(&account.pool, kvcache_block_bytes(f->m, KERNELS_F32), 2, &err));
    assert_true(kvpool_promise(&account, 2));
    ok(kvcache_new_of(&a, f->m, KERNELS_F32, &account, 32, &err));
    ok(kvcache_new_of(&b, f->m, KERNELS_F32, &account, 32, &err));
    for (size_t i = 0; i < 20; i++) {
        struct model_row row = {a, f->ids[i], NULL};
        ok(model_forward(w, &row, 1, &err));
    }
    kvcache_share(b, a, 12);
    kvcache_truncate(a, 15);
    assert_int_equal(kvcache_len(a), 15);
    assert_int_equal(kvcache_len(b), 12);
    struct model_row rows[] = {{b, f->ids[12], NULL}, {a, f->ids[15], logits}};
    ok(model_forward(w, rows, 2, &err));
    assert_memory_equal(logits, f->alone + 15 * n_vocab, n_vocab * sizeof *logits);
    struct model_row next = {b, f->ids[13], logits};
    ok(model_forward(w, &next, 1, &err));
    assert_memory_equal(logits, f->alone + 13 * n_vocab, n_vocab * sizeof *logits);
    free(logits);
    kvcache_free(a);
    kvcache_free(b);
    kvpool_forgo(&account, 2);
    kvpool_free(account.pool);
    model_worker_free(w);
}

static void copies_and_cut_sequences_go_on_with_the_same_bits(void **state)
{
    (void)state;
    each_model(check_cache);
}

static void bad_rows_change_nothing(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "tiny-gpt2");
    struct model_worker *w = new_worker(f.m, 4, 1);
    struct kvcache *c = new_cache(f.m, 3), *too_long = NULL;
    struct engine_error full = {0}, outside = {0};
    struct model_row rows[] = {{c, 1, NULL}, {c, 2, NULL}, {c, 3, NULL}, {c, 4, NULL}};
    assert_false(model_forward(w, rows, 4, &full));
    assert_int_equal(full.code, ENGINE_CONTEXT_FULL);
    rows[1].token = 128;
    assert_false(model_forward(w, rows, 2, &outside));
    assert_int_equal(outside.code, ENGINE_BAD_PARAM);
    rows[1].token = -1;
    assert_false(model_forward(w, rows, 2, NULL));
    assert_int_equal(kvcache_len(c), 0);
    rows[1].token = 2;
    ok(model_forward(w, rows, 3, &err));
    assert_int_equal(kvcache_len(c), 3);
    assert_false(kvcache_new(&too_long, f.m, 65, NULL));
    kvcache_free(c);
    model_worker_free(w);
    fixture_close(&f);
}

/* ---------------------------------------------------------------- what a folder says */

static void shape_and_hash_are_told(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "stories260k");
    const struct model_shape *s = model_get_shape(f.m);
    assert_string_equal(s->family, "llama");
    assert_string_equal(s->dtype, "F32");
    assert_int_equal(s->n_params, 260032);
    assert_int_equal(s->head_dim, 8);
    assert_int_equal(s->n_kv_heads, 4);
    assert_int_equal(s->context, 512);
    /* of sha256sum */
    assert_string_equal(model_hash(f.m),
                        "7fe20d74ed0c9325c818c61ad972080a09b1d862dea4d4868f25afdff0ac6f98");
    fixture_close(&f);
}

static void copy_file(const char *from, const char *to, size_t n_max)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    for (int c = getc(in); c != EOF && n_max > 0; c = getc(in), n_max--) {
        (void)putc(c, out);
    }
    (void)fclose(in);
    (void)fclose(out);
}

/* A copy of a tiny model with one config field replaced (or removed: value NULL) and the weights
 * cut to n_max bytes. */
static void expect_refused(const char *name, const char *field, const char *value, size_t n_max,
                           const char *text)
{
    char folder[] = "/tmp/isotherm-test-XXXXXX", from[128], config[128], weights[128];
    struct engine_error err = {0};
    struct model *m = NULL;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(config, sizeof config, "%s/config.json", folder);
    (void)snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
    (void)snprintf(from, sizeof from, "tests/vectors/%s/config.json", name);
    json_t *j = json_load_file(from, 0, NULL);
    assert_non_null(j);
    if (field && value) {
        assert_int_equal(json_object_set_new(j, field, json_loads(value, JSON_DECODE_ANY, NULL)),
                         0);
    } else if (field) {
        (void)json_object_del(j, field);
    }
    assert_int_equal(json_dump_file(j, config, 0), 0);
    json_decref(j);
    (void)snprintf(from, sizeof from, "tests/vectors/%s/model.safetensors", name);
    copy_file(from, weights, n_max);
    bool opened = model_open(&m, folder, &err);
    (void)unlink(config);
    (void)unlink(weights);
    (void)rmdir(folder);
    assert_false(opened);
    if (!strstr(err.text, text)) {
        print_error("got '%s', '%s' expected\n", err.text, text);
        fail();
    }
}

static void damaged_configs_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model, *field, *value, *text;
    } cases[] = {
        {"tiny-llama-f16", "model_type", NULL, "'model_type' is missing"},
        {"tiny-llama-f16", "model_type", "\"mamba\"", "gemma3_text, gemma3 or phi3 expected"},
        {"tiny-llama-f16", "hidden_size", "33", "has shape [128, 32], [128, 33] expected"},
        {"tiny-llama-f16", "hidden_size", "1e3", "'hidden_size' must be a whole number"},
        {"tiny-llama-f16", "hidden_size", "100000", "'hidden_size' is 100000, 1 to 65536 expected"},
        {"tiny-llama-f16", "vocab_size", NULL, "'vocab_size' is missing"},
        {"tiny-llama-f16", "num_hidden_layers", "0",
         "'num_hidden_layers' is 0, 1 to 1024 expected"},
        {"tiny-llama-f16", "num_hidden_layers", "3",
         "tensor 'model.layers.2.input_layernorm.weight' is missing"},
        {"tiny-llama-f16", "num_hidden_layers", "1", "is no part of a llama model"},
        {"tiny-llama-f16", "num_key_value_heads", "3", "does not divide"},
        {"tiny-llama-f16", "head_dim", "9", "rotary positions need an even number"},
        {"tiny-llama-f16", "head_dim", "12", "has shape [40, 32], [48, 32] expected"},
        {"tiny-llama-f16", "hidden_act", "\"gelu\"", "only 'silu' is supported"},
        {"tiny-llama-f16", "rope_scaling", "{\"type\":\"linear\"}",
         "'rope_scaling.factor' is missing"},
        {"tiny-llama-f16", "rope_theta", "0", "'rope_theta' is 0"},
        {"tiny-llama-f16", "rms_norm_eps", "\"x\"", "'rms_norm_eps' must be a number"},
        {"tiny-llama-f16", "max_position_embeddings", "10000001",
         "'max_position_embeddings' is 10000001"},
        {"tiny-llama-f16", "attention_bias", "false", "is no part of a llama model"},
        {"tiny-llama-f16", "mlp_bias", "1", "must be true or false"},
        {"tiny-llama-f16", "quantization_config", "{}", "'quantization_config' is set"},
        {"tiny-gpt2", "n_positions", "65",
         "'transformer.wpe.weight' has shape [64, 32], [65, 32] expected"},
        {"tiny-gpt2", "n_head", "5", "'n_head' 5 does not divide 'n_embd' 32"},
        {"tiny-gpt2", "activation_function", "\"relu\"", "only 'gelu_new' is supported"},
        {"tiny-gpt2", "scale_attn_by_inverse_layer_idx", "true", "is true, which is not supported"},
        {"tiny-gpt2", "n_inner", "64", "has shape [32, 128], [32, 64] expected"},
        {"tiny-gpt2", "tie_word_embeddings", "false", "tensor 'lm_head.weight' is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_refused(cases[i].model, cases[i].field, cases[i].value, SIZE_MAX, cases[i].text);
    }
}

static void truncated_weights_are_refused(void **state)
{
    (void)state;
    expect_refused("tiny-gpt2", NULL, NULL, 0, "are no safetensors file");
    expect_refused("tiny-gpt2", NULL, NULL, 7, "are no safetensors file");
    expect_refused("tiny-gpt2", NULL, NULL, 100, "does not fit the file");
    expect_refused("tiny-gpt2", NULL, NULL, 20000, "data_offsets");
    expect_refused("tiny-gpt2", NULL, NULL, 137879, "data_offsets");
    struct model *m = NULL;
    struct engine_error err = {0};
    assert_false(model_open(&m, "tests/vectors/none", &err));
    assert_int_equal(err.code, ENGINE_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_the_reference),
        cmocka_unit_test(greedy_continuation_is_that_of_the_reference),
        cmocka_unit_test(bits_do_not_depend_on_parts),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(bits_do_not_depend_on_kernels),
        cmocka_unit_test(bits_do_not_depend_on_neighbours),
        cmocka_unit_test(copies_and_cut_sequences_go_on_with_the_same_bits),
        cmocka_unit_test(bad_rows_change_nothing),
        cmocka_unit_test(shape_and_hash_are_told),
        cmocka_unit_test(damaged_configs_are_refused),
        cmocka_unit_test(truncated_weights_are_refused),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
