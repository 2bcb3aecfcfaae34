/* mock_anthropic.c - the Messages API: blocks; a stream of named events.
 *
 * Blocks of an answer in order: thinking, text, one for each call. Each is a run of events (start,
 * deltas, stop) between message_start and message_delta, message_stop; a run's place is found by
 * adding lengths up, so nothing is kept between events.
 */
#include "mock_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIGNATURE "U2FtcGxlU2lnbmF0dXJlQnl0ZXM="

static const char *const fields[] = {
    "model",         "messages",      "system",      "max_tokens",         "stream",
    "tools",         "tool_choice",   "metadata",    "thinking",           "output_config",
    "service_tier",  "container",     "mcp_servers", "context_management", "inference_geo",
    "cache_control", "output_format", NULL};

static void read_tools(const json_t *body, struct mock_wish *w)
{
    const json_t *tools = mock_get(body, "tools");
    const char *type = mock_get_string(body, "tool_choice.type");
    const json_t *messages = mock_get(body, "messages");
    const json_t *content =
        mock_get(json_array_get(messages, json_array_size(messages) - 1), "content");
    bool has_result = false;
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *t = json_array_get(tools, i);
        mock_wish_function(w, mock_get_string(t, "name"), mock_get(t, "input_schema"));
    }
    for (size_t i = 0; i < json_array_size(content); i++) {
        const char *block = mock_get_string(json_array_get(content, i), "type");
        has_result = has_result || (block && strcmp(block, "tool_result") == 0);
    }
    if (type && strcmp(type, "tool") == 0) {
        mock_wish_only(w, mock_get_string(body, "tool_choice.name"));
    }
    w->is_forced = w->is_forced || (type && strcmp(type, "any") == 0);
    w->is_barred = (type && strcmp(type, "none") == 0) || (!w->is_forced && has_result);
    w->is_single = mock_get_bool(body, "tool_choice.disable_parallel_tool_use");
}

static void read_request(const struct mock_request *r, struct mock_wish *w)
{
    const json_t *b = r->body;
    const char *thinking = mock_get_string(b, "thinking.type");
    const json_t *format = mock_get(b, "output_config.format");
    format = format ? format : mock_get(b, "output_format");
    w->stream = mock_get_bool(b, "stream");
    w->limit = mock_get_int(b, "max_tokens");
    w->stops = mock_get(b, "stop_sequences");
    w->reasons = thinking && strcmp(thinking, "disabled") != 0;
    w->schema = mock_get(format, "schema");
    read_tools(b, w);
}

/* ---- parts */

static const char *stop_reason(const struct mock_answer *a)
{
    return a->refusal || a->finish == MOCK_FILTER ? "refusal"
           : a->finish == MOCK_LENGTH             ? "max_tokens"
           : a->finish == MOCK_STOP_STRING        ? "stop_sequence"
           : a->finish == MOCK_TOOLS              ? "tool_use"
                                                  : "end_turn";
}

static json_t *stop_sequence(const struct mock_answer *a)
{
    return a->finish == MOCK_STOP_STRING ? json_string(a->stop) : json_null();
}

static json_t *usage(const struct mock_answer *a, int output)
{
    return json_pack("{s:i,s:i,s:i,s:{s:i,s:i},s:i,s:s}", "input_tokens", a->prompt_tokens,
                     "cache_creation_input_tokens", 0, "cache_read_input_tokens", a->cached_tokens,
                     "cache_creation", "ephemeral_5m_input_tokens", 0, "ephemeral_1h_input_tokens",
                     0, "output_tokens", output, "service_tier", "standard");
}

static json_t *call_block(const struct mock_call *c, json_t *input)
{
    char id[32];
    (void)snprintf(id, sizeof id, "toolu_01%s", c->id);
    return json_pack("{s:s,s:s,s:s,s:o}", "type", "tool_use", "id", id, "name", c->name, "input",
                     input);
}

static bool has_text(const struct mock_answer *a)
{
    return a->n_words > 0 || (a->n_calls == 0 && !a->refusal);
}

static json_t *content(const struct mock_answer *a)
{
    json_t *list = json_array();
    if (a->n_reasoning > 0) {
        (void)json_array_append_new(list, json_pack("{s:s,s:o,s:s}", "type", "thinking", "thinking",
                                                    mock_parts_text(a->reasoning, a->n_reasoning),
                                                    "signature", SIGNATURE));
    }
    if (a->n_words > 0) {
        (void)json_array_append_new(list, json_pack("{s:s,s:o}", "type", "text", "text",
                                                    mock_parts_text(a->word, a->n_words)));
    }
    for (size_t i = 0; i < a->n_calls; i++) {
        (void)json_array_append_new(list, call_block(&a->call[i], mock_arguments(&a->call[i])));
    }
    return list;
}

