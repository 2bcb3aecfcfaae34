/* turns.c - what is changed on the way is gathered in struct building and noted once at the end, by
 * its first value: a thousand messages with a name are one adjustment.
 *
 * A message that is one string, as most are, is never made into blocks: its turn holds that very
 * string until another message joins the turn.
 */
#include "turns.h"

#include "gateway/base/jsonio.h"
#include "gateway/base/limits.h"
#include <string.h>

struct building {
    struct turns *out;
    const struct call *c;
    struct failure *f;
    json_t *turn;     /* the last one; NULL: none yet */
    const char *role; /* its */
    size_t n_results; /* tool results that it begins with */
    size_t n_asked, n_merged;
    const char *last_role; /* of the last message that said something, as asked */
    const json_t *late_system, *name, *detail;
    const char *unknown_key;
};

static bool refuse(struct building *t, size_t at, const char *what)
{
    return failure_set(t->f, 400, "unsupported_content", "messages", "messages[%zu]: %s", at, what);
}

/* The turn that a message of `role` (a literal) belongs to, made when the last one is of the other
 * role; then it has no content. Borrowed; NULL: memory. */
static json_t *open_turn(struct building *t, const char *role)
{
    if (!t->turn || strcmp(t->role, role) != 0) {
        json_t *turn = backend_object("role", json_string_nocheck(role), NULL);
        if (json_array_append_new(t->out->list, turn) != 0) {
            return NULL;
        }
        t->turn = turn;
        t->role = role;
        t->n_results = 0;
    }
    return t->turn;
}

static json_t *text_block(const json_t *text)
{
    return backend_object("type", json_string_nocheck("text"), "text", json_incref((json_t *)text),
                          NULL);
}

/* The blocks of a turn; a text that stood alone becomes the first of them. Borrowed; NULL: memory.
 */
static json_t *blocks_of(json_t *turn)
{
    json_t *content = json_object_get(turn, "content");
    if (json_is_array(content)) {
        return content;
    }
    json_t *blocks = json_array();
    if (content && json_array_append_new(blocks, text_block(content)) != 0) {
        json_decref(blocks);
        return NULL;
    }
    return json_object_set_new_nocheck(turn, "content", blocks) == 0 ? blocks : NULL;
}

/* data:image/png;base64,AAAA -> {"type":"base64",...}; an address -> {"type":"url",...}. NULL:
 * neither. */
static json_t *image_source(const char *url)
{
    if (strncmp(url, "https://", 8) == 0 || strncmp(url, "http://", 7) == 0) {
        return json_pack("{s:s,s:s}", "type", "url", "url", url);
    }
    const char *mark = strstr(url, ";base64,");
    if (strncmp(url, "data:", 5) != 0 || !mark || mark == url + 5) {
        return NULL;
    }
    return json_pack("{s:s,s:s%,s:s}", "type", "base64", "media_type", url + 5,
                     (size_t)(mark - url - 5), "data", mark + 8);
}

static bool add_image(struct building *t, json_t *blocks, const json_t *part, const char *role,
                      size_t at)
{
    const json_t *image = json_object_get(part, "image_url"),
                 *detail = json_object_get(image, "detail");
    const char *url = json_is_string(image) ? json_string_value(image)
                                            : json_string_value(json_object_get(image, "url"));
    json_t *source = url ? image_source(url) : NULL;
    if (backend_refuses(t->c, BEHAVIOUR_IMAGES) || strcmp(role, "user") != 0) {
        json_decref(source);
        return refuse(t, at,
                      "an image is only possible in a user message, for a model that takes images");
    }
    if (!source) {
        return refuse(t, at, "image_url.url must be an http address or data:TYPE;base64,DATA");
    }
    if (detail && !backend_is_word(detail, "auto")) {
        t->detail = t->detail ? t->detail : detail;
    }
    return json_array_append_new(blocks,
                                 json_pack("{s:s,s:o}", "type", "image", "source", source)) == 0 ||
           backend_no_memory(t->f);
}

