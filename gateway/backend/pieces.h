/* pieces.h - pieces of an upstream's 2xx answer, cut anywhere -> JSON objects: the events of a
 * stream in any framing, or one whole body. Pure.
 *
 * Comments, pings and blank lines never get past here; bytes that are not JSON objects are an
 * error, except the end mark `[DONE]`. Every object is delivered as soon as its last byte is there.
 * Once a call has returned false it is broken and returns false for ever.
 */
#ifndef ISOTHERM_PIECES_H
#define ISOTHERM_PIECES_H

#include "gateway/base/buf.h"
#include "gateway/base/failure.h"
#include "gateway/io/sse.h"
#include <jansson.h>

enum wire_form {
    FORM_WHOLE, /* one JSON body, delivered by pieces_end() */
    FORM_SSE,   /* text/event-stream */
    FORM_LINES, /* one JSON object a line, LF or CRLF */
    FORM_ARRAY, /* one JSON array of objects, sent piecemeal; a body whose first byte that is not
                   blank is another than '[' turns to FORM_WHOLE */
    FORM_AWS,   /* application/vnd.amazon.eventstream: binary frames, see aws_frame.h */
};
/* By the answer's content-type, whose parameters and case do not matter. Unknown or NULL: what was
 * asked for, FORM_SSE or FORM_WHOLE. JSON where a stream was asked for is FORM_ARRAY. */
enum wire_form pieces_form(const char *content_type, bool is_stream);

/* Where the reading of a JSON array stands; private. */
struct array_scan {
    enum array_at {
        ARRAY_UNSEEN,
        ARRAY_BEGUN, /* after '[' */
        ARRAY_NEXT,  /* after ',' */
        ARRAY_INSIDE,
        ARRAY_AFTER, /* after an object */
        ARRAY_CLOSED,
    } at;
    size_t depth;
    bool is_string, is_escaped;
};

/* `form` and `is_stream` (form is not FORM_WHOLE) may be read, during fn and after pieces_end();
 * is_exception only during fn. */
struct pieces {
    enum wire_form form;
    bool is_stream, is_broken;
    bool is_exception; /* the object is a FORM_AWS exception, `event` its type */
    struct sse sse;
    struct buf held; /* the body, or the part of a line, object or frame that has come so far */
    struct array_scan array;
};
void pieces_init(struct pieces *s, enum wire_form form);
void pieces_release(struct pieces *s);
/* object NULL: the end mark `[DONE]`. event: the name of an SSE event, `:event-type` or the
 * exception's type of an AWS frame, else ""; both are valid during the call. false: stop. */
typedef bool pieces_fn(const json_t *object, struct slice event, void *ud);
/* false: malformed or damaged (502, stream_incomplete in a stream), too large, or fn returned false
 * (then no failure is set here). */
bool pieces_feed(struct pieces *s, struct slice piece, pieces_fn *fn, void *ud, struct failure *f)
    __attribute__((warn_unused_result));
/* The bytes have ended: the last event of a stream, or the whole body. A line or an SSE event needs
 * no end of its own; an array or a frame that is cut off is 502 stream_incomplete. Whether the
 * answer is complete is for the dialect to say: a stream may just end. */
bool pieces_end(struct pieces *s, pieces_fn *fn, void *ud, struct failure *f)
    __attribute__((warn_unused_result));

#endif
