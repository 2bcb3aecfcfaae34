/* delta_trace.h - for tests: deltas as text, one a line, so that two decodings of the same bytes
 * can be compared byte for byte. Every field of a delta is in it.
 *
 * trace_take() is a delta_fn with a struct trace as ud. It also holds what is true of every delta
 * of every dialect; the first rule that is broken is named in `wrong`, and decoding goes on.
 */
#ifndef ISOTHERM_TEST_DELTA_TRACE_H
#define ISOTHERM_TEST_DELTA_TRACE_H

#include "gateway/answer.h"
#include <inttypes.h>
#include <stdlib.h>

#define TRACE_BYTES_MAX (64u << 20)
#define TRACE_TOOLS_MAX 128 /* calls of one choice; every dialect refuses more */

struct trace {
    struct buf text;
    size_t n_deltas;
    bool is_ended;
    bool is_of_answer; /* what comes out of struct answer: a choice that has finished is over */
    bool has_finished[ANSWER_CHOICES_MAX];
    const char *wrong; /* NULL: nothing */
};

static inline void trace_init(struct trace *t)
{
    *t = (struct trace){.n_deltas = 0};
    buf_init(&t->text, TRACE_BYTES_MAX);
}

static inline void trace_release(struct trace *t)
{
    buf_release(&t->text);
}

static inline void trace_hold(struct trace *t, bool holds, const char *rule)
{
    t->wrong = t->wrong || holds ? t->wrong : rule;
}

/* json_stringn() takes UTF-8 only. */
static inline bool trace_is_utf8(struct slice text)
{
    json_t *s = text.len > 0 ? json_stringn(text.p, text.len) : json_null();
    json_decref(s);
    return s != NULL;
}

static inline void trace_order(struct trace *t, const struct delta *d)
{
    bool is_of_choice = d->kind != DELTA_META && d->kind != DELTA_USAGE && d->kind != DELTA_END;
    if (t->is_of_answer && is_of_choice && d->choice < ANSWER_CHOICES_MAX) {
        trace_hold(t, !t->has_finished[d->choice], "nothing of a choice comes after its finish");
        t->has_finished[d->choice] = d->kind == DELTA_FINISH;
    }
}

static inline void trace_check(struct trace *t, const struct delta *d)
{
    trace_order(t, d);
    trace_hold(t, !t->is_ended, "nothing comes after the end");
    trace_hold(t, d->choice < ANSWER_CHOICES_MAX, "the choice can be");
    trace_hold(t, trace_is_utf8(d->text), "text is UTF-8: never half a character");
    if (d->kind == DELTA_TOOL) {
        const json_t *index = json_object_get(d->json, "index");
        const json_t *function = json_object_get(d->json, "function");
        const json_t *arguments = json_object_get(function, "arguments");
        json_int_t at = json_integer_value(index);
        trace_hold(t, json_is_integer(index) && at >= 0 && at < TRACE_TOOLS_MAX,
                   "a tool call has an index that can be");
        trace_hold(t, !arguments || json_is_string(arguments), "arguments are a string");
    } else if (d->kind == DELTA_FINISH) {
        trace_hold(t, d->finish != FINISH_NONE, "a finish has a reason");
    } else if (d->kind == DELTA_USAGE) {
        trace_hold(t,
                   d->usage.is_known && d->usage.prompt_tokens >= 0 &&
                       d->usage.completion_tokens >= 0 && d->usage.reasoning_tokens >= 0 &&
                       d->usage.cached_tokens >= 0,
                   "numbers of tokens are known and not negative");
    }
}

static inline void trace_text(struct trace *t, struct slice text)
{
    (void)buf_printf(&t->text, " %zu:", text.len);
    (void)buf_append(&t->text, text.len > 0 ? text.p : "", text.len);
}

static inline bool trace_take(const struct delta *d, void *ud)
{
    static const char *const names[] = {
        [DELTA_META] = "meta",       [DELTA_TEXT] = "text", [DELTA_REASONING] = "reasoning",
        [DELTA_REFUSAL] = "refusal", [DELTA_TOOL] = "tool", [DELTA_FINISH] = "finish",
        [DELTA_USAGE] = "usage",     [DELTA_END] = "end"};
    struct trace *t = ud;
    trace_check(t, d);
    (void)buf_printf(&t->text, "%s %u %d", names[d->kind], d->choice, (int)d->finish);
    trace_text(t, d->text);
    if (d->kind == DELTA_META) {
        trace_text(t, slice_str(d->meta.id));
        trace_text(t, slice_str(d->meta.model));
        trace_text(t, slice_str(d->meta.fingerprint));
        (void)buf_printf(&t->text, " %d %" PRId64, d->meta.has_seed, d->meta.seed);
    } else if (d->kind == DELTA_USAGE) {
        (void)buf_printf(&t->text, " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
                         d->usage.prompt_tokens, d->usage.completion_tokens,
                         d->usage.reasoning_tokens, d->usage.cached_tokens);
    }
    char *json = d->json ? json_dumps(d->json, JSON_COMPACT) : NULL;
    (void)buf_printf(&t->text, " %s\n", json ? json : "-");
    free(json);
    t->n_deltas++;
    t->is_ended = d->kind == DELTA_END;
    trace_hold(t, !t->text.is_failed, "the trace has room");
    return true;
}

/* How it ended. */
static inline void trace_end(struct trace *t, bool ok, const struct failure *f)
{
    (void)buf_printf(&t->text, "%s %d %s %s %s %d %s\n", ok ? "whole" : "failed", f->status,
                     f->type, f->code, f->param, f->retry_after_s, f->message);
    trace_hold(t, ok == (f->status == 0), "it fails exactly where a failure is set");
    trace_hold(t, !ok || t->is_ended, "what did not fail has an end");
    trace_hold(t, trace_is_utf8(slice_str(f->message)), "the message is UTF-8");
}

#endif
