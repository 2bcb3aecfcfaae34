/* engine_child.c - three parties share one mutex: the owner loop, which alone touches the socket
 * and the child; the loops of calls; and whoever asks about the state.
 *
 * A call is in the table from its start until its last frame has come or it is cancelled. The
 * owner puts frames into the call's list and posts the call to its loop, once for any number of
 * frames; there the list is taken and delivered. The post node lies in the call, so a call that is
 * cancelled while its post is on the way lives on, deaf, until the post has arrived: three
 * references (table, caller, post) say when it may go.
 *
 * The owner learns of a death by the end of the socket or by the pidfd, whichever comes first. The
 * first of them fails the calls; only the pidfd, when the child is reaped, starts the next one.
 * Frames that a dead child had sent are read before its calls fail.
 */
#include "engine_child.h"

#include "gateway/base/buf.h"
#include "gateway/base/log.h"
#include "known_file.h"
#include "local-engine/link.h"
#include "spawn.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_BYTES      (64u << 10)
#define READS_PER_EVENT 16
#define OUT_BYTES_MAX   (2u * LINK_FRAME_MAX) /* requests that wait for the child */
#define CANCEL_BYTES    (1u << 20)            /* room beyond it that only cancels may use */
#define YOUNG_MS        10000
#define DELAY_MIN_MS    100
#define DELAY_MAX_MS    5000

struct engine_call {
    struct engine_child *child;
    struct loop *loop;
    struct engine_events ev;
    void *ud;
    int64_t id;
    struct loop_post post;
    /* Under the child's lock: */
    struct engine_call *next;                /* in the table */
    struct engine_call *all_next, *all_prev; /* of all that live */
    unsigned n_refs;
    bool is_in_table, is_posted, is_cancelled, is_ended;
    json_t *frames;         /* not delivered yet, or NULL */
    struct failure failure; /* of the end; status 0: done */
};

struct engine_child {
    char **argv; /* [0] is the program */
    char *known; /* a file, in the state folder */
    unsigned queue_max;
    struct loop *loop;
    pthread_mutex_t lock;
    /* Under the lock: */
    bool is_ready;
    int pid;        /* -1: none */
    json_t *models; /* by name: what was said last of each; NULL before ready */
    struct engine_call *calls, *all;
    unsigned n_calls;
    int64_t next_id;
    struct buf out;
    size_t out_at; /* what was written of it */
    bool is_flush_posted;
    /* Of the owner loop alone: */
    struct loop_post flush_post;
    int fd, pidfd;
    struct link_reader reader;
    struct loop_timer restart;
    int64_t started_ms;
    unsigned n_young; /* deaths under YOUNG_MS in a row */
};

static void on_socket(int fd, uint32_t events, void *ud);
static void on_pidfd(int fd, uint32_t events, void *ud);
static void on_restart(void *ud);

/* ---- calls; all of it under the lock */

static void all_add(struct engine_child *e, struct engine_call *c)
{
    c->all_next = e->all;
    if (e->all) {
        e->all->all_prev = c;
    }
    e->all = c;
}

static void call_free(struct engine_call *c)
{
    json_decref(c->frames);
    free(c);
}

static void call_unref(struct engine_call *c)
{
    assert(c->n_refs > 0);
    if (--c->n_refs > 0) {
        return;
    }
    if (c->all_prev) {
        c->all_prev->all_next = c->all_next;
    } else {
        c->child->all = c->all_next;
    }
    if (c->all_next) {
        c->all_next->all_prev = c->all_prev;
    }
    call_free(c);
}

static void deliver(void *ud);

static void call_post(struct engine_call *c)
{
    if (!c->is_posted) {
        c->is_posted = true;
        c->n_refs++;
        c->post = (struct loop_post){.fn = deliver, .ud = c};
        loop_post(c->loop, &c->post);
    }
}

static void table_remove(struct engine_child *e, struct engine_call *c)
{
    struct engine_call **at = &e->calls;
    while (*at != c) {
        at = &(*at)->next;
    }
    *at = c->next;
    e->n_calls--;
    c->is_in_table = false;
    call_unref(c);
}

static struct engine_call *table_find(const struct engine_child *e, int64_t id)
{
    struct engine_call *c = e->calls;
    while (c && c->id != id) {
        c = c->next;
    }
    return c;
}

