/* claim.h - one row of the catalog: what somebody's API was said to do with one parameter, by whom,
 * on which day.
 *
 * A claim is never a fact of ours: without source and date it is refused at build time. Pointers
 * are borrowed from the snapshot that the claim came from and live as long as it.
 */
#ifndef ISOTHERM_CATALOG_CLAIM_H
#define ISOTHERM_CATALOG_CLAIM_H

#include "sampling.h"

enum claim_support {
    CLAIM_YES,      /* accepted and honoured */
    CLAIM_REJECTED, /* refused with an error */
    CLAIM_IGNORED,  /* accepted without effect */
    CLAIM_ABSENT    /* not in the API */
};

/* current: the full set, used for planning. conditional: only while `when` holds, beats current.
 * history: was true until valid_to. disputed: another source says so; kept for people, not used for
 * planning. */
enum claim_variant { CLAIM_CURRENT, CLAIM_CONDITIONAL, CLAIM_HISTORY, CLAIM_DISPUTED };

/* What probes and live traffic have said about a claim (evidence.h). It is no part of the claim: it
 * may change while the version stays. Contradicted stays so until a probe finds that the claim
 * holds, or another claim takes its place. */
enum claim_verdict { CLAIM_UNVERIFIED, CLAIM_CONFIRMED, CLAIM_CONTRADICTED };

/* `when`: the claim holds only while another parameter of the request has (or has not) one of these
 * values. An absent parameter counts as having the value "absent". */
struct claim_condition {
    const char *param; /* canonical name, or a provider's own switch such as "thinking" */
    enum param id; /* of `param`; PARAM_COUNT: a switch that no request can set, always "absent" */
    bool is_negated;      /* other than these values */
    const json_t *values; /* array of strings; "0" also matches the number 0 */
};

struct claim {
    int64_t id;           /* row id; stable within a version */
    const char *provider; /* provider id, "openai" */
    const char
        *models; /* "*" or a POSIX extended regular expression on the provider's own model id */
    const char *endpoint;     /* as the source names it */
    const char *param;        /* canonical name, or a behaviour such as "system_role", "prefill",
                                 "unknown_field" */
    enum param param_id;      /* of `param`; PARAM_COUNT: a behaviour or a text */
    const char *source_param; /* the source's own word where it differs ("beam_search"), or NULL */
    const char *wire;         /* dotted path in the request body; NULL: no field */
    enum claim_support support;
    bool is_required; /* a request without it is refused */
    bool has_min, has_max;
    double min, max;
    struct value min_value, max_value; /* the same as written: VALUE_INT (64 bits, which a double
                                          does not hold) or VALUE_NUMBER; for showing */
    bool min_exclusive, max_exclusive, is_integer;
    const json_t *values;  /* array of accepted values, or NULL. Of tool_choice "function" is an
                              object that names one; "required" takes that in */
    struct value fallback; /* the provider's own default when the parameter is absent; VALUE_NONE:
                              not known */
    int64_t items_max, len_max; /* longest list, longest string; 0: not known */
    int64_t len_min;            /* shortest string: of a parameter that is one, not of lists */
    bool no_blank;              /* list items of white space only are refused */
    const json_t *conflicts; /* array of canonical names that may not travel together with this one,
                                or NULL */
    const json_t *conflicts_text; /* array of the source's own words where they are no names, or
                                     NULL; for people */
    const json_t *adds;  /* object, wire path -> value: what must travel with this one where it asks
                            for something ({"do_sample": true}), or NULL */
    const json_t *needs; /* array of canonical names without which this one is refused, or NULL */
    struct claim_condition when; /* when.param NULL: always */
    const char *when_text;       /* the source's own words for `when`, or NULL */
    bool is_derived; /* follows from another claim or from a note: not a row of the source's own */
    bool is_local;   /* an override made on this machine: beats what was shipped */
    enum claim_variant variant;
    const char *valid_from, *valid_to; /* ISO dates or NULL */
    const char *source, *as_of, *confidence, *note;
    enum claim_verdict verdict;
    const char *verdict_on; /* ISO time of the evidence behind the verdict, or NULL */
};

#endif
