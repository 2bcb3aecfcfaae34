/* mock_google.c - generateContent and streamGenerateContent, as the Gemini API and Vertex AI answer
 * them. Vertex is known by its path (/publishers/): it adds createTime and the traffic type.
 * Without alt=sse the stream is one JSON array, printed over several lines and sent piece by piece.
 */
#include "mock_parts.h"
#include "mock_rpc.h"

#include <stdlib.h>
#include <string.h>

enum { IS_VERTEX = 1, IS_ARRAY = 2 }; /* shape */

/* ---- what is asked */

/* Vertex's ranks are floats. */
static int64_t number_at(const json_t *o, const char *camel)
{
    const json_t *v = mock_parts_get(o, camel);
    return json_is_real(v) ? (int64_t)json_real_value(v) : json_integer_value(v);
}

static void read_functions(const json_t *body, struct mock_wish *wish)
{
    size_t i, k;
    json_t *tool, *f;
    json_array_foreach (json_object_get(body, "tools"), i, tool) {
        json_array_foreach ((json_t *)mock_parts_get(tool, "functionDeclarations"), k, f) {
            const json_t *schema = mock_parts_get(f, "parametersJsonSchema");
            if (mock_get_string(f, "name")) {
                mock_wish_function(wish, mock_get_string(f, "name"),
                                   schema ? schema : json_object_get(f, "parameters"));
            }
        }
    }
    const json_t *how = mock_parts_get(mock_parts_get(body, "toolConfig"), "functionCallingConfig");
    const char *mode = mock_get_string(how, "mode");
    const json_t *names = mock_parts_get(how, "allowedFunctionNames");
    wish->is_barred = mode && strcmp(mode, "NONE") == 0;
    wish->is_forced = mode && strcmp(mode, "ANY") == 0;
    if (wish->is_forced && json_is_string(json_array_get(names, 0))) {
        mock_wish_only(wish, json_string_value(json_array_get(names, 0)));
    }
}

static void google_read(const struct mock_request *r, struct mock_wish *wish)
{
    const json_t *c = mock_parts_get(r->body, "generationConfig"), *schema;
    const char *type = json_string_value(mock_parts_get(c, "responseMimeType"));
    const char *alt = r->query(r->ud, "alt");
    bool is_array = wish->stream && (!alt || strcmp(alt, "sse") != 0);
    wish->shape = (strstr(r->path, "/publishers/") ? IS_VERTEX : 0) | (is_array ? IS_ARRAY : 0);
    wish->content_type = is_array ? "application/json; charset=UTF-8" : NULL;
    wish->wants_usage = true;
    wish->limit = number_at(c, "maxOutputTokens");
    wish->stops = mock_parts_get(c, "stopSequences");
    wish->n = (unsigned)number_at(c, "candidateCount");
    wish->reasons =
        json_is_true(mock_parts_get(mock_parts_get(c, "thinkingConfig"), "includeThoughts"));
    wish->is_json = type && strcmp(type, "application/json") == 0;
    schema = mock_parts_get(c, "responseJsonSchema");
    wish->schema = schema ? schema : mock_parts_get(c, "responseSchema");
    if (json_is_true(mock_parts_get(c, "responseLogprobs"))) {
        wish->n_top = (int)number_at(c, "logprobs");
    }
    read_functions(r->body, wish);
}

/* ---- an answer */

static const char *const finish_words[] = {[MOCK_STOP] = "STOP",
                                           [MOCK_LENGTH] = "MAX_TOKENS",
                                           [MOCK_STOP_STRING] = "STOP",
                                           [MOCK_TOOLS] = "STOP",
                                           [MOCK_FILTER] = "SAFETY"};

/* Models before 3 send neither an id nor a signature. */
static bool signs_calls(const char *model)
{
    const char *version = strstr(model, "gemini-");
    return version && version[strlen("gemini-")] >= '3' && version[strlen("gemini-")] <= '9';
}

static void add_calls(const struct mock_answer *a, json_t *parts)
{
    for (size_t i = 0; i < a->n_calls; i++) {
        json_t *call =
            json_pack("{s:s,s:o}", "name", a->call[i].name, "args", mock_arguments(&a->call[i]));
        json_t *part = json_pack("{s:o}", "functionCall", call);
        if (signs_calls(a->model)) {
            (void)json_object_set_new(call, "id", json_string(a->call[i].id));
        }
        if (signs_calls(a->model) && i == 0) { /* the first of a turn is the one that must */
            (void)json_object_set_new(part, "thoughtSignature", json_string("U2NyaXB0ZWQ="));
        }
        (void)json_array_append_new(parts, part);
    }
}

