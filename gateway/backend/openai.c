/* openai.c - the OpenAI dialect whole: chat and raw completions, streams, errors; spoken by a dozen
 * providers, each a little differently.
 *
 * Encoding the conversation is wire_chat.c. Decoding is lenient in the shapes (see the take_
 * functions) and strict in one thing: a choice without a finish reason has not ended.
 */
#include "backend.h"
#include "emit.h"
#include "logprobs.h"
#include "wire_chat.h"
#include "think.h"

#include "gateway/base/jsonio.h"
#include <string.h>

/* ---- encode */

static bool build_body(const struct call *c, json_t *body, struct failure *f)
{
    bool ok = json_object_set_new(body, "model", json_string(c->model)) == 0;
    if (ok && c->messages) {
        json_t *messages = wire_chat_messages(c, f);
        ok = messages && json_object_set_new(body, "messages", messages) == 0;
    } else if (ok) {
        ok = json_object_set(body, "prompt", (json_t *)c->prompt) == 0;
    }
    ok = ok && backend_encode_params(c, body, f);
    const struct claim *usage = c->rules ? c->rules->behaviour[BEHAVIOUR_STREAM_USAGE] : NULL;
    if (ok && c->stream) {
        ok = json_object_set_new(body, "stream", json_true()) == 0;
        if (ok && usage && usage->support == CLAIM_YES) {
            ok = jsonio_set_path(body, "stream_options.include_usage", json_true());
        }
    }
    return ok;
}

static bool openai_encode(const struct call *c, struct buf *body, struct headers *h,
                          struct failure *f)
{
    return backend_encode_with(c, build_body, body, h, f);
}

/* One integer says both: how many alternatives, where 0 still asks for the chosen token. So it is
 * on /v1/completions, and where the claim for chat says that `logprobs` is an integer. */
static void shape_logprobs(const struct call *c, enum param p, json_t **value)
{
    const struct claim *claim = c->rules ? c->rules->param[PARAM_LOGPROBS] : NULL;
    bool is_integer = c->prompt || (claim && claim->is_integer);
    const struct value *on = &c->send->v[PARAM_LOGPROBS];
    if (!is_integer || !sampling_has(c->send, PARAM_LOGPROBS)) {
        return;
    }
    json_decref(*value);
    *value = NULL;
    if (p == PARAM_LOGPROBS && on->b) {
        int64_t k =
            sampling_has(c->send, PARAM_TOP_LOGPROBS) ? c->send->v[PARAM_TOP_LOGPROBS].i : 0;
        *value = json_integer(k > 0 || c->prompt ? k : 1);
    }
}

static bool openai_shape(const struct call *c, enum param p, json_t **value, const char **path,
                         struct failure *f)
{
    if (p == PARAM_RESPONSE_FORMAT_JSON_OBJECT || p == PARAM_RESPONSE_FORMAT_JSON_SCHEMA) {
        return wire_chat_shape_format(p, value, path) ||
               failure_set(f, 500, "out_of_memory", NULL,
                           "out of memory while writing 'response_format'");
    }
    if (p == PARAM_LOGPROBS || p == PARAM_TOP_LOGPROBS) {
        shape_logprobs(c, p, value);
    }
    return true;
}

/* ---- decode */

struct decoder {
    struct emitter out;
    bool has_meta, has_fingerprint, has_seed;
    bool thinks_in_tags, is_filtered; /* is_filtered: the provider says so beside the choices */
    struct {
        bool is_seen, is_finished, is_blank, has_tools; /* is_blank: the finish reason was "" */
        struct think think;
    } choice[ANSWER_CHOICES_MAX];
};

static struct decoder *openai_decoder_new(enum wire_form form, bool is_chat)
{
    (void)is_chat; /* the two shapes never collide: `text` is read where there is neither message
                      nor delta */
    return emit_new(sizeof(struct decoder), form);
}

static void openai_decoder_set(struct decoder *d, const struct provider_quirks *q)
{
    d->thinks_in_tags = q->thinks_in_tags;
}

static void openai_decoder_free(struct decoder *d)
{
    emit_free(d);
}

struct tagged {
    struct decoder *d;
    unsigned choice;
};

static bool take_tagged(struct slice text, bool is_reasoning, void *ud)
{
    struct tagged *t = ud;
    return emit_slice(&t->d->out, is_reasoning ? DELTA_REASONING : DELTA_TEXT, t->choice, text,
                      NULL);
}

/* Text of the answer, in which some hide their reasoning. */
static bool tell_answer(struct decoder *d, unsigned choice, const json_t *text, json_t *items)
{
    struct tagged t = {d, choice};
    if (!d->thinks_in_tags || items) { /* who does has no log-probabilities */
        return emit_text(&d->out, DELTA_TEXT, choice, text, items);
    }
    return think_feed(&d->choice[choice].think,
                      (struct slice){json_string_value(text), json_string_length(text)},
                      take_tagged, &t);
}

