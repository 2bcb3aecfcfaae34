/* snapshot.h - inside of a snapshot, for the files that make and read one: snapshot.c, rules.c.
 *
 * Claims are grouped: a group is a run of claims of one provider, endpoint and pattern. Rules ask
 * each pattern once, not each claim.
 */
#ifndef ISOTHERM_CATALOG_SNAPSHOT_H
#define ISOTHERM_CATALOG_SNAPSHOT_H

#include "arena.h"
#include "db.h"
#include "pattern.h"

#include <stdatomic.h>

struct snapshot_pattern {
    const char *text; /* interned */
    struct pattern compiled;
};

struct snapshot_json {
    const char *text; /* interned */
    json_t *value;    /* owned, never changed */
};

struct snapshot_group {
    const char *provider, *endpoint;        /* interned */
    const struct snapshot_pattern *pattern; /* NULL: "*" */
    size_t first, n;                        /* of snapshot.claims */
};

struct rules_cache;

struct snapshot {
    atomic_size_t n_refs;
    struct catalog_version version;
    struct arena arena;
    struct provider *providers; /* owned, as are the lists below */
    struct claim *claims;       /* in the order of the sources */
    struct snapshot_pattern *patterns;
    struct snapshot_json *json;
    struct snapshot_group *groups;
    size_t n_providers, n_claims, n_patterns, n_json, n_groups;
    size_t providers_cap, claims_cap, patterns_cap, json_cap, groups_cap;
    struct rules_cache *cache; /* owned; the only part that changes, see rules_cache.h */
};

/* Reads one version whole, in one transaction, and checks its hash. */
CATALOG_WARN_UNUSED bool snapshot_load(struct db *db, int64_t version, struct snapshot **out,
                                       struct catalog_error *err);

/* The same in a transaction of the caller's, who may have written to it. */
CATALOG_WARN_UNUSED bool snapshot_load_inside(struct db *db, int64_t version, struct snapshot **out,
                                              struct catalog_error *err);

/* Whether a claim's `models` takes that model id. */
bool snapshot_pattern_matches(const struct snapshot_pattern *p, const char *model);

#endif
