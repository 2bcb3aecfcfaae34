/* logprobs.c - see logprobs.h. Providers write minus infinity as -9999, -3.4e38, null or not at
 * all; all become the floor. */
#include "logprobs.h"

#include "backend.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Alternatives of one token: nobody gives more than 20; sorting stays cheap. */
#define TOP_MAX 128

static json_t *bounded(const json_t *v)
{
    double d = json_is_number(v) ? json_number_value(v) : LOGPROBS_FLOOR;
    if (!isfinite(d) || d < LOGPROBS_FLOOR) {
        d = LOGPROBS_FLOOR;
    }
    return json_real(d < 0 ? d : 0.0); /* also turns -0.0 into 0 */
}

/* The first token of an echoed prompt has none. */
static json_t *bounded_or_null(const json_t *v)
{
    return json_is_null(v) ? json_null() : bounded(v);
}

/* The bytes of a token's text. A replacement character means that they are not known. */
static json_t *bytes_of(const json_t *token)
{
    const char *s = json_string_value(token);
    size_t n = json_string_length(token);
    if (!s || strstr(s, "\xef\xbf\xbd")) {
        return json_null();
    }
    json_t *a = json_array();
    for (size_t i = 0; a && i < n; i++) {
        (void)json_array_append_new(a, json_integer((unsigned char)s[i]));
    }
    return a;
}

/* New reference. bytes NULL or no array: taken from the text. top NULL: no such field. */
static json_t *make_item(const json_t *token, json_t *logprob, const json_t *bytes, json_t *top)
{
    json_t *text = json_is_string(token) ? json_incref((json_t *)token) : json_string("");
    json_t *b = json_is_array(bytes) ? json_incref((json_t *)bytes) : bytes_of(token);
    json_t *o = backend_object("token", text, "logprob", logprob, "bytes", b, NULL);
    if (top && json_object_set_new_nocheck(o, "top_logprobs", top) != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* [{token, logprob, bytes}] */
static json_t *top_items(const json_t *list)
{
    json_t *out = json_array();
    size_t i;
    json_t *t;
    json_array_foreach ((json_t *)list, i, t) { /* the macro wants no const */
        (void)json_array_append_new(out, make_item(json_object_get(t, "token"),
                                                   bounded(json_object_get(t, "logprob")),
                                                   json_object_get(t, "bytes"), NULL));
    }
    return out;
}

static json_t *chat_items(const json_t *list, const char *top_key,
                          json_t *(*logprob)(const json_t *))
{
    json_t *out = json_array();
    size_t i;
    json_t *t;
    json_array_foreach ((json_t *)list, i, t) {
        (void)json_array_append_new(
            out, make_item(json_object_get(t, "token"), logprob(json_object_get(t, "logprob")),
                           json_object_get(t, "bytes"), top_items(json_object_get(t, top_key))));
    }
    return out;
}

/* {" Blue": -0.4, " Red": -1.4}: best first. */
static json_t *legacy_top(const json_t *o)
{
    json_t *out = json_array();
    const char *token;
    json_t *v;
    json_object_foreach ((json_t *)o, token, v) {
        json_t *text = json_string(token), *item = make_item(text, bounded(v), NULL, NULL);
        double d = json_number_value(json_object_get(item, "logprob"));
        size_t at = 0;
        if (json_array_size(out) == TOP_MAX) {
            json_decref(item);
            json_decref(text);
            break;
        }
        while (at < json_array_size(out) &&
               json_number_value(json_object_get(json_array_get(out, at), "logprob")) >= d) {
            at++;
        }
        (void)json_array_insert_new(out, at, item);
        json_decref(text);
    }
    return out;
}

static json_t *legacy_items(const json_t *lp, const json_t *tokens)
{
    const json_t *values = json_object_get(lp, "token_logprobs"),
                 *tops = json_object_get(lp, "top_logprobs");
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        json_t *logprob = bounded_or_null(json_array_get(values, i));
        (void)json_array_append_new(out, make_item(json_array_get(tokens, i), logprob, NULL,
                                                   legacy_top(json_array_get(tops, i))));
    }
    return out;
}

/* {chosenCandidates:[{token, logProbability}], topCandidates:[{candidates:[..]}]}: two lists side
 * by side, without bytes. */
static json_t *candidate_items(const json_t *lp, const json_t *chosen)
{
    const json_t *tops = json_object_get(lp, "topCandidates");
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(chosen); i++) {
        const json_t *t = json_array_get(chosen, i),
                     *list = json_object_get(json_array_get(tops, i), "candidates");
        json_t *top = json_array();
        for (size_t k = 0; k < json_array_size(list) && k < TOP_MAX; k++) {
            const json_t *o = json_array_get(list, k);
            json_t *logprob = bounded(json_object_get(o, "logProbability"));
            (void)json_array_append_new(
                top, make_item(json_object_get(o, "token"), logprob, NULL, NULL));
        }
        (void)json_array_append_new(out, make_item(json_object_get(t, "token"),
                                                   bounded(json_object_get(t, "logProbability")),
                                                   NULL, top));
    }
    return out;
}

