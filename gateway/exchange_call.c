/* exchange_call.c - see exchange_call.h. Events of the upstream or the engine come in here;
 * whatever ends the call, leave_call() is the one way on.
 */
#include "exchange_call.h"

#include "base/jsonio.h"
#include "base/log.h"
#include "exchange_attempt.h"
#include "exchange_evidence.h"
#include "local-engine/link.h"
#include "reply.h"
#include <string.h>
#include <strings.h>

static void stop_call(struct exchange *x)
{
    upstream_cancel(x->up);
    engine_call_cancel(x->eng);
    x->up = NULL;
    x->eng = NULL;
}

/* The call has ended, one way or the other: whether its answer is whole shows now, and then what
 * comes next. */
static void leave_call(struct exchange *x)
{
    struct failure f = {.status = 0};
    stop_call(x);
    if (!x->fail.status && !x->client_gone && !answer_finish(&x->answer, &f)) {
        const struct failure *own = answer_failure(&x->answer);
        exchange_fail(x, own && own->status ? own : &f);
    }
    exchange_record_attempt(x, x->upstream_status,
                            x->client_gone   ? "client_gone"
                            : x->fail.status ? exchange_record_word(&x->fail)
                                             : NULL);
    exchange_go_on(x, exchange_attempt_ended(x));
}

/* ---- the begin of the reply */

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
json_t *exchange_call_open_stream(struct exchange *x)
{
    begin_stream(x);
    if (x->has_opened) {
        return NULL;
    }
    x->has_opened = true;
    exchange_record_seal(x);
    x->n_adj_shown = x->prep.plan.n_adj;
    return exchange_record_isotherm(x);
}

static void watch_silence(struct exchange *x);

/* A backend that thinks for long: the client gets the head, and comments from then on. */
static void on_silence(void *ud)
{
    struct exchange *x = ud;
    if (!x->up && !x->eng) { /* it waits to be sent again: a head would end that */
        watch_silence(x);
    } else if (!x->client_gone) {
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
    json_t *isotherm = exchange_call_open_stream(x);
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

void exchange_call_on_drain(void *ud)
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
    exchange_fail(x, own && own->status ? own : &f);
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
        leave_call(x);
    }
}

static void end_of_answer(struct exchange *x)
{
    struct failure f = {.status = 0};
    if (!x->fail.status && !x->backend->decode_end(x->dec, answer_take, &x->answer, &f)) {
        const struct failure *own = answer_failure(&x->answer);
        exchange_fail(x, own && own->status ? own : &f);
    }
}

static void on_engine_end(const struct failure *f, void *ud)
{
    struct exchange *x = ud;
    x->eng = NULL; /* it has freed itself */
    if (f) {
        exchange_fail(x, f);
    } else {
        end_of_answer(x);
    }
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

/* Nothing of the kind was asked for (no Accept-Encoding is sent), and what comes is not text. */
static bool is_encoded(struct exchange *x)
{
    const char *coding = upstream_header(x->up, "content-encoding");
    if (!coding || !coding[0] || strcasecmp(coding, "identity") == 0) {
        return false;
    }
    (void)failure_set(&x->fail, 502, "upstream_malformed", NULL,
                      "the backend's answer is encoded as '%.32s', which it was not asked for: "
                      "switch that off there, or in the proxy before it",
                      coding);
    return true;
}

static void on_head(int status, void *ud)
{
    struct exchange *x = ud;
    bool is_stream = x->prep.request.stream;
    x->upstream_status = status;
    exchange_record_upstream_id(x);
    exchange_attempt_note_head(x);
    if (status < 200 || status >= 300) {
        return;
    }
    if (is_encoded(x) ||
        !begin_decoding(x, pieces_form(upstream_header(x->up, "content-type"), is_stream))) {
        leave_call(x);
    } else if (is_stream) {
        upstream_touch(x->up); /* from here on silence is that of content: a ping ends none */
    }
}

static void on_resend(void *ud)
{
    struct exchange *x = ud;
    exchange_record_attempt(x, 0, "connection_lost");
    exchange_record_begin(x, true);
}

static void on_piece(struct slice piece, void *ud)
{
    struct exchange *x = ud;
    if (x->upstream_status >= 200 && x->upstream_status < 300) {
        if (!decode_piece(x, piece)) {
            leave_call(x);
        }
    } else if (x->refusal.len + piece.len <= LIMIT_ERROR_BODY_BYTES) {
        (void)buf_append(&x->refusal, piece.p,
                         piece.len); /* the rest of an endless error page is not needed */
    }
}

/* Whether the provider refused a parameter that its claims allow: then that claim is out and the
 * plan is made anew, once. Not when it has answered a call with it, nor where a request without it
 * is refused as well: then its value is the fault, and what the provider says of it is the answer.
 */
static bool may_rule_out(struct exchange *x, enum param p)
{
    if (p == PARAM_COUNT || x->has_begun || x->at_call > 0 || x->prep.ruled_out ||
        x->fail.status != 400 || (x->prep.rules.required_bits & PARAM_BIT(p))) {
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
    exchange_fail(x, &f);
    enum param refused = exchange_evidence_param(x, param);
    if (refused != PARAM_COUNT) {
        exchange_evidence_refused(x, refused);
    }
    if (may_rule_out(x, refused)) {
        exchange_record_attempt(x, x->upstream_status, exchange_record_word(&x->fail));
        memset(&x->fail, 0, sizeof x->fail);
        stop_call(x);
        exchange_attempt_release(x, GATE_WELL);
        exchange_go_on(x, STEP_PLAN);
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
    if (f) {
        exchange_fail(x, f);
    } else {
        end_of_answer(x);
    }
    leave_call(x);
}

static bool start_answer(struct exchange *x)
{
    const struct sampling *asked = &x->prep.request.asked;
    const json_t *stops = x->prep.plan.stop_is_local && sampling_has(asked, PARAM_STOP)
                              ? asked->v[PARAM_STOP].j
                              : NULL;
    answer_release(&x->answer);
    free_decoder(x);
    x->backend = x->prep.target.backend;
    unsigned n = prepare_choices(&x->prep, x->at_call);
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
    struct upstream_header list[HEADERS_MAX];
    struct upstream_spec spec = gateway_call_spec(x->env.conf, &x->prep.target, &x->headers, list);
    spec.body = buf_slice(&x->body);
    spec.bytes_max = LIMIT_UPSTREAM_BYTES;
    return upstream_start(x->gw->upstream[conn_loop_index(x->conn)], &spec, &events, x, &x->up,
                          &x->fail);
}

enum next exchange_call(struct exchange *x)
{
    x->upstream_status = 0;
    x->is_paused = false;
    buf_clear(&x->refusal);
    x->retry_after_ms = -1;
    x->n_deltas_before = x->n_deltas;
    exchange_record_begin(x, true);
    watch_silence(x);
    bool ok =
        start_answer(x) && (x->prep.target.provider->is_local ? call_engine(x) : call_upstream(x));
    if (!ok) {
        exchange_record_attempt(x, 0, exchange_record_word(&x->fail));
        return exchange_jump(x, exchange_attempt_ended(x));
    }
    return WAIT;
}

void exchange_call_abandon(struct exchange *x)
{
    leave_call(x);
}

void exchange_call_release(struct exchange *x)
{
    stop_call(x);
    free_decoder(x);
}
