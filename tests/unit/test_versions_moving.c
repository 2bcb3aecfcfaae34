/* test_versions_moving.c - versions out and in, evidence, schemas of older programs, two writers,
 * size. */
#include "versions_help.h"

/* ---- export and import */

static bool append_file(const char *text, size_t len, void *ud)
{
    return fwrite(text, 1, len, ud) == len;
}

static void must_export(struct version_export what)
{
    struct catalog_error err = {0};
    struct catalog *c = must_open(db_path);
    FILE *f = fopen(file_path, "wb");
    assert_non_null(f);
    if (!catalog_export(c, &what, append_file, f, &err)) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(fclose(f), 0);
    catalog_close(c);
}

static struct catalog_version must_import(const char *path)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    if (!catalog_import(path, file_path, &stamp, &v, &err)) {
        fail_msg("%s", err.text);
    }
    return v;
}

static const char *const shipped[] = {
    "catalog/providers/openai.json", "catalog/providers/anthropic.json",
    "catalog/providers/mistral.json", "catalog/providers/local.json"};

static struct catalog_version build_shipped(const char *path)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    if (!catalog_build(path, shipped, 4, &stamp, &v, &err)) {
        fail_msg("%s", err.text);
    }
    return v;
}

static void test_export_import(void **state)
{
    (void)state;
    struct catalog_version a = build_shipped(db_path), b;
    size_t len;
    must_export((struct version_export){0});
    b = must_import(other_db);
    assert_string_equal(a.hash, b.hash);
    assert_int_equal(b.kind, VERSION_SHIPPED);
    assert_int_equal(a.n_claims, b.n_claims);
    assert_int_equal(must_import(other_db).number, 1); /* it is there already */
    char *text = read_text(file_path, &len);
    size_t lines = 0;
    for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++) {
        lines++;
    }
    assert_int_equal(lines, (size_t)a.n_claims + 2 + 2 * 4); /* one claim a line */
    free(text);
    /* One provider: the others stay. */
    must_export((struct version_export){.provider = "mistral"});
    remove_db(other_db);
    (void)must_build_at(other_db, three);
    b = must_import(other_db);
    assert_int_equal(say_at(other_db, 0, "top_k").n > 1, 1);
    assert_true(b.n_claims > 3);
    assert_int_equal(must_import(other_db).number, 2);
}

static void test_export_overrides(void **state)
{
    (void)state;
    struct catalog_version a, b;
    (void)must_build(three);
    (void)must_build_at(other_db, three);
    (void)must_set("*", "top_k", "{\"max\":50" OURS "}");
    (void)must_set("^new$", "top_p",
                   "{\"max\":0.1,\"wire\":\"top_p\",\"support\":\"yes\",\"confidence\":\"low\"" OURS
                   "}");
    must_export((struct version_export){.overrides_only = true});
    a = must_set("*", "top_k", "{\"max\":50" OURS "}");
    b = must_import(other_db);
    assert_string_equal(a.hash, b.hash);
    assert_int_equal(b.kind, VERSION_LOCAL);
    assert_int_equal(b.number, 2); /* one version with all of them */
    assert_int_equal(must_import(other_db).number, 2);
    /* Onto other shipped data: what is there replaces what it can, the rest comes besides. */
    remove_db(other_db);
    (void)must_build_at(other_db, SOURCE(CLAIM("*", "top_k", "\"max\":41,")));
    b = must_import(other_db);
    assert_string_equal(say_at(other_db, 0, NULL).order, "*/top_k=50 ^new$/top_p=0.1 ");
    /* A removal travels, too. */
    remove_db(db_path);
    remove_db(other_db);
    (void)ship(1, 1);
    set_local(1, 0);
    assert_string_equal(say(NULL).order, "*/top_k=1 */top_p=1 ");
    must_export((struct version_export){.overrides_only = true});
    must_build_at(other_db, SOURCE(CLAIM("*", "top_k", "\"max\":1,") "," CLAIM(
                                "*", "seed", "\"max\":1,") "," CLAIM("*", "top_p", "\"max\":1,")));
    b = must_import(other_db);
    assert_string_equal(say_at(other_db, 0, NULL).order, "*/top_k=1 */top_p=1 ");
    assert_int_equal(must_import(other_db).number, b.number);
}

static bool refuse_write(const char *text, size_t len, void *ud)
{
    (void)text;
    (void)len;
    return ++*(int *)ud < 3;
}

