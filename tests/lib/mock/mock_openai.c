/* mock_openai.c - chat completions and raw completions of the OpenAI family: OpenAI itself and
 * everybody whose API has its shapes, TGI's chat and Mistral among them. Where they differ is
 * mock_flavour.
 *
 * A stream is a rectangle: steps (role, reasoning, refusal, words, calls, finish) times choices,
 * read row by row; behind it the chunk with usage and the end mark. So the i-th event is found by
 * division and nothing is kept between events.
 */
#include "mock_flavour.h"
#include "mock_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const fields[] = {"model",
                                     "messages",
                                     "max_tokens",
                                     "prompt",
                                     "stream",
                                     "stream_options",
                                     "tools",
                                     "tool_choice",
                                     "functions",
                                     "user",
                                     "suffix",
                                     "function_call",
                                     "response_format",
                                     "modalities",
                                     "audio",
                                     "web_search_options",
                                     "prompt_cache_retention",
                                     "prompt_cache_options",
                                     "moderation",
                                     NULL};

/* ---- reading a request */

static int top_of(const json_t *logprobs, const json_t *top)
{
    if (json_is_integer(logprobs)) {
        return (int)json_integer_value(logprobs);
    }
    if (!json_is_true(logprobs)) {
        return -1;
    }
    return json_is_integer(top) ? (int)json_integer_value(top) : 0;
}

static void read_format(const json_t *body, struct mock_wish *w)
{
    const json_t *format = mock_get(body, "response_format");
    const char *type = mock_get_string(format, "type");
    const json_t *value = mock_get(format, "value"); /* TGI's place for a schema */
    if (!type) {
        return;
    }
    w->is_json = strcmp(type, "json_object") == 0 || strcmp(type, "json") == 0;
    if (strcmp(type, "json_schema") == 0) {
        w->schema = mock_get(format, "json_schema.schema");
        w->schema = w->schema ? w->schema : mock_get(value, "schema");
    } else if (w->is_json && json_is_object(value)) {
        w->schema = value;
    }
    w->is_json = w->is_json || strcmp(type, "json_schema") == 0;
}

static void read_tools(const json_t *body, struct mock_wish *w)
{
    const json_t *tools = mock_get(body, "tools"), *choice = mock_get(body, "tool_choice");
    const json_t *messages = mock_get(body, "messages");
    const char *word = json_string_value(choice);
    const char *role =
        mock_get_string(json_array_get(messages, json_array_size(messages) - 1), "role");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *f = json_object_get(json_array_get(tools, i), "function");
        mock_wish_function(w, mock_get_string(f, "name"), mock_get(f, "parameters"));
    }
    if (json_is_object(choice)) {
        mock_wish_only(w, mock_get_string(choice, "function.name"));
    }
    w->is_forced =
        w->is_forced || (word && (strcmp(word, "required") == 0 || strcmp(word, "any") == 0));
    /* What a call gave is answered in words, or an application would never come to an end. */
    w->is_barred =
        (word && strcmp(word, "none") == 0) || (!w->is_forced && role && strcmp(role, "tool") == 0);
    w->is_single = json_is_false(mock_get(body, "parallel_tool_calls"));
}

static void read_prompt(const json_t *body, struct mock_wish *w)
{
    const json_t *prompt = mock_get(body, "prompt"), *first = json_array_get(prompt, 0);
    bool is_many = json_is_string(first) || json_is_array(first);
    w->n_prompts = is_many ? (unsigned)json_array_size(prompt) : 1;
    if (mock_get_bool(body, "echo")) {
        w->echo = json_string_value(is_many ? first : prompt);
    }
}

static bool asks_to_reason(const json_t *body)
{
    const json_t *reasoning = mock_get(body, "reasoning");
    const char *effort = mock_get_string(body, "reasoning_effort");
    const char *thinking = mock_get_string(body, "thinking.type");
    effort = effort ? effort : mock_get_string(reasoning, "effort");
    return (effort && strcmp(effort, "none") != 0) || mock_get_bool(reasoning, "enabled") ||
           (thinking && strcmp(thinking, "disabled") != 0) ||
           mock_get_bool(body, "enable_thinking");
}

