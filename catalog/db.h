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
    X(len_min, COUNT)                                                                              \
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

enum db_cell_type { DB_NULL, DB_INT, DB_REAL, DB_TEXT, DB_HASH };
struct db_cell {
    enum db_cell_type type;
    int64_t i;
    double d;
    const char *s;
    const unsigned char *hash;
};

struct db;

/* Reading: the file must exist, be whole, and have a schema that this program knows; it is not
 * changed. */
CATALOG_WARN_UNUSED bool db_open(struct db **out, const char *path, struct catalog_error *err);
/* The same without reading the whole file first: for who shows a few rows and ends. A damaged page
 * is an error when it is met. */
CATALOG_WARN_UNUSED bool db_open_quick(struct db **out, const char *path,
                                       struct catalog_error *err);
/* Whether it must be opened again to see the newest state: another file lies at the path, or the
 * handle is fixed (no right to write in the folder) and the file was changed. Cheap. */
bool db_is_outdated(const struct db *db);
/* Writing: an empty or missing file gets the schema, an older schema is brought up to date. Leaves
 * a transaction open: nothing is there before db_commit(), which makes a missing file whole or not
 * at all. */
CATALOG_WARN_UNUSED bool db_create(struct db **out, const char *path, struct catalog_error *err);
/* The same for a file that must be there. */
CATALOG_WARN_UNUSED bool db_change(struct db **out, const char *path, struct catalog_error *err);
/* The same without a check of the whole file, for what is written several times a second. */
CATALOG_WARN_UNUSED bool db_change_quick(struct db **out, const char *path,
                                         struct catalog_error *err);
/* Writes a copy of what `db` sees to `path`, where nothing may be yet: whole or not at all. */
CATALOG_WARN_UNUSED bool db_copy(struct db *db, const char *path, struct catalog_error *err);
void db_close(struct db *db); /* rolls back what is not committed */
CATALOG_WARN_UNUSED bool db_commit(struct db *db, struct catalog_error *err);

/* One state of the database for all reads until db_end(). */
CATALOG_WARN_UNUSED bool db_begin(struct db *db, struct catalog_error *err);
void db_end(struct db *db);
/* Gives back what was kept of the pages that were read: after all of a version. */
void db_shrink(struct db *db);

/* The header row of `number`, or of the newest for 0. CATALOG_NOT_FOUND: there is none. */
CATALOG_WARN_UNUSED bool db_version(struct db *db, int64_t number, struct catalog_version *out,
                                    struct catalog_error *err);
CATALOG_WARN_UNUSED bool db_versions(struct db *db, catalog_version_fn *fn, void *ud,
                                     struct catalog_error *err);

typedef bool db_row_fn(int64_t id, const struct db_cell *cells, void *ud); /* false: stop, failed */
/* Claims of a version in the order of its sources; cells by enum claim_column, then the hash. */
CATALOG_WARN_UNUSED bool db_claims(struct db *db, int64_t version, db_row_fn *fn, void *ud,
                                   struct catalog_error *err);
/* Providers of a version: two cells, the provider's object as JSON text and the hash. */
CATALOG_WARN_UNUSED bool db_providers(struct db *db, int64_t version, db_row_fn *fn, void *ud,
                                      struct catalog_error *err);
/* The claims of a version of which there is evidence: contradicted where the newest contradiction
 * is newer than the newest probe that confirmed it, else confirmed; `on` is the ISO time of the
 * evidence that decided. In no order. */
typedef bool db_verdict_fn(int64_t claim, enum claim_verdict verdict, const char *on,
                           void *ud); /* false: stop, failed */
CATALOG_WARN_UNUSED bool db_verdicts(struct db *db, int64_t version, db_verdict_fn *fn, void *ud,
                                     struct catalog_error *err);

/* ---- for those who make versions */

/* The newest version that sources made. CATALOG_NOT_FOUND: there is none. */
CATALOG_WARN_UNUSED bool db_newest_shipped(struct db *db, struct catalog_version *out,
                                           struct catalog_error *err);
/* The number of the newest version; 0: there is none. */
CATALOG_WARN_UNUSED bool db_newest_number(struct db *db, int64_t *out, struct catalog_error *err);
/* Members of a version, in order: row id, hash and what its key is made of; of a provider only its
 * name. Borrowed until the callback returns; NULL: not said. */
