/* google_request.c - see google_request.h. The conversation is turns.c, the subset of JSON Schema
 * is google_schema.c.
 *
 * Where models and the two services differ, claims and the provider's data say it: the wire path of
 * response_format_json_schema which schema form is taken, a behaviour that thought signatures are
 * checked, quirks whether calls have ids and links need a type.
 */
#include "google_request.h"

#include "google_ids.h"
#include "google_schema.h"
#include "messages.h"
#include "turns.h"

#include "gateway/base/jsonio.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- what claims and the provider say */

static bool is_wire(const struct call *c, enum param p, const char *part)
{
    const struct claim *claim = c->rules ? c->rules->param[p] : NULL;
    return claim && claim->support == CLAIM_YES && claim->wire && strstr(claim->wire, part);
}

static enum google_form schema_form(const struct call *c)
{
    return is_wire(c, PARAM_RESPONSE_FORMAT_JSON_SCHEMA, ".responseSchema") ? GOOGLE_OPENAPI
                                                                            : GOOGLE_JSON;
}

/* ---- parameters */

static bool schema_failed(const struct google_report *r, const char *param, struct failure *f)
{
    return r->refused ? failure_set(f, 400, "unsupported_content", param,
                                    "this backend's JSON Schema has no '%.64s': say it another way",
                                    r->refused)
                      : backend_no_memory(f);
}

/* {"type":"function","function":{..}} -> {name,description,parametersJsonSchema}. NULL: see f. */
static json_t *declaration(const json_t *tool, size_t at, enum google_form form,
                           struct google_report *r, struct failure *f)
{
    const json_t *function = json_object_get(tool, "function"),
                 *description = json_object_get(function, "description"),
                 *schema = json_object_get(function, "parameters");
    json_t *name = json_object_get(function, "name");
    if (!backend_is_word(json_object_get(tool, "type"), "function") || !json_is_string(name)) {
        (void)failure_set(f, 400, "unsupported_content", "tools",
                          "tools[%zu]: google dialect: only functions with a name are supported",
                          at);
        return NULL;
    }
    const char *about = json_string_value(description);
    json_t *out = backend_object("name", json_incref(name), "description",
                                 json_string(about ? about : ""), NULL);
    bool is_old = form == GOOGLE_OPENAPI;
    if (out && json_object_size(schema) > 0) {
        json_t *wire = is_old ? google_schema(schema, form, r) : json_incref((json_t *)schema);
        if (!wire) {
            (void)schema_failed(r, "tools", f);
        }
        if (json_object_set_new(out, is_old ? "parameters" : "parametersJsonSchema", wire) != 0) {
            json_decref(out);
            out = NULL;
        }
    }
    return out;
}

