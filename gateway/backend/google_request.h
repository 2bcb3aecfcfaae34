/* google_request.h - a call in the words of generateContent: for google.c alone. The functions are
 * those of struct backend. */
#ifndef ISOTHERM_GOOGLE_REQUEST_H
#define ISOTHERM_GOOGLE_REQUEST_H

#include "backend.h"

bool google_request_encode(const struct call *c, struct buf *body, struct headers *h,
                           struct failure *f) __attribute__((warn_unused_result));
bool google_request_shape(const struct call *c, enum param p, json_t **value, const char **path,
                          struct failure *f) __attribute__((warn_unused_result));

#endif
