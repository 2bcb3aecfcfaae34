/* sampler.c - one sequence's state, and the table that fixes the order of the stages.
 *
 * The stages themselves are pure functions in sampler_stages.c; here each gets its arguments from
 * the configuration and the tokens so far. Temperature is applied by top_k (see stage_top_k); the
 * stage `temperature` finds the maximum, and ends the chain at 0.
 */
#include "sampler.h"
#include "sampler_others.h"
#include "sampler_stages.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STAGES_MAX     16
#define RESERVE_TOKENS 1024 /* generated tokens that sampler_new() makes room for */
#define LLAMA_WINDOW   64   /* tokens that the penalties of llama.cpp look at: its default */
#define PENALTY_MAX    1e6  /* far beyond use, and no count can make it overflow */

struct sampler {
    const struct sampler_config *config;
    struct rng rng;
    struct stage_candidates c;
    int32_t *ends; /* [n_ends]: the model's EOS ids, then stop_token_ids */
    size_t n_eos, n_ends;
    size_t n_generated;
    /* With a penalty only: */
    uint32_t *count;    /* [n_vocab] */
    uint8_t *in_prompt; /* [n_vocab] */
    int32_t *seen;      /* [n_seen] of [n_vocab]: those of the prompt first */
    size_t n_seen, n_seen_prompt;
    /* With no_repeat_ngram_size only: prompt, then generated tokens. */
    int32_t *tokens;
    size_t n_tokens, n_prompt, tokens_cap;
    sampler_watch_fn *watch;
    void *watch_ud;
};

/* What one step works with. */
struct step {
    struct sampler *s;
    const float *logits; /* or NULL: wide is used */
    const double *wide;
    const uint8_t *mask;
    int32_t id; /* out */
    bool is_chosen;
    struct engine_error *err;
};

void sampler_config_init(struct sampler_config *c)
{
    *c = (struct sampler_config){
        .temperature = 1.0,
        .top_p = 1.0,
        .typical_p = 1.0,
        .repetition_penalty = 1.0,
    };
}

void sampler_config_release(struct sampler_config *c)
{
    if (!c) {
        return;
    }
    free(c->bias);
    free(c->stop_ids);
    sampler_config_init(c);
}

static bool check_number(const char *name, bool is_good, double value, const char *right,
                         struct engine_error *err)
{
    return is_good ||
           engine_fail(err, ENGINE_BAD_PARAM, name, "'%s' is %g, must be %s", name, value, right);
}

static bool check_ids(const char *name, const int32_t *ids, size_t n, int32_t n_vocab,
                      struct engine_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= n_vocab) {
            return engine_fail(err, ENGINE_BAD_PARAM, name,
                               "'%s': token id %d is outside the vocabulary 0..%d", name, ids[i],
                               n_vocab - 1);
        }
    }
    return true;
}

static bool check_bias(const struct sampler_config *c, int32_t n_vocab, struct engine_error *err)
{
    for (size_t i = 0; i < c->n_bias; i++) {
        if (!check_ids("logit_bias", &c->bias[i].id, 1, n_vocab, err) ||
            !check_number("logit_bias", isfinite(c->bias[i].bias), c->bias[i].bias, "finite",
                          err)) {
            return false;
        }
    }
    return true;
}

/* Comparisons are written so that NaN fails them. */
bool sampler_config_check(const struct sampler_config *c, int32_t n_vocab, struct engine_error *err)
{
    double t = c->temperature, rho = c->repetition_penalty;
    double frequency = c->frequency_penalty, presence = c->presence_penalty;
    return check_number("temperature", t >= 0 && t < INFINITY, t, ">= 0 and finite", err) &&
           check_number("top_p", c->top_p >= 0, c->top_p, "between 0 and 1", err) &&
           check_number("min_p", c->min_p >= 0 && c->min_p <= 1, c->min_p, "between 0 and 1",
                        err) &&
           check_number("typical_p", c->typical_p >= 0, c->typical_p, "between 0 and 1", err) &&
           check_number("repetition_penalty", rho > 0 && rho <= PENALTY_MAX, rho, "> 0 and <= 1e6",
                        err) &&
           check_number("frequency_penalty", fabs(frequency) <= PENALTY_MAX, frequency,
                        "between -1e6 and 1e6", err) &&
           check_number("presence_penalty", fabs(presence) <= PENALTY_MAX, presence,
                        "between -1e6 and 1e6", err) &&
           check_number("no_repeat_ngram_size", c->no_repeat_ngram_size >= 0,
                        (double)c->no_repeat_ngram_size, ">= 0", err) &&
           check_number("min_tokens", c->min_tokens >= 0, (double)c->min_tokens, ">= 0", err) &&
           check_bias(c, n_vocab, err) &&
           check_ids("stop_token_ids", c->stop_ids, c->n_stop_ids, n_vocab, err);
}

