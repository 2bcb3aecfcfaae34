/* sample_ops.c - reads the fields of an operation, runs the stage or the whole sampler, writes what
 * is left.
 *
 * Errors travel in an engine_error; an operation that returns NULL without one is out of memory.
 */
#include "gateway/ctl/sample_ops.h"

#include "gateway/ctl/sample_beam.h"
#include "gateway/ctl/sample_fields.h"
#include "gateway/ctl/sample_stream.h"
#include "local-engine/sampler.h"
#include "local-engine/sampler_stages.h"
#include "local-engine/sha256.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOP_MAX     4096
#define DRAWS_SHOWN 6 /* tokens that filter_probs_big draws */
#define TOP_SHOWN   8 /* probabilities that filter_probs_big lists */

/* ---- candidates ---- */

/* Makes candidates for a row of logits and does stage 0. */
static bool candidates_of(struct stage_candidates *c, const json_t *row, const char *name,
                          struct engine_error *err)
{
    size_t n = json_array_size(row);
    if (!json_is_array(row) || n == 0 || n > SAMPLE_LIST_MAX) {
        sample_refuse(err, name, "a list of a possible length");
        return false;
    }
    double *logits = sample_numbers_of(row, name, err);
    if (!logits) {
        return false;
    }
    bool is_good = false;
    if (!stage_candidates_init(c, (int32_t)n)) {
        sample_no_memory(err);
    } else if (!stage_accept(c, logits)) {
        stage_candidates_release(c);
        (void)engine_fail(err, ENGINE_NONFINITE, "", "logits hold nan or +inf");
    } else {
        is_good = true;
    }
    free(logits);
    return is_good;
}

static bool get_logits(struct stage_candidates *c, const json_t *in, struct engine_error *err)
{
    return candidates_of(c, json_object_get(in, "logits"), "logits", err);
}

/* Makes a list of candidates from probabilities. */
static bool get_probs(struct stage_candidates *c, const json_t *in, struct engine_error *err)
{
    if (!candidates_of(c, json_object_get(in, "probs"), "probs", err)) {
        return false;
    }
    for (int32_t i = 0; i < c->n_vocab; i++) {
        if (!(c->z[i] >= 0)) {
            stage_candidates_release(c);
            sample_refuse(err, "probs", "a list of probabilities");
            return false;
        }
        if (c->z[i] > 0) {
            c->id[c->n] = i;
            c->p[c->n++] = c->z[i];
        }
    }
    if (c->n == 0) {
        stage_candidates_release(c);
        (void)engine_fail(err, ENGINE_NO_CANDIDATE, "", "all probabilities are 0");
        return false;
    }
    return true;
}

static json_t *logits_out(struct stage_candidates *c)
{
    json_t *out = json_array();
    for (int32_t i = 0; i < c->n_vocab; i++) {
        (void)json_array_append_new(
            out, sample_json_of(c->z[i])); /* a failed one shows as a short list */
    }
    stage_candidates_release(c);
    return out;
}

/* One number for each id: its value in the list, and `absent` for ids that are not in it. */
static json_t *spread(int32_t n_vocab, const int32_t *ids, const double *value, size_t n,
                      double absent)
{
    json_t *out = json_array();
    size_t next = 0;
    for (int32_t i = 0; i < n_vocab; i++) {
        double d = next < n && ids[next] == i ? value[next++] : absent;
        (void)json_array_append_new(out, sample_json_of(d));
    }
    return out;
}

static json_t *probs_out(struct stage_candidates *c)
{
    json_t *out = spread(c->n_vocab, c->id, c->p, c->n, 0.0);
    stage_candidates_release(c);
    return out;
}

/* For operations on one stage: reads logits and parameters, fails with both released. */
static bool begin(const json_t *in, struct stage_candidates *c, struct sampler_config *config,
                  struct engine_error *err)
{
    if (!get_logits(c, in, err)) {
        return false;
    }
    if (!sample_get_config(in, c->n_vocab, config, err)) {
        sampler_config_release(config);
        stage_candidates_release(c);
        return false;
    }
    return true;
}