/* {"type":"thinking","thinking":"text" or [{"type":"text","text"}]}; {"type":"text","text"}; others
 * (references) hold no text. */
static bool tell_part(struct decoder *d, unsigned choice, const json_t *part, bool is_thinking)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *thinking = json_object_get(part, "thinking");
    if (type && strcmp(type, "thinking") == 0 && !is_thinking) {
        size_t i;
        json_t *inner;
        if (!emit_text(&d->out, DELTA_REASONING, choice, thinking, NULL)) {
            return false;
        }
        json_array_foreach ((json_t *)thinking, i, inner) { /* the macro wants no const */
            if (!tell_part(d, choice, inner, true)) {
                return false;
            }
        }
        return true;
    }
    const json_t *text = json_object_get(part, "text");
    return is_thinking ? emit_text(&d->out, DELTA_REASONING, choice, text, NULL)
                       : tell_answer(d, choice, text, NULL);
}

/* What is looked for in an answer or a chunk, in one of its choices, in a message or its delta. */
enum { CHOICES, USAGE, ID, MODEL, FINGERPRINT, PROVIDER, X_GROQ, FILTER_IN, FILTER_OUT, TOP_COUNT };
static const char *const top_names[TOP_COUNT] = {
    "choices",         "usage",           "id", "model", "system_fingerprint", "provider", "x_groq",
    "input_sensitive", "output_sensitive"};
enum { INDEX, DELTA, MESSAGE, TEXT, LOGPROBS, REASON, CHOICE_COUNT };
static const char *const choice_names[CHOICE_COUNT] = {"index", "delta",    "message",
                                                       "text",  "logprobs", "finish_reason"};
enum { CONTENT, REASONING, REASONING_TOO, DETAILS, REFUSAL, CALLS, OLD_CALL, NODE_COUNT };
static const char *const node_names[NODE_COUNT] = {
    "content", "reasoning_content", "reasoning",    "reasoning_details",
    "refusal", "tool_calls",        "function_call"};

/* reasoning_content, or reasoning, or the texts of reasoning_details (OpenRouter sends the last two
 * with the same text): the first that there is. */
static bool take_reasoning(struct decoder *d, unsigned choice, const json_t *const node[])
{
    const json_t *first =
        json_string_length(node[REASONING]) > 0 ? node[REASONING] : node[REASONING_TOO];
    if (json_string_length(first) > 0) {
        return emit_text(&d->out, DELTA_REASONING, choice, first, NULL);
    }
    size_t i;
    json_t *part;
    json_array_foreach ((json_t *)node[DETAILS], i, part) { /* the macro wants no const */
        const json_t *text = json_object_get(part, "text");
        text = json_is_string(text) ? text : json_object_get(part, "summary");
        if (!emit_text(&d->out, DELTA_REASONING, choice, text, NULL)) {
            return false;
        }
    }
    return true;
}

/* `content` of chat (string, null, array of parts) or `text` of completions, with its
 * log-probabilities. */
static bool take_text(struct decoder *d, unsigned choice, const json_t *content, const json_t *lp)
{
    json_t *items = logprobs_items(lp, json_string_value(content));
    bool ok = true;
    size_t i;
    json_t *part;
    json_array_foreach ((json_t *)content, i, part) {
        ok = ok && tell_part(d, choice, part, false);
    }
    ok = ok && tell_answer(d, choice, content, items);
    json_decref(items);
    return ok;
}

static bool tell_tool(struct decoder *d, unsigned choice, unsigned index, const char *id,
                      const json_t *function)
{
    const json_t *arguments = json_object_get(function, "arguments");
    const char *name = json_string_value(json_object_get(function, "name"));
    d->choice[choice].has_tools = true;
    return json_is_object(arguments) /* some servers send them parsed */
               ? emit_tool_json(&d->out, choice, index, id, name, arguments)
               : emit_tool(&d->out, choice, index, id, name, json_string_value(arguments));
}

#define TOOLS_MAX 128 /* calls of one choice: OpenAI's own limit on functions */

static bool take_tools(struct decoder *d, unsigned choice, const json_t *const node[])
{
    size_t i;
    json_t *call;
    json_array_foreach ((json_t *)node[CALLS], i, call) {
        const json_t *index = json_object_get(call, "index");
        json_int_t at = json_is_integer(index) ? json_integer_value(index) : (json_int_t)i;
        if (at < 0 || at >= TOOLS_MAX) {
            return emit_malformed(&d->out, "holds more tool calls than can be");
        }
        const char *id = json_string_value(json_object_get(call, "id"));
        if (!tell_tool(d, choice, (unsigned)at, id && id[0] ? id : NULL,
                       json_object_get(call, "function"))) {
            return false;
        }
    }
    const json_t *old = node[OLD_CALL]; /* before tools there was one function */
    if (json_is_object(old)) {
        return tell_tool(d, choice, 0, json_object_get(old, "name") ? "call_0" : NULL, old);
    }
    return true;
}

