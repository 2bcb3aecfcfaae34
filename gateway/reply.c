/* reply.c - see reply.h. Bodies are built as jansson trees and written by jsonio, which keeps
 * numbers as they were meant. */
#include "reply.h"

#include "base/jsonio.h"
#include "io/sse.h"
#include <string.h>

json_t *reply_isotherm(const struct prepared *p, const char *request_id, int64_t catalog_version)
{
    json_t *o = json_object();
    bool ok =
        o && json_object_set_new(o, "request_id", json_string(request_id)) == 0 &&
        json_object_set_new(o, "backend", json_string(p->target.provider_name)) == 0 &&
        json_object_set_new(o, "model", json_string(p->target.name)) == 0 &&
        json_object_set_new(o, "catalog_version", json_integer(catalog_version)) == 0 &&
        json_object_set_new(o, "fallback", prepare_fallback_json(p)) == 0 &&
        json_object_set_new(o, "adjustments", prepare_adjustments_json(&p->plan)) == 0 &&
        json_object_set_new(o, "seed", p->has_seed ? json_integer(p->seed) : json_null()) == 0;
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* ---- the completions endpoint's own shape of log-probabilities */

static size_t utf8_length(const char *s, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    }
    return n;
}

/* Characters of the text that a token is, as far as it begins them. Its bytes tell: the text of a
 * special token is a name, and a part of a character is written as U+FFFD. */
static size_t item_length(const json_t *item)
{
    const json_t *token = json_object_get(item, "token"), *bytes = json_object_get(item, "bytes"),
                 *byte;
    size_t n = 0, i;
    if (!json_is_array(bytes)) {
        return utf8_length(json_string_value(token), json_string_length(token));
    }
    json_array_foreach (bytes, i, byte) {
        n += (json_integer_value(byte) & 0xc0) != 0x80;
    }
    return n;
}

/* The first token of an echoed prompt, which nothing comes before. */
static bool is_unscored(const json_t *item)
{
    return json_is_null(json_object_get(item, "logprob"));
}

static json_t *legacy_top(const json_t *item)
{
    if (is_unscored(item)) {
        return json_null();
    }
    json_t *o = json_object();
    size_t i;
    const json_t *t;
    json_array_foreach (json_object_get(item, "top_logprobs"), i, t) {
        const json_t *token = json_object_get(t, "token");
        if (o && json_is_string(token)) { /* U+0000 may be a token */
            (void)json_object_setn(o, json_string_value(token), json_string_length(token),
                                   json_object_get(t, "logprob"));
        }
    }
    return o;
}

static json_t *legacy_logprobs(const json_t *items, uint64_t *offset)
{
    json_t *tokens = json_array(), *values = json_array(), *top = json_array(),
           *offsets = json_array();
    size_t i;
    const json_t *item;
    json_array_foreach (items, i, item) {
        const json_t *token = json_object_get(item, "token");
        (void)json_array_append(tokens, (json_t *)token); /* shared, not changed */
        (void)json_array_append(values, json_object_get(item, "logprob"));
        (void)json_array_append_new(top, legacy_top(item));
        (void)json_array_append_new(offsets, json_integer((json_int_t)*offset));
        *offset += item_length(item);
    }
    return json_pack("{s:o,s:o,s:o,s:o}", "tokens", tokens, "token_logprobs", values,
                     "top_logprobs", top, "text_offset", offsets);
}

/* `items`: OpenAI chat items or NULL. */
static json_t *logprobs_json(struct reply *r, unsigned choice, json_t *items)
{
    if (!items || r->hides_logprobs) {
        return json_null();
    }
    if (!r->is_chat) {
        return legacy_logprobs(items, &r->text_offset[choice]);
    }
    return json_pack("{s:O,s:n}", "content", items, "refusal");
}

static json_t *usage_json(const struct usage *u)
{
    if (!u->is_known) {
        return json_null();
    }
    return json_pack("{s:I,s:I,s:I,s:{s:I},s:{s:I}}", "prompt_tokens", (json_int_t)u->prompt_tokens,
                     "completion_tokens", (json_int_t)u->completion_tokens, "total_tokens",
                     (json_int_t)(u->prompt_tokens + u->completion_tokens), "prompt_tokens_details",
                     "cached_tokens", (json_int_t)u->cached_tokens, "completion_tokens_details",
                     "reasoning_tokens", (json_int_t)u->reasoning_tokens);
}

