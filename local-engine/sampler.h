/* sampler.h - from the model's logits of one sequence to one token id. Pure but for the random
 * stream it is given.
 *
 * The stages, their order and every comparison sign are those of the sampling semantics: bias,
 * repetition, frequency and presence, no_repeat_ngram, min_tokens, mask, temperature (0: argmax,
 * lowest id among equals, no random number), top_k (ties with the k-th all stay), softmax, top_p
 * (mass strictly before < p; ties by lower id), min_p (>=), typical_p, one uniform draw by inverse
 * CDF in id order. All in float64, with exponentials and logarithms of our own (fmath.h), so that
 * every processor gives the same bits; bans are -inf.
 */
#ifndef ISOTHERM_SAMPLER_H
#define ISOTHERM_SAMPLER_H

#include "engine_error.h"
#include "rng.h"

struct sampler_bias {
    int32_t id;
    double bias;
};

/* Whose order of stages and boundary rules are followed. What the others have not (typical_p of
 * vLLM, SGLang; no_repeat_ngram_size of all but Hugging Face) stays where it is in ours. The draw
 * is ours in any order.
 *  - hf: repetition counts the prompt too; top_p keeps what has an ascending sum > 1 - p.
 *  - vllm: min_tokens before the bias, repetition counts the prompt too, temperature, then min_p on
 *    the full distribution, top_k, top_p as hf. A temperature under 1e-5 is 0, under 0.01 is 0.01.
 *  - llama.cpp: all penalties count the last 64 tokens, prompt and generated; exactly k; typical_p
 *    before top_p; min_p on logits; temperature last.
 *  - sglang: bias after penalties; top_k and top_p together on the full distribution, exactly k;
 *    then min_p. A temperature under 1e-6 is 0. */
enum sampler_order {
    SAMPLER_ISOTHERM,
    SAMPLER_HF,
    SAMPLER_VLLM,
    SAMPLER_LLAMA_CPP,
    SAMPLER_SGLANG,
    SAMPLER_ORDERS
};
extern const char *const sampler_order_names[SAMPLER_ORDERS];
/* false: there is no such word. */
bool sampler_order_parse(const char *word, enum sampler_order *out);

/* What the engine means by each parameter; the defaults ask for nothing. Filled by
 * sampler_config_init() and link.c. */
struct sampler_config {
    enum sampler_order order;
    double temperature;                                             /* 1 */
    int64_t top_k;                                                  /* 0 */
    double top_p, min_p, typical_p;                                 /* 1, 0, 1 */
    double repetition_penalty, frequency_penalty, presence_penalty; /* 1, 0, 0 */
    bool penalty_counts_prompt; /* penalty_scope "all": repetition_penalty only */
    int64_t no_repeat_ngram_size;
    int64_t min_tokens;
    bool ignore_eos;
    struct sampler_bias *bias; /* owned; ids checked against the vocabulary */
    size_t n_bias;
    int32_t *stop_ids; /* owned: stop_token_ids, without the model's EOS ids */
    size_t n_stop_ids;
};
void sampler_config_init(struct sampler_config *c);
void sampler_config_release(struct sampler_config *c);
/* Ranges and ids against the vocabulary; names the parameter. top_p and typical_p above 1, and
 * top_k below 0, are off. */
ENGINE_WARN_UNUSED bool sampler_config_check(const struct sampler_config *c, int32_t n_vocab,
                                             struct engine_error *err);

/* One sequence's sampler: counts, history, scratch (36 bytes for each token of the vocabulary). One
 * for each choice. */
struct sampler;
ENGINE_WARN_UNUSED bool sampler_new(struct sampler **out,
                                    const struct sampler_config *c /* borrowed */, int32_t n_vocab,
                                    const int32_t *eos_ids, size_t n_eos, const int32_t *prompt,
                                    size_t n_prompt, int64_t seed, uint32_t choice,
                                    struct engine_error *err);
void sampler_free(struct sampler *s);

