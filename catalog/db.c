/* db.c - all SQL of the catalog.
 *
 * Write-ahead log: readers keep the state they began with and never wait for a build; one writer,
 * in one immediate transaction. Opening checks the whole file (PRAGMA quick_check, about 7 ms at
 * five thousand claims): a catalog with one damaged page must not answer with the
 * pages that are left.
 *
 * A reader that may not write in the folder cannot make the shared-memory file that a write-ahead
 * log needs (a catalog installed below /usr, a daemon without rights). It opens the file as
 * immutable, which sees one state only: db_is_outdated() tells the caller to open again where a
 * newer state is wanted.
 */
#include "db_inside.h"
#include "versions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DB_BUSY_MS 5000 /* a build of another process takes well under a second */

#define DB_COLUMN(name, kind)   ", \"" #name "\""
#define DB_COLUMN_C(name, kind) ", c.\"" #name "\""
#define DB_PLACE(name, kind)    ", ?"

/* The claims of the runs `r`. */
#define DB_JOIN_RUN "JOIN claim c ON c.id BETWEEN r.claim AND r.claim + r.n - 1 "

#define EVIDENCE_ROW                                                                               \
    "SELECT e.claim, e.verdict, e.origin, e.model, e.status, e.seen, e.n, e.value, e.excerpt "     \
    "FROM evidence e "

#define VERSION_ROW                                                                                \
    "SELECT number, coalesce(parent, 0), hash, created, author, reason, "                          \
    "(SELECT coalesce(sum(n), 0) FROM version_run WHERE version = number), coalesce(base, "        \
    "number), kind, "                                                                              \
    "(SELECT count(*) FROM merge_conflict m WHERE m.version = number) FROM version "

