/* sha256.h - SHA-256 (FIPS 180-4) for naming model files. Cannot fail; no allocation. */
#ifndef ISOTHERM_SHA256_H
#define ISOTHERM_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t n_bytes;
    uint8_t block[64];
    size_t n_block; /* bytes waiting in block */
};

void sha256_init(struct sha256 *s);
void sha256_update(struct sha256 *s, const void *bytes, size_t n);
/* Ends the sum; s must be initialised again before another use. */
void sha256_final(struct sha256 *s, uint8_t digest[32]);
/* Lower-case hex of the digest, NUL-terminated. */
void sha256_hex(const uint8_t digest[32], char hex[65]);

#endif
