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

#define TILE        48 /* outputs of one item: a multiple of the kernels' blocks of 12, 4 and 3 */
#define THREADS_PAY 65536 /* multiplications from which waking the threads pays */
#define ROWS_MAX    65536
#define QUERIES     32 /* that read a tile of keys and values together */

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

/* Of each query what it has found; a tile's keys and values, widened; its scores. */
static size_t attention_floats(size_t head_dim)
{
    size_t ldv = round_up(head_dim, KERNELS_VALUES);
    return round_up(QUERIES * ldv + KERNELS_TILE * (head_dim + ldv + 1), 16);
}

static bool worker_init(struct model_worker *w)
{
    const struct model_shape *s = &w->model->shape;
    size_t n = w->n_rows_max;
    size_t n_angles = w->model->n_ropes * n * (size_t)w->model->n_rotated / 2;
    w->group = (size_t)(s->n_heads / s->n_kv_heads);
    w->weights_scratch_floats = round_up(KERNELS_SCRATCH_ROWS * widest_row(s), 16);
    w->weights_scratch = take((size_t)w->n_threads * w->weights_scratch_floats, sizeof(float));
    w->attention_floats = attention_floats((size_t)s->head_dim);
    w->attention_scratch = take((size_t)w->n_threads * w->attention_floats, sizeof(float));
    w->position = take(n, sizeof *w->position);
    w->cosine = take(n_angles, sizeof(float));
    w->sine = take(n_angles, sizeof(float));
    w->wanted_in = take(n, sizeof *w->wanted_in);
    w->wanted_out = take(n, sizeof *w->wanted_out);
    return w->weights_scratch && w->attention_scratch && w->position && w->cosine && w->sine &&
           w->wanted_in && w->wanted_out && activations_init(w);
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
    void *block[] = {w->weights_scratch, w->position,   w->cosine,           w->sine,
                     w->wanted_in,       w->wanted_out, w->attention_scratch};
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

/* Query heads of one kv head in neighbouring rows of one sequence. */
struct queries {
    const struct kvcache *cache;
    size_t kv_head;
    size_t row, n_rows;   /* of the batch */
    size_t head, n_heads; /* of each row */
    struct kernels_fold fold[QUERIES];
    float *keys, *values, *scores; /* scratch: [head_dim][TILE], [TILE][ldv], [TILE] */
};

static void queries_init(struct queries *q, float *scratch)
{
    size_t ldv = q->cache->ldv, n = q->n_rows * q->n_heads;
    memset(scratch, 0, n * ldv * sizeof *scratch);
    for (size_t i = 0; i < n; i++) {
        q->fold[i] = (struct kernels_fold){-INFINITY, 0.0f, scratch + i * ldv};
    }
    q->keys = scratch + QUERIES * ldv;
    q->values = q->keys + KERNELS_TILE * q->cache->head_dim;
    q->scores = q->values + KERNELS_TILE * ldv;
}

/* Stored keys or values as float32. */
static const float *widened(const struct model_worker *w, const struct queries *q,
                            const void *stored, size_t n, float *scratch)
{
    if (q->cache->type == KERNELS_F32) {
        return stored;
    }
    w->kernels->expand(q->cache->type, stored, n, scratch);
    return scratch;
}

/* What a row sees of a tile. */
static void fold_row(const struct model_worker *w, struct queries *q, size_t row, size_t tile,
                     const float *keys, const float *values)
{
    const struct model *m = w->model;
    size_t d = q->cache->head_dim, position = (size_t)w->position[row];
    size_t first = tile * KERNELS_TILE, seen = first_seen(w, position);
    if (first > position || first + KERNELS_TILE <= seen) {
        return;
    }
    size_t from = seen > first ? seen - first : 0;
    size_t to = position - first < KERNELS_TILE ? position - first + 1 : KERNELS_TILE;
    for (size_t h = 0; h < q->n_heads; h++) {
        float scale = m->attention_scale;
        w->kernels->scores(w->q.row[row] + (q->head + h) * d, keys, d, q->scores);
        if (m->attention_cap > 0.0f) {
            w->kernels->softcap(q->scores, KERNELS_TILE, scale, m->attention_cap);
            scale = 1.0f;
        }
        w->kernels->fold(&q->fold[(row - q->row) * q->n_heads + h], q->scores, from, to, scale,
                         values, q->cache->ldv);
    }
}

static void store_queries(const struct model_worker *w, const struct queries *q)
{
    size_t d = q->cache->head_dim;
    for (size_t i = 0; i < q->n_rows * q->n_heads; i++) {
        const struct kernels_fold *f = &q->fold[i];
        float *out = w->attended.row[q->row + i / q->n_heads] + (q->head + i % q->n_heads) * d;
        float inverse = 1.0f / f->sum;
        for (size_t j = 0; j < d; j++) {
            out[j] = f->out[j] * inverse;
        }
    }
}

/* Tile after tile, in order: all queries while it is in the cache of the processor. */
static void attend_queries(struct model_worker *w, struct queries *q, float *scratch)
{
    const struct kvcache *c = q->cache;
    size_t last = (size_t)w->position[q->row + q->n_rows - 1] / KERNELS_TILE;
    queries_init(q, scratch);
    for (size_t t = first_seen(w, (size_t)w->position[q->row]) / KERNELS_TILE; t <= last; t++) {
        const float *keys = widened(w, q, kvcache_keys(c, t, w->layer, q->kv_head),
                                    KERNELS_TILE * c->head_dim, q->keys);
        const float *values = widened(w, q, kvcache_values(c, t, w->layer, q->kv_head),
                                      KERNELS_TILE * c->ldv, q->values);
        for (size_t r = q->row; r < q->row + q->n_rows; r++) {
            fold_row(w, q, r, t, keys, values);
        }
    }
    store_queries(w, q);
}

/* Rows from `row` on that go with it: of the same sequence, up to a multiple of n_max rows. */
static size_t n_rows_with(const struct model_worker *w, size_t row, size_t n_max)
{
    size_t n = 1;
    while ((row + n) % n_max != 0 && row + n < w->n_rows &&
           w->rows[row + n].cache == w->rows[row].cache) {
        n++;
    }
    return n;
}

static void attend_item(void *arg, size_t item, int thread)
{
    struct model_worker *w = arg;
    size_t n_kv = (size_t)w->model->shape.n_kv_heads, row = item / n_kv, kv_head = item % n_kv;
    size_t n_heads = w->group < QUERIES ? w->group : QUERIES, n_max = QUERIES / n_heads;
    const struct kvcache *c = w->rows[row].cache;
    if (row % n_max != 0 && w->rows[row - 1].cache == c) {
        return; /* it goes with the row before */
    }
    float *scratch = w->attention_scratch + (size_t)thread * w->attention_floats;
    for (size_t g = 0; g < w->group; g += n_heads) {
        struct queries q = {.cache = c,
                            .kv_head = kv_head,
                            .row = row,
                            .n_rows = n_rows_with(w, row, n_max),
                            .head = kv_head * w->group + g,
                            .n_heads = w->group - g < n_heads ? w->group - g : n_heads};
        attend_queries(w, &q, scratch);
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

/* Counts each cache's new rows in n_pending. */
static bool check_rows(const struct model_worker *w, const struct model_row *rows, size_t n_rows,
                       struct engine_error *err)
{
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
    }
    return true;
}

/* Blocks for all that is pending, cache by cache. */
static bool prepare_caches(const struct model_row *rows, size_t n_rows, struct engine_error *err)
{
    for (size_t r = 0; r < n_rows; r++) {
        int32_t n_new = rows[r].cache->n_pending;
        rows[r].cache->n_pending = 0;
        if (!kvcache_prepare(rows[r].cache, n_new, err)) {
            return false;
        }
    }
    return true;
}

static void run_chunk(struct model_worker *w, const struct model_row *rows, size_t n_rows)
{
    w->rows = rows;
    w->n_rows = n_rows;
    for (size_t r = 0; r < n_rows; r++) {
        struct kvcache *c = rows[r].cache;
        w->position[r] = c->n_tokens + c->n_pending++;
        c->table[(size_t)w->position[r] / KVPOOL_TOKENS]
            ->tokens[(size_t)w->position[r] % KVPOOL_TOKENS] = rows[r].token;
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
    bool ok = check_rows(w, rows, n_rows, err) && prepare_caches(rows, n_rows, err);
    for (size_t r = 0; r < n_rows; r++) {
        rows[r].cache->n_pending = 0;
    }
    for (size_t at = 0; ok && at < n_rows; at += w->n_rows_max) {
        run_chunk(w, rows + at, n_rows - at < w->n_rows_max ? n_rows - at : w->n_rows_max);
    }
    return ok;
}
