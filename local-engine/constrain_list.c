/* constrain_list.c - lists of schemas that must hold together: what is in them, which rule each
 * has, and the queue of those that are not written yet.
 *
 * The way that a schema came into its list is remembered: where one leads back to itself through
 * $ref, allOf, anyOf and oneOf alone, nothing would ever be decided.
 */
#include "constrain_private.h"
#include "constrain_schema.h"
#include "room.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct constrain_list {
    struct constrain_part *p;
    size_t n;
    bool is_never;
    uint32_t rule, hash;
};

/* ---- $ref */

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The next step of a pointer, decoded; *s moves behind it. false: it is no pointer, or too long. */
static bool read_step(const char **s, char *out, size_t cap)
{
    size_t n = 0;
    for (++*s; **s && **s != '/'; ++*s) {
        char ch = **s;
        if (ch == '%') {
            int hi = hex((*s)[1]), lo = hi < 0 ? -1 : hex((*s)[2]);
            if (lo < 0) {
                return false;
            }
            ch = (char)(hi * 16 + lo);
            *s += 2;
        } else if (ch == '~') {
            ++*s;
            if (**s != '0' && **s != '1') {
                return false;
            }
            ch = **s == '0' ? '~' : '/';
        }
        if (n + 1 >= cap || !ch) {
            return false;
        }
        out[n++] = ch;
    }
    out[n] = '\0';
    return true;
}

static const json_t *step_down(struct constrain_compiler *c, const json_t *at, const char *step,
                               uint32_t *path)
{
    if (json_is_array(at)) {
        size_t n = strlen(step);
        if (n == 0 || n > 9 || strspn(step, "0123456789") != n || (n > 1 && step[0] == '0')) {
            return NULL;
        }
        size_t index = (size_t)strtoul(step, NULL, 10);
        *path = constrain_below_index(c, *path, index);
        return json_array_get(at, index);
    }
    void *it = json_object_iter_at((json_t *)at, step); /* NULL if it is no object */
    if (!it) {
        return NULL;
    }
    *path = constrain_below(c, *path, json_object_iter_key(it));
    return json_object_iter_value(it);
}

/* Below such a schema '#' would be that schema, not the root. */
static bool bad_id(struct constrain_compiler *c, uint32_t path)
{
    return constrain_bad(c, path, "$id", "only the whole schema may have one: leave it out");
}

static bool resolve(struct constrain_compiler *c, const struct constrain_part *from,
                    const json_t **schema, uint32_t *path)
{
    const char *ref = json_string_value(json_object_get(from->schema, "$ref"));
    const char *s = ref + 1;
    const json_t *at = c->root;
    bool ok = constrain_works(c, strlen(ref));
    *path = 0;
    if (!ok) {
        return false;
    }
    while (at && *s) {
        char step[512];
        if (at != c->root && json_is_string(json_object_get(at, "$id"))) {
            return bad_id(c, *path);
        }
        at = *s == '/' && read_step(&s, step, sizeof step) ? step_down(c, at, step, path) : NULL;
    }
    if (!json_is_object(at) && !json_is_boolean(at)) {
        return constrain_bad(c, from->path, "$ref", "there is no schema at '%.100s'", ref);
    }
    *schema = at;
    return true;
}

/* ---- what is in a list */

static bool came_from(const struct constrain_parts *parts, uint32_t from, size_t ancestor)
{
    for (; from != 0; from = parts->p[from - 1].from) {
        if (from == ancestor + 1) {
            return true;
        }
    }
    return false;
}