static bool add_part(struct building *t, json_t *blocks, const json_t *part, const char *role,
                     size_t at)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    if (type && strcmp(type, "image_url") == 0) {
        return add_image(t, blocks, part, role, at);
    }
    bool is_refusal = type && strcmp(type, "refusal") == 0;
    const json_t *text = json_object_get(part, is_refusal ? "refusal" : "text");
    if (!type || (!is_refusal && strcmp(type, "text") != 0) || !json_is_string(text)) {
        return failure_set(t->f, 400, "unsupported_content", "messages",
                           "messages[%zu]: content part '%.40s' is not supported by this backend",
                           at, type ? type : "without type");
    }
    if (json_string_length(text) == 0) {
        return true; /* "text content blocks must be non-empty" */
    }
    return json_array_append_new(blocks, text_block(text)) == 0 || backend_no_memory(t->f);
}

static bool add_content(struct building *t, json_t *blocks, const json_t *content, const char *role,
                        size_t at)
{
    if (json_string_length(content) > 0 &&
        json_array_append_new(blocks, text_block(content)) != 0) {
        return backend_no_memory(t->f);
    }
    size_t i;
    json_t *part;
    json_array_foreach ((json_t *)content, i, part) { /* the macro wants no const */
        if (!add_part(t, blocks, part, role, at)) {
            return false;
        }
    }
    return true;
}

/* Arguments are text at OpenAI and an object here. What is no object is wrapped, so that nothing of
 * it is lost. */
static json_t *tool_input(const json_t *arguments)
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

static bool add_calls(struct building *t, json_t *blocks, const json_t *message, size_t at)
{
    size_t i;
    json_t *call;
    json_array_foreach (json_object_get(message, "tool_calls"), i, call) {
        const json_t *function = json_object_get(call, "function");
        const char *id = json_string_value(json_object_get(call, "id")),
                   *name = json_string_value(json_object_get(function, "name"));
        if (!id || !name) {
            return refuse(t, at, "each tool call needs an id and function.name");
        }
        json_t *input = tool_input(json_object_get(function, "arguments"));
        json_t *block = json_pack("{s:s,s:s,s:s,s:o}", "type", "tool_use", "id", id, "name", name,
                                  "input", input);
        if (json_array_append_new(blocks, block) != 0) {
            return backend_no_memory(t->f);
        }
    }
    return true;
}

/* Results stand before any text of their turn. */
static bool add_result(struct building *t, const json_t *message, size_t at)
{
    const char *id = json_string_value(json_object_get(message, "tool_call_id"));
    json_t *turn = open_turn(t, "user"), *blocks = turn ? blocks_of(turn) : NULL;
    json_t *content = json_array();
    if (!id) {
        json_decref(content);
        return refuse(t, at, "a tool message needs tool_call_id");
    }
    if (!blocks || !content ||
        !add_content(t, content, json_object_get(message, "content"), "tool", at)) {
        json_decref(content);
        return backend_no_memory(t->f);
    }
    const json_t *only = json_array_get(content, 0);
    json_t *said = json_array_size(content) == 1 ? json_incref(json_object_get(only, "text"))
                                                 : json_incref(content);
    json_decref(content);
    json_t *block =
        json_pack("{s:s,s:s,s:o}", "type", "tool_result", "tool_use_id", id, "content", said);
    return json_array_insert_new(blocks, t->n_results++, block) == 0 || backend_no_memory(t->f);
}

static bool add_system(struct building *t, const json_t *message, size_t at)
{
    json_t *blocks = json_array();
    bool ok = blocks && add_content(t, blocks, json_object_get(message, "content"), "system", at);
    size_t i;
    json_t *block;
    json_array_foreach (blocks, i, block) {
        const json_t *text = json_object_get(block, "text");
        ok = ok && (t->out->system.len == 0 || buf_puts(&t->out->system, "\n\n")) &&
             buf_append(&t->out->system, json_string_value(text), json_string_length(text));
    }
    json_decref(blocks);
    return ok || backend_no_memory(t->f);
}

/* Keys that have no place here. */
static void look_at_keys(struct building *t, const json_t *message)
{
    static const char *const known[] = {"role", "content", "tool_calls", "tool_call_id", "name"};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)message, key, value) {
        bool is_known =
            json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0);
        for (size_t i = 0; !is_known && i < sizeof known / sizeof *known; i++) {
            is_known = strcmp(key, known[i]) == 0;
        }
        if (!is_known && !t->unknown_key) {
            t->unknown_key = key;
        }
        if (!t->name && json_is_string(value) && strcmp(key, "name") == 0 &&
            !backend_is_word(json_object_get(message, "role"), "tool")) {
            t->name = value;
        }
    }
}

