/* mock_cohere.c - Cohere's v2 chat. What is said before calls is the tool plan. In a stream
 * `content` and `tool_calls` of a delta are objects, not lists, and no [DONE] ends it.
 */
#include "mock_parts.h"

#include <string.h>

static void cohere_read(const struct mock_request *r, struct mock_wish *wish)
{
    const char *format = mock_get_string(r->body, "response_format.type");
    const char *thinking = mock_get_string(r->body, "thinking.type");
    wish->stream = mock_get_bool(r->body, "stream");
    wish->wants_usage = true;
    wish->limit = mock_get_int(r->body, "max_tokens");
    wish->stops = json_object_get(r->body, "stop_sequences");
    wish->n_top = mock_get_bool(r->body, "logprobs") ? 0 : -1;
    wish->reasons = thinking && strcmp(thinking, "enabled") == 0;
    wish->is_json = format && strcmp(format, "json_object") == 0;
    wish->schema = mock_get(r->body, "response_format.json_schema");
    mock_parts_read_tools(json_object_get(r->body, "tools"),
                          json_object_get(r->body, "tool_choice"), wish);
}

/* ---- an answer */

static const char *const finish_words[] = {[MOCK_STOP] = "COMPLETE",
                                           [MOCK_LENGTH] = "MAX_TOKENS",
                                           [MOCK_STOP_STRING] = "STOP_SEQUENCE",
                                           [MOCK_TOOLS] = "TOOL_CALL",
                                           [MOCK_FILTER] = "COMPLETE"};

/* What is billed leaves out the template that the model saw; both are floats in their schema. */
static json_t *usage_of(const struct mock_answer *a)
{
    int billed = a->prompt_tokens > 3 ? a->prompt_tokens - 3 : a->prompt_tokens;
    json_t *o = json_pack("{s:{s:i,s:i},s:{s:i,s:i}}", "billed_units", "input_tokens", billed,
                          "output_tokens", a->completion_tokens, "tokens", "input_tokens",
                          a->prompt_tokens, "output_tokens", a->completion_tokens);
    if (a->cached_tokens > 0) {
        (void)json_object_set_new(o, "cached_tokens", json_integer(a->cached_tokens));
    }
    return o;
}

static json_t *logprobs_of(const struct mock_answer *a, size_t i)
{
    return json_pack("{s:s,s:[i],s:[f]}", "text", a->word[i], "token_ids",
                     mock_token_id(a->word[i]), "logprobs", mock_logprob(a, i, 0));
}

static json_t *call_of(const struct mock_call *c, bool is_whole)
{
    return json_pack("{s:o,s:s,s:{s:s,s:s}}", "id", json_sprintf("%s_%s", c->name, c->id), "type",
                     "function", "function", "name", c->name, "arguments",
                     is_whole ? c->arguments : "");
}

static json_t *message_of(const struct mock_answer *a)
{
    json_t *message = json_pack("{s:s}", "role", "assistant"), *content = json_array();
    if (a->n_reasoning > 0) {
        json_t *text = mock_parts_text(a->reasoning, a->n_reasoning);
        (void)json_array_append_new(content,
                                    json_pack("{s:s,s:o}", "type", "thinking", "thinking", text));
    }
    if (a->n_calls == 0) {
        json_t *text = mock_parts_text(a->word, a->n_words);
        (void)json_array_append_new(content, json_pack("{s:s,s:o}", "type", "text", "text", text));
    }
    if (json_array_size(content) > 0) {
        (void)json_object_set(message, "content", content);
    }
    json_decref(content);
    if (a->n_calls > 0) {
        json_t *calls = json_array();
        for (size_t i = 0; i < a->n_calls; i++) {
            (void)json_array_append_new(calls, call_of(&a->call[i], true));
        }
        (void)json_object_set_new(message, "tool_plan", mock_parts_text(a->word, a->n_words));
        (void)json_object_set_new(message, "tool_calls", calls);
    }
    return message;
}

