/* request.h - a body -> what was asked, or a 400 that names the parameter. Pure.
 *
 * Invariants of a parsed request:
 *  - every top-level field of the body is in `content`, `asked`, `policy`, one of the gateway's own
 * switches, or in `unknown`;
 *  - null counts as absent; an explicit zero is a value;
 *  - all strings are borrowed from `body`.
 * Ranges that depend on the target (temperature above 2) are checked later: sampling_check().
 */
#ifndef ISOTHERM_REQUEST_H
#define ISOTHERM_REQUEST_H

#include "base/failure.h"
#include "base/limits.h"
#include "catalog/plan.h"
#include <jansson.h>

enum request_kind { REQUEST_CHAT, REQUEST_TEXT };

/* What the model is given: canonical OpenAI JSON, borrowed from the body. */
struct content {
    const json_t *messages; /* REQUEST_CHAT: array, checked: roles, content types */
    const json_t *prompt;   /* REQUEST_TEXT: string, array of strings, array of ints or array of
                               arrays of ints */
};

struct request {
    json_t *body; /* owned */
    enum request_kind kind;
    const char *model;
    struct content content;
    struct sampling asked;
    struct policy policy;
    int64_t catalog_version; /* isotherm.catalog_version, 0: none given */
    bool allow_retired;      /* call also a model whose claims have all ended */
    bool stream, include_usage;
    const char *max_tokens_name; /* the name under which the limit was asked: "max_tokens" or
                                    "max_completion_tokens" */
    const char *unknown[LIMIT_UNKNOWN_FIELDS]; /* names of unknown top-level fields */
    size_t n_unknown;
};

/* Parses `bytes`. `defaults` is the policy of the configuration; the body's `isotherm` object
 * overrides it. On failure nothing needs releasing. on_unsupported "reject" turns an unknown field
 * into a 400. */
bool request_parse(struct request *r, enum request_kind kind, const char *bytes, size_t len,
                   const struct policy *defaults, struct failure *f)
    __attribute__((warn_unused_result));
void request_release(struct request *r);

/* The words of a policy, shared with the configuration. false: unknown word. */
bool request_policy_range(const char *word, enum plan_range *out);
bool request_policy_unsupported(const char *word, enum plan_unsupported *out);
bool request_policy_many(const char *word, enum plan_many *out);

#endif
