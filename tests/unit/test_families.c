/* test_families.c - what config.json may say of a family: other words for the same give the same
 * bits, what is not computed is refused by name, hostile values cost nothing. The arithmetic itself
 * is in test_model.c. */
#include "local-engine/model.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define N_IDS 40

/* The model tests/vectors/families/NAME with fields of its config.json replaced by those of the
 * object `changes` (null: removed, "null": null). */
static bool open_changed(struct model **out, const char *name, const char *changes,
                         struct engine_error *err)
{
    char folder[] = "/tmp/isotherm-test-XXXXXX", from[160], config[64], weights[64], target[512];
    char here[256];
    const char *field;
    json_t *value, *change = json_loads(changes, 0, NULL);
    assert_non_null(change);
    assert_non_null(mkdtemp(folder));
    assert_non_null(getcwd(here, sizeof here));
    (void)snprintf(from, sizeof from, "tests/vectors/families/%s/config.json", name);
    (void)snprintf(config, sizeof config, "%s/config.json", folder);
    (void)snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
    (void)snprintf(target, sizeof target, "%s/tests/vectors/families/%s/model.safetensors", here,
                   name);
    json_t *j = json_load_file(from, 0, NULL);
    assert_non_null(j);
    json_object_foreach (change, field, value) {
        if (json_is_null(value)) {
            (void)json_object_del(j, field);
        } else if (json_is_string(value) && strcmp(json_string_value(value), "null") == 0) {
            assert_int_equal(json_object_set_new(j, field, json_null()), 0);
        } else {
            assert_int_equal(json_object_set(j, field, value), 0);
        }
    }
    assert_int_equal(json_dump_file(j, config, 0), 0);
    assert_int_equal(symlink(target, weights), 0);
    bool ok = model_open(out, folder, err);
    (void)unlink(config);
    (void)unlink(weights);
    (void)rmdir(folder);
    json_decref(j);
    json_decref(change);
    return ok;
}

static struct model *open_good(const char *name, const char *changes)
{
    struct engine_error err = {0};
    struct model *m = NULL;
    if (!open_changed(&m, name, changes, &err)) {
        print_error("%s %s: %s\n", name, changes, err.text);
        fail();
    }
    return m;
}

/* Logits of N_IDS fixed tokens: [N_IDS][n_vocab] */
static float *run(const struct model *m)
{
    struct engine_error err = {0};
    size_t n_vocab = (size_t)model_get_shape(m)->n_vocab;
    struct model_worker *w = NULL;
    struct kvcache *c = NULL;
    struct model_row row[N_IDS];
    float *logits = calloc(N_IDS * n_vocab, sizeof *logits);
    assert_true(logits && model_worker_new(&w, m, N_IDS, 1, &err) &&
                kvcache_new(&c, m, N_IDS, &err));
    for (size_t i = 0; i < N_IDS; i++) {
        row[i] = (struct model_row){c, (int32_t)(i * 7 % n_vocab), logits + i * n_vocab};
    }
    assert_true(model_forward(w, row, N_IDS, &err));
    kvcache_free(c);
    model_worker_free(w);
    return logits;
}

/* Whether the model gives the same bits with these changes and with those. */
static bool is_alike(const char *name, const char *these, const char *those)
{
    struct model *a = open_good(name, these), *b = open_good(name, those);
    size_t n = N_IDS * (size_t)model_get_shape(a)->n_vocab;
    float *x = run(a), *y = run(b);
    bool same = memcmp(x, y, n * sizeof *x) == 0;
    free(x);
    free(y);
    model_close(a);
    model_close(b);
    return same;
}

static bool is_same(const char *name, const char *changes)
{
    return is_alike(name, "{}", changes);
}

