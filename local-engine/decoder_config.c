/* decoder_config.c - the fields of config.json that the decoder families share. */
#include "decoder.h"

#include <string.h>

static int64_t or_else(int32_t given, int64_t otherwise)
{
    return given ? given : otherwise;
}

static bool configure_heads(struct model_shape *s, const json_t *config,
                            const struct decoder_defaults *d, struct engine_error *err)
{
    if (!model_config_int(config, "num_attention_heads", 1, s->dim,
                          or_else(d->n_heads, MODEL_CONFIG_REQUIRED), &s->n_heads, err) ||
        !model_config_int(config, "num_key_value_heads", 1, s->n_heads,
                          or_else(d->n_kv_heads, s->n_heads), &s->n_kv_heads, err) ||
        !model_config_int(config, "head_dim", 1, MODEL_DIM_MAX,
                          or_else(d->head_dim, s->dim / s->n_heads), &s->head_dim, err)) {
        return false;
    }
    bool is_derived = !d->head_dim && !json_is_integer(json_object_get(config, "head_dim"));
    if (is_derived && s->dim % s->n_heads != 0) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: 'num_attention_heads' %d does not divide 'hidden_size' %d",
                           model_config_file(config), s->n_heads, s->dim);
    }
    if (s->n_heads % s->n_kv_heads != 0) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: 'num_key_value_heads' %d does not divide 'num_attention_heads' %d",
                           model_config_file(config), s->n_kv_heads, s->n_heads);
    }
    if ((int64_t)s->n_heads * s->head_dim > MODEL_FFN_MAX) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: 'head_dim' %d times 'num_attention_heads' %d is too large",
                           model_config_file(config), s->head_dim, s->n_heads);
    }
    return true;
}

static bool configure_shape(struct model_shape *s, const json_t *config,
                            const struct decoder_defaults *d, struct engine_error *err)
{
    return model_config_int(config, "vocab_size", 1, MODEL_VOCAB_MAX,
                            or_else(d->n_vocab, MODEL_CONFIG_REQUIRED), &s->n_vocab, err) &&
           model_config_int(config, "num_hidden_layers", 1, MODEL_LAYERS_MAX, MODEL_CONFIG_REQUIRED,
                            &s->n_layers, err) &&
           model_config_int(config, "hidden_size", 1, MODEL_DIM_MAX, MODEL_CONFIG_REQUIRED, &s->dim,
                            err) &&
           model_config_int(config, "intermediate_size", 1, MODEL_FFN_MAX, MODEL_CONFIG_REQUIRED,
                            &s->ffn, err) &&
           model_config_int(config, "max_position_embeddings", 1, MODEL_CONTEXT_MAX,
                            or_else(d->context, 2048), &s->context, err);
}

/* How many elements of a head turn. */
static bool configure_rotated(struct model *m, const json_t *config, bool can_be_part,
                              struct engine_error *err)
{
    const char *field = model_config_find(config, "rope_parameters.partial_rotary_factor")
                            ? "rope_parameters.partial_rotary_factor"
                            : "partial_rotary_factor";
    double part;
    if (!model_config_real(config, field, can_be_part ? 0.0 : 1.0, 1.0, 1.0, &part, err)) {
        return false;
    }
    m->n_rotated = (int32_t)((double)m->shape.head_dim * part);
    if (m->n_rotated < 2 || m->n_rotated % 2 != 0) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: 'head_dim' is %d and %d elements of it rotate: rotary "
                           "positions need an even number",
                           model_config_file(config), m->shape.head_dim, m->n_rotated);
    }
    return true;
}

bool decoder_configure(struct model *m, const json_t *config, const struct decoder_defaults *d,
                       struct engine_error *err)
{
    struct model_shape *s = &m->shape;
    double eps;
    if (!model_config_word(config, d->activation_field, d->activation, err) ||
        !configure_shape(s, config, d, err) || !configure_heads(s, config, d, err) ||
        !model_config_real(config, "rms_norm_eps", 0.0, 1.0, d->eps > 0.0 ? d->eps : 1e-6, &eps,
                           err) ||
        !model_config_bool(config, "tie_word_embeddings", d->is_tied, &m->is_tied, err) ||
        !configure_rotated(m, config, d->can_rotate_in_part, err)) {
        return false;
    }
    m->eps = (float)eps;
    m->embedding_scale = 1.0f;
    m->attention_scale = 1.0f / sqrtf((float)s->head_dim);
    return decoder_configure_rope(m, MODEL_ROPE_GLOBAL, config, "rope_theta", d->theta, err);
}

bool decoder_configure_biases(struct model *m, const json_t *config, struct engine_error *err)
{
    bool has = false;
    if (!model_config_bool(config, "attention_bias", false, &has, err)) {
        return false;
    }
    m->has_qkv_bias = m->has_o_bias = has;
    return true;
}

bool decoder_configure_cap(const json_t *config, const char *field, double absent, float *cap,
                           struct engine_error *err)
{
    const json_t *v = json_object_get(config, field);
    double x = 0.0;
    if (v && !json_is_null(v) && !model_config_real(config, field, 1e-3, 1e6, 0.0, &x, err)) {
        return false;
    }
    *cap = (float)(v ? x : absent);
    return true;
}

/* ---------------------------------------------------------------- windows */

bool decoder_configure_window(struct model *m, const json_t *config, int32_t absent,
                              struct engine_error *err)
{
    const json_t *v = json_object_get(config, "sliding_window");
    int32_t n = v ? 0 : absent;
    if (v && !json_is_null(v) &&
        !model_config_int(config, "sliding_window", 0, MODEL_CONTEXT_MAX, 0, &n, err)) {
        return false;
    }
    m->window = n;
    return true;
}

static bool read_types(struct model *m, const json_t *config, const json_t *types,
                       struct engine_error *err)
{
    size_t i;
    const json_t *v;
    if (!json_is_array(types) || json_array_size(types) != (size_t)m->shape.n_layers) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: 'layer_types' must be a list with one text for each of "
                           "%d layers",
                           model_config_file(config), m->shape.n_layers);
    }
    json_array_foreach (types, i, v) {
        const char *type = json_string_value(v);
        bool is_local = type && strcmp(type, "sliding_attention") == 0;
        if (!is_local && (!type || strcmp(type, "full_attention") != 0)) {
            return engine_fail(err, ENGINE_BAD_FILE, "",
                               "%s: 'layer_types' has '%.60s' for layer %zu, "
                               "full_attention or sliding_attention expected",
                               model_config_file(config), type ? type : "no text", i);
        }
        if (is_local && m->window == 0) {
            return engine_fail(err, ENGINE_BAD_FILE, "",
                               "%s: 'layer_types' has a sliding layer %zu, but there is "
                               "no 'sliding_window'",
                               model_config_file(config), i);
        }
        m->is_local[i] = is_local;
    }
    return true;
}

bool decoder_configure_layers(struct model *m, const json_t *config, bool reads_types,
                              decoder_local_fn *is_local, int32_t pattern, struct engine_error *err)
{
    const json_t *types = reads_types ? json_object_get(config, "layer_types") : NULL;
    m->is_local = model_own(m, (size_t)m->shape.n_layers, 1, err);
    if (!m->is_local) {
        return false;
    }
    if (types && !json_is_null(types)) {
        return read_types(m, config, types, err);
    }
    for (int32_t l = 0; l < m->shape.n_layers; l++) {
        m->is_local[l] = m->window > 0 && is_local(l, pattern);
    }
    return true;
}

bool decoder_every_layer(int32_t layer, int32_t pattern)
{
    (void)layer, (void)pattern;
    return true;
}
