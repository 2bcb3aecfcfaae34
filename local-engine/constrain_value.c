/* constrain_value.c - enum and const: the values of the first of them that the other conditions
 * allow, written out. Scalars are judged by every condition; of arrays and objects only type, enum
 * and const are looked at.
 *
 * jansson's own recursion over a value is bounded: a schema has at most CONSTRAIN_DEPTH_MAX levels.
 */
#include "constrain_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_OF_A_UNIT = 16 /* comparisons that take as long as a unit of constrain_works() */ };

/* ---- equality */

static bool equal_numbers(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b)) {
        return json_integer_value(a) == json_integer_value(b);
    }
    return json_number_value(a) == json_number_value(b);
}

bool constrain_equal(const json_t *a, const json_t *b)
{
    return json_is_number(a) && json_is_number(b) ? equal_numbers(a, b) : json_equal(a, b);
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

static bool number_fits(const struct constrain_parts *parts, double v)
{
    struct constrain_bound lo, hi;
    constrain_bounds(parts, &lo, &hi);
    double low = json_number_value(lo.value), high = json_number_value(hi.value);
    return !(lo.value && (v < low || (lo.is_exclusive && v == low))) &&
           !(hi.value && (v > high || (hi.is_exclusive && v == high)));
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
    struct engine_error inner = {.code = ENGINE_OK};
    int n;
    bool ok = constrain_patterns(c, parts, &set, &n);
    if (ok && n > 0) {
        uint64_t want = (UINT64_C(1) << n) - 1;
        ok = constrain_dfa(c, &d, &set, &inner) ||
             (inner.code != ENGINE_OK && constrain_bad_inner(c, parts->p[0].path, NULL, &inner));
        if (ok) {
            *fits = (regex_tags(&d, json_string_value(v), json_string_length(v)) & want) == want;
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
    static const char *const objects[] = {"properties", "patternProperties", "additionalProperties",
                                          "required", NULL},
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
        fits = number_fits(parts, json_number_value(value));
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
