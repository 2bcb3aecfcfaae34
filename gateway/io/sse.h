/* sse.h - server-sent events: pieces of bytes -> events, and events -> bytes. Pure.
 *
 * Reads LF, CRLF and lone CR, `data:` with and without the space, several data lines joined by LF,
 * comments skipped; pieces may be cut anywhere, inside a character too. A BOM at the start is
 * skipped.
 */
#ifndef ISOTHERM_SSE_H
#define ISOTHERM_SSE_H

#include "gateway/base/buf.h"
#include "gateway/base/failure.h"

struct sse {
    struct buf line, data, event;
    bool last_was_cr, is_started;
};
void sse_init(struct sse *s, size_t event_bytes_max);
void sse_release(struct sse *s);
/* `event` is "" when there was no such line. false: stop feeding. */
typedef bool sse_event_fn(struct slice event, struct slice data, void *ud);
/* false: an event is longer than the limit (failure is set) or fn returned false (failure is not
   set). */
bool sse_feed(struct sse *s, struct slice piece, sse_event_fn *fn, void *ud, struct failure *f)
    __attribute__((warn_unused_result));
/* The end of bytes: an event without its blank line is delivered too (some upstreams forget it). */
bool sse_end(struct sse *s, sse_event_fn *fn, void *ud) __attribute__((warn_unused_result));
/* "data: ...\n\n"; data must hold no line break (JSON does not). */
bool sse_write(struct buf *b, struct slice data);

#endif
