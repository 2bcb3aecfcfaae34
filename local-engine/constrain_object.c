/* constrain_object.c - objects: a node for each property that may come next, from which the
 * optional ones can be passed, then a loop for the others. A name is written once, so the rule has
 * as many edges as the schema has properties.
 *
 * Which other names there are is asked of one automaton that knows all declared names and all
 * patterns: names that match the same patterns share a rule of names and a rule of values. What
 * propertyNames asks of a name are more patterns, or limits of its length; the names of an enum are
 * declared like those of `properties`, and then there are no others.
 */
#include "constrain_private.h"
#include "room.h"

#include <stdlib.h>
#include <string.h>

enum {
    PROPERTIES_MAX = 4096,
    TAG_DECLARED = REGEX_TAGS_MAX - 1,
    PATTERNS_MAX = REGEX_TAGS_MAX - 1,
    KINDS_MAX = 64 /* different sets of patterns that a name may match */
};

struct property {
    const char *name;
    bool is_required;
};
struct pattern {
    size_t part; /* it is patternProperties of this one */
    const char *text;
};
struct shape {
    struct constrain_compiler *c;
    const struct constrain_parts *parts;
    uint32_t rule, space;
    struct property *properties;
    size_t n_properties, properties_cap;
    uint32_t *slots; /* property + 1 by its name */
    size_t slots_cap;
    struct pattern patterns[PATTERNS_MAX];
    size_t n_patterns;
    bool takes_others;            /* names that no pattern matches */
    bool is_listed;               /* propertyNames lists all names */
    struct constrain_parts names; /* of propertyNames */
    struct constrain_range length;
    struct constrain_tags tags; /* that a name must have; from n_patterns on */
    struct regex_dfa dfa;       /* of the patterns and the declared names; n 0: not made */
};

static const json_t *keyword(const struct shape *s, size_t part, const char *name)
{
    return json_object_get(s->parts->p[part].schema, name);
}

/* ---- which properties there are */

static uint32_t hash_name(const char *s)
{
    uint32_t h = 0x811C9DC5u;
    for (; *s; s++) {
        h = (h ^ (uint8_t)*s) * 0x01000193u;
    }
    return h ^ h >> 15;
}

static size_t slot_of(const struct shape *s, const char *name)
{
    size_t k = hash_name(name) & (s->slots_cap - 1);
    while (s->slots[k] != 0 && strcmp(s->properties[s->slots[k] - 1].name, name) != 0) {
        k = (k + 1) & (s->slots_cap - 1);
    }
    return k;
}

static bool slots_grow(struct shape *s)
{
    size_t cap = s->slots_cap ? s->slots_cap * 2 : 32;
    uint32_t *slots = calloc(cap, sizeof *slots);
    if (!slots) {
        return constrain_no_memory(s->c);
    }
    free(s->slots);
    s->slots = slots;
    s->slots_cap = cap;
    for (size_t i = 0; i < s->n_properties; i++) {
        s->slots[slot_of(s, s->properties[i].name)] = (uint32_t)i + 1;
    }
    return true;
}

static bool declare(struct shape *s, size_t part, const char *name, bool is_required)
{
    if (s->slots_cap < 2 * s->n_properties + 2 && !slots_grow(s)) {
        return false;
    }
    size_t k = slot_of(s, name);
    if (s->slots[k] != 0) {
        struct property *p = &s->properties[s->slots[k] - 1];
        p->is_required = p->is_required || is_required;
        return true;
    }
    if (s->n_properties >= PROPERTIES_MAX) {
        return constrain_bad(s->c, s->parts->p[part].path, NULL, "it has more than %d properties",
                             (int)PROPERTIES_MAX);
    }
    if (!room_for(&s->properties, &s->properties_cap, s->n_properties + 1, sizeof *s->properties)) {
        return constrain_no_memory(s->c);
    }
    s->properties[s->n_properties++] = (struct property){name, is_required};
    s->slots[k] = (uint32_t)s->n_properties;
    return constrain_works(s->c, 1);
}

