/* kvpool.c - blocks in three states: held, kept (published, held by nobody, in order of age) and
 * spare (memory without content).
 *
 * The index is a hash table over (serial of the block before, tokens), and a hit is compared whole:
 * equal hashes cannot give a wrong answer, and neither can a block whose predecessor was given up,
 * since its serial never comes back. Whoever holds a block holds those before it too, and drops
 * them later; so the oldest kept block is never one that others follow, but for those that cannot
 * be found any more.
 *
 * Blocks are mapped one by one: memory that is given back is the system's at once, whatever malloc
 * thinks of it, and pages that were never used cost nothing.
 */
#include "kvpool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BUCKETS_MIN = 64 };

struct kvpool {
    size_t block_bytes, n_max;
    size_t n_used, n_promised, n_kept, n_spare;
    struct kvblock *oldest, *newest; /* kept ones */
    struct kvblock *spare;           /* by next_same_hash */
    struct kvblock **buckets;
    size_t n_buckets, n_published; /* buckets: a power of two */
    uint64_t last_serial;
};

bool kvpool_new(struct kvpool **out, size_t block_bytes, size_t n_blocks_max,
                struct engine_error *err)
{
    assert(block_bytes > 0 && n_blocks_max > 0);
    struct kvpool *p = calloc(1, sizeof *p);
    struct kvblock **buckets = calloc(BUCKETS_MIN, sizeof(struct kvblock *));
    if (!p || !buckets) {
        free(p);
        free(buckets);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for keys and values");
    }
    *p = (struct kvpool){.block_bytes = block_bytes,
                         .n_max = n_blocks_max,
                         .buckets = buckets,
                         .n_buckets = BUCKETS_MIN};
    *out = p;
    return true;
}

void kvpool_free(struct kvpool *p)
{
    if (!p) {
        return;
    }
    assert(p->n_used == 0 && p->n_promised == 0);
    kvpool_trim(p, true);
    free(p->buckets);
    free(p);
}

size_t kvpool_n_max(const struct kvpool *p)
{
    return p->n_max;
}

size_t kvpool_n_used(const struct kvpool *p)
{
    return p->n_used;
}

size_t kvpool_n_free(const struct kvpool *p)
{
    size_t n = p->n_used + p->n_promised;
    return n < p->n_max ? p->n_max - n : 0;
}

size_t kvpool_n_kept(const struct kvpool *p)
{
    return p->n_kept;
}

size_t kvpool_n_stored(const struct kvpool *p)
{
    return p->n_used + p->n_kept + p->n_spare;
}

/* ---- promises */

bool kvpool_promise(struct kvaccount *a, size_t n)
{
    if (n > kvpool_n_free(a->pool)) {
        return false;
    }
    a->n_promised += n;
    a->pool->n_promised += n;
    return true;
}

void kvpool_forgo(struct kvaccount *a, size_t n)
{
    n = n < a->n_promised ? n : a->n_promised;
    a->n_promised -= n;
    a->pool->n_promised -= n;
}

/* ---- the index */

static size_t bucket_of(const struct kvpool *p, uint64_t parent, const int32_t *tokens)
{
    uint64_t h = parent * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < KVPOOL_TOKENS; i++) {
        h = (h ^ (uint32_t)tokens[i]) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    return (size_t)h & (p->n_buckets - 1);
}

/* Twice the buckets; without memory for them the old ones do, only slower. */
static void grow(struct kvpool *p)
{
    size_t n_old = p->n_buckets;
    struct kvblock **old = p->buckets;
    struct kvblock **buckets = calloc(2 * n_old, sizeof(struct kvblock *));
    if (!buckets) {
        return;
    }
    p->buckets = buckets;
    p->n_buckets = 2 * n_old;
    for (size_t i = 0; i < n_old; i++) {
        for (struct kvblock *b = old[i], *next; b; b = next) {
            next = b->next_same_hash;
            struct kvblock **at = &buckets[bucket_of(p, b->parent, b->tokens)];
            b->next_same_hash = *at;
            *at = b;
        }
    }
    free(old);
}

struct kvblock *kvpool_find(const struct kvpool *p, uint64_t parent, const int32_t *tokens)
{
    struct kvblock *b = p->buckets[bucket_of(p, parent, tokens)];
    while (b && (b->parent != parent || memcmp(b->tokens, tokens, sizeof b->tokens) != 0)) {
        b = b->next_same_hash;
    }
    return b;
}

