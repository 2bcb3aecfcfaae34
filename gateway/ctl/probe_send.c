/* probe_send.c - a trial becomes a plan made by hand: exactly its parameters, under its names. From
 * there on everything is what the daemon does: the dialect encodes, io/upstream sends, the
 * dialect's decoder and answer.c read. */
#include "gateway/ctl/probe_send.h"

#include "gateway/answer.h"
#include "gateway/backend/refusal.h"
#include "gateway/backend/refusal_param.h"
#include "gateway/gateway.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BODY_MAX (1u << 20) /* a probe's request has a few hundred bytes, a long list 20 KB */
#define WAIT_MS  500        /* before the second try; doubled for each */

struct probe_sender {
    const struct config *conf;
    const struct target *target;
    const struct rules *rules;
    const struct credentials *with;
    const char *limit_wire; /* of max_tokens, where it was found to be another; NULL: as claimed */
    struct loop *loop;
    struct upstream *upstream;
    struct loop_timer timer;
    struct probe_sender_count count;
    unsigned n_lost; /* requests given up in a row */

    /* of the request in flight */
    struct upstream_call *call;
    struct buf answer;
    int status;
    char retry_after[32];
    struct failure failed;
};

/* ---- ^C. The one loop of this program that waits, for the handler. */

static struct loop *_Atomic stoppable;
static volatile sig_atomic_t is_stopped;

static void on_signal(int sig)
{
    struct loop *l = atomic_load(&stoppable);
    (void)sig;
    is_stopped = 1;
    if (l) {
        loop_stop(l);
    }
}

bool probe_sender_is_stopped(void)
{
    return is_stopped != 0;
}

bool probe_sender_new(struct probe_sender **out, const struct config *conf,
                      const struct target *target, const struct rules *rules,
                      const struct credentials *with)
{
    struct probe_sender *s = calloc(1, sizeof *s);
    struct sigaction act = {.sa_handler = on_signal};
    if (!s) {
        return false;
    }
    *s = (struct probe_sender){.conf = conf, .target = target, .rules = rules, .with = with};
    buf_init(&s->answer, BODY_MAX);
    if (!loop_new(&s->loop) || !upstream_new(&s->upstream, s->loop)) {
        probe_sender_free(s);
        return false;
    }
    atomic_store(&stoppable, s->loop);
    (void)sigaction(SIGINT, &act, NULL);
    (void)sigaction(SIGTERM, &act, NULL);
    act.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &act, NULL);
    *out = s;
    return true;
}

void probe_sender_free(struct probe_sender *s)
{
    if (s) {
        atomic_store(&stoppable, NULL);
        upstream_free(s->upstream);
        loop_free(s->loop);
        buf_release(&s->answer);
        free(s);
    }
}

struct probe_sender_count probe_sender_count(const struct probe_sender *s)
{
    return s->count;
}

void probe_sender_rename_limit(struct probe_sender *s, const char *wire)
{
    s->limit_wire = wire;
}

/* ---- what is sent */

static bool add_extras(struct plan *plan, const struct probe_sender *s, const struct probe_trial *t)
{
    for (int i = 0; i < PARAM_COUNT; i++) {
        enum param p = (enum param)i;
        const struct claim *c =
            sampling_has(&t->send, p) ? rules_claim(s->rules, p, &t->send) : NULL;
        const char *wire;
        json_t *value;
        json_object_foreach ((json_t *)(c ? c->adds : NULL), wire, value) {
            if (sampling_is_neutral(p, t->send.v[p])) {
                continue;
            }
            if (plan->n_extra == PLAN_EXTRA_MAX) {
                return false;
            }
            plan->extra[plan->n_extra++] = (struct plan_extra){wire, value, c->id};
        }
    }
    return true;
}

static bool encode(struct probe_sender *s, const struct probe_trial *t, const char *key,
                   struct buf *body, struct headers *h, struct failure *f)
{
    struct plan *plan = calloc(1, sizeof *plan);
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", t->prompt);
    bool ok = plan && messages;
    if (ok) {
        plan->route = PLAN_TARGET;
        plan->send = t->send;
        memcpy(plan->wire, t->wire, sizeof plan->wire);
        if (s->limit_wire && plan->wire[PARAM_MAX_TOKENS]) {
            plan->wire[PARAM_MAX_TOKENS] = s->limit_wire;
        }
        plan->stop_sent = SIZE_MAX; /* all of the list, whatever is in it */
        struct call c = {.provider = s->target->provider,
                         .backend = s->target->backend,
                         .rules = s->rules,
                         .model = s->target->model,
                         .messages = messages,
                         .send = &plan->send,
                         .plan = plan,
                         .key = key};
        ok = add_extras(plan, s, t) && s->target->backend->encode(&c, body, h, f);
    }
    json_decref(messages);
    free(plan);
    return ok || failure_set(f, 500, "encode_failed", NULL,
                             "the request cannot be written in the dialect '%s'",
                             s->target->backend->name);
}

