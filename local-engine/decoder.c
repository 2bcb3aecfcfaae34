/* decoder.c - the forward pass of the decoder families: the steps in order, each a job over all
 * rows of the batch. */
#include "decoder.h"

#include "rope.h"

static size_t angles_at(const struct model_worker *w, size_t rope, size_t r)
{
    return (rope * w->n_rows_max + r) * (size_t)w->model->n_rotated / 2;
}

static void start_row(struct model_worker *w, size_t r)
{
    const struct model *m = w->model;
    const struct model_matrix *t = &m->tokens;
    float *x = w->x.row[r];
    const unsigned char *stored =
        t->w + (size_t)w->rows[r].token * kernels_row_bytes(t->type, t->n_in);
    w->kernels->expand(t->type, stored, t->n_in, x);
    for (size_t i = 0; i < t->n_in; i++) { /* a product with 1 changes no bit */
        x[i] *= m->embedding_scale;
    }
    for (size_t k = 0; k < m->n_ropes; k++) {
        size_t at = angles_at(w, k, r);
        rope_angles(m->rope[k].frequency, (size_t)m->n_rotated / 2, w->position[r], m->rope[k].gain,
                    w->cosine + at, w->sine + at);
    }
}

static void norm_heads(const struct model_worker *w, const struct model_norm *norm, float *x,
                       size_t n_heads)
{
    size_t d = (size_t)w->model->shape.head_dim;
    for (size_t h = 0; norm->gain && h < n_heads; h++) {
        w->kernels->rmsnorm(x + h * d, norm->gain, d, w->model->eps, x + h * d);
    }
}

/* From the products to the q and k that attention takes. */
static void turn_row(struct model_worker *w, size_t r)
{
    const struct model *m = w->model;
    const struct model_shape *s = &m->shape;
    const struct model_layer *y = &m->layers[w->layer];
    size_t d = (size_t)s->head_dim, half = (size_t)m->n_rotated / 2;
    size_t n_q = (size_t)s->n_heads, n_k = (size_t)s->n_kv_heads;
    bool is_local = m->n_ropes > MODEL_ROPE_LOCAL && m->is_local && m->is_local[w->layer];
    size_t at = angles_at(w, is_local ? MODEL_ROPE_LOCAL : MODEL_ROPE_GLOBAL, r);
    float *scratch = w->attended.row[r]; /* nobody needs it yet */
    if (y->q.is_paired) {
        model_worker_unpair(w->q.row[r], n_q, d, scratch);
    }
    if (y->k.is_paired) {
        model_worker_unpair(w->k.row[r], n_k, d, scratch);
    }
    norm_heads(w, &y->q_norm, w->q.row[r], n_q);
    norm_heads(w, &y->k_norm, w->k.row[r], n_k);
    rope_rotate(w->q.row[r], n_q, d, half, w->cosine + at, w->sine + at);
    rope_rotate(w->k.row[r], n_k, d, half, w->cosine + at, w->sine + at);
}

static void gate_row(struct model_worker *w, size_t r)
{
    float *gate = w->gate.row[r];
    const float *up = w->up.row[r];
    size_t n = (size_t)w->model->shape.ffn;
    if (!w->model->is_gelu) {
        w->kernels->silu(gate, up, n);
        return;
    }
    w->kernels->gelu(gate, n);
    for (size_t i = 0; i < n; i++) {
        gate[i] *= up[i];
    }
}

/* x += norm?(h) */
static void add(struct model_worker *w, const struct model_norm *norm)
{
    if (norm->gain) {
        model_worker_norm_again(w, norm);
    }
    model_worker_add(w);
}

static void attention_block(struct model_worker *w, const struct model_layer *y)
{
    const struct model_shape *s = &w->model->shape;
    const struct model_product qkv[] = {
        {&y->q, w->h.row, w->q.row}, {&y->k, w->h.row, w->k.row}, {&y->v, w->h.row, w->v.row}};
    const struct model_product o = {&y->o, w->attended.row, w->h.row};
    model_worker_norm(w, &y->attention_norm);
    model_worker_multiply(w, qkv, 3, w->n_rows);
    model_worker_each_row(w, w->n_rows,
                          (size_t)(s->n_heads + s->n_kv_heads) * (size_t)s->head_dim * 2, turn_row);
    model_worker_attend(w);
    model_worker_multiply(w, &o, 1, w->n_rows);
    add(w, &y->post_attention_norm);
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
    add(w, &y->post_ffn_norm);
}

void decoder_forward(struct model_worker *w)
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