static void cohere_whole(const struct mock_answer *a, struct buf *out)
{
    char id[MOCK_UUID_LEN];
    mock_parts_uuid(a->id, 1, id);
    json_t *o = json_pack("{s:s,s:o,s:s}", "id", id, "message", message_of(a), "finish_reason",
                          finish_words[a->finish]);
    if (a->has_usage) {
        (void)json_object_set_new(o, "usage", usage_of(a));
    }
    if (a->n_top >= 0) {
        json_t *groups = json_array();
        for (size_t i = 0; i < a->n_words; i++) {
            (void)json_array_append_new(groups, logprobs_of(a, i));
        }
        (void)json_object_set_new(o, "logprobs", groups);
    }
    mock_put(out, o);
}

/* ---- events */

/* {"type", "index", "delta": {"message": message}}; NULL message: no delta. Yours. */
static json_t *event_of(const char *type, size_t index, json_t *message)
{
    json_t *o = json_pack("{s:s,s:i}", "type", type, "index", (int)index);
    if (message) {
        (void)json_object_set_new(o, "delta", json_pack("{s:o}", "message", message));
    }
    return o;
}

static void put_start(const struct mock_answer *a, struct buf *out)
{
    char id[MOCK_UUID_LEN];
    mock_parts_uuid(a->id, 1, id);
    mock_put_event(out, "message-start",
                   json_pack("{s:s,s:s,s:{s:{s:s,s:[],s:s,s:[],s:[]}}}", "id", id, "type",
                             "message-start", "delta", "message", "role", "assistant", "content",
                             "tool_plan", "", "tool_calls", "citations"));
}

/* A block of text or thinking: start, n pieces, end. */
static void put_content(const struct mock_answer *a, bool is_thinking, size_t at, struct buf *out)
{
    const char *key = is_thinking ? "thinking" : "text";
    const char *const *word = is_thinking ? a->reasoning : a->word;
    size_t n = is_thinking ? a->n_reasoning : a->n_words;
    size_t index = !is_thinking && a->n_reasoning > 0;
    if (at == 0) {
        mock_put_event(out, "content-start",
                       event_of("content-start", index,
                                json_pack("{s:{s:s,s:s}}", "content", "type", key, key, "")));
    } else if (at == n + 1) {
        mock_put_event(out, "content-end", event_of("content-end", index, NULL));
    } else {
        json_t *o =
            event_of("content-delta", index, json_pack("{s:{s:s}}", "content", key, word[at - 1]));
        if (!is_thinking && a->n_top >= 0) {
            (void)json_object_set_new(o, "logprobs", logprobs_of(a, at - 1));
        }
        mock_put_event(out, "content-delta", o);
    }
}

static void put_plan(const struct mock_answer *a, size_t at, struct buf *out)
{
    mock_put_event(out, "tool-plan-delta",
                   json_pack("{s:s,s:{s:{s:s}}}", "type", "tool-plan-delta", "delta", "message",
                             "tool_plan", a->word[at]));
}

#define CALL_EVENTS 4 /* start, two halves of the arguments, end */
static void put_call(const struct mock_answer *a, size_t at, struct buf *out)
{
    size_t index = at / CALL_EVENTS, step = at % CALL_EVENTS;
    const struct mock_call *c = &a->call[index];
    if (step == 0) {
        mock_put_event(out, "tool-call-start",
                       event_of("tool-call-start", index,
                                json_pack("{s:o}", "tool_calls", call_of(c, false))));
    } else if (step < CALL_EVENTS - 1) {
        json_t *call =
            json_pack("{s:{s:o}}", "function", "arguments", mock_parts_half(c, step == 2));
        mock_put_event(out, "tool-call-delta",
                       event_of("tool-call-delta", index, json_pack("{s:o}", "tool_calls", call)));
    } else {
        mock_put_event(out, "tool-call-end", event_of("tool-call-end", index, NULL));
    }
}

static void put_end(const struct mock_answer *a, struct buf *out)
{
    json_t *delta = json_pack("{s:s}", "finish_reason", finish_words[a->finish]);
    if (a->has_usage) {
        (void)json_object_set_new(delta, "usage", usage_of(a));
    }
    mock_put_event(out, "message-end",
                   json_pack("{s:s,s:o}", "type", "message-end", "delta", delta));
}

