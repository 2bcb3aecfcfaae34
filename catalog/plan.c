/* plan.c - the one place where it is decided what a backend is sent.
 *
 * Passes over bits, no memory, no clock: each parameter against its claim (plan_range.c judges, the
 * policy decides); then what the provider demands; then what may not travel together; then what has
 * to travel along; then names. Whatever a pass changes it writes down as an adjustment.
 *
 * Claims with a condition look at other parameters, and what those come to is part of the answer.
 * So the passes are one round, a round believes something about what is sent (`seen`; at first:
 * what was asked), and when it has been wrong about a parameter that some condition looks at there
 * is another. Nearly every request is settled in the first; a chain of conditions takes one more
 * for each link. Conditions that go round in a circle would never settle: each ROUNDS_FREE rounds
 * one parameter that still moves is barred, which can happen once to each.
 *
 * Families with claims for "reasoning effort none" and for "other than none": a request that leaves
 * the effort out is planned with the second, stricter set, because sources disagree about the
 * default. If the default is none after all, a parameter that would have been taken falls back by
 * policy; the other way round it would have been a 400.
 */
#include "plan_many.h"
#include "plan_name.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Each parameter leaves at most two adjustments (a value and a name, or a loss and what came in its
 * place). */
_Static_assert(PLAN_ADJ_MAX >= 2 * PARAM_COUNT + PLAN_EXTRA_MAX, "a plan of every parameter fits");

#define ROUNDS_FREE 4
#define ROUNDS_MAX  (ROUNDS_FREE * (PARAM_COUNT + 1))

struct planning {
    const struct rules *rules;
    const struct policy *policy;
    const struct sampling *asked;
    struct plan_context how;
    struct plan *out;
    struct sampling seen;                   /* what conditions look at */
    uint64_t barred;                        /* stays out: its conditions go round in a circle */
    uint64_t refused;                       /* for these the target will not do, or nobody */
    uint64_t added;                         /* required ones that were put in */
    const struct claim *claim[PARAM_COUNT]; /* of parameters that were asked or added */
};

/* ---- what a decision writes down */

