/* probe_trials.c - what a probe sends: values at and around what a claim says, and the parameters
 * that must go with them.
 *
 * Nothing is asked that no request may ask for: values outside of what is meaningful at all
 * (sampling.h) are left out, since nobody could be served better by knowing. Nor is a bound looked
 * for where the claim names none.
 */
#include "probe_inside.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char probe_prompt_ok[] = "Reply with the single word ok.";
/* Whatever comes first is as likely as anything else, and so is what follows it. */
const char probe_prompt_flat[] = "Write one string of 24 random lowercase letters and digits, like "
                                 "a password. Write nothing else.";
const char probe_prompt_count[] = "Count from 1 to 20 in digits, separated by single spaces. Write "
                                  "the numbers and nothing else.";
/* Says json, as some providers demand, and is answered with no object unless one is forced. */
const char probe_prompt_json[] = "Reply with the single word json.";

const struct claim *probe_claim(const struct probe *p, enum param q)
{
    static const struct sampling nothing;
    return rules_claim(p->rules, q, &nothing);
}

/* ---- values */

static struct value own(struct probe *p, json_t *j)
{
    if (!j || json_array_append_new(p->owned, j) != 0) {
        p->has_memory = false;
        return (struct value){.type = VALUE_NONE};
    }
    return (struct value){.type = VALUE_JSON, .j = j};
}

struct value probe_number(const struct probe *p, double x)
{
    if (sampling_table[p->param].type != VALUE_INT) {
        return (struct value){.type = VALUE_NUMBER, .d = x};
    }
    return (struct value){.type = VALUE_INT, .i = (int64_t)x};
}

/* A seed's range ends where an int64 does; beyond it there is nothing to send. */
static bool is_number(enum param q, double x)
{
    const struct param_info *t = &sampling_table[q];
    return isfinite(x) && x >= t->lo && x <= t->hi && !(t->lo_open && x == t->lo) &&
           (t->type != VALUE_INT || (fabs(x) < 9.2e18 && x == rint(x)));
}

static bool claim_takes(const struct claim *c, double x)
{
    return !c || ((!c->has_min || x > c->min || (x == c->min && !c->min_exclusive)) &&
                  (!c->has_max || x < c->max || (x == c->max && !c->max_exclusive)));
}

double probe_step(enum param q, double bound)
{
    if (sampling_table[q].type == VALUE_INT) {
        return fabs(bound) < 0x1p53 ? 1 : NAN; /* beyond it a double has no neighbour at 1 */
    }
    return fmax(0.01, 1e-3 * fabs(bound));
}

double probe_between(enum param q, double a, double b)
{
    bool is_int = sampling_table[q].type == VALUE_INT;
    double low = fmin(a, b), high = fmax(a, b);
    int from = (int)floor(log10(high - low)) + 1;
    int last = is_int ? 0 : from - 3 > -3 ? -3 : from - 3;
    for (int k = from; k >= last; k--) {
        /* a power of ten below 1 is no double: divide by its inverse instead */
        double mid = (low + high) / 2;
        double x =
            k >= 0 ? rint(mid / pow(10, k)) * pow(10, k) : rint(mid * pow(10, -k)) / pow(10, -k);
        if (x > low && x < high && is_number(q, x)) {
            return x;
        }
    }
    return NAN;
}

static struct value number_value(enum param q, double x)
{
    const struct probe only_param = {.param = q};
    return probe_number(&only_param, x);
}

static struct value inside_number(enum param q, const struct claim *c)
{
    static const double likely[] = {0.5, 2, 3, 5, 0.9, 12, 40, 64, 1, 0.1, 0};
    if (q == PARAM_SEED) {
        return (struct value){.type = VALUE_INT, .i = 12345};
    }
    for (size_t i = 0; i < sizeof likely / sizeof *likely; i++) {
        struct value v = number_value(q, likely[i]);
        if (is_number(q, likely[i]) && claim_takes(c, likely[i]) && !sampling_is_neutral(q, v)) {
            return v;
        }
    }
    if (c && c->has_min && c->has_max) {
        double x = c->min == c->max ? c->min : probe_between(q, c->min, c->max);
        return number_value(q, isnan(x) ? c->min_exclusive ? c->max : c->min : x);
    }
    return (struct value){.type = VALUE_NONE};
}