static json_t *none_if_empty(json_t *items)
{
    if (json_array_size(items) == 0) {
        json_decref(items);
        return NULL;
    }
    return items;
}

json_t *logprobs_items(const json_t *lp, const char *text)
{
    if (json_is_number(lp) && text && text[0]) {
        json_t *token = json_string(text), *out = json_array();
        (void)json_array_append_new(out, make_item(token, bounded(lp), NULL, json_array()));
        json_decref(token);
        return none_if_empty(out);
    }
    const json_t *content = json_object_get(lp, "content"), *tokens = json_object_get(lp, "tokens");
    if (json_is_array(content)) {
        return none_if_empty(chat_items(content, "top_logprobs", bounded));
    }
    const json_t *chosen = json_object_get(lp, "chosenCandidates");
    if (json_is_array(chosen)) {
        return none_if_empty(candidate_items(lp, chosen));
    }
    return json_is_array(tokens) ? none_if_empty(legacy_items(lp, tokens)) : NULL;
}

static json_t *group_item(const json_t *group)
{
    const json_t *parts = json_object_get(group, "logprobs");
    double sum = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *v = json_array_get(parts, i);
        sum += json_is_number(v) ? json_number_value(v) : LOGPROBS_FLOOR;
    }
    json_t *total = json_real(isfinite(sum) ? sum : LOGPROBS_FLOOR);
    json_t *item = make_item(json_object_get(group, "text"), bounded(total), NULL, json_array());
    json_decref(total);
    return item;
}

json_t *logprobs_groups(const json_t *groups)
{
    json_t *out = json_array();
    bool is_one = json_is_object(groups);
    for (size_t i = 0; i < (is_one ? 1 : json_array_size(groups)); i++) {
        const json_t *group = is_one ? groups : json_array_get(groups, i);
        if (json_array_size(json_object_get(group, "logprobs")) > 0) {
            (void)json_array_append_new(out, group_item(group));
        }
    }
    return none_if_empty(out);
}

static json_t *text_item(const json_t *token, json_t *top)
{
    return make_item(json_object_get(token, "text"), bounded(json_object_get(token, "logprob")),
                     NULL, top);
}

json_t *logprobs_text_item(const json_t *token, const json_t *others)
{
    size_t i;
    json_t *other;
    if (!json_is_string(json_object_get(token, "text")) ||
        !json_is_number(json_object_get(token, "logprob")) ||
        json_is_true(json_object_get(token, "special"))) {
        return NULL;
    }
    json_t *top = json_array();
    json_array_foreach ((json_t *)others, i, other) {
        (void)json_array_append_new(top, text_item(other, NULL));
    }
    return text_item(token, top);
}

json_t *logprobs_engine_items(const json_t *tokens)
{
    return json_is_array(tokens) ? none_if_empty(chat_items(tokens, "top", bounded_or_null)) : NULL;
}