struct db_member {
    int64_t id;
    const unsigned char *hash;
    const char *provider, *models, *endpoint, *param, *variant, *when, *source, *as_of, *valid_to;
    bool is_local;
};
typedef bool db_member_fn(const struct db_member *m, void *ud); /* false: stop, failed */
CATALOG_WARN_UNUSED bool db_members(struct db *db, int64_t version, db_member_fn *fn, void *ud,
                                    struct catalog_error *err);
CATALOG_WARN_UNUSED bool db_provider_members(struct db *db, int64_t version, db_member_fn *fn,
                                             void *ud, struct catalog_error *err);
/* One row, as with db_claims() and db_providers(), but without the hash. */
CATALOG_WARN_UNUSED bool db_claim(struct db *db, int64_t id, db_row_fn *fn, void *ud,
                                  struct catalog_error *err);
CATALOG_WARN_UNUSED bool db_provider(struct db *db, int64_t id, db_row_fn *fn, void *ud,
                                     struct catalog_error *err);
/* Merge conflicts that are open in a version: row ids, 0 where there is none. */
struct db_conflict {
    int64_t since, base, shipped, local;
    bool is_provider;
};
typedef bool db_conflict_fn(const struct db_conflict *f, void *ud); /* false: stop, failed */
CATALOG_WARN_UNUSED bool db_conflicts(struct db *db, int64_t version, db_conflict_fn *fn, void *ud,
                                      struct catalog_error *err);
CATALOG_WARN_UNUSED bool db_add_conflict(struct db *db, int64_t version,
                                         const struct db_conflict *f, struct catalog_error *err);

/* Evidence (evidence.h): adds to the row of its day, or a new one; reads, newest first, of one
 * claim or of all of a version. */
struct evidence;
CATALOG_WARN_UNUSED bool db_add_evidence(struct db *db, const struct evidence *e,
                                         struct catalog_error *err);
typedef bool db_evidence_fn(const struct evidence *e, void *ud); /* false: stop, no failure */
CATALOG_WARN_UNUSED bool db_evidence(struct db *db, int64_t claim, int64_t version,
                                     db_evidence_fn *fn, void *ud, struct catalog_error *err);

/* ---- for people (db_read.c) */
/* The number of the newest version that was there at `time`, the beginning of an ISO time. */
CATALOG_WARN_UNUSED bool db_version_at(struct db *db, const char *time, int64_t *out,
                                       struct catalog_error *err);
/* As db_claims(), of a provider and a parameter; NULL: of all. */
CATALOG_WARN_UNUSED bool db_find_claims(struct db *db, int64_t version, const char *provider,
                                        const char *param, db_row_fn *fn, void *ud,
                                        struct catalog_error *err);
/* What version `in` has and `not_in` has not. */
CATALOG_WARN_UNUSED bool db_only_claims(struct db *db, int64_t in, int64_t not_in, db_row_fn *fn,
                                        void *ud, struct catalog_error *err);
CATALOG_WARN_UNUSED bool db_only_providers(struct db *db, int64_t in, int64_t not_in, db_row_fn *fn,
                                           void *ud, struct catalog_error *err);
/* Every claim that any version held about a parameter, by row id. */
CATALOG_WARN_UNUSED bool db_held_claims(struct db *db, const char *provider, const char *param,
                                        db_row_fn *fn, void *ud, struct catalog_error *err);
/* Each version that holds one of these claims: in the order of the claims, then by version. */
typedef bool db_holder_fn(int64_t claim, int64_t version, int64_t position, void *ud);
CATALOG_WARN_UNUSED bool db_holders(struct db *db, const int64_t *claims, size_t n,
                                    db_holder_fn *fn, void *ud, struct catalog_error *err);
/* Number, created, author and reason of all versions, in order: three cells. */
CATALOG_WARN_UNUSED bool db_stamps(struct db *db, db_row_fn *fn, void *ud,
                                   struct catalog_error *err);
/* Names that are known: providers of a version (-1: of any), parameters of any. */
typedef bool db_name_fn(const char *name, void *ud); /* false: stop */
CATALOG_WARN_UNUSED bool db_provider_names(struct db *db, int64_t version, db_name_fn *fn, void *ud,
                                           struct catalog_error *err);
CATALOG_WARN_UNUSED bool db_param_names(struct db *db, db_name_fn *fn, void *ud,
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
/* n claims with the row ids id, id + 1 ... */
CATALOG_WARN_UNUSED bool db_add_claims(struct db *db, int64_t version, int64_t position, int64_t id,
                                       int64_t n, struct catalog_error *err);
CATALOG_WARN_UNUSED bool db_add_provider(struct db *db, int64_t version, int64_t position,
                                         int64_t id, struct catalog_error *err);

#endif
