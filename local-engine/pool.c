/* pool.c - items are taken from one 64-bit ticket: the job's number above, the next item below.
 *
 * A thread reads the ticket, then the job, then takes the item by compare-and-swap. The swap
 * fails when the job has changed meanwhile, so what it read belongs to the item it got, and the
 * caller need not wait for threads that sleep through a job. Threads spin a little between jobs,
 * because a forward pass is some hundred jobs of microseconds, then sleep.
 */
#include "pool.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define SPINS 4000 /* about 50 us */

struct pool {
    atomic_uint_fast64_t ticket; /* job number << 32 | next item */
    atomic_size_t n_items;
    _Atomic(pool_fn *) fn;
    _Atomic(void *) arg;
    atomic_size_t n_left; /* items not finished */
    atomic_int n_asleep;
    atomic_bool is_ending;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int n_threads; /* started, without the caller */
    struct helper {
        struct pool *pool;
        pthread_t id;
        int number;
    } helper[POOL_THREADS_MAX];
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Takes items until the job of `ticket` has none left. */
static void work(struct pool *p, int thread)
{
    uint_fast64_t t = atomic_load(&p->ticket);
    for (;;) {
        size_t item = (size_t)(t & UINT32_MAX);
        size_t n_items = atomic_load(&p->n_items);
        pool_fn *fn = atomic_load(&p->fn);
        void *arg = atomic_load(&p->arg);
        if (item >= n_items) {
            return;
        }
        if (atomic_compare_exchange_weak(&p->ticket, &t, t + 1)) {
            fn(arg, item, thread);
            atomic_fetch_sub(&p->n_left, 1);
            t = atomic_load(&p->ticket);
        }
    }
}

/* The number of a job other than `seen`, or `seen` when the pool ends. */
static uint64_t wait_job(struct pool *p, uint64_t seen)
{
    for (int i = 0; i < SPINS; i++) {
        uint64_t job = atomic_load_explicit(&p->ticket, memory_order_acquire) >> 32;
        if (job != seen || atomic_load(&p->is_ending)) {
            return job;
        }
        pause_cpu();
    }
    (void)pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->n_asleep, 1);
    while (atomic_load(&p->ticket) >> 32 == seen && !atomic_load(&p->is_ending)) {
        (void)pthread_cond_wait(&p->wake, &p->lock);
    }
    atomic_fetch_sub(&p->n_asleep, 1);
    (void)pthread_mutex_unlock(&p->lock);
    return atomic_load(&p->ticket) >> 32;
}

static void *helper_main(void *arg)
{
    struct helper *h = arg;
    uint64_t seen = 0;
    while (!atomic_load(&h->pool->is_ending)) {
        seen = wait_job(h->pool, seen);
        work(h->pool, h->number);
    }
    return NULL;
}

static void wake_all(struct pool *p)
{
    (void)pthread_mutex_lock(&p->lock);
    (void)pthread_cond_broadcast(&p->wake);
    (void)pthread_mutex_unlock(&p->lock);
}

bool pool_new(struct pool **out, int n_threads, struct engine_error *err)
{
    if (n_threads < 1 || n_threads > POOL_THREADS_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "threads", "threads must be 1 to %d",
                           POOL_THREADS_MAX);
    }
    if (n_threads == 1) {
        *out = NULL;
        return true;
    }
    struct pool *p = calloc(1, sizeof *p);
    if (!p) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for worker threads");
    }
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->wake, NULL);
    while (p->n_threads < n_threads - 1) {
        struct helper *h = &p->helper[p->n_threads];
        h->pool = p;
        h->number = p->n_threads + 1;
        if (pthread_create(&h->id, NULL, helper_main, h) != 0) {
            int number = h->number;
            pool_free(p);
            return engine_fail(err, ENGINE_NOMEM, "", "cannot start worker thread %d of %d", number,
                               n_threads - 1);
        }
        p->n_threads++;
    }
    *out = p;
    return true;
}

void pool_free(struct pool *p)
{
    if (!p) {
        return;
    }
    atomic_store(&p->is_ending, true);
    wake_all(p);
    for (int i = 0; i < p->n_threads; i++) {
        (void)pthread_join(p->helper[i].id, NULL);
    }
    (void)pthread_cond_destroy(&p->wake);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

void pool_run(struct pool *p, size_t n_items, pool_fn *fn, void *arg)
{
    if (!p || n_items < 2) {
        for (size_t i = 0; i < n_items; i++) {
            fn(arg, i, 0);
        }
        return;
    }
    assert(n_items < UINT32_MAX);
    uint64_t job = (atomic_load(&p->ticket) >> 32) + 1;
    /* The old ticket is used up, so nobody takes an item until the new one is stored. */
    atomic_store(&p->n_left, n_items);
    atomic_store(&p->ticket, job << 32 | UINT32_MAX);
    atomic_store(&p->n_items, n_items);
    atomic_store(&p->fn, fn);
    atomic_store(&p->arg, arg);
    atomic_store(&p->ticket, (job + 1) << 32);
    if (atomic_load(&p->n_asleep) > 0) {
        wake_all(p);
    }
    work(p, 0);
    int n_spins = 0;
    while (atomic_load_explicit(&p->n_left, memory_order_acquire) > 0) {
        if (n_spins < SPINS) {
            n_spins++;
            pause_cpu();
        } else {
            (void)sched_yield(); /* more threads than free cores */
        }
    }
}
