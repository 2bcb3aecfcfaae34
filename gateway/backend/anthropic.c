/* anthropic.c - the Messages dialect: encode (the conversation itself is turns.c), decode, streams,
 * errors. */
#include "backend.h"
#include "emit.h"
#include "messages.h"
#include "turns.h"

#include <string.h>

/* ---- encode */

/* {"type":"function","function":{name,description,parameters}} -> {name,description,input_schema}.
 * NULL: not a function. */
static json_t *wire_tool(const json_t *tool)
{
    const json_t *function = json_object_get(tool, "function"),
                 *description = json_object_get(function, "description");
    const json_t *name = json_object_get(function, "name"),
                 *schema = json_object_get(function, "parameters");
    if (!backend_is_word(json_object_get(tool, "type"), "function") || !json_is_string(name)) {
        return NULL;
    }
    json_t *out = json_object();
    bool ok = out && json_object_set(out, "name", (json_t *)name) == 0;
    ok = ok && (!json_is_string(description) ||
                json_object_set(out, "description", (json_t *)description) == 0);
    ok = ok && json_object_set_new(out, "input_schema",
                                   json_is_object(schema) ? json_incref((json_t *)schema)
                                                          : json_pack("{s:s,s:{}}", "type",
                                                                      "object", "properties")) == 0;
    if (!ok) {
        json_decref(out);
        return NULL;
    }
    return out;
}

