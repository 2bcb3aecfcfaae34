/* tgi.c - Hugging Face's text-generation-inference: raw completions by /generate and
 * /generate_stream. Chat, which it speaks as OpenAI does, is handed to openai.c.
 *
 * `details` is always asked for: without it an answer has neither a finish reason nor a count. So
 * log-probabilities come whether they were asked for or not; whoever did not ask drops them.
 */
#include "backend.h"
#include "logprobs.h"
#include "refusal.h"
#include "pieces.h"

#include "gateway/base/jsonio.h"
#include <stdlib.h>
#include <string.h>

/* ---- encode */

static const char *const tgi_own_paths[] = {"parameters.details", NULL};

static bool no_memory(struct failure *f)
{
    return failure_set(f, 500, "out_of_memory", NULL, "out of memory while writing the request");
}

/* One text, alone or as a list of one. NULL: failure set. */
static const json_t *one_text(const json_t *prompt, struct failure *f)
{
    const json_t *text = json_array_size(prompt) == 1 ? json_array_get(prompt, 0) : prompt;
    if (json_is_string(text)) {
        return text;
    }
    (void)failure_set(f, 400, "unsupported_content", "prompt",
                      "this backend takes one text as 'prompt': no token ids, and of several texts "
                      "each in a request of its own");
    return NULL;
}

/* In a stream the prompt would only come at the end, with the text a second time. */
static bool drops_echo(const struct call *c)
{
    return c->stream && sampling_has(c->send, PARAM_ECHO);
}

static bool note_echo(const struct call *c, struct failure *f)
{
    struct adjustment a = {.name = "echo", .action = ACTION_DROPPED, .reason = REASON_CONFLICT};
    a.asked = (struct value){.type = VALUE_BOOL, .b = true};
    return !drops_echo(c) || backend_note(c, BEHAVIOUR_STREAM, &a, f);
}

/* It ends at a stop string, and the text ends with it: the gateway cuts it off. */
static void cut_stops_here(const struct call *c)
{
    c->plan->stop_is_local = c->plan->stop_is_local || sampling_has(c->send, PARAM_STOP);
}

static bool tgi_encode(const struct call *c, struct buf *body, struct headers *h, struct failure *f)
{
    cut_stops_here(c);
    if (c->messages) {
        return backend_openai.encode(c, body, h, f);
    }
    const json_t *text = one_text(c->prompt, f);
    json_t *o = text ? json_pack("{s:O,s:{}}", "inputs", text, "parameters") : NULL;
    bool ok = o && note_echo(c, f) && backend_encode_params(c, o, f) &&
              jsonio_set_path(o, "parameters.details", json_true()) && backend_headers(c, h, f);
    if (ok && !jsonio_write(body, o)) {
        ok = failure_set(f, 413, "body_too_large", NULL,
                         "the request for the backend is longer than %zu bytes", body->limit);
    }
    json_decref(o);
    return ok || no_memory(f);
}

/* {"type":"json","value":schema} */
static bool shape_grammar(json_t **value, struct failure *f)
{
    const json_t *inner = json_object_get(*value, "json_schema");
    const json_t *schema = json_object_get(json_is_object(inner) ? inner : *value, "schema");
    if (!json_is_object(schema)) {
        return failure_set(f, 400, "invalid_value", "response_format",
                           "json_schema.schema must be an object: this backend has no JSON without "
                           "a schema");
    }
    json_t *by = json_pack("{s:s,s:O}", "type", "json", "value", schema);
    json_decref(*value);
    *value = by;
    return by || no_memory(f);
}

static bool tgi_shape(const struct call *c, enum param p, json_t **value, const char **path,
                      struct failure *f)
{
    if (c->messages) {
        return backend_openai.shape(c, p, value, path, f);
    }
    if (p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA) {
        *path = "parameters.grammar"; /* whatever part of it the claim names */
        return shape_grammar(value, f);
    }
    if (p == PARAM_ECHO && drops_echo(c)) {
        json_decref(*value);
        *value = NULL;
    }
    return true;
}

/* ---- decode */

