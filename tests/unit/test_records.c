/* test_records.c - what was acknowledged is there: after kill -9, a full disk, a lock held by
 * another process; damaged files are left alone. */
#include "gateway/io/records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir[64]; /* of this run */
static char path[128];

static void fresh_path(const char *name)
{
    (void)snprintf(path, sizeof path, "%s/%s/records.db", dir, name);
}

static void fill(struct fingerprint *f, int i)
{
    fingerprint_init(f);
    (void)snprintf(f->request_id, sizeof f->request_id, "req_%032d", i);
    (void)snprintf(f->endpoint, sizeof f->endpoint, "/v1/chat/completions");
    (void)snprintf(f->requested_model, sizeof f->requested_model,
                   i % 2 ? "fast" : "openai/gpt-4o-mini");
    (void)snprintf(f->backend, sizeof f->backend, "openai");
    (void)snprintf(f->model, sizeof f->model, i % 3 ? "openai/gpt-4o-mini" : "local");
    f->started_us = 1700000000000000 + i;
    f->ended_us = f->started_us + 1000;
    f->catalog_version = 3;
    f->status = 200;
    f->has_seed = i % 2;
    f->seed = -i;
    f->asked = json_pack("{s:f}", "temperature", 0.7);
    f->sent = json_pack("{s:f}", "temperature", 0.7);
    f->adjustments = json_array();
    f->attempts = json_array();
    assert_true(fingerprint_seal(f));
}

/* ---- an append that is waited for */

struct waiter {
    sem_t sem;
    atomic_int n_ok, n_failed;
};

static void on_done(bool ok, void *ud)
{
    struct waiter *w = ud;
    (void)atomic_fetch_add(ok ? &w->n_ok : &w->n_failed, 1);
    (void)sem_post(&w->sem);
}

static void waiter_init(struct waiter *w)
{
    memset(w, 0, sizeof *w);
    assert_int_equal(sem_init(&w->sem, 0, 0), 0);
}

static void waiter_wait(struct waiter *w, int n)
{
    for (int i = 0; i < n; i++) {
        while (sem_wait(&w->sem) != 0) {
        }
    }
}

static void append(struct records *r, int i, struct waiter *w)
{
    struct fingerprint f;
    fill(&f, i);
    assert_true(records_append(r, &f, NULL, on_done, w));
    assert_null(f.asked); /* moved */
    assert_string_equal(f.request_id, "");
}

static bool append_wait(struct records *r, int i)
{
    struct waiter w;
    waiter_init(&w);
    append(r, i, &w);
    waiter_wait(&w, 1);
    return w.n_ok == 1;
}

static struct records *open_ok(void)
{
    struct records *r = NULL;
    struct failure f = {0};
    if (!records_open(&r, path, &f)) {
        fail_msg("%s", f.message);
    }
    return r;
}

static struct records_reader *reader_ok(void)
{
    struct records_reader *r = NULL;
    struct failure f = {0};
    if (!records_reader_open(&r, path, &f)) {
        fail_msg("%s", f.message);
    }
    return r;
}

static long number_in(const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 5000);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    long n = (long)sqlite3_column_int64(s, 0);
    if (sqlite3_column_type(s, 0) == SQLITE_TEXT) {
        n = strcmp((const char *)sqlite3_column_text(s, 0), "ok") == 0;
    }
    (void)sqlite3_finalize(s);
    (void)sqlite3_close(db);
    return n;
}

/* ---- listing */

struct list {
    int n;
    int max;
    char first[40], last[40];
};

static bool on_row(const json_t *record, void *ud)
{
    struct list *l = ud;
    const char *id = json_string_value(json_object_get(record, "request_id"));
    assert_non_null(id);
    (void)snprintf(l->n ? l->last : l->first, 40, "%s", id);
    return ++l->n != l->max;
}

static struct list list(const char *model, int64_t since_us, int64_t limit)
{
    struct list l = {0};
    struct failure f = {0};
    struct records_reader *r = reader_ok();
    const struct records_query q = {model, since_us, limit};
    if (!records_list(r, &q, on_row, &l, &f)) {
        fail_msg("%s", f.message);
    }
    records_reader_close(r);
    return l;
}

