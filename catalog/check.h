/* check.h - what is wrong or doubtful in a version. Pure but for regular expressions. */
#ifndef ISOTHERM_CATALOG_CHECK_H
#define ISOTHERM_CATALOG_CHECK_H

#include "catalog.h"

enum check_kind {
    CHECK_STALE,        /* as_of older than stale_days; claims that have ended are left alone */
    CHECK_CONTRADICTED, /* probe or traffic say otherwise */
    CHECK_DISPUTED,     /* two sources disagree: `other` is the claim that is planned with */
    CHECK_OVERLAPPING,  /* two current claims of the same strength hold for one model and differ */
    CHECK_IMPOSSIBLE, /* no value is left, or a neutral or default value lies outside its range ...
                       */
    CHECK_SOURCELESS, /* no source or no date */
    CHECK_UNMATCHED,  /* a model in use that no pattern knows */
    CHECK_CONFLICT,   /* a merge conflict is open */
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
/* All findings, by kind, then in the order of the sources. */
void catalog_check(const struct snapshot *s, const struct check_options *o, finding_fn *fn,
                   void *ud);

/* A model id that both expressions take, or false: none was found among the strings that the
 * expressions were expanded to (each alternative, option and class once; so far as that goes, no
 * proof that there is none). */
bool check_common_model(const char *a, const char *b, char *out, size_t cap);

#endif