struct decoder {
    struct decoder *chat; /* openai.c's; then nothing else here is used */
    struct pieces pieces;
    bool has_content, is_ended;
    /* of the call in progress */
    delta_fn *fn;
    void *ud;
    struct failure *f;
};

static void tgi_decoder_free(struct decoder *d)
{
    if (d) {
        backend_openai.decoder_free(d->chat);
        pieces_release(&d->pieces);
        free(d);
    }
}

static struct decoder *tgi_decoder_new(enum wire_form form, bool is_chat)
{
    struct decoder *d = calloc(1, sizeof *d);
    if (!d) {
        return NULL;
    }
    pieces_init(&d->pieces, form);
    if (is_chat && !(d->chat = backend_openai.decoder_new(form, true))) {
        tgi_decoder_free(d);
        return NULL;
    }
    return d;
}

static bool malformed(struct decoder *d, const char *what)
{
    return failure_set(d->f, 502, d->pieces.is_stream ? "stream_incomplete" : "upstream_malformed",
                       NULL, "the backend's answer %s", what);
}

static bool no_memory_reading(struct decoder *d)
{
    return failure_set(d->f, 500, "out_of_memory", NULL,
                       "out of memory while reading the backend's answer");
}

/* {text, logprob} of a token, and those that might have been instead. */
static json_t *item_of(const json_t *token, const json_t *top)
{
    json_t *others = json_array(), *other;
    size_t i;
    json_array_foreach ((json_t *)top, i, other) { /* the macro wants no const */
        (void)json_array_append_new(others,
                                    json_pack("{s:O,s:O}", "token", json_object_get(other, "text"),
                                              "logprob", json_object_get(other, "logprob")));
    }
    return json_pack("{s:O,s:O,s:o}", "token", json_object_get(token, "text"), "logprob",
                     json_object_get(token, "logprob"), "top_logprobs", others);
}

/* Whether it stands for itself in the text, with its probability: end marks do not. */
static bool is_said(const json_t *token)
{
    return json_is_string(json_object_get(token, "text")) &&
           json_is_number(json_object_get(token, "logprob")) &&
           !json_is_true(json_object_get(token, "special"));
}

static bool emit_text(struct decoder *d, const json_t *text, json_t *content)
{
    json_t *lp = content ? json_pack("{s:o}", "content", content) : NULL;
    json_t *items = lp ? logprobs_items(lp, json_string_value(text)) : NULL;
    json_decref(lp);
    struct delta x = {.kind = DELTA_TEXT,
                      .text = {json_string_value(text), json_string_length(text)},
                      .json = items};
    bool ok = true;
    if (x.text.len > 0 || items) {
        d->has_content = true;
        ok = d->fn(&x, d->ud);
    }
    json_decref(items);
    return ok;
}

/* `input_length` is told in streams only; without it the number of tokens asked is not known. */
static bool emit_usage(struct decoder *d, const json_t *details)
{
    const json_t *asked = json_object_get(details, "input_length"),
                 *made = json_object_get(details, "generated_tokens");
    if (!json_is_number(asked) || !json_is_number(made)) {
        return true;
    }
    struct delta x = {.kind = DELTA_USAGE};
    x.usage = (struct usage){.is_known = true,
                             .prompt_tokens = backend_count(asked),
                             .completion_tokens = backend_count(made)};
    return d->fn(&x, d->ud);
}

/* The seed that was drawn, where none was sent: with it the answer can be had again. */
static bool emit_seed(struct decoder *d, const json_t *details)
{
    const json_t *seed = json_object_get(details, "seed");
    struct delta x = {.kind = DELTA_META};
    x.meta.has_seed = json_is_integer(seed);
    x.meta.seed = json_integer_value(seed);
    return !x.meta.has_seed || d->fn(&x, d->ud);
}

static bool emit_end(struct decoder *d, const json_t *details)
{
    const char *word = json_string_value(json_object_get(details, "finish_reason"));
    bool is_error;
    struct delta finish = {.kind = DELTA_FINISH, .text = slice_str(word ? word : "")};
    finish.finish = backend_finish(word ? word : "", &is_error);
    if (is_error) {
        struct refusal r = {.message = "the model could not go on", .status = 502};
        return refusal_inside(&r, d->pieces.is_stream, d->has_content, d->f);
    }
    struct delta end = {.kind = DELTA_END};
    d->is_ended = true;
    return emit_seed(d, details) && d->fn(&finish, d->ud) && emit_usage(d, details) &&
           d->fn(&end, d->ud);
}

