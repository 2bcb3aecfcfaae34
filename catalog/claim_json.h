/* claim_json.h - a claim as JSON, for the command line and the API: the fields of the sources, each
 * always there (null where nothing is said), and "id", "provider", "verdict", "verdict_on". */
#ifndef ISOTHERM_CATALOG_CLAIM_JSON_H
#define ISOTHERM_CATALOG_CLAIM_JSON_H

#include "evidence.h"
#include "versions.h"

/* A new reference; NULL: memory. Lists inside are shared with the snapshot: only to be read. */
json_t *claim_json(const struct claim *c);
/* {"version","parent","base","kind","hash","created","author","reason","claims","conflicts"} */
json_t *version_json(const struct catalog_version *v);
/* {"change","kind","fields","before","after"}; kind is "claim" or "provider". */
json_t *difference_json(const struct version_difference *d);
/* {"first","last","since","until","author","reason","claim"}; last and until are null while the
 * newest version holds it. */
json_t *life_json(const struct version_life *l);
/* Adds "evidence", a list of {"verdict","origin","model","status","value","excerpt","seen","n"}, to
 * each life of a list of life_json(). */
CATALOG_WARN_UNUSED bool evidence_add_json(struct catalog *c, json_t *lives,
                                           struct catalog_error *err);
/* The names of the fields that differ between two claims, or providers, as JSON; either may be
 * NULL. What only says where a claim is kept ("id", "version") is left out. */
json_t *difference_fields(const json_t *before, const json_t *after);
/* Range, values and limits in a few characters: "0..2", "(0..1]", "low|high", "4 items". */
void claim_range_text(const struct claim *c, char *out, size_t cap);
/* The same of a claim as JSON. */
void claim_range_text_json(const json_t *claim, char *out, size_t cap);

#endif
