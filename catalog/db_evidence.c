/* db_evidence.c - rows of evidence, read and written. */
#include "db_inside.h"
#include "evidence.h"

#include <stdio.h>
#include <string.h>

bool db_verdicts(struct db *db, int64_t version, db_verdict_fn *fn, void *ud,
                 struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_VERDICTS, err);
    bool has_row = false;
    bool ok = s && db_bound(db, sqlite3_bind_int64(s, 1, version), err);
    while (ok && (ok = db_step(db, s, &has_row, err)) && has_row) {
        const char *against = (const char *)sqlite3_column_text(s, 1);
        const char *probed = (const char *)sqlite3_column_text(s, 2);
        const char *confirmed = (const char *)sqlite3_column_text(s, 3);
        bool is_against = against && (!probed || strcmp(against, probed) > 0);
        const char *on = is_against ? against : confirmed;
        ok = on ? fn(sqlite3_column_int64(s, 0), is_against ? CLAIM_CONTRADICTED : CLAIM_CONFIRMED,
                     on, ud)
                : catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    (void)sqlite3_reset(s);
    return ok;
}

/* ---- rows */

static bool bind_text(struct db *db, sqlite3_stmt *s, int place, const char *text, int len,
                      struct catalog_error *err)
{
    return db_bound(db, sqlite3_bind_text(s, place, text, len, SQLITE_STATIC), err);
}

static bool has_claim(struct db *db, int64_t id, struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_HAS_CLAIM, err);
    bool has_row = false;
    bool ok = s && db_bound(db, sqlite3_bind_int64(s, 1, id), err) && db_step(db, s, &has_row, err);
    bool is_there = ok && has_row && sqlite3_column_int64(s, 0) != 0;
    (void)sqlite3_reset(s);
    return ok && (is_there || catalog_fail(err, CATALOG_NOT_FOUND, "the catalog has no claim %lld",
                                           (long long)id));
}

#define DAY_LEN 10 /* of an ISO time */

/* Clients choose the names of models: beyond so many rows a day the others of a claim share one. */
static bool model_of(struct db *db, const struct evidence *e, const char **out,
                     struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_N_EVIDENCE, err);
    bool has_row = false;
    bool ok = s && db_bound(db, sqlite3_bind_int64(s, 1, e->claim), err) &&
              bind_text(db, s, 2, e->seen, DAY_LEN, err) && db_step(db, s, &has_row, err);
    if (ok) {
        bool is_full = has_row && sqlite3_column_int64(s, 0) >= EVIDENCE_ROWS_MAX;
        *out = is_full ? EVIDENCE_OTHERS : e->model;
    }
    (void)sqlite3_reset(s);
    return ok;
}

bool db_add_evidence(struct db *db, const struct evidence *e, struct catalog_error *err)
{
    const char *model;
    if (!has_claim(db, e->claim, err) || !model_of(db, e, &model, err)) {
        return false;
    }
    sqlite3_stmt *s = db_use(db, SQL_ADD_EVIDENCE, err);
    return s && db_bound(db, sqlite3_bind_int64(s, 1, e->claim), err) &&
           bind_text(db, s, 2, claim_verdict_name(e->verdict), -1, err) &&
           bind_text(db, s, 3, evidence_origin_name(e->origin), -1, err) &&
           bind_text(db, s, 4, model, -1, err) &&
           db_bound(db, sqlite3_bind_int64(s, 5, e->status), err) &&
           bind_text(db, s, 6, e->seen, DAY_LEN, err) && bind_text(db, s, 7, e->seen, -1, err) &&
           db_bound(db, sqlite3_bind_int64(s, 8, e->n > 0 ? e->n : 1), err) &&
           bind_text(db, s, 9, e->value, -1, err) && bind_text(db, s, 10, e->excerpt, -1, err) &&
           db_run(db, s, err);
}

static bool copy_text(sqlite3_stmt *s, int column, char *out, size_t cap)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text && (size_t)snprintf(out, cap, "%s", text) < cap;
}

static bool read_evidence(struct db *db, sqlite3_stmt *s, struct evidence *out,
                          struct catalog_error *err)
{
    const char *verdict = (const char *)sqlite3_column_text(s, 1);
    const char *origin = (const char *)sqlite3_column_text(s, 2);
    struct evidence e = {.claim = sqlite3_column_int64(s, 0),
                         .status = sqlite3_column_int(s, 4),
                         .n = sqlite3_column_int64(s, 6)};
    if (!verdict || !origin || !copy_text(s, 3, e.model, sizeof e.model) ||
        !copy_text(s, 5, e.seen, sizeof e.seen) || !copy_text(s, 7, e.value, sizeof e.value) ||
        !copy_text(s, 8, e.excerpt, sizeof e.excerpt)) {
        return catalog_fail(err, CATALOG_BAD_DB,
                            "catalog '%s': evidence on claim %lld cannot be read", db->path,
                            (long long)e.claim);
    }
    e.verdict = strcmp(verdict, "confirmed") == 0 ? CLAIM_CONFIRMED : CLAIM_CONTRADICTED;
    e.origin = strcmp(origin, "probe") == 0 ? EVIDENCE_PROBE : EVIDENCE_TRAFFIC;
    *out = e;
    return true;
}

bool db_evidence(struct db *db, int64_t claim, int64_t version, db_evidence_fn *fn, void *ud,
                 struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, claim ? SQL_EVIDENCE : SQL_EVIDENCE_ALL, err);
    bool has_row = false, goes_on = true;
    bool ok = s && db_bound(db, sqlite3_bind_int64(s, 1, claim ? claim : version), err);
    while (ok && goes_on && (ok = db_step(db, s, &has_row, err)) && has_row) {
        struct evidence e;
        ok = read_evidence(db, s, &e, err);
        goes_on = ok && fn(&e, ud);
    }
    (void)sqlite3_reset(s);
    return ok;
}
