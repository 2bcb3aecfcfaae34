/* versions.h - makes versions: from sources, by an override, by a step back, from another catalog.
 *
 * A version is immutable: a set of claims and providers with a number, a content hash, a parent, a
 * time, an author and a reason. Every function below is one transaction in the database at `path`:
 * on failure, and after a kill, the database is as it was. A second writer waits up to 5 s and is
 * told then. Nothing is written where nothing would change: *out is the newest version as it is.
 *
 * Overrides and upgrades. What was set on this machine is the difference between the newest version
 * and its base. When shipped data come anew, the shipped version is stored as it is, and where
 * there are overrides a second one on top of it in which they still hold (three-way: base, shipped,
 * local). A claim that was changed on both sides, not to the same, is a conflict: the local one
 * holds, all three are kept and listed with the version (versions_conflicts()), until a later `set`
 * or `versions_unset` of the same key.
 *
 * The key of a claim, by which versions are compared: provider, models, endpoint, param, variant,
 * `when`, and, where that is not unique within a version, source and as_of.
 */
#ifndef ISOTHERM_CATALOG_VERSIONS_H
#define ISOTHERM_CATALOG_VERSIONS_H

#include "catalog.h"

/* Who, why, when (ISO time, given by the caller). */
struct version_stamp {
    const char *author, *reason, *created;
};

/* Sources (providers/NAME.json) -> a shipped version that holds these and nothing else, in the
 * database at `path`, which is made where it is not there; local overrides are carried onto it. The
 * same sources have the same hash whatever their order; sources that the newest shipped version
 * holds already add none. */
CATALOG_WARN_UNUSED bool catalog_build(const char *path, const char *const *sources,
                                       size_t n_sources, const struct version_stamp *stamp,
                                       struct catalog_version *out, struct catalog_error *err);

/* The newest shipped version of the database `from` -> `path`, as with catalog_build(). A missing
 * `path` becomes a copy of it, whole or not at all. *is_changed: a version was added. */
CATALOG_WARN_UNUSED bool catalog_upgrade(const char *path, const char *from,
                                         const struct version_stamp *stamp, bool *is_changed,
                                         struct catalog_version *out, struct catalog_error *err);

/* One override. `fields` is an object of claim fields (claim.h, as in the sources) that are laid
 * over the claim with the same key; where there is none, over `like`, the row id of a claim of the
 * same provider (0: over nothing; then `fields` must hold all that a claim needs). null in `fields`
 * takes a field away. The result is checked like a source and is marked local. NULL endpoint: the
 * provider's chat_endpoint. */
struct version_override {
    const char *provider, *models, *endpoint, *param;
    const json_t *fields;
    int64_t like;
};
CATALOG_WARN_UNUSED bool catalog_set(const char *path, const struct version_override *o,
                                     const struct version_stamp *stamp, struct catalog_version *out,
                                     struct catalog_error *err);
/* `models` for an override of one model: the expression that takes its id and no other. false:
 * longer than cap. */
CATALOG_WARN_UNUSED bool catalog_models_exact(const char *model, char *out, size_t cap);
/* Takes back what was set on this machine for this key: what the base says holds again. `param` and
 * `models` NULL: everything of the provider. CATALOG_NOT_FOUND: nothing was set there. */
CATALOG_WARN_UNUSED bool catalog_unset(const char *path, const struct version_override *o,
                                       const struct version_stamp *stamp,
                                       struct catalog_version *out, struct catalog_error *err);

/* A new version with the content (and the base) of `number`. */
CATALOG_WARN_UNUSED bool catalog_rollback(const char *path, int64_t number,
                                          const struct version_stamp *stamp,
                                          struct catalog_version *out, struct catalog_error *err);

/* ---- moving: one JSON document, one claim a line, readable in a review
 *
 *   {"catalog": {"format": 1, "content": "version"|"overrides", "version", "hash", "kind",
 * "created", "author", "reason"}, "providers": [
 *   {"provider": {...}, "claims": [
 *   {...},
 *   ...]}, ...]}
 *
 * "overrides" holds what was set on the machine only, with "removed": true in the place of claims
 * that were taken away. */
struct version_export {
    int64_t version;      /* 0: newest */
    const char *provider; /* NULL: all; import then leaves the others as they are */
    bool overrides_only;
};
/* `write` gets the text piece by piece; false: stop, failed (CATALOG_IO). */
typedef bool catalog_write_fn(const char *text, size_t len, void *ud);
CATALOG_WARN_UNUSED bool catalog_export(struct catalog *c, const struct version_export *what,
                                        catalog_write_fn *write, void *ud,
                                        struct catalog_error *err);
/* A document as above: content "version" comes in as shipped data (catalog_build), "overrides" as
 * one local version with all of them. Everything is checked as sources are, the hash too. */
CATALOG_WARN_UNUSED bool catalog_import(const char *path, const char *file,
                                        const struct version_stamp *stamp,
                                        struct catalog_version *out, struct catalog_error *err);

/* ---- comparing. Claims are given as JSON objects of the sources' form with "id", "provider" and
 * "version" besides; borrowed for the call. */
enum version_change { VERSION_ADDED, VERSION_REMOVED, VERSION_CHANGED };
struct version_difference {
    enum version_change change;
    const json_t *before, *after; /* NULL for added, removed */
    bool is_provider;             /* the two are provider objects */
};
typedef bool catalog_difference_fn(const struct version_difference *d, void *ud); /* false: stop */
/* By key, in the order of provider, models, endpoint, param. A changed claim with the same key is
 * one difference. Either number 0: newest. */
CATALOG_WARN_UNUSED bool catalog_diff(struct catalog *c, int64_t from, int64_t to,
                                      catalog_difference_fn *fn, void *ud,
                                      struct catalog_error *err);

/* Every claim that any version held about this parameter, in order of its first appearance. One
 * that was taken away and came back is given once for each time. */
struct version_life {
    const json_t *claim;
    int64_t first, last;         /* versions that hold it; last 0: the newest still does */
    const char *since, *until;   /* the time of the first, and of the version that no longer held
                                    it: believed until then; NULL with last 0 */
    const char *author, *reason; /* of the first */
};
typedef bool catalog_life_fn(const struct version_life *l, void *ud);
CATALOG_WARN_UNUSED bool catalog_history(struct catalog *c, const char *provider, const char *param,
                                         const char *model, catalog_life_fn *fn, void *ud,
                                         struct catalog_error *err);

/* Conflicts that are still open in `version` (0: newest): both sides changed one key. */
struct version_conflict {
    int64_t version;                      /* in which it came up */
    const json_t *base, *shipped, *local; /* NULL: not there on that side */
};
typedef bool catalog_conflict_fn(const struct version_conflict *f, void *ud);
CATALOG_WARN_UNUSED bool catalog_conflicts(struct catalog *c, int64_t version,
                                           catalog_conflict_fn *fn, void *ud,
                                           struct catalog_error *err);

/* Brings the schema of the database at `path` up to this program's. Done by every function above
 * that writes; for a reader that may write. */
CATALOG_WARN_UNUSED bool catalog_migrate(const char *path, struct catalog_error *err);

#endif