static const char *const statements[SQL_COUNT] = {
    [SQL_BEGIN] = "BEGIN",
    [SQL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_QUICK_CHECK] = "PRAGMA quick_check(1)",
    [SQL_USER_VERSION] = "PRAGMA user_version",
    [SQL_N_TABLES] = "SELECT count(*) FROM sqlite_schema",
    [SQL_VERSION] = VERSION_ROW "WHERE number = ?",
    [SQL_NEWEST] = VERSION_ROW "ORDER BY number DESC LIMIT 1",
    [SQL_VERSIONS] = VERSION_ROW "ORDER BY number",
    [SQL_CLAIMS] =
        "SELECT c.id" CLAIM_COLUMNS(DB_COLUMN_C) ", c.hash FROM version_run r " DB_JOIN_RUN
                                                 "WHERE r.version = ? ORDER BY r.position, c.id",
    [SQL_PROVIDERS] = "SELECT p.id, p.body, p.hash FROM version_provider v JOIN provider p "
                      "ON p.id = v.provider WHERE v.version = ? ORDER BY v.position",
    [SQL_PUT_CLAIM] = "INSERT INTO claim (hash" CLAIM_COLUMNS(
        DB_COLUMN) ") VALUES (?" CLAIM_COLUMNS(DB_PLACE) ")",
    [SQL_FIND_CLAIM] = "SELECT id FROM claim WHERE hash = ?",
    [SQL_PUT_PROVIDER] = "INSERT INTO provider (hash, provider, body) VALUES (?, ?, ?)",
    [SQL_FIND_PROVIDER] = "SELECT id FROM provider WHERE hash = ?",
    [SQL_PUT_VERSION] =
        "INSERT INTO version (number, parent, hash, created, author, reason, kind, base) "
        "VALUES (?1, nullif(?2, 0), ?3, ?4, ?5, ?6, ?7, nullif(?8, ?1))",
    [SQL_ADD_CLAIM] = "INSERT INTO version_run (version, position, claim, n) VALUES (?, ?, ?, ?)",
    [SQL_ADD_PROVIDER] = "INSERT INTO version_provider (version, position, provider) "
                         "VALUES (?, ?, ?)",
    [SQL_VERSION_AT] = "SELECT number FROM version WHERE substr(created, 1, length(?1)) <= ?1 "
                       "ORDER BY number DESC LIMIT 1",
    [SQL_RUNS] = "SELECT version, position, claim, n FROM version_run "
                 "WHERE ?1 IS NULL OR version = ?1 ORDER BY version, position",
    [SQL_FIND_CLAIMS] = "SELECT c.id" CLAIM_COLUMNS(
        DB_COLUMN_C) " FROM version_run r " DB_JOIN_RUN
                     "WHERE r.version = ?1 AND (?2 IS NULL OR c.param = ?2) "
                     "ORDER BY r.position, c.id",
    [SQL_CLAIM_IDS] = "SELECT id FROM claim WHERE provider = ?1 AND (?2 IS NULL OR param = ?2) "
                      "ORDER BY id",
    [SQL_CLAIMS_BETWEEN] = "SELECT c.id" CLAIM_COLUMNS(
        DB_COLUMN_C) " FROM claim c WHERE c.id BETWEEN ?1 AND ?2 ORDER BY c.id",
    [SQL_ONLY_PROVIDERS] = "SELECT p.id, p.body FROM version_provider v JOIN provider p "
                           "ON p.id = v.provider WHERE v.version = ?1 AND v.provider NOT IN "
                           "(SELECT provider FROM version_provider WHERE version = ?2) "
                           "ORDER BY v.position",
    [SQL_STAMPS] = "SELECT number, created, author, reason FROM version ORDER BY number",
    [SQL_PROVIDER_NAMES] = "SELECT DISTINCT p.provider FROM provider p WHERE ?1 < 0 OR p.id IN "
                           "(SELECT provider FROM version_provider WHERE version = ?1) "
                           "ORDER BY p.provider",
    [SQL_PARAM_NAMES] = "SELECT DISTINCT param FROM claim ORDER BY param",
    [SQL_NEWEST_SHIPPED] = VERSION_ROW "WHERE kind = 'shipped' ORDER BY number DESC LIMIT 1",
    [SQL_NEWEST_NUMBER] = "SELECT max(number) FROM version",
    [SQL_MEMBERS] =
        "SELECT c.id, c.hash, c.provider, c.models, c.endpoint, c.param, c.variant, c.\"when\", "
        "c.source, c.as_of, c.local, c.valid_to FROM version_run r " DB_JOIN_RUN
        "WHERE r.version = ? ORDER BY r.position, c.id",
    [SQL_PROVIDER_MEMBERS] = "SELECT p.id, p.hash, p.provider FROM version_provider v "
                             "JOIN provider p ON p.id = v.provider WHERE v.version = ? "
                             "ORDER BY v.position",
    [SQL_CLAIM_ROW] = "SELECT c.id" CLAIM_COLUMNS(DB_COLUMN_C) " FROM claim c WHERE c.id = ?",
    [SQL_PROVIDER_ROW] = "SELECT id, body FROM provider WHERE id = ?",
    [SQL_CONFLICTS] = "SELECT since, is_provider, coalesce(base, 0), coalesce(shipped, 0), "
                      "coalesce(local, 0) FROM merge_conflict WHERE version = ? ORDER BY rowid",
    [SQL_ADD_CONFLICT] =
        "INSERT INTO merge_conflict (version, since, is_provider, base, shipped, local) "
        "VALUES (?, ?, ?, nullif(?, 0), nullif(?, 0), nullif(?, 0))",
    [SQL_HAS_CLAIM] = "SELECT count(*) FROM claim WHERE id = ?",
    [SQL_N_EVIDENCE] = "SELECT count(*) FROM evidence WHERE claim = ? AND day = ?",
    [SQL_ADD_EVIDENCE] =
        "INSERT INTO evidence (claim, verdict, origin, model, status, day, seen, n, value, "
        "excerpt) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (claim, verdict, origin, model, status, day) DO UPDATE SET "
        "n = n + excluded.n, value = iif(excluded.seen >= seen, excluded.value, value), "
        "excerpt = iif(excluded.seen >= seen, excluded.excerpt, excerpt), "
        "seen = max(seen, excluded.seen)",
    [SQL_EVIDENCE] = EVIDENCE_ROW "WHERE e.claim = ? ORDER BY e.seen DESC, e.id DESC",
    [SQL_EVIDENCE_ALL] =
        EVIDENCE_ROW "WHERE EXISTS (SELECT 1 FROM version_run r WHERE r.version = ? AND e.claim "
                     "BETWEEN r.claim AND r.claim + r.n - 1) ORDER BY e.seen DESC, e.id DESC",
    /* What a probe confirmed is stronger than traffic, which mostly stays inside of a range. */
    [SQL_VERDICTS] =
        "SELECT e.claim, max(CASE WHEN e.verdict = 'contradicted' THEN e.seen END) AS against, "
        "max(CASE WHEN e.verdict = 'confirmed' AND e.origin = 'probe' THEN e.seen END) AS probed, "
        "max(CASE WHEN e.verdict = 'confirmed' THEN e.seen END) AS confirmed "
        "FROM version_run r JOIN evidence e ON e.claim BETWEEN r.claim AND r.claim + r.n - 1 "
        "WHERE r.version = ? GROUP BY e.claim",
};

