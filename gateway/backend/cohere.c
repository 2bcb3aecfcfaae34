/* cohere.c - the Cohere v2 chat dialect. Roles and order are OpenAI's; what differs: words in upper
 * case, a schema beside the type json_object, the plan before calls (tool_plan) and typed events.
 *
 * tool_plan is reasoning: the text in which the model says to itself which tools it will use. So it
 * comes out as reasoning text, and goes back as tool_plan where a client sends it back beside the
 * calls. Reasoning of an answer without calls has no place in a conversation here.
 */
#include "backend.h"
#include "emit.h"
#include "logprobs.h"
#include "messages.h"

#include <string.h>

/* ---- encode */

static json_t *wire_calls(const struct message *m)
{
    json_t *out = json_array(), *call;
    size_t i;
    json_array_foreach ((json_t *)m->calls, i, call) { /* the macro wants no const */
        const json_t *function = json_object_get(call, "function");
        json_t *arguments = messages_arguments_text(json_object_get(function, "arguments"));
        json_t *one = json_pack("{s:O,s:s,s:{s:O,s:o}}", "id", json_object_get(call, "id"), "type",
                                "function", "function", "name", json_object_get(function, "name"),
                                "arguments", arguments);
        if (json_array_append_new(out, one) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static json_t *wire_message(const struct message *m, struct messages *b)
{
    json_t *out = backend_object("role", json_string_nocheck(m->role), NULL);
    bool ok = out && (!m->call_id ||
                      json_object_set_new(out, "tool_call_id", json_string(m->call_id)) == 0);
    if (!m->calls || m->text || json_array_size(m->parts) > 0) {
        ok = ok && json_object_set_new(out, "content", messages_content(m)) == 0;
    }
    if (m->calls) {
        ok = ok && json_object_set_new(out, "tool_calls", wire_calls(m)) == 0;
        ok =
            ok && (!m->reasoning || json_object_set(out, "tool_plan", (json_t *)m->reasoning) == 0);
    } else if (m->reasoning && !b->reasoning) {
        b->reasoning = m->reasoning;
    }
    if (!ok) {
        json_decref(out);
        (void)backend_no_memory(b->f);
        return NULL;
    }
    return out;
}

/* The type stays json_object, and the schema stands beside it. */
static json_t *wire_format(const json_t *format)
{
    const json_t *schema = messages_schema(format);
    json_t *out = json_pack("{s:s}", "type", "json_object");
    if (out && schema && json_object_set(out, "json_schema", (json_t *)schema) != 0) {
        json_decref(out);
        return NULL;
    }
    return out;
}

static bool shape_tool_choice(json_t **value, struct failure *f)
{
    bool is_auto = backend_is_word(*value, "auto"), is_none = backend_is_word(*value, "none");
    if (!is_auto && !is_none && !backend_is_word(*value, "required")) {
        return failure_set(f, 400, "invalid_value", "tool_choice",
                           "must be none, auto or required: this backend cannot be made to call "
                           "one function by its name");
    }
    if (is_auto) { /* what happens without a word */
        json_decref(*value);
        *value = NULL;
        return true;
    }
    return backend_swap(value, json_string(is_none ? "NONE" : "REQUIRED"), f);
}

static bool cohere_shape(const struct call *c, enum param p, json_t **value, const char **path,
                         struct failure *f)
{
    (void)c;
    switch (p) {
    case PARAM_TOOLS:
        return backend_swap(value, messages_tools(*value, f), f);
    case PARAM_TOOL_CHOICE:
        return shape_tool_choice(value, f);
    case PARAM_RESPONSE_FORMAT_JSON_OBJECT:
    case PARAM_RESPONSE_FORMAT_JSON_SCHEMA:
        *path = "response_format"; /* whatever part of it the claim names */
        return backend_swap(value, wire_format(*value), f);
    case PARAM_REASONING_EFFORT: /* a switch, no levels */
        return backend_swap(
            value, json_string(backend_is_word(*value, "none") ? "disabled" : "enabled"), f);
    default:
        return true;
    }
}

/* One switch stands for all tools, and refuses a function without a required argument. */
static bool may_be_strict(const json_t *tools)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const json_t *required =
            json_object_get(json_object_get(function, "parameters"), "required");
        if (!json_is_true(json_object_get(function, "strict")) || json_array_size(required) == 0) {
            return false;
        }
    }
    return json_array_size(tools) > 0;
}

static bool build_body(const struct call *c, json_t *body, struct failure *f)
{
    json_t *messages = messages_build(c, wire_message, f);
    bool ok = messages && json_object_set_new(body, "model", json_string(c->model)) == 0;
    ok = ok && json_object_set(body, "messages", messages) == 0;
    json_decref(messages);
    ok = ok && backend_encode_params(c, body, f) && messages_note_format(c, f);
    const json_t *tools = sampling_has(c->send, PARAM_TOOLS) ? c->send->v[PARAM_TOOLS].j : NULL;
    if (ok && may_be_strict(tools)) {
        ok = json_object_set_new(body, "strict_tools", json_true()) == 0;
    } else {
        ok = ok && messages_note_strict(c, f);
    }
    return ok && json_object_set_new(body, "stream", json_boolean(c->stream)) == 0;
}

static bool cohere_encode(const struct call *c, struct buf *body, struct headers *h,
                          struct failure *f)
{
    return backend_encode_chat(c, build_body, body, h, f);
}

/* ---- decode */

#define TOOLS_MAX 128 /* calls of one answer */

struct decoder {
    struct emitter out;
    struct {
        bool is_seen, has_arguments;
    } tool[TOOLS_MAX];
};

static struct decoder *cohere_decoder_new(enum wire_form form, bool is_chat)
{
    (void)is_chat;
    return emit_new(sizeof(struct decoder), form);
}

static void cohere_decoder_free(struct decoder *d)
{
    emit_free(d);
}

/* {"type":"text","text"} or {"type":"thinking","thinking"}; pieces of a stream have no type. */
static bool take_content(struct decoder *d, const json_t *block, json_t *items)
{
    return emit_text(&d->out, DELTA_REASONING, 0, json_object_get(block, "thinking"), NULL) &&
           emit_text(&d->out, DELTA_TEXT, 0, json_object_get(block, "text"), items);
}

static bool take_call(struct decoder *d, size_t at, const json_t *call)
{
    const json_t *id = json_object_get(call, "id"), *function = json_object_get(call, "function");
    const json_t *name = json_object_get(function, "name"),
                 *arguments = json_object_get(function, "arguments");
    bool is_first = at < TOOLS_MAX && !d->tool[at].is_seen;
    if (at >= TOOLS_MAX) {
        return emit_malformed(&d->out, "holds more tool calls than can be");
    }
    if (!is_first && json_string_length(arguments) == 0) {
        return true;
    }
    d->tool[at].is_seen = true;
    d->tool[at].has_arguments = d->tool[at].has_arguments || json_string_length(arguments) > 0;
    const char *text = json_string_value(arguments);
    return emit_tool(&d->out, 0, (unsigned)at, is_first ? json_string_value(id) : NULL,
                     is_first ? json_string_value(name) : NULL, text ? text : "");
}

/* Calls that brought no arguments. */
static bool end_calls(struct decoder *d)
{
    for (unsigned i = 0; i < TOOLS_MAX; i++) {
        if (d->tool[i].is_seen && !d->tool[i].has_arguments) {
            d->tool[i].has_arguments = true;
            if (!emit_tool(&d->out, 0, i, NULL, NULL, "{}")) {
                return false;
            }
        }
    }
    return true;
}

static bool has_calls(const struct decoder *d)
{
    bool any = false;
    for (size_t i = 0; i < TOOLS_MAX; i++) {
        any = any || d->tool[i].is_seen;
    }
    return any;
}

/* billed_units leave out what the template adds: the model saw `tokens`. */
static bool take_usage(struct decoder *d, const json_t *usage)
{
    const json_t *tokens = json_object_get(usage, "tokens");
    tokens = json_is_object(tokens) ? tokens : json_object_get(usage, "billed_units");
    if (!json_is_object(tokens)) {
        return true;
    }
    struct usage u = {.is_known = true,
                      .prompt_tokens = backend_count(json_object_get(tokens, "input_tokens")),
                      .completion_tokens = backend_count(json_object_get(tokens, "output_tokens")),
                      .cached_tokens = backend_count(json_object_get(usage, "cached_tokens"))};
    return emit_usage(&d->out, &u);
}

/* `o`: the whole answer, or the delta of the last event. */
static bool take_end(struct decoder *d, const json_t *o)
{
    const char *word = json_string_value(json_object_get(o, "finish_reason"));
    if (!word) {
        return emit_malformed(&d->out, "ended without a finish reason: it was cut off");
    }
    return end_calls(d) &&
           emit_finish(&d->out, 0, word, has_calls(d),
                       json_string_value(json_object_get(o, "error"))) &&
           take_usage(d, json_object_get(o, "usage")) && emit_end(&d->out);
}

static bool take_delta(struct decoder *d, const json_t *o, const json_t *message)
{
    json_t *items = logprobs_groups(json_object_get(o, "logprobs"));
    bool ok = take_content(d, json_object_get(message, "content"), items);
    json_decref(items);
    return ok;
}

static size_t index_of(const json_t *event)
{
    const json_t *index = json_object_get(event, "index");
    json_int_t at = json_is_integer(index) ? json_integer_value(index) : 0;
    return at >= 0 && at < TOOLS_MAX ? (size_t)at : TOOLS_MAX;
}

/* The object says what it is; the event's name is the same word. */
static bool is_type(const json_t *o, struct slice event, const char *word)
{
    const json_t *type = json_object_get(o, "type");
    return json_is_string(type)
               ? backend_is_word(type, word)
               : event.len == strlen(word) && memcmp(event.p, word, event.len) == 0;
}

static bool take_event(struct decoder *d, const json_t *o, struct slice event)
{
    const json_t *delta = json_object_get(o, "delta"), *message = json_object_get(delta, "message");
    if (is_type(o, event, "message-start")) {
        return emit_meta(&d->out, json_object_get(o, "id"), NULL);
    }
    if (is_type(o, event, "content-start") || is_type(o, event, "content-delta")) {
        return take_delta(d, o, message);
    }
    if (is_type(o, event, "tool-plan-delta")) {
        return emit_text(&d->out, DELTA_REASONING, 0, json_object_get(message, "tool_plan"), NULL);
    }
    if (is_type(o, event, "tool-call-start") || is_type(o, event, "tool-call-delta")) {
        return take_call(d, index_of(o), json_object_get(message, "tool_calls"));
    }
    return !is_type(o, event, "message-end") ||
           take_end(d, delta); /* ends of parts, citations; others will come: passed over */
}

static bool take_whole(struct decoder *d, const json_t *o)
{
    const json_t *message = json_object_get(o, "message");
    json_t *content = json_object_get(message, "content"),
           *calls = json_object_get(message, "tool_calls"), *part;
    if (!json_is_object(message)) {
        return emit_malformed(&d->out, "holds no message");
    }
    json_t *items = logprobs_groups(json_object_get(o, "logprobs"));
    bool ok = emit_meta(&d->out, json_object_get(o, "id"), NULL);
    ok = ok && emit_text(&d->out, DELTA_REASONING, 0, json_object_get(message, "tool_plan"), NULL);
    size_t i;
    json_array_foreach (content, i, part) {
        bool is_text = json_string_length(json_object_get(part, "text")) > 0;
        ok = ok && take_content(d, part, is_text ? items : NULL);
        if (is_text) {
            json_decref(items); /* they belong to the first text */
            items = NULL;
        }
    }
    ok = ok && emit_text(&d->out, DELTA_TEXT, 0, NULL, items);
    json_decref(items);
    json_array_foreach (calls, i, part) {
        ok = ok && take_call(d, i, part);
    }
    return ok && take_end(d, o);
}

static bool on_json(const json_t *o, struct slice event, void *ud)
{
    struct decoder *d = ud;
    struct refusal r;
    if (d->out.is_ended || !o) {
        return true; /* there need not be a [DONE] */
    }
    if (refusal_read(o, &r)) {
        return emit_refused(&d->out, &r);
    }
    return d->out.pieces.is_stream ? take_event(d, o, event) : take_whole(d, o);
}

static bool cohere_decode(struct decoder *d, struct slice piece, delta_fn *fn, void *ud,
                          struct failure *f)
{
    return emit_feed(d, piece, on_json, fn, ud, f);
}

static bool cohere_decode_end(struct decoder *d, delta_fn *fn, void *ud, struct failure *f)
{
    return emit_feed_end(d, on_json, fn, ud, f) &&
           (d->out.is_ended ||
            emit_malformed(&d->out, "ended without a finish reason: it was cut off"));
}

/* 498 is a text that was blocked; elsewhere the same number means a full tier, worth another try.
 */
static void cohere_refusal(int status, struct slice body, const char *retry_after, char param[64],
                           struct failure *f)
{
    refusal_answer(status == 498 ? 400 : status, body, retry_after, param, f);
}

const struct backend backend_cohere = {
    .name = "cohere",
    .encode = cohere_encode,
    .decoder_new = cohere_decoder_new,
    .decoder_free = cohere_decoder_free,
    .decode = cohere_decode,
    .decode_end = cohere_decode_end,
    .refusal = cohere_refusal,
    .shape = cohere_shape,
};
