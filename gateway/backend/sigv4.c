/* sigv4.c - see sigv4.h. The canonical request is never built: it is hashed as it comes, so that no
 * length of path or token needs a buffer.
 *
 * key       = HMAC(HMAC(HMAC(HMAC("AWS4" secret, day), region), service), "aws4_request")
 * signature = HMAC(key, "AWS4-HMAC-SHA256\n" time "\n" scope "\n" SHA-256(canonical request))
 *
 * Fetching an algorithm costs libcrypto more than signing: both are fetched once, and the HMAC is
 * kept as a context that knows its digest, to be duplicated for each signature.
 */
#include "sigv4.h"

#include <assert.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SUM_BYTES      32
#define SECRET_MAX     256  /* AWS's have 40 */
#define NAME_MAX_BYTES 128  /* key ids (up to 128), regions, services */
#define TOKEN_MAX      8192 /* AWS's have up to about 2 KiB and no promised end */
#define HOST_MAX       256  /* host names have at most 253; a content type */
#define PATH_MAX_BYTES 4096 /* an ARN of 2048, all escaped, would not be taken by AWS either */
#define DAY_CHARS      8

static EVP_MD *sha256; /* both immutable after fetch() */
static EVP_MAC_CTX *hmac;
static pthread_once_t fetch_once = PTHREAD_ONCE_INIT;

static void fetch(void)
{
    char name[] = "SHA256";
    static const unsigned char
        no_key[1]; /* a context without a key cannot be duplicated everywhere */
    const OSSL_PARAM digest[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
    EVP_MAC_free(mac); /* the context holds it */
    if (!ctx || EVP_MAC_init(ctx, no_key, sizeof no_key, digest) != 1) {
        EVP_MAC_CTX_free(ctx);
        return;
    }
    hmac = ctx;
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
}

static void write_hex(const unsigned char sum[SUM_BYTES], char hex[SIGV4_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SUM_BYTES; i++) {
        hex[2 * i] = digits[sum[i] >> 4];
        hex[2 * i + 1] = digits[sum[i] & 15];
    }
    hex[2 * SUM_BYTES] = '\0';
}

/* ---- what may be signed */

static bool is_unreserved(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '~';
}

static void write_escape(char c, char out[3])
{
    static const char digits[] = "0123456789ABCDEF";
    out[0] = '%';
    out[1] = digits[(unsigned char)c >> 4];
    out[2] = digits[(unsigned char)c & 15];
}

/* 1 to max visible ASCII characters; blanks inside where they are allowed. */
static bool is_plain(const char *s, size_t max, bool may_have_blanks)
{
    size_t n = strnlen(s, max + 1);
    for (size_t i = 0; i < n; i++) {
        bool is_lone_blank =
            may_have_blanks && s[i] == ' ' && i > 0 && i + 1 < n && s[i + 1] != ' ';
        if ((s[i] <= ' ' || s[i] > '~') && !is_lone_blank) {
            return false;
        }
    }
    return n > 0 && n <= max;
}

/* A part of the scope, whose parts are divided by '/' and ended by ','. */
static bool is_name(const char *s)
{
    return is_plain(s, NAME_MAX_BYTES, false) && !strpbrk(s, "/,");
}

/* Absolute, sent as it is, and the same after every normalisation: no query, no empty, "." or ".."
 * segment (a slash at the end is allowed). */
static bool is_path(const char *s)
{
    if (s[0] != '/' || !is_plain(s, PATH_MAX_BYTES, false) || strpbrk(s, "?#")) {
        return false;
    }
    for (const char *p = s; *p; p += strcspn(p, "/")) {
        p++;
        size_t n = strcspn(p, "/");
        bool is_dots = (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.');
        if (is_dots || (n == 0 && *p)) {
            return false;
        }
    }
    return true;
}

static bool check_keys(const struct sigv4_request *r, struct failure *f)
{
    if (is_name(r->access_key_id) && is_plain(r->secret_access_key, SECRET_MAX, false) &&
        (!r->session_token || is_plain(r->session_token, TOKEN_MAX, false))) {
        return true;
    }
    return failure_set(f, 500, "bad_api_key", NULL,
                       "the AWS credentials are too long, empty or hold characters that cannot be "
                       "sent: set them again");
}

#define TIME_MAX_S 253402300799 /* the last second of the year 9999 */

static bool check_rest(const struct sigv4_request *r, struct failure *f)
{
    const struct {
        const char *what;
        bool is_good;
    } parts[] = {
        {"region", is_name(r->region)},
        {"service", is_name(r->service)},
        {"method", is_name(r->method)},
        {"host", is_plain(r->host, HOST_MAX, false)},
        {"path", is_path(r->path)},
        {"content type", is_plain(r->content_type, HOST_MAX, true)},
        {"time", r->time_s >= 0 && r->time_s <= TIME_MAX_S},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i].is_good) {
            return failure_set(f, 500, "bad_signature", NULL,
                               "the %s of a request to AWS cannot be signed: look at the "
                               "provider's base url and region",
                               parts[i].what);
        }
    }
    return true;
}

