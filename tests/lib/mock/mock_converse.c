/* mock_converse.c - Amazon Bedrock's Converse and ConverseStream. A stream is binary: frames of
 *
 *   total length, length of the headers, CRC-32 of those two      big endian, 4 bytes each
 *   headers: length of the name, name, 7 (a string), 2 bytes of length, value
 *   payload (JSON), CRC-32 of all before it
 *
 * written here anew with zlib's crc32. Each event's payload has a member `p` of padding.
 */
#include "mock_parts.h"

#include <string.h>
#include <zlib.h>

/* ---- what is asked */

static void read_tools(const json_t *body, struct mock_wish *wish)
{
    size_t i;
    json_t *tool;
    json_array_foreach ((json_t *)mock_get(body, "toolConfig.tools"), i, tool) {
        const char *name = mock_get_string(tool, "toolSpec.name");
        if (name) {
            mock_wish_function(wish, name, mock_get(tool, "toolSpec.inputSchema.json"));
        }
    }
    const char *only = mock_get_string(body, "toolConfig.toolChoice.tool.name");
    wish->is_forced = mock_get(body, "toolConfig.toolChoice.any") != NULL;
    if (only) {
        mock_wish_only(wish, only);
    }
}

/* Models say it in their own words, in the part that is not Converse's. */
static bool asks_for_reasoning(const json_t *body)
{
    static const char *const types[] = {"additionalModelRequestFields.thinking.type",
                                        "additionalModelRequestFields.reasoning_config.type",
                                        "additionalModelRequestFields.reasoningConfig.type"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *type = mock_get_string(body, types[i]);
        if (type && strcmp(type, "disabled") != 0) {
            return true;
        }
    }
    return mock_get_string(body, "additionalModelRequestFields.reasoning_effort") != NULL;
}

static void converse_read(const struct mock_request *r, struct mock_wish *wish)
{
    const char *schema =
        mock_get_string(r->body, "outputConfig.textFormat.structure.jsonSchema.schema");
    wish->wants_usage = true;
    wish->limit = mock_get_int(r->body, "inferenceConfig.maxTokens");
    wish->stops = mock_get(r->body, "inferenceConfig.stopSequences");
    wish->reasons = asks_for_reasoning(r->body);
    wish->is_json = schema != NULL;
    wish->kept = schema ? json_loads(schema, 0, NULL) : NULL;
    wish->schema = wish->kept;
    read_tools(r->body, wish);
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
    const json_t *paths = mock_get(a->body, "additionalModelResponseFieldPaths");
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

static json_t *use_id(const struct mock_call *c)
{
    return json_sprintf("tooluse_%s", c->id);
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
        json_t *use = json_pack("{s:o,s:s,s:o}", "toolUseId", use_id(&a->call[i]), "name",
                                a->call[i].name, "input", mock_arguments(&a->call[i]));
        (void)json_array_append_new(content, json_pack("{s:o}", "toolUse", use));
    }
    return content;
}

static void converse_whole(const struct mock_answer *a, struct buf *out)
{
    json_t *o = json_pack("{s:{s:{s:s,s:o}},s:s}", "output", "message", "role", "assistant",
                          "content", content_of(a), "stopReason", stop_reasons[a->finish]);
    json_t *fields = model_fields(a);
    if (a->has_usage) {
        (void)json_object_set_new(o, "usage", usage_of(a));
    }
    (void)json_object_set_new(o, "metrics", json_pack("{s:i}", "latencyMs", 412));
    if (fields) {
        (void)json_object_set_new(o, "additionalModelResponseFields", fields);
    }
    mock_put(out, o);
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
    return crc32(0, (const unsigned char *)b->p + from, (unsigned)(b->len - from));
}

static void put_frame(struct buf *out, bool is_event, const char *type, struct slice payload)
{
    struct buf headers;
    size_t start = out->len;
    buf_init(&headers, 1024);
    put_header(&headers, is_event ? ":event-type" : ":exception-type", type);
    put_header(&headers, ":content-type", "application/json");
    put_header(&headers, ":message-type", is_event ? "event" : "exception");
    put_u32(out, 16 + headers.len + payload.len);
    put_u32(out, headers.len);
    put_u32(out, crc_of(out, start));
    (void)buf_append(out, headers.p, headers.len);
    (void)buf_append(out, payload.p, payload.len);
    put_u32(out, crc_of(out, start));
    buf_release(&headers);
}

static void put_json(struct buf *out, bool is_event, const char *type, json_t *payload)
{
    struct buf text;
    buf_init(&text, 1u << 26);
    mock_put(&text, payload);
    put_frame(out, is_event, type, buf_slice(&text));
    buf_release(&text);
}

