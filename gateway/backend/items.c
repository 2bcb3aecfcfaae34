/* items.c - see items.h. An assistant's message is written as a plain string: in a list its parts
 * would need ids and states that only the provider has. */
#include "items.h"
#include "wire_chat.h"

#include "gateway/base/limits.h"
#include <string.h>

#define CALL_ID_MAX 64 /* longest call_id */

/* The first value of each kind of change. */
struct building {
    struct items *out;
    const struct call *c;
    struct failure *f;
    const json_t *name, *detail, *tool_id;
    const char *developer, *system, *unknown_key;
};

static bool is_role(const json_t *message, const char *role)
{
    return backend_is_word(json_object_get(message, "role"), role);
}

static bool refuse(struct building *t, size_t at, const char *what)
{
    return failure_set(t->f, 400, "unsupported_content", "messages", "messages[%zu]: %s", at, what);
}

static bool append(struct building *t, json_t *list, json_t *item)
{
    return json_array_append_new(list, item) == 0 || backend_no_memory(t->f);
}

/* ---- parts of a message */

static bool add_image(struct building *t, json_t *parts, const json_t *part, size_t at)
{
    const json_t *image = json_object_get(part, "image_url"),
                 *detail = json_object_get(image, "detail");
    const json_t *url = json_is_string(image) ? image : json_object_get(image, "url");
    if (!json_is_string(url)) {
        return refuse(t, at, "image_url.url must be a string");
    }
    json_t *out = json_pack("{s:s,s:O}", "type", "input_image", "image_url", url);
    if (!t->c->provider->quirks.has_strict_messages) {
        json_t *said = json_is_string(detail) ? json_incref((json_t *)detail) : json_string("auto");
        (void)json_object_set_new(out, "detail", said);
    } else if (detail && !backend_is_word(detail, "auto")) {
        t->detail = t->detail ? t->detail : detail;
    }
    return append(t, parts, out);
}

/* {"type":"file","file":{file_id | filename, file_data}} */
static bool add_file(struct building *t, json_t *parts, const json_t *part, size_t at)
{
    static const char *const keys[] = {"file_id", "filename", "file_data"};
    const json_t *file = json_object_get(part, "file");
    if (!json_is_object(file) || t->c->provider->quirks.has_strict_messages) {
        return refuse(t, at, "a file is not possible here");
    }
    json_t *out = json_pack("{s:s}", "type", "input_file");
    for (size_t i = 0; out && i < sizeof keys / sizeof *keys; i++) {
        const json_t *v = json_object_get(file, keys[i]);
        if (v && json_object_set(out, keys[i], (json_t *)v) != 0) {
            json_decref(out);
            out = NULL;
        }
    }
    return append(t, parts, out);
}

static bool add_part(struct building *t, json_t *parts, const json_t *part, size_t at)
{
    const json_t *type = json_object_get(part, "type"), *text = json_object_get(part, "text");
    if (backend_is_word(type, "image_url")) {
        return add_image(t, parts, part, at);
    }
    if (backend_is_word(type, "file")) {
        return add_file(t, parts, part, at);
    }
    if (!backend_is_word(type, "text") || !json_is_string(text)) {
        return failure_set(t->f, 400, "unsupported_content", "messages",
                           "messages[%zu]: content part '%.40s' is not supported by this backend",
                           at, json_is_string(type) ? json_string_value(type) : "without type");
    }
    return append(t, parts, json_pack("{s:s,s:O}", "type", "input_text", "text", text));
}

/* A string stays one; parts become the list of an item. NULL: failure set. */
static json_t *wire_content(struct building *t, const json_t *content, size_t at)
{
    if (!json_is_array(content)) {
        json_t *text = json_is_string(content) ? json_incref((json_t *)content) : json_string("");
        (void)(text || backend_no_memory(t->f));
        return text;
    }
    json_t *parts = json_array();
    size_t i;
    json_t *part;
    json_array_foreach ((json_t *)content, i, part) { /* the macro wants no const */
        if (!parts || !add_part(t, parts, part, at)) {
            json_decref(parts);
            (void)backend_no_memory(t->f); /* the first failure stays */
            return NULL;
        }
    }
    (void)(parts || backend_no_memory(t->f));
    return parts;
}

