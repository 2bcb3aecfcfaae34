/* How it works: a table indexed by descriptor says whom an event is for; a generation in each entry
 * (and in the kernel's copy) keeps an event of the same batch from reaching a descriptor that was
 * closed and opened again by an earlier callback. Timers are a binary heap of pointers into their
 * owners. Other threads append to a list under a mutex and ring an eventfd, only when the list was
 * empty.
 *
 * Order of one turn: wait, events, timers, posted work, on_turn functions. What a callback posts or
 * arms for now runs in the next turn, so no callback can keep the descriptors waiting.
 */
#include "loop.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_PER_WAIT 64
#define TURN_FNS_MAX    8
#define WAIT_MAX_MS     (60 * 60 * 1000)

struct watch {
    loop_fd_fn *fn; /* NULL: not watched */
    void *ud;
    uint32_t generation;
};

struct turn_fn {
    loop_turn_fn *fn;
    void *ud;
};

struct loop {
    int epoll_fd, wake_fd;
    int64_t now_ms;
    struct watch *watches;
    size_t watches_cap;
    struct loop_timer **heap;
    size_t n_heap, heap_cap;
    struct turn_fn turns[TURN_FNS_MAX];
    size_t n_turns;
    atomic_bool is_stopping;
    pthread_mutex_t lock; /* of the list below */
    struct loop_post *post_first, **post_last;
};

int64_t loop_clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- descriptors */

static bool watches_reserve(struct loop *l, size_t fd)
{
    if (fd < l->watches_cap) {
        return true;
    }
    size_t cap = l->watches_cap ? l->watches_cap : 64;
    while (cap <= fd) {
        cap *= 2;
    }
    struct watch *w = realloc(l->watches, cap * sizeof *w);
    if (!w) {
        return false;
    }
    memset(w + l->watches_cap, 0, (cap - l->watches_cap) * sizeof *w);
    l->watches = w;
    l->watches_cap = cap;
    return true;
}

bool loop_watch(struct loop *l, int fd, uint32_t events, loop_fd_fn *fn, void *ud)
{
    assert(fd >= 0 && fn);
    if (!watches_reserve(l, (size_t)fd)) {
        return false;
    }
    struct watch *w = &l->watches[fd];
    uint32_t generation = w->fn ? w->generation : w->generation + 1;
    struct epoll_event ev = {.events = events,
                             .data.u64 = (uint64_t)generation << 32 | (uint32_t)fd};
    int rc = epoll_ctl(l->epoll_fd, w->fn ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev);
    if (rc != 0 && w->fn &&
        errno == ENOENT) { /* closed by its owner without loop_unwatch, and opened again */
        rc = epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
    }
    if (rc != 0) {
        return false;
    }
    *w = (struct watch){fn, ud, generation};
    return true;
}

void loop_unwatch(struct loop *l, int fd)
{
    if (fd < 0 || (size_t)fd >= l->watches_cap || !l->watches[fd].fn) {
        return;
    }
    l->watches[fd].fn = NULL;
    (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, fd,
                    NULL); /* fails when the descriptor is closed already: gone all the same */
}

static void run_events(struct loop *l, const struct epoll_event *ev, int n)
{
    for (int i = 0; i < n; i++) {
        size_t fd = (uint32_t)ev[i].data.u64;
        const struct watch *w = &l->watches[fd];
        if (w->fn && w->generation == (uint32_t)(ev[i].data.u64 >> 32)) {
            w->fn((int)fd, ev[i].events, w->ud);
        }
    }
}

/* ---- timers: heap[0] is due first; slot is 1 + index */

static void heap_put(struct loop *l, size_t i, struct loop_timer *t)
{
    l->heap[i] = t;
    t->slot = (uint32_t)i + 1;
}

static void heap_up(struct loop *l, size_t i)
{
    struct loop_timer *t = l->heap[i];
    while (i > 0 && l->heap[(i - 1) / 2]->due_ms > t->due_ms) {
        heap_put(l, i, l->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    heap_put(l, i, t);
}

static void heap_down(struct loop *l, size_t i)
{
    struct loop_timer *t = l->heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= l->n_heap) {
            break;
        }
        if (child + 1 < l->n_heap && l->heap[child + 1]->due_ms < l->heap[child]->due_ms) {
            child++;
        }
        if (l->heap[child]->due_ms >= t->due_ms) {
            break;
        }
        heap_put(l, i, l->heap[child]);
        i = child;
    }
    heap_put(l, i, t);
}

static bool heap_add(struct loop *l, struct loop_timer *t)
{
    if (l->n_heap == l->heap_cap) {
        size_t cap = l->heap_cap ? l->heap_cap * 2 : 64;
        struct loop_timer **h = realloc(l->heap, cap * sizeof(*h));
        if (!h) {
            return false;
        }
        l->heap = h;
        l->heap_cap = cap;
    }
    heap_put(l, l->n_heap++, t);
    return true;
}

bool loop_timer_arm(struct loop *l, struct loop_timer *t, int64_t in_ms, loop_timer_fn *fn,
                    void *ud)
{
    assert(fn);
    t->fn = fn;
    t->ud = ud;
    t->due_ms = loop_clock_ms() + (in_ms > 0 ? in_ms : 0);
    if (t->slot == 0 && !heap_add(l, t)) {
        return false;
    }
    heap_up(l, t->slot - 1);
    heap_down(l, t->slot - 1);
    return true;
}

