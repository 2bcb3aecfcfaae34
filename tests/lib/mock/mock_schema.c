/* mock_schema.c - a schema becomes a graph of nodes; a reference is an edge, so recursive schemas
 * are cycles and cost nothing.
 *
 * A value is first checked without looking for the place of the fault (most values are right, and a
 * branch of an anyOf that does not hold is no fault); only a wrong one is walked again to say
 * where.
 */
#include "mock_schema.h"
#define PCRE2_CODE_UNIT_WIDTH 8
#include <assert.h>
#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 512 /* of references that lead nowhere; values are flatter */

enum {
    TYPE_NULL = 1,
    TYPE_BOOL = 2,
    TYPE_INTEGER = 4,
    TYPE_NUMBER = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64
};

struct node;
struct property {
    const char *key;
    struct node *node;
};
struct list {
    struct node **at;
    size_t n;
};
struct node {
    struct node *next; /* of all, for release */
    const json_t *json;
    bool takes_nothing; /* the schema `false` */
    unsigned types;     /* 0: any */
    const json_t *values, *constant, *required;
    struct property *properties; /* sorted by key */
    size_t n_properties;
    struct node *rest, *names, *items; /* additionalProperties, propertyNames, items */
    struct node *ref;
    struct list all, any, one;
    double min, max, above, below;
    size_t len_min, len_max, items_min, items_max, keys_min, keys_max;
    pcre2_code *pattern;
};
struct mock_schema {
    json_t *json;
    struct node *root, *nodes;
    json_t *places; /* "#/$defs/x" -> index in `refs` */
    struct node **refs;
    size_t n_refs, refs_cap;
    char *why;
    size_t cap;
};

/* ---- making */

static struct node *make(struct mock_schema *s, const json_t *json);

static bool complain(struct mock_schema *s, const char *what, const char *subject)
{
    if (s->cap > 0 && s->why[0] == '\0') {
        (void)snprintf(s->why, s->cap, "%s '%s'", what, subject);
    }
    return false;
}

static unsigned type_bit(const char *name)
{
    static const struct {
        const char *name;
        unsigned bit;
    } types[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOL},  {"integer", TYPE_INTEGER},
                 {"number", TYPE_NUMBER}, {"string", TYPE_STRING}, {"array", TYPE_ARRAY},
                 {"object", TYPE_OBJECT}};
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return types[i].bit;
        }
    }
    return 0;
}

static bool make_types(struct mock_schema *s, struct node *n, const json_t *v)
{
    size_t count = json_is_array(v) ? json_array_size(v) : 1;
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_is_array(v) ? json_array_get(v, i) : v);
        unsigned bit = type_bit(name);
        if (!bit) {
            return complain(s, "unknown type", name ? name : "?");
        }
        n->types |= bit;
    }
    return true;
}

static int compare_properties(const void *a, const void *b)
{
    return strcmp(((const struct property *)a)->key, ((const struct property *)b)->key);
}

static bool make_properties(struct mock_schema *s, struct node *n, const json_t *v)
{
    const char *key;
    json_t *sub;
    n->properties = calloc(json_object_size(v) + 1, sizeof *n->properties);
    if (!n->properties) {
        return complain(s, "out of memory at", "properties");
    }
    json_object_foreach ((json_t *)v, key, sub) {
        struct property *p = &n->properties[n->n_properties];
        p->key = key;
        p->node = make(s, sub);
        if (!p->node) {
            return false;
        }
        n->n_properties++;
    }
    qsort(n->properties, n->n_properties, sizeof *n->properties, compare_properties);
    return true;
}

static bool make_list(struct mock_schema *s, struct list *l, const json_t *v)
{
    l->at = calloc(json_array_size(v) + 1, sizeof *l->at);
    for (size_t i = 0; l->at && i < json_array_size(v); i++) {
        l->at[i] = make(s, json_array_get(v, i));
        if (!l->at[i]) {
            return false;
        }
        l->n++;
    }
    return (l->at && l->n > 0) || complain(s, "no schemas in", "anyOf, oneOf or allOf");
}

static bool make_pattern(struct mock_schema *s, struct node *n, const json_t *v)
{
    int code;
    size_t at;
    const char *text = json_string_value(v);
    n->pattern =
        text ? pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &code, &at, NULL)
             : NULL;
    return n->pattern || complain(s, "pattern does not compile:", text ? text : "?");
}

