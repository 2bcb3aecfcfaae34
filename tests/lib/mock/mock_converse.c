/* mock_converse.c - Amazon Bedrock's Converse and ConverseStream. A stream is binary: frames of
 *
 *   total length, length of the headers, CRC-32 of those two      big endian, 4 bytes each
 *   headers: length of the name, name, 7 (a string), 2 bytes of length, value
 *   payload (JSON), CRC-32 of all before it
 *
 * written here anew with zlib's crc32. Each event's payload has a member `p` of padding.
 */
#include "mock_parts.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

/* ---- what is asked */

static void read_tools(const json_t *config, struct mock_wish *wish)
{
    size_t i;
    json_t *tool;
    json_array_foreach ((json_t *)json_object_get(config, "tools"), i, tool) {
        const json_t *spec = json_object_get(tool, "toolSpec");
        (void)mock_parts_add_function(
            wish, json_string_value(json_object_get(spec, "name")),
            json_object_get(json_object_get(spec, "inputSchema"), "json"));
    }
    const json_t *choice = json_object_get(config, "toolChoice");
    const json_t *one = json_object_get(choice, "tool");
    wish->is_forced = one || json_object_get(choice, "any");
    mock_parts_keep_function(wish, json_string_value(json_object_get(one, "name")));
}

static void read_messages(const json_t *messages, struct mock_wish *wish)
{
    size_t i, k;
    json_t *message, *block;
    json_array_foreach ((json_t *)messages, i, message) {
        const char *role = json_string_value(json_object_get(message, "role"));
        const json_t *content = json_object_get(message, "content");
        const char *said = mock_parts_said(content);
        if (role && strcmp(role, "user") == 0 && said) {
            wish->said = said;
        }
        wish->has_result = false;
        json_array_foreach ((json_t *)content, k, block) {
            wish->has_result = wish->has_result || json_object_get(block, "toolResult");
        }
    }
}

/* Models say it in their own words, in the part that is not Converse's. */
static bool asks_for_reasoning(const json_t *fields)
{
    static const char *const objects[] = {"thinking", "reasoning_config", "reasoningConfig"};
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        const char *type =
            json_string_value(json_object_get(json_object_get(fields, objects[i]), "type"));
        if (type && strcmp(type, "disabled") != 0) {
            return true;
        }
    }
    return json_is_string(json_object_get(fields, "reasoning_effort"));
}

static void converse_read(const struct mock_request *r, struct mock_wish *wish)
{
    const json_t *c = json_object_get(r->body, "inferenceConfig");
    const json_t *format =
        json_object_get(json_object_get(r->body, "outputConfig"), "textFormat");
    const char *schema = json_string_value(json_object_get(
        json_object_get(json_object_get(format, "structure"), "jsonSchema"), "schema"));
    size_t len = strlen(r->path), end = strlen("/converse-stream");
    wish->stream = len > end && strcmp(r->path + len - end, "/converse-stream") == 0;
    wish->wants_usage = true;
    wish->limit = mock_parts_integer(json_object_get(c, "maxTokens"));
    wish->stops = json_object_get(c, "stopSequences");
    wish->reasons = asks_for_reasoning(json_object_get(r->body, "additionalModelRequestFields"));
    wish->is_json = schema != NULL;
    if (schema) {
        wish->schema = mock_wish_keep(wish, json_loads(schema, 0, NULL));
    }
    read_tools(json_object_get(r->body, "toolConfig"), wish);
    read_messages(json_object_get(r->body, "messages"), wish);
}

/* ---- an answer */

static const char *const stop_reasons[] = {[MOCK_STOP] = "end_turn",
                                           [MOCK_LENGTH] = "max_tokens",
                                           [MOCK_STOP_STRING] = "stop_sequence",
                                           [MOCK_TOOLS] = "tool_use",
                                           [MOCK_FILTER] = "content_filtered"};

static json_t *usage_of(const struct mock_answer *a)
{
    return json_pack("{s:i,s:i,s:i,s:i,s:i}", "inputTokens", a->prompt_tokens - a->cached_tokens,
                     "outputTokens", a->completion_tokens, "totalTokens",
                     a->prompt_tokens + a->completion_tokens, "cacheReadInputTokens",
                     a->cached_tokens, "cacheWriteInputTokens", 0);
}