static void read_request(const struct mock_request *r, struct mock_wish *w)
{
    const json_t *b = r->body;
    int64_t limit = mock_get_int(b, "max_completion_tokens");
    w->stream = mock_get_bool(b, "stream");
    w->wants_usage = mock_get_bool(b, "stream_options.include_usage");
    w->limit = limit ? limit : mock_get_int(b, "max_tokens");
    w->stops = mock_get(b, "stop");
    int64_t n = mock_get_int(b, "n");
    w->n = n > 0 && n < 1000 ? (unsigned)n : 0;
    w->n_top = top_of(mock_get(b, "logprobs"), mock_get(b, "top_logprobs"));
    w->reasons = asks_to_reason(b);
    if (r->is_text) {
        read_prompt(b, w);
    } else {
        read_format(b, w);
        read_tools(b, w);
    }
}

/* ---- parts of an answer */

static bool has(const struct flavour *f, unsigned flag)
{
    return (f->flags & flag) != 0;
}

static const char *finish_word(const struct flavour *f, const struct mock_answer *a)
{
    switch (a->finish) {
    case MOCK_LENGTH:
        return "length";
    case MOCK_TOOLS:
        return "tool_calls";
    case MOCK_FILTER:
        return "content_filter";
    case MOCK_STOP_STRING:
        return has(f, FLAVOUR_KEEPS_STOP) ? "stop_sequence" : "stop";
    default:
        return f->stop;
    }
}

static json_t *usage_of(const struct flavour *f, const struct mock_answer *a)
{
    int completion = a->completion_tokens;
    if (has(f, FLAVOUR_APART)) {
        completion -= a->reasoning_tokens * (int)a->n_choices;
    }
    json_t *u = json_pack("{s:i,s:i,s:i}", "prompt_tokens", a->prompt_tokens, "completion_tokens",
                          completion, "total_tokens", a->prompt_tokens + a->completion_tokens);
    if (has(f, FLAVOUR_REFUSAL) || a->n_reasoning > 0) {
        (void)json_object_set_new(
            u, "prompt_tokens_details",
            json_pack("{s:i,s:i}", "cached_tokens", a->cached_tokens, "audio_tokens", 0));
        (void)json_object_set_new(u, "completion_tokens_details",
                                  json_pack("{s:i,s:i,s:i,s:i}", "reasoning_tokens",
                                            a->reasoning_tokens * (int)a->n_choices, "audio_tokens",
                                            0, "accepted_prediction_tokens", 0,
                                            "rejected_prediction_tokens", 0));
    }
    return u;
}

static json_t *top_entry(const struct flavour *f, const struct mock_answer *a, size_t i, size_t k)
{
    const char *token = mock_alternative(a, i, k);
    json_t *o = json_pack("{s:s,s:f}", "token", token, "logprob", mock_logprob(a, i, k));
    if (!has(f, FLAVOUR_NO_BYTES)) {
        (void)json_object_set_new(o, "bytes", mock_bytes(token));
    }
    return o;
}

/* Of the words from..to. */
static json_t *logprobs_of(const struct flavour *f, const struct mock_answer *a, size_t from,
                           size_t to)
{
    json_t *content = json_array();
    for (size_t i = from; i < to; i++) {
        json_t *entry = top_entry(f, a, i, 0), *top = json_array();
        for (int k = 0; k < a->n_top; k++) {
            (void)json_array_append_new(top, top_entry(f, a, i, (size_t)k));
        }
        (void)json_object_set_new(entry, "top_logprobs", top);
        (void)json_array_append_new(content, entry);
    }
    json_t *o = json_pack("{s:o}", "content", content);
    if (has(f, FLAVOUR_REFUSAL)) {
        (void)json_object_set_new(o, "refusal", json_null());
    }
    return o;
}

