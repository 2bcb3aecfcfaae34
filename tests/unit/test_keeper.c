/* test_keeper.c - new versions are taken up while it runs; what cannot be used is refused and left
 * alone; older versions for requests; evidence is bounded, about the right claims, and written. */
#include "gateway/io/keeper.h"

#include "catalog/versions.h"
#include "gateway/backend/refusal.h"
#include "gateway/base/log.h"
#include "gateway/exchange_evidence.h"
#include "gateway/io/keeper_notes.h"
#include "gateway/io/keeper_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64]; /* of this run */
static unsigned n_names;

/* ---- databases */

static const char *fresh_path(const char *ending)
{
    static char names[64][128];
    char *p = names[n_names++ % 64];
    (void)snprintf(p, 128, "%s/%u%s", dir, n_names, ending);
    return p;
}

/* A new version in the database: its `temperature` ends at `max`. */
static int64_t build(const char *db, double max)
{
    const char *source = fresh_path(".json");
    struct catalog_error err = {.code = CATALOG_OK};
    struct catalog_version v;
    FILE *f = fopen(source, "w");
    assert_non_null(f);
    (void)fprintf(f,
                  "{\"provider\": {\"id\": \"p\", \"title\": \"P\", \"dialect\": \"openai\", "
                  "\"base_url\": \"http://127.0.0.1:1\", \"chat_path\": \"/c\", \"auth\": "
                  "\"none\", \"chat_endpoint\": \"/c\"}, \"claims\": [\n"
                  "{\"models\": \"*\", \"endpoint\": \"/c\", \"param\": \"temperature\", \"wire\": "
                  "\"temperature\", \"support\": \"yes\", \"min\": 0, \"max\": %g, \"source\": "
                  "\"s\", \"as_of\": \"2026-11-30\", \"confidence\": \"high\"},\n"
                  "{\"models\": \"*\", \"endpoint\": \"/c\", \"param\": \"top_p\", \"wire\": "
                  "\"top_p\", \"support\": \"yes\", \"min\": 0, \"max\": 1, \"source\": \"s\", "
                  "\"as_of\": \"2026-11-30\", \"confidence\": \"high\"}]}\n",
                  max);
    assert_int_equal(fclose(f), 0);
    struct version_stamp stamp = {"test", "a test", "2026-11-30T00:00:00Z"};
    if (!catalog_build(db, &source, 1, &stamp, &v, &err)) {
        fail_msg("%s", err.text);
    }
    return v.number;
}

static const struct claim *claim_of(struct snapshot *s, const char *model, enum param p)
{
    struct rules r;
    struct catalog_error err = {.code = CATALOG_OK};
    assert_true(snapshot_rules(s, "p", model, CATALOG_CHAT, "2026-11-30", &r, &err));
    return r.param[p];
}

static double max_of(struct snapshot *s)
{
    return claim_of(s, "m", PARAM_TEMPERATURE)->max;
}

static void spill(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *all = calloc(1, 1 << 22);
    assert_non_null(f);
    assert_non_null(all);
    *n = fread(all, 1, 1 << 22, f);
    (void)fclose(f);
    return all;
}

static void copy(const char *from, const char *to)
{
    size_t n;
    char *all = slurp(from, &n);
    spill(to, all, n);
    free(all);
}

/* ---- a keeper under test */

struct rig {
    struct keeper *k;
    struct keeper_options o;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct snapshot *snap;
    unsigned n_given;
};

static void on_snapshot(struct snapshot *s, void *ud)
{
    struct rig *r = ud;
    (void)pthread_mutex_lock(&r->lock);
    struct snapshot *old = r->snap;
    r->snap = s;
    r->n_given++;
    (void)pthread_cond_broadcast(&r->changed);
    (void)pthread_mutex_unlock(&r->lock);
    snapshot_release(old);
}