/* ---- the canonical request */

struct hashing {
    EVP_MD_CTX *ctx;
    bool is_failed;
};

static void add_bytes(struct hashing *h, const char *p, size_t n)
{
    h->is_failed = h->is_failed || EVP_DigestUpdate(h->ctx, p, n) != 1;
}

static void add(struct hashing *h, const char *s)
{
    add_bytes(h, s, strlen(s));
}

static void add_path(struct hashing *h, const char *path)
{
    for (const char *p = path; *p;) {
        size_t n = 0;
        while (p[n] == '/' || is_unreserved(p[n])) {
            n++;
        }
        add_bytes(h, p, n);
        p += n;
        if (*p) {
            char escape[3];
            write_escape(*p++, escape);
            add_bytes(h, escape, sizeof escape);
        }
    }
}

static bool end_hash(struct hashing *h, char hex[SIGV4_HEX_SIZE])
{
    unsigned char sum[SUM_BYTES];
    if (h->is_failed || EVP_DigestFinal_ex(h->ctx, sum, NULL) != 1) {
        return false;
    }
    write_hex(sum, hex);
    return true;
}

static bool begin_hash(struct hashing *h)
{
    h->is_failed = EVP_DigestInit_ex(h->ctx, sha256, NULL) != 1;
    return !h->is_failed;
}

static const char *signed_names(const struct sigv4_request *r)
{
    return r->session_token
               ? "content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token"
               : "content-type;host;x-amz-content-sha256;x-amz-date";
}

static void add_request(struct hashing *h, const struct sigv4_request *r,
                        const struct sigv4_headers *out)
{
    const struct {
        const char *name, *value;
    } headers[] = {
        {"content-type", r->content_type},
        {"host", r->host},
        {"x-amz-content-sha256", out->content_sha256},
        {"x-amz-date", out->date},
        {"x-amz-security-token", r->session_token},
    };
    add(h, r->method);
    add(h, "\n");
    add_path(h, r->path);
    add(h, "\n\n"); /* no query */
    for (size_t i = 0; i < sizeof headers / sizeof *headers && headers[i].value; i++) {
        add(h, headers[i].name);
        add(h, ":");
        add(h, headers[i].value);
        add(h, "\n");
    }
    add(h, "\n");
    add(h, signed_names(r));
    add(h, "\n");
    add(h, out->content_sha256);
}

/* out->content_sha256, and the hash of the canonical request. */
static bool hash_request(const struct sigv4_request *r, struct sigv4_headers *out,
                         char hex[SIGV4_HEX_SIZE])
{
    struct hashing h = {EVP_MD_CTX_new(), false};
    bool ok = h.ctx && begin_hash(&h);
    if (ok) {
        add_bytes(&h, r->body.p, r->body.len);
        ok = end_hash(&h, out->content_sha256) && begin_hash(&h);
    }
    if (ok) {
        add_request(&h, r, out);
        ok = end_hash(&h, hex);
    }
    EVP_MD_CTX_free(h.ctx); /* wipes what it held */
    return ok;
}

/* ---- the signature */

static bool mac(EVP_MAC_CTX *ctx, const void *key, size_t key_len, const char *text, size_t len,
                unsigned char sum[SUM_BYTES])
{
    size_t n = 0;
    return EVP_MAC_init(ctx, key, key_len, NULL) == 1 &&
           EVP_MAC_update(ctx, (const unsigned char *)text, len) == 1 &&
           EVP_MAC_final(ctx, sum, &n, SUM_BYTES) == 1 && n == SUM_BYTES;
}