static bool declare_all(struct shape *s)
{
    for (size_t i = 0; i < s->parts->n; i++) {
        json_t *list = (json_t *)keyword(s, i, "properties"); /* iterators lack const */
        for (void *it = json_object_iter(list); it; it = json_object_iter_next(list, it)) {
            if (!declare(s, i, json_object_iter_key(it), false)) {
                return false;
            }
        }
    }
    for (size_t i = 0; i < s->parts->n; i++) {
        const json_t *list = keyword(s, i, "required");
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *name = json_array_get(list, k);
            if (strlen(json_string_value(name)) != json_string_length(name)) {
                return constrain_bad(s->c, s->parts->p[i].path, "required", "a name has a NUL");
            }
            if (!declare(s, i, json_string_value(name), true)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- propertyNames */

static bool find_names(struct shape *s)
{
    for (size_t i = 0; i < s->parts->n; i++) {
        const json_t *names = keyword(s, i, "propertyNames");
        uint32_t path = names ? constrain_below(s->c, s->parts->p[i].path, "propertyNames") : 0;
        if (names && !constrain_parts_add(s->c, &s->names, names, path, 0)) {
            return false;
        }
    }
    for (size_t i = 0; i < s->names.n; i++) {
        const struct constrain_part *p = &s->names.p[i];
        static const char *const branches[] = {"anyOf", "oneOf"};
        for (size_t k = 0; k < 2; k++) {
            if (json_object_get(p->schema, branches[k])) {
                return constrain_bad(s->c, p->path, branches[k],
                                     "it is not supported in propertyNames");
            }
        }
        s->names.is_never = s->names.is_never || !(constrain_types_said(p->schema) & TYPE_STRING);
        s->is_listed = s->is_listed || json_object_get(p->schema, "enum") ||
                       json_object_get(p->schema, "const");
    }
    return constrain_range(s->c, &s->names, "minLength", "maxLength", &s->length);
}

/* Whether propertyNames allows it. */
static bool is_right_name(struct shape *s, const char *name, bool *is_right)
{
    enum constrain_verdict verdict = VERDICT_OUT;
    *is_right = true;
    if (s->names.n == 0 && !s->names.is_never) {
        return true;
    }
    json_t *v = json_string(name);
    bool ok = v ? constrain_judge(s->c, &s->names, v, &verdict) : constrain_no_memory(s->c);
    json_decref(v);
    *is_right = verdict == VERDICT_IN;
    return ok;
}

/* The names of one list; which of them are right is asked when they are written. */
static bool declare_listed(struct shape *s)
{
    for (size_t i = 0; i < s->names.n; i++) {
        const json_t *one = json_object_get(s->names.p[i].schema, "const"),
                     *list = json_object_get(s->names.p[i].schema, "enum");
        size_t n = one ? 1 : json_array_size(list);
        for (size_t k = 0; k < n; k++) {
            const json_t *name = one ? one : json_array_get(list, k);
            if (json_is_string(name) &&
                strlen(json_string_value(name)) == json_string_length(name) &&
                !declare(s, 0, json_string_value(name), false)) {
                return false;
            }
        }
        if (n > 0) {
            return true;
        }
    }
    return true;
}

/* Others come where something says so, or where nothing says anything of properties. */
static void find_others(struct shape *s)
{
    bool is_open = false, is_silent = true, is_closed = false;
    for (size_t i = 0; i < s->parts->n; i++) {
        const json_t *others = keyword(s, i, "additionalProperties");
        is_open = is_open || others;
        is_closed = is_closed || json_is_false(others);
        is_silent =
            is_silent && !keyword(s, i, "properties") && !keyword(s, i, "patternProperties");
    }
    s->takes_others = !is_closed && (is_open || is_silent) && !s->names.is_never &&
                      !s->length.is_empty && !s->is_listed;
}

/* ---- the automaton of names */

static bool add_patterns(struct shape *s, struct regex_set *set)
{
    for (size_t i = 0; i < s->parts->n; i++) {
        json_t *list = (json_t *)keyword(s, i, "patternProperties"); /* iterators lack const */
        for (void *it = json_object_iter(list); it; it = json_object_iter_next(list, it)) {
            const char *text = json_object_iter_key(it);
            struct engine_error inner = {.code = ENGINE_OK};
            uint32_t path = constrain_below(s->c, s->parts->p[i].path, "patternProperties");
            if (s->n_patterns >= PATTERNS_MAX) {
                return constrain_bad(s->c, path, NULL, "more than %d patterns", (int)PATTERNS_MAX);
            }
            if (!regex_add(set, text, strlen(text), (int)s->n_patterns, &inner)) {
                return constrain_bad_inner(s->c, path, text, &inner);
            }
            s->patterns[s->n_patterns++] = (struct pattern){i, text};
        }
    }
    return true;
}

/* What propertyNames asks of others: patterns, of which one that all names match tells that there
 * are limits of length. */
static bool add_names(struct shape *s, struct regex_set *set)
{
    struct engine_error inner = {.code = ENGINE_OK};
    s->tags = (struct constrain_tags){.n = (int)s->n_patterns, .n_max = TAG_DECLARED};
    if (!constrain_patterns(s->c, &s->names, set, &s->tags)) {
        return false;
    }
    bool is_limited = s->length.min > 0 || s->length.max != GRAMMAR_UNBOUNDED;
    if (s->tags.care != 0 || !is_limited || s->tags.n >= TAG_DECLARED) {
        return true;
    }
    s->tags.care = s->tags.want = UINT64_C(1) << s->tags.n;
    return regex_add(set, "", 0, s->tags.n, &inner) ||
           constrain_bad_inner(s->c, s->names.p[0].path, NULL, &inner);
}

static bool make_dfa(struct shape *s)
{
    struct engine_error inner = {.code = ENGINE_OK};
    struct regex_set set = {.n = 0};
    bool ok = add_patterns(s, &set) && add_names(s, &set);
    bool is_free = s->n_patterns == 0 && s->n_properties == 0 && s->tags.care == 0;
    bool is_needed = s->n_patterns > 0 || (s->takes_others && !is_free);
    for (size_t i = 0; ok && is_needed && i < s->n_properties; i++) {
        const char *name = s->properties[i].name;
        ok = regex_add_text(&set, name, strlen(name), TAG_DECLARED, &inner);
    }
    if (ok && is_needed) {
        ok = constrain_dfa(s->c, &s->dfa, &set, &inner);
    }
    regex_set_release(&set);
    if (!ok && inner.code != ENGINE_OK) {
        return constrain_bad_inner(s->c, s->parts->p[0].path, NULL, &inner);
    }
    return ok;
}

static uint64_t patterns_of(const struct shape *s, const char *name)
{
    return s->n_patterns ? regex_tags(&s->dfa, name, strlen(name)) & ~s->tags.care : 0;
}

/* ---- values */

static bool add_value(const struct shape *s, struct constrain_parts *value, size_t part,
                      const char *list, const char *name)
{
    const json_t *schema = keyword(s, part, list);
    uint32_t path = constrain_below(s->c, s->parts->p[part].path, list);
    if (name) {
        schema = json_object_get(schema, name);
        path = constrain_below(s->c, path, name);
    }
    return constrain_parts_add(s->c, value, schema, path, 0);
}

/* The rule of the value of a property: `name`, or NULL for one that is not declared, and the
 * patterns that the name matches. */
static bool value_rule(const struct shape *s, const char *name, uint64_t patterns, uint32_t *rule)
{
    struct constrain_parts value = {.n = 0};
    for (size_t i = 0; i < s->parts->n; i++) {
        bool is_matched = name && json_object_get(keyword(s, i, "properties"), name);
        if (is_matched && !add_value(s, &value, i, "properties", name)) {
            return false;
        }
        for (size_t k = 0; k < s->n_patterns; k++) {
            if (s->patterns[k].part != i || !(patterns >> k & 1)) {
                continue;
            }
            is_matched = true;
            if (!add_value(s, &value, i, "patternProperties", s->patterns[k].text)) {
                return false;
            }
        }
        if (!is_matched && keyword(s, i, "additionalProperties") &&
            !add_value(s, &value, i, "additionalProperties", NULL)) {
            return false;
        }
    }
    return constrain_works(s->c, s->parts->n + s->n_patterns) && constrain_rule(s->c, &value, rule);
}

/* ---- writing */

/* Behind a name: colon and value. */
static void write_value(const struct shape *s, uint32_t from, uint32_t value, uint32_t to)
{
    struct grammar *g = s->c->g;
    uint32_t colon = grammar_node(g, s->rule), before = grammar_node(g, s->rule);
    grammar_byte(g, from, ':', ':', colon);
    grammar_call(g, colon, s->space, before);
    grammar_call(g, before, value, to);
}

static bool write_property(struct shape *s, const struct property *p, uint32_t from, uint32_t to)
{
    uint32_t value, behind = grammar_node(s->c->g, s->rule);
    bool is_right;
    if (!is_right_name(s, p->name, &is_right) || !is_right) {
        return !is_right && s->c->err->code == ENGINE_OK;
    }
    json_t *name = json_string(p->name);
    char *text = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
    json_decref(name);
    if (!text) {
        return constrain_no_memory(s->c);
    }
    grammar_text(s->c->g, from, text, strlen(text), behind);
    free(text);
    if (!value_rule(s, p->name, patterns_of(s, p->name), &value)) {
        return false;
    }
    write_value(s, behind, value, to);
    return true;
}

/* What stands behind a value when properties from `index` on may follow at `next`. */
static void write_behind(const struct shape *s, uint32_t at, uint32_t next, bool may_end)
{
    struct grammar *g = s->c->g;
    uint32_t comma = grammar_node(g, s->rule), before = grammar_node(g, s->rule);
    grammar_byte(g, at, ',', ',', comma);
    grammar_call(g, comma, s->space, next);
    if (may_end) {
        grammar_call(g, at, s->space, before);
        grammar_byte(g, before, '}', '}', grammar_end(g, s->rule));
    }
}

static bool write_declared(struct shape *s, uint32_t first, uint32_t others, size_t n_last)
{
    struct grammar *g = s->c->g;
    uint32_t key = first;
    for (size_t i = 0; i < s->n_properties; i++) {
        bool is_last = i + 1 == s->n_properties;
        uint32_t next = is_last ? others : grammar_node(g, s->rule),
                 behind = grammar_node(g, s->rule);
        if (!s->properties[i].is_required) {
            grammar_nothing(g, key, next);
        }
        if (!write_property(s, &s->properties[i], key, behind)) {
            return false;
        }
        write_behind(s, behind, next, i + 1 >= n_last);
        key = next;
    }
    return true;
}

/* Names that match exactly these patterns and are not declared. */
static bool write_kind(const struct shape *s, uint64_t patterns, uint32_t others, uint32_t behind)
{
    struct grammar *g = s->c->g;
    uint32_t value, name = constrain_any_text(s->c), named = grammar_node(g, s->rule);
    if (!value_rule(s, NULL, patterns, &value)) {
        return false;
    }
    if (s->dfa.n > 0) {
        name = grammar_rule(g);
        if (!constrain_text_of(s->c, &s->dfa, UINT64_MAX, patterns | s->tags.want | REGEX_WHOLE,
                               s->length.min, s->length.max, name)) {
            return false;
        }
    }
    grammar_call(g, others, name, named);
    write_value(s, named, value, behind);
    return true;
}

static bool write_others(const struct shape *s, uint32_t others)
{
    uint64_t kinds[KINDS_MAX] = {0};
    size_t n = s->takes_others; /* the first: no pattern */
    uint32_t behind = grammar_node(s->c->g, s->rule);
    bool is_closed = s->names.is_never || s->length.is_empty || s->is_listed;
    for (size_t i = 1; i < s->dfa.n && !is_closed; i++) {
        uint64_t tags = s->dfa.tags[i] & ~REGEX_WHOLE & ~s->tags.care;
        size_t k = 0;
        if (tags == 0 || (tags >> TAG_DECLARED & 1) || !(s->dfa.tags[i] & REGEX_WHOLE) ||
            (s->dfa.tags[i] & s->tags.care) != s->tags.want) {
            continue;
        }
        while (k < n && kinds[k] != tags) {
            k++;
        }
        if (k == KINDS_MAX) {
            return constrain_bad(s->c, s->parts->p[0].path, "patternProperties",
                                 "names may match more than %d different sets of patterns",
                                 (int)KINDS_MAX);
        }
        kinds[k] = tags;
        n += k == n;
    }
    for (size_t i = 0; i < n; i++) {
        if (!write_kind(s, kinds[i], others, behind)) {
            return false;
        }
    }
    write_behind(s, behind, others, true);
    return true;
}

static bool write(struct shape *s)
{
    struct grammar *g = s->c->g;
    size_t n_last = 0; /* behind the last required one */
    uint32_t open = grammar_node(g, s->rule), first = grammar_node(g, s->rule);
    for (size_t i = 0; i < s->n_properties; i++) {
        n_last = s->properties[i].is_required ? i + 1 : n_last;
    }
    grammar_byte(g, grammar_start(g, s->rule), '{', '{', open);
    grammar_call(g, open, s->space, first);
    if (n_last == 0) {
        grammar_byte(g, open, '}', '}', grammar_end(g, s->rule));
    }
    uint32_t others = s->n_properties > 0 ? grammar_node(g, s->rule) : first;
    return write_declared(s, first, others, n_last) && write_others(s, others);
}

bool constrain_object(struct constrain_compiler *c, const struct constrain_parts *parts,
                      uint32_t rule)
{
    struct shape *s = calloc(1, sizeof *s);
    if (!s) {
        return constrain_no_memory(c);
    }
    *s = (struct shape){.c = c, .parts = parts, .rule = rule, .space = constrain_space(c)};
    bool ok = declare_all(s) && find_names(s) && (!s->is_listed || declare_listed(s));
    find_others(s);
    ok = ok && make_dfa(s) && write(s);
    regex_dfa_release(&s->dfa);
    free(s->properties);
    free(s->slots);
    free(s);
    return ok;
}
