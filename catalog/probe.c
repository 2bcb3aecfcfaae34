/* probe.c - what comes next, and what it all says.
 *
 * Four kinds of question are asked of a parameter, in this order.
 *
 * 1. Status. A value inside, the neutral one, each bound, one step beyond and far beyond, each
 *    enumerated value and one that is none, lists and strings at and over their limits, pairs that
 *    may not travel together. A 2xx is an acceptance, a 400 or 422 a refusal, and one of each is
 *    enough: validation is deterministic. Two things could deceive. A refusal may be about
 *    something else in the request: one that does not name the parameter counts only after the same
 *    request without it was accepted. And everything that is no answer (no network, 429, 5xx)
 *    counts for nothing, neither as acceptance nor as refusal. Where a claim turns out to be wrong
 *    about a bound, a few more requests look for the new one between the outermost value accepted
 *    and the innermost refused, at the roundest number between them.
 *
 * 2. Name. A supported parameter that is refused as unknown is tried under the other names that
 *    the catalog has for it. A provider that refuses one unknown name would refuse another, so an
 *    acceptance tells.
 *
 * 3. Strictness. For a parameter that the claim calls absent (or that no claim names) acceptance
 *    says nothing at a provider that accepts any field. So a field that nobody has is sent once:
 *    refused, the acceptance tells; accepted, only an effect can.
 *
 * 4. Effect. Some answers show it by themselves (log-probabilities, two choices, a text that ends
 *    before the stop string, a limit kept): two that agree, and two without the parameter that show
 *    the opposite where that could happen anyway. The rest is statistics, since real providers are
 *    not deterministic even at temperature 0: "not equal" proves nothing.
 *
 *    Two settings, m answers of L = 4 tokens at each. Sharp: a value at which every answer is the
 *    same if the parameter works (temperature 0, top_k 1, top_p 0.001, min_p 1, one seed, a bias of
 *    100 on one token). Flat: the parameter left out, at its maximum, or another seed each time.
 *    Let c be how often the commonest sharp answer came.
 *
 *    H1: it works, with noise. Each token changes with probability at most e = PROBE_NOISE, so
 *    an answer differs from the ideal one with at most v = 1 - (1-e)^L = 0.078. The commonest
 *    answer comes at least as often as the ideal one, so
 *        P(m - c >= d | H1) <= P(Bin(m, v) >= d).
 *    "Ignored" is said when that is below its limit: with m = 8 answers, 7 must differ from the
 *    commonest (1.5e-7), with 12 it takes 8, with 24 it takes 11. A provider may be noisier than
 *    e; then the sharp answers still repeat more than the flat ones, and "ignored" is withheld
 *    while they do (at the 5 % level).
 *
 *    H0: it is ignored. Then all 2m answers come from one distribution, whatever it is, and given
 *    the pooled answers each division into two halves is equally likely (a permutation test;
 *    nothing has to be known about the model). An answer x that occurs n_x times in all is among
 *    the sharp ones at least c times with the hypergeometric tail, and
 *        P(some answer comes c times or more | H0) <= sum over x of P(Hyp(2m, n_x, m) >= c).
 *    "Has an effect" is said when that is below its limit: with m = 12 equal sharp answers and
 *    none of them among the flat ones it is 1 / C(24, 12) = 3.7e-7. With m = 8 it cannot be. Where
 *    the flat answers do not spread either, the sum is near 1 and nothing is said.
 *
 *    The answers are judged at m = 8, 12, 16 and 24 and the first judgement stands, so each look
 *    has a quarter of PROBE_ALPHA: by Bonferroni each of the two errors is below PROBE_ALPHA for
 *    the whole. Two assumptions remain: flat answers are independent (a provider that caches whole
 *    answers is not told apart), and the noise of sharp ones is as well.
 */
#include "probe_inside.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making one */

struct wire_guess {
    const struct probe *p;
    const char *wire;
};

static bool guess_wire(const struct claim *c, void *ud)
{
    struct wire_guess *g = ud;
    const struct provider *other = snapshot_provider(g->p->snap, c->provider);
    if (c->wire && !strchr(c->wire, '[') && other &&
        strcmp(other->dialect, g->p->rules->provider->dialect) == 0) {
        g->wire = c->wire;
        return false;
    }
    return true;
}

/* Where the parameter would stand: as the claim says, else as neighbours in the same dialect have
 * it. */
