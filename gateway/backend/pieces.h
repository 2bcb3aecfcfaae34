/* pieces.h - pieces of an upstream's 2xx answer -> JSON objects: events of a stream, or one whole
 * body. Pure.
 *
 * Once a call has returned false it is broken and returns false for ever.
 */
#ifndef ISOTHERM_PIECES_H
#define ISOTHERM_PIECES_H

#include "gateway/base/buf.h"
#include "gateway/base/failure.h"
#include "gateway/io/sse.h"
#include <jansson.h>

struct pieces {
    bool is_stream, is_broken;
    struct sse sse;
    struct buf whole;
};
void pieces_init(struct pieces *s, bool is_stream);
void pieces_release(struct pieces *s);
/* object NULL: the end mark `[DONE]`. false: stop. */
typedef bool pieces_fn(const json_t *object, void *ud);
/* false: malformed (502, stream_incomplete in a stream), too large, or fn returned false. */
bool pieces_feed(struct pieces *s, struct slice piece, pieces_fn *fn, void *ud, struct failure *f)
    __attribute__((warn_unused_result));
/* The bytes have ended: the last event of a stream, or the whole body. */
bool pieces_end(struct pieces *s, pieces_fn *fn, void *ud, struct failure *f)
    __attribute__((warn_unused_result));

#endif
