/* google_schema.c - one walk over the schema; a table says what becomes of each keyword in each
 * form, and the few that are said in other words have a function of their own. References are
 * written out in the OpenAPI form, so depth and the number of nodes have limits: a schema that
 * refers to itself, or doubles at each level, ends there.
 */
#include "google_schema.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 64
#define NODES_MAX 20000

enum fate {
    DROP, /* also what is in no table */
    SILENT,
    KEEP,
    SCHEMA,  /* one schema */
    SCHEMAS, /* an array of them */
    MAP,     /* an object of them */
    INT64,   /* a number that is written as a string, as protobuf does */
    REFUSE,
    OTHER /* see put_other() */
};
static const struct keyword {
    const char *name;
    enum fate json, openapi;
} keywords[] = {
    {"type", KEEP, OTHER},
    {"format", KEEP, OTHER},
    {"title", KEEP, KEEP},
    {"description", KEEP, KEEP},
    {"enum", KEEP, OTHER},
    {"const", OTHER, OTHER},
    {"items", SCHEMA, SCHEMA},
    {"prefixItems", SCHEMAS, REFUSE},
    {"minItems", KEEP, INT64},
    {"maxItems", KEEP, INT64},
    {"minimum", KEEP, KEEP},
    {"maximum", KEEP, KEEP},
    {"minLength", DROP, INT64},
    {"maxLength", DROP, INT64},
    {"pattern", DROP, KEEP},
    {"minProperties", DROP, INT64},
    {"maxProperties", DROP, INT64},
    {"anyOf", SCHEMAS, OTHER},
    {"oneOf", SCHEMAS, OTHER},
    {"allOf", OTHER, OTHER},
    {"properties", MAP, MAP},
    {"required", KEEP, KEEP},
    {"propertyOrdering", KEEP, KEEP},
    {"additionalProperties", OTHER, OTHER},
    {"$ref", OTHER, OTHER},
    {"$defs", MAP, SILENT},
    {"definitions", OTHER, SILENT},
    {"$id", KEEP, SILENT},
    {"$anchor", KEEP, SILENT},
    {"$schema", SILENT, SILENT},
    {"$comment", SILENT, SILENT},
    {"default", DROP, KEEP},
    {"example", DROP, KEEP},
    {"nullable", OTHER, KEEP},
    {"not", REFUSE, REFUSE},
    {"if", REFUSE, REFUSE},
    {"then", REFUSE, REFUSE},
    {"else", REFUSE, REFUSE},
    {"patternProperties", REFUSE, REFUSE},
    {"propertyNames", REFUSE, REFUSE},
    {"dependentSchemas", REFUSE, REFUSE},
    {"contains", REFUSE, REFUSE},
    {"$dynamicRef", REFUSE, REFUSE},
};

struct walk {
    const json_t *root;
    enum google_form form;
    struct google_report *report;
    unsigned depth, nodes;
};

static bool put_schema(struct walk *w, const json_t *schema, json_t *out);

static bool refuse(struct walk *w, const char *keyword)
{
    w->report->refused = w->report->refused ? w->report->refused : keyword;
    return false;
}

static bool drop(struct walk *w, const char *keyword)
{
    w->report->dropped = w->report->dropped ? w->report->dropped : keyword;
    return true;
}

static bool is_word(const json_t *v, const char *word)
{
    const char *s = json_string_value(v);
    return s && strcmp(s, word) == 0;
}

static enum fate fate_of(const struct walk *w, const char *key)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        if (strcmp(keywords[i].name, key) == 0) {
            return w->form == GOOGLE_JSON ? keywords[i].json : keywords[i].openapi;
        }
    }
    return DROP;
}

/* `true` takes everything, as {} does; `false` takes nothing, which cannot be said. */
static json_t *sub_schema(struct walk *w, const json_t *schema, const char *key)
{
    json_t *out = json_object();
    bool ok = out && ((!json_is_object(schema) && !json_is_true(schema)) ? refuse(w, key)
                      : json_is_true(schema)                             ? true
                                             : put_schema(w, schema, out));
    if (!ok) {
        json_decref(out);
        return NULL;
    }
    return out;
}

