/* mock_send.h - an answer on its way: whole or in pieces; late, slow, cut, broken where the script
 * says so.
 */
#ifndef ISOTHERM_MOCK_SEND_H
#define ISOTHERM_MOCK_SEND_H

#include "gateway/io/server.h"
#include "mock_answer.h"

/* Everything that one request comes to. Takes over `body` and `made`; the rest is by value. */
struct mock_talk {
    struct conn *conn; /* gone once it was answered */
    struct loop *loop;
    const struct mock_dialect *dialect;
    struct mock_script script;
    struct mock_made made;
    json_t *body;             /* what `made` borrows from */
    char model[257];          /* so with this one */
    const char *content_type; /* of the stream */
    struct mock_error error;  /* fault other than NONE: this is answered; else it is what a stream
                                 that fails says */
    bool ends_broken;         /* an error in a stream is followed by a broken connection */
    /* private to mock_send.c */
    struct loop_timer timer;
    struct buf event;
    size_t i, at; /* next event; byte of `event` that leaves next */
    bool is_gone, has_begun, has_said_two, is_last;
};

/* Zeroed, on the heap; NULL: memory. */
struct mock_talk *mock_talk_new(struct conn *c);
/* Answers, and frees the talk when it has ended. */
void mock_talk_start(struct mock_talk *t);
#endif