/* scope: "20261130/us-east-1/bedrock/aws4_request" */
static bool sign(const struct sigv4_request *r, const char *date, const char *scope,
                 const char *request_hex, char hex[SIGV4_HEX_SIZE])
{
    char text[1024];
    int len = snprintf(text, sizeof text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, request_hex);
    assert(len > 0 && (size_t)len < sizeof text); /* the parts were checked */
    char secret[4 + SECRET_MAX + 1];
    int secret_len = snprintf(secret, sizeof secret, "AWS4%s", r->secret_access_key);
    assert(secret_len > 0 && (size_t)secret_len < sizeof secret);

    EVP_MAC_CTX *ctx = EVP_MAC_CTX_dup(hmac);
    unsigned char a[SUM_BYTES], b[SUM_BYTES];
    bool ok = ctx && mac(ctx, secret, (size_t)secret_len, date, DAY_CHARS, a) &&
              mac(ctx, a, SUM_BYTES, r->region, strlen(r->region), b) &&
              mac(ctx, b, SUM_BYTES, r->service, strlen(r->service), a) &&
              mac(ctx, a, SUM_BYTES, "aws4_request", 12, b) &&
              mac(ctx, b, SUM_BYTES, text, (size_t)len, a);
    if (ok) {
        write_hex(a, hex);
    }
    EVP_MAC_CTX_free(ctx); /* wipes the key it held */
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(a, sizeof a);
    explicit_bzero(b, sizeof b);
    return ok;
}

static bool write_date(int64_t time_s, char date[SIGV4_DATE_SIZE])
{
    time_t t = (time_t)time_s;
    struct tm tm;
    return gmtime_r(&t, &tm) &&
           strftime(date, SIGV4_DATE_SIZE, "%Y%m%dT%H%M%SZ", &tm) == SIGV4_DATE_SIZE - 1;
}

static bool write_headers(const struct sigv4_request *r, struct sigv4_headers *out)
{
    char request_hex[SIGV4_HEX_SIZE], hex[SIGV4_HEX_SIZE], scope[3 * NAME_MAX_BYTES];
    if (!hmac || !sha256 || !write_date(r->time_s, out->date) ||
        !hash_request(r, out, request_hex)) {
        return false;
    }
    int n = snprintf(scope, sizeof scope, "%.*s/%s/%s/aws4_request", DAY_CHARS, out->date,
                     r->region, r->service);
    assert(n > 0 && (size_t)n < sizeof scope); /* the names were checked */
    if (!sign(r, out->date, scope, request_hex, hex)) {
        return false;
    }
    n = snprintf(out->authorization, sizeof out->authorization,
                 "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
                 r->access_key_id, scope, signed_names(r), hex);
    assert(n > 0 && (size_t)n < sizeof out->authorization);
    return true;
}

bool sigv4_sign(const struct sigv4_request *r, struct sigv4_headers *out, struct failure *f)
{
    if (!check_keys(r, f) || !check_rest(r, f)) {
        return false;
    }
    (void)pthread_once(&fetch_once, fetch);
    struct sigv4_headers h;
    if (!write_headers(r, &h)) {
        return failure_set(f, 500, "bad_signature", NULL,
                           "a request to AWS could not be signed: libcrypto has no SHA-256 or no "
                           "memory");
    }
    *out = h;
    return true;
}

bool sigv4_url_path(const char *id, char *out, size_t out_size)
{
    assert(out_size > 0);
    size_t n = 0;
    out[0] = '\0';
    if (!*id || strcmp(id, ".") == 0 || strcmp(id, "..") == 0) {
        return false;
    }
    for (const char *p = id; *p; p++) {
        size_t k = is_unreserved(*p) ? 1 : 3;
        if (out_size - n <= k) {
            out[0] = '\0';
            return false;
        }
        if (k == 1) {
            out[n] = *p;
        } else {
            write_escape(*p, out + n);
        }
        n += k;
    }
    out[n] = '\0';
    return true;
}
