/* palm.c - PaLM, retired in 2024 and 2025: generateMessage and generateText, and as a dialect of
 * its own Vertex's :predict. The answers of all three are read in one way.
 *
 * Whether a :predict model takes messages the claims say, by a context for the system's text. No
 * tools, no images, no streams (an answer that was
 * asked for in pieces comes whole and is delivered as one), no finish reasons; usage from :predict
 * only.
 */
#include "backend.h"
#include "emit.h"
#include "logprobs.h"
#include "turns.h"

#include "gateway/base/limits.h"
#include <string.h>

/* ---- encode */

static bool has_image(const json_t *content)
{
    size_t i;
    json_t *part;
    json_array_foreach ((json_t *)content, i, part) { /* the macro wants no const */
        if (backend_is_word(json_object_get(part, "type"), "image_url")) {
            return true;
        }
    }
    return false;
}

/* The first message that holds an image, or has to do with tools. */
static size_t find_message(const struct call *c, bool image)
{
    for (size_t i = 0; i < json_array_size(c->messages); i++) {
        const json_t *message = json_array_get(c->messages, i);
        bool is_tool = json_object_get(message, "tool_calls") ||
                       backend_is_word(json_object_get(message, "role"), "tool");
        if (image ? has_image(json_object_get(message, "content")) : is_tool) {
            return i;
        }
    }
    return 0;
}

/* The text of a turn; texts of messages that became one turn are apart by a blank line. New
 * reference. */
static json_t *turn_text(const struct call *c, const json_t *turn, struct failure *f)
{
    json_t *content = json_object_get(turn, "content");
    if (json_is_string(content)) {
        return json_incref(content);
    }
    struct buf b;
    buf_init(&b, LIMIT_BODY_BYTES);
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i), *text = json_object_get(block, "text");
        if (!text) {
            bool is_image = backend_is_word(json_object_get(block, "type"), "image");
            ok = failure_set(f, 400, "unsupported_content", "messages",
                             "messages[%zu]: this backend knows texts only: leave %s out",
                             find_message(c, is_image), is_image ? "images" : "tools");
            break;
        }
        ok = (b.len == 0 || buf_puts(&b, "\n\n")) &&
             buf_append(&b, json_string_value(text), json_string_length(text));
    }
    json_t *out = ok ? json_stringn(b.p ? b.p : "", b.len) : NULL;
    buf_release(&b);
    return out;
}

