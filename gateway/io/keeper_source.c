/* keeper_source.c - see keeper_source.h. The snapshot's hash is checked while it is read, so what
 * comes out is one version and never a mix of two. */
#include "keeper_source.h"

#include "catalog/versions.h"
#include <stdio.h>
#include <string.h>

/* What is said about the two versions in the file. */
static bool read_headers(struct keeper_source *s, const struct snapshot *previous,
                         struct catalog_error *err)
{
    struct catalog_version v;
    if (!catalog_get_version(s->db, snapshot_version(s->snap), &v, err)) {
        return false;
    }
    memcpy(s->created, v.created, sizeof s->created);
    s->knows_previous = previous &&
                        catalog_get_version(s->db, snapshot_version(previous), &v, NULL) &&
                        strcmp(v.hash, snapshot_hash(previous)) == 0;
    return true;
}

static void source_release(struct keeper_source *s)
{
    snapshot_release(s->snap);
    catalog_close(s->db);
    memset(s, 0, sizeof *s);
}

/* A database of an earlier schema is brought up to this program's: its header says so before
 * anything is written. */
static bool is_of_earlier_schema(const char *path)
{
    unsigned char head[64] = {0};
    FILE *f = fopen(path, "rbe");
    bool ok = f && fread(head, 1, sizeof head, f) == sizeof head;
    if (f) {
        (void)fclose(f); /* only read */
    }
    return ok && memcmp(head, "SQLite format 3", 16) == 0 && head[60] == 0 && head[61] == 0 &&
           head[62] == 0 && head[63] == 1;
}

static bool open_db(const char *path, struct catalog **db, struct catalog_error *err)
{
    struct catalog_error first = {.code = CATALOG_OK};
    if (catalog_open(db, path, &first)) {
        return true;
    }
    if (first.code == CATALOG_BAD_DB && is_of_earlier_schema(path) && catalog_migrate(path, NULL)) {
        return catalog_open(db, path, err);
    }
    *err = first;
    return false;
}

bool keeper_source_load(struct keeper_source *out, const char *path, int64_t pin,
                        const struct snapshot *previous, struct catalog_error *err)
{
    struct keeper_source s = {.db = NULL};
    keeper_trace_take(path, &s.trace);
    bool ok = open_db(path, &s.db, err) && catalog_newest(s.db, &s.newest, err) &&
              catalog_snapshot(s.db, pin ? pin : s.newest, &s.snap, err) &&
              read_headers(&s, previous, err);
    if (!ok) {
        source_release(&s);
        return false;
    }
    *out = s;
    return true;
}

const char *keeper_source_hint(enum catalog_code code, bool is_named)
{
    switch (code) {
    case CATALOG_IO:
        return is_named ? "name a catalog that can be read in catalog_path"
                        : "see who may read it, or put a copy back";
    case CATALOG_NOT_FOUND:
        return "set catalog_pin to a version that is there, or to 0";
    case CATALOG_NOMEM:
        return "give the daemon more memory";
    default:
        return "put a whole copy back, or take the file away";
    }
}