/* The text of a message that can only be a string: parts of text and of refusal, put together. */
static bool add_text(struct building *t, struct buf *b, const json_t *content, const char *between,
                     size_t at)
{
    bool ok = !json_is_string(content) ||
              buf_append(b, json_string_value(content), json_string_length(content));
    size_t i;
    json_t *part;
    json_array_foreach ((json_t *)content, i, part) { /* the macro wants no const */
        const json_t *type = json_object_get(part, "type");
        const json_t *text =
            json_object_get(part, backend_is_word(type, "refusal") ? "refusal" : "text");
        if ((!backend_is_word(type, "text") && !backend_is_word(type, "refusal")) ||
            !json_is_string(text)) {
            return refuse(t, at, "only text is possible in a message of this role");
        }
        ok = ok && (b->len == 0 || buf_puts(b, between)) &&
             buf_append(b, json_string_value(text), json_string_length(text));
    }
    return ok || backend_no_memory(t->f);
}

/* ---- items */

static const char *wire_id(struct building *t, const json_t *id, char room[WIRE_CHAT_ID_SIZE])
{
    const char *asked = json_string_value(id),
               *sent = wire_chat_tool_id(asked, (size_t)t->c->provider->quirks.tool_id_len,
                                         CALL_ID_MAX, room);
    if (sent != asked && !t->tool_id) {
        t->tool_id = id;
    }
    return sent;
}

static bool add_calls(struct building *t, const json_t *message, size_t at)
{
    size_t i;
    json_t *call;
    json_array_foreach (json_object_get(message, "tool_calls"), i, call) {
        const json_t *function = json_object_get(call, "function"),
                     *id = json_object_get(call, "id"), *name = json_object_get(function, "name"),
                     *arguments = json_object_get(function, "arguments");
        char room[WIRE_CHAT_ID_SIZE];
        if (!json_is_string(id) || !json_is_string(name)) {
            return refuse(t, at, "each tool call needs an id and function.name");
        }
        const char *text = json_string_value(arguments);
        if (!append(t, t->out->list,
                    json_pack("{s:s,s:s,s:O,s:s}", "type", "function_call", "call_id",
                              wire_id(t, id, room), "name", name, "arguments",
                              text && text[0] ? text : "{}"))) {
            return false;
        }
    }
    return true;
}

static json_t *message_item(const char *role, json_t *content)
{
    return backend_object("type", json_string_nocheck("message"), "role", json_string_nocheck(role),
                          "content", content, NULL);
}

static bool add_assistant(struct building *t, const json_t *message, size_t at)
{
    const json_t *refusal = json_object_get(message, "refusal"),
                 *calls = json_object_get(message, "tool_calls");
    json_t *content = json_object_get(message, "content");
    if (json_string_length(content) > 0 && (!refusal || json_is_null(refusal))) {
        return append(t, t->out->list, message_item("assistant", json_incref(content))) &&
               add_calls(t, message, at);
    }
    struct buf text;
    buf_init(&text, LIMIT_BODY_BYTES);
    bool ok = add_text(t, &text, content, "", at) && add_text(t, &text, refusal, "", at);
    if (ok && (text.len > 0 || json_array_size(calls) == 0)) {
        ok = append(t, t->out->list,
                    message_item("assistant", json_stringn(text.p ? text.p : "", text.len)));
    }
    buf_release(&text);
    return ok && add_calls(t, message, at);
}

static bool add_result(struct building *t, const json_t *message, size_t at)
{
    const json_t *id = json_object_get(message, "tool_call_id"),
                 *content = json_object_get(message, "content");
    char room[WIRE_CHAT_ID_SIZE];
    if (!json_is_string(id)) {
        return refuse(t, at, "a tool message needs tool_call_id");
    }
    json_t *output;
    if (t->c->provider->quirks.has_strict_messages) { /* a string and nothing else */
        struct buf text;
        buf_init(&text, LIMIT_BODY_BYTES);
        bool ok = add_text(t, &text, content, "", at);
        output = ok ? json_stringn(text.p ? text.p : "", text.len) : NULL;
        buf_release(&text);
    } else {
        output = wire_content(t, content, at);
    }
    if (!output) {
        return backend_no_memory(t->f); /* the first failure stays */
    }
    return append(t, t->out->list,
                  json_pack("{s:s,s:s,s:o}", "type", "function_call_output", "call_id",
                            wire_id(t, id, room), "output", output));
}