const char *const sampler_order_names[SAMPLER_ORDERS] = {"isotherm", "hf", "vllm", "llama.cpp",
                                                         "sglang"};

bool sampler_order_parse(const char *word, enum sampler_order *out)
{
    for (int i = 0; i < SAMPLER_ORDERS; i++) {
        if (strcmp(word, sampler_order_names[i]) == 0) {
            *out = (enum sampler_order)i;
            return true;
        }
    }
    return false;
}

double sampler_temperature(const struct sampler_config *c)
{
    double t = c->temperature;
    if (c->order == SAMPLER_VLLM) {
        return t < 1e-5 ? 0.0 : t < 0.01 ? 0.01 : t;
    }
    return c->order == SAMPLER_SGLANG && t < 1e-6 ? 0.0 : t;
}

/* Of the repetition penalty. */
static bool counts_prompt(const struct sampler_config *c)
{
    return c->penalty_counts_prompt || c->order == SAMPLER_HF || c->order == SAMPLER_VLLM;
}

static bool has_penalty(const struct sampler_config *c)
{
    return c->repetition_penalty != 1.0 || c->frequency_penalty != 0.0 ||
           c->presence_penalty != 0.0;
}

static void see(struct sampler *s, int32_t id)
{
    if (s->count[id] == 0 && !s->in_prompt[id]) {
        s->seen[s->n_seen++] = id;
    }
}

/* calloc's zero-sized answer may be NULL; an element more costs nothing. */
static void *array_new(size_t n, size_t size)
{
    return calloc(n + 1, size);
}

static bool penalties_init(struct sampler *s, const int32_t *prompt, size_t n_prompt)
{
    size_t n_vocab = (size_t)s->c.n_vocab;
    s->count = array_new(n_vocab, sizeof *s->count);
    s->in_prompt = array_new(n_vocab, sizeof *s->in_prompt);
    s->seen = array_new(n_vocab, sizeof *s->seen);
    if (!s->count || !s->in_prompt || !s->seen) {
        return false;
    }
    for (size_t i = 0; counts_prompt(s->config) && i < n_prompt; i++) {
        see(s, prompt[i]);
        s->in_prompt[prompt[i]] = 1;
    }
    s->n_seen_prompt = s->n_seen;
    return true;
}

static bool needs_tokens(const struct sampler_config *c)
{
    return c->no_repeat_ngram_size > 0 || (c->order == SAMPLER_LLAMA_CPP && has_penalty(c));
}

static bool tokens_init(struct sampler *s, const int32_t *prompt, size_t n_prompt)
{
    s->tokens_cap = n_prompt + RESERVE_TOKENS;
    s->tokens = array_new(s->tokens_cap, sizeof *s->tokens);
    if (!s->tokens) {
        return false;
    }
    if (n_prompt > 0) {
        memcpy(s->tokens, prompt, n_prompt * sizeof *prompt);
    }
    s->n_tokens = s->n_prompt = n_prompt;
    return true;
}

static bool ends_init(struct sampler *s, const int32_t *eos_ids, size_t n_eos)
{
    const struct sampler_config *c = s->config;
    s->ends = array_new(n_eos + c->n_stop_ids, sizeof *s->ends);
    if (!s->ends) {
        return false;
    }
    for (size_t i = 0; i < n_eos; i++) {
        s->ends[s->n_ends++] = eos_ids[i];
    }
    for (size_t i = 0; i < c->n_stop_ids; i++) {
        s->ends[s->n_ends++] = c->stop_ids[i];
    }
    s->n_eos = n_eos;
    return true;
}

