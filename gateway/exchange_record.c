/* exchange_record.c - see exchange_record.h. The record holds parameters, hashes and sizes, never a
 * prompt, an answer or a key. */
#include "exchange_record.h"

#include "base/log.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void random_hex(char *out, size_t n_bytes)
{
    unsigned char b[16] = {0};
    if (getrandom(b, n_bytes, 0) != (ssize_t)n_bytes) {
        int64_t t = gateway_now_us();
        memcpy(b, &t, sizeof t);
    }
    for (size_t i = 0; i < n_bytes; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", b[i]);
    }
}

void exchange_record_init(struct exchange *x)
{
    memcpy(x->request_id, "req_", 4);
    random_hex(x->request_id + 4, 16);
    fingerprint_init(&x->fp);
    x->started_us = x->fp.started_us = gateway_now_us();
    x->attempts = json_array();
    x->reply.is_chat = x->kind == REQUEST_CHAT;
    (void)snprintf(x->reply.id, sizeof x->reply.id, "%s-%s", x->reply.is_chat ? "chatcmpl" : "cmpl",
                   x->request_id + 4);
    x->reply.created_s = x->started_us / 1000000;
}

/* Of texts and bodies so far. */
static void drop_hashes(struct exchange *x)
{
    char unused[65];
    for (size_t i = 0; i < ANSWER_CHOICES_MAX; i++) {
        if (x->hash[i]) {
            fingerprint_hash_end(x->hash[i], unused);
            x->hash[i] = NULL;
        }
    }
    if (x->sent_before) {
        fingerprint_hash_end(x->sent_before, unused);
        x->sent_before = NULL;
    }
}

void exchange_record_release(struct exchange *x)
{
    drop_hashes(x);
    fingerprint_release(&x->fp);
    json_decref(x->attempts);
}

uint32_t exchange_record_random(void)
{
    uint32_t r = 0;
    if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r) {
        r = (uint32_t)gateway_now_us();
    }
    return r;
}

void exchange_record_begin(struct exchange *x, bool is_call)
{
    int64_t now = gateway_now_us();
    x->attempt_us = is_call || !x->wanted_us ? now : x->wanted_us;
    x->waited_us = is_call && x->wanted_us ? now - x->wanted_us : 0;
    x->wanted_us = 0;
    x->is_attempting = true;
}

const char *exchange_record_word(const struct failure *f)
{
    return f->code[0] ? f->code : "refused";
}

static const char *attempt_model(const struct exchange *x)
{
    return x->prep.target.name[0] ? x->prep.target.name
           : x->targets           ? x->targets[x->at_target]
                                  : x->prep.request.model;
}

void exchange_record_attempt(struct exchange *x, int status, const char *error)
{
    json_t *a = json_pack(
        "{s:s?,s:s,s:o,s:I,s:I,s:I,s:o}", "backend", x->prep.target.provider_name, "model",
        attempt_model(x), "status", status ? json_integer(status) : json_null(), "started_us",
        (json_int_t)x->attempt_us, "ended_us", (json_int_t)gateway_now_us(), "waited_us",
        (json_int_t)x->waited_us, "error", error ? json_string(error) : json_null());
    x->is_attempting = false;
    if (a && !error && x->prep.n_calls > 1 && x->answer.usage.is_known) { /* one of several calls */
        (void)json_object_set_new(
            a, "usage",
            json_pack("{s:I,s:I}", "prompt_tokens", (json_int_t)x->answer.usage.prompt_tokens,
                      "completion_tokens", (json_int_t)x->answer.usage.completion_tokens));
    }
    if (a) {
        (void)json_array_append_new(x->attempts, a);
    }
}

void exchange_record_forget(struct exchange *x)
{
    drop_hashes(x);
    x->n_deltas = x->n_deltas_before = 0;
    x->saw_logprobs = false;
    x->fp.provider_request_id[0] = '\0';
}

/* As the client is shown it: without times. */
static json_t *shown_attempt(const json_t *a)
{
    static const char *const keys[] = {"backend", "model", "status", "error", "usage"};
    json_t *o = json_object();
    for (size_t i = 0; o && i < sizeof keys / sizeof *keys; i++) {
        (void)json_object_set(o, keys[i], json_object_get(a, keys[i])); /* or it has none */
    }
    return o;
}

/* The failed ones and those that answered, with the one in flight. NULL: none has
 * failed, or memory. */
