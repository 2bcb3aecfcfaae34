/* constrain_value.c - enum and const: the values of the first of them that the other conditions
 * allow, written out. Scalars are judged by every condition; of arrays and objects only type, enum
 * and const are looked at.
 *
 * Recursion over a value is bounded, jansson's and ours: a schema has at most CONSTRAIN_DEPTH_MAX
 * levels.
 */
#include "constrain_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_OF_A_UNIT = 16 /* comparisons that take as long as a unit of constrain_works() */ };

/* ---- equality */

int constrain_compare(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b)) {
        json_int_t x = json_integer_value(a), y = json_integer_value(b);
        return (x > y) - (x < y);
    }
    double x = json_number_value(a), y = json_number_value(b);
    if (x != y || json_is_integer(a) == json_is_integer(b)) {
        return (x > y) - (x < y);
    }
    /* an integer that as a double is the other one may have been rounded */
    if (fabs(x) >= 9223372036854775808.0) {
        return json_is_integer(a) ? -1 : 1; /* 2^63 - 1 beside 2^63 */
    }
    json_int_t m = json_is_integer(a) ? json_integer_value(a) : (json_int_t)x,
               n = json_is_integer(b) ? json_integer_value(b) : (json_int_t)y;
    return (m > n) - (m < n);
}

/* jansson's json_equal() holds 1 and 1.0 for different. */
bool constrain_equal(const json_t *a, const json_t *b)
{
    bool same = json_typeof(a) == json_typeof(b);
    if (json_is_number(a) && json_is_number(b)) {
        return constrain_compare(a, b) == 0;
    }
    if (same && json_is_array(a)) {
        same = json_array_size(a) == json_array_size(b);
        for (size_t i = 0; same && i < json_array_size(a); i++) {
            same = constrain_equal(json_array_get(a, i), json_array_get(b, i));
        }
        return same;
    }
    if (same && json_is_object(a)) {
        json_t *object = (json_t *)a; /* jansson's iterators lack const; nothing is changed */
        same = json_object_size(a) == json_object_size(b);
        for (void *it = json_object_iter(object); same && it;
             it = json_object_iter_next(object, it)) {
            const json_t *other = json_object_get(b, json_object_iter_key(it));
            same = other && constrain_equal(json_object_iter_value(it), other);
        }
        return same;
    }
    return json_equal(a, b);
}

/* ---- one value */

static unsigned type_of(const json_t *v)
{
    double d = json_number_value(v);
    switch (json_typeof(v)) {
    case JSON_NULL:
        return TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_INTEGER:
        return TYPE_INTEGER;
    case JSON_REAL:
        return floor(d) == d ? TYPE_INTEGER : TYPE_FRACTION;
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    case JSON_OBJECT:
        break;
    }
    return TYPE_OBJECT;
}

static bool is_listed(const json_t *list, const json_t *v)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (constrain_equal(json_array_get(list, i), v)) {
            return true;
        }
    }
    return false;
}

static bool number_fits(const struct constrain_parts *parts, const json_t *v)
{
    struct constrain_bound lo, hi;
    constrain_bounds(parts, &lo, &hi);
    int low = lo.value ? constrain_compare(v, lo.value) : 1,
        high = hi.value ? constrain_compare(v, hi.value) : -1;
    for (size_t i = 0; i < parts->n; i++) {
        const json_t *step = json_object_get(parts->p[i].schema, "multipleOf");
        double rest = step ? fmod(json_number_value(v), json_number_value(step)) : 0;
        if (step && json_is_integer(v)) {
            rest = (double)(json_integer_value(v) % (json_int_t)json_number_value(step));
        }
        if (rest != 0) {
            return false;
        }
    }
    return low >= lo.is_exclusive && high <= -(int)hi.is_exclusive;
}

static size_t count_characters(const json_t *v)
{
    const char *s = json_string_value(v);
    size_t n = 0;
    for (size_t i = 0; i < json_string_length(v); i++) {
        n += ((uint8_t)s[i] & 0xC0) != 0x80;
    }
    return n;
}

static bool matches(struct constrain_compiler *c, const struct constrain_parts *parts,
                    const json_t *v, bool *fits)
{
    struct regex_set set = {.n = 0};
    struct regex_dfa d;
    struct constrain_tags tags = {.n = 0};
    bool ok = constrain_patterns(c, parts, &set, &tags);
    if (ok && tags.n > 0) {
        ok = constrain_patterns_dfa(c, parts, &d, &set);
        if (ok) {
            uint64_t got = regex_tags(&d, json_string_value(v), json_string_length(v));
            *fits = (got & REGEX_WHOLE) && (got & tags.care) == tags.want;
            regex_dfa_release(&d);
        }
    }
    regex_set_release(&set);
    return ok;
}

static bool string_fits(struct constrain_compiler *c, const struct constrain_parts *parts,
                        const json_t *v, bool *fits)
{
    struct constrain_range length;
    size_t n = count_characters(v);
    if (!constrain_range(c, parts, "minLength", "maxLength", &length)) {
        return false;
    }
    *fits = n >= length.min && n <= length.max;
    return !*fits || matches(c, parts, v, fits);
}

