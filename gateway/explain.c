/* explain.c - see explain.h. The same prepare_* steps as a real call, with *** in place of the key.
 */
#include "explain.h"

#include "base/jsonio.h"
#include "credentials.h"
#include <string.h>

#define EXPLAIN_TARGETS_MAX 64
#define EXPLAIN_BYTES_MAX                                                                          \
    (LIMIT_BODY_BYTES * 2) /* of all requests of one target; one call fits                         \
                            */

/* Whether a request will be signed or carry a key is known when it is sent: nothing is looked up
 * here. */
static json_t *headers_json(const struct headers *h, bool is_signed)
{
    json_t *o = json_object();
    for (size_t i = 0; o && i < h->n; i++) {
        const char *value = is_signed && h->h[i].is_secret ? "***" : h->h[i].value;
        (void)json_object_set_new(o, h->h[i].name, json_string(value));
    }
    return o;
}

static json_t *request_json(const struct prepared *p, const struct buf *body,
                            const struct headers *h)
{
    json_t *parsed = json_loadb(body->p ? body->p : "", body->len, JSON_DECODE_ANY, NULL);
    bool is_local = p->target.provider->is_local;
    bool is_signed = p->target.provider->auth == CATALOG_AUTH_SIGV4;
    return json_pack("{s:s,s:s,s:o,s:o}", "method", is_local ? "FRAME" : "POST", "url",
                     is_local ? "isotherm-engine" : p->target.url, "headers",
                     headers_json(h, is_signed), "body", parsed ? parsed : json_null());
}

static json_t *error_json(const char *target, const struct failure *f)
{
    return json_pack("{s:s,s:{s:s,s:s,s:o,s:o}}", "target", target, "error", "message", f->message,
                     "type", f->type, "param", f->param[0] ? json_string(f->param) : json_null(),
                     "code", f->code[0] ? json_string(f->code) : json_null());
}

/* All requests, in order; NULL and a failure when one cannot be made. Yours. */
static json_t *requests_json(struct prepared *p, const struct prepare_env *env, struct failure *f)
{
    const char *key = credentials_are_sent(env->conf, &p->target) ? "***" : NULL;
    json_t *list = json_array();
    struct headers h = {.n = 0};
    struct buf body;
    size_t n_bytes = 0;
    bool ok = list != NULL;
    buf_init(&body, EXPLAIN_BYTES_MAX);
    for (size_t i = 0; ok && i < p->n_calls; i++) {
        buf_clear(&body);
        headers_release(&h);
        ok = prepare_encode(p, i, key, &body, &h, f) &&
             json_array_append_new(list, request_json(p, &body, &h)) == 0;
        n_bytes += body.len;
        if (ok && n_bytes > EXPLAIN_BYTES_MAX) {
            ok = failure_set(f, 413, "too_large", NULL,
                             "the %zu requests are more than %u bytes together: explain one choice",
                             p->n_calls, EXPLAIN_BYTES_MAX);
        }
    }
    buf_release(&body);
    headers_release(&h);
    if (!ok) {
        json_decref(list);
        (void)failure_set(f, 503, "out_of_memory", NULL, "out of memory");
        return NULL;
    }
    return list;
}

static json_t *explain_one(struct prepared *p, const struct prepare_env *env, const char *target)
{
    struct failure f = {.status = 0};
    json_t *requests = NULL;
    if (!prepare_resolve(p, env, target, &f) || !prepare_plan(p, env, &f) ||
        !(requests = requests_json(p, env, &f))) {
        return error_json(target, &f);
    }
    json_t *out = json_pack(
        "{s:s,s:s,s:s,s:I,s:o,s:o,s:O}", "target", target, "backend", p->target.provider_name,
        "model", p->target.name, "catalog_version", (json_int_t)snapshot_version(env->snap),
        "fallback", prepare_fallback_json(p), "adjustments", prepare_adjustments_json(&p->plan),
        "request", json_array_get(requests, 0));
    if (out && p->n_calls > 1) {
        (void)json_object_set(out, "requests", requests);
    }
    json_decref(requests);
    return out;
}

/* Of an alias with several targets a plan for each, in the order in which they are asked. */
static void explain_name(struct prepared *p, const struct prepare_env *env, const char *name,
                         json_t *plans)
{
    char *const *targets;
    size_t n = resolve_targets(env->conf, name, &targets);
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(plans, explain_one(p, env, n > 1 ? targets[i] : name));
    }
}

/* Takes `targets` out of the body, so that it is no unknown parameter. */
static bool take_targets(json_t *body, json_t **targets, struct failure *f)
{
    *targets = json_incref(json_object_get(body, "targets"));
    if (!*targets) {
        return true;
    }
    size_t i;
    const json_t *t;
    bool ok = json_is_array(*targets) && json_array_size(*targets) > 0 &&
              json_array_size(*targets) <= EXPLAIN_TARGETS_MAX;
    json_array_foreach (*targets, i, t) {
        ok = ok && json_is_string(t);
    }
    if (!ok) {
        return failure_set(f, 400, "invalid_value", "targets",
                           "'targets' must be a list of 1 to %d model names", EXPLAIN_TARGETS_MAX);
    }
    if (!json_is_string(json_object_get(body, "model"))) {
        (void)json_object_set(body, "model", json_array_get(*targets, 0));
    }
    (void)json_object_del(body, "targets");
    return true;
}

/* The request as bytes again, without `targets`. */
static bool parse_without_targets(struct prepared *p, const struct prepare_env *env,
                                  struct slice bytes, json_t **targets, struct failure *f)
{
    json_t *body = jsonio_parse(bytes.p, bytes.len, f);
    struct buf b;
    buf_init(&b, LIMIT_BODY_BYTES * 2);
    enum request_kind kind = json_object_get(body, "prompt") && !json_object_get(body, "messages")
                                 ? REQUEST_TEXT
                                 : REQUEST_CHAT;
    bool ok = body && take_targets(body, targets, f) &&
              (jsonio_write(&b, body) ||
               failure_set(f, 413, "too_large", NULL, "the body is too large")) &&
              prepare_parse(p, env, kind, buf_slice(&b), f);
    buf_release(&b);
    json_decref(body);
    return ok;
}

json_t *explain_body(const struct prepare_env *env, struct slice bytes, struct failure *f)
{
    struct prepared p;
    json_t *targets = NULL, *plans = json_array();
    if (!parse_without_targets(&p, env, bytes, &targets, f)) {
        json_decref(targets);
        json_decref(plans);
        return NULL;
    }
    if (!targets) {
        explain_name(&p, env, p.request.model, plans);
    }
    for (size_t i = 0; i < json_array_size(targets); i++) {
        explain_name(&p, env, json_string_value(json_array_get(targets, i)), plans);
    }
    prepare_release(&p);
    json_decref(targets);
    return json_pack("{s:o}", "plans", plans);
}
