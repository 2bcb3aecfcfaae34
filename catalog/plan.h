/* plan.h - decides what is sent. Pure: no I/O, no clock, no allocation.
 *
 * Invariants of a finished plan (plan_check_invariants() tests them, the daemon asserts them):
 *  - each parameter that was asked for is in `send` unchanged, or is neutral and left out, or is
 * named by at least one adjustment; of a parameter in `because` the adjustment (`dropped`) says why
 * the target will not do: it is never sent anywhere;
 *  - `send` holds no parameter that was not asked for, unless an adjustment says `added`; so with
 * every `extra`;
 *  - the claims that a plan goes by are those that hold for what is sent, not for what was asked: a
 * parameter that is left out counts as absent in the conditions of the others;
 *  - every parameter in `send` has a wire path;
 *  - n_calls is above 1 exactly when an adjustment of `n` says `split`; then the choices of all
 * calls are as many as were asked for, no two calls hold the same seed, and the seeds are named;
 *  - route is PLAN_FALLBACK exactly when `because` is not empty;
 *  - a PLAN_REJECT holds `rejected` and `reject_text`, nothing else.
 *
 * A plan is for one target. When its route is PLAN_FALLBACK the caller resolves the fallback target
 * and plans again for that, with `is_fallback`: see struct plan_context.
 */
#ifndef ISOTHERM_CATALOG_PLAN_H
#define ISOTHERM_CATALOG_PLAN_H

#include "catalog.h"

enum plan_range { PLAN_RANGE_CLAMP, PLAN_RANGE_REJECT, PLAN_RANGE_LOCAL };
enum plan_unsupported { PLAN_UNSUPPORTED_LOCAL, PLAN_UNSUPPORTED_DROP, PLAN_UNSUPPORTED_REJECT };
/* More choices than the provider makes in one call: several calls, or as any parameter that it does
 * not support. */
enum plan_many { PLAN_MANY_CALLS, PLAN_MANY_LOCAL };
struct policy {
    enum plan_range on_out_of_range;
    enum plan_unsupported on_unsupported;
    enum plan_many on_many;
    uint64_t require; /* bits of parameters that are strict: sent as asked, or the fallback answers,
                         or 400 */
};

/* What of the request is no parameter and still decides. */
struct plan_context {
    bool is_fallback; /* the target is the fallback itself: what it lacks can be answered by nobody:
                         hints are dropped, others rejected */
    bool stream;      /* the answer is asked for in pieces */
    bool prefill;     /* the last message is the assistant's: it is to be continued */
};

enum plan_route { PLAN_TARGET, PLAN_FALLBACK, PLAN_REJECT };

enum action {
    ACTION_CLAMPED,
    ACTION_RENAMED,
    ACTION_REWRITTEN,
    ACTION_DROPPED,
    ACTION_ADDED,
    ACTION_MOVED,
    ACTION_SPLIT,
    ACTION_NOT_SERVED
};
enum reason {
    REASON_ABOVE_MAX,
    REASON_BELOW_MIN,
    REASON_NOT_A_VALUE, /* not one of the enumerated values */
    REASON_UNSUPPORTED, /* rejected or absent */
    REASON_IGNORED_BY_PROVIDER,
    REASON_CONFLICT,
    REASON_UNKNOWN_PARAMETER, /* an unknown top-level field of the body; `name` says which */
    REASON_LIST_TOO_LONG,
    REASON_STRING_TOO_LONG,
    REASON_STRING_TOO_SHORT,
    REASON_REQUIRED,  /* the provider refuses a request without it */
    REASON_WIRE_NAME, /* the provider's name for it differs */
    REASON_OTHER_SCOPE,
    REASON_ENFORCED_LOCALLY,    /* stop strings: the gateway cuts the text itself */
    REASON_DEFAULT_OF_PROVIDER, /* left out it would mean something else there */
    REASON_ROLE,                /* content: a role or its place was changed */
    REASON_MANY_CALLS, /* the same value in each of several calls would mean another thing */
    REASON_NOT_SERVED  /* sent, but the answer lacks it */
};
const char *action_name(enum action a); /* "clamped" */
const char *reason_name(enum reason r); /* "above_max" */

struct adjustment {
    enum param param; /* PARAM_COUNT: `name` says what it is about */
    const char
        *name; /* canonical name of `param`, or a field or "messages"; never NULL; borrowed */
    enum action action;
    struct value asked, sent; /* VALUE_NONE where there was or is none; a split stop list: sent is
                                 the count, and the seed of several calls the first: see
                                 plan_sent_json() */
    enum reason reason;
    int64_t claim; /* row id, 0: no claim */
};

/* What must travel with a parameter and is none itself: {"do_sample": true}. */
struct plan_extra {
    const char *wire; /* dotted path; borrowed from the snapshot, as is the value */
    const json_t *value;
    int64_t claim;
};

