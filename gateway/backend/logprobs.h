/* logprobs.h - every shape of log-probabilities -> OpenAI's chat items. Pure.
 *
 * An item is {token, logprob, bytes, top_logprobs}: logprob a finite number from -9999 to 0 (null
 * only where a legacy list or the engine has null: the first token of an echoed prompt), bytes an
 * array or null, top_logprobs always an array.
 */
#ifndef ISOTHERM_LOGPROBS_H
#define ISOTHERM_LOGPROBS_H

#include <jansson.h>
#include <stddef.h>

#define LOGPROBS_FLOOR                                                                             \
    (-9999.0) /* stands for "very unlikely" and for minus infinity, as at OpenAI */

/* `lp`: {content:[..]}, {tokens, token_logprobs, top_logprobs}, {chosenCandidates, topCandidates},
 * or a bare number for the one token `text`. New array; NULL: there is nothing to tell (or no
 * memory). */
json_t *logprobs_items(const json_t *lp, const char *text);
/* Groups of tokens, [{text, token_ids:[..], logprobs:[..]}] or one of them: an item for each group,
 * its logprob the sum, which is that of the group's text. New array; NULL as above. */
json_t *logprobs_groups(const json_t *groups);
/* One token as TGI tells it, {text, logprob, special}, and those that might have been instead, or
 * NULL: an item. NULL: it does not stand for itself in the text (end marks), or no memory. */
json_t *logprobs_text_item(const json_t *token, const json_t *others);
/* The engine's tokens: [{token, logprob, bytes, top:[..]}]. The same result. */
json_t *logprobs_engine_items(const json_t *tokens);

#endif
