/* sampler_stages.c - loops over a vocabulary of up to some 150,000 logits, of which mostly a
 * handful matters.
 *
 * What costs time is passes over all of z, so there are as few as possible: widening, the maximum
 * of each block of 64, and then only the blocks that may hold one of the k largest. At least k
 * blocks have a maximum >= the k-th largest block maximum, so every candidate of top_k is >= that,
 * and few others are. Exponentials are taken over survivors only.
 *
 * Sums run from left to right in the stated order, in plain float64: their bits are part of the
 * rule. No division is replaced by a multiplication, for the same reason.
 */
#include "sampler_stages.h"
#include "fmath.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOGPROB_FLOOR (-9999.0)
#define BIAS_MAX      100.0
#define PAGE_BYTES    4096

static size_t n_blocks(int32_t n_vocab)
{
    return ((size_t)n_vocab + STAGE_BLOCK - 1) / STAGE_BLOCK;
}

static size_t block_len(const struct stage_candidates *c, size_t block)
{
    size_t left = (size_t)c->n_vocab - block * STAGE_BLOCK;
    return left < STAGE_BLOCK ? left : STAGE_BLOCK;
}

/* All arrays lie in one allocation, each at another offset within its page: with equal offsets
 * (what malloc gives for large arrays) a load from one array waits for the store to another just
 * before it, because processors compare the low twelve bits of the address first. Measured: such
 * loops took twice as long. */
static void *carve(char *slab, size_t *used, unsigned index, size_t n_bytes)
{
    size_t at = (*used + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES + (size_t)index * PAGE_BYTES / 8;
    *used = at + n_bytes;
    return slab ? slab + at : NULL;
}

static size_t carve_all(struct stage_candidates *c, char *slab)
{
    size_t n = (size_t)c->n_vocab, used = 0;
    c->z = carve(slab, &used, 0, n * sizeof *c->z);
    c->block_max = carve(slab, &used, 1, n_blocks(c->n_vocab) * sizeof *c->block_max);
    c->id = carve(slab, &used, 2, n * sizeof *c->id);
    c->p = carve(slab, &used, 3, n * sizeof *c->p);
    c->is_stale = carve(slab, &used, 7, n_blocks(c->n_vocab) * sizeof *c->is_stale);
    c->room.key = carve(slab, &used, 4, n * sizeof *c->room.key);
    c->room.at = carve(slab, &used, 5, n * sizeof *c->room.at);
    c->room.swap = carve(slab, &used, 6, n * sizeof *c->room.swap);
    return used;
}

bool stage_candidates_init(struct stage_candidates *c, int32_t n_vocab)
{
    assert(n_vocab > 0);
    *c = (struct stage_candidates){.n_vocab = n_vocab};
    c->slab = calloc(1, carve_all(c, NULL) + PAGE_BYTES);
    if (!c->slab) {
        return false;
    }
    (void)carve_all(c, c->slab);
    return true;
}

void stage_candidates_release(struct stage_candidates *c)
{
    if (!c) {
        return;
    }
    free(c->slab);
    *c = (struct stage_candidates){0};
}

static double max_of_few(const double *z, size_t n)
{
    double m = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        m = z[i] > m ? z[i] : m;
    }
    return m;
}

/* A whole block by halves: loops of a fixed length without a chain through one register, which
 * compilers make vector code of at -O2. */
static double max_of_block(const double *z, size_t n)
{
    if (n < STAGE_BLOCK) {
        return max_of_few(z, n);
    }
    double a[STAGE_BLOCK / 2], b[STAGE_BLOCK / 4], c[STAGE_BLOCK / 8];
    for (size_t j = 0; j < STAGE_BLOCK / 2; j++) {
        a[j] = z[j] > z[j + STAGE_BLOCK / 2] ? z[j] : z[j + STAGE_BLOCK / 2];
    }
    for (size_t j = 0; j < STAGE_BLOCK / 4; j++) {
        b[j] = a[j] > a[j + STAGE_BLOCK / 4] ? a[j] : a[j + STAGE_BLOCK / 4];
    }
    for (size_t j = 0; j < STAGE_BLOCK / 8; j++) {
        c[j] = b[j] > b[j + STAGE_BLOCK / 8] ? b[j] : b[j + STAGE_BLOCK / 8];
    }
    return max_of_few(c, STAGE_BLOCK / 8);
}

