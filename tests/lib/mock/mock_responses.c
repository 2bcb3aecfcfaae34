/* mock_responses.c - the Responses API: items; a stream of numbered, named events that ends with
 * response.completed and nothing else.
 *
 * Items of an answer in order: reasoning (a summary), the message, one for each call. Each is a run
 * of events; the sequence number is the event's own index.
 */
#include "mock_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const fields[] = {"model",
                                     "input",
                                     "instructions",
                                     "stream",
                                     "tools",
                                     "tool_choice",
                                     "text",
                                     "reasoning",
                                     "include",
                                     "conversation",
                                     "store",
                                     "background",
                                     "prompt",
                                     "truncation",
                                     "previous_response_id",
                                     "metadata",
                                     "max_tool_calls",
                                     "context_management",
                                     "stream_options",
                                     "service_tier",
                                     "prompt_cache_retention",
                                     "models",
                                     "preset",
                                     "max_steps",
                                     "response_format",
                                     "language_preference",
                                     "user",
                                     "moderation",
                                     "prompt_cache_options",
                                     NULL};

static bool includes_logprobs(const json_t *body)
{
    const json_t *include = mock_get(body, "include");
    for (size_t i = 0; i < json_array_size(include); i++) {
        const char *s = json_string_value(json_array_get(include, i));
        if (s && strcmp(s, "message.output_text.logprobs") == 0) {
            return true;
        }
    }
    return false;
}

static void read_tools(const json_t *body, struct mock_wish *w)
{
    const json_t *tools = mock_get(body, "tools"), *choice = mock_get(body, "tool_choice");
    const json_t *input = mock_get(body, "input");
    const char *word = json_string_value(choice);
    const char *last = mock_get_string(json_array_get(input, json_array_size(input) - 1), "type");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *t = json_array_get(tools, i);
        const char *type = mock_get_string(t, "type");
        if (type && strcmp(type, "function") == 0) {
            mock_wish_function(w, mock_get_string(t, "name"), mock_get(t, "parameters"));
        }
    }
    if (json_is_object(choice)) {
        mock_wish_only(w, mock_get_string(choice, "name"));
    }
    w->is_forced = w->is_forced || (word && strcmp(word, "required") == 0);
    w->is_barred = (word && strcmp(word, "none") == 0) ||
                   (!w->is_forced && last && strcmp(last, "function_call_output") == 0);
    w->is_single = json_is_false(mock_get(body, "parallel_tool_calls"));
}

static void read_request(const struct mock_request *r, struct mock_wish *w)
{
    const json_t *b = r->body, *top = mock_get(b, "top_logprobs");
    const char *format = mock_get_string(b, "text.format.type");
    const char *effort = mock_get_string(b, "reasoning.effort");
    w->stream = mock_get_bool(b, "stream");
    w->wants_usage = true;
    w->limit = mock_get_int(b, "max_output_tokens");
    w->n_top =
        includes_logprobs(b) || json_integer_value(top) > 0 ? (int)json_integer_value(top) : -1;
    w->reasons = (effort && strcmp(effort, "none") != 0) || mock_get(b, "reasoning.summary");
    w->is_json = format && strcmp(format, "json_object") == 0;
    if (format && strcmp(format, "json_schema") == 0) {
        w->schema = mock_get(b, "text.format.schema");
        w->is_json = true;
    }
    read_tools(b, w);
}

/* ---- parts */

static json_t *token_json(const struct mock_answer *a, size_t i, size_t k)
{
    const char *token = mock_alternative(a, i, k);
    return json_pack("{s:s,s:o,s:f}", "token", token, "bytes", mock_bytes(token), "logprob",
                     mock_logprob(a, i, k));
}

static json_t *logprobs(const struct mock_answer *a, size_t from, size_t to)
{
    json_t *list = json_array();
    for (size_t i = from; a->n_top >= 0 && i < to; i++) {
        json_t *entry = token_json(a, i, 0), *top = json_array();
        for (int k = 0; k < a->n_top; k++) {
            (void)json_array_append_new(top, token_json(a, i, (size_t)k));
        }
        (void)json_object_set_new(entry, "top_logprobs", top);
        (void)json_array_append_new(list, entry);
    }
    return list;
}

