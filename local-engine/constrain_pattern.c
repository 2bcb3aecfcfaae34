/* constrain_pattern.c - the patterns that a string must match, as tags of one automaton.
 *
 * Look-around is not regular in general, but a look-ahead right behind the ^ that holds the whole
 * pattern is a pattern of its own: the text must match it, or must not. Programs that make schemas
 * write such ("^(?=.*[A-Z]).{8,}$", zod's email, pydantic's Decimal).
 */
#include "constrain_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- look-ahead at the start */

/* Steps over one character, escape or class. */
static size_t step(const char *s, size_t len, size_t i)
{
    if (s[i] == '\\') {
        return i + 2;
    }
    if (s[i] != '[') {
        return i + 1;
    }
    for (i++; i < len && s[i] != ']'; i++) {
        i += s[i] == '\\';
    }
    return i + 1;
}

/* The first `stop` from i on that is in no group, len: none. */
static size_t find_outside(const char *s, size_t len, size_t i, char stop)
{
    size_t depth = 0;
    while (i < len && (depth > 0 || s[i] != stop)) {
        depth += s[i] == '(';
        depth -= s[i] == ')' && depth > 0;
        i = step(s, len, i);
    }
    return i < len ? i : len;
}

static bool is_look_ahead(const char *s, size_t len, size_t i)
{
    return i + 3 < len && s[i] == '(' && s[i + 1] == '?' && (s[i + 2] == '=' || s[i + 2] == '!');
}

/* Where the pattern goes on behind its first look-aheads; 0: it has none, or they hold only the
 * first of several branches. */
static size_t behind_look_aheads(const char *s, size_t len)
{
    size_t i = 1;
    if (len == 0 || s[0] != '^') {
        return 0;
    }
    while (is_look_ahead(s, len, i)) {
        size_t end = find_outside(s, len, i + 3, ')');
        if (end == len) {
            return 0;
        }
        i = end + 1;
    }
    bool is_quantified = i < len && strchr("*+?{", s[i]);
    return i > 1 && !is_quantified && find_outside(s, len, 0, '|') == len ? i : 0;
}

/* ---- tags */

struct adder { /* of one keyword */
    struct constrain_compiler *c;
    const struct constrain_part *part;
    const char *name;
    struct regex_set *set;
    struct constrain_tags *tags;
};

/* `before` text `after` must match, or must not. */
static bool add(const struct adder *a, const char *before, const char *text, size_t len,
                const char *after, bool must)
{
    struct engine_error inner = {.code = ENGINE_OK};
    struct constrain_tags *t = a->tags;
    size_t n_before = strlen(before), n_after = strlen(after);
    if (t->n >= t->n_max) {
        return constrain_bad(a->c, a->part->path, a->name,
                             "more than %d patterns must hold together", t->n_max);
    }
    char *whole = malloc(n_before + len + n_after + 1);
    if (!whole) {
        return constrain_no_memory(a->c);
    }
    memcpy(whole, before, n_before);
    memcpy(whole + n_before, text, len);
    memcpy(whole + n_before + len, after, n_after);
    t->care |= UINT64_C(1) << t->n;
    t->want |= (uint64_t)must << t->n;
    bool ok = regex_add(a->set, whole, n_before + len + n_after, t->n++, &inner);
    free(whole);
    return ok || constrain_bad_inner(a->c, a->part->path, a->name, &inner);
}

static bool add_pattern(const struct adder *a, const char *s, size_t len)
{
    size_t rest = behind_look_aheads(s, len);
    if (rest == 0) {
        return add(a, "", s, len, "", true);
    }
    for (size_t i = 1; i < rest;) {
        size_t end = find_outside(s, len, i + 3, ')');
        if (!add(a, "^(?:", s + i + 3, end - i - 3, ")", s[i + 2] == '=')) {
            return false;
        }
        i = end + 1;
    }
    return add(a, "^", s + rest, len - rest, "", true);
}

bool constrain_patterns(struct constrain_compiler *c, const struct constrain_parts *parts,
                        struct regex_set *set, struct constrain_tags *tags)
{
    tags->n_max = tags->n_max ? tags->n_max : REGEX_TAGS_MAX;
    for (size_t i = 0; i < parts->n; i++) {
        const struct constrain_part *p = &parts->p[i];
        const json_t *pattern = json_object_get(p->schema, "pattern");
        struct adder a = {c, p, "pattern", set, tags};
        if (pattern && !add_pattern(&a, json_string_value(pattern), json_string_length(pattern))) {
            return false;
        }
        const char *text = constrain_format_pattern(json_object_get(p->schema, "format"));
        a.name = "format";
        if (text && !add(&a, "", text, strlen(text), "", true)) {
            return false;
        }
    }
    return true;
}

/* ---- their automaton */

bool constrain_dfa(struct constrain_compiler *c, struct regex_dfa *d, const struct regex_set *set,
                   struct engine_error *inner)
{
    enum { NODES_OF_A_UNIT = 32 };
    if (!regex_dfa_init(d, set, inner)) {
        return false;
    }
    if (!constrain_works(c, (set->n + d->work) / NODES_OF_A_UNIT)) {
        regex_dfa_release(d);
        return false;
    }
    return true;
}

/* An error of the automaton is that of the first schema with a pattern. */
static bool bad_patterns(struct constrain_compiler *c, const struct constrain_parts *parts,
                         const struct engine_error *inner)
{
    for (size_t i = 0; i < parts->n; i++) {
        static const char *const names[] = {"pattern", "format"};
        for (size_t k = 0; k < 2; k++) {
            if (json_object_get(parts->p[i].schema, names[k])) {
                return constrain_bad_inner(c, parts->p[i].path, names[k], inner);
            }
        }
    }
    return constrain_bad_inner(c, 0, NULL, inner);
}

bool constrain_patterns_dfa(struct constrain_compiler *c, const struct constrain_parts *parts,
                            struct regex_dfa *d, const struct regex_set *set)
{
    struct engine_error inner = {.code = ENGINE_OK};
    return constrain_dfa(c, d, set, &inner) ||
           (inner.code != ENGINE_OK &&
            bad_patterns(c, parts, &inner)); /* else it is said already */
}