bool probe_sender_body(struct probe_sender *s, const struct probe_trial *t, struct buf *body,
                       struct failure *f)
{
    struct headers h = {.n = 0};
    bool ok = encode(s, t, s->with->key[0] ? "***" : NULL, body, &h, f);
    headers_release(&h);
    return ok;
}

/* ---- one try */

static void on_head(int status, void *ud)
{
    struct probe_sender *s = ud;
    const char *after = upstream_header(s->call, "retry-after");
    s->status = status;
    (void)snprintf(s->retry_after, sizeof s->retry_after, "%s", after ? after : "");
}

static void on_piece(struct slice piece, void *ud)
{
    struct probe_sender *s = ud;
    (void)buf_append(&s->answer, piece.p, piece.len); /* is_failed is asked at the end */
}

static void on_end(const struct failure *f, void *ud)
{
    struct probe_sender *s = ud;
    s->call = NULL;
    if (f) {
        s->failed = *f;
    } else if (s->answer.is_failed) {
        (void)failure_set(&s->failed, 502, "upstream_too_large", NULL,
                          "the answer is larger than %u bytes", BODY_MAX);
    }
    loop_stop(s->loop);
}

/* false: nothing was sent. s->status and s->answer, or s->failed. */
static bool try_once(struct probe_sender *s, struct slice body, const struct headers *h,
                     struct failure *f)
{
    static const struct upstream_events events = {
        .on_head = on_head, .on_piece = on_piece, .on_end = on_end};
    struct upstream_header list[HEADERS_MAX];
    struct upstream_spec spec = gateway_call_spec(s->conf, s->target, h, list);
    spec.body = body;
    spec.bytes_max = BODY_MAX;
    buf_clear(&s->answer);
    s->status = 0;
    s->retry_after[0] = '\0';
    s->failed = (struct failure){.status = 0};
    if (is_stopped) {
        return true;
    }
    if (!upstream_start(s->upstream, &spec, &events, s, &s->call, f)) {
        return false;
    }
    s->count.n_requests++;
    loop_run(s->loop);
    upstream_cancel(s->call); /* where ^C ended the loop */
    s->call = NULL;
    return true;
}

static void on_timer(void *ud)
{
    struct probe_sender *s = ud;
    loop_stop(s->loop);
}

static void wait_for(struct probe_sender *s, int64_t ms)
{
    if (!is_stopped && loop_timer_arm(s->loop, &s->timer, ms, on_timer, s)) {
        loop_run(s->loop);
    }
    loop_timer_cancel(s->loop, &s->timer);
}

/* ---- what an answer tells */

static void read_refusal(struct probe_sender *s, const struct probe_trial *t,
                         struct probe_outcome *o, struct failure *f)
{
    char named[64] = "";
    s->target->backend->refusal(s->status, buf_slice(&s->answer),
                                s->retry_after[0] ? s->retry_after : NULL, named, f);
    o->status = s->status;
    o->named = refusal_param(named, &t->send, t->wire, NULL);
    o->names_param = o->named != PARAM_COUNT;
    o->is_unknown = refusal_is_of_parameter(f->code, f->message);
    (void)snprintf(o->excerpt, sizeof o->excerpt, "%.239s", f->message);
}

static void read_choice(const struct answer *a, struct probe_outcome *o)
{
    const struct answer_choice *c = &a->choice[0];
    size_t n = c->text.len < sizeof o->text - 1 ? c->text.len : sizeof o->text - 1;
    if (n > 0) {
        memcpy(o->text, c->text.p, n);
    }
    o->text[n] = '\0';
    o->has_logprobs = json_array_size(c->logprobs) > 0;
    const json_t *first = json_array_get(c->logprobs, 0);
    o->n_top_logprobs = (unsigned)json_array_size(json_object_get(first, "top_logprobs"));
}

