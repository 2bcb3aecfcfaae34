/* plan.c - the one place where it is decided what a backend is sent.
 *
 * Four passes over bits, no memory, no clock: each parameter against its claim (plan_range.c
 * judges, the policy decides); then pairs that may not travel together; then what the provider
 * demands; then names. Whatever a pass changes it writes down as an adjustment.
 *
 * Families with claims for "reasoning effort none" and for "other than none": a request that leaves
 * the effort out is planned with the second, stricter set, because sources disagree about the
 * default. If the default is none after all, a parameter that would have been taken falls back by
 * policy; the other way round it would have been a 400.
 */
#include "plan_range.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const action_names[] = {
    [ACTION_CLAMPED] = "clamped",     [ACTION_RENAMED] = "renamed",
    [ACTION_REWRITTEN] = "rewritten", [ACTION_DROPPED] = "dropped",
    [ACTION_ADDED] = "added",         [ACTION_MOVED] = "moved",
    [ACTION_SPLIT] = "split",         [ACTION_NOT_SERVED] = "not_served",
};

static const char *const reason_names[] = {
    [REASON_ABOVE_MAX] = "above_max",
    [REASON_BELOW_MIN] = "below_min",
    [REASON_NOT_A_VALUE] = "not_a_value",
    [REASON_UNSUPPORTED] = "unsupported",
    [REASON_IGNORED_BY_PROVIDER] = "ignored_by_provider",
    [REASON_CONFLICT] = "conflict",
    [REASON_UNKNOWN_PARAMETER] = "unknown_parameter",
    [REASON_LIST_TOO_LONG] = "list_too_long",
    [REASON_STRING_TOO_LONG] = "string_too_long",
    [REASON_REQUIRED] = "required",
    [REASON_WIRE_NAME] = "wire_name",
    [REASON_OTHER_SCOPE] = "other_scope",
    [REASON_ENFORCED_LOCALLY] = "enforced_locally",
    [REASON_ROLE] = "role",
    [REASON_NOT_SERVED] = "not_served",
};
_Static_assert(sizeof action_names / sizeof action_names[0] == ACTION_NOT_SERVED + 1, "all named");
_Static_assert(sizeof reason_names / sizeof reason_names[0] == REASON_NOT_SERVED + 1, "all named");
/* Each parameter leaves at most two adjustments (a value and a name, or a loss), each required one
 * a third. */
_Static_assert(PLAN_ADJ_MAX >= 2 * PARAM_COUNT, "a plan of every parameter fits");

const char *action_name(enum action a)
{
    return action_names[a];
}

const char *reason_name(enum reason r)
{
    return reason_names[r];
}

struct planning {
    const struct rules *rules;
    const struct policy *policy;
    const struct sampling *asked;
    bool is_fallback;
    bool is_rejected;
    struct plan *out;
    const struct claim *claim[PARAM_COUNT]; /* of parameters that were asked or added */
};

/* ---- what a decision writes down */

bool plan_adjust(struct plan *p, struct adjustment a)
{
    if (p->n_adj == PLAN_ADJ_MAX) {
        return false;
    }
    p->adj[p->n_adj++] = a;
    return true;
}

static void note(struct planning *pl, enum param p, enum action action, enum reason reason,
                 struct value sent)
{
    const struct claim *c = pl->claim[p];
    struct adjustment a = {.param = p,
                           .name = sampling_table[p].name,
                           .action = action,
                           .sent = sent,
                           .reason = reason,
                           .claim = c ? c->id : 0};
    if (sampling_has(pl->asked, p)) {
        a.asked = pl->asked->v[p];
    }
    (void)plan_adjust(pl->out, a); /* the size of the list is proved above */
}

static const struct value nothing = {.type = VALUE_NONE};