/* The value at "#/$defs/x~1y" (a JSON pointer in a URI fragment). */
static const json_t *find_place(const json_t *root, const char *ref)
{
    const json_t *at = root;
    if (*ref++ != '#') {
        return NULL;
    }
    while (*ref == '/' && at) {
        char key[256];
        size_t n = 0;
        for (ref++; *ref && *ref != '/' && n < sizeof key - 1; ref++) {
            bool is_escape = *ref == '~' && (ref[1] == '0' || ref[1] == '1');
            key[n++] = is_escape ? (ref[1] == '1' ? '/' : '~') : *ref;
            ref += is_escape;
        }
        key[n] = '\0';
        at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(key, NULL, 10))
                               : json_object_get(at, key);
    }
    return *ref ? NULL : at;
}

/* Each place is made once; it is entered before it is made, so that it may refer to itself. */
static bool make_ref(struct mock_schema *s, struct node *n, const json_t *v)
{
    const char *ref = json_string_value(v);
    const json_t *known = json_object_get(s->places, ref ? ref : "");
    if (known) {
        n->ref = s->refs[json_integer_value(known)];
        return true;
    }
    const json_t *place = ref ? find_place(s->json, ref) : NULL;
    if (!place) {
        return complain(s, "reference leads nowhere:", ref ? ref : "?");
    }
    if (s->n_refs == s->refs_cap) {
        size_t cap = s->refs_cap ? 2 * s->refs_cap : 64;
        struct node **grown = realloc(s->refs, cap * sizeof *grown);
        if (!grown) {
            return complain(s, "out of memory at", ref);
        }
        s->refs = grown;
        s->refs_cap = cap;
    }
    /* A node that stands for the place and refers to what is made of it. */
    struct node *stand = make(s, NULL);
    if (!stand) {
        return false;
    }
    s->refs[s->n_refs] = stand;
    (void)json_object_set_new(s->places, ref, json_integer((json_int_t)s->n_refs++));
    n->ref = stand;
    stand->ref = make(s, place);
    return stand->ref != NULL;
}

static bool make_bound(struct mock_schema *s, const json_t *v, double *out)
{
    *out = json_number_value(v);
    return json_is_number(v) || complain(s, "no number:", "a bound");
}

static bool make_count(struct mock_schema *s, const json_t *v, size_t *out)
{
    *out = json_is_number(v) && json_number_value(v) >= 0 ? (size_t)json_number_value(v) : 0;
    return json_is_number(v) || complain(s, "no number:", "a length");
}

static bool make_sub(struct mock_schema *s, const json_t *v, struct node **out)
{
    *out = make(s, v);
    return *out != NULL;
}

/* Limits; false: not one of them, or a bad one (then there is a complaint). */
static bool make_limit(struct mock_schema *s, struct node *n, const char *key, const json_t *v)
{
    struct {
        const char *key;
        double *bound;
        size_t *count;
    } limits[] = {{"minimum", &n->min, NULL},
                  {"maximum", &n->max, NULL},
                  {"exclusiveMinimum", &n->above, NULL},
                  {"exclusiveMaximum", &n->below, NULL},
                  {"minLength", NULL, &n->len_min},
                  {"maxLength", NULL, &n->len_max},
                  {"minItems", NULL, &n->items_min},
                  {"maxItems", NULL, &n->items_max},
                  {"minProperties", NULL, &n->keys_min},
                  {"maxProperties", NULL, &n->keys_max}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (strcmp(limits[i].key, key) == 0) {
            return limits[i].bound ? make_bound(s, v, limits[i].bound)
                                   : make_count(s, v, limits[i].count);
        }
    }
    return false;
}

static bool is_annotation(const char *key)
{
    static const char *const words[] = {
        "title", "default",  "format",     "description",     "$comment", "$schema",    "$id",
        "$defs", "examples", "deprecated", "contentEncoding", "readOnly", "definitions"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i], key) == 0) {
            return true;
        }
    }
    return false;
}

static bool keep_values(struct mock_schema *s, struct node *n, const json_t *v)
{
    n->values = v;
    return json_is_array(v) || complain(s, "no list:", "enum");
}

static bool keep_constant(struct mock_schema *s, struct node *n, const json_t *v)
{
    (void)s;
    n->constant = v;
    return true;
}