static int64_t now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static bool start(struct rig *r, const char *path, const char *shipped, struct failure *f)
{
    memset(r, 0, sizeof *r);
    memset(f, 0, sizeof *f);
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->changed, NULL);
    r->o = (struct keeper_options){.path = path,
                                   .shipped = shipped,
                                   .is_named = true,
                                   .learn = KEEPER_LEARN_SUGGEST,
                                   .on_snapshot = on_snapshot,
                                   .ud = r};
    return keeper_start(&r->k, &r->o, &r->snap, f);
}

static void start_ok(struct rig *r, const char *path, const char *shipped)
{
    struct failure f;
    if (!start(r, path, shipped, &f)) {
        fail_msg("%s", f.message);
    }
}

static void stop(struct rig *r)
{
    keeper_stop(r->k);
    snapshot_release(r->snap);
    r->k = NULL;
    r->snap = NULL;
}

/* The snapshot in use; yours. */
static struct snapshot *current(struct rig *r)
{
    (void)pthread_mutex_lock(&r->lock);
    struct snapshot *s = snapshot_ref(r->snap);
    (void)pthread_mutex_unlock(&r->lock);
    return s;
}

/* Waits until `temperature` ends at max; within five seconds. */
static void wait_max(struct rig *r, double max)
{
    int64_t end = now_us() + 5000000;
    for (;;) {
        struct snapshot *s = current(r);
        bool ok = max_of(s) == max;
        snapshot_release(s);
        if (ok) {
            return;
        }
        if (now_us() > end) {
            fail_msg("no version with max %g within 5 s", max);
        }
        (void)usleep(500);
    }
}

static void wait_refused(struct rig *r, bool is_refused)
{
    struct keeper_status s;
    int64_t end = now_us() + 5000000;
    do {
        keeper_status(r->k, &s);
        (void)usleep(1000);
    } while ((s.refused[0] != '\0') != is_refused && now_us() < end);
    assert_int_equal(s.refused[0] != '\0', is_refused);
    assert_int_equal(s.is_fallback, is_refused);
}

/* ---- taking up */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void test_takes_up(void **state)
{
    (void)state;
    const char *db = fresh_path(".db");
    int64_t us[20];
    struct rig r;
    assert_int_equal(build(db, 1), 1);
    start_ok(&r, db, NULL);
    struct snapshot *first = current(&r);
    for (int i = 0; i < 20; i++) {
        double max = 1.5 + i;
        assert_int_equal(build(db, max), i + 2);
        int64_t began = now_us();
        wait_max(&r, max);
        us[i] = now_us() - began;
    }
    qsort(us, 20, sizeof *us, by_value);
    print_message("taken up after %lld us (median of 20), %lld us at most\n", (long long)us[10],
                  (long long)us[19]);
    assert_true(us[19] < 1000000);
    assert_int_equal(snapshot_version(first), 1);
    assert_true(max_of(first) == 1); /* who holds it keeps it */
    struct keeper_status s;
    keeper_status(r.k, &s);
    assert_string_equal(s.path, db);
    assert_int_equal(s.version, 21);
    assert_int_equal(s.newest, 21);
    assert_string_equal(s.created, "2026-11-30T00:00:00Z");
    assert_false(s.is_fallback);
    stop(&r);
    assert_true(max_of(first) == 1);
    snapshot_release(first);
    keeper_stop(NULL);
}

static void test_pin(void **state)
{
    (void)state;
    const char *db = fresh_path(".db");
    struct rig r;
    struct failure f;
    (void)build(db, 1);
    (void)build(db, 2);
    start_ok(&r, db, NULL);
    wait_max(&r, 2);
    keeper_set(r.k, 1, KEEPER_LEARN_SUGGEST);
    wait_max(&r, 1);
    assert_int_equal(build(db, 3), 3); /* does not move who is pinned */
    struct keeper_status s;
    int64_t end = now_us() + 5000000;
    do {
        keeper_status(r.k, &s);
    } while (s.newest != 3 && now_us() < end && usleep(1000) == 0);
    assert_int_equal(s.newest, 3);
    assert_int_equal(s.version, 1);
    keeper_set(r.k, 9, KEEPER_LEARN_SUGGEST);
    wait_refused(&r, true); /* the last good one stays */
    wait_max(&r, 1);
    struct snapshot *older = keeper_loaded(r.k, 1);
    assert_non_null(older);
    snapshot_release(older);
    keeper_set(r.k, 0, KEEPER_LEARN_SUGGEST);
    wait_max(&r, 3);
    wait_refused(&r, false);
    stop(&r);

    memset(&r, 0, sizeof r);
    r.o = (struct keeper_options){
        .path = db, .is_named = true, .pin = 9, .on_snapshot = on_snapshot, .ud = &r};
    memset(&f, 0, sizeof f);
    assert_false(keeper_start(&r.k, &r.o, &r.snap, &f));
    assert_non_null(strstr(f.message, "9"));
}

