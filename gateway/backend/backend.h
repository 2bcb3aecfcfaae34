/* backend.h - the contract of a wire dialect: canonical call -> bytes; bytes -> deltas; refusals ->
 * failures. Pure.
 *
 * An adapter sees only what the planner allowed (`send`): it can neither send more nor drop one
 * unseen; backend_check_sent() finds each parameter at its wire path in the bytes. What a dialect
 * cannot say of the content is an adjustment (through call->plan) or a 400, never lost. A decoder
 * may be fed pieces cut anywhere, except the engine's: its pieces are whole frames.
 *
 * When a delta_fn returns false, decode() and decode_end() return false with no failure set: the
 * receiver knows why.
 */
#ifndef ISOTHERM_BACKEND_H
#define ISOTHERM_BACKEND_H

#include "catalog/plan.h"
#include "gateway/answer.h"
#include "gateway/base/buf.h"
#include "gateway/base/failure.h"
#include "headers.h"
#include "pieces.h"

/* What is to be said, to whom. Borrowed. */
struct backend;
struct call {
    const struct provider *provider; /* dialect, fixed headers */
    const struct backend *backend;   /* the route's dialect; NULL: the provider's first one */
    const struct rules *rules;       /* behaviours: system_role, prefill ... */
    const char *model;               /* the provider's own model id */
    const json_t *messages, *prompt; /* one of them is NULL: chat or raw completion */
    const struct sampling *send;
    struct plan *plan; /* wire paths; changes of the content are added to its adjustments */
    bool stream;
    const char *key; /* API key, or NULL */
};

struct decoder; /* a dialect's own state for one answer */

struct backend {
    const char *name;
    /* Body and headers (content-type, auth, fixed ones). false: 400, what cannot be said in this
     * dialect. */
    bool (*encode)(const struct call *c, struct buf *body, struct headers *h, struct failure *f);
    /* A decoder for a 2xx answer that comes in this form (pieces_form()): whole, it is fed in
     * pieces and delivered by decode_end(). The engine's frames have a form of their own: it is not
     * looked at. */
    struct decoder *(*decoder_new)(enum wire_form form, bool is_chat);
    /* What is different about this provider's answers, before the first piece. A NULL function:
     * nothing can be. */
    void (*decoder_set)(struct decoder *d, const struct provider_quirks *q);
    void (*decoder_free)(struct decoder *d); /* NULL allowed */
    bool (*decode)(struct decoder *d, struct slice piece, delta_fn *fn, void *ud,
                   struct failure *f);
    /* The bytes have ended. false: cut off (502 stream_incomplete) or malformed. */
    bool (*decode_end)(struct decoder *d, delta_fn *fn, void *ud, struct failure *f);
    /* A non-2xx answer -> failure as the client shall see it. *param (64 bytes) is the canonical or
     * wire name of the parameter that the provider refuses, or "". retry_after: value of that
     * header or NULL. */
    void (*refusal)(int status, struct slice body, const char *retry_after, char param[64],
                    struct failure *f);
    /* How the dialect writes one parameter, where that is not the canonical value at the claim's
     * wire path: *value (owned, the canonical one) may be replaced; NULL: another parameter carries
     * it. *path may be replaced by a string that outlives the call. false: 400. A NULL function:
     * nothing differs. */
    bool (*shape)(const struct call *c, enum param p, json_t **value, const char **path,
                  struct failure *f);
    /* Wire paths of parameters that the dialect writes for ends of its own, whether they are in
     * `send` or not; ends with NULL. NULL: none. */
    const char *const *own_paths;
    const char *stream_type; /* what a stream is asked for as; NULL: text/event-stream */
};
extern const struct backend backend_openai, backend_responses, backend_anthropic, backend_engine;
extern const struct backend backend_converse, backend_tgi;
extern const struct backend backend_google, backend_palm, backend_palm_predict;
extern const struct backend backend_cohere, backend_ollama, backend_dashscope;
const struct backend *backend_find(const char *dialect); /* NULL: unknown */

