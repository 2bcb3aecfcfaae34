/* loop.h - one event loop: an epoll, timers and work posted by other threads. Everything in io/
 * that waits, waits here.
 *
 * A loop belongs to one thread; only loop_post() and loop_stop() may be called by another.
 * Callbacks may add and remove anything.
 */
#ifndef ISOTHERM_LOOP_H
#define ISOTHERM_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
bool loop_new(struct loop **out) __attribute__((warn_unused_result)); /* false: errno says why */
void loop_free(struct loop *l);

typedef void loop_fd_fn(int fd, uint32_t events, void *ud);
/* Watches fd for EPOLL* events (level-triggered unless EPOLLET is given); again for the same fd
   changes events and callback. */
bool loop_watch(struct loop *l, int fd, uint32_t events, loop_fd_fn *fn, void *ud)
    __attribute__((warn_unused_result));
void loop_unwatch(struct loop *l, int fd);

/* A timer is embedded in its owner; zeroed is unarmed. Arming an armed one moves it. O(log n). */
typedef void loop_timer_fn(void *ud);
struct loop_timer {
    loop_timer_fn *fn;
    void *ud;
    int64_t due_ms;
    uint32_t slot; /* 1 + place in the heap, 0: unarmed */
};
bool loop_timer_arm(struct loop *l, struct loop_timer *t, int64_t in_ms, loop_timer_fn *fn,
                    void *ud);
void loop_timer_cancel(struct loop *l, struct loop_timer *t);

/* Runs fn on the loop's thread soon, in order; what a turn has no time for waits for the next one,
   so that others are heard between. Any thread. The node is the caller's, in use until fn is
   called. */
struct loop_post {
    struct loop_post *next;
    void (*fn)(void *ud);
    void *ud;
};
void loop_post(struct loop *l, struct loop_post *p);

int64_t loop_now_ms(const struct loop *l); /* monotonic, read once a turn */
/* How long one part of a turn may take before what can wait is left for the next turn. */
#define LOOP_SLICE_MS 20
int64_t loop_clock_ms(void);    /* the same clock, read now */
void loop_run(struct loop *l);  /* until loop_stop */
void loop_stop(struct loop *l); /* any thread, async-signal-safe */
/* Called once a turn after the events, before waiting (the HTTP library and curl need a run).
   Returns the longest wait in ms, -1: no matter. */
typedef int loop_turn_fn(void *ud);
bool loop_on_turn(struct loop *l, loop_turn_fn *fn, void *ud);

#endif
