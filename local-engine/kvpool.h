/* kvpool.h - the memory of all sequences of one model: blocks of KVPOOL_TOKENS positions, counted
 * references, and an index of blocks by the tokens that they and all before them hold.
 *
 * A block has one writer until it is published; from then on it never changes, and any sequence
 * that begins with the same tokens may hold it. A published block that nobody holds stays in the
 * index until its memory is needed, the one longest unused first.
 *
 * Room is promised before it is taken: blocks in use and those promised never exceed the limit, so
 * whoever was promised blocks gets them. One thread owns a pool.
 */
#ifndef ISOTHERM_KVPOOL_H
#define ISOTHERM_KVPOOL_H

#include "engine_error.h"

#include <stddef.h>
#include <stdint.h>

#define KVPOOL_TOKENS 32

struct kvpool;

struct kvblock {
    void *data; /* [block_bytes], zeros when it is new */
    int32_t tokens[KVPOOL_TOKENS];
    uint32_t n_refs;
    uint64_t serial; /* 0: not published. Else no other block ever has the same */
    /* the pool's own */
    uint64_t parent; /* serial of the block before it; 0: it is the first of a sequence */
    struct kvblock *next_same_hash;
    struct kvblock *older, *newer; /* among those that nobody holds */
};

/* Who takes blocks: one request, whatever number of sequences it has. Starts zeroed but for pool.
 */
struct kvaccount {
    struct kvpool *pool;
    size_t n_promised; /* that it has not taken yet */
};

/* Memory is taken as blocks are. block_bytes > 0, n_blocks_max > 0. */
ENGINE_WARN_UNUSED bool kvpool_new(struct kvpool **out, size_t block_bytes, size_t n_blocks_max,
                                   struct engine_error *err);
void kvpool_free(struct kvpool *p); /* nobody may hold a block */
size_t kvpool_n_max(const struct kvpool *p);
size_t kvpool_n_used(const struct kvpool *p);   /* held by somebody */
size_t kvpool_n_free(const struct kvpool *p);   /* that can still be promised */
size_t kvpool_n_kept(const struct kvpool *p);   /* published, held by nobody */
size_t kvpool_n_stored(const struct kvpool *p); /* that have memory */

/* n more for the account; false: there are not as many free now. */
ENGINE_WARN_UNUSED bool kvpool_promise(struct kvaccount *a, size_t n);
/* At most n fewer. */
void kvpool_forgo(struct kvaccount *a, size_t n);

/* A block of the account's promise (there must be one), held once, not published. NULL: the system
 * has no memory. */
struct kvblock *kvpool_take(struct kvaccount *a);
void kvpool_hold(struct kvpool *p, struct kvblock *b);
/* A block that nobody holds any more counts as promised again. A published one stays in the index,
 * behind all that were dropped before: drop the last block of a sequence first. */
void kvpool_drop(struct kvaccount *a, struct kvblock *b);

/* The published block with these tokens after the block `parent` (a serial; 0: at the beginning),
 * or NULL. */
struct kvblock *kvpool_find(const struct kvpool *p, uint64_t parent, const int32_t *tokens);
/* b, whose tokens are all there, becomes the one that kvpool_find() finds; there is none yet. */
void kvpool_publish(struct kvpool *p, struct kvblock *b, uint64_t parent);
/* Only its one holder may: it wants to write to it again. */
void kvpool_unpublish(struct kvpool *p, struct kvblock *b);

/* Gives memory that nobody holds back to the system; published blocks only where they_too. */
void kvpool_trim(struct kvpool *p, bool they_too);

#endif