/* The first rejection is the answer. */
static void reject(struct planning *pl, enum param p, enum reason reason)
{
    static const char *const why[] = {
        [REASON_ABOVE_MAX] = "is above what it takes",
        [REASON_BELOW_MIN] = "is below what it takes",
        [REASON_NOT_A_VALUE] = "is not a value that it takes",
        [REASON_UNSUPPORTED] = "is not supported there",
        [REASON_IGNORED_BY_PROVIDER] = "is accepted there without effect",
        [REASON_CONFLICT] = "may not be combined there with another parameter of this request",
        [REASON_LIST_TOO_LONG] = "has more items than it takes",
        [REASON_STRING_TOO_LONG] = "is longer than it takes",
        [REASON_REQUIRED] = "is required there and no default is known",
    };
    if (pl->is_rejected) {
        return;
    }
    const struct claim *c = pl->claim[p];
    char range[64] = "";
    if (reason == REASON_ABOVE_MAX && c && c->has_max) {
        (void)snprintf(range, sizeof range, " (%s %.10g)", c->max_exclusive ? "below" : "at most",
                       c->max);
    } else if (reason == REASON_BELOW_MIN && c && c->has_min) {
        (void)snprintf(range, sizeof range, " (%s %.10g)", c->min_exclusive ? "above" : "at least",
                       c->min);
    }
    pl->is_rejected = true;
    pl->out->rejected = p;
    (void)snprintf(pl->out->reject_text, sizeof pl->out->reject_text,
                   "'%s' for %.32s/%.64s: it %s%s: %s", sampling_table[p].name,
                   pl->rules->provider->id, pl->rules->model, why[reason], range,
                   reason == REASON_REQUIRED ? "give it" : "change it, or the policy");
}

static void keep(struct planning *pl, enum param p, struct value v)
{
    sampling_set(&pl->out->send, p, v);
    pl->out->wire[p] = pl->claim[p]->wire;
}

/* Takes a parameter out again, with what was noted about it. */
static void take_out(struct planning *pl, enum param p)
{
    struct plan *out = pl->out;
    size_t n = 0;
    for (size_t i = 0; i < out->n_adj; i++) {
        if (out->adj[i].param != p) {
            out->adj[n++] = out->adj[i];
        }
    }
    out->n_adj = n;
    out->wire[p] = NULL;
    sampling_clear(&out->send, p);
}

static void lose(struct planning *pl, enum param p, enum reason reason)
{
    note(pl, p, ACTION_DROPPED, reason, nothing);
}

static void fall_back(struct planning *pl, enum param p, enum reason reason)
{
    pl->out->because |= PARAM_BIT(p);
    lose(pl, p, reason); /* says why; what is sent is decided by the fallback's own plan */
}

static bool is_required(const struct planning *pl, enum param p)
{
    return (pl->policy->require & PARAM_BIT(p)) != 0;
}

/* ---- pass 1: each parameter against its claim */

static void not_supported(struct planning *pl, enum param p, enum reason reason)
{
    bool is_hint = sampling_table[p].kind == PARAM_HINT;
    enum plan_unsupported policy = pl->policy->on_unsupported;
    if (is_hint && !is_required(pl, p)) {
        lose(pl, p, reason);
    } else if (is_hint || pl->is_fallback || policy == PLAN_UNSUPPORTED_REJECT) {
        reject(pl, p, reason); /* no other backend would do better, or none may be asked */
    } else if (policy == PLAN_UNSUPPORTED_LOCAL) {
        fall_back(pl, p, reason);
    } else if (is_required(pl, p)) {
        reject(pl, p, reason);
    } else {
        lose(pl, p, reason);
    }
}

static void out_of_range(struct planning *pl, enum param p, const struct plan_fitting *f)
{
    bool may_fall_back = !pl->is_fallback;
    if (is_required(pl, p)) {
        may_fall_back = may_fall_back && pl->policy->on_unsupported == PLAN_UNSUPPORTED_LOCAL &&
                        pl->policy->on_out_of_range != PLAN_RANGE_REJECT;
    } else if (pl->policy->on_out_of_range == PLAN_RANGE_CLAMP) {
        keep(pl, p, f->nearest);
        note(pl, p, ACTION_CLAMPED, f->reason, f->nearest);
        return;
    } else if (pl->policy->on_out_of_range == PLAN_RANGE_REJECT) {
        may_fall_back = false;
    }
    if (may_fall_back) {
        fall_back(pl, p, f->reason);
    } else {
        reject(pl, p, f->reason);
    }
}

