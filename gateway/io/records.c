/* records.c - the writer of records.db: a queue, one thread, groups.
 *
 * The thread takes what waits (at most GROUP_MAX, so that a burst does not make the first ones wait
 * for the last), writes it in one transaction and tells everybody. While it commits, the next group
 * gathers by itself: the slower the disk, the larger the groups. JSON is made here and not on the
 * loop, so the request path pays for one allocation and one lock.
 *
 * After a failure the thread wakes once a second and tries a small write of its own: with "refuse"
 * no answer leaves while records cannot be written, so waiting for the next append could be waiting
 * for ever. A file that is broken is opened at most once a second, since opening checks it.
 */
#include "records.h"

#include "gateway/base/jsonio.h"
#include "gateway/base/log.h"
#include "records_db.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GROUP_MAX 1024
#define RETRY_MS  1000
#define DETAIL_BYTES_MAX                                                                           \
    (8u << 20) /* 40 parameters of at most 16 KiB, twice, and 96 adjustments of two */

struct entry {
    struct entry *next;
    struct fingerprint fp;
    struct loop *loop; /* NULL: done is called by the writer */
    records_done_fn *done;
    void *ud;
    bool is_written;
    struct loop_post post;
};

struct records {
    char *path;
    struct records_db *db; /* the writer's; NULL: must be opened again */
    int64_t retry_at_ms;   /* not before */
    pthread_t thread;
    pthread_mutex_t lock; /* of the queue and is_closing */
    pthread_cond_t wake;
    struct entry *first, **last;
    size_t n_queued;
    bool is_closing;
    atomic_bool is_writable;
    atomic_uint_least64_t n_failed;
};

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- telling */

static void entry_finish(void *entry)
{
    struct entry *e = entry;
    if (e->done) {
        e->done(e->is_written, e->ud);
    }
    free(e);
}

static void tell_all(struct records *r, struct entry *group)
{
    while (group) {
        struct entry *e = group;
        group = e->next;
        fingerprint_release(&e->fp);
        if (!e->is_written) {
            (void)atomic_fetch_add(&r->n_failed, 1);
        }
        if (e->loop) {
            e->post = (struct loop_post){.fn = entry_finish, .ud = e};
            loop_post(e->loop, &e->post);
        } else {
            entry_finish(e);
        }
    }
}

/* ---- writing */

/* The change is logged, not each record: `why` is asked for when there is one to tell. */
static void set_writable(struct records *r, bool is_writable, const struct failure *why)
{
    bool was_writable = atomic_exchange(&r->is_writable, is_writable);
    if (was_writable && !is_writable) {
        log_write(LOG_ERROR, "records_not_writable", "error", why->message, NULL);
    } else if (!was_writable && is_writable) {
        log_write(LOG_INFO, "records_writable", "path", r->path, NULL);
    }
}

static void note_result(struct records *r, enum records_db_result result, const struct failure *why)
{
    set_writable(r, result == RECORDS_DB_OK, why);
    if (result == RECORDS_DB_BROKEN) {
        records_db_close(r->db);
        r->db = NULL;
    }
    if (result != RECORDS_DB_OK) {
        r->retry_at_ms = now_ms() + RETRY_MS;
    }
}

/* An open database at the path; the file may have been moved away, or broken a while ago. */
static bool has_database(struct records *r)
{
    if (r->db && !records_db_is_in_place(r->db)) {
        records_db_settle(r->db);
        records_db_close(r->db);
        r->db = NULL;
        r->retry_at_ms = 0;
    }
    struct failure why = {.status = 0};
    if (!r->db && now_ms() >= r->retry_at_ms && !records_db_open(&r->db, r->path, &why)) {
        r->db = NULL;
        r->retry_at_ms = now_ms() + RETRY_MS;
        set_writable(r, false, &why);
    }
    return r->db != NULL;
}