static void test_export_that_cannot_be_written(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    int n = 0;
    (void)must_build(three);
    struct catalog *c = must_open(db_path);
    assert_false(catalog_export(c, &(struct version_export){0}, refuse_write, &n, &err));
    assert_int_equal(err.code, CATALOG_IO);
    err = (struct catalog_error){0};
    assert_false(
        catalog_export(c, &(struct version_export){.provider = "x"}, refuse_write, &n, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
    err = (struct catalog_error){0};
    assert_false(catalog_export(c, &(struct version_export){.version = 9}, refuse_write, &n, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
    catalog_close(c);
}

static void refuse_import(const char *text, const char *words)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    write_text(file_path, text);
    if (catalog_import(db_path, file_path, &stamp, &v, &err)) {
        fail_msg("taken: %.200s", text);
    }
    if (!strstr(err.text, words) || strchr(err.text, '\n')) {
        fail_msg("not '%s': %s", words, err.text);
    }
}

static void test_damaged_exports(void **state)
{
    (void)state;
    size_t len;
    (void)must_build(three);
    for (int overrides = 0; overrides <= 1; overrides++) {
        (void)must_set("*", "top_k", overrides ? "{\"max\":51" OURS "}" : "{\"max\":50" OURS "}");
        must_export((struct version_export){.overrides_only = overrides});
        int64_t newest = must_import(db_path).number;
        char *text = read_text(file_path, &len);
        for (size_t cut = 0; cut < len - 2; cut++) { /* cut anywhere */
            char *part = strndup(text, cut);
            refuse_import(part, "");
            free(part);
        }
        for (size_t at = 0; at < len; at++) { /* one character changed anywhere */
            struct catalog_error err = {0};
            struct catalog_version v;
            char was = text[at];
            text[at] = was == '4' ? '5' : '4';
            write_text(file_path, text);
            if (catalog_import(db_path, file_path, &stamp, &v, &err)) {
                assert_int_equal(v.number, newest); /* of the head: author, created ... */
            }
            text[at] = was;
        }
        free(text);
    }
    refuse_import("[]", "no export");
    refuse_import("{\"catalog\":{},\"providers\":[]}", "no export");
    refuse_import("{\"catalog\":{\"format\":2,\"content\":\"version\",\"hash\":\"\"},"
                  "\"providers\":[]}",
                  "newer");
    refuse_import("{\"catalog\":{\"format\":1,\"content\":\"all\",\"hash\":\"\"},"
                  "\"providers\":[]}",
                  "content");
    refuse_import("{\"catalog\":{\"format\":1,\"content\":\"version\",\"hash\":\"\"},"
                  "\"providers\":[7]}",
                  "id and claims");
    refuse_import("{\"catalog\":{\"format\":1,\"content\":\"version\",\"hash\":\"x\"},"
                  "\"providers\":[]}",
                  "was changed");
    assert_int_equal(say(NULL).n, 3);
}

/* ---- evidence */

static struct evidence evidence_of(int64_t claim, enum claim_verdict verdict,
                                   enum evidence_origin origin, const char *seen)
{
    struct evidence e = {
        .claim = claim, .verdict = verdict, .origin = origin, .status = 400, .n = 1};
    (void)snprintf(e.model, sizeof e.model, "m-1");
    (void)snprintf(e.value, sizeof e.value, "2.1");
    (void)snprintf(e.excerpt, sizeof e.excerpt, "too high, said at %s", seen);
    (void)snprintf(e.seen, sizeof e.seen, "%s", seen);
    return e;
}

static bool note_verdict(int64_t claim, enum claim_verdict verdict, const char *on, void *ud)
{
    (void)claim;
    (void)snprintf(ud, 64, "%s %s", claim_verdict_name(verdict), on);
    return true;
}

static void check_verdict(const struct evidence *e, const char *want)
{
    struct catalog_error err = {0};
    struct db *db = NULL;
    char got[64] = "";
    if (!evidence_add(db_path, e, 1, &err) || !db_open(&db, db_path, &err) ||
        !db_verdicts(db, 1, note_verdict, got, &err)) {
        fail_msg("%s", err.text);
    }
    db_close(db);
    assert_string_equal(got, want);
}

static bool note_evidence(const struct evidence *e, void *ud)
{
    char *out = ud;
    size_t n = strlen(out);
    (void)snprintf(out + n, 400 - n, "%s/%s/%s/%lld ", claim_verdict_name(e->verdict),
                   evidence_origin_name(e->origin), e->seen, (long long)e->n);
    return true;
}

static void test_evidence(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    char list[400] = "";
    (void)must_build(three);
    int64_t claim = say("top_k").id;
    struct evidence e =
        evidence_of(claim, CLAIM_CONFIRMED, EVIDENCE_TRAFFIC, "2026-11-01T10:00:00Z");
    check_verdict(&e, "confirmed 2026-11-01T10:00:00Z");
    e = evidence_of(claim, CLAIM_CONTRADICTED, EVIDENCE_TRAFFIC, "2026-11-02T10:00:00Z");
    check_verdict(&e, "contradicted 2026-11-02T10:00:00Z");
    e = evidence_of(claim, CLAIM_CONTRADICTED, EVIDENCE_TRAFFIC, "2026-11-02T09:00:00Z");
    check_verdict(&e, "contradicted 2026-11-02T10:00:00Z"); /* the same row: its time stays */
    e = evidence_of(claim, CLAIM_CONFIRMED, EVIDENCE_TRAFFIC, "2026-11-03T10:00:00Z");
    check_verdict(&e, "contradicted 2026-11-02T10:00:00Z"); /* traffic does not clear it */
    e = evidence_of(claim, CLAIM_CONFIRMED, EVIDENCE_PROBE, "2026-11-04T10:00:00Z");
    check_verdict(&e, "confirmed 2026-11-04T10:00:00Z");
    e = evidence_of(claim, CLAIM_CONTRADICTED, EVIDENCE_PROBE, "2026-11-05T10:00:00Z");
    check_verdict(&e, "contradicted 2026-11-05T10:00:00Z");
    struct catalog *c = must_open(db_path);
    assert_true(evidence_each(c, claim, note_evidence, list, &err));
    assert_string_equal(list, "contradicted/probe/2026-11-05T10:00:00Z/1 "
                              "confirmed/probe/2026-11-04T10:00:00Z/1 "
                              "confirmed/traffic/2026-11-03T10:00:00Z/1 "
                              "contradicted/traffic/2026-11-02T10:00:00Z/2 "
                              "confirmed/traffic/2026-11-01T10:00:00Z/1 ");
    list[0] = '\0';
    (void)must_set("*", "top_k", "{\"max\":50" OURS "}"); /* the claim is not in the newest */
    assert_true(evidence_each(c, 0, note_evidence, list, &err));
    assert_string_equal(list, "");
    catalog_close(c);
    e.claim = 999;
    assert_false(evidence_add(db_path, &e, 1, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
}

/* Clients choose the names of models; they cannot make the database grow by them. */
static bool count_evidence(const struct evidence *e, void *ud)
{
    int64_t *n = ud; /* rows, and what they count */
    n[0]++;
    n[1] += e->n;
    assert_true(e->n == 1 || strcmp(e->model, EVIDENCE_OTHERS) == 0);
    return true;
}

static void test_evidence_of_many_models(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    int64_t n[2] = {0, 0};
    (void)must_build(three);
    int64_t claim = say("top_k").id;
    for (int i = 0; i < 200; i++) {
        struct evidence e =
            evidence_of(claim, CLAIM_CONFIRMED, EVIDENCE_TRAFFIC, "2026-11-01T10:00:00Z");
        (void)snprintf(e.model, sizeof e.model, "made-up-%d", i);
        assert_true(evidence_add(db_path, &e, 1, &err));
    }
    struct catalog *c = must_open(db_path);
    assert_true(evidence_each(c, claim, count_evidence, n, &err));
    assert_int_equal(n[0], EVIDENCE_ROWS_MAX + 1);
    assert_int_equal(n[1], 200);
    catalog_close(c);
}

/* ---- schemas of older programs */

static void make_old(const char *path)
{
    size_t len;
    sqlite3 *s;
    char *sql = read_text("tests/golden/catalog/schema-1.sql", &len);
    assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s, "PRAGMA journal_mode = WAL", NULL, NULL, NULL), SQLITE_OK);
    if (sqlite3_exec(s, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fail_msg("%s", sqlite3_errmsg(s));
    }
    assert_int_equal(sqlite3_close(s), SQLITE_OK);
    free(sql);
}

/* All tables and views with their columns, and the names of everything else. */
static char *shape_of(const char *path)
{
    sqlite3 *s;
    sqlite3_stmt *q;
    char *out = NULL;
    assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(
            s,
            "SELECT group_concat(line, char(10)) FROM (SELECT m.type || ' ' || m.name || ' ' || "
            "coalesce(c.name || ' ' || c.type || ' ' || c.\"notnull\" || coalesce(c.dflt_value, "
            "'') || c.pk, '') AS line FROM sqlite_schema m LEFT JOIN pragma_table_info(m.name) c "
            "WHERE m.name NOT LIKE 'sqlite_%' ORDER BY line)",
            -1, &q, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    out = strdup((const char *)sqlite3_column_text(q, 0));
    sqlite3_finalize(q);
    assert_int_equal(sqlite3_prepare_v2(s, "SELECT * FROM pragma_integrity_check", -1, &q, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(q, 0), "ok");
    sqlite3_finalize(q);
    sqlite3_close(s);
    return out;
}

static bool note_version(const struct catalog_version *v, void *ud)
{
    struct said s = say_at(db_path, v->number, NULL); /* checks the hash */
    assert_int_equal(s.n, v->n_claims);
    assert_int_equal(v->kind, VERSION_SHIPPED);
    assert_int_equal(v->base, v->number);
    ++*(int *)ud;
    return true;
}

static void test_migration(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    int n = 0;
    make_old(db_path);
    struct catalog *c = must_open(db_path); /* a reader that may write brings it up to date */
    assert_true(catalog_versions(c, note_version, &n, &err));
    assert_int_equal(n, 3);
    catalog_close(c);
    assert_string_equal(say_at(db_path, 2, "temperature").order,
                        "*/temperature=1 ^m-[0-9]+$/temperature=2 ");
    assert_string_equal(say_at(db_path, 3, NULL).order,
                        "*/stop=0 */seed=0 ^m-[0-9]+$/temperature=2 */temperature=1 ");
    (void)must_build_at(other_db, three);
    char *old = shape_of(db_path), *fresh = shape_of(other_db);
    assert_string_equal(old, fresh);
    free(old);
    free(fresh);
    /* A writer does so, too, and its work is kept. */
    remove_db(db_path);
    make_old(db_path);
    struct catalog_version v = must_set("*", "seed", "{\"note\":\"still\"}");
    assert_int_equal(v.number, 4);
    assert_int_equal(v.base, 3);
    assert_int_equal(say_at(db_path, 1, NULL).n, 6);
}

/* Another user for a while, where we are root: root may write everywhere. */
static void lose_rights(void)
{
    assert_int_equal(chmod(folder, 0555), 0);
    if (geteuid() == 0) {
        assert_int_equal(chmod(db_path, 0644), 0);
        assert_int_equal(setresuid(65534, 65534, 0), 0);
    }
}

static void regain_rights(void)
{
    if (getuid() == 65534) {
        assert_int_equal(setresuid(0, 0, 0), 0);
    }
    assert_int_equal(chmod(folder, 0700), 0);
}

static void test_where_nothing_may_be_written(void **state)
{
    (void)state;
    struct catalog_error err = {0}, other = {0}, third = {0};
    struct catalog *c = NULL;
    struct catalog_version v;
    bool is_changed;
    make_old(db_path);
    lose_rights();
    bool ok = catalog_open(&c, db_path, &err);
    regain_rights();
    assert_false(ok);
    assert_non_null(strstr(err.text, "open it once"));
    remove_db(db_path);
    (void)must_build(three);
    lose_rights();
    ok = set("*", "top_k", "{\"max\":50" OURS "}", 0, &v, &other) ||
         catalog_upgrade(other_db, db_path, &stamp, &is_changed, &v, &third);
    regain_rights();
    assert_false(ok);
    assert_non_null(strstr(other.text, "may not be written"));
    assert_non_null(strstr(third.text, "may not be made there"));
    assert_true(say("top_k").max == 40);
}

static void test_newer_schema(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct version_override o = {"p", "*", NULL, "top_k", NULL, 0};
    sqlite3 *s;
    (void)must_build(three);
    assert_int_equal(sqlite3_open(db_path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s, "PRAGMA user_version = 4", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(s), SQLITE_OK);
    assert_false(catalog_unset(db_path, &o, &stamp, NULL, &err));
    assert_int_equal(err.code, CATALOG_BAD_DB);
    assert_non_null(strstr(err.text, "schema 4"));
    err = (struct catalog_error){0};
    assert_false(catalog_migrate(db_path, &err));
    err = (struct catalog_error){0};
    assert_false(catalog_migrate(other_db, &err));
    assert_int_not_equal(access(other_db, F_OK), 0);
}

/* ---- two writers */

static void *set_many(void *ud)
{
    const char *param = ud;
    struct catalog_error err = {0};
    struct catalog_version v;
    char fields[128];
    for (int i = 1; i <= 20; i++) {
        (void)snprintf(fields, sizeof fields, "{\"max\":%d" OURS "}", 100 + i);
        if (!set("*", param, fields, 0, &v, &err)) {
            return "failed";
        }
    }
    return NULL;
}

static void test_two_writers(void **state)
{
    (void)state;
    pthread_t a, b;
    void *failed_a, *failed_b;
    int64_t newest;
    struct catalog_error err = {0};
    (void)must_build(three);
    assert_int_equal(pthread_create(&a, NULL, set_many, "top_k"), 0);
    assert_int_equal(pthread_create(&b, NULL, set_many, "temperature"), 0);
    assert_int_equal(pthread_join(a, &failed_a), 0);
    assert_int_equal(pthread_join(b, &failed_b), 0);
    assert_null(failed_a);
    assert_null(failed_b);
    struct catalog *c = must_open(db_path);
    assert_true(catalog_newest(c, &newest, &err));
    assert_int_equal(newest, 41);
    catalog_close(c);
    assert_string_equal(say(NULL).order, "*/temperature=120 ^a$/top_p=1 */top_k=120 ");
}

static void test_a_writer_that_stays(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v;
    struct timespec began, ended;
    sqlite3 *s;
    (void)must_build(three);
    assert_int_equal(sqlite3_open(db_path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    assert_false(set("*", "top_k", "{\"max\":50" OURS "}", 0, &v, &err));
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    assert_int_equal(sqlite3_close(s), SQLITE_OK);
    assert_non_null(strstr(err.text, "another program writes to catalog"));
    assert_in_range(ended.tv_sec - began.tv_sec, 3, 9);
    assert_true(say("top_k").max == 40);
}

static void test_newest_is_seen(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    int64_t newest = 0;
    (void)must_build(three);
    struct catalog *c = must_open(db_path);
    assert_true(catalog_newest(c, &newest, &err));
    assert_int_equal(newest, 1);
    (void)must_set("*", "top_k", "{\"max\":50" OURS "}");
    assert_true(catalog_newest(c, &newest, &err));
    assert_int_equal(newest, 2);
    /* Another file in its place. */
    remove_db(db_path);
    (void)must_build(three);
    assert_true(catalog_newest(c, &newest, &err));
    assert_int_equal(newest, 1);
    catalog_close(c);
}

/* ---- size */

static long size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (long)st.st_size;
}

static void test_versions_are_cheap(void **state)
{
    (void)state;
    struct catalog_version v;
    struct catalog_error err = {0};
    char fields[160];
    (void)build_shipped(db_path);
    long before = size_of(db_path);
    json_t *f;
    for (int i = 1; i <= 100; i++) {
        (void)snprintf(fields, sizeof fields, "{\"max\":%d" OURS "}", i);
        f = json_loads(fields, 0, NULL);
        struct version_override o = {"mistral", "*", NULL, i % 2 ? "top_p" : "temperature", f, 0};
        (void)json_object_set_new(f, "min", json_integer(0));
        (void)json_object_set_new(f, "wire", json_string("x"));
        (void)json_object_set_new(f, "support", json_string("yes"));
        (void)json_object_set_new(f, "confidence", json_string("low"));
        if (!catalog_set(db_path, &o, &stamp, &v, &err)) {
            fail_msg("%s", err.text);
        }
        json_decref(f);
    }
    assert_int_equal(v.number, 101);
    if (size_of(db_path) - before > 256 * 1024) {
        fail_msg("100 overrides took %ld bytes", size_of(db_path) - before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_export_import, setup),
        cmocka_unit_test_setup(test_export_overrides, setup),
        cmocka_unit_test_setup(test_export_that_cannot_be_written, setup),
        cmocka_unit_test_setup(test_damaged_exports, setup),
        cmocka_unit_test_setup(test_evidence, setup),
        cmocka_unit_test_setup(test_evidence_of_many_models, setup),
        cmocka_unit_test_setup(test_migration, setup),
        cmocka_unit_test_setup(test_where_nothing_may_be_written, setup),
        cmocka_unit_test_setup(test_newer_schema, setup),
        cmocka_unit_test_setup(test_two_writers, setup),
        cmocka_unit_test_setup(test_a_writer_that_stays, setup),
        cmocka_unit_test_setup(test_newest_is_seen, setup),
        cmocka_unit_test_setup(test_versions_are_cheap, setup),
    };
    if (!make_folder()) {
        return 1;
    }
    int rc = cmocka_run_group_tests_name("versions_moving", tests, NULL, NULL);
    (void)setup(NULL);
    (void)rmdir(folder);
    return rc;
}