static void put_event(struct buf *out, const char *type, json_t *payload)
{
    static const char padding[] = "abcdefghijklmnopqrstuvwxyz";
    (void)json_object_set_new(payload, "p", json_stringn(padding, 2 + strlen(type) % 20));
    put_json(out, true, type, payload);
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
                  json_pack("{s:{s:o,s:s}}", "toolUse", "toolUseId", use_id(c), "name", c->name));
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
    if (a->has_usage) {
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

/* The frame is whole, both sums are right; what it carries is not JSON. */
static void converse_malformed(const struct mock_answer *a, struct buf *out)
{
    (void)a;
    put_frame(out, true, "contentBlockDelta", SLICE_LIT("{\"contentBlockIndex\":0,\"delta\":{"));
}

/* ---- errors */

static const struct {
    int status;
    const char *type, *in_stream;
} kinds[] = {{400, "ValidationException", "validationException"},
             {403, "AccessDeniedException", NULL},
             {404, "ResourceNotFoundException", NULL},
             {408, "ModelTimeoutException", NULL},
             {424, "ModelErrorException", "modelStreamErrorException"},
             {429, "ThrottlingException", "throttlingException"},
             {500, "InternalServerException", "internalServerException"},
             {503, "ServiceUnavailableException", "serviceUnavailableException"}};

static const char *kind_of(int status, bool in_stream)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].status == status && (!in_stream || kinds[i].in_stream)) {
            return in_stream ? kinds[i].in_stream : kinds[i].type;
        }
    }
    if (in_stream) {
        return "internalServerException";
    }
    return status < 500 ? "ValidationException" : "InternalServerException";
}

/* "at most 4 items" and "below 2" are the double's own words: a constraint names the number. */
static json_t *constraint_of(const struct mock_error *e)
{
    const char *what = e->fault == MOCK_FAULT_ABOVE   ? "value less than or equal to"
                       : e->fault == MOCK_FAULT_BELOW ? "value greater than or equal to"
                                                      : "length less than or equal to";
    const char *limit = e->limit + strcspn(e->limit, "-0123456789");
    return json_sprintf("1 validation error detected: Value '%s' at '%s' failed to satisfy "
                        "constraint: Member must have %s %.*s",
                        e->value, e->param, what, mock_parts_count_len(limit), limit);
}

static json_t *message_of(const struct mock_error *e)
{
    const char *leaf = mock_parts_leaf(e->param);
    switch (e->fault) {
    case MOCK_FAULT_ABOVE:
    case MOCK_FAULT_BELOW:
    case MOCK_FAULT_TOO_LONG:
        return constraint_of(e);
    case MOCK_FAULT_CONFLICT:
        return json_sprintf("The model returned the following errors: `%s` and `%s` cannot both "
                            "be specified for this model. Please use only one.",
                            mock_parts_leaf(e->limit), leaf);
    case MOCK_FAULT_UNKNOWN:
        return json_sprintf("Malformed input request: #: extraneous key [%s] is not permitted, "
                            "please reformat your input and try again.",
                            leaf);
    case MOCK_FAULT_UNSUPPORTED:
        return json_sprintf("The model returned the following errors: %s", e->message);
    default:
        return json_string(e->message);
    }
}

static void converse_error(const struct mock_error *e, struct buf *out)
{
    json_t *o = json_pack("{s:o}", "message", message_of(e));
    if (e->in_stream) {
        put_json(out, false, kind_of(e->status, true), o);
    } else {
        mock_put(out, o);
    }
}

static void converse_headers(const struct mock_answer *a, const struct mock_error *e,
                             struct mock_headers *h)
{
    char id[MOCK_UUID_LEN];
    mock_parts_uuid(a ? a->id : e->id, 0, id);
    mock_header(h, "x-amzn-requestid", "%s", id);
    if (e) {
        mock_header(
            h, "x-amzn-errortype", "%s%s", kind_of(e->status, false),
            e->status == 400 ? ":http://internal.amazon.com/coral/com.amazon.coral.validate/" : "");
    }
}

static const char *const fields[] = {"messages",
                                     "system",
                                     "inferenceConfig",
                                     "toolConfig",
                                     "outputConfig",
                                     "additionalModelRequestFields",
                                     "additionalModelResponseFieldPaths",
                                     "guardrailConfig",
                                     "promptVariables",
                                     "requestMetadata",
                                     "performanceConfig",
                                     "serviceTier",
                                     NULL};

const struct mock_dialect mock_dialect_converse = {.name = "converse",
                                                   .stop_is_list = true,
                                                   .content_type =
                                                       "application/vnd.amazon.eventstream",
                                                   .is_binary = true,
                                                   .no_retry_after = true,
                                                   .fields = fields,
                                                   .read = converse_read,
                                                   .whole = converse_whole,
                                                   .event = converse_event,
                                                   .error = converse_error,
                                                   .headers = converse_headers,
                                                   .malformed = converse_malformed};