static json_t *one_token(const struct mock_answer *a, size_t i, size_t k)
{
    const char *token = mock_alternative(a, i, k);
    return json_pack("{s:s,s:i,s:f}", "token", token, "tokenId", mock_token_id(token),
                     "logProbability", mock_logprob(a, i, k));
}

static void add_logprobs(const struct mock_answer *a, size_t from, size_t n, json_t *candidate)
{
    json_t *top = json_array(), *chosen = json_array();
    double sum = 0;
    for (size_t i = from; i < from + n; i++) {
        json_t *others = json_array();
        for (int k = 0; k < a->n_top; k++) {
            (void)json_array_append_new(others, one_token(a, i, (size_t)k));
        }
        (void)json_array_append_new(top, json_pack("{s:o}", "candidates", others));
        (void)json_array_append_new(chosen, one_token(a, i, 0));
        sum += mock_logprob(a, i, 0);
    }
    if (n > 0) {
        (void)json_object_set_new(candidate, "avgLogprobs", json_real(sum / (double)n));
    }
    (void)json_object_set_new(candidate, "logprobsResult",
                              json_pack("{s:o,s:o,s:f}", "topCandidates", top, "chosenCandidates",
                                        chosen, "logProbabilitySum", sum));
}

/* What of the answer one chunk (or the whole) holds. */
struct chunk {
    size_t thought, n_thoughts; /* from, how many */
    size_t word, n_words;
    bool has_calls, is_last;
};

static json_t *candidate_of(const struct mock_answer *a, const struct chunk *c, unsigned index)
{
    json_t *parts = json_array(), *content = json_pack("{s:s}", "role", "model");
    json_t *o = json_pack("{s:o,s:i}", "content", content, "index", (int)index);
    if (c->n_thoughts > 0) {
        json_t *text = mock_parts_text(a->reasoning + c->thought, c->n_thoughts);
        (void)json_array_append_new(parts, json_pack("{s:o,s:b}", "text", text, "thought", 1));
    }
    if (c->n_words > 0) {
        json_t *text = mock_parts_text(a->word + c->word, c->n_words);
        (void)json_array_append_new(parts, json_pack("{s:o}", "text", text));
    }
    if (c->has_calls) {
        add_calls(a, parts);
    }
    if (json_array_size(parts) > 0) {
        (void)json_object_set_new(content, "parts", parts);
    } else {
        json_decref(parts); /* as where all tokens went into thinking */
    }
    if (c->is_last) {
        (void)json_object_set_new(o, "finishReason", json_string(finish_words[a->finish]));
    }
    if (c->is_last && a->finish == MOCK_TOOLS) {
        (void)json_object_set_new(o, "finishMessage",
                                  json_string("Model generated function call(s)."));
    }
    if (a->n_top >= 0) {
        add_logprobs(a, c->word, c->n_words, o);
    }
    return o;
}

static json_t *usage_of(const struct mock_answer *a, const struct chunk *c)
{
    int said = a->completion_tokens - a->reasoning_tokens;
    said = c->is_last ? said : (int)(c->word + c->n_words);
    int thought = c->is_last ? a->reasoning_tokens : 0;
    json_t *o =
        json_pack("{s:i,s:i,s:i}", "promptTokenCount", a->prompt_tokens, "candidatesTokenCount",
                  said, "totalTokenCount", a->prompt_tokens + said + thought);
    if (c->is_last) {
        (void)json_object_set_new(
            o, "promptTokensDetails",
            json_pack("[{s:s,s:i}]", "modality", "TEXT", "tokenCount", a->prompt_tokens));
    }
    if (thought > 0) {
        (void)json_object_set_new(o, "thoughtsTokenCount", json_integer(thought));
    }
    if (a->cached_tokens > 0) {
        (void)json_object_set_new(o, "cachedContentTokenCount", json_integer(a->cached_tokens));
    }
    if (a->shape & IS_VERTEX) {
        (void)json_object_set_new(o, "trafficType", json_string("ON_DEMAND"));
    }
    return o;
}

/* The prompt is refused, not what was said: there is no candidate. */
static bool is_blocked(const struct mock_answer *a)
{
    return a->finish == MOCK_FILTER && a->n_words == 0;
}