static json_t *wire_tools(const json_t *tools, enum google_form form, struct google_report *r,
                          struct failure *f)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < json_array_size(tools); i++) {
        struct google_report one = {.dropped = NULL};
        json_t *tool = declaration(json_array_get(tools, i), i, form, &one, f);
        r->dropped = r->dropped ? r->dropped : one.dropped;
        if (json_array_append_new(list, tool) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return backend_list(backend_object("functionDeclarations", list, NULL));
}

static json_t *wire_tool_choice(const json_t *v, struct failure *f)
{
    static const char *const modes[][2] = {{"auto", "AUTO"}, {"none", "NONE"}, {"required", "ANY"}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (backend_is_word(v, modes[i][0])) {
            return json_pack("{s:s}", "mode", modes[i][1]);
        }
    }
    const char *name = json_string_value(json_object_get(json_object_get(v, "function"), "name"));
    if (!name) {
        (void)failure_set(f, 400, "invalid_value", "tool_choice",
                          "must be none, auto, required or one function by its name");
        return NULL;
    }
    return json_pack("{s:s,s:[s]}", "mode", "ANY", "allowedFunctionNames", name);
}

/* The format's own description stands in the schema, where that has none. */
static json_t *wire_schema(const json_t *format, enum google_form form, struct google_report *r,
                           struct failure *f)
{
    const json_t *inner = json_object_get(format, "json_schema");
    inner = inner ? inner : format;
    const json_t *description = json_object_get(inner, "description");
    json_t *out = google_schema(json_object_get(inner, "schema"), form, r);
    if (!out) {
        (void)schema_failed(r, "response_format", f);
        return NULL;
    }
    if (json_is_string(description) && !json_object_get(out, "description") &&
        json_object_set(out, "description", (json_t *)description) != 0) {
        json_decref(out);
        return NULL;
    }
    return out;
}

/* "low" -> "LOW": the name of an enumerated value. NULL: memory, or no such word. */
static json_t *wire_level(const json_t *effort)
{
    char word[24];
    size_t n = json_string_length(effort);
    for (size_t i = 0; i < n && i < sizeof word; i++) {
        char x = json_string_value(effort)[i];
        word[i] = x >= 'a' && x <= 'z' ? (char)(x - 'a' + 'A') : x;
    }
    return n <= sizeof word ? json_stringn(word, n) : NULL;
}

bool google_request_shape(const struct call *c, enum param p, json_t **value, const char **path,
                          struct failure *f)
{
    struct google_report report = {.dropped = NULL};
    switch (p) {
    case PARAM_TOOLS:
        *path = "tools"; /* whatever part of it the claim names */
        return backend_swap(value, wire_tools(*value, schema_form(c), &report, f), f);
    case PARAM_TOOL_CHOICE:
        *path = "toolConfig.functionCallingConfig";
        return backend_swap(value, wire_tool_choice(*value, f), f);
    case PARAM_RESPONSE_FORMAT_JSON_OBJECT:
        return backend_swap(value, json_string("application/json"), f);
    case PARAM_RESPONSE_FORMAT_JSON_SCHEMA:
        return backend_swap(value, wire_schema(*value, schema_form(c), &report, f), f);
    case PARAM_REASONING_EFFORT:
        return !*path || !strstr(*path, "thinkingLevel") ||
               backend_swap(value, wire_level(*value), f);
    default:
        return true;
    }
}

static bool note_dropped(const struct call *c, const char *name, const struct google_report *r,
                         struct failure *f)
{
    struct adjustment a = {.name = name, .action = ACTION_DROPPED, .reason = REASON_UNSUPPORTED};
    a.asked = (struct value){.type = VALUE_STRING, .s = r->dropped};
    return !r->dropped || backend_note(c, BEHAVIOUR_COUNT, &a, f);
}

/* What the schemas had to leave out, and `strict`, which has no place in a declaration. */
static bool note_parameters(const struct call *c, struct failure *f)
{
    struct google_report tools = {.dropped = NULL}, format = tools;
    const struct value *v = c->send->v;
    bool has_tools = sampling_has(c->send, PARAM_TOOLS),
         has_format = sampling_has(c->send, PARAM_RESPONSE_FORMAT_JSON_SCHEMA);
    if (has_tools && schema_form(c) == GOOGLE_OPENAPI) {
        json_decref(wire_tools(v[PARAM_TOOLS].j, GOOGLE_OPENAPI, &tools, NULL));
    }
    if (has_format) {
        json_decref(
            wire_schema(v[PARAM_RESPONSE_FORMAT_JSON_SCHEMA].j, schema_form(c), &format, NULL));
    }
    return messages_note_strict(c, f) && note_dropped(c, "tools.function.parameters", &tools, f) &&
           note_dropped(c, "response_format.json_schema.schema", &format, f);
}

/* ---- the conversation */

struct building {
    const struct call *c;
    struct failure *f;
    json_t *calls; /* tool call id -> [function's name, place in its turn]; the last one counts */
    bool has_no_signature;
};

static bool has_link(const json_t *message, const char *url)
{
    size_t i;
    json_t *part;
    json_array_foreach (json_object_get(message, "content"), i, part) {
        const json_t *image = json_object_get(part, "image_url");
        if (backend_is_word(image, url) || backend_is_word(json_object_get(image, "url"), url)) {
            return true;
        }
    }
    return false;
}

static size_t message_of_call(const struct call *c, const char *tool_call_id)
{
    for (size_t i = 0; i < json_array_size(c->messages); i++) {
        if (backend_is_word(json_object_get(json_array_get(c->messages, i), "tool_call_id"),
                            tool_call_id)) {
            return i;
        }
    }
    return 0;
}

static size_t message_of_link(const struct call *c, const char *url)
{
    for (size_t i = 0; i < json_array_size(c->messages); i++) {
        if (has_link(json_array_get(c->messages, i), url)) {
            return i;
        }
    }
    return 0;
}

/* image/png for ".../a.png?x"; NULL: its name does not tell. */
static const char *type_of_link(const char *url)
{
    static const char *const types[][2] = {
        {".png", "image/png"},   {".jpg", "image/jpeg"}, {".jpeg", "image/jpeg"},
        {".webp", "image/webp"}, {".gif", "image/gif"},  {".heic", "image/heic"},
        {".heif", "image/heif"}, {".bmp", "image/bmp"},
    };
    size_t n = strcspn(url, "?#");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t len = strlen(types[i][0]);
        if (n > len && strncasecmp(url + n - len, types[i][0], len) == 0) {
            return types[i][1];
        }
    }
    return NULL;
}

