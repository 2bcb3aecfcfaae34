/* messages.c - the names of calls are kept while the messages are walked, so that an id that was
 * used twice means the last call before its result. */
#include "messages.h"

#include "gateway/base/jsonio.h"
#include "gateway/base/limits.h"
#include <string.h>

json_t *messages_refuse(struct messages *b, size_t at, const char *what)
{
    (void)failure_set(b->f, 400, "unsupported_content", "messages", "messages[%zu]: %s", at, what);
    return NULL;
}

static bool refuse(struct messages *b, size_t at, const char *what)
{
    return messages_refuse(b, at, what) != NULL;
}

/* ---- one message */

/* NULL: not a role that these dialects know. */
static const char *wire_role(struct messages *b, const json_t *role)
{
    static const char *const kept[] = {"user", "assistant", "tool"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (backend_is_word(role, kept[i])) {
            return kept[i];
        }
    }
    if (!backend_is_word(role, "system") && !backend_is_word(role, "developer")) {
        return NULL;
    }
    bool has_system = !backend_refuses(b->c, BEHAVIOUR_SYSTEM_ROLE);
    if (backend_is_word(role, "developer")) {
        b->developer = b->developer ? b->developer : role;
    } else if (!has_system) {
        b->system = b->system ? b->system : role;
    }
    return has_system ? "system" : "user";
}

static void look_at_keys(struct messages *b, const json_t *message, const char *role)
{
    static const struct {
        const char *key, *role; /* NULL: of any role */
    } known[] = {{"role", NULL},
                 {"content", NULL},
                 {"name", NULL},
                 {"tool_calls", "assistant"},
                 {"refusal", "assistant"},
                 {"reasoning_content", "assistant"},
                 {"reasoning", "assistant"},
                 {"tool_call_id", "tool"}};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)message, key, value) { /* the macro wants no const */
        bool is_known =
            json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            bool is_role = !known[i].role || strcmp(known[i].role, role) == 0;
            is_known = is_known || (is_role && strcmp(key, known[i].key) == 0);
        }
        if (!is_known && !b->unknown_key) {
            b->unknown_key = key;
        }
    }
    const json_t *name = json_object_get(message, "name");
    if (!b->name && json_is_string(name) && strcmp(role, "tool") != 0) {
        b->name = name;
    }
}

static bool is_image_address(const char *url)
{
    const char *mark = strstr(url, ";base64,");
    return strncmp(url, "https://", 8) == 0 || strncmp(url, "http://", 7) == 0 ||
           (strncmp(url, "data:", 5) == 0 && mark && mark > url + 5);
}

static bool add_image(struct messages *b, const struct message *m, json_t *parts,
                      const json_t *part)
{
    const json_t *image = json_object_get(part, "image_url");
    const json_t *url = json_is_string(image) ? image : json_object_get(image, "url"),
                 *detail = json_object_get(image, "detail");
    if (backend_refuses(b->c, BEHAVIOUR_IMAGES) || strcmp(m->role, "user") != 0) {
        return refuse(b, m->at,
                      "an image is only possible in a user message, for a model that takes images");
    }
    if (!json_is_string(url) || !is_image_address(json_string_value(url))) {
        return refuse(b, m->at, "image_url.url must be an http address or data:TYPE;base64,DATA");
    }
    json_t *inner = json_pack("{s:O}", "url", url);
    if (json_is_string(detail) && !backend_is_word(detail, "auto")) {
        (void)json_object_set(inner, "detail", (json_t *)detail);
    }
    json_t *block = json_pack("{s:s,s:o}", "type", "image_url", "image_url", inner);
    return json_array_append_new(parts, block) == 0 || backend_no_memory(b->f);
}

static bool add_text(struct messages *b, json_t *parts, const json_t *text)
{
    return json_string_length(text) == 0 ||
           json_array_append_new(parts, backend_object("type", json_string_nocheck("text"), "text",
                                                       json_incref((json_t *)text), NULL)) == 0 ||
           backend_no_memory(b->f);
}

