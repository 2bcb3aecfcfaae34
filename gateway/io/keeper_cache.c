/* keeper_cache.c - see keeper_cache.h. */
#include "keeper_cache.h"

#include <string.h>

static void move_to_front(struct keeper_cache *c, size_t i, struct snapshot *s)
{
    memmove(c->at + 1, c->at, i * sizeof *c->at);
    memmove(c->was_used + 1, c->was_used, i * sizeof *c->was_used);
    c->at[0] = s;
    c->was_used[0] = true;
}

void keeper_cache_put(struct keeper_cache *c, struct snapshot *s)
{
    snapshot_release(c->at[KEEPER_CACHE_MAX - 1]);
    move_to_front(c, KEEPER_CACHE_MAX - 1, s);
}

struct snapshot *keeper_cache_find(struct keeper_cache *c, int64_t version)
{
    for (size_t i = 0; i < KEEPER_CACHE_MAX && c->at[i]; i++) {
        if (snapshot_version(c->at[i]) == version) {
            move_to_front(c, i, c->at[i]);
            return snapshot_ref(c->at[0]);
        }
    }
    return NULL;
}

bool keeper_cache_has(const struct keeper_cache *c, const struct snapshot *s)
{
    for (size_t i = 0; i < KEEPER_CACHE_MAX; i++) {
        if (c->at[i] == s) {
            return s != NULL;
        }
    }
    return false;
}

bool keeper_cache_tidy(struct keeper_cache *c)
{
    size_t kept = 0, n = 0;
    for (size_t i = 0; i < KEEPER_CACHE_MAX && c->at[i]; i++) {
        struct snapshot *s = c->at[i];
        n++;
        if (c->was_used[i] || snapshot_is_shared(s)) {
            c->at[kept++] = s;
        } else {
            snapshot_release(s);
        }
    }
    for (size_t i = 0; i < KEEPER_CACHE_MAX; i++) {
        c->at[i] = i < kept ? c->at[i] : NULL;
        c->was_used[i] = false;
    }
    return kept < n;
}

void keeper_cache_clear(struct keeper_cache *c)
{
    for (size_t i = 0; i < KEEPER_CACHE_MAX; i++) {
        snapshot_release(c->at[i]);
    }
    *c = (struct keeper_cache){.at = {NULL}};
}