static json_t *wire_tools(const json_t *tools, struct failure *f)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        if (json_array_append_new(out, wire_tool(json_array_get(tools, i))) != 0) {
            (void)failure_set(
                f, 400, "unsupported_content", "tools",
                "tools[%zu]: anthropic dialect: only functions with a name are supported", i);
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static json_t *wire_tool_choice(const json_t *v, struct failure *f)
{
    if (backend_is_word(v, "auto") || backend_is_word(v, "none")) {
        return json_pack("{s:O}", "type", v);
    }
    if (backend_is_word(v, "required")) {
        return json_pack("{s:s}", "type", "any");
    }
    const char *name = json_string_value(json_object_get(json_object_get(v, "function"), "name"));
    if (!name) {
        (void)failure_set(f, 400, "invalid_value", "tool_choice",
                          "must be none, auto, required or one function by its name");
        return NULL;
    }
    return json_pack("{s:s,s:s}", "type", "tool", "name", name);
}

static bool anthropic_shape(const struct call *c, enum param p, json_t **value, const char **path,
                            struct failure *f)
{
    (void)c;
    const json_t *inner;
    switch (p) {
    case PARAM_TOOLS:
        return backend_swap(value, wire_tools(*value, f), f);
    case PARAM_TOOL_CHOICE:
        *path = "tool_choice"; /* whatever part of it the claim names */
        return backend_swap(value, wire_tool_choice(*value, f), f);
    case PARAM_PARALLEL_TOOL_CALLS:
        *path = "tool_choice.disable_parallel_tool_use";
        return backend_swap(value, json_boolean(json_is_false(*value)), f);
    case PARAM_RESPONSE_FORMAT_JSON_SCHEMA:
        inner = json_object_get(*value, "json_schema");
        inner = json_object_get(inner ? inner : *value, "schema");
        return backend_swap(value, json_pack("{s:s,s:O?}", "type", "json_schema", "schema", inner),
                            f);
    default:
        return true;
    }
}

static bool finish_tool_choice(json_t *body, struct failure *f)
{
    json_t *choice = json_object_get(body, "tool_choice");
    if (choice && !json_object_get(body, "tools")) {
        return failure_set(
            f, 400, "invalid_value", "tool_choice",
            "needs tools: leave tool_choice and parallel_tool_calls out, or add tools");
    }
    return !choice || json_object_get(choice, "type") ||
           json_object_set_new(choice, "type", json_string("auto")) == 0;
}

static bool build_body(const struct call *c, json_t *body, struct failure *f)
{
    struct turns t;
    turns_init(&t);
    bool ok =
        turns_build(&t, c, f) && json_object_set_new(body, "model", json_string(c->model)) == 0;
    ok = ok && (t.system.len == 0 ||
                json_object_set_new(body, "system", json_stringn(t.system.p, t.system.len)) == 0);
    ok = ok && json_object_set(body, "messages", t.list) == 0;
    ok = ok && backend_encode_params(c, body, f) && messages_note_strict(c, f) &&
         finish_tool_choice(body, f);
    ok = ok && (!c->stream || json_object_set_new(body, "stream", json_true()) == 0);
    turns_release(&t);
    return ok;
}

static bool anthropic_encode(const struct call *c, struct buf *body, struct headers *h,
                             struct failure *f)
{
    return backend_encode_chat(c, build_body, body, h, f);
}

/* ---- decode */

#define BLOCKS_MAX 256 /* blocks of one answer: text, thinking and calls alternate */

struct decoder {
    struct emitter out;
    bool has_usage, is_finished;
    int64_t input, cache_creation, cache_read, output;
    unsigned n_tools;
    struct {
        bool is_tool, has_arguments;
        unsigned tool;
        json_t *input; /* what the block began with */
    } block[BLOCKS_MAX];
};

static struct decoder *anthropic_decoder_new(enum wire_form form, bool is_chat)
{
    (void)is_chat;
    return emit_new(sizeof(struct decoder), form);
}

static void anthropic_decoder_free(struct decoder *d)
{
    if (d) {
        for (size_t i = 0; i < BLOCKS_MAX; i++) {
            json_decref(d->block[i].input);
        }
    }
    emit_free(d);
}

static bool tell_meta(struct decoder *d, const json_t *message)
{
    return emit_meta(&d->out, json_object_get(message, "id"), json_object_get(message, "model"));
}

static void take_count(struct decoder *d, int64_t *at, const json_t *usage, const char *key)
{
    const json_t *v = json_object_get(usage, key);
    if (json_is_number(v)) {
        *at = backend_count(v); /* cumulative: the last one counts */
        d->has_usage = true;
    }
}

static void take_usage(struct decoder *d, const json_t *usage)
{
    take_count(d, &d->input, usage, "input_tokens");
    take_count(d, &d->cache_creation, usage, "cache_creation_input_tokens");
    take_count(d, &d->cache_read, usage, "cache_read_input_tokens");
    take_count(d, &d->output, usage, "output_tokens");
}

/* Nothing where no number was seen: servers that speak this dialect may leave them out. */
static bool tell_usage(struct decoder *d)
{
    struct usage u = {.is_known = true,
                      .prompt_tokens = d->input + d->cache_creation + d->cache_read,
                      .completion_tokens = d->output,
                      .cached_tokens = d->cache_read};
    return !d->has_usage || emit_usage(&d->out, &u);
}

static bool take_finish(struct decoder *d, const char *word)
{
    if (!word || d->is_finished) {
        return true;
    }
    d->is_finished = true;
    return emit_finish(&d->out, 0, word, false, NULL);
}

/* The block that an event is about, or BLOCKS_MAX. */
static size_t block_of(const json_t *event)
{
    const json_t *index = json_object_get(event, "index");
    json_int_t at = json_is_integer(index) ? json_integer_value(index) : 0;
    return at >= 0 && at < BLOCKS_MAX ? (size_t)at : BLOCKS_MAX;
}

/* A call that brought no arguments: those that its block began with, `{}` as a rule. */
static bool end_block(struct decoder *d, size_t at)
{
    if (!d->block[at].is_tool || d->block[at].has_arguments) {
        return true;
    }
    d->block[at].has_arguments = true;
    return emit_tool_json(&d->out, 0, d->block[at].tool, NULL, NULL, d->block[at].input);
}

static bool start_block(struct decoder *d, size_t at, const json_t *block)
{
    const json_t *type = json_object_get(block, "type");
    if (backend_is_word(type, "text")) {
        return emit_text(&d->out, DELTA_TEXT, 0, json_object_get(block, "text"), NULL);
    }
    if (backend_is_word(type, "thinking")) {
        return emit_text(&d->out, DELTA_REASONING, 0, json_object_get(block, "thinking"), NULL);
    }
    if (!backend_is_word(type, "tool_use")) {
        return true; /* redacted thinking, the provider's own tools */
    }
    const char *id = json_string_value(json_object_get(block, "id")),
               *name = json_string_value(json_object_get(block, "name"));
    d->block[at].is_tool = true;
    d->block[at].has_arguments = false;
    d->block[at].tool = d->n_tools++;
    json_decref(d->block[at].input);
    d->block[at].input = json_incref(json_object_get(block, "input"));
    return emit_tool(&d->out, 0, d->block[at].tool, id ? id : "", name ? name : "", "");
}

static bool take_delta(struct decoder *d, size_t at, const json_t *delta)
{
    const json_t *type = json_object_get(delta, "type"),
                 *json = json_object_get(delta, "partial_json");
    if (backend_is_word(type, "text_delta")) {
        return emit_text(&d->out, DELTA_TEXT, 0, json_object_get(delta, "text"), NULL);
    }
    if (backend_is_word(type, "thinking_delta")) {
        return emit_text(&d->out, DELTA_REASONING, 0, json_object_get(delta, "thinking"), NULL);
    }
    if (!backend_is_word(type, "input_json_delta") || !d->block[at].is_tool ||
        json_string_length(json) == 0) {
        return true; /* signatures, citations; the first piece of arguments is often empty */
    }
    d->block[at].has_arguments = true;
    return emit_tool(&d->out, 0, d->block[at].tool, NULL, NULL, json_string_value(json));
}

static int status_of_type(const char *type)
{
    static const struct {
        const char *type;
        int status;
    } map[] = {
        {"invalid_request_error", 400}, {"authentication_error", 401},
        {"billing_error", 402},         {"permission_error", 403},
        {"not_found_error", 404},       {"request_too_large", 413},
        {"rate_limit_error", 429},      {"api_error", 500},
        {"timeout_error", 504},         {"overloaded_error", 529},
    };
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        if (strcmp(map[i].type, type) == 0) {
            return map[i].status;
        }
    }
    return 0;
}

