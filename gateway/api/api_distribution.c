/* api_distribution.c - POST /v1/distribution: steps 3 to 6 of a request to a local model, as for
 * any other; then its frame is sent as a distribution frame, and what the engine says of it is the
 * answer. Nothing is generated, so nothing is recorded.
 */
#include "gateway/base/jsonio.h"
#include "gateway/reply.h"
#include "routes.h"

#include <stdlib.h>
#include <string.h>

struct look {
    struct gateway *gateway;
    struct conn *conn;
    struct engine_call *call; /* NULL: it has ended */
    json_t *isotherm;         /* for the answer: {backend, model, adjustments ...} */
    json_t *distribution;     /* the engine's frame, a copy */
    json_t *done;
};

static void look_free(struct look *k)
{
    if (k) {
        engine_call_cancel(k->call);
        json_decref(k->isotherm);
        json_decref(k->distribution);
        json_decref(k->done);
        free(k);
    }
}

/* ---- the frame */

static bool no_memory(struct failure *f)
{
    return failure_set(f, 503, "out_of_memory", NULL, "out of memory");
}

/* What /v1/distribution has beside the fields of a completion is taken out, so that it is no
 * unknown parameter. */
static json_t *take(json_t *body, const char *name)
{
    json_t *v = json_incref(json_object_get(body, name));
    (void)json_object_del(body, name);
    return v;
}

static bool check(const struct prepared *p, const struct prepare_env *env, struct failure *f)
{
    if (!p->asked.provider->is_local) {
        return failure_set(f, 400, "not_local", "model",
                           "'%s' is no local model: only the built-in engine shows its "
                           "distributions; see local/... in GET /v1/models",
                           p->asked.name);
    }
    if (p->request.stream) {
        return failure_set(f, 400, "invalid_value", "stream",
                           "a distribution is one answer: leave out 'stream'");
    }
    int64_t version = p->request.catalog_version;
    return !version || version == snapshot_version(env->snap) ||
           failure_set(f, 400, "invalid_value", "isotherm.catalog_version",
                       "a distribution is asked of the current catalog, version %lld",
                       (long long)snapshot_version(env->snap));
}

static bool parse(struct prepared *p, const struct prepare_env *env, json_t *body,
                  struct failure *f)
{
    bool is_text = json_object_get(body, "prompt") && !json_object_get(body, "messages");
    struct buf b;
    buf_init(&b, LIMIT_BODY_BYTES * 2);
    bool ok = jsonio_write(&b, body)
                  ? prepare_parse(p, env, is_text ? REQUEST_TEXT : REQUEST_CHAT, buf_slice(&b), f)
                  : failure_set(f, 413, "too_large", NULL, "the body is too large");
    buf_release(&b);
    return ok;
}

/* A prepared request -> its frame; yours. */
static json_t *encode(struct prepared *p, struct failure *f)
{
    struct headers h = {.n = 0};
    struct buf b;
    if (p->n_calls != 1) {
        (void)failure_set(f, 400, "invalid_value", "prompt",
                          "a distribution is that of one prompt: give a string or a list of ids");
        return NULL;
    }
    buf_init(&b, LIMIT_BODY_BYTES * 2);
    json_t *frame = prepare_encode(p, 0, NULL, &b, &h, f) ? jsonio_parse(b.p, b.len, f) : NULL;
    buf_release(&b);
    headers_release(&h);
    return frame;
}

/* *isotherm and the frame are yours. NULL: a failure. */
static json_t *make_frame(const struct prepare_env *env, struct slice bytes, json_t **isotherm,
                          struct failure *f)
{
    json_t *body = jsonio_parse(bytes.p, bytes.len, f), *frame = NULL;
    json_t *top = take(body, "top"), *generated = take(body, "generated");
    struct prepared p;
    if (body && parse(&p, env, body, f)) {
        if (prepare_resolve(&p, env, NULL, f) && check(&p, env, f) && prepare_plan(&p, env, f)) {
            frame = encode(&p, f);
        }
        bool ok = frame && json_object_set_new(frame, "op", json_string("distribution")) == 0 &&
                  (!top || json_object_set(frame, "top", top) == 0) &&
                  (!generated || json_object_set(frame, "generated", generated) == 0);
        *isotherm = ok ? reply_isotherm(&p, "", snapshot_version(env->snap)) : NULL;
        (void)json_object_del(*isotherm, "request_id"); /* of records, and there is none */
        if (frame && !*isotherm) {
            (void)no_memory(f);
            json_decref(frame);
            frame = NULL;
        }
        prepare_release(&p);
    }
    json_decref(top);
    json_decref(generated);
    json_decref(body);
    return frame;
}