static json_t *image_part(struct building *b, const json_t *source)
{
    const char *url = json_string_value(json_object_get(source, "url"));
    if (!url) {
        return json_pack("{s:{s:O,s:O}}", "inlineData", "mimeType",
                         json_object_get(source, "media_type"), "data",
                         json_object_get(source, "data"));
    }
    const char *type = type_of_link(url);
    if (!type && !b->c->provider->quirks.has_untyped_links) {
        (void)failure_set(
            b->f, 400, "unsupported_content", "messages",
            "messages[%zu]: an image's link must end in its type (.png, .jpg ...) for this "
            "backend: send the image as data:TYPE;base64,DATA",
            message_of_link(b->c, url));
        return NULL;
    }
    return json_pack("{s:{s:s*,s:s}}", "fileData", "mimeType", type, "fileUri", url);
}

/* A call, with the id and the signature that it came with. Of a turn's calls the first one has the
 * signature. */
static json_t *call_part(struct building *b, const json_t *block, bool is_first)
{
    json_t *name = json_object_get(block, "name"), *args = json_object_get(block, "input");
    const char *id = json_string_value(json_object_get(block, "id"));
    struct slice own = google_id_own(id);
    struct buf signature;
    buf_init(&signature, GOOGLE_SIGNATURE_MAX + 8);
    bool ok = google_id_signature(&signature, id);
    if (ok && signature.len == 0 && is_first && backend_accepts(b->c, BEHAVIOUR_CALL_SIGNATURE)) {
        b->has_no_signature = true;
        ok = buf_puts(&signature, GOOGLE_NO_SIGNATURE);
    }
    json_t *call = json_pack("{s:O,s:O}", "name", name, "args", args);
    if (own.p && b->c->provider->quirks.has_call_ids) {
        ok = json_object_set_new(call, "id", json_stringn(own.p, own.len)) == 0 && ok;
    }
    json_t *part = json_pack("{s:o}", "functionCall", call);
    if (signature.len > 0) {
        ok = json_object_set_new(part, "thoughtSignature",
                                 json_stringn(signature.p, signature.len)) == 0 &&
             ok;
    }
    buf_release(&signature);
    if (!ok) {
        json_decref(part);
        return NULL;
    }
    return part;
}

/* The result as an object: an object's text is that object, all else is wrapped. */
static json_t *response_of(const json_t *content)
{
    const char *s = json_string_value(content);
    json_t *parsed = s ? jsonio_parse(s, json_string_length(content), NULL) : NULL;
    if (json_is_object(parsed)) {
        return parsed;
    }
    if (json_is_array(parsed)) {
        return json_pack("{s:o}", "result", parsed);
    }
    json_decref(parsed);
    if (s) {
        return json_pack("{s:O}", "result", content);
    }
    json_t *texts = json_array();
    for (size_t i = 0; i < json_array_size(content); i++) {
        (void)json_array_append(texts, json_object_get(json_array_get(content, i), "text"));
    }
    if (json_array_size(texts) > 0) {
        return json_pack("{s:o}", "result", texts);
    }
    json_decref(texts);
    return json_pack("{s:s}", "result", "");
}

static json_t *result_part(struct building *b, const json_t *block)
{
    const char *id = json_string_value(json_object_get(block, "tool_use_id"));
    json_t *name = json_array_get(json_object_get(b->calls, id), 0);
    struct slice own = google_id_own(id);
    if (!name) {
        (void)failure_set(b->f, 400, "unsupported_content", "messages",
                          "messages[%zu]: tool_call_id '%.64s' is the id of no call before it",
                          message_of_call(b->c, id), id);
        return NULL;
    }
    json_t *response = json_pack("{s:O,s:o}", "name", name, "response",
                                 response_of(json_object_get(block, "content")));
    if (own.p && b->c->provider->quirks.has_call_ids &&
        json_object_set_new(response, "id", json_stringn(own.p, own.len)) != 0) {
        json_decref(response);
        return NULL;
    }
    return json_pack("{s:o}", "functionResponse", response);
}

static json_t *text_part(const json_t *text)
{
    return backend_object("text", json_incref((json_t *)text), NULL);
}

static json_t *part_of(struct building *b, const json_t *block, size_t n_calls)
{
    const json_t *type = json_object_get(block, "type");
    if (backend_is_word(type, "image")) {
        return image_part(b, json_object_get(block, "source"));
    }
    if (backend_is_word(type, "tool_use")) {
        json_t *place = json_pack("[O,I]", json_object_get(block, "name"), (json_int_t)n_calls);
        const char *id = json_string_value(json_object_get(block, "id"));
        return json_object_set_new(b->calls, id, place) == 0 ? call_part(b, block, n_calls == 0)
                                                             : NULL;
    }
    if (backend_is_word(type, "tool_result")) {
        return result_part(b, block);
    }
    return text_part(json_object_get(block, "text"));
}

struct ranked {
    json_t *part; /* borrowed */
    size_t rank, at;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : (x->at < y->at ? -1 : x->at > y->at);
}

