/* db.h - the catalog database: the only file of the program that sees SQLite here, and all of its
 * statements.
 *
 * Rows travel as cells, so that neither the build nor the snapshot knows SQLite. Text in a cell is
 * borrowed: from the caller on the way in, from the row on the way out (until the callback
 * returns).
 */
#ifndef ISOTHERM_CATALOG_DB_H
#define ISOTHERM_CATALOG_DB_H

#include "catalog.h"

/* The fields of a claim as sources and database name them; the kind is what a source may give. */
#define CLAIM_COLUMNS(X)                                                                           \
    X(provider, TEXT)                                                                              \
    X(models, TEXT)                                                                                \
    X(endpoint, TEXT)                                                                              \
    X(param, TEXT)                                                                                 \
    X(source_param, TEXT)                                                                          \
    X(wire, TEXT)                                                                                  \
    X(support, TEXT)                                                                               \
    X(required, BOOL)                                                                              \
    X(min, NUMBER)                                                                                 \
    X(max, NUMBER)                                                                                 \
    X(min_exclusive, BOOL)                                                                         \
    X(max_exclusive, BOOL)                                                                         \
    X(integer, BOOL)                                                                               \
    X(values, LIST)                                                                                \
    X(default, ANY)                                                                                \
    X(items_max, COUNT)                                                                            \
    X(len_max, COUNT)                                                                              \
    X(no_blank, BOOL)                                                                              \
    X(conflicts, LIST)                                                                             \
    X(conflicts_text, LIST)                                                                        \
    X(needs, LIST)                                                                                 \
    X(adds, OBJECT)                                                                                \
    X(when, OBJECT)                                                                                \
    X(when_text, TEXT)                                                                             \
    X(variant, TEXT)                                                                               \
    X(derived, BOOL)                                                                               \
    X(local, BOOL)                                                                                 \
    X(valid_from, TEXT)                                                                            \
    X(valid_to, TEXT)                                                                              \
    X(source, TEXT)                                                                                \
    X(as_of, TEXT)                                                                                 \
    X(confidence, TEXT)                                                                            \
    X(note, TEXT)

enum claim_column {
#define X(name, kind) COLUMN_##name,
    CLAIM_COLUMNS(X)
#undef X
        COLUMN_COUNT
};

enum db_cell_type { DB_NULL, DB_INT, DB_REAL, DB_TEXT };
struct db_cell {
    enum db_cell_type type;
    int64_t i;
    double d;
    const char *s;
};

struct db;

/* Reading: the file must exist, be whole, and have a schema that this program knows; it is not
 * changed. */
CATALOG_WARN_UNUSED bool db_open(struct db **out, const char *path, struct catalog_error *err);
/* Whether this handle sees nothing that is written after it was opened (no right to write in the
 * folder). */
bool db_is_fixed(const struct db *db);
/* Writing: an empty or missing file gets the schema. Leaves a transaction open: nothing is there
 * before db_commit(). */
CATALOG_WARN_UNUSED bool db_create(struct db **out, const char *path, struct catalog_error *err);
void db_close(struct db *db); /* rolls back what is not committed */
CATALOG_WARN_UNUSED bool db_commit(struct db *db, struct catalog_error *err);

/* One state of the database for all reads until db_end(). */
CATALOG_WARN_UNUSED bool db_begin(struct db *db, struct catalog_error *err);
void db_end(struct db *db);

/* The header row of `number`, or of the newest for 0. CATALOG_NOT_FOUND: there is none. */
CATALOG_WARN_UNUSED bool db_version(struct db *db, int64_t number, struct catalog_version *out,
                                    struct catalog_error *err);
CATALOG_WARN_UNUSED bool db_versions(struct db *db, catalog_version_fn *fn, void *ud,
                                     struct catalog_error *err);

typedef bool db_row_fn(int64_t id, const struct db_cell *cells, void *ud); /* false: stop, failed */
/* Claims of a version in the order of its sources; cells by enum claim_column. */
CATALOG_WARN_UNUSED bool db_claims(struct db *db, int64_t version, db_row_fn *fn, void *ud,
                                   struct catalog_error *err);
/* Providers of a version: one cell, the provider's object as JSON text. */
CATALOG_WARN_UNUSED bool db_providers(struct db *db, int64_t version, db_row_fn *fn, void *ud,
                                      struct catalog_error *err);
/* The content hash of a version, computed again from its rows: providers and claims in the order of
 * their hashes. */
CATALOG_WARN_UNUSED bool db_content_hash(struct db *db, int64_t version, char hex[65],
                                         struct catalog_error *err);

/* Adds what is not there yet and says its row id; `hash` has 32 bytes. */
CATALOG_WARN_UNUSED bool db_put_claim(struct db *db, const unsigned char *hash,
                                      const struct db_cell *cells, int64_t *id,
                                      struct catalog_error *err);
CATALOG_WARN_UNUSED bool db_put_provider(struct db *db, const unsigned char *hash,
                                         const char *provider, const char *body, int64_t *id,
                                         struct catalog_error *err);
CATALOG_WARN_UNUSED bool db_put_version(struct db *db, const struct catalog_version *v,
                                        struct catalog_error *err);
CATALOG_WARN_UNUSED bool db_add_claim(struct db *db, int64_t version, int64_t position, int64_t id,
                                      struct catalog_error *err);
CATALOG_WARN_UNUSED bool db_add_provider(struct db *db, int64_t version, int64_t position,
                                         int64_t id, struct catalog_error *err);

#endif
