/* repeating.h - pieces of a text that may repeat all that came before them. Pure.
 *
 * DashScope was asked for pieces, and some of its models send the whole text so far each time: "A",
 * "A quiet", "A quiet lake". Nothing says which it is, so it is seen from the pieces: while each
 * one begins with the one before it nothing more is given out, until it is clear.
 */
#ifndef ISOTHERM_REPEATING_H
#define ISOTHERM_REPEATING_H

#include "gateway/base/buf.h"

enum repeating_pace {
    REPEATING_UNKNOWN,
    REPEATING_NOT, /* each piece is new */
    REPEATING_ALL, /* each piece begins with all that was before it */
};
struct repeating {
    struct buf last; /* the newest piece */
    struct buf held; /* all pieces after the first that were not given out */
    struct buf out;
    size_t n_given; /* bytes given out */
    unsigned n_pieces, n_longer;
};
void repeating_init(struct repeating *r);
void repeating_release(struct repeating *r);
/* What is new in `piece` -> *fresh, valid until the next call; may be empty. *pace: what is known
 * of the stream, by any of its texts. false: no memory, or a text that changed what it had said. */
bool repeating_take(struct repeating *r, enum repeating_pace *pace, struct slice piece,
                    struct slice *fresh) __attribute__((warn_unused_result));
/* The text has ended: what was held back. */
bool repeating_end(struct repeating *r, enum repeating_pace pace, struct slice *fresh)
    __attribute__((warn_unused_result));

#endif