static bool add_said(struct building *t, const json_t *message, const char *role, size_t at)
{
    json_t *content = wire_content(t, json_object_get(message, "content"), at);
    const json_t *name = json_object_get(message, "name");
    json_t *item = content ? message_item(role, content) : NULL;
    bool is_named = json_is_string(name) && strcmp(role, "user") == 0 &&
                    backend_accepts(t->c, BEHAVIOUR_MESSAGE_NAME);
    if (item && is_named && json_object_set(item, "name", (json_t *)name) != 0) {
        json_decref(item);
        item = NULL;
    }
    return append(t, t->out->list, item);
}

/* Keys that have no place in an item. */
static void look_at_keys(struct building *t, const json_t *message)
{
    static const char *const known[] = {"role",         "content", "tool_calls",
                                        "tool_call_id", "refusal", "name"};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)message, key, value) {
        bool is_known =
            json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            is_known = is_known || strcmp(key, known[i]) == 0;
        }
        t->unknown_key = t->unknown_key || is_known ? t->unknown_key : key;
    }
    const json_t *name = json_object_get(message, "name");
    bool is_kept = is_role(message, "tool") ||
                   (is_role(message, "user") && backend_accepts(t->c, BEHAVIOUR_MESSAGE_NAME));
    if (json_is_string(name) && !is_kept && !t->name) {
        t->name = name;
    }
}

static bool add_message(struct building *t, const json_t *message, size_t at)
{
    const char *asked = json_string_value(json_object_get(message, "role"));
    const char *role = wire_chat_role(t->c, message);
    if (!role) {
        return failure_set(t->f, 400, "invalid_message", "messages",
                           "messages[%zu] must be an object with a role", at);
    }
    look_at_keys(t, message);
    if (strcmp(role, "assistant") == 0) {
        return add_assistant(t, message, at);
    }
    if (strcmp(role, "tool") == 0) {
        return add_result(t, message, at);
    }
    if (strcmp(role, "user") != 0 && strcmp(role, "system") != 0 &&
        strcmp(role, "developer") != 0) {
        return refuse(t, at, "the role must be system, developer, user, assistant or tool");
    }
    if (strcmp(role, asked) != 0) {
        const char **first = is_role(message, "developer") ? &t->developer : &t->system;
        *first = *first ? *first : role;
    }
    return add_said(t, message, role, at);
}

/* ---- whole */

/* The system messages that stand before all others; 0 where they are no instructions, or where
 * there is nothing else to say. */
static size_t n_instructions(const struct call *c)
{
    const struct claim *claim = c->rules ? c->rules->behaviour[BEHAVIOUR_SYSTEM_ROLE] : NULL;
    size_t n = 0;
    if (!claim || claim->support != CLAIM_YES || !claim->wire ||
        strcmp(claim->wire, "instructions") != 0) {
        return 0;
    }
    while (is_role(json_array_get(c->messages, n), "system")) {
        n++;
    }
    return n < json_array_size(c->messages) ? n : 0;
}

static bool add_instruction(struct building *t, const json_t *message, size_t at)
{
    struct buf *b = &t->out->instructions, text;
    buf_init(&text, LIMIT_BODY_BYTES);
    look_at_keys(t, message);
    bool ok = add_text(t, &text, json_object_get(message, "content"), "\n\n", at);
    if (ok && text.len > 0) {
        ok = ((b->len == 0 || buf_puts(b, "\n\n")) && buf_append(b, text.p, text.len)) ||
             backend_no_memory(t->f);
    }
    buf_release(&text);
    return ok;
}

