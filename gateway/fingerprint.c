/* fingerprint.c - the record as JSON, its canonical text, and SHA-256.
 *
 * SHA-256 is libcrypto's, which libcurl brings into the process anyway: on a CPU with SHA
 * instructions 4 KiB take 2.9 us, 21 us in plain C (measured, one core), and each request hashes
 * its whole body on the loop's thread. EVP_MD_fetch() is made once: it costs as much as hashing 2
 * MB.
 *
 * Strings of providers may be cut inside a character or never have been UTF-8, which JSON cannot
 * hold. A record is not lost for that: bytes beyond ASCII become '?' in such a string.
 */
#include "fingerprint.h"

#include "base/jsonio.h"
#include <math.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANONICAL_BYTES_MAX                                                                        \
    (32u << 20)          /* `sent` comes from a body of at most 16 MiB; escapes may double it */
#define NESTING_MAX  200 /* deeper than any parsed body */
#define SHA256_BYTES 32

const char *outcome_name(enum outcome o)
{
    static const char *const names[] = {
        [OUTCOME_OK] = "ok",
        [OUTCOME_FAILED] = "failed",
        [OUTCOME_CANCELLED] = "cancelled",
        [OUTCOME_TRUNCATED] = "truncated",
    };
    return names[o];
}

void fingerprint_init(struct fingerprint *f)
{
    memset(f, 0, sizeof *f);
}

void fingerprint_release(struct fingerprint *f)
{
    if (!f) {
        return;
    }
    json_decref(f->asked);
    json_decref(f->sent);
    json_decref(f->adjustments);
    json_decref(f->fallback);
    json_decref(f->attempts);
    memset(f, 0, sizeof *f);
}

/* ---- SHA-256 */

static EVP_MD *sha256; /* immutable after sha256_fetch */
static pthread_once_t sha256_once = PTHREAD_ONCE_INIT;

static void sha256_fetch(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
}

struct fingerprint_hash {
    EVP_MD_CTX *ctx;
    bool is_failed;
};

struct fingerprint_hash *fingerprint_hash_new(void)
{
    (void)pthread_once(&sha256_once, sha256_fetch);
    struct fingerprint_hash *h = calloc(1, sizeof *h);
    if (!h) {
        return NULL;
    }
    h->ctx = EVP_MD_CTX_new();
    if (!h->ctx || !sha256 || EVP_DigestInit_ex(h->ctx, sha256, NULL) != 1) {
        EVP_MD_CTX_free(h->ctx);
        free(h);
        return NULL;
    }
    return h;
}

void fingerprint_hash_add(struct fingerprint_hash *h, const void *p, size_t n)
{
    if (h && n && EVP_DigestUpdate(h->ctx, p, n) != 1) {
        h->is_failed = true;
    }
}

void fingerprint_hash_end(struct fingerprint_hash *h, char hex[65])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char sum[SHA256_BYTES];
    hex[0] = '\0';
    if (!h) {
        return;
    }
    if (!h->is_failed && EVP_DigestFinal_ex(h->ctx, sum, NULL) == 1) {
        for (size_t i = 0; i < SHA256_BYTES; i++) {
            hex[2 * i] = digits[sum[i] >> 4];
            hex[2 * i + 1] = digits[sum[i] & 15];
        }
        hex[2 * SHA256_BYTES] = '\0';
    }
    EVP_MD_CTX_free(h->ctx);
    free(h);
}

void fingerprint_sha256(const void *p, size_t n, char hex[65])
{
    struct fingerprint_hash *h = fingerprint_hash_new();
    fingerprint_hash_add(h, p, n);
    fingerprint_hash_end(h, hex);
}

/* ---- strings that JSON can hold */

/* NULL: memory. */
static json_t *text_or_null(const char *s)
{
    if (!*s) {
        return json_null();
    }
    json_t *v = json_string(s);
    if (v) {
        return v;
    }
    char *clean = strdup(s);
    if (!clean) {
        return NULL;
    }
    for (char *p = clean; *p; p++) {
        if ((unsigned char)*p >= 0x80) {
            *p = '?';
        }
    }
    v = json_string(clean);
    free(clean);
    return v;
}

/* ---- the canonical text */

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static json_t *canonical_value(const json_t *v, unsigned depth);

