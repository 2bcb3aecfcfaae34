/* probe_effect.c - whether a parameter that is accepted does anything. Two kinds of question:
 *
 * Sharp: a value at which every answer must be the same one, against a setting at which answers
 * spread (probe_stat.c judges). Direct: one answer shows it (log-probabilities are there, the text
 * ends before the stop string); asked twice, and where the same could happen without the parameter
 * a request without it must show the opposite.
 */
#include "probe_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DIRECT_AGREE 2 /* answers that must say the same */
#define DIRECT_MAX   6
#define LOST_MAX     3    /* answers that told nothing, after which no more are asked for */
#define FLAT_HEAT    1.5  /* of the answers that spread, where the claims allow it */
#define SHARP_HEAT   0.05 /* a lowest temperature above it decides nothing */

#define RESTART_MAX 4 /* answers that may be thrown away for heat that is refused */

enum test_kind { TEST_NONE, TEST_SHARP, TEST_DIRECT };

static const unsigned char kinds[PARAM_COUNT] = {
    [PARAM_TEMPERATURE] = TEST_SHARP,
    [PARAM_TOP_P] = TEST_SHARP,
    [PARAM_TOP_K] = TEST_SHARP,
    [PARAM_MIN_P] = TEST_SHARP,
    [PARAM_TYPICAL_P] = TEST_SHARP,
    [PARAM_SEED] = TEST_SHARP,
    [PARAM_LOGIT_BIAS] = TEST_SHARP,
    [PARAM_STOP] = TEST_DIRECT,
    [PARAM_MAX_TOKENS] = TEST_DIRECT,
    [PARAM_MIN_TOKENS] = TEST_DIRECT,
    [PARAM_IGNORE_EOS] = TEST_DIRECT,
    [PARAM_N] = TEST_DIRECT,
    [PARAM_LOGPROBS] = TEST_DIRECT,
    [PARAM_TOP_LOGPROBS] = TEST_DIRECT,
    [PARAM_RESPONSE_FORMAT_JSON_OBJECT] = TEST_DIRECT,
    [PARAM_RESPONSE_FORMAT_JSON_SCHEMA] = TEST_DIRECT,
};

static enum test_kind kind_of(enum param q)
{
    return q < PARAM_COUNT ? (enum test_kind)kinds[q] : TEST_NONE;
}

/* ---- sharp */

static struct value number(enum param q, double x)
{
    const struct probe only_param = {.param = q};
    return probe_number(&only_param, x);
}

/* The outermost values that may be sent: of a claimed bound what was accepted. */
static double lowest(const struct probe *p, double unclaimed)
{
    const struct claim *c = p->support == CLAIM_YES ? p->claim : NULL;
    if (!c || !c->has_min) {
        return unclaimed;
    }
    double claimed = c->min_exclusive ? c->min + probe_step(p->param, c->min) : c->min;
    return fmax(p->low.has_ok ? p->low.ok : claimed, unclaimed);
}

static double highest(const struct probe *p, double unclaimed)
{
    const struct claim *c = p->support == CLAIM_YES ? p->claim : NULL;
    if (!c || !c->has_max) {
        return unclaimed;
    }
    return fmin(p->high.has_ok ? p->high.ok : c->max, unclaimed);
}

/* One token for ever; VALUE_NONE where the claim does not take so much. */
static struct value bias_value(struct probe *p)
{
    const struct claim *c = p->support == CLAIM_YES ? p->claim : NULL;
    int most = c && c->has_max && c->max < 100 ? (int)c->max : 100;
    json_t *j = most >= 50 ? json_pack("{s:i}", "100", most) : NULL;
    if (!j || json_array_append_new(p->owned, j) != 0) {
        return (struct value){.type = VALUE_NONE};
    }
    return (struct value){.type = VALUE_JSON, .j = j};
}

/* The value at which every answer is the same; VALUE_NONE: nothing that is accepted is sharp
 * enough. */
