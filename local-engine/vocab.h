/* vocab.h - spelling <-> id. Ids may have holes. One arena for the spellings, one hash table: no
 * allocation for a token. */
#ifndef ISOTHERM_VOCAB_H
#define ISOTHERM_VOCAB_H

#include "engine_error.h"
#include <stddef.h>
#include <stdint.h>

/* Four times the largest vocabulary that is published (262 thousand); keeps every table of ours
 * below 64 MiB. */
enum { VOCAB_IDS_MAX = 1000000 };

struct vocab_entry {
    uint32_t at, len;
}; /* at 0: a hole */
struct vocab_slot {
    uint32_t hash;
    int32_t id;
}; /* id -1: empty */

struct vocab {
    char *arena; /* NUL-terminated spellings; the first byte is not used */
    size_t arena_len, arena_cap;
    struct vocab_entry *entries; /* [n_ids] */
    size_t n_ids, entries_cap;   /* n_ids: largest id + 1 */
    struct vocab_slot *slots;    /* [slots_cap], a power of two */
    size_t n_used, slots_cap;
};

enum vocab_result {
    VOCAB_DONE,
    VOCAB_NOMEM,
    VOCAB_BAD_ID,
    VOCAB_SAME_ID,
    VOCAB_SAME_TEXT,
    VOCAB_COLLIDES
};

/* A zeroed one is empty and ready. */
void vocab_release(struct vocab *v);
/* Room for about n tokens and their spellings, so that adding them moves nothing. */
ENGINE_WARN_UNUSED bool vocab_reserve(struct vocab *v, size_t n, size_t bytes);
/* Anything but VOCAB_DONE leaves the table as it was. */
ENGINE_WARN_UNUSED enum vocab_result vocab_add(struct vocab *v, const char *s, size_t len,
                                               int64_t id);
/* For error texts: what went wrong. */
const char *vocab_result_text(enum vocab_result r);

/* -1: no such token. */
int32_t vocab_find(const struct vocab *v, const char *s, size_t len);
/* The same for many at once, in a third of the time: the memory of all is on its way before the
 * first is looked at. */
enum { VOCAB_FIND_MAX = 128 };
struct vocab_query {
    const char *s;
    size_t len;
    int32_t id; /* the answer */
};
void vocab_find_many(const struct vocab *v, struct vocab_query *q, size_t n); /* n <= the limit */
/* Borrowed, NUL-terminated (a spelling may hold NUL, hence len, which may be NULL); NULL: no such
 * id. */
const char *vocab_spelling(const struct vocab *v, int64_t id, size_t *len);

#endif
