/* weights_gguf_config.c - a .gguf file's metadata in the words of config.json. What the format
 * leaves to the reader's knowledge of the model (the scale of Gemma's attention, which of its
 * layers are local) is what the published config.json files of those models say.
 */
#include "weights_private.h"

#include <stdio.h>
#include <string.h>

struct making {
    const struct gguf *g;
    char arch[32];
    json_t *config;
    struct engine_error *err;
};

/* ---------------------------------------------------------------- fields of one value */

static const struct weights_field FIELDS[] = {
    {"embedding_length", "hidden_size", false, true, false},
    {"feed_forward_length", "intermediate_size", false, true, false},
    {"block_count", "num_hidden_layers", false, true, false},
    {"attention.head_count", "num_attention_heads", false, true, false},
    {"attention.head_count_kv", "num_key_value_heads", false, false, false},
    {"attention.key_length", "head_dim", false, false, false},
    {"context_length", "max_position_embeddings", false, true, false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true, true, false},
    {"rope.freq_base", "rope_theta", true, false, false},
    {"rope.freq_base_swa", "rope_local_base_freq", true, false, false},
    {"attention.sliding_window", "sliding_window", false, false, false},
    {"attn_logit_softcapping", "attn_logit_softcapping", true, false, false},
    {"final_logit_softcapping", "final_logit_softcapping", true, false, false},
    {"embedding_length", "n_embd", false, true, true},
    {"feed_forward_length", "n_inner", false, true, true},
    {"block_count", "n_layer", false, true, true},
    {"attention.head_count", "n_head", false, true, true},
    {"context_length", "n_positions", false, true, true},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", true, true, true},
};

const struct weights_field *weights_gguf_fields(size_t *n)
{
    *n = sizeof FIELDS / sizeof FIELDS[0];
    return FIELDS;
}

static bool put(struct making *m, json_t *object, const char *word, json_t *value)
{
    return json_object_set_new(object, word, value) == 0 ||
           engine_fail(m->err, ENGINE_NOMEM, "", "%s: out of memory", gguf_label(m->g));
}

static const char *key_of(const struct making *m, const char *key, char *buf, size_t n_buf)
{
    (void)snprintf(buf, n_buf, "%s.%s", m->arch, key);
    return buf;
}

static bool get_int(struct making *m, const char *key, int64_t fallback, int64_t *out)
{
    char full[GGUF_NAME_MAX];
    return gguf_get_int(m->g, key_of(m, key, full, sizeof full), 0, INT32_MAX, fallback, out,
                        m->err);
}

static bool get_real(struct making *m, const char *key, double fallback, double *out)
{
    char full[GGUF_NAME_MAX];
    return gguf_get_real(m->g, key_of(m, key, full, sizeof full), fallback, out, m->err);
}

static bool has(const struct making *m, const char *key)
{
    char full[GGUF_NAME_MAX];
    return gguf_has(m->g, key_of(m, key, full, sizeof full));
}

static bool put_field(struct making *m, const struct weights_field *f)
{
    int64_t n = 0;
    double x = 0.0;
    if (!has(m, f->key)) {
        return !f->is_required ||
               engine_fail(m->err, ENGINE_BAD_FILE, "", "%s: key '%s.%s' is missing",
                           gguf_label(m->g), m->arch, f->key);
    }
    if (!f->is_real) {
        return get_int(m, f->key, GGUF_REQUIRED, &n) && put(m, m->config, f->word, json_integer(n));
    }
    return get_real(m, f->key, 0.0, &x) && put(m, m->config, f->word, json_real(x));
}

