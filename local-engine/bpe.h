/* bpe.h - byte pair encoding: merges the pair of lowest rank, the leftmost among equals, until no
 * pair is left that has a rank.
 *
 * Time n log n and memory linear in the number of symbols, whatever they are. Knows ids only.
 */
#ifndef ISOTHERM_BPE_H
#define ISOTHERM_BPE_H

#include "engine_error.h"
#include <stddef.h>
#include <stdint.h>

/* Published files have up to 580 thousand. */
enum { BPE_MERGES_MAX = 4000000 };

struct bpe_merge {
    int32_t left, right, result;
};
struct bpe_slot {
    uint64_t pair;
    uint32_t rank;
}; /* pair all ones: empty */

struct bpe {
    struct bpe_merge *merges; /* [n_merges], by rank */
    size_t n_merges, merges_cap;
    struct bpe_slot *slots; /* [slots_cap], a power of two; by bpe_index() */
    size_t slots_cap;
};

/* A zeroed one is empty and ready. */
void bpe_release(struct bpe *b);
/* Room for about n merges. */
ENGINE_WARN_UNUSED bool bpe_reserve(struct bpe *b, size_t n);
/* The next rank. A pair that comes again gets the later rank, as in Hugging Face's library. False:
 * no memory or too many merges. */
ENGINE_WARN_UNUSED bool bpe_add(struct bpe *b, int32_t left, int32_t right, int32_t result);
/* Once, after the last bpe_add() and before bpe_run(). False: no memory, or pairs that were made to
 * collide. */
ENGINE_WARN_UNUSED bool bpe_index(struct bpe *b);

struct bpe_symbol {
    int32_t id;
    uint32_t prev, next;
};

/* One piece of text on its way: the caller appends symbols, bpe_run() merges them. Reused from
 * piece to piece. */
struct bpe_work {
    struct bpe_symbol *sym;
    size_t n_sym, sym_cap;
    uint64_t *heap;
    size_t n_heap, heap_cap;
};
void bpe_work_release(struct bpe_work *w);
ENGINE_WARN_UNUSED bool bpe_work_push(struct bpe_work *w, int32_t id);
/* Merges w->sym[0 .. n_sym); the ids of what is left stand in order in sym[].id, n_sym is their
 * number. False: no memory, or more than 2^32 - 1 symbols. */
ENGINE_WARN_UNUSED bool bpe_run(const struct bpe *b, struct bpe_work *w);

#endif
