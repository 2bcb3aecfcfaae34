/* catalog_sha256.h - SHA-256, by libcrypto: names the content of a claim and of a version. Cannot
 * fail; no allocation. */
#ifndef ISOTHERM_CATALOG_SHA256_H
#define ISOTHERM_CATALOG_SHA256_H

#define OPENSSL_API_COMPAT 0x10100000L /* the plain functions: no context to allocate */
#include <openssl/sha.h>
#include <stddef.h>

#define SHA256_LEN     SHA256_DIGEST_LENGTH
#define SHA256_HEX_LEN 65 /* with the final zero */

struct catalog_sha256 {
    SHA256_CTX ctx;
};

void catalog_sha256_init(struct catalog_sha256 *h);
void catalog_sha256_add(struct catalog_sha256 *h, const void *data, size_t len);
void catalog_sha256_end(struct catalog_sha256 *h, unsigned char out[SHA256_LEN]);
void catalog_sha256_hex(const unsigned char digest[SHA256_LEN], char out[SHA256_HEX_LEN]);

#endif
