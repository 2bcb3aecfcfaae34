/* catalog_sha256.h - SHA-256 (FIPS 180-4): names the content of a claim and of a version. */
#ifndef ISOTHERM_CATALOG_SHA256_H
#define ISOTHERM_CATALOG_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_LEN     32
#define SHA256_HEX_LEN 65 /* with the final zero */

struct catalog_sha256 {
    uint32_t state[8];
    uint64_t n_bytes;
    unsigned char block[64];
};

void catalog_sha256_init(struct catalog_sha256 *h);
void catalog_sha256_add(struct catalog_sha256 *h, const void *data, size_t len);
void catalog_sha256_end(struct catalog_sha256 *h, unsigned char out[SHA256_LEN]);
void catalog_sha256_hex(const unsigned char digest[SHA256_LEN], char out[SHA256_HEX_LEN]);

#endif