static struct value sharp_value(struct probe *p)
{
    static const struct value none = {.type = VALUE_NONE};
    double low = lowest(p, 0), least = fmax(low, 0.001);
    if (p->support == CLAIM_YES && p->claim->values && p->param != PARAM_SEED) {
        return none;
    }
    switch (p->param) {
    case PARAM_TEMPERATURE:
        return low <= SHARP_HEAT ? number(p->param, low) : none;
    case PARAM_TOP_P:
    case PARAM_TYPICAL_P:
        return least <= SHARP_HEAT ? number(p->param, least) : none;
    case PARAM_TOP_K:
        return low <= 1 ? number(p->param, 1) : none;
    case PARAM_MIN_P:
        return highest(p, 1) >= 1 ? number(p->param, 1) : none;
    case PARAM_SEED:
        return number(p->param, 12345);
    case PARAM_LOGIT_BIAS:
        return bias_value(p);
    default:
        return none;
    }
}

static bool conflicts(const struct claim *a, enum param b)
{
    for (size_t i = 0; a && i < json_array_size(a->conflicts); i++) {
        const char *name = json_string_value(json_array_get(a->conflicts, i));
        if (name && strcmp(name, sampling_table[b].name) == 0) {
            return true;
        }
    }
    return false;
}

/* Answers spread more when they are hot; where that is refused, the provider's own default must do.
 */
static void add_heat(struct probe *p)
{
    const struct claim *c = probe_claim(p, PARAM_TEMPERATURE);
    if (p->without_temperature || !c || c->values || conflicts(c, p->param) ||
        conflicts(p->claim, PARAM_TEMPERATURE)) {
        return;
    }
    double x = c->has_max && c->max < FLAT_HEAT ? c->max : FLAT_HEAT;
    if (x >= 0.5 && !(c->has_min && c->min > x)) {
        (void)probe_trial_add(p, PARAM_TEMPERATURE, (struct value){.type = VALUE_NUMBER, .d = x});
    }
}

static bool sharp_next(struct probe *p)
{
    struct probe_samples *s = &p->samples;
    bool is_flat = s->n_flat < s->n_sharp;
    struct value v = sharp_value(p);
    if (v.type == VALUE_NONE) {
        p->effect = PROBE_NO_TEST;
        return false;
    }
    if (s->n_flat == PROBE_REPEATS_MAX) {
        return false;
    }
    unsigned round = is_flat ? s->n_flat : s->n_sharp;
    probe_trial_begin(p, probe_prompt_flat, PROBE_ANSWER_TOKENS, "effect: %s %u",
                      is_flat ? "answers that spread" : "answers that must be equal", round + 1);
    if (p->param != PARAM_TEMPERATURE) {
        add_heat(p);
    }
    if (p->param == PARAM_TEMPERATURE && is_flat) {
        v = number(p->param, highest(p, 2));
    } else if (p->param == PARAM_SEED && is_flat) {
        v = (struct value){.type = VALUE_INT, .i = 1000 + 7 * (int64_t)round};
    }
    if (!is_flat || p->param == PARAM_TEMPERATURE || p->param == PARAM_SEED) {
        probe_trial_add_own(p, v, p->wire);
    }
    return true;
}

static void sharp_take(struct probe *p, const struct probe_outcome *o)
{
    struct probe_samples *s = &p->samples;
    bool is_flat = s->n_flat < s->n_sharp;
    char(*list)[64] = is_flat ? s->flat : s->sharp;
    unsigned *n = is_flat ? &s->n_flat : &s->n_sharp;
    (void)snprintf(list[*n], sizeof list[*n], "%.63s", o->text);
    ++*n;
    if (s->n_flat == s->n_sharp && probe_stat_is_look(s->n_flat)) {
        p->effect = probe_stat_judge(s, &p->effect_error);
    }
}

/* ---- direct */

/* with: YES where one answer shows the effect, NO where it shows that there is none. */
enum direct { DIRECT_YES, DIRECT_NO, DIRECT_UNCLEAR };

static bool needs_control(enum param q)
{
    return q != PARAM_N && q != PARAM_LOGPROBS && q != PARAM_TOP_LOGPROBS;
}

static int64_t token_limit(const struct probe *p)
{
    const struct claim *c = p->claim;
    double least = c && c->has_min && p->support == CLAIM_YES ? c->min : 1;
    return least > 4 ? (int64_t)least : 4;
}