void kvpool_publish(struct kvpool *p, struct kvblock *b, uint64_t parent)
{
    assert(b->n_refs > 0 && b->serial == 0 && !kvpool_find(p, parent, b->tokens));
    if (p->n_published >= p->n_buckets) {
        grow(p);
    }
    b->serial = ++p->last_serial;
    b->parent = parent;
    struct kvblock **at = &p->buckets[bucket_of(p, parent, b->tokens)];
    b->next_same_hash = *at;
    *at = b;
    p->n_published++;
}

static void leave_index(struct kvpool *p, struct kvblock *b)
{
    struct kvblock **at = &p->buckets[bucket_of(p, b->parent, b->tokens)];
    while (*at != b) {
        at = &(*at)->next_same_hash;
    }
    *at = b->next_same_hash;
    b->serial = 0;
    p->n_published--;
}

void kvpool_unpublish(struct kvpool *p, struct kvblock *b)
{
    assert(b->n_refs == 1 && b->serial != 0);
    leave_index(p, b);
}

/* ---- kept blocks */

static void keep(struct kvpool *p, struct kvblock *b)
{
    b->older = p->newest;
    b->newer = NULL;
    *(p->newest ? &p->newest->newer : &p->oldest) = b;
    p->newest = b;
    p->n_kept++;
}

static void unkeep(struct kvpool *p, struct kvblock *b)
{
    *(b->older ? &b->older->newer : &p->oldest) = b->newer;
    *(b->newer ? &b->newer->older : &p->newest) = b->older;
    p->n_kept--;
}

static void add_spare(struct kvpool *p, struct kvblock *b)
{
    b->next_same_hash = p->spare;
    p->spare = b;
    p->n_spare++;
}

static void evict(struct kvpool *p)
{
    struct kvblock *b = p->oldest;
    unkeep(p, b);
    leave_index(p, b);
    add_spare(p, b);
}

/* ---- blocks */

static void block_free(const struct kvpool *p, struct kvblock *b)
{
    (void)munmap(b->data, p->block_bytes); /* of a mapping of ours it cannot fail */
    free(b);
}

static struct kvblock *block_new(const struct kvpool *p)
{
    struct kvblock *b = calloc(1, sizeof *b);
    if (!b) {
        return NULL;
    }
    b->data =
        mmap(NULL, p->block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->data == MAP_FAILED) {
        free(b);
        return NULL;
    }
    return b;
}

/* New memory while there is room for it: what is kept may be wanted again. */
static struct kvblock *find_memory(struct kvpool *p)
{
    if (!p->spare) {
        struct kvblock *b = kvpool_n_stored(p) < p->n_max ? block_new(p) : NULL;
        if (b) {
            return b;
        }
        if (!p->oldest) {
            return NULL;
        }
        evict(p);
    }
    struct kvblock *b = p->spare;
    p->spare = b->next_same_hash;
    p->n_spare--;
    return b;
}

struct kvblock *kvpool_take(struct kvaccount *a)
{
    struct kvpool *p = a->pool;
    assert(a->n_promised > 0);
    struct kvblock *b = find_memory(p);
    if (!b) {
        return NULL;
    }
    kvpool_forgo(a, 1);
    b->n_refs = 1;
    p->n_used++;
    return b;
}

void kvpool_hold(struct kvpool *p, struct kvblock *b)
{
    if (b->n_refs++ == 0) {
        unkeep(p, b);
        p->n_used++;
    }
}

void kvpool_drop(struct kvaccount *a, struct kvblock *b)
{
    struct kvpool *p = a->pool;
    assert(b->n_refs > 0);
    if (--b->n_refs > 0) {
        return;
    }
    p->n_used--;
    p->n_promised++;
    a->n_promised++;
    if (b->serial) {
        keep(p, b);
    } else {
        add_spare(p, b);
    }
}

void kvpool_trim(struct kvpool *p, bool they_too)
{
    while (they_too && p->oldest) {
        evict(p);
    }
    while (p->spare) {
        struct kvblock *b = p->spare;
        p->spare = b->next_same_hash;
        block_free(p, b);
    }
    p->n_spare = 0;
}