void loop_timer_cancel(struct loop *l, struct loop_timer *t)
{
    if (t->slot == 0) {
        return;
    }
    size_t i = t->slot - 1;
    assert(i < l->n_heap && l->heap[i] == t);
    t->slot = 0;
    struct loop_timer *last = l->heap[--l->n_heap];
    if (last != t) {
        heap_put(l, i, last);
        heap_up(l, i);
        heap_down(l, last->slot - 1);
    }
}

static void run_timers(struct loop *l)
{
    size_t n = l->n_heap; /* a timer that arms itself for now again waits for the next turn */
    while (n-- > 0 && l->n_heap > 0 && l->heap[0]->due_ms <= l->now_ms) {
        struct loop_timer *t = l->heap[0];
        loop_timer_cancel(l, t);
        t->fn(t->ud);
    }
}

/* ---- posted work */

static void wake(struct loop *l)
{
    uint64_t one = 1;
    /* Fails only when the counter is full: then the loop wakes anyway. */
    (void)!write(l->wake_fd, &one, sizeof one);
}

void loop_post(struct loop *l, struct loop_post *p)
{
    p->next = NULL;
    pthread_mutex_lock(&l->lock);
    bool was_empty = !l->post_first;
    *l->post_last = p;
    l->post_last = &p->next;
    pthread_mutex_unlock(&l->lock);
    if (was_empty) {
        wake(l);
    }
}

static void on_wake(int fd, uint32_t events, void *ud)
{
    (void)events;
    (void)ud;
    uint64_t n;
    (void)!read(fd, &n, sizeof n); /* only empties the counter */
}

/* Before whatever has been posted meanwhile. */
static void put_back(struct loop *l, struct loop_post *p)
{
    struct loop_post *last = p;
    while (last->next) {
        last = last->next;
    }
    pthread_mutex_lock(&l->lock);
    last->next = l->post_first;
    if (!l->post_first) {
        l->post_last = &last->next;
    }
    l->post_first = p;
    pthread_mutex_unlock(&l->lock);
    wake(l);
}

static void run_posts(struct loop *l)
{
    pthread_mutex_lock(&l->lock);
    struct loop_post *p = l->post_first;
    l->post_first = NULL;
    l->post_last = &l->post_first;
    pthread_mutex_unlock(&l->lock);
    int64_t began_ms = loop_clock_ms();
    while (p) {
        struct loop_post *next = p->next; /* the node may be gone after its call */
        p->fn(p->ud);
        p = next;
        if (p && loop_clock_ms() - began_ms >= LOOP_SLICE_MS) {
            put_back(l, p);
            return;
        }
    }
}

/* ---- the loop */

bool loop_new(struct loop **out)
{
    struct loop *l = calloc(1, sizeof *l);
    if (!l) {
        return false;
    }
    l->post_last = &l->post_first;
    l->now_ms = loop_clock_ms();
    l->wake_fd = -1;
    pthread_mutex_init(&l->lock, NULL);
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd >= 0) {
        l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    if (l->wake_fd < 0 || !loop_watch(l, l->wake_fd, EPOLLIN, on_wake, NULL)) {
        int err = errno;
        loop_free(l);
        errno = err;
        return false;
    }
    *out = l;
    return true;
}

void loop_free(struct loop *l)
{
    if (!l) {
        return;
    }
    if (l->wake_fd >= 0) {
        (void)close(l->wake_fd);
    }
    if (l->epoll_fd >= 0) {
        (void)close(l->epoll_fd);
    }
    pthread_mutex_destroy(&l->lock);
    free(l->watches);
    free(l->heap);
    free(l);
}

int64_t loop_now_ms(const struct loop *l)
{
    return l->now_ms;
}

bool loop_on_turn(struct loop *l, loop_turn_fn *fn, void *ud)
{
    if (l->n_turns == TURN_FNS_MAX) {
        return false;
    }
    l->turns[l->n_turns++] = (struct turn_fn){fn, ud};
    return true;
}

static int run_turns(struct loop *l)
{
    int wait = -1;
    for (size_t i = 0; i < l->n_turns; i++) {
        int ms = l->turns[i].fn(l->turns[i].ud);
        if (ms >= 0 && (wait < 0 || ms < wait)) {
            wait = ms;
        }
    }
    return wait;
}

/* How long to wait: the shortest of what the turn functions allow and the first timer. Posted
   work rings the eventfd. */
static int wait_ms(const struct loop *l, int turn_ms)
{
    if (l->n_heap == 0) {
        return turn_ms;
    }
    int64_t ms = l->heap[0]->due_ms - loop_clock_ms();
    ms = ms < 0 ? 0 : ms > WAIT_MAX_MS ? WAIT_MAX_MS : ms;
    return turn_ms >= 0 && turn_ms < ms ? turn_ms : (int)ms;
}

void loop_run(struct loop *l)
{
    struct epoll_event ev[EVENTS_PER_WAIT];
    int turn_ms = run_turns(l);
    while (!atomic_load(&l->is_stopping)) {
        int n = epoll_wait(l->epoll_fd, ev, EVENTS_PER_WAIT, wait_ms(l, turn_ms));
        l->now_ms = loop_clock_ms();
        run_events(l, ev, n); /* n is -1 after a signal */
        run_timers(l);
        run_posts(l);
        turn_ms = run_turns(l);
    }
    atomic_store(&l->is_stopping, false);
}

void loop_stop(struct loop *l)
{
    int err = errno; /* may be called from a signal handler */
    atomic_store(&l->is_stopping, true);
    wake(l);
    errno = err;
}