static json_t *part(const struct mock_answer *a, bool is_done)
{
    if (a->refusal) {
        return json_pack("{s:s,s:s}", "type", "refusal", "refusal", is_done ? a->refusal : "");
    }
    return json_pack("{s:s,s:[],s:o,s:o}", "type", "output_text", "annotations", "logprobs",
                     is_done ? logprobs(a, 0, a->n_words) : json_array(), "text",
                     is_done ? mock_parts_text(a->word, a->n_words) : json_string(""));
}

static const char *status_of(const struct mock_answer *a)
{
    return a->finish == MOCK_LENGTH || a->finish == MOCK_FILTER ? "incomplete" : "completed";
}

static void item_id(const struct mock_answer *a, const char *prefix, size_t i, char out[64])
{
    (void)snprintf(out, 64, "%s_%s%zu", prefix, a->id, i);
}

static json_t *message_item(const struct mock_answer *a, bool is_done)
{
    char id[64];
    item_id(a, "msg", 0, id);
    return json_pack("{s:s,s:s,s:s,s:o,s:s}", "id", id, "type", "message", "status",
                     is_done ? status_of(a) : "in_progress", "content",
                     is_done ? json_pack("[o]", part(a, true)) : json_array(), "role", "assistant");
}

static json_t *reasoning_item(const struct mock_answer *a, bool is_done)
{
    char id[64];
    item_id(a, "rs", 0, id);
    return json_pack("{s:s,s:s,s:o}", "id", id, "type", "reasoning", "summary",
                     is_done ? json_pack("[{s:s,s:o}]", "type", "summary_text", "text",
                                         mock_parts_text(a->reasoning, a->n_reasoning))
                             : json_array());
}

static json_t *call_item(const struct mock_answer *a, size_t i, bool is_done)
{
    char id[64], call_id[64];
    item_id(a, "fc", i, id);
    (void)snprintf(call_id, sizeof call_id, "call_%s", a->call[i].id);
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s}", "id", id, "type", "function_call", "status",
                     is_done ? "completed" : "in_progress", "arguments",
                     is_done ? a->call[i].arguments : "", "call_id", call_id, "name",
                     a->call[i].name);
}

static bool has_message(const struct mock_answer *a)
{
    return a->n_words > 0 || a->n_calls == 0;
}

static json_t *output(const struct mock_answer *a)
{
    json_t *list = json_array();
    if (a->n_reasoning > 0) {
        (void)json_array_append_new(list, reasoning_item(a, true));
    }
    if (has_message(a)) {
        (void)json_array_append_new(list, message_item(a, true));
    }
    for (size_t i = 0; i < a->n_calls; i++) {
        (void)json_array_append_new(list, call_item(a, i, true));
    }
    return list;
}

static json_t *usage(const struct mock_answer *a)
{
    return json_pack("{s:i,s:{s:i,s:i},s:i,s:{s:i},s:i}", "input_tokens", a->prompt_tokens,
                     "input_tokens_details", "cached_tokens", a->cached_tokens,
                     "cache_write_tokens", 0, "output_tokens", a->completion_tokens,
                     "output_tokens_details", "reasoning_tokens", a->reasoning_tokens,
                     "total_tokens", a->prompt_tokens + a->completion_tokens);
}

static json_t *incomplete(const struct mock_answer *a)
{
    return a->finish == MOCK_LENGTH   ? json_pack("{s:s}", "reason", "max_output_tokens")
           : a->finish == MOCK_FILTER ? json_pack("{s:s}", "reason", "content_filter")
                                      : json_null();
}

