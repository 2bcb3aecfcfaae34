/* turns.h - OpenAI's messages -> turns that alternate and begin with the user, and one system text.
 * Pure.
 *
 * What OpenAI spreads over several messages (two user messages in a row, the results of several
 * calls) are blocks of one turn; a turn of one text block holds a plain string. Nothing of the
 * content is lost: what cannot be said is a 400, what is changed is an adjustment.
 */
#ifndef ISOTHERM_TURNS_H
#define ISOTHERM_TURNS_H

#include "backend.h"

struct turns {
    json_t *list;      /* [{role, content}] */
    struct buf system; /* leading system and developer messages, joined by blank lines */
};
void turns_init(struct turns *t);
void turns_release(struct turns *t);
bool turns_build(struct turns *t, const struct call *c, struct failure *f)
    __attribute__((warn_unused_result));

#endif
