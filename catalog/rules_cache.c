/* rules_cache.c - open addressing over pointers that are set once: a compare-exchange from NULL
 * publishes an entry (release), a reader loads it (acquire). Whoever loses the race for a place
 * frees its own entry. Nothing is ever taken out, so that no reader can be left with a stale
 * pointer and no reclamation is needed; junk names can at most use up the places. */
#include "rules_cache.h"

#include <stdlib.h>
#include <string.h>

#define CACHE_PLACES 1024 /* a power of two; 2 KiB each where used */
#define CACHE_PROBES 16   /* beyond so many neighbours it counts as full */

struct entry {
    struct rules_key key; /* its model is `model` below */
    uint64_t hash;
    struct rules rules;
    char model[]; /* and behind it the switches */
};

/* A date at which some claim begins or ends, as far as it is given ("2026-05"). */
struct date {
    const char *text; /* borrowed from the snapshot */
    bool is_end;
};

struct rules_cache {
    _Atomic(struct entry *) place[CACHE_PLACES];
    _Atomic uint64_t last_day; /* the day asked last, YYYYMMDD << 32 | its era; 0: none */
    struct date *dates;        /* owned */
    size_t n_dates;
};

/* ---- eras */

static int compare_date(const void *a, const void *b)
{
    const struct date *x = a, *y = b;
    int order = (int)x->is_end - (int)y->is_end;
    return order != 0 ? order : strcmp(x->text, y->text);
}

static bool find_dates(struct rules_cache *c, const struct claim *claims, size_t n_claims)
{
    size_t n = 0, kept = 0;
    c->dates = calloc(2 * n_claims + 1, sizeof *c->dates);
    if (!c->dates) {
        return false;
    }
    for (size_t i = 0; i < n_claims; i++) {
        if (claims[i].valid_from) {
            c->dates[n++] = (struct date){claims[i].valid_from, false};
        }
        if (claims[i].valid_to) {
            c->dates[n++] = (struct date){claims[i].valid_to, true};
        }
    }
    qsort(c->dates, n, sizeof *c->dates, compare_date);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || compare_date(&c->dates[kept - 1], &c->dates[i]) != 0) {
            c->dates[kept++] = c->dates[i];
        }
    }
    c->n_dates = kept;
    return true;
}

/* 0: not a date of ten characters. */
static uint32_t day_number(const char *day)
{
    uint32_t n = 0;
    size_t i = 0;
    for (; i < 10 && day[i]; i++) {
        bool is_dash = i == 4 || i == 7;
        if (is_dash ? day[i] != '-' : day[i] < '0' || day[i] > '9') {
            return 0;
        }
        n = is_dash ? n : n * 10 + (uint32_t)(day[i] - '0');
    }
    return i == 10 && day[i] == '\0' ? n : 0;
}

/* How many of the dates are over on that day. Each of them is over for good, so two days with the
 * same number are the same to every claim. */
static uint32_t count_past(const struct rules_cache *c, const char *day)
{
    uint32_t n = 0;
    for (size_t i = 0; i < c->n_dates; i++) {
        const struct date *d = &c->dates[i];
        n += d->is_end ? strncmp(day, d->text, strlen(d->text)) > 0 : strcmp(day, d->text) >= 0;
    }
    return n;
}

bool rules_cache_era(struct rules_cache *c, const char *day, uint32_t *era)
{
    uint32_t number = day_number(day);
    if (number == 0) {
        return false;
    }
    uint64_t last = atomic_load_explicit(&c->last_day, memory_order_relaxed);
    if (last >> 32 == number) {
        *era = (uint32_t)last;
        return true;
    }
    *era = count_past(c, day);
    atomic_store_explicit(&c->last_day, (uint64_t)number << 32 | *era, memory_order_relaxed);
    return true;
}

/* ---- entries */

static uint64_t hash_of(const struct rules_key *key) /* FNV-1a over the name, then what differs */
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (const char *s = key->model; *s; s++) {
        h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    }
    for (const char *s = key->switches; *s; s++) {
        h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    }
    h = (h ^ (uintptr_t)key->provider) * UINT64_C(0x100000001b3);
    h = (h ^ ((uint64_t)key->era << 2 | key->route)) * UINT64_C(0x100000001b3);
    return h ^ h >> 32;
}

static bool is_for(const struct entry *e, const struct rules_key *key, uint64_t hash)
{
    return e->hash == hash && e->key.provider == key->provider && e->key.route == key->route &&
           e->key.era == key->era && strcmp(e->model, key->model) == 0 &&
           strcmp(e->key.switches, key->switches) == 0;
}

bool rules_cache_find(struct rules_cache *c, const struct rules_key *key, struct rules *out)
{
    uint64_t hash = hash_of(key);
    for (size_t i = 0; i < CACHE_PROBES; i++) {
        const struct entry *e =
            atomic_load_explicit(&c->place[(hash + i) % CACHE_PLACES], memory_order_acquire);
        if (!e) {
            return false;
        }
        if (is_for(e, key, hash)) {
            *out = e->rules;
            out->model = key->model;
            return true;
        }
    }
    return false;
}

static struct entry *entry_new(const struct rules_key *key, uint64_t hash, const struct rules *r)
{
    size_t len = strlen(key->model) + 1, more = strlen(key->switches) + 1;
    struct entry *e = calloc(1, sizeof *e + len + more);
    if (e) {
        memcpy(e->model, key->model, len);
        memcpy(e->model + len, key->switches, more);
        e->key = *key;
        e->key.model = e->model;
        e->key.switches = e->model + len;
        e->hash = hash;
        e->rules = *r;
        e->rules.model = e->model;
    }
    return e;
}

void rules_cache_put(struct rules_cache *c, const struct rules_key *key, const struct rules *r)
{
    uint64_t hash = hash_of(key);
    struct entry *e = strlen(key->model) <= PATTERN_MODEL_MAX ? entry_new(key, hash, r) : NULL;
    for (size_t i = 0; e && i < CACHE_PROBES; i++) {
        struct entry *there = NULL;
        if (atomic_compare_exchange_strong_explicit(&c->place[(hash + i) % CACHE_PLACES], &there, e,
                                                    memory_order_release, memory_order_acquire)) {
            return;
        }
        if (is_for(there, key, hash)) {
            break; /* somebody was faster */
        }
    }
    free(e);
}

/* ---- the whole */

struct rules_cache *rules_cache_new(const struct claim *claims, size_t n_claims)
{
    struct rules_cache *c = calloc(1, sizeof *c);
    if (!c) {
        return NULL;
    }
    for (size_t i = 0; i < CACHE_PLACES; i++) {
        atomic_init(&c->place[i], NULL);
    }
    atomic_init(&c->last_day, 0);
    if (!find_dates(c, claims, n_claims)) {
        free(c);
        return NULL;
    }
    return c;
}

void rules_cache_free(struct rules_cache *c)
{
    if (!c) {
        return;
    }
    for (size_t i = 0; i < CACHE_PLACES; i++) {
        free(atomic_load_explicit(&c->place[i], memory_order_relaxed));
    }
    free(c->dates);
    free(c);
}
