/* check_values.c - claims that nothing can fit: each test is a line in a table.
 *
 * `build` refuses some of these already. They are tested here too: a database may come from another
 * program, and an override on top of a claim may make of two sound halves one that is not.
 */
#include "check_inside.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fault {
    char *out;
    size_t cap;
};

static bool wrong(struct fault *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(struct fault *f, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(f->out, f->cap, fmt, args); /* cut where it is long */
    va_end(args);
    return true;
}

static const struct param_info *info_of(const struct claim *c)
{
    return c->param_id < PARAM_COUNT ? &sampling_table[c->param_id] : NULL;
}

/* Parameters whose bounds are compared with values. Bounds of a boolean one are those of an older
 * integer form. */
static bool is_number(const struct claim *c)
{
    const struct param_info *p = info_of(c);
    return p && (p->type == VALUE_INT || p->type == VALUE_NUMBER);
}

static bool is_out_of_bounds(const struct claim *c, double x)
{
    return (c->has_min && (x < c->min || (c->min_exclusive && x == c->min))) ||
           (c->has_max && (x > c->max || (c->max_exclusive && x == c->max)));
}

/* ---- the tests: true, and a text, where something is wrong */

static bool has_no_range(const struct claim *c, struct fault *f)
{
    bool is_open = c->min_exclusive || c->max_exclusive;
    if (c->has_min && c->has_max && (c->min > c->max || (is_open && c->min == c->max))) {
        return wrong(f, "no value is left between %g and %g: correct the bounds", c->min, c->max);
    }
    return false;
}

static bool has_no_integer(const struct claim *c, struct fault *f)
{
    bool is_integer = c->is_integer || (info_of(c) && info_of(c)->type == VALUE_INT);
    if (!is_integer || !c->has_min || !c->has_max) {
        return false;
    }
    double lo = ceil(c->min), hi = floor(c->max);
    lo += c->min_exclusive && lo == c->min;
    hi -= c->max_exclusive && hi == c->max;
    return lo > hi &&
           wrong(f, "no integer is left between %g and %g: correct the bounds", c->min, c->max);
}

static bool is_beyond_meaning(const struct claim *c, struct fault *f)
{
    const struct param_info *p = info_of(c);
    if (!is_number(c)) {
        return false;
    }
    bool is_below = c->has_max && (c->max < p->lo || (p->lo_open && c->max == p->lo));
    bool is_above = c->has_min && c->min > p->hi;
    return (is_below || is_above) &&
           wrong(f,
                 "all of its range is outside of what '%s' can mean (%g to %g): correct the "
                 "bounds or the parameter's name",
                 c->param, p->lo, p->hi);
}

/* Whether a listed value could be sent as a value of the parameter. */
static bool is_sendable(const struct claim *c, const json_t *v)
{
    const struct param_info *p = info_of(c);
    double x = json_number_value(v);
    switch (p->type) {
    case VALUE_INT:
        return json_is_number(v) && x == rint(x) && x >= p->lo && x <= p->hi;
    case VALUE_NUMBER:
        return json_is_number(v) && x >= p->lo && x <= p->hi;
    case VALUE_STRING:
        return json_is_string(v);
    default: /* booleans and JSON: values are words for people */
        return true;
    }
}

static bool has_no_value(const struct claim *c, struct fault *f)
{
    size_t n = json_array_size(c->values), n_good = 0;
    if (!c->values || !info_of(c) || c->support != CLAIM_YES) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        n_good += is_sendable(c, json_array_get(c->values, i));
    }
    return n_good == 0 &&
           wrong(f, "none of its %zu values can be a value of '%s': correct the list", n, c->param);
}

static bool has_value_out_of_range(const struct claim *c, struct fault *f)
{
    for (size_t i = 0; is_number(c) && i < json_array_size(c->values); i++) {
        const json_t *v = json_array_get(c->values, i);
        if (json_is_number(v) && is_out_of_bounds(c, json_number_value(v))) {
            return wrong(f, "the listed value %g is outside of its own bounds: correct one of them",
                         json_number_value(v));
        }
    }
    return false;
}

/* A default that asks for nothing may lie outside: a seed of -1 that stands for none. */
static bool has_default_out_of_range(const struct claim *c, struct fault *f)
{
    struct value v = c->fallback;
    bool is_numeric = v.type == VALUE_INT || v.type == VALUE_NUMBER;
    if (!is_number(c) || c->support != CLAIM_YES || !is_numeric ||
        sampling_is_neutral(c->param_id, v)) {
        return false;
    }
    double x = v.type == VALUE_INT ? (double)v.i : v.d;
    bool is_listed = json_array_size(c->values) == 0;
    for (size_t i = 0; i < json_array_size(c->values); i++) {
        is_listed = is_listed || json_number_value(json_array_get(c->values, i)) == x;
    }
    return (is_out_of_bounds(c, x) || !is_listed) &&
           wrong(f, "its default %g is outside of its own range: correct one of them", x);
}