static const char *find_wire(const struct probe *p)
{
    struct wire_guess g = {.p = p, .wire = NULL};
    const char *name = sampling_table[p->param].name;
    if (p->claim && p->claim->wire) {
        return p->claim->wire;
    }
    if (p->snap && p->rules->provider) {
        snapshot_each(p->snap, p->rules->provider->id, NULL, name, guess_wire, &g);
        if (!g.wire) {
            snapshot_each(p->snap, NULL, NULL, name, guess_wire, &g);
        }
    }
    return g.wire ? g.wire : name;
}

struct probe *probe_new(const struct rules *r, const struct snapshot *s, enum param param)
{
    struct probe *p = calloc(1, sizeof *p);
    if (!p || !(p->owned = json_array())) {
        free(p);
        return NULL;
    }
    p->rules = r;
    p->snap = s;
    p->param = param;
    p->claim = probe_claim(p, param);
    if (p->claim && p->claim->param_id != param) {
        p->claim = NULL; /* another one answers for it */
    }
    p->support = p->claim ? p->claim->support : CLAIM_ABSENT;
    p->wire = find_wire(p);
    p->has_memory = true;
    p->verdict = PROBE_HOLDS;
    probe_make_items(p);
    probe_make_names(p);
    if (p->n_items == 0) {
        p->phase = PROBE_PHASE_DONE;
    }
    if (!p->has_memory) {
        probe_free(p);
        return NULL;
    }
    return p;
}

void probe_free(struct probe *p)
{
    if (p) {
        json_decref(p->owned);
        free(p);
    }
}

/* ---- findings */

/* What makes requests fail is worse than what makes them poorer. */
static int weight(enum probe_verdict v)
{
    static const int weights[] = {
        [PROBE_HOLDS] = 0,   [PROBE_NOT_TOLD_APART] = 0, [PROBE_TOO_NARROW] = 1,
        [PROBE_IGNORED] = 2, [PROBE_TOO_WIDE] = 3,       [PROBE_RENAMED] = 4};
    return weights[v];
}

