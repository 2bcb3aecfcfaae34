/* probe_report.c - what a probe says in the end, what would mend the claim, and what a probe can
 * cost at most. */
#include "probe_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_OF_ONE_WORD 8 /* tokens, with what frames it */

static const char *const verdict_names[] = {
    [PROBE_HOLDS] = "holds",       [PROBE_TOO_NARROW] = "too_narrow",
    [PROBE_TOO_WIDE] = "too_wide", [PROBE_IGNORED] = "ignored",
    [PROBE_RENAMED] = "renamed",   [PROBE_NOT_TOLD_APART] = "not_told_apart"};

const char *probe_verdict_name(enum probe_verdict v)
{
    return verdict_names[v];
}

/* ---- the report */

static bool is_whole(const struct probe *p)
{
    for (size_t i = 0; i < p->n_items; i++) {
        bool is_skipped = p->item[i].answer == PROBE_UNASKED &&
                          (probe_is_needless(p, i) || p->item[0].answer == PROBE_REFUSED);
        if (!is_skipped &&
            (p->item[i].answer == PROBE_UNASKED || p->item[i].answer == PROBE_NOTHING)) {
            return false;
        }
    }
    return p->n_items > 0 && p->phase == PROBE_PHASE_DONE;
}

/* Where everything was accepted, what was seen accepted is still what can be said. */
static void mend_range(const struct probe *p, struct probe_mend *m)
{
    const struct claim *c = p->claim;
    if (p->support != CLAIM_YES || c->values || !probe_is_accepted(p)) {
        return;
    }
    m->has_max = c->has_max && p->high.has_ok && (probe_has_moved(p, true) || p->high.ok > c->max);
    m->max = p->high.ok;
    m->has_min = c->has_min && p->low.has_ok && (probe_has_moved(p, false) || p->low.ok < c->min);
    m->min = p->low.ok;
}

static void mend(const struct probe *p, struct probe_mend *m)
{
    if (p->verdict == PROBE_IGNORED) {
        m->has_support = true;
        m->support = CLAIM_IGNORED;
    } else if (p->support != CLAIM_YES) {
        m->has_support = true;
        m->support = p->verdict == PROBE_TOO_WIDE ? CLAIM_REJECTED : CLAIM_YES;
    } else if (p->item[0].answer == PROBE_REFUSED && !p->found_name) {
        m->has_support = true;
        m->support = p->is_unknown ? CLAIM_ABSENT : CLAIM_REJECTED;
    }
    if (p->verdict == PROBE_RENAMED) {
        m->wire = p->found_name;
    } else if (m->has_support && m->support == CLAIM_YES && !(p->claim && p->claim->wire)) {
        m->wire = p->wire;
    }
    mend_range(p, m);
    m->has_items = p->items_found > 0;
    m->items_max = p->items_found;
}

static void say_untold(const struct probe *p, struct probe_report *out)
{
    out->verdict = PROBE_NOT_TOLD_APART;
    if (p->lost_text[0]) {
        (void)snprintf(out->text, sizeof out->text, "%s", p->lost_text);
    } else if (p->n_items == 0) {
        (void)snprintf(out->text, sizeof out->text, "there is no harmless value to send");
    } else if (p->phase != PROBE_PHASE_DONE) {
        (void)snprintf(out->text, sizeof out->text, "broken off after %u requests", p->n_trials);
    } else if (p->effect == PROBE_UNKNOWN) {
        (void)snprintf(out->text, sizeof out->text,
                       "accepted; the answers do not tell whether it has an effect");
    } else {
        (void)snprintf(out->text, sizeof out->text, "accepted, %s",
                       p->support == CLAIM_IGNORED ? "and no cheap answer shows an effect"
                                                   : "as any field is");
    }
}

/* Whether nothing is left open that the claim speaks of. */
static bool is_told(const struct probe *p)
{
    if (!is_whole(p)) {
        return false;
    }
    if (!probe_is_accepted(p)) {
        return true;
    }
    if (p->support == CLAIM_YES) {
        return p->effect != PROBE_UNKNOWN;
    }
    return p->effect == PROBE_NO_EFFECT; /* and no finding: so it was said */
}

static void say_holds(const struct probe *p, struct probe_report *out)
{
    const char *text = "accepted and refused as claimed";
    if (p->support != CLAIM_YES && !probe_is_accepted(p)) {
        text = "refused, as claimed";
    } else if (p->support != CLAIM_YES) {
        text = "accepted without effect";
    } else if (p->effect == PROBE_HAS_EFFECT) {
        text = "accepted and refused as claimed, and has an effect";
    } else if (p->effect == PROBE_NO_TEST) {
        text = "accepted and refused as claimed; no cheap answer shows an effect";
    }
    (void)snprintf(out->text, sizeof out->text, "%s", text);
}

