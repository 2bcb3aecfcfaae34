/* db_rows.c - versions, providers and claims as rows, read and written. */
#include "catalog_sha256.h"
#include "db_inside.h"

#include <stdio.h>
#include <string.h>

/* ---- reading */

static bool column_text(sqlite3_stmt *s, int column, char *out, size_t cap)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text && (size_t)snprintf(out, cap, "%s", text) < cap;
}

static bool read_version(struct db *db, sqlite3_stmt *s, struct catalog_version *out,
                         struct catalog_error *err)
{
    struct catalog_version v = {.number = sqlite3_column_int64(s, 0),
                                .parent = sqlite3_column_int64(s, 1),
                                .n_claims = sqlite3_column_int64(s, 6),
                                .base = sqlite3_column_int64(s, 7),
                                .n_conflicts = sqlite3_column_int64(s, 9)};
    const char *kind = (const char *)sqlite3_column_text(s, 8);
    v.kind = kind && strcmp(kind, "local") == 0 ? VERSION_LOCAL : VERSION_SHIPPED;
    if (!column_text(s, 2, v.hash, sizeof v.hash) ||
        !column_text(s, 3, v.created, sizeof v.created) ||
        !column_text(s, 4, v.author, sizeof v.author) ||
        !column_text(s, 5, v.reason, sizeof v.reason)) {
        return catalog_fail(err, CATALOG_BAD_DB, "catalog '%s': version %lld cannot be read",
                            db->path, (long long)v.number);
    }
    *out = v;
    return true;
}

/* The row that a bound statement gives; *is_there false: none. */
static bool one_version(struct db *db, sqlite3_stmt *s, bool *is_there, struct catalog_version *out,
                        struct catalog_error *err)
{
    bool ok = db_step(db, s, is_there, err) && (!*is_there || read_version(db, s, out, err));
    (void)sqlite3_reset(s);
    return ok;
}

bool db_version(struct db *db, int64_t number, struct catalog_version *out,
                struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, number ? SQL_VERSION : SQL_NEWEST, err);
    bool is_there = false;
    if (!s || (number && !db_bound(db, sqlite3_bind_int64(s, 1, number), err)) ||
        !one_version(db, s, &is_there, out, err)) {
        return false;
    }
    return is_there ||
           (number ? catalog_fail(err, CATALOG_NOT_FOUND, "catalog '%s' has no version %lld",
                                  db->path, (long long)number)
                   : catalog_fail(err, CATALOG_NOT_FOUND, "catalog '%s' has no version", db->path));
}

bool db_newest_shipped(struct db *db, struct catalog_version *out, struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_NEWEST_SHIPPED, err);
    bool is_there = false;
    if (!s || !one_version(db, s, &is_there, out, err)) {
        return false;
    }
    return is_there || catalog_fail(err, CATALOG_NOT_FOUND,
                                    "catalog '%s' has no version built from sources", db->path);
}

bool db_newest_number(struct db *db, int64_t *out, struct catalog_error *err)
{
    return db_read_int(db, SQL_NEWEST_NUMBER, out, err);
}

bool db_versions(struct db *db, catalog_version_fn *fn, void *ud, struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_VERSIONS, err);
    bool has_row = false;
    bool ok = s != NULL;
    bool goes_on = true;
    while (ok && goes_on && (ok = db_step(db, s, &has_row, err)) && has_row) {
        struct catalog_version v;
        ok = read_version(db, s, &v, err);
        goes_on = ok && fn(&v, ud);
    }
    (void)sqlite3_reset(s);
    return ok;
}

static struct db_cell read_cell(sqlite3_stmt *s, int column)
{
    switch (sqlite3_column_type(s, column)) {
    case SQLITE_INTEGER:
        return (struct db_cell){.type = DB_INT, .i = sqlite3_column_int64(s, column)};
    case SQLITE_FLOAT:
        return (struct db_cell){.type = DB_REAL, .d = sqlite3_column_double(s, column)};
    case SQLITE_TEXT:
        return (struct db_cell){.type = DB_TEXT, .s = (const char *)sqlite3_column_text(s, column)};
    case SQLITE_BLOB:
        return sqlite3_column_bytes(s, column) == SHA256_LEN
                   ? (struct db_cell){.type = DB_HASH, .hash = sqlite3_column_blob(s, column)}
                   : (struct db_cell){.type = DB_NULL};
    default:
        return (struct db_cell){.type = DB_NULL};
    }
}