static json_t *shown_attempts(const struct exchange *x)
{
    json_t *list = json_array();
    bool has_failed = false;
    size_t i;
    const json_t *a;
    json_array_foreach (x->attempts, i, a) {
        has_failed = has_failed || json_is_string(json_object_get(a, "error"));
        (void)json_array_append_new(list, shown_attempt(a));
    }
    if (x->is_attempting) {
        (void)json_array_append_new(
            list, json_pack("{s:s,s:s,s:o,s:n}", "backend", x->prep.target.provider_name, "model",
                            attempt_model(x), "status",
                            x->upstream_status ? json_integer(x->upstream_status) : json_null(),
                            "error"));
    }
    if (!has_failed) {
        json_decref(list);
        return NULL;
    }
    return list;
}

json_t *exchange_record_isotherm(const struct exchange *x)
{
    json_t *o = reply_isotherm(&x->prep, x->request_id, snapshot_version(x->snap));
    json_t *attempts = o ? shown_attempts(x) : NULL;
    if (attempts) {
        (void)json_object_set_new(o, "attempts", attempts); /* no memory: the record has them */
    }
    return o;
}

json_t *exchange_record_tried(const struct exchange *x)
{
    json_t *attempts = shown_attempts(x);
    return attempts ? json_pack("{s:s,s:o}", "request_id", x->request_id, "attempts", attempts)
                    : NULL;
}

void exchange_record_upstream_id(struct exchange *x)
{
    const char *header = x->prep.target.provider->request_id_header;
    const char *id = upstream_header(x->up, header ? header : "x-request-id");
    if (id) {
        (void)snprintf(x->fp.provider_request_id, sizeof x->fp.provider_request_id, "%s", id);
        exchange_hide_key(x, x->fp.provider_request_id);
    }
}

void exchange_record_body(struct exchange *x)
{
    x->sent_before = x->sent_before ? x->sent_before : fingerprint_hash_new();
    if (x->sent_before) {
        fingerprint_hash_add(x->sent_before, x->body.p, x->body.len);
    }
}

/* All bytes that were sent, in order. */
static void hash_bodies(struct exchange *x)
{
    if (x->sent_before) {
        exchange_record_body(x);
        fingerprint_hash_end(x->sent_before, x->fp.body_sha256);
        x->sent_before = NULL;
    } else if (x->body.len) {
        fingerprint_sha256(x->body.p, x->body.len, x->fp.body_sha256);
    }
}

void exchange_record_delta(struct exchange *x, const struct delta *d)
{
    x->n_deltas++;
    if (d->kind != DELTA_TEXT || d->choice >= ANSWER_CHOICES_MAX) {
        return;
    }
    x->saw_logprobs = x->saw_logprobs || d->json;
    if (!x->hash[d->choice]) {
        x->hash[d->choice] = fingerprint_hash_new();
    }
    if (x->hash[d->choice]) {
        fingerprint_hash_add(x->hash[d->choice], d->text.p, d->text.len);
    }
}

/* One choice: the hash of its text. Several: the hash of their hashes, in order. */
static void hash_answer(struct exchange *x)
{
    char all[ANSWER_CHOICES_MAX * 64 + 1];
    size_t n = 0;
    for (size_t i = 0; i < ANSWER_CHOICES_MAX; i++) {
        if (x->hash[i]) {
            char hex[65];
            fingerprint_hash_end(x->hash[i], hex);
            x->hash[i] = NULL;
            memcpy(all + n, hex, 64);
            n += 64;
        }
    }
    if (n == 64) {
        memcpy(x->fp.answer_sha256, all, 64);
        x->fp.answer_sha256[64] = '\0';
    } else {
        fingerprint_sha256(all, n, x->fp.answer_sha256);
    }
}

static const struct answer *served_answer(const struct exchange *x)
{
    return x->all.n_choices ? &x->all : &x->answer;
}

void exchange_record_seal(struct exchange *x)
{
    struct fingerprint *fp = &x->fp;
    if (x->is_sealed) {
        return;
    }
    const struct answer *a = served_answer(x);
    const struct target *t = &x->prep.target;
    (void)snprintf(fp->backend, sizeof fp->backend, "%s", t->provider_name ? t->provider_name : "");
    (void)snprintf(fp->model, sizeof fp->model, "%s", t->name);
    (void)snprintf(fp->served_model, sizeof fp->served_model, "%s",
                   a->provider_model[0] ? a->provider_model : t->model);
    (void)snprintf(fp->provider_fingerprint, sizeof fp->provider_fingerprint, "%s",
                   a->provider_fingerprint);
    exchange_hide_key(x, fp->served_model);
    exchange_hide_key(x, fp->provider_fingerprint);
    (void)snprintf(fp->build, sizeof fp->build, "%s", x->gw->build);
    fp->catalog_version = snapshot_version(x->snap);
    json_decref(fp->sent);
    fp->sent = prepare_sampling_json(&x->prep.plan.send);
    x->is_sealed = fingerprint_seal(fp);
    memcpy(x->served_model, fp->served_model, sizeof x->served_model);
    memcpy(x->system_fingerprint, fp->system_fingerprint, sizeof x->system_fingerprint);
    x->reply.model = x->served_model;
    x->reply.system_fingerprint = x->system_fingerprint;
    x->reply.include_usage = x->prep.request.include_usage;
    const struct sampling *asked = &x->prep.request.asked;
    x->reply.echo = sampling_has(asked, PARAM_ECHO) && asked->v[PARAM_ECHO].b;
    x->reply.hides_logprobs = !sampling_has(asked, PARAM_LOGPROBS) || !asked->v[PARAM_LOGPROBS].b;
}