static bool tell_finish(struct decoder *d, unsigned choice, const char *word)
{
    int status;
    bool has_tools = d->choice[choice].has_tools;
    enum finish finish = backend_finish(word, &status);
    struct tagged t = {d, choice};
    if (!status && d->thinks_in_tags && !think_end(&d->choice[choice].think, take_tagged, &t)) {
        return false;
    }
    d->choice[choice].is_finished = true;
    if (!status && d->is_filtered) {
        return emit_finish_as(&d->out, choice, word, FINISH_CONTENT_FILTER);
    }
    if (finish == FINISH_TOOL_CALLS && !has_tools) {
        /* Cerebras in JSON mode: there is no call that could be answered */
        return emit_finish_as(&d->out, choice, word, FINISH_STOP);
    }
    /* TGI, and forced calls at some others, say stop beside calls */
    return emit_finish(&d->out, choice, word, has_tools, NULL);
}

static bool take_finish(struct decoder *d, unsigned choice, const json_t *reason)
{
    const char *word = json_string_value(reason);
    if (word && !word[0]) {
        d->choice[choice].is_blank =
            true; /* xAI ends with it, others send it with every chunk: known at the end */
        return true;
    }
    if (!word || d->choice[choice].is_finished || strcmp(word, "null") == 0) {
        return true;
    }
    return tell_finish(d, choice, word);
}

static bool take_choice(struct decoder *d, const json_t *choice, size_t position)
{
    const json_t *of[CHOICE_COUNT], *in[NODE_COUNT];
    backend_members(choice, CHOICE_COUNT, choice_names, of);
    json_int_t at =
        json_is_integer(of[INDEX]) ? json_integer_value(of[INDEX]) : (json_int_t)position;
    if (!json_is_object(choice) || at < 0 || at >= ANSWER_CHOICES_MAX) {
        return emit_malformed(&d->out, "holds a choice that was not asked for");
    }
    unsigned n = (unsigned)at;
    d->choice[n].is_seen = true;
    const json_t *node = of[DELTA];
    if (!json_is_object(node) || (!d->out.pieces.is_stream && json_is_object(of[MESSAGE]))) {
        node = of[MESSAGE]; /* a schema of Perplexity's gives every choice both */
    }
    backend_members(node, NODE_COUNT, node_names, in);
    const json_t *content = json_is_object(node) ? in[CONTENT] : of[TEXT];
    return take_reasoning(d, n, in) && take_text(d, n, content, of[LOGPROBS]) &&
           emit_text(&d->out, DELTA_REFUSAL, n, in[REFUSAL], NULL) && take_tools(d, n, in) &&
           take_finish(d, n, of[REASON]);
}

static const char *word_of(const json_t *v)
{
    const char *s = json_string_value(v);
    return s && s[0] ? s : NULL;
}

/* id and model from the first chunk that has a choice: Azure's first one is empty. A fingerprint or
 * seed may come later: vLLM's is on the last chunk only. */
static bool take_meta(struct decoder *d, const json_t *const top[])
{
    const json_t *first = json_array_get(top[CHOICES], 0);
    const json_t *seed = json_object_get(top[X_GROQ], "seed");
    seed = json_is_integer(seed) ? seed : json_object_get(first, "seed");
    const char *fingerprint = word_of(top[FINGERPRINT]);
    fingerprint = fingerprint ? fingerprint : word_of(top[PROVIDER]); /* whom a router asked */
    bool has_seed = json_is_integer(seed);
    bool is_news =
        !d->has_meta || (fingerprint && !d->has_fingerprint) || (has_seed && !d->has_seed);
    if ((!first && !d->has_meta) || !is_news) {
        return true;
    }
    struct delta x = {.kind = DELTA_META,
                      .meta = {.fingerprint = fingerprint,
                               .has_seed = has_seed,
                               .seed = json_integer_value(seed)}};
    if (!d->has_meta) {
        x.meta.id = word_of(top[ID]);
        x.meta.model = word_of(top[MODEL]);
    }
    d->has_meta = true;
    d->has_fingerprint = d->has_fingerprint || fingerprint;
    d->has_seed = d->has_seed || has_seed;
    return emit_delta(&d->out, &x);
}

