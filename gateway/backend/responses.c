/* responses.c - the Responses dialect: encode (the conversation itself is items.c), decode,
 * streams, errors.
 *
 * A stream tells everything up to three times: piece by piece, whole at the end of each part, and
 * whole again in its last event. The first telling counts; a later one only where there was none
 * before (some servers leave the pieces out).
 */
#include "backend.h"
#include "emit.h"
#include "items.h"
#include "logprobs.h"
#include "wire_chat.h"

#include "gateway/base/jsonio.h"
#include <string.h>

/* ---- encode */

/* {"type":"json_schema","json_schema":{name, schema, strict}} -> {"type":"json_schema",name, ..},
 * under text.format; a claim that names response_format wants it as in chat. */
static bool shape_format(enum param p, json_t **value, const char **path, struct failure *f)
{
    if (!*path || strncmp(*path, "text.format", 11) != 0) {
        return wire_chat_shape_format(p, value, path) || backend_no_memory(f);
    }
    *path = "text.format";
    if (p == PARAM_RESPONSE_FORMAT_JSON_OBJECT) {
        return backend_swap(value, json_pack("{s:s}", "type", "json_object"), f);
    }
    const json_t *inner = json_object_get(*value, "json_schema");
    json_t *flat = json_pack("{s:s}", "type", "json_schema");
    if (!flat || json_object_update(flat, (json_t *)(inner ? inner : *value)) != 0 ||
        json_object_set_new(flat, "type", json_string("json_schema")) != 0) {
        json_decref(flat);
        flat = NULL;
    }
    return backend_swap(value, flat, f);
}

#define WITH_LOGPROBS "message.output_text.logprobs"

static bool responses_shape(const struct call *c, enum param p, json_t **value, const char **path,
                            struct failure *f)
{
    (void)c;
    switch (p) {
    case PARAM_TOOLS:
        return backend_swap(value, items_tools(*value, f), f);
    case PARAM_TOOL_CHOICE:
        *path = "tool_choice"; /* whatever part of it the claim names */
        return backend_swap(value, items_tool_choice(*value, f), f);
    case PARAM_RESPONSE_FORMAT_JSON_OBJECT:
    case PARAM_RESPONSE_FORMAT_JSON_SCHEMA:
        return shape_format(p, value, path, f);
    case PARAM_LOGPROBS:
        if (!*path || strcmp(*path, "include") != 0) {
            return true;
        }
        if (json_is_false(*value)) {
            json_decref(*value);
            *value = NULL; /* not asked for by leaving it out */
            return true;
        }
        return backend_swap(value, json_pack("[s]", WITH_LOGPROBS), f);
    default:
        return true;
    }
}

/* Answers are kept by the provider unless it is told not to, and in chat it is the other way round:
 * who did not ask for it is not stored. */
static bool keep_unstored(const struct call *c, struct failure *f)
{
    const struct claim *claim = c->rules ? rules_claim(c->rules, PARAM_STORE, c->send) : NULL;
    struct plan *plan = c->plan;
    if (sampling_has(c->send, PARAM_STORE) || !claim || claim->support != CLAIM_YES ||
        !claim->wire) {
        return true;
    }
    for (size_t i = 0; i < plan->n_extra; i++) {
        if (strcmp(plan->extra[i].wire, claim->wire) == 0) {
            return true;
        }
    }
    struct adjustment a = {.param = PARAM_COUNT,
                           .name = "store",
                           .action = ACTION_ADDED,
                           .sent = {.type = VALUE_BOOL, .b = false},
                           .reason = REASON_DEFAULT_OF_PROVIDER,
                           .claim = claim->id};
    if (plan->n_extra == PLAN_EXTRA_MAX || !plan_adjust(plan, a)) {
        return failure_set(f, 400, "too_many_adjustments", NULL,
                           "the request would need more than %d adjustments", PLAN_ADJ_MAX);
    }
    plan->extra[plan->n_extra++] = (struct plan_extra){claim->wire, json_false(), claim->id};
    return true;
}

static bool build_body(const struct call *c, json_t *body, struct failure *f)
{
    struct items t;
    items_init(&t);
    bool ok =
        items_build(&t, c, f) && json_object_set_new(body, "model", json_string(c->model)) == 0;
    ok = ok && (t.instructions.len == 0 ||
                json_object_set_new(body, "instructions",
                                    json_stringn(t.instructions.p, t.instructions.len)) == 0);
    ok = ok && json_object_set(body, "input", t.list) == 0;
    ok = ok && keep_unstored(c, f) && backend_encode_params(c, body, f);
    if (ok && sampling_has(c->send, PARAM_TOP_LOGPROBS) && !sampling_has(c->send, PARAM_LOGPROBS)) {
        ok = json_object_set_new(body, "include", json_pack("[s]", WITH_LOGPROBS)) == 0;
    }
    ok = ok && (!c->stream || json_object_set_new(body, "stream", json_true()) == 0);
    items_release(&t);
    return ok;
}

