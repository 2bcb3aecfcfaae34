/* check_inside.h - inside of catalog_check(): what check.c, check_overlap.c and check_values.c
 * share. */
#ifndef ISOTHERM_CATALOG_CHECK_INSIDE_H
#define ISOTHERM_CATALOG_CHECK_INSIDE_H

#include "check.h"

struct checker {
    const struct snapshot *snapshot;
    const struct check_options *options;
    finding_fn *fn;
    void *ud;
    struct catalog_error *err;
    bool is_over;    /* the caller wants no more */
    bool has_failed; /* memory: err is set */
    size_t n_disputed;
    const struct claim **claims; /* owned; those asked about, in the order of the sources */
    size_t n_claims, claims_cap;
};

/* One finding; `other` may be NULL, `claim` too. */
void checker_say(struct checker *k, enum check_kind kind, const struct claim *claim,
                 const struct claim *other, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* "yes 0..2" */
void check_belief_text(const struct claim *c, char *out, size_t cap);

/* check_overlap.c: says every pair of claims that is disputed or overlapping, and calls `one` (may
 * be NULL) for each claim in between, in the order of the sources; false: memory, `err` is set. */
typedef void check_claim_fn(struct checker *k, const struct claim *c);
CATALOG_WARN_UNUSED bool check_pairs(struct checker *k, enum check_kind kind, check_claim_fn *one);

/* check_values.c: why nothing could ever fit the claim, into `out`; false: it is sound. */
bool check_impossible(const struct claim *c, char *out, size_t cap);

#endif
