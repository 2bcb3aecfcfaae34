/* kvcache.c - the table of a sequence: blocks are taken when rows come, shared by counting. */
#include "kvcache.h"
#include "kernels_quant.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static size_t padded(size_t head_dim)
{
    return (head_dim + KERNELS_VALUES - 1) / KERNELS_VALUES * KERNELS_VALUES;
}

static size_t element_bytes(enum kernels_type type)
{
    return type == KERNELS_F16 ? sizeof(uint16_t) : sizeof(float);
}

/* Elements of one head's keys and values in a block. */
static size_t head_elements(size_t head_dim)
{
    return KVPOOL_TOKENS * (head_dim + padded(head_dim));
}

size_t kvcache_block_bytes(const struct model *m, enum kernels_type type)
{
    const struct model_shape *s = model_get_shape(m); /* its limits leave no overflow */
    return (size_t)s->n_layers * (size_t)s->n_kv_heads * head_elements((size_t)s->head_dim) *
           element_bytes(type);
}

size_t kvcache_n_blocks(int64_t n_tokens)
{
    return ((size_t)n_tokens + KVPOOL_TOKENS - 1) / KVPOOL_TOKENS;
}

/* ---- making */

static bool check_length(const struct model *m, int32_t n_tokens_max, struct engine_error *err)
{
    int32_t context = model_get_shape(m)->context;
    return (n_tokens_max >= 1 && n_tokens_max <= context) ||
           engine_fail(err, ENGINE_BAD_PARAM, "",
                       "a cache of %d tokens was asked for, the model takes 1 to %d", n_tokens_max,
                       context);
}

bool kvcache_new_of(struct kvcache **out, const struct model *m, enum kernels_type type,
                    struct kvaccount *account, int32_t n_tokens_max, struct engine_error *err)
{
    const struct model_shape *s = model_get_shape(m);
    if (!check_length(m, n_tokens_max, err)) {
        return false;
    }
    struct kvcache *c = calloc(1, sizeof *c);
    struct kvblock **table = calloc(kvcache_n_blocks(n_tokens_max), sizeof(struct kvblock *));
    if (!c || !table) {
        free(c);
        free(table);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a cache of %d tokens",
                           n_tokens_max);
    }
    *c = (struct kvcache){.model = m,
                          .type = type,
                          .n_layers = (size_t)s->n_layers,
                          .n_kv_heads = (size_t)s->n_kv_heads,
                          .head_dim = (size_t)s->head_dim,
                          .ldv = padded((size_t)s->head_dim),
                          .n_tokens_max = n_tokens_max,
                          .table = table,
                          .account = account};
    *out = c;
    return true;
}

/* A pool of its own, for one sequence. */
bool kvcache_new(struct kvcache **out, const struct model *m, int32_t n_tokens_max,
                 struct engine_error *err)
{
    struct kvcache *c;
    if (!kvcache_new_of(&c, m, KERNELS_F32, NULL, n_tokens_max, err)) {
        return false;
    }
    size_t n = kvcache_n_blocks(n_tokens_max);
    if (!kvpool_new(&c->own.pool, kvcache_block_bytes(m, KERNELS_F32), n, err)) {
        kvcache_free(c);
        return false;
    }
    c->owns_pool = kvpool_promise(&c->own, n);
    c->account = &c->own;
    *out = c;
    return true;
}

static void drop_from(struct kvcache *c, size_t n_blocks)
{
    while (c->n_blocks > n_blocks) {
        kvpool_drop(c->account, c->table[--c->n_blocks]);
    }
    c->n_published = c->n_published < n_blocks ? c->n_published : n_blocks;
}

void kvcache_free(struct kvcache *c)
{
    if (!c) {
        return;
    }
    if (c->account && !c->owns_pool) {
        kvcache_publish(c);
    }
    drop_from(c, 0);
    if (c->owns_pool) {
        kvpool_forgo(&c->own, c->own.n_promised);
        kvpool_free(c->own.pool);
    }
    free(c->table);
    free(c);
}

int32_t kvcache_len(const struct kvcache *c)
{
    return c->n_tokens;
}

void kvcache_truncate(struct kvcache *c, int32_t n_tokens)
{
    assert(n_tokens >= 0);
    if (n_tokens < c->n_tokens) {
        c->n_tokens = n_tokens;
        drop_from(c, kvcache_n_blocks(n_tokens));
    }
}

/* ---- sharing */

void kvcache_share(struct kvcache *dst, const struct kvcache *src, int32_t n_tokens)
{
    assert(dst->model == src->model && dst->account == src->account);
    assert(n_tokens >= 0 && n_tokens <= src->n_tokens && n_tokens <= dst->n_tokens_max);
    size_t n = kvcache_n_blocks(n_tokens), n_same = 0;
    while (n_same < n && n_same < dst->n_blocks && dst->table[n_same] == src->table[n_same]) {
        n_same++;
    }
    drop_from(dst, n_same);
    for (; dst->n_blocks < n; dst->n_blocks++) {
        dst->table[dst->n_blocks] = src->table[dst->n_blocks];
        kvpool_hold(dst->account->pool, src->table[dst->n_blocks]);
    }
    dst->n_published = src->n_published < n ? src->n_published : n;
    dst->n_tokens = n_tokens;
}