static enum outcome outcome_of(const struct exchange *x)
{
    if (x->client_gone) {
        return OUTCOME_CANCELLED;
    }
    if (x->fail.status) {
        return x->has_opened ? OUTCOME_TRUNCATED : OUTCOME_FAILED;
    }
    return OUTCOME_OK;
}

#define WORD "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."

/* "stop,length/MAX_TOKENS": behind the slash the provider's own word, where it is another one. */
static void list_finishes(const struct answer *a, char *out, size_t cap)
{
    size_t len = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < a->n_choices && len + 20 + sizeof a->choice->native_finish < cap;
         i++) {
        const char *name = finish_name(a->choice[i].finish), *native = a->choice[i].native_finish;
        name = name ? name : "none";
        bool is_news =
            strcmp(native, name) != 0 && native[0] && strspn(native, WORD) == strlen(native);
        len += (size_t)snprintf(out + len, cap - len, "%s%s%s%s", i ? "," : "", name,
                                is_news ? "/" : "", is_news ? native : "");
    }
}

bool exchange_record_fill(struct exchange *x)
{
    struct fingerprint *fp = &x->fp;
    const struct answer *a = served_answer(x);
    if (x->n_deltas > 0) { /* also of an answer that was broken off: it is billed as well */
        exchange_estimate_usage(x);
    }
    memcpy(fp->request_id, x->request_id, sizeof fp->request_id);
    fp->ended_us = gateway_now_us();
    (void)snprintf(fp->endpoint, sizeof fp->endpoint, "%s",
                   x->kind == REQUEST_CHAT ? "/v1/chat/completions" : "/v1/completions");
    (void)snprintf(fp->requested_model, sizeof fp->requested_model, "%s", x->prep.request.model);
    fp->asked = prepare_sampling_json(&x->prep.request.asked);
    fp->adjustments = prepare_adjustments_json(&x->prep.plan);
    fp->fallback = prepare_fallback_json(&x->prep);
    fp->attempts = json_incref(x->attempts);
    fp->has_seed = x->prep.has_seed;
    fp->seed = x->prep.seed;
    hash_bodies(x);
    hash_answer(x);
    fp->outcome = outcome_of(x);
    fp->status = x->fail.status && !x->has_begun ? x->fail.status : x->client_gone ? 499 : 200;
    (void)snprintf(fp->error_code, sizeof fp->error_code, "%s", x->fail.code);
    fp->prompt_tokens = a->usage.prompt_tokens;
    fp->completion_tokens = a->usage.completion_tokens;
    fp->usage_estimated = a->usage.is_estimated;
    fp->n_deltas = x->n_deltas;
    list_finishes(a, fp->finish, sizeof fp->finish);
    prepare_adjusted_header(&x->prep.plan, x->adjusted, sizeof x->adjusted);
    return fp->asked && fp->sent && fp->adjustments && fp->fallback && fp->attempts;
}

static void add_not_served(struct exchange *x, enum param p)
{
    const struct plan *plan = &x->prep.plan;
    const struct claim *c = x->prep.rules.param[p];
    (void)plan_adjust(&x->prep.plan, (struct adjustment){.param = p,
                                                         .name = sampling_table[p].name,
                                                         .action = ACTION_NOT_SERVED,
                                                         .asked = x->prep.request.asked.v[p],
                                                         .sent = plan->send.v[p],
                                                         .reason = REASON_NOT_SERVED,
                                                         .claim = c ? c->id : 0});
}

void exchange_check_served(struct exchange *x)
{
    const struct sampling *send = &x->prep.plan.send;
    if (x->prep.target.provider->is_local) {
        return; /* our own engine serves what it takes */
    }
    const struct plan *plan = &x->prep.plan;
    int64_t n = plan->n_calls > 1             ? x->prep.request.asked.v[PARAM_N].i
                : sampling_has(send, PARAM_N) ? send->v[PARAM_N].i
                                              : 0;
    if ((int64_t)x->all.n_choices < n) {
        add_not_served(x, PARAM_N);
    }
    if (sampling_has(send, PARAM_LOGPROBS) && send->v[PARAM_LOGPROBS].b && !x->saw_logprobs) {
        add_not_served(x, PARAM_LOGPROBS);
    }
}

