/* session_beam.h - a session that searches: what the logits of each hypothesis mean for the beam,
 * and which keys and values belong to whom. For session.c.
 *
 * Hypothesis i has choice i of the session: its cache, and the token to be evaluated next. Choices
 * without one are idle. The answers come as events when the search is over, best first, through
 * session_accept() like any other: one at a time, with stop strings and log-probabilities.
 */
#ifndef ISOTHERM_SESSION_BEAM_H
#define ISOTHERM_SESSION_BEAM_H

#include "session.h"

/* For session_new(): s has its prompt, sizes and choices; none of them is initialised yet. */
ENGINE_WARN_UNUSED bool session_beam_new(struct session_beam **out, struct session *s,
                                         const struct session_request *r, struct engine_error *err);
void session_beam_free(struct session_beam *b);
/* The logits [n_vocab] after choice c. The last one of a step makes the next hypotheses. */
ENGINE_WARN_UNUSED bool session_beam_take(struct session *s, struct session_choice *c,
                                          const float *logits, struct engine_error *err);

#endif
