/* speculate.c - a hash table from the last n-gram to where it stood last, and a place in the past
 * that is followed while it is right.
 *
 * The table holds places, not n-grams: a slot is right where the tokens before its place are the
 * wanted ones. It is at most half full, doubles with the sequence and is filled anew then, so a
 * token costs O(1) on average. Linear probing ends after PROBES_MAX slots, and a new n-gram that
 * finds none free is not remembered: a prompt made to collide costs no more than any other.
 *
 * The past may be a few tokens away ("ha ha ha"): a guess that reaches the end of the sequence goes
 * on in itself.
 */
#include "speculate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MIN = 256, PROBES_MAX = 32, MATCH_MAX = 32, TRUST_SHIFT = 3 };
/* Before anything is known. A short match is seldom one by meaning; a long one is, and rare else.
 */
static const double trust_start[SPECULATE_LEVELS] = {0.3, 0.45, 0.6, 0.75};

void speculate_init(struct speculate *s, double cost)
{
    *s = (struct speculate){.cost = (uint32_t)(cost * SPECULATE_CERTAIN)};
    for (size_t i = 0; i < SPECULATE_LEVELS; i++) {
        s->trust[i] = (uint32_t)(trust_start[i] * SPECULATE_CERTAIN);
    }
}

void speculate_release(struct speculate *s)
{
    if (s) {
        free(s->tokens);
        free(s->table);
        s->tokens = NULL;
        s->table = NULL;
    }
}

/* ---- the table */

static size_t hash(const int32_t *gram)
{
    uint64_t h = 0;
    for (size_t i = 0; i < SPECULATE_GRAM; i++) {
        h = (h ^ (uint32_t)gram[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return (size_t)h;
}

/* The slot of the n-gram before place `at`: its own, or a free one; NULL: neither is near. */
static uint32_t *find_slot(const struct speculate *s, size_t at)
{
    const int32_t *gram = s->tokens + at - SPECULATE_GRAM;
    size_t h = hash(gram);
    for (size_t i = 0; i < PROBES_MAX; i++) {
        uint32_t *slot = &s->table[(h + i) & (s->n_slots - 1)];
        if (*slot == 0 ||
            memcmp(s->tokens + *slot - SPECULATE_GRAM, gram, SPECULATE_GRAM * sizeof *gram) == 0) {
            return slot;
        }
    }
    return NULL;
}

/* Remembers place `at`; returns the one before it that follows the same n-gram, or 0. */
static size_t remember(struct speculate *s, size_t at)
{
    uint32_t *slot = find_slot(s, at);
    size_t before = slot ? *slot : 0;
    if (slot) {
        *slot = (uint32_t)at;
    }
    return before;
}

static bool reserve(struct speculate *s)
{
    if (s->n < s->cap) {
        return true;
    }
    size_t cap = s->cap ? 2 * s->cap : TOKENS_MIN;
    int32_t *tokens = cap > UINT32_MAX / 2 ? NULL : realloc(s->tokens, cap * sizeof *tokens);
    s->tokens = tokens ? tokens : s->tokens;
    uint32_t *table = tokens ? calloc(2 * cap, sizeof *table) : NULL;
    if (!table) {
        return false;
    }
    free(s->table);
    s->table = table;
    s->cap = cap;
    s->n_slots = 2 * cap;
    for (size_t at = SPECULATE_GRAM; at <= s->n; at++) {
        (void)remember(s, at);
    }
    return true;
}

/* ---- a token */

/* Which level of trust a match of this length has: each doubles it. */
static size_t level(size_t n_match)
{
    size_t l = 0;
    for (size_t n = 2 * SPECULATE_GRAM; l + 1 < SPECULATE_LEVELS && n_match >= n; n *= 2) {
        l++;
    }
    return l;
}

static void learn(struct speculate *s, bool is_right)
{
    uint32_t *t = &s->trust[level(s->n_match)];
    *t -= *t >> TRUST_SHIFT;
    *t += is_right ? SPECULATE_CERTAIN >> TRUST_SHIFT : 0;
}

static size_t count_match(const struct speculate *s, size_t at)
{
    size_t n = SPECULATE_GRAM;
    while (n < MATCH_MAX && n < at && s->tokens[at - 1 - n] == s->tokens[s->n - 1 - n]) {
        n++;
    }
    return n;
}

void speculate_push(struct speculate *s, int32_t token)
{
    if (s->is_over || !reserve(s)) {
        s->is_over = true;
        s->at = 0;
        return;
    }
    if (s->at) {
        bool is_right = s->tokens[s->at] == token;
        learn(s, is_right);
        s->at = is_right ? s->at + 1 : 0;
        s->n_match += is_right;
    }
    s->tokens[s->n++] = token;
    if (s->n < SPECULATE_GRAM) {
        return;
    }
    size_t before = remember(s, s->n);
    if (!s->at && before) {
        s->at = before;
        s->n_match = count_match(s, before);
    }
}

/* ---- guesses */

size_t speculate_guess_all(const struct speculate *s, int32_t *tokens, size_t n_max)
{
    if (!s->at) {
        return 0;
    }
    size_t n_past = s->n - s->at;
    assert(n_past > 0);
    for (size_t i = 0; i < n_max; i++) {
        tokens[i] = i < n_past ? s->tokens[s->at + i] : tokens[i - n_past];
    }
    return n_max;
}

/* A row is of use when all guesses before it are right as well. */
size_t speculate_guess(const struct speculate *s, int32_t *tokens, size_t n_max)
{
    uint64_t all = SPECULATE_CERTAIN;
    size_t n = 0;
    while (s->at && n < n_max) {
        all = all * s->trust[level(s->n_match + n)] / SPECULATE_CERTAIN;
        if (all < s->cost) {
            break;
        }
        n++;
    }
    return speculate_guess_all(s, tokens, n);
}