/* {tokens, token_logprobs, ...}: raw completions, and chat where log-probabilities are a count. */
static json_t *lists_of(const struct mock_answer *a, size_t from, size_t to, bool with_offsets)
{
    json_t *tokens = json_array(), *values = json_array(), *ids = json_array(),
           *tops = json_array(), *offsets = json_array();
    size_t offset = 0;
    for (size_t i = 0; i < to; i++) {
        if (i >= from) {
            json_t *top = json_object();
            for (int k = 0; k < a->n_top; k++) {
                (void)json_object_set_new(top, mock_alternative(a, i, (size_t)k),
                                          json_real(mock_logprob(a, i, (size_t)k)));
            }
            (void)json_array_append_new(tokens, json_string(a->word[i]));
            (void)json_array_append_new(values, json_real(mock_logprob(a, i, 0)));
            (void)json_array_append_new(ids, json_integer(mock_token_id(a->word[i])));
            (void)json_array_append_new(tops, top);
            (void)json_array_append_new(offsets, json_integer((json_int_t)offset));
        }
        offset += strlen(a->word[i]);
    }
    json_t *o = json_pack("{s:o,s:o}", "tokens", tokens, "token_logprobs", values);
    if (with_offsets) {
        (void)json_object_set_new(o, "top_logprobs", a->n_top > 0 ? tops : json_null());
        (void)json_object_set_new(o, "text_offset", offsets);
        json_decref(ids);
        if (a->n_top <= 0) {
            json_decref(tops);
        }
    } else {
        (void)json_object_set_new(o, "token_ids", ids);
        json_decref(tops);
        json_decref(offsets);
    }
    return o;
}

static void put_logprobs(json_t *choice, const struct flavour *f, const struct mock_answer *a,
                         size_t from, size_t to)
{
    bool has_some = a->n_top >= 0 && to > from;
    if (has_some) {
        (void)json_object_set_new(choice, "logprobs",
                                  a->is_text              ? lists_of(a, from, to, true)
                                  : has(f, FLAVOUR_LISTS) ? lists_of(a, from, to, false)
                                                          : logprobs_of(f, a, from, to));
    } else if (has(f, FLAVOUR_NULL_LOGPROBS) || a->is_text) {
        (void)json_object_set_new(choice, "logprobs", json_null());
    }
}

static void call_id(const struct flavour *f, const struct mock_call *c, char out[48])
{
    (void)snprintf(out, 48, "%s%s", has(f, FLAVOUR_CALL_WHOLE) ? "" : "call_", c->id);
}

static json_t *call_json(const struct flavour *f, const struct mock_answer *a, size_t i,
                         const char *arguments, bool is_first, bool has_index)
{
    char id[48];
    const struct mock_call *c = &a->call[i];
    call_id(f, c, id);
    json_t *o = json_object();
    if (has_index) {
        (void)json_object_set_new(o, "index", json_integer((json_int_t)i));
    }
    if (is_first) {
        (void)json_object_set_new(o, "id", json_string(id));
        (void)json_object_set_new(o, "type", json_string("function"));
        (void)json_object_set_new(o, "function",
                                  json_pack("{s:s,s:s}", "name", c->name, "arguments", arguments));
    } else {
        (void)json_object_set_new(o, "function", json_pack("{s:s}", "arguments", arguments));
    }
    return o;
}

static json_t *safe(void)
{
    return json_pack("{s:{s:b,s:s},s:{s:b,s:s},s:{s:b,s:s},s:{s:b,s:s}}", "hate", "filtered", 0,
                     "severity", "safe", "self_harm", "filtered", 0, "severity", "safe", "sexual",
                     "filtered", 0, "severity", "safe", "violence", "filtered", 0, "severity",
                     "safe");
}

static json_t *prompt_safe(void)
{
    json_t *verdict = safe();
    (void)json_object_set_new(verdict, "jailbreak",
                              json_pack("{s:b,s:b}", "filtered", 0, "detected", 0));
    return json_pack("[{s:i,s:o}]", "prompt_index", 0, "content_filter_results", verdict);
}

/* What everything an answer consists of begins with. */
static json_t *frame(const struct flavour *f, const struct mock_answer *a, const char *object)
{
    char id[64];
    (void)snprintf(id, sizeof id, "%s%s",
                   has(f, FLAVOUR_KEEPS_STOP) ? ""
                   : a->is_text               ? "cmpl-"
                                              : f->id,
                   has(f, FLAVOUR_KEEPS_STOP) ? "" : a->id);
    json_t *o = json_pack("{s:s,s:s,s:i,s:s}", "id", id, "object", object, "created", MOCK_CREATED,
                          "model", a->model);
    bool is_late = has(f, FLAVOUR_LATE_PRINT) && a->stream;
    if ((f->fingerprint || has(f, FLAVOUR_REFUSAL)) && !is_late && !a->is_text) {
        (void)json_object_set_new(o, "system_fingerprint",
                                  f->fingerprint ? json_string(f->fingerprint) : json_null());
    }
    if (has(f, FLAVOUR_TIER) && !a->is_text) {
        (void)json_object_set_new(o, "service_tier", json_string("default"));
    }
    if (has(f, FLAVOUR_NATIVE_REASON)) {
        (void)json_object_set_new(o, "provider", json_string("ExampleUpstream"));
    }
    return o;
}