/* One row; RECORDS_DB_ROW: this one is not written, the others may be. */
static enum records_db_result insert(struct records *r, struct entry *e, struct buf *text)
{
    enum records_db_result result = RECORDS_DB_ROW;
    json_t *record = fingerprint_json(&e->fp);
    buf_clear(text);
    text->is_failed = false;
    if (record && jsonio_write(text, record)) {
        result = records_db_insert(r->db, &e->fp, buf_slice(text));
    }
    json_decref(record);
    e->is_written = result == RECORDS_DB_OK;
    return result;
}

static enum records_db_result write_group(struct records *r, struct entry *group,
                                          struct failure *why)
{
    struct buf text;
    buf_init(&text, DETAIL_BYTES_MAX);
    enum records_db_result result = records_db_begin(r->db);
    for (struct entry *e = group; e && result == RECORDS_DB_OK; e = e->next) {
        result = insert(r, e, &text);
        result = result == RECORDS_DB_ROW ? RECORDS_DB_OK : result;
    }
    if (result == RECORDS_DB_OK) {
        result = records_db_commit(r->db);
    }
    if (result != RECORDS_DB_OK) {
        records_db_why(r->db, r->path, why);
        records_db_rollback(r->db);
    }
    buf_release(&text);
    return result;
}

static void handle_group(struct records *r, struct entry *group)
{
    enum records_db_result result = RECORDS_DB_BROKEN;
    struct failure why = {.status = 0};
    if (has_database(r)) {
        result = write_group(r, group, &why);
        note_result(r, result, &why);
    }
    for (struct entry *e = group; e && result != RECORDS_DB_OK; e = e->next) {
        e->is_written = false;
    }
    tell_all(r, group);
}

/* ---- the thread */

/* Waits for work, for the end, or (when writing does not work) for the next try. The lock is held.
 * */
static void wait_for_work(struct records *r)
{
    while (!r->first && !r->is_closing) {
        if (atomic_load(&r->is_writable)) {
            (void)pthread_cond_wait(&r->wake, &r->lock);
            continue;
        }
        int64_t at = r->retry_at_ms;
        struct timespec t = {.tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000};
        if (now_ms() >= at || pthread_cond_timedwait(&r->wake, &r->lock, &t) != 0) {
            return;
        }
    }
}

static struct entry *take_group(struct records *r)
{
    struct entry *group = r->first, **end = &r->first;
    size_t n = 0;
    while (*end && n < GROUP_MAX) {
        end = &(*end)->next;
        n++;
    }
    r->first = *end;
    if (!r->first) {
        r->last = &r->first;
    }
    *end = NULL;
    r->n_queued -= n;
    return n ? group : NULL;
}

static void *writer(void *records)
{
    struct records *r = records;
    (void)pthread_mutex_lock(&r->lock);
    for (;;) {
        wait_for_work(r);
        bool is_last = r->is_closing && !r->first;
        struct entry *group = take_group(r);
        (void)pthread_mutex_unlock(&r->lock);
        if (is_last) {
            return NULL;
        }
        if (group) {
            handle_group(r, group);
        } else if (has_database(r)) {
            note_result(r, records_db_probe(r->db), &(struct failure){.status = 0});
        }
        (void)pthread_mutex_lock(&r->lock);
    }
}

static bool writer_start(struct records *r)
{
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &old); /* signals are for the daemon's own threads */
    bool ok = pthread_create(&r->thread, NULL, writer, r) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ok;
}

/* ---- the contract */

static bool sync_init(struct records *r)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr) != 0) {
        return false;
    }
    bool ok = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(&r->wake, &attr) == 0;
    (void)pthread_condattr_destroy(&attr);
    if (ok && pthread_mutex_init(&r->lock, NULL) != 0) {
        (void)pthread_cond_destroy(&r->wake);
        return false;
    }
    return ok;
}

static void records_free(struct records *r)
{
    records_db_close(r->db);
    free(r->path);
    free(r);
}