static void find(struct probe *p, enum probe_verdict v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void find(struct probe *p, enum probe_verdict v, const char *fmt, ...)
{
    char text[sizeof p->text], old[sizeof p->text];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(old, p->text, sizeof old);
    bool is_first = !p->has_finding || weight(v) > weight(p->verdict);
    const char *front = is_first ? text : old, *back = is_first ? old : text;
    bool fits = back[0] && strlen(front) + strlen(back) + 3 < sizeof p->text;
    (void)snprintf(p->text, sizeof p->text, "%s%s%s", front, fits ? "; " : "", fits ? back : "");
    p->verdict = is_first ? v : p->verdict;
    p->has_finding = true;
}

/* ---- 1: status */

static const char *spot_name(enum probe_spot s)
{
    static const char *const names[] = {[PROBE_INSIDE] = "inside",
                                        [PROBE_NEUTRAL] = "neutral value",
                                        [PROBE_AT_MIN] = "at min",
                                        [PROBE_AT_MAX] = "at max",
                                        [PROBE_ABOVE_MIN] = "just above the excluded min",
                                        [PROBE_BELOW_MAX] = "just below the excluded max",
                                        [PROBE_UNDER] = "just below min",
                                        [PROBE_OVER] = "just above max",
                                        [PROBE_FAR_UNDER] = "far below min",
                                        [PROBE_FAR_OVER] = "far above max",
                                        [PROBE_VALUE] = "one of the values",
                                        [PROBE_NO_VALUE] = "none of the values",
                                        [PROBE_AT_LENGTH] = "as long as it may be",
                                        [PROBE_OVER_LENGTH] = "longer than it may be",
                                        [PROBE_PAIR] = "with",
                                        [PROBE_ALONE] = "without"};
    return names[s];
}

/* The limit itself is asked for on a prompt that is answered with one word. */
void probe_begin_status(struct probe *p, const struct probe_item *it)
{
    bool has_other = it->other != PARAM_COUNT;
    probe_trial_begin(p, probe_prompt_ok, 1, "%s%s%s", spot_name(it->spot), has_other ? " " : "",
                      has_other ? sampling_table[it->other].name : "");
    probe_trial_add_own(p, it->v, p->wire);
    if (it->spot == PROBE_PAIR) {
        (void)probe_trial_add(p, it->other,
                              probe_inside_value(p, it->other, probe_claim(p, it->other)));
    } else if (it->spot == PROBE_ALONE) {
        sampling_clear(&p->trial.send, it->other);
        p->trial.wire[it->other] = NULL;
    }
}

static bool is_bound(enum probe_spot s)
{
    return s >= PROBE_AT_MIN && s <= PROBE_FAR_OVER;
}

double probe_number_of(struct value v)
{
    return v.type == VALUE_INT ? (double)v.i : v.d;
}

/* Far beyond is asked only where just beyond was accepted. */
bool probe_is_needless(const struct probe *p, size_t i)
{
    enum probe_spot near = p->item[i].spot == PROBE_FAR_OVER ? PROBE_OVER : PROBE_UNDER;
    if (p->item[i].spot != PROBE_FAR_OVER && p->item[i].spot != PROBE_FAR_UNDER) {
        return false;
    }
    for (size_t k = 0; k < p->n_items; k++) {
        if (p->item[k].spot == near) {
            return p->item[k].answer != PROBE_ACCEPTED;
        }
    }
    return true;
}

static void note_bound(struct probe *p, double x, enum probe_answer a, bool is_high)
{
    struct probe_bound *b = is_high ? &p->high : &p->low;
    double sign = is_high ? 1 : -1;
    if (a == PROBE_ACCEPTED && (!b->has_ok || sign * x > sign * b->ok)) {
        b->has_ok = true;
        b->ok = x;
    } else if (a == PROBE_REFUSED && (!b->has_bad || sign * x < sign * b->bad)) {
        b->has_bad = true;
        b->bad = x;
    }
}

static void judge_item(struct probe *p, const struct probe_item *it)
{
    char value[64];
    bool is_accepted = it->answer == PROBE_ACCEPTED;
    if (p->support != CLAIM_YES || it->is_fit == is_accepted) {
        return; /* fits, or is judged by its effect */
    }
    probe_value_text(it->v, value, sizeof value);
    if (it->spot == PROBE_PAIR || it->spot == PROBE_ALONE) {
        find(p, PROBE_TOO_NARROW, "%s %s %s was accepted, the claim says it is refused", value,
             it->spot == PROBE_PAIR ? "with" : "without", sampling_table[it->other].name);
    } else if (is_accepted) {
        if (it->spot == PROBE_OVER_LENGTH && sampling_table[p->param].type == VALUE_JSON &&
            p->claim->items_max > 0) {
            p->items_found = p->claim->items_max + 1;
        }
        bool is_far = it->spot == PROBE_FAR_OVER || it->spot == PROBE_FAR_UNDER;
        find(p, PROBE_TOO_NARROW,
             is_far ? "so was %s (%s)" : "%s (%s) was accepted, the claim says it is not", value,
             spot_name(it->spot));
    } else {
        find(p, PROBE_TOO_WIDE, "%s (%s) was refused, the claim says it is taken", value,
             spot_name(it->spot));
    }
}

/* An accepted value inside is evidence for both bounds, a refused one only for its own. */
static void note_bounds(struct probe *p, const struct probe_item *it)
{
    bool is_low = it->spot == PROBE_AT_MIN || it->spot == PROBE_ABOVE_MIN ||
                  it->spot == PROBE_UNDER || it->spot == PROBE_FAR_UNDER;
    bool is_high = is_bound(it->spot) && !is_low;
    bool is_between = it->spot == PROBE_INSIDE || it->spot == PROBE_NEUTRAL;
    bool is_number = it->v.type == VALUE_INT || it->v.type == VALUE_NUMBER;
    bool is_both = is_between && it->answer == PROBE_ACCEPTED;
    if (is_number && (is_low || is_both)) {
        note_bound(p, probe_number_of(it->v), it->answer, false);
    }
    if (is_number && (is_high || is_both)) {
        note_bound(p, probe_number_of(it->v), it->answer, true);
    }
}

static void settle_item(struct probe *p, enum probe_answer a, const struct probe_outcome *o)
{
    struct probe_item *it = &p->item[p->at_item++];
    it->answer = a;
    if (a == PROBE_NOTHING) {
        return;
    }
    note_bounds(p, it);
    if (it->spot == PROBE_INSIDE && a == PROBE_REFUSED) {
        p->is_unknown = o->is_unknown;
        p->at_item = p->n_items; /* nothing of the rest would be accepted */
        if (p->support == CLAIM_YES && p->is_unknown && p->n_names > 0) {
            return; /* other names first */
        }
    }
    judge_item(p, it);
}

static bool next_item(struct probe *p)
{
    while (p->at_item < p->n_items && probe_is_needless(p, p->at_item)) {
        p->at_item++;
    }
    if (p->asks_plain) {
        probe_trial_begin(p, probe_prompt_ok, 1, "without it");
        return true;
    }
    if (p->at_item == p->n_items) {
        return false;
    }
    probe_begin_status(p, &p->item[p->at_item]);
    return true;
}

static enum probe_answer answer_of(const struct probe_outcome *o)
{
    return o->status >= 200 && o->status < 300    ? PROBE_ACCEPTED
           : o->status == 400 || o->status == 422 ? PROBE_REFUSED
                                                  : PROBE_NOTHING;
}

static void lose(struct probe *p, const struct probe_outcome *o)
{
    if (p->lost_text[0]) {
        return; /* the first one is nearest to the cause */
    }
    if (o->status == 0) {
        (void)snprintf(p->lost_text, sizeof p->lost_text, "%.120s",
                       o->excerpt[0] ? o->excerpt : "no answer");
    } else {
        (void)snprintf(p->lost_text, sizeof p->lost_text, "status %d: %.80s", o->status,
                       o->excerpt);
    }
}

static void take_item(struct probe *p, const struct probe_outcome *o)
{
    enum probe_answer a = answer_of(o);
    if (p->asks_plain) {
        p->asks_plain = false;
        p->plain = a;
        if (a != PROBE_ACCEPTED) {
            (void)snprintf(p->lost_text, sizeof p->lost_text,
                           "the request is refused without it too: %.70s", o->excerpt);
        }
        settle_item(p, a == PROBE_ACCEPTED ? PROBE_REFUSED : PROBE_NOTHING, &p->doubtful);
        return;
    }
    const struct probe_item *it = &p->item[p->at_item];
    bool is_ours = o->names_param && (o->named == p->param || o->named == it->other);
    if (a == PROBE_REFUSED && o->names_param && !is_ours && o->named < PARAM_COUNT) {
        a = PROBE_NOTHING; /* a companion is refused: nothing about the parameter itself */
    } else if (a == PROBE_REFUSED && !is_ours) {
        if (p->plain == PROBE_UNASKED) {
            p->asks_plain = true;
            p->doubtful = *o;
            return;
        }
        a = p->plain == PROBE_ACCEPTED ? PROBE_REFUSED : PROBE_NOTHING;
    }
    if (a == PROBE_NOTHING) {
        lose(p, o);
    }
    settle_item(p, a, o);
}

/* ---- 2: other names */

static bool next_name(struct probe *p)
{
    const struct probe_item *first = &p->item[0];
    if (p->support != CLAIM_YES || first->answer != PROBE_REFUSED || !p->is_unknown ||
        p->found_name) {
        return false;
    }
    if (p->at_name == p->n_names) {
        if (!p->has_finding) {
            judge_item(p, first);
        }
        return false;
    }
    probe_trial_begin(p, probe_prompt_ok, 1, "under the name %s", p->name[p->at_name]);
    probe_trial_add_own(p, first->v, p->name[p->at_name]);
    return true;
}

static void take_name(struct probe *p, const struct probe_outcome *o)
{
    const char *name = p->name[p->at_name++];
    if (answer_of(o) == PROBE_ACCEPTED) {
        p->found_name = name;
        find(p, PROBE_RENAMED, "'%s' is refused as unknown, '%s' is accepted", p->wire, name);
    }
}

/* ---- 1 again: where a bound has gone */

static bool has_bound(const struct probe *p, bool is_high)
{
    const struct claim *c = p->claim;
    bool is_asked = p->support == CLAIM_YES && !c->values && p->param != PARAM_SEED;
    return is_asked && (is_high ? c->has_max : c->has_min);
}

bool probe_has_moved(const struct probe *p, bool is_high)
{
    const struct claim *c = p->claim;
    const struct probe_bound *b = is_high ? &p->high : &p->low;
    if (!has_bound(p, is_high) || !b->has_ok || !b->has_bad) {
        return false;
    }
    double sign = is_high ? 1 : -1, claimed = sign * (is_high ? c->max : c->min);
    bool is_open = is_high ? c->max_exclusive : c->min_exclusive;
    double ok = sign * b->ok, bad = sign * b->bad;
    if (is_open) {
        return ok >= claimed || bad < claimed - probe_step(p->param, claimed) / 2;
    }
    return ok > claimed || bad <= claimed;
}

static bool next_bound(struct probe *p)
{
    for (int i = 0; i < 2; i++) {
        struct probe_bound *b = i ? &p->high : &p->low;
        double x = NAN;
        if (probe_has_moved(p, i) && b->n_steps < PROBE_STEPS_MAX) {
            x = probe_between(p->param, b->ok, b->bad);
        }
        if (!isnan(x)) {
            p->seeks_high = i;
            b->n_steps++;
            probe_trial_begin(p, probe_prompt_ok, 1, "where %s is now", i ? "max" : "min");
            probe_trial_add_own(p, probe_number(p, x), p->wire);
            return true;
        }
    }
    return false;
}

static void take_bound(struct probe *p, const struct probe_outcome *o)
{
    enum probe_answer a = answer_of(o);
    double x = probe_number_of(p->trial.send.v[p->param]);
    if (a != PROBE_NOTHING) {
        note_bound(p, x, a, p->seeks_high);
    }
}

/* ---- 3: does the provider refuse what it does not know */

static bool needs_strictness(const struct probe *p)
{
    return p->support != CLAIM_YES && p->support != CLAIM_IGNORED &&
           p->item[0].answer == PROBE_ACCEPTED && p->strict == PROBE_UNASKED;
}

void probe_begin_strict(struct probe *p)
{
    probe_trial_begin(p, probe_prompt_ok, 1, "a field that nobody knows");
    probe_trial_add_own(p, p->item[0].v, "isotherm_probe");
}

/* ---- 4: effect */

bool probe_is_accepted(const struct probe *p)
{
    return p->item[0].answer == PROBE_ACCEPTED;
}

static void judge_accepted(struct probe *p)
{
    static const char *const said[] = {[CLAIM_YES] = "supported",
                                       [CLAIM_REJECTED] = "rejected",
                                       [CLAIM_IGNORED] = "without effect",
                                       [CLAIM_ABSENT] = "absent"};
    const char *claim = p->claim ? said[p->support] : "nothing";
    bool is_strict = p->strict == PROBE_REFUSED;
    if (p->effect == PROBE_HAS_EFFECT) {
        find(p, PROBE_TOO_NARROW, "accepted and has an effect, the claim says %s", claim);
    } else if (p->effect == PROBE_NO_EFFECT) {
        if (p->support == CLAIM_REJECTED || (p->support == CLAIM_ABSENT && is_strict)) {
            find(p, PROBE_IGNORED, "accepted without effect, the claim says %s", claim);
        }
    } else if (p->support != CLAIM_IGNORED && is_strict) {
        find(p, PROBE_TOO_NARROW, "accepted, and unknown fields are refused; the claim says %s",
             claim);
    }
}

static void judge_effect(struct probe *p)
{
    if (!probe_is_accepted(p)) {
        if (p->support == CLAIM_IGNORED && p->item[0].answer == PROBE_REFUSED) {
            find(p, PROBE_TOO_WIDE, "refused, the claim says accepted without effect");
        }
    } else if (p->support != CLAIM_YES) {
        judge_accepted(p);
    } else if (p->effect == PROBE_NO_EFFECT) {
        find(p, PROBE_IGNORED, "accepted without effect: answers are as if it were not there");
    }
}

/* ---- the phases */

static bool next_of_phase(struct probe *p)
{
    switch (p->phase) {
    case PROBE_PHASE_ITEMS:
        return next_item(p);
    case PROBE_PHASE_NAMES:
        return next_name(p);
    case PROBE_PHASE_BOUNDS:
        return next_bound(p);
    case PROBE_PHASE_STRICT:
        if (needs_strictness(p)) {
            probe_begin_strict(p);
            return true;
        }
        return false;
    case PROBE_PHASE_EFFECT:
        return probe_is_accepted(p) && probe_effect_has_test(p) && probe_effect_next(p);
    case PROBE_PHASE_DONE:
        break;
    }
    return false;
}

const struct probe_trial *probe_next(struct probe *p)
{
    while (p->phase != PROBE_PHASE_DONE && p->n_trials < PROBE_TRIALS_MAX) {
        if (next_of_phase(p)) {
            p->is_pending = true;
            return &p->trial;
        }
        if (p->phase == PROBE_PHASE_EFFECT) {
            judge_effect(p);
        }
        p->phase++;
    }
    p->phase = PROBE_PHASE_DONE;
    return NULL;
}

void probe_take(struct probe *p, const struct probe_outcome *o)
{
    if (!p->is_pending) {
        return;
    }
    p->is_pending = false;
    p->n_trials++;
    switch (p->phase) {
    case PROBE_PHASE_ITEMS:
        take_item(p, o);
        break;
    case PROBE_PHASE_NAMES:
        take_name(p, o);
        break;
    case PROBE_PHASE_BOUNDS:
        take_bound(p, o);
        break;
    case PROBE_PHASE_STRICT:
        p->strict = answer_of(o);
        break;
    case PROBE_PHASE_EFFECT:
        if (answer_of(o) != PROBE_ACCEPTED) {
            lose(p, o);
        }
        probe_effect_take(p, o);
        break;
    case PROBE_PHASE_DONE:
        break;
    }
}