static bool add_part(struct messages *b, const struct message *m, json_t *parts, const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    if (type && strcmp(type, "image_url") == 0) {
        return add_image(b, m, parts, part);
    }
    bool is_refusal = type && strcmp(type, "refusal") == 0;
    const json_t *text = json_object_get(part, is_refusal ? "refusal" : "text");
    if (!type || (!is_refusal && strcmp(type, "text") != 0) || !json_is_string(text)) {
        return failure_set(b->f, 400, "unsupported_content", "messages",
                           "messages[%zu]: this backend has no content part '%.40s'", m->at,
                           type ? type : "without type");
    }
    return add_text(b, parts, text);
}

static json_t *read_parts(struct messages *b, const struct message *m, const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    json_t *parts = json_array(), *part;
    bool ok = parts || backend_no_memory(b->f);
    size_t i;
    json_array_foreach ((json_t *)content, i, part) {
        ok = ok && add_part(b, m, parts, part);
    }
    if (ok && json_array_size(parts) == 0 && strcmp(m->role, "assistant") == 0) {
        ok = add_text(b, parts, json_object_get(message, "refusal"));
    }
    if (!ok) {
        json_decref(parts);
        return NULL;
    }
    return parts;
}

static bool read_calls(struct messages *b, struct message *m, const json_t *message)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    if (strcmp(m->role, "tool") == 0) {
        m->call_id = json_string_value(json_object_get(message, "tool_call_id"));
        if (!m->call_id) {
            return refuse(b, m->at, "a tool message needs tool_call_id");
        }
        m->call_name = json_string_value(json_object_get(b->call_names, m->call_id));
        if (!m->call_name) {
            m->call_name = json_string_value(json_object_get(message, "name"));
        }
    }
    if (strcmp(m->role, "assistant") != 0 || json_array_size(calls) == 0) {
        return true;
    }
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        json_t *id = json_object_get(call, "id"),
               *name = json_object_get(json_object_get(call, "function"), "name");
        if (!json_is_string(id) || !json_is_string(name)) {
            return refuse(b, m->at, "each tool call needs an id and function.name");
        }
        b->call_names = b->call_names ? b->call_names : json_object();
        if (json_object_set_nocheck(b->call_names, json_string_value(id), name) != 0) {
            return backend_no_memory(b->f);
        }
    }
    m->calls = calls;
    return true;
}

static void read_reasoning(struct message *m, const json_t *message)
{
    static const char *const keys[] = {"reasoning_content", "reasoning"};
    for (size_t i = 0; i < 2 && strcmp(m->role, "assistant") == 0 && !m->reasoning; i++) {
        const json_t *text = json_object_get(message, keys[i]);
        m->reasoning = json_string_length(text) > 0 ? text : NULL;
    }
}

static json_t *wire_message(struct messages *b, size_t at, message_fn *fn)
{
    const json_t *message = json_array_get(b->c->messages, at),
                 *role = json_object_get(message, "role");
    struct message m = {.at = at, .is_last = at + 1 == json_array_size(b->c->messages)};
    m.role = wire_role(b, role);
    if (!m.role) {
        (void)failure_set(b->f, 400, "unsupported_content", "messages",
                          "messages[%zu]: this backend has no role '%.20s'", at,
                          json_is_string(role) ? json_string_value(role) : "");
        return NULL;
    }
    if (m.is_last && strcmp(m.role, "assistant") == 0 && backend_refuses(b->c, BEHAVIOUR_PREFILL)) {
        return messages_refuse(b, at,
                               "this model does not continue a last message of the assistant: end "
                               "the conversation with a user message");
    }
    look_at_keys(b, message, m.role);
    const json_t *content = json_object_get(message, "content");
    m.text = json_string_length(content) > 0 ? content : NULL;
    json_t *parts = m.text ? NULL : read_parts(b, &m, message), *out = NULL;
    m.parts = parts;
    read_reasoning(&m, message);
    if ((m.text || parts) && read_calls(b, &m, message)) {
        out = fn(&m, b);
    }
    json_decref(parts);
    /* cppcheck-suppress returnDanglingLifetime ; fn makes a value of its own */
    return out;
}

/* ---- all of them */

static struct value string_value(const char *s)
{
    return (struct value){.type = VALUE_STRING, .s = s};
}

static struct value json_value(const json_t *j)
{
    return (struct value){.type = VALUE_JSON, .j = j};
}

