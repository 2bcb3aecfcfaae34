/* exchange.c - THE PATH: one request from first byte to last, as a table of steps. Read `steps` and
 * run() first.
 *
 * A step returns NEXT, WAIT (an event will call run() again) or END. What fails sets `fail` and
 * goes on at the record: a failure is an answer too. Two backward arrows, each at most once and
 * each visible in the record's attempts: a provider refuses a parameter that its claims allow ->
 * that claim is out, back to the plan; the connection is refused before any byte left -> again at
 * the call. After the first byte to the client there is no second backend.
 */
#include "exchange.h"

#include "base/jsonio.h"
#include "base/log.h"
#include "credentials.h"
#include "exchange_evidence.h"
#include "exchange_record.h"
#include "local-engine/link.h"
#include "reply.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum next { NEXT, WAIT, END };
enum step {
    STEP_PARSE,
    STEP_RESOLVE,
    STEP_PLAN,
    STEP_ENCODE,
    STEP_CALL,
    STEP_GATHER,
    STEP_FINGERPRINT,
    STEP_RECORD,
    STEP_END,
    STEP_COUNT
};

static void run(struct exchange *x);

/* ---- small helpers */

/* A failure whose words may be the provider's. */
static void fail_with(struct exchange *x, const struct failure *f)
{
    if (!x->fail.status) {
        x->fail = *f;
        exchange_hide_key(x, x->fail.message);
        exchange_hide_key(x, x->fail.code);
        exchange_hide_key(x, x->fail.param);
    }
}

/* Goes on at `step` when the current one has ended. */
static enum next jump(struct exchange *x, enum step step)
{
    x->at = (int)step - 1;
    return NEXT;
}

static void stop_call(struct exchange *x)
{
    upstream_cancel(x->up);
    engine_call_cancel(x->eng);
    x->up = NULL;
    x->eng = NULL;
}

/* The call has ended, one way or the other: go on behind it. */
static void leave_call(struct exchange *x)
{
    stop_call(x);
    x->at = STEP_GATHER;
    run(x);
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
        fail_with(x, f);
    }
    x->at = s && !x->client_gone ? STEP_RESOLVE : STEP_FINGERPRINT;
    run(x);
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
    return jump(x, STEP_FINGERPRINT);
}

static enum next step_parse(struct exchange *x)
{
    const struct gateway_view *now = &x->gw->view[conn_loop_index(x->conn)];
    x->snap = snapshot_ref(now->snap);
    gateway_env_with(config_ref(now->conf), x->snap, x->day, &x->env);
    if (!prepare_parse(&x->prep, &x->env, x->kind, conn_body(x->conn), &x->fail)) {
        return jump(x, STEP_END); /* nothing was asked of anybody: there is nothing to record */
    }
    x->is_parsed = true;
    return x->prep.request.catalog_version ? choose_version(x) : NEXT;
}

static enum next step_resolve(struct exchange *x)
{
    return prepare_resolve(&x->prep, &x->env, NULL, &x->fail) ? NEXT : jump(x, STEP_FINGERPRINT);
}

static enum next step_plan(struct exchange *x)
{
    return prepare_plan(&x->prep, &x->env, &x->fail) ? NEXT : jump(x, STEP_FINGERPRINT);
}

static enum next step_encode(struct exchange *x)
{
    struct credentials c;
    const struct target *t = &x->prep.target;
    buf_release(&x->body);
    buf_init(&x->body, LIMIT_BODY_BYTES * 2); /* escapes may grow a body */
    memset(&x->headers, 0, sizeof x->headers);
    bool ok = credentials_find(x->env.conf, t, &c, &x->fail) &&
              prepare_encode(&x->prep, x->at_prompt, c.key[0] ? c.key : NULL, &x->body, &x->headers,
                             &x->fail) &&
              credentials_sign(&c, t, buf_slice(&x->body), gateway_now_us() / 1000000, &x->headers,
                               &x->fail);
    credentials_wipe(&c);
    return ok ? NEXT : jump(x, STEP_FINGERPRINT);
}

