/* answer.c - one delta at a time through: find the choice, trim at stop strings, keep what is to be
 * kept, hand on.
 *
 * A cut needs care with log-probabilities: an item may only go on when the text of its token is
 * out, since a stop string that begins in that text may still cut it. Items are counted in bytes of
 * token text; whenever nothing of the text is held back, everything goes.
 */
#include "answer.h"

#include "base/limits.h"
#include "local-engine/stop.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *finish_name(enum finish f)
{
    static const char *const names[] = {[FINISH_NONE] = NULL,
                                        [FINISH_STOP] = "stop",
                                        [FINISH_LENGTH] = "length",
                                        [FINISH_TOOL_CALLS] = "tool_calls",
                                        [FINISH_CONTENT_FILTER] = "content_filter"};
    return names[f];
}

/* ---- begin and end */

static bool make_stops(struct answer *a, const json_t *stops, struct failure *f)
{
    const char *list[LIMIT_STOPS];
    size_t n = json_array_size(stops);
    if (n == 0) {
        return true;
    }
    if (n > LIMIT_STOPS) {
        return failure_set(f, 400, "invalid_value", "stop", "at most %d stop strings are possible",
                           LIMIT_STOPS);
    }
    for (size_t i = 0; i < n; i++) {
        list[i] = json_string_value(json_array_get(stops, i));
        if (!list[i]) {
            return failure_set(f, 400, "invalid_value", "stop", "must be a list of strings");
        }
    }
    for (unsigned i = 0; i < a->n_choices_max; i++) {
        struct engine_error e = {.code = ENGINE_OK};
        if (!stop_new(&a->choice[i].stop, list, n, &e)) {
            return failure_from_engine(f, &e);
        }
    }
    return true;
}

bool answer_init(struct answer *a, unsigned n_choices_max, const json_t *stops, bool keeps_text,
                 delta_fn *out, void *out_ud, struct failure *f)
{
    *a = (struct answer){
        .n_choices_max = n_choices_max, .keeps_text = keeps_text, .out = out, .out_ud = out_ud};
    if (n_choices_max == 0 || n_choices_max > ANSWER_CHOICES_MAX) {
        a->n_choices_max = 0;
        return failure_set(f, 400, "invalid_value", "n", "an answer has 1 to %d choices",
                           ANSWER_CHOICES_MAX);
    }
    a->choice = calloc(n_choices_max, sizeof *a->choice);
    if (!a->choice) {
        a->n_choices_max = 0;
        return failure_set(f, 503, "out_of_memory", NULL, "out of memory for %u choices",
                           n_choices_max);
    }
    for (unsigned i = 0; i < n_choices_max; i++) {
        buf_init(&a->choice[i].text, LIMIT_ANSWER_BYTES);
        buf_init(&a->choice[i].reasoning, LIMIT_ANSWER_BYTES);
        buf_init(&a->choice[i].refusal, LIMIT_ANSWER_BYTES);
    }
    if (!make_stops(a, stops, f)) {
        answer_release(a);
        return false;
    }
    return true;
}

static void release_calls(struct answer_choice *c)
{
    for (size_t i = 0; i < c->n_calls; i++) {
        json_decref(c->calls[i].id);
        json_decref(c->calls[i].name);
        buf_release(&c->calls[i].arguments);
    }
    free(c->calls);
    c->calls = NULL;
    c->n_calls = 0;
}

void answer_release(struct answer *a)
{
    if (!a) {
        return;
    }
    /* an answer that gathers others has as many as it counts */
    unsigned n = a->n_choices > a->n_choices_max ? a->n_choices : a->n_choices_max;
    for (unsigned i = 0; a->choice && i < n; i++) {
        struct answer_choice *c = &a->choice[i];
        buf_release(&c->text);
        buf_release(&c->reasoning);
        buf_release(&c->refusal);
        json_decref(c->logprobs);
        json_decref(c->tools);
        release_calls(c);
        json_decref(c->held);
        stop_free(c->stop);
    }
    free(a->choice);
    *a = (struct answer){.n_choices_max = 0};
}

const struct failure *answer_failure(const struct answer *a)
{
    return a->failure.status ? &a->failure : NULL;
}

