/* vocab.c - open addressing, linear probing, at most two thirds full. A slot keeps the hash, so a
 * miss rarely touches the arena and growing never does. A chain longer than PROBES_MAX does not
 * happen by chance: such a file was made to cost time, and is refused.
 */
#include "vocab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PROBES_MAX = 2000, SLOTS_MIN = 1024 };

static uint64_t load(const char *s, size_t n)
{
    uint32_t w = 0;
    memcpy(&w, s, n); /* n is a constant wherever this is called: one instruction */
    return w;
}

/* Up to seven bytes as a number; with the length, no two of them alike. */
static uint64_t load_tail(const char *s, size_t len)
{
    if (len >= 4) {
        return load(s, 4) | load(s + len - 4, 4) << 32;
    }
    return len == 0 ? 0 : load(s, 1) | load(s + len / 2, 1) << 8 | load(s + len - 1, 1) << 16;
}

static uint32_t hash_bytes(const char *s, size_t len)
{
    const uint64_t k = 0x9e3779b97f4a7c15u;
    uint64_t h = len * k, w;
    for (; len >= 8; s += 8, len -= 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * k;
        h ^= h >> 32;
    }
    h = (h ^ load_tail(s, len)) * k;
    h ^= h >> 29;
    h *= k;
    return (uint32_t)(h >> 32);
}

void vocab_release(struct vocab *v)
{
    if (v) {
        free(v->arena);
        free(v->entries);
        free(v->slots);
        *v = (struct vocab){0};
    }
}

static void put_slot(struct vocab_slot *slots, size_t cap, struct vocab_slot slot)
{
    size_t i = slot.hash & (cap - 1);
    while (slots[i].id >= 0) {
        i = (i + 1) & (cap - 1);
    }
    slots[i] = slot;
}

static bool grow_slots(struct vocab *v, size_t n_tokens)
{
    size_t cap = v->slots_cap ? v->slots_cap : SLOTS_MIN;
    while (cap < n_tokens + n_tokens / 2) {
        cap *= 2;
    }
    if (cap == v->slots_cap) {
        return true;
    }
    struct vocab_slot *slots = malloc(cap * sizeof *slots);
    if (!slots) {
        return false;
    }
    memset(slots, 0xff, cap * sizeof *slots);
    for (size_t i = 0; i < v->slots_cap; i++) {
        if (v->slots[i].id >= 0) {
            put_slot(slots, cap, v->slots[i]);
        }
    }
    free(v->slots);
    v->slots = slots;
    v->slots_cap = cap;
    return true;
}

static bool grow_entries(struct vocab *v, size_t n_ids)
{
    if (n_ids <= v->entries_cap) {
        return true;
    }
    size_t cap = n_ids > 2 * v->entries_cap ? n_ids : 2 * v->entries_cap;
    struct vocab_entry *p = realloc(v->entries, cap * sizeof *p);
    if (!p) {
        return false;
    }
    memset(p + v->entries_cap, 0, (cap - v->entries_cap) * sizeof *p);
    v->entries = p;
    v->entries_cap = cap;
    return true;
}

static bool grow_arena(struct vocab *v, size_t bytes)
{
    if (v->arena && bytes <= v->arena_cap - v->arena_len) {
        return true;
    }
    size_t cap = 2 * v->arena_cap > v->arena_len + bytes ? 2 * v->arena_cap : v->arena_len + bytes;
    if (cap + 1 > UINT32_MAX) {
        return false;
    }
    char *p = realloc(v->arena, cap + 1);
    if (!p) {
        return false;
    }
    if (!v->arena) {
        p[0] = '\0';
        v->arena_len = 1;
    }
    v->arena = p;
    v->arena_cap = cap + 1;
    return true;
}

bool vocab_reserve(struct vocab *v, size_t n, size_t bytes)
{
    n = n > VOCAB_IDS_MAX ? VOCAB_IDS_MAX : n;
    return grow_slots(v, n) && grow_entries(v, n) && grow_arena(v, bytes + 1);
}

