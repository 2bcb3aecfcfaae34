/* sha256.h - SHA-256, by libcrypto (a large model file is hashed at its speed), for naming model
 * files. Cannot fail; no allocation. */
#ifndef ISOTHERM_SHA256_H
#define ISOTHERM_SHA256_H

#define OPENSSL_API_COMPAT 0x10100000L /* the plain functions: no context to allocate */
#include <openssl/sha.h>
#include <stddef.h>

struct sha256 {
    SHA256_CTX ctx;
};

void sha256_init(struct sha256 *s);
void sha256_update(struct sha256 *s, const void *bytes, size_t n);
/* Ends the sum; s must be initialised again before another use. */
void sha256_final(struct sha256 *s, unsigned char digest[32]);
/* Lower-case hex of the digest, NUL-terminated. */
void sha256_hex(const unsigned char digest[32], char hex[65]);

#endif
