/* exchange_call.h - steps 7 to 10 of an exchange: the call to a backend, decoding and normalising
 * of what comes, the begin of the reply. Private to exchange.c. */
#ifndef ISOTHERM_EXCHANGE_CALL_H
#define ISOTHERM_EXCHANGE_CALL_H

#include "exchange_steps.h"

/* STEP_CALL: WAIT until the call has ended, then as exchange_attempt_ended() says. */
enum next exchange_call(struct exchange *x);
/* The client has left during the call: ends it and goes on behind it. */
void exchange_call_abandon(struct exchange *x);
/* Whoever read too slowly has caught up. ud is the exchange. */
void exchange_call_on_drain(void *ud);
/* Before the last chunk of a stream, or its first one: the head is given if it was not. The
 * `isotherm` object where this is the first chunk, else NULL; yours. */
json_t *exchange_call_open_stream(struct exchange *x);
/* Stops what is in flight; frees the decoder. */
void exchange_call_release(struct exchange *x);

#endif
