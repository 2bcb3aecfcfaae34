/* model_worker.c - runs batches: scratch memory, the steps that the families share, and how they
 * are cut for the threads.
 *
 * Every job is cut into tiles of outputs or into rows, each computed whole by one thread with
 * kernels whose bits depend on the inputs alone; so neither the threads nor the neighbours in a
 * batch can be seen in a result. Small jobs run in the caller.
 */
#include "model_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TILE          48 /* outputs of one item: a multiple of the kernels' blocks of 12, 4 and 3 */
#define THREADS_PAY   65536 /* multiplications from which waking the threads pays */
#define ROWS_MAX      65536
#define HEADS_AT_ONCE 16 /* query heads that read the keys together */

/* ---------------------------------------------------------------- memory */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static void *take(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2) {
        return NULL;
    }
    void *p = NULL;
    return posix_memalign(&p, 64, bytes ? bytes : 1) == 0 ? p : NULL;
}

static bool rows_init(struct model_rows *r, size_t n_rows, size_t n)
{
    size_t ld = round_up(n, 16); /* rows begin on cache lines */
    r->data = take(n_rows * ld, sizeof *r->data);
    r->row = take(n_rows, sizeof *r->row);
    if (!r->data || !r->row) {
        return false;
    }
    for (size_t i = 0; i < n_rows; i++) {
        r->row[i] = r->data + i * ld;
    }
    return true;
}

static void rows_release(struct model_rows *r)
{
    free(r->data);
    free(r->row);
}

static size_t widest_row(const struct model_shape *s)
{
    size_t n = (size_t)s->n_heads * (size_t)s->head_dim;
    n = n > (size_t)s->dim ? n : (size_t)s->dim;
    return n > (size_t)s->ffn ? n : (size_t)s->ffn;
}

static bool activations_init(struct model_worker *w)
{
    const struct model_shape *s = &w->model->shape;
    size_t n = w->n_rows_max, dim = (size_t)s->dim, ffn = (size_t)s->ffn;
    size_t n_q = (size_t)s->n_heads * (size_t)s->head_dim;
    size_t n_kv = (size_t)s->n_kv_heads * (size_t)s->head_dim;
    size_t n_gate = w->model->layers[0].gate.w ? ffn : 0;
    return rows_init(&w->x, n, dim) && rows_init(&w->h, n, dim) && rows_init(&w->q, n, n_q) &&
           rows_init(&w->k, n, n_kv) && rows_init(&w->v, n, n_kv) &&
           rows_init(&w->attended, n, n_q) && rows_init(&w->gate, n, n_gate) &&
           rows_init(&w->up, n, ffn);
}

static bool worker_init(struct model_worker *w)
{
    const struct model_shape *s = &w->model->shape;
    size_t n = w->n_rows_max;
    size_t n_angles = w->model->n_ropes * n * (size_t)w->model->n_rotated / 2;
    w->group = (size_t)(s->n_heads / s->n_kv_heads);
    w->heads_at_once = w->group < HEADS_AT_ONCE ? w->group : HEADS_AT_ONCE;
    w->weights_scratch_floats = round_up(KERNELS_SCRATCH_ROWS * widest_row(s), 16);
    w->weights_scratch = take((size_t)w->n_threads * w->weights_scratch_floats, sizeof(float));
    w->position = take(n, sizeof *w->position);
    w->cosine = take(n_angles, sizeof(float));
    w->sine = take(n_angles, sizeof(float));
    w->wanted_in = take(n, sizeof *w->wanted_in);
    w->wanted_out = take(n, sizeof *w->wanted_out);
    return w->weights_scratch && w->position && w->cosine && w->sine && w->wanted_in &&
           w->wanted_out && activations_init(w);
}

bool model_worker_new(struct model_worker **out, const struct model *m, int32_t n_rows_max,
                      int n_threads, struct engine_error *err)
{
    if (n_rows_max < 1 || n_rows_max > ROWS_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "",
                           "%d rows at once were asked for, 1 to %d expected", n_rows_max,
                           ROWS_MAX);
    }
    struct model_worker *w = calloc(1, sizeof *w);
    if (!w) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the worker");
    }
    w->model = m;
    w->kernels = kernels_best();
    w->n_rows_max = (size_t)n_rows_max;
    w->n_threads = n_threads;
    if (!pool_new(&w->pool, n_threads, err)) {
        free(w);
        return false;
    }
    if (!worker_init(w)) {
        model_worker_free(w);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for %d rows at once", n_rows_max);
    }
    *out = w;
    return true;
}