/* ---- what cannot be used */

static void test_refused_at_start(void **state)
{
    (void)state;
    const char *good = fresh_path(".db"), *shipped = fresh_path(".db");
    size_t n;
    struct rig r;
    struct failure f;
    (void)build(good, 3);
    (void)build(shipped, 1);
    char *whole = slurp(good, &n);
    for (int kind = 0; kind < 8; kind++) {
        const char *db = fresh_path(".db");
        char *bytes = calloc(1, n);
        assert_non_null(bytes);
        memcpy(bytes, whole, n);
        size_t len = n;
        switch (kind) {
        case 0: /* cut in half */
            len = n / 2;
            break;
        case 1: /* a page of zeros */
            memset(bytes + 8192, 0, 4096);
            break;
        case 2: /* a newer schema */
            bytes[60 + 3] = 99;
            break;
        case 3:
            len = 0;
            break;
        case 4:
            memset(bytes, 0, n);
            break;
        case 5:
            memset(bytes, 'x', n);
            break;
        default:
            break;
        }
        if (kind == 6) {
            assert_int_equal(mkdir(db, 0700), 0);
        } else if (kind != 7) { /* 7: not there */
            spill(db, bytes, len);
        }
        int64_t began = now_us();
        start_ok(&r, db, shipped);
        assert_true(now_us() - began < 1000000);
        assert_true(max_of(r.snap) == 1);
        wait_refused(&r, true);
        struct keeper_status s;
        keeper_status(r.k, &s);
        assert_string_equal(s.path, shipped);
        keeper_upgrade(r.k); /* nothing: the file is named, and refused besides */
        if (kind < 6) {
            size_t n_now;
            char *now = slurp(db, &n_now);
            assert_int_equal(n_now, len);
            assert_memory_equal(now, bytes, len);
            free(now);
            copy(good, db); /* repaired under the keeper */
            wait_max(&r, 3);
            wait_refused(&r, false);
        }
        stop(&r);
        free(bytes);
        if (kind < 6) {
            spill(db, whole, n / 2);
            assert_false(start(&r, db, NULL, &f));
            assert_true(f.status >= 400 && f.message[0]);
            assert_false(start(&r, db, db, &f));
        }
    }
    free(whole);
}

static void test_damaged_while_running(void **state)
{
    (void)state;
    const char *db = fresh_path(".db"), *next = fresh_path(".db");
    size_t n;
    struct rig r;
    (void)build(db, 1);
    (void)build(next, 2);
    start_ok(&r, db, NULL);
    char *whole = slurp(db, &n);

    spill(db, whole, n / 2); /* cut */
    wait_refused(&r, true);
    wait_max(&r, 1);
    spill(db, whole, n);
    wait_refused(&r, false);

    memset(whole + 8192, 0, 4096); /* a page of zeros, the size stays */
    int fd = open(db, O_WRONLY);
    assert_int_equal(pwrite(fd, whole + 8192, 4096, 8192), 4096);
    assert_int_equal(close(fd), 0);
    wait_refused(&r, true);

    assert_int_equal(rename(next, db), 0); /* replaced by rename */
    wait_max(&r, 2);
    wait_refused(&r, false);

    assert_int_equal(unlink(db), 0);
    wait_refused(&r, true);
    wait_max(&r, 2);
    assert_int_not_equal(access(db, F_OK), 0); /* nobody makes it again */
    assert_int_equal(build(db, 4), 1);
    wait_max(&r, 4);
    stop(&r);
    free(whole);
}

