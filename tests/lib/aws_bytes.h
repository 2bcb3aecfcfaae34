/* aws_bytes.h - for tests: frames of application/vnd.amazon.eventstream from what they say. */
#ifndef ISOTHERM_TEST_AWS_BYTES_H
#define ISOTHERM_TEST_AWS_BYTES_H

#include "gateway/base/buf.h"
#include <string.h>
#include <zlib.h>

#define AWS_BYTES_AROUND 16 /* of a frame beside its headers and payload */

/* Numbers are big-endian. */
static inline size_t aws_put_u32(char *to, size_t n)
{
    for (int i = 0; i < 4; i++) {
        to[i] = (char)(n >> (24 - 8 * i));
    }
    return 4;
}

/* A header whose value is a string; returns its bytes: both lengths and 4. */
static inline size_t aws_put_header(char *to, const char *name, struct slice value)
{
    size_t n = strlen(name);
    to[0] = (char)n;
    memcpy(to + 1, name, n);
    to[n + 1] = 7;
    to[n + 2] = (char)(value.len >> 8);
    to[n + 3] = (char)value.len;
    if (value.len > 0) {
        memcpy(to + n + 4, value.p, value.len);
    }
    return n + 4 + value.len;
}

/* Completes a frame whose headers, `headers` bytes, are already at to + 12. */
static inline size_t aws_put_frame(char *to, size_t headers, struct slice payload)
{
    size_t n = 12 + headers + payload.len;
    if (payload.len > 0) {
        memcpy(to + 12 + headers, payload.p, payload.len);
    }
    (void)aws_put_u32(to, n + 4);
    (void)aws_put_u32(to + 4, headers);
    (void)aws_put_u32(to + 8, crc32(0, (const Bytef *)to, 8));
    return n + aws_put_u32(to + n, crc32(0, (const Bytef *)to, (uInt)n));
}

#endif
