/* decoder_bind.c - the tensors of the decoder families under their Hugging Face names. */
#include "decoder.h"

#include <string.h>

#define LAYER     "model.layers.%d."
#define ATTENTION LAYER "self_attn."
#define FFN       LAYER "mlp."

static bool bind_norm(struct model *m, const char *name, int32_t l, int32_t n,
                      struct model_norm *norm, struct engine_error *err)
{
    return model_bind_gain(m, name, l, n, m->is_gain_from_one, &norm->gain, err);
}

/* Rows `from` .. `from` + n - 1 of a matrix. */
static struct model_matrix rows_of(const struct model_matrix *all, int32_t from, int32_t n)
{
    struct model_matrix part = *all;
    part.w += (size_t)from * kernels_row_bytes(all->type, all->n_in);
    part.n_out = (size_t)n;
    return part;
}

static bool bind_norms(struct model *m, int32_t l, struct engine_error *err)
{
    struct model_layer *y = &m->layers[l];
    int32_t dim = m->shape.dim, d = m->shape.head_dim;
    if (!bind_norm(m, LAYER "input_layernorm.weight", l, dim, &y->attention_norm, err)) {
        return false;
    }
    if (m->has_head_norms && (!bind_norm(m, ATTENTION "q_norm.weight", l, d, &y->q_norm, err) ||
                              !bind_norm(m, ATTENTION "k_norm.weight", l, d, &y->k_norm, err))) {
        return false;
    }
    if (!m->has_post_norms) { /* the older name means the norm before the ffn */
        return bind_norm(m, LAYER "post_attention_layernorm.weight", l, dim, &y->ffn_norm, err);
    }
    return bind_norm(m, LAYER "post_attention_layernorm.weight", l, dim, &y->post_attention_norm,
                     err) &&
           bind_norm(m, LAYER "pre_feedforward_layernorm.weight", l, dim, &y->ffn_norm, err) &&
           bind_norm(m, LAYER "post_feedforward_layernorm.weight", l, dim, &y->post_ffn_norm, err);
}

static bool bind_qkv(struct model *m, int32_t l, struct engine_error *err)
{
    const struct model_shape *s = &m->shape;
    struct model_layer *y = &m->layers[l];
    int32_t n_q = s->n_heads * s->head_dim, n_kv = s->n_kv_heads * s->head_dim;
    struct model_matrix all;
    if (m->is_fused) {
        if (!model_bind_matrix(m, ATTENTION "qkv_proj.weight", l, n_q + 2 * n_kv, s->dim, &all,
                               err)) {
            return false;
        }
        y->q = rows_of(&all, 0, n_q);
        y->k = rows_of(&all, n_q, n_kv);
        y->v = rows_of(&all, n_q + n_kv, n_kv);
        return true;
    }
    if (!model_bind_matrix(m, ATTENTION "q_proj.weight", l, n_q, s->dim, &y->q, err) ||
        !model_bind_matrix(m, ATTENTION "k_proj.weight", l, n_kv, s->dim, &y->k, err) ||
        !model_bind_matrix(m, ATTENTION "v_proj.weight", l, n_kv, s->dim, &y->v, err)) {
        return false;
    }
    return !m->has_qkv_bias ||
           (model_bind_vector(m, ATTENTION "q_proj.bias", l, n_q, &y->q.bias, err) &&
            model_bind_vector(m, ATTENTION "k_proj.bias", l, n_kv, &y->k.bias, err) &&
            model_bind_vector(m, ATTENTION "v_proj.bias", l, n_kv, &y->v.bias, err));
}

static bool bind_o(struct model *m, int32_t l, struct engine_error *err)
{
    const struct model_shape *s = &m->shape;
    struct model_layer *y = &m->layers[l];
    return model_bind_matrix(m, ATTENTION "o_proj.weight", l, s->dim, s->n_heads * s->head_dim,
                             &y->o, err) &&
           (!m->has_o_bias ||
            model_bind_vector(m, ATTENTION "o_proj.bias", l, s->dim, &y->o.bias, err));
}

static bool bind_gate_up(struct model *m, int32_t l, struct engine_error *err)
{
    const struct model_shape *s = &m->shape;
    struct model_layer *y = &m->layers[l];
    struct model_matrix all;
    if (!m->is_fused) {
        return model_bind_matrix(m, FFN "gate_proj.weight", l, s->ffn, s->dim, &y->gate, err) &&
               model_bind_matrix(m, FFN "up_proj.weight", l, s->ffn, s->dim, &y->up, err);
    }
    if (!model_bind_matrix(m, FFN "gate_up_proj.weight", l, 2 * s->ffn, s->dim, &all, err)) {
        return false;
    }
    y->gate = rows_of(&all, 0, s->ffn);
    y->up = rows_of(&all, s->ffn, s->ffn);
    return true;
}

static bool bind_ffn(struct model *m, int32_t l, struct engine_error *err)
{
    const struct model_shape *s = &m->shape;
    struct model_layer *y = &m->layers[l];
    if (!bind_gate_up(m, l, err) ||
        !model_bind_matrix(m, FFN "down_proj.weight", l, s->dim, s->ffn, &y->down, err)) {
        return false;
    }
    return !m->has_ffn_bias ||
           (model_bind_vector(m, FFN "gate_proj.bias", l, s->ffn, &y->gate.bias, err) &&
            model_bind_vector(m, FFN "up_proj.bias", l, s->ffn, &y->up.bias, err) &&
            model_bind_vector(m, FFN "down_proj.bias", l, s->dim, &y->down.bias, err));
}

bool decoder_bind(struct model *m, struct engine_error *err)
{
    const struct model_shape *s = &m->shape;
    if (!model_bind_matrix(m, "model.embed_tokens.weight", 0, s->n_vocab, s->dim, &m->tokens,
                           err) ||
        !bind_norm(m, "model.norm.weight", 0, s->dim, &m->final_norm, err)) {
        return false;
    }
    m->output = m->tokens;
    if (!m->is_tied &&
        !model_bind_matrix(m, "lm_head.weight", 0, s->n_vocab, s->dim, &m->output, err)) {
        return false;
    }
    for (int32_t l = 0; l < s->n_layers; l++) {
        if (!bind_norms(m, l, err) || !bind_qkv(m, l, err) || !bind_o(m, l, err) ||
            !bind_ffn(m, l, err)) {
            return false;
        }
    }
    return true;
}

/* A tied model's files may hold the output matrix again, old ones hold the rotary frequencies. */
bool decoder_is_spare(const char *tensor)
{
    return strcmp(tensor, "lm_head.weight") == 0 || strstr(tensor, ".rotary_emb.inv_freq") != NULL;
}