/* The end of a call in the table. f NULL: done. */
static void call_end(struct engine_call *c, const struct failure *f)
{
    if (f) {
        c->failure = *f;
    }
    c->is_ended = true;
    call_post(c);
    table_remove(c->child, c);
}

/* ---- delivery, on the call's loop. Only this thread sets is_cancelled, so it may read it without
 * the lock. */

static void deliver(void *ud)
{
    struct engine_call *c = ud;
    struct engine_child *e = c->child;
    pthread_mutex_lock(&e->lock);
    c->is_posted = false;
    json_t *frames = c->frames;
    c->frames = NULL;
    bool is_ended = c->is_ended;
    pthread_mutex_unlock(&e->lock);
    size_t i;
    json_t *frame;
    json_array_foreach (frames, i, frame) {
        if (!c->is_cancelled) {
            c->ev.on_frame(frame, c->ud);
        }
    }
    json_decref(frames);
    bool is_last = is_ended && !c->is_cancelled;
    if (is_last) {
        c->ev.on_end(c->failure.status ? &c->failure : NULL, c->ud);
    }
    pthread_mutex_lock(&e->lock);
    if (is_last) {
        call_unref(c); /* the caller's */
    }
    call_unref(c);
    pthread_mutex_unlock(&e->lock);
}

/* ---- to the child */

/* The owner loop's part; see request_flush(). */
static void flush(struct engine_child *e)
{
    bool is_full = false;
    pthread_mutex_lock(&e->lock);
    while (e->fd >= 0 && e->out_at < e->out.len && !is_full) {
        ssize_t n = send(e->fd, e->out.p + e->out_at, e->out.len - e->out_at, MSG_NOSIGNAL);
        if (n > 0) {
            e->out_at += (size_t)n;
        } else if (n < 0 && errno != EINTR) {
            is_full = true; /* or it is dead, and the socket or the pidfd will say so */
        }
    }
    if (e->out_at >= e->out.len - e->out_at) { /* so that each byte is moved once at most */
        buf_drop(&e->out, e->out_at);
        e->out_at = 0;
    }
    bool has_more = e->out.len > 0;
    pthread_mutex_unlock(&e->lock);
    if (e->fd >= 0 &&
        !loop_watch(e->loop, e->fd, EPOLLIN | (has_more ? EPOLLOUT : 0), on_socket, e)) {
        log_write(LOG_ERROR, "engine_not_watched", NULL);
        (void)kill(e->pid, SIGKILL); /* a fresh one may be luckier; the pidfd tells of its end */
    }
}

static void on_flush(void *ud)
{
    struct engine_child *e = ud;
    pthread_mutex_lock(&e->lock);
    e->is_flush_posted = false;
    pthread_mutex_unlock(&e->lock);
    flush(e);
}

/* Under the lock. */
static void request_flush(struct engine_child *e)
{
    if (!e->is_flush_posted) {
        e->is_flush_posted = true;
        e->flush_post = (struct loop_post){.fn = on_flush, .ud = e};
        loop_post(e->loop, &e->flush_post);
    }
}

static void send_cancel(struct engine_child *e, int64_t id)
{
    char frame[96] = {0};
    int n = snprintf(frame + 4, sizeof frame - 4, "{\"op\":\"cancel\",\"id\":%lld}", (long long)id);
    assert(n > 0 && n < (int)sizeof frame - 4);
    frame[0] = (char)n;
    if (!e->is_ready) {
        return;
    }
    if (!buf_append(&e->out, frame, 4 + (size_t)n)) {
        e->out.is_failed = false; /* then the child computes for nobody: its frames find no call */
    }
    request_flush(e);
}

/* The frame's bytes with the id, owned. */
static char *frame_with_id(json_t *frame, int64_t id, size_t *len)
{
    json_t *copy = json_copy(frame);
    char *bytes = NULL;
    if (copy && json_object_set_new(copy, "id", json_integer(id)) == 0) {
        bytes = link_frame(copy, len);
    }
    json_decref(copy);
    return bytes;
}

/* After failure_set(): it may well pass in a second. */
static bool in_a_moment(struct failure *f)
{
    if (f) {
        f->retry_after_s = 1;
    }
    return false;
}

