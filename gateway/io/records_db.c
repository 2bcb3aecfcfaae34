/* records_db.c - all SQL of records.db.
 *
 * A file is checked before anything is written to it: whose it is (application_id), how old
 * (user_version), and whether it is sound. The full check reads every page, so it is made where
 * that is quick (CHECK_BYTES_MAX) or needed (a -wal file was left: the last process was killed); a
 * larger file that was closed well is trusted, and damage in it shows as a failed commit. Until the
 * check has passed the handle is query_only and leaves the write-ahead log alone when it is closed.
 *
 * The columns are what lists filter and people query by hand; `detail` is the record itself.
 */
#include "records_db.h"

#include "gateway/base/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUSY_MS         5000
#define CHECK_BYTES_MAX (32 << 20)
#define WAL_BYTES_KEPT  (64 << 20) /* after a checkpoint the log is cut to this */
#define APPLICATION_ID  0x49734f72 /* "IsOr" */
#define TEXT_OF(x)      #x
#define NUMBER_OF(x)    TEXT_OF(x)

/* The step from version i to i + 1. Never change one that was released: add the next. */
static const char *const migrations[] = {
    "CREATE TABLE records ("
    " request_id TEXT PRIMARY KEY NOT NULL,"
    " started_us INTEGER NOT NULL,"
    " ended_us INTEGER NOT NULL,"
    " endpoint TEXT,"
    " requested_model TEXT,"
    " backend TEXT,"
    " model TEXT,"
    " served_model TEXT,"
    " system_fingerprint TEXT,"
    " catalog_version INTEGER NOT NULL,"
    " outcome TEXT NOT NULL,"
    " status INTEGER NOT NULL,"
    " error_code TEXT,"
    " prompt_tokens INTEGER NOT NULL,"
    " completion_tokens INTEGER NOT NULL,"
    " seed INTEGER,"
    " body_sha256 TEXT,"
    " answer_sha256 TEXT,"
    " finish TEXT,"
    " n_deltas INTEGER NOT NULL,"
    " build TEXT,"
    " detail TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX records_by_start ON records (started_us);"
    "CREATE INDEX records_by_model ON records (model, started_us);"
    "CREATE INDEX records_by_requested_model ON records (requested_model, started_us);"
    /* One row that the writer touches to see whether it can write. */
    "CREATE TABLE probe (id INTEGER PRIMARY KEY CHECK (id = 1), n INTEGER NOT NULL) STRICT;"
    "INSERT INTO probe VALUES (1, 0);"
    "PRAGMA application_id = " NUMBER_OF(APPLICATION_ID) ";",
};
#define VERSION ((int)(sizeof migrations / sizeof *migrations))

