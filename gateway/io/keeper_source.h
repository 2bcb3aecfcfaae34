/* keeper_source.h - everything that the daemon needs of one database file, or nothing of it. */
#ifndef ISOTHERM_KEEPER_SOURCE_H
#define ISOTHERM_KEEPER_SOURCE_H

#include "catalog/catalog.h"
#include "keeper_watch.h"

/* A database that was opened and read. */
struct keeper_source {
    struct catalog *db;
    struct snapshot *snap;
    struct keeper_trace trace; /* before it was opened */
    int64_t newest;
    char created[32];    /* of snap's version */
    bool knows_previous; /* the version in use before is in it, with the same hash */
};
/* Opens and checks the file and reads `pin`, or its newest version for 0. A database of an earlier
 * schema is brought up to this program's first. `previous` may be NULL. The two pointers in *out
 * are yours. */
bool keeper_source_load(struct keeper_source *out, const char *path, int64_t pin,
                        const struct snapshot *previous, struct catalog_error *err)
    __attribute__((warn_unused_result));
/* What helps against an error of that; `is_named`: the configuration names the file. */
const char *keeper_source_hint(enum catalog_code code, bool is_named);

#endif