static void test_append_and_read(void **state)
{
    (void)state;
    struct waiter w;
    waiter_init(&w);
    fresh_path("deep/er/than/that");
    struct records *r = open_ok();
    assert_true(records_is_writable(r));
    for (int i = 1; i <= 150; i++) {
        append(r, i, &w);
    }
    waiter_wait(&w, 150);
    assert_int_equal(w.n_ok, 150);
    assert_int_equal(records_n_failed(r), 0);

    /* While the writer has it open. */
    struct list l = list(NULL, 0, 0);
    assert_int_equal(l.n, 100);
    assert_string_equal(l.first, "req_00000000000000000000000000000150"); /* newest first */
    assert_int_equal(list(NULL, 0, 1000).n, 150);
    assert_int_equal(list(NULL, 0, 7).n, 7);
    assert_int_equal(list(NULL, 1700000000000141, 0).n, 10);
    assert_int_equal(list("local", 0, 0).n, 50);
    assert_int_equal(list("fast", 0, 0).n, 75); /* the name that was asked for */
    assert_int_equal(list("openai/gpt-4o-mini", 0, 1000).n, 125);
    assert_int_equal(list("fast", 1700000000000141, 0).n, 5);
    assert_int_equal(list("nobody", 0, 0).n, 0);

    struct failure f = {0};
    struct records_reader *reader = reader_ok();
    json_t *record = records_get(reader, "req_00000000000000000000000000000007", &f);
    assert_non_null(record);
    assert_int_equal(json_integer_value(json_object_get(record, "seed")), -7);
    assert_true(json_real_value(json_object_get(json_object_get(record, "asked"), "temperature")) ==
                0.7);
    json_decref(record);
    assert_null(records_get(reader, "req_1", &f));
    assert_int_equal(f.status, 404);
    struct list stopped = {.max = 3};
    assert_true(records_list(reader, &(struct records_query){0}, on_row, &stopped, &f));
    assert_int_equal(stopped.n, 3);
    records_reader_close(reader);
    records_close(r);
    records_close(NULL);
    records_reader_close(NULL);

    /* And when it is closed. The columns hold what people query by hand. */
    assert_int_equal(list(NULL, 0, 1000).n, 150);
    assert_int_equal(
        number_in(
            "SELECT count(*) FROM records WHERE seed = -7 AND status = 200 AND catalog_version = 3 "
            "AND"
            " outcome = 'ok' AND error_code IS NULL AND detail LIKE '%\"temperature\":0.7}%'"),
        1);
    assert_int_equal(number_in("SELECT count(*) FROM records WHERE seed IS NULL"), 75);
    assert_int_equal(number_in("PRAGMA user_version"), 1);
    assert_true(number_in("PRAGMA integrity_check"));
}

static bool on_model(const char *model, void *ud)
{
    char *all = ud;
    size_t n = strlen(all);
    (void)snprintf(all + n, 200 - n, "%s ", model);
    return strlen(all) < 20;
}

/* Names asked for and names that answered, each once, of the time since. */
static void test_models(void **state)
{
    (void)state;
    struct waiter w;
    struct failure f = {0};
    waiter_init(&w);
    fresh_path("models");
    struct records *r = open_ok();
    struct records_reader *reader = reader_ok();
    char all[200] = "";
    assert_true(records_models(reader, 0, on_model, all, &f));
    assert_string_equal(all, "");
    for (int i = 1; i <= 9; i++) { /* the eighth: openai/gpt-4o-mini; the ninth: fast -> local */
        append(r, i, &w);
    }
    waiter_wait(&w, 9);
    assert_true(records_models(reader, 0, on_model, all, &f));
    assert_string_equal(all, "fast local openai/gpt-4o-mini ");
    all[0] = '\0';
    assert_true(records_models(reader, 1700000000000009, on_model, all, &f));
    assert_string_equal(all, "fast local ");
    (void)snprintf(all, sizeof all, "it stops when told: ");
    assert_true(records_models(reader, 0, on_model, all, &f));
    assert_string_equal(all, "it stops when told: fast ");
    records_reader_close(reader);
    records_close(r);
}

static void test_modes(void **state)
{
    (void)state;
    struct stat st;
    char folder[128];
    mode_t old = umask(0);
    fresh_path("modes/a");
    struct records *r = open_ok();
    assert_true(append_wait(r, 1));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    (void)snprintf(folder, sizeof folder, "%s-wal", path);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    (void)snprintf(folder, sizeof folder, "%s/modes", dir);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    records_close(r);
    (void)umask(old);
}

/* ---- on a loop */

struct on_loop {
    struct loop *loop;
    struct records *records;
    pthread_t thread;
    int n, n_ok;
};

