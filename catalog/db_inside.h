/* db_inside.h - inside of the catalog's database files, db.c and db_*.c: the handle, its statements
 * and how one is run. db.c holds the text of all statements. */
#ifndef ISOTHERM_CATALOG_DB_INSIDE_H
#define ISOTHERM_CATALOG_DB_INSIDE_H

#include "db.h"

#include <sqlite3.h>

#define DB_PATH_MAX 4096

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
    SQL_HASHES,
    SQL_PUT_CLAIM,
    SQL_FIND_CLAIM,
    SQL_PUT_PROVIDER,
    SQL_FIND_PROVIDER,
    SQL_PUT_VERSION,
    SQL_ADD_CLAIM,
    SQL_ADD_PROVIDER,
    SQL_COUNT
};

struct db {
    sqlite3 *handle;
    bool is_fixed;
    char path[DB_PATH_MAX];        /* for error texts */
    sqlite3_stmt *kept[SQL_COUNT]; /* prepared at first use; one thread at a time uses a db */
};

/* Always false; the error says what SQLite's code means to the reader. */
bool db_fail_sql(struct db *db, int rc, struct catalog_error *err);
/* The statement, ready to be bound; NULL: err is set. Reset it when it has been stepped. */
sqlite3_stmt *db_use(struct db *db, enum statement which, struct catalog_error *err);
/* Steps to a row (*has_row) or the end. */
bool db_step(struct db *db, sqlite3_stmt *s, bool *has_row, struct catalog_error *err);
/* Runs a statement that gives no row; NULL (from db_use) has failed already. */
bool db_run(struct db *db, sqlite3_stmt *s, struct catalog_error *err);
/* A bind fails only for want of memory; the step would then see NULL and break a constraint, so it
 * is checked. */
bool db_bound(struct db *db, int rc, struct catalog_error *err);

#endif