static bool keep_required(struct mock_schema *s, struct node *n, const json_t *v)
{
    n->required = v;
    return json_is_array(v) || complain(s, "no list:", "required");
}

static bool make_keyword(struct mock_schema *s, struct node *n, const char *key, const json_t *v)
{
    static const struct {
        const char *key;
        bool (*make)(struct mock_schema *s, struct node *n, const json_t *v);
    } makers[] = {
        {"type", make_types},       {"$ref", make_ref},    {"properties", make_properties},
        {"pattern", make_pattern},  {"enum", keep_values}, {"const", keep_constant},
        {"required", keep_required}};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        if (strcmp(makers[i].key, key) == 0) {
            return makers[i].make(s, n, v);
        }
    }
    struct list *l = strcmp(key, "allOf") == 0   ? &n->all
                     : strcmp(key, "anyOf") == 0 ? &n->any
                     : strcmp(key, "oneOf") == 0 ? &n->one
                                                 : NULL;
    if (l) {
        return make_list(s, l, v);
    }
    struct node **sub = strcmp(key, "items") == 0                  ? &n->items
                        : strcmp(key, "additionalProperties") == 0 ? &n->rest
                        : strcmp(key, "propertyNames") == 0        ? &n->names
                                                                   : NULL;
    if (sub) {
        return make_sub(s, v, sub);
    }
    return is_annotation(key) || make_limit(s, n, key, v) || complain(s, "unknown keyword", key);
}

/* `json` NULL: an empty node. */
static struct node *make(struct mock_schema *s, const json_t *json)
{
    struct node *n = calloc(1, sizeof *n);
    const char *key;
    json_t *v;
    if (!n) {
        (void)complain(s, "out of memory at", "a schema");
        return NULL;
    }
    n->next = s->nodes;
    s->nodes = n;
    n->json = json;
    n->min = n->above = -HUGE_VAL;
    n->max = n->below = HUGE_VAL;
    n->len_max = n->items_max = n->keys_max = SIZE_MAX;
    n->takes_nothing = json_is_false(json);
    if (json && !json_is_object(json) && !json_is_boolean(json)) {
        (void)complain(s, "a schema is an object,", "true or false");
        return NULL;
    }
    json_object_foreach ((json_t *)json, key, v) {
        if (!make_keyword(s, n, key, v)) {
            return NULL;
        }
    }
    return n;
}

struct mock_schema *mock_schema_new(json_t *json, char *why, size_t cap)
{
    struct mock_schema *s = calloc(1, sizeof *s);
    if (cap > 0) {
        why[0] = '\0';
    }
    if (!s) {
        return NULL;
    }
    s->json = json_incref(json);
    s->places = json_object();
    s->why = why;
    s->cap = cap;
    s->root = make(s, json);
    if (!s->root) {
        mock_schema_free(s);
        return NULL;
    }
    return s;
}

void mock_schema_free(struct mock_schema *s)
{
    if (!s) {
        return;
    }
    while (s->nodes) {
        struct node *n = s->nodes;
        s->nodes = n->next;
        free(n->properties);
        free(n->all.at);
        free(n->any.at);
        free(n->one.at);
        pcre2_code_free(n->pattern);
        free(n);
    }
    free(s->refs);
    json_decref(s->places);
    json_decref(s->json);
    free(s);
}

/* ---- checking */

struct step { /* of the way to the value that is looked at */
    const struct step *up;
    const char *key; /* NULL: `index` */
    size_t index;
    unsigned depth;
};
struct check {
    struct mock_schema_fault *fault; /* NULL: not asked */
    unsigned fault_depth;
    unsigned n_refs; /* nesting of references */
};

static bool holds(struct check *c, const struct node *n, const json_t *v, const struct step *at);

static void write_path(const struct step *at, char *out, size_t cap)
{
    if (!at->up) {
        out[0] = '\0';
        return;
    }
    write_path(at->up, out, cap);
    size_t len = strlen(out);
    const char *dot = len > 0 ? "." : "";
    if (at->key) {
        (void)snprintf(out + len, cap - len, "%s%s", dot, at->key);
    } else {
        (void)snprintf(out + len, cap - len, "%s%zu", dot, at->index);
    }
}