static void plan_stop_strings(struct planning *pl, struct value v);

static void plan_param(struct planning *pl, enum param p)
{
    struct value v = pl->asked->v[p];
    const struct claim *c = pl->claim[p] = rules_claim(pl->rules, p, pl->asked);
    struct plan_fitting f = plan_fit_value(c, p, v);
    if (sampling_is_neutral(p, v)) {
        /* Where one value is all there is, sending it can only fail (Anthropic 2026-08: some read
         * it, some refuse the field). Nor is an empty list ever sent: OpenAI refuses it
         * (empty_array). An explicit zero is. */
        if (f.fit == PLAN_FITS && !plan_is_fixed(c) && v.type != VALUE_JSON) {
            keep(pl, p, v);
        }
    } else if (p == PARAM_STOP) {
        plan_stop_strings(pl, v);
    } else if (f.fit == PLAN_FITS) {
        keep(pl, p, v);
    } else if (f.fit == PLAN_NEAR) {
        out_of_range(pl, p, &f);
    } else {
        not_supported(pl, p, f.reason);
    }
}

/* ---- stop strings: what the provider does not take, the gateway cuts itself */

static bool is_blank(const json_t *item)
{
    const char *s = json_string_value(item);
    size_t n = json_string_length(item);
    return s && strspn(s, " \t\n\v\f\r") == n;
}

static bool stop_is_fit(const struct plan *p, const json_t *item)
{
    return (p->stop_len_max == 0 || json_string_length(item) <= p->stop_len_max) &&
           (!p->stop_no_blank || !is_blank(item));
}

static size_t count_fit(const struct plan *p, const json_t *stop, size_t n)
{
    size_t n_fit = 0;
    for (size_t i = 0; i < n; i++) {
        n_fit += stop_is_fit(p, json_array_get(stop, i));
    }
    return n_fit;
}

bool plan_stop_is_sent(const struct plan *p, const json_t *stop, size_t i)
{
    return sampling_has(&p->send, PARAM_STOP) && i < json_array_size(stop) &&
           stop_is_fit(p, json_array_get(stop, i)) && count_fit(p, stop, i) < p->stop_sent;
}

static void plan_stop_strings(struct planning *pl, struct value v)
{
    struct plan *out = pl->out;
    const struct claim *c = pl->claim[PARAM_STOP];
    size_t n = json_array_size(v.j);
    if (!c || c->support != CLAIM_YES) {
        out->stop_is_local = true;
        note(pl, PARAM_STOP, ACTION_MOVED, REASON_ENFORCED_LOCALLY, nothing);
        return;
    }
    out->stop_no_blank = c->no_blank;
    out->stop_len_max =
        c->len_max > 0 ? (size_t)c->len_max : 0; /* bytes: never more than characters */
    size_t n_fit = count_fit(out, v.j, n);
    bool is_long = c->items_max > 0 && n_fit > (size_t)c->items_max;
    out->stop_sent = is_long ? (size_t)c->items_max : n_fit;
    out->stop_is_local = out->stop_sent < n;
    if (out->stop_sent > 0) {
        keep(pl, PARAM_STOP, v);
    }
    if (out->stop_is_local) {
        note(pl, PARAM_STOP, out->stop_sent > 0 ? ACTION_SPLIT : ACTION_MOVED,
             is_long ? REASON_LIST_TOO_LONG : REASON_ENFORCED_LOCALLY,
             out->stop_sent > 0 ? (struct value){.type = VALUE_INT, .i = (int64_t)out->stop_sent}
                                : nothing);
    }
}

/* ---- pass 2: what may not travel together */

/* The loss of a parameter that alone would have been fine: it is not the backend's lack, so no
 * reason to leave the backend, unless the parameter is required. */