/* A link into another folder, and a folder that is not there yet: found by looking. */
static void test_without_notices(void **state)
{
    (void)state;
    const char *db = fresh_path(".db"), *link_path = fresh_path(".link"),
               *folder = fresh_path(".d");
    char real[128], below[160];
    struct rig r;
    (void)snprintf(real, sizeof real, "%s.r", folder);
    assert_int_equal(mkdir(real, 0700), 0);
    (void)snprintf(below, sizeof below, "%s/x.db", real);
    (void)build(below, 1);
    assert_int_equal(symlink(below, link_path), 0);
    start_ok(&r, link_path, NULL);
    (void)build(below, 2);
    int64_t began = now_us();
    wait_max(&r, 2);
    assert_true(now_us() - began < 1000000);
    stop(&r);

    (void)build(db, 1);
    (void)snprintf(below, sizeof below, "%s/x.db", folder);
    start_ok(&r, below, db);
    wait_max(&r, 1);
    assert_int_equal(mkdir(folder, 0700), 0);
    (void)build(below, 7);
    wait_max(&r, 7);
    stop(&r);
}

/* ---- the machine's own */

static void test_upgrade(void **state)
{
    (void)state;
    const char *shipped = fresh_path(".db"), *folder = fresh_path(".state");
    char own[160];
    struct rig r;
    struct failure f;
    (void)snprintf(own, sizeof own, "%s/isotherm/catalog.db", folder);
    (void)build(shipped, 1);
    for (int round = 0; round < 3; round++) {
        memset(&r, 0, sizeof r);
        memset(&f, 0, sizeof f);
        (void)pthread_mutex_init(&r.lock, NULL);
        (void)pthread_cond_init(&r.changed, NULL);
        r.o = (struct keeper_options){.path = own,
                                      .shipped = shipped,
                                      .learn = KEEPER_LEARN_SUGGEST,
                                      .on_snapshot = on_snapshot,
                                      .ud = &r};
        if (round == 2) { /* a newer program */
            (void)build(shipped, 5);
        }
        assert_true(keeper_start(&r.k, &r.o, &r.snap, &f));
        struct keeper_status s;
        keeper_status(r.k, &s);
        assert_string_equal(s.path, round ? own : shipped);
        assert_false(s.is_fallback);
        assert_true(max_of(r.snap) == 1);
        keeper_upgrade(r.k);
        int64_t end = now_us() + 5000000;
        do {
            keeper_status(r.k, &s);
        } while ((strcmp(s.path, own) != 0 || (round == 2 && s.version == 1)) && now_us() < end &&
                 usleep(1000) == 0);
        assert_string_equal(s.path, own);
        assert_string_equal(s.refused, "");
        wait_max(&r, round == 2 ? 5 : 1);
        stop(&r);
    }
}

/* ---- versions for requests */

struct asker {
    struct loop *loop;
    pthread_t thread;
    atomic_int n_answered;
    struct snapshot *snap;
    struct failure fail;
};

static void *run_loop(void *ud)
{
    loop_run(((struct asker *)ud)->loop);
    return NULL;
}

static void on_version(struct snapshot *s, const struct failure *f, void *ud)
{
    struct asker *a = ud;
    assert_true((s != NULL) != (f != NULL));
    snapshot_release(a->snap);
    a->snap = s;
    memset(&a->fail, 0, sizeof a->fail);
    if (f) {
        a->fail = *f;
    }
    (void)atomic_fetch_add(&a->n_answered, 1);
}

static void ask(struct rig *r, struct asker *a, int64_t version)
{
    int n = atomic_load(&a->n_answered);
    int64_t end = now_us() + 5000000;
    assert_true(keeper_version(r->k, version, a->loop, on_version, a));
    while (atomic_load(&a->n_answered) == n && now_us() < end) {
        (void)usleep(500);
    }
    assert_int_equal(atomic_load(&a->n_answered), n + 1);
}

