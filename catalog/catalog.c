/* catalog.c - the handle: a database that is open for reading. Everything that is asked often is
 * asked of a snapshot; see snapshot.c for what one is and rules.c for what it answers. */
#include "snapshot.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct catalog {
    struct db *db; /* owned; guarded by the lock: its statements are kept between calls */
    char *path;    /* owned */
    pthread_mutex_t lock;
};

bool catalog_fail(struct catalog_error *err, enum catalog_code code, const char *fmt, ...)
{
    if (err && err->code == CATALOG_OK) {
        va_list ap;
        va_start(ap, fmt);
        err->code = code;
        (void)vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
    }
    return false;
}

bool catalog_open(struct catalog **out, const char *path, struct catalog_error *err)
{
    struct catalog *c = calloc(1, sizeof *c);
    if (!c) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    if (pthread_mutex_init(&c->lock, NULL) != 0) {
        free(c);
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    c->path = strdup(path);
    if (!c->path) {
        (void)catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    if (!c->path || !db_open(&c->db, path, err)) {
        catalog_close(c);
        return false;
    }
    *out = c;
    return true;
}

void catalog_close(struct catalog *c)
{
    if (c) {
        db_close(c->db);
        free(c->path);
        (void)pthread_mutex_destroy(&c->lock); /* fails only while it is held */
        free(c);
    }
}

/* A handle that sees one state only is opened again, so that a version built since then is seen. */
static bool refresh(struct catalog *c, struct catalog_error *err)
{
    struct db *newer;
    if (!db_is_fixed(c->db)) {
        return true;
    }
    if (!db_open(&newer, c->path, err)) {
        return false;
    }
    db_close(c->db);
    c->db = newer;
    return true;
}

bool catalog_snapshot(struct catalog *c, int64_t version, struct snapshot **out,
                      struct catalog_error *err)
{
    if (version < 0) {
        return catalog_fail(err, CATALOG_NOT_FOUND, "catalog versions count from 1");
    }
    (void)pthread_mutex_lock(&c->lock); /* cannot fail: a plain mutex that is initialised */
    bool ok = refresh(c, err) && snapshot_load(c->db, version, out, err);
    (void)pthread_mutex_unlock(&c->lock);
    return ok;
}

bool catalog_versions(struct catalog *c, catalog_version_fn *fn, void *ud,
                      struct catalog_error *err)
{
    (void)pthread_mutex_lock(&c->lock);
    bool ok = refresh(c, err) && db_versions(c->db, fn, ud, err);
    (void)pthread_mutex_unlock(&c->lock);
    return ok;
}

const char *version_kind_name(enum version_kind k)
{
    return k == VERSION_LOCAL ? "local" : "shipped";
}
