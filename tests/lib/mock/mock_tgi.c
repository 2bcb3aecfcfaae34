/* mock_tgi.c - TGI's /generate and /generate_stream. A stop string that was met stays at the end of
 * the text, and where the model ended by itself its end token is one of the tokens, marked special:
 * so the list of tokens is longer than the words. The last event holds the whole text.
 */
#include "mock_parts.h"

#include <string.h>

static void tgi_read(const struct mock_request *r, struct mock_wish *wish)
{
    const char *grammar = mock_get_string(r->body, "parameters.grammar.type");
    bool is_json = grammar && (strcmp(grammar, "json") == 0 || strcmp(grammar, "json_object") == 0);
    wish->stream = wish->stream || mock_get_bool(r->body, "stream");
    wish->wants_usage = true;
    wish->limit = mock_get_int(r->body, "parameters.max_new_tokens");
    wish->stops = mock_get(r->body, "parameters.stop");
    wish->is_json = is_json;
    wish->schema = is_json ? mock_get(r->body, "parameters.grammar.value") : NULL;
    if (grammar && strcmp(grammar, "json_schema") == 0) {
        wish->is_json = true;
        wish->schema = mock_get(r->body, "parameters.grammar.value.schema");
    }
    if (mock_get_bool(r->body, "parameters.details")) {
        wish->n_top = (int)mock_get_int(r->body, "parameters.top_n_tokens");
    }
}

/* ---- an answer */

static const char *const finish_words[] = {[MOCK_STOP] = "eos_token",
                                           [MOCK_LENGTH] = "length",
                                           [MOCK_STOP_STRING] = "stop_sequence",
                                           [MOCK_TOOLS] = "eos_token",
                                           [MOCK_FILTER] = "eos_token"};

static bool ends_itself(const struct mock_answer *a)
{
    return strcmp(finish_words[a->finish], "eos_token") == 0;
}

static size_t n_tokens(const struct mock_answer *a)
{
    return a->n_words + (a->finish == MOCK_STOP_STRING || ends_itself(a));
}

static json_t *token_of(const struct mock_answer *a, size_t i, size_t k)
{
    bool is_word = i < a->n_words;
    const char *text = is_word ? mock_alternative(a, i, k) : ends_itself(a) ? "</s>" : a->stop;
    return json_pack("{s:i,s:s,s:f,s:b}", "id", mock_token_id(text), "text", text, "logprob",
                     is_word ? mock_logprob(a, i, k) : -0.125, "special",
                     !is_word && ends_itself(a));
}

static json_t *top_of(const struct mock_answer *a, size_t i)
{
    json_t *top = json_array();
    for (int k = 0; k < a->n_top && i < a->n_words; k++) {
        (void)json_array_append_new(top, token_of(a, i, (size_t)k));
    }
    return top;
}

static json_t *text_of(const struct mock_answer *a)
{
    const char *inputs = mock_get_string(a->body, "inputs");
    bool is_full = mock_get_bool(a->body, "parameters.return_full_text");
    json_t *said = mock_parts_text(a->word, a->n_words);
    json_t *text = json_sprintf("%s%s%s", is_full && inputs ? inputs : "", json_string_value(said),
                                a->finish == MOCK_STOP_STRING ? a->stop : "");
    json_decref(said);
    return text;
}

/* What ends an answer: why, how many, and the seed where one was drawn. */
static json_t *details_of(const struct mock_answer *a)
{
    const json_t *seed = mock_get(a->body, "parameters.seed");
    json_t *o = json_pack("{s:s,s:i}", "finish_reason", finish_words[a->finish], "generated_tokens",
                          (int)n_tokens(a));
    bool is_drawn = mock_get_bool(a->body, "parameters.do_sample");
    (void)json_object_set_new(o, "seed",
                              json_is_integer(seed) ? json_integer(json_integer_value(seed))
                              : is_drawn            ? json_integer(42)
                                                    : json_null());
    return o;
}

static json_t *best_of_others(const struct mock_answer *a, json_int_t n)
{
    json_t *others = json_array();
    for (json_int_t i = 1; i < n && i < MOCK_CHOICES_MAX; i++) {
        json_t *one = details_of(a), *tokens = json_array();
        for (size_t k = 0; k < n_tokens(a); k++) {
            (void)json_array_append_new(tokens, token_of(a, k, 0));
        }
        (void)json_object_set_new(one, "generated_text", text_of(a));
        (void)json_object_set_new(one, "prefill", json_array());
        (void)json_object_set_new(one, "tokens", tokens);
        (void)json_array_append_new(others, one);
    }
    return others;
}