bool answer_has_enough(const struct answer *a)
{
    bool is_cut = false;
    for (unsigned i = 0; i < a->n_choices; i++) {
        is_cut = is_cut || a->choice[i].is_stopped;
        if (a->choice[i].finish == FINISH_NONE) {
            return false;
        }
    }
    return is_cut && a->n_choices == a->n_choices_max;
}

/* ---- handing on */

static bool fail(struct answer *a, const char *code, const char *what)
{
    return failure_set(&a->failure, 502, code, NULL, "the backend's answer %s", what);
}

static bool fail_memory(struct answer *a)
{
    return fail(a, "out_of_memory", "needs more memory than there is");
}

static bool hand_on(struct answer *a, const struct delta *d)
{
    return !a->out || a->out(d, a->out_ud);
}

static bool keep(struct answer *a, struct buf *b, struct slice text)
{
    if (!a->keeps_text || text.len == 0 || buf_append(b, text.p, text.len)) {
        return true;
    }
    return fail(a, "upstream_too_large", "is longer than can be gathered: ask for it as a stream");
}

/* Bytes of text that an item describes. */
static size_t item_bytes(const json_t *item)
{
    const json_t *bytes = json_object_get(item, "bytes");
    return json_is_array(bytes) ? json_array_size(bytes)
                                : json_string_length(json_object_get(item, "token"));
}

/* Takes out of c->held what may go on: items whose text is out; all of them when no text waits. New
 * array or NULL. */
static json_t *ready_items(struct answer_choice *c)
{
    size_t n = json_array_size(c->held), first = c->held_at;
    bool all = c->n_released == c->n_taken && !c->is_stopped;
    json_t *ready = NULL;
    for (; c->held_at < n; c->held_at++) {
        json_t *item = json_array_get(c->held, c->held_at);
        uint64_t end = c->n_described + item_bytes(item);
        if (!all && end > c->n_released) {
            break;
        }
        c->n_described = end;
        ready = ready ? ready : json_array();
        (void)json_array_append(ready, item);
    }
    if (all) {
        c->n_described = c->n_released; /* tokens without text in the answer (an end mark) would
                                           shift the count */
    }
    if (c->held_at == n && n > first) {
        json_decref(c->held);
        c->held = NULL;
        c->held_at = 0;
    }
    return ready;
}

static bool hold_items(struct answer *a, struct answer_choice *c, json_t *items)
{
    if (json_array_size(items) == 0) {
        return true;
    }
    c->held = c->held ? c->held : json_array();
    return (c->held && json_array_extend(c->held, items) == 0) || fail_memory(a);
}

/* Text that may be shown, and the items that go with it. */
static bool release_text(struct answer *a, unsigned index, struct slice text)
{
    struct answer_choice *c = &a->choice[index];
    c->n_released += text.len;
    a->text_bytes += text.len;
    json_t *items = ready_items(c);
    bool ok = true;
    if (items && a->keeps_text) {
        c->logprobs = c->logprobs ? c->logprobs : json_array();
        ok = c->logprobs && json_array_extend(c->logprobs, items) == 0;
    }
    ok = ok && keep(a, &c->text, text);
    struct delta d = {.kind = DELTA_TEXT, .choice = index, .text = text, .json = items};
    ok = ok && ((text.len == 0 && !items) || hand_on(a, &d));
    json_decref(items);
    return ok;
}

static bool set_finish(struct answer *a, unsigned index, enum finish finish, const char *native)
{
    struct answer_choice *c = &a->choice[index];
    struct delta d = {
        .kind = DELTA_FINISH, .choice = index, .finish = finish, .text = slice_str(native)};
    c->finish = finish;
    return hand_on(a, &d);
}

/* The gateway's own cut: the choice has ended, whatever the backend goes on to say. */
static bool cut(struct answer *a, unsigned index, struct slice text)
{
    struct answer_choice *c = &a->choice[index];
    c->is_stopped = true;
    bool ok = release_text(a, index, text);
    json_decref(c->held); /* tokens of the stop string and beyond */
    c->held = NULL;
    c->held_at = 0;
    return ok && set_finish(a, index, FINISH_STOP, c->native_finish);
}

