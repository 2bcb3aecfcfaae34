/* versions_content.h - what a version holds, as row ids and keys, for those who make versions:
 * build.c, versions.c, merge.c, transfer.c. All inside of one transaction.
 */
#ifndef ISOTHERM_CATALOG_VERSIONS_CONTENT_H
#define ISOTHERM_CATALOG_VERSIONS_CONTENT_H

#include "arena.h"
#include "catalog_sha256.h"
#include "db.h"
#include "versions.h"

/* A claim, or a provider: then only `id`, `hash`, `plain` and `provider`. Texts are never NULL and
 * live as long as the content that they were loaded into. */
struct member {
    int64_t id;
    unsigned char hash[SHA256_LEN];
    unsigned char plain[SHA256_LEN]; /* of the same claim without its mark `local` */
    const char *provider, *models, *endpoint, *param, *variant, *when; /* the key ... */
    const char *source, *as_of; /* ... and what belongs to it where that is not unique */
    const char *valid_to;       /* "": no end */
    bool is_local;
};

struct content {
    struct arena text;
    struct member *claims, *providers; /* owned; in order */
    size_t n_claims, n_providers, claims_cap, providers_cap;
};

/* Zeroed or initialised content may be released; loading initialises. */
void content_init(struct content *c);
void content_release(struct content *c);
CATALOG_WARN_UNUSED bool content_load(struct content *c, struct db *db, int64_t version,
                                      struct catalog_error *err);
/* At the end; the texts are borrowed from where `m` came from. */
CATALOG_WARN_UNUSED bool content_push(struct content *c, const struct member *m,
                                      struct catalog_error *err);
CATALOG_WARN_UNUSED bool content_push_provider(struct content *c, const struct member *m,
                                               struct catalog_error *err);
/* Puts the claim (normalised, with "provider"), the provider object, into the database where they
 * are not there yet. */
CATALOG_WARN_UNUSED bool content_put(struct content *c, struct db *db, const json_t *claim,
                                     struct member *out, struct catalog_error *err);
CATALOG_WARN_UNUSED bool content_put_provider(struct content *c, struct db *db,
                                              const json_t *provider, struct member *out,
                                              struct catalog_error *err);
/* Rows as JSON, as in a source: without "id", a claim with "provider". NULL: err is set. */
json_t *content_claim_json(struct db *db, int64_t id, struct catalog_error *err);
json_t *content_provider_json(struct db *db, int64_t id, struct catalog_error *err);

/* What the header row of a version with this content has as its hash. */
CATALOG_WARN_UNUSED bool content_hash(const struct content *c, char hex[SHA256_HEX_LEN],
                                      struct catalog_error *err);

int member_compare_keys(const struct member *a, const struct member *b); /* of claims */
bool member_is_same(const struct member *a, const struct member *b); /* but for the mark `local` */
/* Whether a claim with that row id is there. */
const struct member *content_find(const struct content *c, int64_t id);
const struct member *content_find_provider(const struct content *c, const char *provider);

/* ---- conflicts that are open */
struct open_conflict {
    struct db_conflict f;
    struct member key; /* of one of its claims */
};
struct open_conflicts {
    struct open_conflict *list; /* owned */
    size_t n, cap;
};
CATALOG_WARN_UNUSED bool conflicts_add(struct open_conflicts *o, const struct db_conflict *f,
                                       const struct member *key, struct catalog_error *err);
/* Keys are read into `c`. */
CATALOG_WARN_UNUSED bool conflicts_load(struct open_conflicts *o, struct content *c, struct db *db,
                                        int64_t version, struct catalog_error *err);
void conflicts_release(struct open_conflicts *o);

/* ---- merge.c: three-way. What is local holds; a claim that both sides changed, not to the same,
 * is added to `found` with `since`. The order is that of `shipped`, what is only local comes at the
 * end of its provider. `out` borrows from all three. */
struct merge {
    const struct content *base, *shipped, *local;
    struct content *out;
    struct open_conflicts *found;
    int64_t since;
};
CATALOG_WARN_UNUSED bool merge_contents(const struct merge *m, struct catalog_error *err);
/* Those of `before` that no later decision has settled: the local claim is still there (or still
 * not), and nothing new was found for the key. */
CATALOG_WARN_UNUSED bool merge_carry_conflicts(const struct open_conflicts *before,
                                               const struct content *now,
                                               struct open_conflicts *found,
                                               struct catalog_error *err);

/* ---- versions.c: a version is stored */
CATALOG_WARN_UNUSED bool stamp_check(const struct version_stamp *stamp, struct catalog_error *err);
struct version_put {
    enum version_kind kind;
    int64_t parent, base; /* base 0: itself */
    const struct content *content;
    const struct open_conflicts *conflicts; /* NULL: none */
    const struct version_stamp *stamp;
};
/* *out is the version as it is read back. */
CATALOG_WARN_UNUSED bool version_store(struct db *db, int64_t number, const struct version_put *put,
                                       struct catalog_version *out, struct catalog_error *err);
/* build.c: the claims of a source, at the end. */
struct source;
CATALOG_WARN_UNUSED bool content_put_source(struct content *c, struct db *db,
                                            const struct source *s, struct catalog_error *err);
/* build.c: content as a new shipped version, local overrides carried onto it; none where the newest
 * shipped version holds the same. */
CATALOG_WARN_UNUSED bool version_ship(struct db *db, const struct content *shipped,
                                      const struct version_stamp *stamp, bool *is_changed,
                                      struct catalog_version *out, struct catalog_error *err);

/* ---- versions.c: one change on top of the newest version */
struct change {
    struct db *db;
    struct catalog_version newest;
    struct content now, base;
    struct open_conflicts open;
};
CATALOG_WARN_UNUSED bool change_begin(struct change *c, const char *path,
                                      const struct version_stamp *stamp, struct catalog_error *err);
/* A local version of `now` and `open`, unless nothing changes; commits. */
CATALOG_WARN_UNUSED bool change_store(struct change *c, const struct version_stamp *stamp,
                                      struct catalog_version *out, struct catalog_error *err);
void change_release(struct change *c);
/* The member for a claim that was set here (with "provider", without "local"; gets that). What the
 * base says itself is no override: its own claim is the member then. */
CATALOG_WARN_UNUSED bool change_member(struct change *c, json_t *claim, struct member *out,
                                       struct catalog_error *err);
/* At the end of its provider's claims. */
CATALOG_WARN_UNUSED bool change_append(struct change *c, const struct member *m,
                                       struct catalog_error *err);
/* Puts the override `m` in the place of the claim with its key (`like` is preferred where there are
 * several), or at the end of its provider; settles conflicts of the key. */
CATALOG_WARN_UNUSED bool change_place(struct change *c, const struct member *m, int64_t like,
                                      const char *today, struct catalog_error *err);
/* Takes a claim out, by its place. */
void change_take_out(struct change *c, struct member *at);
void change_settle(struct change *c, const struct member *key);

/* ---- an override (versions_override.c) */

/* A claim that was laid over nothing gets what every claim needs: a confidence, and the place in
 * the body that all claims of the provider name for the parameter. false: `support` is missing. */
CATALOG_WARN_UNUSED bool override_fill(struct change *c, const struct version_override *o,
                                       const char *endpoint, json_t *claim,
                                       struct catalog_error *err);
/* Whether the provider has the endpoint: a slip would make an override that nothing ever asks. */
CATALOG_WARN_UNUSED bool override_check_endpoint(const struct change *c,
                                                 const struct version_override *o,
                                                 const json_t *provider, struct catalog_error *err);

#endif
