/* pool.h - worker threads for one job at a time: items of equal kind, each done whole by one
 * thread.
 *
 * Which thread does which item is not fixed, so an item's result must not depend on it. One
 * thread owns a pool.
 */
#ifndef ISOTHERM_POOL_H
#define ISOTHERM_POOL_H

#include "engine_error.h"
#include <stddef.h>

#define POOL_THREADS_MAX 64

struct pool;

/* `thread` is in 0 .. n_threads - 1 and tells scratch memory apart; 0 is the caller. */
typedef void pool_fn(void *arg, size_t item, int thread);

/* n_threads counts the caller. With 1 *out is NULL, which is a pool that runs everything in the
 * caller. */
ENGINE_WARN_UNUSED bool pool_new(struct pool **out, int n_threads, struct engine_error *err);
void pool_free(struct pool *p);

/* Runs fn for items 0 .. n_items - 1 (fewer than 2^32) and returns when all are done. */
void pool_run(struct pool *p, size_t n_items, pool_fn *fn, void *arg);

#endif
