/* How it works: each loop is a thread with an epoll of ours (loop.h) and, for each listening
 * socket, a libmicrohttpd daemon in external mode whose own epoll is one descriptor in it. The
 * daemon is run once a turn, and only when something happened to it: its epoll is readable, a
 * connection was resumed, or its own timeout came. TCP: each loop has a socket of its own on the
 * same port (SO_REUSEPORT), the kernel spreads the clients. Adopted sockets are shared by all
 * loops; the unix socket is loop 0's.
 *
 * Threads share nothing but the counters of conn_shared. All signals are blocked in them, SIGPIPE
 * too.
 */
#include "server.h"

#include "conn.h"
#include "gateway/base/limits.h"
#include "listen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define IDLE_SECONDS                                                                               \
    75 /* silence on an idle connection, or of a client that does not take its answer */
/* A head of LIMIT_HEADER_BYTES and what the library makes of it. Beyond it the library answers
   431 itself (in HTML). */
#define POOL_BYTES (LIMIT_HEADER_BYTES + (16u << 10))
#define ABORT_GRACE_MS                                                                             \
    1000 /* for handlers that end asynchronously after their client was declared gone */

enum thread_state { THREAD_NONE, THREAD_RUNNING };

struct server {
    bool is_halted;
    struct conn_shared shared;
    struct worker *workers;
    pthread_t *threads;
    enum thread_state *states;
    unsigned n_workers; /* made, at most shared.o.n_loops */
    unsigned port;
    char *socket_path; /* made by us; removed at the end */
};

/* ---- one loop */

static void on_daemon_ready(int fd, uint32_t events, void *ud)
{
    (void)fd;
    (void)events;
    struct endpoint *e = ud;
    e->is_due = true;
}

/* Milliseconds until this daemon must run again, -1: when something happens. */
static int endpoint_run(struct endpoint *e, int64_t now)
{
    if (e->is_due || now >= e->due_ms) {
        e->is_due = false;
        (void)MHD_run(e->mhd); /* fails only for a daemon in another mode */
        MHD_UNSIGNED_LONG_LONG ms = 0;
        e->due_ms = MHD_get_timeout(e->mhd, &ms) == MHD_YES ? now + (int64_t)ms : INT64_MAX;
    }
    if (e->is_due) {
        return 0;
    }
    return e->due_ms == INT64_MAX ? -1 : e->due_ms <= now ? 0 : (int)(e->due_ms - now);
}

static int on_turn(void *ud)
{
    struct worker *w = ud;
    int64_t now = loop_now_ms(w->loop);
    int wait = -1;
    for (unsigned i = 0; i < w->n_endpoints; i++) {
        int ms = endpoint_run(&w->endpoints[i], now);
        if (ms >= 0 && (wait < 0 || ms < wait)) {
            wait = ms;
        }
    }
    return wait;
}

static bool fail(struct failure *f, const char *what)
{
    return failure_set(f, 500, "cannot_start", NULL, "%s: %s", what, strerror(errno));
}

