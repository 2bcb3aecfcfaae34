/* How it works: one timer for each socket. Between requests nobody tells when the next one's first
 * byte arrives, and a watch for it would cost each request two system calls; so only a socket that
 * has been idle for the header's time is watched for input. Silence itself is ended by the library.
 */
#include "peer.h"

#include "gateway/base/buf.h"
#include "gateway/base/failure.h"
#include "http.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_MS  1000
#define SINK_BYTES 65536

struct peer_linger {
    struct peers *all;
    struct peer_linger *prev, *next;
    int fd; /* a duplicate: outlives the library's */
    struct loop_timer deadline;
};

static void on_idle_input(int fd, uint32_t events, void *ud)
{
    (void)fd;
    (void)events;
    peer_enter(ud, PEER_HEADER);
}

static void on_deadline(void *ud)
{
    struct peer *p = ud;
    if (p->phase == PEER_IDLE) {
        if (loop_watch(p->all->loop, p->fd, EPOLLIN | EPOLLRDHUP, on_idle_input, p)) {
            p->phase = PEER_IDLE_WATCHED;
        }
        return;
    }
    if (p->conn) {
        peer_refuse(p, 408, "request_timeout",
                    "the request did not arrive in time; send it in one go");
    }
    (void)shutdown(p->fd, p->conn ? SHUT_RD : SHUT_RDWR); /* the library reads an end and closes */
}

void peer_enter(struct peer *p, enum peer_phase phase)
{
    struct loop *l = p->all->loop;
    if (p->phase == PEER_IDLE_WATCHED) {
        loop_unwatch(l, p->fd);
    }
    p->phase = phase;
    if (phase == PEER_ANSWER) {
        loop_timer_cancel(l, &p->deadline);
        return;
    }
    unsigned ms = phase == PEER_BODY ? p->all->body_ms : p->all->header_ms;
    if (!loop_timer_arm(l, &p->deadline, ms, on_deadline, p)) {
        (void)shutdown(p->fd, SHUT_RDWR); /* no memory for a deadline: no connection */
    }
}

struct peer *peer_new(struct peers *all, int fd)
{
    struct peer *p = calloc(1, sizeof *p);
    if (!p) {
        (void)shutdown(fd, SHUT_RDWR);
        return NULL;
    }
    *p = (struct peer){.all = all, .fd = fd, .next = all->first};
    if (all->first) {
        all->first->prev = p;
    }
    all->first = p;
    peer_enter(p, PEER_HEADER);
    return p;
}

void peer_refuse(struct peer *p, int status, const char *code, const char *message)
{
    struct failure f = {0};
    (void)failure_set(&f, status, code, NULL, "%s", message);
    struct buf b;
    buf_init(&b, 8192);
    if (http_error_answer(&b, &f)) {
        /* An unused socket buffer takes it whole; if not, the peer only misses the reason. */
        (void)send(p->fd, b.p, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    buf_release(&b);
    p->is_lingering = true;
}

/* ---- after the close */

static void linger_free(struct peer_linger *g)
{
    struct peers *all = g->all;
    loop_unwatch(all->loop, g->fd);
    loop_timer_cancel(all->loop, &g->deadline);
    (void)close(g->fd);
    *(g->prev ? &g->prev->next : &all->lingers) = g->next;
    if (g->next) {
        g->next->prev = g->prev;
    }
    free(g);
}

static void on_linger_deadline(void *ud)
{
    linger_free(ud);
}

static void on_linger_input(int fd, uint32_t events, void *ud)
{
    char sink[SINK_BYTES];
    ssize_t n = recv(fd, sink, sizeof sink, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && (events & (EPOLLERR | EPOLLHUP)))) {
        linger_free(ud);
    }
}

static void linger_new(struct peers *all, int peer_fd)
{
    struct peer_linger *g = calloc(1, sizeof *g);
    int fd = g ? fcntl(peer_fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd < 0) {
        free(g);
        return;
    }
    *g = (struct peer_linger){.all = all, .fd = fd, .next = all->lingers};
    if (all->lingers) {
        all->lingers->prev = g;
    }
    all->lingers = g;
    (void)shutdown(fd, SHUT_WR);
    if (!loop_watch(all->loop, fd, EPOLLIN, on_linger_input, g) ||
        !loop_timer_arm(all->loop, &g->deadline, LINGER_MS, on_linger_deadline, g)) {
        linger_free(g);
    }
}

void peer_free(struct peer *p)
{
    if (!p) {
        return;
    }
    struct peers *all = p->all;
    peer_enter(p, PEER_ANSWER);
    if (p->is_lingering) {
        linger_new(all, p->fd);
    }
    *(p->prev ? &p->prev->next : &all->first) = p->next;
    if (p->next) {
        p->next->prev = p->prev;
    }
    free(p);
}

void peers_close_idle(struct peers *all)
{
    for (struct peer *p = all->first; p; p = p->next) {
        if (!p->conn) {
            (void)shutdown(p->fd, SHUT_RDWR);
        }
    }
}

void peers_release(struct peers *all)
{
    while (all->lingers) {
        linger_free(all->lingers);
    }
}