static json_t *response(const struct mock_answer *a, const struct chunk *c)
{
    json_t *o = json_object(), *candidates = json_array();
    for (unsigned i = 0; !is_blocked(a) && i < a->n_choices; i++) {
        (void)json_array_append_new(candidates, candidate_of(a, c, i));
    }
    if (is_blocked(a)) {
        (void)json_object_set_new(o, "promptFeedback",
                                  json_pack("{s:s}", "blockReason", "PROHIBITED_CONTENT"));
        json_decref(candidates);
    } else {
        (void)json_object_set_new(o, "candidates", candidates);
    }
    if (a->has_usage && is_blocked(a)) {
        (void)json_object_set_new(o, "usageMetadata",
                                  json_pack("{s:i,s:i}", "promptTokenCount", a->prompt_tokens,
                                            "totalTokenCount", a->prompt_tokens));
    } else if (a->has_usage) {
        (void)json_object_set_new(o, "usageMetadata", usage_of(a, c));
    }
    (void)json_object_set_new(o, "modelVersion", json_string(a->model));
    (void)json_object_set_new(o, "responseId", json_string(a->id));
    if (a->shape & IS_VERTEX) {
        (void)json_object_set_new(o, "createTime", json_string("2026-11-30T00:00:00.000000Z"));
    }
    return o;
}

static void google_whole(const struct mock_answer *a, struct buf *out)
{
    struct chunk c = {.n_thoughts = a->n_reasoning,
                      .n_words = a->n_words,
                      .has_calls = a->n_calls > 0,
                      .is_last = true};
    mock_put(out, response(a, &c));
}

/* An element of the array, or an event. Lines end in CRLF there. */
static void put_chunk(const struct mock_answer *a, json_t *v, bool is_first, bool is_last,
                      struct buf *out)
{
    if (!(a->shape & IS_ARRAY)) {
        (void)buf_puts(out, "data: ");
        mock_put(out, v);
        (void)buf_puts(out, "\r\n\r\n");
        return;
    }
    char *text = json_dumps(v, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    (void)buf_puts(out, is_first ? "[" : ",\r\n");
    (void)buf_puts(out, text);
    (void)buf_puts(out, is_last ? "\r\n]\r\n" : "");
    free(text);
    json_decref(v);
}

static bool google_event(const struct mock_answer *a, size_t i, struct buf *out)
{
    size_t phases[] = {a->n_reasoning, a->n_words, a->n_calls > 0, 0};
    struct mock_place at;
    phases[3] = phases[0] + phases[1] + phases[2] == 0; /* nothing said: how it ended is */
    if (!mock_parts_place(phases, 4, i, &at)) {
        return false;
    }
    struct chunk c = {.thought = at.at,
                      .n_thoughts = at.phase == 0,
                      .word = at.phase == 1   ? at.at
                              : at.phase == 0 ? 0
                                              : a->n_words,
                      .n_words = at.phase == 1,
                      .has_calls = at.phase == 2,
                      .is_last = at.is_last};
    put_chunk(a, response(a, &c), i == 0, at.is_last, out);
    return true;
}

/* ---- errors */

static void google_error(const struct mock_error *e, struct buf *out)
{
    json_t *o = mock_rpc_error(e);
    if (!e->in_stream) {
        mock_put(out, e->shape & IS_ARRAY ? json_pack("[o]", o) : o);
    } else if (e->shape & IS_ARRAY) {
        (void)buf_puts(out, ",\r\n");
        mock_put(out, o);
        (void)buf_puts(out, "\r\n]\r\n");
    } else {
        (void)buf_puts(out, "data: ");
        mock_put(out, o);
        (void)buf_puts(out, "\r\n\r\n");
    }
}

static const char *const fields[] = {
    "model",           "contents",         "systemInstruction", "system_instruction",
    "tools",           "toolConfig",       "tool_config",       "safetySettings",
    "safety_settings", "generationConfig", "generation_config", "cachedContent",
    "cached_content",  "labels",           "modelArmorConfig",  NULL};

const struct mock_dialect mock_dialect_google = {.name = "google",
                                                 .stop_is_list = true,
                                                 .content_type = "text/event-stream",
                                                 .no_retry_after = true,
                                                 .fields = fields,
                                                 .read = google_read,
                                                 .whole = google_whole,
                                                 .event = google_event,
                                                 .error = google_error};