static struct value inside_json(struct probe *p, enum param q)
{
    switch (q) {
    case PARAM_STOP:
        return own(p, json_pack("[s]", "###"));
    case PARAM_STOP_TOKEN_IDS:
        return own(p, json_pack("[i]", 100));
    case PARAM_LOGIT_BIAS: /* an id that every vocabulary has */
        return own(p, json_pack("{s:i}", "100", 1));
    case PARAM_RESPONSE_FORMAT_JSON_OBJECT:
        return own(p, json_pack("{s:s}", "type", "json_object"));
    case PARAM_RESPONSE_FORMAT_JSON_SCHEMA:
        return own(p, json_pack("{s:s, s:{s:s, s:b, s:{s:s, s:{s:{s:s}}, s:[s], s:b}}}", "type",
                                "json_schema", "json_schema", "name", "probe", "strict", 1,
                                "schema", "type", "object", "properties", "ok", "type", "boolean",
                                "required", "ok", "additionalProperties", 0));
    case PARAM_STRUCTURED_OUTPUTS:
        return own(p, json_pack("{s:[s,s]}", "choice", "yes", "no"));
    case PARAM_TOOLS:
        return own(p, json_pack("[{s:s, s:{s:s, s:s, s:{s:s, s:{}}}}]", "type", "function",
                                "function", "name", "noop", "description", "Does nothing.",
                                "parameters", "type", "object", "properties"));
    case PARAM_TOOL_CHOICE:
        return own(p, json_string("none"));
    case PARAM_PREDICTION:
        return own(p, json_pack("{s:s, s:s}", "type", "content", "content", "ok"));
    case PARAM_METADATA:
        return own(p, json_pack("{s:s}", "probe", "isotherm"));
    default:
        return (struct value){.type = VALUE_NONE};
    }
}

/* The first enumerated one of the right type; of strings without a list a word that harms nobody.
 */
static struct value inside_word(const struct claim *c, enum param q)
{
    const json_t *values = c ? c->values : NULL;
    for (size_t i = 0; i < json_array_size(values); i++) {
        const char *s = json_string_value(json_array_get(values, i));
        if (s) {
            return (struct value){.type = VALUE_STRING, .s = s};
        }
    }
    const char *word = q == PARAM_REASONING_EFFORT || q == PARAM_VERBOSITY ? "low"
                       : q == PARAM_SERVICE_TIER                           ? "auto"
                       : q == PARAM_PENALTY_SCOPE                          ? "all"
                       : q == PARAM_SAMPLER_ORDER                          ? "hf"
                       : q == PARAM_LOGPROBS_MODE                          ? "processed"
                                                                           : "isotherm-probe";
    return (struct value){.type = VALUE_STRING, .s = word};
}

struct value probe_inside_value(struct probe *p, enum param q, const struct claim *c)
{
    const json_t *first = c ? json_array_get(c->values, 0) : NULL;
    switch (sampling_table[q].type) {
    case VALUE_BOOL: /* what asks for something; nothing is kept at a provider for a probe */
        return (struct value){.type = VALUE_BOOL,
                              .b = q != PARAM_STORE && q != PARAM_PARALLEL_TOOL_CALLS};
    case VALUE_INT:
    case VALUE_NUMBER:
        return json_is_number(first) ? number_value(q, json_number_value(first))
                                     : inside_number(q, c);
    case VALUE_STRING:
        return inside_word(c, q);
    case VALUE_JSON:
        return inside_json(p, q);
    case VALUE_NONE:
        break;
    }
    return (struct value){.type = VALUE_NONE};
}

/* ---- the list of trials whose status tells */

