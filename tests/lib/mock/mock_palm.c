/* mock_palm.c - Google PaLM: generateText and generateMessage of the Generative Language API, and
 * Vertex AI's predict. No streams, no reason why an answer ended, and on the first two no usage.
 * What was filtered is told beside the candidates that are not there.
 */
#include "mock_parts.h"
#include "mock_rpc.h"

#include <string.h>

enum { TEXT, MESSAGE, PREDICT }; /* shape */

static void palm_read(const struct mock_request *r, struct mock_wish *wish)
{
    bool is_predict = strstr(r->path, ":predict") != NULL;
    const json_t *p = is_predict ? json_object_get(r->body, "parameters") : r->body;
    const json_t *n_top = is_predict ? json_object_get(p, "logprobs") : NULL;
    wish->shape = is_predict ? PREDICT : strstr(r->path, ":generateMessage") ? MESSAGE : TEXT;
    wish->stream = false;
    wish->limit = mock_get_int(p, "maxOutputTokens");
    wish->stops = mock_get(p, "stopSequences");
    wish->n = (unsigned)mock_get_int(p, "candidateCount");
    if (json_is_integer(n_top)) {
        wish->n_top = (int)json_integer_value(n_top);
    }
}

/* ---- answers */

static json_t *text_of(const struct mock_answer *a)
{
    return mock_parts_text(a->word, a->n_words);
}

static bool is_blocked(const struct mock_answer *a)
{
    return a->finish == MOCK_FILTER;
}

static json_t *generate_text(const struct mock_answer *a)
{
    if (is_blocked(a)) {
        return json_pack("{s:[{s:s}],s:[{s:{s:s,s:s},s:{s:s,s:s}}]}", "filters", "reason", "SAFETY",
                         "safetyFeedback", "rating", "category", "HARM_CATEGORY_DANGEROUS",
                         "probability", "HIGH", "setting", "category", "HARM_CATEGORY_DANGEROUS",
                         "threshold", "BLOCK_MEDIUM_AND_ABOVE");
    }
    json_t *candidates = json_array();
    for (unsigned i = 0; i < a->n_choices; i++) {
        (void)json_array_append_new(
            candidates,
            json_pack("{s:o,s:[{s:s,s:s},{s:s,s:s}]}", "output", text_of(a), "safetyRatings",
                      "category", "HARM_CATEGORY_DEROGATORY", "probability", "NEGLIGIBLE",
                      "category", "HARM_CATEGORY_TOXICITY", "probability", "NEGLIGIBLE"));
    }
    return json_pack("{s:o}", "candidates", candidates);
}

static json_t *generate_message(const struct mock_answer *a)
{
    const json_t *asked = mock_get(a->body, "prompt.messages");
    json_t *o = json_object(), *candidates = json_array();
    for (unsigned i = 0; i < a->n_choices; i++) {
        (void)json_array_append_new(candidates,
                                    json_pack("{s:s,s:o}", "author", "1", "content", text_of(a)));
    }
    if (is_blocked(a)) {
        (void)json_object_set_new(o, "filters", json_pack("[{s:s}]", "reason", "SAFETY"));
    } else {
        (void)json_object_set(o, "candidates", candidates);
    }
    json_decref(candidates);
    (void)json_object_set_new(o, "messages", asked ? json_deep_copy(asked) : json_array());
    return o;
}

static json_t *logprobs_of(const struct mock_answer *a)
{
    json_t *tokens = json_array(), *each = json_array(), *top = json_array();
    for (size_t i = 0; i < a->n_words; i++) {
        json_t *others = json_object();
        for (int k = 0; k < a->n_top; k++) {
            (void)json_object_set_new(others, mock_alternative(a, i, (size_t)k),
                                      json_real(mock_logprob(a, i, (size_t)k)));
        }
        (void)json_array_append_new(tokens, json_string(a->word[i]));
        (void)json_array_append_new(each, json_real(mock_logprob(a, i, 0)));
        (void)json_array_append_new(top, others);
    }
    return json_pack("{s:o,s:o,s:o}", "tokens", tokens, "tokenLogProbs", each, "topLogProbs", top);
}

/* A chat has candidates inside one prediction, a prompt one prediction for each. */
static json_t *predictions_of(const struct mock_answer *a)
{
    const json_t *instance = json_array_get(json_object_get(a->body, "instances"), 0);
    bool is_chat = json_object_get(instance, "messages") != NULL;
    json_t *list = json_array(), *candidates = json_array(), *safety = json_array();
    for (unsigned i = 0; i < a->n_choices; i++) {
        json_t *text = is_blocked(a) ? json_string("") : text_of(a);
        json_t *verdict =
            json_pack("{s:[],s:[],s:b}", "categories", "scores", "blocked", is_blocked(a));
        json_t *one = json_pack("{s:O}", "content", text);
        (void)json_array_append_new(candidates,
                                    json_pack("{s:s,s:o}", "author", "bot", "content", text));
        (void)json_array_append(safety, verdict);
        (void)json_object_set_new(one, "citationMetadata", json_pack("{s:[]}", "citations"));
        (void)json_object_set_new(one, "safetyAttributes", verdict);
        if (a->n_top >= 0) {
            (void)json_object_set_new(one, "logprobs", logprobs_of(a));
        }
        (void)json_array_append_new(list, one);
    }
    json_t *chat = json_pack("[{s:o,s:o}]", "candidates", candidates, "safetyAttributes", safety);
    json_decref(is_chat ? list : chat);
    return is_chat ? chat : list;
}

static json_t *predict(const struct mock_answer *a)
{
    json_t *o = json_pack("{s:o}", "predictions", predictions_of(a));
    if (a->has_usage) {
        (void)json_object_set_new(o, "metadata",
                                  json_pack("{s:{s:{s:i,s:i},s:{s:i,s:i}}}", "tokenMetadata",
                                            "inputTokenCount", "totalTokens", a->prompt_tokens,
                                            "totalBillableCharacters", 4 * a->prompt_tokens,
                                            "outputTokenCount", "totalTokens", a->completion_tokens,
                                            "totalBillableCharacters", 4 * a->completion_tokens));
    }
    return o;
}

static void palm_whole(const struct mock_answer *a, struct buf *out)
{
    static json_t *(*const shapes[])(const struct mock_answer *) = {
        [TEXT] = generate_text, [MESSAGE] = generate_message, [PREDICT] = predict};
    mock_put(out, shapes[a->shape](a));
}

static bool palm_event(const struct mock_answer *a, size_t i, struct buf *out)
{
    (void)a;
    (void)i;
    (void)out;
    return false;
}

static void palm_error(const struct mock_error *e, struct buf *out)
{
    mock_put(out, mock_rpc_error(e));
}

static const char *const fields[] = {
    "model",           "prompt",        "safetySettings", "temperature", "topP",       "topK",
    "maxOutputTokens", "stopSequences", "candidateCount", "instances",   "parameters", NULL};

const struct mock_dialect mock_dialect_palm = {.name = "palm",
                                               .stop_is_list = true,
                                               .content_type = "application/json; charset=UTF-8",
                                               .no_retry_after = true,
                                               .fields = fields,
                                               .read = palm_read,
                                               .whole = palm_whole,
                                               .event = palm_event,
                                               .error = palm_error};
