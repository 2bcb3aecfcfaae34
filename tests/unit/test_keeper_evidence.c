/* test_keeper_evidence.c - evidence is bounded, about the right claims, and written; what it
 * changes where it may. */
#include "gateway/io/keeper_notes.h"

#include "keeper_help.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evidence),
        cmocka_unit_test(test_evidence_is_not_written_elsewhere),
        cmocka_unit_test(test_evidence_across_a_replacement),
        cmocka_unit_test(test_apply),
        cmocka_unit_test(test_queue),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
