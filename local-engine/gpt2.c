/* gpt2.c - LayerNorm, learned positions, one matrix for q, k and v, gelu_new; as in Hugging
 * Face's GPT2LMHeadModel.
 *
 * Its files hold the matrices of a layer as [in][out] (a Conv1D); they are turned once when the
 * model opens, because the kernels read rows. Names may begin with "transformer.", lm_head never
 * does.
 */
#include "model_private.h"

#include <string.h>

static bool configure(struct model *m, const json_t *config, struct engine_error *err)
{
    struct model_shape *s = &m->shape;
    double eps;
    if (!model_config_word(config, "activation_function", "gelu_new", err) ||
        !model_config_flag(config, "scale_attn_weights", true, err) ||
        !model_config_flag(config, "scale_attn_by_inverse_layer_idx", false, err) ||
        !model_config_flag(config, "add_cross_attention", false, err) ||
        !model_config_int(config, "vocab_size", 1, MODEL_VOCAB_MAX, MODEL_CONFIG_REQUIRED,
                          &s->n_vocab, err) ||
        !model_config_int(config, "n_layer", 1, MODEL_LAYERS_MAX, MODEL_CONFIG_REQUIRED,
                          &s->n_layers, err) ||
        !model_config_int(config, "n_embd", 1, MODEL_DIM_MAX, MODEL_CONFIG_REQUIRED, &s->dim,
                          err) ||
        !model_config_int(config, "n_head", 1, s->dim, MODEL_CONFIG_REQUIRED, &s->n_heads, err) ||
        !model_config_int(config, "n_inner", 1, MODEL_FFN_MAX, 4 * (int64_t)s->dim, &s->ffn, err) ||
        !model_config_int(config, "n_positions", 1, MODEL_CONTEXT_MAX, 1024, &s->context, err) ||
        !model_config_real(config, "layer_norm_epsilon", 0.0, 1.0, 1e-5, &eps, err) ||
        !model_config_bool(config, "tie_word_embeddings", true, &m->is_tied, err)) {
        return false;
    }
    if (s->dim % s->n_heads != 0) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: 'n_head' %d does not divide 'n_embd' %d",
                           model_config_file(config), s->n_heads, s->dim);
    }
    s->n_kv_heads = s->n_heads;
    s->head_dim = s->dim / s->n_heads;
    m->eps = (float)eps;
    m->attention_scale = 1.0f / sqrtf((float)s->head_dim);
    return true;
}

static bool bind_norm(struct model *m, const char *gain, const char *bias, int32_t l,
                      struct model_norm *norm, struct engine_error *err)
{
    return model_bind_vector(m, gain, l, m->shape.dim, &norm->gain, err) &&
           model_bind_vector(m, bias, l, m->shape.dim, &norm->bias, err);
}

/* Rows 0 .. dim-1 of the joint matrix are q, then k, then v. */
static bool bind_qkv(struct model *m, int32_t l, struct engine_error *err)
{
    struct model_layer *y = &m->layers[l];
    struct model_matrix all;
    int32_t dim = m->shape.dim;
    if (!model_bind_turned(m, "h.%d.attn.c_attn.weight", l, 3 * dim, dim, &all, err) ||
        !model_bind_vector(m, "h.%d.attn.c_attn.bias", l, 3 * dim, &all.bias, err)) {
        return false;
    }
    struct model_matrix *part[3] = {&y->q, &y->k, &y->v};
    for (size_t i = 0; i < 3; i++) {
        *part[i] = all;
        part[i]->n_out = (size_t)dim;
        part[i]->w += i * (size_t)dim * kernels_row_bytes(all.type, (size_t)dim);
        part[i]->bias += i * (size_t)dim;
    }
    return true;
}