/* ---- one delta */

/* A provider's word; what does not fit is cut, at a character. */
static void copy_cut(char *out, size_t cap, struct slice text)
{
    size_t n = text.len < cap ? text.len : cap - 1;
    while (n > 0 && n < text.len && ((unsigned char)text.p[n] & 0xc0) == 0x80) {
        n--;
    }
    if (n > 0) {
        memcpy(out, text.p, n);
    }
    out[n] = '\0';
}

static bool take_text(struct answer *a, unsigned index, const struct delta *d)
{
    struct answer_choice *c = &a->choice[index];
    c->n_taken += d->text.len;
    if (!hold_items(a, c, d->json)) {
        return false;
    }
    if (!c->stop) {
        return release_text(a, index, d->text);
    }
    const char *text = "";
    size_t len = 0;
    int matched = -1;
    struct engine_error e = {.code = ENGINE_OK};
    if (d->text.len > 0 &&
        !stop_push(c->stop, d->text.p, d->text.len, true, &text, &len, &matched, &e)) {
        return failure_from_engine(&a->failure, &e);
    }
    return matched >= 0 ? cut(a, index, (struct slice){text, len})
                        : release_text(a, index, (struct slice){text, len});
}

/* The end of a choice's text: what a stop string might have begun in goes on. */
static bool flush(struct answer *a, unsigned index)
{
    struct answer_choice *c = &a->choice[index];
    const char *text = "";
    size_t len = 0;
    int matched = -1;
    struct engine_error e = {.code = ENGINE_OK};
    if (!c->stop || c->is_stopped) {
        return true;
    }
    bool ok = stop_finish(c->stop, &text, &len, &matched, &e);
    if (!ok) {
        return failure_from_engine(&a->failure, &e);
    }
    if (matched >= 0) {
        return cut(a, index, (struct slice){text, len});
    }
    c->n_taken = c->n_released + len; /* nothing waits any more */
    return release_text(a, index, (struct slice){text, len});
}

static bool take_finish(struct answer *a, unsigned index, const struct delta *d)
{
    struct answer_choice *c = &a->choice[index];
    copy_cut(c->native_finish, sizeof c->native_finish, d->text);
    if (c->finish != FINISH_NONE) {
        return true;
    }
    if (!flush(a, index)) {
        return false;
    }
    return c->is_stopped || set_finish(a, index, d->finish, c->native_finish);
}

/* The gathered call at `index`, made with those before it when it is new. NULL: memory. */
static struct answer_call *call_at(struct answer_choice *c, size_t index)
{
    if (index >= c->n_calls) {
        struct answer_call *grown = realloc(c->calls, (index + 1) * sizeof *grown);
        if (!grown) {
            return NULL;
        }
        c->calls = grown;
        while (c->n_calls <= index) {
            struct answer_call *call = &c->calls[c->n_calls++];
            *call = (struct answer_call){.id = NULL};
            buf_init(&call->arguments, LIMIT_ANSWER_BYTES);
        }
    }
    return &c->calls[index];
}

static void set_word(json_t **word, json_t *by)
{
    if (json_string_length(by) > 0) {
        json_decref(*word);
        *word = json_incref(by);
    }
}

/* Gathers streamed pieces of calls into whole ones: names and ids as they come, arguments joined.
 */
static bool keep_call(struct answer *a, struct answer_choice *c, const json_t *piece)
{
    json_int_t index = json_integer_value(json_object_get(piece, "index"));
    const json_t *function = json_object_get(piece, "function"),
                 *more = json_object_get(function, "arguments");
    if (!a->keeps_text) {
        return true;
    }
    if (index < 0 || index >= ANSWER_CHOICES_MAX) {
        return fail(a, "upstream_malformed", "holds more tool calls than can be");
    }
    struct answer_call *call = call_at(c, (size_t)index);
    if (!call) {
        return fail_memory(a);
    }
    set_word(&call->id, json_object_get(piece, "id"));
    set_word(&call->name, json_object_get(function, "name"));
    return keep(a, &call->arguments,
                (struct slice){json_string_value(more), json_string_length(more)});
}

