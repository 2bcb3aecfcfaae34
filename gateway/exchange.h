/* exchange.h - the path of one request, from the read body to the last byte of its answer.
 *
 * exchange_start() runs the table of steps in exchange.c. The exchange owns the request, the plan,
 * the answer and the buffers and releases them in one place; it keeps the catalog snapshot that it
 * began with.
 */
#ifndef ISOTHERM_EXCHANGE_H
#define ISOTHERM_EXCHANGE_H

#include "gateway.h"

/* Answers the request on `c`; never fails to answer. */
void exchange_start(struct gateway *g, struct conn *c, enum request_kind kind);

/* An error body, for the endpoints off the main path too. request_id and `isotherm` may be NULL. */
void exchange_reply_failure(struct conn *c, const struct failure *f, const char *request_id,
                            json_t *isotherm);

#endif