static void lose_to_conflict(struct planning *pl, enum param loser)
{
    take_out(pl, loser);
    if (sampling_is_neutral(loser, pl->asked->v[loser])) {
        return;
    }
    if (is_required(pl, loser)) {
        not_supported(pl, loser, REASON_CONFLICT);
    } else if (pl->policy->on_unsupported == PLAN_UNSUPPORTED_REJECT &&
               sampling_table[loser].kind == PARAM_SHAPES) {
        reject(pl, loser, REASON_CONFLICT);
    } else {
        lose(pl, loser, REASON_CONFLICT);
    }
}

static void settle(struct planning *pl, enum param a, enum param b)
{
    enum param first = a < b ? a : b; /* temperature is the first in the table: it beats top_p */
    enum param second = a < b ? b : a;
    /* By what was asked: a temperature that was clamped to 1 still asks for something. */
    bool first_is_neutral = sampling_is_neutral(first, pl->asked->v[first]);
    bool second_is_neutral = sampling_is_neutral(second, pl->asked->v[second]);
    lose_to_conflict(pl, first_is_neutral && !second_is_neutral ? first : second);
}

static void plan_conflicts(struct planning *pl, enum param p)
{
    const json_t *others = pl->claim[p]->conflicts;
    for (size_t i = 0; i < json_array_size(others) && sampling_has(&pl->out->send, p); i++) {
        enum param q = sampling_find(json_string_value(json_array_get(others, i)));
        if (q != PARAM_COUNT && q != p && sampling_has(&pl->out->send, q)) {
            settle(pl, p, q);
        }
    }
    /* What is said about tools means nothing without them: a rule of the schema. */
    bool is_about_tools = p == PARAM_TOOL_CHOICE || p == PARAM_PARALLEL_TOOL_CALLS;
    if (is_about_tools && sampling_has(&pl->out->send, p) &&
        !sampling_has(&pl->out->send, PARAM_TOOLS)) {
        lose_to_conflict(pl, p);
    }
    const json_t *needs = pl->claim[p]->needs;
    for (size_t i = 0; i < json_array_size(needs) && sampling_has(&pl->out->send, p); i++) {
        enum param q = sampling_find(json_string_value(json_array_get(needs, i)));
        if (q != PARAM_COUNT && !sampling_has(&pl->out->send, q)) {
            lose_to_conflict(pl, p);
        }
    }
}

/* ---- pass 3: what the provider demands */

static void plan_required(struct planning *pl, enum param p)
{
    const struct claim *c = rules_claim(pl->rules, p, pl->asked);
    if (!c || !c->is_required || c->support != CLAIM_YES || sampling_has(&pl->out->send, p) ||
        sampling_has(pl->asked, p)) {
        return;
    }
    struct value v = c->fallback;
    pl->claim[p] = c;
    if (v.type == VALUE_NONE && c->has_max) {
        v = plan_number(p, c->max);
    }
    if (v.type == VALUE_NONE) {
        reject(pl, p, REASON_REQUIRED);
        return;
    }
    keep(pl, p, v);
    note(pl, p, ACTION_ADDED, REASON_REQUIRED, v);
}

/* ---- pass 4: names */

/* Whether the path says the parameter's own name, first or last: `tool_choice.type` and
 * `options.top_k` do, `stop_sequences` does not. A response format is one field with two canonical
 * names. */
static bool is_own_name(enum param p, const char *wire)
{
    bool is_format =
        p == PARAM_RESPONSE_FORMAT_JSON_OBJECT || p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA;
    const char *name = is_format ? "response_format" : sampling_table[p].name;
    const char *last = strrchr(wire, '.');
    size_t len = strlen(name);
    return strcmp(last ? last + 1 : wire, name) == 0 ||
           (strncmp(wire, name, len) == 0 && (wire[len] == '.' || wire[len] == '\0'));
}

