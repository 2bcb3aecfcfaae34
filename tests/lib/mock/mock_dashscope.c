/* mock_dashscope.c - DashScope's native generation. A header asks for a stream. Each of its events
 * repeats all that was said so far unless `incremental_output` is set; until the end the reason why
 * it ended is the string "null". Without `result_format` "message" the text stands alone.
 */
#include "mock_parts.h"

#include <string.h>

enum { IS_INCREMENTAL = 1, IS_TEXT_FORMAT = 2 }; /* shape */

static void dashscope_read(const struct mock_request *r, struct mock_wish *wish)
{
    const json_t *p = json_object_get(r->body, "parameters");
    const char *sse = r->header(r->ud, "x-dashscope-sse"), *accept = r->header(r->ud, "accept");
    const char *result = mock_get_string(p, "result_format");
    const char *format = mock_get_string(p, "response_format.type");
    wish->stream = (sse && strcmp(sse, "enable") == 0) ||
                   (!sse && accept && strcmp(accept, "text/event-stream") == 0);
    wish->shape = (mock_get_bool(p, "incremental_output") ? IS_INCREMENTAL : 0) |
                  (result && strcmp(result, "message") == 0 ? 0 : IS_TEXT_FORMAT);
    wish->wants_usage = true;
    wish->limit = mock_get_int(p, "max_tokens");
    wish->stops = mock_get(p, "stop");
    wish->n = (unsigned)mock_get_int(p, "n");
    wish->reasons = mock_get_bool(p, "enable_thinking");
    wish->is_json = format && strncmp(format, "json_", 5) == 0;
    wish->schema = mock_get(p, "response_format.json_schema.schema");
    if (mock_get_bool(p, "logprobs")) {
        wish->n_top = (int)mock_get_int(p, "top_logprobs");
    }
    mock_parts_read_tools(mock_get(p, "tools"), mock_get(p, "tool_choice"), wish);
    wish->is_single = json_is_false(mock_get(p, "parallel_tool_calls"));
}

/* ---- an answer */

static const char *const finish_words[] = {[MOCK_STOP] = "stop",
                                           [MOCK_LENGTH] = "length",
                                           [MOCK_STOP_STRING] = "stop",
                                           [MOCK_TOOLS] = "tool_calls",
                                           [MOCK_FILTER] = "stop"};

/* What of the answer an event holds: from where, how much. Of the calls halves are counted: each is
 * sent in two events. */
struct part {
    size_t thought, n_thoughts;
    size_t word, n_words;
    size_t half, n_halves;
    bool is_last, in_stream;
};

static json_t *calls_of(const struct mock_answer *a, const struct part *p)
{
    json_t *calls = json_array();
    for (size_t i = p->half / 2; i < (p->half + p->n_halves + 1) / 2; i++) {
        bool is_second_alone = p->half > 2 * i;
        bool is_whole = p->half <= 2 * i && p->half + p->n_halves >= 2 * i + 2;
        json_t *call = mock_parts_call(&a->call[i]), *f = json_object_get(call, "function");
        (void)json_object_set_new(call, "id", json_sprintf("call_%s", a->call[i].id));
        if (!is_whole) {
            (void)json_object_set_new(f, "arguments",
                                      mock_parts_half(&a->call[i], is_second_alone));
        }
        if (is_second_alone) {
            (void)json_object_set_new(call, "id", json_string(""));
            (void)json_object_set_new(f, "name", json_string(""));
        }
        if (p->in_stream) {
            (void)json_object_set_new(call, "index", json_integer((json_int_t)i));
        }
        (void)json_array_append_new(calls, call);
    }
    return calls;
}

static json_t *choice_of(const struct mock_answer *a, const struct part *p, unsigned index)
{
    json_t *message = json_pack("{s:s,s:o}", "role", "assistant", "content",
                                mock_parts_text(a->word + p->word, p->n_words));
    json_t *o = json_pack("{s:s,s:o}", "finish_reason",
                          p->is_last ? finish_words[a->finish] : "null", "message", message);
    if (p->n_thoughts > 0) {
        (void)json_object_set_new(message, "reasoning_content",
                                  mock_parts_text(a->reasoning + p->thought, p->n_thoughts));
    }
    if (p->n_halves > 0) {
        (void)json_object_set_new(message, "tool_calls", calls_of(a, p));
    }
    if (a->n_choices > 1) {
        (void)json_object_set_new(o, "index", json_integer(index));
    }
    if (a->n_top >= 0) {
        json_t *tokens = json_array();
        for (size_t i = p->word; i < p->word + p->n_words; i++) {
            (void)json_array_append_new(tokens, mock_parts_token(a, i));
        }
        (void)json_object_set_new(o, "logprobs", json_pack("{s:o}", "content", tokens));
    }
    return o;
}

static json_t *output_of(const struct mock_answer *a, const struct part *p)
{
    if (a->shape & IS_TEXT_FORMAT) {
        return json_pack("{s:o,s:s}", "text", mock_parts_text(a->word + p->word, p->n_words),
                         "finish_reason", p->is_last ? finish_words[a->finish] : "null");
    }
    json_t *choices = json_array();
    for (unsigned i = 0; i < a->n_choices; i++) {
        (void)json_array_append_new(choices, choice_of(a, p, i));
    }
    return json_pack("{s:o}", "choices", choices);
}