/* ---- operations on logits ---- */

static json_t *op_logit_bias(const json_t *in, struct engine_error *err)
{
    struct stage_candidates c;
    struct sampler_config config;
    if (!begin(in, &c, &config, err)) {
        return NULL;
    }
    stage_bias(&c, config.bias, config.n_bias);
    sampler_config_release(&config);
    return logits_out(&c);
}

/* The history that sampler_next() would have after these tokens. */
static bool count_tokens(const int32_t *ids, size_t n, int32_t n_vocab, struct stage_history *h)
{
    uint32_t *count = calloc((size_t)n_vocab, sizeof *count);
    int32_t *seen = calloc((size_t)n_vocab, sizeof *seen);
    *h = (struct stage_history){.seen = seen, .count = count};
    for (size_t i = 0; count && seen && i < n; i++) {
        if (count[ids[i]]++ == 0) {
            seen[h->n_seen++] = ids[i];
        }
    }
    return count && seen;
}

static json_t *op_apply_penalties(const json_t *in, struct engine_error *err)
{
    struct stage_candidates c;
    struct sampler_config config;
    if (!begin(in, &c, &config, err)) {
        return NULL;
    }
    size_t n = 0;
    int32_t *ids = sample_get_ids(in, "generated", c.n_vocab, &n, err);
    struct stage_history h = {0};
    json_t *out = NULL;
    if (ids && count_tokens(ids, n, c.n_vocab, &h)) {
        stage_repetition(&c, &h, config.repetition_penalty);
        stage_additive(&c, &h, config.frequency_penalty, config.presence_penalty);
        out = logits_out(&c);
    }
    free(ids);
    free((void *)h.count);
    free((void *)h.seen);
    stage_candidates_release(&c);
    sampler_config_release(&config);
    return out;
}

static json_t *op_no_repeat_ngram(const json_t *in, struct engine_error *err)
{
    struct stage_candidates c;
    if (!get_logits(&c, in, err)) {
        return NULL;
    }
    int64_t size = 0;
    size_t n = 0;
    int32_t *ids = sample_get_ids(in, "history", c.n_vocab, &n, err);
    if (!ids || !sample_get_int(in, "n", &size, err)) {
        free(ids);
        stage_candidates_release(&c);
        return NULL;
    }
    stage_ngram(&c, ids, n, size);
    free(ids);
    return logits_out(&c);
}

static json_t *op_min_tokens(const json_t *in, struct engine_error *err)
{
    struct stage_candidates c;
    struct sampler_config config;
    if (!begin(in, &c, &config, err)) {
        return NULL;
    }
    int64_t n_generated = 0;
    bool is_good = sample_get_int(in, "n_generated", &n_generated, err);
    if (is_good && n_generated < config.min_tokens) {
        stage_ban(&c, config.stop_ids, config.n_stop_ids);
    }
    sampler_config_release(&config);
    json_t *out = logits_out(&c);
    if (!is_good) {
        json_decref(out);
        return NULL;
    }
    return out;
}

static json_t *op_mask(const json_t *in, struct engine_error *err)
{
    struct stage_candidates c;
    if (!get_logits(&c, in, err)) {
        return NULL;
    }
    size_t n = 0;
    int32_t *ids = sample_get_ids(in, "allowed", c.n_vocab, &n, err);
    uint8_t *mask = calloc((size_t)c.n_vocab, 1);
    json_t *out = NULL;
    if (ids && mask) {
        for (size_t i = 0; i < n; i++) {
            mask[ids[i]] = 1;
        }
        stage_mask(&c, mask);
        out = logits_out(&c);
    }
    free(ids);
    free(mask);
    stage_candidates_release(&c);
    return out;
}

/* ---- operations on probabilities ---- */

static json_t *op_top_k_filter(const json_t *in, struct engine_error *err)
{
    struct stage_candidates c;
    if (!get_logits(&c, in, err)) {
        return NULL;
    }
    int64_t k = 0;
    json_t *out = NULL;
    if (sample_get_int(in, "k", &k, err)) {
        if (stage_max(&c, NULL)) { /* else all are -inf, and the list is empty already */
            stage_top_k(&c, 0.0, 1.0, k);
        }
        out = spread(c.n_vocab, c.id, c.p, c.n, -INFINITY);
    }
    stage_candidates_release(&c);
    return out;
}