static void add_item(struct probe *p, enum probe_spot spot, struct value v, bool is_fit)
{
    if (v.type != VALUE_NONE && p->n_items < PROBE_ITEMS_MAX) {
        p->item[p->n_items++] =
            (struct probe_item){.spot = spot, .v = v, .other = PARAM_COUNT, .is_fit = is_fit};
    }
}

static bool has_number(const struct probe *p, double x)
{
    for (size_t i = 0; i < p->n_items; i++) {
        if (value_equal(p->item[i].v, probe_number(p, x))) {
            return true;
        }
    }
    return false;
}

static void add_number(struct probe *p, enum probe_spot spot, double x, bool is_fit)
{
    bool is_outside = !is_fit;
    if (is_number(p->param, x) && !has_number(p, x) &&
        !(is_outside && sampling_is_neutral(p->param, probe_number(p, x)))) {
        add_item(p, spot, probe_number(p, x), is_fit);
    }
}

/* Far beyond a bound: ten times it, and never less than a hundred steps. */
static double far_from(enum param q, double bound, int direction)
{
    double x = rint(bound + direction * fmax(9 * fabs(bound), 100 * probe_step(q, bound)));
    double most = sampling_table[q].hi;
    return direction > 0 && isfinite(most) && most < 1e18 && x > most ? most : x;
}

static void add_range(struct probe *p)
{
    const struct claim *c = p->claim;
    if (c->has_min) {
        double step = probe_step(p->param, c->min);
        bool is_open = c->min_exclusive;
        add_number(p, is_open ? PROBE_ABOVE_MIN : PROBE_AT_MIN, is_open ? c->min + step : c->min,
                   true);
        add_number(p, PROBE_UNDER, is_open ? c->min : c->min - step, false);
        add_number(p, PROBE_FAR_UNDER, far_from(p->param, c->min, -1), false);
    }
    if (c->has_max) {
        double step = probe_step(p->param, c->max);
        bool is_open = c->max_exclusive;
        add_number(p, is_open ? PROBE_BELOW_MAX : PROBE_AT_MAX, is_open ? c->max - step : c->max,
                   true);
        add_number(p, PROBE_OVER, is_open ? c->max : c->max + step, false);
        add_number(p, PROBE_FAR_OVER, far_from(p->param, c->max, 1), false);
    }
}

static bool is_listed(const json_t *values, struct value v)
{
    json_t *j = value_json(v);
    bool found = false;
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *item = json_array_get(values, i);
        found = found || json_equal(item, j) ||
                (json_is_number(item) && json_is_number(j) &&
                 json_number_value(item) == json_number_value(j));
    }
    json_decref(j);
    return found;
}

static void add_no_value(struct probe *p)
{
    static const double others[] = {0.5, 0.7, 2, 0, 3, 1};
    enum value_type type = sampling_table[p->param].type;
    if (type == VALUE_STRING) {
        add_item(p, PROBE_NO_VALUE, (struct value){.type = VALUE_STRING, .s = "isotherm-probe"},
                 false);
        return;
    }
    bool is_numeric = type == VALUE_INT || type == VALUE_NUMBER;
    for (size_t i = 0; is_numeric && i < sizeof others / sizeof *others; i++) {
        struct value v = probe_number(p, others[i]);
        if (is_number(p->param, others[i]) && !is_listed(p->claim->values, v) &&
            !sampling_is_neutral(p->param, v)) {
            add_number(p, PROBE_NO_VALUE, others[i], false);
            return;
        }
    }
}

