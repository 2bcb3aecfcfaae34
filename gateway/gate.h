/* gate.h - who may call a provider now: a circuit breaker and a limit of requests at once for each
 * provider of the configuration, shared by all loops and kept over a reload.
 *
 * A request asks with gate_enter() and, when it was let in, says with gate_leave() how it went; a
 * ticket is embedded in it and leaves exactly once for each time that it entered or waits. Who has
 * to wait stands in a queue, first come first served; its turn comes by `wake`, on whichever thread
 * has left: it may only hand the news over (loop_post()).
 *
 * The breaker: `breaker_failures` failures in a row open it; nobody is let in for `breaker_ms`, and
 * whoever waits is told. Then one request tries (half open): when that is well it closes, when it
 * fails it opens for twice as long, up to GATE_OPEN_MS_MAX. How requests end that were let in
 * before it opened does not move it.
 *
 * No clock, no log, no I/O: time is an argument (monotonic milliseconds), changes are told to the
 * caller, who logs them. Any thread.
 */
#ifndef ISOTHERM_GATE_H
#define ISOTHERM_GATE_H

#include "base/config.h"
#include <stddef.h>

#define GATE_OPEN_MS_MAX 300000

struct gate;
bool gate_new(struct gate **out) __attribute__((warn_unused_result));
/* Nobody is in and nobody waits any more: asserted. */
void gate_free(struct gate *g);
/* Takes the limits of every provider; one that is not configured (any more) has the defaults. When
 * a limit has grown those who wait are let in. false: memory, some may have the old ones. */
bool gate_configure(struct gate *g, const struct config *c) __attribute__((warn_unused_result));

enum gate_state { GATE_CLOSED, GATE_OPEN, GATE_HALF_OPEN };
const char *gate_state_name(enum gate_state s); /* "closed" "open" "half_open" */

enum gate_word {
    GATE_IN,   /* call, then gate_leave() */
    GATE_WAIT, /* `wake` will be called, or gate_leave() first */
    GATE_SHUT, /* the breaker is open; nothing to leave */
    GATE_FULL  /* nothing to leave */
};
struct gate_lane; /* one provider */
/* Zeroed before the first use; private but for `word`. */
struct gate_ticket {
    struct gate_lane *lane; /* NULL: not in, does not wait */
    struct gate_ticket *prev, *next;
    void (*wake)(void *ud);
    void *ud;
    enum gate_word word; /* after `wake`: GATE_IN, or GATE_SHUT (left already) */
    bool is_trial, is_called;
};
/* A change of the breaker's state, to be logged. */
struct gate_change {
    bool is_change;
    enum gate_state to;
    unsigned failures;
    int64_t open_ms; /* how long it will be open */
};

/* retry_ms: with GATE_SHUT, how long it will be so, at least 1. may_wait false: GATE_FULL where it
 * would be GATE_WAIT. */
enum gate_word gate_enter(struct gate *g, const char *provider, bool may_wait, int64_t now_ms,
                          struct gate_ticket *t, int64_t *retry_ms, struct gate_change *change);
enum gate_outcome {
    GATE_WELL,   /* the provider does its work, whatever it answered */
    GATE_FAILED, /* not reached, too late, broken, 5xx */
    GATE_UNKNOWN /* cancelled, or it never came to a call */
};
/* Leaves, also the queue; nothing when the ticket is not in and does not wait. true: `wake` was
 * called since it began to wait, and what it has handed over is still under way or has arrived. */
bool gate_leave(struct gate *g, struct gate_ticket *t, enum gate_outcome o, int64_t now_ms,
                struct gate_change *change);

struct gate_status {
    char name[65];
    enum gate_state state;
    unsigned in_flight, waiting, failures;
};
/* Of every provider that is configured or was called; at most `cap`. */
size_t gate_list(struct gate *g, struct gate_status *out, size_t cap);

#endif