/* Whether a word of a condition can be a value of the condition's parameter. */
static bool can_be(const struct param_info *p, const char *word)
{
    char *end;
    double x;
    if (strcmp(word, "absent") == 0) {
        return true;
    }
    switch (p->type) {
    case VALUE_BOOL:
        return strcmp(word, "true") == 0 || strcmp(word, "false") == 0;
    case VALUE_INT:
    case VALUE_NUMBER:
        x = strtod(word, &end);
        return end != word && *end == '\0' && x >= p->lo && x <= p->hi &&
               (p->type == VALUE_NUMBER || x == rint(x));
    default:
        return true;
    }
}

static bool has_word(const json_t *words, const char *word)
{
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *s = json_string_value(json_array_get(words, i));
        if (s && strcmp(s, word) == 0) {
            return true;
        }
    }
    return false;
}

/* A switch that no request can set (when.id PARAM_COUNT) is for people: it may hold elsewhere. */
static bool has_hopeless_condition(const struct claim *c, struct fault *f)
{
    const struct claim_condition *w = &c->when;
    if (!w->param || w->id >= PARAM_COUNT) {
        return false;
    }
    const struct param_info *p = &sampling_table[w->id];
    size_t n_possible = 0;
    for (size_t i = 0; i < json_array_size(w->values); i++) {
        const char *word = json_string_value(json_array_get(w->values, i));
        n_possible += word && can_be(p, word);
    }
    bool never = w->is_negated ? p->type == VALUE_BOOL && has_word(w->values, "absent") &&
                                     has_word(w->values, "true") && has_word(w->values, "false")
                               : n_possible == 0;
    return never && wrong(f, "its condition on '%s' can never hold: correct 'when'", w->param);
}

static bool has_needed_conflict(const struct claim *c, struct fault *f)
{
    if (has_word(c->needs, c->param) || has_word(c->conflicts, c->param)) {
        return wrong(f, "it %s itself: take '%s' out of the list",
                     has_word(c->needs, c->param) ? "needs" : "conflicts with", c->param);
    }
    for (size_t i = 0; i < json_array_size(c->needs); i++) {
        const char *name = json_string_value(json_array_get(c->needs, i));
        if (name && has_word(c->conflicts, name)) {
            return wrong(f, "it needs '%s' and conflicts with it: take one of the two out", name);
        }
    }
    return false;
}

static bool ends_before_it_begins(const struct claim *c, struct fault *f)
{
    /* A partial date begins with its first day and ends with its last. */
    return c->valid_from && c->valid_to &&
           strncmp(c->valid_from, c->valid_to, strlen(c->valid_to)) > 0 &&
           wrong(f, "it ends on %s, before it begins on %s: correct the dates", c->valid_to,
                 c->valid_from);
}

static bool has_no_length(const struct claim *c, struct fault *f)
{
    return c->len_max > 0 && c->len_min > c->len_max &&
           wrong(f, "no string is as long as %lld and not above %lld: correct one of them",
                 (long long)c->len_min, (long long)c->len_max);
}

static bool is_required_and_refused(const struct claim *c, struct fault *f)
{
    return c->is_required && (c->support == CLAIM_REJECTED || c->support == CLAIM_ABSENT) &&
           wrong(f, "it is required and %s: no request could be sent: correct one of the two",
                 claim_support_name(c->support));
}

static bool has_no_place(const struct claim *c, struct fault *f)
{
    return c->support == CLAIM_YES && !c->wire && info_of(c) && c->is_required &&
           wrong(f, "it is required and has no place in the body: say its wire path");
}

bool check_impossible(const struct claim *c, char *out, size_t cap)
{
    static bool (*const tests[])(const struct claim *, struct fault *) = {
        has_no_range,           has_no_integer,
        is_beyond_meaning,      has_no_value,

        has_value_out_of_range, has_default_out_of_range,
        has_hopeless_condition, has_needed_conflict,
        ends_before_it_begins,  is_required_and_refused,
        has_no_place,           has_no_length,
    };
    struct fault f = {out, cap};
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (tests[i](c, &f)) {
            return true;
        }
    }
    return false;
}