static bool responses_encode(const struct call *c, struct buf *body, struct headers *h,
                             struct failure *f)
{
    return backend_encode_chat(c, build_body, body, h, f);
}

/* ---- decode */

#define OUTPUT_MAX 512 /* items of one answer: searches, reasoning, calls and messages */

struct decoder {
    struct emitter out;
    bool has_meta;
    unsigned n_tools;
    struct {
        bool is_tool, has_arguments;
        unsigned tool;
        uint32_t told; /* parts whose text has come; those beyond 32 share the last bit */
    } item[OUTPUT_MAX];
};

static struct decoder *responses_decoder_new(enum wire_form form, bool is_chat)
{
    (void)is_chat;
    return emit_new(sizeof(struct decoder), form);
}

static void responses_decoder_free(struct decoder *d)
{
    emit_free(d);
}

static bool tell_text(struct decoder *d, enum delta_kind kind, const json_t *text,
                      const json_t *logprobs)
{
    json_t *content =
        json_array_size(logprobs) > 0 ? json_pack("{s:O}", "content", logprobs) : NULL;
    json_t *items = content ? logprobs_items(content, NULL) : NULL;
    json_decref(content);
    bool ok = emit_text(&d->out, kind, 0, text, items);
    json_decref(items);
    return ok;
}

static bool take_meta(struct decoder *d, const json_t *response)
{
    if (d->has_meta || !json_is_object(response)) {
        return true;
    }
    d->has_meta = true;
    return emit_meta(&d->out, json_object_get(response, "id"), json_object_get(response, "model"));
}

static bool take_usage(struct decoder *d, const json_t *u)
{
    if (!json_is_number(json_object_get(u, "input_tokens")) &&
        !json_is_number(json_object_get(u, "output_tokens"))) {
        return true;
    }
    struct usage x = {.is_known = true};
    x.prompt_tokens = backend_count(json_object_get(u, "input_tokens"));
    x.completion_tokens = backend_count(json_object_get(u, "output_tokens"));
    x.cached_tokens = backend_count(jsonio_get_path(u, "input_tokens_details.cached_tokens"));
    x.reasoning_tokens =
        backend_count(jsonio_get_path(u, "output_tokens_details.reasoning_tokens"));
    return emit_usage(&d->out, &x);
}

/* ---- items: at is the place in `output` */

static bool place_of(struct decoder *d, const json_t *event, size_t *at)
{
    const json_t *index = json_object_get(event, "output_index");
    json_int_t n = json_is_integer(index) ? json_integer_value(index) : 0;
    if (n < 0 || n >= OUTPUT_MAX) {
        return emit_malformed(&d->out, "holds more items than can be");
    }
    *at = (size_t)n;
    return true;
}

/* Whether the text of this part has already come; from now on it has. */
static bool was_told(struct decoder *d, size_t at, const json_t *part)
{
    json_int_t n = json_is_integer(part) ? json_integer_value(part) : 0;
    uint32_t bit = UINT32_C(1) << (n < 0 ? 0 : n > 31 ? 31 : n);
    bool was = d->item[at].told & bit;
    d->item[at].told |= bit;
    return was;
}

static bool begin_tool(struct decoder *d, size_t at, const json_t *item)
{
    const char *id = json_string_value(json_object_get(item, "call_id")),
               *name = json_string_value(json_object_get(item, "name"));
    if (d->item[at].is_tool) {
        return true;
    }
    d->item[at].is_tool = true;
    d->item[at].tool = d->n_tools++;
    return emit_tool(&d->out, 0, d->item[at].tool, id ? id : "", name ? name : "", "");
}

/* All arguments at once, where none came in pieces. */
static bool end_tool(struct decoder *d, size_t at, const json_t *arguments)
{
    const char *text = json_string_value(arguments);
    if (!d->item[at].is_tool || d->item[at].has_arguments) {
        return true;
    }
    d->item[at].has_arguments = true;
    return emit_tool(&d->out, 0, d->item[at].tool, NULL, NULL, text && text[0] ? text : "{}");
}

static bool take_arguments(struct decoder *d, size_t at, const json_t *piece)
{
    if (!d->item[at].is_tool || json_string_length(piece) == 0) {
        return true;
    }
    d->item[at].has_arguments = true;
    return emit_tool(&d->out, 0, d->item[at].tool, NULL, NULL, json_string_value(piece));
}