/* top_p and typical_p: one parameter, under a name of its own. */
static json_t *filter_list(const json_t *in, const char *name, const char *param,
                           void (*stage)(struct stage_candidates *, double),
                           struct engine_error *err)
{
    struct stage_candidates c;
    double value = 1.0;
    if (!sample_get_number(in, name, &value, err)) {
        return NULL;
    }
    if (!(value >= 0)) {
        return sample_refuse(err, param, "between 0 and 1");
    }
    if (!get_probs(&c, in, err)) {
        return NULL;
    }
    stage(&c, value);
    return probs_out(&c);
}

static json_t *op_top_p_filter(const json_t *in, struct engine_error *err)
{
    return filter_list(in, "top_p", "top_p", stage_top_p, err);
}

static json_t *op_typical_filter(const json_t *in, struct engine_error *err)
{
    return filter_list(in, "mass", "typical_p", stage_typical, err);
}

static json_t *op_inverse_cdf(const json_t *in, struct engine_error *err)
{
    struct stage_candidates c;
    double r = 0.0;
    if (!sample_get_number(in, "r", &r, err)) {
        return NULL;
    }
    if (!(r >= 0 && r < 1)) {
        return sample_refuse(err, "r", "in [0, 1)");
    }
    if (!get_probs(&c, in, err)) {
        return NULL;
    }
    int32_t id = stage_draw(&c, r);
    stage_candidates_release(&c);
    return json_integer(id);
}

static json_t *op_logprobs(const json_t *in, struct engine_error *err)
{
    struct stage_candidates c;
    if (!get_logits(&c, in, err)) {
        return NULL;
    }
    int64_t chosen = 0, n_top = 0;
    struct sampler_top *top = calloc(TOP_MAX, sizeof *top);
    json_t *out = NULL;
    if (!sample_get_int(in, "chosen", &chosen, err) || !sample_get_int(in, "n_top", &n_top, err) ||
        !top) {
        /* named already */
    } else if (chosen < 0 || chosen >= c.n_vocab) {
        sample_refuse(err, "chosen", "a token id of the vocabulary");
    } else if (n_top < 0 || n_top > TOP_MAX) {
        sample_refuse(err, "n_top", "between 0 and 4096");
    } else {
        double logprob;
        struct stage_logits l = {.d = c.z, .n_vocab = c.n_vocab};
        stage_logprobs(&l, (int32_t)chosen, (size_t)n_top, &logprob, top);
        json_t *list = json_array();
        for (size_t i = 0; i < (size_t)n_top && top[i].id >= 0; i++) {
            (void)json_array_append_new(list, json_pack("[i,f]", top[i].id, top[i].logprob));
        }
        out = json_pack("{s:f,s:o}", "chosen", logprob, "top", list);
    }
    free(top);
    stage_candidates_release(&c);
    return out;
}

/* ---- whole chains ---- */

/* A sampler fed with rows from JSON. Release it whether it began or not. */
struct chain {
    struct sampler_config config;
    struct sampler *s;
    int32_t n_vocab;
};

static bool chain_begin(struct chain *ch, const json_t *params, const json_t *in, size_t n_vocab,
                        struct engine_error *err)
{
    *ch = (struct chain){.n_vocab = (int32_t)n_vocab};
    sampler_config_init(&ch->config);
    if (n_vocab == 0 || n_vocab > SAMPLE_LIST_MAX) {
        sample_refuse(err, "logits", "a row of a possible length");
        return false;
    }
    int64_t seed = 0, choice = 0;
    if (!sample_get_config(params, ch->n_vocab, &ch->config, err) ||
        !sample_get_seed(in, "seed", &seed, err) ||
        !sample_get_int(in, "choice_index", &choice, err)) {
        return false;
    }
    if (choice < 0 || choice > UINT32_MAX) {
        sample_refuse(err, "choice_index", ">= 0");
        return false;
    }
    size_t n_prompt = 0;
    int32_t *prompt = sample_get_ids(in, "prompt", ch->n_vocab, &n_prompt, err);
    bool is_good = prompt && sampler_new(&ch->s, &ch->config, ch->n_vocab, NULL, 0, prompt,
                                         n_prompt, seed, (uint32_t)choice, err);
    free(prompt);
    return is_good;
}