/* Results in the order of the calls: without ids only the order tells two calls of one function
 * apart. They are the first n parts. */
static bool sort_results(struct building *b, const json_t *blocks, json_t *parts, size_t n)
{
    struct ranked *list = n > 1 ? calloc(n, sizeof *list) : NULL;
    json_t *sorted = json_array();
    bool ok = sorted && (list || n < 2);
    for (size_t i = 0; list && i < n; i++) {
        const json_t *id = json_object_get(json_array_get(blocks, i), "tool_use_id");
        const json_t *call = json_object_get(b->calls, json_string_value(id));
        list[i] = (struct ranked){.part = json_array_get(parts, i),
                                  .rank = (size_t)json_integer_value(json_array_get(call, 1)),
                                  .at = i};
    }
    if (ok && list) {
        qsort(list, n, sizeof *list, by_rank);
        for (size_t i = 0; ok && i < n; i++) {
            ok = json_array_append(sorted, list[i].part) == 0;
        }
        for (size_t i = 0; ok && i < n; i++) {
            ok = json_array_set(parts, i, json_array_get(sorted, i)) == 0;
        }
    }
    json_decref(sorted);
    free(list);
    return ok || backend_no_memory(b->f);
}

static json_t *parts_of(struct building *b, const json_t *content)
{
    if (json_is_string(content)) {
        return backend_list(text_part(content));
    }
    json_t *parts = json_array();
    size_t n_calls = 0, n_results = 0;
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);
        if (json_array_append_new(parts, part_of(b, block, n_calls)) != 0) {
            json_decref(parts);
            return NULL;
        }
        n_calls += backend_is_word(json_object_get(block, "type"), "tool_use");
        n_results += backend_is_word(json_object_get(block, "type"), "tool_result");
    }
    if (!sort_results(b, content, parts, n_results)) {
        json_decref(parts);
        return NULL;
    }
    return parts;
}

/* The turns are our own: each becomes a content. */
static bool wire_contents(struct building *b, const json_t *turns)
{
    for (size_t i = 0; i < json_array_size(turns); i++) {
        json_t *turn = json_array_get(turns, i);
        json_t *parts = parts_of(b, json_object_get(turn, "content"));
        bool is_model = backend_is_word(json_object_get(turn, "role"), "assistant");
        if (json_object_set_new_nocheck(turn, "parts", parts) != 0 ||
            json_object_del(turn, "content") != 0 ||
            (is_model &&
             json_object_set_new_nocheck(turn, "role", json_string_nocheck("model")) != 0)) {
            return false;
        }
    }
    return true;
}

/* Where the model knows no system instruction, it stands at the beginning of the first turn. */
static bool put_system(const struct call *c, const struct buf *system, json_t *body,
                       json_t *contents, struct failure *f)
{
    json_t *part = backend_object("text", json_stringn(system->p, system->len), NULL);
    if (!backend_refuses(c, BEHAVIOUR_SYSTEM_ROLE)) {
        return json_object_set_new_nocheck(body, "systemInstruction",
                                           backend_object("parts", backend_list(part), NULL)) == 0;
    }
    struct adjustment a = {.name = "messages", .action = ACTION_REWRITTEN, .reason = REASON_ROLE};
    a.asked = (struct value){.type = VALUE_STRING, .s = "system"};
    a.sent = (struct value){.type = VALUE_STRING, .s = "user"};
    json_t *parts = json_object_get(json_array_get(contents, 0), "parts");
    return json_array_insert_new(parts, 0, part) == 0 &&
           backend_note(c, BEHAVIOUR_SYSTEM_ROLE, &a, f);
}

static bool note_signature(const struct building *b)
{
    struct adjustment a = {.name = "messages.tool_calls.thought_signature",
                           .action = ACTION_ADDED,
                           .reason = REASON_REQUIRED};
    a.sent = (struct value){.type = VALUE_STRING, .s = GOOGLE_NO_SIGNATURE};
    return !b->has_no_signature || backend_note(b->c, BEHAVIOUR_COUNT, &a, b->f);
}

static bool build_body(const struct call *c, json_t *body, struct failure *f)
{
    struct turns t;
    struct building b = {.c = c, .f = f, .calls = json_object()};
    turns_init(&t);
    bool ok = b.calls && turns_build(&t, c, f) && wire_contents(&b, t.list);
    ok = ok && (t.system.len == 0 || put_system(c, &t.system, body, t.list, f)) &&
         json_object_set(body, "contents", t.list) == 0;
    ok = ok && note_signature(&b) && backend_encode_params(c, body, f) && note_parameters(c, f);
    json_decref(b.calls);
    turns_release(&t);
    return ok;
}

bool google_request_encode(const struct call *c, struct buf *body, struct headers *h,
                           struct failure *f)
{
    return backend_encode_chat(c, build_body, body, h, f);
}
