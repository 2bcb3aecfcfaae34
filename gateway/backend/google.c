/* google.c - generateContent, the dialect of the Gemini API and of Vertex AI: answers, streams.
 * What is sent is google_request.c; how ids and thought signatures travel is google_ids.c.
 *
 * A choice's finish reason is kept until the bytes end: there is no end mark, and the first models
 * put STOP into every chunk.
 */
#include "backend.h"
#include "emit.h"
#include "google_ids.h"
#include "google_request.h"
#include "logprobs.h"

#include "gateway/base/jsonio.h"
#include "gateway/base/limits.h"
#include <string.h>

#define WORD_MAX 40

struct decoder {
    struct emitter out;
    bool has_meta, is_blocked;
    uint64_t id_hash; /* of the answer's id: a call's own id is made from it */
    struct {
        bool is_seen, is_finished;
        unsigned n_tools;
        char word[WORD_MAX]; /* the finish reason */
    } choice[ANSWER_CHOICES_MAX];
};

static struct decoder *google_decoder_new(enum wire_form form, bool is_chat)
{
    (void)is_chat;
    return emit_new(sizeof(struct decoder), form);
}

static void google_decoder_free(struct decoder *d)
{
    emit_free(d);
}

static uint64_t hash_add(uint64_t hash, const char *s)
{
    for (; s && *s; s++) {
        hash = (hash ^ (unsigned char)*s) * UINT64_C(1099511628211); /* FNV-1a */
    }
    return hash * UINT64_C(1099511628211);
}

static bool take_meta(struct decoder *d, const json_t *o)
{
    const json_t *id = json_object_get(o, "responseId"),
                 *model = json_object_get(o, "modelVersion");
    if (d->has_meta || (!json_is_string(id) && !json_is_string(model))) {
        return true;
    }
    d->has_meta = true;
    d->id_hash = hash_add(UINT64_C(14695981039346656037), json_string_value(id));
    return emit_meta(&d->out, id, model);
}

/* A call comes whole. */
static bool take_call(struct decoder *d, unsigned choice, const json_t *part)
{
    const json_t *call = json_object_get(part, "functionCall"),
                 *args = json_object_get(call, "args");
    const char *name = json_string_value(json_object_get(call, "name")),
               *signature = json_string_value(json_object_get(part, "thoughtSignature"));
    unsigned at = d->choice[choice].n_tools++;
    struct buf id, text;
    buf_init(&id, GOOGLE_ID_MAX + GOOGLE_SIGNATURE_MAX + 64);
    buf_init(&text, LIMIT_ANSWER_BYTES);
    bool ok = json_is_object(args) ? jsonio_write(&text, args) : buf_puts(&text, "{}");
    uint64_t hash = hash_add(hash_add(d->id_hash, name), text.p) + choice * UINT64_C(1000003) + at;
    ok =
        ok && google_id_write(&id, json_string_value(json_object_get(call, "id")), signature, hash);
    ok = ok ? emit_tool(&d->out, choice, at, id.p, name ? name : "", text.p)
            : emit_no_memory(&d->out);
    buf_release(&id);
    buf_release(&text);
    return ok;
}

/* Parts of other kinds (the provider's own tools, generated images) have no place in the answer. */
static bool take_parts(struct decoder *d, unsigned choice, const json_t *candidate)
{
    json_t *items = logprobs_items(json_object_get(candidate, "logprobsResult"), NULL);
    json_t *waiting = items;
    size_t i;
    json_t *part;
    bool ok = true;
    json_array_foreach (json_object_get(json_object_get(candidate, "content"), "parts"), i, part) {
        const json_t *text = json_object_get(part, "text");
        if (ok && json_object_get(part, "functionCall")) {
            ok = take_call(d, choice, part);
        } else if (ok && json_is_true(json_object_get(part, "thought"))) {
            ok = emit_text(&d->out, DELTA_REASONING, choice, text, NULL);
        } else if (ok && json_string_length(text) > 0) {
            ok = emit_text(&d->out, DELTA_TEXT, choice, text, waiting);
            waiting = NULL;
        }
    }
    ok = ok && emit_text(&d->out, DELTA_TEXT, choice, NULL, waiting);
    json_decref(items);
    return ok;
}

static void keep_finish(struct decoder *d, unsigned choice, const char *word)
{
    refusal_clean(slice_str(word), d->choice[choice].word, WORD_MAX);
    d->choice[choice].is_finished = true;
}