static void chain_release(struct chain *ch)
{
    sampler_free(ch->s);
    sampler_config_release(&ch->config);
}

static bool chain_step(struct chain *ch, const json_t *row, int32_t *id, struct engine_error *err)
{
    if (json_array_size(row) != (size_t)ch->n_vocab) {
        sample_refuse(err, "logits_per_step", "rows of the same length");
        return false;
    }
    double *logits = sample_numbers_of(row, "logits", err);
    bool is_good = logits && sampler_next_wide(ch->s, logits, NULL, id, err);
    free(logits);
    return is_good;
}

static json_t *chain_distribution(const struct chain *ch)
{
    const int32_t *ids;
    const double *probs;
    size_t n = sampler_distribution(ch->s, &ids, &probs);
    return spread(ch->n_vocab, ids, probs, n, 0.0);
}

static json_t *chain_run(struct chain *ch, const json_t *rows, struct engine_error *err)
{
    json_t *tokens = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        int32_t id;
        if (!chain_step(ch, json_array_get(rows, i), &id, err) ||
            json_array_append_new(tokens, json_integer(id)) != 0) {
            json_decref(tokens);
            return NULL;
        }
    }
    return json_pack("{s:o,s:o}", "tokens", tokens, "last_probs", chain_distribution(ch));
}

static json_t *op_chain(const json_t *in, struct engine_error *err)
{
    const json_t *rows = sample_get_array(in, "logits_per_step", SAMPLE_LIST_MAX, err);
    if (!rows) {
        return NULL;
    }
    struct chain ch;
    json_t *out = NULL;
    size_t n_vocab = json_array_size(json_array_get(rows, 0));
    if (chain_begin(&ch, json_object_get(in, "params"), in, n_vocab, err)) {
        out = chain_run(&ch, rows, err);
    }
    chain_release(&ch);
    return out;
}

/* The distribution that one step draws from. */
static json_t *row_probs(const json_t *params, const json_t *row, struct engine_error *err)
{
    struct chain ch;
    json_t *out = NULL;
    int32_t id;
    if (chain_begin(&ch, params, params, json_array_size(row), err) &&
        chain_step(&ch, row, &id, err)) {
        out = chain_distribution(&ch);
    }
    chain_release(&ch);
    return out;
}