static bool put_fields(struct making *m)
{
    bool is_gpt2 = strcmp(m->arch, "gpt2") == 0;
    for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0]; i++) {
        if (FIELDS[i].is_gpt2 == is_gpt2 && !put_field(m, &FIELDS[i])) {
            return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- rotary positions */

bool weights_gguf_is_config(const char *name)
{
    return strcmp(name, "rope_freqs.weight") == 0 ||
           strcmp(name, "rope_factors_long.weight") == 0 ||
           strcmp(name, "rope_factors_short.weight") == 0;
}

/* A vector of float32 as a list of numbers. */
static bool put_factors(struct making *m, json_t *scaling, const char *word, const char *tensor)
{
    const struct gguf_tensor *t = gguf_find(m->g, tensor);
    if (!t) {
        return true;
    }
    if (t->n_dims != 1 || strcmp(t->type_name, "F32") != 0 || t->dim[0] > 65536) {
        return engine_fail(m->err, ENGINE_BAD_FILE, "",
                           "%s: tensor '%s' is no vector of at most 65536 F32 numbers",
                           gguf_label(m->g), tensor);
    }
    json_t *list = json_array();
    bool ok = list != NULL;
    for (int64_t i = 0; ok && i < t->dim[0]; i++) {
        float x;
        memcpy(&x, t->data + 4 * i, sizeof x);
        if (!(x > 0.0f && x <= 1e30f)) {
            json_decref(list);
            return engine_fail(m->err, ENGINE_BAD_FILE, "",
                               "%s: tensor '%s' holds a factor that is not above 0",
                               gguf_label(m->g), tensor);
        }
        ok = json_array_append_new(list, json_real((double)x)) == 0;
    }
    return put(m, scaling, word, list);
}

static bool check_neutral(struct making *m, const char *key, double neutral)
{
    double x = neutral;
    return get_real(m, key, neutral, &x) &&
           (x == neutral || engine_fail(m->err, ENGINE_BAD_FILE, "",
                                        "%s: key '%s.%s' is %g, which is not supported",
                                        gguf_label(m->g), m->arch, key, x));
}

/* Keys that change the arithmetic and have no word in config.json must be neutral. */
static bool check_all_neutral(struct making *m)
{
    static const struct {
        const char *key;
        double neutral;
    } KEYS[] = {{"rope.scaling.yarn_ext_factor", 1.0},
                {"rope.scaling.yarn_attn_factor", 1.0},
                {"rope.scaling.yarn_log_multiplier", 0.0},
                {"rope.scale_linear", 1.0},
                {"expert_count", 0.0},
                {"attention.scale", 0.0},
                {"attention.max_alibi_bias", 0.0},
                {"attention.clamp_kqv", 0.0}};
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
        if (!check_neutral(m, KEYS[i].key, KEYS[i].neutral)) {
            return false;
        }
    }
    return true;
}

static bool put_yarn(struct making *m, json_t *scaling)
{
    static const char *const WORDS[][2] = {{"rope.scaling.yarn_beta_fast", "beta_fast"},
                                           {"rope.scaling.yarn_beta_slow", "beta_slow"}};
    for (size_t i = 0; i < 2; i++) {
        double x = 0.0;
        if (has(m, WORDS[i][0]) &&
            (!get_real(m, WORDS[i][0], 0.0, &x) || !put(m, scaling, WORDS[i][1], json_real(x)))) {
            return false;
        }
    }
    return true;
}

/* What rotated elements are multiplied with: LongRoPE's files say it in place of the formula. */
static bool put_gain(struct making *m, json_t *scaling, const char *type)
{
    static const char *const key = "rope.scaling.attn_factor";
    double x = 0.0;
    if (strcmp(type, "longrope") != 0) {
        return check_neutral(m, key, 1.0);
    }
    return !has(m, key) ||
           (get_real(m, key, 0.0, &x) && put(m, scaling, "attention_factor", json_real(x)));
}

static bool put_scaling_numbers(struct making *m, json_t *scaling)
{
    int64_t original = 0;
    double factor = 0.0;
    if (!get_real(m, "rope.scaling.factor", 0.0, &factor) ||
        !get_int(m, "rope.scaling.original_context_length", 0, &original)) {
        return false;
    }
    /* 0 is how converters say 'none' */
    return (factor == 0.0 || put(m, scaling, "factor", json_real(factor))) &&
           (original == 0 ||
            (put(m, scaling, "original_max_position_embeddings", json_integer(original)) &&
             put(m, m->config, "original_max_position_embeddings", json_integer(original)))) &&
           put_yarn(m, scaling);
}

static bool put_scaling_type(struct making *m, const char *type)
{
    json_t *scaling = json_object();
    bool ok = scaling && put(m, scaling, "rope_type", json_string(type)) &&
              put_scaling_numbers(m, scaling) && put_gain(m, scaling, type) &&
              put_factors(m, scaling, "factors", "rope_freqs.weight") &&
              put_factors(m, scaling, "long_factor", "rope_factors_long.weight") &&
              put_factors(m, scaling, "short_factor", "rope_factors_short.weight");
    if (!ok) {
        json_decref(scaling);
        return engine_fail(m->err, ENGINE_NOMEM, "", "%s: out of memory", gguf_label(m->g));
    }
    return put(m, m->config, "rope_scaling", scaling);
}

static bool put_scaling(struct making *m)
{
    char key[GGUF_NAME_MAX], type[24] = "none";
    struct gguf_string s = {"", 0, false};
    double factor = 0.0;
    if (!gguf_get_string(m->g, key_of(m, "rope.scaling.type", key, sizeof key), &s, m->err) ||
        !get_real(m, "rope.scaling.factor", 0.0, &factor)) {
        return false;
    }
    if (s.is_there) {
        (void)snprintf(type, sizeof type, "%.*s", (int)(s.len < sizeof type ? s.len : 0), s.text);
    } else if (factor != 0.0 && factor != 1.0) {
        (void)snprintf(type, sizeof type, "linear"); /* what a factor alone means */
    }
    if (gguf_find(m->g, "rope_factors_long.weight")) {
        (void)snprintf(type, sizeof type, "longrope");
    } else if (gguf_find(m->g, "rope_freqs.weight")) {
        if (strcmp(type, "none") != 0) {
            return engine_fail(m->err, ENGINE_BAD_FILE, "",
                               "%s: key '%s' beside tensor 'rope_freqs.weight' is not supported",
                               gguf_label(m->g), key);
        }
        (void)snprintf(type, sizeof type, "factors");
    }
    for (const char *c = type; *c || c == type; c++) {
        if (*c < 'a' || *c > 'z') {
            return engine_fail(m->err, ENGINE_BAD_FILE, "", "%s: key '%s' names no known scaling",
                               gguf_label(m->g), key);
        }
    }
    return strcmp(type, "none") == 0 ? put_gain(m, NULL, type) : put_scaling_type(m, type);
}

/* ---------------------------------------------------------------- heads, vocabulary, flags */

static bool put_heads(struct making *m)
{
    int64_t key = 0, value = 0, heads = 0, dim = 0, rotated = 0;
    if (!get_int(m, "attention.key_length", 0, &key) ||
        !get_int(m, "attention.value_length", key, &value) ||
        !get_int(m, "attention.head_count", 0, &heads) ||
        !get_int(m, "embedding_length", 0, &dim)) {
        return false;
    }
    if (key != value) {
        return engine_fail(m->err, ENGINE_BAD_FILE, "",
                           "%s: key '%s.attention.value_length' is %lld, %lld expected as for keys",
                           gguf_label(m->g), m->arch, (long long)value, (long long)key);
    }
    int64_t head_dim = key > 0 ? key : heads > 0 ? dim / heads : 0;
    if (!get_int(m, "rope.dimension_count", head_dim, &rotated)) {
        return false;
    }
    return rotated == head_dim || head_dim == 0 ||
           put(m, m->config, "partial_rotary_factor",
               json_real((double)rotated / (double)head_dim));
}

static bool put_vocabulary(struct making *m)
{
    struct gguf_array tokens;
    const struct gguf_tensor *t = gguf_find(m->g, "token_embd.weight");
    int64_t said = 0;
    if (!t || t->n_dims != 2) {
        return engine_fail(m->err, ENGINE_BAD_FILE, "",
                           "%s: tensor 'token_embd.weight' of 2 dimensions is missing",
                           gguf_label(m->g));
    }
    if (!get_int(m, "vocab_size", t->dim[0], &said) ||
        !gguf_get_array(m->g, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, m->err)) {
        return false;
    }
    if (said != t->dim[0] || (tokens.is_there && (int64_t)tokens.n != t->dim[0])) {
        return engine_fail(m->err, ENGINE_BAD_FILE, "",
                           "%s: key '%s%s' speaks of %lld tokens, 'token_embd.weight' has %lld",
                           gguf_label(m->g), said != t->dim[0] ? m->arch : "tokenizer.ggml",
                           said != t->dim[0] ? ".vocab_size" : ".tokens",
                           (long long)(said != t->dim[0] ? said : (int64_t)tokens.n),
                           (long long)t->dim[0]);
    }
    return put(m, m->config, "vocab_size", json_integer(t->dim[0]));
}

static bool put_end_ids(struct making *m)
{
    static const char *const WORDS[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                           {"tokenizer.ggml.eos_token_id", "eos_token_id"}};
    for (size_t i = 0; i < 2; i++) {
        int64_t id = -1;
        if (!gguf_get_int(m->g, WORDS[i][0], 0, INT32_MAX, -1, &id, m->err) ||
            (id >= 0 && !put(m, m->config, WORDS[i][1], json_integer(id)))) {
            return false;
        }
    }
    return true;
}

static bool put_flags(struct making *m)
{
    bool is_tied = !gguf_find(m->g, "output.weight");
    bool has_attention = gguf_find(m->g, "blk.0.attn_q.bias") != NULL;
    bool has_ffn = gguf_find(m->g, "blk.0.ffn_up.bias") != NULL;
    return put(m, m->config, "tie_word_embeddings", json_boolean(is_tied)) &&
           put(m, m->config, "attention_bias", json_boolean(has_attention)) &&
           put(m, m->config, "mlp_bias", json_boolean(has_ffn));
}

/* ---------------------------------------------------------------- Gemma */

/* The scale is 1 / sqrt(head_dim), but for the largest of each generation; they are known by their
 * layers. Every second layer of the second generation is local, five of six of the third, whose
 * local layers have positions of base 10000 and no scaling. */
static bool put_gemma_scale(struct making *m, bool is_2)
{
    int64_t layers = 0, heads = 0, dim = 0, head_dim = 0;
    if (!get_int(m, "block_count", 0, &layers) || !get_int(m, "attention.head_count", 0, &heads) ||
        !get_int(m, "embedding_length", 0, &dim) ||
        !get_int(m, "attention.key_length", GGUF_REQUIRED, &head_dim)) {
        return false;
    }
    bool is_largest = heads > 0 && layers == (is_2 ? 46 : 62);
    return put(m, m->config, "query_pre_attn_scalar",
               json_integer(is_largest ? dim / heads : head_dim));
}

static bool put_gemma_2(struct making *m)
{
    double base = 10000.0;
    return get_real(m, "rope.freq_base", base, &base) &&
           check_neutral(m, "rope.freq_base_swa", base) &&
           check_neutral(m, "attention.sliding_window_pattern", 2.0) &&
           (has(m, "attention.sliding_window") ||
            put(m, m->config, "sliding_window", json_integer(4096)));
}

/* Converters write no window for a model without local layers, where config.json means a default.
 */
static bool put_gemma_3(struct making *m)
{
    return (has(m, "attention.sliding_window") ||
            put(m, m->config, "sliding_window", json_integer(0))) &&
           (has(m, "rope.freq_base_swa") ||
            put(m, m->config, "rope_local_base_freq", json_real(10000.0))) &&
           (has(m, "rope.freq_base") || put(m, m->config, "rope_theta", json_real(1000000.0)));
}

static bool put_gemma(struct making *m)
{
    bool is_2 = strcmp(m->arch, "gemma2") == 0, is_3 = strcmp(m->arch, "gemma3") == 0;
    int64_t pattern = is_2 ? 2 : 6;
    if (!is_2 && !is_3) {
        return strcmp(m->arch, "gemma") != 0 ||
               put(m, m->config, "hidden_act", json_string("gelu_pytorch_tanh"));
    }
    return get_int(m, "attention.sliding_window_pattern", pattern, &pattern) &&
           put(m, m->config, "hidden_activation", json_string("gelu_pytorch_tanh")) &&
           put(m, m->config, "sliding_window_pattern", json_integer(pattern)) &&
           put_gemma_scale(m, is_2) && (is_2 ? put_gemma_2(m) : put_gemma_3(m));
}

/* ---------------------------------------------------------------- the whole */

static bool find_arch(struct making *m)
{
    struct gguf_string s = {"", 0, false};
    if (!gguf_get_string(m->g, "general.architecture", &s, m->err)) {
        return false;
    }
    bool ok = s.len > 0 && s.len < sizeof m->arch;
    for (size_t i = 0; ok && i < s.len; i++) {
        char c = s.text[i];
        ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    }
    if (!ok) {
        return engine_fail(m->err, ENGINE_BAD_FILE, "",
                           "%s: key 'general.architecture' names no architecture",
                           gguf_label(m->g));
    }
    memcpy(m->arch, s.text, s.len);
    m->arch[s.len] = '\0';
    return true;
}

json_t *weights_gguf_config(const struct gguf *g, struct engine_error *err)
{
    struct making m = {.g = g, .config = json_object(), .err = err};
    if (!m.config) {
        (void)engine_fail(err, ENGINE_NOMEM, "", "%s: out of memory", gguf_label(g));
        return NULL;
    }
    bool ok = find_arch(&m);
    const char *type = strcmp(m.arch, "gemma3") == 0 ? "gemma3_text" : m.arch;
    ok = ok && put(&m, m.config, "model_type", json_string(type)) && put_fields(&m) &&
         put_heads(&m) && put_vocabulary(&m) && put_flags(&m) && check_all_neutral(&m) &&
         put_scaling(&m) && put_end_ids(&m) && put_gemma(&m);
    if (!ok) {
        json_decref(m.config);
        return NULL;
    }
    return m.config;
}
