/* db.c - all SQL of the catalog.
 *
 * Write-ahead log: readers keep the state they began with and never wait for a build; one writer,
 * in one immediate transaction. Opening checks the whole file (PRAGMA quick_check, a few
 * milliseconds at two thousand claims): a catalog with one damaged page must not answer with the
 * pages that are left.
 *
 * A reader that may not write in the folder cannot make the shared-memory file that a write-ahead
 * log needs (a catalog installed below /usr, a daemon without rights). It opens the file as
 * immutable, which sees one state only: db_is_fixed() tells the caller to open again where a newer
 * state is wanted.
 */
#include "db_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DB_SCHEMA_VERSION 2
#define DB_BUSY_MS        5000 /* a build of another process takes well under a second */

/* schema.sql, found from the project's root, where everything is compiled. */
__asm__(".section .rodata\n"
        ".global catalog_db_schema\n"
        ".hidden catalog_db_schema\n"
        "catalog_db_schema:\n"
        ".incbin \"catalog/schema.sql\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char catalog_db_schema[];

#define DB_COLUMN(name, kind)   ", \"" #name "\""
#define DB_COLUMN_C(name, kind) ", c.\"" #name "\""
#define DB_PLACE(name, kind)    ", ?"

#define VERSION_ROW                                                                                \
    "SELECT number, coalesce(parent, 0), hash, created, author, reason, "                          \
    "(SELECT count(*) FROM version_claim WHERE version = number), coalesce(base, number), kind, "  \
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
    [SQL_CLAIMS] = "SELECT c.id" CLAIM_COLUMNS(
        DB_COLUMN_C) " FROM version_claim v JOIN claim c ON c.id = v.claim "
                     "WHERE v.version = ? ORDER BY v.position",
    [SQL_PROVIDERS] = "SELECT p.id, p.body FROM version_provider v JOIN provider p "
                      "ON p.id = v.provider WHERE v.version = ? ORDER BY v.position",
    [SQL_HASHES] = "SELECT hash FROM (SELECT p.hash AS hash, 0 AS part FROM version_provider v "
                   "JOIN provider p ON p.id = v.provider WHERE v.version = ?1 UNION ALL "
                   "SELECT c.hash, 1 FROM version_claim v JOIN claim c ON c.id = v.claim "
                   "WHERE v.version = ?1) ORDER BY part, hash",
    [SQL_PUT_CLAIM] = "INSERT INTO claim (hash" CLAIM_COLUMNS(
        DB_COLUMN) ") VALUES (?" CLAIM_COLUMNS(DB_PLACE) ")",
    [SQL_FIND_CLAIM] = "SELECT id FROM claim WHERE hash = ?",
    [SQL_PUT_PROVIDER] = "INSERT INTO provider (hash, provider, body) VALUES (?, ?, ?)",
    [SQL_FIND_PROVIDER] = "SELECT id FROM provider WHERE hash = ?",
    [SQL_PUT_VERSION] =
        "INSERT INTO version (number, parent, hash, created, author, reason, kind, base) "
        "VALUES (?1, nullif(?2, 0), ?3, ?4, ?5, ?6, ?7, nullif(?8, ?1))",
    [SQL_ADD_CLAIM] = "INSERT INTO version_claim (version, position, claim) VALUES (?, ?, ?)",
    [SQL_ADD_PROVIDER] = "INSERT INTO version_provider (version, position, provider) "
                         "VALUES (?, ?, ?)",
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

static bool read_int(struct db *db, enum statement which, int64_t *out, struct catalog_error *err)
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

static bool check_schema(struct db *db, struct catalog_error *err)
{
    int64_t n;
    if (!read_int(db, SQL_USER_VERSION, &n, err)) {
        return false;
    }
    if (n > DB_SCHEMA_VERSION) {
        return catalog_fail(err, CATALOG_BAD_DB,
                            "catalog '%s' has schema %lld, this program knows %d: use a newer one",
                            db->path, (long long)n, DB_SCHEMA_VERSION);
    }
    if (n < DB_SCHEMA_VERSION) {
        return catalog_fail(err, CATALOG_BAD_DB, "'%s' is not a catalog: build one there",
                            db->path);
    }
    return check_whole(db, err);
}

static bool open_handle(struct db *db, const char *name, int flags, struct catalog_error *err)
{
    int rc = sqlite3_open_v2(name, &db->handle, flags | SQLITE_OPEN_FULLMUTEX, NULL);
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

static bool db_new(struct db **out, const char *path, struct catalog_error *err)
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

bool db_open(struct db **out, const char *path, struct catalog_error *err)
{
    struct db *db = NULL;
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
    bool is_fixed = is_read_only_place(path);
    bool ok = !is_fixed || immutable_name(path, name, sizeof name) ||
              catalog_fail(err, CATALOG_IO, "the catalog's path is too long");
    ok = ok && open_handle(db, is_fixed ? name : path,
                           SQLITE_OPEN_READONLY | (is_fixed ? SQLITE_OPEN_URI : 0), err);
    db->is_fixed = is_fixed;
    if (!ok || !check_schema(db, err)) {
        db_close(db);
        return false;
    }
    *out = db;
    return true;
}

/* Whether the file is new; anything that is neither new nor a catalog of ours is refused and left
 * alone. */
static bool look_into(struct db *db, bool *is_new, struct catalog_error *err)
{
    int64_t n_tables, version;
    if (!read_int(db, SQL_N_TABLES, &n_tables, err) ||
        !read_int(db, SQL_USER_VERSION, &version, err)) {
        return false;
    }
    *is_new = n_tables == 0 && version == 0;
    return *is_new || check_schema(db, err);
}

static bool execute(struct db *db, const char *sql, struct catalog_error *err)
{
    int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK || db_fail_sql(db, rc, err);
}

bool db_create(struct db **out, const char *path, struct catalog_error *err)
{
    struct db *db;
    bool is_new = false;
    if (!db_new(&db, path, err)) {
        return false;
    }
    /* The journal's mode can only be set outside of a transaction: after a first look, so that a
     * file of another kind is not touched; the second look is under the lock. */
    if (!open_handle(db, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, err) ||
        !look_into(db, &is_new, err) || !execute(db, "PRAGMA journal_mode = WAL", err) ||
        !db_run(db, db_use(db, SQL_BEGIN_WRITE, err), err) || !look_into(db, &is_new, err) ||
        (is_new && !execute(db, catalog_db_schema, err))) {
        db_close(db);
        return false;
    }
    *out = db;
    return true;
}

bool db_is_fixed(const struct db *db)
{
    return db->is_fixed;
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

void db_end(struct db *db)
{
    (void)db_run(db, db_use(db, SQL_ROLLBACK, NULL), NULL); /* nothing was written */
}

bool db_commit(struct db *db, struct catalog_error *err)
{
    if (!db_run(db, db_use(db, SQL_COMMIT, err), err)) {
        return false;
    }
    /* One file again where no reader holds the log; a reader that does is no fault. */
    (void)sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return true;
}