static struct value count_value(size_t n)
{
    return (struct value){.type = VALUE_INT, .i = (int64_t)n};
}

static bool note_changes(struct messages *b)
{
    const struct value system =
        string_value(backend_refuses(b->c, BEHAVIOUR_SYSTEM_ROLE) ? "user" : "system");
    const struct value none = {.type = VALUE_NONE};
    const struct {
        bool is_so;
        enum behaviour whose;
        const char *name;
        enum action action;
        enum reason reason;
        struct value asked, sent;
    } all[] = {
        {b->developer, BEHAVIOUR_DEVELOPER_ROLE, "messages", ACTION_REWRITTEN, REASON_ROLE,
         string_value("developer"), system},
        {b->system, BEHAVIOUR_SYSTEM_ROLE, "messages", ACTION_REWRITTEN, REASON_ROLE,
         string_value("system"), system},
        {b->n_parts > 0, BEHAVIOUR_COUNT, "messages.content", ACTION_REWRITTEN, REASON_UNSUPPORTED,
         count_value(b->n_parts), count_value(b->n_joined)},
        {b->is_moved, BEHAVIOUR_COUNT, "messages.content", ACTION_REWRITTEN, REASON_UNSUPPORTED,
         string_value("an image after a text"), string_value("an image before it")},
        {b->name, BEHAVIOUR_MESSAGE_NAME, "messages.name", ACTION_DROPPED, REASON_UNSUPPORTED,
         json_value(b->name), none},
        {b->detail, BEHAVIOUR_IMAGES, "messages.image_url.detail", ACTION_DROPPED,
         REASON_UNSUPPORTED, json_value(b->detail), none},
        {b->reasoning, BEHAVIOUR_COUNT, "messages.reasoning_content", ACTION_DROPPED,
         REASON_UNSUPPORTED, json_value(b->reasoning), none},
        {b->unknown_key, BEHAVIOUR_UNKNOWN_FIELD, "messages", ACTION_DROPPED, REASON_UNSUPPORTED,
         string_value(b->unknown_key), none},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct adjustment a = {.name = all[i].name,
                               .action = all[i].action,
                               .reason = all[i].reason,
                               .asked = all[i].asked,
                               .sent = all[i].sent};
        if (all[i].is_so && !backend_note(b->c, all[i].whose, &a, b->f)) {
            return false;
        }
    }
    return true;
}

json_t *messages_build(const struct call *c, message_fn *fn, struct failure *f)
{
    struct messages b = {.c = c, .f = f};
    json_t *list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < json_array_size(c->messages); i++) {
        ok = json_array_append_new(list, wire_message(&b, i, fn)) == 0;
    }
    json_decref(b.call_names);
    if (!ok || !note_changes(&b)) {
        json_decref(list);
        (void)backend_no_memory(f); /* where nothing else was said */
        return NULL;
    }
    return list;
}

/* ---- parts */

static bool is_image(const json_t *part)
{
    return backend_is_word(json_object_get(part, "type"), "image_url");
}

json_t *messages_text(const struct message *m, struct messages *b)
{
    if (m->text) {
        return json_incref((json_t *)m->text);
    }
    struct buf text;
    buf_init(&text, LIMIT_BODY_BYTES);
    bool ok = true;
    size_t n_texts = 0;
    for (size_t i = 0; i < json_array_size(m->parts); i++) {
        const json_t *part = json_array_get(m->parts, i), *s = json_object_get(part, "text");
        if (is_image(part)) {
            b->is_moved = b->is_moved || n_texts > 0;
            continue;
        }
        ok = ok && (n_texts == 0 || buf_puts(&text, "\n")) &&
             buf_append(&text, json_string_value(s), json_string_length(s));
        n_texts++;
    }
    if (n_texts > 1) {
        b->n_parts += n_texts;
        b->n_joined++;
    }
    json_t *out = ok ? json_stringn(text.len ? text.p : "", text.len) : NULL;
    buf_release(&text);
    return out;
}