static void test_versions(void **state)
{
    (void)state;
    const char *db = fresh_path(".db");
    struct asker a = {.snap = NULL};
    struct rig r;
    for (int i = 1; i <= 8; i++) {
        assert_int_equal(build(db, i), i);
    }
    start_ok(&r, db, NULL);
    assert_true(loop_new(&a.loop));
    assert_int_equal(pthread_create(&a.thread, NULL, run_loop, &a), 0);
    assert_null(keeper_loaded(r.k, 3));
    for (int i = 1; i <= 8; i++) {
        ask(&r, &a, i);
        assert_non_null(a.snap);
        assert_true(max_of(a.snap) == i);
    }
    struct snapshot *again = keeper_loaded(r.k, 7);
    assert_non_null(again);
    snapshot_release(again);
    assert_null(keeper_loaded(r.k, 1)); /* four beside the one in use */
    static const int64_t wrong[] = {9, INT64_MAX, -1};
    for (size_t i = 0; i < 3; i++) {
        ask(&r, &a, wrong[i]);
        assert_null(a.snap);
        assert_int_equal(a.fail.status, 404);
        assert_string_equal(a.fail.code, "catalog_version_not_found");
    }
    int before = atomic_load(&a.n_answered);
    for (int i = 0; i < 200; i++) { /* all are answered before the stop returns */
        assert_true(keeper_version(r.k, 1 + i % 12, a.loop, on_version, &a));
    }
    stop(&r);
    int64_t end = now_us() + 5000000;
    while (atomic_load(&a.n_answered) < before + 200 && now_us() < end) {
        (void)usleep(500);
    }
    assert_int_equal(atomic_load(&a.n_answered), before + 200);
    loop_stop(a.loop);
    (void)pthread_join(a.thread, NULL);
    snapshot_release(a.snap);
    loop_free(a.loop);
}

/* ---- evidence */

struct rows {
    size_t n;
    int64_t sum;
    struct evidence last;
};

static bool count_row(const struct evidence *e, void *ud)
{
    struct rows *rows = ud;
    rows->n++;
    rows->sum += e->n;
    rows->last = *e;
    return true;
}

static struct rows rows_of(const char *db)
{
    struct rows rows = {.n = 0};
    struct catalog *c = NULL;
    struct catalog_error err = {.code = CATALOG_OK};
    assert_true(catalog_open(&c, db, &err));
    assert_true(evidence_each(c, 0, count_row, &rows, &err));
    catalog_close(c);
    return rows;
}

static struct evidence evidence_of(struct snapshot *s, enum param p, enum claim_verdict verdict)
{
    struct evidence e = {.claim = claim_of(s, "m", p)->id,
                         .verdict = verdict,
                         .origin = EVIDENCE_TRAFFIC,
                         .status = verdict == CLAIM_CONFIRMED ? 200 : 400};
    (void)snprintf(e.model, sizeof e.model, "m");
    (void)snprintf(e.value, sizeof e.value, "0.7");
    (void)snprintf(e.excerpt, sizeof e.excerpt, "Unknown parameter");
    return e;
}

static void wait_verdict(struct rig *r, enum param p, enum claim_verdict verdict)
{
    int64_t end = now_us() + 5000000;
    enum claim_verdict got;
    do {
        struct snapshot *s = current(r);
        got = claim_of(s, "m", p)->verdict;
        snapshot_release(s);
        (void)usleep(1000);
    } while (got != verdict && now_us() < end);
    assert_int_equal(got, verdict);
}