bool db_each_row(struct db *db, sqlite3_stmt *s, db_row_fn *fn, void *ud, struct catalog_error *err)
{
    struct db_cell cells[COLUMN_COUNT + 1];
    bool has_row = false;
    bool ok = true;
    while (ok && (ok = db_step(db, s, &has_row, err)) && has_row) {
        int n = sqlite3_column_count(s) - 1;
        for (int i = 0; i < n; i++) {
            cells[i] = read_cell(s, i + 1);
            if ((cells[i].type == DB_TEXT && !cells[i].s) ||
                (cells[i].type == DB_HASH && !cells[i].hash)) {
                ok = catalog_fail(err, CATALOG_NOMEM, "out of memory");
            }
        }
        ok = ok && fn(sqlite3_column_int64(s, 0), cells, ud);
    }
    return ok;
}

static bool read_rows(struct db *db, enum statement which, int64_t version, db_row_fn *fn, void *ud,
                      struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, which, err);
    bool ok = s && db_bound(db, sqlite3_bind_int64(s, 1, version), err) &&
              db_each_row(db, s, fn, ud, err);
    (void)sqlite3_reset(s);
    return ok;
}

bool db_claims(struct db *db, int64_t version, db_row_fn *fn, void *ud, struct catalog_error *err)
{
    return read_rows(db, SQL_CLAIMS, version, fn, ud, err);
}

bool db_providers(struct db *db, int64_t version, db_row_fn *fn, void *ud,
                  struct catalog_error *err)
{
    return read_rows(db, SQL_PROVIDERS, version, fn, ud, err);
}

bool db_claim(struct db *db, int64_t id, db_row_fn *fn, void *ud, struct catalog_error *err)
{
    return read_rows(db, SQL_CLAIM_ROW, id, fn, ud, err);
}

bool db_provider(struct db *db, int64_t id, db_row_fn *fn, void *ud, struct catalog_error *err)
{
    return read_rows(db, SQL_PROVIDER_ROW, id, fn, ud, err);
}

static const char *text_at(sqlite3_stmt *s, int column)
{
    return (const char *)sqlite3_column_text(s, column);
}

static bool read_members(struct db *db, enum statement which, int64_t version, db_member_fn *fn,
                         void *ud, struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, which, err);
    bool has_row = false;
    bool ok = s && db_bound(db, sqlite3_bind_int64(s, 1, version), err);
    while (ok && (ok = db_step(db, s, &has_row, err)) && has_row) {
        struct db_member m = {.id = sqlite3_column_int64(s, 0),
                              .hash = sqlite3_column_blob(s, 1),
                              .provider = text_at(s, 2)};
        if (which == SQL_MEMBERS) {
            m.models = text_at(s, 3);
            m.endpoint = text_at(s, 4);
            m.param = text_at(s, 5);
            m.variant = text_at(s, 6);
            m.when = text_at(s, 7);
            m.source = text_at(s, 8);
            m.as_of = text_at(s, 9);
            m.is_local = sqlite3_column_int64(s, 10) != 0;
            m.valid_to = text_at(s, 11);
        }
        bool is_whole =
            m.hash && sqlite3_column_bytes(s, 1) == SHA256_LEN && m.provider &&
            (which != SQL_MEMBERS || (m.models && m.endpoint && m.param && m.source && m.as_of));
        ok = is_whole ? fn(&m, ud)
                      : catalog_fail(err, CATALOG_BAD_DB,
                                     "catalog '%s': row %lld cannot be read: build it again",
                                     db->path, (long long)m.id);
    }
    (void)sqlite3_reset(s);
    return ok;
}

bool db_members(struct db *db, int64_t version, db_member_fn *fn, void *ud,
                struct catalog_error *err)
{
    return read_members(db, SQL_MEMBERS, version, fn, ud, err);
}

bool db_provider_members(struct db *db, int64_t version, db_member_fn *fn, void *ud,
                         struct catalog_error *err)
{
    return read_members(db, SQL_PROVIDER_MEMBERS, version, fn, ud, err);
}

bool db_conflicts(struct db *db, int64_t version, db_conflict_fn *fn, void *ud,
                  struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_CONFLICTS, err);
    bool has_row = false;
    bool ok = s && db_bound(db, sqlite3_bind_int64(s, 1, version), err);
    while (ok && (ok = db_step(db, s, &has_row, err)) && has_row) {
        struct db_conflict f = {.since = sqlite3_column_int64(s, 0),
                                .is_provider = sqlite3_column_int64(s, 1) != 0,
                                .base = sqlite3_column_int64(s, 2),
                                .shipped = sqlite3_column_int64(s, 3),
                                .local = sqlite3_column_int64(s, 4)};
        ok = fn(&f, ud);
    }
    (void)sqlite3_reset(s);
    return ok;
}

/* ---- writing */

static bool bind_cell(struct db *db, sqlite3_stmt *s, int place, struct db_cell c,
                      struct catalog_error *err)
{
    switch (c.type) {
    case DB_INT:
        return db_bound(db, sqlite3_bind_int64(s, place, c.i), err);
    case DB_REAL:
        return db_bound(db, sqlite3_bind_double(s, place, c.d), err);
    case DB_TEXT:
        return db_bound(db, sqlite3_bind_text(s, place, c.s, -1, SQLITE_STATIC), err);
    case DB_NULL:
    case DB_HASH: /* bound on its own */
        break;
    }
    return db_bound(db, sqlite3_bind_null(s, place), err);
}

