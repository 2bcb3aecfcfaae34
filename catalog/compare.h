/* compare.h - another catalog held against ours: the data of the npm package `modelparams` (MIT),
 * one attributed, unverified source. Nothing of it enters ours.
 *
 * Input is JSON in the form of that package: an array of models with their parameters (also an
 * object of them, or one that holds the array as "models" or "data"), or the package's own
 * dist/generated/data.js, an ES module whose literal is JSON. The .c says which fields are read.
 * Everything in it is untrusted: sizes, depth and counts have limits.
 */
#ifndef ISOTHERM_CATALOG_COMPARE_H
#define ISOTHERM_CATALOG_COMPARE_H

#include "catalog.h"

enum compare_result {
    COMPARE_AGREES,
    COMPARE_DIFFERS,     /* both speak of it and say different things: range, values, support */
    COMPARE_ONLY_THEIRS, /* ours says nothing, or that it is absent because it was not documented */
    COMPARE_ONLY_OURS,   /* ours says yes, theirs does not list it */
    COMPARE_NOT_COMPARED /* a model or parameter that has no counterpart here */
};
const char *compare_result_name(enum compare_result r); /* "agrees" */
struct comparison {
    enum compare_result result;
    const char *model;         /* "provider/model" as theirs names it */
    const char *provider;      /* in this catalog, or NULL */
    const char *param;         /* ours, or theirs where there is none; "*": the whole model */
    const struct claim *claim; /* ours, or NULL */
    char ours[96], theirs[96]; /* "0..1", "absent" */
};
typedef bool compare_fn(const struct comparison *c, void *ud); /* false: stop */
#define COMPARE_BYTES_MAX (32u << 20)
CATALOG_WARN_UNUSED bool catalog_compare(const struct snapshot *s, const char *path,
                                         const char *day, compare_fn *fn, void *ud,
                                         struct catalog_error *err);

#endif