static bool add_one(struct constrain_compiler *c, struct constrain_parts *parts,
                    const json_t *schema, uint32_t path, uint32_t from)
{
    if (json_is_boolean(schema)) {
        parts->is_never = parts->is_never || json_is_false(schema);
        return true;
    }
    for (size_t i = 0; i < parts->n; i++) {
        if (parts->p[i].schema == schema) {
            return !came_from(parts, from, i) ||
                   constrain_bad(c, path, NULL,
                                 "it leads back to itself without a value between: give it a way "
                                 "that ends");
        }
    }
    if (parts->n >= CONSTRAIN_PARTS_MAX) {
        return constrain_bad(c, path, NULL, "more than %d schemas must hold together",
                             (int)CONSTRAIN_PARTS_MAX);
    }
    struct constrain_part *p = &parts->p[parts->n++];
    *p = (struct constrain_part){.schema = schema, .path = path, .from = from};
    if (schema != c->root && json_object_get(schema, "$id")) {
        return bad_id(c, path);
    }
    return constrain_works(c, 1 + json_object_size(schema)) && constrain_check_keywords(c, p);
}

bool constrain_parts_add(struct constrain_compiler *c, struct constrain_parts *parts,
                         const json_t *schema, uint32_t path, uint32_t from)
{
    size_t at = parts->n;
    if (!add_one(c, parts, schema, path, from)) {
        return false;
    }
    for (; at < parts->n; at++) {
        const struct constrain_part p = parts->p[at];
        const json_t *all = json_object_get(p.schema, "allOf"), *target;
        uint32_t below;
        if (json_object_get(p.schema, "$ref") &&
            (!resolve(c, &p, &target, &below) ||
             !add_one(c, parts, target, below, (uint32_t)at + 1))) {
            return false;
        }
        below = all ? constrain_below(c, p.path, "allOf") : 0;
        for (size_t i = 0; i < json_array_size(all); i++) {
            if (!add_one(c, parts, json_array_get(all, i), constrain_below_index(c, below, i),
                         (uint32_t)at + 1)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- which rule a list has */

/* Schemas that only point elsewhere are no part of what tells lists apart. */
static bool says_something(const struct constrain_part *p)
{
    static const char *const silent[] = {"$ref",     "allOf",   "$defs",    "definitions",
                                         "title",    "default", "examples", "description",
                                         "$comment", "$id",     "$schema",  NULL};
    size_t n = json_object_size(p->schema);
    for (size_t i = 0; silent[i]; i++) {
        n -= json_object_get(p->schema, silent[i]) != NULL;
    }
    return n > 0;
}

static uint32_t hash_parts(const struct constrain_part *p, size_t n, bool is_never)
{
    uint32_t h = is_never ? 7 : 3;
    for (size_t i = 0; i < n; i++) {
        if (says_something(&p[i])) {
            uint64_t x = (uint64_t)(uintptr_t)p[i].schema * 4 + p[i].any_done * 2u + p[i].one_done;
            h = (h ^ (uint32_t)(x >> 3) ^ (uint32_t)(x >> 35) ^ (uint32_t)x) * 0x9E3779B1u;
            h ^= h >> 15;
        }
    }
    return h;
}

/* The next part that says something, from *i on; NULL: none. */
static const struct constrain_part *next_said(const struct constrain_part *p, size_t n, size_t *i)
{
    while (*i < n && !says_something(&p[*i])) {
        ++*i;
    }
    return *i < n ? &p[(*i)++] : NULL;
}

static bool same(const struct constrain_list *a, const struct constrain_parts *b)
{
    size_t i = 0, k = 0;
    for (;;) {
        const struct constrain_part *x = next_said(a->p, a->n, &i), *y = next_said(b->p, b->n, &k);
        if (!x || !y) {
            return x == y && a->is_never == b->is_never;
        }
        if (x->schema != y->schema || x->any_done != y->any_done || x->one_done != y->one_done) {
            return false;
        }
    }
}

static bool slots_grow(struct constrain_compiler *c)
{
    size_t cap = c->slots_cap ? c->slots_cap * 2 : 64;
    uint32_t *slots = calloc(cap, sizeof *slots);
    if (!slots) {
        return false;
    }
    free(c->slots);
    c->slots = slots;
    c->slots_cap = cap;
    for (size_t i = 0; i < c->n_lists; i++) {
        size_t k = c->lists[i]->hash & (cap - 1);
        while (slots[k] != 0) {
            k = (k + 1) & (cap - 1);
        }
        slots[k] = (uint32_t)i + 1;
    }
    return true;
}

static struct constrain_list *list_new(const struct constrain_parts *parts)
{
    struct constrain_list *l = calloc(1, sizeof *l);
    struct constrain_part *p = malloc((parts->n + 1) * sizeof *p);
    if (!l || !p) {
        free(l);
        free(p);
        return NULL;
    }
    memcpy(p, parts->p, parts->n * sizeof *p);
    *l = (struct constrain_list){.p = p, .n = parts->n, .is_never = parts->is_never};
    return l;
}

bool constrain_rule(struct constrain_compiler *c, const struct constrain_parts *parts,
                    uint32_t *rule)
{
    uint32_t hash = hash_parts(parts->p, parts->n, parts->is_never);
    size_t k = c->slots_cap ? hash & (c->slots_cap - 1) : 0;
    if (!constrain_works(c, 1 + parts->n)) {
        return false;
    }
    while (c->slots_cap && c->slots[k] != 0) {
        const struct constrain_list *l = c->lists[c->slots[k] - 1];
        if (l->hash == hash && same(l, parts)) {
            *rule = l->rule;
            return true;
        }
        k = (k + 1) & (c->slots_cap - 1);
    }
    if (c->n_lists >= CONSTRAIN_LISTS_MAX) {
        return constrain_works(c, CONSTRAIN_WORK_MAX);
    }
    struct constrain_list *l = list_new(parts);
    if (!l ||
        !room_for(&c->lists, &c->lists_cap, c->n_lists + 1, sizeof(struct constrain_list *))) {
        if (l) {
            free(l->p);
        }
        free(l);
        return constrain_no_memory(c);
    }
    l->hash = hash;
    l->rule = grammar_rule(c->g);
    c->lists[c->n_lists++] = l;
    *rule = l->rule;
    if (c->slots_cap < 2 * c->n_lists + 2) {
        return slots_grow(c) || constrain_no_memory(c);
    }
    c->slots[k] = (uint32_t)c->n_lists;
    return true;
}

/* ---- writing a rule */

/* One list for each branch of parts->p[at]'s keyword. */
static bool write_branches(struct constrain_compiler *c, const struct constrain_parts *parts,
                           size_t at, bool is_one, uint32_t rule)
{
    const char *name = is_one ? "oneOf" : "anyOf";
    const json_t *branches = json_object_get(parts->p[at].schema, name);
    uint32_t path = constrain_below(c, parts->p[at].path, name);
    for (size_t i = 0; i < json_array_size(branches); i++) {
        struct constrain_parts with = *parts;
        uint32_t branch;
        with.p[at].any_done = with.p[at].any_done || !is_one;
        with.p[at].one_done = with.p[at].one_done || is_one;
        if (!constrain_parts_add(c, &with, json_array_get(branches, i),
                                 constrain_below_index(c, path, i), (uint32_t)at + 1) ||
            !constrain_rule(c, &with, &branch)) {
            return false;
        }
        grammar_call(c->g, grammar_start(c->g, rule), branch, grammar_end(c->g, rule));
    }
    return true;
}

/* *done: there was something to branch. */
static bool branch(struct constrain_compiler *c, const struct constrain_parts *parts, uint32_t rule,
                   bool *done)
{
    for (size_t i = 0; i < parts->n; i++) {
        const struct constrain_part *p = &parts->p[i];
        bool any = !p->any_done && json_object_get(p->schema, "anyOf");
        bool one = !any && !p->one_done && json_object_get(p->schema, "oneOf");
        if (any || one) {
            *done = true;
            return (!one || constrain_check_one_of(c, p)) && write_branches(c, parts, i, one, rule);
        }
    }
    *done = false;
    return true;
}

static void write_word(struct constrain_compiler *c, uint32_t rule, const char *word)
{
    grammar_text(c->g, grammar_start(c->g, rule), word, strlen(word), grammar_end(c->g, rule));
}

static bool write_types(struct constrain_compiler *c, const struct constrain_parts *parts,
                        unsigned types, uint32_t rule)
{
    bool has_values;
    if (!constrain_values(c, parts, types, rule, &has_values) || has_values) {
        return has_values;
    }
    if (types & TYPE_NULL) {
        write_word(c, rule, "null");
    }
    if (types & TYPE_BOOLEAN) {
        write_word(c, rule, "true");
        write_word(c, rule, "false");
    }
    return (!(types & TYPE_NUMBER) || constrain_number(c, parts, !(types & TYPE_FRACTION), rule)) &&
           (!(types & TYPE_STRING) || constrain_string(c, parts, rule)) &&
           (!(types & TYPE_ARRAY) || constrain_array(c, parts, rule)) &&
           (!(types & TYPE_OBJECT) || constrain_object(c, parts, rule));
}

static bool write_list(struct constrain_compiler *c, const struct constrain_list *l)
{
    struct constrain_parts parts = {.n = l->n, .is_never = l->is_never};
    unsigned types = TYPE_ALL;
    bool is_branched;
    if (l->is_never) {
        return true;
    }
    memcpy(parts.p, l->p, l->n * sizeof *l->p);
    if (!branch(c, &parts, l->rule, &is_branched) || is_branched) {
        return is_branched && c->err->code == ENGINE_OK;
    }
    for (size_t i = 0; i < parts.n; i++) {
        types &= constrain_types_meant(parts.p[i].schema);
    }
    return write_types(c, &parts, types, l->rule);
}

/* ---- the whole schema */

/* Without a stack of calls: an open value for each level. */
static bool check_depth(struct constrain_compiler *c)
{
    struct {
        const json_t *v;
        void *it;
        size_t i;
    } open[CONSTRAIN_DEPTH_MAX];
    size_t n = 0;
    const json_t *next = c->root;
    for (;;) {
        if (json_is_object(next) || json_is_array(next)) {
            if (n >= CONSTRAIN_DEPTH_MAX) {
                return engine_fail(c->err, ENGINE_BAD_PARAM, c->param,
                                   "'%s': the schema is nested too deep, %d levels at most",
                                   c->param, (int)CONSTRAIN_DEPTH_MAX);
            }
            open[n].v = next;
            open[n].i = 0;
            open[n++].it = json_object_iter((json_t *)next);
        }
        for (next = NULL; n > 0 && !next;) {
            if (open[n - 1].it) {
                next = json_object_iter_value(open[n - 1].it);
                open[n - 1].it = json_object_iter_next((json_t *)open[n - 1].v, open[n - 1].it);
            } else {
                next = json_array_get(open[n - 1].v, open[n - 1].i++);
            }
            n -= !next;
        }
        if (!next) {
            return true;
        }
    }
}

static void compiler_release(struct constrain_compiler *c)
{
    for (size_t i = 0; i < c->n_lists; i++) {
        free(c->lists[i]->p);
        free(c->lists[i]);
    }
    for (size_t i = 0; i < c->n_texts; i++) {
        free(c->texts[i].key);
    }
    free(c->texts);
    free(c->lists);
    free(c->slots);
    free(c->paths);
}

static bool compile(struct constrain_compiler *c, uint32_t *rule)
{
    struct constrain_parts parts = {.n = 0};
    if (!check_depth(c) || !constrain_parts_add(c, &parts, c->root, 0, 0) ||
        !constrain_rule(c, &parts, rule)) {
        return false;
    }
    while (c->n_done < c->n_lists) {
        if (!write_list(c, c->lists[c->n_done++])) {
            return false;
        }
    }
    return true;
}

bool constrain_schema(struct grammar *g, const json_t *schema, const char *param, uint32_t *rule,
                      struct engine_error *err)
{
    struct engine_error own = {.code = ENGINE_OK};
    struct constrain_compiler c = {.g = g, .root = schema, .param = param, .err = &own};
    if (!json_is_object(schema) && !json_is_boolean(schema)) {
        return engine_fail(err, ENGINE_BAD_PARAM, param, "'%s': the schema must be an object",
                           param);
    }
    bool ok = compile(&c, rule);
    compiler_release(&c);
    assert(ok == (own.code == ENGINE_OK));
    return ok || engine_fail(err, own.code, own.param, "%s", own.text);
}
