/* upstream.h - HTTPS out: one client for each loop. The only user of curl.h.
 *
 * Never follows redirects, never speaks anything but http and https, HTTP/1.1 connection
 * pools; HTTP/2 where it is asked for (a kept HTTP/1.1 connection to the same address is used
 * first).
 * Four limits: connect, first byte, silence between bytes, size. Proxies of the environment are not
 * used. Events come from a clean stack, never inside of curl: every function below may be called
 * from them, but upstream_free. The call is gone after on_end has returned (upstream_cancel inside
 * of on_end does nothing). A body is sent a second time only when a kept connection turns out to be
 * dead before any byte of an answer came (libcurl does that by itself, on a fresh connection).
 */
#ifndef ISOTHERM_UPSTREAM_H
#define ISOTHERM_UPSTREAM_H

#include "gateway/base/buf.h"
#include "gateway/base/failure.h"
#include "loop.h"

struct upstream;      /* of one loop */
struct upstream_call; /* one call in flight */

bool upstream_new(struct upstream **out, struct loop *l) __attribute__((warn_unused_result));
void upstream_free(struct upstream *u); /* cancels what is in flight */

struct upstream_header {
    const char *name, *value;
};
struct upstream_events {
    /* The final status and headers are there. header(name) of upstream_header() works from now
       on. */
    void (*on_head)(int status, void *ud);
    void (*on_piece)(struct slice piece, void *ud);
    /* The end, exactly once, not after upstream_cancel(). f NULL: all bytes came. Else 502
     * upstream_unreachable (no byte of the request has left), upstream_no_answer (it may have been
     * read), 504 upstream_timeout_connect, upstream_timeout_first_byte, upstream_timeout_idle, 502
     * upstream_too_large, stream_incomplete. The message says what happened in
     * our words, without a host name; host and curl's words are logged (upstream_failed). */
    void (*on_end)(const struct failure *f, void *ud);
    /* A kept connection was lost before any byte of an answer came, and the request goes out once
     * more on a fresh one. May be NULL. */
    void (*on_resend)(void *ud);
};
struct upstream_spec {
    const char *url; /* from configuration and catalog only */
    const struct upstream_header *headers;
    size_t n_headers;
    struct slice body; /* POST; p NULL: GET. Borrowed until on_end or cancel */
    unsigned connect_ms, first_byte_ms, idle_ms;
    size_t bytes_max;
    const char *ca_file; /* certificates to trust instead of the system's, or NULL */
    bool http2;          /* over TLS, where the other side has it too */
};
bool upstream_start(struct upstream *u, const struct upstream_spec *s,
                    const struct upstream_events *ev, void *ud, struct upstream_call **out,
                    struct failure *f) __attribute__((warn_unused_result));
void upstream_cancel(struct upstream_call *c); /* no event after this; frees; NULL allowed */
void upstream_pause(struct upstream_call *c, bool is_paused);
/* The content idle limit counts from here: a dialect calls it for real content, so that pings do
   not count. Only bytes count when it was never called. */
void upstream_touch(struct upstream_call *c);
/* Of the answer; NULL: absent. */
const char *upstream_header(const struct upstream_call *c, const char *name);

#endif