static bool take_content(struct answer *a, unsigned index, const struct delta *d)
{
    struct answer_choice *c = &a->choice[index];
    if (c->finish != FINISH_NONE) {
        return true; /* after a cut, or a backend that goes on after its own end */
    }
    c->n_deltas++;
    switch (d->kind) {
    case DELTA_TEXT:
        return take_text(a, index, d);
    case DELTA_REASONING:
        return keep(a, &c->reasoning, d->text) && hand_on(a, d);
    case DELTA_REFUSAL:
        return keep(a, &c->refusal, d->text) && hand_on(a, d);
    default:
        return keep_call(a, c, d->json) && hand_on(a, d);
    }
}

static bool take_meta(struct answer *a, const struct delta *d)
{
    if (d->meta.id) {
        copy_cut(a->provider_id, sizeof a->provider_id, slice_str(d->meta.id));
    }
    if (d->meta.model) {
        copy_cut(a->provider_model, sizeof a->provider_model, slice_str(d->meta.model));
    }
    if (d->meta.fingerprint) {
        copy_cut(a->provider_fingerprint, sizeof a->provider_fingerprint,
                 slice_str(d->meta.fingerprint));
    }
    if (d->meta.has_seed) {
        a->has_provider_seed = true;
        a->provider_seed = d->meta.seed;
    }
    return hand_on(a, d);
}

static bool take_end(struct answer *a, const struct delta *d)
{
    for (unsigned i = 0; i < a->n_choices; i++) {
        if (a->choice[i].finish == FINISH_NONE && !flush(a, i)) {
            return false;
        }
    }
    a->is_complete = true;
    return hand_on(a, d);
}

bool answer_take(const struct delta *d, void *answer)
{
    struct answer *a = answer;
    if (a->failure.status) {
        return false;
    }
    switch (d->kind) {
    case DELTA_META:
        return take_meta(a, d);
    case DELTA_USAGE:
        a->usage = d->usage;
        return hand_on(a, d);
    case DELTA_END:
        return take_end(a, d);
    default:
        break;
    }
    if (d->choice >= a->n_choices_max) {
        return fail(a, "upstream_malformed", "holds a choice that was not asked for");
    }
    a->n_choices = d->choice + 1 > a->n_choices ? d->choice + 1 : a->n_choices;
    return d->kind == DELTA_FINISH ? take_finish(a, d->choice, d) : take_content(a, d->choice, d);
}

static json_t *word_or_none(json_t *word)
{
    return word ? json_incref(word) : json_string("");
}

/* Some backends count their calls from 1: what no piece spoke of is no call. */
static bool finish_calls(struct answer_choice *c)
{
    bool ok = true;
    for (size_t i = 0; ok && i < c->n_calls; i++) {
        const struct answer_call *call = &c->calls[i];
        struct slice arguments = buf_slice(&call->arguments);
        if (!call->id && !call->name) {
            continue;
        }
        json_t *function = json_pack("{s:o,s:o}", "name", word_or_none(call->name), "arguments",
                                     json_stringn_nocheck(arguments.p, arguments.len));
        json_t *tool = json_pack("{s:o,s:s,s:o}", "id", word_or_none(call->id), "type", "function",
                                 "function", function);
        c->tools = c->tools ? c->tools : json_array();
        ok = json_array_append_new(c->tools, tool) == 0;
    }
    release_calls(c);
    return ok;
}

bool answer_finish(struct answer *a, struct failure *f)
{
    for (unsigned i = 0; i < a->n_choices && !a->failure.status; i++) {
        struct answer_choice *c = &a->choice[i];
        if (c->finish == FINISH_NONE && !flush(a, i)) {
            break;
        }
        if (!finish_calls(c)) {
            (void)fail_memory(a);
        }
    }
    if (a->failure.status) {
        if (f && !f->status) {
            *f = a->failure;
        }
        return false;
    }
    if (answer_has_enough(a)) {
        return true;
    }
    bool is_whole = a->is_complete && a->n_choices > 0;
    for (unsigned i = 0; i < a->n_choices; i++) {
        is_whole = is_whole && a->choice[i].finish != FINISH_NONE;
    }
    return is_whole || failure_set(f, 502, "stream_incomplete", NULL,
                                   "the backend's answer was cut off before its end");
}
