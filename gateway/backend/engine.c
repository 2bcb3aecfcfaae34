/* engine.c - the local engine's dialect: frames of local-engine/link.h instead of HTTP. The
 * canonical names are sent as they are, since the engine defines what they mean; the exchange adds
 * the id. A piece given to decode() is the JSON text of exactly one frame.
 */
#include "backend.h"
#include "emit.h"
#include "logprobs.h"

#include "local-engine/link.h"
#include <string.h>

/* ---- encode */

static bool refuse(size_t at, const char *what, struct failure *f)
{
    return failure_set(f, 400, "unsupported_content", "messages",
                       "messages[%zu]: the local engine takes text only: %s", at, what);
}

/* A string, or text parts joined. *out: new reference. */
static bool plain_content(const json_t *content, size_t at, json_t **out, struct failure *f)
{
    if (json_is_string(content)) {
        *out = json_incref((json_t *)content); /* only read from here on */
        return true;
    }
    struct buf text;
    buf_init(&text, LINK_FRAME_MAX);
    bool ok = true;
    size_t i;
    json_t *part;
    json_array_foreach ((json_t *)content, i, part) {
        const json_t *type = json_object_get(part, "type"), *t = json_object_get(part, "text");
        if (!json_is_string(t) || !json_is_string(type) ||
            strcmp(json_string_value(type), "text") != 0) {
            ok = refuse(at, "it cannot be given such a content part", f);
            break;
        }
        ok = ok && buf_append(&text, json_string_value(t), json_string_length(t));
    }
    *out = ok ? json_stringn(text.p ? text.p : "", text.len) : NULL;
    buf_release(&text);
    return *out != NULL;
}

static bool wire_message(const json_t *message, size_t at, json_t *list, struct failure *f)
{
    const json_t *role = json_object_get(message, "role"),
                 *calls = json_object_get(message, "tool_calls");
    const char *word = json_string_value(role);
    if (!word || json_array_size(calls) > 0 || strcmp(word, "tool") == 0 ||
        strcmp(word, "function") == 0) {
        return refuse(at, "it knows no tools", f);
    }
    json_t *content;
    if (!plain_content(json_object_get(message, "content"), at, &content, f)) {
        return false;
    }
    word = strcmp(word, "developer") == 0 ? "system" : word;
    return json_array_append_new(list, json_pack("{s:s,s:o}", "role", word, "content", content)) ==
           0;
}

static bool note_first(const struct call *c, const char *key, const char *name, enum behaviour b,
                       struct failure *f)
{
    for (size_t i = 0; i < json_array_size(c->messages); i++) {
        const json_t *v = json_object_get(json_array_get(c->messages, i), key);
        if (json_is_string(v)) {
            struct adjustment a = {
                .name = name, .action = ACTION_DROPPED, .reason = REASON_UNSUPPORTED};
            a.asked = (struct value){.type = VALUE_JSON, .j = v};
            return backend_note(c, b, &a, f);
        }
    }
    return true;
}

static bool note_developer(const struct call *c, struct failure *f)
{
    for (size_t i = 0; i < json_array_size(c->messages); i++) {
        const char *role =
            json_string_value(json_object_get(json_array_get(c->messages, i), "role"));
        if (role && strcmp(role, "developer") == 0) {
            struct adjustment a = {
                .name = "messages", .action = ACTION_REWRITTEN, .reason = REASON_ROLE};
            a.asked = (struct value){.type = VALUE_STRING, .s = role};
            a.sent = (struct value){.type = VALUE_STRING, .s = "system"};
            return backend_note(c, BEHAVIOUR_DEVELOPER_ROLE, &a, f);
        }
    }
    return true;
}

static json_t *wire_messages(const struct call *c, struct failure *f)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < json_array_size(c->messages); i++) {
        ok = wire_message(json_array_get(c->messages, i), i, list, f);
    }
    ok = ok && note_developer(c, f) &&
         note_first(c, "name", "messages.name", BEHAVIOUR_MESSAGE_NAME, f) &&
         note_first(c, "reasoning_content", "messages.reasoning_content", BEHAVIOUR_COUNT, f);
    if (!ok) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static bool build_frame(const struct call *c, json_t *o, struct failure *f)
{
    bool ok = json_object_set_new(o, "op", json_string("generate")) == 0 &&
              json_object_set_new(o, "model", json_string(c->model)) == 0;
    if (ok && c->messages) {
        json_t *messages = wire_messages(c, f);
        ok = messages && json_object_set_new(o, "messages", messages) == 0;
    } else if (ok) {
        ok = json_object_set(o, "prompt", (json_t *)c->prompt) == 0;
    }
    return ok && json_object_set_new(o, "params", json_object()) == 0 &&
           backend_encode_params(c, o, f);
}

static bool engine_encode(const struct call *c, struct buf *body, struct headers *h,
                          struct failure *f)
{
    (void)h; /* a frame has none */
    return backend_encode_with(c, build_frame, body, NULL, f);
}

