/* keeper_cache.h - the snapshots that the keeper holds beside the one in use: what was replaced a
 * moment ago, and older versions that requests ask for. Inside of the keeper, which holds its lock
 * around every call.
 *
 * A snapshot is some megabytes: what nobody has used since the last tidying, and no request holds,
 * goes.
 */
#ifndef ISOTHERM_KEEPER_CACHE_H
#define ISOTHERM_KEEPER_CACHE_H

#include "catalog/catalog.h"

#define KEEPER_CACHE_MAX 4
struct keeper_cache {
    struct snapshot *at[KEEPER_CACHE_MAX]; /* newest use first, NULL behind the last */
    bool was_used[KEEPER_CACHE_MAX];       /* since the last tidying */
};

/* Takes the reference; the one that was used least recently goes. */
void keeper_cache_put(struct keeper_cache *c, struct snapshot *s);
/* A reference of the caller's own; NULL: not there. */
struct snapshot *keeper_cache_find(struct keeper_cache *c, int64_t version);
bool keeper_cache_has(const struct keeper_cache *c, const struct snapshot *s);
/* Whether something went. */
bool keeper_cache_tidy(struct keeper_cache *c);
void keeper_cache_clear(struct keeper_cache *c);

#endif
