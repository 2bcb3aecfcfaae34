/* sampler_select.h - finding the k-th largest and the smallest set of a given mass without sorting
 * everything.
 *
 * Values are compared as 64-bit keys: ascending keys are the order in which candidates are taken,
 * equal keys go by lower index. Results are exactly those of a full stable sort with left-to-right
 * sums, on any input; only the time is less.
 */
#ifndef ISOTHERM_SAMPLER_SELECT_H
#define ISOTHERM_SAMPLER_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Ascending keys are descending values. 0.0 and -0.0 are equal; not for NaN. */
static inline uint64_t select_key_descending(double v)
{
    v += 0.0; /* -0.0 becomes 0.0 */
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits >> 63 ? bits : bits ^ UINT64_MAX >> 1;
}

static inline double select_value_descending(uint64_t key)
{
    uint64_t bits = key >> 63 ? key : key ^ UINT64_MAX >> 1;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Ascending keys are ascending values; for v >= 0 only. */
static inline uint64_t select_key_ascending(double v)
{
    v += 0.0;
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* The k-th smallest key, 1 <= k <= n. Reorders and overwrites key [n]. */
uint64_t select_kth(uint64_t *key, size_t n, size_t k);

struct select_room {
    uint64_t *key;       /* [n] in */
    uint32_t *at, *swap; /* [n] scratch */
};

/* Candidate i survives when its (key, i) is not beyond (key, at). */
struct select_cut {
    uint64_t key;
    uint32_t at;
};

static inline bool select_keeps(struct select_cut cut, uint64_t key, uint32_t i)
{
    return key < cut.key || (key == cut.key && i <= cut.at);
}

/* In the order of keys, a candidate survives when the sum of the weights strictly before it, added
 * one after the other from 0.0, is < limit; the first always survives. weight [n] >= 0, finite; n
 * >= 1. */
struct select_cut select_by_mass(const struct select_room *room, const double *weight, size_t n,
                                 double limit);

/* Everything, for rules that need it: room->at becomes the indices of key [n], ascending by key,
 * equal keys by lower index. */
void select_sort(const struct select_room *room, size_t n);

#endif