/* ---- statements */

bool db_fail_sql(struct db *db, int rc, struct catalog_error *err)
{
    if (rc == SQLITE_NOMEM) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    bool is_damaged = rc == SQLITE_CORRUPT || rc == SQLITE_NOTADB;
    const char *what = db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc);
    int os = db->handle ? sqlite3_system_errno(db->handle) : 0;
    if (rc == SQLITE_CANTOPEN && os) {
        return catalog_fail(err, CATALOG_IO, "catalog '%s' cannot be opened: %s", db->path,
                            strerror(os));
    }
    if (rc == SQLITE_FULL || rc == SQLITE_IOERR) { /* the second, too, while a log has no room */
        return catalog_fail(err, CATALOG_IO,
                            "catalog '%s': its disk is full or failing (%s): make room there",
                            db->path, what);
    }
    if (rc == SQLITE_BUSY || rc == SQLITE_LOCKED) {
        return catalog_fail(err, CATALOG_IO, "another program writes to catalog '%s': try again",
                            db->path);
    }
    if (rc == SQLITE_READONLY) {
        return catalog_fail(err, CATALOG_IO,
                            "catalog '%s' may not be written by this user: give the right to, or "
                            "name another with --db",
                            db->path);
    }
    return catalog_fail(err, is_damaged ? CATALOG_BAD_DB : CATALOG_IO,
                        is_damaged ? "catalog '%s' is damaged (%s): build it again"
                                   : "catalog '%s': %s",
                        db->path, what);
}

sqlite3_stmt *db_use(struct db *db, enum statement which, struct catalog_error *err)
{
    if (!db->kept[which]) {
        int rc = sqlite3_prepare_v2(db->handle, statements[which], -1, &db->kept[which], NULL);
        if (rc != SQLITE_OK) {
            (void)db_fail_sql(db, rc, err);
            return NULL;
        }
    }
    return db->kept[which];
}

bool db_step(struct db *db, sqlite3_stmt *s, bool *has_row, struct catalog_error *err)
{
    int rc = sqlite3_step(s);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        return db_fail_sql(db, sqlite3_extended_errcode(db->handle) & 0xff, err);
    }
    *has_row = rc == SQLITE_ROW;
    return true;
}

bool db_run(struct db *db, sqlite3_stmt *s, struct catalog_error *err)
{
    bool has_row = false;
    if (!s) {
        return false;
    }
    bool ok = db_step(db, s, &has_row, err);
    (void)sqlite3_reset(s); /* repeats the error of the step */
    return ok;
}