bool sampler_new(struct sampler **out, const struct sampler_config *c, int32_t n_vocab,
                 const int32_t *eos_ids, size_t n_eos, const int32_t *prompt, size_t n_prompt,
                 int64_t seed, uint32_t choice, struct engine_error *err)
{
    assert(n_vocab > 0);
    /* Everything that is an index from here on. */
    if (!sampler_config_check(c, n_vocab, err) ||
        !check_ids("eos_token_id", eos_ids, n_eos, n_vocab, err) ||
        !check_ids("prompt", prompt, n_prompt, n_vocab, err)) {
        return false;
    }
    struct sampler *s = calloc(1, sizeof *s);
    if (!s) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a sampler");
    }
    s->config = c;
    rng_init(&s->rng, seed, choice);
    if (!stage_candidates_init(&s->c, n_vocab) || !ends_init(s, eos_ids, n_eos) ||
        (has_penalty(c) && !penalties_init(s, prompt, n_prompt)) ||
        (needs_tokens(c) && !tokens_init(s, prompt, n_prompt))) {
        sampler_free(s);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a sampler");
    }
    *out = s;
    return true;
}

void sampler_free(struct sampler *s)
{
    if (!s) {
        return;
    }
    stage_candidates_release(&s->c);
    free(s->ends);
    free(s->count);
    free(s->in_prompt);
    free(s->seen);
    free(s->tokens);
    free(s);
}

static bool tokens_grow(struct sampler *s, size_t n_more, struct engine_error *err)
{
    if (!s->tokens || n_more <= s->tokens_cap - s->n_tokens) {
        return true;
    }
    size_t cap = s->n_tokens + n_more;
    cap = cap > s->tokens_cap * 2 ? cap : s->tokens_cap * 2;
    int32_t *p = cap < SIZE_MAX / sizeof *p ? realloc(s->tokens, cap * sizeof *p) : NULL;
    if (!p) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for %zu tokens", cap);
    }
    s->tokens = p;
    s->tokens_cap = cap;
    return true;
}

bool sampler_reserve(struct sampler *s, size_t n_tokens, struct engine_error *err)
{
    return n_tokens <= s->n_generated || tokens_grow(s, n_tokens - s->n_generated, err);
}

static bool fail_nonfinite(struct engine_error *err)
{
    return engine_fail(err, ENGINE_NONFINITE, "",
                       "the model's logits are not finite numbers: check its weights");
}

static bool run_logits(struct step *t)
{
    struct stage_candidates *c = &t->s->c;
    bool is_good = t->logits ? stage_widen(c, t->logits) : stage_accept(c, t->wide);
    return is_good || fail_nonfinite(t->err);
}

static bool run_bias(struct step *t)
{
    stage_bias(&t->s->c, t->s->config->bias, t->s->config->n_bias);
    return true;
}

static struct stage_history history_of(const struct sampler *s)
{
    return (struct stage_history){s->seen, s->n_seen, s->count, s->in_prompt};
}

static bool run_repetition(struct step *t)
{
    struct stage_history h = history_of(t->s);
    stage_repetition(&t->s->c, &h, t->s->config->repetition_penalty);
    return true;
}

/* Counts anew: the last tokens, whoever said them. */
static bool run_repetition_in_window(struct step *t)
{
    struct sampler *s = t->s;
    size_t n = s->n_tokens < LLAMA_WINDOW ? s->n_tokens : LLAMA_WINDOW;
    for (size_t i = 0; i < s->n_seen; i++) {
        s->count[s->seen[i]] = 0;
    }
    s->n_seen = 0;
    for (size_t i = s->n_tokens - n; s->count && i < s->n_tokens; i++) {
        see(s, s->tokens[i]);
        s->count[s->tokens[i]]++;
    }
    return run_repetition(t);
}

static bool run_additive(struct step *t)
{
    struct stage_history h = history_of(t->s);
    stage_additive(&t->s->c, &h, t->s->config->frequency_penalty, t->s->config->presence_penalty);
    return true;
}

static bool run_ngram(struct step *t)
{
    const struct sampler *s = t->s;
    stage_ngram(&t->s->c, s->tokens, s->n_tokens, s->config->no_repeat_ngram_size);
    return true;
}

/* With ignore_eos as well: both only ban, and min_tokens bans all that ignore_eos does. */
static bool run_min_tokens(struct step *t)
{
    const struct sampler *s = t->s;
    if (s->n_generated < (uint64_t)s->config->min_tokens) {
        stage_ban(&t->s->c, s->ends, s->n_ends);
    } else if (s->config->ignore_eos) {
        stage_ban(&t->s->c, s->ends, s->n_eos);
    }
    return true;
}

static bool run_mask(struct step *t)
{
    if (t->mask) {
        stage_mask(&t->s->c, t->mask);
    }
    return true;
}

/* Whether a model said -inf of every token. Bans are not in its logits, so that is damage. */
static bool says_nothing(const float *logits, int32_t n_vocab)
{
    for (int32_t i = 0; i < n_vocab; i++) {
        if (logits[i] > -INFINITY) {
            return false;
        }
    }
    return true;
}

