/* check.h - what is wrong or doubtful in a version. Pure but for regular expressions. */
#ifndef ISOTHERM_CATALOG_CHECK_H
#define ISOTHERM_CATALOG_CHECK_H

#include "catalog.h"

/* Two sources disagree where the later, or else the more confident, is planned with: disputed.
 * Where neither is, nothing decides: overlapping. An expression against "*" is neither. Impossible:
 * no value, integer or length is left, a default or listed value outside of its own range, a range
 * outside of what the parameter can mean, a condition that never holds, what needs or excludes
 * itself, an end before the beginning, required and refused. */
enum check_kind {
    CHECK_STALE,        /* as_of older than stale_days; what has ended is left alone */
    CHECK_CONTRADICTED, /* probe or traffic say otherwise */
    CHECK_DISPUTED,     /* two sources disagree, or one says that another does (variant
                           disputed): `other` is the claim that is planned with */
    CHECK_OVERLAPPING,  /* two claims hold for one model and differ, and nothing decides */
    CHECK_IMPOSSIBLE,   /* nothing fits it */
    CHECK_SOURCELESS,   /* no source or no date */
    CHECK_UNMATCHED,    /* a model in use that no pattern knows */
    CHECK_CONFLICT,     /* a merge conflict is open: not by catalog_check(), see versions.h */
    CHECK_COUNT
};
const char *check_kind_name(enum check_kind k); /* "stale" */

struct finding {
    enum check_kind kind;
    const struct claim *claim, *other; /* NULL where there is none */
    char text[320];                    /* what is wrong and what to do; an overlap names a model id
                                          that both patterns take */
};
typedef bool finding_fn(const struct finding *f, void *ud); /* false: stop */

struct check_options {
    const char *today;         /* "YYYY-MM-DD" */
    int stale_days;            /* 0: nothing is stale */
    const char *provider;      /* NULL: all */
    const char *const *models; /* "provider/model" in use, provider as in the catalog */
    size_t n_models;
    unsigned skip; /* bits 1 << check_kind */
};
/* All findings, by kind, then in the order of the sources. false: it could not tell (memory). */
CATALOG_WARN_UNUSED bool catalog_check(const struct snapshot *s, const struct check_options *o,
                                       finding_fn *fn, void *ud, struct catalog_error *err);

/* A model id that both expressions take ("*" takes all), written into `out`. Exact for what
 * catalogs use: anchors, alternatives, groups, ? * + {m,n}, classes, the dot. false: there is none
 * of printable ASCII and at most 255 characters, or one of the two is too large to tell or uses
 * back references or word boundaries. What is written was tried with regexec(). */
bool check_common_model(const char *a, const char *b, char *out, size_t cap);

#endif