/* items is taken over. */
static json_t *response(const struct mock_answer *a, const char *status, json_t *items)
{
    char id[48];
    bool is_done = strcmp(status, "in_progress") != 0;
    (void)snprintf(id, sizeof id, "resp_%s", a->id);
    json_t *o =
        json_pack("{s:s,s:s,s:i,s:s,s:b,s:o,s:n,s:o,s:n,s:n,s:n,s:s,s:o}", "id", id, "object",
                  "response", "created_at", MOCK_CREATED, "status", status, "background", 0,
                  "completed_at", is_done ? json_integer(MOCK_CREATED + 1) : json_null(), "error",
                  "incomplete_details", is_done ? incomplete(a) : json_null(), "instructions",
                  "max_output_tokens", "max_tool_calls", "model", a->model, "output", items);
    json_t *rest = json_pack(
        "{s:b,s:n,s:n,s:{s:n,s:n},s:n,s:s,s:b,s:f,s:{s:{s:s},s:s},s:s,s:[],s:i,s:f,s:s,s:o,s:n,"
        "s:{}}",
        "parallel_tool_calls", 1, "previous_response_id", "prompt_cache_key", "reasoning", "effort",
        "summary", "safety_identifier", "service_tier", "default", "store", 0, "temperature", 1.0,
        "text", "format", "type", "text", "verbosity", "medium", "tool_choice", "auto", "tools",
        "top_logprobs", a->n_top > 0 ? a->n_top : 0, "top_p", 1.0, "truncation", "disabled",
        "usage", is_done && a->has_usage ? usage(a) : json_null(), "user", "metadata");
    (void)json_object_update(o, rest);
    json_decref(rest);
    return o;
}

static void whole(const struct mock_answer *a, struct buf *out)
{
    mock_put(out, response(a, status_of(a), output(a)));
}

/* ---- stream */

/* Completes an event with its name and number, and writes it. */
static void put(struct buf *out, const char *type, size_t number, json_t *rest)
{
    json_t *o = json_pack("{s:s,s:i}", "type", type, "sequence_number", (int)number);
    (void)json_object_update(o, rest);
    json_decref(rest);
    mock_put_event(out, type, o);
}

static json_t *in_item(const char *id, size_t index)
{
    return json_pack("{s:s,s:i}", "item_id", id, "output_index", (int)index);
}

static json_t *with_item(json_t *item, size_t index)
{
    return json_pack("{s:i,s:o}", "output_index", (int)index, "item", item);
}

/* added, part.added, words, text.done, part.done, item.done */
static void put_message(const struct mock_answer *a, size_t i, size_t index, size_t number,
                        struct buf *out)
{
    char id[64];
    size_t n = a->refusal ? 1 : a->n_words;
    item_id(a, "msg", 0, id);
    if (i == 0) {
        put(out, "response.output_item.added", number, with_item(message_item(a, false), index));
        return;
    }
    if (i == n + 4) {
        put(out, "response.output_item.done", number, with_item(message_item(a, true), index));
        return;
    }
    json_t *o = in_item(id, index);
    (void)json_object_set_new(o, "content_index", json_integer(0));
    if (i == 1 || i == n + 3) {
        (void)json_object_set_new(o, "part", part(a, i != 1));
        put(out, i == 1 ? "response.content_part.added" : "response.content_part.done", number, o);
    } else if (a->refusal) {
        (void)json_object_set_new(o, i == 2 ? "delta" : "refusal", json_string(a->refusal));
        put(out, i == 2 ? "response.refusal.delta" : "response.refusal.done", number, o);
    } else if (i < n + 2) {
        (void)json_object_set_new(o, "delta", json_string(a->word[i - 2]));
        (void)json_object_set_new(o, "logprobs", logprobs(a, i - 2, i - 1));
        put(out, "response.output_text.delta", number, o);
    } else {
        (void)json_object_set_new(o, "text", mock_parts_text(a->word, a->n_words));
        (void)json_object_set_new(o, "logprobs", logprobs(a, 0, a->n_words));
        put(out, "response.output_text.done", number, o);
    }
}

/* added, summary part.added, words, text.done, part.done, item.done */
static void put_reasoning(const struct mock_answer *a, size_t i, size_t index, size_t number,
                          struct buf *out)
{
    char id[64];
    size_t n = a->n_reasoning;
    item_id(a, "rs", 0, id);
    if (i == 0 || i == n + 4) {
        put(out, i == 0 ? "response.output_item.added" : "response.output_item.done", number,
            with_item(reasoning_item(a, i != 0), index));
        return;
    }
    json_t *o = in_item(id, index);
    (void)json_object_set_new(o, "summary_index", json_integer(0));
    if (i == 1 || i == n + 3) {
        (void)json_object_set_new(
            o, "part",
            json_pack("{s:s,s:o}", "type", "summary_text", "text",
                      i == 1 ? json_string("") : mock_parts_text(a->reasoning, a->n_reasoning)));
        put(out,
            i == 1 ? "response.reasoning_summary_part.added"
                   : "response.reasoning_summary_part.done",
            number, o);
    } else if (i < n + 2) {
        (void)json_object_set_new(o, "delta", json_string(a->reasoning[i - 2]));
        put(out, "response.reasoning_summary_text.delta", number, o);
    } else {
        (void)json_object_set_new(o, "text", mock_parts_text(a->reasoning, a->n_reasoning));
        put(out, "response.reasoning_summary_text.done", number, o);
    }
}