bool db_read_int(struct db *db, enum statement which, int64_t *out, struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, which, err);
    bool has_row = false;
    if (!s || !db_step(db, s, &has_row, err)) {
        (void)sqlite3_reset(s);
        return false;
    }
    *out = has_row ? sqlite3_column_int64(s, 0) : 0;
    (void)sqlite3_reset(s);
    return true;
}

bool db_bound(struct db *db, int rc, struct catalog_error *err)
{
    return rc == SQLITE_OK || db_fail_sql(db, rc, err);
}

/* ---- opening */

static bool check_whole(struct db *db, struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_QUICK_CHECK, err);
    bool has_row = false;
    if (!s || !db_step(db, s, &has_row, err)) {
        (void)sqlite3_reset(s);
        return false;
    }
    const char *text = has_row ? (const char *)sqlite3_column_text(s, 0) : NULL;
    bool ok = text && strcmp(text, "ok") == 0;
    const char *last_line = text ? strrchr(text, '\n') : NULL; /* the first names the database */
    text = last_line ? last_line + 1 : text;
    if (!ok) {
        (void)catalog_fail(err, CATALOG_BAD_DB, "catalog '%s' is damaged (%s): build it again",
                           db->path, text ? text : "check failed");
    }
    (void)sqlite3_reset(s);
    return ok;
}

bool db_check_schema(struct db *db, int64_t *schema, struct catalog_error *err)
{
    int64_t n;
    if (!db_read_int(db, SQL_USER_VERSION, &n, err)) {
        return false;
    }
    if (n > DB_SCHEMA_VERSION) {
        return catalog_fail(err, CATALOG_BAD_DB,
                            "catalog '%s' has schema %lld, this program knows %d: use a newer one",
                            db->path, (long long)n, DB_SCHEMA_VERSION);
    }
    if (n < 1) {
        return catalog_fail(err, CATALOG_BAD_DB, "'%s' is not a catalog: build one there",
                            db->path);
    }
    *schema = n;
    return db->is_quick || check_whole(db, err);
}

bool db_open_handle(struct db *db, const char *name, int flags, struct catalog_error *err)
{
    /* One thread at a time uses a handle (db_inside.h): without SQLite's own lock on every column.
     */
    int rc = sqlite3_open_v2(name, &db->handle, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_extended_result_codes(db->handle, 0);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_busy_timeout(db->handle, DB_BUSY_MS);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_exec(db->handle, "PRAGMA foreign_keys = ON", NULL, NULL, NULL);
    }
    return rc == SQLITE_OK || db_fail_sql(db, rc, err);
}

bool db_new(struct db **out, const char *path, struct catalog_error *err)
{
    struct db *db = calloc(1, sizeof *db);
    if (!db) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    if (path[0] == '\0' || path[0] == ':') { /* SQLite would keep it in memory and forget it */
        free(db);
        return catalog_fail(err, CATALOG_IO, "'%s' is no name for a catalog: name a file", path);
    }
    if (strlen(path) >= sizeof db->path) {
        free(db);
        return catalog_fail(err, CATALOG_IO, "the catalog's path is longer than %d bytes",
                            DB_PATH_MAX - 1);
    }
    memcpy(db->path, path, strlen(path) + 1);
    *out = db;
    return true;
}

static void close_handle(struct db *db)
{
    for (int i = 0; i < SQL_COUNT; i++) {
        (void)sqlite3_finalize(db->kept[i]); /* repeats the error of the last step */
        db->kept[i] = NULL;
    }
    (void)sqlite3_close_v2(db->handle); /* cannot fail: v2 waits for what is open, and nothing is */
    db->handle = NULL;
}

/* file:PATH?immutable=1, with what means something in a URI escaped. */
static bool immutable_name(const char *path, char *out, size_t cap)
{
    size_t n = (size_t)snprintf(out, cap, "file:");
    for (; *path; path++) {
        bool is_plain = strchr("%?#", *path) == NULL;
        if (n + 4 > cap) {
            return false;
        }
        n += (size_t)snprintf(out + n, cap - n, is_plain ? "%c" : "%%%02X", (unsigned char)*path);
    }
    return (size_t)snprintf(out + n, cap - n, "?immutable=1") < cap - n;
}