/* ---- 7 to 10: call, decode, normalise, begin the reply */

static void begin_stream(struct exchange *x)
{
    if (x->has_begun) {
        return;
    }
    x->has_begun = true;
    struct conn_header h[EXCHANGE_HEADERS_MAX];
    size_t n = exchange_headers(x, h);
    h[n++] = (struct conn_header){"cache-control", "no-cache"};
    conn_stream_begin(x->conn, 200, "text/event-stream; charset=utf-8", h, n);
}

/* Before a chunk. The `isotherm` object of the first one, else NULL; yours. */
static json_t *open_stream(struct exchange *x)
{
    begin_stream(x);
    if (x->has_opened) {
        return NULL;
    }
    x->has_opened = true;
    exchange_record_seal(x);
    x->n_adj_shown = x->prep.plan.n_adj;
    return reply_isotherm(&x->prep, x->request_id, snapshot_version(x->snap));
}

/* A backend that thinks for long: the client gets the head, and comments from then on. */
static void on_silence(void *ud)
{
    struct exchange *x = ud;
    if (!x->client_gone) {
        begin_stream(x);
    }
}

static void watch_silence(struct exchange *x)
{
    unsigned ms = x->env.conf->keepalive_ms;
    if (x->prep.request.stream && ms > 0 && !x->has_begun && x->silence.slot == 0) {
        (void)loop_timer_arm(conn_loop(x->conn), &x->silence, ms, on_silence,
                             x); /* no memory: no comments */
    }
}

/* Receives every normalised delta; `false` stops the decoder. */
static bool on_delta(const struct delta *d, void *ud)
{
    struct exchange *x = ud;
    bool is_content = d->kind == DELTA_TEXT || d->kind == DELTA_REASONING ||
                      d->kind == DELTA_REFUSAL || d->kind == DELTA_TOOL;
    if (!is_content) {
        return true;
    }
    if (x->up) {
        upstream_touch(x->up);
    }
    struct delta own = *d;
    own.choice += x->choice_base;
    exchange_record_delta(x, &own);
    if (!x->prep.request.stream || x->client_gone) {
        return true;
    }
    json_t *isotherm = open_stream(x);
    struct buf out;
    buf_init(&out, LIMIT_ANSWER_BYTES);
    bool ok = reply_delta(&x->reply, &own, isotherm, &out);
    if (ok && out.len) {
        (void)conn_stream_write(x->conn,
                                buf_slice(&out)); /* a client that left is told by on_close */
    }
    buf_release(&out);
    json_decref(isotherm);
    if (x->up && !x->is_paused && conn_stream_pending(x->conn) > LIMIT_STREAM_BUFFER_BYTES) {
        x->is_paused = true;
        upstream_pause(x->up, true);
    }
    return ok ||
           failure_set(&x->fail, 500, "internal_error", NULL, "the answer could not be written");
}

static void on_drain(void *ud)
{
    struct exchange *x = ud;
    if (x->up && x->is_paused) {
        x->is_paused = false;
        upstream_pause(x->up, false);
    }
}

/* Feeds bytes of an answer to the decoder. false: the call is over (failed, or the gateway cut
 * every choice). */
static bool decode_piece(struct exchange *x, struct slice piece)
{
    struct failure f = {.status = 0};
    if (x->backend->decode(x->dec, piece, answer_take, &x->answer, &f)) {
        return !answer_has_enough(&x->answer);
    }
    const struct failure *own = answer_failure(&x->answer);
    fail_with(x, own && own->status ? own : &f);
    return false;
}

