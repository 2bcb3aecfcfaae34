/* llama.c - RMSNorm, rotary positions (rotate-half), grouped kv heads, SwiGLU; as in Hugging
 * Face's LlamaForCausalLM.
 *
 * x = tokens[id]; for each layer: x += o(attention(rope(q(norm x)), rope(k(norm x)), v(norm
 * x))), x += down(silu(gate(norm x)) * up(norm x)); logits = output(norm x).
 */
#include "model_private.h"
#include "rope.h"

#include <string.h>

/* The only scaling so far: a factor for each frequency, as .gguf files have it (weights.h). */
static bool find_factors(const struct model *m, const json_t *config, const json_t **factors,
                         struct engine_error *err)
{
    const json_t *scaling = json_object_get(config, "rope_scaling");
    const char *type = json_string_value(json_object_get(scaling, "rope_type"));
    if (!type || strcmp(type, "factors") != 0) {
        return model_config_absent(config, "rope_scaling",
                                   "is set: scaled rotary positions are not supported", err);
    }
    *factors = json_object_get(scaling, "factors");
    size_t n = json_array_size(*factors), half = (size_t)m->shape.head_dim / 2;
    bool ok = n == half;
    for (size_t i = 0; ok && i < n; i++) {
        ok = json_number_value(json_array_get(*factors, i)) > 0.0;
    }
    return ok || engine_fail(err, ENGINE_BAD_FILE, "",
                             "%s: 'rope_scaling.factors' has %zu numbers, %zu above 0 expected",
                             model_config_file(config), n, half);
}

static bool configure_rope(struct model *m, const json_t *config, struct engine_error *err)
{
    double theta;
    const json_t *p =
        json_object_get(config, "rope_parameters"); /* where newer files keep rope_theta */
    const json_t *where = json_is_object(p) ? p : config;
    const json_t *factors = NULL;
    if (!find_factors(m, config, &factors, err) ||
        !model_config_word(where, "rope_type", "default", err) ||
        !model_config_real(config, "partial_rotary_factor", 1.0, 1.0, 1.0, &theta, err) ||
        !model_config_real(where, "rope_theta", 1.0, 1e12, 10000.0, &theta, err)) {
        return false;
    }
    m->frequency = model_own(m, (size_t)m->shape.head_dim / 2, sizeof *m->frequency, err);
    if (!m->frequency) {
        return false;
    }
    rope_frequencies(theta, m->shape.head_dim, m->frequency);
    for (size_t i = 0; i < json_array_size(factors); i++) {
        m->frequency[i] /= json_number_value(json_array_get(factors, i));
    }
    return true;
}

static bool configure_heads(struct model_shape *s, const json_t *config, struct engine_error *err)
{
    if (!model_config_int(config, "num_attention_heads", 1, s->dim, MODEL_CONFIG_REQUIRED,
                          &s->n_heads, err) ||
        !model_config_int(config, "num_key_value_heads", 1, s->n_heads, s->n_heads, &s->n_kv_heads,
                          err) ||
        !model_config_int(config, "head_dim", 1, s->dim, s->dim / s->n_heads, &s->head_dim, err)) {
        return false;
    }
    if (!json_is_integer(json_object_get(config, "head_dim")) && s->dim % s->n_heads != 0) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: 'num_attention_heads' %d does not divide 'hidden_size' %d",
                           model_config_file(config), s->n_heads, s->dim);
    }
    if (s->n_heads % s->n_kv_heads != 0) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: 'num_key_value_heads' %d does not divide 'num_attention_heads' %d",
                           model_config_file(config), s->n_kv_heads, s->n_heads);
    }
    if (s->head_dim % 2 != 0) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: 'head_dim' is %d, rotary positions need an even one",
                           model_config_file(config), s->head_dim);
    }
    if ((int64_t)s->n_heads * s->head_dim > MODEL_FFN_MAX) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: 'head_dim' %d times 'num_attention_heads' %d is too large",
                           model_config_file(config), s->head_dim, s->n_heads);
    }
    return true;
}