/* Whether there is a NaN or +inf among n logits, which also go to z. The comparison is true for
 * finite numbers and -inf. */
static inline int widen(const float *restrict x, double *restrict z, size_t n)
{
    int bad = 0;
    for (size_t j = 0; j < n; j++) {
        z[j] = (double)x[j];
    }
    for (size_t j = 0; j < n; j++) {
        bad |= !(x[j] < INFINITY);
    }
    return bad;
}

/* Takes the maximum of each block while it is in the nearest cache. */
bool stage_widen(struct stage_candidates *c, const float *logits)
{
    int bad = 0;
    for (size_t b = 0; b < n_blocks(c->n_vocab); b++) {
        const float *x = logits + b * STAGE_BLOCK;
        double *z = c->z + b * STAGE_BLOCK;
        size_t len = block_len(c, b);
        bad |= len == STAGE_BLOCK ? widen(x, z, STAGE_BLOCK) : widen(x, z, len);
        c->block_max[b] = max_of_block(z, len);
        c->is_stale[b] = 0;
    }
    return !bad;
}

bool stage_accept(struct stage_candidates *c, const double *logits)
{
    bool is_good = true;
    for (size_t i = 0; i < (size_t)c->n_vocab; i++) {
        c->z[i] = logits[i];
        is_good &= logits[i] < INFINITY;
    }
    memset(c->is_stale, 1, n_blocks(c->n_vocab));
    return is_good;
}

static void set_logit(struct stage_candidates *c, int32_t id, double z)
{
    assert(id >= 0 && id < c->n_vocab);
    c->z[id] = z;
    c->is_stale[id / STAGE_BLOCK] = 1;
}

void stage_bias(struct stage_candidates *c, const struct sampler_bias *bias, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t t = bias[i].id;
        set_logit(c, t, c->z[t] + fmax(-BIAS_MAX, fmin(BIAS_MAX, bias[i].bias)));
    }
}

void stage_repetition(struct stage_candidates *c, const struct stage_history *h, double penalty)
{
    if (penalty == 1.0) {
        return;
    }
    for (size_t i = 0; i < h->n_seen; i++) {
        int32_t t = h->seen[i];
        if (h->count[t] == 0 && !(h->in_prompt && h->in_prompt[t])) {
            continue;
        }
        double z = c->z[t];
        if (z != -INFINITY) {
            set_logit(c, t, z > 0 ? z / penalty : z * penalty);
        }
    }
}

void stage_additive(struct stage_candidates *c, const struct stage_history *h, double frequency,
                    double presence)
{
    if (frequency == 0.0 && presence == 0.0) {
        return;
    }
    for (size_t i = 0; i < h->n_seen; i++) {
        int32_t t = h->seen[i];
        if (h->count[t] > 0 && c->z[t] != -INFINITY) {
            set_logit(c, t, c->z[t] - (frequency * (double)h->count[t] + presence));
        }
    }
}

void stage_ngram(struct stage_candidates *c, const int32_t *tokens, size_t n_tokens, int64_t size)
{
    if (size <= 0 || (uint64_t)size > n_tokens) {
        return;
    }
    size_t n_last = (size_t)size - 1;
    const int32_t *last = tokens + (n_tokens - n_last);
    for (size_t i = 0; i + n_last < n_tokens; i++) {
        if (memcmp(tokens + i, last, n_last * sizeof *tokens) == 0) {
            set_logit(c, tokens[i + n_last], -INFINITY);
        }
    }
}

void stage_ban(struct stage_candidates *c, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        set_logit(c, ids[i], -INFINITY);
    }
}

