/* keeper_source.c - see keeper_source.h. The snapshot's hash is checked while it is read, so what
 * comes out is one version and never a mix of two. */
#include "keeper_source.h"

#include "catalog/versions.h"
#include <stdio.h>
#include <string.h>

/* Whether the file holds the version that was in use before. */
static bool knows(struct catalog *db, const struct snapshot *previous)
{
    struct catalog_version v;
    return previous && catalog_get_version(db, snapshot_version(previous), &v, NULL) &&
           strcmp(v.hash, snapshot_hash(previous)) == 0;
}

static void source_release(struct keeper_source *s)
{
    snapshot_release(s->snap);
    catalog_close(s->db);
    memset(s, 0, sizeof *s);
}

bool keeper_source_load(struct keeper_source *out, const char *path, int64_t pin,
                        const struct snapshot *previous, struct catalog_error *err)
{
    struct keeper_source s = {.db = NULL};
    keeper_trace_take(path, &s.trace);
    bool ok = catalog_open(&s.db, path, err) && catalog_newest(s.db, &s.newest, err) &&
              catalog_snapshot(s.db, pin ? pin : s.newest, &s.snap, err);
    if (!ok) {
        source_release(&s);
        return false;
    }
    memcpy(s.created, snapshot_header(s.snap)->created, sizeof s.created);
    s.knows_previous = knows(s.db, previous);
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
