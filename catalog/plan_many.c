/* plan_many.c - seeds are counted on a ring: from the seed that was asked for up to the greatest
 * that the provider takes, and on from its least. Unsigned arithmetic, because the ring may be all
 * of the 64 bits. */
#include "plan_many.h"

#include <math.h>

static struct value int_value(int64_t i)
{
    return (struct value){.type = VALUE_INT, .i = i};
}

int64_t plan_many_each(const struct claim *c, int64_t n, const struct plan_fitting *f)
{
    int64_t each = f->fit == PLAN_NEAR ? f->nearest.i : 1;
    if (each < 1 || each >= n) {
        return 1;
    }
    int64_t rest = n % each;
    bool fits = rest == 0 || plan_fit_value(c, PARAM_N, int_value(rest)).fit == PLAN_FITS;
    return fits ? each : 1;
}

void plan_many_split(struct plan *out, int64_t n, int64_t each)
{
    out->n_calls = (size_t)((n + each - 1) / each);
    out->n_last = n - ((int64_t)out->n_calls - 1) * each;
}

void plan_many_bound(struct plan *out, const struct claim *c)
{
    out->seed_min = INT64_MIN;
    out->seed_max = INT64_MAX;
    if (c->has_min) {
        double low = c->min_exclusive ? floor(c->min) + 1 : ceil(c->min);
        out->seed_min = plan_number(PARAM_SEED, low).i;
    }
    if (c->has_max) {
        double high = c->max_exclusive ? ceil(c->max) - 1 : floor(c->max);
        out->seed_max = plan_number(PARAM_SEED, high).i;
    }
}

int64_t plan_many_seed(const struct plan *p, size_t i)
{
    int64_t first = p->send.v[PARAM_SEED].i;
    uint64_t low = (uint64_t)p->seed_min, span = (uint64_t)p->seed_max - low + 1; /* 0: all */
    uint64_t at = (uint64_t)first - low, none = UINT64_MAX - low; /* the place of -1: no seed */
    if (sampling_is_neutral(PARAM_SEED, p->send.v[PARAM_SEED])) {
        return first;
    }
    uint64_t step = i, to_none = none - at;
    if (p->seed_min <= -1 && p->seed_max >= -1) {
        to_none += none < at ? span : 0;
        step += step >= to_none;
    }
    /* The distance to the greatest decides, so that nothing is added beyond 64 bits. */
    uint64_t left = (uint64_t)p->seed_max - (uint64_t)first;
    at = step <= left ? at + step : step - left - 1;
    at = span ? at % span : at;
    return (int64_t)(low + at);
}

/* ---- what each call sends */

int64_t plan_call_choices(const struct plan *p, size_t i)
{
    if (p->n_calls < 2) {
        return 0;
    }
    int64_t each = sampling_has(&p->send, PARAM_N) ? p->send.v[PARAM_N].i : 1;
    return i + 1 < p->n_calls ? each : p->n_last;
}

void plan_call_send(const struct plan *p, size_t i, struct sampling *out)
{
    *out = p->send;
    if (p->n_calls < 2) {
        return;
    }
    if (sampling_has(out, PARAM_N)) {
        sampling_set(out, PARAM_N, int_value(plan_call_choices(p, i)));
    }
    if (sampling_has(out, PARAM_SEED)) {
        sampling_set(out, PARAM_SEED, int_value(plan_many_seed(p, i)));
    }
}