void stage_mask(struct stage_candidates *c, const uint8_t *mask)
{
    for (size_t b = 0; b < n_blocks(c->n_vocab); b++) {
        double *z = c->z + b * STAGE_BLOCK;
        const uint8_t *m = mask + b * STAGE_BLOCK;
        size_t len = block_len(c, b);
        for (size_t j = 0; j < len; j++) {
            if (!m[j]) {
                z[j] = -INFINITY;
            }
        }
        c->block_max[b] = max_of_block(z, len);
        c->is_stale[b] = 0;
    }
}

bool stage_max(struct stage_candidates *c, struct engine_error *err)
{
    double max = -INFINITY;
    for (size_t b = 0; b < n_blocks(c->n_vocab); b++) {
        if (c->is_stale[b]) {
            c->block_max[b] = max_of_block(c->z + b * STAGE_BLOCK, block_len(c, b));
            c->is_stale[b] = 0;
        }
        max = c->block_max[b] > max ? c->block_max[b] : max;
    }
    c->max = max;
    if (max == -INFINITY) {
        return engine_fail(err, ENGINE_NO_CANDIDATE, "",
                           "bans and masks leave no token: allow at least one");
    }
    if (max == INFINITY) {
        return engine_fail(err, ENGINE_NONFINITE, "",
                           "a penalty makes a logit infinite: use a milder one");
    }
    return true;
}

void stage_greedy(struct stage_candidates *c)
{
    size_t b = 0;
    while (c->block_max[b] < c->max) {
        b++;
    }
    size_t i = b * STAGE_BLOCK;
    while (c->z[i] < c->max) {
        i++;
    }
    c->n = 1;
    c->id[0] = (int32_t)i;
    c->p[0] = 1.0;
}

/* In blocks of a fixed length, of which compilers make vector code at -O2. */
static void divide_all(double *x, size_t n, double by)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (size_t l = 0; l < 8; l++) {
            x[i + l] /= by;
        }
    }
    for (; i < n; i++) {
        x[i] /= by;
    }
}

/* The k-th largest of all logits, 1 <= k < n_vocab. */
static double kth_largest(const struct stage_candidates *c, size_t k)
{
    uint64_t *key = c->room.key;
    size_t blocks = n_blocks(c->n_vocab);
    double floor = -INFINITY;
    if (k <= blocks) {
        for (size_t b = 0; b < blocks; b++) {
            key[b] = select_key_descending(c->block_max[b]);
        }
        floor = select_value_descending(select_kth(key, blocks, k));
    }
    size_t m = 0;
    for (size_t b = 0; b < blocks; b++) {
        if (c->block_max[b] < floor) {
            continue;
        }
        const double *z = c->z + b * STAGE_BLOCK;
        size_t len = block_len(c, b);
        for (size_t j = 0; j < len; j++) {
            key[m] = select_key_descending(z[j]);
            m += z[j] >= floor;
        }
    }
    return select_value_descending(select_kth(key, m, k));
}

/* s = (z - shift) / temperature. Division by 1 changes no bit, so it is left out. */
static void scale(const double *z, size_t n, double shift, double temperature, double *s)
{
    for (size_t j = 0; j < n; j++) {
        s[j] = z[j] - shift;
    }
    if (temperature != 1.0) {
        divide_all(s, n, temperature);
    }
}

/* Makes the list of finite candidates whose quotient is >= floor. */
static void list_from(struct stage_candidates *c, double shift, double temperature, double floor)
{
    size_t n = 0;
    int32_t *id = c->id;
    double *p = c->p;
    for (size_t b = 0; b < n_blocks(c->n_vocab); b++) {
        double best = c->block_max[b];
        if (best == -INFINITY || (best - shift) / temperature < floor) {
            continue;
        }
        double s[STAGE_BLOCK];
        size_t first = b * STAGE_BLOCK, len = block_len(c, b);
        const double *z = c->z + first;
        scale(z, len, shift, temperature, s);
        for (size_t j = 0; j < len; j++) {
            id[n] = (int32_t)(first + j);
            p[n] = s[j];
            n += (z[j] > -INFINITY) & (s[j] >= floor);
        }
    }
    c->n = n;
}

