/* mock_ollama.c - Ollama's /api/chat. A stream is the default; it is one JSON object a line, and
 * the last one says done and carries the counts.
 */
#include "mock_parts.h"

#include <string.h>

static void ollama_read(const struct mock_request *r, struct mock_wish *wish)
{
    const json_t *format = json_object_get(r->body, "format");
    const json_t *think = json_object_get(r->body, "think");
    wish->stream = !json_is_false(json_object_get(r->body, "stream"));
    wish->wants_usage = true;
    wish->limit = mock_get_int(r->body, "options.num_predict");
    wish->limit = wish->limit > 0 ? wish->limit : 0; /* -1: none, -2: until the context is full */
    wish->stops = mock_get(r->body, "options.stop");
    wish->reasons = json_is_true(think) || json_is_string(think);
    wish->is_json = json_is_object(format) || json_is_string(format);
    wish->schema = json_is_object(format) ? format : NULL;
    if (mock_get_bool(r->body, "logprobs")) {
        wish->n_top = (int)mock_get_int(r->body, "top_logprobs");
    }
    mock_parts_read_tools(json_object_get(r->body, "tools"), NULL, wish);
}

/* ---- an answer */

static json_t *calls_of(const struct mock_answer *a)
{
    json_t *calls = json_array();
    for (size_t i = 0; i < a->n_calls; i++) {
        json_t *f = json_pack("{s:i,s:s,s:o}", "index", (int)i, "name", a->call[i].name,
                              "arguments", mock_arguments(&a->call[i]));
        (void)json_array_append_new(
            calls,
            json_pack("{s:o,s:o}", "id", json_sprintf("call_%s", a->call[i].id), "function", f));
    }
    return calls;
}

static json_t *object_of(const struct mock_answer *a, json_t *message, bool is_done)
{
    return json_pack("{s:s,s:s,s:o,s:b}", "model", a->model, "created_at",
                     "2026-09-21T13:46:40.100000Z", "message", message, "done", is_done);
}

static void add_end(const struct mock_answer *a, json_t *o)
{
    (void)json_object_set_new(o, "done_reason",
                              json_string(a->finish == MOCK_LENGTH ? "length" : "stop"));
    (void)json_object_set_new(o, "total_duration", json_integer(174560334)); /* nanoseconds */
    (void)json_object_set_new(o, "load_duration", json_integer(101397084));
    if (a->has_usage) {
        (void)json_object_set_new(o, "prompt_eval_count", json_integer(a->prompt_tokens));
        (void)json_object_set_new(o, "prompt_eval_duration", json_integer(13074791));
        (void)json_object_set_new(o, "eval_count", json_integer(a->completion_tokens));
        (void)json_object_set_new(o, "eval_duration", json_integer(52479709));
    }
}

static void add_logprobs(const struct mock_answer *a, size_t from, size_t n, json_t *o)
{
    json_t *tokens = json_array();
    for (size_t i = from; i < from + n; i++) {
        (void)json_array_append_new(tokens, mock_parts_token(a, i));
    }
    (void)json_object_set_new(o, "logprobs", tokens);
}

static void ollama_whole(const struct mock_answer *a, struct buf *out)
{
    json_t *message = json_pack("{s:s,s:o}", "role", "assistant", "content",
                                mock_parts_text(a->word, a->n_words));
    if (a->n_reasoning > 0) {
        (void)json_object_set_new(message, "thinking",
                                  mock_parts_text(a->reasoning, a->n_reasoning));
    }
    if (a->n_calls > 0) {
        (void)json_object_set_new(message, "tool_calls", calls_of(a));
    }
    json_t *o = object_of(a, message, true);
    add_end(a, o);
    if (a->n_top >= 0) {
        add_logprobs(a, 0, a->n_words, o);
    }
    mock_put(out, o);
}

static bool ollama_event(const struct mock_answer *a, size_t i, struct buf *out)
{
    enum { THINKING, WORDS, CALLS, END, N_PHASES };
    const size_t phases[N_PHASES] = {
        [THINKING] = a->n_reasoning, [WORDS] = a->n_words, [CALLS] = a->n_calls > 0, [END] = 1};
    struct mock_place at;
    if (!mock_parts_place(phases, N_PHASES, i, &at)) {
        return false;
    }
    json_t *message = json_pack("{s:s,s:s}", "role", "assistant", "content",
                                at.phase == WORDS ? a->word[at.at] : "");
    if (at.phase == THINKING) {
        (void)json_object_set_new(message, "thinking", json_string(a->reasoning[at.at]));
    }
    if (at.phase == CALLS) {
        (void)json_object_set_new(message, "tool_calls", calls_of(a));
    }
    json_t *o = object_of(a, message, at.phase == END);
    if (at.phase == END) {
        add_end(a, o);
    }
    if (at.phase == WORDS && a->n_top >= 0) {
        add_logprobs(a, at.at, 1, o);
    }
    mock_put(out, o);
    (void)buf_puts(out, "\n");
    return true;
}

/* ---- errors */

static json_t *error_text(const struct mock_error *e)
{
    bool is_option = strncmp(e->param, "options.", 8) == 0;
    if (e->fault == MOCK_FAULT_NO_ADDRESS && e->model) {
        return json_sprintf("model '%s' not found", e->model);
    }
    if (e->fault == MOCK_FAULT_TYPE && is_option) {
        return json_sprintf("option \"%s\" must be of type %s", mock_parts_leaf(e->param),
                            strcmp(e->limit, "number") == 0 ? "float32" : e->limit);
    }
    return json_string(e->message);
}

static void ollama_error(const struct mock_error *e, struct buf *out)
{
    mock_put(out, json_pack("{s:o}", "error", error_text(e)));
    (void)buf_puts(out, e->in_stream ? "\n" : "");
}

static const char *const fields[] = {
    "model",      "messages", "tools",        "format",   "options", "stream", "think",
    "keep_alive", "logprobs", "top_logprobs", "truncate", "shift",   NULL};

const struct mock_dialect mock_dialect_ollama = {.name = "ollama",
                                                 .stop_is_list = true,
                                                 .content_type = "application/x-ndjson",
                                                 .no_retry_after = true,
                                                 .fields = fields,
                                                 .read = ollama_read,
                                                 .whole = ollama_whole,
                                                 .event = ollama_event,
                                                 .error = ollama_error};