static void on_engine_frame(const json_t *frame, void *ud)
{
    struct exchange *x = ud;
    struct buf b;
    buf_init(&b, LINK_FRAME_MAX);
    bool goes_on = jsonio_write(&b, frame) && decode_piece(x, buf_slice(&b));
    buf_release(&b);
    if (!goes_on) {
        exchange_record_attempt(x, 0, x->fail.status ? x->fail.code : NULL);
        leave_call(x);
    }
}

static void end_of_answer(struct exchange *x)
{
    struct failure f = {.status = 0};
    if (!x->fail.status && !x->backend->decode_end(x->dec, answer_take, &x->answer, &f)) {
        const struct failure *own = answer_failure(&x->answer);
        fail_with(x, own && own->status ? own : &f);
    }
}

static void on_engine_end(const struct failure *f, void *ud)
{
    struct exchange *x = ud;
    x->eng = NULL; /* it has freed itself */
    if (f) {
        fail_with(x, f);
    } else {
        end_of_answer(x);
    }
    exchange_record_attempt(x, 0, x->fail.status ? x->fail.code : NULL);
    leave_call(x);
}

static void free_decoder(struct exchange *x)
{
    if (x->dec) {
        x->backend->decoder_free(x->dec);
        x->dec = NULL;
    }
}

/* The answer says how it is framed: a provider that was asked for a stream may still send one JSON
 * body, an error or all of it. */
static bool begin_decoding(struct exchange *x, enum wire_form form)
{
    free_decoder(x);
    x->dec = backend_decoder(x->backend, x->prep.target.provider, form, x->kind == REQUEST_CHAT);
    return x->dec || failure_set(&x->fail, 503, "out_of_memory", NULL, "out of memory");
}

static void on_head(int status, void *ud)
{
    struct exchange *x = ud;
    bool is_stream = x->prep.request.stream;
    x->upstream_status = status;
    exchange_record_upstream_id(x);
    if (status < 200 || status >= 300) {
        return;
    }
    if (!begin_decoding(x, pieces_form(upstream_header(x->up, "content-type"), is_stream))) {
        exchange_record_attempt(x, status, x->fail.code);
        leave_call(x);
    } else if (is_stream) {
        upstream_touch(x->up); /* from here on silence is that of content: a ping ends none */
    }
}

static void on_resend(void *ud)
{
    struct exchange *x = ud;
    exchange_record_attempt(x, 0, "connection_lost");
    x->attempt_us = gateway_now_us();
}

static void on_piece(struct slice piece, void *ud)
{
    struct exchange *x = ud;
    if (x->upstream_status >= 200 && x->upstream_status < 300) {
        if (!decode_piece(x, piece)) {
            exchange_record_attempt(x, x->upstream_status, x->fail.status ? x->fail.code : NULL);
            leave_call(x);
        }
    } else if (x->refusal.len + piece.len <= LIMIT_ERROR_BODY_BYTES) {
        (void)buf_append(&x->refusal, piece.p,
                         piece.len); /* the rest of an endless error page is not needed */
    }
}

/* Whether the provider refused a parameter that its claims allow: then that claim is out and the
 * plan is made anew, once. */
static bool may_rule_out(struct exchange *x, enum param p)
{
    if (p == PARAM_COUNT || x->has_begun || x->prep.ruled_out || x->fail.status != 400) {
        return false;
    }
    x->prep.ruled_out |= PARAM_BIT(p);
    log_write(LOG_WARNING, "claim_contradicted", "id", x->request_id, "model", x->prep.target.name,
              "param", sampling_table[p].name, NULL);
    return true;
}

static void on_refusal(struct exchange *x)
{
    char param[64] = "";
    struct failure f = {.status = 0};
    x->prep.target.backend->refusal(x->upstream_status, buf_slice(&x->refusal),
                                    upstream_header(x->up, "retry-after"), param, &f);
    fail_with(x, &f);
    exchange_record_attempt(x, x->upstream_status, x->fail.code);
    enum param refused = exchange_evidence_param(x, param);
    if (refused != PARAM_COUNT) {
        exchange_evidence_refused(x, refused);
    }
    if (may_rule_out(x, refused)) {
        memset(&x->fail, 0, sizeof x->fail);
        stop_call(x);
        x->at = STEP_PLAN;
        run(x);
        return;
    }
    leave_call(x);
}

