/* build.c - sources to a new version, in one transaction. Sources are read and checked whole before
 * the database is touched. */
#include "source.h"
#include "versions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUILD_SOURCES_MAX 64

struct build {
    struct source *sources; /* owned; in the order of their providers' ids */
    size_t n_sources, n_claims;
    char hash[SHA256_HEX_LEN];
};

static int compare_sources(const void *a, const void *b)
{
    return strcmp(((const struct source *)a)->id, ((const struct source *)b)->id);
}

static int compare_hashes(const void *a, const void *b)
{
    return memcmp(a, b, SHA256_LEN);
}

static void build_release(struct build *b)
{
    for (size_t i = 0; i < b->n_sources; i++) {
        source_release(&b->sources[i]);
    }
    free(b->sources);
}

/* Hashes of providers, then of claims, each in order: the order of files and rows does not count.
 * The same in db_content_hash(). */
static bool content_hash(struct build *b, struct catalog_error *err)
{
    size_t n = b->n_sources + b->n_claims, at = 0;
    unsigned char(*all)[SHA256_LEN] = calloc(n, sizeof *all);
    unsigned char digest[SHA256_LEN];
    struct catalog_sha256 h;
    if (!all) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < b->n_sources; i++) {
        memcpy(all[at++], b->sources[i].provider_hash, SHA256_LEN);
    }
    for (size_t i = 0; i < b->n_sources; i++) {
        memcpy(all + at, b->sources[i].hashes, b->sources[i].n_claims * sizeof *all);
        at += b->sources[i].n_claims;
    }
    qsort(all, b->n_sources, sizeof *all, compare_hashes);
    qsort(all + b->n_sources, b->n_claims, sizeof *all, compare_hashes);
    catalog_sha256_init(&h);
    catalog_sha256_add(&h, all, n * sizeof *all);
    catalog_sha256_end(&h, digest);
    catalog_sha256_hex(digest, b->hash);
    free(all);
    return true;
}

static bool load_sources(struct build *b, const char *const *paths, size_t n,
                         struct catalog_error *err)
{
    if (n == 0 || n > BUILD_SOURCES_MAX) {
        return catalog_fail(err, CATALOG_BAD_SOURCE, "%zu source files, 1 to %d are taken", n,
                            BUILD_SOURCES_MAX);
    }
    b->sources = calloc(n, sizeof *b->sources);
    if (!b->sources) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    for (; b->n_sources < n; b->n_sources++) {
        struct source *s = &b->sources[b->n_sources];
        if (!source_load(s, paths[b->n_sources], err)) {
            return false;
        }
        b->n_claims += s->n_claims;
    }
    qsort(b->sources, n, sizeof *b->sources, compare_sources);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(b->sources[i - 1].id, b->sources[i].id) == 0) {
            return catalog_fail(err, CATALOG_BAD_SOURCE, "provider '%s' has two source files",
                                b->sources[i].id);
        }
    }
    return content_hash(b, err);
}

/* ---- rows */

/* A cell borrows its text from the claim, but for lists and the like: their JSON text is made here
 * and freed by the caller. */
static bool make_cell(const json_t *v, bool is_json, struct db_cell *cell, char **owned)
{
    *owned = NULL;
    *cell = (struct db_cell){.type = DB_NULL};
    if (!v) {
        return true;
    }
    if (is_json) {
        *owned = json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
        *cell = (struct db_cell){.type = DB_TEXT, .s = *owned};
        return *owned != NULL;
    }
    if (json_is_string(v)) {
        *cell = (struct db_cell){.type = DB_TEXT, .s = json_string_value(v)};
    } else if (json_is_integer(v)) {
        *cell = (struct db_cell){.type = DB_INT, .i = json_integer_value(v)};
    } else if (json_is_real(v)) {
        *cell = (struct db_cell){.type = DB_REAL, .d = json_real_value(v)};
    } else {
        *cell = (struct db_cell){.type = DB_INT, .i = json_is_true(v)};
    }
    return true;
}

#define IS_JSON_TEXT   0
#define IS_JSON_BOOL   0
#define IS_JSON_NUMBER 0
#define IS_JSON_COUNT  0
#define IS_JSON_LIST   1
#define IS_JSON_OBJECT 1
#define IS_JSON_ANY    1

