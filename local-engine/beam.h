/* beam.h - beam search over token sequences. Pure: whoever uses it evaluates the model and says
 * which tokens end a sequence.
 *
 * The rule (sampling semantics, section 8): each step extends every alive hypothesis by every token
 * with a finite score, sorts all of them by total descending (ties: the older hypothesis, then the
 * lower id), and keeps `width`. Those that end join the list, the others are alive. It is over when
 * none is alive or after len_max steps; then the alive ones join the list too. A result's score is
 * total / length ^ length_penalty, where length counts the generated tokens, the end token
 * included; the best come first, equal scores in the order in which they joined.
 *
 * It is over earlier where no hypothesis that is alive could enter the n_best results any more
 * (scores of tokens are log-probabilities, never above 0): the results are those of the rule.
 */
#ifndef ISOTHERM_BEAM_H
#define ISOTHERM_BEAM_H

#include "engine_error.h"
#include <stddef.h>
#include <stdint.h>

#define BEAM_WIDTH_MAX 64

struct beam;
struct beam_config {
    uint32_t width, n_best; /* 1 .. BEAM_WIDTH_MAX each */
    int64_t len_max;        /* 0: nothing is found */
    double length_penalty;
};
ENGINE_WARN_UNUSED bool beam_new(struct beam **out, const struct beam_config *c,
                                 struct engine_error *err);
void beam_free(struct beam *b);

/* Alive hypotheses, older first: at first one that is empty. 0: the search is over. */
uint32_t beam_n_alive(const struct beam *b);
/* Tokens of each alive one. */
size_t beam_len(const struct beam *b);

/* One row of log-probabilities [n_vocab] for alive hypothesis i; -inf is never taken, NULL stands
 * for a row of it. Rows may come in any order, each once a step. */
void beam_offer(struct beam *b, uint32_t i, const double *scores, int32_t n_vocab);
/* Whether a new hypothesis ends: `node` for beam_tokens(), `parent` the alive one that it
 * extends by `token`. Called in order of rank. false: the search fails; whoever says so sets err.
 */
typedef bool beam_ends_fn(const struct beam *b, int32_t node, uint32_t parent, bool *ends, void *ud,
                          struct engine_error *err);
/* After all alive ones were offered. Fails for lack of memory or as `fn` says. */
ENGINE_WARN_UNUSED bool beam_step(struct beam *b, beam_ends_fn *fn, void *ud,
                                  struct engine_error *err);

/* Of alive hypothesis i after a step: which alive one before the step it extends, and its node. */
uint32_t beam_parent(const struct beam *b, uint32_t i);
int32_t beam_node(const struct beam *b, uint32_t i);

/* A node is a token after a hypothesis; numbers are never reused. -1: the empty one. */
size_t beam_n_nodes(const struct beam *b);
int32_t beam_token(const struct beam *b, int32_t node);
size_t beam_depth(const struct beam *b, int32_t node); /* tokens up to it */
/* The tokens of a hypothesis, and where not NULL their nodes: beam_depth() each. */
void beam_tokens(const struct beam *b, int32_t node, int32_t *tokens, int32_t *nodes);

struct beam_result {
    int32_t node;
    double total, score;
};
/* At most n_best, best first. What is there before the search is over may still be surpassed. */
size_t beam_results(const struct beam *b, const struct beam_result **out);

#endif