static bool find_max(struct step *t)
{
    struct stage_candidates *c = &t->s->c;
    struct engine_error own = {.code = ENGINE_OK};
    if (!stage_max(c, &own)) {
        return t->logits && says_nothing(t->logits, c->n_vocab)
                   ? fail_nonfinite(t->err)
                   : engine_fail(t->err, own.code, own.param, "%s", own.text);
    }
    return true;
}

static bool run_temperature(struct step *t)
{
    struct stage_candidates *c = &t->s->c;
    if (!find_max(t)) {
        return false;
    }
    if (sampler_temperature(t->s->config) == 0.0) {
        stage_greedy(c);
        t->id = c->id[0];
        t->is_chosen = true;
    }
    return true;
}

static bool run_top_k(struct step *t)
{
    struct stage_candidates *c = &t->s->c;
    stage_top_k(c, c->max, sampler_temperature(t->s->config), t->s->config->top_k);
    return true;
}

static bool run_softmax(struct step *t)
{
    stage_softmax(&t->s->c);
    return true;
}

static bool run_top_p(struct step *t)
{
    stage_top_p(&t->s->c, t->s->config->top_p);
    return true;
}

static bool run_min_p(struct step *t)
{
    stage_min_p(&t->s->c, t->s->config->min_p);
    return true;
}

static bool run_typical(struct step *t)
{
    stage_typical(&t->s->c, t->s->config->typical_p);
    return true;
}

static bool run_draw(struct step *t)
{
    t->id = stage_draw(&t->s->c, rng_double(&t->s->rng));
    t->is_chosen = true;
    return true;
}

/* ---- stages of other orders */

/* The list with everything, as probabilities. */
static bool run_softmax_of_all(struct step *t)
{
    struct stage_candidates *c = &t->s->c;
    stage_top_k(c, c->max, sampler_temperature(t->s->config), 0);
    stage_softmax(c);
    return true;
}

static bool run_top_k_of_list(struct step *t)
{
    others_top_k(&t->s->c, t->s->config->top_k);
    return true;
}

/* Of llama.cpp, where this is the first stage after the logits. */
static bool run_top_k_exact(struct step *t)
{
    struct stage_candidates *c = &t->s->c;
    if (!find_max(t)) {
        return false;
    }
    stage_top_k(c, c->max, 1.0, t->s->config->top_k);
    others_top_k_exact(c, t->s->config->top_k);
    return true;
}

static bool run_top_p_ascending(struct step *t)
{
    others_top_p_ascending(&t->s->c, t->s->config->top_p);
    return true;
}

static bool run_joint(struct step *t)
{
    others_top_k_top_p_joint(&t->s->c, t->s->config->top_k, t->s->config->top_p);
    return true;
}

static bool run_typical_of_llama(struct step *t)
{
    others_typical(&t->s->c, t->s->config->typical_p);
    return true;
}

static bool run_min_p_logits(struct step *t)
{
    others_min_p_logits(&t->s->c, t->s->config->min_p);
    return true;
}

static bool run_temperature_of_list(struct step *t)
{
    others_temperature(&t->s->c, sampler_temperature(t->s->config));
    return true;
}

/* ---- the orders. A stage that is off does nothing; the first that chooses a token ends the step.
 */

enum stage_on { ON_LOGITS, ON_MAXIMUM, ON_SCALED, ON_PROBABILITIES };

struct stage {
    const char *name;
    bool (*run)(struct step *t);
    enum stage_on on;
};

#define LOGITS                                                                                     \
    {                                                                                              \
        "logits", run_logits, ON_LOGITS                                                            \
    }
#define BIAS                                                                                       \
    {                                                                                              \
        "logit_bias", run_bias, ON_LOGITS                                                          \
    }
#define REPETITION                                                                                 \
    {                                                                                              \
        "repetition_penalty", run_repetition, ON_LOGITS                                            \
    }
#define ADDITIVE                                                                                   \
    {                                                                                              \
        "frequency_presence_penalty", run_additive, ON_LOGITS                                      \
    }
#define NGRAM                                                                                      \
    {                                                                                              \
        "no_repeat_ngram_size", run_ngram, ON_LOGITS                                               \
    }
#define MIN_TOKENS                                                                                 \
    {                                                                                              \
        "min_tokens", run_min_tokens, ON_LOGITS                                                    \
    }
#define MASK                                                                                       \
    {                                                                                              \
        "mask", run_mask, ON_LOGITS                                                                \
    }
