/* fingerprint.h - what configuration produced an answer: one record for each response. Pure.
 *
 * asked + plan + sent bytes + answer + build -> canonical text and hashes.
 *
 * `system_fingerprint` of a reply is "iso_" and the first 16 hex digits of the SHA-256 of the
 * canonical text of the configuration part: equal for equal configurations, whatever the prompt.
 * The canonical text is one JSON object, keys sorted at every level, no spaces, numbers in their
 * shortest form and without a fraction where they are whole (1.0 is 1):
 *   {"backend","build","catalog_version","model","provider_fingerprint","sent","served_model"}
 * `sent` is there without what does not configure the model: seed, user, metadata,
 * prompt_cache_key, safety_identifier, prediction. So a run with another seed has the same
 * fingerprint, and an empty provider_fingerprint is null.
 *
 * Prompts and answers are never in a record: only their SHA-256. The record holds parameters,
 * exactly as they were (0.7 stays 0.7); a value that is text of the client's and not a parameter
 * (`prediction`, unknown fields other than numbers and booleans), or longer than
 * FINGERPRINT_VALUE_BYTES_MAX, is kept as {"sha256","bytes"} of its compact JSON.
 */
#ifndef ISOTHERM_FINGERPRINT_H
#define ISOTHERM_FINGERPRINT_H

#include "base/buf.h"
#include <jansson.h>
#include <stdint.h>

/* Of one parameter; a long list of tools has some ten thousand. */
#define FINGERPRINT_VALUE_BYTES_MAX 16384

enum outcome { OUTCOME_OK, OUTCOME_FAILED, OUTCOME_CANCELLED, OUTCOME_TRUNCATED };
const char *outcome_name(enum outcome o); /* "ok" "failed" "cancelled" "truncated" */

/* One record. Strings are copied; JSON is owned. */
struct fingerprint {
    char request_id[40]; /* "req_" + 32 hex */
    char system_fingerprint[24];
    int64_t started_us, ended_us; /* since 1970 */
    char endpoint[32];            /* "/v1/chat/completions" */
    char requested_model[257], backend[64], model[257], served_model[129];
    int64_t catalog_version;
    json_t *asked;       /* object: canonical name -> value, as asked, neutral ones too */
    json_t *sent;        /* object: canonical name -> value, as sent */
    json_t *adjustments; /* array, as in the reply */
    json_t *fallback;    /* {from, because} or null */
    json_t
        *attempts; /* array of {backend, model, status, started_us, ended_us, waited_us, error} */
    bool has_seed;
    int64_t seed;
    char provider_fingerprint[129], provider_request_id[129];
    char body_sha256[65];   /* of the bytes that were sent upstream, of several calls in order */
    char answer_sha256[65]; /* of the text of all choices */
    char build[64];         /* program version and engine fingerprint */
    enum outcome outcome;
    int status; /* HTTP status given to the client */
    char error_code[48];
    int64_t prompt_tokens, completion_tokens;
    bool usage_estimated;
    uint64_t n_deltas;
    /* finish reasons of the choices, comma separated; "stop/end_turn" where the provider's word is
     * another one */
    char finish[128];
};
void fingerprint_init(struct fingerprint *f);
void fingerprint_release(struct fingerprint *f);
/* Fills system_fingerprint from the configuration part. false: memory; it is empty then. */
bool fingerprint_seal(struct fingerprint *f);
/* The text that is hashed for it. */
bool fingerprint_canonical(const struct fingerprint *f, struct buf *out);
/* The record as one JSON object with stable key order (what `fingerprints show` prints); yours.
 * NULL: memory. Empty strings are null. */
json_t *fingerprint_json(const struct fingerprint *f);
/* hex is "" where the library fails us (memory). */
void fingerprint_sha256(const void *p, size_t n, char hex[65]);
/* Incremental, for streams. */
struct fingerprint_hash;
struct fingerprint_hash *fingerprint_hash_new(void); /* NULL: memory */
void fingerprint_hash_add(struct fingerprint_hash *h, const void *p, size_t n);
void fingerprint_hash_end(struct fingerprint_hash *h, char hex[65]); /* frees; NULL gives "" */

#endif
