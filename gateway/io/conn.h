/* conn.h - the sockets and requests of one loop: libmicrohttpd's callbacks on one side, the conn_
 * functions of server.h on the other. Private to server.c, which makes the loops, the daemons and
 * the threads.
 *
 * A request (struct conn) is held by two sides: the library, from the request line to its completed
 * notice, and the handler, from its call to conn_reply, conn_stream_end or conn_stream_abort. It is
 * freed when both have let go (and no posted callback is under way).
 */
#ifndef ISOTHERM_CONN_H
#define ISOTHERM_CONN_H

#include "peer.h"
#include "server.h"
#include <microhttpd.h>
#include <stdatomic.h>

struct worker;

/* What all loops share. */
struct conn_shared {
    struct server_options o;
    atomic_uint n_in_flight; /* admitted requests whose answer the library has not finished */
    atomic_uint n_conns;     /* struct conn alive */
    atomic_bool is_stopping;
};

/* One listening socket on one loop. */
struct endpoint {
    struct worker *worker;
    struct MHD_Daemon *mhd;
    int listen_fd, epoll_fd;
    bool is_due;    /* MHD_run has something to do */
    int64_t due_ms; /* the library's own next timeout, INT64_MAX: none */
};

#define WORKER_ENDPOINTS_MAX 8
struct worker {
    struct conn_shared *shared;
    unsigned index;
    struct loop *loop;
    struct endpoint endpoints[WORKER_ENDPOINTS_MAX];
    unsigned n_endpoints;
    struct peers peers;
    struct conn *conns;
};

/* The library's callbacks; cls is the endpoint. */
void conn_on_socket(void *cls, struct MHD_Connection *mhd, void **socket_context,
                    enum MHD_ConnectionNotificationCode code);
void *conn_on_uri(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result conn_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *data_len, void **request_context);
void conn_on_completed(void *cls, struct MHD_Connection *mhd, void **request_context,
                       enum MHD_RequestTerminationCode code);

/* On the loop's thread. */
void conn_abort_all(struct worker *w); /* as if every client had left */
void conn_free_all(struct worker *w);  /* after the library's daemons were stopped */

#endif