/* The model's own fields come back where the request names them. */
static json_t *model_fields(const struct mock_answer *a)
{
    const json_t *paths =
        json_object_get(a->request->body, "additionalModelResponseFieldPaths");
    size_t i;
    json_t *path;
    json_array_foreach ((json_t *)paths, i, path) {
        if (json_is_string(path) && strcmp(json_string_value(path), "/stop_sequence") == 0) {
            return json_pack("{s:s?}", "stop_sequence",
                             a->finish == MOCK_STOP_STRING ? a->stop : NULL);
        }
    }
    return NULL;
}

static json_t *content_of(const struct mock_answer *a)
{
    json_t *content = json_array();
    if (a->n_reasoning > 0) {
        json_t *text = json_pack("{s:o,s:s}", "text", mock_parts_text(a->reasoning, a->n_reasoning),
                                 "signature", "U2NyaXB0ZWQ=");
        (void)json_array_append_new(
            content, json_pack("{s:{s:o}}", "reasoningContent", "reasoningText", text));
    }
    if (a->n_words > 0) {
        (void)json_array_append_new(
            content, json_pack("{s:o}", "text", mock_parts_text(a->word, a->n_words)));
    }
    for (size_t i = 0; i < a->n_calls; i++) {
        json_t *use = json_pack("{s:s,s:s,s:o}", "toolUseId", a->call[i].id, "name",
                                a->call[i].name, "input", mock_parts_object(a->call[i].arguments));
        (void)json_array_append_new(content, json_pack("{s:o}", "toolUse", use));
    }
    return content;
}

static void converse_whole(const struct mock_answer *a, struct buf *out)
{
    json_t *o = json_pack("{s:{s:{s:s,s:o}},s:s}", "output", "message", "role", "assistant",
                          "content", content_of(a), "stopReason", stop_reasons[a->finish]);
    json_t *fields = model_fields(a);
    if (!a->no_usage) {
        (void)json_object_set_new(o, "usage", usage_of(a));
    }
    (void)json_object_set_new(o, "metrics", json_pack("{s:i}", "latencyMs", 412));
    if (fields) {
        (void)json_object_set_new(o, "additionalModelResponseFields", fields);
    }
    mock_parts_write(out, o);
}

/* ---- frames */

static void put_u32(struct buf *b, unsigned long v)
{
    char bytes[] = {(char)(v >> 24), (char)(v >> 16), (char)(v >> 8), (char)v};
    (void)buf_append(b, bytes, sizeof bytes);
}

static void put_header(struct buf *b, const char *name, const char *value)
{
    char head[] = {(char)strlen(name)}, type[] = {7, 0, (char)strlen(value)};
    (void)buf_append(b, head, sizeof head);
    (void)buf_puts(b, name);
    (void)buf_append(b, type, sizeof type);
    (void)buf_puts(b, value);
}

static unsigned long crc_of(const struct buf *b, size_t from)
{
    return crc32(0, (const unsigned char *)b->data + from, (unsigned)(b->len - from));
}

/* One frame; the payload is taken over. */
static void put_frame(struct buf *out, bool is_event, const char *type, json_t *payload)
{
    struct buf headers, body;
    size_t start = out->len;
    buf_init(&headers, 1024);
    buf_init(&body, 1u << 26);
    put_header(&headers, is_event ? ":event-type" : ":exception-type", type);
    put_header(&headers, ":content-type", "application/json");
    put_header(&headers, ":message-type", is_event ? "event" : "exception");
    mock_parts_write(&body, payload);
    put_u32(out, 16 + headers.len + body.len);
    put_u32(out, headers.len);
    put_u32(out, crc_of(out, start));
    (void)buf_append(out, headers.data, headers.len);
    (void)buf_append(out, body.data, body.len);
    put_u32(out, crc_of(out, start));
    buf_release(&headers);
    buf_release(&body);
}

