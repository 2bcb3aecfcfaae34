/* kvcache.h - keys and values of one sequence, for the forward pass and for who shares them; the
 * public part is in model.h.
 *
 * A cache is a table of blocks of a pool (kvpool.h), each with KVPOOL_TOKENS positions of all
 * layers; several caches may hold a block. In a block, for each layer and kv head, come
 *   keys    [head_dim][KVPOOL_TOKENS]   turned, as kernels.h wants a tile
 *   values  [KVPOOL_TOKENS][ldv]        padded to KERNELS_VALUES, zeros there
 * as float32 or float16. A block that others hold too is copied before the first write to it. What
 * is computed from a block depends on its positions alone, so whose block it is cannot be seen.
 */
#ifndef ISOTHERM_KVCACHE_H
#define ISOTHERM_KVCACHE_H

#include "kernels.h"
#include "kvpool.h"
#include "model.h"

#include <assert.h>

static_assert(KVPOOL_TOKENS == KERNELS_TILE, "a block is a tile of attention");

struct kvcache {
    const struct model *model; /* borrowed: tells whose cache it is */
    enum kernels_type type;    /* KERNELS_F32 or KERNELS_F16 */
    size_t n_layers, n_kv_heads, head_dim, ldv;
    int32_t n_tokens_max, n_tokens;
    int32_t n_pending;      /* rows of the batch in progress; 0 between batches */
    struct kvblock **table; /* [n_blocks] of room for n_tokens_max */
    size_t n_blocks;        /* at least as many as n_tokens need */
    size_t n_published;     /* first ones that are in the index */
    struct kvaccount *account, own;
    bool owns_pool;
};

/* ---- a pool for sequences of a model */

/* Bytes of a block. */
size_t kvcache_block_bytes(const struct model *m, enum kernels_type type);
/* Blocks for that many positions. */
size_t kvcache_n_blocks(int64_t n_tokens);

/* An empty cache that takes its blocks from the account, whose pool has blocks of this type. The
 * account is borrowed. */
ENGINE_WARN_UNUSED bool kvcache_new_of(struct kvcache **out, const struct model *m,
                                       enum kernels_type type, struct kvaccount *account,
                                       int32_t n_tokens_max, struct engine_error *err);
/* Goes on, at the end of an empty cache or of one whose blocks are whole and published, with blocks
 * of the index that hold the next of the n tokens of a prompt, but leaves at least the last token
 * to be evaluated. Returns how many blocks; the account is promised what it was before. */
size_t kvcache_attach(struct kvcache *c, const int32_t *tokens, size_t n);
/* Lets others find the whole blocks of c; where there is such a block already, c takes that. */
void kvcache_publish(struct kvcache *c);

/* ---- a batch */

/* Makes room for n_new more positions that only c writes to. */
ENGINE_WARN_UNUSED bool kvcache_prepare(struct kvcache *c, int32_t n_new, struct engine_error *err);
/* Stores all heads' keys and values [n_kv_heads][head_dim] of one position. */
void kvcache_put(struct kvcache *c, size_t layer, int32_t position, const float *keys,
                 const float *values);
/* The tile of one head in a block: stored bytes, type of the cache. */
const void *kvcache_keys(const struct kvcache *c, size_t block, size_t layer, size_t kv_head);
const void *kvcache_values(const struct kvcache *c, size_t block, size_t layer, size_t kv_head);

#endif
