/* schedule.h - the one thread of isotherm-engine that owns all engines: frames in, batches, frames
 * out.
 *
 * It waits only when there is nothing to compute, or when the daemon does not take what was
 * computed. Requests beyond an engine's sessions or its memory for keys and values wait in order,
 * and so do those for a model that is not loaded. A cancel is seen between two steps.
 */
#ifndef ISOTHERM_SCHEDULE_H
#define ISOTHERM_SCHEDULE_H

#include "models.h"

struct schedule;
/* fd: the daemon's socket, or any stream for both directions; becomes non-blocking. */
ENGINE_WARN_UNUSED bool schedule_new(struct schedule **out, int fd, const struct models_options *o,
                                     struct engine_error *err);
void schedule_free(struct schedule *s);
/* See models_add(); the ready frame tells what is FAILED. The first one is loaded at once, the
 * others when they are wanted. */
ENGINE_WARN_UNUSED bool schedule_add_model(struct schedule *s, const char *spec,
                                           struct engine_error *err);
/* Says ready and serves until the other side closes (true), or breaks the rules of frames or memory
 * runs out (false). Opens nothing. */
ENGINE_WARN_UNUSED bool schedule_run(struct schedule *s, struct engine_error *err);

#endif
