/* items.h - chat messages -> the input items of the Responses API, and its flat tools. Pure.
 *
 * A message is an item, each of its tool calls another one after it, a tool's result one of its
 * own. System messages at the beginning become `instructions` where the claim about them says so;
 * others keep their place and role. What cannot be said is a 400, what is changed an adjustment.
 */
#ifndef ISOTHERM_ITEMS_H
#define ISOTHERM_ITEMS_H

#include "backend.h"

struct items {
    json_t *list; /* of `input` */
    struct buf instructions;
};
void items_init(struct items *t);
void items_release(struct items *t);
bool items_build(struct items *t, const struct call *c, struct failure *f)
    __attribute__((warn_unused_result));

/* tools and tool_choice in the flat form. New references; NULL: failure set. */
json_t *items_tools(const json_t *tools, struct failure *f);
json_t *items_tool_choice(const json_t *choice, struct failure *f);

#endif
