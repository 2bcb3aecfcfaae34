/* converse.c - Amazon Bedrock's Converse and ConverseStream.
 *
 * The conversation is turns.c, each of its blocks put into Converse's words. The model is in the
 * address, not in the body; what is a model's own goes under additionalModelRequestFields, and the
 * claims' wire paths say so. A stream is frames, each with the name of its event; usage comes after
 * the end of the message.
 */
#include "backend.h"
#include "emit.h"
#include "turns.h"

#include "gateway/base/jsonio.h"
#include "gateway/base/limits.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- encode */

#define NAME_MAX_BYTES 64 /* of a function, and of the id of a call */

/* What was changed in the conversation, noted once at the end. */
struct encoding {
    const struct call *c;
    struct failure *f;
    bool has_blank, has_calls, has_odd_id, has_moved_system;
};

static bool is_blank(const char *s)
{
    return s[strspn(s, " \t\r\n\v\f")] == '\0';
}

/* [a-zA-Z0-9_-], of ids also . and : */
static bool is_plain(const char *s, bool is_id)
{
    size_t n = 0;
    for (; n <= NAME_MAX_BYTES && s[n]; n++) {
        bool is_mark = s[n] == '_' || s[n] == '-' || (is_id && (s[n] == '.' || s[n] == ':'));
        if (!is_mark && !(isascii((unsigned char)s[n]) && isalnum((unsigned char)s[n]))) {
            return false;
        }
    }
    return n > 0 && n <= NAME_MAX_BYTES;
}

/* The same id for a call and its result, whatever the client's looks like: FNV-1a where it cannot
 * be sent. New reference. */
static json_t *wire_id(struct encoding *e, const json_t *id)
{
    const char *s = json_string_value(id);
    if (is_plain(s, true)) {
        return json_string(s);
    }
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const char *p = s; *p; p++) {
        hash = (hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
    }
    char made[32];
    (void)snprintf(made, sizeof made, "call_%016llx", (unsigned long long)hash);
    e->has_odd_id = true;
    return json_string(made);
}

/* "image/png" -> "png"; NULL: not one of those that are taken. */
static const char *image_format(const char *type, size_t len)
{
    static const char *const types[][2] = {{"image/png", "png"},
                                           {"image/jpeg", "jpeg"},
                                           {"image/jpg", "jpeg"},
                                           {"image/gif", "gif"},
                                           {"image/webp", "webp"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strlen(types[i][0]) == len && strncasecmp(types[i][0], type, len) == 0) {
            return types[i][1];
        }
    }
    return NULL;
}

/* An image travels as its bytes. */
static bool check_image(const json_t *part, size_t at, struct failure *f)
{
    static const char right[] = "data:image/png;base64,DATA (or jpeg, gif, webp)";
    const json_t *image = json_object_get(part, "image_url");
    const char *url = json_is_string(image) ? json_string_value(image)
                                            : json_string_value(json_object_get(image, "url"));
    if (!url || strncmp(url, "data:", 5) != 0) {
        return failure_set(f, 400, "unsupported_content", "messages",
                           "messages[%zu]: this backend fetches no image: send it as %s", at,
                           right);
    }
    return image_format(url + 5, strcspn(url + 5, ";,")) ||
           failure_set(f, 400, "unsupported_content", "messages",
                       "messages[%zu]: this backend takes no image of that type: send it as %s", at,
                       right);
}

/* What turns.c lets through and Converse has no words for. */
static bool check_messages(const struct call *c, struct failure *f)
{
    size_t i, k;
    json_t *message, *part;
    json_array_foreach ((json_t *)c->messages, i, message) { /* the macro wants no const */
        const json_t *content = json_object_get(message, "content");
        json_array_foreach (content, k, part) {
            if (backend_is_word(json_object_get(part, "type"), "image_url") &&
                !check_image(part, i, f)) {
                return false;
            }
        }
    }
    return true;
}

static json_t *wire_text(struct encoding *e, const json_t *text)
{
    if (is_blank(json_string_value(text))) {
        e->has_blank = true;
        return json_null(); /* "The text field in the ContentBlock object is blank" */
    }
    return backend_object("text", json_incref((json_t *)text), NULL);
}

