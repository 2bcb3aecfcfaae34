/* rules.c - from all claims of a version to those that hold for one model, on one endpoint, on one
 * day.
 *
 * Sources overlap and disagree; everything they say stays in the catalog. Here one claim is chosen
 * for each parameter (and for each condition of it), by one order of strength: an expression beats
 * "*", a later date beats an earlier one, then confidence, then the later row.
 */
#include "snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const behaviour_names[BEHAVIOUR_COUNT] = {
    [BEHAVIOUR_SYSTEM_ROLE] = "system_role", [BEHAVIOUR_DEVELOPER_ROLE] = "developer_role",
    [BEHAVIOUR_PREFILL] = "prefill",         [BEHAVIOUR_MESSAGE_NAME] = "message_name",
    [BEHAVIOUR_IMAGES] = "images",           [BEHAVIOUR_UNKNOWN_FIELD] = "unknown_field",
    [BEHAVIOUR_STREAM] = "stream",           [BEHAVIOUR_STREAM_USAGE] = "stream_usage",
    [BEHAVIOUR_ENDPOINT] = "endpoint",
};

const char *behaviour_name(enum behaviour b)
{
    return behaviour_names[b];
}

static enum behaviour find_behaviour(const char *name)
{
    int b = 0;
    while (b < BEHAVIOUR_COUNT && strcmp(behaviour_names[b], name) != 0) {
        b++;
    }
    return (enum behaviour)b;
}

/* ---- which claim is stronger */

static int confidence_rank(const struct claim *c)
{
    return c->confidence[0] == 'h' ? 2 : c->confidence[0] == 'm' ? 1 : 0;
}

static bool is_stronger(const struct claim *a, const struct claim *b)
{
    int a_star = a->models[0] == '*', b_star = b->models[0] == '*';
    if (a_star != b_star) {
        return b_star;
    }
    int date =
        strcmp(a->as_of, b->as_of); /* "2026-11" is before "2026-11-17", and so it should be */
    if (date != 0) {
        return date > 0;
    }
    if (confidence_rank(a) != confidence_rank(b)) {
        return confidence_rank(a) > confidence_rank(b);
    }
    return a > b; /* both are in the snapshot's list, which is in the order of the sources */
}

static bool same_condition(const struct claim *a, const struct claim *b)
{
    return a->param_id == b->param_id && strcmp(a->param, b->param) == 0 &&
           strcmp(a->when.param, b->when.param) == 0 && a->when.is_negated == b->when.is_negated &&
           (a->when.values == b->when.values || json_equal(a->when.values, b->when.values));
}

/* ---- which claims count */

static const struct sampling nothing; /* an empty request */
static bool condition_holds(const struct claim_condition *when, const struct sampling *asked);

/* "POST /a | POST /b" names equivalent paths; one of them must begin like `wanted`. */
static bool endpoint_matches(const char *endpoint, const char *wanted)
{
    size_t len = wanted ? strlen(wanted) : 0;
    while (endpoint) {
        endpoint += strspn(endpoint, " |");
        if (strncmp(endpoint, wanted ? wanted : "", len) == 0) {
            return true;
        }
        endpoint = strchr(endpoint, '|');
    }
    return false;
}

/* Partial dates hold to the end of the month or year that they name: only as much of the day is
 * compared. */
static bool is_valid_on(const struct claim *c, const char *day)
{
    return (!c->valid_from || strcmp(day, c->valid_from) >= 0) &&
           (!c->valid_to || strncmp(day, c->valid_to, strlen(c->valid_to)) <= 0);
}

static void put_conditional(struct rules *r, const struct claim *c)
{
    for (size_t i = 0; i < r->n_conditional; i++) {
        if (same_condition(r->conditional[i], c)) {
            if (is_stronger(c, r->conditional[i])) {
                r->conditional[i] = c;
            }
            return;
        }
    }
    if (r->n_conditional < RULES_CONDITIONAL_MAX) {
        r->conditional[r->n_conditional++] = c;
    }
}

/* A condition on a switch that no request can set is settled here. */
static bool is_for_planning(const struct claim *c)
{
    if (c->variant != CLAIM_CURRENT && c->variant != CLAIM_CONDITIONAL) {
        return false;
    }
    return !c->when.param || c->when.id != PARAM_COUNT || condition_holds(&c->when, &nothing);
}

static void note_retired(struct rules *r, const struct claim *c, const char *day)
{
    if (c->models[0] != '*' && c->valid_to && strcmp(day, c->valid_to) > 0 &&
        (!r->retired_on || strcmp(c->valid_to, r->retired_on) > 0)) {
        r->retired_on = c->valid_to;
    }
}

/* Puts a claim in its place; whether it counts at all. */
static bool put_claim(struct rules *r, const struct claim *c, const char *day)
{
    if (!is_for_planning(c)) {
        return false;
    }
    if (!is_valid_on(c, day)) {
        note_retired(r, c, day);
        return false;
    }
    if (c->when.param) {
        put_conditional(r, c);
        return true;
    }
    enum behaviour b = find_behaviour(c->param);
    const struct claim **slot = c->param_id != PARAM_COUNT ? &r->param[c->param_id]
                                : b != BEHAVIOUR_COUNT     ? &r->behaviour[b]
                                                           : NULL;
    if (slot && (!*slot || is_stronger(c, *slot))) {
        *slot = c;
    }
    return true;
}

