/* arena.c - chunks of at least 64 KiB in a list; a hash table of the strings while the snapshot is
 * being read. */
#include "arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_CHUNK       65536
#define ARENA_SLOTS_FIRST 1024

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, cap;
    alignas(max_align_t) unsigned char data[];
};

void arena_init(struct arena *a)
{
    *a = (struct arena){0};
}

void arena_release(struct arena *a)
{
    if (!a) {
        return;
    }
    while (a->chunks) {
        struct arena_chunk *next = a->chunks->next;
        free(a->chunks);
        a->chunks = next;
    }
    arena_end_interning(a);
}

/* Zeroed, aligned for any type. */
static void *take(struct arena *a, size_t len)
{
    size_t align = alignof(max_align_t);
    if (len > SIZE_MAX / 2) {
        return NULL;
    }
    len = (len + align - 1) / align * align;
    struct arena_chunk *c = a->chunks;
    if (!c || c->cap - c->used < len) {
        size_t cap = len > ARENA_CHUNK ? len : ARENA_CHUNK;
        c = calloc(1, sizeof *c + cap);
        if (!c) {
            return NULL;
        }
        c->next = a->chunks;
        c->cap = cap;
        a->chunks = c;
    }
    void *p = c->data + c->used;
    c->used += len;
    return p;
}

/* Eight bytes at a time: notes are long, and a load hashes two megabytes. */
static uint64_t hash_text(const char *text, size_t len)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ len, word;
    for (; len >= sizeof word; text += sizeof word, len -= sizeof word) {
        memcpy(&word, text, sizeof word);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, text, len);
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

/* The slot where `text` is or would be; the table always has a free one. */
static struct arena_slot *find_slot(struct arena_slot *slots, size_t n_slots, uint64_t hash,
                                    const char *text)
{
    size_t i = hash & (n_slots - 1);
    while (slots[i].text && (slots[i].hash != hash || strcmp(slots[i].text, text) != 0)) {
        i = (i + 1) & (n_slots - 1);
    }
    return &slots[i];
}

static int grow(struct arena *a)
{
    size_t n = a->n_slots ? a->n_slots * 2 : ARENA_SLOTS_FIRST;
    struct arena_slot *slots = calloc(n, sizeof *slots);
    if (!slots) {
        return 0;
    }
    for (size_t i = 0; i < a->n_slots; i++) {
        if (a->slots[i].text) {
            *find_slot(slots, n, a->slots[i].hash, a->slots[i].text) = a->slots[i];
        }
    }
    free(a->slots);
    a->slots = slots;
    a->n_slots = n;
    return 1;
}

const char *arena_intern(struct arena *a, const char *text)
{
    if (a->n_strings * 2 >= a->n_slots && !grow(a)) {
        return NULL;
    }
    size_t len = strlen(text);
    uint64_t hash = hash_text(text, len);
    struct arena_slot *slot = find_slot(a->slots, a->n_slots, hash, text);
    if (!slot->text) {
        char *copy = take(a, len + 1);
        if (!copy) {
            return NULL;
        }
        memcpy(copy, text, len + 1);
        *slot = (struct arena_slot){hash, copy};
        a->n_strings++;
    }
    return slot->text;
}

void arena_end_interning(struct arena *a)
{
    free(a->slots);
    a->slots = NULL;
    a->n_slots = a->n_strings = 0;
}