static json_t *wire_image(const json_t *source)
{
    const char *type = json_string_value(json_object_get(source, "media_type"));
    const char *format = type ? image_format(type, strcspn(type, ";")) : NULL;
    return format ? json_pack("{s:{s:s,s:{s:O}}}", "image", "format", format, "source", "bytes",
                              json_object_get(source, "data"))
                  : NULL;
}

static json_t *wire_call(struct encoding *e, const json_t *block)
{
    const json_t *name = json_object_get(block, "name");
    e->has_calls = true;
    if (!is_plain(json_string_value(name), false)) {
        (void)failure_set(e->f, 400, "unsupported_content", "messages",
                          "the messages hold a call of '%.80s': this backend takes names of 1 to "
                          "%d letters, digits, _ and -",
                          json_string_value(name), NAME_MAX_BYTES);
        return NULL;
    }
    return json_pack("{s:{s:o,s:O,s:O}}", "toolUse", "toolUseId",
                     wire_id(e, json_object_get(block, "id")), "name", name, "input",
                     json_object_get(block, "input"));
}

/* The text as it came, also where it is JSON: nobody asked for another form of it. */
static json_t *wire_result(struct encoding *e, const json_t *block)
{
    const json_t *said = json_object_get(block, "content");
    json_t *content = json_array(), *part;
    size_t i;
    bool ok = content != NULL;
    e->has_calls = true;
    if (json_string_length(said) > 0) {
        ok = ok && json_array_append_new(content, json_pack("{s:O}", "text", said)) == 0;
    }
    json_array_foreach ((json_t *)said, i, part) {
        ok = ok && json_array_append_new(
                       content, json_pack("{s:O}", "text", json_object_get(part, "text"))) == 0;
    }
    if (!ok) {
        json_decref(content);
        return NULL;
    }
    return json_pack("{s:{s:o,s:o}}", "toolResult", "toolUseId",
                     wire_id(e, json_object_get(block, "tool_use_id")), "content", content);
}

/* json null: it has no place; NULL: failed. */
static json_t *wire_block(struct encoding *e, const json_t *block)
{
    const json_t *type = json_object_get(block, "type");
    if (backend_is_word(type, "image")) {
        return wire_image(json_object_get(block, "source"));
    }
    if (backend_is_word(type, "tool_use")) {
        return wire_call(e, block);
    }
    if (backend_is_word(type, "tool_result")) {
        return wire_result(e, block);
    }
    return wire_text(e, json_object_get(block, "text"));
}

static bool add_block(struct encoding *e, json_t *blocks, json_t *block)
{
    if (!block) {
        return backend_no_memory(e->f);
    }
    if (json_is_null(block)) {
        return true;
    }
    return json_array_append_new(blocks, block) == 0 || backend_no_memory(e->f);
}

/* Content of a turn, as blocks. NULL: failure set. */
static json_t *wire_content(struct encoding *e, const json_t *content)
{
    json_t *blocks = json_array(), *block;
    size_t i;
    bool ok = blocks || backend_no_memory(e->f);
    if (json_is_string(content)) {
        ok = ok && add_block(e, blocks, wire_text(e, content));
    }
    json_array_foreach ((json_t *)content, i, block) {
        ok = ok && add_block(e, blocks, wire_block(e, block));
    }
    if (!ok) {
        json_decref(blocks);
        return NULL;
    }
    return blocks;
}

/* A turn is our own: its content is exchanged. */
static bool wire_turn(struct encoding *e, json_t *turn)
{
    json_t *blocks = wire_content(e, json_object_get(turn, "content"));
    if (json_object_set_new_nocheck(turn, "content", blocks) != 0) {
        return backend_no_memory(e->f); /* where nothing else was said */
    }
    return json_array_size(blocks) > 0 ||
           failure_set(e->f, 400, "unsupported_content", "messages",
                       "a message of the %s holds nothing but white space, which this backend "
                       "refuses: write something or leave it out",
                       json_string_value(json_object_get(turn, "role")));
}