json_t *messages_content(const struct message *m)
{
    const json_t *only = json_array_get(m->parts, 0);
    size_t n = json_array_size(m->parts);
    if (m->text) {
        return json_incref((json_t *)m->text);
    }
    if (n == 0) {
        return json_string("");
    }
    return n == 1 && !is_image(only) ? json_incref(json_object_get(only, "text"))
                                     : json_incref((json_t *)m->parts);
}

/* ---- calls and tools */

json_t *messages_arguments_text(const json_t *arguments)
{
    if (json_string_length(arguments) > 0) {
        return json_incref((json_t *)arguments);
    }
    struct buf b;
    buf_init(&b, LIMIT_BODY_BYTES);
    bool is_told = json_is_object(arguments) && jsonio_write(&b, arguments);
    json_t *out = json_string(is_told ? b.p : "{}");
    buf_release(&b);
    return out;
}

json_t *messages_arguments_object(const json_t *arguments)
{
    const char *s = json_string_value(arguments);
    if (json_is_object(arguments)) {
        return json_incref((json_t *)arguments);
    }
    json_t *parsed = s ? jsonio_parse(s, json_string_length(arguments), NULL) : NULL;
    if (json_is_object(parsed)) {
        return parsed;
    }
    json_decref(parsed);
    return s && s[0] ? json_pack("{s:s}", "arguments", s) : json_object();
}

/* NULL: not a function, or memory. */
static json_t *wire_tool(const json_t *tool)
{
    const json_t *function = json_object_get(tool, "function"),
                 *description = json_object_get(function, "description");
    const json_t *name = json_object_get(function, "name"),
                 *schema = json_object_get(function, "parameters");
    if (!backend_is_word(json_object_get(tool, "type"), "function") || !json_is_string(name)) {
        return NULL;
    }
    json_t *inner = json_pack("{s:O}", "name", name);
    bool ok = inner && (!json_is_string(description) ||
                        json_object_set(inner, "description", (json_t *)description) == 0);
    json_t *parameters = json_is_object(schema)
                             ? json_incref((json_t *)schema)
                             : json_pack("{s:s,s:{}}", "type", "object", "properties");
    ok = ok && json_object_set(inner, "parameters", parameters) == 0;
    json_t *out = ok ? json_pack("{s:s,s:O}", "type", "function", "function", inner) : NULL;
    json_decref(parameters);
    json_decref(inner);
    return out;
}

json_t *messages_tools(const json_t *tools, struct failure *f)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        if (json_array_append_new(out, wire_tool(json_array_get(tools, i))) != 0) {
            (void)failure_set(f, 400, "unsupported_content", "tools",
                              "tools[%zu]: this backend takes only functions with a name", i);
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

bool messages_note_strict(const struct call *c, struct failure *f)
{
    const json_t *tools = sampling_has(c->send, PARAM_TOOLS) ? c->send->v[PARAM_TOOLS].j : NULL;
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        if (json_is_true(json_object_get(function, "strict"))) {
            struct adjustment a = {.name = "tools.function.strict",
                                   .action = ACTION_DROPPED,
                                   .reason = REASON_UNSUPPORTED};
            a.asked = (struct value){.type = VALUE_BOOL, .b = true};
            return backend_note(c, BEHAVIOUR_COUNT, &a, f);
        }
    }
    return true;
}

static const json_t *named_format(const json_t *format)
{
    const json_t *inner = json_object_get(format, "json_schema");
    return inner ? inner : format;
}

const json_t *messages_schema(const json_t *format)
{
    const json_t *schema = json_object_get(named_format(format), "schema");
    return json_is_object(schema) ? schema : NULL;
}

bool messages_note_format(const struct call *c, struct failure *f)
{
    const json_t *text = NULL;
    if (sampling_has(c->send, PARAM_RESPONSE_FORMAT_JSON_SCHEMA)) {
        text = json_object_get(named_format(c->send->v[PARAM_RESPONSE_FORMAT_JSON_SCHEMA].j),
                               "description");
    }
    if (!json_is_string(text)) {
        return true;
    }
    struct adjustment a = {.name = "response_format.json_schema.description",
                           .action = ACTION_DROPPED,
                           .reason = REASON_UNSUPPORTED};
    a.asked = (struct value){.type = VALUE_JSON, .j = text};
    return backend_note(c, BEHAVIOUR_COUNT, &a, f);
}