/* Whether a write-ahead log's shared memory cannot be made here. */
static bool is_read_only_place(const char *path)
{
    char folder[DB_PATH_MAX];
    (void)snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (!slash) {
        return access(".", W_OK) != 0;
    }
    slash[slash == folder] = '\0';
    return access(folder, W_OK) != 0;
}

/* A handle of any schema that this program knows. */
static bool open_any(struct db **out, const char *path, bool is_quick, int64_t *schema,
                     struct catalog_error *err)
{
    struct db *db;
    struct stat st;
    char name[3 * DB_PATH_MAX + 32];
    if (stat(path, &st) != 0) {
        return catalog_fail(err, CATALOG_IO,
                            "catalog '%s': %s: make it with 'isothermctl catalog build'", path,
                            strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        return catalog_fail(err, CATALOG_IO, "catalog '%s' is not a file", path);
    }
    if (!db_new(&db, path, err)) {
        return false;
    }
    db->is_fixed = is_read_only_place(path);
    db->is_quick = is_quick;
    db->seen = st;
    bool ok = !db->is_fixed || immutable_name(path, name, sizeof name) ||
              catalog_fail(err, CATALOG_IO, "the catalog's path is too long");
    ok = ok && db_open_handle(db, db->is_fixed ? name : path,
                              SQLITE_OPEN_READONLY | (db->is_fixed ? SQLITE_OPEN_URI : 0), err);
    if (!ok || !db_check_schema(db, schema, err)) {
        db_close(db);
        return false;
    }
    *out = db;
    return true;
}

/* A reader of an older schema brings it up to date where it may. */
static bool open_to_read(struct db **out, const char *path, bool is_quick,
                         struct catalog_error *err)
{
    struct db *db;
    int64_t schema;
    if (!open_any(&db, path, is_quick, &schema, err)) {
        return false;
    }
    if (schema < DB_SCHEMA_VERSION) {
        bool may_migrate = !db->is_fixed && access(path, W_OK) == 0;
        db_close(db);
        if (!may_migrate) {
            return catalog_fail(err, CATALOG_BAD_DB,
                                "catalog '%s' has schema %lld, %d is needed: open it once as a "
                                "user who may write it",
                                path, (long long)schema, DB_SCHEMA_VERSION);
        }
        if (!catalog_migrate(path, err) || !open_any(&db, path, is_quick, &schema, err)) {
            return false;
        }
    }
    *out = db;
    return true;
}

bool db_open(struct db **out, const char *path, struct catalog_error *err)
{
    return open_to_read(out, path, false, err);
}

bool db_open_quick(struct db **out, const char *path, struct catalog_error *err)
{
    return open_to_read(out, path, true, err);
}

bool db_is_outdated(const struct db *db)
{
    struct stat now;
    const struct stat *then = &db->seen;
    if (stat(db->path, &now) != 0) {
        return false; /* what is open is the best there is */
    }
    bool is_other = now.st_dev != then->st_dev || now.st_ino != then->st_ino;
    return is_other || (db->is_fixed && (now.st_size != then->st_size ||
                                         now.st_mtim.tv_sec != then->st_mtim.tv_sec ||
                                         now.st_mtim.tv_nsec != then->st_mtim.tv_nsec));
}

void db_close(struct db *db)
{
    if (db) {
        close_handle(db); /* an open transaction is rolled back with it */
        free(db);
    }
}

bool db_begin(struct db *db, struct catalog_error *err)
{
    return db_run(db, db_use(db, SQL_BEGIN, err), err);
}

void db_shrink(struct db *db)
{
    (void)sqlite3_db_release_memory(db->handle); /* what cannot be freed stays */
}

void db_end(struct db *db)
{
    (void)db_run(db, db_use(db, SQL_ROLLBACK, NULL), NULL); /* nothing was written */
}