/* Some models take none: then it opens the first turn, which is always the user's. */
static bool set_system(struct encoding *e, const struct buf *system, json_t *body)
{
    json_t *text = system->len > 0 ? json_stringn(system->p, system->len) : NULL;
    if (system->len == 0) {
        return true;
    }
    json_t *block = text ? wire_text(e, text) : NULL;
    json_decref(text);
    if (!block || json_is_null(block)) {
        return block || backend_no_memory(e->f);
    }
    if (backend_refuses(e->c, BEHAVIOUR_SYSTEM_ROLE)) {
        json_t *first = json_array_get(json_object_get(body, "messages"), 0);
        e->has_moved_system = true;
        return json_array_insert_new(json_object_get(first, "content"), 0, block) == 0 ||
               backend_no_memory(e->f);
    }
    return json_object_set_new(body, "system", backend_list(block)) == 0 || backend_no_memory(e->f);
}

/* The first id that was rewritten, as asked: the turns with their copies do not live as long. */
static const char *first_odd_id(const json_t *messages)
{
    size_t i, k;
    json_t *message, *call;
    json_array_foreach ((json_t *)messages, i, message) { /* the macro wants no const */
        json_array_foreach (json_object_get(message, "tool_calls"), k, call) {
            const char *id = json_string_value(json_object_get(call, "id"));
            if (id && !is_plain(id, true)) {
                return id;
            }
        }
        const char *id = json_string_value(json_object_get(message, "tool_call_id"));
        if (id && !is_plain(id, true)) {
            return id;
        }
    }
    return "";
}

static bool note_changes(const struct encoding *e)
{
    struct adjustment id = {
        .name = "messages.tool_call_id", .action = ACTION_REWRITTEN, .reason = REASON_UNSUPPORTED};
    struct adjustment blank = {
        .name = "messages", .action = ACTION_DROPPED, .reason = REASON_UNSUPPORTED};
    struct adjustment role = {
        .name = "messages", .action = ACTION_REWRITTEN, .reason = REASON_ROLE};
    id.asked = (struct value){.type = VALUE_STRING, .s = first_odd_id(e->c->messages)};
    blank.asked = (struct value){.type = VALUE_STRING, .s = "a text of white space"};
    role.asked = (struct value){.type = VALUE_STRING, .s = "system"};
    role.sent = (struct value){.type = VALUE_STRING, .s = "user"};
    return (!e->has_odd_id || backend_note(e->c, BEHAVIOUR_COUNT, &id, e->f)) &&
           (!e->has_blank || backend_note(e->c, BEHAVIOUR_COUNT, &blank, e->f)) &&
           (!e->has_moved_system || backend_note(e->c, BEHAVIOUR_SYSTEM_ROLE, &role, e->f));
}

static bool build_messages(struct encoding *e, json_t *body)
{
    struct turns t;
    turns_init(&t);
    json_t *turn;
    size_t i;
    bool ok = check_messages(e->c, e->f) && turns_build(&t, e->c, e->f);
    json_array_foreach (t.list, i, turn) {
        ok = ok && wire_turn(e, turn);
    }
    ok = ok && (json_object_set_nocheck(body, "messages", t.list) == 0 || backend_no_memory(e->f));
    ok = ok && set_system(e, &t.system, body) && note_changes(e);
    turns_release(&t);
    return ok;
}

/* ---- encode: parameters that have a shape of their own */

/* {"type":"function","function":{name,description,parameters,strict}} -> {"toolSpec":{..}}. NULL:
 * memory, or it cannot be said. */
static json_t *wire_tool(const json_t *tool)
{
    const json_t *function = json_object_get(tool, "function"),
                 *name = json_object_get(function, "name"),
                 *description = json_object_get(function, "description"),
                 *schema = json_object_get(function, "parameters"),
                 *strict = json_object_get(function, "strict");
    if (!backend_is_word(json_object_get(tool, "type"), "function") || !json_is_string(name) ||
        !is_plain(json_string_value(name), false)) {
        return NULL;
    }
    json_t *given = json_is_object(schema)
                        ? json_incref((json_t *)schema)
                        : json_pack("{s:s,s:{}}", "type", "object", "properties");
    bool has_text = json_string_length(description) > 0; /* an empty one is refused */
    return json_pack("{s:{s:O,s:O*,s:{s:o},s:O*}}", "toolSpec", "name", name, "description",
                     has_text ? description : NULL, "inputSchema", "json", given, "strict",
                     json_is_boolean(strict) ? strict : NULL);
}