static json_t *base_resp(void)
{
    return json_pack("{s:i,s:s}", "status_code", 0, "status_msg", "");
}

/* ---- whole */

/* The text behind its reasoning, in tags. Lets go of the text. */
static json_t *tagged(const struct mock_answer *a, json_t *text)
{
    json_t *reasoning = mock_parts_text(a->reasoning, a->n_reasoning);
    json_t *out = json_sprintf("<think>\n%s\n</think>\n\n%s", json_string_value(reasoning),
                               json_string_value(text));
    json_decref(reasoning);
    json_decref(text);
    return out;
}

/* The text of a message: a string, a list of parts, with tags, with its stop string. */
static json_t *content_of(const struct flavour *f, const struct mock_answer *a)
{
    json_t *text = mock_parts_text(a->word, a->n_words);
    if (has(f, FLAVOUR_KEEPS_STOP) && a->finish == MOCK_STOP_STRING) {
        json_t *without = text;
        text = json_sprintf("%s%s", json_string_value(without), a->stop);
        json_decref(without);
    }
    if (a->n_reasoning == 0) {
        return text;
    }
    if (has(f, FLAVOUR_CHUNKED_CONTENT)) {
        return json_pack("[{s:s,s:[{s:s,s:o}]},{s:s,s:o}]", "type", "thinking", "thinking", "type",
                         "text", "text", mock_parts_text(a->reasoning, a->n_reasoning), "type",
                         "text", "text", text);
    }
    if (has(f, FLAVOUR_TAGS)) {
        return tagged(a, text);
    }
    return text;
}

static json_t *message_of(const struct flavour *f, const struct mock_answer *a)
{
    bool has_text = a->n_words > 0 || (a->n_calls == 0 && !a->refusal);
    bool empty_string = has(f, FLAVOUR_CALL_WHOLE);
    bool in_words = a->refusal && !has(f, FLAVOUR_REFUSAL); /* no place of its own */
    json_t *m = json_pack("{s:s,s:o}", "role", "assistant", "content",
                          has_text       ? content_of(f, a)
                          : in_words     ? json_string(a->refusal)
                          : empty_string ? json_string("")
                                         : json_null());
    if (has(f, FLAVOUR_REFUSAL)) {
        (void)json_object_set_new(m, "refusal", a->refusal ? json_string(a->refusal) : json_null());
        (void)json_object_set_new(m, "annotations", json_array());
    }
    if (f->reasoning && a->n_reasoning > 0) {
        (void)json_object_set_new(m, f->reasoning, mock_parts_text(a->reasoning, a->n_reasoning));
    }
    if (a->n_calls > 0) {
        json_t *calls = json_array();
        for (size_t i = 0; i < a->n_calls; i++) {
            (void)json_array_append_new(
                calls, call_json(f, a, i, a->call[i].arguments, true, has(f, FLAVOUR_CALL_WHOLE)));
        }
        (void)json_object_set_new(m, "tool_calls", calls);
    }
    return m;
}

static json_t *choice_of(const struct flavour *f, const struct mock_answer *a, unsigned index)
{
    json_t *c = json_pack("{s:i}", "index", (int)index);
    if (a->is_text) {
        (void)json_object_set_new(c, "text", mock_parts_text(a->word, a->n_words));
    } else {
        (void)json_object_set_new(c, "message", message_of(f, a));
    }
    put_logprobs(c, f, a, 0, a->n_words);
    (void)json_object_set_new(c, "finish_reason", json_string(finish_word(f, a)));
    if (has(f, FLAVOUR_STOP_REASON)) {
        (void)json_object_set_new(c, "stop_reason", a->stop ? json_string(a->stop) : json_null());
    }
    if (has(f, FLAVOUR_NATIVE_REASON)) {
        (void)json_object_set_new(c, "native_finish_reason", json_string(finish_word(f, a)));
    }
    if (has(f, FLAVOUR_FILTERS)) {
        (void)json_object_set_new(c, "content_filter_results", safe());
    }
    return c;
}