static bool take_message(struct decoder *d, size_t at, const json_t *item)
{
    size_t i;
    json_t *part;
    json_array_foreach (json_object_get(item, "content"), i, part) {
        const json_t *type = json_object_get(part, "type");
        json_t *number = json_integer((json_int_t)i);
        bool is_refusal = backend_is_word(type, "refusal"), is_old = was_told(d, at, number);
        json_decref(number);
        if (is_old || (!is_refusal && !backend_is_word(type, "output_text"))) {
            continue;
        }
        if (!tell_text(d, is_refusal ? DELTA_REFUSAL : DELTA_TEXT,
                       json_object_get(part, is_refusal ? "refusal" : "text"),
                       json_object_get(part, "logprobs"))) {
            return false;
        }
    }
    return true;
}

/* A new part of a summary begins after a blank line. */
static bool emit_gap(struct decoder *d, bool is_first)
{
    json_t *gap = is_first ? NULL : json_string("\n\n");
    bool ok = tell_text(d, DELTA_REASONING, gap, NULL);
    json_decref(gap);
    return ok;
}

static bool take_reasoning(struct decoder *d, size_t at, const json_t *item)
{
    static const char *const lists[] = {"content", "summary"};
    if (d->item[at].told) {
        return true;
    }
    d->item[at].told = 1;
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        const json_t *list = json_object_get(item, lists[k]);
        for (size_t i = 0; i < json_array_size(list); i++) {
            if (!emit_gap(d, k == 0 || i == 0) ||
                !tell_text(d, DELTA_REASONING, json_object_get(json_array_get(list, i), "text"),
                           NULL)) {
                return false;
            }
        }
    }
    return true;
}

/* An item that is complete; what of it has come before is not told again. */
static bool take_item(struct decoder *d, size_t at, const json_t *item)
{
    const json_t *type = json_object_get(item, "type");
    if (backend_is_word(type, "message")) {
        return take_message(d, at, item);
    }
    if (backend_is_word(type, "reasoning")) {
        return take_reasoning(d, at, item);
    }
    if (backend_is_word(type, "function_call")) {
        return begin_tool(d, at, item) && end_tool(d, at, json_object_get(item, "arguments"));
    }
    return true; /* the provider's own tools */
}

/* ---- the end */

/* What a provider calls a failure -> the status that it would have had as an HTTP answer. */
static int status_of_code(const char *code)
{
    static const struct {
        const char *code;
        int status;
    } map[] = {
        {"invalid_prompt", 400},           {"invalid_request_error", 400},
        {"invalid_request", 400},          {"context_length_exceeded", 400},
        {"content_policy_violation", 400}, {"rate_limit_exceeded", 429},
        {"rate_limit_error", 429},         {"insufficient_quota", 429},
        {"authentication_error", 401},     {"server_error", 500},
        {"server_overloaded", 503},        {"service_unavailable", 503},
    };
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        if (strcmp(map[i].code, code) == 0) {
            return map[i].status;
        }
    }
    return 0;
}

/* holder: the object with `error`, or the flat event itself. */
static bool fail_inside(struct decoder *d, const json_t *holder)
{
    struct refusal r = {.message = "the backend gave no reason"};
    (void)refusal_read(holder, &r);
    if (!r.status) {
        r.status = status_of_code(r.code);
    }
    if (!r.status) {
        r.status = status_of_code(r.type);
    }
    return emit_refused(&d->out, &r);
}

/* The items of `output`, where nothing of them has come before. */
static bool take_output(struct decoder *d, const json_t *output)
{
    bool is_old = d->out.pieces.is_stream && d->out.has_content;
    for (size_t i = 0; !is_old && i < json_array_size(output); i++) {
        if (i == OUTPUT_MAX) {
            return emit_malformed(&d->out, "holds more items than can be");
        }
        if (!take_item(d, i, json_array_get(output, i))) {
            return false;
        }
    }
    return true;
}

/* Why it ended: the reason of an incomplete one, else "completed". */
static const char *end_word(const json_t *response)
{
    const char *why = json_string_value(jsonio_get_path(response, "incomplete_details.reason"));
    if (!backend_is_word(json_object_get(response, "status"), "incomplete")) {
        return "completed";
    }
    return why ? why : "max_output_tokens";
}

/* A response that has come to an end, in whatever way. */
static bool take_response(struct decoder *d, const json_t *response)
{
    const json_t *status = json_object_get(response, "status"),
                 *output = json_object_get(response, "output");
    if (backend_is_word(status, "failed") || backend_is_word(status, "cancelled")) {
        return fail_inside(d, response);
    }
    if (!json_is_array(output)) {
        return emit_malformed(&d->out, "holds no output");
    }
    if (json_is_string(status) && !backend_is_word(status, "completed") &&
        !backend_is_word(status, "incomplete")) {
        return emit_malformed(&d->out, "is not finished");
    }
    return take_meta(d, response) && take_output(d, output) &&
           emit_finish(&d->out, 0, end_word(response), d->n_tools > 0, NULL) &&
           take_usage(d, json_object_get(response, "usage")) && emit_end(&d->out);
}

