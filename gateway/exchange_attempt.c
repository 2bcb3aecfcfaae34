/* exchange_attempt.c - see exchange_attempt.h.
 *
 * A turn is what stands in the provider's queue. It is apart from the exchange because its call may
 * be on the way to this loop when the exchange ends: then the call finds no exchange and frees it.
 */
#include "exchange_attempt.h"

#include "base/log.h"
#include "base/retry_after.h"
#include "exchange_evidence.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_MS 1 /* the loop counts whole ones: without it a wait could be shorter by that */

struct exchange_turn {
    struct gate_ticket ticket;
    struct loop *loop;
    struct loop_post post;
    bool has_arrived;   /* the post */
    struct exchange *x; /* NULL: it has gone on without */
};

/* ---- targets */

static const char *target_name(const struct exchange *x)
{
    return x->targets ? x->targets[x->at_target] : x->prep.request.model;
}

const char *exchange_attempt_target(struct exchange *x)
{
    if (x->n_targets == 0) {
        x->n_targets = resolve_targets(x->env.conf, x->prep.request.model, &x->targets);
    }
    return target_name(x);
}

/* Nothing of what an earlier target has said goes into the answer of this one. */
static void begin_target(struct exchange *x)
{
    x->at_target++;
    x->n_repeats = 0;
    prepare_forget(&x->prep);
    x->at_call = 0;
    x->choice_base = 0;
    answer_release(&x->all);
    exchange_record_forget(x);
    exchange_evidence_moved(x);
}

/* ---- the place at the provider */

static void say_change(const char *provider, const struct gate_change *c)
{
    char failures[12], ms[24];
    if (!c->is_change) {
        return;
    }
    (void)snprintf(failures, sizeof failures, "%u", c->failures);
    (void)snprintf(ms, sizeof ms, "%" PRId64, c->open_ms);
    if (c->to == GATE_OPEN) {
        log_write(LOG_WARNING, "breaker", "provider", provider, "state", "open", "failures",
                  failures, "ms", ms, NULL);
    } else {
        log_write(LOG_INFO, "breaker", "provider", provider, "state", gate_state_name(c->to), NULL);
    }
}

void exchange_attempt_release(struct exchange *x, enum gate_outcome o)
{
    struct exchange_turn *t = x->turn;
    struct gate_change change;
    if (!t) {
        return;
    }
    x->turn = NULL;
    bool was_called = gate_leave(x->gw->gate, &t->ticket, o, loop_now_ms(t->loop), &change);
    say_change(x->prep.target.provider_name, &change);
    if (was_called && !t->has_arrived) {
        t->x = NULL;
    } else {
        free(t);
    }
}

/* On the exchange's own thread: its turn has come, or the breaker has opened. */
static void on_turn(void *ud)
{
    struct exchange_turn *t = ud;
    struct exchange *x = t->x;
    t->has_arrived = true;
    if (!x) {
        free(t);
        return;
    }
    loop_timer_cancel(t->loop, &x->wait);
    if (t->ticket.word == GATE_IN) {
        exchange_go_on(x, STEP_ENCODE);
        return;
    }
    x->turn = NULL;
    free(t);
    exchange_go_on(x, STEP_ADMIT); /* where it is told for how long */
}

/* On any thread, under the gate's lock. */
static void on_wake(void *ud)
{
    struct exchange_turn *t = ud;
    t->post = (struct loop_post){.fn = on_turn, .ud = t};
    loop_post(t->loop, &t->post);
}

static void fail_full(struct exchange *x)
{
    (void)failure_set(&x->fail, 503, "provider_busy", NULL,
                      "as many requests as are allowed are on their way to provider '%.64s': try "
                      "again in a second",
                      x->prep.target.provider_name);
    x->fail.retry_after_s = 1;
}

static void fail_shut(struct exchange *x, int64_t retry_ms)
{
    (void)failure_set(&x->fail, 503, "provider_unavailable", NULL,
                      "provider '%.64s' has failed several times in a row and is not called for "
                      "now",
                      x->prep.target.provider_name);
    x->fail.retry_after_s = (int)((retry_ms + 999) / 1000);
}

static void on_queue_end(void *ud)
{
    struct exchange *x = ud;
    fail_full(x);
    exchange_go_on(x, exchange_attempt_failed(x, ATTEMPT_ADMIT));
}

static enum next wait_in_queue(struct exchange *x)
{
    const struct config_calls *c = config_calls_of(x->env.conf, x->prep.target.provider_name);
    if (loop_timer_arm(conn_loop(x->conn), &x->wait, c->queue_ms + CLOCK_MS, on_queue_end, x)) {
        return WAIT;
    }
    (void)failure_set(&x->fail, 503, "out_of_memory", NULL, "out of memory");
    return exchange_jump(x, exchange_attempt_failed(x, ATTEMPT_ADMIT));
}

static enum next ask_for_place(struct exchange *x)
{
    struct exchange_turn *t = calloc(1, sizeof *t);
    struct gate_change change;
    int64_t retry_ms;
    if (!t) {
        (void)failure_set(&x->fail, 503, "out_of_memory", NULL, "out of memory");
        return exchange_jump(x, exchange_attempt_failed(x, ATTEMPT_ADMIT));
    }
    bool is_last = x->at_target + 1 == x->n_targets;
    *t = (struct exchange_turn){.loop = conn_loop(x->conn), .x = x};
    t->ticket.wake = on_wake;
    t->ticket.ud = t;
    enum gate_word word = gate_enter(x->gw->gate, x->prep.target.provider_name, is_last,
                                     loop_now_ms(t->loop), &t->ticket, &retry_ms, &change);
    say_change(x->prep.target.provider_name, &change);
    if (word == GATE_IN || word == GATE_WAIT) {
        x->turn = t;
        return word == GATE_IN ? NEXT : wait_in_queue(x);
    }
    free(t);
    if (word == GATE_SHUT) {
        fail_shut(x, retry_ms);
    } else {
        fail_full(x);
    }
    return exchange_jump(x, exchange_attempt_failed(x, ATTEMPT_ADMIT));
}

