/* exchange.c - THE PATH: one request from first byte to last, as a table of steps. Read `steps` and
 * run() first.
 *
 * A step returns NEXT, WAIT (an event will call run() again) or END. What fails sets `fail` and
 * goes on at the record: a failure is an answer too. Three backward arrows, each visible in the
 * record's attempts, none after the first byte to the client: a provider refuses a parameter that
 * its claims allow -> that claim is out, back to the plan, once for each target; an attempt may be
 * made again -> back to the admission; another target is left -> back to its resolution. attempt.h
 * says when.
 */
#include "exchange.h"

#include "base/log.h"
#include "credentials.h"
#include "exchange_attempt.h"
#include "exchange_call.h"
#include "exchange_evidence.h"
#include "reply.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- small helpers */

void exchange_fail(struct exchange *x, const struct failure *f)
{
    if (!x->fail.status) {
        x->fail = *f;
        exchange_hide_key(x, x->fail.message);
        exchange_hide_key(x, x->fail.code);
        exchange_hide_key(x, x->fail.param);
    }
}

enum next exchange_jump(struct exchange *x, enum step step)
{
    x->at = (int)step - 1;
    return NEXT;
}

/* What comes before a call has failed. */
static enum next failed(struct exchange *x, enum attempt_stage stage)
{
    return exchange_jump(x, exchange_attempt_failed(x, stage));
}

/* ---- 3 to 6: parse, resolve, plan, encode */

static void use_snapshot(struct exchange *x, struct snapshot *s)
{
    snapshot_release(x->snap);
    x->snap = x->env.snap = s;
}

/* The version that the request names was read, or is not there. The client may have left. */
static void on_version(struct snapshot *s, const struct failure *f, void *ud)
{
    struct exchange *x = ud;
    if (s) {
        use_snapshot(x, s);
    } else {
        exchange_fail(x, f);
    }
    exchange_go_on(x, s && !x->client_gone ? STEP_RESOLVE : STEP_FINGERPRINT);
}

static enum next choose_version(struct exchange *x)
{
    int64_t version = x->prep.request.catalog_version;
    struct snapshot *s = gateway_snapshot(x->gw, version, NULL);
    if (s) {
        use_snapshot(x, s);
        return NEXT;
    }
    if (keeper_version(x->gw->keeper, version, conn_loop(x->conn), on_version, x)) {
        return WAIT;
    }
    (void)failure_set(&x->fail, 503, "out_of_memory", NULL, "out of memory");
    return exchange_jump(x, STEP_FINGERPRINT);
}

static enum next step_parse(struct exchange *x)
{
    const struct gateway_view *now = &x->gw->view[conn_loop_index(x->conn)];
    x->snap = snapshot_ref(now->snap);
    gateway_env_with(config_ref(now->conf), x->snap, x->day, &x->env);
    if (!prepare_parse(&x->prep, &x->env, x->kind, conn_body(x->conn), &x->fail)) {
        return exchange_jump(
            x, STEP_END); /* nothing was asked of anybody: there is nothing to record */
    }
    x->is_parsed = true;
    conn_drop_body(x->conn); /* a call may take minutes */
    return x->prep.request.catalog_version ? choose_version(x) : NEXT;
}

static enum next step_resolve(struct exchange *x)
{
    return prepare_resolve(&x->prep, &x->env, exchange_attempt_target(x), &x->fail)
               ? NEXT
               : failed(x, ATTEMPT_PLAN);
}

static enum next step_plan(struct exchange *x)
{
    return prepare_plan(&x->prep, &x->env, &x->fail) ? NEXT : failed(x, ATTEMPT_PLAN);
}

/* ---- 7: who is called, if anybody */

static bool is_withheld_unrecorded(const struct exchange *x)
{
    return strcmp(x->env.conf->records_on_failure, "flag") != 0;
}

/* Before every call. An answer whose record cannot be written would be paid for and withheld. */
static enum next step_admit(struct exchange *x)
{
    if (records_is_writable(x->gw->records) || !is_withheld_unrecorded(x)) {
        return exchange_attempt_admit(x);
    }
    (void)failure_set(&x->fail, 500, "record_failed", NULL,
                      "records cannot be written now and an answer without one would be withheld, "
                      "so nobody was asked: see the disk of records.db");
    bool has_asked = json_array_size(x->attempts) > 0;
    return exchange_jump(x, has_asked ? STEP_FINGERPRINT : STEP_END);
}

static bool find_credentials(struct exchange *x, struct credentials *c)
{
    const struct target *t = &x->prep.target;
    bool ok = credentials_find(x->env.conf, t, c, &x->fail);
    if (!ok && t->key_file) {
        log_write(LOG_ERROR, "key_unusable", "id", x->request_id, "provider", t->provider_name,
                  "api_key_file", t->key_file, "error", x->fail.message, NULL);
    }
    return ok;
}

