/* constrain_array.c - arrays: the items of prefixItems one by one, then a loop that counts. A comma
 * is written only where an item may follow it.
 */
#include "constrain_private.h"

#include <string.h>

enum { PREFIX_MAX = 4096 };

struct shape {
    struct constrain_compiler *c;
    const struct constrain_parts *parts;
    uint32_t rule, space, rest; /* rest: the rule of items behind the prefix */
    size_t n_prefix;
    uint32_t min, max;
};

/* The rule of the item at `index`; behind all prefixes it is the same for each. */
static bool item_rule(const struct shape *s, size_t index, uint32_t *rule)
{
    struct constrain_parts item = {.n = 0};
    for (size_t i = 0; i < s->parts->n; i++) {
        const struct constrain_part *p = &s->parts->p[i];
        const json_t *prefix = json_object_get(p->schema, "prefixItems"),
                     *items = json_object_get(p->schema, "items");
        if (index < json_array_size(prefix)) {
            uint32_t path = constrain_below(s->c, p->path, "prefixItems");
            items = json_array_get(prefix, index);
            if (!constrain_parts_add(s->c, &item, items, constrain_below_index(s->c, path, index),
                                     0)) {
                return false;
            }
        } else if (items && !constrain_parts_add(s->c, &item, items,
                                                 constrain_below(s->c, p->path, "items"), 0)) {
            return false;
        }
    }
    return constrain_rule(s->c, &item, rule);
}

/* Perhaps white space, then the bracket. */
static void close_at(const struct shape *s, uint32_t from)
{
    struct grammar *g = s->c->g;
    uint32_t before = grammar_node(g, s->rule);
    grammar_call(g, from, s->space, before);
    grammar_byte(g, before, ']', ']', grammar_end(g, s->rule));
}

/* From a place where an item may come, with a comma unless it is the first, to behind it. */
static uint32_t write_item(const struct shape *s, uint32_t from, bool is_first, uint32_t rule,
                           uint32_t to)
{
    struct grammar *g = s->c->g;
    uint32_t comma = is_first ? from : grammar_node(g, s->rule), item = grammar_node(g, s->rule);
    if (!is_first) {
        grammar_byte(g, from, ',', ',', comma);
    }
    grammar_call(g, comma, s->space, item);
    grammar_call(g, item, rule, to);
    return to;
}

/* Items behind the prefix, of which there are `n_before`. */
static void write_rest(const struct shape *s, uint32_t from)
{
    struct grammar *g = s->c->g;
    uint32_t n = (uint32_t)s->n_prefix;
    uint32_t behind = grammar_node(g, s->rule), next = grammar_node(g, s->rule),
             first = grammar_node(g, s->rule), enough = grammar_node(g, s->rule);
    grammar_set_count(g, s->rule, s->min > n ? s->min - n : 0,
                      s->max == GRAMMAR_UNBOUNDED ? s->max : s->max - n);
    grammar_count(g, from, first);
    (void)write_item(s, first, n == 0, s->rest, behind);
    grammar_count(g, behind, next);
    (void)write_item(s, next, false, s->rest, behind);
    grammar_enough(g, behind, enough);
    close_at(s, enough);
}

static bool write(const struct shape *s)
{
    struct grammar *g = s->c->g;
    uint32_t at = grammar_node(g, s->rule);
    grammar_byte(g, grammar_start(g, s->rule), '[', '[', at);
    if (s->min == 0) {
        grammar_byte(g, at, ']', ']', grammar_end(g, s->rule));
    }
    for (size_t i = 0; i < s->n_prefix && i < s->max; i++) {
        uint32_t rule;
        if (!item_rule(s, i, &rule)) {
            return false;
        }
        at = write_item(s, at, i == 0, rule, grammar_node(g, s->rule));
        if (i + 1 >= s->min) {
            close_at(s, at);
        }
    }
    if (s->max > s->n_prefix) {
        write_rest(s, at);
    }
    return true;
}

bool constrain_array(struct constrain_compiler *c, const struct constrain_parts *parts,
                     uint32_t rule)
{
    struct constrain_range size;
    struct shape s = {.c = c, .parts = parts, .space = constrain_space(c)};
    for (size_t i = 0; i < parts->n; i++) {
        size_t n = json_array_size(json_object_get(parts->p[i].schema, "prefixItems"));
        s.n_prefix = n > s.n_prefix ? n : s.n_prefix;
        if (n > PREFIX_MAX) {
            return constrain_bad(c, parts->p[i].path, "prefixItems", "it has more than %d items",
                                 (int)PREFIX_MAX);
        }
    }
    if (!constrain_range(c, parts, "minItems", "maxItems", &size) || size.is_empty) {
        return size.is_empty;
    }
    s.min = size.min;
    s.max = size.max;
    /* a rule of its own, because it counts */
    s.rule = grammar_rule(c->g);
    grammar_call(c->g, grammar_start(c->g, rule), s.rule, grammar_end(c->g, rule));
    return item_rule(&s, s.n_prefix, &s.rest) && write(&s);
}