void stage_top_k(struct stage_candidates *c, double shift, double temperature, int64_t k)
{
    double floor = -INFINITY;
    if (k > 0 && k < c->n_vocab) {
        floor = (kth_largest(c, (size_t)k) - shift) / temperature;
    }
    list_from(c, shift, temperature, floor);
}

/* Takes those of probability 0 out of the list. They would change no sum and cannot be drawn. */
static void drop_zeros(struct stage_candidates *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        double p = c->p[i];
        c->id[n] = c->id[i];
        c->p[n] = p;
        n += p > 0;
    }
    c->n = n;
}

void stage_softmax(struct stage_candidates *c)
{
    size_t n = c->n;
    double *p = c->p, sum = 0.0;
    bool may_vanish = false;
    fmath_exp_all(p, n);
    for (size_t i = 0; i < n; i++) {
        double e = p[i];
        sum += e;
        may_vanish |=
            e <
            1e-300; /* sum is at most n_vocab, so the quotient of any other is a normal number */
    }
    divide_all(p, n, sum);
    if (may_vanish) {
        drop_zeros(c);
    }
}

/* Keeps what the cut keeps, and divides by the sum of that in id order: adding 0 for the others
 * changes no bit of it. */
static void keep_cut(struct stage_candidates *c, struct select_cut cut)
{
    size_t n = 0, n_all = c->n;
    int32_t *id = c->id;
    double *p = c->p, sum = 0.0;
    const uint64_t *key = c->room.key;
    for (size_t i = 0; i < n_all; i++) {
        double own = p[i];
        bool stays = select_keeps(cut, key[i], (uint32_t)i);
        id[n] = id[i];
        p[n] = own;
        sum += stays ? own : 0.0;
        n += stays;
    }
    c->n = n;
    divide_all(p, n, sum);
}

void stage_top_p(struct stage_candidates *c, double top_p)
{
    if (top_p >= 1.0) {
        return;
    }
    size_t n = c->n;
    const double *p = c->p;
    uint64_t *key = c->room.key;
    for (size_t i = 0; i < n; i++) {
        key[i] = select_key_descending(p[i]);
    }
    keep_cut(c, select_by_mass(&c->room, p, n, top_p));
}

void stage_min_p(struct stage_candidates *c, double min_p)
{
    if (min_p <= 0.0) {
        return;
    }
    size_t n = 0, n_all = c->n;
    int32_t *id = c->id;
    double *p = c->p, sum = 0.0, max = 0.0;
    for (size_t i = 0; i < n_all; i++) {
        max = p[i] > max ? p[i] : max;
    }
    for (size_t i = 0; i < n_all; i++) {
        double own = p[i];
        bool stays = own >= min_p * max;
        id[n] = id[i];
        p[n] = own;
        sum += stays ? own : 0.0;
        n += stays;
    }
    c->n = n;
    divide_all(p, n, sum);
}

void stage_typical(struct stage_candidates *c, double mass)
{
    if (mass >= 1.0) {
        return;
    }
    /* The logits are not needed any more: z holds the logarithms. */
    double entropy = 0.0;
    for (size_t i = 0; i < c->n; i++) {
        c->z[i] = fmath_log(c->p[i]);
        entropy -= c->p[i] * c->z[i];
    }
    for (size_t i = 0; i < c->n; i++) {
        c->room.key[i] = select_key_ascending(fabs(-c->z[i] - entropy));
    }
    struct select_cut cut = select_by_mass(&c->room, c->p, c->n, mass);
    cut.at = UINT32_MAX; /* all that are as typical as the last one taken stay */
    keep_cut(c, cut);
}

