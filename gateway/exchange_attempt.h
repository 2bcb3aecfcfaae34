/* exchange_attempt.h - the targets of a request one after the other, and the attempts at each:
 * whose turn it is at the provider (gate.h), and what comes after an attempt that failed
 * (attempt.h). Private to exchange.c and its call. */
#ifndef ISOTHERM_EXCHANGE_ATTEMPT_H
#define ISOTHERM_EXCHANGE_ATTEMPT_H

#include "attempt.h"
#include "exchange_steps.h"

/* The name of the target that is asked now: of an alias the one whose turn it is. Borrowed. */
const char *exchange_attempt_target(struct exchange *x);
/* STEP_ADMIT: waits until the next attempt may be made, then asks for a place at the provider; goes
 * on with STEP_ENCODE, or as exchange_attempt_failed() says. */
enum next exchange_attempt_admit(struct exchange *x);
/* The client has left during STEP_ADMIT: ends the waiting and goes on behind the calls. */
void exchange_attempt_abandon(struct exchange *x);
/* The place is given back: the provider has answered, or it is not known how it would have. */
void exchange_attempt_release(struct exchange *x, enum gate_outcome o);
/* x->fail was set in this stage, before a call: gives the place back, clears x->fail where another
 * attempt may be made, and says with which step it goes on. */
enum step exchange_attempt_failed(struct exchange *x, enum attempt_stage stage);
/* The same for the end of a call, also a good one. The call's own line of the record is written. */
enum step exchange_attempt_ended(struct exchange *x);
/* What the provider says in its head about when to ask again: before its call is gone. */
void exchange_attempt_note_head(struct exchange *x);

#endif
