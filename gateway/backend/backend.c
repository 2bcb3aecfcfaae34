/* backend.c - what every dialect does the same way. wire_form() is the one place that knows what a
 * parameter looks like on the wire: encoding writes it and backend_check_sent() looks for it, so
 * the two cannot drift apart; the golden files say whether it is right.
 */
#include "backend.h"

#include "gateway/base/jsonio.h"
#include "gateway/base/retry_after.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct backend *backend_find(const char *dialect)
{
    static const struct backend *const all[] = {
        &backend_openai,       &backend_responses, &backend_anthropic, &backend_engine,
        &backend_converse,     &backend_tgi,       &backend_google,    &backend_palm,
        &backend_palm_predict, &backend_cohere,    &backend_ollama,    &backend_dashscope};
    for (size_t i = 0; dialect && i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i]->name, dialect) == 0) {
            return all[i];
        }
    }
    return NULL;
}

struct decoder *backend_decoder(const struct backend *b, const struct provider *p,
                                enum wire_form form, bool is_chat)
{
    struct decoder *d = b->decoder_new(form, is_chat);
    if (d && b->decoder_set) {
        b->decoder_set(d, &p->quirks);
    }
    return d;
}

/* ---- headers */

static const struct backend *dialect_of(const struct call *c)
{
    return c->backend ? c->backend : backend_find(c->provider->dialect);
}

static bool add_key(const struct call *c, struct headers *h)
{
    const struct provider *p = c->provider;
    if (!c->key || p->auth == CATALOG_AUTH_NONE) {
        return true;
    }
    if (p->auth == CATALOG_AUTH_HEADER) {
        return p->auth_header && headers_add_secret(h, p->auth_header, "", c->key);
    }
    return headers_add_secret(h, "authorization", "Bearer ", c->key);
}

static bool add_headers(const struct call *c, struct headers *h, struct failure *f)
{
    const char *stream = dialect_of(c)->stream_type;
    const char *accept = !c->stream ? "application/json" : stream ? stream : "text/event-stream";
    bool ok =
        headers_add(h, "content-type", "application/json") && headers_add(h, "accept", accept);
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)c->provider->headers, name,
                         value) { /* the macro wants no const */
        ok = ok && json_is_string(value) && headers_add(h, name, json_string_value(value));
    }
    bool has_key = ok && add_key(c, h);
    if (h->is_failed) {
        return backend_no_memory(f);
    }
    if (!ok) {
        return failure_set(
            f, 500, "bad_header", NULL,
            "a fixed header of provider '%.64s' cannot be sent: look at its catalog source",
            c->provider->id);
    }
    if (!has_key) {
        return failure_set(
            f, 500, "bad_api_key", NULL,
            "the api key of provider '%.64s' is too long or holds control characters: set it again",
            c->provider->id);
    }
    return true;
}

/* ---- what dialects share */

