/* sha256.c - see sha256.h. */
#include "sha256.h"

void sha256_init(struct sha256 *s)
{
    (void)SHA256_Init(&s->ctx); /* always 1 */
}

void sha256_update(struct sha256 *s, const void *bytes, size_t n)
{
    (void)SHA256_Update(&s->ctx, bytes, n);
}

void sha256_final(struct sha256 *s, unsigned char digest[32])
{
    (void)SHA256_Final(digest, &s->ctx);
}

void sha256_hex(const unsigned char digest[32], char hex[65])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = '\0';
}