static bool bind_layer(struct model *m, int32_t l, struct engine_error *err)
{
    struct model_layer *y = &m->layers[l];
    int32_t dim = m->shape.dim, ffn = m->shape.ffn;
    return bind_norm(m, "h.%d.ln_1.weight", "h.%d.ln_1.bias", l, &y->attention_norm, err) &&
           bind_qkv(m, l, err) &&
           model_bind_turned(m, "h.%d.attn.c_proj.weight", l, dim, dim, &y->o, err) &&
           model_bind_vector(m, "h.%d.attn.c_proj.bias", l, dim, &y->o.bias, err) &&
           bind_norm(m, "h.%d.ln_2.weight", "h.%d.ln_2.bias", l, &y->ffn_norm, err) &&
           model_bind_turned(m, "h.%d.mlp.c_fc.weight", l, ffn, dim, &y->up, err) &&
           model_bind_vector(m, "h.%d.mlp.c_fc.bias", l, ffn, &y->up.bias, err) &&
           model_bind_turned(m, "h.%d.mlp.c_proj.weight", l, dim, ffn, &y->down, err) &&
           model_bind_vector(m, "h.%d.mlp.c_proj.bias", l, dim, &y->down.bias, err);
}

static bool bind(struct model *m, struct engine_error *err)
{
    const struct model_shape *s = &m->shape;
    if (!m->is_tied &&
        !model_bind_matrix(m, "lm_head.weight", 0, s->n_vocab, s->dim, &m->output, err)) {
        return false;
    }
    m->prefix = weights_find(m->weights, "transformer.wte.weight") ? "transformer." : "";
    if (!model_bind_matrix(m, "wte.weight", 0, s->n_vocab, s->dim, &m->tokens, err) ||
        !model_bind_matrix(m, "wpe.weight", 0, s->context, s->dim, &m->positions, err) ||
        !bind_norm(m, "ln_f.weight", "ln_f.bias", 0, &m->final_norm, err)) {
        return false;
    }
    if (m->is_tied) {
        m->output = m->tokens;
    }
    for (int32_t l = 0; l < s->n_layers; l++) {
        if (!bind_layer(m, l, err)) {
            return false;
        }
    }
    return true;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), n_end = strlen(end);
    return n >= n_end && strcmp(s + n - n_end, end) == 0;
}

/* Old files hold the causal mask of each layer, tied ones may hold the output matrix again. */
static bool is_spare(const char *tensor)
{
    return strcmp(tensor, "lm_head.weight") == 0 || ends_with(tensor, ".attn.bias") ||
           ends_with(tensor, ".attn.masked_bias");
}

static void start_row(struct model_worker *w, size_t r)
{
    const struct model_matrix *t = &w->model->tokens, *p = &w->model->positions;
    size_t n = t->n_in;
    w->kernels->expand(t->type, t->w + (size_t)w->rows[r].token * kernels_row_bytes(t->type, n), n,
                       w->x.row[r]);
    w->kernels->expand(p->type, p->w + (size_t)w->position[r] * kernels_row_bytes(p->type, n), n,
                       w->h.row[r]);
    for (size_t i = 0; i < n; i++) {
        w->x.row[r][i] += w->h.row[r][i];
    }
}

static void gelu_row(struct model_worker *w, size_t r)
{
    w->kernels->gelu(w->up.row[r], (size_t)w->model->shape.ffn);
}

static void run_layer(struct model_worker *w, const struct model_layer *y)
{
    const struct model_product qkv[] = {
        {&y->q, w->h.row, w->q.row}, {&y->k, w->h.row, w->k.row}, {&y->v, w->h.row, w->v.row}};
    const struct model_product o = {&y->o, w->attended.row, w->h.row},
                               up = {&y->up, w->h.row, w->up.row},
                               down = {&y->down, w->up.row, w->h.row};
    model_worker_norm(w, &y->attention_norm);
    model_worker_multiply(w, qkv, 3, w->n_rows);
    model_worker_attend(w);
    model_worker_multiply(w, &o, 1, w->n_rows);
    model_worker_add(w);
    model_worker_norm(w, &y->ffn_norm);
    model_worker_multiply(w, &up, 1, w->n_rows);
    model_worker_each_row(w, w->n_rows, (size_t)w->model->shape.ffn * 4, gelu_row);
    model_worker_multiply(w, &down, 1, w->n_rows);
    model_worker_add(w);
}

static void forward(struct model_worker *w)
{
    model_worker_each_row(w, w->n_rows, 2 * (size_t)w->model->shape.dim, start_row);
    for (w->layer = 0; w->layer < (size_t)w->model->shape.n_layers; w->layer++) {
        run_layer(w, &w->model->layers[w->layer]);
    }
    model_worker_output(w);
}

const struct model_family model_gpt2 = {
    .model_type = "gpt2",
    .configure = configure,
    .bind = bind,
    .forward = forward,
    .is_spare = is_spare,
};