static struct value direct_value(struct probe *p)
{
    switch (p->param) {
    case PARAM_STOP: {
        json_t *j = json_pack("[s]", "7");
        if (!j || json_array_append_new(p->owned, j) != 0) {
            p->has_memory = false;
            return (struct value){.type = VALUE_NONE};
        }
        return (struct value){.type = VALUE_JSON, .j = j};
    }
    case PARAM_MAX_TOKENS:
        return (struct value){.type = VALUE_INT, .i = token_limit(p)};
    case PARAM_MIN_TOKENS:
        return (struct value){.type = VALUE_INT, .i = 12};
    case PARAM_N:
        return (struct value){.type = VALUE_INT, .i = 2};
    default:
        return p->item[0].v;
    }
}

static const char *direct_prompt(enum param q, int64_t *tokens)
{
    switch (q) {
    case PARAM_STOP:
    case PARAM_MAX_TOKENS:
        *tokens = 24;
        return probe_prompt_count;
    case PARAM_MIN_TOKENS:
    case PARAM_IGNORE_EOS:
        *tokens = 16;
        return probe_prompt_ok;
    case PARAM_RESPONSE_FORMAT_JSON_OBJECT:
    case PARAM_RESPONSE_FORMAT_JSON_SCHEMA:
        *tokens = 8;
        return probe_prompt_json;
    default:
        *tokens = 1;
        return probe_prompt_ok;
    }
}

static enum direct yes_no(bool is_yes, bool is_no)
{
    return is_yes ? DIRECT_YES : is_no ? DIRECT_NO : DIRECT_UNCLEAR;
}

static enum direct direct_judge(struct probe *p, const struct probe_outcome *o)
{
    int64_t asked;
    const char *first = o->text + strspn(o->text, " \t\r\n");
    switch (p->param) {
    case PARAM_STOP:
        return yes_no(strchr(o->text, '6') && !strchr(o->text, '7'),
                      strchr(o->text, '7') && strchr(o->text, '8'));
    case PARAM_MAX_TOKENS:
        asked = token_limit(p);
        return yes_no(o->n_tokens > 0 && o->n_tokens <= asked, o->n_tokens > asked + 4);
    case PARAM_MIN_TOKENS:
    case PARAM_IGNORE_EOS:
        return yes_no(o->n_tokens >= 12, o->n_tokens > 0 && o->n_tokens < 8);
    case PARAM_N:
        return yes_no(o->n_choices == 2, o->n_choices == 1);
    case PARAM_LOGPROBS:
        return yes_no(o->has_logprobs, !o->has_logprobs);
    case PARAM_TOP_LOGPROBS: {
        int64_t wanted = p->item[0].v.i; /* some providers add the chosen token */
        return yes_no(o->has_logprobs && o->n_top_logprobs >= wanted,
                      o->has_logprobs && o->n_top_logprobs < wanted);
    }
    default:
        return yes_no(*first == '{', *first != '{' && *first != '\0');
    }
}

static bool direct_next(struct probe *p)
{
    int64_t tokens;
    const char *prompt = direct_prompt(p->param, &tokens);
    unsigned n_own = p->n_yes + p->n_no + p->n_unclear;
    unsigned n_control = p->n_control_yes + p->n_control_no;
    struct value v = direct_value(p);
    if (v.type == VALUE_NONE || n_own + n_control >= DIRECT_MAX) {
        return false;
    }
    p->is_control = needs_control(p->param) && n_control < n_own;
    probe_trial_begin(p, prompt, tokens, "effect: %s it %u", p->is_control ? "without" : "with",
                      (p->is_control ? n_control : n_own) + 1);
    if (!p->is_control) {
        probe_trial_add_own(p, v, p->wire);
    } else if (p->param == PARAM_MAX_TOKENS) {
        probe_trial_add_own(p, (struct value){.type = VALUE_INT, .i = token_limit(p) + 20},
                            p->wire);
    }
    return true;
}

