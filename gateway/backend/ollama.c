/* ollama.c - Ollama's own chat API: one JSON object a line, the last one with `done` and the
 * counts. Content is one string and images stand beside it; arguments of calls are objects; calls
 * come whole.
 */
#include "backend.h"
#include "emit.h"
#include "logprobs.h"
#include "messages.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- encode */

static json_t *wire_calls(const struct message *m)
{
    json_t *out = json_array(), *call;
    size_t i;
    json_array_foreach ((json_t *)m->calls, i, call) { /* the macro wants no const */
        const json_t *function = json_object_get(call, "function");
        json_t *arguments = messages_arguments_object(json_object_get(function, "arguments"));
        json_t *one = json_pack("{s:O,s:{s:O,s:o}}", "id", json_object_get(call, "id"), "function",
                                "name", json_object_get(function, "name"), "arguments", arguments);
        if (json_array_append_new(out, one) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

/* The bare base64 of each image; an address is a 400. *out NULL: there is none. */
static bool wire_images(const struct message *m, struct messages *b, json_t **out)
{
    json_t *list = NULL, *part;
    size_t i;
    json_array_foreach ((json_t *)m->parts, i, part) {
        const json_t *image = json_object_get(part, "image_url");
        const char *url = json_string_value(json_object_get(image, "url"));
        if (!url) {
            continue;
        }
        const char *mark = strstr(url, ";base64,");
        if (strncmp(url, "data:", 5) != 0 || !mark) {
            json_decref(list);
            (void)messages_refuse(b, m->at,
                                  "this backend fetches no images: send them as "
                                  "data:TYPE;base64,DATA");
            return false;
        }
        const json_t *detail = json_object_get(image, "detail");
        b->detail = b->detail ? b->detail : detail;
        list = list ? list : json_array();
        if (json_array_append_new(list, json_string(mark + 8)) != 0) {
            json_decref(list);
            return backend_no_memory(b->f);
        }
    }
    *out = list;
    return true;
}

static bool set_text(json_t *o, const char *key, const char *text)
{
    return !text || json_object_set_new(o, key, json_string(text)) == 0;
}

static json_t *wire_message(const struct message *m, struct messages *b)
{
    json_t *images = NULL;
    if (!wire_images(m, b, &images)) {
        return NULL;
    }
    json_t *out =
        backend_object("role", json_string_nocheck(m->role), "content", messages_text(m, b), NULL);
    bool ok = out && (!images || json_object_set(out, "images", images) == 0);
    ok = ok && (!m->reasoning || json_object_set(out, "thinking", (json_t *)m->reasoning) == 0);
    ok = ok && (!m->calls || json_object_set_new(out, "tool_calls", wire_calls(m)) == 0);
    ok = ok && set_text(out, "tool_name", m->call_name) && /* what templates go by */
         set_text(out, "tool_call_id", m->call_id);
    json_decref(images);
    if (!ok) {
        json_decref(out);
        (void)backend_no_memory(b->f);
        return NULL;
    }
    return out;
}

static bool ollama_shape(const struct call *c, enum param p, json_t **value, const char **path,
                         struct failure *f)
{
    (void)c;
    const json_t *schema;
    switch (p) {
    case PARAM_TOOLS:
        return backend_swap(value, messages_tools(*value, f), f);
    case PARAM_RESPONSE_FORMAT_JSON_OBJECT:
        *path = "format"; /* claims write the value beside it */
        return backend_swap(value, json_string("json"), f);
    case PARAM_RESPONSE_FORMAT_JSON_SCHEMA:
        *path = "format";
        schema = messages_schema(*value);
        return backend_swap(value, schema ? json_incref((json_t *)schema) : json_string("json"), f);
    case PARAM_REASONING_EFFORT: /* a level, or whether at all */
        return !backend_is_word(*value, "none") || backend_swap(value, json_false(), f);
    default:
        return true;
    }
}

static bool build_body(const struct call *c, json_t *body, struct failure *f)
{
    json_t *messages = messages_build(c, wire_message, f);
    bool ok = messages && json_object_set_new(body, "model", json_string(c->model)) == 0;
    ok = ok && json_object_set(body, "messages", messages) == 0;
    json_decref(messages);
    ok = ok && backend_encode_params(c, body, f) && messages_note_format(c, f) &&
         messages_note_strict(c, f);
    /* streams are the default there */
    return ok && json_object_set_new(body, "stream", json_boolean(c->stream)) == 0;
}

static bool ollama_encode(const struct call *c, struct buf *body, struct headers *h,
                          struct failure *f)
{
    return backend_encode_chat(c, build_body, body, h, f);
}

/* ---- decode */

#define TOOLS_MAX 128 /* calls of one answer */

struct decoder {
    struct emitter out;
    bool has_meta;
    char stamp[24]; /* digits of the first created_at: ids for calls that have none */
    unsigned n_tools;
};

static struct decoder *ollama_decoder_new(enum wire_form form, bool is_chat)
{
    (void)is_chat;
    return emit_new(sizeof(struct decoder), form);
}

static void ollama_decoder_free(struct decoder *d)
{
    emit_free(d);
}

static bool take_meta(struct decoder *d, const json_t *o)
{
    const char *created = json_string_value(json_object_get(o, "created_at"));
    if (d->has_meta) {
        return true;
    }
    d->has_meta = true;
    size_t n = 0;
    for (const char *p = created ? created : ""; *p && n + 1 < sizeof d->stamp; p++) {
        if (isdigit((unsigned char)*p)) {
            d->stamp[n++] = *p;
        }
    }
    return emit_meta(&d->out, NULL, json_object_get(o, "model"));
}

/* Older servers give calls no id, and clients cannot do without: a name that no other answer of the
 * conversation has. */
static bool take_call(struct decoder *d, const json_t *call)
{
    const json_t *function = json_object_get(call, "function");
    const char *id = json_string_value(json_object_get(call, "id")),
               *name = json_string_value(json_object_get(function, "name"));
    const json_t *arguments = json_object_get(function, "arguments");
    char made[48];
    if (d->n_tools == TOOLS_MAX) {
        return emit_malformed(&d->out, "holds more tool calls than can be");
    }
    (void)snprintf(made, sizeof made, "call_%s_%u", d->stamp, d->n_tools);
    return emit_tool_json(&d->out, 0, d->n_tools++, id && id[0] ? id : made, name ? name : "",
                          arguments);
}

static bool take_message(struct decoder *d, const json_t *o)
{
    const json_t *message = json_object_get(o, "message"), *lp = json_object_get(o, "logprobs");
    json_t *wrapped = json_is_array(lp) ? json_pack("{s:O}", "content", lp) : NULL;
    json_t *items = logprobs_items(wrapped, NULL), *call;
    bool ok = emit_text(&d->out, DELTA_REASONING, 0, json_object_get(message, "thinking"), NULL) &&
              emit_text(&d->out, DELTA_TEXT, 0, json_object_get(message, "content"), items);
    json_decref(items);
    json_decref(wrapped);
    size_t i;
    json_array_foreach (json_object_get(message, "tool_calls"), i, call) {
        ok = ok && take_call(d, call);
    }
    return ok;
}

/* A prompt that is cached whole has no count in older versions: then none is told. */
static bool take_usage(struct decoder *d, const json_t *o)
{
    const json_t *prompt = json_object_get(o, "prompt_eval_count"),
                 *completion = json_object_get(o, "eval_count");
    if (!json_is_number(prompt) && !json_is_number(completion)) {
        return true;
    }
    struct usage u = {.is_known = true,
                      .prompt_tokens = backend_count(prompt),
                      .completion_tokens = backend_count(completion)};
    return emit_usage(&d->out, &u);
}

static bool take_end(struct decoder *d, const json_t *o)
{
    const char *word = json_string_value(json_object_get(o, "done_reason"));
    return emit_finish(&d->out, 0, word ? word : "", d->n_tools > 0, NULL) && take_usage(d, o) &&
           emit_end(&d->out);
}

static bool on_json(const json_t *o, struct slice event, void *ud)
{
    struct decoder *d = ud;
    struct refusal r;
    (void)event;
    if (d->out.is_ended || !o) {
        return true;
    }
    if (json_is_string(json_object_get(o, "error")) && refusal_read(o, &r)) {
        return emit_refused(&d->out, &r);
    }
    bool is_done = json_is_true(json_object_get(o, "done"));
    if (!json_is_object(json_object_get(o, "message")) && !is_done) {
        return emit_malformed(&d->out, "holds no message");
    }
    if (!take_meta(d, o) || !take_message(d, o)) {
        return false;
    }
    return !is_done || take_end(d, o);
}

static bool ollama_decode(struct decoder *d, struct slice piece, delta_fn *fn, void *ud,
                          struct failure *f)
{
    return emit_feed(d, piece, on_json, fn, ud, f);
}

static bool ollama_decode_end(struct decoder *d, delta_fn *fn, void *ud, struct failure *f)
{
    return emit_feed_end(d, on_json, fn, ud, f) &&
           (d->out.is_ended || emit_malformed(&d->out, "ended before it was done: it was cut off"));
}

const struct backend backend_ollama = {
    .name = "ollama",
    .encode = ollama_encode,
    .decoder_new = ollama_decoder_new,
    .decoder_free = ollama_decoder_free,
    .decode = ollama_decode,
    .decode_end = ollama_decode_end,
    .refusal = refusal_answer,
    .shape = ollama_shape,
};
