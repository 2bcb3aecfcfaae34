/* constrain_one_of.c - oneOf wants exactly one branch, an automaton of this kind takes any: so
 * branches must be shown to share no document. Two lists share none if of each type that both have
 * they differ in values, bounds, lengths, or a property that one requires.
 *
 * A document is made by one branch and must be outside the other, so of two branches one's meant
 * types are held against the other's stated ones.
 */
#include "constrain_private.h"

enum { INNER_MAX = 4 /* properties of properties: the only recursion, so deep at most */ };

static bool are_apart(struct constrain_compiler *c, const struct constrain_parts *a,
                      const struct constrain_parts *b, int depth, bool *apart);

static unsigned types_of(const struct constrain_parts *l, unsigned (*types)(const json_t *))
{
    unsigned all = l->is_never ? 0 : TYPE_ALL;
    for (size_t i = 0; i < l->n; i++) {
        all &= types(l->p[i].schema);
    }
    return all;
}

static const json_t *values_of(const struct constrain_parts *l, bool *is_const)
{
    for (size_t i = 0; i < l->n; i++) {
        const json_t *one = json_object_get(l->p[i].schema, "const"),
                     *list = json_object_get(l->p[i].schema, "enum");
        *is_const = one != NULL;
        if (one || list) {
            return one ? one : list;
        }
    }
    return NULL;
}

/* Whether a has a list of values, and each is surely outside of b. */
static bool values_apart(struct constrain_compiler *c, const struct constrain_parts *a,
                         const struct constrain_parts *b, bool *apart)
{
    bool is_const;
    const json_t *values = values_of(a, &is_const);
    size_t n = !values ? 0 : is_const ? 1 : json_array_size(values);
    *apart = n > 0;
    for (size_t i = 0; *apart && i < n; i++) {
        const json_t *v = is_const ? values : json_array_get(values, i);
        enum constrain_verdict in_a, in_b;
        if (!constrain_judge(c, a, v, &in_a) || !constrain_judge(c, b, v, &in_b)) {
            return false;
        }
        *apart = in_a == VERDICT_OUT || in_b == VERDICT_OUT;
    }
    return true;
}

static bool below(const struct constrain_bound *hi, const struct constrain_bound *lo)
{
    int order = hi->value && lo->value ? constrain_compare(hi->value, lo->value) : 1;
    return order < 0 || (order == 0 && (hi->is_exclusive || lo->is_exclusive));
}

static bool numbers_apart(const struct constrain_parts *a, const struct constrain_parts *b)
{
    struct constrain_bound a_lo, a_hi, b_lo, b_hi;
    constrain_bounds(a, &a_lo, &a_hi);
    constrain_bounds(b, &b_lo, &b_hi);
    return below(&a_hi, &b_lo) || below(&b_hi, &a_lo);
}

static bool sizes_apart(struct constrain_compiler *c, const struct constrain_parts *a,
                        const struct constrain_parts *b, const char *min, const char *max,
                        bool *apart)
{
    struct constrain_range x, y;
    if (!constrain_range(c, a, min, max, &x) || !constrain_range(c, b, min, max, &y)) {
        return false;
    }
    *apart = x.is_empty || y.is_empty || x.max < y.min || y.max < x.min;
    return true;
}

/* ---- objects */

/* Whether by the letter no object of the list may have it. */
static bool forbids(const struct constrain_parts *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++) {
        const json_t *schema = l->p[i].schema;
        if (json_is_false(json_object_get(schema, "additionalProperties")) &&
            !json_object_get(schema, "patternProperties") &&
            !json_object_get(json_object_get(schema, "properties"), name)) {
            return true;
        }
    }
    return false;
}