static void on_loop_done(bool ok, void *ud)
{
    struct on_loop *o = ud;
    assert_true(pthread_equal(pthread_self(), o->thread));
    o->n_ok += ok;
    if (++o->n == 3) {
        loop_stop(o->loop);
        return;
    }
    struct fingerprint f;
    fill(&f, o->n);
    assert_true(records_append(o->records, &f, o->loop, on_loop_done, o));
}

static void test_done_on_its_loop(void **state)
{
    (void)state;
    fresh_path("loop");
    struct on_loop o = {.records = open_ok(), .thread = pthread_self()};
    assert_true(loop_new(&o.loop));
    struct fingerprint f;
    fill(&f, 0);
    assert_true(records_append(o.records, &f, o.loop, on_loop_done, &o));
    loop_run(o.loop);
    assert_int_equal(o.n_ok, 3);
    records_close(o.records);
    loop_free(o.loop);
}

static void test_an_id_twice_costs_only_itself(void **state)
{
    (void)state;
    struct waiter w;
    waiter_init(&w);
    fresh_path("twice");
    struct records *r = open_ok();
    assert_true(append_wait(r, 5));
    for (int i = 1; i <= 10; i++) {
        append(r, i, &w);
    }
    waiter_wait(&w, 10);
    assert_int_equal(w.n_ok, 9);
    assert_int_equal(w.n_failed, 1);
    assert_int_equal(records_n_failed(r), 1);
    assert_true(records_is_writable(r));
    records_close(r);
    assert_int_equal(list(NULL, 0, 0).n, 10);
}

/* Closing commits what waits, and every caller is told. */
static void test_close_commits(void **state)
{
    (void)state;
    struct waiter w;
    waiter_init(&w);
    fresh_path("close");
    struct records *r = open_ok();
    for (int i = 0; i < 3000; i++) {
        append(r, i, &w);
    }
    records_close(r);
    assert_int_equal(w.n_ok, 3000);
    assert_int_equal(list(NULL, 0, 100000).n, 3000);
}

/* ---- other processes */

static void test_a_lock_of_another_only_delays(void **state)
{
    (void)state;
    int locked[2];
    char byte;
    fresh_path("lock");
    struct records *r = open_ok();
    assert_int_equal(pipe(locked), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sqlite3 *db = NULL;
        bool ok = sqlite3_open(path, &db) == SQLITE_OK &&
                  sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
        ok = write(locked[1], "x", 1) == 1 && ok;
        (void)usleep(1200 * 1000);
        _exit(ok && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK ? 0 : 1);
    }
    assert_int_equal(read(locked[0], &byte, 1), 1);
    struct waiter w;
    waiter_init(&w);
    for (int i = 0; i < 50; i++) {
        append(r, i, &w);
    }
    assert_int_equal(list(NULL, 0, 0).n, 0); /* readers do not wait */
    waiter_wait(&w, 50);
    assert_int_equal(w.n_ok, 50);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    records_close(r);
    (void)close(locked[0]);
    (void)close(locked[1]);
}

/* The child tells each acknowledged id through the pipe. */
static int told_fd;

static void tell(bool ok, void *ud)
{
    int id = (int)(intptr_t)ud;
    if (!ok || write(told_fd, &id, sizeof id) != sizeof id) {
        _exit(1);
    }
}

static void child_appends(int first)
{
    struct records *r = NULL;
    if (!records_open(&r, path, NULL)) {
        _exit(1);
    }
    for (int i = first;; i++) {
        struct fingerprint f;
        fill(&f, i);
        if (!records_append(r, &f, NULL, tell, (void *)(intptr_t)i)) {
            (void)usleep(1000);
            fingerprint_release(&f);
            i--;
        }
    }
}

/* Ids that were acknowledged before the kill; *n of them. */
static void run_and_kill(int first, char *is_told, int cap, int n_wait)
{
    int fd[2], id, n = 0;
    assert_int_equal(pipe(fd), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(fd[0]);
        told_fd = fd[1];
        child_appends(first);
    }
    (void)close(fd[1]);
    while (read(fd[0], &id, sizeof id) == sizeof id) {
        assert_in_range(id, first, cap - 1);
        is_told[id] = 1;
        if (++n == n_wait) {
            assert_int_equal(kill(child, SIGKILL), 0);
        }
    }
    assert_true(n >= n_wait);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(fd[0]);
}