/* Keys of `v` in order, without those in `skip`. */
static json_t *canonical_object(const json_t *v, const char *const *skip, unsigned depth)
{
    size_t n = 0, size = json_object_size(v);
    const char **key = calloc(size + 1, sizeof *key);
    json_t *out = key ? json_object() : NULL;
    const char *k;
    json_t *item;
    json_object_foreach ((json_t *)v, k,
                         item) { /* the macro wants it without const; nothing is changed */
        bool is_skipped = false;
        for (size_t i = 0; out && skip && skip[i]; i++) {
            is_skipped = is_skipped || strcmp(skip[i], k) == 0;
        }
        if (out && !is_skipped) {
            key[n++] = k;
        }
    }
    if (n) {
        qsort(key, n, sizeof *key, by_key);
    }
    for (size_t i = 0; out && i < n; i++) {
        json_t *sorted = canonical_value(json_object_get(v, key[i]), depth + 1);
        if (!sorted || json_object_set_new(out, key[i], sorted) != 0) {
            json_decref(out);
            out = NULL;
        }
    }
    free(key);
    return out;
}

static json_t *canonical_array(const json_t *v, unsigned depth)
{
    json_t *out = json_array();
    for (size_t i = 0; out && i < json_array_size(v); i++) {
        json_t *item = canonical_value(json_array_get(v, i), depth + 1);
        if (!item || json_array_append_new(out, item) != 0) {
            json_decref(out);
            out = NULL;
        }
    }
    return out;
}

static json_t *canonical_value(const json_t *v, unsigned depth)
{
    if (depth > NESTING_MAX) {
        return NULL;
    }
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return canonical_object(v, NULL, depth);
    case JSON_ARRAY:
        return canonical_array(v, depth);
    case JSON_REAL: {
        double d = json_real_value(v);
        bool is_whole = d == floor(d) && fabs(d) < 9007199254740992.0; /* 2^53 */
        return is_whole ? json_integer((json_int_t)d) : json_real(d);
    }
    default:
        return json_incref((json_t *)v); /* immutable here; the count is not part of the value */
    }
}

/* A pair for an object that is being built; value is taken. */
static bool put(json_t *object, const char *key, json_t *value)
{
    return value && json_object_set_new(object, key, value) == 0;
}

bool fingerprint_canonical(const struct fingerprint *f, struct buf *out)
{
    static const char *const no_configuration[] = {
        "seed", "user", "metadata", "prompt_cache_key", "safety_identifier", "prediction", NULL};
    json_t *o = json_object();
    /* Keys in their sorted order: an object keeps the order of insertion. */
    bool ok = o && put(o, "backend", text_or_null(f->backend)) &&
              put(o, "build", text_or_null(f->build)) &&
              put(o, "catalog_version", json_integer(f->catalog_version)) &&
              put(o, "model", text_or_null(f->model)) &&
              put(o, "provider_fingerprint", text_or_null(f->provider_fingerprint)) &&
              put(o, "sent",
                  json_is_object(f->sent) ? canonical_object(f->sent, no_configuration, 1)
                                          : json_null()) &&
              put(o, "served_model", text_or_null(f->served_model));
    ok = ok && jsonio_write(out, o);
    json_decref(o);
    return ok;
}

bool fingerprint_seal(struct fingerprint *f)
{
    struct buf text;
    char hex[65] = "";
    buf_init(&text, CANONICAL_BYTES_MAX);
    f->system_fingerprint[0] = '\0';
    if (fingerprint_canonical(f, &text)) {
        fingerprint_sha256(text.p, text.len, hex);
    }
    buf_release(&text);
    if (!hex[0]) {
        return false;
    }
    (void)snprintf(f->system_fingerprint, sizeof f->system_fingerprint, "iso_%.16s", hex);
    return true;
}

/* ---- the record as JSON */

struct digest {
    struct fingerprint_hash *hash;
    size_t n_bytes;
};

static int digest_piece(const char *p, size_t n, void *ud)
{
    struct digest *d = ud;
    fingerprint_hash_add(d->hash, p, n);
    d->n_bytes += n;
    return 0;
}

/* The value itself, or its digest where it is too long or `is_text`. NULL: memory. */
static json_t *recorded_value(json_t *v, bool is_text)
{
    bool is_short = json_is_number(v) || json_is_boolean(v) || json_is_null(v) ||
                    (!is_text && json_is_string(v) && json_string_length(v) < 1024);
    if (is_short) {
        return json_incref(v);
    }
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
    if (!is_text &&
        json_dumpb(v, NULL, 0, flags) <= FINGERPRINT_VALUE_BYTES_MAX) { /* only counts */
        return json_incref(v);
    }
    struct digest d = {.hash = fingerprint_hash_new()};
    char hex[65];
    int failed = json_dump_callback(v, digest_piece, &d, flags);
    fingerprint_hash_end(d.hash, hex);
    if (failed || !hex[0]) {
        return NULL;
    }
    return json_pack("{s:s,s:I}", "sha256", hex, "bytes", (json_int_t)d.n_bytes);
}

