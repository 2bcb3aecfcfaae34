/* test_keeper.c - new versions are taken up while it runs; what cannot be used is refused and left
 * alone; older versions for requests. Evidence is in test_keeper_evidence.c. */
#include "keeper_help.h"

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

/* How a database may be no database. */
enum damage { CUT, ZERO_PAGE, NEWER_SCHEMA, EMPTY, ZEROS, NOISE, A_FOLDER, NOT_THERE, N_DAMAGES };

/* Writes it to `db`; `bytes` becomes what the file holds, *len long. */
static void write_damaged(const char *db, enum damage kind, char *bytes, size_t *len)
{
    size_t n = *len;
    switch (kind) {
    case CUT:
        *len = n / 2;
        break;
    case ZERO_PAGE:
        memset(bytes + 8192, 0, 4096);
        break;
    case NEWER_SCHEMA:
        bytes[60 + 3] = 99;
        break;
    case EMPTY:
        *len = 0;
        break;
    case ZEROS:
        memset(bytes, 0, n);
        break;
    case NOISE:
        memset(bytes, 'x', n);
        break;
    case A_FOLDER:
        assert_int_equal(mkdir(db, 0700), 0);
        return;
    default:
        return;
    }
    spill(db, bytes, *len);
}

static void assert_holds(const char *path, const char *bytes, size_t len)
{
    size_t n;
    char *now = slurp(path, &n);
    assert_int_equal(n, len);
    assert_memory_equal(now, bytes, len);
    free(now);
}

static void refuse_at_start(enum damage kind, const char *good, const char *shipped)
{
    const char *db = fresh_path(".db");
    size_t n;
    struct rig r;
    struct failure f;
    char *bytes = slurp(good, &n);
    size_t len = n;
    bool is_file = kind < A_FOLDER;
    write_damaged(db, kind, bytes, &len);
    int64_t began = now_us();
    start_ok(&r, db, shipped);
    assert_true(now_us() - began < 1000000);
    assert_true(max_of(r.snap) == 1);
    wait_refused(&r, true);
    struct keeper_status s;
    keeper_status(r.k, &s);
    assert_string_equal(s.path, shipped);
    keeper_upgrade(r.k); /* nothing: the file is named, and refused besides */
    if (is_file) {
        assert_holds(db, bytes, len);
        copy(good, db); /* repaired under the keeper */
        wait_max(&r, 3);
        wait_refused(&r, false);
    }
    stop(&r);
    free(bytes);
    if (is_file) {
        assert_int_equal(truncate(db, (off_t)(n / 2)), 0);
        assert_false(start(&r, db, NULL, &f));
        assert_true(f.status >= 400 && f.message[0]);
        assert_false(start(&r, db, db, &f));
    }
}

static void test_refused_at_start(void **state)
{
    (void)state;
    const char *good = fresh_path(".db"), *shipped = fresh_path(".db");
    (void)build(good, 3);
    (void)build(shipped, 1);
    for (int kind = 0; kind < N_DAMAGES; kind++) {
        refuse_at_start((enum damage)kind, good, shipped);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_up),         cmocka_unit_test(test_pin),
        cmocka_unit_test(test_refused_at_start), cmocka_unit_test(test_damaged_while_running),
        cmocka_unit_test(test_without_notices),  cmocka_unit_test(test_upgrade),
        cmocka_unit_test(test_versions),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
