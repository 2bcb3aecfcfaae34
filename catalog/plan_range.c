/* plan_range.c - one value against one claim. */
#include "plan_range.h"

#include <math.h>
#include <string.h>

static const struct plan_fitting fits = {.fit = PLAN_FITS};

static struct plan_fitting misfit(enum reason reason)
{
    return (struct plan_fitting){.fit = PLAN_MISFIT, .reason = reason};
}

bool plan_is_fixed(const struct claim *c)
{
    return json_array_size(c->values) == 1 || (c->has_min && c->has_max && c->min == c->max);
}

/* ---- numbers */

static double number_of(struct value v)
{
    return v.type == VALUE_INT ? (double)v.i : v.d;
}

struct value plan_number(enum param p, double x)
{
    if (sampling_table[p].type != VALUE_INT) {
        return (struct value){.type = VALUE_NUMBER, .d = x};
    }
    /* 2^63 is the one double that a bound may have and an int64 cannot. */
    int64_t i = x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x;
    return (struct value){.type = VALUE_INT, .i = i};
}

static struct plan_fitting near(enum param p, enum reason reason, double x)
{
    if (p == PARAM_SEED) {
        return misfit(reason); /* another seed is another answer, not a near one */
    }
    return (struct plan_fitting){.fit = PLAN_NEAR, .reason = reason, .nearest = plan_number(p, x)};
}

/* One step inside of an exclusive bound. */
static double step_of(enum param p, double bound)
{
    return sampling_table[p].type == VALUE_INT ? 1 : 1e-6 * fmax(1, fabs(bound));
}

static struct plan_fitting fit_listed(const struct claim *c, enum param p, double x)
{
    double best = NAN;
    for (size_t i = 0; i < json_array_size(c->values); i++) {
        const json_t *item = json_array_get(c->values, i);
        double y = json_number_value(item);
        if (json_is_number(item) && (isnan(best) || fabs(y - x) < fabs(best - x))) {
            best = y;
        }
    }
    if (best == x) {
        return fits;
    }
    return isnan(best) || plan_is_fixed(c) ? misfit(REASON_NOT_A_VALUE)
                                           : near(p, REASON_NOT_A_VALUE, best);
}

static bool is_below_min(const struct claim *c, double x)
{
    return c->has_min && (x < c->min || (c->min_exclusive && x == c->min));
}

static bool is_above_max(const struct claim *c, double x)
{
    return c->has_max && (x > c->max || (c->max_exclusive && x == c->max));
}

/* The nearest number that is allowed, if there is one: bounds may lie between two integers, or be
 * the excluded ends of nothing. */
static struct plan_fitting fit_between(const struct claim *c, enum param p, enum reason reason,
                                       double x)
{
    bool is_whole = c->is_integer || sampling_table[p].type == VALUE_INT;
    double step = is_whole ? 1 : 0;
    double low = c->min_exclusive ? c->min + step_of(p, c->min) : c->min;
    double high = c->max_exclusive ? c->max - step_of(p, c->max) : c->max;
    if (is_whole) {
        low = c->min_exclusive ? floor(c->min) + step : ceil(c->min);
        high = c->max_exclusive ? ceil(c->max) - step : floor(c->max);
        x = rint(x);
    }
    x = c->has_max && x > high ? high : x;
    x = c->has_min && x < low ? low : x;
    return is_above_max(c, x) || is_below_min(c, x) ? misfit(reason) : near(p, reason, x);
}

static struct plan_fitting fit_number(const struct claim *c, enum param p, struct value v)
{
    double x = number_of(v);
    if (c->values) {
        return fit_listed(c, p, x);
    }
    bool is_below = is_below_min(c, x), is_above = is_above_max(c, x);
    if (!is_below && !is_above && (!c->is_integer || x == rint(x))) {
        return fits;
    }
    enum reason reason = is_below   ? REASON_BELOW_MIN
                         : is_above ? REASON_ABOVE_MAX
                                    : REASON_NOT_A_VALUE;
    return plan_is_fixed(c) ? misfit(REASON_NOT_A_VALUE) : fit_between(c, p, reason, x);
}