/* MALFORMED_FUNCTION_CALL and others end the answer with an error. */
static bool take_finish(struct decoder *d, unsigned choice, const json_t *candidate)
{
    const char *word = json_string_value(json_object_get(candidate, "finishReason"));
    const json_t *message = json_object_get(candidate, "finishMessage");
    struct refusal r = {.status = 0};
    if (!word || strcmp(word, "FINISH_REASON_UNSPECIFIED") == 0) {
        return true;
    }
    keep_finish(d, choice, word);
    (void)backend_finish(word, &r.status);
    if (!r.status) {
        return true;
    }
    char text[REFUSAL_TEXT_MAX / 2];
    refusal_clean((struct slice){json_string_value(message), json_string_length(message)}, text,
                  sizeof text);
    (void)snprintf(r.message, sizeof r.message, "the model could not go on (%s)%s%s",
                   d->choice[choice].word, text[0] ? ": " : "", text);
    return emit_refused(&d->out, &r);
}

static bool take_candidate(struct decoder *d, const json_t *candidate)
{
    const json_t *index = json_object_get(candidate, "index");
    json_int_t at = json_is_integer(index) ? json_integer_value(index) : 0;
    if (at < 0 || at >= ANSWER_CHOICES_MAX) {
        return emit_malformed(&d->out, "holds a candidate of an impossible number");
    }
    d->choice[at].is_seen = true;
    return take_parts(d, (unsigned)at, candidate) && take_finish(d, (unsigned)at, candidate);
}

/* The prompt was refused: there is no candidate at all. */
static bool take_blocked(struct decoder *d, const json_t *o)
{
    const json_t *feedback = json_object_get(o, "promptFeedback");
    const char *word = json_string_value(json_object_get(feedback, "blockReason"));
    if (!word || json_array_size(json_object_get(o, "candidates")) > 0) {
        return true;
    }
    d->is_blocked = true;
    d->choice[0].is_seen = true;
    keep_finish(d, 0, word);
    return emit_text(&d->out, DELTA_REFUSAL, 0, json_object_get(feedback, "blockReasonMessage"),
                     NULL);
}

/* Thinking is counted apart, the provider's own tools too. */
static bool take_usage(struct decoder *d, const json_t *usage)
{
    const json_t *prompt = json_object_get(usage, "promptTokenCount");
    struct usage x = {.is_known = true};
    if (!prompt && !json_object_get(usage, "totalTokenCount")) {
        return true; /* Vertex: nothing but the traffic's type in the first chunks */
    }
    x.prompt_tokens =
        backend_count(prompt) + backend_count(json_object_get(usage, "toolUsePromptTokenCount"));
    x.reasoning_tokens = backend_count(json_object_get(usage, "thoughtsTokenCount"));
    x.completion_tokens =
        backend_count(json_object_get(usage, "candidatesTokenCount")) + x.reasoning_tokens;
    x.cached_tokens = backend_count(json_object_get(usage, "cachedContentTokenCount"));
    return emit_usage(&d->out, &x);
}

static bool on_json(const json_t *o, struct slice event, void *ud)
{
    struct decoder *d = ud;
    (void)event;
    struct refusal r;
    if (!o) {
        return true; /* there is no [DONE] here; a proxy may have added one */
    }
    if (refusal_read(o, &r)) {
        return emit_refused(&d->out, &r);
    }
    const json_t *candidates = json_object_get(o, "candidates");
    if (!take_meta(d, o) || !take_blocked(d, o)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(candidates); i++) {
        if (!take_candidate(d, json_array_get(candidates, i))) {
            return false;
        }
    }
    return take_usage(d, json_object_get(o, "usageMetadata"));
}

static bool google_decode(struct decoder *d, struct slice piece, delta_fn *fn, void *ud,
                          struct failure *f)
{
    return emit_feed(d, piece, on_json, fn, ud, f);
}

static bool tell_finish(struct decoder *d, unsigned choice)
{
    const char *word = d->choice[choice].word;
    return d->is_blocked ? emit_finish_as(&d->out, choice, word, FINISH_CONTENT_FILTER)
                         : emit_finish(&d->out, choice, word, d->choice[choice].n_tools > 0, NULL);
}

static bool google_decode_end(struct decoder *d, delta_fn *fn, void *ud, struct failure *f)
{
    if (!emit_feed_end(d, on_json, fn, ud, f)) {
        return false;
    }
    bool is_any = false;
    for (unsigned i = 0; i < ANSWER_CHOICES_MAX; i++) {
        is_any = is_any || d->choice[i].is_seen;
        if (d->choice[i].is_seen && !d->choice[i].is_finished && d->out.pieces.is_stream) {
            return emit_malformed(&d->out, "ended without a finish reason: it was cut off");
        }
    }
    if (!is_any) {
        return emit_malformed(&d->out, "holds no candidates");
    }
    for (unsigned i = 0; i < ANSWER_CHOICES_MAX; i++) {
        if (d->choice[i].is_seen && !tell_finish(d, i)) {
            return false;
        }
    }
    return emit_end(&d->out);
}

const struct backend backend_google = {
    .name = "google",
    .encode = google_request_encode,
    .decoder_new = google_decoder_new,
    .decoder_free = google_decoder_free,
    .decode = google_decode,
    .decode_end = google_decode_end,
    .refusal = refusal_answer,
    .shape = google_request_shape,
};