static bool is_admitted(struct engine_child *e, struct failure *f)
{
    if (!e->is_ready) {
        (void)failure_set(f, 503, "engine_restarting", NULL,
                          "the local engine is starting: try again in a moment");
    } else if (e->n_calls >= e->queue_max) {
        (void)failure_set(f, 503, "engine_busy", NULL,
                          "%u requests are at the local engine: try again later", e->n_calls);
    } else {
        return true;
    }
    return in_a_moment(f);
}

/* Under the lock: the call goes into the table and its frame on the way. */
static bool submit(struct engine_child *e, struct engine_call *c, const char *bytes, size_t len,
                   struct failure *f)
{
    if (!is_admitted(e, f)) {
        return false;
    }
    if (len > OUT_BYTES_MAX - CANCEL_BYTES || e->out.len > OUT_BYTES_MAX - CANCEL_BYTES - len) {
        (void)failure_set(f, 503, "engine_busy", NULL,
                          "too much is waiting for the local engine: try again later");
        return in_a_moment(f);
    }
    if (!buf_append(&e->out, bytes, len)) {
        e->out.is_failed = false;
        (void)failure_set(f, 503, "out_of_memory", NULL, "out of memory");
        return in_a_moment(f);
    }
    c->n_refs = 2; /* the table and the caller */
    c->is_in_table = true;
    c->next = e->calls;
    e->calls = c;
    e->n_calls++;
    all_add(e, c);
    request_flush(e);
    return true;
}

bool engine_call_start(struct engine_child *e, struct loop *loop, json_t *frame,
                       const struct engine_events *ev, void *ud, struct engine_call **out,
                       struct failure *f)
{
    pthread_mutex_lock(&e->lock);
    int64_t id = e->next_id++;
    bool ok = is_admitted(e, f); /* before the work of making the frame */
    pthread_mutex_unlock(&e->lock);
    if (!ok) {
        return false;
    }
    struct engine_call *c = calloc(1, sizeof *c);
    size_t len = 0;
    char *bytes = frame_with_id(frame, id, &len);
    if (!c || !bytes) {
        free(c);
        free(bytes);
        return failure_set(f, 503, "out_of_memory", NULL,
                           "the request is too large for the local engine, or memory ran out");
    }
    c->child = e;
    c->loop = loop;
    c->ev = *ev;
    c->ud = ud;
    c->id = id;
    pthread_mutex_lock(&e->lock);
    ok = submit(e, c, bytes, len, f);
    pthread_mutex_unlock(&e->lock);
    free(bytes);
    if (!ok) {
        free(c);
        return false;
    }
    *out = c;
    return true;
}

void engine_call_cancel(struct engine_call *c)
{
    if (!c) {
        return;
    }
    struct engine_child *e = c->child;
    pthread_mutex_lock(&e->lock);
    assert(!c->is_cancelled);
    c->is_cancelled = true;
    if (c->is_in_table) {
        table_remove(e, c);
        send_cancel(e, c->id);
    }
    call_unref(c);
    pthread_mutex_unlock(&e->lock);
}

/* ---- from the child */

static const char *string_of(const json_t *frame, const char *key)
{
    const char *s = json_string_value(json_object_get(frame, key));
    return s ? s : "";
}

static void log_model_failure(const char *name, const char *why)
{
    log_write(LOG_ERROR, "model_refused", "model", name, "error", why, NULL);
}

/* {name: what is said of it}; NULL: out of memory. */
static json_t *models_by_name(const json_t *frame)
{
    json_t *all = json_object(), *m;
    size_t i;
    bool ok = all != NULL;
    json_array_foreach (json_object_get(frame, "models"), i, m) {
        ok = ok && json_object_set(all, string_of(m, "id"), m) == 0;
    }
    json_array_foreach (json_object_get(frame, "refused"), i, m) {
        const char *name = string_of(m, "id"), *why = string_of(m, "error");
        log_model_failure(name, why);
        ok = ok && json_object_set_new(
                       all, name, json_pack("{s:s,s:s}", "state", "failed", "error", why)) == 0;
    }
    if (!ok) {
        json_decref(all);
        return NULL;
    }
    return all;
}

static void on_ready(struct engine_child *e, const json_t *frame)
{
    char n[24];
    (void)snprintf(n, sizeof n, "%zu", json_array_size(json_object_get(frame, "models")));
    log_write(LOG_INFO, "engine_ready", "models", n, NULL);
    json_t *models = models_by_name(frame);
    pthread_mutex_lock(&e->lock);
    json_decref(e->models);
    e->models = models;
    e->is_ready = true;
    pthread_mutex_unlock(&e->lock);
}