json_t *backend_object(const char *key, json_t *value, ...)
{
    json_t *o = json_object();
    bool ok = true;
    va_list ap;
    va_start(ap, value);
    while (key) {
        ok = json_object_set_new_nocheck(o, key, value) == 0 && ok; /* takes the value either way */
        key = va_arg(ap, const char *);
        value = key ? va_arg(ap, json_t *) : NULL;
    }
    va_end(ap);
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *backend_list(json_t *only)
{
    json_t *list = json_array();
    if (json_array_append_new(list, only) != 0) { /* takes it either way */
        json_decref(list);
        return NULL;
    }
    return list;
}

bool backend_no_memory(struct failure *f)
{
    return failure_set(f, 500, "out_of_memory", NULL, "out of memory while writing the request");
}

bool backend_is_word(const json_t *v, const char *word)
{
    const char *s = json_string_value(v);
    return s && strcmp(s, word) == 0;
}

bool backend_swap(json_t **value, json_t *by, struct failure *f)
{
    json_decref(*value);
    *value = by;
    return by || backend_no_memory(f);
}

bool backend_encode_with(const struct call *c, backend_build_fn *build, struct buf *body,
                         struct headers *h, struct failure *f)
{
    json_t *o = json_object();
    bool ok = o && build(c, o, f) && (!h || add_headers(c, h, f));
    if (ok && !jsonio_write(body, o)) {
        ok = failure_set(f, 413, "body_too_large", NULL,
                         "the request for the %s is longer than %zu bytes",
                         h ? "backend" : "local engine", body->limit);
    }
    json_decref(o);
    return ok || backend_no_memory(f); /* where nothing else was said */
}

bool backend_encode_chat(const struct call *c, backend_build_fn *build, struct buf *body,
                         struct headers *h, struct failure *f)
{
    return c->messages ? backend_encode_with(c, build, body, h, f)
                       : failure_set(f, 400, "unsupported_content", "prompt",
                                     "this backend has no raw completions: use "
                                     "/v1/chat/completions");
}

/* ---- content */

static const struct claim *claim_of(const struct call *c, enum behaviour b)
{
    return c->rules && b < BEHAVIOUR_COUNT ? c->rules->behaviour[b] : NULL;
}

bool backend_refuses(const struct call *c, enum behaviour b)
{
    const struct claim *claim = claim_of(c, b);
    return claim && (claim->support == CLAIM_REJECTED || claim->support == CLAIM_ABSENT);
}

bool backend_accepts(const struct call *c, enum behaviour b)
{
    const struct claim *claim = claim_of(c, b);
    return claim && (claim->support == CLAIM_YES || claim->support == CLAIM_IGNORED);
}

bool backend_note(const struct call *c, enum behaviour b, const struct adjustment *a,
                  struct failure *f)
{
    struct adjustment note = *a;
    const struct claim *claim = claim_of(c, b);
    note.param = PARAM_COUNT;
    note.claim = claim ? claim->id : 0;
    return plan_adjust(c->plan, note) ||
           failure_set(f, 400, "too_many_adjustments", NULL,
                       "the request would need more than %d adjustments", PLAN_ADJ_MAX);
}

/* ---- parameters */

/* The strings that leave, in order. *out NULL: none of them does. */
static bool stop_list(const struct call *c, const json_t *all, json_t **out)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < json_array_size(all); i++) {
        if (plan_stop_is_sent(c->plan, all, i) &&
            json_array_append(list, json_array_get(all, i)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    if (!list) {
        return false;
    }
    if (json_array_size(list) == 0) {
        json_decref(list);
        list = NULL;
    }
    *out = list;
    return true;
}

/* What `p` looks like on the wire. *value is yours; NULL: nothing of its own is written. */
static bool wire_form(const struct call *c, enum param p, json_t **value, const char **path,
                      struct failure *f)
{
    const struct backend *b = dialect_of(c);
    *path = c->plan->wire[p];
    *value = NULL;
    bool ok = true;
    if (p == PARAM_STOP && c->send->v[p].type == VALUE_JSON) {
        ok = stop_list(c, c->send->v[p].j, value);
    } else {
        *value = value_json(c->send->v[p]);
        ok = *value != NULL;
    }
    if (!ok) {
        return failure_set(f, 500, "out_of_memory", NULL, "out of memory while writing '%s'",
                           sampling_table[p].name);
    }
    if (*value && b && b->shape && !b->shape(c, p, value, path, f)) {
        json_decref(*value);
        *value = NULL;
        return false;
    }
    if (*value && !*path) {
        json_decref(*value);
        *value = NULL;
        return failure_set(f, 500, "encode_failed", sampling_table[p].name, "'%s' has no wire path",
                           sampling_table[p].name);
    }
    return true;
}

/* What travels along with parameters; before them, so that a value of theirs inside of an added
 * object stays. */
static bool encode_extras(const struct call *c, json_t *body, struct failure *f)
{
    for (size_t i = 0; i < c->plan->n_extra; i++) {
        const struct plan_extra *x = &c->plan->extra[i];
        json_t *value = json_deep_copy(x->value);
        if (!value) {
            return failure_set(f, 500, "out_of_memory", NULL,
                               "out of memory while writing '%.128s'", x->wire);
        }
        if (!jsonio_set_path(body, x->wire, value)) {
            return failure_set(f, 500, "encode_failed", NULL, "'%.128s' cannot be written",
                               x->wire);
        }
    }
    return true;
}

bool backend_encode_params(const struct call *c, json_t *body, struct failure *f)
{
    if (!encode_extras(c, body, f)) {
        return false;
    }
    for (unsigned p = 0; p < PARAM_COUNT; p++) {
        json_t *value;
        const char *path;
        if (!sampling_has(c->send, (enum param)p)) {
            continue;
        }
        if (!wire_form(c, (enum param)p, &value, &path, f)) {
            return false;
        }
        if (value && !jsonio_set_path(body, path, value)) {
            return failure_set(f, 500, "encode_failed", sampling_table[p].name,
                               "'%s' cannot be written at '%s'", sampling_table[p].name, path);
        }
    }
    return true;
}

/* Whether `got` says at least what `want` says: numbers by value, objects may have more keys (a
 * structure around a parameter). */
static bool says_it(const json_t *want, const json_t *got)
{
    if (json_is_number(want) && json_is_number(got)) {
        return json_number_value(want) == json_number_value(got);
    }
    if (json_is_object(want) && json_is_object(got)) {
        const char *key;
        json_t *v;
        json_object_foreach ((json_t *)want, key, v) {
            const json_t *other = json_object_get(got, key);
            if (!other || !says_it(v, other)) {
                return false;
            }
        }
        return true;
    }
    if (json_is_array(want) && json_is_array(got) &&
        json_array_size(want) == json_array_size(got)) {
        for (size_t i = 0; i < json_array_size(want); i++) {
            if (!says_it(json_array_get(want, i), json_array_get(got, i))) {
                return false;
            }
        }
        return true;
    }
    return json_equal((json_t *)want, (json_t *)got);
}

/* "a.b" holds "a.b.c", and the other way round. */
static bool is_same_place(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b), least = n < m ? n : m;
    return strncmp(a, b, least) == 0 && (n == m || (n > m ? a : b)[least] == '.');
}

/* Whether something of `p`, which is not in `send`, stands in the body at a place where no
 * parameter that is sent was written. */
static bool is_intruder(const struct call *c, enum param p, const json_t *body,
                        const char *const written[], size_t n_written)
{
    char framed[80];
    (void)snprintf(framed, sizeof framed, "params.%s", sampling_table[p].name);
    const struct claim *claim = c->rules ? c->rules->param[p] : NULL;
    const char *const places[] = {sampling_table[p].name, framed, claim ? claim->wire : NULL};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!places[i] || !jsonio_get_path(body, places[i])) {
            continue;
        }
        bool is_known = false;
        for (size_t k = 0; k < n_written; k++) {
            is_known = is_known || is_same_place(written[k], places[i]);
        }
        if (!is_known) {
            return true;
        }
    }
    return false;
}