enum statement {
    BEGIN_WRITE,
    COMMIT,
    ROLLBACK,
    PROBE,
    INSERT,
    LIST,
    LIST_MODEL,
    MODELS,
    GET,
    N_STATEMENTS
};
static const char *const statements[N_STATEMENTS] = {
    [BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [PROBE] = "UPDATE probe SET n = n + 1",
    [INSERT] =
        "INSERT INTO records (request_id, started_us, ended_us, endpoint, requested_model, backend,"
        " model, served_model, system_fingerprint, catalog_version, outcome, status, error_code,"
        " prompt_tokens, completion_tokens, seed, body_sha256, answer_sha256, finish, n_deltas,"
        " build, detail)"
        " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [LIST] = "SELECT request_id, detail FROM records WHERE started_us >= ?1"
             " ORDER BY started_us DESC, request_id LIMIT ?2",
    [LIST_MODEL] = "SELECT request_id, detail FROM records"
                   " WHERE started_us >= ?1 AND (model = ?3 OR requested_model = ?3)"
                   " ORDER BY started_us DESC, request_id LIMIT ?2",
    /* From each name to the next one by the index, in place of reading every row. */
    [MODELS] = "WITH RECURSIVE answered (name) AS ("
               "  SELECT min(model) FROM records UNION ALL"
               "  SELECT (SELECT min(model) FROM records WHERE model > name) FROM answered"
               "  WHERE name IS NOT NULL),"
               " asked (name) AS ("
               "  SELECT min(requested_model) FROM records UNION ALL"
               "  SELECT (SELECT min(requested_model) FROM records WHERE requested_model > name)"
               "  FROM asked WHERE name IS NOT NULL)"
               " SELECT name FROM answered WHERE EXISTS"
               "  (SELECT 1 FROM records WHERE model = name AND started_us >= ?1)"
               " UNION SELECT name FROM asked WHERE EXISTS"
               "  (SELECT 1 FROM records WHERE requested_model = name AND started_us >= ?1)"
               " LIMIT ?2",
    [GET] = "SELECT request_id, detail FROM records WHERE request_id = ?1",
};

struct records_db {
    sqlite3 *handle;
    sqlite3_stmt *prepared[N_STATEMENTS]; /* on first use */
};

/* ---- errors */

static bool unusable(struct failure *f, const char *path, const char *text)
{
    return failure_set(f, 500, "records_unusable", NULL, "records '%.300s': %s", path, text);
}

static bool damaged(struct failure *f, const char *path, const char *detail)
{
    const char *last_line =
        strrchr(detail, '\n'); /* quick_check begins with a line that names the database */
    detail = last_line ? last_line + 1 : detail;
    return failure_set(f, 500, "records_unusable", NULL,
                       "records '%.300s': damaged (%.80s), move it away or put back a copy, a new "
                       "one is made when there is none",
                       path, detail);
}

/* What SQLite says about the file, in our words. */
static bool fail_from_sqlite(struct failure *f, const char *path, sqlite3 *handle)
{
    char text[200];
    int code = handle ? sqlite3_errcode(handle) : SQLITE_NOMEM,
        os = handle ? sqlite3_system_errno(handle) : 0;
    const char *said = handle ? sqlite3_errmsg(handle) : "out of memory",
               *why = os ? strerror(os) : said;
    switch (code & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return damaged(f, path, said);
    case SQLITE_BUSY:
        return unusable(f, path, "another process holds it, end that one or try again");
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
        (void)snprintf(text, sizeof text,
                       "cannot be opened: %s, run as its owner and look at the permissions of the "
                       "file and its folder",
                       why);
        return unusable(f, path, text);
    case SQLITE_FULL:
    case SQLITE_IOERR: /* too, while a log has no room */
        (void)snprintf(text, sizeof text,
                       "its disk is full or failing (%.60s), make room there or set records_path "
                       "to another",
                       why);
        return unusable(f, path, text);
    default:
        return unusable(f, path, said);
    }
}

/* ---- small parts */

static bool run_sql(sqlite3 *handle, const char *sql)
{
    return sqlite3_exec(handle, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* The first column of the first row as text ("" when there is none). */
static bool query_text(sqlite3 *handle, const char *sql, char *out, size_t cap)
{
    sqlite3_stmt *s = NULL;
    bool ok = sqlite3_prepare_v2(handle, sql, -1, &s, NULL) == SQLITE_OK;
    int code = ok ? sqlite3_step(s) : SQLITE_ERROR;
    ok = ok && (code == SQLITE_ROW || code == SQLITE_DONE);
    const unsigned char *text = code == SQLITE_ROW ? sqlite3_column_text(s, 0) : NULL;
    (void)snprintf(out, cap, "%s", text ? (const char *)text : "");
    return sqlite3_finalize(s) == SQLITE_OK && ok;
}

static bool query_number(sqlite3 *handle, const char *sql, long *out)
{
    char text[32];
    if (!query_text(handle, sql, text, sizeof text)) {
        return false;
    }
    *out = strtol(text, NULL, 10);
    return true;
}

static sqlite3_stmt *statement(struct records_db *db, enum statement id)
{
    if (!db->prepared[id]) {
        (void)sqlite3_prepare_v3(db->handle, statements[id], -1, SQLITE_PREPARE_PERSISTENT,
                                 &db->prepared[id], NULL);
    }
    return db->prepared[id]; /* NULL: the handle has the error */
}

/* ---- opening */

/* The file must be there with our mode before SQLite makes it with its own; -wal and -shm get the
 * mode of the file. */
static bool make_file(const char *path, struct failure *f)
{
    char text[200];
    struct stat st;
    int fd = -1;
    bool is_there = stat(path, &st) == 0;
    if (!is_there && paths_make_folders(path, 0700)) {
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        is_there = fd >= 0 || errno == EEXIST;
    }
    if (!is_there) {
        (void)snprintf(text, sizeof text,
                       "cannot be made: %s, set records_path to a file that can be",
                       strerror(errno));
        return unusable(f, path, text);
    }
    if (fd >= 0) {
        (void)close(fd); /* empty */
    } else if (!S_ISREG(st.st_mode)) {
        return unusable(f, path, "is not a regular file, name another");
    }
    return true;
}

static bool open_handle(struct records_db *db, const char *path, int flags, struct failure *f)
{
    if (sqlite3_open_v2(path, &db->handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                        NULL) != SQLITE_OK) {
        return fail_from_sqlite(f, path, db->handle);
    }
    (void)sqlite3_busy_timeout(db->handle, BUSY_MS); /* fails only for a bad handle */
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return true;
}

/* Whose file it is. *version: of its schema, 0: an empty file. */
static bool check_owner(struct records_db *db, const char *path, long *version, struct failure *f)
{
    char text[120];
    long id, n_tables;
    if (!query_number(db->handle, "PRAGMA user_version", version) ||
        !query_number(db->handle, "PRAGMA application_id", &id)) {
        return fail_from_sqlite(f, path, db->handle);
    }
    /* The head alone says so mostly: the schema of another program may not even be readable here.
     */
    if (id != APPLICATION_ID && (id || *version)) {
        return unusable(f, path, "is the database of another program, name another file");
    }
    if (!query_number(db->handle, "SELECT count(*) FROM sqlite_schema", &n_tables)) {
        return fail_from_sqlite(f, path, db->handle);
    }
    if (id != APPLICATION_ID && n_tables) {
        return unusable(f, path, "is the database of another program, name another file");
    }
    if (*version > VERSION) {
        (void)snprintf(text, sizeof text,
                       "was written by a newer version (schema %ld, this one knows %d), use that "
                       "or move the file away",
                       *version, VERSION);
        return unusable(f, path, text);
    }
    return true;
}

static bool check_pages(struct records_db *db, const char *path, bool was_killed, struct failure *f)
{
    char text[120];
    struct stat st;
    if (!was_killed && (stat(path, &st) != 0 || st.st_size > CHECK_BYTES_MAX)) {
        return true;
    }
    if (!query_text(db->handle, "PRAGMA quick_check(1)", text, sizeof text)) {
        return fail_from_sqlite(f, path, db->handle);
    }
    return strcmp(text, "ok") == 0 || damaged(f, path, text);
}

static bool migrate(struct records_db *db, const char *path, struct failure *f)
{
    char pragma[64];
    long version;
    /* Another process may have been quicker: the version is read again under the lock. */
    bool ok = run_sql(db->handle, "BEGIN IMMEDIATE") &&
              query_number(db->handle, "PRAGMA user_version", &version);
    for (; ok && version < VERSION; version++) {
        (void)snprintf(pragma, sizeof pragma, "PRAGMA user_version = %ld", version + 1);
        ok = run_sql(db->handle, migrations[version]) && run_sql(db->handle, pragma);
    }
    if (ok && run_sql(db->handle, "COMMIT")) {
        return true;
    }
    (void)fail_from_sqlite(f, path, db->handle);
    (void)run_sql(db->handle, "ROLLBACK"); /* what failed is told already */
    return false;
}

static bool prepare_for_writing(struct records_db *db, const char *path, struct failure *f)
{
    char mode[16], wal[PATH_MAX + 8], pragma[64];
    long version;
    struct stat st;
    (void)snprintf(wal, sizeof wal, "%s-wal", path);
    bool was_killed = stat(wal, &st) == 0 && st.st_size > 0;
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (!run_sql(db->handle, "PRAGMA query_only = 1")) {
        return fail_from_sqlite(f, path, db->handle);
    }
    if (!check_owner(db, path, &version, f) || !check_pages(db, path, was_killed, f)) {
        return false;
    }
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    (void)snprintf(pragma, sizeof pragma, "PRAGMA journal_size_limit = %d", WAL_BYTES_KEPT);
    if (!run_sql(db->handle, "PRAGMA query_only = 0") ||
        !query_text(db->handle, "PRAGMA journal_mode = WAL", mode, sizeof mode) ||
        !run_sql(db->handle, "PRAGMA synchronous = FULL") ||
        !run_sql(db->handle, "PRAGMA foreign_keys = 1") || !run_sql(db->handle, pragma)) {
        return fail_from_sqlite(f, path, db->handle);
    }
    if (strcmp(mode, "wal") != 0) {
        return unusable(f, path,
                        "its file system has no shared memory for a write-ahead log, name a file "
                        "on a local disk");
    }
    return migrate(db, path, f);
}

bool records_db_open(struct records_db **out, const char *path, struct failure *f)
{
    struct records_db *db = calloc(1, sizeof *db);
    if (!db) {
        return failure_set(f, 500, "out_of_memory", NULL, "out of memory");
    }
    if (!make_file(path, f) || !open_handle(db, path, SQLITE_OPEN_READWRITE, f) ||
        !prepare_for_writing(db, path, f)) {
        records_db_close(db);
        return false;
    }
    *out = db;
    return true;
}

bool records_db_open_reader(struct records_db **out, const char *path, struct failure *f)
{
    struct stat st;
    long version;
    if (stat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return failure_set(
            f, 404, "no_records", NULL,
            "records '%.300s': there is no such file, start the daemon or name another", path);
    }
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        return unusable(f, path, "is not a regular file, name another");
    }
    struct records_db *db = calloc(1, sizeof *db);
    if (!db) {
        return failure_set(f, 500, "out_of_memory", NULL, "out of memory");
    }
    bool ok = open_handle(db, path, SQLITE_OPEN_READONLY, f) && check_owner(db, path, &version, f);
    if (ok && version != VERSION) {
        ok = unusable(
            f, path,
            version
                ? "was written by an older version, start the daemon once to bring it up to date"
                : "holds no records yet");
    }
    if (!ok) {
        records_db_close(db);
        return false;
    }
    *out = db;
    return true;
}

void records_db_close(struct records_db *db)
{
    if (!db) {
        return;
    }
    for (size_t i = 0; i < N_STATEMENTS; i++) {
        (void)sqlite3_finalize(db->prepared[i]); /* repeats an error that was told */
    }
    (void)sqlite3_close_v2(db->handle);
    free(db);
}

/* ---- writing */

static enum records_db_result result_of(const struct records_db *db)
{
    switch (sqlite3_errcode(db->handle) & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
    case SQLITE_ROW:
        return RECORDS_DB_OK;
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
        return RECORDS_DB_ROW;
    case SQLITE_BUSY:
    case SQLITE_FULL:
    case SQLITE_NOMEM:
        return RECORDS_DB_WAIT;
    default:
        return RECORDS_DB_BROKEN;
    }
}

static enum records_db_result step_done(struct records_db *db, sqlite3_stmt *s)
{
    if (!s) {
        return result_of(db);
    }
    (void)sqlite3_step(s); /* result_of() reads the code */
    enum records_db_result r = result_of(db);
    (void)sqlite3_reset(s); /* repeats the same code */
    return r;
}

enum records_db_result records_db_begin(struct records_db *db)
{
    return step_done(db, statement(db, BEGIN_WRITE));
}

enum records_db_result records_db_commit(struct records_db *db)
{
    return step_done(db, statement(db, COMMIT));
}

void records_db_why(struct records_db *db, const char *path, struct failure *f)
{
    (void)fail_from_sqlite(f, path, db->handle); /* the words are what is wanted */
}

void records_db_rollback(struct records_db *db)
{
    if (!sqlite3_get_autocommit(db->handle)) {
        (void)step_done(db, statement(db, ROLLBACK)); /* a failure before this one is what counts */
    }
}

/* Strings are static: they live until the statement is reset. "" is NULL. */
static int bind_text(sqlite3_stmt *s, int at, const char *text)
{
    return *text ? sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC) : sqlite3_bind_null(s, at);
}

enum records_db_result records_db_insert(struct records_db *db, const struct fingerprint *fp,
                                         struct slice detail)
{
    sqlite3_stmt *s = statement(db, INSERT);
    if (!s) {
        return result_of(db);
    }
    int at = 0, bad = 0;
    bad |= bind_text(s, ++at, fp->request_id);
    bad |= sqlite3_bind_int64(s, ++at, fp->started_us);
    bad |= sqlite3_bind_int64(s, ++at, fp->ended_us);
    bad |= bind_text(s, ++at, fp->endpoint);
    bad |= bind_text(s, ++at, fp->requested_model);
    bad |= bind_text(s, ++at, fp->backend);
    bad |= bind_text(s, ++at, fp->model);
    bad |= bind_text(s, ++at, fp->served_model);
    bad |= bind_text(s, ++at, fp->system_fingerprint);
    bad |= sqlite3_bind_int64(s, ++at, fp->catalog_version);
    bad |= bind_text(s, ++at, outcome_name(fp->outcome));
    bad |= sqlite3_bind_int(s, ++at, fp->status);
    bad |= bind_text(s, ++at, fp->error_code);
    bad |= sqlite3_bind_int64(s, ++at, fp->prompt_tokens);
    bad |= sqlite3_bind_int64(s, ++at, fp->completion_tokens);
    bad |= fp->has_seed ? sqlite3_bind_int64(s, ++at, fp->seed) : sqlite3_bind_null(s, ++at);
    bad |= bind_text(s, ++at, fp->body_sha256);
    bad |= bind_text(s, ++at, fp->answer_sha256);
    bad |= bind_text(s, ++at, fp->finish);
    bad |= sqlite3_bind_int64(s, ++at, (sqlite3_int64)fp->n_deltas);
    bad |= bind_text(s, ++at, fp->build);
    bad |= sqlite3_bind_text64(s, ++at, detail.p, detail.len, SQLITE_STATIC, SQLITE_UTF8);
    enum records_db_result r = bad ? RECORDS_DB_ROW : step_done(db, s);
    (void)sqlite3_clear_bindings(s); /* always works */
    return r;
}

enum records_db_result records_db_probe(struct records_db *db)
{
    static const enum statement steps[] = {BEGIN_WRITE, PROBE, COMMIT};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        enum records_db_result r = step_done(db, statement(db, steps[i]));
        if (r != RECORDS_DB_OK) {
            records_db_rollback(db);
            return r;
        }
    }
    return RECORDS_DB_OK;
}

