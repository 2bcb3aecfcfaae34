/* build.c - shipped data: sources, or the newest shipped version of another database, to a new
 * version, in one transaction. Sources are read and checked whole before the database is touched.
 */
#include "source.h"
#include "versions_content.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUILD_SOURCES_MAX 64

struct build {
    struct source *sources; /* owned; in the order of their providers' ids */
    size_t n_sources;
};

static int compare_sources(const void *a, const void *b)
{
    return strcmp(((const struct source *)a)->id, ((const struct source *)b)->id);
}

static void build_release(struct build *b)
{
    for (size_t i = 0; i < b->n_sources; i++) {
        source_release(&b->sources[i]);
    }
    free(b->sources);
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
        if (!source_load(&b->sources[b->n_sources], paths[b->n_sources], err)) {
            return false;
        }
    }
    qsort(b->sources, n, sizeof *b->sources, compare_sources);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(b->sources[i - 1].id, b->sources[i].id) == 0) {
            return catalog_fail(err, CATALOG_BAD_SOURCE, "provider '%s' has two source files",
                                b->sources[i].id);
        }
    }
    return true;
}

bool content_put_source(struct content *c, struct db *db, const struct source *s,
                        struct catalog_error *err)
{
    struct member m;
    bool ok =
        content_put_provider(c, db, s->provider, &m, err) && content_push_provider(c, &m, err);
    for (size_t i = 0; ok && i < s->n_claims; i++) {
        ok = content_put(c, db, json_array_get(s->claims, i), &m, err) && content_push(c, &m, err);
    }
    return ok;
}

/* ---- shipping */

/* *v: zeros where there is none. */
static bool none_is_fine(bool is_there, struct catalog_version *v, struct catalog_error *own,
                         struct catalog_error *err)
{
    if (is_there) {
        return true;
    }
    *v = (struct catalog_version){0};
    return own->code == CATALOG_NOT_FOUND || catalog_fail(err, own->code, "%s", own->text);
}

static bool find_versions(struct db *db, struct catalog_version *newest,
                          struct catalog_version *shipped, struct catalog_error *err)
{
    struct catalog_error own = {0}, other = {0};
    return none_is_fine(db_version(db, 0, newest, &own), newest, &own, err) &&
           none_is_fine(db_newest_shipped(db, shipped, &other), shipped, &other, err);
}

/* What was set on top of `before` is set on top of the new one, too, where there is anything. */
static bool carry(struct db *db, const struct catalog_version *before,
                  const struct content *shipped, const struct version_stamp *stamp,
                  struct catalog_version *v, struct catalog_error *err)
{
    struct content base = {0}, local = {0}, merged;
    struct open_conflicts open = {0}, found = {0};
    char hash[SHA256_HEX_LEN];
    content_init(&merged);
    struct merge m = {&base, shipped, &local, &merged, &found, v->number + 1};
    bool ok = content_load(&base, db, before->base, err) &&
              content_load(&local, db, before->number, err) &&
              conflicts_load(&open, &local, db, before->number, err) && merge_contents(&m, err) &&
              merge_carry_conflicts(&open, &merged, &found, err) &&
              content_hash(&merged, hash, err);
    if (ok && (strcmp(hash, v->hash) != 0 || found.n)) {
        struct version_put put = {VERSION_LOCAL, v->number, v->number, &merged, &found, stamp};
        ok = version_store(db, v->number + 1, &put, v, err);
    }
    conflicts_release(&open);
    conflicts_release(&found);
    content_release(&merged);
    content_release(&base);
    content_release(&local);
    return ok;
}

bool version_ship(struct db *db, const struct content *shipped, const struct version_stamp *stamp,
                  bool *is_changed, struct catalog_version *out, struct catalog_error *err)
{
    struct catalog_version newest, last, v;
    char hash[SHA256_HEX_LEN];
    if (!find_versions(db, &newest, &last, err) || !content_hash(shipped, hash, err)) {
        return false;
    }
    *is_changed = strcmp(hash, last.hash) != 0;
    if (!*is_changed) {
        *out = newest;
        return true;
    }
    struct version_put put = {VERSION_SHIPPED, newest.number, 0, shipped, NULL, stamp};
    bool ok = version_store(db, newest.number + 1, &put, &v, err) &&
              (newest.kind != VERSION_LOCAL || carry(db, &newest, shipped, stamp, &v, err));
    if (ok) {
        *out = v;
    }
    return ok;
}