#define OWN_PATHS_MAX 4

/* Where something stands that belongs there. */
struct written {
    const char *path[PARAM_COUNT + PLAN_EXTRA_MAX + OWN_PATHS_MAX];
    size_t n;
};

static bool check_extras(const struct call *c, const json_t *body, struct written *w,
                         const char **bad)
{
    for (size_t i = 0; i < c->plan->n_extra; i++) {
        const struct plan_extra *x = &c->plan->extra[i];
        const json_t *got = jsonio_get_path(body, x->wire);
        if (!got || !says_it(x->value, got)) {
            *bad = x->wire;
            return false;
        }
        w->path[w->n++] = x->wire;
    }
    return true;
}

static bool check_param(const struct call *c, enum param p, const json_t *body, struct written *w)
{
    json_t *want;
    const char *path;
    bool ok = wire_form(c, p, &want, &path, NULL);
    if (ok && want) {
        const json_t *got = jsonio_get_path(body, path);
        ok = got && says_it(want, got);
        w->path[w->n++] = path;
        json_decref(want);
    }
    return ok;
}

static bool check_body(const struct call *c, const json_t *body, const char **bad)
{
    const struct backend *b = dialect_of(c);
    struct written w = {.n = 0};
    for (size_t i = 0; b && b->own_paths && b->own_paths[i]; i++) {
        assert(i < OWN_PATHS_MAX);
        w.path[w.n++] = b->own_paths[i];
    }
    if (!check_extras(c, body, &w, bad)) {
        return false;
    }
    for (unsigned p = 0; p < PARAM_COUNT; p++) {
        if (sampling_has(c->send, (enum param)p) && !check_param(c, (enum param)p, body, &w)) {
            *bad = sampling_table[p].name;
            return false;
        }
    }
    for (unsigned p = 0; p < PARAM_COUNT; p++) {
        if (!sampling_has(c->send, (enum param)p) &&
            is_intruder(c, (enum param)p, body, w.path, w.n)) {
            *bad = sampling_table[p].name;
            return false;
        }
    }
    return true;
}