/* Of several faults the deepest stays, and of those the first. */
static bool fail(struct check *c, const struct step *at, const char *what, const char *subject)
{
    if (c->fault && (c->fault->text[0] == '\0' || at->depth > c->fault_depth)) {
        c->fault_depth = at->depth;
        write_path(at, c->fault->path, sizeof c->fault->path);
        (void)snprintf(c->fault->text, sizeof c->fault->text, "%s%s", what, subject);
    }
    return false;
}

/* Numbers are equal by value, true is not 1. */
static bool equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) {
        return json_is_integer(a) && json_is_integer(b)
                   ? json_integer_value(a) == json_integer_value(b)
                   : json_number_value(a) == json_number_value(b);
    }
    if (json_typeof(a) != json_typeof(b)) {
        return false;
    }
    if (json_is_array(a)) {
        bool same = json_array_size(a) == json_array_size(b);
        for (size_t i = 0; same && i < json_array_size(a); i++) {
            same = equal(json_array_get(a, i), json_array_get(b, i));
        }
        return same;
    }
    if (json_is_object(a)) {
        const char *key;
        json_t *v;
        bool same = json_object_size(a) == json_object_size(b);
        json_object_foreach ((json_t *)a, key, v) {
            const json_t *other = json_object_get(b, key);
            same = same && other && equal(v, other);
        }
        return same;
    }
    return json_equal(a, b);
}

static unsigned types_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_NULL:
        return TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOL;
    case JSON_INTEGER:
        return TYPE_INTEGER | TYPE_NUMBER;
    case JSON_REAL:
        return json_real_value(v) == floor(json_real_value(v)) ? TYPE_INTEGER | TYPE_NUMBER
                                                               : TYPE_NUMBER;
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    default:
        return TYPE_OBJECT;
    }
}

static bool value_holds(struct check *c, const struct node *n, const json_t *v,
                        const struct step *at)
{
    bool is_listed = !n->values;
    for (size_t i = 0; !is_listed && i < json_array_size(n->values); i++) {
        is_listed = equal(v, json_array_get(n->values, i));
    }
    if (!is_listed) {
        return fail(c, at, "is none of the values allowed", "");
    }
    if (n->constant && !equal(v, n->constant)) {
        const char *text = json_string_value(n->constant);
        return fail(c, at, "is not ", text ? text : "the value required");
    }
    return true;
}

static bool number_holds(struct check *c, const struct node *n, const json_t *v,
                         const struct step *at)
{
    double x = json_number_value(v);
    if (x < n->min || x <= n->above) {
        return fail(c, at, "is too small", "");
    }
    return (x <= n->max && x < n->below) || fail(c, at, "is too large", "");
}

static bool matches(const struct node *n, const json_t *v)
{
    pcre2_match_data *m = pcre2_match_data_create_from_pattern(n->pattern, NULL);
    int got = m ? pcre2_match(n->pattern, (PCRE2_SPTR)json_string_value(v), json_string_length(v),
                              0, PCRE2_NO_UTF_CHECK, m, NULL)
                : -1;
    pcre2_match_data_free(m);
    return got >= 0;
}

static bool string_holds(struct check *c, const struct node *n, const json_t *v,
                         const struct step *at)
{
    if (n->len_min > 0 || n->len_max != SIZE_MAX) {
        const char *s = json_string_value(v);
        size_t len = 0; /* in code points */
        for (size_t i = 0; i < json_string_length(v); i++) {
            len += ((unsigned char)s[i] & 0xC0) != 0x80;
        }
        if (len < n->len_min || len > n->len_max) {
            return fail(c, at, len < n->len_min ? "is too short" : "is too long", "");
        }
    }
    return !n->pattern || matches(n, v) || fail(c, at, "does not match the pattern", "");
}

static bool array_holds(struct check *c, const struct node *n, const json_t *v,
                        const struct step *at)
{
    size_t count = json_array_size(v);
    if (count < n->items_min || count > n->items_max) {
        return fail(c, at, count < n->items_min ? "has too few items" : "has too many items", "");
    }
    for (size_t i = 0; n->items && i < count; i++) {
        struct step down = {at, NULL, i, at->depth + 1};
        if (!holds(c, n->items, json_array_get(v, i), &down)) {
            return false;
        }
    }
    return true;
}

static bool name_holds(struct check *c, const struct node *n, const char *key,
                       const struct step *at)
{
    json_t *name = n->names ? json_string(key) : NULL;
    bool ok = !name || holds(c, n->names, name, at);
    json_decref(name);
    return ok;
}

