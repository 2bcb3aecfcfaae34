/* resolve.h - a model's name -> struct target: which provider, which model there, in which dialect,
 * at which address. Pure.
 *
 * A name is `provider/model`, an alias of the configuration, `local`, or `local/<name>`. Addresses
 * come from the configuration and the catalog only, never from a request.
 */
#ifndef ISOTHERM_RESOLVE_H
#define ISOTHERM_RESOLVE_H

#include "backend/backend.h"
#include "base/config.h"
#include "base/limits.h"
#include "request.h"

struct target {
    char name[LIMIT_MODEL_NAME + 1];  /* canonical: "openai/gpt-4o-mini", "local/tales" */
    const char *provider_name;        /* the part before the slash: as configured; borrowed */
    char model[LIMIT_MODEL_NAME + 1]; /* the provider's own id */
    const struct provider *provider;  /* claims and address; borrowed from the snapshot */
    const struct backend *backend;
    const char *base_url; /* configured, else the provider's; borrowed; NULL for the local engine */
    char url[1024];       /* "" for the local engine */
    const char *switches; /* of the provider's configuration, or NULL; borrowed */
    bool allow_retired;   /* its provider's configuration says so */
    const char *key_name; /* environment variable or credential of the key, NULL: none is sent */
    const char *key_file; /* configured instead, or NULL; borrowed */
    const char *ca_file;  /* certificates to trust instead of the system's, or NULL; borrowed */
};

/* The targets of an alias of several, in the order in which they are asked: *targets is borrowed.
 * 1: the name is to be resolved as it is. */
size_t resolve_targets(const struct config *conf, const char *name, char *const **targets);
/* true: `out` is filled; of an alias with several targets it is the first. Failures: 404
 * model_not_found; 404 when the provider has no such endpoint; 501 dialect_not_built for a dialect
 * of the catalog that this build does not speak. */
bool resolve(const struct config *conf, const struct snapshot *snap, enum request_kind kind,
             bool is_stream, const char *model, struct target *out, struct failure *f)
    __attribute__((warn_unused_result));
/* The address of a hosted target below another base, borrowed: "http://127.0.0.1:8000/v1". */
bool resolve_at(struct target *t, const char *base_url, enum request_kind kind, bool is_stream,
                struct failure *f) __attribute__((warn_unused_result));
/* Turns a hosted target to its provider's second route (struct provider_route): another dialect at
 * another address. false: there is none (failure untouched), or as above. */
bool resolve_also(struct target *t, bool is_stream, struct failure *f)
    __attribute__((warn_unused_result));

/* Turns it to where the provider is asked to continue a message, if that is elsewhere. */
bool resolve_prefill(struct target *t, struct failure *f) __attribute__((warn_unused_result));

/* The name of the first local model: what `local` alone means. */
const char *resolve_first_local(const struct config *conf);

#endif