/* {index, token{id,text,logprob,special}, top_tokens[], generated_text, details}: the text so far
 * comes with the last one. */
static bool take_event(struct decoder *d, const json_t *o)
{
    const json_t *token = json_object_get(o, "token"), *text = json_object_get(token, "text");
    if (is_said(token)) {
        json_t *item = item_of(token, json_object_get(o, "top_tokens"));
        json_t *content = item ? json_pack("[o]", item) : NULL;
        if (!content) {
            return no_memory_reading(d);
        }
        if (!emit_text(d, text, content)) {
            return false;
        }
    }
    return !json_is_string(json_object_get(o, "generated_text")) ||
           emit_end(d, json_object_get(o, "details"));
}

static bool take_whole(struct decoder *d, const json_t *o)
{
    const json_t *text = json_object_get(o, "generated_text"),
                 *details = json_object_get(o, "details"),
                 *tops = json_object_get(details, "top_tokens");
    if (!json_is_string(text)) {
        return malformed(d, "holds no generated text");
    }
    json_t *content = json_array(), *token;
    size_t i;
    bool ok = content != NULL;
    json_array_foreach (json_object_get(details, "tokens"), i, token) {
        ok = ok && (!is_said(token) ||
                    json_array_append_new(content, item_of(token, json_array_get(tops, i))) == 0);
    }
    if (!ok) {
        json_decref(content);
        return no_memory_reading(d);
    }
    if (json_array_size(content) == 0) {
        json_decref(content);
        content = NULL;
    }
    return emit_text(d, text, content) && emit_end(d, details);
}

static int status_of_type(const char *type)
{
    static const struct {
        const char *type;
        int status;
    } map[] = {{"validation", 422},           {"template_error", 422}, {"tool_error", 422},
               {"generation", 424},           {"overloaded", 429},     {"unhealthy", 503},
               {"incomplete_generation", 500}};
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        if (strcmp(map[i].type, type) == 0) {
            return map[i].status;
        }
    }
    return 0;
}

static bool on_json(const json_t *o, struct slice event, void *ud)
{
    struct decoder *d = ud;
    (void)event; /* they have no names */
    struct refusal r;
    if (d->is_ended || !o) {
        return true; /* there is no [DONE] here; a proxy may have added one */
    }
    if (refusal_read(o, &r)) {
        r.status = r.status ? r.status : status_of_type(r.type);
        return refusal_inside(&r, d->pieces.is_stream, d->has_content, d->f);
    }
    return json_object_get(o, "token") ? take_event(d, o) : take_whole(d, o);
}

static void begin_call(struct decoder *d, delta_fn *fn, void *ud, struct failure *f)
{
    d->fn = fn;
    d->ud = ud;
    d->f = f;
}

static bool tgi_decode(struct decoder *d, struct slice piece, delta_fn *fn, void *ud,
                       struct failure *f)
{
    if (d->chat) {
        return backend_openai.decode(d->chat, piece, fn, ud, f);
    }
    begin_call(d, fn, ud, f);
    return pieces_feed(&d->pieces, piece, on_json, d, f);
}

static bool tgi_decode_end(struct decoder *d, delta_fn *fn, void *ud, struct failure *f)
{
    if (d->chat) {
        return backend_openai.decode_end(d->chat, fn, ud, f);
    }
    begin_call(d, fn, ud, f);
    return pieces_end(&d->pieces, on_json, d, f) &&
           (d->is_ended || malformed(d, "ended without its last event: it was cut off"));
}

const struct backend backend_tgi = {
    .name = "tgi",
    .encode = tgi_encode,
    .decoder_new = tgi_decoder_new,
    .decoder_free = tgi_decoder_free,
    .decode = tgi_decode,
    .decode_end = tgi_decode_end,
    .refusal = refusal_answer,
    .shape = tgi_shape,
    .own_paths = tgi_own_paths,
};