static enum next step_encode(struct exchange *x)
{
    struct credentials c;
    const struct target *t = &x->prep.target;
    buf_release(&x->body);
    buf_init(&x->body, LIMIT_BODY_BYTES * 2); /* escapes may grow a body */
    headers_release(&x->headers);
    bool ok = find_credentials(x, &c) &&
              prepare_encode(&x->prep, x->at_call, c.key[0] ? c.key : NULL, &x->body, &x->headers,
                             &x->fail) &&
              credentials_sign(&c, t, buf_slice(&x->body), gateway_now_us() / 1000000, &x->headers,
                               &x->fail);
    credentials_wipe(&c);
    return ok ? NEXT : failed(x, ATTEMPT_ENCODE);
}

/* ---- 9: what the calls have brought */

/* The choices of several calls (see prepare.h) are gathered in one answer. */
static bool gather_choices(struct exchange *x)
{
    struct answer *a = &x->answer, *all = &x->all;
    struct answer_choice *grown =
        realloc(all->choice, (all->n_choices + a->n_choices) * sizeof *grown);
    if (!grown) {
        return failure_set(&x->fail, 503, "out_of_memory", NULL, "out of memory");
    }
    all->choice = grown;
    memcpy(grown + all->n_choices, a->choice, a->n_choices * sizeof *grown);
    all->n_choices += a->n_choices;
    memset(a->choice, 0, a->n_choices * sizeof *a->choice); /* moved */
    all->usage.is_known = a->usage.is_known && (x->at_call == 0 || all->usage.is_known);
    all->usage.prompt_tokens += a->usage.prompt_tokens;
    all->usage.completion_tokens += a->usage.completion_tokens;
    all->usage.reasoning_tokens += a->usage.reasoning_tokens;
    all->usage.cached_tokens += a->usage.cached_tokens;
    x->choice_base = all->n_choices;
    if (!all->provider_id[0]) {
        memcpy(all->provider_id, a->provider_id, sizeof all->provider_id);
        memcpy(all->provider_model, a->provider_model, sizeof all->provider_model);
        memcpy(all->provider_fingerprint, a->provider_fingerprint,
               sizeof all->provider_fingerprint);
    }
    return true;
}

static enum next step_gather(struct exchange *x)
{
    if (x->fail.status || x->client_gone) {
        return NEXT;
    }
    if (!gather_choices(x)) {
        return NEXT;
    }
    if (++x->at_call < x->prep.n_calls) {
        exchange_record_body(x);
        return exchange_jump(x, STEP_ADMIT);
    }
    exchange_check_served(x);
    exchange_estimate_usage(x);
    return NEXT;
}

/* ---- 11 to 13: fingerprint, record, end */

static enum next step_fingerprint(struct exchange *x)
{
    loop_timer_cancel(conn_loop(x->conn), &x->silence);
    exchange_record_seal(x);
    exchange_evidence_tell(x);
    if (exchange_record_fill(x)) {
        return NEXT;
    }
    (void)failure_set(&x->fail, 503, "out_of_memory", NULL, "out of memory");
    return exchange_jump(x, STEP_END);
}

static void on_recorded(bool ok, void *ud)
{
    struct exchange *x = ud;
    if (!ok) {
        log_write(LOG_ERROR, "record_failed", "id", x->request_id, NULL);
        if (is_withheld_unrecorded(x)) {
            (void)failure_set(&x->fail, 500, "record_failed", NULL,
                              "the answer's record could not be written, so the answer is "
                              "withheld: see the disk of records.db");
        }
    }
    exchange_go_on(x, STEP_END);
}

static enum next step_record(struct exchange *x)
{
    if (!records_append(x->gw->records, &x->fp, conn_loop(x->conn), on_recorded, x)) {
        on_recorded(false, x);
    }
    return WAIT;
}