static bool add_text(struct building *t, const json_t *text, const char *role)
{
    json_t *turn = open_turn(t, role);
    bool is_alone = turn && !json_object_get(turn, "content");
    bool ok = is_alone ? json_object_set_nocheck(turn, "content", (json_t *)text) == 0
                       : turn && json_array_append_new(blocks_of(turn), text_block(text)) == 0;
    return ok || backend_no_memory(t->f);
}

static void count_spoken(struct building *t, const char *said)
{
    t->n_asked++;
    t->n_merged += t->last_role && strcmp(t->last_role, said) == 0;
    t->last_role = said;
}

/* A message of the user, the assistant, or a system message in the middle, whose place is kept by
 * making it the user's. An empty one says nothing and is refused there. */
static bool add_spoken(struct building *t, const json_t *message, const char *said, size_t at)
{
    bool is_assistant = strcmp(said, "assistant") == 0;
    const char *role = is_assistant ? "assistant" : "user";
    const json_t *content = json_object_get(message, "content");
    bool has_calls = is_assistant && json_array_size(json_object_get(message, "tool_calls")) > 0;
    if (json_string_length(content) > 0 && !has_calls) {
        count_spoken(t, said);
        return add_text(t, content, role);
    }
    json_t *blocks = json_array();
    bool ok = blocks && add_content(t, blocks, content, role, at) &&
              (!has_calls || add_calls(t, blocks, message, at));
    if (ok && json_array_size(blocks) > 0) {
        count_spoken(t, said);
        json_t *turn = open_turn(t, role);
        ok = turn && json_array_extend(blocks_of(turn), blocks) == 0;
    }
    json_decref(blocks);
    return ok || backend_no_memory(t->f);
}

static bool add_message(struct building *t, const json_t *message, size_t at)
{
    const json_t *role = json_object_get(message, "role");
    const char *said = json_string_value(role);
    bool is_system = backend_is_word(role, "system") || backend_is_word(role, "developer");
    look_at_keys(t, message);
    if (is_system && json_array_size(t->out->list) == 0) {
        return add_system(t, message, at);
    }
    if (backend_is_word(role, "tool")) {
        t->last_role = said;
        return add_result(t, message, at);
    }
    if (!is_system && !backend_is_word(role, "user") && !backend_is_word(role, "assistant")) {
        return failure_set(t->f, 400, "unsupported_content", "messages",
                           "messages[%zu]: role '%.20s' is not supported by this backend", at,
                           said ? said : "");
    }
    t->late_system = is_system && !t->late_system ? role : t->late_system;
    return add_spoken(t, message, said, at);
}

/* A last assistant turn is continued by the model; it may not end in white space. */
static bool trim_prefill(struct building *t)
{
    size_t n = json_array_size(t->out->list);
    json_t *last = json_array_get(t->out->list, n - 1);
    if (n == 0 || !backend_is_word(json_object_get(last, "role"), "assistant")) {
        return true;
    }
    if (backend_refuses(t->c, BEHAVIOUR_PREFILL)) {
        return failure_set(t->f, 400, "unsupported_content", "messages",
                           "this model does not continue a last message of the assistant: end the "
                           "conversation with a user message");
    }
    json_t *blocks = blocks_of(last);
    json_t *block = json_array_get(blocks, json_array_size(blocks) - 1);
    if (!blocks) {
        return backend_no_memory(t->f);
    }
    const json_t *text = json_object_get(block, "text");
    size_t len = json_string_length(text), kept = len;
    while (kept > 0 && strchr(" \t\r\n\v\f", json_string_value(text)[kept - 1])) {
        kept--;
    }
    if (kept == len) {
        return true;
    }
    struct adjustment a = {
        .name = "messages", .action = ACTION_REWRITTEN, .reason = REASON_UNSUPPORTED};
    a.asked = (struct value){.type = VALUE_STRING,
                             .s = "trailing white space of the last assistant message"};
    if (!backend_note(t->c, BEHAVIOUR_PREFILL, &a, t->f)) {
        return false;
    }
    if (kept == 0) {
        (void)json_array_remove(blocks, json_array_size(blocks) - 1);
        return json_array_size(blocks) > 0 || json_array_remove(t->out->list, n - 1) == 0;
    }
    return json_object_set_new(block, "text", json_stringn(json_string_value(text), kept)) == 0 ||
           backend_no_memory(t->f);
}

