/* db_inside.h - inside of the catalog's database files, db.c and db_*.c: the handle, its statements
 * and how one is run. db.c holds the text of all statements. */
#ifndef ISOTHERM_CATALOG_DB_INSIDE_H
#define ISOTHERM_CATALOG_DB_INSIDE_H

#include "db.h"

#include <sqlite3.h>
#include <sys/stat.h>

#define DB_PATH_MAX       4096
#define DB_SCHEMA_VERSION 3

enum statement {
    SQL_BEGIN,
    SQL_BEGIN_WRITE,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_QUICK_CHECK,
    SQL_USER_VERSION,
    SQL_N_TABLES,
    SQL_VERSION,
    SQL_NEWEST,
    SQL_VERSIONS,
    SQL_CLAIMS,
    SQL_PROVIDERS,
    SQL_PUT_CLAIM,
    SQL_FIND_CLAIM,
    SQL_PUT_PROVIDER,
    SQL_FIND_PROVIDER,
    SQL_PUT_VERSION,
    SQL_ADD_CLAIM,
    SQL_ADD_PROVIDER,
    SQL_NEWEST_SHIPPED,
    SQL_NEWEST_NUMBER,
    SQL_MEMBERS,
    SQL_PROVIDER_MEMBERS,
    SQL_CLAIM_ROW,
    SQL_PROVIDER_ROW,
    SQL_CONFLICTS,
    SQL_ADD_CONFLICT,
    SQL_HAS_CLAIM,
    SQL_N_EVIDENCE,
    SQL_ADD_EVIDENCE,
    SQL_EVIDENCE,
    SQL_EVIDENCE_ALL,
    SQL_VERDICTS,
    SQL_VERSION_AT,
    SQL_FIND_CLAIMS,
    SQL_RUNS,
    SQL_CLAIM_IDS,
    SQL_CLAIMS_BETWEEN,
    SQL_ONLY_PROVIDERS,
    SQL_STAMPS,
    SQL_PROVIDER_NAMES,
    SQL_PARAM_NAMES,
    SQL_COUNT
};

struct db {
    sqlite3 *handle;
    bool is_fixed;
    struct stat seen;              /* of the file, when it was opened to be read */
    bool is_unpublished;           /* a new catalog, in memory until db_commit() */
    bool is_quick;                 /* the file was not checked whole */
    char path[DB_PATH_MAX];        /* for error texts */
    sqlite3_stmt *kept[SQL_COUNT]; /* prepared at first use; one thread at a time uses a db */
};

/* A handle without a database; the path is checked. */
bool db_new(struct db **out, const char *path, struct catalog_error *err);
bool db_open_handle(struct db *db, const char *name, int flags, struct catalog_error *err);
/* Whether the schema is this program's; *schema where it is an older one (then true, too). */
bool db_check_schema(struct db *db, int64_t *schema, struct catalog_error *err);
bool db_read_int(struct db *db, enum statement which, int64_t *out, struct catalog_error *err);

/* Always false; the error says what SQLite's code means to the reader. */
bool db_fail_sql(struct db *db, int rc, struct catalog_error *err);
/* The statement, ready to be bound; NULL: err is set. Reset it when it has been stepped. */
sqlite3_stmt *db_use(struct db *db, enum statement which, struct catalog_error *err);
/* Steps to a row (*has_row) or the end. */
bool db_step(struct db *db, sqlite3_stmt *s, bool *has_row, struct catalog_error *err);
/* Runs a statement that gives no row; NULL (from db_use) has failed already. */
bool db_run(struct db *db, sqlite3_stmt *s, struct catalog_error *err);
/* All rows of a bound statement: an id, then cells, at most COLUMN_COUNT + 1. The caller resets
 * it. */
bool db_each_row(struct db *db, sqlite3_stmt *s, db_row_fn *fn, void *ud,
                 struct catalog_error *err);
/* A bind fails only for want of memory; the step would then see NULL and break a constraint, so it
 * is checked. */
bool db_bound(struct db *db, int rc, struct catalog_error *err);

#endif