#define TEMPERATURE                                                                                \
    {                                                                                              \
        "temperature", run_temperature, ON_MAXIMUM                                                 \
    }
#define TOP_K                                                                                      \
    {                                                                                              \
        "top_k", run_top_k, ON_SCALED                                                              \
    }
#define SOFTMAX                                                                                    \
    {                                                                                              \
        "softmax", run_softmax, ON_PROBABILITIES                                                   \
    }
#define ALL                                                                                        \
    {                                                                                              \
        "softmax", run_softmax_of_all, ON_PROBABILITIES                                            \
    }
#define TOP_P                                                                                      \
    {                                                                                              \
        "top_p", run_top_p, ON_PROBABILITIES                                                       \
    }
#define MIN_P                                                                                      \
    {                                                                                              \
        "min_p", run_min_p, ON_PROBABILITIES                                                       \
    }
#define TYPICAL                                                                                    \
    {                                                                                              \
        "typical_p", run_typical, ON_PROBABILITIES                                                 \
    }
#define DRAW                                                                                       \
    {                                                                                              \
        "draw", run_draw, ON_PROBABILITIES                                                         \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, NULL, ON_LOGITS                                                                      \
    }
#define WINDOW                                                                                     \
    {                                                                                              \
        "repetition_penalty", run_repetition_in_window, ON_LOGITS                                  \
    }
#define EXACT_K                                                                                    \
    {                                                                                              \
        "top_k", run_top_k_exact, ON_SCALED                                                        \
    }
#define LIST_K                                                                                     \
    {                                                                                              \
        "top_k", run_top_k_of_list, ON_PROBABILITIES                                               \
    }
#define ASCENDING_P                                                                                \
    {                                                                                              \
        "top_p", run_top_p_ascending, ON_PROBABILITIES                                             \
    }
#define JOINT                                                                                      \
    {                                                                                              \
        "top_k_top_p", run_joint, ON_PROBABILITIES                                                 \
    }
#define TYPICAL_L                                                                                  \
    {                                                                                              \
        "typical_p", run_typical_of_llama, ON_PROBABILITIES                                        \
    }
#define MIN_P_L                                                                                    \
    {                                                                                              \
        "min_p", run_min_p_logits, ON_PROBABILITIES                                                \
    }
#define LAST_T                                                                                     \
    {                                                                                              \
        "temperature", run_temperature_of_list, ON_PROBABILITIES                                   \
    }

/* clang-format off */
static const struct stage orders[SAMPLER_ORDERS][STAGES_MAX] = {
    [SAMPLER_ISOTHERM] = {LOGITS, BIAS, REPETITION, ADDITIVE, NGRAM, MIN_TOKENS, MASK, TEMPERATURE,
                          TOP_K, SOFTMAX, TOP_P, MIN_P, TYPICAL, DRAW, END},
    [SAMPLER_HF] = {LOGITS, BIAS, REPETITION, ADDITIVE, NGRAM, MIN_TOKENS, MASK, TEMPERATURE,
                    TOP_K, SOFTMAX, ASCENDING_P, MIN_P, TYPICAL, DRAW, END},
    [SAMPLER_VLLM] = {LOGITS, MIN_TOKENS, BIAS, REPETITION, ADDITIVE, NGRAM, MASK, TEMPERATURE,
                      ALL, MIN_P, LIST_K, ASCENDING_P, TYPICAL, DRAW, END},
    [SAMPLER_LLAMA_CPP] = {LOGITS, BIAS, WINDOW, ADDITIVE, NGRAM, MIN_TOKENS, MASK,
                           EXACT_K, SOFTMAX, TYPICAL_L, TOP_P, MIN_P_L, LAST_T, DRAW, END},
    [SAMPLER_SGLANG] = {LOGITS, ADDITIVE, MIN_TOKENS, REPETITION, NGRAM, MASK, BIAS, TEMPERATURE,
                        ALL, JOINT, MIN_P, TYPICAL, DRAW, END},
};
/* clang-format on */

static const struct stage greedy_end = TEMPERATURE;

const char *const sampler_stage_names[] = {
    "logits",
    "logit_bias",
    "repetition_penalty",
    "frequency_presence_penalty",
    "no_repeat_ngram_size",
    "min_tokens",
    "mask",
    "temperature",
    "top_k",
    "softmax",
    "top_p",
    "min_p",
    "typical_p",
    "draw",
    NULL,
};