static bool take_usage(struct decoder *d, const json_t *const top[])
{
    const json_t *u = top[USAGE];
    if (!json_is_object(u)) {
        u = json_object_get(top[X_GROQ], "usage");
    }
    if (!json_is_object(u)) { /* Moonshot: inside the last choice of a stream */
        u = json_object_get(json_array_get(top[CHOICES], json_array_size(top[CHOICES]) - 1),
                            "usage");
    }
    if (!json_is_object(u)) {
        return true;
    }
    if (!json_is_number(json_object_get(u, "prompt_tokens")) &&
        !json_is_number(json_object_get(u, "completion_tokens"))) {
        return true;
    }
    struct usage x = {.is_known = true};
    x.prompt_tokens = backend_count(json_object_get(u, "prompt_tokens"));
    x.completion_tokens = backend_count(json_object_get(u, "completion_tokens"));
    x.reasoning_tokens =
        backend_count(jsonio_get_path(u, "completion_tokens_details.reasoning_tokens"));
    x.cached_tokens = backend_count(jsonio_get_path(u, "prompt_tokens_details.cached_tokens"));
    if (!x.reasoning_tokens) {
        x.reasoning_tokens = backend_count(json_object_get(u, "reasoning_tokens"));
    }
    if (!x.cached_tokens) {
        x.cached_tokens = backend_count(json_object_get(u, "prompt_cache_hit_tokens"));
    }
    if (!x.cached_tokens) {
        x.cached_tokens = backend_count(json_object_get(u, "cached_tokens"));
    }
    /* xAI counts reasoning beside the completion: its own total says so. Elsewhere it is included.
     */
    json_int_t total = backend_count(json_object_get(u, "total_tokens"));
    if (x.reasoning_tokens > 0 &&
        total == x.prompt_tokens + x.completion_tokens + x.reasoning_tokens) {
        x.completion_tokens += x.reasoning_tokens;
    }
    return emit_usage(&d->out, &x);
}

/* The end of a stream, by its mark or its last byte, or of a whole body. may_be_blank: "" counts as
 * a finish reason. */
static bool end_answer(struct decoder *d, bool may_be_blank)
{
    bool is_any = false;
    for (unsigned i = 0; i < ANSWER_CHOICES_MAX; i++) {
        bool is_open = d->choice[i].is_seen && !d->choice[i].is_finished;
        is_any = is_any || d->choice[i].is_seen;
        if (is_open && !(may_be_blank && d->choice[i].is_blank)) {
            return emit_cut_off(&d->out, "ended without a finish reason: it was cut off");
        }
        if (is_open && !tell_finish(d, i, "")) {
            return false;
        }
    }
    if (!is_any) {
        return emit_malformed(&d->out, "holds no choice");
    }
    return emit_end(&d->out);
}

static bool on_json(const json_t *o, struct slice event, void *ud)
{
    struct decoder *d = ud;
    (void)event; /* the objects say themselves what they are */
    struct refusal r;
    if (d->out.is_ended) {
        return true; /* whatever follows the end mark */
    }
    if (!o) {
        return end_answer(d, true);
    }
    if (refusal_read(o, &r)) {
        return emit_refused(&d->out, &r);
    }
    const json_t *top[TOP_COUNT];
    backend_members(o, TOP_COUNT, top_names, top);
    d->is_filtered =
        d->is_filtered || json_is_true(top[FILTER_IN]) || json_is_true(top[FILTER_OUT]);
    if (!take_meta(d, top)) {
        return false;
    }
    size_t i;
    json_t *choice;
    json_array_foreach ((json_t *)top[CHOICES], i, choice) {
        if (!take_choice(d, choice, i)) {
            return false;
        }
    }
    if (!take_usage(d, top)) {
        return false;
    }
    if (d->out.pieces.is_stream) {
        return true;
    }
    for (unsigned k = 0; k < ANSWER_CHOICES_MAX;
         k++) { /* a whole body is complete even where it gives no reason */
        d->choice[k].is_blank = true;
    }
    return end_answer(d, true);
}

static bool openai_decode(struct decoder *d, struct slice piece, delta_fn *fn, void *ud,
                          struct failure *f)
{
    return emit_feed(d, piece, on_json, fn, ud, f);
}

static bool openai_decode_end(struct decoder *d, delta_fn *fn, void *ud, struct failure *f)
{
    return emit_feed_end(d, on_json, fn, ud, f) && (d->out.is_ended || end_answer(d, false));
}

const struct backend backend_openai = {
    .name = "openai",
    .encode = openai_encode,
    .decoder_new = openai_decoder_new,
    .decoder_set = openai_decoder_set,
    .decoder_free = openai_decoder_free,
    .decode = openai_decode,
    .decode_end = openai_decode_end,
    .refusal = refusal_answer,
    .shape = openai_shape,
};