static void direct_take(struct probe *p, const struct probe_outcome *o)
{
    enum direct d = direct_judge(p, o);
    if (p->is_control) {
        p->n_control_yes += d != DIRECT_NO;
        p->n_control_no += d == DIRECT_NO;
    } else {
        p->n_yes += d == DIRECT_YES;
        p->n_no += d == DIRECT_NO;
        p->n_unclear += d == DIRECT_UNCLEAR;
    }
    bool has_control = !needs_control(p->param) || p->n_control_no >= DIRECT_AGREE;
    if (p->n_yes >= DIRECT_AGREE && has_control && p->n_no + p->n_control_yes == 0) {
        p->effect = PROBE_HAS_EFFECT;
        p->effect_error = 0;
    } else if (p->n_no >= DIRECT_AGREE && p->n_yes == 0) {
        p->effect = PROBE_NO_EFFECT;
        p->effect_error = 0;
    }
}

/* ---- both */

bool probe_effect_has_test(const struct probe *p)
{
    return kind_of(p->param) != TEST_NONE && p->n_items > 0;
}

bool probe_effect_next(struct probe *p)
{
    enum test_kind kind = kind_of(p->param);
    if (p->effect == PROBE_NO_TEST) {
        p->effect = PROBE_UNKNOWN;
        p->effect_error = 1;
    }
    if (kind == TEST_NONE || p->effect != PROBE_UNKNOWN || p->n_lost >= LOST_MAX) {
        return false;
    }
    return kind == TEST_SHARP ? sharp_next(p) : direct_next(p);
}

/* Heat that is refused is left out, and the answers are gathered anew: at another temperature they
 * are others. */
static bool may_go_on_cooler(struct probe *p, const struct probe_outcome *o)
{
    if (o->status < 400 || o->status >= 500 || p->param == PARAM_TEMPERATURE ||
        !sampling_has(&p->trial.send, PARAM_TEMPERATURE) ||
        p->samples.n_sharp + p->samples.n_flat > RESTART_MAX) {
        return false;
    }
    p->without_temperature = true;
    memset(&p->samples, 0, sizeof p->samples);
    return true;
}

void probe_effect_take(struct probe *p, const struct probe_outcome *o)
{
    if (o->status < 200 || o->status >= 300) {
        if (!may_go_on_cooler(p, o)) {
            p->n_lost++;
        }
    } else if (kind_of(p->param) == TEST_SHARP) {
        sharp_take(p, o);
    } else {
        direct_take(p, o);
    }
}

unsigned probe_effect_requests(const struct probe *p, unsigned *tokens, const char **prompt)
{
    int64_t n = PROBE_ANSWER_TOKENS;
    *prompt = probe_prompt_flat;
    if (kind_of(p->param) == TEST_DIRECT) {
        *prompt = direct_prompt(p->param, &n);
        n = p->param == PARAM_MAX_TOKENS ? token_limit(p) + 20 : n;
        n = p->param == PARAM_N ? 2 * n : n;
    }
    *tokens = (unsigned)n;
    return kind_of(p->param) == TEST_NONE    ? 0
           : kind_of(p->param) == TEST_SHARP ? 2 * PROBE_REPEATS_MAX + RESTART_MAX + LOST_MAX + 1
                                             : DIRECT_MAX + LOST_MAX;
}

/* The two kinds of request; what may be lost and asked again counts for the first. */
bool probe_effect_list(struct probe *p, size_t i, unsigned *n)
{
    enum test_kind kind = kind_of(p->param);
    unsigned tokens, all;
    const char *prompt;
    if (kind == TEST_NONE || i > 1) {
        return false;
    }
    all = probe_effect_requests(p, &tokens, &prompt);
    unsigned others = kind == TEST_SHARP        ? PROBE_REPEATS_MAX
                      : needs_control(p->param) ? DIRECT_MAX / 2
                                                : 0;
    *n = i == 0 ? all - others : others;
    p->samples.n_sharp = p->n_yes = i == 1;
    bool is_asked = kind == TEST_SHARP ? sharp_next(p) : direct_next(p);
    p->samples.n_sharp = p->n_yes = 0;
    if (!is_asked) { /* nothing that is accepted would be sharp enough */
        probe_trial_begin(p, prompt, tokens, "effect: nothing that is accepted would show it");
        *n = i == 0 ? all : 0;
    }
    return true;
}