static bool note_changes(const struct building *t)
{
    const struct call *c = t->c;
    struct adjustment name = {
        .name = "messages.name", .action = ACTION_DROPPED, .reason = REASON_UNSUPPORTED};
    struct adjustment detail = name, unknown = name, id = name;
    name.asked = (struct value){.type = VALUE_JSON, .j = t->name};
    detail.name = "messages.image_url.detail";
    detail.asked = (struct value){.type = VALUE_JSON, .j = t->detail};
    unknown.name = "messages";
    unknown.asked = (struct value){.type = VALUE_STRING, .s = t->unknown_key};
    id.name = "messages.tool_call_id";
    id.action = ACTION_REWRITTEN;
    id.asked = (struct value){.type = VALUE_JSON, .j = t->tool_id};
    return (!t->developer || wire_chat_note_role(c, "developer", t->developer, t->f)) &&
           (!t->system || wire_chat_note_role(c, "system", t->system, t->f)) &&
           (!t->name || backend_note(c, BEHAVIOUR_MESSAGE_NAME, &name, t->f)) &&
           (!t->detail || backend_note(c, BEHAVIOUR_IMAGES, &detail, t->f)) &&
           (!t->unknown_key || backend_note(c, BEHAVIOUR_UNKNOWN_FIELD, &unknown, t->f)) &&
           (!t->tool_id || backend_note(c, BEHAVIOUR_COUNT, &id, t->f));
}

void items_init(struct items *t)
{
    *t = (struct items){.list = NULL};
    buf_init(&t->instructions, LIMIT_BODY_BYTES);
}

void items_release(struct items *t)
{
    if (t) {
        json_decref(t->list);
        t->list = NULL;
        buf_release(&t->instructions);
    }
}

bool items_build(struct items *t, const struct call *c, struct failure *f)
{
    struct building b = {.out = t, .c = c, .f = f};
    size_t n_first = n_instructions(c);
    t->list = json_array();
    bool ok = t->list ? wire_chat_check(c, f) : backend_no_memory(f);
    for (size_t i = 0; ok && i < json_array_size(c->messages); i++) {
        const json_t *message = json_array_get(c->messages, i);
        ok = i < n_first ? add_instruction(&b, message, i) : add_message(&b, message, i);
    }
    return ok && note_changes(&b);
}

/* ---- tools */

/* {"type":"function","function":{..}} -> {"type":"function",..}. `strict` is true there when it is
 * left out, and false in chat: it is always said. NULL: no function. */
static json_t *flat_tool(const json_t *tool)
{
    const json_t *function = json_object_get(tool, "function"),
                 *description = json_object_get(function, "description"),
                 *name = json_object_get(function, "name"),
                 *schema = json_object_get(function, "parameters");
    if (!backend_is_word(json_object_get(tool, "type"), "function") || !json_is_string(name)) {
        return NULL;
    }
    json_t *out = json_pack("{s:s,s:O}", "type", "function", "name", name);
    bool ok = out && (!json_is_string(description) ||
                      json_object_set(out, "description", (json_t *)description) == 0);
    ok = ok && json_object_set_new(out, "parameters",
                                   json_is_object(schema) ? json_incref((json_t *)schema)
                                                          : json_pack("{s:s,s:{}}", "type",
                                                                      "object", "properties")) == 0;
    ok = ok &&
         json_object_set_new(out, "strict",
                             json_boolean(json_is_true(json_object_get(function, "strict")))) == 0;
    if (!ok) {
        json_decref(out);
        return NULL;
    }
    return out;
}

json_t *items_tools(const json_t *tools, struct failure *f)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        if (json_array_append_new(out, flat_tool(json_array_get(tools, i))) != 0) {
            (void)failure_set(f, 400, "unsupported_content", "tools",
                              "tools[%zu]: this backend only takes functions with a name", i);
            json_decref(out);
            return NULL;
        }
    }
    (void)(out || backend_no_memory(f));
    return out;
}

json_t *items_tool_choice(const json_t *choice, struct failure *f)
{
    if (json_is_string(choice)) {
        return json_incref((json_t *)choice);
    }
    const json_t *name = json_object_get(json_object_get(choice, "function"), "name");
    if (!json_is_string(name)) {
        (void)failure_set(f, 400, "invalid_value", "tool_choice",
                          "must be none, auto, required or one function by its name");
        return NULL;
    }
    return json_pack("{s:s,s:O}", "type", "function", "name", name);
}
