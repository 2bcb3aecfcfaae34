/* kvcache.h - keys and values of one sequence, for the forward pass; the public part is in
 * model.h.
 *
 * Layout of both: [layer][kv head][position][head_dim], float32, so the keys of one head are the
 * rows of a matrix. Memory is touched only as positions are used.
 */
#ifndef ISOTHERM_KVCACHE_H
#define ISOTHERM_KVCACHE_H

#include "model.h"

struct kvcache {
    const struct model *model; /* borrowed: tells whose cache it is */
    size_t n_layers, n_kv_heads, head_dim;
    int32_t n_tokens_max, n_tokens;
    int32_t n_pending; /* rows of the batch in progress; 0 between batches */
    float *keys, *values;
};

/* Row 0 of a head: n_tokens_max rows of head_dim. */
float *kvcache_keys(const struct kvcache *c, size_t layer, size_t kv_head);
float *kvcache_values(const struct kvcache *c, size_t layer, size_t kv_head);

/* Stores all heads' keys and values [n_kv_heads][head_dim] of one position. */
void kvcache_put(struct kvcache *c, size_t layer, int32_t position, const float *keys,
                 const float *values);

#endif