static bool property_of(struct constrain_compiler *c, const struct constrain_parts *l,
                        const char *name, struct constrain_parts *out)
{
    *out = (struct constrain_parts){.n = 0};
    for (size_t i = 0; i < l->n; i++) {
        const json_t *p = json_object_get(json_object_get(l->p[i].schema, "properties"), name);
        uint32_t path = p ? constrain_below(c, l->p[i].path, "properties") : 0;
        if (p && !constrain_parts_add(c, out, p, constrain_below(c, path, name), 0)) {
            return false;
        }
    }
    return true;
}

static bool property_apart(struct constrain_compiler *c, const struct constrain_parts *a,
                           const struct constrain_parts *b, const char *name, int depth,
                           bool *apart)
{
    struct constrain_parts x, y;
    *apart = forbids(b, name);
    if (*apart || depth == 0) {
        return true;
    }
    return property_of(c, a, name, &x) && property_of(c, b, name, &y) &&
           are_apart(c, &x, &y, depth - 1, apart);
}

/* By one of the properties that a requires: either b may not have it, or no value of it is in
 * both, and then an object of b without it is not in a. */
static bool objects_apart(struct constrain_compiler *c, const struct constrain_parts *a,
                          const struct constrain_parts *b, int depth, bool *apart)
{
    *apart = false;
    for (size_t i = 0; i < a->n; i++) {
        const json_t *list = json_object_get(a->p[i].schema, "required");
        for (size_t k = 0; k < json_array_size(list) && !*apart; k++) {
            if (!constrain_works(c, 1 + a->n + b->n) ||
                !property_apart(c, a, b, json_string_value(json_array_get(list, k)), depth,
                                apart)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- all types */

static bool type_apart(struct constrain_compiler *c, const struct constrain_parts *a,
                       const struct constrain_parts *b, unsigned type, int depth, bool *apart)
{
    *apart = false;
    switch (type) {
    case TYPE_INTEGER:
    case TYPE_FRACTION:
        *apart = numbers_apart(a, b);
        return true;
    case TYPE_STRING:
        return sizes_apart(c, a, b, "minLength", "maxLength", apart);
    case TYPE_ARRAY:
        return sizes_apart(c, a, b, "minItems", "maxItems", apart);
    case TYPE_OBJECT:
        return objects_apart(c, a, b, depth, apart) &&
               (*apart || objects_apart(c, b, a, depth, apart));
    default:
        return true;
    }
}

static bool are_apart(struct constrain_compiler *c, const struct constrain_parts *a,
                      const struct constrain_parts *b, int depth, bool *apart)
{
    if (!values_apart(c, a, b, apart) || (!*apart && !values_apart(c, b, a, apart))) {
        return false;
    }
    if (*apart) {
        return true;
    }
    unsigned both = (types_of(a, constrain_types_meant) & types_of(b, constrain_types_said)) |
                    (types_of(b, constrain_types_meant) & types_of(a, constrain_types_said));
    *apart = true;
    for (unsigned type = 1; *apart && type < TYPE_ALL; type *= 2) {
        if ((both & type) && !type_apart(c, a, b, type, depth, apart)) {
            return false;
        }
    }
    return true;
}

bool constrain_check_one_of(struct constrain_compiler *c, const struct constrain_part *part)
{
    const json_t *list = json_object_get(part->schema, "oneOf");
    uint32_t path = constrain_below(c, part->path, "oneOf");
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct constrain_parts a = {.n = 0};
        if (!constrain_parts_add(c, &a, json_array_get(list, i), constrain_below_index(c, path, i),
                                 0)) {
            return false;
        }
        for (size_t k = i + 1; k < json_array_size(list); k++) {
            struct constrain_parts b = {.n = 0};
            bool apart;
            if (!constrain_parts_add(c, &b, json_array_get(list, k),
                                     constrain_below_index(c, path, k), 0) ||
                !are_apart(c, &a, &b, INNER_MAX, &apart)) {
                return false;
            }
            if (!apart) {
                return constrain_bad(c, part->path, "oneOf",
                                     "branches %zu and %zu may share a document: make them differ "
                                     "in type or in a required property with const, or use anyOf",
                                     i, k);
            }
        }
    }
    return true;
}