static void test_evidence(void **state)
{
    (void)state;
    const char *db = fresh_path(".db"), *other = fresh_path(".db");
    struct rig r, foreign;
    (void)build(db, 1);
    (void)build(other, 2);
    start_ok(&r, db, NULL);
    start_ok(&foreign, other, NULL);
    struct evidence e = evidence_of(r.snap, PARAM_TEMPERATURE, CLAIM_CONTRADICTED);
    keeper_set(r.k, 0, KEEPER_LEARN_OFF);
    keeper_evidence(r.k, r.snap, &e, false);
    keeper_set(r.k, 0, KEEPER_LEARN_SUGGEST);
    struct snapshot *s = current(&r);
    struct evidence ok = evidence_of(s, PARAM_TOP_P, CLAIM_CONFIRMED);
    assert_false(keeper_is_confirmed(r.k, ok.claim));
    keeper_evidence(r.k, s, &ok, false);
    assert_true(keeper_is_confirmed(r.k, ok.claim));
    assert_false(keeper_is_confirmed(r.k, INT64_MAX));
    assert_false(keeper_is_confirmed(r.k, -1));
    keeper_evidence(r.k, foreign.snap, &ok, false); /* of another database: its ids mean nothing */
    for (int i = 0; i < 5000; i++) {
        keeper_evidence(r.k, s, &e, i % 2);
    }
    wait_verdict(&r, PARAM_TEMPERATURE, CLAIM_CONTRADICTED);
    wait_verdict(&r, PARAM_TOP_P, CLAIM_CONFIRMED);
    keeper_evidence(r.k, s, &e, false); /* of the snapshot that was replaced: the same file */
    struct keeper_status before;
    keeper_status(r.k, &before);
    stop(&r); /* writes what waits */
    stop(&foreign);
    struct rows rows = rows_of(db);
    assert_int_equal(rows.n, 2);
    assert_int_equal(before.n_dropped >= 1, 1);
    assert_true(rows.sum + (int64_t)before.n_dropped >= 5000);
    assert_true(rows.sum <= 5002);
    assert_int_equal(rows_of(other).n, 0);
    snapshot_release(s);
}

static void test_evidence_is_not_written_elsewhere(void **state)
{
    (void)state;
    const char *db = fresh_path(".db"), *shipped = fresh_path(".db");
    struct rig r;
    (void)build(shipped, 1);
    spill(db, "broken", 6);
    start_ok(&r, db, shipped);
    struct evidence e = evidence_of(r.snap, PARAM_TEMPERATURE, CLAIM_CONTRADICTED);
    keeper_evidence(r.k, r.snap, &e, false);
    stop(&r);
    assert_int_equal(rows_of(shipped).n, 0);

    (void)unlink(db);
    (void)build(db, 1);
    start_ok(&r, db, NULL);
    e = evidence_of(r.snap, PARAM_TEMPERATURE, CLAIM_CONTRADICTED);
    assert_int_equal(unlink(db), 0);
    keeper_evidence(r.k, r.snap, &e, false);
    stop(&r);
    assert_int_not_equal(access(db, F_OK), 0); /* no file is made for it */
}

/* Two databases of equal number and hash: what was seen of one is not written into the other. */
static void test_evidence_across_a_replacement(void **state)
{
    (void)state;
    const char *db = fresh_path(".db"), *twin = fresh_path(".db");
    struct rig r;
    (void)build(db, 1);
    (void)build(twin, 1);
    start_ok(&r, db, NULL);
    struct snapshot *s = current(&r);
    struct evidence e = evidence_of(s, PARAM_TEMPERATURE, CLAIM_CONTRADICTED);
    unsigned n = r.n_given;
    assert_int_equal(rename(twin, db), 0);
    int64_t end = now_us() + 5000000;
    for (unsigned now = n; now == n && now_us() < end; (void)usleep(1000)) {
        (void)pthread_mutex_lock(&r.lock);
        now = r.n_given;
        (void)pthread_mutex_unlock(&r.lock);
    }
    keeper_evidence(r.k, s, &e, false);
    stop(&r);
    assert_int_equal(rows_of(db).n, 0);
    snapshot_release(s);
}