/* Of tool_choice; "function" stands for an object that names one. */
static struct value choice_of(struct probe *p, const json_t *word)
{
    if (strcmp(json_string_value(word), "function") == 0) {
        return own(p, json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", "noop"));
    }
    return (struct value){.type = VALUE_JSON, .j = word};
}

static void add_values(struct probe *p)
{
    const json_t *values = p->claim->values;
    enum value_type type = sampling_table[p->param].type;
    bool is_priced = p->param == PARAM_SERVICE_TIER; /* another class costs another price */
    for (size_t i = 0; i < json_array_size(values) && i < PROBE_VALUES_MAX && !is_priced; i++) {
        const json_t *item = json_array_get(values, i);
        const char *word = json_string_value(item);
        if (type == VALUE_STRING && word) {
            add_item(p, PROBE_VALUE, (struct value){.type = VALUE_STRING, .s = word}, true);
        } else if (type == VALUE_JSON && word) { /* tool_choice */
            add_item(p, PROBE_VALUE, choice_of(p, item), true);
        } else if ((type == VALUE_INT || type == VALUE_NUMBER) && json_is_number(item)) {
            add_number(p, PROBE_VALUE, json_number_value(item), true);
        }
    }
    add_no_value(p);
}

/* A list or an object of n items; NULL: this parameter has no such form. */
static json_t *list_of(enum param q, int64_t n)
{
    char text[32];
    json_t *j = q == PARAM_STOP || q == PARAM_STOP_TOKEN_IDS ? json_array() : json_object();
    for (int64_t i = 0; j && i < n; i++) {
        (void)snprintf(text, sizeof text, q == PARAM_STOP ? "##%lld#" : "%lld",
                       (long long)(100 + i));
        int rc = q == PARAM_STOP             ? json_array_append_new(j, json_string(text))
                 : q == PARAM_STOP_TOKEN_IDS ? json_array_append_new(j, json_integer(100 + i))
                 : q == PARAM_LOGIT_BIAS     ? json_object_set_new(j, text, json_integer(1))
                                             : json_object_set_new(j, text, json_string("a"));
        if (rc != 0) {
            json_decref(j);
            j = NULL;
        }
    }
    return j;
}

static bool is_list(enum param q)
{
    return q == PARAM_STOP || q == PARAM_STOP_TOKEN_IDS || q == PARAM_LOGIT_BIAS ||
           q == PARAM_METADATA;
}

/* A value with a string of n characters. */
static struct value text_of(struct probe *p, int64_t n)
{
    char *text = malloc((size_t)n + 1);
    if (!text) {
        p->has_memory = false;
        return (struct value){.type = VALUE_NONE};
    }
    memset(text, 'x', (size_t)n);
    text[n] = '\0';
    json_t *word = json_string(text);
    free(text);
    if (p->param == PARAM_STOP) {
        return own(p, json_pack("[o]", word));
    }
    if (p->param == PARAM_METADATA) {
        return own(p, json_pack("{s:o}", "probe", word));
    }
    struct value v = own(p, word);
    return v.type == VALUE_JSON ? (struct value){.type = VALUE_STRING, .s = json_string_value(word)}
                                : v;
}

static void add_lengths(struct probe *p)
{
    const struct claim *c = p->claim;
    int64_t most = p->param == PARAM_STOP             ? SAMPLING_STOP_MAX
                   : p->param == PARAM_STOP_TOKEN_IDS ? SAMPLING_STOP_IDS_MAX
                                                      : SAMPLING_BIAS_MAX;
    if (is_list(p->param) && c->items_max > 0 && c->items_max <= most) {
        add_item(p, PROBE_AT_LENGTH, own(p, list_of(p->param, c->items_max)), true);
        if (c->items_max < most) {
            add_item(p, PROBE_OVER_LENGTH, own(p, list_of(p->param, c->items_max + 1)), false);
        }
    }
    bool has_text = sampling_table[p->param].type == VALUE_STRING || p->param == PARAM_STOP ||
                    p->param == PARAM_METADATA;
    if (has_text && c->len_max > 0 && c->len_max <= 1024) {
        add_item(p, PROBE_AT_LENGTH, text_of(p, c->len_max), true);
        add_item(p, PROBE_OVER_LENGTH, text_of(p, c->len_max + 1), false);
    }
}

static void add_bias_range(struct probe *p)
{
    const struct claim *c = p->claim;
    if (c->has_max && c->max <= 100) {
        add_item(p, PROBE_AT_MAX, own(p, json_pack("{s:f}", "100", c->max)), true);
    }
    if (c->has_min && c->min >= -100) {
        add_item(p, PROBE_AT_MIN, own(p, json_pack("{s:f}", "100", c->min)), true);
    }
}

static void add_pairs(struct probe *p, const json_t *names, enum probe_spot spot)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        enum param q = sampling_find(json_string_value(json_array_get(names, i)));
        const struct claim *c = q == PARAM_COUNT ? NULL : probe_claim(p, q);
        if (c && q != p->param && c->support == CLAIM_YES && c->wire) {
            add_item(p, spot, p->item[0].v, false);
            p->item[p->n_items - 1].other = q;
        }
    }
}

