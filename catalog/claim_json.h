/* claim_json.h - a claim as JSON, for the command line and the API: the fields of the sources, each
 * always there (null where nothing is said), and "id", "provider", "verdict", "verdict_on". */
#ifndef ISOTHERM_CATALOG_CLAIM_JSON_H
#define ISOTHERM_CATALOG_CLAIM_JSON_H

#include "claim.h"

/* A new reference; NULL: memory. Lists inside are shared with the snapshot: only to be read. */
json_t *claim_json(const struct claim *c);
/* Range, values and limits in a few characters: "0..2", "(0..1]", "low|high", "4 items". */
void claim_range_text(const struct claim *c, char *out, size_t cap);

#endif
