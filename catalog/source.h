/* source.h - one source file of the catalog, providers/NAME.json: read, checked, brought into one
 * form and hashed.
 *
 *   {"provider": {"id": "openai", "title": ..., "dialect": ..., ...}, "claims": [
 *   {"models": "^o3", "endpoint": ..., "param": "temperature", "support": "rejected", ...,
 * "source": ..., "as_of": ..., "confidence": ...},
 *   ...
 *   ]}
 *
 * Nothing unknown is let through: a key, a word or a parameter that this program does not know is
 * an error that names the file, the line, the claim (counted from 1) and the field. A field that is
 * null, false or an empty list is the same as one that is not there.
 *
 * Two claims may not have one key: models, endpoint, param, variant, `when`, source, as_of, and
 * whether they are derived or local. Another content under the same key is a contradiction that
 * nobody could settle.
 */
#ifndef ISOTHERM_CATALOG_SOURCE_H
#define ISOTHERM_CATALOG_SOURCE_H

#include "catalog_sha256.h"
#include "db.h"

#define SOURCE_BYTES_MAX   (16u << 20) /* the largest today has 0.9 MB */
#define SOURCE_CLAIMS_MAX  20000
#define SOURCE_TEXT_MAX    4096 /* longest string; notes have 320 bytes today */
#define SOURCE_NAME_MAX    256  /* longest name or word in `when`, `adds` and `default` */
#define SOURCE_LIST_MAX    64   /* longest list inside a claim */
#define SOURCE_TOOL_ID_MIN 6    /* shorter ones would soon meet another */
#define SOURCE_TOOL_ID_MAX 40   /* longest id of a tool call that a provider prescribes or limits */
#define SOURCE_DEPTH_MAX   8    /* of what `default` and `adds` hold; 3 today */

struct source {
    json_t *root; /* owned; what follows is inside of it */
    json_t *provider, *claims;
    const char *id;
    unsigned char provider_hash[SHA256_LEN];
    unsigned char (*hashes)[SHA256_LEN]; /* owned; of each claim, its provider's id included */
    size_t n_claims;
};

CATALOG_WARN_UNUSED bool source_load(struct source *out, const char *path,
                                     struct catalog_error *err);
void source_release(struct source *s);

/* Its two halves: the file as JSON; the JSON, taken whatever comes of it, as a source. `path` is
 * for error texts. */
CATALOG_WARN_UNUSED bool source_read(const char *path, json_t **root, struct catalog_error *err);
CATALOG_WARN_UNUSED bool source_take(struct source *out, json_t *root, const char *path,
                                     struct catalog_error *err);
/* One form of a claim or provider, and the hash of it: what it is known by. */
void source_normalise(json_t *object);
CATALOG_WARN_UNUSED bool source_hash(const json_t *j, unsigned char out[SHA256_LEN],
                                     struct catalog_error *err);

/* Where an error is: claim 0 is the provider object. */
struct source_place {
    const char *path;
    size_t claim;
    const char *param;
    struct catalog_error *err;
    const char *text; /* of the file, to say the line; NULL: no line is said */
    size_t text_len;
};
/* The line on which the i-th claim begins (0: the provider), in a text that is a source in form; 0:
 * it has none. */
size_t source_line(const char *text, size_t len, size_t claim);
/* Sets the error; always false. */
bool source_bad(const struct source_place *at, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* source_check.c: whether an object is a provider, a claim. */
CATALOG_WARN_UNUSED bool source_check_provider(const struct source_place *at,
                                               const json_t *provider);
CATALOG_WARN_UNUSED bool source_check_claim(const struct source_place *at, const json_t *claim);

#endif