static json_t *whole_details(const struct mock_answer *a)
{
    json_t *o = details_of(a), *tokens = json_array(), *top = json_array();
    json_t *prefill = json_array();
    json_int_t best_of = mock_get_int(a->body, "parameters.best_of");
    for (size_t i = 0; i < n_tokens(a); i++) {
        (void)json_array_append_new(tokens, token_of(a, i, 0));
        (void)json_array_append_new(top, top_of(a, i));
    }
    if (mock_get_bool(a->body, "parameters.decoder_input_details")) {
        (void)json_array_append_new(prefill,
                                    json_pack("{s:i,s:s,s:n}", "id", 1, "text", "<s>", "logprob"));
    }
    (void)json_object_set_new(o, "prefill", prefill);
    (void)json_object_set_new(o, "tokens", tokens);
    if (a->n_top > 0) {
        (void)json_object_set(o, "top_tokens", top);
    }
    json_decref(top);
    if (best_of > 1) {
        (void)json_object_set_new(o, "best_of_sequences", best_of_others(a, best_of));
    }
    return o;
}

static void tgi_whole(const struct mock_answer *a, struct buf *out)
{
    json_t *o = json_pack("{s:o}", "generated_text", text_of(a));
    if (mock_get_bool(a->body, "parameters.details") && a->has_usage) {
        (void)json_object_set_new(o, "details", whole_details(a));
    }
    mock_put(out, o);
}

static bool tgi_event(const struct mock_answer *a, size_t i, struct buf *out)
{
    bool is_last = i + 1 == n_tokens(a);
    if (i >= n_tokens(a)) {
        return false;
    }
    json_t *o = json_pack("{s:i,s:o}", "index", (int)i + 1, "token", token_of(a, i, 0));
    if (a->n_top > 0) {
        (void)json_object_set_new(o, "top_tokens", top_of(a, i));
    }
    (void)json_object_set_new(o, "generated_text", is_last ? text_of(a) : json_null());
    json_t *details = NULL;
    if (is_last && mock_get_bool(a->body, "parameters.details") && a->has_usage) {
        details = details_of(a);
        (void)json_object_set_new(details, "input_length", json_integer(a->prompt_tokens));
    }
    (void)json_object_set_new(o, "details", details ? details : json_null());
    (void)buf_puts(out, "data:"); /* no blank */
    mock_put(out, o);
    (void)buf_puts(out, "\n\n");
    return true;
}

/* ---- errors */

static int tgi_status(const struct mock_error *e)
{
    return e->fault == MOCK_FAULT_NO_ADDRESS ? 404 : 422;
}

static const char *type_of(int status)
{
    switch (status) {
    case 429:
        return "overloaded";
    case 424:
        return "generation";
    case 500:
        return "incomplete_generation";
    default:
        return status < 500 ? "validation" : "generation";
    }
}

static json_t *error_text(const struct mock_error *e)
{
    bool is_of_range = e->fault == MOCK_FAULT_ABOVE || e->fault == MOCK_FAULT_BELOW;
    const char *leaf = mock_parts_leaf(e->param);
    if (is_of_range && strcmp(leaf, "top_p") == 0) {
        return json_string("Input validation error: `top_p` must be > 0.0 and < 1.0");
    }
    if (is_of_range && strcmp(leaf, "temperature") == 0) {
        return json_string("Input validation error: `temperature` must be strictly positive");
    }
    if (e->status == 429) {
        return json_string("Model is overloaded");
    }
    if (e->in_stream) {
        return json_sprintf("Request failed during generation: %s", e->message);
    }
    return e->status == 422 ? json_sprintf("Input validation error: %s", e->message)
                            : json_string(e->message);
}

static void tgi_error(const struct mock_error *e, struct buf *out)
{
    json_t *o = json_pack("{s:o,s:s}", "error", error_text(e), "error_type",
                          e->in_stream ? "generation" : type_of(e->status));
    (void)buf_puts(out, e->in_stream ? "data:" : "");
    mock_put(out, o);
    (void)buf_puts(out, e->in_stream ? "\n\n" : "");
}

static const char *const fields[] = {"inputs", "parameters", "stream", NULL};

const struct mock_dialect mock_dialect_tgi = {.name = "tgi",
                                              .stop_is_list = true,
                                              .content_type = "text/event-stream",
                                              .ping = ":\n\n",
                                              .no_retry_after = true,
                                              .default_model = "tgi",
                                              .fields = fields,
                                              .read = tgi_read,
                                              .status = tgi_status,
                                              .whole = tgi_whole,
                                              .event = tgi_event,
                                              .error = tgi_error};