/* The slot of this spelling, or the empty one where it belongs; NULL: too long a chain. */
static struct vocab_slot *find_slot(const struct vocab *v, const char *s, size_t len, uint32_t hash)
{
    size_t i = hash & (v->slots_cap - 1);
    for (int n = 0; n < PROBES_MAX; n++) {
        struct vocab_slot *slot = &v->slots[i];
        if (slot->id < 0) {
            return slot;
        }
        const struct vocab_entry *e = &v->entries[slot->id];
        if (slot->hash == hash && e->len == len && memcmp(v->arena + e->at, s, len) == 0) {
            return slot;
        }
        i = (i + 1) & (v->slots_cap - 1);
    }
    return NULL;
}

enum vocab_result vocab_add(struct vocab *v, const char *s, size_t len, int64_t id)
{
    if (id < 0 || id >= VOCAB_IDS_MAX) {
        return VOCAB_BAD_ID;
    }
    size_t at_id = (size_t)id;
    if (at_id < v->n_ids && v->entries[at_id].at != 0) {
        return VOCAB_SAME_ID;
    }
    if (!grow_slots(v, v->n_used + 1) || !grow_entries(v, at_id + 1) || !grow_arena(v, len + 1)) {
        return VOCAB_NOMEM;
    }
    uint32_t hash = hash_bytes(s, len);
    struct vocab_slot *slot = find_slot(v, s, len, hash);
    if (!slot) {
        return VOCAB_COLLIDES;
    }
    if (slot->id >= 0) {
        return VOCAB_SAME_TEXT;
    }
    memcpy(v->arena + v->arena_len, s, len);
    v->arena[v->arena_len + len] = '\0';
    v->entries[at_id] = (struct vocab_entry){(uint32_t)v->arena_len, (uint32_t)len};
    v->arena_len += len + 1;
    v->n_ids = at_id + 1 > v->n_ids ? at_id + 1 : v->n_ids;
    v->n_used++;
    *slot = (struct vocab_slot){hash, (int32_t)id};
    return VOCAB_DONE;
}

const char *vocab_result_text(enum vocab_result r)
{
    switch (r) {
    case VOCAB_DONE:
        return "done";
    case VOCAB_NOMEM:
        return "out of memory";
    case VOCAB_BAD_ID:
        return "the id is not in 0 .. 999999";
    case VOCAB_SAME_ID:
        return "the id belongs to another token already";
    case VOCAB_SAME_TEXT:
        return "the token is there already with another id";
    case VOCAB_COLLIDES:
        break;
    }
    return "too many tokens have the same hash";
}

int32_t vocab_find(const struct vocab *v, const char *s, size_t len)
{
    if (v->slots_cap == 0) {
        return -1;
    }
    const struct vocab_slot *slot = find_slot(v, s, len, hash_bytes(s, len));
    return slot ? slot->id : -1;
}

void vocab_find_many(const struct vocab *v, struct vocab_query *q, size_t n)
{
    uint32_t hash[VOCAB_FIND_MAX];
    assert(n <= VOCAB_FIND_MAX);
    for (size_t i = 0; v->slots_cap > 0 && i < n; i++) {
        hash[i] = hash_bytes(q[i].s, q[i].len);
        __builtin_prefetch(&v->slots[hash[i] & (v->slots_cap - 1)]);
    }
    for (size_t i = 0; v->slots_cap > 0 && i < n; i++) { /* mostly the first slot is the one */
        int32_t id = v->slots[hash[i] & (v->slots_cap - 1)].id;
        __builtin_prefetch(&v->entries[id < 0 ? 0 : id]);
    }
    for (size_t i = 0; i < n; i++) {
        const struct vocab_slot *slot =
            v->slots_cap > 0 ? find_slot(v, q[i].s, q[i].len, hash[i]) : NULL;
        q[i].id = slot ? slot->id : -1;
    }
}

const char *vocab_spelling(const struct vocab *v, int64_t id, size_t *len)
{
    if (id < 0 || (uint64_t)id >= v->n_ids || v->entries[id].at == 0) {
        return NULL;
    }
    if (len) {
        *len = v->entries[id].len;
    }
    return v->arena + v->entries[id].at;
}