static json_t *message(const struct mock_answer *a, json_t *blocks, bool is_done)
{
    char id[48];
    (void)snprintf(id, sizeof id, "msg_01%s", a->id);
    json_t *m = json_pack("{s:s,s:s,s:s,s:s,s:o,s:o,s:o}", "id", id, "type", "message", "role",
                          "assistant", "model", a->model, "content", blocks, "stop_reason",
                          is_done ? json_string(stop_reason(a)) : json_null(), "stop_sequence",
                          is_done ? stop_sequence(a) : json_null());
    if (is_done && a->refusal) {
        (void)json_object_set_new(
            m, "stop_details",
            json_pack("{s:s,s:n,s:n}", "type", "refusal", "category", "explanation"));
    }
    if (a->has_usage) {
        (void)json_object_set_new(m, "usage", usage(a, is_done ? a->completion_tokens : 1));
    }
    return m;
}

static void whole(const struct mock_answer *a, struct buf *out)
{
    mock_put(out, message(a, content(a), true));
}

/* ---- stream */

static void put_start(size_t index, json_t *block, struct buf *out)
{
    mock_put_event(out, "content_block_start",
                   json_pack("{s:s,s:i,s:o}", "type", "content_block_start", "index", (int)index,
                             "content_block", block));
}

static void put_delta(size_t index, const char *type, const char *key, const char *text,
                      struct buf *out)
{
    mock_put_event(out, "content_block_delta",
                   json_pack("{s:s,s:i,s:{s:s,s:s}}", "type", "content_block_delta", "index",
                             (int)index, "delta", "type", type, key, text));
}

static void put_stop(size_t index, struct buf *out)
{
    mock_put_event(out, "content_block_stop",
                   json_pack("{s:s,s:i}", "type", "content_block_stop", "index", (int)index));
}

/* Event i of the block of thoughts: start, words, signature, stop. */
static void put_thinking(const struct mock_answer *a, size_t i, size_t index, struct buf *out)
{
    if (i == 0) {
        put_start(index,
                  json_pack("{s:s,s:s,s:s}", "type", "thinking", "thinking", "", "signature", ""),
                  out);
    } else if (i <= a->n_reasoning) {
        put_delta(index, "thinking_delta", "thinking", a->reasoning[i - 1], out);
    } else if (i == a->n_reasoning + 1) {
        put_delta(index, "signature_delta", "signature", SIGNATURE, out);
    } else {
        put_stop(index, out);
    }
}

static void put_text(const struct mock_answer *a, size_t i, size_t index, struct buf *out)
{
    if (i == 0) {
        put_start(index, json_pack("{s:s,s:s}", "type", "text", "text", ""), out);
    } else if (i <= a->n_words) {
        put_delta(index, "text_delta", "text", a->word[i - 1], out);
    } else {
        put_stop(index, out);
    }
}

#define CALL_EVENTS 5 /* start, an empty piece, two pieces, stop */

static void put_call(const struct mock_call *c, size_t i, size_t index, struct buf *out)
{
    size_t half = strlen(c->arguments) / 2;
    while (((unsigned char)c->arguments[half] & 0xC0) == 0x80) {
        half++;
    }
    bool is_empty = strcmp(c->arguments, "{}") == 0; /* then only the empty piece is sent */
    if (i == 0) {
        put_start(index, call_block(c, json_object()), out);
    } else if (i == CALL_EVENTS - 1) {
        put_stop(index, out);
    } else if (i == 1) {
        put_delta(index, "input_json_delta", "partial_json", "", out);
    } else if (!is_empty) {
        char *piece = i == 2 ? strndup(c->arguments, half) : strdup(c->arguments + half);
        put_delta(index, "input_json_delta", "partial_json", piece ? piece : "", out);
        free(piece);
    }
}

static void put_end(const struct mock_answer *a, struct buf *out)
{
    json_t *o = json_pack("{s:s,s:{s:s,s:o}}", "type", "message_delta", "delta", "stop_reason",
                          stop_reason(a), "stop_sequence", stop_sequence(a));
    if (a->has_usage) {
        (void)json_object_set_new(o, "usage",
                                  json_pack("{s:i,s:i,s:i,s:i}", "input_tokens", a->prompt_tokens,
                                            "cache_creation_input_tokens", 0,
                                            "cache_read_input_tokens", a->cached_tokens,
                                            "output_tokens", a->completion_tokens));
    }
    mock_put_event(out, "message_delta", o);
}

