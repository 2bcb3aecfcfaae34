/* sampler_stages.h - the stages of the sampler as pure functions: no state, no allocation, no
 * random number.
 *
 * Stages 0 to 6 act on z, all logits in float64, and only lower some of them to -inf or move them.
 * From top_k on there is a list of survivors in ascending id order, holding finite candidates only;
 * each filter shortens it in place. What each stage means, to the last comparison sign, is the
 * table in sampler.h; sampler_next() calls them in that order, and so may a test, one by one.
 */
#ifndef ISOTHERM_SAMPLER_STAGES_H
#define ISOTHERM_SAMPLER_STAGES_H

#include "sampler.h"
#include "sampler_select.h"

#define STAGE_BLOCK 64 /* logits for each entry of block_max */

struct stage_candidates {
    char *slab; /* owns all arrays below */
    int32_t n_vocab;
    double *z;         /* [n_vocab] */
    double *block_max; /* [n_vocab / STAGE_BLOCK, rounded up], whole after stage_max() */
    uint8_t *is_stale; /* the same length: block_max must be found again */
    double max;
    size_t n;
    int32_t *id; /* [n] of [n_vocab], ascending */
    double *p;   /* [n] of [n_vocab]: scaled logits after stage_top_k(), then probabilities > 0 */
    struct select_room room;
};

/* false: out of memory; then nothing is held. */
ENGINE_WARN_UNUSED bool stage_candidates_init(struct stage_candidates *c, int32_t n_vocab);
void stage_candidates_release(struct stage_candidates *c);

/* Stage 0. false: a NaN or +inf among them. */
ENGINE_WARN_UNUSED bool stage_widen(struct stage_candidates *c, const float *logits);
ENGINE_WARN_UNUSED bool stage_accept(struct stage_candidates *c, const double *logits);

void stage_bias(struct stage_candidates *c, const struct sampler_bias *bias, size_t n);

/* Which tokens were seen, and how often. */
struct stage_history {
    const int32_t *seen; /* [n_seen]: each id once */
    size_t n_seen;
    const uint32_t *count;    /* [n_vocab], generated tokens */
    const uint8_t *in_prompt; /* [n_vocab], or NULL: the prompt does not count */
};
void stage_repetition(struct stage_candidates *c, const struct stage_history *h, double penalty);
void stage_additive(struct stage_candidates *c, const struct stage_history *h, double frequency,
                    double presence);
/* tokens [n_tokens]: prompt and generated. */
void stage_ngram(struct stage_candidates *c, const int32_t *tokens, size_t n_tokens, int64_t size);
void stage_ban(struct stage_candidates *c, const int32_t *ids, size_t n);
void stage_mask(struct stage_candidates *c, const uint8_t *mask);

/* Fills block_max and max. false: no finite logit is left, or (err says which) a penalty
 * overflowed. */
ENGINE_WARN_UNUSED bool stage_max(struct stage_candidates *c, struct engine_error *err);
/* z becomes log_softmax(z), -inf stays. After stage_max(). */
void stage_log_softmax(struct stage_candidates *c);
/* Temperature 0: the list becomes the lowest id among the maxima, with probability 1. After
 * stage_max(). */
void stage_greedy(struct stage_candidates *c);
/* Temperature and top_k in one pass: the list becomes the ids whose (z - shift) / temperature is >=
 * the k-th largest of them, p these quotients. One pass because the quotient grows with z: it is
 * computed only for blocks that may hold a survivor, where dividing all of a large vocabulary alone
 * would take as long as everything else. k <= 0: all finite ones. After stage_max(); shift is
 * c->max. */
void stage_top_k(struct stage_candidates *c, double shift, double temperature, int64_t k);
/* p becomes exp(p) / sum, summed in id order; candidates whose probability is 0 leave the list. */
void stage_softmax(struct stage_candidates *c);
void stage_top_p(struct stage_candidates *c, double top_p);
void stage_min_p(struct stage_candidates *c, double min_p);
void stage_typical(struct stage_candidates *c, double mass);
/* Inverse CDF in id order: the candidate of the smallest running sum > r * total. The list is not
 * empty. */
int32_t stage_draw(struct stage_candidates *c, double r);

/* Logits of either width, so that both need only one log-softmax. */
struct stage_logits {
    const float *f; /* [n_vocab], or NULL: d is used */
    const double *d;
    int32_t n_vocab;
};
void stage_logprobs(const struct stage_logits *l, int32_t id, size_t n_top, double *logprob,
                    struct sampler_top *top);
/* The same for the list: log p, and the floor for all others. */
void stage_logprobs_processed(const struct stage_candidates *c, int32_t id, size_t n_top,
                              double *logprob, struct sampler_top *top);

#endif