static void end_with_answer(struct exchange *x)
{
    struct buf out;
    buf_init(&out, LIMIT_ANSWER_BYTES * 2);
    bool is_stream = x->prep.request.stream;
    json_t *isotherm = is_stream ? exchange_call_open_stream(x) : NULL;
    if (!isotherm && (!is_stream || x->n_adj_shown < x->prep.plan.n_adj)) {
        isotherm = exchange_record_isotherm(x);
    }
    bool ok = is_stream ? reply_end(&x->reply, &x->all, isotherm, &out)
                        : isotherm && reply_whole(&x->reply, &x->all, isotherm, &out);
    if (is_stream) {
        if (ok) {
            (void)conn_stream_write(x->conn, buf_slice(&out));
            conn_stream_end(x->conn);
        } else {
            conn_stream_abort(x->conn);
        }
    } else if (ok) {
        struct conn_header h[EXCHANGE_HEADERS_MAX];
        conn_reply(x->conn, 200, "application/json", h, exchange_headers(x, h), buf_slice(&out));
    } else {
        struct failure f = {.status = 0};
        (void)failure_set(&f, 500, "internal_error", NULL, "the answer could not be written");
        exchange_reply_failure(x->conn, &f, x->request_id, NULL);
    }
    buf_release(&out);
    json_decref(isotherm);
}

static void end_with_failure(struct exchange *x)
{
    json_t *isotherm = exchange_record_tried(x);
    if (!x->has_begun) {
        exchange_reply_failure(x->conn, &x->fail, x->request_id, isotherm);
    } else {
        struct buf out;
        buf_init(&out, LIMIT_ANSWER_BYTES);
        if (reply_failure(&x->fail, isotherm, true, &out)) {
            (void)conn_stream_write(x->conn, buf_slice(&out));
        }
        conn_stream_end(x->conn);
        buf_release(&out);
    }
    json_decref(isotherm);
}

static enum next step_end(struct exchange *x)
{
    if (x->client_gone) { /* nobody listens, but the request must be ended all the same */
        if (x->has_begun) {
            conn_stream_abort(x->conn);
        } else {
            conn_reply(x->conn, 499, "application/json", NULL, 0, SLICE_LIT("{}"));
        }
    } else if (!x->fail.status) {
        end_with_answer(x);
    } else {
        end_with_failure(x);
    }
    x->conn = NULL; /* the server's again */
    exchange_log(x);
    return END;
}

/* ---- the table and the loop */

static const struct {
    const char *name;
    enum next (*fn)(struct exchange *x);
} steps[STEP_COUNT] = {
    [STEP_PARSE] = {"parse", step_parse},    [STEP_RESOLVE] = {"resolve", step_resolve},
    [STEP_PLAN] = {"plan", step_plan},       [STEP_ADMIT] = {"admit", step_admit},
    [STEP_ENCODE] = {"encode", step_encode}, [STEP_CALL] = {"call", exchange_call},
    [STEP_GATHER] = {"gather", step_gather}, [STEP_FINGERPRINT] = {"fingerprint", step_fingerprint},
    [STEP_RECORD] = {"record", step_record}, [STEP_END] = {"end", step_end},
};

static void release(struct exchange *x)
{
    assert(!x->turn && x->wait.slot == 0);
    exchange_call_release(x);
    answer_release(&x->answer);
    answer_release(&x->all);
    if (x->is_parsed) {
        prepare_release(&x->prep);
    }
    exchange_record_release(x);
    exchange_evidence_release(x);
    gateway_env_release(&x->env);
    snapshot_release(x->snap);
    buf_release(&x->body);
    buf_release(&x->refusal);
    headers_release(&x->headers);
    free(x);
}

static void run(struct exchange *x)
{
    for (;;) {
        assert(x->at >= 0 && x->at < STEP_COUNT);
        log_write(LOG_DEBUG, "step", "id", x->request_id, "name", steps[x->at].name, NULL);
        switch (steps[x->at].fn(x)) {
        case NEXT:
            x->at++;
            break;
        case WAIT:
            return;
        case END:
            release(x);
            return;
        }
    }
}

void exchange_go_on(struct exchange *x, enum step step)
{
    x->at = step;
    run(x);
}

static void on_close(void *ud)
{
    struct exchange *x = ud;
    x->client_gone = true;
    if (x->at == STEP_CALL) { /* else it waits for its record, which is written all the same */
        exchange_call_abandon(x);
    } else if (x->at == STEP_ADMIT) {
        exchange_attempt_abandon(x);
    }
}

void exchange_start(struct gateway *g, struct conn *c, enum request_kind kind)
{
    struct exchange *x = calloc(1, sizeof *x);
    struct failure f = {.status = 0};
    if (!x) {
        (void)failure_set(&f, 503, "out_of_memory", NULL, "out of memory");
        exchange_reply_failure(c, &f, NULL, NULL);
        return;
    }
    x->gw = g;
    x->conn = c;
    x->kind = kind;
    buf_init(&x->body, LIMIT_BODY_BYTES * 2);
    buf_init(&x->refusal, LIMIT_ERROR_BODY_BYTES);
    exchange_record_init(x);
    conn_on_close(c, on_close, x);
    conn_on_drain(c, exchange_call_on_drain, x);
    run(x);
}