static json_t *wire_tools(const json_t *tools, struct failure *f)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        if (json_array_append_new(out, wire_tool(json_array_get(tools, i))) != 0) {
            (void)failure_set(f, 400, "unsupported_content", "tools",
                              "tools[%zu]: this backend takes functions only, with a name of 1 to "
                              "%d letters, digits, _ and -",
                              i, NAME_MAX_BYTES);
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static json_t *wire_tool_choice(const json_t *v, struct failure *f)
{
    if (backend_is_word(v, "auto")) {
        return json_pack("{s:{}}", "auto");
    }
    if (backend_is_word(v, "required")) {
        return json_pack("{s:{}}", "any");
    }
    const char *name = json_string_value(json_object_get(json_object_get(v, "function"), "name"));
    if (!name) {
        (void)failure_set(f, 400, "invalid_value", "tool_choice",
                          "must be auto, required or one function by its name: this backend has "
                          "no way to forbid calls but to be given no tools");
        return NULL;
    }
    return json_pack("{s:{s:s}}", "tool", "name", name);
}

/* The schema travels as a text inside of the JSON. */
static json_t *wire_format(const json_t *format, struct failure *f)
{
    const json_t *inner = json_object_get(format, "json_schema");
    inner = json_is_object(inner) ? inner : format;
    const json_t *schema = json_object_get(inner, "schema"), *name = json_object_get(inner, "name"),
                 *description = json_object_get(inner, "description");
    if (!json_is_object(schema)) {
        (void)failure_set(f, 400, "invalid_value", "response_format",
                          "json_schema.schema must be an object: this backend has no JSON without "
                          "a schema");
        return NULL;
    }
    struct buf b;
    buf_init(&b, LIMIT_BODY_BYTES);
    json_t *out = NULL;
    if (jsonio_write(&b, schema)) {
        out = json_pack("{s:s,s:{s:{s:s,s:O*,s:O*}}}", "type", "json_schema", "structure",
                        "jsonSchema", "schema", b.p, "name", json_is_string(name) ? name : NULL,
                        "description", json_is_string(description) ? description : NULL);
    }
    buf_release(&b);
    return out;
}

static bool converse_shape(const struct call *c, enum param p, json_t **value, const char **path,
                           struct failure *f)
{
    (void)c;
    switch (p) { /* the whole, whatever part of it the claim names */
    case PARAM_TOOLS:
        *path = "toolConfig.tools";
        return backend_swap(value, wire_tools(*value, f), f);
    case PARAM_TOOL_CHOICE:
        *path = "toolConfig.toolChoice";
        return backend_swap(value, wire_tool_choice(*value, f), f);
    case PARAM_RESPONSE_FORMAT_JSON_SCHEMA:
        return backend_swap(value, wire_format(*value, f), f);
    default:
        return true;
    }
}

static bool check_tools(const struct encoding *e, const json_t *body)
{
    const json_t *config = json_object_get(body, "toolConfig"),
                 *tools = json_object_get(config, "tools");
    if (config && json_array_size(tools) == 0) {
        return failure_set(e->f, 400, "invalid_value", "tool_choice",
                           "needs tools: leave tool_choice out, or add tools");
    }
    return tools || !e->has_calls ||
           failure_set(e->f, 400, "unsupported_content", "tools",
                       "the messages hold calls of tools, and this backend refuses them without "
                       "the definitions: send the same 'tools' again");
}

static bool build_body(const struct call *c, json_t *body, struct failure *f)
{
    struct encoding e = {.c = c, .f = f};
    return build_messages(&e, body) && backend_encode_params(c, body, f) && check_tools(&e, body);
}

static bool converse_encode(const struct call *c, struct buf *body, struct headers *h,
                            struct failure *f)
{
    return backend_encode_chat(c, build_body, body, h, f);
}

/* ---- decode */

#define BLOCKS_MAX 256 /* blocks of one answer: text, reasoning and calls alternate */

struct decoder {
    struct emitter out;
    bool is_finished;
    unsigned n_tools;
    struct {
        bool is_tool, has_arguments;
        unsigned tool;
    } block[BLOCKS_MAX];
};

static struct decoder *converse_decoder_new(enum wire_form form, bool is_chat)
{
    (void)is_chat;
    return emit_new(sizeof(struct decoder), form);
}

static void converse_decoder_free(struct decoder *d)
{
    emit_free(d);
}

/* What came from the cache or went into it is not in inputTokens. */
static bool take_usage(struct decoder *d, const json_t *usage)
{
    if (!json_is_number(json_object_get(usage, "inputTokens")) &&
        !json_is_number(json_object_get(usage, "outputTokens"))) {
        return true;
    }
    json_int_t read = backend_count(json_object_get(usage, "cacheReadInputTokens"));
    struct usage u = {.is_known = true,
                      .prompt_tokens =
                          backend_count(json_object_get(usage, "inputTokens")) + read +
                          backend_count(json_object_get(usage, "cacheWriteInputTokens")),
                      .completion_tokens = backend_count(json_object_get(usage, "outputTokens")),
                      .cached_tokens = read};
    return emit_usage(&d->out, &u);
}

static bool take_finish(struct decoder *d, const char *word)
{
    char error[80];
    if (d->is_finished) {
        return true;
    }
    (void)snprintf(error, sizeof error, "the model could not go on: %.40s", word);
    d->is_finished = true;
    return emit_finish(&d->out, 0, word, false, error);
}

/* toolUse with its id and name; the tools that the provider runs itself are its own affair. */
static bool start_tool(struct decoder *d, size_t at, const json_t *use)
{
    const char *id = json_string_value(json_object_get(use, "toolUseId")),
               *name = json_string_value(json_object_get(use, "name"));
    d->block[at].is_tool = json_is_object(use) && !json_object_get(use, "type");
    if (!d->block[at].is_tool) {
        return true;
    }
    d->block[at].has_arguments = false;
    d->block[at].tool = d->n_tools++;
    return emit_tool(&d->out, 0, d->block[at].tool, id ? id : "", name ? name : "", "");
}

/* A call that brought no arguments has none: `{}`. */
static bool end_tool(struct decoder *d, size_t at)
{
    if (!d->block[at].is_tool || d->block[at].has_arguments) {
        return true;
    }
    d->block[at].has_arguments = true;
    return emit_tool(&d->out, 0, d->block[at].tool, NULL, NULL, "{}");
}

static bool take_delta(struct decoder *d, size_t at, const json_t *delta)
{
    const json_t *input = json_object_get(json_object_get(delta, "toolUse"), "input");
    if (json_string_length(input) > 0 && d->block[at].is_tool) {
        d->block[at].has_arguments = true;
        return emit_tool(&d->out, 0, d->block[at].tool, NULL, NULL, json_string_value(input));
    }
    return emit_text(&d->out, DELTA_REASONING, 0,
                     json_object_get(json_object_get(delta, "reasoningContent"), "text"), NULL) &&
           emit_text(&d->out, DELTA_TEXT, 0, json_object_get(delta, "text"), NULL);
}

/* throttlingException in a frame, ThrottlingException in a header. */
static int status_of_exception(const char *type, size_t len)
{
    static const struct {
        const char *type;
        int status;
    } map[] = {
        {"ValidationException", 400},       {"AccessDeniedException", 403},
        {"ResourceNotFoundException", 404}, {"ModelTimeoutException", 408},
        {"ModelErrorException", 424},       {"ModelStreamErrorException", 424},
        {"ThrottlingException", 429},       {"ModelNotReadyException", 429},
        {"InternalServerException", 500},   {"ServiceUnavailableException", 503},
    };
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        if (strlen(map[i].type) == len && strncasecmp(map[i].type, type, len) == 0) {
            return map[i].status;
        }
    }
    return 0;
}