static json_t *sub_list(struct walk *w, const json_t *list, const char *key)
{
    json_t *out = json_array();
    for (size_t i = 0; out && i < json_array_size(list); i++) {
        if (json_array_append_new(out, sub_schema(w, json_array_get(list, i), key)) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static json_t *sub_map(struct walk *w, const json_t *map, const char *key)
{
    json_t *out = json_object();
    const char *name;
    json_t *schema;
    json_object_foreach ((json_t *)map, name, schema) { /* the macro wants no const */
        if (!out || json_object_set_new(out, name, sub_schema(w, schema, key)) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

/* ---- what is said in other words */

static json_t *capitals(const char *s)
{
    char word[16];
    size_t n = strlen(s);
    if (n >= sizeof word) {
        return NULL;
    }
    for (size_t i = 0; i <= n; i++) {
        word[i] = (char)toupper((unsigned char)s[i]);
    }
    return json_string(word);
}

/* "string", ["string","null"]; a union of several has no form there. */
static bool put_type(struct walk *w, const char *key, const json_t *type, json_t *out)
{
    const json_t *only = json_is_string(type) ? type : NULL;
    bool is_null = false;
    for (size_t i = 0; i < json_array_size(type); i++) {
        const json_t *t = json_array_get(type, i);
        if (is_word(t, "null")) {
            is_null = true;
        } else if (only || !json_is_string(t)) {
            return refuse(w, key);
        } else {
            only = t;
        }
    }
    if (!only || is_word(only, "null")) {
        return refuse(w, key);
    }
    return json_object_set_new(out, "type", capitals(json_string_value(only))) == 0 &&
           (!is_null || json_object_set_new(out, "nullable", json_true()) == 0);
}

/* Only strings can be listed there. */
static bool put_enum(struct walk *w, const char *key, const json_t *list, json_t *out)
{
    json_t *words = json_array();
    for (size_t i = 0; words && i < json_array_size(list); i++) {
        json_t *v = json_array_get(list, i);
        if (json_is_null(v)) {
            if (json_object_set_new(out, "nullable", json_true()) != 0) {
                json_decref(words);
                return false;
            }
        } else if (!json_is_string(v)) {
            json_decref(words);
            return drop(w, key);
        } else if (json_array_append(words, v) != 0) {
            json_decref(words);
            return false;
        }
    }
    return json_object_set_new(out, "enum", words) == 0 &&
           (json_object_get(out, "type") ||
            json_object_set_new(out, "type", json_string("STRING")) == 0);
}

static bool put_const(struct walk *w, const char *key, const json_t *value, json_t *out)
{
    if (json_is_object(value) || json_is_array(value)) {
        return drop(w, key);
    }
    json_t *list = json_pack("[O]", value);
    bool ok = list && (w->form == GOOGLE_OPENAPI ? put_enum(w, key, list, out)
                                                 : json_object_set(out, "enum", list) == 0);
    json_decref(list);
    return ok;
}

/* {"type":"null"} among the choices is `nullable` there. */
static bool put_any_of(struct walk *w, const char *key, const json_t *list, json_t *out)
{
    json_t *rest = json_array();
    bool ok = rest != NULL;
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (is_word(json_object_get(one, "type"), "null")) {
            ok = json_object_set_new(out, "nullable", json_true()) == 0;
        } else {
            ok = json_array_append_new(rest, sub_schema(w, one, key)) == 0;
        }
    }
    if (ok && json_array_size(rest) == 1) {
        ok = json_object_update_missing(out, json_array_get(rest, 0)) == 0; /* no choice is left */
    } else {
        ok = ok && json_object_set(out, "anyOf", rest) == 0;
    }
    json_decref(rest);
    return ok;
}

/* The schema that a local reference names; NULL: none. */
static const json_t *find_ref(const struct walk *w, const char *ref)
{
    char name[128];
    const json_t *at = w->root;
    if (!ref || ref[0] != '#' || (ref[1] && ref[1] != '/')) {
        return NULL;
    }
    for (const char *p = ref + 1; *p == '/' && at;) {
        size_t n = strcspn(++p, "/");
        if (n >= sizeof name || memchr(p, '~', n) || memchr(p, '%', n)) {
            return NULL;
        }
        memcpy(name, p, n);
        name[n] = '\0';
        at = json_object_get(at, name);
        p += n;
    }
    return json_is_object(at) ? at : NULL;
}

static bool put_ref(struct walk *w, const char *key, const json_t *ref, json_t *out)
{
    static const char old[] = "#/definitions/";
    const char *s = json_string_value(ref);
    if (w->form == GOOGLE_OPENAPI) {
        const json_t *target = find_ref(w, s);
        return target ? put_schema(w, target, out) : refuse(w, key);
    }
    if (s && strncmp(s, old, sizeof old - 1) == 0) {
        return json_object_set_new(out, "$ref", json_sprintf("#/$defs/%s", s + sizeof old - 1)) ==
               0;
    }
    return json_object_set(out, "$ref", (json_t *)ref) == 0;
}

static bool put_additional(struct walk *w, const char *key, const json_t *value, json_t *out)
{
    if (w->form == GOOGLE_OPENAPI) {
        return json_is_boolean(value) || refuse(w, key);
    }
    json_t *v = json_is_boolean(value) ? json_incref((json_t *)value) : sub_schema(w, value, key);
    return json_object_set_new(out, key, v) == 0;
}

static bool put_all_of(struct walk *w, const char *key, const json_t *list, json_t *out)
{
    const json_t *only = json_array_get(list, 0);
    bool is_one = json_array_size(list) == 1 && json_is_object(only);
    return is_one ? put_schema(w, only, out) : refuse(w, key);
}

static bool put_definitions(struct walk *w, const char *key, const json_t *map, json_t *out)
{
    return json_object_set_new(out, "$defs", sub_map(w, map, key)) == 0;
}

/* Not JSON Schema's own: false says nothing. */
static bool put_nullable(struct walk *w, const char *key, const json_t *value, json_t *out)
{
    (void)out;
    return !json_is_true(value) || drop(w, key);
}

/* Of strings only one form is known there. */
static bool put_format(struct walk *w, const char *key, const json_t *value, json_t *out)
{
    bool is_known = is_word(value, "date-time") || is_word(value, "float") ||
                    is_word(value, "double") || is_word(value, "int32") || is_word(value, "int64");
    return is_known ? json_object_set(out, key, (json_t *)value) == 0 : drop(w, key);
}

static bool put_other(struct walk *w, const char *key, const json_t *value, json_t *out)
{
    static const struct {
        const char *name;
        bool (*put)(struct walk *w, const char *key, const json_t *value, json_t *out);
    } ways[] = {
        {"type", put_type},
        {"enum", put_enum},
        {"const", put_const},
        {"anyOf", put_any_of},
        {"oneOf", put_any_of},
        {"allOf", put_all_of},
        {"additionalProperties", put_additional},
        {"$ref", put_ref},
        {"definitions", put_definitions},
        {"nullable", put_nullable},
        {"format", put_format},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(ways[i].name, key) == 0) {
            return ways[i].put(w, key, value, out);
        }
    }
    return drop(w, key);
}

static bool put_int64(struct walk *w, const char *key, const json_t *value, json_t *out)
{
    if (!json_is_integer(value)) {
        return drop(w, key);
    }
    return json_object_set_new(
               out, key, json_sprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value))) == 0;
}

/* ---- the walk */

static bool put_keyword(struct walk *w, const char *key, json_t *value, json_t *out)
{
    switch (fate_of(w, key)) {
    case DROP:
        return drop(w, key);
    case SILENT:
        return true;
    case KEEP:
        return json_object_set(out, key, value) == 0;
    case SCHEMA:
        return json_object_set_new(out, key, sub_schema(w, value, key)) == 0;
    case SCHEMAS:
        return json_object_set_new(out, key, sub_list(w, value, key)) == 0;
    case MAP:
        return json_object_set_new(out, key, sub_map(w, value, key)) == 0;
    case INT64:
        return put_int64(w, key, value, out);
    case REFUSE:
        return refuse(w, key);
    case OTHER:
        break;
    }
    return put_other(w, key, value, out);
}

static bool put_schema(struct walk *w, const json_t *schema, json_t *out)
{
    /* a reference stands alone there: only keys with $ may be beside it */
    bool is_ref = w->form == GOOGLE_JSON && json_object_get(schema, "$ref");
    if (w->depth == DEPTH_MAX || ++w->nodes > NODES_MAX) {
        return refuse(w, "$ref");
    }
    w->depth++;
    const char *key;
    json_t *value;
    bool ok = true;
    json_object_foreach ((json_t *)schema, key, value) { /* the macro wants no const */
        bool is_beside = is_ref && key[0] != '$' && strcmp(key, "definitions") != 0;
        ok = ok && (is_beside ? drop(w, key) : put_keyword(w, key, value, out));
    }
    w->depth--;
    return ok;
}

json_t *google_schema(const json_t *schema, enum google_form form, struct google_report *report)
{
    struct walk w = {.root = schema, .form = form, .report = report};
    *report = (struct google_report){.dropped = NULL};
    return sub_schema(&w, schema, "schema");
}
