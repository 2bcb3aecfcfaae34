/* claim_json.c - see claim_json.h. */
#include "claim_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *text_or_null(const char *s)
{
    return s ? json_string(s) : json_null();
}

/* As it was written, where that is known: a 64-bit integer is not what its double is. */
static json_t *bound(bool has, double x, struct value written)
{
    if (!has) {
        return json_null();
    }
    if (written.type != VALUE_NONE) {
        return value_json(written);
    }
    bool is_whole = x < 9e15 && x > -9e15 && x == (double)(int64_t)x;
    return is_whole ? json_integer((json_int_t)x) : json_real(x);
}

static json_t *shared(const json_t *j)
{
    return j ? json_incref((json_t *)j) : json_null(); /* jansson counts without const */
}

static json_t *count_or_null(int64_t n)
{
    return n ? json_integer(n) : json_null();
}

static json_t *when_json(const struct claim_condition *w)
{
    if (!w->param) {
        return json_null();
    }
    return json_pack("{s:s, s:o}", "param", w->param, w->is_negated ? "not_in" : "in",
                     shared(w->values));
}

/* Takes `value`; false: memory. */
static bool put(json_t *o, const char *key, json_t *value)
{
    return json_object_set_new_nocheck(o, key, value) == 0;
}

static bool put_place(json_t *o, const struct claim *c)
{
    return put(o, "id", json_integer(c->id)) && put(o, "provider", json_string(c->provider)) &&
           put(o, "models", json_string(c->models)) &&
           put(o, "endpoint", json_string(c->endpoint)) && put(o, "param", json_string(c->param)) &&
           put(o, "source_param", text_or_null(c->source_param)) &&
           put(o, "wire", text_or_null(c->wire));
}

static bool put_range(json_t *o, const struct claim *c)
{
    return put(o, "support", json_string(claim_support_name(c->support))) &&
           put(o, "required", json_boolean(c->is_required)) &&
           put(o, "min", bound(c->has_min, c->min, c->min_value)) &&
           put(o, "max", bound(c->has_max, c->max, c->max_value)) &&
           put(o, "min_exclusive", json_boolean(c->min_exclusive)) &&
           put(o, "max_exclusive", json_boolean(c->max_exclusive)) &&
           put(o, "integer", json_boolean(c->is_integer)) && put(o, "values", shared(c->values)) &&
           put(o, "default", value_json(c->fallback)) &&
           put(o, "items_max", count_or_null(c->items_max)) &&
           put(o, "len_max", count_or_null(c->len_max)) &&
           put(o, "len_min", count_or_null(c->len_min)) &&
           put(o, "no_blank", json_boolean(c->no_blank));
}

static bool put_company(json_t *o, const struct claim *c)
{
    return put(o, "conflicts", shared(c->conflicts)) &&
           put(o, "conflicts_text", shared(c->conflicts_text)) &&
           put(o, "needs", shared(c->needs)) && put(o, "adds", shared(c->adds)) &&
           put(o, "when", when_json(&c->when)) && put(o, "when_text", text_or_null(c->when_text));
}

static bool put_origin(json_t *o, const struct claim *c)
{
    return put(o, "variant", json_string(claim_variant_name(c->variant))) &&
           put(o, "derived", json_boolean(c->is_derived)) &&
           put(o, "local", json_boolean(c->is_local)) &&
           put(o, "valid_from", text_or_null(c->valid_from)) &&
           put(o, "valid_to", text_or_null(c->valid_to)) &&
           put(o, "source", json_string(c->source)) && put(o, "as_of", json_string(c->as_of)) &&
           put(o, "confidence", json_string(c->confidence)) &&
           put(o, "note", text_or_null(c->note)) &&
           put(o, "verdict", json_string(claim_verdict_name(c->verdict))) &&
           put(o, "verdict_on", text_or_null(c->verdict_on));
}

json_t *claim_json(const struct claim *c)
{
    json_t *o = json_object();
    if (o && put_place(o, c) && put_range(o, c) && put_company(o, c) && put_origin(o, c)) {
        return o;
    }
    json_decref(o);
    return NULL;
}

static void number_text(double x, struct value written, char *out, size_t cap)
{
    if (written.type == VALUE_INT) {
        (void)snprintf(out, cap, "%lld", (long long)written.i);
    } else {
        (void)snprintf(out, cap, "%.10g", x);
    }
}

/* "0..2", or with brackets where a bound itself is not taken: "(0..1]". */
static size_t bounds_text(const struct claim *c, char *out, size_t cap)
{
    bool is_closed = !c->min_exclusive && !c->max_exclusive;
    char lo[32] = "", hi[32] = "";
    if (!c->has_min && !c->has_max) {
        return 0;
    }
    if (c->has_min) {
        number_text(c->min, c->min_value, lo, sizeof lo);
    }
    if (c->has_max) {
        number_text(c->max, c->max_value, hi, sizeof hi);
    }
    const char *left = c->min_exclusive ? "(" : "[", *right = c->max_exclusive ? ")" : "]";
    return (size_t)snprintf(out, cap, "%s%s..%s%s", is_closed ? "" : left, lo, hi,
                            is_closed ? "" : right);
}

static void put_length(const struct claim *c, size_t n, char *out, size_t cap)
{
    const char *gap = n ? " " : "";
    if (n >= cap) {
        return;
    }
    if (c->len_min && c->len_max) {
        (void)snprintf(out + n, cap - n, "%s%lld..%lld chars", gap, (long long)c->len_min,
                       (long long)c->len_max);
    } else if (c->len_min) {
        (void)snprintf(out + n, cap - n, "%s>=%lld chars", gap, (long long)c->len_min);
    } else if (c->len_max) {
        (void)snprintf(out + n, cap - n, "%s%lld chars", gap, (long long)c->len_max);
    }
}