static bool cohere_event(const struct mock_answer *a, size_t i, struct buf *out)
{
    enum { START, THINKING, TEXT, PLAN, CALLS, END, N_PHASES };
    bool calls = a->n_calls > 0;
    const size_t phases[N_PHASES] = {[START] = 1,
                                     [THINKING] = a->n_reasoning > 0 ? a->n_reasoning + 2 : 0,
                                     [TEXT] = calls ? 0 : a->n_words + 2,
                                     [PLAN] = calls ? a->n_words : 0,
                                     [CALLS] = CALL_EVENTS * a->n_calls,
                                     [END] = 1};
    struct mock_place at;
    if (!mock_parts_place(phases, N_PHASES, i, &at)) {
        return false;
    }
    switch (at.phase) {
    case START:
        put_start(a, out);
        break;
    case THINKING:
        put_content(a, true, at.at, out);
        break;
    case TEXT:
        put_content(a, false, at.at, out);
        break;
    case PLAN:
        put_plan(a, at.at, out);
        break;
    case CALLS:
        put_call(a, at.at, out);
        break;
    default:
        put_end(a, out);
    }
    return true;
}

/* ---- errors */

static int cohere_status(const struct mock_error *e)
{
    return e->fault == MOCK_FAULT_UNKNOWN ? 422 : 0;
}

static json_t *error_text(const struct mock_error *e)
{
    const char *leaf = mock_parts_leaf(e->param);
    bool is_of_range = e->fault == MOCK_FAULT_ABOVE || e->fault == MOCK_FAULT_BELOW;
    if (e->fault == MOCK_FAULT_UNKNOWN) {
        return json_sprintf("unknown field: parameter '%s' is not a valid field. For proper "
                            "usage, please refer to https://docs.cohere.com/reference/chat",
                            leaf);
    }
    if (e->fault == MOCK_FAULT_CONFLICT) {
        bool swaps = strcmp(leaf, e->limit) < 0;
        return json_sprintf("invalid request: cannot specify both %s and %s",
                            swaps ? leaf : e->limit, swaps ? e->limit : leaf);
    }
    if (is_of_range && strcmp(leaf, "temperature") == 0) {
        return json_string("invalid request: temperature must be between 0 and 1.0 inclusive");
    }
    return e->fault == MOCK_FAULT_STATUS ? json_string(e->message)
                                         : json_sprintf("invalid request: %s", e->message);
}

/* A stream has no event of its own for it: it ends with the reason ERROR. */
static void cohere_error(const struct mock_error *e, struct buf *out)
{
    char id[MOCK_UUID_LEN];
    mock_parts_uuid(e->id, 1, id);
    if (e->in_stream) {
        mock_put_event(out, "message-end",
                       json_pack("{s:s,s:{s:s,s:o}}", "type", "message-end", "delta",
                                 "finish_reason", "ERROR", "error", error_text(e)));
        return;
    }
    mock_put(out, json_pack("{s:s,s:o}", "id", id, "message", error_text(e)));
}

static void cohere_headers(const struct mock_answer *a, const struct mock_error *e,
                           struct mock_headers *h)
{
    char id[MOCK_UUID_LEN];
    mock_parts_uuid(a ? a->id : e->id, 2, id);
    mock_header(h, "x-debug-trace-id", "%s", id);
}

static const char *const fields[] = {
    "model",       "messages",         "tools",       "strict_tools",
    "documents",   "citation_options", "safety_mode", "response_format",
    "tool_choice", "thinking",         "priority",    "stream",
    NULL};

const struct mock_dialect mock_dialect_cohere = {.name = "cohere",
                                                 .stop_is_list = true,
                                                 .content_type = "text/event-stream",
                                                 .no_retry_after = true,
                                                 .fields = fields,
                                                 .read = cohere_read,
                                                 .status = cohere_status,
                                                 .whole = cohere_whole,
                                                 .event = cohere_event,
                                                 .error = cohere_error,
                                                 .headers = cohere_headers};