void probe_report(const struct probe *p, struct probe_report *out)
{
    *out = (struct probe_report){.param = p->param,
                                 .claim = p->claim,
                                 .verdict = p->verdict,
                                 .name = p->found_name,
                                 .n_trials = p->n_trials};
    bool is_by_effect = p->effect == PROBE_HAS_EFFECT || p->effect == PROBE_NO_EFFECT;
    if (p->has_finding) {
        (void)snprintf(out->text, sizeof out->text, "%s", p->text);
        is_by_effect = is_by_effect && (p->verdict == PROBE_IGNORED || p->support != CLAIM_YES);
        mend(p, &out->mend);
    } else if (!is_told(p)) {
        say_untold(p, out);
        is_by_effect = false;
    } else {
        say_holds(p, out);
    }
    out->error_rate = is_by_effect ? p->effect_error : 0;
}

/* ---- what it can cost */

/* Of what a model would answer, did it not stop at one word. */
static double tokens_of(const struct probe *p, const struct probe_item *it)
{
    bool is_number =
        p->param == PARAM_MAX_TOKENS || p->param == PARAM_N || p->param == PARAM_BEST_OF;
    return is_number ? fmax(1, probe_number_of(it->v)) : 1;
}

static unsigned prompt_tokens(const struct probe *p, const char *prompt)
{
    bool is_long = p->param == PARAM_TOOLS || p->param == PARAM_TOOL_CHOICE ||
                   p->param == PARAM_PARALLEL_TOOL_CALLS ||
                   p->param == PARAM_RESPONSE_FORMAT_JSON_SCHEMA;
    /* No tokenizer takes more than one for two letters; 16 for the frame, 128 for a schema. */
    return (unsigned)strlen(prompt) / 2 + (is_long ? 144 : 16);
}

static unsigned at_most(double n)
{
    return n > UINT32_MAX ? UINT32_MAX : (unsigned)n;
}

struct kinds {
    unsigned steps, names, strict, effect, effect_tokens;
    const char *effect_prompt;
};

static struct kinds count_kinds(const struct probe *p)
{
    const struct claim *c = p->support == CLAIM_YES ? p->claim : NULL;
    bool has_range = c && (c->has_min || c->has_max) && !c->values;
    struct kinds k = {.steps = has_range ? 2 * PROBE_STEPS_MAX : 0,
                      .names = c ? (unsigned)p->n_names : 0,
                      .strict = p->support == CLAIM_REJECTED || p->support == CLAIM_ABSENT};
    k.effect = probe_effect_requests(p, &k.effect_tokens, &k.effect_prompt);
    return k;
}

const struct probe_trial *probe_list(struct probe *p, size_t i, unsigned *n)
{
    struct kinds k = count_kinds(p);
    *n = 1;
    if (p->n_items == 0) {
        return NULL;
    }
    if (i < p->n_items) {
        probe_begin_status(p, &p->item[i]);
        return &p->trial;
    }
    i -= p->n_items;
    if (i < k.names) {
        probe_trial_begin(p, probe_prompt_ok, 1, "if it is unknown: as %s", p->name[i]);
        probe_trial_add_own(p, p->item[0].v, p->name[i]);
        return &p->trial;
    }
    switch (i - k.names) {
    case 0:
        probe_trial_begin(p, probe_prompt_ok, 1, "if a refusal names nothing: without it");
        return &p->trial;
    case 1:
        *n = k.strict;
        probe_begin_strict(p);
        return &p->trial;
    case 2:
        *n = k.steps; /* the values follow from the answers; 0: none */
        probe_trial_begin(p, probe_prompt_ok, 1, "if a bound has moved: where it is now");
        probe_trial_add_own(p, p->item[0].v, p->wire);
        return &p->trial;
    default:
        return probe_effect_list(p, i - k.names - 3, n) ? &p->trial : NULL;
    }
}

struct probe_cost probe_cost_max(const struct probe *p)
{
    struct probe_cost cost = {0};
    if (p->n_items == 0) {
        return cost;
    }
    double answers = 0, largest = 1;
    for (size_t i = 0; i < p->n_items; i++) {
        answers += tokens_of(p, &p->item[i]);
        largest = fmax(largest, tokens_of(p, &p->item[i]));
    }
    struct kinds k = count_kinds(p);
    unsigned status = (unsigned)p->n_items + 1 + k.strict + k.steps + k.names; /* 1: without it */
    answers += k.steps * largest + k.names + 2;
    if (p->param == PARAM_MAX_TOKENS) {
        cost.limit_tokens = at_most(answers);
        answers = status * ANSWER_OF_ONE_WORD;
    }
    cost.n_requests = status + k.effect;
    cost.prompt_tokens =
        status * prompt_tokens(p, probe_prompt_ok) + k.effect * prompt_tokens(p, k.effect_prompt);
    cost.answer_tokens = at_most(answers + (double)k.effect * k.effect_tokens);
    return cost;
}
