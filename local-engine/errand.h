/* errand.h - one thing at a time done on another thread, whose end a descriptor tells.
 *
 * The thread is there from the beginning, for a process that gives up making threads. One thread
 * owns an errand.
 */
#ifndef ISOTHERM_ERRAND_H
#define ISOTHERM_ERRAND_H

#include "engine_error.h"

struct errand;
typedef void errand_fn(void *arg);

ENGINE_WARN_UNUSED bool errand_new(struct errand **out, struct engine_error *err);
/* Waits for what is being done. */
void errand_free(struct errand *e);
/* Readable once the thing is done, until errand_take(). */
int errand_fd(const struct errand *e);
/* Nothing may be under way. What the caller wrote before is seen by fn, and what fn wrote is seen
 * after errand_take(). */
void errand_start(struct errand *e, errand_fn *fn, void *arg);
/* true, once: the thing is done, and the next one may be started. */
bool errand_take(struct errand *e);

#endif
