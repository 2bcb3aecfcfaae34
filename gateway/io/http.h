/* http.h - what the HTTP library does not check in a request's head, and refusals as bytes. Pure;
 * private to server.c.
 *
 * A head that two parsers could read differently is refused: that is how requests are smuggled past
 * a proxy in front of us.
 */
#ifndef ISOTHERM_HTTP_H
#define ISOTHERM_HTTP_H

#include "gateway/base/buf.h"
#include "gateway/base/failure.h"
#include <stdint.h>

/* The header lines as libmicrohttpd 0.9 leaves them in its buffer: after the request line, up to
 * and with the blank line, each line end (CR LF) and the colon of each field overwritten by NUL.
 * `n_fields` is how many fields the library made of them. False: folded lines, NUL, bare CR,
 * bare LF, a name that is no token (a space before the colon), control bytes in a value. */
bool http_lines_are_sound(const char *lines, size_t len, size_t n_fields);

/* A request target or method without spaces, control bytes and %00. */
bool http_target_is_sound(const char *target);
bool http_is_token(const char *s);

/* What the fields say about the body. Zeroed, fed with each field, then asked. */
struct http_framing {
    unsigned n_host, n_length, n_coding;
    bool is_chunked; /* of the last Transfer-Encoding */
    uint64_t length; /* of the last Content-Length; UINT64_MAX when it is too large to say */
};
void http_framing_field(struct http_framing *h, const char *name, const char *value);
/* False: failure 400. */
bool http_framing_check(const struct http_framing *h, bool is_http_1_1, struct failure *f)
    __attribute__((warn_unused_result));

/* {"error":{...}} of a failure whose texts are ours: they need no escapes. False: memory. */
bool http_error_body(struct buf *b, const struct failure *f);
/* The whole answer, to be sent past the library; the connection is closed after it. */
bool http_error_answer(struct buf *b, const struct failure *f);

#endif