/* Draws the next token from logits [n_vocab] and remembers it as generated. `mask`: NULL or n_vocab
 * bytes, 0 forbids. Fails with ENGINE_NONFINITE (a NaN or +inf among them, or all -inf: a damaged
 * model) or ENGINE_NO_CANDIDATE (bans and the mask left none); then no random number was used and
 * nothing is remembered. */
ENGINE_WARN_UNUSED bool sampler_next(struct sampler *s, const float *logits, const uint8_t *mask,
                                     int32_t *id, struct engine_error *err);
size_t sampler_n_generated(const struct sampler *s);
/* The same for logits that are float64 already: vectors and tools. All -inf is ENGINE_NO_CANDIDATE
 * here, for -inf may be a ban. */
ENGINE_WARN_UNUSED bool sampler_next_wide(struct sampler *s, const double *logits,
                                          const uint8_t *mask, int32_t *id,
                                          struct engine_error *err);

/* For searches, which follow many sequences with one sampler: the generated tokens become these
 * [n], whatever was drawn before. */
ENGINE_WARN_UNUSED bool sampler_assume(struct sampler *s, const int32_t *tokens, size_t n,
                                       struct engine_error *err);
/* log_softmax of the logits after bias, penalties, bans and mask: what beam search adds up.
 * *scores [n_vocab] are borrowed until the next call. Draws and remembers nothing; fails as
 * sampler_next() does. */
ENGINE_WARN_UNUSED bool sampler_scores(struct sampler *s, const float *logits, const uint8_t *mask,
                                       const double **scores, struct engine_error *err);

/* sampler_next() allocates nothing, except with no_repeat_ngram_size when the tokens so far have
 * outgrown their array: this makes room for n_tokens generated ones at once (sampler_new() for
 * 1024). */
ENGINE_WARN_UNUSED bool sampler_reserve(struct sampler *s, size_t n_tokens,
                                        struct engine_error *err);

/* The distribution that the last sampler_next() drew from: ids ascending, their probabilities;
 * borrowed until the next call. 0 before it. */
size_t sampler_distribution(const struct sampler *s, const int32_t **ids, const double **probs);

/* What a stage left, for those who show the steps. Until there is a list, all logits (z, bans are
 * -inf; ids is NULL): in our order up to and including `temperature`. Then the survivors, ids
 * ascending, with their probabilities, but at a stage before `softmax` (has_logits) with logits
 * over temperature, less their maximum. At temperature 0 the chain ends with `temperature`, and ids
 * and value hold its one survivor. All borrowed during the call. */
struct sampler_view {
    const char *stage; /* a name of sampler_stage_names, and of `top_k_top_p` */
    bool has_logits;
    const double *z; /* [n_vocab], or NULL */
    int32_t n_vocab;
    const int32_t *ids; /* [n] */
    const double *value;
    size_t n;
};
typedef void sampler_watch_fn(const struct sampler_view *view, void *ud);
/* fn is called after each stage of every later sampler_next(), stages that are off included; NULL
 * ends it. */
void sampler_watch(struct sampler *s, sampler_watch_fn *fn, void *ud);
extern const char *const sampler_stage_names[]; /* in our order, NULL-terminated */
/* The temperature that the order makes of the configured one. */
double sampler_temperature(const struct sampler_config *c);

/* log_softmax of raw logits in float64: of `id`, and the n_top largest (value descending, ties by
 * lower id). Values below -9999 are -9999. processed (extension): log of the last distribution that
 * sampler_next drew from; pass s for it, NULL for raw. Entries of top beyond the vocabulary have id
 * -1. Meant for n_top of some dozen: the time grows with it. */
struct sampler_top {
    int32_t id;
    double logprob;
};
void sampler_logprobs(const struct sampler *processed, const float *logits, int32_t n_vocab,
                      int32_t id, size_t n_top, double *logprob, struct sampler_top *top);
/* For logits that nothing is drawn from: fails with ENGINE_NONFINITE as sampler_next() does. */
ENGINE_WARN_UNUSED bool sampler_check_logits(const float *logits, int32_t n_vocab,
                                             struct engine_error *err);

#endif
