/* outbox.h - frames on their way out through a non-blocking descriptor.
 *
 * Nothing here waits. Who makes frames asks outbox_len() and makes no more while too much is
 * waiting: that is how a reader that is slow slows down what it reads, without stopping it for
 * ever.
 */
#ifndef ISOTHERM_OUTBOX_H
#define ISOTHERM_OUTBOX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct outbox {
    char *p;
    size_t at, len, cap; /* what waits: p[at .. len) */
    bool is_broken; /* the descriptor failed, or memory ran out in the middle of an answer: nothing
                       more can be said */
};

/* A zeroed one is ready. */
void outbox_release(struct outbox *o);
/* Adds a frame; `object` is taken over. NULL (an object that could not be made) breaks the outbox.
 * false: the frame is too long and was not added; the outbox is as before. */
bool outbox_put(struct outbox *o, json_t *object);
size_t outbox_len(const struct outbox *o);
/* Writes what the descriptor takes now. SIGPIPE must be ignored. */
void outbox_flush(struct outbox *o, int fd);

#endif
