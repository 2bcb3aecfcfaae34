/* emit.h - what decoders say, and what they all remember while saying it: pieces of bytes go in,
 * the dialect reads the objects in them, deltas go out. Pure.
 *
 * A dialect's struct decoder begins with its struct emitter. Every function that says something
 * returns false where the receiver has enough (no failure is set then), or where it set a failure:
 * the decoder stops either way.
 */
#ifndef ISOTHERM_EMIT_H
#define ISOTHERM_EMIT_H

#include "backend.h"
#include "pieces.h"
#include "refusal.h"

struct emitter {
    struct pieces pieces;
    bool has_content; /* something of the answer has gone out: an error now can only end it */
    bool is_ended;    /* DELTA_END has gone out */
    /* of the call in progress */
    delta_fn *fn;
    void *ud;
    struct failure *f;
};

/* A zeroed decoder of so many bytes, for answers in this form. NULL: memory. */
void *emit_new(size_t decoder_bytes, enum wire_form form);
void emit_free(void *decoder); /* NULL allowed */

/* decode() and decode_end(): each object that is complete goes to on_object, with the decoder as
 * ud. */
bool emit_feed(void *decoder, struct slice piece, pieces_fn *on_object, delta_fn *fn, void *ud,
               struct failure *f) __attribute__((warn_unused_result));
bool emit_feed_end(void *decoder, pieces_fn *on_object, delta_fn *fn, void *ud, struct failure *f)
    __attribute__((warn_unused_result));
/* The same without bytes, for a decoder that reads its pieces itself. */
void emit_begin(struct emitter *e, delta_fn *fn, void *ud, struct failure *f);

/* ---- deltas */

bool emit_delta(struct emitter *e, const struct delta *x); /* one that has no function here */
bool emit_meta(struct emitter *e, const json_t *id, const json_t *model);
/* text NULL or empty: nothing, unless there are items (log-probabilities, borrowed). */
bool emit_text(struct emitter *e, enum delta_kind kind, unsigned choice, const json_t *text,
               json_t *items);
bool emit_slice(struct emitter *e, enum delta_kind kind, unsigned choice, struct slice text,
                json_t *items);
/* NULL parts are left out. */
bool emit_tool(struct emitter *e, unsigned choice, unsigned index, const char *id, const char *name,
               const char *arguments);
/* Arguments that the provider sends as an object, or as text already; others (NULL) are `{}`. */
bool emit_tool_json(struct emitter *e, unsigned choice, unsigned index, const char *id,
                    const char *name, const json_t *arguments);
bool emit_usage(struct emitter *e, const struct usage *u);
/* The provider's word is kept; one that means an error is a failure with this text (NULL: a general
 * one). has_tools: a plain end is one for the sake of the calls. */
bool emit_finish(struct emitter *e, unsigned choice, const char *word, bool has_tools,
                 const char *error_text);
/* The same where the dialect knows better than the word. */
bool emit_finish_as(struct emitter *e, unsigned choice, const char *word, enum finish finish);
bool emit_end(struct emitter *e);

/* ---- failures; always false */

bool emit_malformed(struct emitter *e, const char *what); /* "the backend's answer %s" */
/* The same, where the bytes ended too early: stream_incomplete also for a whole body. */
bool emit_cut_off(struct emitter *e, const char *what);
bool emit_no_memory(struct emitter *e);
bool emit_refused(struct emitter *e, const struct refusal *r);

#endif