static void whole(const struct mock_answer *a, struct buf *out)
{
    const struct flavour *f = flavour_of(a->provider);
    json_t *o = frame(f, a, a->is_text ? "text_completion" : "chat.completion");
    json_t *choices = json_array();
    for (unsigned i = 0; i < a->n_choices; i++) {
        (void)json_array_append_new(choices, choice_of(f, a, i));
    }
    (void)json_object_set_new(o, "choices", choices);
    if (a->has_usage) {
        (void)json_object_set_new(o, "usage", usage_of(f, a));
    }
    if (has(f, FLAVOUR_GROQ)) {
        (void)json_object_set_new(o, "x_groq",
                                  json_pack("{s:s,s:i}", "id", "req_scripted", "seed", 167346302));
        (void)json_object_set_new(o, "service_tier", json_string("on_demand"));
    }
    if (has(f, FLAVOUR_FILTERS)) {
        (void)json_object_set_new(o, "prompt_filter_results", prompt_safe());
    }
    if (has(f, FLAVOUR_BASE_RESP)) {
        (void)json_object_set_new(o, "base_resp", base_resp());
    }
    mock_put(out, o);
}

/* ---- stream */

/* What the steps of a stream are, each as long as its part of the answer. */
struct steps {
    size_t role, reasoning, refusal, words, calls, per_call, finish, all;
};

static struct steps steps_of(const struct flavour *f, const struct mock_answer *a)
{
    struct steps s = {.finish = 1};
    bool shows = f->reasoning || has(f, FLAVOUR_TAGS | FLAVOUR_CHUNKED_CONTENT);
    s.role = !a->is_text && !has(f, FLAVOUR_NO_ROLE_CHUNK);
    s.reasoning = shows && !a->is_text ? a->n_reasoning : 0;
    s.refusal = a->refusal && !a->is_text;
    s.words = a->n_words;
    s.per_call = has(f, FLAVOUR_CALL_WHOLE) ? 1 : 3;
    s.calls = a->n_calls * s.per_call;
    s.all = s.role + s.reasoning + s.refusal + s.words + s.calls + s.finish;
    return s;
}

static json_t *reasoning_delta(const struct flavour *f, const struct mock_answer *a, size_t i)
{
    const char *word = a->reasoning[i];
    if (has(f, FLAVOUR_CHUNKED_CONTENT)) {
        return json_pack("{s:[{s:s,s:[{s:s,s:s}]}]}", "content", "type", "thinking", "thinking",
                         "type", "text", "text", word);
    }
    if (has(f, FLAVOUR_TAGS)) {
        char text[128];
        (void)snprintf(text, sizeof text, "%s%s%s", i == 0 ? "<think>\n" : "", word,
                       i + 1 == a->n_reasoning ? "\n</think>\n\n" : "");
        return json_pack("{s:s}", "content", text);
    }
    json_t *d = json_pack("{s:s}", f->reasoning, word);
    if (has(f, FLAVOUR_NULL_CONTENT)) {
        (void)json_object_set_new(d, "content", json_null());
    }
    return d;
}

/* Part of a call: head, then the arguments in two pieces; or all at once. */
static json_t *call_delta(const struct flavour *f, const struct mock_answer *a,
                          const struct steps *s, size_t i)
{
    const struct mock_call *c = &a->call[i / s->per_call];
    size_t part = i % s->per_call, len = strlen(c->arguments), half = len / 2;
    while (half < len && ((unsigned char)c->arguments[half] & 0xC0) == 0x80) {
        half++;
    }
    json_t *one;
    if (s->per_call == 1) {
        one = call_json(f, a, i, c->arguments, true, true);
    } else if (part == 0) {
        one = call_json(f, a, i / 3, "", true, true);
    } else {
        char *piece = part == 1 ? strndup(c->arguments, half) : strdup(c->arguments + half);
        one = call_json(f, a, i / 3, piece ? piece : "", false, true);
        free(piece);
    }
    return json_pack("{s:[o]}", "tool_calls", one);
}

