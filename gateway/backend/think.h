/* think.h - reasoning that stands in the text itself: "<think>...</think>answer" -> reasoning and
 * text, in pieces of any size. Pure, no memory.
 *
 * Only a text that begins with the tag has reasoning in it. Blanks right after either tag are left
 * out, all other bytes come out exactly once and in order.
 */
#ifndef ISOTHERM_THINK_H
#define ISOTHERM_THINK_H

#include "gateway/base/buf.h"

struct think {
    enum think_at { THINK_START, THINK_INSIDE, THINK_AFTER } at;
    unsigned matched; /* bytes of the tag that is looked for, held back */
    bool is_trimming; /* blanks are left out */
};
/* false: stop. */
typedef bool think_fn(struct slice text, bool is_reasoning, void *ud);

bool think_feed(struct think *t, struct slice piece, think_fn *fn, void *ud);
/* The text has ended: what looked like the beginning of a tag was none. */
bool think_end(struct think *t, think_fn *fn, void *ud);

#endif
