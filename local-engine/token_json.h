/* token_json.h - tokens as JSON: their bytes may be no UTF-8, JSON strings must be. */
#ifndef ISOTHERM_TOKEN_JSON_H
#define ISOTHERM_TOKEN_JSON_H

#include "engine.h"
#include <jansson.h>

/* New references; NULL: out of memory. What is no UTF-8 becomes U+FFFD. */
json_t *token_json_text(const char *bytes, size_t n);
/* {"token","bytes"}: a special token's text is its spelling; bytes are what it adds to a text, as
 * whose first token or a later one. */
json_t *token_json(const struct tokenizer *t, int32_t id, bool is_first);

/* The same with logprob, a number or null, and top: a list of up to n_top such tokens. */
json_t *token_json_logprobs(const struct tokenizer *t, const struct session_token *token,
                            size_t n_top);

#endif