static json_t *finish_json(enum finish f)
{
    const char *name = finish_name(f);
    return name ? json_string(name) : json_null();
}

/* ---- one whole body */

static json_t *text_or_null(const struct buf *b, bool null_when_empty)
{
    if (b->len == 0) {
        return null_when_empty ? json_null() : json_string("");
    }
    return json_stringn(b->p, b->len);
}

static json_t *message_json(const struct answer_choice *c)
{
    /* As OpenAI: null where something else stands for the text, or it was withheld. */
    bool is_null = c->tools || c->refusal.len > 0 || c->finish == FINISH_CONTENT_FILTER;
    json_t *m =
        json_pack("{s:s,s:o,s:o}", "role", "assistant", "content", text_or_null(&c->text, is_null),
                  "refusal", text_or_null(&c->refusal, true));
    if (m && c->reasoning.len) {
        (void)json_object_set_new(m, "reasoning_content", text_or_null(&c->reasoning, true));
    }
    if (m && c->tools) {
        (void)json_object_set(m, "tool_calls", c->tools);
    }
    return m;
}

/* Characters of the echoed prompt that come without tokens: what those of the answer do not account
 * for. */
static uint64_t echo_length(const struct answer_choice *c)
{
    if (is_unscored(json_array_get(c->logprobs, 0))) {
        return 0;
    }
    uint64_t text = utf8_length(c->text.p, c->text.len), tokens = 0;
    size_t i;
    const json_t *item;
    json_array_foreach (c->logprobs, i, item) {
        tokens += item_length(item);
    }
    return text > tokens ? text - tokens : 0;
}

static json_t *choice_json(struct reply *r, const struct answer_choice *c, unsigned index)
{
    if (r->echo) {
        r->text_offset[index] = echo_length(c);
    }
    json_t *lp = logprobs_json(r, index, c->logprobs);
    if (r->is_chat) {
        return json_pack("{s:i,s:o,s:o,s:o}", "index", (int)index, "message", message_json(c),
                         "logprobs", lp, "finish_reason", finish_json(c->finish));
    }
    return json_pack("{s:o,s:i,s:o,s:o}", "text", text_or_null(&c->text, false), "index",
                     (int)index, "logprobs", lp, "finish_reason", finish_json(c->finish));
}

static json_t *envelope(const struct reply *r, bool is_chunk, json_t *choices)
{
    const char *object = !r->is_chat ? "text_completion"
                         : is_chunk  ? "chat.completion.chunk"
                                     : "chat.completion";
    return json_pack("{s:s,s:s,s:I,s:s,s:s,s:o}", "id", r->id, "object", object, "created",
                     (json_int_t)r->created_s, "model", r->model, "system_fingerprint",
                     r->system_fingerprint, "choices", choices);
}

static bool write_and_free(struct buf *out, json_t *o, bool is_event)
{
    bool ok = o != NULL;
    if (ok && is_event) {
        struct buf b;
        buf_init(&b, out->limit);
        ok = jsonio_write(&b, o) && sse_write(out, buf_slice(&b));
        buf_release(&b);
    } else if (ok) {
        ok = jsonio_write(out, o);
    }
    json_decref(o);
    return ok;
}

bool reply_whole(struct reply *r, const struct answer *a, json_t *isotherm, struct buf *out)
{
    json_t *choices = json_array();
    for (unsigned i = 0; i < a->n_choices; i++) {
        (void)json_array_append_new(choices, choice_json(r, &a->choice[i], i));
    }
    json_t *o = envelope(r, false, choices);
    if (!o || json_object_set_new(o, "usage", usage_json(&a->usage)) != 0 ||
        json_object_set(o, "isotherm", isotherm) != 0) {
        json_decref(o);
        return false;
    }
    return write_and_free(out, o, false);
}

/* ---- a stream */

/* choice, logprobs: new references or NULL; both are taken over. */
static json_t *chunk_choice(const struct reply *r, unsigned index, json_t *delta, json_t *lp,
                            enum finish finish)
{
    lp = lp ? lp : json_null();
    if (r->is_chat) {
        return json_pack("{s:i,s:o,s:o,s:o}", "index", (int)index, "delta", delta, "logprobs", lp,
                         "finish_reason", finish_json(finish));
    }
    json_t *text = json_incref(json_object_get(delta, "content"));
    json_decref(delta);
    return json_pack("{s:o,s:i,s:o,s:o}", "text", text ? text : json_string(""), "index",
                     (int)index, "logprobs", lp, "finish_reason", finish_json(finish));
}

