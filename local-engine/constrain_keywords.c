/* constrain_keywords.c - one table: which keywords are taken and of which type their values are.
 * Whatever is not in it is refused, so no condition is ever ignored.
 *
 * A schema without `type` whose conditions are all about one type ("properties", "minLength") is
 * taken to mean that type, as people do; by the letter any value of another type would do, too.
 */
#include "constrain_private.h"

#include <math.h>
#include <string.h>

enum shape {
    SHAPE_ANY,
    SHAPE_SCHEMA,
    SHAPE_SCHEMAS, /* object of schemas */
    SHAPE_LIST,    /* list of schemas, not empty */
    SHAPE_NAMES,   /* list of strings */
    SHAPE_SIZE,    /* integer from 0 */
    SHAPE_NUMBER,  /* finite */
    SHAPE_STEP,    /* integer from 1 to CONSTRAIN_STEP_MAX */
    SHAPE_TEXT,
    SHAPE_TYPE,
    SHAPE_VALUES, /* list, not empty */
    SHAPE_REF,
    SHAPE_FALSE /* only false: what it asks for else is not supported */
};
struct keyword {
    const char *name;
    enum shape shape;
    unsigned types; /* that it is about, 0: all */
};

static const struct keyword keywords[] = {
    {"type", SHAPE_TYPE, 0},
    {"enum", SHAPE_VALUES, 0},
    {"const", SHAPE_ANY, 0},
    {"anyOf", SHAPE_LIST, 0},
    {"oneOf", SHAPE_LIST, 0},
    {"allOf", SHAPE_LIST, 0},
    {"$ref", SHAPE_REF, 0},
    {"$defs", SHAPE_SCHEMAS, 0},
    {"definitions", SHAPE_SCHEMAS, 0},
    {"properties", SHAPE_SCHEMAS, TYPE_OBJECT},
    {"patternProperties", SHAPE_SCHEMAS, TYPE_OBJECT},
    {"additionalProperties", SHAPE_SCHEMA, TYPE_OBJECT},
    {"propertyNames", SHAPE_SCHEMA, TYPE_OBJECT},
    {"required", SHAPE_NAMES, TYPE_OBJECT},
    {"items", SHAPE_SCHEMA, TYPE_ARRAY},
    {"prefixItems", SHAPE_LIST, TYPE_ARRAY},
    {"minItems", SHAPE_SIZE, TYPE_ARRAY},
    {"maxItems", SHAPE_SIZE, TYPE_ARRAY},
    {"uniqueItems", SHAPE_FALSE, TYPE_ARRAY},
    {"minLength", SHAPE_SIZE, TYPE_STRING},
    {"maxLength", SHAPE_SIZE, TYPE_STRING},
    {"pattern", SHAPE_TEXT, TYPE_STRING},
    {"format", SHAPE_TEXT, TYPE_STRING},
    {"minimum", SHAPE_NUMBER, TYPE_NUMBER},
    {"maximum", SHAPE_NUMBER, TYPE_NUMBER},
    {"exclusiveMinimum", SHAPE_NUMBER, TYPE_NUMBER},
    {"exclusiveMaximum", SHAPE_NUMBER, TYPE_NUMBER},
    {"multipleOf", SHAPE_STEP, TYPE_NUMBER},
    /* annotations: they condition nothing */
    {"title", SHAPE_ANY, 0},
    {"description", SHAPE_ANY, 0},
    {"examples", SHAPE_ANY, 0},
    {"default", SHAPE_ANY, 0},
    {"$schema", SHAPE_ANY, 0},
    {"$id", SHAPE_ANY, 0},
    {"$comment", SHAPE_ANY, 0},
    {"contentEncoding", SHAPE_ANY, 0},
    {"contentMediaType", SHAPE_ANY, 0},
    {"contentSchema", SHAPE_ANY, 0},
    {"discriminator", SHAPE_ANY, 0}, /* of OpenAPI: a hint which branch of oneOf it is */
    {"readOnly", SHAPE_ANY, 0},
    {"writeOnly", SHAPE_ANY, 0},
    {"deprecated", SHAPE_ANY, 0},
};

static const struct {
    const char *name;
    unsigned types;
} type_names[] = {
    {"null", TYPE_NULL},     {"boolean", TYPE_BOOLEAN}, {"integer", TYPE_INTEGER},
    {"number", TYPE_NUMBER}, {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
    {"object", TYPE_OBJECT},
};

static const struct keyword *find(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        if (strcmp(keywords[i].name, name) == 0) {
            return &keywords[i];
        }
    }
    return NULL;
}

static unsigned type_of(const json_t *name)
{
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++) {
        if (json_is_string(name) && strcmp(type_names[i].name, json_string_value(name)) == 0) {
            return type_names[i].types;
        }
    }
    return 0;
}

unsigned constrain_types_said(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    if (!type) {
        return TYPE_ALL;
    }
    unsigned types = type_of(type);
    for (size_t i = 0; i < json_array_size(type); i++) {
        types |= type_of(json_array_get(type, i));
    }
    return types;
}