bool records_open(struct records **out, const char *path, struct failure *f)
{
    struct records *r = calloc(1, sizeof *r);
    if (!r || !(r->path = strdup(path))) {
        free(r);
        return failure_set(f, 500, "out_of_memory", NULL, "out of memory");
    }
    r->last = &r->first;
    atomic_init(&r->is_writable, true);
    if (!records_db_open(&r->db, path, f)) {
        records_free(r);
        return false;
    }
    if (!sync_init(r)) {
        records_free(r);
        return failure_set(f, 500, "out_of_memory", NULL, "out of memory");
    }
    if (!writer_start(r)) {
        (void)pthread_cond_destroy(&r->wake);
        (void)pthread_mutex_destroy(&r->lock);
        records_free(r);
        return failure_set(f, 500, "no_thread", NULL,
                           "records '%.300s': no thread for its writer, raise the limit of tasks",
                           path);
    }
    *out = r;
    return true;
}

void records_close(struct records *r)
{
    if (!r) {
        return;
    }
    (void)pthread_mutex_lock(&r->lock);
    r->is_closing = true;
    (void)pthread_cond_signal(&r->wake);
    (void)pthread_mutex_unlock(&r->lock);
    (void)pthread_join(r->thread, NULL);
    (void)pthread_cond_destroy(&r->wake);
    (void)pthread_mutex_destroy(&r->lock);
    records_free(r);
}

/* Takes the entry and moves *fp into it, unless the queue is full. */
static bool queue_push(struct records *r, struct entry *e, struct fingerprint *fp)
{
    (void)pthread_mutex_lock(&r->lock);
    bool has_room = r->n_queued < RECORDS_QUEUE_MAX;
    bool was_empty = !r->first;
    if (has_room) {
        e->fp = *fp;
        *r->last = e;
        r->last = &e->next;
        r->n_queued++;
    }
    (void)pthread_mutex_unlock(&r->lock);
    if (has_room && was_empty) {
        (void)pthread_cond_signal(&r->wake);
    }
    return has_room;
}

bool records_append(struct records *r, struct fingerprint *fp, struct loop *loop,
                    records_done_fn *done, void *ud)
{
    struct entry *e = calloc(1, sizeof *e);
    if (e) {
        e->loop = loop;
        e->done = done;
        e->ud = ud;
    }
    if (!e || !queue_push(r, e, fp)) {
        free(e);
        (void)atomic_fetch_add(&r->n_failed, 1);
        return false;
    }
    fingerprint_init(fp); /* the entry may be gone already: not read here */
    return true;
}

bool records_is_writable(struct records *r)
{
    return atomic_load(&r->is_writable);
}

uint64_t records_n_failed(struct records *r)
{
    return atomic_load(&r->n_failed);
}

/* ---- reading: the handle itself */

struct records_reader {
    struct records_db *db;
};

bool records_reader_open(struct records_reader **out, const char *path, struct failure *f)
{
    struct records_reader *r = calloc(1, sizeof *r);
    if (!r) {
        return failure_set(f, 500, "out_of_memory", NULL, "out of memory");
    }
    if (!records_db_open_reader(&r->db, path, f)) {
        free(r);
        return false;
    }
    *out = r;
    return true;
}

void records_reader_close(struct records_reader *r)
{
    if (r) {
        records_db_close(r->db);
        free(r);
    }
}

bool records_list(struct records_reader *r, const struct records_query *q, records_row_fn *fn,
                  void *ud, struct failure *f)
{
    return records_db_list(r->db, q, fn, ud, f);
}

bool records_models(struct records_reader *r, int64_t since_us, records_model_fn *fn, void *ud,
                    struct failure *f)
{
    return records_db_models(r->db, since_us, fn, ud, f);
}

json_t *records_get(struct records_reader *r, const char *request_id, struct failure *f)
{
    return records_db_get(r->db, request_id, f);
}