void model_worker_free(struct model_worker *w)
{
    if (!w) {
        return;
    }
    pool_free(w->pool);
    struct model_rows *rows[] = {&w->x, &w->h, &w->q, &w->k, &w->v, &w->attended, &w->gate, &w->up};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rows_release(rows[i]);
    }
    void *block[] = {w->weights_scratch, w->position,   w->cosine, w->sine,
                     w->wanted_in,       w->wanted_out, w->scores};
    for (size_t i = 0; i < sizeof block / sizeof block[0]; i++) {
        free(block[i]);
    }
    free(w);
}

const char *model_worker_kernels(const struct model_worker *w)
{
    return w->kernels->name;
}

bool model_worker_set_kernels(struct model_worker *w, const char *name)
{
    const struct kernels *k = kernels_find(name);
    w->kernels = k ? k : w->kernels;
    return k != NULL;
}

/* ---------------------------------------------------------------- jobs */

static void run(struct model_worker *w, size_t n_items, size_t cost, pool_fn *fn, void *arg)
{
    pool_run(cost < THREADS_PAY ? NULL : w->pool, n_items, fn, arg);
}

struct row_job {
    struct model_worker *w;
    void (*fn)(struct model_worker *, size_t);
};

static void row_item(void *arg, size_t item, int thread)
{
    const struct row_job *j = arg;
    (void)thread;
    j->fn(j->w, item);
}

void model_worker_each_row(struct model_worker *w, size_t n_rows, size_t cost,
                           void (*fn)(struct model_worker *, size_t))
{
    struct row_job j = {w, fn};
    run(w, n_rows, n_rows * cost, row_item, &j);
}

struct product_job {
    struct model_worker *w;
    const struct model_product *p;
    size_t n_rows;
};

static size_t n_tiles(const struct model_matrix *m)
{
    return (m->n_out + TILE - 1) / TILE;
}

static void product_tile(const struct product_job *j, const struct model_product *p, size_t tile,
                         int thread)
{
    const struct model_matrix *m = p->w;
    size_t from = tile * TILE, to = from + TILE < m->n_out ? from + TILE : m->n_out;
    const struct kernels_matmul product = {.w = m->w,
                                           .row_bytes = kernels_row_bytes(m->type, m->n_in),
                                           .type = m->type,
                                           .k = m->n_in,
                                           .x = (const float *const *)p->x,
                                           .y = p->y,
                                           .n_rows = j->n_rows};
    float *scratch = j->w->weights_scratch + (size_t)thread * j->w->weights_scratch_floats;
    j->w->kernels->matmul(&product, from, to, scratch);
    for (size_t r = 0; m->bias && r < j->n_rows; r++) {
        for (size_t n = from; n < to; n++) {
            p->y[r][n] += m->bias[n];
        }
    }
}

static void product_item(void *arg, size_t item, int thread)
{
    const struct product_job *j = arg;
    const struct model_product *p = j->p;
    while (item >= n_tiles(p->w)) {
        item -= n_tiles(p->w);
        p++;
    }
    product_tile(j, p, item, thread);
}

void model_worker_multiply(struct model_worker *w, const struct model_product *p, size_t n_products,
                           size_t n_rows)
{
    struct product_job j = {w, p, n_rows};
    size_t n_items = 0, cost = 0;
    for (size_t i = 0; i < n_products; i++) {
        n_items += n_tiles(p[i].w);
        cost += p[i].w->n_out * p[i].w->n_in * n_rows;
    }
    run(w, n_items, cost, product_item, &j);
}

/* ---------------------------------------------------------------- steps of a layer */

static void norm_to(const struct model_worker *w, const struct model_norm *norm, const float *x,
                    float *y)
{
    size_t n = (size_t)w->model->shape.dim;
    if (norm->bias) {
        w->kernels->layernorm(x, norm->gain, norm->bias, n, w->model->eps, y);
    } else {
        w->kernels->rmsnorm(x, norm->gain, n, w->model->eps, y);
    }
}

struct norm_job {
    struct model_worker *w;
    const struct model_norm *norm;
    float *const *x; /* rows to read; h receives them in order */
};