/* The delta of step i; *word is the word that it holds, or SIZE_MAX. */
static json_t *delta_of(const struct flavour *f, const struct mock_answer *a, const struct steps *s,
                        size_t i, size_t *word)
{
    *word = SIZE_MAX;
    if (i < s->role) {
        if (has(f, FLAVOUR_NULL_CONTENT) && a->n_reasoning > 0) {
            return json_pack("{s:n,s:s}", "content", f->reasoning, "");
        }
        json_t *d = json_pack("{s:s}", "content", "");
        if (has(f, FLAVOUR_REFUSAL)) {
            (void)json_object_set_new(d, "refusal", json_null());
        }
        return d;
    }
    i -= s->role;
    if (i < s->reasoning) {
        return reasoning_delta(f, a, i);
    }
    i -= s->reasoning;
    if (i < s->refusal) {
        return json_pack("{s:s}", has(f, FLAVOUR_REFUSAL) ? "refusal" : "content", a->refusal);
    }
    i -= s->refusal;
    if (i < s->words) {
        *word = i;
        return json_pack("{s:s}", "content", a->word[i]);
    }
    i -= s->words;
    if (i < s->calls) {
        return call_delta(f, a, s, i);
    }
    bool keeps = has(f, FLAVOUR_KEEPS_STOP) && a->finish == MOCK_STOP_STRING;
    return keeps ? json_pack("{s:s}", "content", a->stop)
           : has(f, FLAVOUR_NO_ROLE_CHUNK | FLAVOUR_EMPTY_LAST) ? json_pack("{s:s}", "content", "")
                                                                : json_object();
}

/* What a chunk is about: one step of one choice. */
struct cell {
    size_t step, word; /* word: SIZE_MAX where the step has none */
    bool is_end;
};

static void put_delta(json_t *c, const struct flavour *f, const struct mock_answer *a,
                      const struct steps *s, struct cell *at)
{
    json_t *delta = delta_of(f, a, s, at->step, &at->word);
    bool has_word = at->word != SIZE_MAX;
    if (a->is_text) {
        (void)json_object_set_new(c, "text", json_string(has_word ? a->word[at->word] : ""));
        json_decref(delta);
        return;
    }
    if (at->step == 0 || has(f, FLAVOUR_ROLE_ALWAYS)) {
        (void)json_object_set_new(delta, "role", json_string("assistant"));
    }
    if (has(f, FLAVOUR_LISTS) && has_word) {
        (void)json_object_set_new(delta, "token_id",
                                  json_integer(mock_token_id(a->word[at->word])));
    }
    (void)json_object_set_new(c, "delta", delta);
}

static void put_finish(json_t *c, const struct flavour *f, const struct mock_answer *a,
                       const struct cell *at)
{
    if (at->is_end || has(f, FLAVOUR_NULL_FINISH) || a->is_text) {
        (void)json_object_set_new(c, "finish_reason",
                                  at->is_end ? json_string(finish_word(f, a)) : json_null());
    }
    if (at->is_end && has(f, FLAVOUR_STOP_REASON)) {
        (void)json_object_set_new(c, "stop_reason", a->stop ? json_string(a->stop) : json_null());
    }
    if (has(f, FLAVOUR_NATIVE_REASON)) {
        (void)json_object_set_new(c, "native_finish_reason",
                                  at->is_end ? json_string(finish_word(f, a)) : json_null());
    }
}

static json_t *stream_choice(const struct flavour *f, const struct mock_answer *a,
                             const struct steps *s, size_t step, unsigned index)
{
    struct cell at = {.step = step, .word = SIZE_MAX, .is_end = step + 1 == s->all};
    json_t *c = json_pack("{s:i}", "index", (int)index);
    put_delta(c, f, a, s, &at);
    bool has_word = at.word != SIZE_MAX;
    if (has(f, FLAVOUR_LISTS) && !a->is_text && has_word && a->n_top >= 0) {
        (void)json_object_set_new(c, "logprobs", json_real(mock_logprob(a, at.word, 0)));
    } else {
        put_logprobs(c, f, a, has_word ? at.word : 0, has_word ? at.word + 1 : 0);
    }
    put_finish(c, f, a, &at);
    if (has(f, FLAVOUR_FILTERS)) {
        (void)json_object_set_new(c, "content_filter_results", has_word ? safe() : json_object());
    }
    return c;
}