bool backend_check_sent(const struct call *c, struct slice body, const char **bad)
{
    json_t *json = jsonio_parse(body.p, body.len, NULL);
    if (!json) {
        *bad = "body";
        return false;
    }
    bool ok = check_body(c, json, bad);
    json_decref(json);
    return ok;
}

/* ---- answers */

enum finish backend_finish(const char *word, int *status)
{
    enum { BROKEN = -502, BUSY = -503 }; /* statuses */
    static const struct {
        const char *word;
        int finish;
    } map[] = {
        {"length", FINISH_LENGTH},
        {"max_tokens", FINISH_LENGTH},
        {"max_output_tokens", FINISH_LENGTH},
        {"MAX_TOKENS", FINISH_LENGTH},
        {"MAX_LEN", FINISH_LENGTH},
        {"MAX_CONTEXT", FINISH_LENGTH},
        {"TIME_LIMIT", FINISH_LENGTH},
        {"model_length", FINISH_LENGTH},
        {"model_context_window_exceeded", FINISH_LENGTH},
        {"tool_calls", FINISH_TOOL_CALLS},
        {"tool_use", FINISH_TOOL_CALLS},
        {"TOOL_CALLS", FINISH_TOOL_CALLS},
        {"TOOL_CALL", FINISH_TOOL_CALLS},
        {"function_call", FINISH_TOOL_CALLS},
        {"content_filter", FINISH_CONTENT_FILTER},
        {"refusal", FINISH_CONTENT_FILTER},
        {"sensitive", FINISH_CONTENT_FILTER},
        {"content_filtered", FINISH_CONTENT_FILTER},
        {"guardrail_intervened", FINISH_CONTENT_FILTER},
        {"SAFETY", FINISH_CONTENT_FILTER},
        {"RECITATION", FINISH_CONTENT_FILTER},
        {"LANGUAGE", FINISH_CONTENT_FILTER},
        {"BLOCKLIST", FINISH_CONTENT_FILTER},
        {"PROHIBITED_CONTENT", FINISH_CONTENT_FILTER},
        {"SPII", FINISH_CONTENT_FILTER},
        {"MODEL_ARMOR", FINISH_CONTENT_FILTER},
        {"IMAGE_SAFETY", FINISH_CONTENT_FILTER},
        {"IMAGE_PROHIBITED_CONTENT", FINISH_CONTENT_FILTER},
        {"IMAGE_RECITATION", FINISH_CONTENT_FILTER},
        {"IMAGE_OTHER", FINISH_CONTENT_FILTER},
        {"NO_IMAGE", FINISH_CONTENT_FILTER},
        {"CONTINUATION", FINISH_LENGTH}, /* there would be more, for another call */
        {"pause_turn", FINISH_LENGTH},   /* the same */
        {"MALFORMED_FUNCTION_CALL", BROKEN},
        {"UNEXPECTED_TOOL_CALL", BROKEN},
        {"TOO_MANY_TOOL_CALLS", BROKEN},
        {"MISSING_THOUGHT_SIGNATURE", BROKEN},
        {"MALFORMED_RESPONSE", BROKEN},
        {"OTHER", BROKEN},
        {"error", BROKEN},
        {"ERROR", BROKEN},
        {"TIMEOUT", BROKEN},
        {"network_error", BROKEN},
        {"malformed_tool_use", BROKEN},
        {"malformed_model_output", BROKEN},
        {"insufficient_system_resource", BUSY},
    };
    int found = FINISH_STOP; /* stop, eos, end_turn, stop_sequence ... and words that nobody has
                                told us of */
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        found = strcmp(map[i].word, word) == 0 ? map[i].finish : found;
    }
    *status = found < 0 ? -found : 0;
    return found < 0 ? FINISH_NONE : (enum finish)found;
}