/* ---- the answer */

static void on_frame(const json_t *frame, void *ud)
{
    struct look *k = ud;
    const char *op = json_string_value(json_object_get(frame, "op"));
    json_t **kept = !op                               ? NULL
                    : strcmp(op, "distribution") == 0 ? &k->distribution
                    : strcmp(op, "done") == 0         ? &k->done
                                                      : NULL;
    if (kept && !*kept) {
        *kept = json_deep_copy(frame);
    }
}

static json_t *answer(const struct look *k)
{
    json_t *o = json_object();
    static const char *const copied[] = {"stages", "tokens", "entropy", "effective"};
    bool ok = o && json_object_set_new(o, "object", json_string("distribution")) == 0 &&
              json_object_set(o, "model", json_object_get(k->isotherm, "model")) == 0;
    for (size_t i = 0; ok && i < sizeof copied / sizeof *copied; i++) {
        ok = json_object_set(o, copied[i], json_object_get(k->distribution, copied[i])) == 0;
    }
    ok = ok &&
         json_object_set_new(
             o, "usage",
             json_pack("{s:O}", "prompt_tokens", json_object_get(k->done, "prompt_tokens"))) == 0 &&
         json_object_set(o, "system_fingerprint", json_object_get(k->done, "fingerprint")) == 0 &&
         json_object_set(o, "isotherm", k->isotherm) == 0;
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static void on_end(const struct failure *f, void *ud)
{
    struct look *k = ud;
    struct failure own = {.status = 0};
    k->call = NULL;
    if (!f && (!k->distribution || !k->done)) {
        (void)failure_set(&own, 502, "engine_malformed", NULL,
                          "the local engine ended without a distribution");
        f = &own;
    }
    if (f) {
        routes_reply_failure(k->conn, f);
    } else {
        routes_reply_json(k->conn, 200, answer(k));
    }
    look_free(k);
}

static void on_close(void *ud)
{
    struct look *k = ud;
    struct failure f = {.status = 0};
    (void)failure_set(&f, 499, "client_gone", NULL, "the client has left");
    routes_reply_failure(k->conn, &f); /* says nothing, but ends the request */
    look_free(k);
}

static bool start(struct look *k, json_t *frame, struct failure *f)
{
    static const struct engine_events events = {.on_frame = on_frame, .on_end = on_end};
    struct engine_child *engine = k->gateway->engine;
    if (!engine) { /* loop 0 is still starting it */
        f->retry_after_s = 1;
        return failure_set(f, 503, "engine_restarting", NULL,
                           "the local engine is starting: try again in a second");
    }
    if (!engine_call_start(engine, conn_loop(k->conn), frame, &events, k, &k->call, f)) {
        return false;
    }
    conn_on_close(k->conn, on_close, k);
    return true;
}

void api_distribution(struct gateway *g, struct conn *c)
{
    struct failure f = {.status = 0};
    struct prepare_env env;
    char day[11];
    struct snapshot *s = gateway_snapshot(g, 0, &f);
    struct look *k = calloc(1, sizeof *k);
    json_t *frame = NULL;
    if (k && s) {
        *k = (struct look){.gateway = g, .conn = c};
        gateway_env(g, s, day, &env);
        frame = make_frame(&env, conn_body(c), &k->isotherm, &f);
        gateway_env_release(&env);
    }
    snapshot_release(s);
    if (!frame || !start(k, frame, &f)) {
        (void)no_memory(&f); /* the first failure stays */
        routes_reply_failure(c, &f);
        look_free(k);
    }
    json_decref(frame);
}
