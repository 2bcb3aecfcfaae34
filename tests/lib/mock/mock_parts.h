/* mock_parts.h - what the native dialects of the scripted provider share: where in a stream an event
 * stands, pieces of JSON, log-probabilities that are the same on every run.
 */
#ifndef ISOTHERM_MOCK_PARTS_H
#define ISOTHERM_MOCK_PARTS_H

#include "mock.h"

/* A stream is a row of phases (reasoning, words, calls ...), each of so many events. Where event i
 * stands; false: after the last one. */
struct mock_place {
    size_t phase, at;
    bool is_last; /* of the whole stream */
};
bool mock_parts_place(const size_t *events, size_t n_phases, size_t i, struct mock_place *out);

/* New references. */
json_t *mock_parts_text(const char *const *word, size_t n);    /* the words joined */
json_t *mock_parts_object(const char *text);                   /* JSON text; {} where it is none */
json_t *mock_parts_call(const struct mock_call *c, bool asks); /* OpenAI's; asks: {} arguments */
/* The first or second half of a call's arguments, cut between two characters. */
json_t *mock_parts_half(const struct mock_call *c, bool is_second);

/* Whether the word ends the answer, and how, in the words of one API: indexed by mock_finish. */
const char *mock_parts_finish(const char *const *word, const struct mock_answer *a);

/* Log-probability of the i-th token; k counts its alternatives, 0 is the token itself. */
double mock_parts_logprob(size_t i, size_t k);
json_t *mock_parts_token(const struct mock_answer *a, size_t i, size_t k); /* its text */
json_int_t mock_parts_token_id(size_t i, size_t k);
/* One token as OpenAI tells it: {token, logprob, bytes, top_logprobs}. */
json_t *mock_parts_token_json(const struct mock_answer *a, size_t i);

/* Appends; `v` is taken over. */
void mock_parts_write(struct buf *out, json_t *v);
/* One server-sent event; event NULL: only data. */
void mock_parts_event(struct buf *out, const char *event, json_t *v);

/* ---- reading a request */
/* The member under its camelCase name or the same in snake_case; NULL: neither. */
const json_t *mock_parts_get(const json_t *o, const char *camel);
int64_t mock_parts_integer(const json_t *v); /* a number; 0 for anything else */
/* Text of a content: a string, or the first {"text"} of an array. NULL: none. */
const char *mock_parts_said(const json_t *content);
/* OpenAI's tools, messages: functions into the wish, the last user's text and whether the last
 * message is a result. */
void mock_parts_read_tools(const json_t *tools, struct mock_wish *wish);
void mock_parts_read_messages(const json_t *messages, struct mock_wish *wish);
bool mock_parts_add_function(struct mock_wish *wish, const char *name, const json_t *schema);
/* Leaves only the named function; a name that is none of them leaves all. */
void mock_parts_keep_function(struct mock_wish *wish, const char *name);

#endif