/* All claims for `model`; whether a pattern knows it. */
static bool gather(const struct snapshot *s, const char *endpoint, const char *model,
                   const char *day, struct rules *r)
{
    bool is_known = false;
    for (size_t g = 0; g < s->n_groups; g++) {
        const struct snapshot_group *group = &s->groups[g];
        if (strcmp(group->provider, r->provider->id) != 0 ||
            !endpoint_matches(group->endpoint, endpoint) ||
            !snapshot_pattern_matches(group->pattern, model)) {
            continue;
        }
        for (size_t i = group->first; i < group->first + group->n; i++) {
            bool counts = put_claim(r, &s->claims[i], day);
            is_known = is_known || (counts && group->pattern);
        }
    }
    return is_known;
}

/* ---- conditions */

/* Whether the value is one of the words; numbers are compared as numbers: 0, 0.0 and "0" are one.
 */
static bool value_in(struct value v, const json_t *words)
{
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *word = json_string_value(json_array_get(words, i));
        const char *text = v.type == VALUE_STRING ? v.s
                           : v.type == VALUE_BOOL ? (v.b ? "true" : "false")
                           : v.type == VALUE_JSON ? json_string_value(v.j)
                           : v.type == VALUE_NONE ? "absent"
                                                  : NULL;
        if (text && strcmp(text, word) == 0) {
            return true;
        }
        char *end;
        double x = strtod(word, &end);
        if ((v.type == VALUE_INT && *end == '\0' && x == (double)v.i) ||
            (v.type == VALUE_NUMBER && *end == '\0' && x == v.d)) {
            return true;
        }
    }
    return false;
}

static bool condition_holds(const struct claim_condition *when, const struct sampling *asked)
{
    struct value v = {.type = VALUE_NONE};
    if (when->id != PARAM_COUNT && sampling_has(asked, when->id)) {
        v = asked->v[when->id];
    }
    return value_in(v, when->values) != when->is_negated;
}

static int compare_conditional(const void *a, const void *b)
{
    const struct claim *const *x = a, *const *y = b;
    int order = (int)(*x)->param_id - (int)(*y)->param_id;
    return order != 0 ? order : *x == *y ? 0 : is_stronger(*x, *y) ? -1 : 1;
}

/* A behaviour is asked without a request, so the claim that holds for an empty request stands in
 * its place. */
static void settle_behaviour(struct rules *r, const struct claim *c)
{
    enum behaviour b = find_behaviour(c->param);
    if (b != BEHAVIOUR_COUNT && !r->behaviour[b] && condition_holds(&c->when, &nothing)) {
        r->behaviour[b] = c;
    }
}

_Static_assert(RULES_CONDITIONAL_MAX <= UINT8_MAX, "conditional_first holds every place");

static void finish(struct rules *r)
{
    size_t i = 0;
    qsort(r->conditional, r->n_conditional, sizeof r->conditional[0], compare_conditional);
    for (int p = 0; p < PARAM_COUNT; p++) {
        bool is_required = r->param[p] && r->param[p]->is_required;
        r->conditional_first[p] = (uint8_t)i;
        for (; i < r->n_conditional && r->conditional[i]->param_id == (enum param)p; i++) {
            is_required = is_required || r->conditional[i]->is_required;
        }
        r->required_bits |= is_required ? PARAM_BIT(p) : 0;
    }
    r->conditional_first[PARAM_COUNT] = (uint8_t)i;
    for (; i < r->n_conditional; i++) {
        settle_behaviour(r, r->conditional[i]);
    }
}

bool snapshot_rules(const struct snapshot *s, const char *provider, const char *model,
                    enum catalog_route route, const char *day, struct rules *out,
                    struct catalog_error *err)
{
    const struct provider *p = snapshot_provider(s, provider);
    if (!p) {
        return catalog_fail(err, CATALOG_NOT_FOUND, "the catalog has no provider '%s'", provider);
    }
    const char *endpoint = route == CATALOG_CHAT ? p->chat_endpoint : p->text_endpoint;
    *out = (struct rules){.provider = p, .model = model};
    if (gather(s, endpoint, model, day, out)) {
        out->retired_on = NULL; /* some claims have ended, the model has not */
    } else if (p->stand_in) {
        const char *retired_on = out->retired_on;
        *out = (struct rules){.provider = p, .model = model, .is_stand_in = true};
        (void)gather(s, endpoint, p->stand_in, day, out);
        out->retired_on = retired_on;
    }
    finish(out);
    return true;
}

const struct claim *rules_claim(const struct rules *r, enum param p, const struct sampling *asked)
{
    for (size_t i = r->conditional_first[p]; i < r->conditional_first[p + 1]; i++) {
        if (condition_holds(&r->conditional[i]->when, asked)) {
            return r->conditional[i];
        }
    }
    if (p == PARAM_NUM_BEAMS && !r->param[p]) {
        /* Sources speak of beam search as one thing; a yes says nothing about where the width goes.
         */
        const struct claim *beams = rules_claim(r, PARAM_USE_BEAM_SEARCH, asked);
        return beams && beams->support != CLAIM_YES ? beams : NULL;
    }
    return r->param[p];
}