static void test_kill_loses_nothing(void **state)
{
    (void)state;
    enum { CAP = 400000, ROUNDS = 4 };
    char *is_told = calloc(1, CAP);
    assert_non_null(is_told);
    fresh_path("kill");
    for (int round = 0; round < ROUNDS; round++) {
        run_and_kill(round * (CAP / ROUNDS), is_told, CAP, 1 + round * 700);
        /* A reader works before any writer has looked at the left-over log. */
        struct failure f = {0};
        struct records_reader *r = reader_ok();
        for (int i = 0; i < CAP; i++) {
            if (is_told[i]) {
                char id[40];
                (void)snprintf(id, sizeof id, "req_%032d", i);
                json_t *record = records_get(r, id, &f);
                assert_non_null(record);
                json_decref(record);
            }
        }
        records_reader_close(r);
        assert_true(number_in("PRAGMA integrity_check"));
    }
    free(is_told);
}

/* ---- the disk */

static void wait_writable(struct records *r, bool is_writable)
{
    for (int i = 0; i < 1000 && records_is_writable(r) != is_writable; i++) {
        (void)usleep(10 * 1000);
    }
    assert_int_equal(records_is_writable(r), is_writable);
}

static void test_a_full_disk_and_after(void **state)
{
    (void)state;
    fresh_path("full");
    struct records *r = open_ok();
    int n_ok = 0;
    assert_true(append_wait(r, n_ok++));
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 100000;
    void (*old_handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int i = 1000;
    while (i < 1500 && append_wait(r, i)) {
        n_ok++;
        i++;
    }
    assert_int_not_equal(i, 1500);
    assert_false(records_is_writable(r));
    assert_false(append_wait(r, 2000)); /* told at once, each time */
    assert_true(records_n_failed(r) >= 2);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    wait_writable(r, true); /* without any append */
    assert_true(append_wait(r, 2000));
    n_ok++;
    (void)signal(SIGXFSZ, old_handler);
    records_close(r);
    assert_int_equal(number_in("SELECT count(*) FROM records"), n_ok);
    assert_true(number_in("PRAGMA integrity_check"));
}

static void test_a_file_that_is_moved_away(void **state)
{
    (void)state;
    char moved[160];
    fresh_path("moved");
    struct records *r = open_ok();
    assert_true(append_wait(r, 1));
    (void)snprintf(moved, sizeof moved, "%s.old", path);
    assert_int_equal(rename(path, moved), 0);
    assert_true(append_wait(r, 2)); /* not into the file that nobody looks at */
    assert_int_equal(list(NULL, 0, 0).n, 1);
    assert_int_equal(unlink(path), 0);
    assert_true(append_wait(r, 3));
    records_close(r);
    assert_int_equal(list(NULL, 0, 0).n, 1);
    (void)snprintf(path, sizeof path, "%s", moved);
    assert_int_equal(list(NULL, 0, 0).n, 1);
}

/* ---- files that are refused */

static char *slurp(const char *file, size_t *len)
{
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    char *p = malloc(1 << 20);
    assert_non_null(p);
    *len = fread(p, 1, 1 << 20, f);
    (void)fclose(f);
    return p;
}

static void spill(const char *file, const char *p, size_t len)
{
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* Neither opened nor changed; the message names the file and says what to do. */
static void refused(const char *part)
{
    struct records *r = NULL;
    struct failure f = {0};
    size_t before_len, after_len;
    char *before = slurp(path, &before_len);
    assert_false(records_open(&r, path, &f));
    assert_null(r);
    if (!strstr(f.message, part) || !strstr(f.message, path) || strchr(f.message, '\n')) {
        fail_msg("'%s' is not in '%s'", part, f.message);
    }
    char *after = slurp(path, &after_len);
    assert_int_equal(before_len, after_len);
    assert_memory_equal(before, after, before_len);
    free(before);
    free(after);
}

static void test_damaged_files(void **state)
{
    (void)state;
    size_t len;
    fresh_path("good");
    struct records *r = open_ok();
    struct waiter w;
    waiter_init(&w);
    for (int i = 0; i < 200; i++) {
        append(r, i, &w);
    }
    records_close(r);
    char *good = slurp(path, &len), *bad = malloc(len);
    assert_non_null(bad);
    assert_true(len > 20 * 4096);
    (void)snprintf(path, sizeof path, "%s/bad.db", dir);

    for (size_t page = 0; page < len / 4096; page += 5) { /* any page, the first too */
        memcpy(bad, good, len);
        memset(bad + page * 4096, 0, 4096);
        spill(path, bad, len);
        refused("damaged");
    }
    spill(path, good, len - 4096);
    refused("damaged");
    spill(path, good, 5000);
    refused("damaged");
    spill(path, good, 100);
    refused("damaged");
    memset(bad, 'x', len);
    spill(path, bad, len);
    refused("damaged");
    spill(path, "hello\n", 6);
    refused("damaged");
    spill(path, good, len);
    records_close(open_ok()); /* the test's own files are right */
    free(good);
    free(bad);
}

static void make_db(const char *sql)
{
    sqlite3 *db = NULL;
    (void)unlink(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_files_of_others(void **state)
{
    (void)state;
    struct records *r = NULL;
    struct failure f = {0};
    (void)snprintf(path, sizeof path, "%s/other.db", dir);
    make_db("CREATE TABLE t (x)");
    refused("another program");
    make_db("PRAGMA application_id = 77");
    refused("another program");
    make_db(
        "PRAGMA application_id = 1232293746; PRAGMA user_version = 2; CREATE TABLE records (x)");
    refused("newer version");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(records_open(&r, path, &f));
    assert_non_null(strstr(f.message, "not a regular file"));
    f = (struct failure){0};
    assert_false(records_open(&r, "/proc/nowhere/records.db", &f));
    assert_non_null(strstr(f.message, "cannot be made"));
    f = (struct failure){0};
    (void)snprintf(path, sizeof path, "%s/empty.db", dir);
    spill(path, "", 0); /* made and then killed: version 0 */
    r = open_ok();
    assert_true(append_wait(r, 1));
    records_close(r);
}

static void test_readers_of_nothing(void **state)
{
    (void)state;
    struct records_reader *r = NULL;
    struct failure f = {0};
    (void)snprintf(path, sizeof path, "%s/nothing.db", dir);
    assert_false(records_reader_open(&r, path, &f));
    assert_int_equal(f.status, 404);
    assert_non_null(strstr(f.message, "no such file"));
    assert_int_not_equal(access(path, F_OK), 0);
    f = (struct failure){0};
    spill(path, "", 0);
    assert_false(records_reader_open(&r, path, &f));
    assert_non_null(strstr(f.message, "no records yet"));
    assert_null(r);
}

/* Another user may not look; the message says why. Only root can try. */
static void test_readers_without_permission(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    fresh_path("private");
    struct records *r = open_ok();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct records_reader *reader = NULL;
        struct failure f = {0};
        bool ok = setuid(65534) == 0 && !records_reader_open(&reader, path, &f);
        _exit(ok && strstr(f.message, "Permission denied") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    records_close(r);
}

/* A record whose JSON was changed by hand is told by its id. */
static void test_a_damaged_record(void **state)
{
    (void)state;
    fresh_path("detail");
    struct records *r = open_ok();
    assert_true(append_wait(r, 1));
    records_close(r);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE records SET detail = '{'", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    struct failure f = {0};
    struct records_reader *reader = reader_ok();
    struct list l = {0};
    assert_false(records_list(reader, &(struct records_query){0}, on_row, &l, &f));
    assert_non_null(strstr(f.message, "'req_00000000000000000000000000000001' is damaged"));
    assert_null(records_get(reader, "req_00000000000000000000000000000001", NULL));
    records_reader_close(reader);
}

int main(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/test_records.XXXXXX");
    if (!mkdtemp(dir)) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append_and_read),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_done_on_its_loop),
        cmocka_unit_test(test_an_id_twice_costs_only_itself),
        cmocka_unit_test(test_close_commits),
        cmocka_unit_test(test_a_lock_of_another_only_delays),
        cmocka_unit_test(test_kill_loses_nothing),
        cmocka_unit_test(test_a_full_disk_and_after),
        cmocka_unit_test(test_a_file_that_is_moved_away),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_files_of_others),
        cmocka_unit_test(test_readers_of_nothing),
        cmocka_unit_test(test_readers_without_permission),
        cmocka_unit_test(test_a_damaged_record),
    };
    int rc = cmocka_run_group_tests_name("records", tests, NULL, NULL);
    if (rc == 0) { /* kept for a look when something is wrong */
        char cmd[128];
        (void)snprintf(cmd, sizeof cmd, "rm -r %s", dir);
        rc = system(cmd) != 0;
    }
    return rc;
}