static void on_upstream_end(const struct failure *f, void *ud)
{
    struct exchange *x = ud;
    if (!f && (x->upstream_status < 200 || x->upstream_status >= 300)) {
        on_refusal(x);
        return;
    }
    if (f && strcmp(f->code, "upstream_unreachable") == 0 && !upstream_any_byte(x->up) &&
        !x->has_retried) {
        x->has_retried = true;
        exchange_record_attempt(x, 0, f->code);
        stop_call(x);
        x->at = STEP_CALL;
        run(x);
        return;
    }
    if (f) {
        fail_with(x, f);
    } else {
        end_of_answer(x);
    }
    exchange_record_attempt(x, x->upstream_status, x->fail.status ? x->fail.code : NULL);
    leave_call(x);
}

static bool start_answer(struct exchange *x)
{
    const struct sampling *asked = &x->prep.request.asked;
    unsigned n = sampling_has(asked, PARAM_N) ? (unsigned)asked->v[PARAM_N].i : 1;
    const json_t *prompt = x->prep.request.content.prompt;
    if (x->prep.n_prompts == 1 && json_is_array(prompt) &&
        !json_is_integer(json_array_get(prompt, 0))) {
        n *= (unsigned)json_array_size(prompt); /* a list that the backend takes whole */
    }
    const json_t *stops = x->prep.plan.stop_is_local && sampling_has(asked, PARAM_STOP)
                              ? asked->v[PARAM_STOP].j
                              : NULL;
    answer_release(&x->answer);
    free_decoder(x);
    x->backend = x->prep.target.backend;
    return answer_init(&x->answer, n, stops, !x->prep.request.stream, on_delta, x, &x->fail);
}

static bool call_engine(struct exchange *x)
{
    static const struct engine_events events = {.on_frame = on_engine_frame,
                                                .on_end = on_engine_end};
    if (!x->gw->engine) { /* loop 0 is still starting it */
        (void)failure_set(&x->fail, 503, "engine_restarting", NULL,
                          "the local engine is starting: try again in a second");
        x->fail.retry_after_s = 1;
        return false;
    }
    json_t *frame = jsonio_parse(x->body.p, x->body.len, &x->fail);
    bool ok =
        frame && begin_decoding(x, FORM_WHOLE) &&
        engine_call_start(x->gw->engine, conn_loop(x->conn), frame, &events, x, &x->eng, &x->fail);
    json_decref(frame);
    return ok;
}

static bool call_upstream(struct exchange *x)
{
    static const struct upstream_events events = {.on_head = on_head,
                                                  .on_piece = on_piece,
                                                  .on_end = on_upstream_end,
                                                  .on_resend = on_resend};
    struct upstream_header h[BACKEND_HEADERS_MAX];
    for (size_t i = 0; i < x->headers.n; i++) {
        h[i] = (struct upstream_header){x->headers.h[i].name, x->headers.h[i].value};
    }
    const struct config *c = x->env.conf;
    struct upstream_spec spec = {.url = x->prep.target.url,
                                 .headers = h,
                                 .n_headers = x->headers.n,
                                 .body = buf_slice(&x->body),
                                 .connect_ms = c->connect_ms,
                                 .first_byte_ms = c->first_byte_ms,
                                 .idle_ms = c->idle_ms,
                                 .bytes_max = LIMIT_UPSTREAM_BYTES};
    return upstream_start(x->gw->upstream[conn_loop_index(x->conn)], &spec, &events, x, &x->up,
                          &x->fail);
}