static void add_neutral(struct probe *p)
{
    const struct claim *c = p->claim;
    enum value_type type = sampling_table[p->param].type;
    static const struct value neutrals[] = {{.type = VALUE_NUMBER, .d = 0},
                                            {.type = VALUE_NUMBER, .d = 1},
                                            {.type = VALUE_BOOL, .b = false},
                                            {.type = VALUE_BOOL, .b = true}};
    for (size_t i = 0; i < sizeof neutrals / sizeof *neutrals && p->param != PARAM_SEED; i++) {
        struct value v = neutrals[i];
        bool is_bool = v.type == VALUE_BOOL;
        if (is_bool != (type == VALUE_BOOL) || type == VALUE_STRING || type == VALUE_JSON ||
            !sampling_is_neutral(p->param, v)) {
            continue;
        }
        if (is_bool) {
            add_item(p, PROBE_NEUTRAL, v, true);
        } else if (claim_takes(c, v.d) && (!c->values || is_listed(c->values, v))) {
            add_number(p, PROBE_NEUTRAL, v.d, true);
        }
    }
}

void probe_make_items(struct probe *p)
{
    const struct claim *c = p->claim;
    enum value_type type = sampling_table[p->param].type;
    add_item(p, PROBE_INSIDE, probe_inside_value(p, p->param, c), p->support == CLAIM_YES);
    if (p->n_items == 0 || p->support != CLAIM_YES) {
        return; /* whether it is accepted at all is the question */
    }
    if (c->values) {
        add_values(p);
    } else if (type == VALUE_INT || type == VALUE_NUMBER) {
        add_range(p);
    }
    add_neutral(p);
    if (p->param == PARAM_LOGIT_BIAS) {
        add_bias_range(p);
    }
    add_lengths(p);
    add_pairs(p, c->conflicts, PROBE_PAIR);
    add_pairs(p, c->needs, PROBE_ALONE);
}

/* ---- other names */

struct name_count {
    const char *name;
    unsigned n;
};
struct names {
    const struct probe *p;
    struct name_count list[64];
    size_t n;
};

static bool count_name(const struct claim *c, void *ud)
{
    struct names *names = ud;
    if (!c->wire || strcmp(c->wire, names->p->wire) == 0 || strchr(c->wire, '[')) {
        return true;
    }
    size_t i = 0;
    while (i < names->n && strcmp(names->list[i].name, c->wire) != 0) {
        i++;
    }
    if (i == names->n && names->n < sizeof names->list / sizeof *names->list) {
        names->list[names->n++] = (struct name_count){c->wire, 0};
    }
    if (i < names->n) {
        names->list[i].n++;
    }
    return true;
}

static int compare_names(const void *a, const void *b)
{
    const struct name_count *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->name, y->name);
}

void probe_make_names(struct probe *p)
{
    struct names names = {.p = p};
    if (p->snap) {
        snapshot_each(p->snap, NULL, NULL, sampling_table[p->param].name, count_name, &names);
    }
    qsort(names.list, names.n, sizeof names.list[0], compare_names);
    if (strcmp(p->wire, sampling_table[p->param].name) != 0) {
        p->name[p->n_names++] = sampling_table[p->param].name; /* our own word is as likely */
    }
    for (size_t i = 0; i < names.n && p->n_names < PROBE_NAMES_MAX; i++) {
        if (strcmp(names.list[i].name, sampling_table[p->param].name) != 0) {
            p->name[p->n_names++] = names.list[i].name;
        }
    }
}