static bool put_claim(struct db *db, const json_t *claim, const unsigned char *hash, int64_t *id,
                      struct catalog_error *err)
{
    static const struct {
        const char *name;
        bool is_json;
    } columns[COLUMN_COUNT] = {
#define X(name, kind) {#name, IS_JSON_##kind},
        CLAIM_COLUMNS(X)
#undef X
    };
    struct db_cell cells[COLUMN_COUNT];
    char *owned[COLUMN_COUNT];
    bool ok = true;
    int n = 0;
    for (; ok && n < COLUMN_COUNT; n++) {
        const json_t *v = json_object_get(claim, columns[n].name);
        ok = make_cell(v, columns[n].is_json, &cells[n], &owned[n]) ||
             catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    ok = ok && db_put_claim(db, hash, cells, id, err);
    while (n > 0) {
        free(owned[--n]);
    }
    return ok;
}

static bool put_source(struct db *db, const struct source *s, const struct catalog_version *v,
                       int64_t place, int64_t *position, struct catalog_error *err)
{
    int64_t id;
    char *body = json_dumps(s->provider, JSON_COMPACT | JSON_SORT_KEYS);
    bool ok = body ? db_put_provider(db, s->provider_hash, s->id, body, &id, err) &&
                         db_add_provider(db, v->number, place, id, err)
                   : catalog_fail(err, CATALOG_NOMEM, "out of memory");
    free(body);
    for (size_t i = 0; ok && i < s->n_claims; i++) {
        ok = put_claim(db, json_array_get(s->claims, i), s->hashes[i], &id, err) &&
             db_add_claim(db, v->number, (*position)++, id, err);
    }
    return ok;
}

/* The newest version, or zeros in a new database. */
static bool newest(struct db *db, struct catalog_version *v, struct catalog_error *err)
{
    struct catalog_error none = {0};
    *v = (struct catalog_version){0};
    if (db_version(db, 0, v, &none) || none.code == CATALOG_NOT_FOUND) {
        return true;
    }
    return catalog_fail(err, none.code, "%s", none.text);
}

static bool put_version(struct db *db, const struct build *b, struct catalog_version *v,
                        struct catalog_error *err)
{
    int64_t position = 0;
    if (!db_put_version(db, v, err)) {
        return false;
    }
    for (size_t i = 0; i < b->n_sources; i++) {
        if (!put_source(db, &b->sources[i], v, (int64_t)i, &position, err)) {
            return false;
        }
    }
    return db_commit(db, err);
}

static bool fill_version(struct catalog_version *v, const struct build *b, const char *author,
                         const char *reason, const char *created, struct catalog_error *err)
{
    struct catalog_version made = {
        .number = v->number + 1, .parent = v->number, .base = v->number + 1};
    made.n_claims = (int64_t)b->n_claims;
    memcpy(made.hash, b->hash, sizeof made.hash);
    if ((size_t)snprintf(made.created, sizeof made.created, "%s", created) >= sizeof made.created ||
        (size_t)snprintf(made.author, sizeof made.author, "%s", author) >= sizeof made.author ||
        (size_t)snprintf(made.reason, sizeof made.reason, "%s", reason) >= sizeof made.reason) {
        return catalog_fail(err, CATALOG_BAD_SOURCE,
                            "author takes %zu bytes, reason %zu: say it shorter",
                            sizeof made.author - 1, sizeof made.reason - 1);
    }
    *v = made;
    return true;
}

bool catalog_build(const char *path, const char *const *sources, size_t n_sources,
                   const struct version_stamp *stamp, struct catalog_version *out,
                   struct catalog_error *err)
{
    struct build b = {0};
    struct catalog_version v;
    struct db *db = NULL;
    bool is_new_file = access(path, F_OK) != 0;
    bool is_readable = load_sources(&b, sources, n_sources, err);
    bool ok = is_readable && db_create(&db, path, err) && newest(db, &v, err);
    if (ok && strcmp(v.hash, b.hash) != 0) {
        ok = fill_version(&v, &b, stamp->author, stamp->reason, stamp->created, err) &&
             put_version(db, &b, &v, err);
    }
    db_close(db);
    build_release(&b);
    if (!ok && is_new_file && is_readable) {
        (void)unlink(path); /* what this call has made; the error is set already */
    }
    if (ok && out) {
        *out = v;
    }
    return ok;
}