/* The id of the row with that hash; *id 0: there is none. */
static bool find_hash(struct db *db, enum statement which, const unsigned char *hash, int64_t *id,
                      struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, which, err);
    bool has_row = false;
    *id = 0;
    bool ok = s && db_bound(db, sqlite3_bind_blob(s, 1, hash, SHA256_LEN, SQLITE_STATIC), err) &&
              db_step(db, s, &has_row, err);
    if (ok) {
        *id = has_row ? sqlite3_column_int64(s, 0) : 0;
    }
    (void)sqlite3_reset(s);
    return ok;
}

bool db_put_claim(struct db *db, const unsigned char *hash, const struct db_cell *cells,
                  int64_t *id, struct catalog_error *err)
{
    if (!find_hash(db, SQL_FIND_CLAIM, hash, id, err) || *id != 0) {
        return *id != 0;
    }
    sqlite3_stmt *s = db_use(db, SQL_PUT_CLAIM, err);
    if (!s || !db_bound(db, sqlite3_bind_blob(s, 1, hash, SHA256_LEN, SQLITE_STATIC), err)) {
        return false;
    }
    for (int i = 0; i < COLUMN_COUNT; i++) {
        if (!bind_cell(db, s, i + 2, cells[i], err)) {
            return false;
        }
    }
    if (!db_run(db, s, err)) {
        return false;
    }
    *id = sqlite3_last_insert_rowid(db->handle);
    return true;
}

bool db_put_provider(struct db *db, const unsigned char *hash, const char *provider,
                     const char *body, int64_t *id, struct catalog_error *err)
{
    if (!find_hash(db, SQL_FIND_PROVIDER, hash, id, err) || *id != 0) {
        return *id != 0;
    }
    sqlite3_stmt *s = db_use(db, SQL_PUT_PROVIDER, err);
    bool ok = s && db_bound(db, sqlite3_bind_blob(s, 1, hash, SHA256_LEN, SQLITE_STATIC), err) &&
              db_bound(db, sqlite3_bind_text(s, 2, provider, -1, SQLITE_STATIC), err) &&
              db_bound(db, sqlite3_bind_text(s, 3, body, -1, SQLITE_STATIC), err) &&
              db_run(db, s, err);
    if (ok) {
        *id = sqlite3_last_insert_rowid(db->handle);
    }
    return ok;
}

bool db_put_version(struct db *db, const struct catalog_version *v, struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_PUT_VERSION, err);
    return s && db_bound(db, sqlite3_bind_int64(s, 1, v->number), err) &&
           db_bound(db, sqlite3_bind_int64(s, 2, v->parent), err) &&
           db_bound(db, sqlite3_bind_text(s, 3, v->hash, -1, SQLITE_STATIC), err) &&
           db_bound(db, sqlite3_bind_text(s, 4, v->created, -1, SQLITE_STATIC), err) &&
           db_bound(db, sqlite3_bind_text(s, 5, v->author, -1, SQLITE_STATIC), err) &&
           db_bound(db, sqlite3_bind_text(s, 6, v->reason, -1, SQLITE_STATIC), err) &&
           db_bound(db, sqlite3_bind_text(s, 7, version_kind_name(v->kind), -1, SQLITE_STATIC),
                    err) &&
           db_bound(db, sqlite3_bind_int64(s, 8, v->base), err) && db_run(db, s, err);
}

/* Whole numbers, bound in order. */
static bool run_with(struct db *db, enum statement which, const int64_t *numbers, int n,
                     struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, which, err);
    bool ok = s != NULL;
    for (int i = 0; ok && i < n; i++) {
        ok = db_bound(db, sqlite3_bind_int64(s, i + 1, numbers[i]), err);
    }
    return ok && db_run(db, s, err);
}

bool db_add_claims(struct db *db, int64_t version, int64_t position, int64_t id, int64_t n,
                   struct catalog_error *err)
{
    return run_with(db, SQL_ADD_CLAIM, (const int64_t[]){version, position, id, n}, 4, err);
}

bool db_add_provider(struct db *db, int64_t version, int64_t position, int64_t id,
                     struct catalog_error *err)
{
    return run_with(db, SQL_ADD_PROVIDER, (const int64_t[]){version, position, id}, 3, err);
}

bool db_add_conflict(struct db *db, int64_t version, const struct db_conflict *f,
                     struct catalog_error *err)
{
    const int64_t numbers[] = {version, f->since,   f->is_provider ? 1 : 0,
                               f->base, f->shipped, f->local};
    return run_with(db, SQL_ADD_CONFLICT, numbers, 6, err);
}