/* Takes listen_fd over, also on failure. */
static bool endpoint_add(struct worker *w, int listen_fd, struct failure *f)
{
    if (w->n_endpoints == WORKER_ENDPOINTS_MAX) {
        (void)close(listen_fd);
        return failure_set(f, 500, "cannot_start", NULL,
                           "more than %d listening sockets; configure fewer", WORKER_ENDPOINTS_MAX);
    }
    struct endpoint *e = &w->endpoints[w->n_endpoints];
    *e =
        (struct endpoint){.worker = w, .listen_fd = listen_fd, .is_due = true, .due_ms = INT64_MAX};
    unsigned connections_max = 2 * w->shared->o.in_flight_max + 256;
    /* Strictness of the library is off because its refusals are HTML or a silent close: http.h
       does the same with an answer. */
    e->mhd = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, conn_on_request, e,
        MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_CONNECTION_LIMIT, connections_max, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS,
        MHD_OPTION_NOTIFY_COMPLETED, conn_on_completed, e, MHD_OPTION_NOTIFY_CONNECTION,
        conn_on_socket, e, MHD_OPTION_URI_LOG_CALLBACK, conn_on_uri, e,
        MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
    if (!e->mhd) {
        (void)close(listen_fd);
        return fail(f, "cannot start the http library");
    }
    w->n_endpoints++;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(e->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    e->epoll_fd = info ? info->epoll_fd : -1;
    if (e->epoll_fd < 0 || !loop_watch(w->loop, e->epoll_fd, EPOLLIN, on_daemon_ready, e)) {
        return fail(f, "cannot watch the http library");
    }
    return true;
}

static void worker_quiesce(struct worker *w)
{
    for (unsigned i = 0; i < w->n_endpoints; i++) {
        struct endpoint *e = &w->endpoints[i];
        if (e->listen_fd >= 0) {
            (void)MHD_quiesce_daemon(e->mhd); /* hands the descriptor back */
            (void)close(e->listen_fd);
            e->listen_fd = -1;
        }
    }
    peers_close_idle(&w->peers);
}

/* The loop has ended, or never ran. */
static void worker_release(struct worker *w)
{
    conn_abort_all(w); /* the library refuses to stop with suspended connections */
    for (unsigned i = 0; i < w->n_endpoints; i++) {
        struct endpoint *e = &w->endpoints[i];
        (void)MHD_run(e->mhd);
        loop_unwatch(w->loop, e->epoll_fd);
        MHD_stop_daemon(e->mhd); /* closes the listening socket, unless it was quiesced */
    }
    conn_free_all(w);
    peers_release(&w->peers);
    loop_free(w->loop);
}

static void *worker_main(void *ud)
{
    struct worker *w = ud;
    const struct server_options *o = &w->shared->o;
    if (o->loop_begin) {
        o->loop_begin(w->loop, w->index, o->ud);
    }
    loop_run(w->loop);
    conn_abort_all(w);
    (void)on_turn(w);
    if (o->loop_end) {
        o->loop_end(w->loop, w->index, o->ud);
    }
    return NULL;
}

/* ---- start */

static bool worker_listen(struct server *s, struct worker *w, struct failure *f)
{
    const struct server_options *o = &s->shared.o;
    for (unsigned i = 0; i < o->n_adopted; i++) {
        int fd = fcntl(o->adopted_fds[i], F_DUPFD_CLOEXEC, 0);
        if (fd < 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
            int err = errno;
            if (fd >= 0) {
                (void)close(fd);
            }
            errno = err;
            return fail(f, "cannot use an adopted socket");
        }
        if (!endpoint_add(w, fd, f)) {
            return false;
        }
    }
    if (o->n_adopted == 0 && o->listen) {
        int fd = listen_tcp(o->listen, o->n_loops > 1, &s->port, f);
        if (fd < 0 || !endpoint_add(w, fd, f)) {
            return false;
        }
    }
    if (w->index > 0 || !o->socket_path) {
        return true;
    }
    int fd = listen_unix(o->socket_path, f);
    if (fd < 0) {
        return false;
    }
    s->socket_path =
        strdup(o->socket_path); /* without memory the file stays; the next start replaces it */
    return endpoint_add(w, fd, f);
}

static bool worker_init(struct server *s, unsigned index, struct failure *f)
{
    struct worker *w = &s->workers[index];
    *w = (struct worker){.shared = &s->shared, .index = index};
    if (!loop_new(&w->loop)) {
        return fail(f, "cannot make an event loop");
    }
    s->n_workers = index + 1;
    w->peers = (struct peers){
        .loop = w->loop, .header_ms = s->shared.o.header_ms, .body_ms = s->shared.o.body_ms};
    if (!loop_on_turn(w->loop, on_turn, w)) {
        return fail(f, "cannot use an event loop");
    }
    return worker_listen(s, w, f);
}

static bool thread_start(struct server *s, unsigned i, struct failure *f)
{
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* the new thread inherits it */
    int rc = pthread_create(&s->threads[i], NULL, worker_main, &s->workers[i]);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        errno = rc;
        return fail(f, "cannot start a thread");
    }
    s->states[i] = THREAD_RUNNING;
    return true;
}