int32_t stage_draw(struct stage_candidates *c, double r)
{
    assert(c->n > 0);
    /* z holds the running sums; they do not fall, so the first one beyond r * total is found by
     * halving. */
    size_t n = c->n;
    const double *p = c->p;
    double *sums = c->z, sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += p[i];
        sums[i] = sum;
    }
    double limit = r * sum;
    size_t low = 0, high = n; /* sums before low are <= limit, from high on > limit */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sums[middle] > limit) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return c->id[low < n ? low : n - 1];
}

static double logit_at(const struct stage_logits *l, int32_t i)
{
    return l->f ? (double)l->f[i] : l->d[i];
}

/* Puts (id, value) into top [n_top], of which *n are filled: by value descending, ties by lower id,
 * as ids come in ascending order. */
static void top_insert(struct sampler_top *top, size_t n_top, size_t *n, int32_t id, double value)
{
    if (*n == n_top && (n_top == 0 || !(value > top[n_top - 1].logprob))) {
        return;
    }
    size_t j = *n < n_top ? (*n)++ : n_top - 1;
    for (; j > 0 && value > top[j - 1].logprob; j--) {
        top[j] = top[j - 1];
    }
    top[j] = (struct sampler_top){id, value};
}

/* NaN, which can only come from logits that sampler_next() refuses, is the floor too. */
static double above_floor(double logprob)
{
    return logprob >= LOGPROB_FLOOR ? logprob : LOGPROB_FLOOR;
}

static void top_finish(struct sampler_top *top, size_t n_top, size_t n, double shift,
                       double log_sum)
{
    for (size_t i = 0; i < n_top; i++) {
        top[i] =
            i < n ? (struct sampler_top){top[i].id, above_floor(top[i].logprob - shift - log_sum)}
                  : (struct sampler_top){-1, LOGPROB_FLOOR};
    }
}

/* The sum of e^(z - max), from left to right. */
static double sum_of_exp(const struct stage_logits *l, double max)
{
    double sum = 0.0, e[STAGE_BLOCK];
    for (int32_t i = 0; i < l->n_vocab; i += STAGE_BLOCK) {
        size_t left = (size_t)(l->n_vocab - i), len = left < STAGE_BLOCK ? left : STAGE_BLOCK;
        for (size_t j = 0; j < len; j++) {
            e[j] = logit_at(l, i + (int32_t)j) - max;
        }
        fmath_exp_all(e, len);
        for (size_t j = 0; j < len; j++) {
            sum += e[j];
        }
    }
    return sum;
}

void stage_log_softmax(struct stage_candidates *c)
{
    struct stage_logits l = {.d = c->z, .n_vocab = c->n_vocab};
    double log_sum = fmath_log(sum_of_exp(&l, c->max));
    for (int32_t i = 0; i < c->n_vocab; i++) {
        c->z[i] = c->z[i] - c->max - log_sum;
    }
}

void stage_logprobs(const struct stage_logits *l, int32_t id, size_t n_top, double *logprob,
                    struct sampler_top *top)
{
    assert(id >= 0 && id < l->n_vocab);
    double max = -INFINITY;
    size_t n = 0;
    for (int32_t i = 0; i < l->n_vocab; i++) {
        double z = logit_at(l, i);
        max = z > max ? z : max;
        top_insert(top, n_top, &n, i, z);
    }
    double log_sum = fmath_log(sum_of_exp(l, max));
    *logprob = above_floor(logit_at(l, id) - max - log_sum);
    top_finish(top, n_top, n, max, log_sum);
}

void stage_logprobs_processed(const struct stage_candidates *c, int32_t id, size_t n_top,
                              double *logprob, struct sampler_top *top)
{
    size_t n = 0, next = 0;
    *logprob = LOGPROB_FLOOR;
    for (int32_t i = 0; i < c->n_vocab; i++) {
        bool is_listed = next < c->n && c->id[next] == i;
        double value = is_listed ? fmath_log(c->p[next++]) : -INFINITY;
        top_insert(top, n_top, &n, i, value);
        if (i == id) {
            *logprob = above_floor(value);
        }
    }
    top_finish(top, n_top, n, 0.0, 0.0);
}