static void test_apply(void **state)
{
    (void)state;
    const char *db = fresh_path(".db");
    struct rig r;
    (void)build(db, 1);
    start_ok(&r, db, NULL);
    struct evidence e = evidence_of(r.snap, PARAM_TEMPERATURE, CLAIM_CONTRADICTED);
    (void)snprintf(e.model, sizeof e.model, "m.1+x");
    keeper_evidence(r.k, r.snap, &e, true); /* suggest: nothing changes */
    wait_verdict(&r, PARAM_TEMPERATURE, CLAIM_CONTRADICTED);
    keeper_set(r.k, 0, KEEPER_LEARN_APPLY);
    struct snapshot *s = current(&r);
    assert_int_equal(snapshot_version(s), 1);
    keeper_evidence(r.k, s, &e, false); /* not proved: nothing changes */
    keeper_evidence(r.k, s, &e, true);
    snapshot_release(s);
    int64_t end = now_us() + 5000000;
    do {
        s = current(&r);
        if (snapshot_version(s) == 1) {
            snapshot_release(s);
            s = NULL;
        }
    } while (!s && now_us() < end && usleep(1000) == 0);
    assert_non_null(s);
    assert_int_equal(snapshot_version(s), 2);
    const struct claim *c = claim_of(s, "m.1+x", PARAM_TEMPERATURE);
    assert_int_equal(c->support, CLAIM_REJECTED);
    assert_true(c->is_local);
    assert_int_equal(strncmp(c->source, "live traffic 20", 15), 0);
    assert_int_equal(claim_of(s, "m01+x", PARAM_TEMPERATURE)->support, CLAIM_YES);
    assert_int_equal(claim_of(s, "m", PARAM_TEMPERATURE)->support, CLAIM_YES);

    /* What was set by hand (here: that override) is not overridden again. */
    struct catalog_error err = {.code = CATALOG_OK};
    struct catalog_version v;
    json_t *fields =
        json_pack("{s:s,s:s,s:s}", "support", "yes", "source", "me", "as_of", "2026-11-30");
    struct version_override o = {.provider = "p",
                                 .models = "^hand$",
                                 .endpoint = "/c",
                                 .param = "temperature",
                                 .fields = fields,
                                 .like = e.claim};
    struct version_stamp stamp = {"me", "by hand", "2026-11-30T00:00:00Z"};
    if (!catalog_set(db, &o, &stamp, &v, &err)) {
        fail_msg("%s", err.text);
    }
    json_decref(fields);
    snapshot_release(s);
    do {
        s = current(&r);
        if (snapshot_version(s) != v.number) {
            snapshot_release(s);
            s = NULL;
        }
    } while (!s && now_us() < end && usleep(1000) == 0);
    assert_non_null(s);
    e.claim = claim_of(s, "hand", PARAM_TEMPERATURE)->id;
    (void)snprintf(e.model, sizeof e.model, "hand");
    keeper_evidence(r.k, s, &e, true);
    snapshot_release(s);
    stop(&r);
    struct catalog *cat = NULL;
    int64_t newest = 0;
    assert_true(catalog_open(&cat, db, &err) && catalog_newest(cat, &newest, &err));
    assert_int_equal(newest, v.number);
    catalog_close(cat);
}

static void test_queue(void **state)
{
    (void)state;
    const char *db = fresh_path(".db");
    struct keeper_notes q;
    struct rig r;
    bool was_empty;
    (void)build(db, 1);
    start_ok(&r, db, NULL);
    struct evidence e = evidence_of(r.snap, PARAM_TEMPERATURE, CLAIM_CONTRADICTED);
    assert_true(keeper_notes_init(&q));
    for (int i = 0; i < KEEPER_NOTES_MAX + 10; i++) {
        keeper_notes_push(&q, r.snap, &e, false, &was_empty);
        assert_int_equal(was_empty, i == 0);
    }
    assert_int_equal(atomic_load(&q.n_dropped), 10);
    struct keeper_note *all = keeper_notes_take(&q);
    assert_null(keeper_notes_take(&q));
    keeper_notes_free(all);
    e.verdict = CLAIM_CONFIRMED;
    e.claim = KEEPER_CLAIMS + 5; /* beyond what is remembered */
    keeper_notes_push(&q, r.snap, &e, false, &was_empty);
    assert_false(keeper_notes_was_confirmed(&q, e.claim));
    e.claim = 77;
    keeper_notes_push(&q, r.snap, &e, false, &was_empty);
    assert_true(keeper_notes_was_confirmed(&q, 77));
    keeper_notes_forget(&q);
    assert_false(keeper_notes_was_confirmed(&q, 77));
    keeper_notes_release(&q); /* frees what waits */
    keeper_notes_release(&q);
    stop(&r);
}