static void norm_item(void *arg, size_t item, int thread)
{
    const struct norm_job *j = arg;
    (void)thread;
    norm_to(j->w, j->norm, j->x[item], j->w->h.row[item]);
}

void model_worker_norm(struct model_worker *w, const struct model_norm *norm)
{
    struct norm_job j = {w, norm, w->x.row};
    run(w, w->n_rows, w->n_rows * (size_t)w->model->shape.dim, norm_item, &j);
}

void model_worker_unpair(float *x, size_t n_heads, size_t head_dim, float *scratch)
{
    size_t half = head_dim / 2;
    for (size_t h = 0; h < n_heads; h++, x += head_dim) {
        for (size_t i = 0; i < half; i++) {
            scratch[i] = x[2 * i];
            scratch[i + half] = x[2 * i + 1];
        }
        memcpy(x, scratch, head_dim * sizeof *x);
    }
}

void model_worker_norm_again(struct model_worker *w, const struct model_norm *norm)
{
    struct norm_job j = {w, norm, w->h.row}; /* in place: a norm reads before it writes */
    run(w, w->n_rows, w->n_rows * (size_t)w->model->shape.dim, norm_item, &j);
}

static void add_row(struct model_worker *w, size_t r)
{
    float *x = w->x.row[r];
    const float *h = w->h.row[r];
    for (size_t i = 0; i < (size_t)w->model->shape.dim; i++) {
        x[i] += h[i];
    }
}

void model_worker_add(struct model_worker *w)
{
    model_worker_each_row(w, w->n_rows, (size_t)w->model->shape.dim / 4, add_row);
}

static void cap_item(void *arg, size_t item, int thread)
{
    const struct model_worker *w = arg;
    (void)thread;
    w->kernels->softcap(w->wanted_out[item], (size_t)w->model->shape.n_vocab, 1.0f,
                        w->model->logit_cap);
}

void model_worker_output(struct model_worker *w)
{
    size_t n = 0;
    for (size_t r = 0; r < w->n_rows; r++) {
        if (w->rows[r].logits) {
            w->wanted_in[n] = w->x.row[r];
            w->wanted_out[n++] = w->rows[r].logits;
        }
    }
    struct norm_job j = {w, &w->model->final_norm, w->wanted_in};
    run(w, n, n * (size_t)w->model->shape.dim, norm_item, &j);
    const struct model_product output = {&w->model->output, w->h.row, w->wanted_out};
    model_worker_multiply(w, &output, 1, n);
    if (w->model->logit_cap > 0.0f) {
        run(w, n, n * 8 * (size_t)w->model->shape.n_vocab, cap_item, w);
    }
}

/* ---------------------------------------------------------------- attention */

/* The first position that a row at `position` sees in the layer at hand. */
static size_t first_seen(const struct model_worker *w, size_t position)
{
    const struct model *m = w->model;
    size_t window = m->is_local && m->is_local[w->layer] ? (size_t)m->window : position + 1;
    return position < window ? 0 : position + 1 - window;
}

static void weigh(const struct model_worker *w, float *scores, size_t n)
{
    const struct model *m = w->model;
    float scale = m->attention_scale;
    if (m->attention_cap > 0.0f) {
        w->kernels->softcap(scores, n, scale, m->attention_cap);
        scale = 1.0f;
    }
    w->kernels->softmax(scores, n, scale);
}

/* Some query heads that share one kv head, one row: scores against all keys that it sees, softmax,
 * weighted sum of the values. */
static void attend_heads(struct model_worker *w, size_t row, size_t kv_head, size_t first, size_t n,
                         float *scores)
{
    const struct kvcache *c = w->rows[row].cache;
    size_t d = c->head_dim, position = (size_t)w->position[row];
    size_t seen = first_seen(w, position), n_t = position + 1 - seen;
    const float *q[HEADS_AT_ONCE];
    float *s[HEADS_AT_ONCE];
    for (size_t i = 0; i < n; i++) {
        q[i] = w->q.row[row] + (first + i) * d;
        s[i] = scores + i * w->scores_cap;
    }
    const struct kernels_matmul product = {
        .w = (const unsigned char *)(kvcache_keys(c, w->layer, kv_head) + seen * d),
        .row_bytes = d * sizeof(float),
        .type = KERNELS_F32,
        .k = d,
        .x = q,
        .y = s,
        .n_rows = n};
    w->kernels->matmul(&product, 0, n_t, NULL); /* float32 rows need no scratch */
    for (size_t i = 0; i < n; i++) {
        weigh(w, s[i], n_t);
        w->kernels->mix(s[i], n_t, kvcache_values(c, w->layer, kv_head) + seen * d, d, d,
                        w->attended.row[row] + (first + i) * d);
    }
}