static bool fail_with_exception(struct decoder *d, const json_t *o, struct slice type)
{
    struct refusal r = {.status = 0};
    if (!refusal_read(o, &r)) {
        refusal_clean(type, r.message, sizeof r.message);
    }
    r.status = status_of_exception(type.p, type.len);
    return emit_refused(&d->out, &r);
}

static bool is_event(struct slice event, const char *name)
{
    return event.len == strlen(name) && memcmp(event.p, name, event.len) == 0;
}

static bool take_event(struct decoder *d, const json_t *o, struct slice event)
{
    const json_t *index = json_object_get(o, "contentBlockIndex");
    json_int_t n = json_is_integer(index) ? json_integer_value(index) : 0;
    size_t at = n >= 0 && n < BLOCKS_MAX ? (size_t)n : BLOCKS_MAX;
    if (at == BLOCKS_MAX) {
        return emit_malformed(&d->out, "holds more content blocks than can be");
    }
    if (is_event(event, "contentBlockStart")) {
        return start_tool(d, at, json_object_get(json_object_get(o, "start"), "toolUse"));
    }
    if (is_event(event, "contentBlockDelta")) {
        return take_delta(d, at, json_object_get(o, "delta"));
    }
    if (is_event(event, "contentBlockStop")) {
        return end_tool(d, at);
    }
    if (is_event(event, "messageStop")) {
        const char *word = json_string_value(json_object_get(o, "stopReason"));
        return word ? take_finish(d, word)
                    : emit_malformed(&d->out, "ended without a stop reason: it was cut off");
    }
    if (is_event(event, "metadata")) { /* the last one */
        return take_usage(d, json_object_get(o, "usage")) && (!d->is_finished || emit_end(&d->out));
    }
    return true; /* messageStart holds a role; other events will come */
}