static json_t *op_filter_probs(const json_t *in, struct engine_error *err)
{
    const json_t *rows = sample_get_array(in, "logits", SAMPLE_LIST_MAX, err);
    json_t *out = rows ? json_array() : NULL;
    for (size_t i = 0; out && i < json_array_size(rows); i++) {
        json_t *row = row_probs(in, json_array_get(rows, i), err);
        if (!row || json_array_append_new(out, row) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static json_t *op_temperature_probs(const json_t *in, struct engine_error *err)
{
    json_t *params = json_object();
    json_t *tau = json_object_get(in, "tau");
    (void)json_object_set(params, "temperature", tau ? tau : json_null());
    json_t *out = row_probs(params, json_object_get(in, "logits"), err);
    json_decref(params);
    return out;
}

/* ---- a large row by recipe ---- */

/* logits = lo + (hi - lo) * random(), to a multiple of quantum, to float32, then the `set` ones. */
static bool recipe_fill(const json_t *recipe, double *logits, size_t n, struct engine_error *err)
{
    int64_t seed = 0;
    double lo = 0.0, hi = 1.0, quantum = 0.0;
    if (!sample_get_seed(recipe, "seed", &seed, err) ||
        !sample_get_number(recipe, "lo", &lo, err) || !sample_get_number(recipe, "hi", &hi, err) ||
        !sample_get_number(recipe, "quantum", &quantum, err)) {
        return false;
    }
    struct rng r;
    rng_init(&r, seed, 0);
    for (size_t i = 0; i < n; i++) {
        double x = lo + (hi - lo) * rng_double(&r);
        x = quantum > 0 ? floor(x / quantum) * quantum : x;
        logits[i] = json_is_false(json_object_get(recipe, "float32")) ? x : (double)(float)x;
    }
    const json_t *set = json_object_get(recipe, "set");
    for (size_t i = 0; i < json_array_size(set); i++) {
        const json_t *pair = json_array_get(set, i);
        json_int_t id = json_integer_value(json_array_get(pair, 0));
        if (id < 0 || (size_t)id >= n || !sample_number_of(json_array_get(pair, 1), &logits[id])) {
            sample_refuse(err, "recipe", "an object whose set is a list of [id, logit]");
            return false;
        }
    }
    return true;
}

static json_t *hash_of_ids(const int32_t *ids, size_t n)
{
    struct sha256 h;
    sha256_init(&h);
    for (size_t i = 0; i < n; i++) {
        char text[16];
        int len = snprintf(text, sizeof text, "%s%" PRId32, i ? "," : "", ids[i]);
        sha256_update(&h, text, (size_t)len);
    }
    uint8_t digest[32];
    char hex[65];
    sha256_final(&h, digest);
    sha256_hex(digest, hex);
    return json_string(hex);
}

/* The most probable of the list, ties by lower id. */
static json_t *top_of(const int32_t *ids, const double *p, size_t n)
{
    json_t *out = json_array();
    double last = INFINITY;
    size_t last_at = 0;
    for (size_t k = 0; k < n && k < TOP_SHOWN; k++) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < n; i++) {
            bool is_after = p[i] < last || (p[i] == last && i > last_at);
            if (is_after && (best == SIZE_MAX || p[i] > p[best])) {
                best = i;
            }
        }
        last = p[best];
        last_at = best;
        (void)json_array_append_new(out, json_pack("[i,f]", ids[best], p[best]));
    }
    return out;
}

static json_t *summary_of(const struct sampler *s, json_t *draws)
{
    const int32_t *ids;
    const double *p;
    size_t n = sampler_distribution(s, &ids, &p);
    double entropy = 0.0, mean_id = 0.0;
    for (size_t i = 0; i < n; i++) {
        entropy -= p[i] * log(p[i]);
        mean_id += p[i] * (double)ids[i];
    }
    return json_pack("{s:I,s:o,s:o,s:f,s:f,s:o}", "n_survivors", (json_int_t)n,
                     "survivor_ids_sha256", hash_of_ids(ids, n), "top", top_of(ids, p, n),
                     "entropy", entropy, "mean_id", mean_id, "draws", draws);
}

/* The vectors draw with the stream whose seed is the case's number plus one; the number is the end
 * of its id. "draw_seed" overrides it. */
static int64_t draw_seed_of(const json_t *line)
{
    const char *id = json_string_value(json_object_get(line, "id"));
    const char *digits = id ? id + strlen(id) : "";
    while (id && digits > id && digits[-1] >= '0' && digits[-1] <= '9') {
        digits--;
    }
    return (int64_t)(strtoull(digits, NULL, 10) + 1);
}

/* Several draws from one row; without penalties they all see the same distribution. */
static json_t *draw_rows(struct chain *ch, const double *logits, int64_t seed,
                         struct engine_error *err)
{
    json_t *draws = json_array();
    struct rng same;
    rng_init(&same, seed, 0);
    for (size_t i = 0; i < DRAWS_SHOWN; i++) {
        int32_t id;
        if (!sampler_next_wide(ch->s, logits, NULL, &id, err)) {
            json_decref(draws);
            return NULL;
        }
        json_t *draw = json_pack("{s:f,s:i}", "r", rng_double(&same), "id", id);
        (void)json_array_append_new(draws, draw);
    }
    return summary_of(ch->s, draws);
}

static json_t *op_filter_probs_big(const json_t *line, struct engine_error *err)
{
    const json_t *in = json_object_get(line, "in");
    const json_t *recipe = json_object_get(in, "recipe");
    int64_t n = 0, seed = draw_seed_of(line);
    if (!sample_get_int(recipe, "n", &n, err) || !sample_get_seed(in, "draw_seed", &seed, err)) {
        return NULL;
    }
    if (n <= 0 || n > SAMPLE_LIST_MAX) {
        return sample_refuse(err, "recipe", "an object whose n is a possible length");
    }
    struct chain ch = {0};
    json_t *out = NULL;
    json_t *stream = json_pack("{s:I}", "seed", (json_int_t)seed);
    double *logits = calloc((size_t)n, sizeof *logits);
    if (logits && stream && recipe_fill(recipe, logits, (size_t)n, err) &&
        chain_begin(&ch, in, stream, (size_t)n, err)) {
        out = draw_rows(&ch, logits, seed, err);
    }
    chain_release(&ch);
    json_decref(stream);
    free(logits);
    return out;
}

/* ---- the table ---- */

struct op {
    const char *name, *help;
    json_t *(*run)(const json_t *in, struct engine_error *err);
    bool takes_line; /* run gets the whole line in place of its "in" */
};

static const struct op ops[] = {
    {"logit_bias", "logits, bias", op_logit_bias, false},
    {"apply_penalties", "logits, generated, the three penalties", op_apply_penalties, false},
    {"no_repeat_ngram", "logits, history, n", op_no_repeat_ngram, false},
    {"min_tokens", "logits, n_generated, min_tokens, stop_ids", op_min_tokens, false},
    {"mask", "logits, allowed", op_mask, false},
    {"temperature_probs", "logits, tau", op_temperature_probs, false},
    {"top_k_filter", "logits, k", op_top_k_filter, false},
    {"top_p_filter", "probs, top_p", op_top_p_filter, false},
    {"typical_filter", "probs, mass", op_typical_filter, false},
    {"filter_probs", "rows of logits, temperature, top_k, top_p, min_p", op_filter_probs, false},
    {"filter_probs_big", "recipe of a row, the same parameters", op_filter_probs_big, true},
    {"inverse_cdf", "probs, r", op_inverse_cdf, false},
    {"logprobs", "logits, chosen, n_top", op_logprobs, false},
    {"chain", "logits_per_step, params, prompt, seed, choice_index", op_chain, false},
    {"beam_search", "order, vocab, logprobs, eos, beam_width, max_len, alpha", sample_beam_search,
     false},
    {"pcg64", "seed, spawn_key", sample_stream_pcg64, false},
    {"stream_with_stops", "pieces, stops", sample_stream_text, false},
    {"stream_bytes_with_stops", "pieces_hex, stops", sample_stream_bytes, false},
};
#define N_OPS (sizeof ops / sizeof *ops)

const char *sample_ops_name(size_t i)
{
    return i < N_OPS ? ops[i].name : NULL;
}

const char *sample_ops_help(size_t i)
{
    return i < N_OPS ? ops[i].help : NULL;
}

static json_t *run_op(const struct op *op, const json_t *in, struct engine_error *err)
{
    return op->run(in, err);
}

json_t *sample_ops_run(const json_t *line)
{
    const char *name = json_string_value(json_object_get(line, "op"));
    const json_t *in = json_object_get(line, "in");
    size_t i = 0;
    while (i < N_OPS && (!name || strcmp(ops[i].name, name) != 0)) {
        i++;
    }
    if (i == N_OPS) {
        return json_pack("{s:s}", "error", "unknown_op");
    }
    if (!json_is_object(in)) {
        return json_pack("{s:s}", "error", "in");
    }
    struct engine_error err = {0};
    json_t *out = run_op(&ops[i], ops[i].takes_line ? line : in, &err);
    if (!out && err.code != ENGINE_OK) {
        bool has_name = err.code == ENGINE_BAD_PARAM && err.param[0];
        out = json_pack("{s:s}", "error", has_name ? err.param : engine_code_name(err.code));
    }
    return out;
}