/* Bounds of a boolean are those of an old integer form of it; only listed booleans count. */
static struct plan_fitting fit_bool(const struct claim *c, bool b)
{
    bool is_said = false;
    for (size_t i = 0; i < json_array_size(c->values); i++) {
        const json_t *item = json_array_get(c->values, i);
        if (json_is_boolean(item) && json_is_true(item) == b) {
            return fits;
        }
        is_said = is_said || json_is_boolean(item);
    }
    return is_said ? misfit(REASON_NOT_A_VALUE) : fits;
}

/* ---- words */

static bool is_listed(const json_t *values, const char *word)
{
    for (size_t i = 0; i < json_array_size(values); i++) {
        const char *item = json_string_value(json_array_get(values, i));
        if (item && strcmp(item, word) == 0) {
            return true;
        }
    }
    return false;
}

/* In characters, as the sources count: bytes that begin one. */
static int64_t length_of(const char *s)
{
    int64_t n = 0;
    for (; s && *s; s++) {
        n += ((unsigned char)*s & 0xc0) != 0x80;
    }
    return n;
}

static struct plan_fitting fit_word(const struct claim *c, const char *word)
{
    if (c->values && !is_listed(c->values, word)) {
        return misfit(REASON_NOT_A_VALUE);
    }
    if (c->len_max > 0 && length_of(word) > c->len_max) {
        return misfit(REASON_STRING_TOO_LONG);
    }
    return c->len_min > 0 && length_of(word) < c->len_min ? misfit(REASON_STRING_TOO_SHORT) : fits;
}

/* ---- JSON */

static struct plan_fitting fit_bias(const struct claim *c, json_t *object)
{
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        double x = json_number_value(json_object_iter_value(it));
        if (is_below_min(c, x)) {
            return misfit(REASON_BELOW_MIN);
        }
        if (is_above_max(c, x)) {
            return misfit(REASON_ABOVE_MAX);
        }
        if (c->is_integer && x != rint(x)) {
            return misfit(REASON_NOT_A_VALUE);
        }
    }
    return fits;
}

/* The longest string that a length limit speaks of: of labels their values, of a schema its name.
 */
static int64_t longest_of(enum param p, json_t *j)
{
    int64_t longest = 0;
    if (p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA) {
        const json_t *schema = json_object_get(j, "json_schema");
        return length_of(json_string_value(json_object_get(schema ? schema : j, "name")));
    }
    for (void *it = json_object_iter(j); it; it = json_object_iter_next(j, it)) {
        int64_t n = length_of(json_string_value(json_object_iter_value(it)));
        longest = n > longest ? n : longest;
    }
    return longest;
}

static struct plan_fitting fit_json(const struct claim *c, enum param p, struct value v)
{
    json_t *j = (json_t *)v.j; /* jansson's iterators lack const; nothing is changed */
    size_t n_items = json_array_size(j) + json_object_size(j);
    if (p == PARAM_TOOL_CHOICE) {
        /* An object names a function: listed, or meant where a call can be forced at all. */
        const char *word = json_string_value(j);
        bool is_named = !word && is_listed(c->values, "function");
        return is_named ? fits : fit_word(c, word ? word : "required");
    }
    if (p == PARAM_LOGIT_BIAS) {
        struct plan_fitting f = fit_bias(c, j);
        if (f.fit != PLAN_FITS) {
            return f;
        }
    }
    if (p != PARAM_STOP && c->items_max > 0 && n_items > (size_t)c->items_max) {
        return misfit(REASON_LIST_TOO_LONG);
    }
    if (p != PARAM_STOP && c->len_max > 0 && longest_of(p, j) > c->len_max) {
        return misfit(REASON_STRING_TOO_LONG);
    }
    return fits;
}

struct plan_fitting plan_fit_value(const struct claim *c, enum param p, struct value v)
{
    if (!c || c->support != CLAIM_YES || !c->wire) {
        return misfit(c && c->support == CLAIM_IGNORED ? REASON_IGNORED_BY_PROVIDER
                                                       : REASON_UNSUPPORTED);
    }
    switch (v.type) {
    case VALUE_INT:
    case VALUE_NUMBER:
        return fit_number(c, p, v);
    case VALUE_STRING:
        return fit_word(c, v.s);
    case VALUE_JSON:
        return fit_json(c, p, v);
    case VALUE_BOOL:
        return fit_bool(c, v.b);
    case VALUE_NONE:
        break;
    }
    return fits;
}