/* Writes every parameter of `send` at its wire path into `body`, and the plan's extras; `stop` is
 * cut to what
 * plan_stop_is_sent() says. Dialects call it and then do only what is structural. false: memory, or
 * a path that cannot be made. */
bool backend_encode_params(const struct call *c, json_t *body, struct failure *f);
/* Whether each parameter of `send` and each extra is found at its wire path in the encoded bytes,
 * and nothing of the schema that is not in `send`. *bad: the first one that is not. It parses the
 * body again, which costs several times what encoding does: so it is a test for every dialect, and
 * an assert of every request in builds with DEVELOPER=1 or a sanitizer, not in the shipped one. */
bool backend_check_sent(const struct call *c, struct slice body, const char **bad);

/* How every dialect's refusal maps a status: 401/403 -> 502 upstream_auth, 429 -> 429, 500 -> 502,
 * 503/529 -> 503 ... message trimmed to 1 KiB, no markup. */
void backend_refusal_status(int status, const char *message, const char *code, const char *param,
                            const char *retry_after, struct failure *f);

/* A decoder for an answer of this provider: decoder_new() and decoder_set(). NULL: memory. */
struct decoder *backend_decoder(const struct backend *b, const struct provider *p,
                                enum wire_form form, bool is_chat);

/* ---- for the dialects themselves */

/* Fills the object that is to leave. false: 400; memory where no failure is set. */
typedef bool backend_build_fn(const struct call *c, json_t *body, struct failure *f);
/* What every encode() ends in: the object that `build` fills, as bytes, and its headers
 * (content-type, accept, the provider's fixed ones, and the key where the provider wants it; h
 * NULL: none). false: as encode(), 413 body_too_large at the limit of `body`. */
bool backend_encode_with(const struct call *c, backend_build_fn *build, struct buf *body,
                         struct headers *h, struct failure *f);
/* The same for a dialect that knows chat only: a raw prompt is a 400. */
bool backend_encode_chat(const struct call *c, backend_build_fn *build, struct buf *body,
                         struct headers *h, struct failure *f);
/* An object of pairs of a key (a literal) and a value (taken), ended by NULL. New reference; NULL:
 * memory, also where a value is NULL. */
json_t *backend_object(const char *key, json_t *value, ...) __attribute__((sentinel));
json_t *backend_list(json_t *only);        /* the same with a list of one */
bool backend_no_memory(struct failure *f); /* 500, while writing a request; always false */
bool backend_is_word(const json_t *v, const char *word); /* the string `word` */
/* Replaces *value (taken) by `by` (taken); NULL: failed, for want of memory unless f says why. */
bool backend_swap(json_t **value, json_t *by, struct failure *f);
/* Whether the claim says that the provider refuses or lacks it; false where nobody says so. */
bool backend_refuses(const struct call *c, enum behaviour b);
bool backend_accepts(const struct call *c, enum behaviour b); /* the claim says yes, or ignored */
/* An adjustment about the content, to call->plan; `name` and the values are borrowed for the plan's
 * life. b: whose claim, or BEHAVIOUR_COUNT. */
bool backend_note(const struct call *c, enum behaviour b, const struct adjustment *a,
                  struct failure *f);
/* A provider's word for the end of a choice; an unknown one is FINISH_STOP. *status: the HTTP
 * status of a word that means that the choice failed (then FINISH_NONE), else 0. */
enum finish backend_finish(const char *word, int *status);
/* One element of OpenAI's delta.tool_calls; NULL parts are left out. New reference, NULL: memory.
 */
json_t *backend_tool_delta(unsigned index, const char *id, const char *name, const char *arguments);
/* Several members in one walk: out[i] is that of names[i], or NULL. A look-up costs as much as to
 * pass four keys. */
void backend_members(const json_t *o, size_t n, const char *const names[], const json_t *out[]);
json_int_t backend_count(const json_t *v); /* a number of tokens, at least 0; 0 for anything else */

#endif