static bool write_chunk(const struct reply *r, json_t *choice, json_t *usage, json_t *isotherm,
                        struct buf *out)
{
    json_t *choices = json_array();
    if (choice && json_array_append_new(choices, choice) != 0) {
        json_decref(choices);
        return false;
    }
    json_t *o = envelope(r, true, choices);
    bool ok = o != NULL;
    if (ok && r->include_usage) {
        ok = json_object_set_new(o, "usage", usage ? usage : json_null()) == 0;
    }
    if (ok && isotherm) {
        ok = json_object_set(o, "isotherm", isotherm) == 0;
    }
    if (!ok) {
        json_decref(o);
        return false;
    }
    return write_and_free(out, o, true);
}

static bool begin_choice(struct reply *r, unsigned choice)
{
    uint64_t bit = UINT64_C(1) << (choice % 64);
    bool is_first = !(r->begun[choice / 64] & bit);
    r->begun[choice / 64] |= bit;
    return is_first;
}

bool reply_delta(struct reply *r, const struct delta *d, json_t *isotherm, struct buf *out)
{
    static const char *const field[] = {[DELTA_TEXT] = "content",
                                        [DELTA_REASONING] = "reasoning_content",
                                        [DELTA_REFUSAL] = "refusal"};
    if (d->kind != DELTA_TEXT && d->kind != DELTA_REASONING && d->kind != DELTA_REFUSAL &&
        d->kind != DELTA_TOOL) {
        return true;
    }
    if (!r->is_chat && d->kind != DELTA_TEXT) {
        return true; /* raw completions have text only */
    }
    json_t *delta = json_object();
    bool is_first = begin_choice(r, d->choice);
    if (is_first && r->is_chat) {
        (void)json_object_set_new(delta, "role", json_string("assistant"));
    }
    json_t *lp = NULL;
    if (d->kind == DELTA_TOOL) {
        (void)json_object_set_new(delta, "tool_calls", json_pack("[O]", d->json));
    } else {
        (void)json_object_set_new(delta, field[d->kind],
                                  json_stringn(d->text.p ? d->text.p : "", d->text.len));
        if (d->kind == DELTA_TEXT && d->json) {
            lp = logprobs_json(r, d->choice, d->json);
        } else if (r->echo && is_first) { /* a prompt that comes without tokens has a length */
            r->text_offset[d->choice] += utf8_length(d->text.p, d->text.len);
        }
    }
    return write_chunk(r, chunk_choice(r, d->choice, delta, lp, FINISH_NONE), NULL, isotherm, out);
}

bool reply_end(struct reply *r, const struct answer *a, json_t *isotherm, struct buf *out)
{
    bool ok = true;
    for (unsigned i = 0; ok && i < a->n_choices; i++) {
        bool is_last = i + 1 == a->n_choices && !r->include_usage;
        json_t *delta = json_object();
        if (begin_choice(r, i) &&
            r->is_chat) { /* a choice without any text still says who speaks */
            (void)json_object_set_new(delta, "role", json_string("assistant"));
            (void)json_object_set_new(delta, "content", json_string(""));
        }
        ok = write_chunk(r, chunk_choice(r, i, delta, NULL, a->choice[i].finish), NULL,
                         is_last ? isotherm : NULL, out);
    }
    if (ok && r->include_usage) {
        ok = write_chunk(r, NULL, usage_json(&a->usage), isotherm, out);
    }
    return ok && sse_write(out, SLICE_LIT("[DONE]"));
}

/* ---- failures */

static json_t *word_or_null(const char *s)
{
    return s[0] ? json_string(s) : json_null();
}

bool reply_failure(const struct failure *f, json_t *isotherm, bool is_event, struct buf *out)
{
    json_t *message = json_string(f->message);
    if (!message) { /* a text that was cut inside a character */
        message = json_string("the error text is not valid UTF-8");
    }
    json_t *o = json_pack("{s:{s:o,s:s,s:o,s:o}}", "error", "message", message, "type", f->type,
                          "param", word_or_null(f->param), "code", word_or_null(f->code));
    if (o && isotherm) {
        (void)json_object_set(o, "isotherm", isotherm); /* no memory: the error is told without */
    }
    return write_and_free(out, o, is_event);
}
