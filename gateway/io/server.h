/* server.h - HTTP in: sockets, admission, limits, back-pressure. The only user of libmicrohttpd.
 *
 * One server has `n` loops; a connection lives on one loop and every callback of it runs there. A
 * handler is called once for each request, when its whole body has been read; it answers then or
 * later (conn_reply, or conn_stream_begin/write/end). What the HTTP library lacks is done here: a
 * client that leaves is noticed while the request waits (EPOLLRDHUP), absolute deadlines for header
 * and body, 400 for unknown transfer codings, refusal of folded headers, NUL, bare CR, missing
 * Host, Content-Length twice or beside Transfer-Encoding.
 */
#ifndef ISOTHERM_SERVER_H
#define ISOTHERM_SERVER_H

#include "gateway/base/buf.h"
#include "gateway/base/failure.h"
#include "loop.h"

struct server;
struct conn; /* one request and its answer */

typedef void server_handler_fn(struct conn *c, void *ud);

struct server_options {
    const char *listen;      /* "127.0.0.1:4117", "[::1]:0", NULL: none. Port 0: any */
    const char *socket_path; /* unix socket, NULL: none. Served by loop 0 */
    /* Listening sockets of socket activation, used in place of `listen`; they stay yours. */
    const int *adopted_fds;
    unsigned n_adopted;
    unsigned n_loops;            /* 0: 1 */
    size_t body_bytes_max;       /* 0: LIMIT_BODY_BYTES */
    unsigned in_flight_max;      /* over all loops; the next is answered 503. 0: LIMIT_IN_FLIGHT */
    unsigned header_ms, body_ms; /* absolute; 0: LIMIT_HEADER_SECONDS, LIMIT_BODY_SECONDS */
    unsigned keepalive_ms;       /* ": wait" on a silent SSE stream at this interval; 0: none */
    server_handler_fn *handler;
    void *ud;
    /* Called on each loop's thread before it runs and after it ended: per-loop state (curl). */
    void (*loop_begin)(struct loop *l, unsigned index, void *ud);
    void (*loop_end)(struct loop *l, unsigned index, void *ud);
};
bool server_start(struct server **out, const struct server_options *o, struct failure *f)
    __attribute__((warn_unused_result));
/* Stops accepting, lets requests in flight end for at most grace_ms, then ends the loops and
   joins the threads. */
void server_stop(struct server *s, unsigned grace_ms);
/* The first half of it: the threads have ended, but the loops are still there, so that a thread of
 * somebody else that may post to them can be ended before server_stop(). */
void server_halt(struct server *s, unsigned grace_ms);
/* Actual TCP port, 0: none. */
unsigned server_port(const struct server *s);
unsigned server_in_flight(const struct server *s);
struct loop *server_loop(const struct server *s, unsigned index);

/* ---- life of a request
 *
 * The handler must end each request exactly once (conn_reply, conn_reset, conn_stream_end or
 * conn_stream_abort), also after the client left: until then the request, its strings and its body
 * stay valid, and every answering function does nothing. After that call `c` is gone. All functions
 * belong to the thread of the request's loop; on_close and on_drain come from a clean stack and may
 * call any of them.
 */
const char *conn_method(const struct conn *c);
const char *conn_path(const struct conn *c);                    /* decoded, without query */
const char *conn_query(const struct conn *c, const char *name); /* NULL: absent */
/* The i-th pair of the query, decoded, in the order given; false: there are fewer. */
bool conn_query_at(const struct conn *c, size_t i, const char **name, const char **value);
const char *conn_header(const struct conn *c, const char *name); /* NULL: absent */
struct slice conn_body(const struct conn *c);
void conn_drop_body(struct conn *c); /* it is needed no more; empty from here on */
struct loop *conn_loop(const struct conn *c);
unsigned conn_loop_index(const struct conn *c);

/* ---- the answer. Headers: pairs of name and value. The connection may be gone: then these do
   nothing. */
struct conn_header {
    const char *name, *value;
};
/* A whole answer; body is copied. */
void conn_reply(struct conn *c, int status, const char *content_type, const struct conn_header *h,
                size_t n_h, struct slice body);
/* In place of an answer: the connection is reset (RST), as when the process on this side died. */
void conn_reset(struct conn *c);
/* A stream: head at once, then pieces. conn_stream_write false: the client is gone (also one for
 * whom more than LIMIT_ANSWER_BYTES are pending: its connection is closed). */
void conn_stream_begin(struct conn *c, int status, const char *content_type,
                       const struct conn_header *h, size_t n_h);
bool conn_stream_write(struct conn *c, struct slice piece);
void conn_stream_end(struct conn *c);
/* Ends a stream without the terminating chunk, after what is pending: a broken transfer. */
void conn_stream_abort(struct conn *c);
size_t conn_stream_pending(const struct conn *c); /* bytes the client has not taken yet */

/* The client left before the answer ended: called at most once, never after the answer was given
   whole. */
void conn_on_close(struct conn *c, void (*fn)(void *ud), void *ud);
/* Called when a stream that had more than LIMIT_STREAM_BUFFER_BYTES pending has drained below
   half of it. */
void conn_on_drain(struct conn *c, void (*fn)(void *ud), void *ud);

#endif
