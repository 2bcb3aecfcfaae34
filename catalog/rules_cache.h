/* rules_cache.h - rules that a snapshot has worked out before, for whoever asks again. Inside of
 * the catalog.
 *
 * A cache belongs to one snapshot, is filled while requests run, and is read and written by any
 * thread without a lock: an entry is complete before it is seen and never changes or goes away
 * before the cache does. It has a fixed number of places; when those are taken the rules of
 * further models are worked out each time.
 */
#ifndef ISOTHERM_CATALOG_RULES_CACHE_H
#define ISOTHERM_CATALOG_RULES_CACHE_H

#include "snapshot.h"

/* Rules depend on the day only through the dates at which claims begin and end: between two of them
 * all days are one era. So a daemon may run for a year without its cache growing by the day. */
struct rules_key {
    const struct provider *provider;
    const char *model;
    const char *switches; /* never NULL */
    enum catalog_route route;
    uint32_t era;
};

/* Reads the dates of the claims. NULL: out of memory. Yours: free it. */
struct rules_cache *rules_cache_new(const struct claim *claims, size_t n_claims);
void rules_cache_free(struct rules_cache *c);

/* false: `day` is not of the form "YYYY-MM-DD". */
bool rules_cache_era(struct rules_cache *c, const char *day, uint32_t *era);
/* Copies into `out` (whose `model` is the key's); false: not there. */
bool rules_cache_find(struct rules_cache *c, const struct rules_key *key, struct rules *out);
/* May keep nothing: the cache is full, or memory is short. */
void rules_cache_put(struct rules_cache *c, const struct rules_key *key, const struct rules *r);

#endif