#define PLAN_EXTRA_MAX 16
#define PLAN_ADJ_MAX   112
struct plan {
    enum plan_route route;
    uint64_t because;      /* parameters for which the target will not do */
    enum param rejected;   /* PLAN_REJECT: the parameter of the 400 */
    char reject_text[200]; /* PLAN_REJECT: what to do */
    struct sampling send;
    const char *wire[PARAM_COUNT]; /* dotted wire path of each parameter in `send`; borrowed from
                                      the snapshot */
    bool
        stop_is_local; /* some stop strings are not sent: the gateway must enforce all of `asked` */
    size_t
        stop_sent; /* `send` holds the whole list: so many of it leave, see plan_stop_is_sent() */
    bool stop_no_blank;         /* strings of white space only are not among them */
    size_t stop_len_max;        /* nor are longer ones; 0: any length */
    size_t n_calls;             /* 1; more: `send` is what the first sends, see plan_call_send() */
    int64_t n_last;             /* of several calls: the choices of the last one */
    int64_t seed_min, seed_max; /* the seeds of several calls are between these */
    struct plan_extra extra[PLAN_EXTRA_MAX];
    size_t n_extra;
    struct adjustment adj[PLAN_ADJ_MAX];
    size_t n_adj;
};

/* Cannot fail: every input has a plan, if only PLAN_REJECT. `out` is overwritten whole. `how` NULL:
 * not the fallback, not streamed, no prefill.
 *
 * In order, for each parameter asked: the claim that holds; supported and in range -> send (a wire
 * name that differs: `renamed`); out of range -> by policy clamped (to the nearest value that is
 * allowed; integers stay integers, an exclusive bound is approached by one step of 1e-6 relative to
 * 1 or 1), because, or rejected; neutral and not acceptable -> left out; `ignored` -> as
 * unsupported with its own reason; unsupported -> hints dropped, others by policy; stop lists ->
 * the first items_max sent, all enforced by the gateway. Then required ones that are not sent:
 * added with the provider's default, else its maximum. Then conflicts: of two parameters that may
 * not travel together a required one stays; else a neutral one is left
 * out silently, else `stop` goes (the gateway enforces it), else temperature beats top_p, else the
 * one earlier in the table stays, and the other is dropped. A claim may also name what is no
 * parameter: "stream", "prefill" (those always stay), "tool_choice_required" (a tool_choice that
 * forces a call). What needs another one that is not sent is dropped; tool_choice and
 * parallel_tool_calls always need tools. Last what claims add: `extra`. `stop` that a provider
 * lacks altogether is never a reason to fall back: the gateway enforces it, also when it is
 * required.
 *
 * All of it is done again until the conditions of the claims saw what is sent; values that keep
 * excluding each other are dropped as a conflict.
 *
 * A claim that takes exactly one value (min = max, or one in `values`) leaves nothing to clamp to:
 * another value counts as unsupported, and the neutral one is left out unless it is required. So do
 * a seed outside of the provider's range, strings and JSON values: the nearest seed or the nearest
 * tool list would be another request. Hints are dropped for any of these reasons, and for length.
 *
 * More choices (`n`) than the provider makes, because it has no `n`, a smaller maximum or a
 * conflict, are had by several calls (`split`), each with as many as it takes, one where it has no
 * `n`, unless on_many says LOCAL, n or a seed is required, or the choices are picked out of one
 * search (best_of, beams). This goes before on_out_of_range and on_unsupported, also where these
 * say REJECT, and for a fallback too. A seed goes to the first call, each further call has the next
 * one (inside of the provider's range, never -1): with the same seed all choices would be the same.
 *
 * Required (`policy.require`): sent as asked; else the fallback where on_unsupported is LOCAL and
 * the parameter is no hint; else 400. A rejection beats a fallback: whether 400 is the answer never
 * depends on the fallback. */
void plan_make(const struct rules *r, const struct policy *pol, const struct sampling *asked,
               const struct plan_context *how, struct plan *out);

/* What the i-th of plan->n_calls calls sends, and how many choices it has (0: `n` says it, or
 * nothing does). */
void plan_call_send(const struct plan *p, size_t i, struct sampling *out);
int64_t plan_call_choices(const struct plan *p, size_t i);

/* Whether the i-th string of the list `stop` (plan->send) leaves for the provider. */
bool plan_stop_is_sent(const struct plan *p, const json_t *stop, size_t i);

/* What of `a` was asked and what was sent, as JSON, for answers and records: a new reference, json
 * null for none. Of a split stop list what was sent is the shorter list, of the seed of several
 * calls the list of their seeds. NULL: out of memory. */
json_t *plan_asked_json(const struct adjustment *a);
json_t *plan_sent_json(const struct plan *p, const struct adjustment *a);

/* Adds one; false when the plan is full (the caller answers 400). */
bool plan_adjust(struct plan *p, struct adjustment a);

/* The invariants above, for tests and asserts. */
bool plan_check_invariants(const struct plan *p, const struct sampling *asked);

#endif
