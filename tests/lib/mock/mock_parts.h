/* mock_parts.h - what dialects of the scripted provider share beside mock.h: where in a
 * stream an event stands, pieces of JSON, ids, OpenAI's shape of tools and tokens.
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
json_t *mock_parts_text(const char *const *word, size_t n); /* the words joined */
json_t *mock_parts_call(const struct mock_call *c);         /* as OpenAI writes it, whole */
/* The first or second half of a call's arguments, cut between two characters. */
json_t *mock_parts_half(const struct mock_call *c, bool is_second);
/* One token as OpenAI tells it: {token, logprob, bytes, top_logprobs}. */
json_t *mock_parts_token(const struct mock_answer *a, size_t i);

/* "scripted17" as a UUID, always the same one. `kind` tells ids of several kinds apart. */
#define MOCK_UUID_LEN 37
void mock_parts_uuid(const char *id, unsigned kind, char out[MOCK_UUID_LEN]);

/* Last part of a dotted path: "generationConfig.topK" is "topK". */
const char *mock_parts_leaf(const char *path);

/* Bytes of the number that a fault's `limit` begins with: 1 of "5 items". */
int mock_parts_count_len(const char *limit);

/* ---- reading a request */

/* The member under its camelCase name or the same in snake_case; NULL: neither. */
const json_t *mock_parts_get(const json_t *o, const char *camel);
/* OpenAI's tools and tool_choice: the functions and how they may be called. */
void mock_parts_read_tools(const json_t *tools, const json_t *choice, struct mock_wish *wish);

#endif
