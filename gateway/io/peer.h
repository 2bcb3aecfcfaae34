/* peer.h - accepted sockets and the deadlines of whoever is at the other end. Private to conn.c.
 *
 * The HTTP library counts silence only, so a client that sends a byte now and then could hold a
 * socket for ever; here the time for a head and for a body is absolute. A socket that was refused
 * while its peer was still sending is read on for a while after its close, or the kernel's reset
 * would take the refusal away before the peer has read it.
 */
#ifndef ISOTHERM_PEER_H
#define ISOTHERM_PEER_H

#include "loop.h"

struct conn;
struct peer_linger;

struct peers { /* of one loop */
    struct loop *loop;
    unsigned header_ms, body_ms;
    struct peer *first;
    struct peer_linger *lingers;
};

enum peer_phase { PEER_HEADER, PEER_BODY, PEER_ANSWER, PEER_IDLE, PEER_IDLE_WATCHED };

struct peer {
    struct peers *all;
    struct peer *prev, *next;
    struct conn *conn; /* the request being read or answered */
    int fd;            /* the library's; valid between new and free */
    enum peer_phase phase;
    bool is_lingering; /* read on after the close */
    struct loop_timer deadline;
};

/* NULL: memory. Starts with PEER_HEADER. */
struct peer *peer_new(struct peers *all, int fd);
void peer_free(struct peer *p);
/* PEER_HEADER, PEER_BODY: until the deadline, which answers 408 and closes. PEER_ANSWER: no
 * limit. PEER_IDLE: the next request may come; from its first bytes on it has PEER_HEADER's
 * time. */
void peer_enter(struct peer *p, enum peer_phase phase);
/* Answers past the library, in the middle of a request, while nothing of an answer was sent. The
   caller then closes. */
void peer_refuse(struct peer *p, int status, const char *code, const char *message);
void peers_close_idle(struct peers *all);
void peers_release(
    struct peers *all); /* the sockets read on after their close; the others are gone by then */

#endif
