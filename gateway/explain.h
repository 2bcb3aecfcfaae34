/* explain.h - what would be sent, without sending it: steps 3 to 6 for one or many targets. Pure
 * but for memory; used by POST /v1/explain and by `isothermctl explain`.
 */
#ifndef ISOTHERM_EXPLAIN_H
#define ISOTHERM_EXPLAIN_H

#include "prepare.h"

/* `body`: a chat (or completions) request, optionally with `targets: [model...]`, which then
 * replace its model. Answers {"plans":[...]}; NULL and a failure when the body itself is wrong
 * (what is wrong for one target only is that plan's `error`). A plan holds the first `request`, and
 * all of them as `requests` where it takes several calls. Yours. */
json_t *explain_body(const struct prepare_env *env, struct slice body, struct failure *f);

#endif
