/* schedule.h - the one thread of isotherm-engine that owns all engines: frames in, batches, frames
 * out.
 *
 * It waits only when there is nothing to compute, or when the daemon does not take what was
 * computed. Requests beyond an engine's sessions or its memory for keys and values wait in order. A
 * cancel is seen between two steps.
 */
#ifndef ISOTHERM_SCHEDULE_H
#define ISOTHERM_SCHEDULE_H

#include "engine_error.h"

#define SCHEDULE_MODELS_MAX 64

struct schedule;
/* fd: the daemon's socket, or any stream for both directions; becomes non-blocking. n_threads 0:
 * the engine's choice. */
ENGINE_WARN_UNUSED bool schedule_new(struct schedule **out, int fd, int n_threads,
                                     struct engine_error *err);
void schedule_free(struct schedule *s);
/* "NAME=FOLDER" or "NAME=FOLDER?template=plain&kv_type=f16&kv_memory=1000000", with any of the
 * three. A model that cannot be loaded is no failure: the ready frame tells why. false: the text
 * has another form, the name is there already, or memory. */
ENGINE_WARN_UNUSED bool schedule_add_model(struct schedule *s, const char *spec,
                                           struct engine_error *err);
/* Says ready and serves until the other side closes (true), or breaks the rules of frames or memory
 * runs out (false). Opens nothing. */
ENGINE_WARN_UNUSED bool schedule_run(struct schedule *s, struct engine_error *err);

#endif
