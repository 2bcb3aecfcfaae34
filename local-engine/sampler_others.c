/* sampler_others.c - plain: everything is sorted. These are for comparing servers, not for speed
 * (some 5 ms over a vocabulary of 150,000).
 *
 * None of them may use z as scratch, which stage_typical() and stage_draw() do: llama.cpp needs the
 * logits until its temperature, which comes last.
 */
#include "sampler_others.h"
#include "fmath.h"

#include <assert.h>
#include <math.h>

/* Marks for one filter: key[i] != 0 stays. */
static void keep_marked(struct stage_candidates *c, bool normalises)
{
    size_t n = 0;
    double sum = 0.0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->room.key[i]) {
            c->id[n] = c->id[i];
            c->p[n] = c->p[i];
            sum += c->p[n++];
        }
    }
    assert(n > 0);
    c->n = n;
    for (size_t i = 0; normalises && i < n; i++) {
        c->p[i] /= sum;
    }
}

static void unmark(struct stage_candidates *c)
{
    for (size_t i = 0; i < c->n; i++) {
        c->room.key[i] = 0;
    }
}

/* room.at: the candidates, greatest first, ties by lower id. */
static void sort_descending(struct stage_candidates *c)
{
    for (size_t i = 0; i < c->n; i++) {
        c->room.key[i] = select_key_descending(c->p[i]);
    }
    select_sort(&c->room, c->n);
}

static void sort_ascending(struct stage_candidates *c)
{
    for (size_t i = 0; i < c->n; i++) {
        c->room.key[i] = select_key_ascending(c->p[i]);
    }
    select_sort(&c->room, c->n);
}

void others_top_k(struct stage_candidates *c, int64_t k)
{
    if (k <= 0 || (uint64_t)k >= c->n) {
        return;
    }
    sort_descending(c);
    double kth = c->p[c->room.at[k - 1]];
    for (size_t i = 0; i < c->n; i++) {
        c->room.key[i] = c->p[i] >= kth;
    }
    keep_marked(c, true);
}

void others_top_k_exact(struct stage_candidates *c, int64_t k)
{
    if (k <= 0 || (uint64_t)k >= c->n) {
        return;
    }
    sort_descending(c);
    unmark(c);
    for (int64_t r = 0; r < k; r++) {
        c->room.key[c->room.at[r]] = 1;
    }
    keep_marked(c, false);
}

void others_top_p_ascending(struct stage_candidates *c, double top_p)
{
    if (top_p >= 1.0) {
        return;
    }
    double sum = 0.0;
    sort_ascending(c);
    unmark(c);
    for (size_t r = 0; r < c->n; r++) {
        sum += c->p[c->room.at[r]];
        c->room.key[c->room.at[r]] = sum > 1.0 - top_p || r + 1 == c->n;
    }
    keep_marked(c, true);
}

void others_top_k_top_p_joint(struct stage_candidates *c, int64_t k, double top_p)
{
    if (k <= 0 && top_p >= 1.0) {
        return;
    }
    double sum = 0.0;
    sort_descending(c);
    unmark(c);
    for (size_t r = 0; r < c->n; r++) {
        double own = c->p[c->room.at[r]];
        sum += own;
        c->room.key[c->room.at[r]] = (k <= 0 || r < (uint64_t)k) && sum - own <= top_p;
    }
    keep_marked(c, true);
}

void others_typical(struct stage_candidates *c, double mass)
{
    if (mass >= 1.0) {
        return;
    }
    double entropy = 0.0, sum = 0.0;
    for (size_t i = 0; i < c->n; i++) {
        entropy -= c->p[i] * fmath_log(c->p[i]);
    }
    for (size_t i = 0; i < c->n; i++) {
        c->room.key[i] = select_key_ascending(fabs(-fmath_log(c->p[i]) - entropy));
    }
    select_sort(&c->room, c->n);
    unmark(c);
    for (size_t r = 0; r < c->n && sum <= mass; r++) {
        c->room.key[c->room.at[r]] = 1;
        sum += c->p[c->room.at[r]];
    }
    keep_marked(c, true);
}

void others_min_p_logits(struct stage_candidates *c, double min_p)
{
    if (min_p <= 0.0) {
        return;
    }
    double max = -INFINITY, floor = fmath_log(min_p);
    for (size_t i = 0; i < c->n; i++) {
        max = c->z[c->id[i]] > max ? c->z[c->id[i]] : max;
    }
    for (size_t i = 0; i < c->n; i++) {
        c->room.key[i] = c->z[c->id[i]] >= max + floor;
    }
    keep_marked(c, true);
}

void others_temperature(struct stage_candidates *c, double temperature)
{
    double max = -INFINITY;
    for (size_t i = 0; i < c->n; i++) {
        max = c->z[c->id[i]] > max ? c->z[c->id[i]] : max;
    }
    for (size_t i = 0; i < c->n; i++) {
        c->p[i] = (c->z[c->id[i]] - max) / temperature;
    }
    stage_softmax(c);
}
