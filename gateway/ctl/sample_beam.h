/* sample_beam.h - the operation beam_search of `isothermctl sample`. */
#ifndef ISOTHERM_CTL_SAMPLE_BEAM_H
#define ISOTHERM_CTL_SAMPLE_BEAM_H

#include "local-engine/engine_error.h"

#include <jansson.h>

/* {order, vocab, logprobs, eos, beam_width, max_len, alpha} -> {best, ranked}: the tokens of the
 * best one, and of the width best (five at least) tokens, score and total. Row i of logprobs
 * follows token i - 1, row 0 the beginning; with order 2 row (previous + 1) * (vocab + 1) + last +
 * 1 follows two tokens, where -1 is none. */
json_t *sample_beam_search(const json_t *in, struct engine_error *err);

#endif