static void attend_item(void *arg, size_t item, int thread)
{
    struct model_worker *w = arg;
    size_t n_kv = (size_t)w->model->shape.n_kv_heads, row = item / n_kv, kv_head = item % n_kv;
    float *scores = w->scores + (size_t)thread * w->heads_at_once * w->scores_cap;
    for (size_t g = 0; g < w->group; g += w->heads_at_once) {
        size_t n = w->group - g < w->heads_at_once ? w->group - g : w->heads_at_once;
        attend_heads(w, row, kv_head, kv_head * w->group + g, n, scores);
    }
}

void model_worker_attend(struct model_worker *w)
{
    size_t cost = 0;
    for (size_t r = 0; r < w->n_rows; r++) {
        kvcache_put(w->rows[r].cache, w->layer, w->position[r], w->k.row[r], w->v.row[r]);
        size_t position = (size_t)w->position[r];
        cost += 2 * (position + 1 - first_seen(w, position)) * (size_t)w->model->shape.n_heads *
                (size_t)w->model->shape.head_dim;
    }
    run(w, w->n_rows * (size_t)w->model->shape.n_kv_heads, cost, attend_item, w);
}

/* ---------------------------------------------------------------- the batch */

/* Room for the scores of n_t positions; grows by doubling, so long contexts cost memory only
 * when they are used. */
static bool reserve_scores(struct model_worker *w, size_t n_t, struct engine_error *err)
{
    if (n_t <= w->scores_cap) {
        return true;
    }
    size_t cap = w->scores_cap ? w->scores_cap : 256;
    while (cap < n_t) {
        cap *= 2;
    }
    float *scores = take((size_t)w->n_threads * w->heads_at_once * cap, sizeof *scores);
    if (!scores) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for attention over %zu tokens",
                           n_t);
    }
    free(w->scores);
    w->scores = scores;
    w->scores_cap = cap;
    return true;
}

/* Counts each cache's new rows in n_pending and finds the longest sequence. */
static bool check_rows(const struct model_worker *w, const struct model_row *rows, size_t n_rows,
                       size_t *longest, struct engine_error *err)
{
    *longest = 0;
    for (size_t r = 0; r < n_rows; r++) {
        struct kvcache *c = rows[r].cache;
        assert(c && c->model == w->model);
        if (rows[r].token < 0 || rows[r].token >= w->model->shape.n_vocab) {
            return engine_fail(err, ENGINE_BAD_PARAM, "prompt",
                               "token %d is outside the vocabulary of %d", rows[r].token,
                               w->model->shape.n_vocab);
        }
        if (c->n_tokens + c->n_pending >= c->n_tokens_max) {
            return engine_fail(err, ENGINE_CONTEXT_FULL, "", "the sequence is full at %d tokens",
                               c->n_tokens_max);
        }
        c->n_pending++;
        size_t n_t = (size_t)(c->n_tokens + c->n_pending);
        *longest = n_t > *longest ? n_t : *longest;
    }
    return true;
}

static void run_chunk(struct model_worker *w, const struct model_row *rows, size_t n_rows)
{
    w->rows = rows;
    w->n_rows = n_rows;
    for (size_t r = 0; r < n_rows; r++) {
        w->position[r] = rows[r].cache->n_tokens + rows[r].cache->n_pending++;
    }
    w->model->family->forward(w);
    for (size_t r = 0; r < n_rows; r++) {
        rows[r].cache->n_tokens += rows[r].cache->n_pending;
        rows[r].cache->n_pending = 0;
    }
}

bool model_forward(struct model_worker *w, const struct model_row *rows, size_t n_rows,
                   struct engine_error *err)
{
    size_t longest;
    bool ok = check_rows(w, rows, n_rows, &longest, err) && reserve_scores(w, longest, err);
    for (size_t r = 0; r < n_rows; r++) {
        rows[r].cache->n_pending = 0;
    }
    for (size_t at = 0; ok && at < n_rows; at += w->n_rows_max) {
        run_chunk(w, rows + at, n_rows - at < w->n_rows_max ? n_rows - at : w->n_rows_max);
    }
    return ok;
}
