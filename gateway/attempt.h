/* attempt.h - what comes after an attempt that failed: the same again, the next target, or the
 * failure is the answer. Pure: no clock, no randomness of its own.
 *
 * Again only where nothing was billed: no byte of the request has left (upstream_unreachable), or
 * the provider itself says when (429 or 503 with Retry-After). What the provider may have read is
 * sent again only where its configuration says so (retry_sent). A connection that was not made in
 * time has used up the time to connect and is not tried again at the same target.
 *
 * The next target, at once, where it may do better: not reached, too late, the key refused, unknown
 * model, too many requests, 5xx, an answer that broke before its first delta; a plan that rejects;
 * not for a fault of the request itself. Neither after a delta.
 */
#ifndef ISOTHERM_ATTEMPT_H
#define ISOTHERM_ATTEMPT_H

#include "base/config.h"
#include "base/failure.h"
#include "gate.h"

enum attempt_stage {
    ATTEMPT_PLAN,   /* resolve and plan */
    ATTEMPT_ENCODE, /* credentials and encode */
    ATTEMPT_ADMIT,  /* the breaker, the queue */
    ATTEMPT_CALL
};

struct attempt {
    enum attempt_stage stage;
    const struct failure *fail;
    int status;             /* the provider's, 0: none came */
    int64_t retry_after_ms; /* what the provider said, -1: nothing */
    bool has_delta;         /* content of this attempt has been decoded */
    unsigned n_repeats;     /* attempts before this one at the same target */
    uint32_t random;        /* for the jitter */
};

bool attempt_may_move(const struct attempt *a);
/* true: *wait_ms is set; a Retry-After is never undercut. */
bool attempt_may_repeat(const struct attempt *a, const struct config_calls *c, int64_t *wait_ms);
/* The plan or the dialect refused: nobody was called, and another target may take it. */
bool attempt_is_rejection(const struct attempt *a);
/* What the end of a call says about the provider. fail NULL or status 0: it was answered. */
enum gate_outcome attempt_outcome(const struct failure *fail, int status);

#endif
