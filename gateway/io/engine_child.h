/* engine_child.h - isotherm-engine as a child process: start, watch, restart, frames.
 *
 * One child, one socket, one loop that owns it (loop 0); calls come from any loop and their events
 * are delivered on the loop of the call. The child is exec'd by name with a cleared environment,
 * one socket (descriptor 3), its own session, rlimits, no new privileges; it installs its own
 * seccomp filter after loading. A crash or kill fails its calls with 503 engine_restarting and it
 * is started again: at once the first time, then with a delay that doubles to 5 s while it keeps
 * dying young (under 10 s).
 */
#ifndef ISOTHERM_ENGINE_CHILD_H
#define ISOTHERM_ENGINE_CHILD_H

#include "gateway/base/failure.h"
#include "loop.h"
#include <jansson.h>

struct engine_child;
struct engine_call;

struct engine_child_options {
    const char *program; /* path of isotherm-engine */
    const char *const *models;
    unsigned n_models;       /* "name=folder" each */
    unsigned threads;        /* 0: the engine's choice */
    int64_t memory_max;      /* bytes for all loaded models; 0: no limit */
    const char *known;       /* where hashes of weights are kept (known_file.h) */
    const char *speculation; /* a word of isotherm-engine's option; NULL: its default */
    unsigned queue_max;      /* calls at once; the next one fails with 503 */
    struct loop *loop;       /* that owns the child; must not run yet, or call from its thread */
};
/* Fails when the program cannot be started at all; a model that cannot be loaded is "failed". */
bool engine_child_start(struct engine_child **out, const struct engine_child_options *o,
                        struct failure *f) __attribute__((warn_unused_result));
void engine_child_stop(struct engine_child *e); /* after the loops have ended */

/* Thread-safe. */
bool engine_child_is_ready(struct engine_child *e);
int engine_child_pid(struct engine_child *e); /* -1: none is running */
/* What is known of a model: {"state" (link.h, or "starting" while the engine does), "bytes",
 * "memory", "error"}, where null is what nobody has said; yours. NULL: out of memory. */
json_t *engine_child_model(struct engine_child *e, const char *name);

/* Events on `loop`, the loop of the caller. on_frame: the frame's JSON, borrowed, also that of
 * "done", but not of "ready" and "error". on_end: exactly once after done, error (f is made of its
 * words) or death; f NULL after "done"; then the call is gone. None after engine_call_cancel(),
 * which may be called in on_frame. Calls that have not ended must be cancelled before
 * engine_child_stop(), or forgotten with it. */
struct engine_events {
    void (*on_frame)(const json_t *frame, void *ud);
    void (*on_end)(const struct failure *f, void *ud);
};
/* `frame` is the generate (or tokenize) object without id; borrowed. 503 engine_restarting: not
 * ready; 503 engine_busy: queue_max. */
bool engine_call_start(struct engine_child *e, struct loop *loop, json_t *frame,
                       const struct engine_events *ev, void *ud, struct engine_call **out,
                       struct failure *f) __attribute__((warn_unused_result));
void engine_call_cancel(struct engine_call *c); /* from the call's loop; NULL allowed */

#endif
