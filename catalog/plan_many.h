/* plan_many.h - choices by several calls: how many each of them has, and its seed. Inside of the
 * planner. Pure. */
#ifndef ISOTHERM_CATALOG_PLAN_MANY_H
#define ISOTHERM_CATALOG_PLAN_MANY_H

#include "plan_range.h"

/* `n` choices do not fit `c` (see plan_fit_value()): so many go into one call. 1: its `n` is left
 * out. */
int64_t plan_many_each(const struct claim *c, int64_t n, const struct plan_fitting *f);

/* Makes it several calls with `each` choices and a last one with the rest; each < n. */
void plan_many_split(struct plan *out, int64_t n, int64_t each);

/* Between what the claim takes the seeds of the calls are to stay. */
void plan_many_bound(struct plan *out, const struct claim *c);

/* The seed of the i-th call; i < n_calls, and a seed is sent. */
int64_t plan_many_seed(const struct plan *p, size_t i);

#endif