/* Under the lock, so what is logged is in its order. Memory running out costs a line in a list. */
static void on_state(struct engine_child *e, const json_t *frame)
{
    const char *name = string_of(frame, "model"), *state = string_of(frame, "state");
    json_t *m = json_object_get(e->models, name), *error = json_object_get(frame, "error");
    if (json_is_string(error)) {
        log_model_failure(name, json_string_value(error));
    } else {
        log_write(LOG_DEBUG, "model_state", "model", name, "state", state, NULL);
    }
    if (m) {
        (void)json_object_set_new(m, "state", json_string(state));
        (void)json_object_set(m, "error", error ? error : json_null());
    }
}

/* A frame of a call; one for a call that is gone is late, not wrong. Under the lock. */
static void on_call_frame(struct engine_child *e, json_t *frame, const char *op)
{
    struct engine_call *c = table_find(e, json_integer_value(json_object_get(frame, "id")));
    struct failure f = {.status = 0};
    if (!c) {
        return;
    }
    if (strcmp(op, "error") == 0) {
        (void)failure_from_engine_words(&f, string_of(frame, "code"), string_of(frame, "param"),
                                        string_of(frame, "text"));
        call_end(c, &f);
        return;
    }
    c->frames = c->frames ? c->frames : json_array();
    if (!c->frames || json_array_append(c->frames, frame) != 0) {
        (void)failure_set(&f, 503, "out_of_memory", NULL, "out of memory");
        send_cancel(e, c->id);
        call_end(c, &f);
    } else if (strcmp(op, "done") == 0) {
        call_end(c, NULL);
    } else {
        call_post(c);
    }
}

