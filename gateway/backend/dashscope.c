/* dashscope.c - DashScope's own dialect: `input` and `parameters`, streams asked for by a header.
 *
 * Streams are asked for in pieces (incremental_output); a model that sends the whole text each time
 * all the same is seen by its texts (repeating.h). The finish reason is the word "null" until the
 * end, there is no end mark, and the status of an error inside a stream stands in its code. Images
 * are said in the form of the multimodal endpoint, which is another path.
 */
#include "backend.h"
#include "emit.h"
#include "logprobs.h"
#include "messages.h"
#include "repeating.h"

#include "gateway/base/jsonio.h"
#include "gateway/base/limits.h"
#include <stdlib.h>
#include <string.h>

/* ---- encode */

static json_t *wire_calls(const struct message *m)
{
    json_t *out = json_array(), *call;
    size_t i;
    json_array_foreach ((json_t *)m->calls, i, call) { /* the macro wants no const */
        const json_t *function = json_object_get(call, "function");
        json_t *arguments = messages_arguments_text(json_object_get(function, "arguments"));
        json_t *one = json_pack("{s:O,s:s,s:{s:O,s:o}}", "id", json_object_get(call, "id"), "type",
                                "function", "function", "name", json_object_get(function, "name"),
                                "arguments", arguments);
        if (json_array_append_new(out, one) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

/* [{"image": address or data:}, {"text"}]: only with an image, other endpoints take but a string.
 */
static json_t *wire_blocks(const struct message *m, struct messages *b)
{
    json_t *out = json_array(), *part;
    size_t i;
    json_array_foreach ((json_t *)m->parts, i, part) {
        const json_t *image = json_object_get(part, "image_url"),
                     *detail = json_object_get(image, "detail");
        json_t *block = image ? json_pack("{s:O}", "image", json_object_get(image, "url"))
                              : json_pack("{s:O}", "text", json_object_get(part, "text"));
        b->detail = b->detail ? b->detail : detail;
        if (json_array_append_new(out, block) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static bool has_image(const struct message *m)
{
    bool any = false;
    for (size_t i = 0; i < json_array_size(m->parts); i++) {
        any = any || json_object_get(json_array_get(m->parts, i), "image_url");
    }
    return any;
}

static json_t *wire_message(const struct message *m, struct messages *b)
{
    json_t *content = has_image(m) ? wire_blocks(m, b) : messages_text(m, b);
    json_t *out = backend_object("role", json_string_nocheck(m->role), "content", content, NULL);
    bool ok = out && (!m->call_id ||
                      json_object_set_new(out, "tool_call_id", json_string(m->call_id)) == 0);
    ok = ok && (!m->calls || json_object_set_new(out, "tool_calls", wire_calls(m)) == 0);
    bool is_prefill = m->is_last && strcmp(m->role, "assistant") == 0 && !m->calls;
    ok = ok && (!is_prefill || json_object_set_new(out, "partial", json_true()) == 0);
    if (m->reasoning && !b->reasoning) { /* not established that it may come back */
        b->reasoning = m->reasoning;
    }
    if (!ok) {
        json_decref(out);
        (void)backend_no_memory(b->f);
        return NULL;
    }
    return out;
}

/* The whole of response_format, whatever part of it the claim's path names. */
static bool shape_format(enum param p, json_t **value, const char **path)
{
    *path = "parameters.response_format";
    if (json_is_string(json_object_get(*value, "type"))) {
        return true;
    }
    json_t *inner = *value;
    *value = p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA
                 ? json_pack("{s:s,s:O}", "type", "json_schema", "json_schema", inner)
                 : json_pack("{s:s}", "type", "json_object");
    json_decref(inner);
    return *value != NULL;
}

static bool dashscope_shape(const struct call *c, enum param p, json_t **value, const char **path,
                            struct failure *f)
{
    (void)c;
    if (p == PARAM_RESPONSE_FORMAT_JSON_OBJECT || p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA) {
        return shape_format(p, value, path) || backend_no_memory(f);
    }
    if (p == PARAM_TOOLS) {
        json_t *tools = messages_tools(*value, f);
        json_decref(*value);
        *value = tools;
        return tools || backend_no_memory(f);
    }
    return true;
}

static bool build_body(const struct call *c, json_t *body, struct failure *f)
{
    json_t *messages = messages_build(c, wire_message, f);
    bool ok = messages && json_object_set_new(body, "model", json_string(c->model)) == 0;
    ok = ok && jsonio_set_path(body, "input.messages", json_incref(messages));
    json_decref(messages);
    ok = ok && jsonio_set_path(body, "parameters.result_format", json_string("message"));
    ok = ok && backend_encode_params(c, body, f) && messages_note_strict(c, f);
    return ok &&
           (!c->stream || jsonio_set_path(body, "parameters.incremental_output", json_true()));
}

static bool dashscope_encode(const struct call *c, struct buf *body, struct headers *h,
                             struct failure *f)
{
    return backend_encode_chat(c, build_body, body, h, f) &&
           (!c->stream || headers_add(h, "x-dashscope-sse", "enable"));
}

/* ---- decode */

#define CHOICES_MAX 16  /* n is at most 4 there */
#define TOOLS_MAX   128 /* calls of one answer, in all its choices */

/* One text of a choice and the log-probabilities that came with it. */
struct said {
    struct repeating text;
    json_t *held, *last; /* items: of all pieces that wait, of the newest piece; or NULL */
    size_t n_items;      /* given out */
};

struct choice {
    bool is_seen, is_finished;
    struct said text, reasoning;
};

struct call_state {
    unsigned choice, index;
    bool has_arguments;
    struct repeating arguments;
};

struct decoder {
    struct emitter out;
    enum repeating_pace pace;
    bool has_meta;
    struct choice choice[CHOICES_MAX];
    struct call_state tool[TOOLS_MAX];
    size_t n_tools;
};

static void said_init(struct said *s)
{
    repeating_init(&s->text);
}

static void said_release(struct said *s)
{
    repeating_release(&s->text);
    json_decref(s->held);
    json_decref(s->last);
}

static struct decoder *dashscope_decoder_new(enum wire_form form, bool is_chat)
{
    (void)is_chat;
    struct decoder *d = emit_new(sizeof *d, form);
    if (!d) {
        return NULL;
    }
    d->pace = d->out.pieces.is_stream ? REPEATING_UNKNOWN : REPEATING_NOT;
    for (size_t i = 0; i < CHOICES_MAX; i++) {
        said_init(&d->choice[i].text);
        said_init(&d->choice[i].reasoning);
    }
    return d;
}

static void dashscope_decoder_free(struct decoder *d)
{
    if (d) {
        for (size_t i = 0; i < CHOICES_MAX; i++) {
            said_release(&d->choice[i].text);
            said_release(&d->choice[i].reasoning);
        }
        for (size_t i = 0; i < d->n_tools; i++) {
            repeating_release(&d->tool[i].arguments);
        }
    }
    emit_free(d);
}

static bool bad_repetition(struct decoder *d)
{
    return emit_malformed(&d->out, "is too long, or repeats its text with changes");
}

/* The items after the first n; NULL: none. */
static json_t *tail(const json_t *items, size_t n)
{
    json_t *out = json_array_size(items) > n ? json_array() : NULL;
    for (size_t i = n; out && i < json_array_size(items); i++) {
        (void)json_array_append(out, json_array_get(items, i));
    }
    return out;
}

/* Takes `items` over and returns those that belong to what is given out now. */
static json_t *due_items(struct said *s, enum repeating_pace pace, json_t *items)
{
    if (pace == REPEATING_ALL) {
        json_t *due = tail(items, s->n_items);
        s->n_items += json_array_size(due);
        json_decref(items);
        json_decref(s->held); /* the newest list holds them too */
        s->held = NULL;
        return due;
    }
    if (s->held && items) {
        (void)json_array_extend(s->held, items);
        json_decref(items);
        items = NULL;
    }
    json_t *due = s->held ? s->held : items;
    s->held = NULL;
    s->n_items += json_array_size(due);
    return due;
}

/* `items` is taken over. */
static void hold_items(struct said *s, json_t *items)
{
    if (!items) {
        return;
    }
    s->held = s->held ? s->held : json_array();
    (void)json_array_extend(s->held, items);
    json_decref(s->last);
    s->last = items;
}

static bool take_said(struct decoder *d, struct said *s, enum delta_kind kind, unsigned choice,
                      const json_t *text, const json_t *lp)
{
    struct slice piece = {json_string_value(text), json_string_length(text)}, fresh;
    json_t *items = logprobs_items(lp, piece.p);
    if (!repeating_take(&s->text, &d->pace, piece, &fresh)) {
        json_decref(items);
        return bad_repetition(d);
    }
    if (d->pace == REPEATING_UNKNOWN && piece.len > 0 && fresh.len == 0) {
        hold_items(s, items);
        return true;
    }
    items = due_items(s, d->pace, items);
    bool ok = emit_slice(&d->out, kind, choice, fresh, items);
    json_decref(items);
    return ok;
}

/* The choice has ended: what was held back. */
static bool end_said(struct decoder *d, struct said *s, enum delta_kind kind, unsigned choice)
{
    struct slice fresh;
    bool was_held = s->text.held.len > 0;
    size_t n_given = s->text.n_given;
    if (!repeating_end(&s->text, d->pace, &fresh)) {
        return bad_repetition(d);
    }
    bool is_rest = was_held && s->text.n_given != n_given;
    json_t *items = is_rest ? due_items(s, REPEATING_ALL, json_incref(s->last))
                            : due_items(s, REPEATING_NOT, NULL);
    bool ok = emit_slice(&d->out, kind, choice, fresh, items);
    json_decref(items);
    return ok;
}

/* A string, or a list of {"text"}: new reference, NULL: no text. */
static json_t *text_of(const json_t *content)
{
    if (!json_is_array(content)) {
        return json_incref((json_t *)content);
    }
    struct buf b;
    buf_init(&b, LIMIT_ANSWER_BYTES);
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *text = json_object_get(json_array_get(content, i), "text");
        if (json_is_string(text)) {
            (void)buf_append(&b, json_string_value(text), json_string_length(text));
        }
    }
    json_t *out = b.len > 0 ? json_stringn(b.p, b.len) : NULL;
    buf_release(&b);
    return out;
}

/* The call of that index in that choice, made at its first piece. NULL: too many. */
static struct call_state *find_call(struct decoder *d, unsigned choice, unsigned index,
                                    bool *is_new)
{
    for (size_t i = 0; i < d->n_tools; i++) {
        if (d->tool[i].choice == choice && d->tool[i].index == index) {
            *is_new = false;
            return &d->tool[i];
        }
    }
    if (d->n_tools == TOOLS_MAX) {
        return NULL;
    }
    struct call_state *t = &d->tool[d->n_tools++];
    *t = (struct call_state){.choice = choice, .index = index};
    repeating_init(&t->arguments);
    *is_new = true;
    return t;
}

static bool give_arguments(struct decoder *d, struct call_state *t, const char *id,
                           const char *name, struct slice text)
{
    char *copy = strndup(text.p, text.len); /* a piece of JSON holds no NUL */
    if (!copy) {
        return emit_no_memory(&d->out);
    }
    t->has_arguments = t->has_arguments || text.len > 0;
    bool ok = emit_tool(&d->out, t->choice, t->index, id, name, copy);
    free(copy);
    return ok;
}

static bool take_call(struct decoder *d, unsigned choice, unsigned index, const json_t *call)
{
    const json_t *id = json_object_get(call, "id"), *function = json_object_get(call, "function");
    const json_t *name = json_object_get(function, "name"),
                 *arguments = json_object_get(function, "arguments");
    bool is_new = false;
    struct call_state *t = find_call(d, choice, index, &is_new);
    struct slice piece = {json_string_value(arguments), json_string_length(arguments)}, fresh;
    if (!t) {
        return emit_malformed(&d->out, "holds more tool calls than can be");
    }
    if (!repeating_take(&t->arguments, &d->pace, piece, &fresh)) {
        return bad_repetition(d);
    }
    if (!is_new && fresh.len == 0) {
        return true;
    }
    return give_arguments(d, t, is_new ? json_string_value(id) : NULL,
                          is_new ? json_string_value(name) : NULL, fresh);
}

static bool take_calls(struct decoder *d, unsigned choice, const json_t *message)
{
    size_t i;
    json_t *call;
    json_array_foreach (json_object_get(message, "tool_calls"), i, call) {
        const json_t *index = json_object_get(call, "index");
        json_int_t at = json_is_integer(index) ? json_integer_value(index) : (json_int_t)i;
        if (at < 0 || at >= TOOLS_MAX) {
            return emit_malformed(&d->out, "holds more tool calls than can be");
        }
        if (!take_call(d, choice, (unsigned)at, call)) {
            return false;
        }
    }
    return true;
}

static bool end_calls(struct decoder *d, unsigned choice, bool *any)
{
    for (size_t i = 0; i < d->n_tools; i++) {
        struct call_state *t = &d->tool[i];
        struct slice fresh;
        if (t->choice != choice) {
            continue;
        }
        *any = true;
        if (!repeating_end(&t->arguments, d->pace, &fresh)) {
            return bad_repetition(d);
        }
        fresh = fresh.len == 0 && !t->has_arguments ? SLICE_LIT("{}") : fresh;
        if (fresh.len > 0 && !give_arguments(d, t, NULL, NULL, fresh)) {
            return false;
        }
    }
    return true;
}

static bool take_finish(struct decoder *d, unsigned choice, const json_t *reason)
{
    const char *word = json_string_value(reason);
    struct choice *at = &d->choice[choice];
    bool has_calls = false;
    if (!word || strcmp(word, "null") == 0 || at->is_finished) {
        return true;
    }
    at->is_finished = true;
    return end_said(d, &at->reasoning, DELTA_REASONING, choice) &&
           end_said(d, &at->text, DELTA_TEXT, choice) && end_calls(d, choice, &has_calls) &&
           emit_finish(&d->out, choice, word, has_calls, NULL);
}

static bool take_choice(struct decoder *d, const json_t *o, size_t position)
{
    const json_t *index = json_object_get(o, "index"), *message = json_object_get(o, "message");
    json_int_t n = json_is_integer(index) ? json_integer_value(index) : (json_int_t)position;
    if (!json_is_object(o) || n < 0 || n >= CHOICES_MAX) {
        return emit_malformed(&d->out, "holds a choice that was not asked for");
    }
    unsigned at = (unsigned)n;
    struct choice *c = &d->choice[at];
    if (c->is_finished) {
        return true;
    }
    c->is_seen = true;
    json_t *text = text_of(json_object_get(message, "content")),
           *reasoning = text_of(json_object_get(message, "reasoning_content"));
    bool ok = take_said(d, &c->reasoning, DELTA_REASONING, at, reasoning, NULL) &&
              take_said(d, &c->text, DELTA_TEXT, at, text, json_object_get(o, "logprobs")) &&
              take_calls(d, at, message) && take_finish(d, at, json_object_get(o, "finish_reason"));
    json_decref(text);
    json_decref(reasoning);
    return ok;
}

/* {"output":{"choices":[..]}}; without result_format "message" {"output":{"text","finish_reason"}}.
 */
static bool take_output(struct decoder *d, const json_t *output)
{
    json_t *choices = json_object_get(output, "choices"), *choice;
    const json_t *text = json_object_get(output, "text");
    size_t i;
    json_array_foreach (choices, i, choice) {
        if (!take_choice(d, choice, i)) {
            return false;
        }
    }
    if (json_is_array(choices) || !json_is_string(text) || d->choice[0].is_finished) {
        return true;
    }
    d->choice[0].is_seen = true;
    return take_said(d, &d->choice[0].text, DELTA_TEXT, 0, text, NULL) &&
           take_finish(d, 0, json_object_get(output, "finish_reason"));
}

static bool take_usage(struct decoder *d, const json_t *u)
{
    if (!json_is_number(json_object_get(u, "input_tokens")) &&
        !json_is_number(json_object_get(u, "output_tokens"))) {
        return true;
    }
    struct usage x = {.is_known = true};
    x.prompt_tokens = backend_count(json_object_get(u, "input_tokens"));
    x.completion_tokens = backend_count(json_object_get(u, "output_tokens"));
    x.reasoning_tokens =
        backend_count(jsonio_get_path(u, "output_tokens_details.reasoning_tokens"));
    x.cached_tokens = backend_count(jsonio_get_path(u, "prompt_tokens_details.cached_tokens"));
    return emit_usage(&d->out, &x);
}

static bool end_answer(struct decoder *d)
{
    bool is_any = false;
    for (unsigned i = 0; i < CHOICES_MAX; i++) {
        if (d->choice[i].is_seen && !d->choice[i].is_finished) {
            return emit_cut_off(&d->out, "ended without a finish reason: it was cut off");
        }
        is_any = is_any || d->choice[i].is_seen;
    }
    return is_any ? emit_end(&d->out) : emit_malformed(&d->out, "holds no choice");
}

/* The code's first word, up to a point, says what kind of error it is. */
static int status_of_code(const char *code)
{
    static const struct {
        const char *word;
        int status;
    } map[] = {
        {"InvalidApiKey", 401},    {"AccessDenied", 403},     {"Arrearage", 402},
        {"ModelNotFound", 404},    {"Throttling", 429},       {"RequestTimeOut", 504},
        {"InternalError", 500},    {"SystemError", 500},      {"ServiceUnavailable", 503},
        {"ModelUnavailable", 503}, {"InvalidParameter", 400}, {"DataInspectionFailed", 400},
        {"BadRequest", 400},       {"InvalidURL", 400},
    };
    size_t n = strcspn(code, ".");
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        if (strlen(map[i].word) == n && strncmp(map[i].word, code, n) == 0) {
            return map[i].status;
        }
    }
    return 0;
}

static bool on_json(const json_t *o, struct slice event, void *ud)
{
    struct decoder *d = ud;
    struct refusal r = {.message = "the backend gave no reason"};
    bool is_error = event.len == 5 && memcmp(event.p, "error", 5) == 0;
    if (d->out.is_ended) {
        return true;
    }
    if (!o) {
        return end_answer(d);
    }
    if (!json_is_object(json_object_get(o, "output")) && (refusal_read(o, &r) || is_error)) {
        r.status = r.status ? r.status : status_of_code(r.code);
        return emit_refused(&d->out, &r);
    }
    if (!d->has_meta) {
        d->has_meta = true;
        if (!emit_meta(&d->out, json_object_get(o, "request_id"), NULL)) {
            return false;
        }
    }
    if (!take_output(d, json_object_get(o, "output")) ||
        !take_usage(d, json_object_get(o, "usage"))) {
        return false;
    }
    return d->out.pieces.is_stream || end_answer(d);
}

static bool dashscope_decode(struct decoder *d, struct slice piece, delta_fn *fn, void *ud,
                             struct failure *f)
{
    return emit_feed(d, piece, on_json, fn, ud, f);
}

static bool dashscope_decode_end(struct decoder *d, delta_fn *fn, void *ud, struct failure *f)
{
    return emit_feed_end(d, on_json, fn, ud, f) && (d->out.is_ended || end_answer(d));
}

const struct backend backend_dashscope = {
    .name = "dashscope",
    .encode = dashscope_encode,
    .decoder_new = dashscope_decoder_new,
    .decoder_free = dashscope_decoder_free,
    .decode = dashscope_decode,
    .decode_end = dashscope_decode_end,
    .refusal = refusal_answer,
    .shape = dashscope_shape,
};
