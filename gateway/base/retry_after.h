/* retry_after.h - when a provider says that it is worth another try. Pure. */
#ifndef ISOTHERM_RETRY_AFTER_H
#define ISOTHERM_RETRY_AFTER_H

#include <stdint.h>

/* The value of a Retry-After header, or a number's text out of a body: seconds, or an HTTP date.
 * now_ms: since 1970; -1: there is no clock, so that a date cannot be told. At most a day; -1:
 * neither, or NULL. */
int64_t retry_after_ms(const char *text, int64_t now_ms);

#endif