static void note_by(struct planning *pl, enum param p, enum action action, enum reason reason,
                    struct value sent, const struct claim *c)
{
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

static void note(struct planning *pl, enum param p, enum action action, enum reason reason,
                 struct value sent)
{
    note_by(pl, p, action, reason, sent, pl->claim[p]);
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
        [REASON_STRING_TOO_SHORT] = "is shorter than it takes",
        [REASON_REQUIRED] = "is required there and no default is known",
    };
    pl->refused |= PARAM_BIT(p);
    if (pl->out->rejected != PARAM_COUNT) {
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

static void fall_back(struct planning *pl, enum param p, enum reason reason, const struct claim *by)
{
    pl->out->because |= PARAM_BIT(p);
    pl->refused |= PARAM_BIT(p);
    /* Says why; what is sent is decided by the fallback's own plan. */
    note_by(pl, p, ACTION_DROPPED, reason, nothing, by);
}

static bool is_required(const struct planning *pl, enum param p)
{
    return (pl->policy->require & PARAM_BIT(p)) != 0;
}

/* ---- which claim holds */

/* The claim for `p` if `own` is its value and the others are as they are believed to be. */
static const struct claim *claim_if(struct planning *pl, enum param p, struct value own)
{
    const struct rules *r = pl->rules;
    if (r->conditional_first[p] == r->conditional_first[p + 1]) {
        return rules_claim(r, p, &pl->seen);
    }
    uint64_t had = pl->seen.has;
    struct value was = pl->seen.v[p];
    if (own.type == VALUE_NONE) {
        sampling_clear(&pl->seen, p);
    } else {
        sampling_set(&pl->seen, p, own);
    }
    const struct claim *c = rules_claim(r, p, &pl->seen);
    pl->seen.has = had;
    pl->seen.v[p] = was;
    return c;
}

/* ---- pass 1: each parameter against its claim */

/* `by`: the claim that says so. */
static void not_supported(struct planning *pl, enum param p, enum reason reason,
                          const struct claim *by)
{
    bool is_hint = sampling_table[p].kind == PARAM_HINT;
    enum plan_unsupported policy = pl->policy->on_unsupported;
    if (is_hint && !is_required(pl, p)) {
        note_by(pl, p, ACTION_DROPPED, reason, nothing, by);
    } else if (is_hint || pl->how.is_fallback || policy == PLAN_UNSUPPORTED_REJECT) {
        reject(pl, p, reason); /* no other backend would do better, or none may be asked */
    } else if (policy == PLAN_UNSUPPORTED_LOCAL) {
        fall_back(pl, p, reason, by);
    } else if (is_required(pl, p)) {
        reject(pl, p, reason);
    } else {
        note_by(pl, p, ACTION_DROPPED, reason, nothing, by);
    }
}

static void out_of_range(struct planning *pl, enum param p, const struct plan_fitting *f)
{
    bool may_fall_back = !pl->how.is_fallback;
    if (is_required(pl, p)) {
        may_fall_back = may_fall_back && pl->policy->on_unsupported == PLAN_UNSUPPORTED_LOCAL &&
                        pl->policy->on_out_of_range != PLAN_RANGE_REJECT;
    } else if (pl->policy->on_out_of_range == PLAN_RANGE_CLAMP) {
        note(pl, p, ACTION_CLAMPED, f->reason, f->nearest);
        pl->claim[p] = claim_if(pl, p, f->nearest);
        keep(pl, p, f->nearest);
        return;
    } else if (pl->policy->on_out_of_range == PLAN_RANGE_REJECT) {
        may_fall_back = false;
    }
    if (may_fall_back) {
        fall_back(pl, p, f->reason, pl->claim[p]);
    } else {
        reject(pl, p, f->reason);
    }
}

/* The nearest value of one claim may be what another refuses. */
static struct plan_fitting fit(struct planning *pl, enum param p, struct value v)
{
    struct plan_fitting f = plan_fit_value(pl->claim[p], p, v);
    if (f.fit == PLAN_NEAR) {
        const struct claim *c = claim_if(pl, p, f.nearest);
        if (c != pl->claim[p] && plan_fit_value(c, p, f.nearest).fit != PLAN_FITS) {
            f.fit = PLAN_MISFIT;
        }
    }
    return f;
}

static void plan_stop_strings(struct planning *pl, struct value v);
static bool may_split(const struct planning *pl);
static void plan_choices(struct planning *pl, const struct plan_fitting *f);
static void lose_to_conflict(struct planning *pl, enum param loser, const struct claim *by);

static void plan_neutral(struct planning *pl, enum param p, const struct plan_fitting *f)
{
    const struct claim *c = pl->claim[p];
    /* Where one value is all there is, sending it can only fail (Anthropic 2026-08: some read it,
     * some refuse the field). Nor is an empty list ever sent: OpenAI refuses it (empty_array). An
     * explicit zero is. */
    if (f->fit == PLAN_FITS &&
        (c->is_required || (!plan_is_fixed(c) && pl->asked->v[p].type != VALUE_JSON))) {
        keep(pl, p, pl->asked->v[p]);
    }
}

static void plan_param(struct planning *pl, enum param p)
{
    struct value v = pl->asked->v[p];
    pl->claim[p] = claim_if(pl, p, v);
    struct plan_fitting f = fit(pl, p, v);
    if (pl->barred & PARAM_BIT(p)) {
        lose_to_conflict(pl, p, pl->claim[p]);
    } else if (sampling_is_neutral(p, v)) {
        plan_neutral(pl, p, &f);
    } else if (p == PARAM_STOP) {
        plan_stop_strings(pl, v);
    } else if (f.fit == PLAN_FITS) {
        keep(pl, p, v);
    } else if (p == PARAM_N && may_split(pl)) {
        plan_choices(pl, &f);
    } else if (f.fit == PLAN_NEAR) {
        out_of_range(pl, p, &f);
    } else {
        not_supported(pl, p, f.reason, pl->claim[p]);
    }
}

/* ---- choices: what the provider does not make in one call, several make */

static bool asks_for(const struct planning *pl, enum param p)
{
    return sampling_has(pl->asked, p) && !sampling_is_neutral(p, pl->asked->v[p]);
}

/* What is picked out of one search cannot be had one by one. A seed that must be sent as it is
 * leaves no other one for a second call. */
static bool may_split(const struct planning *pl)
{
    static const enum param searches[] = {PARAM_BEST_OF, PARAM_USE_BEAM_SEARCH, PARAM_NUM_BEAMS};
    bool is_whole = is_required(pl, PARAM_N) || pl->policy->on_many == PLAN_MANY_LOCAL ||
                    (is_required(pl, PARAM_SEED) && asks_for(pl, PARAM_SEED));
    for (size_t i = 0; i < sizeof searches / sizeof searches[0]; i++) {
        is_whole = is_whole || asks_for(pl, searches[i]);
    }
    return !is_whole;
}

static void split_choices(struct planning *pl, int64_t each, enum reason reason,
                          const struct claim *by)
{
    struct value v = {.type = VALUE_INT, .i = each};
    plan_many_split(pl->out, pl->asked->v[PARAM_N].i, each);
    if (each > 1) {
        pl->claim[PARAM_N] = claim_if(pl, PARAM_N, v);
        keep(pl, PARAM_N, v);
    }
    note_by(pl, PARAM_N, ACTION_SPLIT, reason, v, by);
}

static void plan_choices(struct planning *pl, const struct plan_fitting *f)
{
    const struct claim *c = pl->claim[PARAM_N];
    int64_t n = pl->asked->v[PARAM_N].i, each = plan_many_each(c, n, f);
    bool is_odd = each > 1 && n % each != 0;
    if (is_odd && (pl->rules->condition_bits & PARAM_BIT(PARAM_N))) {
        each = 1; /* the claims that hold for the last call could be others */
    }
    bool is_above = f->fit == PLAN_MISFIT && f->reason == REASON_NOT_A_VALUE && plan_is_fixed(c);
    split_choices(pl, each, is_above ? REASON_ABOVE_MAX : f->reason, c);
}

/* The choices of several calls with the same seed would be the same. */
static void plan_seeds(struct planning *pl)
{
    struct plan *out = pl->out;
    struct value v = out->send.v[PARAM_SEED];
    if (out->n_calls > 1 && sampling_has(&out->send, PARAM_SEED) &&
        !sampling_is_neutral(PARAM_SEED, v)) {
        plan_many_bound(out, pl->claim[PARAM_SEED]);
        note(pl, PARAM_SEED, ACTION_REWRITTEN, REASON_MANY_CALLS, v);
    }
}

/* ---- stop strings: what the provider does not take, the gateway cuts itself */

static void enforce_stop(struct planning *pl, const struct claim *by)
{
    pl->out->stop_is_local = true;
    pl->out->stop_sent = 0;
    note_by(pl, PARAM_STOP, ACTION_MOVED, REASON_ENFORCED_LOCALLY, nothing, by);
}

static void plan_stop_strings(struct planning *pl, struct value v)
{
    struct plan *out = pl->out;
    const struct claim *c = pl->claim[PARAM_STOP];
    size_t n = json_array_size(v.j);
    if (!c || c->support != CLAIM_YES || !c->wire) {
        enforce_stop(pl, c);
        return;
    }
    out->stop_no_blank = c->no_blank;
    out->stop_len_max =
        c->len_max > 0 ? (size_t)c->len_max : 0; /* bytes: never more than characters */
    size_t n_fit = plan_stop_count_fit(out, v.j);
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

/* ---- pass 2: what the provider demands */

static struct value required_value(struct planning *pl, enum param p, const struct claim *c)
{
    struct value v = c->fallback;
    if (v.type == VALUE_NONE && c->has_max) {
        v = plan_number(p, c->max);
    }
    pl->claim[p] = claim_if(pl, p, v);
    struct plan_fitting f = plan_fit_value(pl->claim[p], p, v);
    if (v.type != VALUE_NONE && f.fit == PLAN_NEAR) {
        pl->claim[p] = claim_if(pl, p, f.nearest);
        return f.nearest;
    }
    return f.fit == PLAN_FITS ? v : nothing;
}

static void plan_required(struct planning *pl, enum param p)
{
    const struct claim *c = claim_if(pl, p, nothing);
    if (!c || !c->is_required || c->support != CLAIM_YES || !c->wire ||
        sampling_has(&pl->out->send, p) || (pl->refused & PARAM_BIT(p))) {
        return;
    }
    struct value v = required_value(pl, p, c);
    if (v.type == VALUE_NONE) {
        pl->claim[p] = c;
        reject(pl, p, REASON_REQUIRED);
        return;
    }
    pl->added |= PARAM_BIT(p);
    keep(pl, p, v);
    note(pl, p, ACTION_ADDED, REASON_REQUIRED, v);
}

/* ---- pass 3: what may not travel together */

/* Rules of the schema, not of a provider: the first means nothing without the second. */
static const enum param schema_needs[][2] = {
    {PARAM_TOOL_CHOICE, PARAM_TOOLS},
    {PARAM_PARALLEL_TOOL_CALLS, PARAM_TOOLS},
};

static bool is_sent(const struct planning *pl, enum param p)
{
    return sampling_has(&pl->out->send, p);
}

/* By what was asked: a temperature that was clamped to 1 still asks for something. */
static bool asks(const struct planning *pl, enum param p)
{
    bool was_asked = sampling_has(pl->asked, p) && !(pl->added & PARAM_BIT(p));
    return !sampling_is_neutral(p, was_asked ? pl->asked->v[p] : pl->out->send.v[p]);
}

/* A request without it is refused, whatever it meets. */
static bool must_stay(const struct planning *pl, enum param p)
{
    return pl->claim[p]->is_required;
}

/* The loss of a parameter that alone would have been fine: it is not the backend's lack, so no
 * reason to leave the backend, unless the parameter is required. */
static void lose_to_conflict(struct planning *pl, enum param loser, const struct claim *by)
{
    take_out(pl, loser);
    if (sampling_is_neutral(loser, pl->asked->v[loser])) {
        return;
    }
    if (loser == PARAM_STOP) {
        enforce_stop(pl, by);
    } else if (loser == PARAM_N && may_split(pl)) {
        split_choices(pl, 1, REASON_CONFLICT, by);
    } else if (is_required(pl, loser)) {
        not_supported(pl, loser, REASON_CONFLICT, by);
    } else if (pl->policy->on_unsupported == PLAN_UNSUPPORTED_REJECT &&
               sampling_table[loser].kind == PARAM_SHAPES) {
        reject(pl, loser, REASON_CONFLICT);
    } else {
        note_by(pl, loser, ACTION_DROPPED, REASON_CONFLICT, nothing, by);
    }
}

static bool forces_a_call(struct value tool_choice)
{
    const char *word = tool_choice.type == VALUE_JSON     ? json_string_value(tool_choice.j)
                       : tool_choice.type == VALUE_STRING ? tool_choice.s
                                                          : NULL;
    return !word || (strcmp(word, "auto") != 0 && strcmp(word, "none") != 0);
}

/* The parameters of this request that a word in `conflicts` or `needs` speaks of. */
static uint64_t named_bits(const struct planning *pl, const char *name)
{
    enum param p = sampling_find(name);
    uint64_t bits = 0;
    if (p != PARAM_COUNT) {
        bits = PARAM_BIT(p);
    } else if (strcmp(name, "tool_choice_required") == 0 && is_sent(pl, PARAM_TOOL_CHOICE) &&
               forces_a_call(pl->out->send.v[PARAM_TOOL_CHOICE])) {
        bits = PARAM_BIT(PARAM_TOOL_CHOICE);
    }
    return bits & pl->out->send.has;
}

/* Whether the word is one for how the request is made, and it is made so. */
static bool is_circumstance(const struct planning *pl, const char *name)
{
    return (pl->how.stream && strcmp(name, "stream") == 0) ||
           (pl->how.prefill && strcmp(name, "prefill") == 0);
}

static const char *word_at(const json_t *list, size_t i)
{
    const char *word = json_string_value(json_array_get(list, i));
    return word ? word : "";
}

static bool speaks_of(const struct planning *pl, const struct claim *c, enum param p)
{
    for (size_t i = 0; i < json_array_size(c->conflicts); i++) {
        if (named_bits(pl, word_at(c->conflicts, i)) & PARAM_BIT(p)) {
            return true;
        }
    }
    return false;
}

/* Of two that may not travel together one goes; `by` says that they may not. */
static void settle(struct planning *pl, enum param a, enum param b, const struct claim *by)
{
    enum param first =
        sampling_is_before(a, b) ? a : b; /* temperature stands above top_p: it beats it */
    enum param second = first == a ? b : a;
    bool first_goes = !asks(pl, first) && asks(pl, second);
    if (must_stay(pl, first) != must_stay(pl, second)) {
        first_goes = must_stay(pl, second);
    } else if (first == PARAM_STOP && asks(pl, second)) {
        first_goes = true; /* nothing is lost: the gateway enforces it */
    }
    enum param loser = first_goes ? first : second, winner = first_goes ? second : first;
    bool says_so = speaks_of(pl, pl->claim[loser], winner);
    lose_to_conflict(pl, loser, says_so ? pl->claim[loser] : by);
}

static void plan_conflicts(struct planning *pl, enum param p)
{
    const struct claim *c = pl->claim[p];
    for (size_t i = 0; i < json_array_size(c->conflicts) && is_sent(pl, p); i++) {
        const char *word = word_at(c->conflicts, i);
        uint64_t bits = named_bits(pl, word) & ~PARAM_BIT(p);
        for (int q = 0; bits >> q && is_sent(pl, p); q++) {
            if ((bits >> q) & 1) {
                settle(pl, p, (enum param)q, c);
            }
        }
        if (bits == 0 && is_sent(pl, p) && is_circumstance(pl, word) && !must_stay(pl, p)) {
            lose_to_conflict(pl, p, c);
        }
    }
}

static bool is_there(const struct planning *pl, enum param q)
{
    return is_sent(pl, q) &&
           (pl->out->send.v[q].type != VALUE_BOOL || pl->out->send.v[q].b); /* false is nothing */
}

static bool is_need_met(const struct planning *pl, const char *word)
{
    enum param q = sampling_find(word);
    if (q == PARAM_USE_BEAM_SEARCH) {
        return sampling_is_search(&pl->out->send);
    }
    if (q != PARAM_COUNT) {
        return is_there(pl, q);
    }
    bool is_known = strcmp(word, "stream") == 0 || strcmp(word, "prefill") == 0;
    return !is_known || is_circumstance(pl, word);
}

static void plan_needs(struct planning *pl, enum param p)
{
    const json_t *needs = pl->claim[p]->needs;
    bool is_met = true;
    for (size_t i = 0; i < sizeof schema_needs / sizeof schema_needs[0]; i++) {
        is_met = is_met && (schema_needs[i][0] != p || is_there(pl, schema_needs[i][1]));
    }
    for (size_t i = 0; i < json_array_size(needs); i++) {
        is_met = is_met && is_need_met(pl, word_at(needs, i));
    }
    if (!is_met && !must_stay(pl, p)) {
        lose_to_conflict(pl, p, pl->claim[p]);
    }
}

/* What a claim about streams or prefills says of parameters. */
static void plan_circumstance(struct planning *pl, enum behaviour b)
{
    const struct claim *c = pl->rules->behaviour[b];
    for (size_t i = 0; c && i < json_array_size(c->conflicts); i++) {
        uint64_t bits = named_bits(pl, word_at(c->conflicts, i));
        for (int q = 0; bits >> q; q++) {
            if ((bits >> q) & 1 && !must_stay(pl, (enum param)q)) {
                lose_to_conflict(pl, (enum param)q, c);
            }
        }
    }
}

/* ---- pass 4: what has to travel along */

static const json_t *adds_of(const struct planning *pl, enum param p)
{
    return is_sent(pl, p) && pl->claim[p]->adds && asks(pl, p) ? pl->claim[p]->adds : NULL;
}

/* What `p` adds against what another parameter is or adds: two values for one place. */
static void plan_clash(struct planning *pl, enum param p, const char *wire, const json_t *value)
{
    for (int i = 0; i < PARAM_COUNT && is_sent(pl, p); i++) {
        enum param q = (enum param)i;
        if (q == p || !is_sent(pl, q)) {
            continue;
        }
        const json_t *theirs = adds_of(pl, q), *other = json_object_get(theirs, wire);
        bool is_its_place = strcmp(pl->out->wire[q], wire) == 0;
        if ((is_its_place && !value_equal(pl->out->send.v[q], value_from_json(value))) ||
            (other && json_equal(other, value) != 1)) {
            settle(pl, p, q, pl->claim[p]);
        }
    }
}

static void plan_clashes(struct planning *pl, enum param p)
{
    const char *wire;
    json_t *value;
    json_object_foreach ((json_t *)adds_of(pl, p), wire, value) { /* the macro wants no const */
        plan_clash(pl, p, wire, value);
    }
}

static bool is_written(const struct planning *pl, const char *wire)
{
    for (int q = 0; q < PARAM_COUNT; q++) {
        if (is_sent(pl, (enum param)q) && strcmp(pl->out->wire[q], wire) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < pl->out->n_extra; i++) {
        if (strcmp(pl->out->extra[i].wire, wire) == 0) {
            return true;
        }
    }
    return false;
}

static void plan_adds(struct planning *pl, enum param p)
{
    struct plan *out = pl->out;
    const struct claim *c = pl->claim[p];
    const char *wire;
    json_t *value;
    json_object_foreach ((json_t *)adds_of(pl, p), wire, value) {
        if (is_written(pl, wire)) {
            continue;
        }
        if (out->n_extra == PLAN_EXTRA_MAX) {
            reject(pl, p, REASON_CONFLICT); /* no claim of ours adds more than two */
            return;
        }
        out->extra[out->n_extra++] = (struct plan_extra){wire, value, c->id};
        (void)plan_adjust(out, (struct adjustment){.param = PARAM_COUNT,
                                                   .name = wire,
                                                   .action = ACTION_ADDED,
                                                   .sent = value_from_json(value),
                                                   .reason = REASON_REQUIRED,
                                                   .claim = c->id});
    }
}

/* ---- pass 5: names */

static void plan_name(struct planning *pl, enum param p)
{
    bool is_asked = sampling_has(pl->asked, p) && !(pl->added & PARAM_BIT(p));
    if (is_asked && plan_is_renamed(pl->out, p)) {
        note(pl, p, ACTION_RENAMED, REASON_WIRE_NAME, pl->out->send.v[p]);
        if (p == PARAM_STOP && pl->out->stop_is_local) {
            struct adjustment *a = &pl->out->adj[pl->out->n_adj - 1];
            a->sent = (struct value){.type = VALUE_INT, .i = (int64_t)pl->out->stop_sent};
        }
    }
}

/* ---- rounds */

static void each(struct planning *pl, uint64_t bits, void (*pass)(struct planning *, enum param))
{
    for (int p = 0; bits >> p; p++) {
        if ((bits >> p) & 1) {
            pass(pl, (enum param)p);
        }
    }
}

/* One parameter against the others; it may be gone by the time it is its turn. */
static void plan_pairs(struct planning *pl, enum param p)
{
    if (is_sent(pl, p)) {
        plan_conflicts(pl, p);
    }
    if (is_sent(pl, p)) {
        plan_clashes(pl, p);
    }
    if (is_sent(pl, p)) {
        plan_needs(pl, p);
    }
}

/* What became of the things that were asked comes first: a reader looks for that. */
static void put_added_last(struct plan *out)
{
    struct adjustment added[PARAM_COUNT];
    size_t n = 0, n_added = 0;
    for (size_t i = 0; i < out->n_adj; i++) {
        if (out->adj[i].action == ACTION_ADDED && n_added < PARAM_COUNT) {
            added[n_added++] = out->adj[i];
        } else {
            out->adj[n++] = out->adj[i];
        }
    }
    for (size_t i = 0; i < n_added; i++) {
        out->adj[n++] = added[i];
    }
}

static void plan_round(struct planning *pl)
{
    struct plan *out = pl->out;
    uint64_t before;
    memset(out, 0, sizeof *out);
    out->rejected = PARAM_COUNT;
    out->n_calls = 1;
    pl->refused = pl->added = 0;
    each(pl, pl->asked->has, plan_param);
    each(pl, pl->rules->required_bits, plan_required);
    if (pl->how.stream) {
        plan_circumstance(pl, BEHAVIOUR_STREAM);
    }
    if (pl->how.prefill) {
        plan_circumstance(pl, BEHAVIOUR_PREFILL);
    }
    do { /* each loss may leave another one without what it needs */
        before = out->send.has;
        each(pl, before, plan_pairs);
    } while (out->send.has != before);
    plan_seeds(pl);
    if (pl->added) {
        put_added_last(out);
    }
    each(pl, out->send.has, plan_adds);
    each(pl, out->send.has, plan_name);
}

/* What came of `p`. One for which the target will not do counts as asked: it would be there. */
static struct value outcome(const struct planning *pl, enum param p)
{
    if (is_sent(pl, p)) {
        return pl->out->send.v[p];
    }
    bool is_refused = pl->refused & PARAM_BIT(p) && sampling_has(pl->asked, p);
    return is_refused ? pl->asked->v[p] : nothing;
}

/* The parameters that conditions look at and that came to something else than they were told. */
static uint64_t look_again(struct planning *pl)
{
    uint64_t bits = pl->rules->condition_bits, moved = 0;
    for (int i = 0; i < PARAM_COUNT && bits >> i; i++) {
        enum param p = (enum param)i;
        struct value v = outcome(pl, p);
        struct value was = sampling_has(&pl->seen, p) ? pl->seen.v[p] : nothing;
        if (!((bits >> i) & 1) || value_equal(v, was)) {
            continue;
        }
        moved |= PARAM_BIT(p);
        if (v.type == VALUE_NONE) {
            sampling_clear(&pl->seen, p);
        } else {
            sampling_set(&pl->seen, p, v);
        }
    }
    return moved;
}

/* Of those that still move the one furthest down in the table goes, as in a conflict. */
static void bar_last(struct planning *pl, uint64_t moved)
{
    moved &= pl->asked->has & ~pl->barred;
    for (int p = PARAM_COUNT - 1; moved && p >= 0; p--) {
        if ((moved >> p) & 1) {
            pl->barred |= PARAM_BIT(p);
            return;
        }
    }
}

void plan_make(const struct rules *r, const struct policy *pol, const struct sampling *asked,
               const struct plan_context *how, struct plan *out)
{
    struct planning pl = {.rules = r, .policy = pol, .asked = asked, .out = out, .seen = *asked};
    if (how) {
        pl.how = *how;
    }
    uint64_t moved = 0;
    for (int round = 1; round <= ROUNDS_MAX; round++) {
        plan_round(&pl);
        uint64_t now = look_again(&pl);
        if (!now) {
            break;
        }
        moved |= now;
        if (round % ROUNDS_FREE == 0) {
            bar_last(&pl, moved);
            moved = 0;
        }
    }
    if (out->rejected != PARAM_COUNT) {
        enum param p = out->rejected;
        struct plan rejected = {.route = PLAN_REJECT, .rejected = p};
        memcpy(rejected.reject_text, out->reject_text, sizeof rejected.reject_text);
        *out = rejected;
    } else if (out->because) {
        out->route = PLAN_FALLBACK;
    }
}