static json_t *wire_messages(const struct call *c, const json_t *turns, bool is_vertex,
                             struct failure *f)
{
    static const char *const authors[2][2] = {{"0", "1"}, {"user", "bot"}};
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(turns); i++) {
        const json_t *turn = json_array_get(turns, i);
        bool is_model = backend_is_word(json_object_get(turn, "role"), "assistant");
        json_t *text = turn_text(c, turn, f);
        json_t *message = backend_object(
            "author", json_string_nocheck(authors[is_vertex][is_model]), "content", text, NULL);
        if (json_array_append_new(list, message) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* A conversation with a model that goes on with one text: the system's words and one message. */
static json_t *one_prompt(const struct call *c, const struct turns *t, struct failure *f)
{
    struct adjustment a = {.name = "messages", .action = ACTION_REWRITTEN, .reason = REASON_ROLE};
    a.asked = (struct value){.type = VALUE_STRING, .s = "system"};
    a.sent = (struct value){.type = VALUE_STRING, .s = "user"};
    if (json_array_size(t->list) != 1) {
        (void)failure_set(f, 400, "unsupported_content", "messages",
                          "this model goes on with one text: send one user message only");
        return NULL;
    }
    json_t *text = turn_text(c, json_array_get(t->list, 0), f);
    if (!text || t->system.len == 0) {
        return text;
    }
    json_t *both = json_sprintf("%s\n\n%s", t->system.p, json_string_value(text));
    json_decref(text);
    if (both && !backend_note(c, BEHAVIOUR_SYSTEM_ROLE, &a, f)) {
        json_decref(both);
        return NULL;
    }
    return both;
}

/* {"context": .., "messages": [..]} */
static json_t *with_context(const struct turns *t, json_t *messages)
{
    json_t *o = json_object();
    bool ok =
        o && (t->system.len == 0 ||
              json_object_set_new(o, "context", json_stringn(t->system.p, t->system.len)) == 0);
    ok = json_object_set_new(o, "messages", messages) == 0 && ok;
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static bool put_chat(const struct call *c, json_t *body, bool predict, struct failure *f)
{
    bool is_chat = backend_accepts(c, BEHAVIOUR_SYSTEM_ROLE) || !predict;
    struct turns t;
    turns_init(&t);
    json_t *said = NULL;
    if (turns_build(&t, c, f)) {
        said =
            is_chat ? with_context(&t, wire_messages(c, t.list, predict, f)) : one_prompt(c, &t, f);
    }
    turns_release(&t);
    if (!said) {
        return backend_no_memory(f);
    }
    json_t *wire = !predict  ? said
                   : is_chat ? json_pack("[o]", said)
                             : json_pack("[{s:o}]", "prompt", said);
    return json_object_set_new(body, predict ? "instances" : "prompt", wire) == 0 ||
           backend_no_memory(f);
}

static bool put_prompt(const struct call *c, json_t *body, bool predict, struct failure *f)
{
    const json_t *prompt = c->prompt;
    if (json_array_size(prompt) == 1) {
        prompt = json_array_get(prompt, 0);
    }
    if (!json_is_string(prompt)) {
        return failure_set(f, 400, "unsupported_content", "prompt",
                           "this backend takes one prompt, as a string");
    }
    json_t *wire =
        predict ? json_pack("[{s:O}]", "prompt", prompt) : json_pack("{s:O}", "text", prompt);
    return json_object_set_new(body, predict ? "instances" : "prompt", wire) == 0 ||
           backend_no_memory(f);
}

static bool build(const struct call *c, json_t *body, bool predict, struct failure *f)
{
    return (c->messages ? put_chat(c, body, predict, f) : put_prompt(c, body, predict, f)) &&
           backend_encode_params(c, body, f);
}

static bool build_generate(const struct call *c, json_t *body, struct failure *f)
{
    return build(c, body, false, f);
}

static bool build_predict(const struct call *c, json_t *body, struct failure *f)
{
    return build(c, body, true, f);
}

static bool encode_whole(const struct call *c, backend_build_fn *how, struct buf *body,
                         struct headers *h, struct failure *f)
{
    struct call whole = *c;
    whole.stream = false; /* there is no other */
    return backend_encode_with(&whole, how, body, h, f);
}

static bool palm_encode(const struct call *c, struct buf *body, struct headers *h,
                        struct failure *f)
{
    return encode_whole(c, build_generate, body, h, f);
}

static bool predict_encode(const struct call *c, struct buf *body, struct headers *h,
                           struct failure *f)
{
    return encode_whole(c, build_predict, body, h, f);
}

/* One integer says both: that probabilities are wanted, and of how many alternatives. */
static bool palm_shape(const struct call *c, enum param p, json_t **value, const char **path,
                       struct failure *f)
{
    (void)path;
    if (p != PARAM_LOGPROBS && p != PARAM_TOP_LOGPROBS) {
        return true;
    }
    bool is_on = sampling_has(c->send, PARAM_LOGPROBS) && c->send->v[PARAM_LOGPROBS].b;
    int64_t k = sampling_has(c->send, PARAM_TOP_LOGPROBS) ? c->send->v[PARAM_TOP_LOGPROBS].i : 0;
    json_decref(*value);
    *value = NULL;
    if (p == PARAM_LOGPROBS && is_on) {
        *value = json_integer(k > 0 ? k : 1);
        return *value || backend_no_memory(f);
    }
    return true;
}

/* ---- decode */

struct decoder {
    struct emitter out;
    unsigned n_choices;
};

static struct decoder *palm_decoder_new(enum wire_form form, bool is_chat)
{
    (void)is_chat;
    return emit_new(sizeof(struct decoder), form);
}

static void palm_decoder_free(struct decoder *d)
{
    emit_free(d);
}

/* {tokens, tokenLogProbs, topLogProbs}: the legacy lists under other names. */
static json_t *logprobs_of(const json_t *lp)
{
    json_t *legacy = json_pack("{s:O?,s:O?,s:O?}", "tokens", json_object_get(lp, "tokens"),
                               "token_logprobs", json_object_get(lp, "tokenLogProbs"),
                               "top_logprobs", json_object_get(lp, "topLogProbs"));
    json_t *items = logprobs_items(legacy, NULL);
    json_decref(legacy);
    return items;
}

/* One choice: its text and its end, for which there is no word but that it was blocked. */
static bool take_choice(struct decoder *d, const json_t *text, const json_t *logprobs,
                        const char *blocked)
{
    unsigned at = d->n_choices++;
    if (at >= ANSWER_CHOICES_MAX) {
        return emit_malformed(&d->out, "holds more candidates than can be");
    }
    json_t *items = logprobs_of(logprobs);
    bool ok = json_string_length(text) == 0 || emit_text(&d->out, DELTA_TEXT, at, text, items);
    json_decref(items);
    char word[40] = "";
    if (blocked) {
        refusal_clean(slice_str(blocked), word, sizeof word);
    }
    return ok && emit_finish_as(&d->out, at, word, blocked ? FINISH_CONTENT_FILTER : FINISH_STOP);
}

static bool is_blocked(const json_t *prediction, size_t at)
{
    const json_t *safety = json_object_get(prediction, "safetyAttributes");
    safety = json_is_array(safety) ? json_array_get(safety, at) : safety;
    return json_is_true(json_object_get(safety, "blocked"));
}

static bool take_prediction(struct decoder *d, const json_t *p)
{
    const json_t *candidates = json_object_get(p, "candidates");
    if (!json_is_array(candidates)) {
        return take_choice(d, json_object_get(p, "content"), json_object_get(p, "logprobs"),
                           is_blocked(p, 0) ? "blocked" : NULL);
    }
    for (size_t i = 0; i < json_array_size(candidates); i++) {
        if (!take_choice(d, json_object_get(json_array_get(candidates, i), "content"), NULL,
                         is_blocked(p, i) ? "blocked" : NULL)) {
            return false;
        }
    }
    return true;
}

static bool take_usage(struct decoder *d, const json_t *o)
{
    const json_t *counts = json_object_get(json_object_get(o, "metadata"), "tokenMetadata");
    struct usage u = {.is_known = true};
    u.prompt_tokens =
        backend_count(json_object_get(json_object_get(counts, "inputTokenCount"), "totalTokens"));
    u.completion_tokens =
        backend_count(json_object_get(json_object_get(counts, "outputTokenCount"), "totalTokens"));
    return !counts || emit_usage(&d->out, &u);
}

static bool take_candidates(struct decoder *d, const json_t *candidates)
{
    for (size_t i = 0; i < json_array_size(candidates); i++) {
        const json_t *one = json_array_get(candidates, i), *output = json_object_get(one, "output");
        if (!take_choice(d, output ? output : json_object_get(one, "content"), NULL, NULL)) {
            return false;
        }
    }
    return true;
}

static bool on_json(const json_t *o, struct slice event, void *ud)
{
    struct decoder *d = ud;
    (void)event;
    struct refusal r;
    if (!o || d->out.is_ended) {
        return true;
    }
    if (refusal_read(o, &r)) {
        return emit_refused(&d->out, &r);
    }
    const json_t *predictions = json_object_get(o, "predictions"),
                 *filter = json_array_get(json_object_get(o, "filters"), 0);
    bool ok = take_candidates(d, json_object_get(o, "candidates"));
    for (size_t i = 0; ok && i < json_array_size(predictions); i++) {
        ok = take_prediction(d, json_array_get(predictions, i));
    }
    if (ok && d->n_choices == 0 && filter) {
        const char *reason = json_string_value(json_object_get(filter, "reason"));
        ok = take_choice(d, NULL, NULL, reason ? reason : "filtered");
    }
    if (ok && d->n_choices == 0) {
        ok = emit_malformed(&d->out, "holds no candidates");
    }
    return ok && take_usage(d, o) && emit_end(&d->out);
}

static bool palm_decode(struct decoder *d, struct slice piece, delta_fn *fn, void *ud,
                        struct failure *f)
{
    return emit_feed(d, piece, on_json, fn, ud, f);
}

static bool palm_decode_end(struct decoder *d, delta_fn *fn, void *ud, struct failure *f)
{
    return emit_feed_end(d, on_json, fn, ud, f) &&
           (d->out.is_ended || emit_malformed(&d->out, "holds no candidates"));
}

const struct backend backend_palm = {
    .name = "palm",
    .encode = palm_encode,
    .decoder_new = palm_decoder_new,
    .decoder_free = palm_decoder_free,
    .decode = palm_decode,
    .decode_end = palm_decode_end,
    .refusal = refusal_answer,
    .shape = palm_shape,
};

const struct backend backend_palm_predict = {
    .name = "palm-predict",
    .encode = predict_encode,
    .decoder_new = palm_decoder_new,
    .decoder_free = palm_decoder_free,
    .decode = palm_decode,
    .decode_end = palm_decode_end,
    .refusal = refusal_answer,
    .shape = palm_shape,
};
