/* wire_chat.c - every message is built from a list of allowed keys: six providers answer 400 to one
 * that they do not know. A key without a value (null, an empty list) says nothing and is left out:
 * clients send back the messages that they got, with `audio` and `refusal` null in them.
 *
 * What is changed is gathered in struct changes and noted once at the end, by its first value.
 */
#include "wire_chat.h"

#include <ctype.h>
#include <string.h>

/* The first value of each kind of change. */
struct changes {
    const json_t *developer, *system, *name, *tool_id, *late_system;
    int64_t tool_id_len; /* of the id that went out */
    const char *unknown_key, *extension_key, *refusal;
    bool has_turn_added;
    size_t n_system; /* system messages that became one */
};

struct writing {
    const struct call *c;
    struct failure *f;
    json_t *out;
    struct changes ch;
};

static bool is_role(const json_t *message, const char *role)
{
    const char *s = json_string_value(json_object_get(message, "role"));
    return s && strcmp(s, role) == 0;
}

/* ---- roles */

const char *wire_chat_role(const struct call *c, const json_t *message)
{
    if (is_role(message, "developer") && !backend_accepts(c, BEHAVIOUR_DEVELOPER_ROLE)) {
        return backend_refuses(c, BEHAVIOUR_SYSTEM_ROLE) ? "user" : "system";
    }
    if (is_role(message, "system") && backend_refuses(c, BEHAVIOUR_SYSTEM_ROLE)) {
        return backend_accepts(c, BEHAVIOUR_DEVELOPER_ROLE) ? "developer" : "user";
    }
    return json_string_value(json_object_get(message, "role"));
}

bool wire_chat_note_role(const struct call *c, const char *asked, const char *sent,
                         struct failure *f)
{
    struct adjustment a = {.name = "messages", .action = ACTION_REWRITTEN, .reason = REASON_ROLE};
    a.asked = (struct value){.type = VALUE_STRING, .s = asked};
    a.sent = (struct value){.type = VALUE_STRING, .s = sent};
    bool is_developer = strcmp(asked, "developer") == 0;
    return backend_note(c, is_developer ? BEHAVIOUR_DEVELOPER_ROLE : BEHAVIOUR_SYSTEM_ROLE, &a, f);
}

/* Where the provider takes only one system message, the first of all, one that comes later is the
 * user's, so that its place is kept. */
static const char *role_of(struct writing *w, const json_t *message)
{
    const char *role = wire_chat_role(w->c, message);
    const json_t *asked = json_object_get(message, "role");
    if (!role) {
        return NULL;
    }
    if (w->c->provider->quirks.has_one_system && strcmp(role, "system") == 0 &&
        json_array_size(w->out) > 0) {
        w->ch.late_system = w->ch.late_system ? w->ch.late_system : asked;
        return "user";
    }
    if (strcmp(role, json_string_value(asked)) != 0) {
        const json_t **first = is_role(message, "developer") ? &w->ch.developer : &w->ch.system;
        *first = *first ? *first : asked;
    }
    return role;
}

/* ---- keys */

enum key_kind { KEY_SENT, KEY_DONE, KEY_NAME, KEY_ID, KEY_CALLS, KEY_EXTENSION, KEY_UNKNOWN };

static bool is_one_of(const char *key, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(key, list[i]) == 0) {
            return true;
        }
    }
    return false;
}
#define IS_ONE_OF(key, list) is_one_of(key, list, sizeof(list) / sizeof *(list))

/* "messages[-1].prefix" of the claim: the key that asks for a continuation. NULL: none is needed.
 */
static const char *prefill_key(const struct call *c)
{
    static const char before[] = "messages[-1].";
    const struct claim *claim = c->rules ? c->rules->behaviour[BEHAVIOUR_PREFILL] : NULL;
    const char *wire = claim && claim->support == CLAIM_YES ? claim->wire : NULL;
    bool is_key = wire && strncmp(wire, before, sizeof before - 1) == 0 && !strpbrk(wire, "= ");
    return is_key ? wire + sizeof before - 1 : NULL;
}