/* ---- what may be kept of a refusal's text */

static bool is_content(const char *text, const char *body)
{
    json_t *b = json_loads(body, 0, NULL);
    assert_non_null(b);
    bool is = exchange_evidence_is_content(text, b);
    json_decref(b);
    return is;
}

static void test_content(void **state)
{
    (void)state;
    static const char body[] =
        "{\"model\": \"unsupported-parameter-model-of-long-name\", \"reasoning_effort\": "
        "\"minimal\","
        " \"user\": \"some-one-77\", \"stop\": [\"halting here\"], \"messages\": ["
        "{\"role\": \"developer\", \"content\": \"abcdefghijklmnopqrstuvwxyz0123456789\"},"
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"the pin: 4711\"}]},"
        "{\"role\": \"user\", \"content\": \"hi\"}]}";
    static const struct {
        const char *text;
        bool is;
    } cases[] = {
        {"Unsupported parameter: 'top_k' is not supported with this model.", false},
        {"'minimal' is no effort of unsupported-parameter-model-of-long-name", false},
        {"hi, developer", false},
        {"", false},
        {"you said abcdefghijklmnopqrstuvwx", true},               /* the first 24 */
        {"you said abcdefghijklmnopqrstuvw", false},               /* 23 of a longer text */
        {"you said defghijklmnopqrstuvwxyz01 ...", true},          /* from its middle */
        {"A B C D E F G H I J K L M N O P Q R S T U V W X", true}, /* written otherwise */
        {"nopqrstuvwxyz0123456789", false},
        {"mnopqrstuvwxyz0123456789", true},    /* the last 24 */
        {"about \"THE PIN:\\n4711\"?", false}, /* an n more: not the same letters */
        {"about THE PIN 4711?", true},
        {"ended by 'halting here'", true},
        {"user some-one-77 may not", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (is_content(cases[i].text, body) != cases[i].is) {
            fail_msg("'%s' is taken %sfor content", cases[i].text, cases[i].is ? "not " : "");
        }
    }
    assert_false(is_content("anything at all", "{}"));
}

static void test_refused_as_such(void **state)
{
    (void)state;
    assert_true(refusal_is_of_parameter("unsupported_parameter", ""));
    assert_true(refusal_is_of_parameter("", "Unknown parameter: 'top_k'."));
    assert_true(refusal_is_of_parameter("", "seed: Extra inputs are not permitted"));
    assert_true(refusal_is_of_parameter(
        "", "Unsupported parameter: 'seed' is not supported with this model."));
    assert_false(refusal_is_of_parameter("unsupported_value",
                                         "Unsupported value: 'temperature' does not support 0.2 "
                                         "with this model. Only the default (1) value is "
                                         "supported."));
    assert_false(
        refusal_is_of_parameter("", "Invalid 'temperature': decimal above maximum value."));
    assert_false(refusal_is_of_parameter("", "top_p must be in the range (0, 1]"));
    assert_false(refusal_is_of_parameter("", ""));
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/test_keeper.XXXXXX");
    log_init(LOG_ERROR);
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_up),
        cmocka_unit_test(test_pin),
        cmocka_unit_test(test_refused_at_start),
        cmocka_unit_test(test_damaged_while_running),
        cmocka_unit_test(test_without_notices),
        cmocka_unit_test(test_upgrade),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_evidence),
        cmocka_unit_test(test_evidence_is_not_written_elsewhere),
        cmocka_unit_test(test_evidence_across_a_replacement),
        cmocka_unit_test(test_apply),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_content),
        cmocka_unit_test(test_refused_as_such),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