/* ---- one trial */

static void put(struct probe *p, enum param q, struct value v, const char *wire)
{
    sampling_set(&p->trial.send, q, v);
    p->trial.wire[q] = wire;
}

bool probe_trial_add(struct probe *p, enum param q, struct value v)
{
    const struct claim *c = probe_claim(p, q);
    if (!c || c->support != CLAIM_YES || !c->wire || v.type == VALUE_NONE) {
        return false;
    }
    put(p, q, v, c->wire);
    return true;
}

/* What a provider demands beside the parameter. */
static void add_required(struct probe *p)
{
    for (int i = 0; i < PARAM_COUNT; i++) {
        enum param q = (enum param)i;
        const struct claim *c = (p->rules->required_bits >> i) & 1 ? probe_claim(p, q) : NULL;
        if (c && c->is_required && q != p->param && !sampling_has(&p->trial.send, q)) {
            (void)probe_trial_add(
                p, q, c->fallback.type != VALUE_NONE ? c->fallback : probe_inside_value(p, q, c));
        }
    }
}

void probe_trial_begin(struct probe *p, const char *prompt, int64_t tokens, const char *why, ...)
{
    va_list ap;
    va_start(ap, why);
    (void)vsnprintf(p->why, sizeof p->why, why, ap);
    va_end(ap);
    memset(&p->trial, 0, sizeof p->trial);
    p->trial.prompt = prompt;
    p->trial.why = p->why;
    const struct claim *limit = probe_claim(p, PARAM_MAX_TOKENS);
    if (p->param != PARAM_MAX_TOKENS && limit) {
        double least = limit->has_min ? limit->min + (limit->min_exclusive ? 1 : 0) : 1;
        int64_t n = tokens < least ? (int64_t)least : tokens;
        (void)probe_trial_add(p, PARAM_MAX_TOKENS, (struct value){.type = VALUE_INT, .i = n});
    }
    add_required(p);
}

void probe_trial_add_own(struct probe *p, struct value v, const char *wire)
{
    static const json_t *const none;
    const json_t *needs = p->claim ? p->claim->needs : none;
    put(p, p->param, v, wire);
    for (size_t i = 0; i < json_array_size(needs); i++) {
        enum param q = sampling_find(json_string_value(json_array_get(needs, i)));
        if (q != PARAM_COUNT && q != p->param && !sampling_has(&p->trial.send, q)) {
            (void)probe_trial_add(p, q, probe_inside_value(p, q, probe_claim(p, q)));
        }
    }
    bool is_about_tools = p->param == PARAM_TOOL_CHOICE || p->param == PARAM_PARALLEL_TOOL_CALLS;
    if (is_about_tools) {
        (void)probe_trial_add(p, PARAM_TOOLS, probe_inside_value(p, PARAM_TOOLS, NULL));
    }
    if (p->param == PARAM_TOP_LOGPROBS && !sampling_has(&p->trial.send, PARAM_LOGPROBS)) {
        (void)probe_trial_add(p, PARAM_LOGPROBS, (struct value){.type = VALUE_BOOL, .b = true});
    }
}

void probe_value_text(struct value v, char *out, size_t cap)
{
    json_t *j = value_json(v);
    char *text = NULL;
    if (v.type == VALUE_NUMBER) {
        (void)snprintf(out, cap, "%.10g", v.d); /* jansson would write 0.69999999999999996 */
    } else {
        text = j ? json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
        bool is_long = text && strlen(text) > 40;
        (void)snprintf(out, cap, "%.40s%s", text ? text : "?", is_long ? "..." : "");
    }
    free(text);
    json_decref(j);
}
