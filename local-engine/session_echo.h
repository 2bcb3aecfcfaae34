/* session_echo.h - the prompt as the beginning of every answer: its text as its tokens say it, and
 * with logprobs each of its tokens. For session.c.
 *
 * The log-probabilities are raw in either logprobs_mode, for nothing was drawn here; the first
 * token has none. What is not told yet is bounded: events come while the prompt is evaluated.
 */
#ifndef ISOTHERM_SESSION_ECHO_H
#define ISOTHERM_SESSION_ECHO_H

#include "session.h"

ENGINE_WARN_UNUSED bool session_echo_new(struct session_echo **out, uint32_t n_top,
                                         struct engine_error *err);
void session_echo_free(struct session_echo *e);
/* Logits [n_vocab] after the prompt's first s->n_evaluated tokens; all of them are told when that
 * is the whole prompt. With logprobs it must be called at each token, else at the last one. */
ENGINE_WARN_UNUSED bool session_echo_take(struct session *s, const float *logits,
                                          struct engine_error *err);

#endif