unsigned constrain_types_meant(const json_t *schema)
{
    static const char *const others[] = {"type",  "enum",  "const", "$ref",
                                         "anyOf", "oneOf", "allOf"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (json_object_get(schema, others[i])) {
            return constrain_types_said(schema);
        }
    }
    unsigned types = 0;
    json_t *object = (json_t *)schema; /* jansson's iterators lack const; nothing is changed */
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        const struct keyword *k = find(json_object_iter_key(it));
        bool is_annotation = k && strcmp(k->name, "format") == 0 &&
                             !constrain_format_is_known(json_object_iter_value(it));
        types |= k && !is_annotation ? k->types : 0;
    }
    return types ? types : TYPE_ALL;
}

/* ---- checks */

static bool is_schema(const json_t *v)
{
    return json_is_object(v) || json_is_boolean(v);
}

static bool all_are(const json_t *list, bool (*is)(const json_t *))
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!is(json_array_get(list, i))) {
            return false;
        }
    }
    return json_is_array(list);
}

static bool is_text(const json_t *v)
{
    return json_is_string(v);
}

static bool is_type(const json_t *v)
{
    return type_of(v) != 0;
}

static bool all_values_are_schemas(const json_t *v)
{
    json_t *object = (json_t *)v; /* see constrain_types_meant() */
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        if (!is_schema(json_object_iter_value(it))) {
            return false;
        }
    }
    return json_is_object(v);
}

/* A draft of old allowed 3.0 as a length. */
static bool is_size(const json_t *v)
{
    double d = json_number_value(v);
    return json_is_number(v) && d >= 0 && d <= 1e9 && floor(d) == d;
}

static bool is_anything(const json_t *v)
{
    return v != NULL;
}

static bool is_schema_list(const json_t *v)
{
    return all_are(v, is_schema) && json_array_size(v) > 0;
}

static bool is_name_list(const json_t *v)
{
    return all_are(v, is_text);
}

static bool is_number(const json_t *v)
{
    return json_is_number(v) && isfinite(json_number_value(v));
}

static bool is_step(const json_t *v)
{
    return is_size(v) && json_number_value(v) >= 1 && json_number_value(v) <= CONSTRAIN_STEP_MAX;
}

static bool is_type_or_list(const json_t *v)
{
    return is_type(v) || (all_are(v, is_type) && json_array_size(v) > 0);
}

static bool is_value_list(const json_t *v)
{
    return json_array_size(v) > 0;
}

static bool is_ref(const json_t *v)
{
    return json_is_string(v) && json_string_value(v)[0] == '#';
}

static bool is_false(const json_t *v)
{
    return json_is_false(v);
}

static const struct {
    bool (*is)(const json_t *v);
    const char *right;
} shapes[] = {
    [SHAPE_ANY] = {is_anything, ""},
    [SHAPE_SCHEMA] = {is_schema, "it must be a schema"},
    [SHAPE_SCHEMAS] = {all_values_are_schemas, "it must be an object of schemas"},
    [SHAPE_LIST] = {is_schema_list, "it must be a list of schemas, not empty"},
    [SHAPE_NAMES] = {is_name_list, "it must be a list of strings"},
    [SHAPE_SIZE] = {is_size, "it must be an integer from 0 to 1000000000"},
    [SHAPE_NUMBER] = {is_number, "it must be a number"},
    [SHAPE_STEP] = {is_step, "it must be an integer from 1 to 100: others are not supported"},
    [SHAPE_TEXT] = {is_text, "it must be a string"},
    [SHAPE_TYPE] = {is_type_or_list, "it must be one of null, boolean, integer, number, string, "
                                     "array, object, or a list of them"},
    [SHAPE_VALUES] = {is_value_list, "it must be a list of at least one value"},
    [SHAPE_REF] = {is_ref, "it must point into this schema: '#' and a JSON pointer"},
    [SHAPE_FALSE] = {is_false, "it is not supported: leave it out"},
};

bool constrain_check_keywords(struct constrain_compiler *c, const struct constrain_part *part)
{
    json_t *object = (json_t *)part->schema; /* see constrain_types_meant() */
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        const char *name = json_object_iter_key(it);
        const struct keyword *k = find(name);
        if (!k) {
            return constrain_bad(c, part->path, name, "the keyword '%.60s' is not supported", name);
        }
        if (!shapes[k->shape].is(json_object_iter_value(it))) {
            return constrain_bad(c, part->path, name, "%s", shapes[k->shape].right);
        }
        const json_t *format = strcmp(name, "format") == 0 ? json_object_iter_value(it) : NULL;
        if (constrain_format_is_known(format) && !constrain_format_pattern(format)) {
            return constrain_bad(c, part->path, name,
                                 "the format '%.40s' is not supported: " CONSTRAIN_FORMATS " are",
                                 json_string_value(format));
        }
    }
    return true;
}