static void plan_name(struct planning *pl, enum param p)
{
    if (sampling_has(pl->asked, p) && !is_own_name(p, pl->out->wire[p])) {
        note(pl, p, ACTION_RENAMED, REASON_WIRE_NAME, pl->out->send.v[p]);
        if (p == PARAM_STOP && pl->out->stop_is_local) {
            struct adjustment *a = &pl->out->adj[pl->out->n_adj - 1];
            a->sent = (struct value){.type = VALUE_INT, .i = (int64_t)pl->out->stop_sent};
        }
    }
}

static void each(struct planning *pl, uint64_t bits, void (*pass)(struct planning *, enum param))
{
    for (int p = 0; p < PARAM_COUNT; p++) {
        if ((bits >> p) & 1) {
            pass(pl, (enum param)p);
        }
    }
}

/* All bits, read once: the second pass may take out what it has not come to yet. */
static void plan_conflicts_if_sent(struct planning *pl, enum param p)
{
    if (sampling_has(&pl->out->send, p)) {
        plan_conflicts(pl, p);
    }
}

void plan_make(const struct rules *r, const struct policy *pol, const struct sampling *asked,
               bool is_fallback, struct plan *out)
{
    struct planning pl = {
        .rules = r, .policy = pol, .asked = asked, .is_fallback = is_fallback, .out = out};
    memset(out, 0, sizeof *out);
    out->route = PLAN_TARGET;
    out->rejected = PARAM_COUNT;
    each(&pl, asked->has, plan_param);
    each(&pl, out->send.has, plan_conflicts_if_sent);
    each(&pl, r->required_bits, plan_required);
    each(&pl, out->send.has, plan_name);
    if (pl.is_rejected) {
        struct plan rejected = {.route = PLAN_REJECT, .rejected = out->rejected};
        memcpy(rejected.reject_text, out->reject_text, sizeof rejected.reject_text);
        *out = rejected;
    } else if (out->because) {
        out->route = PLAN_FALLBACK;
    }
}

/* ---- reports */

json_t *plan_asked_json(const struct adjustment *a)
{
    return value_json(a->asked);
}

json_t *plan_sent_json(const struct plan *p, const struct adjustment *a)
{
    if (a->param != PARAM_STOP || a->sent.type != VALUE_INT) {
        return value_json(a->sent);
    }
    const json_t *stop = p->send.v[PARAM_STOP].j;
    json_t *list = json_array();
    for (size_t i = 0; list && i < json_array_size(stop); i++) {
        if (plan_stop_is_sent(p, stop, i) &&
            json_array_append(list, json_array_get(stop, i)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* ---- invariants */

static bool is_named(const struct plan *p, enum param param, bool is_added)
{
    for (size_t i = 0; i < p->n_adj; i++) {
        if (p->adj[i].param == param && (!is_added || p->adj[i].action == ACTION_ADDED)) {
            return true;
        }
    }
    return false;
}

static bool is_accounted(const struct plan *p, const struct sampling *asked, enum param param)
{
    bool is_sent = sampling_has(&p->send, param);
    if (!sampling_has(asked, param)) {
        return !is_sent || is_named(p, param, true);
    }
    struct value v = asked->v[param];
    bool is_whole =
        is_sent && value_equal(v, p->send.v[param]) && !(param == PARAM_STOP && p->stop_is_local);
    return is_whole || (!is_sent && sampling_is_neutral(param, v)) || is_named(p, param, false);
}

bool plan_check_invariants(const struct plan *p, const struct sampling *asked)
{
    if (p->route == PLAN_REJECT) {
        return p->rejected < PARAM_COUNT && p->reject_text[0] && !p->send.has && !p->because &&
               p->n_adj == 0;
    }
    for (int i = 0; i < PARAM_COUNT; i++) {
        enum param param = (enum param)i;
        bool is_sent = sampling_has(&p->send, param);
        if (!is_accounted(p, asked, param) || (is_sent && !p->wire[param]) ||
            (is_sent && (p->because & PARAM_BIT(param)))) {
            return false;
        }
    }
    return (p->route == PLAN_FALLBACK) == (p->because != 0);
}
