/* exchange_steps.h - the steps of an exchange by name, for the files that hold some of them. The
 * table and the loop are in exchange.c. */
#ifndef ISOTHERM_EXCHANGE_STEPS_H
#define ISOTHERM_EXCHANGE_STEPS_H

#include "exchange_record.h"

/* What a step says: the next one, wait (an event will call exchange_go_on()), it is over. */
enum next { NEXT, WAIT, END };
enum step {
    STEP_PARSE,
    STEP_RESOLVE,
    STEP_PLAN,
    STEP_ADMIT,
    STEP_ENCODE,
    STEP_CALL,
    STEP_GATHER,
    STEP_FINGERPRINT,
    STEP_RECORD,
    STEP_END,
    STEP_COUNT
};

/* From an event: goes on at `step`. The exchange may be gone afterwards. */
void exchange_go_on(struct exchange *x, enum step step);
/* From a step: the same. */
enum next exchange_jump(struct exchange *x, enum step step);
/* Sets x->fail, if nothing failed before, to a failure whose words may be the provider's. */
void exchange_fail(struct exchange *x, const struct failure *f);

#endif