/* false: this is not the child we know. */
static bool on_frame(struct engine_child *e, const char *p, size_t len)
{
    json_t *frame = json_loadb(p, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    const char *op = json_string_value(json_object_get(frame, "op"));
    if (!op) {
        json_decref(frame);
        return false;
    }
    if (strcmp(op, "ready") == 0) {
        on_ready(e, frame);
        pthread_mutex_lock(&e->lock);
        json_decref(frame); /* its parts are shared with the state by now */
        pthread_mutex_unlock(&e->lock);
        return true;
    }
    bool is_state = strcmp(op, "state") == 0;
    if (is_state) { /* a file is read and written: nobody is to wait for that under the lock */
        known_file_add(e->known, string_of(frame, "identity"), string_of(frame, "hash"));
    }
    /* The owner's last reference is dropped under the lock: the call's thread holds another. */
    pthread_mutex_lock(&e->lock);
    if (is_state) {
        on_state(e, frame);
    } else {
        on_call_frame(e, frame, op);
    }
    json_decref(frame);
    pthread_mutex_unlock(&e->lock);
    return true;
}

/* Reads what is there. false: the socket has ended, or nothing more of it can be trusted. */
static bool read_frames(struct engine_child *e, unsigned n_reads_max)
{
    char bytes[READ_BYTES];
    for (unsigned i = 0; i < n_reads_max; i++) {
        ssize_t n = read(e->fd, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return true;
        }
        if (n <= 0 || !link_reader_feed(&e->reader, bytes, (size_t)n, NULL)) {
            return false;
        }
        const char *frame;
        size_t len;
        int rc;
        while ((rc = link_reader_next(&e->reader, &frame, &len)) == 1) {
            if (!on_frame(e, frame, len)) {
                return false;
            }
        }
        if (rc < 0) {
            return false;
        }
    }
    return true;
}

/* The child is lost: no more frames, every call fails. It may still have to be killed and reaped.
 */
static void lose(struct engine_child *e)
{
    struct failure f = {.status = 0};
    if (e->fd < 0) {
        return;
    }
    loop_unwatch(e->loop, e->fd);
    (void)close(e->fd);
    e->fd = -1;
    link_reader_release(&e->reader);
    (void)failure_set(&f, 503, "engine_restarting", NULL,
                      "the local engine has ended during the request and is started again: try "
                      "again in a moment");
    f.retry_after_s = 1;
    pthread_mutex_lock(&e->lock);
    e->is_ready = false;
    json_decref(e->models);
    e->models = NULL;
    buf_clear(&e->out);
    e->out_at = 0;
    while (e->calls) {
        call_end(e->calls, &f);
    }
    pthread_mutex_unlock(&e->lock);
}

static void on_socket(int fd, uint32_t events, void *ud)
{
    struct engine_child *e = ud;
    (void)fd;
    if ((events & ~(uint32_t)EPOLLOUT) && !read_frames(e, READS_PER_EVENT)) {
        lose(e);
        (void)kill(e->pid, SIGKILL); /* not reaped yet, so the number is still its own */
        return;
    }
    if (events & EPOLLOUT) {
        flush(e);
    }
}

/* ---- start and restart */

static void restart_later(struct engine_child *e)
{
    int64_t delay = 0;
    e->n_young = loop_now_ms(e->loop) - e->started_ms < YOUNG_MS ? e->n_young + 1 : 0;
    if (e->n_young > 1) {
        unsigned doublings = e->n_young - 2;
        delay = doublings < 6 ? (int64_t)DELAY_MIN_MS << doublings : DELAY_MAX_MS;
    }
    if (!loop_timer_arm(e->loop, &e->restart, delay < DELAY_MAX_MS ? delay : DELAY_MAX_MS,
                        on_restart, e)) {
        log_write(LOG_ERROR, "engine_not_restarted", "error", "out of memory", NULL);
    }
}

static void log_death(int pid, int status)
{
    char how[80], number[24];
    (void)snprintf(number, sizeof number, "%d", pid);
    if (WIFSIGNALED(status)) {
        int sig = WTERMSIG(status);
        (void)snprintf(how, sizeof how, "signal %d%s", sig,
                       sig == SIGBUS ? ": a model's file was cut or cannot be read" : "");
    } else if (WEXITSTATUS(status) == 127) {
        (void)snprintf(how, sizeof how, "the program cannot be run");
    } else {
        (void)snprintf(how, sizeof how, "status %d", WEXITSTATUS(status));
    }
    log_write(LOG_ERROR, "engine_ended", "pid", number, "how", how, NULL);
}

static void on_pidfd(int fd, uint32_t events, void *ud)
{
    struct engine_child *e = ud;
    int status = 0;
    (void)events;
    if (waitpid(e->pid, &status, WNOHANG) == 0) {
        return;
    }
    if (e->fd >= 0) {
        (void)read_frames(e, UINT32_MAX); /* what it had sent: up to the socket's end */
        lose(e);
    }
    log_death(e->pid, status);
    loop_unwatch(e->loop, fd);
    (void)close(fd);
    e->pidfd = -1;
    pthread_mutex_lock(&e->lock);
    e->pid = -1;
    pthread_mutex_unlock(&e->lock);
    restart_later(e);
}

static bool spawn(struct engine_child *e, struct failure *f)
{
    struct spawned c;
    e->started_ms = loop_now_ms(e->loop);
    if (!spawn_start(e->argv, &c, f)) {
        return false;
    }
    if (!loop_watch(e->loop, c.fd, EPOLLIN, on_socket, e) ||
        !loop_watch(e->loop, c.pidfd, EPOLLIN, on_pidfd, e)) {
        (void)failure_set(f, 503, "engine_restarting", NULL,
                          "the local engine cannot be watched: %s", strerror(errno));
        loop_unwatch(e->loop, c.fd);
        (void)close(c.fd);
        (void)close(c.pidfd);
        (void)kill(c.pid, SIGKILL);
        (void)waitpid(c.pid, NULL, 0);
        return false;
    }
    e->fd = c.fd;
    e->pidfd = c.pidfd;
    pthread_mutex_lock(&e->lock);
    e->pid = c.pid;
    pthread_mutex_unlock(&e->lock);
    return true;
}

static void on_restart(void *ud)
{
    struct engine_child *e = ud;
    struct failure f = {.status = 0};
    if (!spawn(e, &f)) {
        log_write(LOG_ERROR, "engine_not_restarted", "error", f.message, NULL);
        restart_later(e);
    }
}

/* program --fd 3 --threads N --memory-max N --known FILE [--speculation WORD] NAME=FOLDER... NULL
 */
static char **argv_new(const struct engine_child_options *o)
{
    char **argv = calloc(o->n_models + 12, sizeof(*argv));
    char fd[16], threads[16], memory_max[24];
    size_t n = 0;
    (void)snprintf(fd, sizeof fd, "%d", SPAWN_FD);
    (void)snprintf(threads, sizeof threads, "%u", o->threads);
    (void)snprintf(memory_max, sizeof memory_max, "%lld", (long long)o->memory_max);
    const char *const fixed[] = {
        o->program, "--fd",    fd,       "--threads",     threads,       "--memory-max",
        memory_max, "--known", o->known, "--speculation", o->speculation};
    size_t n_fixed = sizeof fixed / sizeof *fixed - (o->speculation ? 0 : 2);
    bool ok = argv != NULL;
    for (size_t i = 0; ok && i < n_fixed; i++) {
        ok = (argv[n++] = strdup(fixed[i])) != NULL;
    }
    for (size_t i = 0; ok && i < o->n_models; i++) {
        ok = (argv[n++] = strdup(o->models[i])) != NULL;
    }
    for (size_t i = 0; argv && !ok && i < n; i++) {
        free(argv[i]);
    }
    if (!ok) {
        free(argv);
        return NULL;
    }
    return argv;
}

bool engine_child_start(struct engine_child **out, const struct engine_child_options *o,
                        struct failure *f)
{
    if (access(o->program, X_OK) != 0) {
        return failure_set(f, 500, "engine_missing", NULL, "'%s' cannot be run: %s", o->program,
                           strerror(errno));
    }
    struct engine_child *e = calloc(1, sizeof *e);
    if (!e) {
        return failure_set(f, 503, "out_of_memory", NULL, "out of memory");
    }
    pthread_mutex_init(&e->lock, NULL);
    buf_init(&e->out, OUT_BYTES_MAX);
    link_reader_init(&e->reader);
    e->fd = e->pidfd = e->pid = -1;
    e->loop = o->loop;
    e->queue_max = o->queue_max;
    e->next_id = 1;
    e->argv = argv_new(o);
    e->known = strdup(o->known);
    if (!e->argv || !e->known || !spawn(e, f)) {
        (void)failure_set(f, 503, "out_of_memory", NULL, "out of memory");
        engine_child_stop(e);
        return false;
    }
    *out = e;
    return true;
}

void engine_child_stop(struct engine_child *e)
{
    if (!e) {
        return;
    }
    /* The loops are gone, and with them what they watched: not a word to e->loop here. */
    if (e->fd >= 0) {
        (void)close(e->fd);
    }
    if (e->pid > 0) {
        (void)close(e->pidfd);
        (void)kill(e->pid, SIGKILL); /* it has nothing to lose */
        (void)waitpid(e->pid, NULL, 0);
    }
    while (e->all) { /* their posts can no longer arrive */
        struct engine_call *c = e->all;
        e->all = c->all_next;
        call_free(c);
    }
    for (size_t i = 0; e->argv && e->argv[i]; i++) {
        free(e->argv[i]);
    }
    free(e->argv);
    free(e->known);
    json_decref(e->models);
    buf_release(&e->out);
    link_reader_release(&e->reader);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* ---- state */

bool engine_child_is_ready(struct engine_child *e)
{
    pthread_mutex_lock(&e->lock);
    bool is_ready = e->is_ready;
    pthread_mutex_unlock(&e->lock);
    return is_ready;
}

int engine_child_pid(struct engine_child *e)
{
    pthread_mutex_lock(&e->lock);
    int pid = e->pid;
    pthread_mutex_unlock(&e->lock);
    return pid;
}

json_t *engine_child_model(struct engine_child *e, const char *name)
{
    static const char *const keys[] = {"state", "bytes", "memory", "error"};
    json_t *o = json_object();
    bool ok = o != NULL;
    pthread_mutex_lock(&e->lock);
    const json_t *m = json_object_get(e->models, name);
    for (size_t i = 0; ok && i < sizeof keys / sizeof *keys; i++) {
        const json_t *v = json_object_get(m, keys[i]);
        ok = json_object_set_new(o, keys[i], v ? json_deep_copy(v) : json_null()) == 0;
    }
    if (ok && !e->is_ready) {
        ok = json_object_set_new(o, "state", json_string("starting")) == 0;
    }
    pthread_mutex_unlock(&e->lock);
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}