/* Conditions that are about what is inside of a value of this type. */
static bool has_inner(const json_t *schema, unsigned type)
{
    static const char *const objects[] = {"properties",
                                          "patternProperties",
                                          "additionalProperties",
                                          "propertyNames",
                                          "required",
                                          NULL},
                             *const arrays[] = {"items", "prefixItems", "minItems", "maxItems",
                                                NULL};
    const char *const *names = type == TYPE_OBJECT ? objects : arrays;
    for (size_t i = 0; names[i]; i++) {
        if (json_object_get(schema, names[i])) {
            return true;
        }
    }
    return false;
}

/* What can be said without looking inside: VERDICT_IN as far as that goes. `from`: NULL, or the
 * part whose enum or const the value is of. A list is looked through for each value of another one,
 * so that counts. */
static enum constrain_verdict judge_plainly(const struct constrain_parts *parts,
                                            const struct constrain_part *from, const json_t *v,
                                            size_t *work)
{
    unsigned type = type_of(v);
    enum constrain_verdict verdict = parts->is_never ? VERDICT_OUT : VERDICT_IN;
    *work = 1 + parts->n;
    for (size_t i = 0; i < parts->n; i++) {
        const struct constrain_part *p = &parts->p[i];
        const json_t *list = p == from ? NULL : json_object_get(p->schema, "enum"),
                     *one = json_object_get(p->schema, "const");
        *work += json_array_size(list) / VALUES_OF_A_UNIT;
        if (!(constrain_types_said(p->schema) & type) || (list && !is_listed(list, v)) ||
            (one && !constrain_equal(one, v))) {
            return VERDICT_OUT;
        }
        bool is_branched = (!p->any_done && json_object_get(p->schema, "anyOf")) ||
                           (!p->one_done && json_object_get(p->schema, "oneOf"));
        if (is_branched || (type >= TYPE_ARRAY && has_inner(p->schema, type))) {
            verdict = VERDICT_UNKNOWN;
        }
    }
    return verdict;
}

static bool judge(struct constrain_compiler *c, const struct constrain_parts *parts,
                  const struct constrain_part *from, const json_t *value,
                  enum constrain_verdict *out)
{
    bool fits = true;
    size_t work;
    *out = judge_plainly(parts, from, value, &work);
    if (!constrain_works(c, work)) {
        return false;
    }
    if (*out == VERDICT_OUT) {
        return true;
    }
    if (json_is_number(value)) {
        fits = number_fits(parts, value);
    } else if (json_is_string(value) && !string_fits(c, parts, value, &fits)) {
        return false;
    }
    *out = fits ? *out : VERDICT_OUT;
    return true;
}

bool constrain_judge(struct constrain_compiler *c, const struct constrain_parts *parts,
                     const json_t *value, enum constrain_verdict *out)
{
    return judge(c, parts, NULL, value, out);
}

/* ---- all of them */

/* The shortest text; doubles with as many digits as they need. NULL: out of memory. */
static char *text_of(const json_t *v)
{
    for (size_t digits = 15; digits <= 17; digits++) {
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(digits));
        json_t *back = text ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
        bool is_same = back && json_equal(back, v);
        json_decref(back);
        if (is_same || !text || digits == 17) {
            return text;
        }
        free(text);
    }
    return NULL;
}

static bool write_value(struct constrain_compiler *c, const json_t *v, uint32_t rule)
{
    char *text = text_of(v);
    if (!text) {
        return constrain_no_memory(c);
    }
    bool ok = constrain_works(c, strlen(text));
    grammar_text(c->g, grammar_start(c->g, rule), text, strlen(text), grammar_end(c->g, rule));
    free(text);
    return ok;
}

/* The part whose values are tried; NULL: none has any. */
static const struct constrain_part *source(const struct constrain_parts *parts, const char **name)
{
    static const char *const names[] = {"const", "enum"};
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < parts->n; i++) {
            if (json_object_get(parts->p[i].schema, names[k])) {
                *name = names[k];
                return &parts->p[i];
            }
        }
    }
    return NULL;
}

static bool is_enum(const char *name)
{
    return strcmp(name, "enum") == 0;
}

static bool try_value(struct constrain_compiler *c, const struct constrain_parts *parts,
                      const struct constrain_part *from, const char *name, const json_t *v,
                      uint32_t rule)
{
    enum constrain_verdict verdict;
    if (!judge(c, parts, is_enum(name) ? from : NULL, v, &verdict)) {
        return false;
    }
    if (verdict == VERDICT_UNKNOWN) {
        return constrain_bad(c, from->path, name,
                             "arrays and objects are not supported beside keywords about what is "
                             "in them: leave those out");
    }
    return verdict == VERDICT_OUT || write_value(c, v, rule);
}

bool constrain_values(struct constrain_compiler *c, const struct constrain_parts *parts,
                      unsigned types, uint32_t rule, bool *has)
{
    const char *name;
    const struct constrain_part *from = source(parts, &name);
    *has = false;
    if (!from) {
        return true;
    }
    const json_t *list = json_object_get(from->schema, name);
    size_t n = is_enum(name) ? json_array_size(list) : 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = is_enum(name) ? json_array_get(list, i) : list;
        if ((type_of(v) & types) && !try_value(c, parts, from, name, v, rule)) {
            return false;
        }
    }
    *has = true;
    return true;
}
