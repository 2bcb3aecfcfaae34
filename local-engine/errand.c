/* errand.c - a thread that sleeps until there is something to do, and a pipe for the news. */
#include "errand.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct errand {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    errand_fn *fn; /* NULL: nothing to do */
    void *arg;
    bool is_ending;
    int pipe[2];
};

static void *run(void *ud)
{
    struct errand *e = ud;
    (void)pthread_mutex_lock(&e->lock);
    while (!e->is_ending) {
        if (!e->fn) {
            (void)pthread_cond_wait(&e->wake, &e->lock);
            continue;
        }
        errand_fn *fn = e->fn;
        void *arg = e->arg;
        (void)pthread_mutex_unlock(&e->lock);
        fn(arg);
        (void)pthread_mutex_lock(&e->lock);
        e->fn = NULL;
        ssize_t n = write(e->pipe[1], "", 1); /* the pipe is empty, so it has room */
        assert(n == 1);
        (void)n;
    }
    (void)pthread_mutex_unlock(&e->lock);
    return NULL;
}

bool errand_new(struct errand **out, struct engine_error *err)
{
    struct errand *e = calloc(1, sizeof *e);
    if (!e) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    if (pipe2(e->pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        int why = errno;
        free(e);
        return engine_fail(err, ENGINE_IO, "", "no pipe can be made: %s", strerror(why));
    }
    (void)pthread_mutex_init(&e->lock, NULL);
    (void)pthread_cond_init(&e->wake, NULL);
    int rc = pthread_create(&e->thread, NULL, run, e);
    if (rc != 0) {
        (void)close(e->pipe[0]);
        (void)close(e->pipe[1]);
        free(e);
        return engine_fail(err, ENGINE_NOMEM, "", "no thread can be made: %s", strerror(rc));
    }
    *out = e;
    return true;
}

void errand_free(struct errand *e)
{
    if (!e) {
        return;
    }
    (void)pthread_mutex_lock(&e->lock);
    e->is_ending = true;
    (void)pthread_cond_signal(&e->wake);
    (void)pthread_mutex_unlock(&e->lock);
    (void)pthread_join(e->thread, NULL);
    (void)pthread_cond_destroy(&e->wake);
    (void)pthread_mutex_destroy(&e->lock);
    (void)close(e->pipe[0]);
    (void)close(e->pipe[1]);
    free(e);
}

int errand_fd(const struct errand *e)
{
    return e->pipe[0];
}

void errand_start(struct errand *e, errand_fn *fn, void *arg)
{
    (void)pthread_mutex_lock(&e->lock);
    assert(!e->fn);
    e->fn = fn;
    e->arg = arg;
    (void)pthread_cond_signal(&e->wake);
    (void)pthread_mutex_unlock(&e->lock);
}

bool errand_take(struct errand *e)
{
    char byte;
    if (read(e->pipe[0], &byte, 1) != 1) {
        return false;
    }
    (void)pthread_mutex_lock(&e->lock); /* what fn wrote is seen from here on */
    (void)pthread_mutex_unlock(&e->lock);
    return true;
}
