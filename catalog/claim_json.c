/* claim_json.c - see claim_json.h. */
#include "claim_json.h"
#include "catalog.h"
#include "evidence.h"

#include <stdio.h>
#include <stdlib.h>

static json_t *text_or_null(const char *s)
{
    return s ? json_string(s) : json_null();
}

static json_t *number_or_null(bool has, double x)
{
    if (!has) {
        return json_null();
    }
    bool is_whole = x < 9e15 && x > -9e15 && x == (double)(int64_t)x;
    return is_whole ? json_integer((json_int_t)x) : json_real(x);
}

static json_t *shared(const json_t *j)
{
    return j ? json_incref((json_t *)j) : json_null(); /* jansson counts without const */
}

static json_t *when_json(const struct claim_condition *w)
{
    if (!w->param) {
        return json_null();
    }
    return json_pack("{s:s, s:o}", "param", w->param, w->is_negated ? "not_in" : "in",
                     shared(w->values));
}

json_t *claim_json(const struct claim *c)
{
    return json_pack(
        "{s:I, s:s, s:s, s:s, s:s, s:o, s:s, s:b, s:o, s:o, s:b, s:b, s:b, s:o, s:o, s:I, s:I, "
        "s:o, "
        "s:o, s:o, s:s, s:b, s:o, s:o, s:s, s:s, s:s, s:o}",
        "id", (json_int_t)c->id, "provider", c->provider, "models", c->models, "endpoint",
        c->endpoint, "param", c->param, "wire", text_or_null(c->wire), "support",
        claim_support_name(c->support), "required", c->is_required, "min",
        number_or_null(c->has_min, c->min), "max", number_or_null(c->has_max, c->max),
        "min_exclusive", c->min_exclusive, "max_exclusive", c->max_exclusive, "integer",
        c->is_integer, "values", shared(c->values), "default", value_json(c->fallback), "items_max",
        (json_int_t)c->items_max, "len_max", (json_int_t)c->len_max, "conflicts",
        shared(c->conflicts), "needs", shared(c->needs), "when", when_json(&c->when), "variant",
        claim_variant_name(c->variant), "derived", c->is_derived, "valid_from",
        text_or_null(c->valid_from), "valid_to", text_or_null(c->valid_to), "source", c->source,
        "as_of", c->as_of, "confidence", c->confidence, "note", text_or_null(c->note));
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
        (void)snprintf(lo, sizeof lo, "%.10g", c->min);
    }
    if (c->has_max) {
        (void)snprintf(hi, sizeof hi, "%.10g", c->max);
    }
    const char *left = c->min_exclusive ? "(" : "[", *right = c->max_exclusive ? ")" : "]";
    return (size_t)snprintf(out, cap, "%s%s..%s%s", is_closed ? "" : left, lo, hi,
                            is_closed ? "" : right);
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
    if (c->len_max && n < cap) {
        (void)snprintf(out + n, cap - n, "%s%lld chars", n ? " " : "", (long long)c->len_max);
    }
}