json_t *backend_tool_delta(unsigned index, const char *id, const char *name, const char *arguments)
{
    json_t *o = json_object(), *function = json_object();
    bool ok = o && function && json_object_set_new(o, "index", json_integer(index)) == 0;
    if (id) {
        ok = ok && json_object_set_new(o, "id", json_string(id)) == 0 &&
             json_object_set_new(o, "type", json_string("function")) == 0;
    }
    if (name) {
        ok = ok && json_object_set_new(function, "name", json_string(name)) == 0;
    }
    if (arguments) {
        ok = ok && json_object_set_new(function, "arguments", json_string(arguments)) == 0;
    }
    if (!ok || json_object_set(o, "function", function) != 0) {
        json_decref(o);
        o = NULL;
    }
    json_decref(function);
    return o;
}

void backend_members(const json_t *o, size_t n, const char *const names[], const json_t *out[])
{
    for (size_t i = 0; i < n; i++) {
        out[i] = NULL;
    }
    json_t *object = (json_t *)o; /* jansson's iterators lack const */
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        for (size_t i = 0; i < n; i++) {
            if (names[i][0] == key[0] && strcmp(names[i], key) == 0) {
                out[i] = json_object_iter_value(at);
                break;
            }
        }
    }
}

json_int_t backend_count(const json_t *v)
{
    double d = json_number_value(v);
    return d > 0 && d < 9e15 ? (json_int_t)d : 0;
}

/* ---- refusals */

static int client_status(int status)
{
    switch (status) {
    case 400:
    case 404:
    case 413:
    case 429:
        return status;
    case 422:
        return 400;
    case 408:
    case 504:
        return 504;
    case 498: /* a full flex tier */
    case 503:
    case 529:
        return 503;
    default:
        return 502;
    }
}

static const char *client_code(int status, const char *code)
{
    switch (status) {
    case 400:
    case 404:
    case 413:
        return code;
    case 429:
        return code[0] ? code : "rate_limit_exceeded";
    case 503:
        return "upstream_overloaded";
    case 504:
        return "upstream_timeout";
    default:
        return "upstream_error";
    }
}

void backend_refusal_status(int status, const char *message, const char *code, const char *param,
                            const char *retry_after, struct failure *f)
{
    bool is_key = status == 401 || (status == 403 && !param[0]) ||
                  strcmp(code, "invalid_api_key") == 0 || strcmp(code, "wrong_api_key") == 0;
    bool was_set = f && f->status;
    if (is_key) {
        /* nothing of the provider's text: it often quotes a part of the key */
        (void)failure_set(f, 502, "upstream_auth", NULL,
                          "the backend refused the gateway's own credentials (status %d): check "
                          "the provider's api_key",
                          status);
    } else if (status == 402) {
        (void)failure_set(f, 502, "insufficient_quota", NULL, "%s", message);
    } else {
        int mapped = status == 403 ? 400 : client_status(status);
        (void)failure_set(f, mapped, client_code(mapped, code), mapped < 500 ? param : NULL, "%s",
                          message);
    }
    if (f && !was_set && (f->status == 429 || f->status == 503)) {
        int64_t ms = retry_after_ms(retry_after, -1);
        f->retry_after_s = ms > 0 ? (int)((ms + 999) / 1000) : 0;
    }
}