void claim_range_text(const struct claim *c, char *out, size_t cap)
{
    out[0] = '\0';
    size_t n = bounds_text(c, out, cap);
    for (size_t i = 0; i < json_array_size(c->values) && n < cap; i++) {
        char *text = json_dumps(json_array_get(c->values, i), JSON_ENCODE_ANY);
        n += (size_t)snprintf(out + n, cap - n, "%s%s", i ? "|" : n ? " " : "", text ? text : "?");
        free(text);
    }
    if (c->items_max && n < cap) {
        n += (size_t)snprintf(out + n, cap - n, "%s%lld items", n ? " " : "",
                              (long long)c->items_max);
    }
    put_length(c, n, out, cap);
}

static struct value number_value(const json_t *j)
{
    return json_is_integer(j) ? (struct value){.type = VALUE_INT, .i = json_integer_value(j)}
           : json_is_real(j)  ? (struct value){.type = VALUE_NUMBER, .d = json_real_value(j)}
                              : (struct value){.type = VALUE_NONE};
}

void claim_range_text_json(const json_t *claim, char *out, size_t cap)
{
    const json_t *min = json_object_get(claim, "min"), *max = json_object_get(claim, "max");
    const json_t *values = json_object_get(claim, "values");
    struct claim c = {
        .has_min = json_is_number(min),
        .has_max = json_is_number(max),
        .min = json_number_value(min),
        .max = json_number_value(max),
        .min_value = number_value(min),
        .max_value = number_value(max),
        .min_exclusive = json_is_true(json_object_get(claim, "min_exclusive")),
        .max_exclusive = json_is_true(json_object_get(claim, "max_exclusive")),
        .values = json_is_array(values) ? values : NULL,
        .items_max = json_integer_value(json_object_get(claim, "items_max")),
        .len_max = json_integer_value(json_object_get(claim, "len_max")),
        .len_min = json_integer_value(json_object_get(claim, "len_min")),
    };
    claim_range_text(&c, out, cap);
}

/* ---- versions */

json_t *version_json(const struct catalog_version *v)
{
    return json_pack("{s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "version",
                     (json_int_t)v->number, "parent", (json_int_t)v->parent, "base",
                     (json_int_t)v->base, "kind", version_kind_name(v->kind), "hash", v->hash,
                     "created", v->created, "author", v->author, "reason", v->reason, "claims",
                     (json_int_t)v->n_claims, "conflicts", (json_int_t)v->n_conflicts);
}

/* Appends the keys of `a` whose value in `b` is another; with `only_missing`, that `b` lacks. */
static bool add_fields(json_t *out, const json_t *a, const json_t *b, bool only_missing)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)a, key, value) { /* jansson's iterators lack const */
        const json_t *other = json_object_get(b, key);
        bool differs = only_missing ? !other : !json_equal(value, other);
        bool is_place = strcmp(key, "id") == 0 || strcmp(key, "version") == 0;
        if (differs && !is_place && json_array_append_new(out, json_string(key)) != 0) {
            return false;
        }
    }
    return true;
}

json_t *difference_fields(const json_t *before, const json_t *after)
{
    json_t *out = json_array();
    if (!out || !add_fields(out, after, before, false) || !add_fields(out, before, after, true)) {
        json_decref(out);
        return NULL;
    }
    return out;
}

json_t *difference_json(const struct version_difference *d)
{
    static const char *const names[] = {
        [VERSION_ADDED] = "added", [VERSION_REMOVED] = "removed", [VERSION_CHANGED] = "changed"};
    json_t *fields =
        d->change == VERSION_CHANGED ? difference_fields(d->before, d->after) : json_array();
    return json_pack("{s:s, s:s, s:o, s:o, s:o}", "change", names[d->change], "kind",
                     d->is_provider ? "provider" : "claim", "fields", fields, "before",
                     shared(d->before), "after", shared(d->after));
}

json_t *life_json(const struct version_life *l)
{
    return json_pack("{s:I, s:o, s:s, s:o, s:s, s:s, s:o}", "first", (json_int_t)l->first, "last",
                     count_or_null(l->last), "since", l->since, "until", text_or_null(l->until),
                     "author", l->author, "reason", l->reason, "claim", shared(l->claim));
}

/* ---- evidence */

/* {"verdict","origin","model","status","value","excerpt","seen","n"} */
static json_t *evidence_json(const struct evidence *e)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:I}", "verdict",
                     claim_verdict_name(e->verdict), "origin", evidence_origin_name(e->origin),
                     "model", e->model, "status", e->status, "value", e->value, "excerpt",
                     e->excerpt, "seen", e->seen, "n", (json_int_t)e->n);
}

struct gathered {
    json_t *list;
    bool has_memory;
};

static bool gather(const struct evidence *e, void *ud)
{
    struct gathered *g = ud;
    g->has_memory = json_array_append_new(g->list, evidence_json(e)) == 0;
    return g->has_memory;
}

bool evidence_add_json(struct catalog *c, json_t *lives, struct catalog_error *err)
{
    for (size_t i = 0; i < json_array_size(lives); i++) {
        json_t *life = json_array_get(lives, i);
        struct gathered g = {.list = json_array(), .has_memory = true};
        int64_t id = json_integer_value(json_object_get(json_object_get(life, "claim"), "id"));
        if (json_object_set_new(life, "evidence", g.list) != 0) {
            return catalog_fail(err, CATALOG_NOMEM, "out of memory");
        }
        if (!evidence_each(c, id, gather, &g, err)) {
            return false;
        }
        if (!g.has_memory) {
            return catalog_fail(err, CATALOG_NOMEM, "out of memory");
        }
    }
    return true;
}