bool records_db_is_in_place(struct records_db *db)
{
    int has_moved = 0;
    return sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved) ==
               SQLITE_OK &&
           !has_moved;
}

void records_db_settle(struct records_db *db)
{
    /* A failure leaves the rows in the log, as they were. */
    (void)sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
}

/* ---- reading */

/* The record of the row that a statement stands on; NULL: failure. */
static json_t *row_record(sqlite3_stmt *s, struct failure *f)
{
    const char *text = (const char *)sqlite3_column_text(s, 1);
    json_error_t e;
    json_t *record =
        text ? json_loadb(text, (size_t)sqlite3_column_bytes(s, 1), JSON_REJECT_DUPLICATES, &e)
             : NULL;
    if (!json_is_object(record)) {
        json_decref(record);
        const unsigned char *id = sqlite3_column_text(s, 0);
        (void)failure_set(f, 500, "records_unusable", NULL,
                          "record '%.40s' is damaged, put back a copy of the database",
                          id ? (const char *)id : "?");
        return NULL;
    }
    return record;
}

static bool fail_reading(struct records_db *db, struct failure *f)
{
    return fail_from_sqlite(f, sqlite3_db_filename(db->handle, "main"), db->handle);
}

bool records_db_list(struct records_db *db, const struct records_query *q, records_row_fn *fn,
                     void *ud, struct failure *f)
{
    sqlite3_stmt *s = statement(db, q->model ? LIST_MODEL : LIST);
    if (!s) {
        return fail_reading(db, f);
    }
    int64_t limit = q->limit <= 0                  ? 100
                    : q->limit > RECORDS_LIMIT_MAX ? RECORDS_LIMIT_MAX
                                                   : q->limit;
    int bad = sqlite3_bind_int64(s, 1, q->since_us) | sqlite3_bind_int64(s, 2, limit);
    if (q->model) {
        bad |= sqlite3_bind_text(s, 3, q->model, -1, SQLITE_STATIC);
    }
    int code = bad ? SQLITE_NOMEM : SQLITE_ROW;
    bool ok = true, wants_more = true;
    while (ok && wants_more && code == SQLITE_ROW && (code = sqlite3_step(s)) == SQLITE_ROW) {
        json_t *record = row_record(s, f);
        ok = record != NULL;
        wants_more = ok && fn(record, ud);
        json_decref(record);
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        ok = fail_reading(db, f);
    }
    (void)sqlite3_reset(s); /* repeats the same code */
    (void)sqlite3_clear_bindings(s);
    return ok;
}