static bool fail_inside(struct decoder *d, struct refusal *r)
{
    r->status = r->status ? r->status : status_of_type(r->type);
    return emit_refused(&d->out, r);
}

static bool take_event(struct decoder *d, const json_t *o)
{
    const json_t *type = json_object_get(o, "type"), *message = json_object_get(o, "message");
    if (backend_is_word(type, "message_start")) {
        take_usage(d, json_object_get(message, "usage"));
        return tell_meta(d, message);
    }
    if (backend_is_word(type, "message_delta")) {
        take_usage(d, json_object_get(o, "usage"));
        const json_t *reason = json_object_get(json_object_get(o, "delta"), "stop_reason");
        return take_finish(d, json_string_value(reason)) && tell_usage(d);
    }
    if (backend_is_word(type, "message_stop")) {
        return d->is_finished
                   ? emit_end(&d->out)
                   : emit_malformed(&d->out, "ended without a stop reason: it was cut off");
    }
    size_t at = block_of(o);
    if (at == BLOCKS_MAX) {
        return emit_malformed(&d->out, "holds more content blocks than can be");
    }
    if (backend_is_word(type, "content_block_start")) {
        return start_block(d, at, json_object_get(o, "content_block"));
    }
    if (backend_is_word(type, "content_block_delta")) {
        return take_delta(d, at, json_object_get(o, "delta"));
    }
    return !backend_is_word(type, "content_block_stop") ||
           end_block(d, at); /* other events will come: they are passed over */
}

static bool take_whole(struct decoder *d, const json_t *o)
{
    const json_t *content = json_object_get(o, "content");
    if (!json_is_array(content)) {
        return emit_malformed(&d->out, "holds no content");
    }
    if (!tell_meta(d, o)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(content); i++) {
        size_t at = i % BLOCKS_MAX; /* each one ends before the next begins */
        d->block[at].is_tool = false;
        if (!start_block(d, at, json_array_get(content, i)) || !end_block(d, at)) {
            return false;
        }
    }
    const char *word = json_string_value(json_object_get(o, "stop_reason"));
    take_usage(d, json_object_get(o, "usage"));
    return take_finish(d, word ? word : "") && tell_usage(d) && emit_end(&d->out);
}

static bool on_json(const json_t *o, struct slice event, void *ud)
{
    struct decoder *d = ud;
    (void)event; /* the objects say themselves what they are */
    struct refusal r;
    if (d->out.is_ended || !o) {
        return true; /* there is no [DONE] here; a proxy may have added one */
    }
    if (refusal_read(o, &r)) {
        return fail_inside(d, &r);
    }
    return d->out.pieces.is_stream ? take_event(d, o) : take_whole(d, o);
}

static bool anthropic_decode(struct decoder *d, struct slice piece, delta_fn *fn, void *ud,
                             struct failure *f)
{
    return emit_feed(d, piece, on_json, fn, ud, f);
}

static bool anthropic_decode_end(struct decoder *d, delta_fn *fn, void *ud, struct failure *f)
{
    if (!emit_feed_end(d, on_json, fn, ud, f)) {
        return false;
    }
    if (d->out.is_ended) {
        return true;
    }
    return d->is_finished ? emit_end(&d->out)
                          : emit_malformed(&d->out, "ended without a stop reason: it was cut off");
}

/* A switch of calls stands in the object that says how they are chosen: "auto" where nobody did. */
static const char *const anthropic_own_paths[] = {"tool_choice.type", NULL};

const struct backend backend_anthropic = {
    .name = "anthropic",
    .encode = anthropic_encode,
    .decoder_new = anthropic_decoder_new,
    .decoder_free = anthropic_decoder_free,
    .decode = anthropic_decode,
    .decode_end = anthropic_decode_end,
    .refusal = refusal_answer,
    .shape = anthropic_shape,
    .own_paths = anthropic_own_paths,
};