static void other_words_for_the_same_give_the_same_bits(void **state)
{
    (void)state;
    static const struct {
        const char *name, *changes;
    } cases[] = {
        /* newer files keep theta and scaling in rope_parameters, by the kind of layer where kinds
         * differ */
        {"gemma3", "{\"rope_theta\": null, \"rope_scaling\": null, \"rope_local_base_freq\": null,"
                   " \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\","
                   " \"factor\": 8.0, \"rope_theta\": 500.0}, \"sliding_attention\":"
                   " {\"rope_type\": \"default\", \"rope_theta\": 50.0}}}"},
        {"llama-linear", "{\"rope_theta\": null, \"rope_scaling\": null, \"rope_parameters\":"
                         " {\"rope_type\": \"linear\", \"factor\": 4, \"rope_theta\": 500}}"},
        {"llama-linear",
         "{\"rope_scaling\": {\"rope_type\": \"factors\", \"factors\": [4, 4, 4]}}"},
        {"llama-yarn", "{\"rope_parameters\": null, \"rope_theta\": 500, \"rope_scaling\":"
                       " {\"type\": \"yarn\", \"factor\": 4, \"beta_fast\": 4, \"beta_slow\": 0.5,"
                       " \"original_max_position_embeddings\": 16, \"mscale\": null}}"},
        {"phi3-longrope", "{\"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1.0, 1.5, 2.5],"
                          " \"long_factor\": [1.0, 4.0, 9.0]}}"},
        /* of a field that is there twice, the one that transformers 5 reads */
        {"llama-llama3",
         "{\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, \"rope_theta\": 9}}"},
        {"llama-yarn", "{\"original_max_position_embeddings\": 16, \"rope_parameters\":"
                       " {\"rope_type\": \"yarn\", \"rope_theta\": 500, \"factor\": 4,"
                       " \"beta_fast\": 4, \"beta_slow\": 0.5,"
                       " \"original_max_position_embeddings\": 3}}"},
        {"phi3-longrope",
         "{\"max_position_embeddings\": 4096, \"rope_scaling\": {\"type\": \"longrope\","
         " \"factor\": 8, \"short_factor\": [1.0, 1.5, 2.5]}}"},
        {"gemma3", "{\"attn_logit_softcapping\": 1.5}"},
        /* the kind of each layer, as a pattern or one by one */
        {"gemma3", "{\"sliding_window_pattern\": null, \"layer_types\": [\"sliding_attention\","
                   " \"sliding_attention\", \"full_attention\", \"sliding_attention\"]}"},
        {"gemma2", "{\"layer_types\": [\"sliding_attention\", \"full_attention\","
                   " \"sliding_attention\", \"full_attention\"]}"},
        {"qwen2", "{\"layer_types\": [\"full_attention\", \"full_attention\","
                  " \"sliding_attention\", \"sliding_attention\"]}"},
        /* what a family takes as given */
        {"gemma2", "{\"tie_word_embeddings\": null, \"hidden_activation\": null}"},
        {"qwen3", "{\"use_sliding_window\": null, \"attention_bias\": null,"
                  " \"max_window_layers\": 0, \"sliding_window\": 2}"},
        {"mistral", "{\"rms_norm_eps\": null, \"attention_dropout\": 0.1}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (!is_same(cases[i].name, cases[i].changes)) {
            print_error("%s %s: other bits\n", cases[i].name, cases[i].changes);
            fail();
        }
    }
}

static void absent_fields_have_the_values_of_their_class(void **state)
{
    (void)state;
    static const struct {
        const char *name, *field, *value;
    } absent[] = {
        {"gemma2", "attn_logit_softcapping", "50"}, {"gemma2", "final_logit_softcapping", "30"},
        {"gemma2", "query_pre_attn_scalar", "256"}, {"gemma2", "rope_theta", "10000"},
        {"gemma3", "rope_theta", "1000000"},        {"gemma3", "rope_local_base_freq", "10000"},
        {"gemma3", "sliding_window_pattern", "6"},  {"mistral", "sliding_window", "4096"},
        {"mistral", "rope_theta", "10000"},         {"qwen2", "max_window_layers", "28"},
        {"phi3", "partial_rotary_factor", "1"},     {"phi3", "sliding_window", "\"null\""},
        {"phi3", "rms_norm_eps", "1e-5"},           {"qwen3", "rms_norm_eps", "1e-6"}};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        char without[80], with[80];
        (void)snprintf(without, sizeof without, "{\"%s\": null}", absent[i].field);
        (void)snprintf(with, sizeof with, "{\"%s\": %s}", absent[i].field, absent[i].value);
        if (!is_alike(absent[i].name, without, with)) {
            print_error("%s without %s: other bits\n", absent[i].name, absent[i].field);
            fail();
        }
    }
}

static void dynamic_scaling_changes_nothing_within_the_context(void **state)
{
    (void)state;
    assert_true(is_alike("llama-linear", "{\"rope_scaling\": null}",
                         "{\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 8.0}}"));
}