/* A key of somebody's extension; those that ignore unknown keys get it. */
static enum key_kind extension_kind(const struct call *c, const char *key)
{
    static const char *const extensions[] = {"reasoning_content", "reasoning", "reasoning_details",
                                             "prefix", "partial"};
    const struct claim *unknown = c->rules ? c->rules->behaviour[BEHAVIOUR_UNKNOWN_FIELD] : NULL;
    if (!IS_ONE_OF(key, extensions)) {
        return KEY_UNKNOWN;
    }
    bool is_text = strcmp(key, "reasoning_content") == 0 || strcmp(key, "reasoning") == 0;
    bool has_place = c->provider->quirks.reasoning_key && is_text;
    return unknown && unknown->support == CLAIM_IGNORED && !has_place ? KEY_SENT : KEY_EXTENSION;
}

/* Written elsewhere, or without a value. */
static bool is_done(const struct call *c, const char *key, const json_t *value)
{
    const char *prefill = prefill_key(c);
    bool is_empty = json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0);
    return is_empty || strcmp(key, "role") == 0 || (prefill && strcmp(key, prefill) == 0);
}

static enum key_kind key_kind(const struct call *c, const json_t *message, const char *key,
                              const json_t *value)
{
    static const char *const sent[] = {"function_call", "refusal", "audio"};
    if (strcmp(key, "content") == 0) {
        return KEY_SENT;
    }
    if (is_done(c, key, value)) {
        return KEY_DONE;
    }
    if (strcmp(key, "name") == 0) {
        bool is_person = !is_role(message, "tool") && !is_role(message, "function");
        return is_person && backend_refuses(c, BEHAVIOUR_MESSAGE_NAME) ? KEY_NAME : KEY_SENT;
    }
    if (strcmp(key, "tool_call_id") == 0) {
        return KEY_ID;
    }
    if (strcmp(key, "tool_calls") == 0) {
        return KEY_CALLS;
    }
    if (IS_ONE_OF(key, sent)) {
        return c->provider->quirks.has_strict_messages ? KEY_EXTENSION : KEY_SENT;
    }
    return extension_kind(c, key);
}

/* ---- ids of tool calls */

static bool is_in_form(const char *id, size_t len)
{
    size_t n = 0;
    while (isalnum((unsigned char)id[n])) {
        n++;
    }
    return n == len && !id[n];
}

#define MADE_ID_LEN 32

/* The new id follows from the old one alone: both sides of a pair get the same, in every request of
 * a conversation. */
const char *wire_chat_tool_id(const char *id, size_t len, size_t len_max,
                              char out[WIRE_CHAT_ID_SIZE])
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if (len == 0 ? len_max == 0 || (id[0] && strlen(id) <= len_max) : is_in_form(id, len)) {
        return id;
    }
    uint64_t x = UINT64_C(0xcbf29ce484222325); /* FNV-1a, then splitmix64 */
    for (const char *p = id; *p; p++) {
        x = (x ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    }
    size_t n = len > 0 ? len : len_max > 0 && len_max < MADE_ID_LEN ? len_max : MADE_ID_LEN;
    n = n < WIRE_CHAT_ID_SIZE ? n : WIRE_CHAT_ID_SIZE - 1;
    for (size_t i = 0; i < n; i++) {
        x += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t y = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        y = (y ^ (y >> 27)) * UINT64_C(0x94d049bb133111eb);
        out[i] = digits[(y >> 32) % 62];
    }
    out[n] = '\0';
    return out;
}

static json_t *wire_id(struct writing *w, const json_t *id)
{
    char room[WIRE_CHAT_ID_SIZE];
    const char *asked = json_string_value(id);
    if (!asked) {
        return json_incref((json_t *)id); /* the provider says what it thinks of it */
    }
    const struct provider_quirks *q = &w->c->provider->quirks;
    const char *sent =
        wire_chat_tool_id(asked, (size_t)q->tool_id_len, (size_t)q->tool_id_len_max, room);
    if (sent == asked) {
        return json_incref((json_t *)id);
    }
    w->ch.tool_id_len = (int64_t)strlen(sent);
    w->ch.tool_id = w->ch.tool_id ? w->ch.tool_id : id;
    return json_string(sent);
}