/* Serial of the block before the n-th. */
static uint64_t parent_of(const struct kvcache *c, size_t n)
{
    return n > 0 ? c->table[n - 1]->serial : 0;
}

size_t kvcache_attach(struct kvcache *c, const int32_t *tokens, size_t n)
{
    size_t before = c->n_blocks;
    if (c->n_published < c->n_blocks || (size_t)c->n_tokens != c->n_blocks * KVPOOL_TOKENS) {
        return 0;
    }
    while ((c->n_blocks + 1) * KVPOOL_TOKENS < n) {
        struct kvblock *b = kvpool_find(c->account->pool, parent_of(c, c->n_blocks),
                                        tokens + c->n_blocks * KVPOOL_TOKENS);
        if (!b) {
            break;
        }
        kvpool_hold(c->account->pool, b);
        c->table[c->n_blocks++] = b;
    }
    c->n_published = c->n_blocks;
    c->n_tokens = (int32_t)(c->n_blocks * KVPOOL_TOKENS);
    return c->n_blocks - before;
}

/* Instead of a block that only c holds. */
static void take_found(struct kvcache *c, size_t block, struct kvblock *found)
{
    kvpool_hold(c->account->pool, found);
    kvpool_drop(c->account, c->table[block]);
    kvpool_forgo(c->account, 1);
    c->table[block] = found;
}

void kvcache_publish(struct kvcache *c)
{
    struct kvpool *pool = c->account->pool;
    for (; (c->n_published + 1) * KVPOOL_TOKENS <= (size_t)c->n_tokens; c->n_published++) {
        struct kvblock *b = c->table[c->n_published];
        uint64_t parent = parent_of(c, c->n_published);
        if (b->serial) {
            continue; /* by another cache that holds it */
        }
        struct kvblock *found = kvpool_find(pool, parent, b->tokens);
        if (!found) {
            kvpool_publish(pool, b, parent);
        } else if (b->n_refs == 1) {
            take_found(c, c->n_published, found);
        } else {
            return; /* two blocks in use instead of one: nobody was promised that */
        }
    }
}

/* ---- a batch */

static void *head_of(const struct kvcache *c, const struct kvblock *b, size_t layer, size_t kv_head)
{
    size_t at = (layer * c->n_kv_heads + kv_head) * head_elements(c->head_dim);
    return (unsigned char *)b->data + at * element_bytes(c->type);
}

const void *kvcache_keys(const struct kvcache *c, size_t block, size_t layer, size_t kv_head)
{
    return head_of(c, c->table[block], layer, kv_head);
}

const void *kvcache_values(const struct kvcache *c, size_t block, size_t layer, size_t kv_head)
{
    return (const unsigned char *)kvcache_keys(c, block, layer, kv_head) +
           KVPOOL_TOKENS * c->head_dim * element_bytes(c->type);
}

static bool take_block(struct kvcache *c, struct kvblock **out, struct engine_error *err)
{
    *out = kvpool_take(c->account);
    return *out || engine_fail(err, ENGINE_NOMEM, "", "out of memory for keys and values");
}

/* c's last block is begun: nobody else may see what is written to it now. */
static bool own_last(struct kvcache *c, struct engine_error *err)
{
    size_t last = (size_t)c->n_tokens / KVPOOL_TOKENS;
    struct kvblock *b = c->table[last], *copy;
    if (b->n_refs == 1) {
        if (b->serial) {
            kvpool_unpublish(c->account->pool, b);
        }
        return true;
    }
    if (!take_block(c, &copy, err)) {
        return false;
    }
    memcpy(copy->data, b->data, kvcache_block_bytes(c->model, c->type));
    memcpy(copy->tokens, b->tokens, sizeof b->tokens);
    kvpool_drop(c->account, b);
    c->table[last] = copy;
    return true;
}

bool kvcache_prepare(struct kvcache *c, int32_t n_new, struct engine_error *err)
{
    size_t n = kvcache_n_blocks((int64_t)c->n_tokens + n_new);
    if (n_new > 0 && c->n_tokens % KVPOOL_TOKENS > 0 && !own_last(c, err)) {
        return false;
    }
    size_t whole = (size_t)c->n_tokens / KVPOOL_TOKENS;
    c->n_published = c->n_published < whole ? c->n_published : whole;
    while (c->n_blocks < n) {
        if (!take_block(c, &c->table[c->n_blocks], err)) {
            return false;
        }
        c->n_blocks++;
    }
    return true;
}

static void put(const struct kvcache *c, void *to, size_t at, float x)
{
    if (c->type == KERNELS_F16) {
        ((uint16_t *)to)[at] = kernels_to_f16(x);
    } else {
        ((float *)to)[at] = x;
    }
}

void kvcache_put(struct kvcache *c, size_t layer, int32_t position, const float *keys,
                 const float *values)
{
    size_t d = c->head_dim, t = (size_t)position % KVPOOL_TOKENS;
    struct kvblock *b = c->table[(size_t)position / KVPOOL_TOKENS];
    for (size_t h = 0; h < c->n_kv_heads; h++) {
        void *head = head_of(c, b, layer, h);
        for (size_t i = 0; i < d; i++) {
            put(c, head, i * KVPOOL_TOKENS + t, keys[h * d + i]);
            put(c, head, KVPOOL_TOKENS * d + t * c->ldv + i, values[h * d + i]);
        }
    }
}