bool records_db_models(struct records_db *db, int64_t since_us, records_model_fn *fn, void *ud,
                       struct failure *f)
{
    sqlite3_stmt *s = statement(db, MODELS);
    if (!s) {
        return fail_reading(db, f);
    }
    int bad = sqlite3_bind_int64(s, 1, since_us) | sqlite3_bind_int64(s, 2, RECORDS_MODELS_MAX);
    int code = bad ? SQLITE_NOMEM : SQLITE_ROW;
    bool wants_more = true;
    while (wants_more && code == SQLITE_ROW && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(s, 0);
        wants_more = !name || fn(name, ud);
    }
    bool ok = code == SQLITE_ROW || code == SQLITE_DONE || fail_reading(db, f);
    (void)sqlite3_reset(s); /* repeats the same code */
    (void)sqlite3_clear_bindings(s);
    return ok;
}

json_t *records_db_get(struct records_db *db, const char *request_id, struct failure *f)
{
    sqlite3_stmt *s = statement(db, GET);
    json_t *record = NULL;
    if (!s || sqlite3_bind_text(s, 1, request_id, -1, SQLITE_STATIC) != SQLITE_OK) {
        (void)fail_reading(db, f);
        return NULL;
    }
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW) {
        record = row_record(s, f);
    } else if (code == SQLITE_DONE) {
        (void)failure_set(f, 404, "not_found", NULL,
                          "there is no record of request '%.64s', see the list of records",
                          request_id);
    } else {
        (void)fail_reading(db, f);
    }
    (void)sqlite3_reset(s); /* repeats the same code */
    (void)sqlite3_clear_bindings(s);
    return record;
}