static void show(const struct sampler *s, const struct stage *stage, bool is_chosen)
{
    bool is_list = stage->on >= ON_SCALED || is_chosen;
    /* From the list on z is scratch of the filters. */
    struct sampler_view v = {.stage = stage->name, .n_vocab = s->c.n_vocab};
    if (stage->on <= ON_MAXIMUM) {
        v.z = s->c.z;
    }
    if (is_list) {
        v.has_logits = stage->on == ON_SCALED;
        v.ids = s->c.id;
        v.value = s->c.p;
        v.n = s->c.n;
    }
    s->watch(&v, s->watch_ud);
}

static void remember(struct sampler *s, int32_t id)
{
    if (s->count) {
        see(s, id);
        s->count[id]++;
    }
    if (s->tokens) {
        s->tokens[s->n_tokens++] = id;
    }
    s->n_generated++;
}

static bool run_step(struct step *t, int32_t *id)
{
    struct sampler *s = t->s;
    /* First, so that a failure leaves nothing half done. */
    if (!tokens_grow(s, 1, t->err)) {
        return false;
    }
    s->c.n = 0;
    bool is_greedy = sampler_temperature(s->config) == 0.0;
    for (const struct stage *stage = orders[s->config->order]; !t->is_chosen; stage++) {
        /* Where temperature comes last: the maximum passes every filter. */
        const struct stage *now = is_greedy && stage->on != ON_LOGITS ? &greedy_end : stage;
        if (!now->run(t)) {
            return false;
        }
        if (s->watch) {
            show(s, now, t->is_chosen);
        }
    }
    assert(t->is_chosen);
    remember(s, t->id);
    *id = t->id;
    return true;
}

bool sampler_next(struct sampler *s, const float *logits, const uint8_t *mask, int32_t *id,
                  struct engine_error *err)
{
    struct step t = {.s = s, .logits = logits, .mask = mask, .err = err};
    return run_step(&t, id);
}

bool sampler_next_wide(struct sampler *s, const double *logits, const uint8_t *mask, int32_t *id,
                       struct engine_error *err)
{
    struct step t = {.s = s, .wide = logits, .mask = mask, .err = err};
    return run_step(&t, id);
}

bool sampler_assume(struct sampler *s, const int32_t *tokens, size_t n, struct engine_error *err)
{
    for (size_t i = 0; i < s->n_seen; i++) {
        s->count[s->seen[i]] = 0;
    }
    s->n_seen = s->n_seen_prompt;
    s->n_tokens = s->n_prompt;
    s->n_generated = 0;
    if (!tokens_grow(s, n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        remember(s, tokens[i]);
    }
    return true;
}

bool sampler_scores(struct sampler *s, const float *logits, const uint8_t *mask,
                    const double **scores, struct engine_error *err)
{
    struct step t = {.s = s, .logits = logits, .mask = mask, .err = err};
    s->c.n = 0;
    for (const struct stage *stage = orders[s->config->order]; stage->on == ON_LOGITS; stage++) {
        if (!stage->run(&t)) {
            return false;
        }
    }
    if (!find_max(&t)) {
        return false;
    }
    stage_log_softmax(&s->c);
    *scores = s->c.z;
    return true;
}

size_t sampler_n_generated(const struct sampler *s)
{
    return s->n_generated;
}

size_t sampler_distribution(const struct sampler *s, const int32_t **ids, const double **probs)
{
    *ids = s->c.id;
    *probs = s->c.p;
    return s->c.n;
}

void sampler_watch(struct sampler *s, sampler_watch_fn *fn, void *ud)
{
    s->watch = fn;
    s->watch_ud = ud;
}

void sampler_logprobs(const struct sampler *processed, const float *logits, int32_t n_vocab,
                      int32_t id, size_t n_top, double *logprob, struct sampler_top *top)
{
    if (processed) {
        assert(n_vocab == processed->c.n_vocab);
        stage_logprobs_processed(&processed->c, id, n_top, logprob, top);
        return;
    }
    struct stage_logits l = {.f = logits, .n_vocab = n_vocab};
    stage_logprobs(&l, id, n_top, logprob, top);
}

bool sampler_check_logits(const float *logits, int32_t n_vocab, struct engine_error *err)
{
    bool is_good = true, is_any = false;
    for (int32_t i = 0; i < n_vocab; i++) {
        is_good = is_good && logits[i] < INFINITY; /* so is a NaN found */
        is_any = is_any || logits[i] > -INFINITY;
    }
    return (is_good && is_any) || fail_nonfinite(err);
}
