/* plan_range.h - whether one value fits one claim, and what would be nearest. Inside of the
 * planner. Pure. */
#ifndef ISOTHERM_CATALOG_PLAN_RANGE_H
#define ISOTHERM_CATALOG_PLAN_RANGE_H

#include "plan.h"

enum plan_fit {
    PLAN_FITS,
    PLAN_NEAR,  /* out of range, `nearest` is allowed */
    PLAN_MISFIT /* not supported, or out of range with nothing near that would mean the same */
};

struct plan_fitting {
    enum plan_fit fit;
    enum reason reason;   /* unless it fits */
    struct value nearest; /* when near */
};

/* `c` NULL: nobody says anything, as absent. Lists of stop strings are not judged by length: they
 * can be split. */
struct plan_fitting plan_fit_value(const struct claim *c, enum param p, struct value v);

/* How many strings of the list fit the limits of the plan (stop_len_max, stop_no_blank). */
size_t plan_stop_count_fit(const struct plan *p, const json_t *stop);

/* Whether the claim takes exactly one value. */
bool plan_is_fixed(const struct claim *c);

/* `x` as a value of the parameter's type; integers beyond 64 bits become the nearest that is one.
 */
struct value plan_number(enum param p, double x);

#endif