#define CALL_EVENTS 5 /* added, two pieces, arguments.done, item.done */

static void put_call(const struct mock_answer *a, size_t call, size_t i, size_t index,
                     size_t number, struct buf *out)
{
    char id[64];
    const char *arguments = a->call[call].arguments;
    size_t half = strlen(arguments) / 2;
    while (((unsigned char)arguments[half] & 0xC0) == 0x80) {
        half++;
    }
    item_id(a, "fc", call, id);
    if (i == 0 || i == CALL_EVENTS - 1) {
        put(out, i == 0 ? "response.output_item.added" : "response.output_item.done", number,
            with_item(call_item(a, call, i != 0), index));
        return;
    }
    json_t *o = in_item(id, index);
    if (i == 3) {
        (void)json_object_set_new(o, "arguments", json_string(arguments));
        put(out, "response.function_call_arguments.done", number, o);
        return;
    }
    char *piece = i == 1 ? strndup(arguments, half) : strdup(arguments + half);
    (void)json_object_set_new(o, "delta", json_string(piece ? piece : ""));
    free(piece);
    put(out, "response.function_call_arguments.delta", number, o);
}

static bool put_frame(const struct mock_answer *a, const char *type, const char *status,
                      json_t *items, size_t number, struct buf *out)
{
    put(out, type, number, json_pack("{s:o}", "response", response(a, status, items)));
    return true;
}

static bool event(const struct mock_answer *a, size_t i, struct buf *out)
{
    const size_t number = i;
    size_t n_reasoning = a->n_reasoning > 0 ? a->n_reasoning + 5 : 0, index = 0;
    size_t n_message = has_message(a) ? (a->refusal ? 1 : a->n_words) + 5 : 0;
    if (i < 2) {
        return put_frame(a, i == 0 ? "response.created" : "response.in_progress", "in_progress",
                         json_array(), number, out);
    }
    i -= 2;
    if (i < n_reasoning) {
        put_reasoning(a, i, index, number, out);
        return true;
    }
    i -= n_reasoning;
    index += n_reasoning > 0;
    if (i < n_message) {
        put_message(a, i, index, number, out);
        return true;
    }
    i -= n_message;
    index += n_message > 0;
    if (i < CALL_EVENTS * a->n_calls) {
        size_t call = i / CALL_EVENTS;
        put_call(a, call, i % CALL_EVENTS, index + call, number, out);
        return true;
    }
    i -= CALL_EVENTS * a->n_calls;
    bool is_whole = strcmp(status_of(a), "completed") == 0;
    return i == 0 && put_frame(a, is_whole ? "response.completed" : "response.incomplete",
                               status_of(a), output(a), number, out);
}

/* ---- errors: those of mock_openai, but in a stream */

static void error(const struct mock_error *e, struct buf *out)
{
    if (!e->in_stream) {
        mock_dialect_openai.error(e, out);
        return;
    }
    char id[48];
    (void)snprintf(id, sizeof id, "resp_%s", e->id);
    put(out, "error", 4,
        json_pack("{s:{s:s,s:n,s:s,s:n}}", "error", "type", "server_error", "code", "message",
                  e->message, "param"));
    put(out, "response.failed", 5,
        json_pack("{s:{s:s,s:s,s:i,s:s,s:{s:s,s:s},s:n,s:s,s:[],s:n}}", "response", "id", id,
                  "object", "response", "created_at", MOCK_CREATED, "status", "failed", "error",
                  "code", "server_error", "message", e->message, "incomplete_details", "model",
                  e->model ? e->model : "", "output", "usage"));
}

const struct mock_dialect mock_dialect_responses = {.name = "responses",
                                                    .content_type = "text/event-stream",
                                                    .ping = ": keep-alive\n\n",
                                                    .has_refusal = true,
                                                    .fields = fields,
                                                    .read = read_request,
                                                    .whole = whole,
                                                    .event = event,
                                                    .error = error};
