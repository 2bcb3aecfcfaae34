/* aws_frame.h - one frame of application/vnd.amazon.eventstream. Pure.
 *
 * All numbers are big-endian:
 *   u32 size of the whole frame, u32 size of the headers, u32 CRC-32 of these 8 bytes,
 *   headers, payload, u32 CRC-32 of everything before it.
 * A header: u8 length of the name, name, u8 type of the value, value (see aws_frame.c).
 * Both checksums are checked before anything else is believed: a frame that is parsed is whole.
 */
#ifndef ISOTHERM_AWS_FRAME_H
#define ISOTHERM_AWS_FRAME_H

#include "gateway/base/buf.h"
#include "gateway/base/failure.h"

#define AWS_FRAME_PRELUDE_BYTES 12

/* All slices are borrowed from the frame's bytes; {NULL, 0}: there is no such header. */
struct aws_frame {
    bool is_exception;    /* `:message-type` is exception or error */
    struct slice type;    /* `:event-type`, `:exception-type` or, of an error, `:error-code` */
    struct slice message; /* `:error-message`: an error may have no payload */
    struct slice payload;
};
/* The size of the frame that begins with these bytes, at least AWS_FRAME_PRELUDE_BYTES of them.
 * Always more than the prelude. false: 502, the prelude is damaged or the frame beyond a limit. */
bool aws_frame_size(struct slice begin, size_t *size, struct failure *f)
    __attribute__((warn_unused_result));
/* A whole frame, of just the size that aws_frame_size() said. false: 502 stream_incomplete, it is
 * damaged or has no message type that is known. */
bool aws_frame_parse(struct slice frame, struct aws_frame *out, struct failure *f)
    __attribute__((warn_unused_result));

#endif