static bool engine_shape(const struct call *c, enum param p, json_t **value, const char **path,
                         struct failure *f)
{
    static const char *const paths[PARAM_COUNT] = {
#define X(id, name, type, lo, hi, lo_open, kind, text) [PARAM_##id] = "params." name,
        SAMPLING_PARAMS(X)
#undef X
    };
    (void)c;
    (void)value;
    (void)f;
    *path = paths[p];
    return true;
}

/* ---- decode */

struct decoder {
    struct emitter out; /* its pieces are not used: frames come whole */
    bool is_broken;
};

static struct decoder *engine_decoder_new(enum wire_form form, bool is_chat)
{
    (void)is_chat;
    return emit_new(sizeof(struct decoder), form);
}

static void engine_decoder_free(struct decoder *d)
{
    emit_free(d);
}

static const char *word_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static bool take_text(struct decoder *d, const json_t *o, unsigned choice)
{
    json_t *items = logprobs_engine_items(json_object_get(o, "tokens"));
    bool ok = emit_text(&d->out, DELTA_TEXT, choice, json_object_get(o, "text"), items);
    json_decref(items);
    return ok;
}

/* In the first frame already: a stream's first chunk names the configuration. */
static bool take_fingerprint(struct decoder *d, const json_t *o)
{
    struct delta meta = {
        .kind = DELTA_META,
        .meta = {.fingerprint = json_string_value(json_object_get(o, "fingerprint"))}};
    return emit_delta(&d->out, &meta);
}

static bool take_done(struct decoder *d, const json_t *o)
{
    struct usage usage = {.is_known = true,
                          .prompt_tokens = backend_count(json_object_get(o, "prompt_tokens")),
                          .completion_tokens =
                              backend_count(json_object_get(o, "completion_tokens"))};
    return emit_usage(&d->out, &usage) && take_fingerprint(d, o) && emit_end(&d->out);
}

static bool take_frame(struct decoder *d, const json_t *o, struct failure *f)
{
    const char *op = word_of(o, "op");
    json_int_t choice = json_integer_value(json_object_get(o, "choice"));
    bool is_of_choice = strcmp(op, "text") == 0 || strcmp(op, "finish") == 0;
    if (is_of_choice && (choice < 0 || choice >= ANSWER_CHOICES_MAX)) {
        return failure_set(f, 502, "engine_malformed", NULL,
                           "the local engine answered for a choice that was not asked for");
    }
    if (strcmp(op, "text") == 0) {
        return take_text(d, o, (unsigned)choice);
    }
    if (strcmp(op, "finish") == 0) {
        int status;
        const char *word = word_of(o, "reason");
        enum finish finish = backend_finish(word, &status);
        return status ? failure_set(f, 502, "engine_malformed", NULL,
                                    "the local engine could not go on")
                      : emit_finish_as(&d->out, (unsigned)choice, word, finish);
    }
    if (strcmp(op, "begin") == 0) {
        return take_fingerprint(d, o);
    }
    if (strcmp(op, "done") == 0) {
        return take_done(d, o);
    }
    if (strcmp(op, "error") == 0) {
        return failure_from_engine_words(f, word_of(o, "code"), word_of(o, "param"),
                                         word_of(o, "text"));
    }
    return true; /* what later engines may add */
}

static bool engine_decode(struct decoder *d, struct slice piece, delta_fn *fn, void *ud,
                          struct failure *f)
{
    emit_begin(&d->out, fn, ud, f);
    if (d->is_broken || d->out.is_ended) {
        return !d->is_broken;
    }
    /* a vocabulary of bytes has a token that is U+0000, which jansson refuses unless asked; lengths
     * are kept everywhere */
    json_t *o = json_loadb(piece.p, piece.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    bool ok = json_is_object(o)
                  ? take_frame(d, o, f)
                  : failure_set(f, 502, "engine_malformed", NULL,
                                "the local engine sent a frame that is no JSON object");
    json_decref(o);
    d->is_broken = !ok;
    return ok;
}

static bool engine_decode_end(struct decoder *d, delta_fn *fn, void *ud, struct failure *f)
{
    (void)fn;
    (void)ud;
    if (d->is_broken) {
        return false;
    }
    return d->out.is_ended || failure_set(f, 502, "stream_incomplete", NULL,
                                          "the local engine ended before its answer was complete");
}

/* Frames have no status: never called for an answer of the engine. */
static void engine_refusal(int status, struct slice body, const char *retry_after, char param[64],
                           struct failure *f)
{
    (void)body;
    param[0] = '\0';
    backend_refusal_status(status, "the local engine refused the request", "", "", retry_after, f);
}

const struct backend backend_engine = {
    .name = "engine",
    .encode = engine_encode,
    .decoder_new = engine_decoder_new,
    .decoder_free = engine_decoder_free,
    .decode = engine_decode,
    .decode_end = engine_decode_end,
    .refusal = engine_refusal,
    .shape = engine_shape,
};