static json_t *usage_of(const struct mock_answer *a, const struct part *p)
{
    int said = p->is_last ? a->completion_tokens
                          : (int)(p->thought + p->n_thoughts + p->word + p->n_words);
    json_t *o = json_pack("{s:i,s:i,s:i}", "total_tokens", a->prompt_tokens + said, "output_tokens",
                          said, "input_tokens", a->prompt_tokens);
    if (a->reasoning_tokens > 0 && p->is_last) {
        (void)json_object_set_new(o, "output_tokens_details",
                                  json_pack("{s:i}", "reasoning_tokens", a->reasoning_tokens));
    }
    if (a->cached_tokens > 0) {
        (void)json_object_set_new(o, "prompt_tokens_details",
                                  json_pack("{s:i}", "cached_tokens", a->cached_tokens));
    }
    return o;
}

static json_t *response_of(const struct mock_answer *a, const struct part *p)
{
    char id[MOCK_UUID_LEN];
    mock_parts_uuid(a->id, 0, id);
    json_t *o = json_pack("{s:o}", "output", output_of(a, p));
    if (a->has_usage) {
        (void)json_object_set_new(o, "usage", usage_of(a, p));
    }
    (void)json_object_set_new(o, "request_id", json_string(id));
    return o;
}

static void dashscope_whole(const struct mock_answer *a, struct buf *out)
{
    struct part p = {.n_thoughts = a->n_reasoning,
                     .n_words = a->n_words,
                     .n_halves = 2 * a->n_calls,
                     .is_last = true};
    mock_put(out, response_of(a, &p));
}

static void put_event(struct buf *out, size_t number, bool is_error, int status, json_t *o)
{
    (void)buf_printf(out, "id:%zu\nevent:%s\n:HTTP_STATUS/%d\ndata:", number,
                     is_error ? "error" : "result", status);
    mock_put(out, o);
    (void)buf_puts(out, "\n\n");
}

/* What came before belongs to the event too. */
static void add_before(const struct mock_answer *a, size_t phase, struct part *p)
{
    p->n_thoughts = phase > 0 ? a->n_reasoning : p->thought + p->n_thoughts;
    p->n_words = phase > 1 ? a->n_words : p->word + p->n_words;
    p->n_halves += p->half;
    p->thought = p->word = p->half = 0;
}

static bool dashscope_event(const struct mock_answer *a, size_t i, struct buf *out)
{
    enum { THOUGHTS, WORDS, CALLS, NOTHING, N_PHASES };
    size_t phases[N_PHASES] = {a->n_reasoning, a->n_words, 2 * a->n_calls, 0};
    struct mock_place at;
    phases[NOTHING] = phases[THOUGHTS] + phases[WORDS] + phases[CALLS] == 0;
    if (!mock_parts_place(phases, N_PHASES, i, &at)) {
        return false;
    }
    struct part p = {.thought = at.phase == THOUGHTS ? at.at : a->n_reasoning,
                     .n_thoughts = at.phase == THOUGHTS,
                     .word = at.phase == THOUGHTS ? 0
                             : at.phase == WORDS  ? at.at
                                                  : a->n_words,
                     .n_words = at.phase == WORDS,
                     .half = at.phase == CALLS ? at.at : 0,
                     .n_halves = at.phase == CALLS,
                     .is_last = at.is_last,
                     .in_stream = true};
    if (!(a->shape & IS_INCREMENTAL)) {
        add_before(a, at.phase, &p);
    }
    put_event(out, i + 1, false, 200, response_of(a, &p));
    return true;
}

/* ---- errors */

static const char *code_of(const struct mock_error *e)
{
    static const struct {
        int status;
        const char *code;
    } codes[] = {{401, "InvalidApiKey"},  {403, "AccessDenied"},         {404, "ModelNotFound"},
                 {408, "RequestTimeOut"}, {429, "Throttling.RateQuota"}, {503, "ModelUnavailable"}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i].status == e->status) {
            return codes[i].code;
        }
    }
    return e->status < 500 ? "InvalidParameter" : "InternalError";
}

static void dashscope_error(const struct mock_error *e, struct buf *out)
{
    bool is_of_range = e->fault == MOCK_FAULT_ABOVE || e->fault == MOCK_FAULT_BELOW;
    bool is_temperature = strcmp(mock_parts_leaf(e->param), "temperature") == 0;
    char id[MOCK_UUID_LEN];
    mock_parts_uuid(e->id, 0, id);
    json_t *o = json_pack("{s:s,s:s,s:s}", "code", code_of(e), "message",
                          is_of_range && is_temperature ? "Temperature should be in [0.0, 2.0)"
                                                        : e->message,
                          "request_id", id);
    if (e->in_stream) {
        put_event(out, 1, true, e->status, o);
    } else {
        mock_put(out, o);
    }
}

static const char *const fields[] = {"model", "input", "parameters", NULL};

const struct mock_dialect mock_dialect_dashscope = {.name = "dashscope",
                                                    .content_type =
                                                        "text/event-stream;charset=UTF-8",
                                                    .no_retry_after = true,
                                                    .fields = fields,
                                                    .read = dashscope_read,
                                                    .whole = dashscope_whole,
                                                    .event = dashscope_event,
                                                    .error = dashscope_error};