static const struct property *find_property(const struct node *n, const char *key)
{
    struct property wanted = {key, NULL};
    return n->n_properties == 0 ? NULL
                                : bsearch(&wanted, n->properties, n->n_properties,
                                          sizeof *n->properties, compare_properties);
}

static bool has_required(struct check *c, const struct node *n, const json_t *v,
                         const struct step *at)
{
    for (size_t i = 0; i < json_array_size(n->required); i++) {
        const char *name = json_string_value(json_array_get(n->required, i));
        if (!json_object_get(v, name)) {
            return fail(c, at, "lacks ", name);
        }
    }
    return true;
}

static bool object_holds(struct check *c, const struct node *n, const json_t *v,
                         const struct step *at)
{
    const char *key;
    json_t *sub;
    size_t count = json_object_size(v);
    if (count < n->keys_min || count > n->keys_max) {
        return fail(c, at, count < n->keys_min ? "has too few keys" : "has too many keys", "");
    }
    if (!has_required(c, n, v, at)) {
        return false;
    }
    if (!n->properties && !n->rest && !n->names) {
        return true;
    }
    json_object_foreach ((json_t *)v, key, sub) {
        const struct property *p = find_property(n, key);
        struct step down = {at, key, 0, at->depth + 1};
        const struct node *rule = p ? p->node : n->rest;
        if (rule && rule->takes_nothing) {
            return fail(c, &down, "is not allowed", "");
        }
        if ((rule && !holds(c, rule, sub, &down)) || !name_holds(c, n, key, at)) {
            return false;
        }
    }
    return true;
}

static bool one_holds(struct check *c, const struct list *l, const json_t *v, const struct step *at)
{
    struct mock_schema_fault before = {"", ""};
    unsigned depth = c->fault_depth;
    if (c->fault) {
        before = *c->fault;
    }
    for (size_t i = 0; i < l->n; i++) {
        if (holds(c, l->at[i], v, at)) {
            if (c->fault) { /* what the other branches said is no fault */
                *c->fault = before;
                c->fault_depth = depth;
            }
            return true;
        }
    }
    return l->n == 0;
}

static bool parts_hold(struct check *c, const struct node *n, const json_t *v,
                       const struct step *at)
{
    for (size_t i = 0; i < n->all.n; i++) {
        if (!holds(c, n->all.at[i], v, at)) {
            return false;
        }
    }
    if (!one_holds(c, &n->any, v, at) || !one_holds(c, &n->one, v, at)) {
        return false;
    }
    if (!n->ref) {
        return true;
    }
    if (c->n_refs == DEPTH_MAX) {
        return fail(c, at, "is checked by a reference to itself", "");
    }
    c->n_refs++;
    bool ok = holds(c, n->ref, v, at);
    c->n_refs--;
    return ok;
}

static bool kind_holds(struct check *c, const struct node *n, const json_t *v,
                       const struct step *at)
{
    switch (json_typeof(v)) {
    case JSON_INTEGER:
    case JSON_REAL:
        return number_holds(c, n, v, at);
    case JSON_STRING:
        return string_holds(c, n, v, at);
    case JSON_ARRAY:
        return array_holds(c, n, v, at);
    case JSON_OBJECT:
        return object_holds(c, n, v, at);
    default:
        return true;
    }
}

static bool holds(struct check *c, const struct node *n, const json_t *v, const struct step *at)
{
    if (n->takes_nothing) {
        return fail(c, at, "is not allowed", "");
    }
    if (n->types && !(n->types & types_of(v))) {
        const char *name = json_string_value(json_object_get(n->json, "type"));
        return fail(c, at, "is of another type than ", name ? name : "those allowed");
    }
    if ((n->values || n->constant) && !value_holds(c, n, v, at)) {
        return false;
    }
    return kind_holds(c, n, v, at) && parts_hold(c, n, v, at);
}

bool mock_schema_check(const struct mock_schema *s, const json_t *value,
                       struct mock_schema_fault *fault)
{
    struct check c = {NULL, 0, 0};
    const struct step top = {NULL, NULL, 0, 0};
    if (holds(&c, s->root, value, &top)) {
        return true;
    }
    if (fault) {
        *fault = (struct mock_schema_fault){"", ""};
        c = (struct check){fault, 0, 0};
        bool again = holds(&c, s->root, value, &top);
        assert(!again);
        (void)again;
    }
    return false;
}