static void set_options(struct server_options *to, const struct server_options *from)
{
    *to = *from;
    to->n_loops = to->n_loops ? to->n_loops : 1;
    to->body_bytes_max = to->body_bytes_max ? to->body_bytes_max : LIMIT_BODY_BYTES;
    to->in_flight_max = to->in_flight_max ? to->in_flight_max : LIMIT_IN_FLIGHT;
    to->header_ms = to->header_ms ? to->header_ms : LIMIT_HEADER_SECONDS * 1000;
    to->body_ms = to->body_ms ? to->body_ms : LIMIT_BODY_SECONDS * 1000;
}

bool server_start(struct server **out, const struct server_options *o, struct failure *f)
{
    struct server *s = calloc(1, sizeof *s);
    if (!s) {
        return fail(f, "cannot start the server");
    }
    set_options(&s->shared.o, o);
    unsigned n = s->shared.o.n_loops;
    s->workers = calloc(n, sizeof *s->workers);
    s->threads = calloc(n, sizeof *s->threads);
    s->states = calloc(n, sizeof *s->states);
    bool ok = s->workers && s->threads && s->states;
    if (!ok) {
        (void)fail(f, "cannot start the server");
    }
    for (unsigned i = 0; ok && i < n; i++) {
        ok = worker_init(s, i, f);
    }
    for (unsigned i = 0; ok && i < n; i++) {
        ok = thread_start(s, i, f);
    }
    if (!ok) {
        server_stop(s, 0);
        return false;
    }
    s->shared.o.listen = NULL; /* borrowed until here */
    s->shared.o.socket_path = NULL;
    s->shared.o.adopted_fds = NULL;
    *out = s;
    return true;
}

/* ---- stop */

static void on_quiesce(void *ud)
{
    worker_quiesce(ud);
}

static void on_abort(void *ud)
{
    conn_abort_all(ud);
}

/* On each loop's thread; the nodes are in use until the loops have ended. */
static void post_all(struct server *s, struct loop_post *nodes, void (*fn)(void *ud))
{
    for (unsigned i = 0; i < s->n_workers; i++) {
        if (s->states[i] == THREAD_RUNNING) {
            nodes[i] = (struct loop_post){.fn = fn, .ud = &s->workers[i]};
            loop_post(s->workers[i].loop, &nodes[i]);
        }
    }
}

static int64_t clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* By the clock: on a busy machine a poll of 2 ms takes several times as long. */
static void wait_for_zero(atomic_uint *n, unsigned at_most_ms)
{
    int64_t end = clock_ms() + at_most_ms;
    while (atomic_load(n) > 0 && clock_ms() < end) {
        (void)poll(NULL, 0, 2);
    }
}

static void end_threads(struct server *s)
{
    for (unsigned i = 0; i < s->n_workers; i++) {
        if (s->states[i] == THREAD_RUNNING) {
            loop_stop(s->workers[i].loop);
        }
    }
    for (unsigned i = 0; i < s->n_workers; i++) {
        if (s->states[i] == THREAD_RUNNING) {
            (void)pthread_join(s->threads[i], NULL); /* cannot fail: ours, joined once */
        }
    }
}

void server_halt(struct server *s, unsigned grace_ms)
{
    if (!s || s->is_halted) {
        return;
    }
    s->is_halted = true;
    atomic_store(&s->shared.is_stopping, true);
    struct loop_post *nodes = calloc(2 * (size_t)s->n_workers + 1, sizeof *nodes);
    if (nodes && s->states) {
        post_all(s, nodes, on_quiesce);
        wait_for_zero(&s->shared.n_in_flight, grace_ms);
        post_all(s, nodes + s->n_workers, on_abort);
        wait_for_zero(&s->shared.n_conns, ABORT_GRACE_MS);
    }
    end_threads(s);
    free(nodes);
}

void server_stop(struct server *s, unsigned grace_ms)
{
    if (!s) {
        return;
    }
    server_halt(s, grace_ms);
    for (unsigned i = 0; i < s->n_workers; i++) {
        worker_release(&s->workers[i]);
    }
    if (s->socket_path) {
        (void)unlink(s->socket_path);
    }
    free(s->socket_path);
    free(s->workers);
    free(s->threads);
    free(s->states);
    free(s);
}

unsigned server_port(const struct server *s)
{
    return s->port;
}

unsigned server_in_flight(const struct server *s)
{
    return atomic_load(&s->shared.n_in_flight);
}

struct loop *server_loop(const struct server *s, unsigned index)
{
    return s->workers[index].loop;
}
