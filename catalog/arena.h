/* arena.h - memory of a snapshot: many small things made once, freed together, never moved.
 *
 * Strings are kept once however often they occur: in a catalog most notes, sources and endpoints
 * repeat (1,936 rows of three providers: 1.2 MB of text, 0.1 MB without repetition). All functions
 * return NULL when memory is short.
 */
#ifndef ISOTHERM_CATALOG_ARENA_H
#define ISOTHERM_CATALOG_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_chunk;
struct arena_slot {
    uint64_t hash;
    const char *text; /* NULL: free */
};
struct arena {
    struct arena_chunk *chunks; /* owned, newest first */
    struct arena_slot *slots;   /* owned: open addressing over the interned strings */
    size_t n_slots, n_strings;
};

void arena_init(struct arena *a);
void arena_release(struct arena *a);
const char *arena_intern(struct arena *a, const char *text); /* equal text, equal pointer */
void arena_end_interning(struct arena *a); /* frees the table, keeps the strings */

#endif