static void put_event(struct buf *out, const char *type, json_t *payload)
{
    static const char padding[] = "abcdefghijklmnopqrstuvwxyz";
    (void)json_object_set_new(payload, "p", json_stringn(padding, 2 + strlen(type) % 20));
    put_frame(out, true, type, payload);
}

/* One event of a block: its number, and what is in it. */
static void put_block(struct buf *out, const char *type, size_t index, const char *key, json_t *v)
{
    json_t *o = json_pack("{s:i}", "contentBlockIndex", (int)index);
    if (key) {
        (void)json_object_set_new(o, key, v);
    }
    put_event(out, type, o);
}

static void put_reasoning(const struct mock_answer *a, size_t at, struct buf *out)
{
    if (at == a->n_reasoning + 1) {
        put_block(out, "contentBlockStop", 0, NULL, NULL);
        return;
    }
    json_t *part = at == a->n_reasoning ? json_pack("{s:s}", "signature", "U2NyaXB0ZWQ=")
                                        : json_pack("{s:s}", "text", a->reasoning[at]);
    put_block(out, "contentBlockDelta", 0, "delta", json_pack("{s:o}", "reasoningContent", part));
}

static void put_word(const struct mock_answer *a, size_t at, struct buf *out)
{
    size_t index = a->n_reasoning > 0;
    if (at == a->n_words) {
        put_block(out, "contentBlockStop", index, NULL, NULL);
    } else {
        put_block(out, "contentBlockDelta", index, "delta",
                  json_pack("{s:s}", "text", a->word[at]));
    }
}

#define CALL_EVENTS 4 /* start, two halves of the arguments, stop */
static void put_call(const struct mock_answer *a, size_t at, struct buf *out)
{
    const struct mock_call *c = &a->call[at / CALL_EVENTS];
    size_t index = (a->n_reasoning > 0) + (a->n_words > 0) + at / CALL_EVENTS;
    size_t step = at % CALL_EVENTS;
    if (step == 0) {
        put_block(out, "contentBlockStart", index, "start",
                  json_pack("{s:{s:s,s:s}}", "toolUse", "toolUseId", c->id, "name", c->name));
    } else if (step < CALL_EVENTS - 1) {
        put_block(out, "contentBlockDelta", index, "delta",
                  json_pack("{s:{s:o}}", "toolUse", "input", mock_parts_half(c, step == 2)));
    } else {
        put_block(out, "contentBlockStop", index, NULL, NULL);
    }
}

static void put_stop(const struct mock_answer *a, struct buf *out)
{
    json_t *o = json_pack("{s:s}", "stopReason", stop_reasons[a->finish]);
    json_t *fields = model_fields(a);
    if (fields) {
        (void)json_object_set_new(o, "additionalModelResponseFields", fields);
    }
    put_event(out, "messageStop", o);
}

static void put_metadata(const struct mock_answer *a, struct buf *out)
{
    json_t *o = json_pack("{s:{s:i}}", "metrics", "latencyMs", 412);
    if (!a->no_usage) {
        (void)json_object_set_new(o, "usage", usage_of(a));
    }
    put_event(out, "metadata", o);
}

static bool converse_event(const struct mock_answer *a, size_t i, struct buf *out)
{
    enum { START, REASONING, WORDS, CALLS, STOP, METADATA, N_PHASES };
    const size_t phases[N_PHASES] = {[START] = 1,
                                     [REASONING] = a->n_reasoning > 0 ? a->n_reasoning + 2 : 0,
                                     [WORDS] = a->n_words > 0 ? a->n_words + 1 : 0,
                                     [CALLS] = CALL_EVENTS * a->n_calls,
                                     [STOP] = 1,
                                     [METADATA] = 1};
    struct mock_place at;
    if (!mock_parts_place(phases, N_PHASES, i, &at)) {
        return false;
    }
    switch (at.phase) {
    case START:
        put_event(out, "messageStart", json_pack("{s:s}", "role", "assistant"));
        break;
    case REASONING:
        put_reasoning(a, at.at, out);
        break;
    case WORDS:
        put_word(a, at.at, out);
        break;
    case CALLS:
        put_call(a, at.at, out);
        break;
    case STOP:
        put_stop(a, out);
        break;
    default:
        put_metadata(a, out);
    }
    return true;
}