static bool is_client_text(const char *param, const char *reason)
{
    return strcmp(param, "prediction") == 0 || (reason && strcmp(reason, "unknown_parameter") == 0);
}

static json_t *recorded_parameters(json_t *parameters)
{
    if (!parameters) {
        return json_null();
    }
    json_t *out = json_object();
    const char *key;
    json_t *v;
    json_object_foreach (parameters, key, v) {
        if (out && !put(out, key, recorded_value(v, is_client_text(key, NULL)))) {
            json_decref(out);
            out = NULL;
        }
    }
    return out;
}

/* One adjustment: as it is, but for `asked` and `sent`. */
static json_t *recorded_adjustment(json_t *a)
{
    json_t *out = json_is_object(a) ? json_copy(a) : NULL;
    const char *param = json_string_value(json_object_get(a, "param"));
    bool is_text =
        is_client_text(param ? param : "", json_string_value(json_object_get(a, "reason")));
    static const char *const sides[] = {"asked", "sent"};
    for (size_t i = 0; out && i < 2; i++) {
        json_t *v = json_object_get(a, sides[i]);
        if (v && !put(out, sides[i], recorded_value(v, is_text))) {
            json_decref(out);
            out = NULL;
        }
    }
    return out;
}

static json_t *recorded_adjustments(const json_t *list)
{
    json_t *out = json_array();
    for (size_t i = 0; out && i < json_array_size(list); i++) {
        if (json_array_append_new(out, recorded_adjustment(json_array_get(list, i))) != 0) {
            json_decref(out);
            out = NULL;
        }
    }
    return out;
}

static json_t *or_null(json_t *v)
{
    return v ? json_incref(v) : json_null();
}

static bool put_head(json_t *o, const struct fingerprint *f)
{
    return put(o, "request_id", text_or_null(f->request_id)) &&
           put(o, "system_fingerprint", text_or_null(f->system_fingerprint)) &&
           put(o, "started_us", json_integer(f->started_us)) &&
           put(o, "ended_us", json_integer(f->ended_us)) &&
           put(o, "endpoint", text_or_null(f->endpoint)) &&
           put(o, "requested_model", text_or_null(f->requested_model)) &&
           put(o, "backend", text_or_null(f->backend)) && put(o, "model", text_or_null(f->model)) &&
           put(o, "served_model", text_or_null(f->served_model)) &&
           put(o, "catalog_version", json_integer(f->catalog_version)) &&
           put(o, "outcome", json_string(outcome_name(f->outcome))) &&
           put(o, "status", json_integer(f->status)) &&
           put(o, "error_code", text_or_null(f->error_code));
}

static bool put_plan(json_t *o, const struct fingerprint *f)
{
    return put(o, "seed", f->has_seed ? json_integer(f->seed) : json_null()) &&
           put(o, "asked", recorded_parameters(f->asked)) &&
           put(o, "sent", recorded_parameters(f->sent)) &&
           put(o, "adjustments", recorded_adjustments(f->adjustments)) &&
           put(o, "fallback", or_null(f->fallback)) && put(o, "attempts", or_null(f->attempts));
}

static bool put_answer(json_t *o, const struct fingerprint *f)
{
    return put(o, "usage",
               json_pack("{s:I,s:I,s:b}", "prompt_tokens", (json_int_t)f->prompt_tokens,
                         "completion_tokens", (json_int_t)f->completion_tokens, "is_estimated",
                         f->usage_estimated)) &&
           put(o, "finish", text_or_null(f->finish)) &&
           put(o, "n_deltas", json_integer((json_int_t)f->n_deltas)) &&
           put(o, "provider_fingerprint", text_or_null(f->provider_fingerprint)) &&
           put(o, "provider_request_id", text_or_null(f->provider_request_id)) &&
           put(o, "body_sha256", text_or_null(f->body_sha256)) &&
           put(o, "answer_sha256", text_or_null(f->answer_sha256)) &&
           put(o, "build", text_or_null(f->build));
}

json_t *fingerprint_json(const struct fingerprint *f)
{
    json_t *o = json_object();
    if (!o || !put_head(o, f) || !put_plan(o, f) || !put_answer(o, f)) {
        json_decref(o);
        return NULL;
    }
    return o;
}
