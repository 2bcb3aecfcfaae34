/* evidence.h - what probes and live traffic say about claims. A row of evidence belongs to a
 * claim's content, so it stays with the claim through all versions that hold it; the claim itself
 * is never overwritten.
 *
 * No prompt, answer or key is ever stored: the excerpt is the provider's error text, cleaned and
 * cut by the caller.
 */
#ifndef ISOTHERM_CATALOG_EVIDENCE_H
#define ISOTHERM_CATALOG_EVIDENCE_H

#include "catalog.h"

enum evidence_origin { EVIDENCE_TRAFFIC, EVIDENCE_PROBE };
#define EVIDENCE_EXCERPT_MAX 240
#define EVIDENCE_VALUE_MAX   64
#define EVIDENCE_ROWS_MAX    64  /* of one claim and day; what comes then is of model... */
#define EVIDENCE_OTHERS      "*" /* ... this one */
struct evidence {
    int64_t claim;              /* row id */
    enum claim_verdict verdict; /* confirmed or contradicted */
    enum evidence_origin origin;
    char model[160];                    /* the provider's own model id */
    int status;                         /* HTTP status that told; 0: none */
    char value[EVIDENCE_VALUE_MAX];     /* what was sent, as JSON where it is short, or "" */
    char excerpt[EVIDENCE_EXCERPT_MAX]; /* or a probe's finding: "too_wide: 2.1 refused" */
    char seen[32];                      /* ISO time, the last of n */
    int64_t n;                          /* how often on that day */
};

/* Adds to the rows of the day: one row for each claim, verdict, origin, model, status and day, with
 * a count. One transaction for all; waits up to 5 s for another writer. */
CATALOG_WARN_UNUSED bool evidence_add(const char *path, const struct evidence *list, size_t n,
                                      struct catalog_error *err);
/* Newest first; claim 0: of all claims of the newest version. */
typedef bool evidence_fn(const struct evidence *e, void *ud); /* false: stop */
CATALOG_WARN_UNUSED bool evidence_each(struct catalog *c, int64_t claim, evidence_fn *fn, void *ud,
                                       struct catalog_error *err);
const char *claim_verdict_name(enum claim_verdict v);     /* "contradicted" */
const char *evidence_origin_name(enum evidence_origin o); /* "probe" */

#endif