static void null_is_none_where_absent_is_not(void **state)
{
    (void)state;
    static const char *const caps[] = {"attn_logit_softcapping", "final_logit_softcapping"};
    for (size_t i = 0; i < 2; i++) {
        char without[80], null[80];
        (void)snprintf(without, sizeof without, "{\"%s\": null}", caps[i]);
        (void)snprintf(null, sizeof null, "{\"%s\": \"null\"}", caps[i]);
        assert_false(is_alike("gemma2", without, null));
    }
    /* a window as long as the text is none, one that is shorter is seen */
    assert_true(is_alike("mistral", "{\"sliding_window\": \"null\"}", "{\"sliding_window\": 40}"));
    assert_false(is_alike("mistral", "{\"sliding_window\": \"null\"}", "{\"sliding_window\": 39}"));
}

static void contexts_are_those_the_scaling_is_made_for(void **state)
{
    (void)state;
    static const struct {
        const char *name, *changes;
        int32_t context;
    } cases[] = {
        {"llama-yarn", "{\"max_position_embeddings\": 16}", 64},
        {"llama-yarn", "{\"max_position_embeddings\": 100}", 100},
        {"llama-llama3", "{}", 64},
        {"llama-llama3", "{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4}}", 64},
        {"phi3-longrope", "{}", 64},
        {"phi3-longrope", "{\"original_max_position_embeddings\": 1000}", 512},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model *m = open_good(cases[i].name, cases[i].changes);
        assert_int_equal(model_get_shape(m)->context, cases[i].context);
        model_close(m);
    }
}

static const struct {
    const char *name, *changes, *text;
} REFUSED[] = {
    {"llama-linear", "{\"rope_scaling\": {\"type\": \"ntk\", \"factor\": 2}}",
     "'rope_scaling.rope_type' is 'ntk'"},
    {"llama-linear", "{\"rope_scaling\": {\"type\": \"dynamic\"}}",
     "'rope_scaling.factor' is missing"},
    {"llama-linear", "{\"rope_scaling\": {\"type\": \"a\\nb\", \"factor\": 2}}", "'a?b'"},
    {"llama-linear", "{\"rope_scaling\": {\"type\": 7}}", "is 'no text'"},
    {"llama-linear", "{\"rope_scaling\": 7}", "'rope_scaling' must be an object"},
    {"llama-linear", "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}}",
     "'rope_scaling.factor' is 0.5, 1 to 1e+06 expected"},
    {"llama-linear", "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": \"4\"}}",
     "'rope_scaling.factor' must be a number"},
    {"llama-linear", "{\"partial_rotary_factor\": 0.5}", "'partial_rotary_factor' is 0.5"},
    {"llama-linear", "{\"mlp_bias\": false}", "is no part of a llama model"},
    {"llama-linear", "{\"no_rope_layers\": [1]}", "'no_rope_layers' is set"},
    {"llama-linear", "{\"use_bidirectional_attention\": true}", "is true, which is not"},
    {"llama-llama3",
     "{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4,"
     " \"high_freq_factor\": 4, \"original_max_position_embeddings\": 16}}",
     "'rope_scaling.high_freq_factor' is 4, more than low_freq_factor 4 expected"},
    {"llama-llama3",
     "{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1,"
     " \"high_freq_factor\": 4}}",
     "'rope_scaling.original_max_position_embeddings' is missing"},
    {"llama-yarn",
     "{\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 1,"
     " \"factor\": 4}}",
     "yarn needs more"},
    {"phi3-longrope", "{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2]}}",
     "'rope_scaling.short_factor' must be a list of 3 numbers"},
    {"phi3-longrope",
     "{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2, \"3\"]}}",
     "'rope_scaling.short_factor' has 0 at 2"},
    {"phi3-longrope", "{\"partial_rotary_factor\": 0.01}", "need an even number"},
    {"phi3-longrope", "{\"partial_rotary_factor\": 0.4}", "need an even number"},
    {"phi3", "{\"intermediate_size\": 35}", "has shape [68, 24], [70, 24] expected"},
    {"phi3", "{\"attention_bias\": true}", "'attention_bias' is true"},
    {"phi3", "{\"sliding_window\": -1}", "'sliding_window' is -1"},
    {"phi3", "{\"model_type\": \"llama\"}", "q_proj.weight' is missing"},
    {"mistral", "{\"model_type\": \"qwen2\"}", "q_proj.bias' is missing"},
    {"mistral", "{\"model_type\": \"qwen3\"}", "q_norm.weight' is missing"},
    {"qwen2", "{\"model_type\": \"mistral\"}", "is no part of a mistral model"},
    {"qwen2", "{\"layer_types\": [\"full_attention\"]}", "one text for each of 4 layers"},
    {"qwen2",
     "{\"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\","
     " \"chunked_attention\"]}",
     "has 'chunked_attention' for layer 3"},
    {"qwen2",
     "{\"use_sliding_window\": false, \"layer_types\": [\"full_attention\","
     " \"full_attention\", \"full_attention\", \"sliding_attention\"]}",
     "sliding layer 3, but there is no 'sliding_window'"},
    {"qwen3", "{\"head_dim\": null}", "has shape [12], [128] expected"},
    {"qwen3",
     "{\"head_dim\": 65536, \"num_attention_heads\": 20,"
     " \"num_key_value_heads\": 20}",
     "times 'num_attention_heads' 20 is too large"},
    {"gemma2", "{\"hidden_activation\": \"gelu\"}", "only 'gelu_pytorch_tanh' is supported"},
    {"gemma2", "{\"final_logit_softcapping\": 0}", "'final_logit_softcapping' is 0"},
    {"gemma2", "{\"attn_logit_softcapping\": true}", "must be a number"},
    {"gemma2", "{\"query_pre_attn_scalar\": 0}", "'query_pre_attn_scalar' is 0"},
    {"gemma2", "{\"model_type\": \"gemma3_text\"}", "q_norm.weight' is missing"},
    {"gemma3", "{\"model_type\": \"gemma2\"}", "is no part of a gemma2 model"},
    {"gemma3", "{\"model_type\": \"gemma3\"}", "'text_config' must be an object"},
    {"gemma3", "{\"model_type\": \"gemma4\"}", "'model_type' is 'gemma4', gpt2"},
    {"gemma3-images", "{\"model_type\": \"gemma3_text\"}", "'num_hidden_layers' is missing"},
    {"gemma3", "{\"sliding_window_pattern\": 0}", "'sliding_window_pattern' is 0"},
    {"gemma3", "{\"num_hidden_layers\": 5}", "model.layers.4.input_layernorm.weight' is"},
    {"gemma3", "{\"num_hidden_layers\": 3}", "is no part of a gemma3_text model"},
};

