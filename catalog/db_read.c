/* db_read.c - rows for people: some claims of a version, what differs between two, what was ever
 * held. No row is read that is not given. */
#include "db_inside.h"

#include <stdlib.h>
#include <string.h>

static bool bind_text(struct db *db, sqlite3_stmt *s, int place, const char *text,
                      struct catalog_error *err)
{
    return db_bound(db,
                    text ? sqlite3_bind_text(s, place, text, -1, SQLITE_STATIC)
                         : sqlite3_bind_null(s, place),
                    err);
}

bool db_version_at(struct db *db, const char *time, int64_t *out, struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_VERSION_AT, err);
    bool has_row = false;
    bool ok = s && bind_text(db, s, 1, time, err) && db_step(db, s, &has_row, err);
    if (ok && !has_row) {
        struct catalog_version first = {.created = ""}; /* versions are never taken away */
        bool is_there = db_version(db, 1, &first, NULL);
        ok = catalog_fail(err, CATALOG_NOT_FOUND, "catalog '%s' has no version as old as %.32s%s%s",
                          db->path, time, is_there ? ": the oldest is version 1 of " : "",
                          first.created);
    }
    if (ok) {
        *out = sqlite3_column_int64(s, 0);
    }
    (void)sqlite3_reset(s);
    return ok;
}

/* ---- which claims a version holds: its runs, in memory. There are a few for what was set on the
 * machine, and one or two for what was shipped; asking SQLite claim by claim would take longer than
 * reading the rows. */

struct run {
    int64_t version, position, claim, n;
};
struct spot { /* a claim, and where it is in the version */
    int64_t position, claim;
};
struct list {    /* of runs, spots or ids */
    void *items; /* owned */
    size_t n, cap, size;
};

static void *add(struct list *l, struct catalog_error *err)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        void *more = realloc(l->items, cap * l->size);
        if (!more) {
            (void)catalog_fail(err, CATALOG_NOMEM, "out of memory");
            return NULL;
        }
        l->items = more;
        l->cap = cap;
    }
    return (char *)l->items + l->size * l->n++;
}

static void sort(struct list *l, int (*compare)(const void *, const void *))
{
    if (l->n) {
        qsort(l->items, l->n, l->size, compare);
    }
}

/* Of one version, or of all for 0: by version, then position. */
static bool read_runs(struct db *db, int64_t version, struct list *out, struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_RUNS, err);
    bool has_row = false;
    bool ok =
        s &&
        db_bound(db, version ? sqlite3_bind_int64(s, 1, version) : sqlite3_bind_null(s, 1), err);
    *out = (struct list){.size = sizeof(struct run)};
    while (ok && (ok = db_step(db, s, &has_row, err)) && has_row) {
        struct run *r = add(out, err);
        ok = r != NULL;
        if (ok) {
            *r = (struct run){sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
                              sqlite3_column_int64(s, 2), sqlite3_column_int64(s, 3)};
        }
    }
    (void)sqlite3_reset(s);
    return ok;
}

static int by_claim(const void *a, const void *b)
{
    int64_t x = ((const struct run *)a)->claim, y = ((const struct run *)b)->claim;
    return (x > y) - (x < y);
}

static int by_position(const void *a, const void *b)
{
    int64_t x = ((const struct spot *)a)->position, y = ((const struct spot *)b)->position;
    return (x > y) - (x < y);
}

/* The run that holds a claim, of runs by claim; NULL: none. */
static const struct run *find_run(const struct list *runs, int64_t claim)
{
    const struct run *all = runs->items;
    size_t low = 0, high = runs->n; /* the first run that begins behind the claim */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (all[middle].claim <= claim) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const struct run *r = low ? &all[low - 1] : NULL;
    return r && claim - r->claim < r->n ? r : NULL;
}

/* Ids of every claim about a provider's parameter (NULL: of all its parameters), ascending. */
static bool read_ids(struct db *db, const char *provider, const char *param, struct list *out,
                     struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_CLAIM_IDS, err);
    bool has_row = false;
    bool ok = s && bind_text(db, s, 1, provider, err) && bind_text(db, s, 2, param, err);
    *out = (struct list){.size = sizeof(int64_t)};
    while (ok && (ok = db_step(db, s, &has_row, err)) && has_row) {
        int64_t *id = add(out, err);
        ok = id != NULL;
        if (ok) {
            *id = sqlite3_column_int64(s, 0);
        }
    }
    (void)sqlite3_reset(s);
    return ok;
}

static bool read_between(struct db *db, int64_t first, int64_t last, db_row_fn *fn, void *ud,
                         struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_CLAIMS_BETWEEN, err);
    bool ok = s && db_bound(db, sqlite3_bind_int64(s, 1, first), err) &&
              db_bound(db, sqlite3_bind_int64(s, 2, last), err) && db_each_row(db, s, fn, ud, err);
    (void)sqlite3_reset(s);
    return ok;
}

/* ---- claims of a version */

static bool find_spots(const struct list *runs, const struct list *ids, struct list *out,
                       struct catalog_error *err)
{
    const int64_t *id = ids->items;
    for (size_t i = 0; i < ids->n; i++) {
        const struct run *r = find_run(runs, id[i]);
        struct spot *spot = r ? add(out, err) : NULL;
        if (r && !spot) {
            return false;
        }
        if (spot) {
            *spot = (struct spot){r->position + id[i] - r->claim, id[i]};
        }
    }
    sort(out, by_position);
    return true;
}