/* ---- events */

static bool take_delta(struct decoder *d, const json_t *o, size_t at)
{
    const json_t *type = json_object_get(o, "type"), *delta = json_object_get(o, "delta");
    if (backend_is_word(type, "response.output_text.delta")) {
        (void)was_told(d, at, json_object_get(o, "content_index"));
        return tell_text(d, DELTA_TEXT, delta, json_object_get(o, "logprobs"));
    }
    if (backend_is_word(type, "response.refusal.delta")) {
        (void)was_told(d, at, json_object_get(o, "content_index"));
        return tell_text(d, DELTA_REFUSAL, delta, NULL);
    }
    if (backend_is_word(type, "response.reasoning_text.delta") ||
        backend_is_word(type, "response.reasoning_summary_text.delta")) {
        d->item[at].told |= 1;
        return tell_text(d, DELTA_REASONING, delta, NULL);
    }
    if (backend_is_word(type, "response.reasoning_summary_part.added")) {
        json_int_t n = json_integer_value(json_object_get(o, "summary_index"));
        return emit_gap(d, n <= 0 || !d->item[at].told);
    }
    if (backend_is_word(type, "response.function_call_arguments.delta")) {
        return take_arguments(d, at, delta);
    }
    return true;
}

/* The same once more and whole. */
static bool take_done(struct decoder *d, const json_t *o, size_t at)
{
    const json_t *type = json_object_get(o, "type");
    bool is_refusal = backend_is_word(type, "response.refusal.done");
    if (is_refusal || backend_is_word(type, "response.output_text.done")) {
        return was_told(d, at, json_object_get(o, "content_index")) ||
               tell_text(d, is_refusal ? DELTA_REFUSAL : DELTA_TEXT,
                         json_object_get(o, is_refusal ? "refusal" : "text"),
                         json_object_get(o, "logprobs"));
    }
    if (backend_is_word(type, "response.function_call_arguments.done")) {
        return end_tool(d, at, json_object_get(o, "arguments"));
    }
    const json_t *item = json_object_get(o, "item");
    if (backend_is_word(type, "response.output_item.added")) {
        return !backend_is_word(json_object_get(item, "type"), "function_call") ||
               begin_tool(d, at, item);
    }
    return !backend_is_word(type, "response.output_item.done") || take_item(d, at, item);
}

static bool take_event(struct decoder *d, const json_t *o)
{
    const json_t *type = json_object_get(o, "type"), *response = json_object_get(o, "response");
    const char *word = json_string_value(type);
    size_t at = 0;
    if (!word || strcmp(word, "error") == 0) {
        return fail_inside(d, o);
    }
    if (strcmp(word, "response.created") == 0) {
        return take_meta(d, response);
    }
    if (strcmp(word, "response.completed") == 0 || strcmp(word, "response.incomplete") == 0 ||
        strcmp(word, "response.failed") == 0) {
        return take_response(d, response);
    }
    if (strncmp(word, "response.", 9) != 0) {
        return true; /* keepalive, and whatever is to come */
    }
    return place_of(d, o, &at) && take_delta(d, o, at) && take_done(d, o, at);
}

static bool on_json(const json_t *o, struct slice event, void *ud)
{
    struct decoder *d = ud;
    (void)event; /* each object says itself what it is */
    if (d->out.is_ended || !o) {
        return true; /* some put [DONE] after their last event */
    }
    if (d->out.pieces.is_stream) {
        return take_event(d, o);
    }
    const json_t *error = json_object_get(o, "error");
    bool is_answer = json_is_array(json_object_get(o, "output"));
    return (json_is_object(error) || json_is_string(error) || !is_answer) &&
                   !backend_is_word(json_object_get(o, "object"), "response")
               ? fail_inside(d, o)
               : take_response(d, o);
}

static bool responses_decode(struct decoder *d, struct slice piece, delta_fn *fn, void *ud,
                             struct failure *f)
{
    return emit_feed(d, piece, on_json, fn, ud, f);
}

static bool responses_decode_end(struct decoder *d, delta_fn *fn, void *ud, struct failure *f)
{
    return emit_feed_end(d, on_json, fn, ud, f) &&
           (d->out.is_ended ||
            emit_malformed(&d->out, "ended before its last event: it was cut off"));
}

const struct backend backend_responses = {
    .name = "responses",
    .encode = responses_encode,
    .decoder_new = responses_decoder_new,
    .decoder_free = responses_decoder_free,
    .decode = responses_decode,
    .decode_end = responses_decode_end,
    .refusal = refusal_answer,
    .shape = responses_shape,
};
