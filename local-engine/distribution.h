/* distribution.h - the distribution of the next token, and what each stage of the sampler makes of
 * it: for people who want to see why a token was or was not possible.
 */
#ifndef ISOTHERM_DISTRIBUTION_H
#define ISOTHERM_DISTRIBUTION_H

#include "sampler.h"
#include <stddef.h>

#define DISTRIBUTION_STAGES_MAX 16
#define DISTRIBUTION_TOP_MAX    1000

/* After one stage. Entropies are in nats; n_effective is e^entropy, the number of equally likely
 * tokens that would be as uncertain. */
struct distribution_stage {
    const char *name; /* of sampler_stage_names; `softmax` is part of top_k, `draw` is left out */
    size_t n_tokens;  /* that are still possible */
    double entropy, n_effective;
    double kept; /* what its survivors had of the probability before it */
    bool has_changed;
};

struct distribution_token {
    int32_t id;
    double logit;       /* the model's own */
    const char *cut_by; /* the stage, or NULL: it may be drawn. "softmax": too improbable for a
                           float64 */
    double p[DISTRIBUTION_STAGES_MAX]; /* after each stage */
};

/* Stages in their order: the first is `logits`, the model's own distribution, and at temperature 0
 * the last is `temperature`. Tokens by their greatest probability, before all or after all stages,
 * whichever is more; ties by lower id. */
struct distribution {
    struct distribution_stage stages[DISTRIBUTION_STAGES_MAX];
    size_t n_stages;
    struct distribution_token *tokens;
    size_t n_tokens;
};

/* Of the step that `s` would make from logits [n_vocab]; it draws a token, and its watch is ended.
 * `mask`, and failing: as in sampler_next(). n_top: 1 .. DISTRIBUTION_TOP_MAX, fewer where there
 * are fewer tokens. */
ENGINE_WARN_UNUSED bool distribution_new(struct distribution **out, struct sampler *s,
                                         const struct sampler_config *config, const float *logits,
                                         const uint8_t *mask, int32_t n_vocab, size_t n_top,
                                         struct engine_error *err);
void distribution_free(struct distribution *d);

#endif