static bool take_block(struct decoder *d, size_t at, const json_t *block)
{
    const json_t *use = json_object_get(block, "toolUse"),
                 *thought =
                     json_object_get(json_object_get(block, "reasoningContent"), "reasoningText"),
                 *cited = json_object_get(json_object_get(block, "citationsContent"), "content");
    size_t i;
    json_t *part;
    if (!emit_text(&d->out, DELTA_REASONING, 0, json_object_get(thought, "text"), NULL) ||
        !emit_text(&d->out, DELTA_TEXT, 0, json_object_get(block, "text"), NULL)) {
        return false;
    }
    json_array_foreach ((json_t *)cited, i, part) { /* the macro wants no const */
        if (!emit_text(&d->out, DELTA_TEXT, 0, json_object_get(part, "text"), NULL)) {
            return false;
        }
    }
    if (!start_tool(d, at, use)) {
        return false;
    }
    const json_t *input = json_object_get(use, "input");
    if (d->block[at].is_tool && json_is_object(input)) {
        d->block[at].has_arguments = true;
        return emit_tool_json(&d->out, 0, d->block[at].tool, NULL, NULL, input);
    }
    return end_tool(d, at);
}

static bool take_whole(struct decoder *d, const json_t *o)
{
    const json_t *content = jsonio_get_path(o, "output.message.content");
    const char *word = json_string_value(json_object_get(o, "stopReason"));
    struct refusal r;
    if (!json_is_array(content)) {
        return refusal_read(o, &r) ? emit_refused(&d->out, &r)
                                   : emit_malformed(&d->out, "holds no content");
    }
    for (size_t i = 0; i < json_array_size(content); i++) {
        /* each one ends before the next begins */
        if (!take_block(d, i % BLOCKS_MAX, json_array_get(content, i))) {
            return false;
        }
    }
    return take_finish(d, word ? word : "") && take_usage(d, json_object_get(o, "usage")) &&
           emit_end(&d->out);
}

static bool on_json(const json_t *o, struct slice event, void *ud)
{
    struct decoder *d = ud;
    if (d->out.is_ended || !o) {
        return true; /* there is no [DONE] here; a proxy may have added one */
    }
    if (d->out.pieces.is_exception) {
        return fail_with_exception(d, o, event);
    }
    return d->out.pieces.is_stream ? take_event(d, o, event) : take_whole(d, o);
}

static bool converse_decode(struct decoder *d, struct slice piece, delta_fn *fn, void *ud,
                            struct failure *f)
{
    return emit_feed(d, piece, on_json, fn, ud, f);
}

static bool converse_decode_end(struct decoder *d, delta_fn *fn, void *ud, struct failure *f)
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

const struct backend backend_converse = {
    .name = "converse",
    .stream_type = "application/vnd.amazon.eventstream",
    .encode = converse_encode,
    .decoder_new = converse_decoder_new,
    .decoder_free = converse_decoder_free,
    .decode = converse_decode,
    .decode_end = converse_decode_end,
    .refusal = refusal_answer,
    .shape = converse_shape,
};