static void on_waited(void *ud)
{
    exchange_go_on(ud, STEP_ADMIT);
}

enum next exchange_attempt_admit(struct exchange *x)
{
    int64_t ms = x->wait_ms;
    x->wait_ms = 0;
    if (ms > 0) { /* for its backoff nobody keeps a place; no memory: it is not waited for */
        return loop_timer_arm(conn_loop(x->conn), &x->wait, ms + CLOCK_MS, on_waited, x)
                   ? WAIT
                   : exchange_jump(x, STEP_ADMIT);
    }
    if (x->wanted_us == 0) {
        x->wanted_us = gateway_now_us();
    }
    return x->prep.target.provider->is_local ? NEXT : ask_for_place(x);
}

void exchange_attempt_abandon(struct exchange *x)
{
    loop_timer_cancel(conn_loop(x->conn), &x->wait);
    exchange_attempt_release(x, GATE_UNKNOWN);
    exchange_record_begin(x, false);
    exchange_record_attempt(x, 0, "client_gone");
    exchange_go_on(x, STEP_FINGERPRINT);
}

/* ---- what comes next */

void exchange_attempt_note_head(struct exchange *x)
{
    x->retry_after_ms =
        retry_after_ms(upstream_header(x->up, "retry-after"), gateway_now_us() / 1000);
}

static void say_failed(const struct exchange *x, const char *then)
{
    char status[12], ms[24];
    const char *provider = x->prep.target.provider_name;
    (void)snprintf(status, sizeof status, "%d", x->upstream_status);
    (void)snprintf(ms, sizeof ms, "%" PRId64, x->wait_ms);
    log_write(LOG_WARNING, "attempt_failed", "id", x->request_id, "backend",
              provider ? provider : "-", "model", target_name(x), "status", status, "error",
              x->fail.code, "then", then, "wait_ms", ms, NULL);
}

/* The first failure is told when all targets have rejected the plan, else the last one. */
static void keep_first(struct exchange *x, const struct attempt *a)
{
    if (x->at_target == 0) {
        x->first_fail = x->fail;
        x->only_rejections = true;
    }
    x->only_rejections = x->only_rejections && attempt_is_rejection(a);
}

/* The place is given back already. */
static enum step after(struct exchange *x, enum attempt_stage stage)
{
    struct attempt a = {.stage = stage,
                        .fail = &x->fail,
                        .status = stage == ATTEMPT_CALL ? x->upstream_status : 0,
                        .retry_after_ms = stage == ATTEMPT_CALL ? x->retry_after_ms : -1,
                        .has_delta = x->n_deltas > x->n_deltas_before,
                        .n_repeats = x->n_repeats,
                        .random = exchange_record_random()};
    const struct config_calls *c = config_calls_of(x->env.conf, x->prep.target.provider_name);
    x->upstream_status = a.status;
    if (x->client_gone || x->has_begun) { /* whatever has gone to the client is of this attempt */
        return STEP_FINGERPRINT;
    }
    keep_first(x, &a);
    if (x->at_target + 1 < x->n_targets && attempt_may_move(&a)) {
        say_failed(x, "next_target");
        begin_target(x);
        memset(&x->fail, 0, sizeof x->fail);
        return STEP_RESOLVE;
    }
    if (attempt_may_repeat(&a, c, &x->wait_ms)) {
        say_failed(x, "again");
        x->n_repeats++;
        x->wanted_us = gateway_now_us();
        memset(&x->fail, 0, sizeof x->fail);
        return STEP_ADMIT;
    }
    if (x->only_rejections) {
        x->fail = x->first_fail;
    }
    return STEP_FINGERPRINT;
}

enum step exchange_attempt_failed(struct exchange *x, enum attempt_stage stage)
{
    static const char shut[] = "provider_unavailable";
    exchange_attempt_release(x, GATE_UNKNOWN);
    if (x->n_targets > 1 || stage == ATTEMPT_ADMIT) {
        exchange_record_begin(x, false);
        bool is_shut = stage == ATTEMPT_ADMIT && strcmp(x->fail.code, shut) == 0;
        exchange_record_attempt(x, 0, is_shut ? "breaker_open" : exchange_record_word(&x->fail));
    }
    return after(x, stage);
}

enum step exchange_attempt_ended(struct exchange *x)
{
    enum gate_outcome o = x->client_gone && !x->fail.status
                              ? GATE_UNKNOWN
                              : attempt_outcome(&x->fail, x->upstream_status);
    exchange_attempt_release(x, o);
    if (!x->fail.status || x->client_gone) {
        return STEP_GATHER;
    }
    if (x->retry_after_ms < 0 && x->fail.retry_after_s > 0) { /* said in the body */
        x->retry_after_ms = (int64_t)x->fail.retry_after_s * 1000;
    } else if (x->retry_after_ms > 0 && x->fail.retry_after_s == 0 &&
               (x->fail.status == 429 || x->fail.status == 503)) { /* a date */
        x->fail.retry_after_s = (int)((x->retry_after_ms + 999) / 1000);
    }
    return after(x, ATTEMPT_CALL);
}