/* false: what came is no answer; *f says what it is. */
static bool read_answer(struct probe_sender *s, struct probe_outcome *o, struct failure *f)
{
    const struct backend *b = s->target->backend;
    struct answer a;
    struct decoder *d = backend_decoder(b, s->target->provider, FORM_WHOLE, true);
    if (!answer_init(&a, ANSWER_CHOICES_MAX, NULL, true, NULL, NULL, f)) {
        b->decoder_free(d);
        return false;
    }
    bool ok = d && b->decode(d, buf_slice(&s->answer), answer_take, &a, f) &&
              b->decode_end(d, answer_take, &a, f);
    if (ok) {
        o->status = s->status;
        o->n_choices = a.n_choices;
        if (a.n_choices > 0) {
            read_choice(&a, o);
        }
        o->n_tokens = a.usage.is_known ? (unsigned)a.usage.completion_tokens : 0;
        s->count.prompt_tokens += a.usage.prompt_tokens;
        s->count.answer_tokens += a.usage.completion_tokens;
    } else if (answer_failure(&a)) {
        *f = *answer_failure(&a);
    }
    answer_release(&a);
    if (d) {
        b->decoder_free(d);
    }
    return ok;
}

/* ---- a request, with its repetitions */

static bool is_busy(int status)
{
    return status == 0 || status == 408 || status == 425 || status == 429 || status >= 500;
}

/* Nothing that another request could mend. */
static bool is_hopeless(int status, const struct probe_outcome *o)
{
    return status == 401 || status == 402 || status == 404 || (status == 403 && !o->names_param);
}

static void read_outcome(struct probe_sender *s, const struct probe_trial *t,
                         struct probe_outcome *o, struct failure *f)
{
    memset(o, 0, sizeof *o);
    if (s->failed.status) {
        *f = s->failed;
        (void)snprintf(o->excerpt, sizeof o->excerpt, "%.239s", f->message);
    } else if (s->status < 200 || s->status >= 300) {
        read_refusal(s, t, o, f);
    } else if (!read_answer(s, o, f)) { /* an error in a 200 has a status of its own */
        o->status = f->status == 400 ? 400 : 502;
        o->named = refusal_param(f->param, &t->send, t->wire, NULL);
        o->names_param = o->named != PARAM_COUNT;
        o->is_unknown = refusal_is_of_parameter(f->code, f->message);
        (void)snprintf(o->excerpt, sizeof o->excerpt, "%.239s", f->message);
    }
}

static bool is_no_network(const struct probe_sender *s)
{
    return s->failed.status && (strcmp(s->failed.code, "upstream_unreachable") == 0 ||
                                strcmp(s->failed.code, "upstream_timeout_connect") == 0);
}

static int64_t pause_ms(const struct failure *f, unsigned n_tries)
{
    int64_t ms = (int64_t)WAIT_MS << n_tries;
    ms = f->retry_after_s > 0 ? (int64_t)f->retry_after_s * 1000 : ms;
    return ms > PROBE_SEND_WAIT_MAX_S * 1000 ? PROBE_SEND_WAIT_MAX_S * 1000 : ms;
}

/* Each try has a signature of its own: they hold for some minutes. */
static enum probe_sent send_encoded(struct probe_sender *s, const struct probe_trial *t,
                                    struct slice body, struct headers *h, struct probe_outcome *out,
                                    struct failure *f)
{
    size_t n_unsigned = h->n;
    for (unsigned n = 0; n < PROBE_SEND_TRIES; n++) {
        *f = (struct failure){.status = 0};
        headers_cut(h, n_unsigned);
        if (!credentials_sign(s->with, s->target, body, (int64_t)time(NULL), h, f) ||
            !try_once(s, body, h, f)) {
            return PROBE_DEAD;
        }
        if (is_stopped) {
            return PROBE_STOPPED;
        }
        read_outcome(s, t, out, f);
        if (is_hopeless(out->status, out) || (is_no_network(s) && s->count.n_answers == 0)) {
            return PROBE_DEAD;
        }
        if (!is_busy(out->status)) {
            s->count.n_answers++;
            s->n_lost = 0;
            return PROBE_SENT;
        }
        if (n + 1 < PROBE_SEND_TRIES) {
            wait_for(s, pause_ms(f, n));
        }
    }
    if (++s->n_lost == PROBE_SEND_LOST_MAX) {
        return PROBE_DEAD;
    }
    return is_stopped ? PROBE_STOPPED : PROBE_SENT;
}

enum probe_sent probe_sender_send(struct probe_sender *s, const struct probe_trial *t,
                                  struct probe_outcome *out, struct failure *f)
{
    struct buf body;
    struct headers h = {.n = 0};
    buf_init(&body, BODY_MAX);
    memset(out, 0, sizeof *out);
    enum probe_sent sent;
    if (!encode(s, t, s->with->key[0] ? s->with->key : NULL, &body, &h, f)) {
        (void)snprintf(out->excerpt, sizeof out->excerpt, "%.239s", f->message);
        sent = PROBE_SENT; /* it cannot be said in this dialect: nothing is told */
    } else {
        sent = send_encoded(s, t, buf_slice(&body), &h, out, f);
    }
    headers_release(&h);
    buf_release(&body);
    return sent;
}
