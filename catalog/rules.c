/* rules.c - from all claims of a version to those that hold for one model, on one endpoint, on one
 * day.
 *
 * Sources overlap and disagree; everything they say stays in the catalog. Here one claim is chosen
 * for each parameter (and for each condition of it), by one order of strength: what was set on this
 * machine beats what was shipped, an expression beats "*", a later date beats an earlier one, then
 * a derived row (it says more exactly what a row of its day says of a whole family), then
 * confidence, then the later row.
 *
 * Whoever sets a limit without a condition means it under every condition: an unconditional local
 * claim puts aside the shipped conditional ones of its parameter. A local claim does not make a
 * model known: the stand-in still answers for everything that was not set.
 *
 * Gathering asks a provider's expressions once each (some ten microseconds), so what came out is
 * kept in the snapshot: see rules_cache.h.
 */
#include "rules_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const behaviour_names[BEHAVIOUR_COUNT] = {
    [BEHAVIOUR_SYSTEM_ROLE] = "system_role", [BEHAVIOUR_DEVELOPER_ROLE] = "developer_role",
    [BEHAVIOUR_PREFILL] = "prefill",         [BEHAVIOUR_MESSAGE_NAME] = "message_name",
    [BEHAVIOUR_IMAGES] = "images",           [BEHAVIOUR_UNKNOWN_FIELD] = "unknown_field",
    [BEHAVIOUR_STREAM] = "stream",           [BEHAVIOUR_STREAM_USAGE] = "stream_usage",
    [BEHAVIOUR_ENDPOINT] = "endpoint",       [BEHAVIOUR_CALL_SIGNATURE] = "call_signature",
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
    if (a->is_local != b->is_local) {
        return a->is_local;
    }
    int a_star = a->models[0] == '*', b_star = b->models[0] == '*';
    if (a_star != b_star) {
        return b_star;
    }
    int date =
        strcmp(a->as_of, b->as_of); /* "2026-11" is before "2026-11-17", and so it should be */
    if (date != 0) {
        return date > 0;
    }
    if (a->is_derived != b->is_derived) {
        return a->is_derived;
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
static bool value_in(struct value v, const json_t *words);

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
bool claim_holds_on(const struct claim *c, const char *day)
{
    return (!c->valid_from || strcmp(day, c->valid_from) >= 0) &&
           (!c->valid_to || strncmp(day, c->valid_to, strlen(c->valid_to)) <= 0);
}

/* The rules that are being gathered. */
struct gathering {
    const struct snapshot *s;
    const char *endpoint, *day, *switches;
    struct rules *r;
    bool only_local; /* leave what was shipped aside */
    bool is_full;    /* more conditional claims than rules hold */
    bool is_known;   /* a shipped pattern that counts knows the model */
};

static void put_conditional(struct gathering *g, const struct claim *c)
{
    struct rules *r = g->r;
    for (size_t i = 0; i < r->n_conditional; i++) {
        if (same_condition(r->conditional[i], c)) {
            if (is_stronger(c, r->conditional[i])) {
                r->conditional[i] = c;
            }
            return;
        }
    }
    if (r->n_conditional == RULES_CONDITIONAL_MAX) {
        g->is_full = true;
        return;
    }
    r->conditional[r->n_conditional++] = c;
}

/* The value of a switch in "name=value,name=value"; "absent" where it is not there, or too long for
 * any claim to name it. */
static const char *switch_value(const char *switches, const char *name, char *out, size_t cap)
{
    size_t len = strlen(name);
    for (const char *at = switches; at && *at; at = strchr(at, ',')) {
        at += strspn(at, ", ");
        if (strncmp(at, name, len) == 0 && at[len] == '=') {
            size_t n = strcspn(at + len + 1, ",");
            if (n < cap) {
                memcpy(out, at + len + 1, n);
                out[n] = '\0';
                return out;
            }
        }
    }
    return "absent";
}

/* A condition on a switch that no request can set is settled here. */
static bool is_for_planning(const struct gathering *g, const struct claim *c)
{
    char text[64];
    if (c->variant != CLAIM_CURRENT && c->variant != CLAIM_CONDITIONAL) {
        return false;
    }
    if (!c->when.param || c->when.id != PARAM_COUNT) {
        return true;
    }
    struct value v = {.type = VALUE_STRING,
                      .s = switch_value(g->switches, c->when.param, text, sizeof text)};
    return value_in(v, c->when.values) != c->when.is_negated;
}

static void note_retired(struct rules *r, const struct claim *c, const char *day)
{
    if (c->models[0] != '*' && c->valid_to && strcmp(day, c->valid_to) > 0 &&
        (!r->retired_on || strcmp(c->valid_to, r->retired_on) > 0)) {
        r->retired_on = c->valid_to;
    }
}

/* Puts a claim in its place; whether it counts at all. */
static bool put_claim(struct gathering *g, const struct claim *c)
{
    struct rules *r = g->r;
    if (!is_for_planning(g, c) || (g->only_local && !c->is_local)) {
        return false;
    }
    if (!claim_holds_on(c, g->day)) {
        note_retired(r, c, g->day);
        return false;
    }
    if (c->when.param) {
        put_conditional(g, c);
        return true;
    }
    enum behaviour b = c->param_id == PARAM_COUNT ? find_behaviour(c->param) : BEHAVIOUR_COUNT;
    const struct claim **slot = c->param_id != PARAM_COUNT ? &r->param[c->param_id]
                                : b != BEHAVIOUR_COUNT     ? &r->behaviour[b]
                                                           : NULL;
    if (slot && (!*slot || is_stronger(c, *slot))) {
        *slot = c;
    }
    return true;
}

/* Each expression is asked once for a model, however many groups share it. */
#define MATCHES_KEPT 1024 /* the shipped catalog has some hundred and fifty */
struct matches {
    unsigned char known[MATCHES_KEPT]; /* 0: not asked yet, 1: no, 2: yes */
};

static bool pattern_matches(struct matches *m, const struct snapshot *s,
                            const struct snapshot_pattern *p, const char *model)
{
    size_t at = p ? (size_t)(p - s->patterns) : MATCHES_KEPT;
    if (at >= MATCHES_KEPT) {
        return snapshot_pattern_matches(p, model);
    }
    if (m->known[at] == 0) {
        m->known[at] = snapshot_pattern_matches(p, model) ? 2 : 1;
    }
    return m->known[at] == 2;
}

/* All claims for `model`. */
static void gather(struct gathering *g, const char *model)
{
    struct matches matches = {{0}};
    for (size_t i = 0; i < g->s->n_groups; i++) {
        const struct snapshot_group *group = &g->s->groups[i];
        if (group->provider != g->r->provider->id ||
            !endpoint_matches(group->endpoint, g->endpoint) ||
            !pattern_matches(&matches, g->s, group->pattern, model)) {
            continue;
        }
        for (size_t k = group->first; k < group->first + group->n; k++) {
            const struct claim *c = &g->s->claims[k];
            bool counts = put_claim(g, c);
            g->is_known = g->is_known || (counts && group->pattern && !c->is_local);
        }
    }
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
    if (when->id == PARAM_COUNT) {
        return true; /* a switch: settled when the claim was gathered */
    }
    if (sampling_has(asked, when->id)) {
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
    if (b == BEHAVIOUR_COUNT || !condition_holds(&c->when, &nothing)) {
        return;
    }
    const struct claim *other = r->behaviour[b];
    if (!other || (c->is_local && !other->is_local)) {
        r->behaviour[b] = c;
    }
}

/* What was set here without a condition holds under every condition. */
static void put_aside(struct rules *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_conditional; i++) {
        const struct claim *c = r->conditional[i];
        const struct claim *set = c->param_id != PARAM_COUNT ? r->param[c->param_id] : NULL;
        if (!set || !set->is_local || c->is_local) {
            r->conditional[n++] = c;
        }
    }
    r->n_conditional = n;
}

_Static_assert(RULES_CONDITIONAL_MAX <= UINT8_MAX, "conditional_first holds every place");

static void finish(struct rules *r)
{
    size_t i = 0;
    put_aside(r);
    qsort(r->conditional, r->n_conditional, sizeof r->conditional[0], compare_conditional);
    for (int p = 0; p < PARAM_COUNT; p++) {
        bool is_required = r->param[p] && r->param[p]->is_required;
        r->conditional_first[p] = (uint8_t)i;
        for (; i < r->n_conditional && r->conditional[i]->param_id == (enum param)p; i++) {
            is_required = is_required || r->conditional[i]->is_required;
            enum param on = r->conditional[i]->when.id;
            r->condition_bits |= on == PARAM_COUNT ? 0 : PARAM_BIT(on);
        }
        r->required_bits |= is_required ? PARAM_BIT(p) : 0;
    }
    r->conditional_first[PARAM_COUNT] = (uint8_t)i;
    for (; i < r->n_conditional; i++) {
        settle_behaviour(r, r->conditional[i]);
    }
}

static const char *endpoint_of(const struct provider *p, enum catalog_route route)
{
    return route == CATALOG_CHAT        ? p->chat_endpoint
           : route == CATALOG_CHAT_ALSO ? p->also.chat_endpoint
                                        : p->text_endpoint;
}

/* Everything but the cache. The model is borrowed by `out`. */
static bool make_rules(const struct snapshot *s, const struct rules_key *key, const char *day,
                       struct rules *out, struct catalog_error *err)
{
    const struct provider *p = key->provider;
    const char *model = key->model;
    struct gathering g = {.s = s,
                          .endpoint = endpoint_of(p, key->route),
                          .day = day,
                          .switches = key->switches,
                          .r = out};
    *out = (struct rules){.provider = p, .model = model};
    gather(&g, model);
    out->is_known = g.is_known;
    if (g.is_known) {
        out->retired_on = NULL; /* some claims have ended, the model has not */
    } else if (p->stand_in) {
        const char *retired_on = out->retired_on;
        *out = (struct rules){.provider = p, .model = model, .is_stand_in = true};
        gather(&g, p->stand_in);
        const char *stand_in = g.is_known ? NULL : out->retired_on;
        g.only_local = true;
        gather(&g, model);
        out->retired_on = retired_on ? retired_on : stand_in;
    }
    if (g.is_full) {
        return catalog_fail(err, CATALOG_BAD_DB,
                            "model '%.128s' of '%s' has more than %d conditional claims: give it "
                            "fewer",
                            model, p->id, RULES_CONDITIONAL_MAX);
    }
    finish(out);
    return true;
}

bool snapshot_rules(const struct snapshot *s, const char *provider, const char *model,
                    enum catalog_route route, const char *day, struct rules *out,
                    struct catalog_error *err)
{
    return snapshot_rules_with(s, provider, model, NULL, route, day, out, err);
}

bool snapshot_rules_with(const struct snapshot *s, const char *provider, const char *model,
                         const char *switches, enum catalog_route route, const char *day,
                         struct rules *out, struct catalog_error *err)
{
    const struct provider *p = snapshot_provider(s, provider);
    if (!p) {
        return catalog_fail(err, CATALOG_NOT_FOUND, "the catalog has no provider '%s'", provider);
    }
    struct rules_key key = {
        .provider = p, .model = model, .switches = switches ? switches : "", .route = route};
    bool has_key = rules_cache_era(s->cache, day, &key.era);
    if (has_key && rules_cache_find(s->cache, &key, out)) {
        return true;
    }
    if (!make_rules(s, &key, day, out, err)) {
        return false;
    }
    if (has_key) {
        rules_cache_put(s->cache, &key, out);
    }
    return true;
}

/* ---- retired models */

static bool find_last(const struct claim *c, void *ud)
{
    struct catalog_retired *r = ud;
    bool is_last = c->valid_to && c->models[0] != '*' && strcmp(c->valid_to, r->on) == 0;
    bool is_endpoint = strcmp(c->param, behaviour_names[BEHAVIOUR_ENDPOINT]) == 0;
    if (is_last && (!r->by || is_endpoint)) {
        r->by = c;
    }
    return true;
}

bool snapshot_retired(const struct snapshot *s, const char *provider, const char *model,
                      const char *switches, const char *day, struct catalog_retired *out)
{
    const struct provider *p = snapshot_provider(s, provider);
    struct catalog_retired r = {.on = NULL};
    enum catalog_route last = p && p->also.dialect ? CATALOG_CHAT_ALSO : CATALOG_TEXT;
    for (int route = CATALOG_CHAT; p && route <= (int)last; route++) {
        struct rules rules;
        if (!snapshot_rules_with(s, provider, model, switches, (enum catalog_route)route, day,
                                 &rules, NULL) ||
            rules.is_known) {
            return false;
        }
        bool is_later = rules.retired_on && (!r.on || strcmp(rules.retired_on, r.on) > 0);
        r.on = is_later ? rules.retired_on : r.on;
    }
    if (!r.on) {
        return false;
    }
    snapshot_each(s, provider, model, NULL, find_last, &r);
    if (!r.by && p->stand_in) {
        snapshot_each(s, provider, p->stand_in, NULL, find_last, &r);
    }
    *out = r;
    return r.by != NULL;
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

void rules_forget(struct rules *r, enum param p)
{
    size_t first = r->conditional_first[p], n = r->conditional_first[p + 1] - first;
    r->param[p] = NULL;
    r->required_bits &= ~PARAM_BIT(p);
    memmove(&r->conditional[first], &r->conditional[first + n],
            (r->n_conditional - first - n) * sizeof r->conditional[0]);
    r->n_conditional -= n;
    for (int q = p + 1; q <= PARAM_COUNT; q++) {
        r->conditional_first[q] = (uint8_t)(r->conditional_first[q] - n);
    }
}
