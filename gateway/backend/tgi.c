/* tgi.c - Hugging Face's text-generation-inference: raw completions by /generate and
 * /generate_stream. Chat, which it speaks as OpenAI does, is handed to openai.c.
 *
 * `details` is always asked for: without it an answer has neither a finish reason nor a count. So
 * log-probabilities come whether they were asked for or not; whoever did not ask drops them.
 */
#include "backend.h"
#include "emit.h"
#include "logprobs.h"

#include "gateway/base/jsonio.h"
#include <string.h>

/* ---- encode */

static const char *const tgi_own_paths[] = {"parameters.details", NULL};

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

static bool build_body(const struct call *c, json_t *body, struct failure *f)
{
    const json_t *text = one_text(c->prompt, f);
    return text && json_object_set(body, "inputs", (json_t *)text) == 0 &&
           json_object_set_new(body, "parameters", json_object()) == 0 && note_echo(c, f) &&
           backend_encode_params(c, body, f) &&
           jsonio_set_path(body, "parameters.details", json_true());
}

static bool tgi_encode(const struct call *c, struct buf *body, struct headers *h, struct failure *f)
{
    cut_stops_here(c);
    if (c->messages) {
        return backend_openai.encode(c, body, h, f);
    }
    return backend_encode_with(c, build_body, body, h, f);
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
    return by || backend_no_memory(f);
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
    struct emitter out;
    struct decoder *chat; /* openai.c's; then nothing else here is used */
};

static void tgi_decoder_free(struct decoder *d)
{
    if (d) {
        backend_openai.decoder_free(d->chat);
    }
    emit_free(d);
}

static struct decoder *tgi_decoder_new(enum wire_form form, bool is_chat)
{
    struct decoder *d = emit_new(sizeof *d, form);
    if (d && is_chat && !(d->chat = backend_openai.decoder_new(form, true))) {
        tgi_decoder_free(d);
        return NULL;
    }
    return d;
}

static void tgi_decoder_set(struct decoder *d, const struct provider_quirks *q)
{
    if (d->chat) {
        backend_openai.decoder_set(d->chat, q);
    }
}

/* `input_length` is told in streams only; without it the number of tokens asked is not known. */
static bool take_usage(struct decoder *d, const json_t *details)
{
    const json_t *asked = json_object_get(details, "input_length"),
                 *made = json_object_get(details, "generated_tokens");
    if (!json_is_number(asked) || !json_is_number(made)) {
        return true;
    }
    struct usage u = {.is_known = true,
                      .prompt_tokens = backend_count(asked),
                      .completion_tokens = backend_count(made)};
    return emit_usage(&d->out, &u);
}

/* The seed that was drawn, where none was sent: with it the answer can be had again. */
static bool take_seed(struct decoder *d, const json_t *details)
{
    const json_t *seed = json_object_get(details, "seed");
    struct delta x = {.kind = DELTA_META};
    x.meta.has_seed = json_is_integer(seed);
    x.meta.seed = json_integer_value(seed);
    return !x.meta.has_seed || emit_delta(&d->out, &x);
}

static bool take_end(struct decoder *d, const json_t *details)
{
    const char *word = json_string_value(json_object_get(details, "finish_reason"));
    return take_seed(d, details) && emit_finish(&d->out, 0, word ? word : "", false, NULL) &&
           take_usage(d, details) && emit_end(&d->out);
}

/* {index, token{id,text,logprob,special}, top_tokens[], generated_text, details}: the text so far
 * comes with the last one. */
static bool take_event(struct decoder *d, const json_t *o)
{
    const json_t *token = json_object_get(o, "token"), *text = json_object_get(token, "text");
    bool is_said = !json_is_true(json_object_get(token, "special")); /* end marks are not */
    json_t *item = logprobs_text_item(token, json_object_get(o, "top_tokens"));
    json_t *items = item ? backend_list(item) : NULL;
    bool ok = !is_said || emit_text(&d->out, DELTA_TEXT, 0, text, items);
    json_decref(items);
    return ok && (!json_is_string(json_object_get(o, "generated_text")) ||
                  take_end(d, json_object_get(o, "details")));
}

static bool take_whole(struct decoder *d, const json_t *o)
{
    const json_t *text = json_object_get(o, "generated_text"),
                 *details = json_object_get(o, "details"),
                 *tops = json_object_get(details, "top_tokens");
    if (!json_is_string(text)) {
        return emit_malformed(&d->out, "holds no generated text");
    }
    json_t *items = json_array(), *token;
    size_t i;
    json_array_foreach (json_object_get(details, "tokens"), i, token) {
        json_t *item = logprobs_text_item(token, json_array_get(tops, i));
        (void)(item && json_array_append_new(items, item));
    }
    bool ok = emit_text(&d->out, DELTA_TEXT, 0, text, json_array_size(items) > 0 ? items : NULL);
    json_decref(items);
    return ok && take_end(d, details);
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
    if (d->out.is_ended || !o) {
        return true; /* there is no [DONE] here; a proxy may have added one */
    }
    if (refusal_read(o, &r)) {
        r.status = r.status ? r.status : status_of_type(r.type);
        return emit_refused(&d->out, &r);
    }
    return json_object_get(o, "token") ? take_event(d, o) : take_whole(d, o);
}

static bool tgi_decode(struct decoder *d, struct slice piece, delta_fn *fn, void *ud,
                       struct failure *f)
{
    if (d->chat) {
        return backend_openai.decode(d->chat, piece, fn, ud, f);
    }
    return emit_feed(d, piece, on_json, fn, ud, f);
}

static bool tgi_decode_end(struct decoder *d, delta_fn *fn, void *ud, struct failure *f)
{
    if (d->chat) {
        return backend_openai.decode_end(d->chat, fn, ud, f);
    }
    return emit_feed_end(d, on_json, fn, ud, f) &&
           (d->out.is_ended ||
            emit_malformed(&d->out, "ended without its last event: it was cut off"));
}

const struct backend backend_tgi = {
    .name = "tgi",
    .encode = tgi_encode,
    .decoder_new = tgi_decoder_new,
    .decoder_set = tgi_decoder_set,
    .decoder_free = tgi_decoder_free,
    .decode = tgi_decode,
    .decode_end = tgi_decode_end,
    .refusal = refusal_answer,
    .shape = tgi_shape,
    .own_paths = tgi_own_paths,
};
