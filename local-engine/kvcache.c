/* kvcache.c - one calloc for keys and one for values: pages that are never used cost nothing. */
#include "kvcache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static size_t head_offset(const struct kvcache *c, size_t layer, size_t kv_head)
{
    return (layer * c->n_kv_heads + kv_head) * (size_t)c->n_tokens_max * c->head_dim;
}

bool kvcache_new(struct kvcache **out, const struct model *m, int32_t n_tokens_max,
                 struct engine_error *err)
{
    const struct model_shape *s = model_get_shape(m);
    if (n_tokens_max < 1 || n_tokens_max > s->context) {
        return engine_fail(err, ENGINE_BAD_PARAM, "",
                           "a cache of %d tokens was asked for, the model takes 1 to %d",
                           n_tokens_max, s->context);
    }
    struct kvcache *c = calloc(1, sizeof *c);
    size_t n;
    if (!c ||
        __builtin_mul_overflow((size_t)s->n_layers * (size_t)s->n_kv_heads * (size_t)s->head_dim,
                               (size_t)n_tokens_max, &n)) {
        free(c);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a cache of %d tokens",
                           n_tokens_max);
    }
    *c = (struct kvcache){.model = m,
                          .n_layers = (size_t)s->n_layers,
                          .n_kv_heads = (size_t)s->n_kv_heads,
                          .head_dim = (size_t)s->head_dim,
                          .n_tokens_max = n_tokens_max,
                          .keys = calloc(n, sizeof(float)),
                          .values = calloc(n, sizeof(float))};
    if (!c->keys || !c->values) {
        kvcache_free(c);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a cache of %d tokens",
                           n_tokens_max);
    }
    *out = c;
    return true;
}

void kvcache_free(struct kvcache *c)
{
    if (c) {
        free(c->keys);
        free(c->values);
        free(c);
    }
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
    }
}

void kvcache_copy(struct kvcache *dst, const struct kvcache *src, int32_t n_tokens)
{
    kvcache_copy_rest(dst, src, 0, n_tokens);
}

void kvcache_copy_rest(struct kvcache *dst, const struct kvcache *src, int32_t n_same,
                       int32_t n_tokens)
{
    assert(dst->model == src->model && n_same >= 0 && n_same <= n_tokens);
    assert(n_tokens <= src->n_tokens && n_tokens <= dst->n_tokens_max && n_same <= dst->n_tokens);
    size_t at = (size_t)n_same * src->head_dim;
    size_t n = (size_t)(n_tokens - n_same) * src->head_dim * sizeof(float);
    for (size_t l = 0; l < src->n_layers; l++) {
        for (size_t h = 0; h < src->n_kv_heads; h++) {
            memcpy(kvcache_keys(dst, l, h) + at, kvcache_keys(src, l, h) + at, n);
            memcpy(kvcache_values(dst, l, h) + at, kvcache_values(src, l, h) + at, n);
        }
    }
    dst->n_tokens = n_tokens;
}

float *kvcache_keys(const struct kvcache *c, size_t layer, size_t kv_head)
{
    return c->keys + head_offset(c, layer, kv_head);
}

float *kvcache_values(const struct kvcache *c, size_t layer, size_t kv_head)
{
    return c->values + head_offset(c, layer, kv_head);
}

void kvcache_put(struct kvcache *c, size_t layer, int32_t position, const float *keys,
                 const float *values)
{
    size_t d = c->head_dim, at = (size_t)position * d;
    for (size_t h = 0; h < c->n_kv_heads; h++) {
        memcpy(kvcache_keys(c, layer, h) + at, keys + h * d, d * sizeof(float));
        memcpy(kvcache_values(c, layer, h) + at, values + h * d, d * sizeof(float));
    }
}