static enum next step_call(struct exchange *x)
{
    x->upstream_status = 0;
    x->is_paused = false;
    buf_clear(&x->refusal);
    x->attempt_us = gateway_now_us();
    watch_silence(x);
    bool ok =
        start_answer(x) && (x->prep.target.provider->is_local ? call_engine(x) : call_upstream(x));
    if (!ok) {
        exchange_record_attempt(x, 0, x->fail.code);
        return NEXT; /* gather sees the failure */
    }
    return WAIT;
}

/* A list of prompts goes to the local engine one by one: the choices are gathered in one answer. */
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
    all->usage.is_known = a->usage.is_known;
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
    if (!answer_finish(&x->answer, &x->fail)) {
        const struct failure *own = answer_failure(&x->answer);
        if (own && own->status) {
            fail_with(x, own);
        }
        return NEXT;
    }
    if (!gather_choices(x)) {
        return NEXT;
    }
    if (++x->at_prompt < x->prep.n_prompts) {
        return jump(x, STEP_ENCODE);
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
    return jump(x, STEP_END);
}

static void on_recorded(bool ok, void *ud)
{
    struct exchange *x = ud;
    if (!ok) {
        log_write(LOG_ERROR, "record_failed", "id", x->request_id, NULL);
        if (strcmp(x->env.conf->records_on_failure, "flag") != 0) {
            (void)failure_set(&x->fail, 500, "record_failed", NULL,
                              "the answer's record could not be written, so the answer is "
                              "withheld: see the disk of records.db");
        }
    }
    x->at = STEP_END;
    run(x);
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
    json_t *isotherm = is_stream ? open_stream(x) : NULL;
    if (!isotherm && (!is_stream || x->n_adj_shown < x->prep.plan.n_adj)) {
        isotherm = reply_isotherm(&x->prep, x->request_id, snapshot_version(x->snap));
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
        exchange_reply_failure(x->conn, &f, x->request_id);
    }
    buf_release(&out);
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
    } else if (!x->has_begun) {
        exchange_reply_failure(x->conn, &x->fail, x->request_id);
    } else {
        struct buf out;
        buf_init(&out, 1u << 16);
        if (reply_failure(&x->fail, true, &out)) {
            (void)conn_stream_write(x->conn, buf_slice(&out));
        }
        conn_stream_end(x->conn);
        buf_release(&out);
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
    [STEP_PARSE] = {"parse", step_parse},
    [STEP_RESOLVE] = {"resolve", step_resolve},
    [STEP_PLAN] = {"plan", step_plan},
    [STEP_ENCODE] = {"encode", step_encode},
    [STEP_CALL] = {"call", step_call},
    [STEP_GATHER] = {"gather", step_gather},
    [STEP_FINGERPRINT] = {"fingerprint", step_fingerprint},
    [STEP_RECORD] = {"record", step_record},
    [STEP_END] = {"end", step_end},
};

static void release(struct exchange *x)
{
    stop_call(x);
    free_decoder(x);
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
    explicit_bzero(&x->headers, sizeof x->headers);
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

static void on_close(void *ud)
{
    struct exchange *x = ud;
    x->client_gone = true;
    if (x->at == STEP_CALL) { /* else it waits for its record, which is written all the same */
        exchange_record_attempt(x, x->upstream_status, "client_gone");
        leave_call(x);
    }
}

void exchange_start(struct gateway *g, struct conn *c, enum request_kind kind)
{
    struct exchange *x = calloc(1, sizeof *x);
    struct failure f = {.status = 0};
    if (!x) {
        (void)failure_set(&f, 503, "out_of_memory", NULL, "out of memory");
        exchange_reply_failure(c, &f, NULL);
        return;
    }
    x->gw = g;
    x->conn = c;
    x->kind = kind;
    buf_init(&x->body, LIMIT_BODY_BYTES * 2);
    buf_init(&x->refusal, LIMIT_ERROR_BODY_BYTES);
    exchange_record_init(x);
    conn_on_close(c, on_close, x);
    conn_on_drain(c, on_drain, x);
    run(x);
}
