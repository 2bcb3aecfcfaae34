/* emit.h - what decoders say, and what they all remember while saying it. Pure.
 *
 * Every function returns false where the receiver has enough (no failure is set then), or where it
 * set a failure: the decoder stops either way.
 */
#ifndef ISOTHERM_EMIT_H
#define ISOTHERM_EMIT_H

#include "backend.h"
#include "refusal.h"

struct emitter {
    bool is_stream;
    bool has_content; /* something of the answer has gone out: an error now can only end it */
    bool is_ended;    /* DELTA_END has gone out */
    /* of the call in progress */
    delta_fn *fn;
    void *ud;
    struct failure *f;
};
/* At the start of decode() and decode_end(). */
void emit_begin(struct emitter *e, bool is_stream, delta_fn *fn, void *ud, struct failure *f);

bool emit_meta(struct emitter *e, const json_t *id, const json_t *model);
/* text NULL or empty: nothing, unless there are items (log-probabilities, borrowed). */
bool emit_text(struct emitter *e, enum delta_kind kind, unsigned choice, const json_t *text,
               json_t *items);
bool emit_slice(struct emitter *e, enum delta_kind kind, unsigned choice, struct slice text,
                json_t *items);
/* NULL parts are left out. */
bool emit_tool(struct emitter *e, unsigned choice, unsigned index, const char *id, const char *name,
               const char *arguments);
bool emit_usage(struct emitter *e, const struct usage *u);
/* The provider's word is kept; one that means an error is a failure with this text. has_tools: a
 * plain end is one for the sake of the calls. */
bool emit_finish(struct emitter *e, unsigned choice, const char *word, bool has_tools,
                 const char *error_text);
bool emit_end(struct emitter *e);

/* Failures; always false. "the backend's answer %s" */
bool emit_malformed(struct emitter *e, const char *what);
bool emit_refused(struct emitter *e, const struct refusal *r);

#endif