static bool event(const struct mock_answer *a, size_t i, struct buf *out)
{
    size_t n_thinking = a->n_reasoning > 0 ? a->n_reasoning + 3 : 0;
    size_t n_text = has_text(a) ? a->n_words + 2 : 0, n_calls = CALL_EVENTS * a->n_calls;
    size_t index = 0;
    if (i-- == 0) {
        mock_put_event(out, "message_start",
                       json_pack("{s:s,s:o}", "type", "message_start", "message",
                                 message(a, json_array(), false)));
        return true;
    }
    if (i < n_thinking) {
        put_thinking(a, i, index, out);
        return true;
    }
    i -= n_thinking;
    index += n_thinking > 0;
    if (i < n_text) {
        put_text(a, i, index, out);
        return true;
    }
    i -= n_text;
    index += n_text > 0;
    if (i < n_calls) {
        put_call(&a->call[i / CALL_EVENTS], i % CALL_EVENTS, index + i / CALL_EVENTS, out);
        return true;
    }
    i -= n_calls;
    if (i == 0) {
        put_end(a, out);
    } else if (i == 1) {
        mock_put_event(out, "message_stop", json_pack("{s:s}", "type", "message_stop"));
    }
    return i < 2;
}

/* ---- errors */

static const char *type_of(int status)
{
    static const struct {
        int status;
        const char *type;
    } types[] = {{401, "authentication_error"}, {402, "billing_error"},
                 {403, "permission_error"},     {404, "not_found_error"},
                 {413, "request_too_large"},    {429, "rate_limit_error"},
                 {504, "timeout_error"},        {529, "overloaded_error"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].status == status) {
            return types[i].type;
        }
    }
    return status >= 500 ? "api_error" : "invalid_request_error";
}

static void sentence(const struct mock_error *e, char *out, size_t cap)
{
    const char *p = e->param;
    switch (e->fault) {
    case MOCK_FAULT_UNKNOWN:
        (void)snprintf(out, cap, "%s: Extra inputs are not permitted", p);
        break;
    case MOCK_FAULT_UNSUPPORTED:
        (void)snprintf(out, cap, "`%s` is not supported for this model.", p);
        break;
    case MOCK_FAULT_CONFLICT:
        (void)snprintf(out, cap,
                       "`%s` and `%s` cannot both be specified for this model. Please use only "
                       "one.",
                       p, e->limit);
        break;
    case MOCK_FAULT_MISSING:
        (void)snprintf(out, cap, "%s: Field required", p);
        break;
    case MOCK_FAULT_HEADER:
        (void)snprintf(out, cap, "%s: header is required", p);
        break;
    case MOCK_FAULT_ABOVE:
    case MOCK_FAULT_BELOW:
        (void)snprintf(out, cap, "%s: Input should be %s than or equal to %s", p,
                       e->fault == MOCK_FAULT_ABOVE ? "less" : "greater", e->limit);
        break;
    case MOCK_FAULT_TYPE:
        (void)snprintf(out, cap, "%s: Input should be a valid %s", p, e->limit);
        break;
    case MOCK_FAULT_NO_ADDRESS:
        (void)snprintf(out, cap, "%s%s", p[0] ? "model: " : "", p[0] ? e->limit : "Not Found");
        break;
    default:
        (void)snprintf(out, cap, "%s", e->message);
    }
}

static void error(const struct mock_error *e, struct buf *out)
{
    char text[480], id[48];
    sentence(e, text, sizeof text);
    (void)snprintf(id, sizeof id, "req_011%s", e->id);
    json_t *o =
        json_pack("{s:s,s:{s:s,s:s},s:s}", "type", "error", "error", "type",
                  type_of(e->in_stream ? 529 : e->status), "message", text, "request_id", id);
    if (e->in_stream) {
        mock_put_event(out, "error", o);
    } else {
        mock_put(out, o);
    }
}

static void headers(const struct mock_answer *a, const struct mock_error *e, struct mock_headers *h)
{
    mock_header(h, "request-id", "req_011%s", a ? a->id : e->id);
    mock_header(h, "anthropic-organization-id", "00000000-0000-0000-0000-000000000000");
    if (e && (e->status == 429 || e->status >= 500)) {
        mock_header(h, "x-should-retry", "true");
    }
    if (a) {
        mock_header(h, "anthropic-ratelimit-requests-limit", "1000");
        mock_header(h, "anthropic-ratelimit-requests-remaining", "999");
        mock_header(h, "anthropic-ratelimit-requests-reset", "2026-11-30T00:00:01Z");
    }
}

const struct mock_dialect mock_dialect_anthropic = {
    .name = "anthropic",
    .stop_is_list = true,
    .content_type = "text/event-stream; charset=utf-8",
    .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    .has_refusal = true,
    .fields = fields,
    .read = read_request,
    .whole = whole,
    .event = event,
    .error = error,
    .headers = headers};