static json_t *wire_calls(struct writing *w, const json_t *calls)
{
    const struct provider_quirks *q = &w->c->provider->quirks;
    if ((q->tool_id_len == 0 && q->tool_id_len_max == 0) || !json_is_array(calls)) {
        return json_incref((json_t *)calls);
    }
    json_t *out = json_array();
    size_t i;
    json_t *call;
    json_array_foreach ((json_t *)calls, i, call) { /* the macro wants no const */
        json_t *copy = json_is_object(call) ? json_copy(call) : json_incref(call);
        const json_t *id = json_object_get(call, "id");
        bool ok = copy && (!id || json_object_set_new(copy, "id", wire_id(w, id)) == 0);
        ok = ok && json_array_append(out, copy) == 0;
        json_decref(copy);
        if (!ok) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

/* ---- one message */

/* Reasoning that goes back under the provider's own key; a refusal, which becomes the text of its
 * message where there is no key for it. */
static bool place_key(struct writing *w, json_t *out, const json_t *message, const char *key,
                      const json_t *value)
{
    const struct provider_quirks *q = &w->c->provider->quirks;
    bool is_text = strcmp(key, "reasoning_content") == 0 || strcmp(key, "reasoning") == 0;
    if (is_text && q->reasoning_key && json_is_string(value)) {
        return json_object_set(out, q->reasoning_key, (json_t *)value) == 0;
    }
    const json_t *content = json_object_get(message, "content");
    if (strcmp(key, "refusal") == 0 && json_is_string(value) && json_string_length(content) == 0 &&
        json_array_size(content) == 0) {
        w->ch.refusal = w->ch.refusal ? w->ch.refusal : json_string_value(value);
        return json_object_set(out, "content", (json_t *)value) == 0;
    }
    w->ch.extension_key = w->ch.extension_key ? w->ch.extension_key : key;
    return true;
}

static bool write_key(struct writing *w, json_t *out, const json_t *message, const char *key,
                      json_t *value)
{
    struct changes *ch = &w->ch;
    switch (key_kind(w->c, message, key, value)) {
    case KEY_SENT:
        /* a refusal may already stand where an empty content comes now */
        return (strcmp(key, "content") == 0 && json_object_get(out, "content")) ||
               json_object_set(out, key, value) == 0;
    case KEY_ID:
        return json_object_set_new(out, key, wire_id(w, value)) == 0;
    case KEY_CALLS:
        return json_object_set_new(out, key, wire_calls(w, value)) == 0;
    case KEY_NAME:
        ch->name = ch->name ? ch->name : value;
        return true;
    case KEY_EXTENSION:
        return place_key(w, out, message, key, value);
    case KEY_UNKNOWN:
        ch->unknown_key = ch->unknown_key ? ch->unknown_key : key;
        return true;
    case KEY_DONE:
        break;
    }
    return true;
}

static json_t *wire_message(struct writing *w, const json_t *message, const char *role)
{
    json_t *out = json_object();
    const char *key;
    json_t *value;
    bool ok = out && json_object_set_new(out, "role", json_string(role)) == 0;
    json_object_foreach ((json_t *)message, key, value) { /* the macro wants no const */
        ok = ok && write_key(w, out, message, key, value);
    }
    if (!ok) {
        json_decref(out);
        return NULL;
    }
    return out;
}

/* ---- the list */

static bool append_content(json_t *parts, const json_t *content)
{
    if (json_is_array(content)) {
        return json_array_extend(parts, (json_t *)content) == 0;
    }
    return json_array_append_new(parts, json_pack("{s:s,s:O}", "type", "text", "text", content)) ==
           0;
}

/* Two texts are joined by a blank line, anything else as parts. */
static json_t *join_content(const json_t *a, const json_t *b)
{
    if (json_is_string(a) && json_is_string(b)) {
        return json_pack("s%++%", json_string_value(a), json_string_length(a), "\n\n",
                         json_string_value(b), json_string_length(b));
    }
    json_t *parts = json_array();
    if (!parts || !append_content(parts, a) || !append_content(parts, b)) {
        json_decref(parts);
        return NULL;
    }
    return parts;
}

/* Whether `message` only goes on with the one system message that there may be. */
static bool is_joined(const struct writing *w, const json_t *message)
{
    bool is_system = is_role(message, "system") || is_role(message, "developer");
    return w->c->provider->quirks.has_one_system && is_system && json_array_size(w->out) == 1 &&
           is_role(json_array_get(w->out, 0), "system");
}

static bool join_system(struct writing *w, const json_t *message)
{
    json_t *first = json_array_get(w->out, 0);
    json_t *both =
        join_content(json_object_get(first, "content"), json_object_get(message, "content"));
    w->ch.n_system += w->ch.n_system == 0 ? 2 : 1;
    return both && json_object_set_new(first, "content", both) == 0;
}

static bool add_message(struct writing *w, const json_t *message, size_t at)
{
    if (is_joined(w, message)) {
        return join_system(w, message) || backend_no_memory(w->f);
    }
    const char *role = role_of(w, message);
    const json_t *last = json_array_get(w->out, json_array_size(w->out) - 1);
    json_t *out = role ? wire_message(w, message, role) : NULL;
    bool is_after_tool = w->c->provider->quirks.has_turn_after_tool && is_role(last, "tool") &&
                         !is_role(out, "tool") && !is_role(out, "assistant");
    if (out && is_after_tool) {
        w->ch.has_turn_added = true;
        json_t *turn = json_pack("{s:s,s:s}", "role", "assistant", "content", ".");
        if (json_array_append_new(w->out, turn) != 0) {
            json_decref(out);
            return backend_no_memory(w->f);
        }
    }
    return json_array_append_new(w->out, out) == 0 ||
           failure_set(w->f, 400, "invalid_message", "messages",
                       "messages[%zu] must be an object with a role", at);
}

/* ---- what was changed */

static struct value text_value(const char *s)
{
    return (struct value){.type = VALUE_STRING, .s = s};
}

static struct adjustment change(const char *name, enum action action, enum reason reason)
{
    return (struct adjustment){.name = name, .action = action, .reason = reason};
}

static bool note_keys(const struct writing *w)
{
    const struct changes *ch = &w->ch;
    struct adjustment name = change("messages.name", ACTION_DROPPED, REASON_UNSUPPORTED);
    struct adjustment extension = change("messages", ACTION_DROPPED, REASON_UNSUPPORTED);
    struct adjustment unknown = change("messages", ACTION_DROPPED, REASON_UNKNOWN_PARAMETER);
    struct adjustment refusal = change("messages.refusal", ACTION_REWRITTEN, REASON_UNSUPPORTED);
    struct adjustment id = change("messages.tool_call_id", ACTION_REWRITTEN, REASON_UNSUPPORTED);
    name.asked = (struct value){.type = VALUE_JSON, .j = ch->name};
    extension.asked = text_value(ch->extension_key); /* the key */
    unknown.asked = text_value(ch->unknown_key);
    refusal.asked = text_value(ch->refusal);
    refusal.sent = text_value("content"); /* the key that holds it */
    id.asked = (struct value){.type = VALUE_JSON, .j = ch->tool_id};
    id.sent = (struct value){.type = VALUE_INT, .i = ch->tool_id_len}; /* long */
    return (!ch->name || backend_note(w->c, BEHAVIOUR_MESSAGE_NAME, &name, w->f)) &&
           (!ch->extension_key || backend_note(w->c, BEHAVIOUR_UNKNOWN_FIELD, &extension, w->f)) &&
           (!ch->unknown_key || backend_note(w->c, BEHAVIOUR_UNKNOWN_FIELD, &unknown, w->f)) &&
           (!ch->refusal || backend_note(w->c, BEHAVIOUR_UNKNOWN_FIELD, &refusal, w->f)) &&
           (!ch->tool_id || backend_note(w->c, BEHAVIOUR_COUNT, &id, w->f));
}

static bool note_changes(const struct writing *w)
{
    const struct call *c = w->c;
    const struct changes *ch = &w->ch;
    const char *system = backend_refuses(c, BEHAVIOUR_SYSTEM_ROLE) ? "user" : "system";
    const char *other = backend_accepts(c, BEHAVIOUR_DEVELOPER_ROLE) ? "developer" : "user";
    struct adjustment merged = change("messages", ACTION_REWRITTEN, REASON_ROLE);
    struct adjustment added = change("messages", ACTION_ADDED, REASON_REQUIRED);
    merged.asked = (struct value){.type = VALUE_INT, .i = (int64_t)ch->n_system}; /* messages */
    merged.sent = (struct value){.type = VALUE_INT, .i = 1};
    added.sent = text_value("an assistant message after the tool's result");
    return (!ch->developer || wire_chat_note_role(c, "developer", system, w->f)) &&
           (!ch->system || wire_chat_note_role(c, "system", other, w->f)) &&
           (!ch->late_system ||
            wire_chat_note_role(c, json_string_value(ch->late_system), "user", w->f)) &&
           (!ch->n_system || backend_note(c, BEHAVIOUR_SYSTEM_ROLE, &merged, w->f)) &&
           (!ch->has_turn_added || backend_note(c, BEHAVIOUR_COUNT, &added, w->f)) && note_keys(w);
}

/* ---- whole */

static bool has_image(const json_t *message)
{
    size_t i;
    json_t *part;
    json_array_foreach (json_object_get(message, "content"), i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        if (type && strcmp(type, "image_url") == 0) {
            return true;
        }
    }
    return false;
}

bool wire_chat_check(const struct call *c, struct failure *f)
{
    size_t n = json_array_size(c->messages);
    if (n > 0 && is_role(json_array_get(c->messages, n - 1), "assistant") &&
        backend_refuses(c, BEHAVIOUR_PREFILL)) {
        return failure_set(f, 400, "unsupported_content", "messages",
                           "this model refuses a last message of the assistant: end the "
                           "conversation with a user message");
    }
    for (size_t i = 0; backend_refuses(c, BEHAVIOUR_IMAGES) && i < n; i++) {
        if (has_image(json_array_get(c->messages, i))) {
            return failure_set(f, 400, "unsupported_content", "messages",
                               "messages[%zu] holds an image, and this model takes none", i);
        }
    }
    return true;
}

/* A last message of the assistant is to be continued, where that has to be said. */
static bool mark_prefill(struct writing *w)
{
    json_t *last = json_array_get(w->out, json_array_size(w->out) - 1);
    const char *key = prefill_key(w->c);
    return !key || !is_role(last, "assistant") || json_object_get(last, "tool_calls") ||
           json_object_set_new(last, key, json_true()) == 0 || backend_no_memory(w->f);
}

json_t *wire_chat_messages(const struct call *c, struct failure *f)
{
    struct writing w = {.c = c, .f = f, .out = json_array()};
    bool ok = w.out ? wire_chat_check(c, f) : backend_no_memory(f);
    for (size_t i = 0; ok && i < json_array_size(c->messages); i++) {
        ok = add_message(&w, json_array_get(c->messages, i), i);
    }
    if (!ok || !mark_prefill(&w) || !note_changes(&w)) {
        json_decref(w.out);
        return NULL;
    }
    return w.out;
}

bool wire_chat_shape_format(enum param p, json_t **value, const char **path)
{
    if (!*path || strncmp(*path, "response_format", 15) != 0) {
        return true;
    }
    *path = "response_format";
    if (json_is_string(json_object_get(*value, "type"))) {
        return true;
    }
    json_t *inner = *value;
    *value = p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA
                 ? json_pack("{s:s,s:o}", "type", "json_schema", "json_schema", inner)
                 : json_pack("{s:s}", "type", "json_object");
    if (p != PARAM_RESPONSE_FORMAT_JSON_SCHEMA) {
        json_decref(inner);
    }
    return *value != NULL;
}