bool catalog_build(const char *path, const char *const *sources, size_t n_sources,
                   const struct version_stamp *stamp, struct catalog_version *out,
                   struct catalog_error *err)
{
    struct build b = {0};
    struct content c;
    struct catalog_version v;
    struct db *db = NULL;
    bool is_changed = false;
    content_init(&c);
    bool ok = stamp_check(stamp, err) && load_sources(&b, sources, n_sources, err) &&
              db_create(&db, path, err);
    for (size_t i = 0; ok && i < b.n_sources; i++) {
        ok = content_put_source(&c, db, &b.sources[i], err);
    }
    ok = ok && version_ship(db, &c, stamp, &is_changed, &v, err) &&
         (!is_changed || db_commit(db, err));
    db_close(db);
    content_release(&c);
    build_release(&b);
    if (ok && out) {
        *out = v;
    }
    return ok;
}

/* ---- upgrade */

struct copying {
    struct content *to;
    const struct content *from; /* with the hashes, in the same order */
    size_t n;
    struct db *db;
    struct catalog_error *err;
};

/* Rows travel as they are: what a hash stands for is not made again. */
static bool copy_claim(int64_t id, const struct db_cell *cells, void *ud)
{
    struct copying *k = ud;
    assert(k->n < k->from->n_claims && k->from->claims[k->n].id == id); /* one transaction */
    struct member m = k->from->claims[k->n++];
    return db_put_claim(k->db, m.hash, cells, &m.id, k->err) && content_push(k->to, &m, k->err);
}

static bool copy_provider(int64_t id, const struct db_cell *cells, void *ud)
{
    struct copying *k = ud;
    assert(k->n < k->from->n_providers && k->from->providers[k->n].id == id);
    struct member m = k->from->providers[k->n++];
    return db_put_provider(k->db, m.hash, m.provider, cells[0].s, &m.id, k->err) &&
           content_push_provider(k->to, &m, k->err);
}

static bool copy_content(struct db *from, int64_t version, const struct content *source,
                         struct db *db, struct content *to, struct catalog_error *err)
{
    struct copying k = {to, source, 0, db, err};
    if (!db_providers(from, version, copy_provider, &k, err)) {
        return false;
    }
    k.n = 0;
    return db_claims(from, version, copy_claim, &k, err);
}

/* The newest shipped version of `from`, which is open for reading, into `path`. */
static bool upgrade(const char *path, struct db *from, const struct version_stamp *stamp,
                    bool *is_changed, struct catalog_version *out, struct catalog_error *err)
{
    struct catalog_version theirs;
    struct content source = {0}, to;
    char hash[SHA256_HEX_LEN];
    struct db *db = NULL;
    content_init(&to);
    bool ok =
        db_newest_shipped(from, &theirs, err) && content_load(&source, from, theirs.number, err) &&
        content_hash(&source, hash, err) &&
        (strcmp(hash, theirs.hash) == 0 ||
         catalog_fail(err, CATALOG_BAD_DB,
                      "the shipped catalog is not what was built: install it again")) &&
        db_change(&db, path, err) && copy_content(from, theirs.number, &source, db, &to, err) &&
        version_ship(db, &to, stamp, is_changed, out, err) && (!*is_changed || db_commit(db, err));
    db_close(db);
    content_release(&to);
    content_release(&source);
    return ok;
}

static bool copy_whole(const char *path, struct db *from, bool *is_changed,
                       struct catalog_version *out, struct catalog_error *err)
{
    *is_changed = true;
    return db_version(from, 0, out, err) && db_copy(from, path, err);
}

bool catalog_upgrade(const char *path, const char *from, const struct version_stamp *stamp,
                     bool *is_changed, struct catalog_version *out, struct catalog_error *err)
{
    struct db *source;
    struct catalog_version v;
    bool is_new = false;
    if (!stamp_check(stamp, err) || !db_open(&source, from, err)) {
        return false;
    }
    bool is_missing = access(path, F_OK) != 0 && errno == ENOENT;
    bool ok = db_begin(source, err);
    if (ok) {
        ok = is_missing ? copy_whole(path, source, &is_new, &v, err)
                        : upgrade(path, source, stamp, &is_new, &v, err);
        db_end(source);
    }
    db_close(source);
    if (ok && is_changed) {
        *is_changed = is_new;
    }
    if (ok && out) {
        *out = v;
    }
    return ok;
}