static bool note_changes(struct building *t)
{
    struct adjustment role = {
        .name = "messages", .action = ACTION_REWRITTEN, .reason = REASON_ROLE};
    struct adjustment merged = role, name = role, detail = role, unknown = role;
    role.asked = (struct value){.type = VALUE_STRING, .s = json_string_value(t->late_system)};
    role.sent = (struct value){.type = VALUE_STRING, .s = "user"};
    merged.asked = (struct value){.type = VALUE_INT, .i = (int64_t)t->n_asked}; /* messages */
    merged.sent = (struct value){.type = VALUE_INT, .i = (int64_t)(t->n_asked - t->n_merged)};
    name = (struct adjustment){
        .name = "messages.name", .action = ACTION_DROPPED, .reason = REASON_UNSUPPORTED};
    name.asked = (struct value){.type = VALUE_JSON, .j = t->name};
    detail = (struct adjustment){.name = "messages.image_url.detail",
                                 .action = ACTION_DROPPED,
                                 .reason = REASON_UNSUPPORTED};
    detail.asked = (struct value){.type = VALUE_JSON, .j = t->detail};
    unknown = (struct adjustment){
        .name = "messages", .action = ACTION_DROPPED, .reason = REASON_UNSUPPORTED};
    unknown.asked = (struct value){.type = VALUE_STRING, .s = t->unknown_key};
    return (!t->late_system || backend_note(t->c, BEHAVIOUR_SYSTEM_ROLE, &role, t->f)) &&
           (!t->n_merged || backend_note(t->c, BEHAVIOUR_COUNT, &merged, t->f)) &&
           (!t->name || backend_note(t->c, BEHAVIOUR_MESSAGE_NAME, &name, t->f)) &&
           (!t->detail || backend_note(t->c, BEHAVIOUR_IMAGES, &detail, t->f)) &&
           (!t->unknown_key || backend_note(t->c, BEHAVIOUR_UNKNOWN_FIELD, &unknown, t->f));
}

/* A turn of one text block is written as a string. */
static bool flatten(struct building *t)
{
    size_t i;
    json_t *turn;
    json_array_foreach (t->out->list, i, turn) {
        json_t *blocks = json_object_get(turn, "content"), *only = json_array_get(blocks, 0);
        bool is_text =
            json_array_size(blocks) == 1 && backend_is_word(json_object_get(only, "type"), "text");
        if (is_text && json_object_set(turn, "content", json_object_get(only, "text")) != 0) {
            return backend_no_memory(t->f);
        }
    }
    return true;
}

static bool build(struct building *t)
{
    for (size_t i = 0; i < json_array_size(t->c->messages); i++) {
        if (!add_message(t, json_array_get(t->c->messages, i), i)) {
            return false;
        }
    }
    if (json_array_size(t->out->list) == 0) {
        return failure_set(
            t->f, 400, "unsupported_content", "messages",
            "there is no user message with a text: add one after the system message");
    }
    if (!backend_is_word(json_object_get(json_array_get(t->out->list, 0), "role"), "user")) {
        return failure_set(
            t->f, 400, "unsupported_content", "messages",
            "the conversation begins with the assistant: put a user message before it");
    }
    return trim_prefill(t) && note_changes(t) && flatten(t);
}

void turns_init(struct turns *t)
{
    *t = (struct turns){.list = NULL};
    buf_init(&t->system, LIMIT_BODY_BYTES);
}

void turns_release(struct turns *t)
{
    if (t) {
        json_decref(t->list);
        t->list = NULL;
        buf_release(&t->system);
    }
}

bool turns_build(struct turns *t, const struct call *c, struct failure *f)
{
    struct building b = {.out = t, .c = c, .f = f};
    t->list = json_array();
    return t->list ? build(&b) : backend_no_memory(f);
}