static bool configure(struct model *m, const json_t *config, struct engine_error *err)
{
    struct model_shape *s = &m->shape;
    double eps;
    if (!model_config_word(config, "hidden_act", "silu", err) ||
        !model_config_int(config, "vocab_size", 1, MODEL_VOCAB_MAX, MODEL_CONFIG_REQUIRED,
                          &s->n_vocab, err) ||
        !model_config_int(config, "num_hidden_layers", 1, MODEL_LAYERS_MAX, MODEL_CONFIG_REQUIRED,
                          &s->n_layers, err) ||
        !model_config_int(config, "hidden_size", 1, MODEL_DIM_MAX, MODEL_CONFIG_REQUIRED, &s->dim,
                          err) ||
        !model_config_int(config, "intermediate_size", 1, MODEL_FFN_MAX, MODEL_CONFIG_REQUIRED,
                          &s->ffn, err) ||
        !model_config_int(config, "max_position_embeddings", 1, MODEL_CONTEXT_MAX, 2048,
                          &s->context, err) ||
        !model_config_real(config, "rms_norm_eps", 0.0, 1.0, 1e-6, &eps, err) ||
        !model_config_bool(config, "tie_word_embeddings", false, &m->is_tied, err) ||
        !model_config_bool(config, "attention_bias", false, &m->has_attention_bias, err) ||
        !model_config_bool(config, "mlp_bias", false, &m->has_ffn_bias, err)) {
        return false;
    }
    m->eps = (float)eps;
    return configure_heads(s, config, err) && configure_rope(m, config, err);
}

static bool bind_attention(struct model *m, int32_t l, struct engine_error *err)
{
    const struct model_shape *s = &m->shape;
    struct model_layer *y = &m->layers[l];
    int32_t n_q = s->n_heads * s->head_dim, n_kv = s->n_kv_heads * s->head_dim;
    if (!model_bind_vector(m, "model.layers.%d.input_layernorm.weight", l, s->dim,
                           &y->attention_norm.gain, err) ||
        !model_bind_matrix(m, "model.layers.%d.self_attn.q_proj.weight", l, n_q, s->dim, &y->q,
                           err) ||
        !model_bind_matrix(m, "model.layers.%d.self_attn.k_proj.weight", l, n_kv, s->dim, &y->k,
                           err) ||
        !model_bind_matrix(m, "model.layers.%d.self_attn.v_proj.weight", l, n_kv, s->dim, &y->v,
                           err) ||
        !model_bind_matrix(m, "model.layers.%d.self_attn.o_proj.weight", l, s->dim, n_q, &y->o,
                           err)) {
        return false;
    }
    return !m->has_attention_bias || (model_bind_vector(m, "model.layers.%d.self_attn.q_proj.bias",
                                                        l, n_q, &y->q.bias, err) &&
                                      model_bind_vector(m, "model.layers.%d.self_attn.k_proj.bias",
                                                        l, n_kv, &y->k.bias, err) &&
                                      model_bind_vector(m, "model.layers.%d.self_attn.v_proj.bias",
                                                        l, n_kv, &y->v.bias, err) &&
                                      model_bind_vector(m, "model.layers.%d.self_attn.o_proj.bias",
                                                        l, s->dim, &y->o.bias, err));
}

static bool bind_ffn(struct model *m, int32_t l, struct engine_error *err)
{
    const struct model_shape *s = &m->shape;
    struct model_layer *y = &m->layers[l];
    if (!model_bind_vector(m, "model.layers.%d.post_attention_layernorm.weight", l, s->dim,
                           &y->ffn_norm.gain, err) ||
        !model_bind_matrix(m, "model.layers.%d.mlp.gate_proj.weight", l, s->ffn, s->dim, &y->gate,
                           err) ||
        !model_bind_matrix(m, "model.layers.%d.mlp.up_proj.weight", l, s->ffn, s->dim, &y->up,
                           err) ||
        !model_bind_matrix(m, "model.layers.%d.mlp.down_proj.weight", l, s->dim, s->ffn, &y->down,
                           err)) {
        return false;
    }
    return !m->has_ffn_bias ||
           (model_bind_vector(m, "model.layers.%d.mlp.gate_proj.bias", l, s->ffn, &y->gate.bias,
                              err) &&
            model_bind_vector(m, "model.layers.%d.mlp.up_proj.bias", l, s->ffn, &y->up.bias, err) &&
            model_bind_vector(m, "model.layers.%d.mlp.down_proj.bias", l, s->dim, &y->down.bias,
                              err));
}