static bool find_of_provider(struct db *db, int64_t version, const char *provider,
                             const char *param, db_row_fn *fn, void *ud, struct catalog_error *err)
{
    struct list runs = {0}, ids = {0}, spots = {.size = sizeof(struct spot)};
    bool ok = read_runs(db, version, &runs, err) && read_ids(db, provider, param, &ids, err);
    sort(&runs, by_claim);
    ok = ok && find_spots(&runs, &ids, &spots, err);
    const struct spot *all = spots.items;
    for (size_t i = 0; ok && i < spots.n; i++) {
        ok = read_between(db, all[i].claim, all[i].claim, fn, ud, err);
    }
    free(runs.items);
    free(ids.items);
    free(spots.items);
    return ok;
}

bool db_find_claims(struct db *db, int64_t version, const char *provider, const char *param,
                    db_row_fn *fn, void *ud, struct catalog_error *err)
{
    if (provider) {
        return find_of_provider(db, version, provider, param, fn, ud, err);
    }
    sqlite3_stmt *s = db_use(db, SQL_FIND_CLAIMS, err);
    bool ok = s && db_bound(db, sqlite3_bind_int64(s, 1, version), err) &&
              bind_text(db, s, 2, param, err) && db_each_row(db, s, fn, ud, err);
    (void)sqlite3_reset(s);
    return ok;
}

/* ---- what one version has and another has not */

/* The rows of a run that no run of `other` (by claim) holds. */
static bool read_rest(struct db *db, const struct run *r, const struct list *other, db_row_fn *fn,
                      void *ud, struct catalog_error *err)
{
    const struct run *all = other->items;
    int64_t at = r->claim, end = r->claim + r->n;
    bool ok = true;
    for (size_t i = 0; ok && i < other->n && at < end; i++) {
        int64_t first = all[i].claim, last = all[i].claim + all[i].n;
        if (last <= at || first >= end) {
            continue;
        }
        ok = first <= at || read_between(db, at, first - 1, fn, ud, err);
        at = last;
    }
    return ok && (at >= end || read_between(db, at, end - 1, fn, ud, err));
}

bool db_only_claims(struct db *db, int64_t in, int64_t not_in, db_row_fn *fn, void *ud,
                    struct catalog_error *err)
{
    struct list runs = {0}, other = {0};
    bool ok = read_runs(db, in, &runs, err) && read_runs(db, not_in, &other, err);
    sort(&other, by_claim);
    const struct run *all = runs.items;
    for (size_t i = 0; ok && i < runs.n; i++) {
        ok = read_rest(db, &all[i], &other, fn, ud, err);
    }
    free(runs.items);
    free(other.items);
    return ok;
}

bool db_only_providers(struct db *db, int64_t in, int64_t not_in, db_row_fn *fn, void *ud,
                       struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_ONLY_PROVIDERS, err);
    bool ok = s && db_bound(db, sqlite3_bind_int64(s, 1, in), err) &&
              db_bound(db, sqlite3_bind_int64(s, 2, not_in), err) &&
              db_each_row(db, s, fn, ud, err);
    (void)sqlite3_reset(s);
    return ok;
}

/* ---- what was ever held */

bool db_held_claims(struct db *db, const char *provider, const char *param, db_row_fn *fn, void *ud,
                    struct catalog_error *err)
{
    struct list ids = {0};
    bool ok = read_ids(db, provider, param, &ids, err);
    const int64_t *id = ids.items;
    for (size_t i = 0; ok && i < ids.n; i++) {
        ok = read_between(db, id[i], id[i], fn, ud, err);
    }
    free(ids.items);
    return ok;
}

bool db_holders(struct db *db, const int64_t *claims, size_t n, db_holder_fn *fn, void *ud,
                struct catalog_error *err)
{
    struct list runs = {0};
    bool ok = read_runs(db, 0, &runs, err);
    const struct run *all = runs.items;
    for (size_t i = 0; ok && i < n; i++) {
        for (size_t k = 0; ok && k < runs.n; k++) {
            const struct run *r = &all[k];
            if (claims[i] >= r->claim && claims[i] - r->claim < r->n) {
                ok = fn(claims[i], r->version, r->position + claims[i] - r->claim, ud);
            }
        }
    }
    free(runs.items);
    return ok;
}

bool db_stamps(struct db *db, db_row_fn *fn, void *ud, struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_STAMPS, err);
    bool ok = s && db_each_row(db, s, fn, ud, err);
    (void)sqlite3_reset(s);
    return ok;
}

static bool each_name(struct db *db, sqlite3_stmt *s, db_name_fn *fn, void *ud,
                      struct catalog_error *err)
{
    bool has_row = false, goes_on = true;
    bool ok = true;
    while (ok && goes_on && (ok = db_step(db, s, &has_row, err)) && has_row) {
        const char *name = (const char *)sqlite3_column_text(s, 0);
        ok = name || catalog_fail(err, CATALOG_NOMEM, "out of memory");
        goes_on = ok && fn(name, ud);
    }
    return ok;
}

bool db_provider_names(struct db *db, int64_t version, db_name_fn *fn, void *ud,
                       struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_PROVIDER_NAMES, err);
    bool ok =
        s && db_bound(db, sqlite3_bind_int64(s, 1, version), err) && each_name(db, s, fn, ud, err);
    (void)sqlite3_reset(s);
    return ok;
}

bool db_param_names(struct db *db, db_name_fn *fn, void *ud, struct catalog_error *err)
{
    sqlite3_stmt *s = db_use(db, SQL_PARAM_NAMES, err);
    bool ok = s && each_name(db, s, fn, ud, err);
    (void)sqlite3_reset(s);
    return ok;
}