static void what_is_not_computed_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        struct engine_error err = {0};
        struct model *m = NULL;
        if (open_changed(&m, REFUSED[i].name, REFUSED[i].changes, &err) ||
            !strstr(err.text, REFUSED[i].text) || strchr(err.text, '\n')) {
            print_error("%s %s: got '%s', '%s' expected\n", REFUSED[i].name, REFUSED[i].changes,
                        err.text, REFUSED[i].text);
            fail();
        }
        assert_int_equal(err.code, ENGINE_BAD_FILE);
    }
}

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long peak_kib(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

/* The largest of everything that config.json can say costs little before a tensor is looked at. */
static void the_largest_shapes_are_read_in_no_time(void **state)
{
    (void)state;
    static const char *const families[] = {"llama",  "mistral",     "qwen2", "qwen3",
                                           "gemma2", "gemma3_text", "phi3"};
    char text[1024];
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        struct engine_error err = {0};
        struct model_shape s = {0};
        (void)snprintf(text, sizeof text,
                       "{\"model_type\": \"%s\", \"vocab_size\": 2000000, \"hidden_size\": 65536, "
                       "\"num_hidden_layers\": 1024, \"intermediate_size\": 1048576, "
                       "\"num_attention_heads\": 16, \"num_key_value_heads\": 16, "
                       "\"head_dim\": 65536, \"max_position_embeddings\": 10000000, "
                       "\"rope_theta\": 1e12, \"sliding_window\": 10000000}",
                       families[i]);
        double start = now();
        long before = peak_kib();
        assert_true(model_read_config(text, strlen(text), &s, &err));
        assert_int_equal(s.head_dim, 65536);
        assert_true(now() - start < 1.0);
        assert_true(peak_kib() - before < 16 * 1024);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_words_for_the_same_give_the_same_bits),
        cmocka_unit_test(absent_fields_have_the_values_of_their_class),
        cmocka_unit_test(dynamic_scaling_changes_nothing_within_the_context),
        cmocka_unit_test(null_is_none_where_absent_is_not),
        cmocka_unit_test(contexts_are_those_the_scaling_is_made_for),
        cmocka_unit_test(what_is_not_computed_is_refused),
        cmocka_unit_test(the_largest_shapes_are_read_in_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