static bool bind(struct model *m, struct engine_error *err)
{
    const struct model_shape *s = &m->shape;
    if (!model_bind_matrix(m, "model.embed_tokens.weight", 0, s->n_vocab, s->dim, &m->tokens,
                           err) ||
        !model_bind_vector(m, "model.norm.weight", 0, s->dim, &m->final_norm.gain, err)) {
        return false;
    }
    m->output = m->tokens;
    if (!m->is_tied &&
        !model_bind_matrix(m, "lm_head.weight", 0, s->n_vocab, s->dim, &m->output, err)) {
        return false;
    }
    for (int32_t l = 0; l < s->n_layers; l++) {
        if (!bind_attention(m, l, err) || !bind_ffn(m, l, err)) {
            return false;
        }
    }
    return true;
}

/* A tied model's files may hold the output matrix again, old ones hold the rotary frequencies. */
static bool is_spare(const char *tensor)
{
    return strcmp(tensor, "lm_head.weight") == 0 || strstr(tensor, ".rotary_emb.inv_freq") != NULL;
}

static void start_row(struct model_worker *w, size_t r)
{
    const struct model *m = w->model;
    const struct model_matrix *t = &m->tokens;
    size_t half = (size_t)m->shape.head_dim / 2;
    const unsigned char *stored =
        t->w + (size_t)w->rows[r].token * kernels_row_bytes(t->type, t->n_in);
    w->kernels->expand(t->type, stored, t->n_in, w->x.row[r]);
    rope_angles(m->frequency, half, w->position[r], w->cosine + r * half, w->sine + r * half);
}

static void rotate_row(struct model_worker *w, size_t r)
{
    const struct model_shape *s = &w->model->shape;
    const struct model_layer *y = &w->model->layers[w->layer];
    size_t d = (size_t)s->head_dim, half = d / 2;
    float *scratch = w->attended.row[r]; /* nobody needs it yet */
    if (y->q.is_paired) {
        model_worker_unpair(w->q.row[r], (size_t)s->n_heads, d, scratch);
    }
    if (y->k.is_paired) {
        model_worker_unpair(w->k.row[r], (size_t)s->n_kv_heads, d, scratch);
    }
    rope_rotate(w->q.row[r], (size_t)s->n_heads, d, w->cosine + r * half, w->sine + r * half);
    rope_rotate(w->k.row[r], (size_t)s->n_kv_heads, d, w->cosine + r * half, w->sine + r * half);
}

static void gate_row(struct model_worker *w, size_t r)
{
    w->kernels->silu(w->gate.row[r], w->up.row[r], (size_t)w->model->shape.ffn);
}

static void attention_block(struct model_worker *w, const struct model_layer *y)
{
    const struct model_shape *s = &w->model->shape;
    const struct model_product qkv[] = {
        {&y->q, w->h.row, w->q.row}, {&y->k, w->h.row, w->k.row}, {&y->v, w->h.row, w->v.row}};
    const struct model_product o = {&y->o, w->attended.row, w->h.row};
    model_worker_norm(w, &y->attention_norm);
    model_worker_multiply(w, qkv, 3, w->n_rows);
    model_worker_each_row(
        w, w->n_rows, (size_t)(s->n_heads + s->n_kv_heads) * (size_t)s->head_dim * 2, rotate_row);
    model_worker_attend(w);
    model_worker_multiply(w, &o, 1, w->n_rows);
    model_worker_add(w);
}

static void ffn_block(struct model_worker *w, const struct model_layer *y)
{
    const struct model_product gate_up[] = {{&y->gate, w->h.row, w->gate.row},
                                            {&y->up, w->h.row, w->up.row}};
    const struct model_product down = {&y->down, w->gate.row, w->h.row};
    model_worker_norm(w, &y->ffn_norm);
    model_worker_multiply(w, gate_up, 2, w->n_rows);
    model_worker_each_row(w, w->n_rows, (size_t)w->model->shape.ffn * 4, gate_row);
    model_worker_multiply(w, &down, 1, w->n_rows);
    model_worker_add(w);
}

static void forward(struct model_worker *w)
{
    const struct model *m = w->model;
    model_worker_each_row(w, w->n_rows, (size_t)m->shape.dim + 20 * (size_t)m->shape.head_dim,
                          start_row);
    for (w->layer = 0; w->layer < (size_t)m->shape.n_layers; w->layer++) {
        attention_block(w, &m->layers[w->layer]);
        ffn_block(w, &m->layers[w->layer]);
    }
    model_worker_output(w);
}

const struct model_family model_llama = {
    .model_type = "llama",
    .configure = configure,
    .bind = bind,
    .forward = forward,
    .is_spare = is_spare,
};