static const char *chunk_object(const struct mock_answer *a)
{
    return a->is_text ? "text_completion" : "chat.completion.chunk";
}

static void put_usage(json_t *chunk, json_t *choice, const struct flavour *f,
                      const struct mock_answer *a, bool is_last)
{
    if (is_last && a->has_usage && f->usage == USAGE_IN_CHOICE) {
        (void)json_object_set_new(choice, "usage", usage_of(f, a));
    } else if (is_last && a->has_usage && f->usage == USAGE_ON_FINISH) {
        (void)json_object_set_new(chunk, "usage", usage_of(f, a));
    } else if (has(f, FLAVOUR_NULL_USAGE)) {
        (void)json_object_set_new(chunk, "usage", json_null());
    }
}

static bool has_extra(const struct flavour *f, const struct mock_answer *a)
{
    return a->has_usage &&
           (f->usage == USAGE_EXTRA_ALWAYS || (f->usage == USAGE_EXTRA && a->wants_usage));
}

static void put_chunk(const struct flavour *f, const struct mock_answer *a, const struct steps *s,
                      size_t i, struct buf *out)
{
    size_t step = i / a->n_choices;
    unsigned index = (unsigned)(i % a->n_choices);
    bool is_last = i + 1 == s->all * a->n_choices;
    json_t *o = frame(f, a, chunk_object(a));
    json_t *c = stream_choice(f, a, s, step, index);
    put_usage(o, c, f, a, is_last);
    (void)json_object_set_new(o, "choices", json_pack("[o]", c));
    if (is_last && has(f, FLAVOUR_LATE_PRINT) && !has_extra(f, a) && !a->is_text) {
        (void)json_object_set_new(o, "system_fingerprint", json_string(f->fingerprint));
    }
    if (has(f, FLAVOUR_GROQ) && i == 0) {
        (void)json_object_set_new(o, "x_groq",
                                  json_pack("{s:s,s:i}", "id", "req_scripted", "seed", 1535227698));
    }
    mock_put_event(out, NULL, o);
}

static void put_extra(const struct flavour *f, const struct mock_answer *a, struct buf *out)
{
    json_t *o = frame(f, a, chunk_object(a));
    (void)json_object_set_new(o, "choices", json_array());
    (void)json_object_set_new(o, "usage", usage_of(f, a));
    if (has(f, FLAVOUR_LATE_PRINT) && !a->is_text) {
        (void)json_object_set_new(o, "system_fingerprint", json_string(f->fingerprint));
    }
    mock_put_event(out, NULL, o);
}

static bool event(const struct mock_answer *a, size_t i, struct buf *out)
{
    const struct flavour *f = flavour_of(a->provider);
    const struct steps s = steps_of(f, a);
    if (has(f, FLAVOUR_FILTERS) && i-- == 0) { /* the prompt's verdict comes before everything */
        mock_put_event(out, NULL,
                       json_pack("{s:[],s:i,s:s,s:s,s:s,s:o}", "choices", "created", 0, "id", "",
                                 "model", "", "object", "", "prompt_filter_results",
                                 prompt_safe()));
        return true;
    }
    if (i < s.all * a->n_choices) {
        put_chunk(f, a, &s, i, out);
        return true;
    }
    i -= s.all * a->n_choices;
    if (has_extra(f, a) && i-- == 0) {
        put_extra(f, a, out);
        return true;
    }
    if (i == 0) {
        (void)buf_puts(out, "data: [DONE]\n\n");
        return true;
    }
    return false;
}

const struct mock_dialect mock_dialect_openai = {.name = "openai",
                                                 .content_type = "text/event-stream",
                                                 .ping = ": keep-alive\n\n",
                                                 .has_refusal = true,
                                                 .fields = fields,
                                                 .knows = flavour_knows,
                                                 .read = read_request,
                                                 .status = flavour_status,
                                                 .whole = whole,
                                                 .event = event,
                                                 .error = flavour_error};