/* A token is about four bytes of English; a streamed delta is about one token. Good enough to be
 * marked as an estimate. */
void exchange_estimate_usage(struct exchange *x)
{
    struct answer *a = x->all.n_choices ? &x->all : &x->answer;
    struct usage *u = &a->usage;
    if (u->is_known) {
        return;
    }
    uint64_t bytes = 0;
    for (unsigned i = 0; i < a->n_choices; i++) {
        bytes += a->choice[i].text.len;
    }
    *u = (struct usage){.is_known = true,
                        .is_estimated = true,
                        .prompt_tokens = (int64_t)(x->body.len / 4 * x->prep.n_calls),
                        .completion_tokens =
                            (int64_t)(x->prep.request.stream ? x->n_deltas : (bytes + 3) / 4)};
}

#define KEY_PART_MIN 4 /* what may be seen of a key */

/* The text was cut to its size after it was read: a key may also stand at its end in part. */
static void hide(char *text, const char *key, size_t key_len)
{
    for (char *at = strstr(text, key); at; at = strstr(at + key_len, key)) {
        memset(at, '*', key_len);
    }
    size_t len = strlen(text);
    for (size_t n = len < key_len ? len : key_len; n > KEY_PART_MIN; n--) {
        if (memcmp(text + len - n, key, n) == 0) {
            memset(text + len - n, '*', n);
            return;
        }
    }
}

void exchange_hide_key(const struct exchange *x, char *text)
{
    for (size_t i = 0; i < x->headers.n; i++) {
        const char *key = x->headers.h[i].value;
        if (!x->headers.h[i].is_secret) {
            continue;
        }
        key += strncmp(key, "Bearer ", 7) == 0 ? 7 : 0;
        if (strlen(key) >= KEY_PART_MIN) {
            hide(text, key, strlen(key));
        }
    }
}

size_t exchange_headers(struct exchange *x, struct conn_header h[EXCHANGE_HEADERS_MAX])
{
    size_t n = 0;
    (void)snprintf(x->catalog_version, sizeof x->catalog_version, "%" PRId64,
                   snapshot_version(x->snap));
    h[n++] = (struct conn_header){"x-request-id", x->request_id};
    h[n++] = (struct conn_header){"x-isotherm-backend",
                                  x->fp.backend[0] ? x->fp.backend : x->prep.target.provider_name};
    h[n++] = (struct conn_header){"x-isotherm-catalog", x->catalog_version};
    prepare_adjusted_header(&x->prep.plan, x->adjusted, sizeof x->adjusted);
    if (x->adjusted[0]) {
        h[n++] = (struct conn_header){"x-isotherm-adjusted", x->adjusted};
    }
    return n;
}

void exchange_log(const struct exchange *x)
{
    char ms[24], n_adj[24], status[12];
    (void)snprintf(ms, sizeof ms, "%" PRId64, (gateway_now_us() - x->started_us) / 1000);
    (void)snprintf(n_adj, sizeof n_adj, "%zu", x->prep.plan.n_adj);
    (void)snprintf(status, sizeof status, "%d",
                   x->client_gone   ? 499
                   : x->fail.status ? x->fail.status
                                    : 200);
    const struct target *t = &x->prep.target;
    log_write(LOG_INFO, "request", "id", x->request_id, "model",
              x->is_parsed ? x->prep.request.model : "-", "backend",
              t->provider_name ? t->provider_name : "-", "status", status, "ms", ms, "adjustments",
              n_adj, "fallback", x->prep.is_fallback ? "yes" : "no", "error",
              x->fail.code[0] ? x->fail.code : "-", NULL);
}

void exchange_reply_failure(struct conn *c, const struct failure *f, const char *request_id,
                            json_t *isotherm)
{
    struct conn_header h[2];
    size_t n = 0;
    char seconds[12];
    struct buf out;
    buf_init(&out, LIMIT_ANSWER_BYTES);
    if (request_id) {
        h[n++] = (struct conn_header){"x-request-id", request_id};
    }
    if (f->retry_after_s > 0) {
        (void)snprintf(seconds, sizeof seconds, "%d", f->retry_after_s);
        h[n++] = (struct conn_header){"retry-after", seconds};
    }
    (void)reply_failure(f, isotherm, false, &out);
    conn_reply(c, f->status, "application/json", h, n, buf_slice(&out));
    buf_release(&out);
}
