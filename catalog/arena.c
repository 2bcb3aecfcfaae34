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

void *arena_take(struct arena *a, size_t len)
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

static uint64_t hash_text(const char *text) /* FNV-1a */
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++) {
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return h;
}

/* The slot where `text` is or would be; the table always has a free one. */
static const char **find_slot(const char **slots, size_t n_slots, const char *text)
{
    size_t i = hash_text(text) & (n_slots - 1);
    while (slots[i] && strcmp(slots[i], text) != 0) {
        i = (i + 1) & (n_slots - 1);
    }
    return &slots[i];
}

static int grow(struct arena *a)
{
    size_t n = a->n_slots ? a->n_slots * 2 : ARENA_SLOTS_FIRST;
    const char **slots = calloc(n, sizeof *slots);
    if (!slots) {
        return 0;
    }
    for (size_t i = 0; i < a->n_slots; i++) {
        if (a->slots[i]) {
            *find_slot(slots, n, a->slots[i]) = a->slots[i];
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
    const char **slot = find_slot(a->slots, a->n_slots, text);
    if (!*slot) {
        size_t len = strlen(text) + 1;
        char *copy = arena_take(a, len);
        if (!copy) {
            return NULL;
        }
        memcpy(copy, text, len);
        *slot = copy;
        a->n_strings++;
    }
    return *slot;
}

void arena_end_interning(struct arena *a)
{
    free(a->slots);
    a->slots = NULL;
    a->n_slots = a->n_strings = 0;
}
