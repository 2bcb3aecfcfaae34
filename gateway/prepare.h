/* prepare.h - steps 3 to 6 of the path, in one struct: parse, resolve, plan (with the fallback),
 * encode. Pure: what `explain` shows is exactly what a call would send, because both are this code.
 *
 * Call in order; each returns false with a failure (400, 404 ...) and leaves the struct releasable.
 */
#ifndef ISOTHERM_PREPARE_H
#define ISOTHERM_PREPARE_H

#include "base/config.h"
#include "request.h"
#include "resolve.h"

/* What every request is prepared against; borrowed. Time and randomness are given, never taken. */
struct prepare_env {
    const struct config *conf;
    struct snapshot *snap;
    struct policy policy; /* the configuration's default */
    const char *day;      /* "YYYY-MM-DD" */
    uint64_t random;      /* becomes the seed when the local engine is asked without one */
};

struct prepared {
    struct request request;
    struct target target; /* who answers */
    struct target asked;  /* who was asked: equal to target unless is_fallback */
    bool is_fallback;
    bool is_retired;  /* all claims about target's model have ended: rules are those of its last day
                       */
    uint64_t because; /* parameters that made the fallback answer */
    struct rules rules;    /* of target */
    struct plan plan;      /* of target, with all adjustments */
    size_t n_adj, n_extra; /* of the plan, before a dialect adds its own: each call does, anew */
    bool has_seed;
    int64_t seed;       /* what the local engine draws from, or what was sent as seed */
    size_t n_calls;     /* those of the plan, for each prompt where is_by_prompt */
    bool is_by_prompt;  /* a list of prompts goes one by one: the local engine takes no list, and
                           several calls for the choices of one come before the next */
    uint64_t ruled_out; /* parameters that the provider refused against its claims: planned as
                           unsupported */
};

bool prepare_parse(struct prepared *p, const struct prepare_env *env, enum request_kind kind,
                   struct slice body, struct failure *f) __attribute__((warn_unused_result));
/* model NULL: the request's own. */
bool prepare_resolve(struct prepared *p, const struct prepare_env *env, const char *model,
                     struct failure *f) __attribute__((warn_unused_result));
/* May be called again after `ruled_out` was set: the plan is made anew. */
bool prepare_plan(struct prepared *p, const struct prepare_env *env, struct failure *f)
    __attribute__((warn_unused_result));
/* Before another target is resolved: what was planned for the last one goes; the request stays. */
void prepare_forget(struct prepared *p);
/* Choices that the answer of call `at_call` may have. */
unsigned prepare_choices(const struct prepared *p, size_t at_call);
/* The bytes of call `at_call` of n_calls; may be called again. body and headers are appended to.
 * key: the secret itself, "***" to show, or NULL. */
bool prepare_encode(struct prepared *p, size_t at_call, const char *key, struct buf *body,
                    struct headers *headers, struct failure *f) __attribute__((warn_unused_result));
void prepare_release(struct prepared *p);

/* ---- how a plan looks from outside (reply, record, explain). New references; NULL: memory. */
json_t *prepare_sampling_json(const struct sampling *s);
json_t *prepare_adjustments_json(const struct plan *plan);
json_t *prepare_fallback_json(const struct prepared *p); /* {from, because} or null */
/* Short form for the header: "temperature=1.7>1 clamped, seed moved"; at most cap - 1 bytes, cut at
 * an entry's end with ", ...". */
void prepare_adjusted_header(const struct plan *plan, char *out, size_t cap);

#endif
