/* distribution_json.h - a distribution as JSON, the same for the daemon's clients and for the tool.
 *
 * {"stages": [{"stage", "tokens", "entropy", "effective", "kept", "changed"}],
 *  "tokens": [{"id", "token", "bytes", "logit", "cut_by", "probability": {stage: after it}}],
 *  "entropy": {"before", "after"}, "effective": {"before", "after"}}
 * Stages in order; before a stage is after the one that stands in front of it. Entropies are in
 * nats. A logit below the floor of log-probabilities is -9999.
 */
#ifndef ISOTHERM_DISTRIBUTION_JSON_H
#define ISOTHERM_DISTRIBUTION_JSON_H

#include "distribution.h"
#include "tokenizer.h"
#include <jansson.h>

/* is_first: the token would be the first of its text (tokenizer_piece). A new reference; NULL: out
 * of memory. */
json_t *distribution_json(const struct distribution *d, const struct tokenizer *t, bool is_first);

#endif
