/* sigv4.h - AWS Signature Version 4 of one request. Pure: the time is given. Nothing is allocated
 * but libcrypto's own contexts, which are gone, wiped, when the call is.
 *
 * What is signed, and so must be sent unchanged:
 *   host, content-type            as given here
 *   x-amz-date                    out->date
 *   x-amz-content-sha256          out->content_sha256
 *   x-amz-security-token          session_token, where there is one
 *   authorization                 out->authorization (not signed, carries the signature)
 * Other headers may be added freely. There is no query string: Bedrock's calls have none.
 *
 * The path is given as it is sent. Services other than S3 encode each segment of it again before
 * they hash it: `%3A` on the wire is `%253A` in the canonical request (that is where libcurl 7.88
 * signs wrongly).
 */
#ifndef ISOTHERM_SIGV4_H
#define ISOTHERM_SIGV4_H

#include "gateway/base/buf.h"
#include "gateway/base/failure.h"
#include <stdint.h>

/* All borrowed; none NULL but session_token. */
struct sigv4_request {
    const char *method;       /* "POST" */
    const char *host;         /* as in the Host header: lower case, ":port" if not the default */
    const char *path;         /* "/model/ID/converse", ID from sigv4_url_path() */
    const char *content_type; /* without blanks at its ends or two in a row */
    struct slice body;
    const char *region, *service; /* "us-east-1", "bedrock" */
    const char *access_key_id, *secret_access_key;
    const char *session_token; /* of temporary credentials; or NULL */
    int64_t time_s;            /* since 1970; AWS allows a clock to be 5 minutes off */
};

#define SIGV4_DATE_SIZE          17 /* "20261130T000000Z" */
#define SIGV4_HEX_SIZE           65
#define SIGV4_AUTHORIZATION_SIZE 640 /* the longest names that are taken fit */
struct sigv4_headers {
    char date[SIGV4_DATE_SIZE];
    char content_sha256[SIGV4_HEX_SIZE];
    char authorization[SIGV4_AUTHORIZATION_SIZE];
};

/* false: a value cannot be sent or signed (500 bad_api_key for the credentials, else
 * bad_signature), or libcrypto refused. Neither the key nor the token is ever in a failure. Out is
 * untouched then. */
bool sigv4_sign(const struct sigv4_request *r, struct sigv4_headers *out, struct failure *f)
    __attribute__((warn_unused_result));

/* A model id or ARN as one segment of a path: all but A-Z a-z 0-9 - _ . ~ as %XX, `/` too. false:
 * it is empty, "." or "..", or does not fit out_size; out is "" then. */
bool sigv4_url_path(const char *id, char *out, size_t out_size) __attribute__((warn_unused_result));

#endif
