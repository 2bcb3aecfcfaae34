/* gguf_builder.h - builds .gguf files byte by byte, right or wrong, for the tests of their readers.
 */
#ifndef ISOTHERM_TEST_GGUF_BYTES_H
#define ISOTHERM_TEST_GGUF_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct gguf_bytes {
    unsigned char *p;
    size_t n, cap;
};

static inline void gguf_put(struct gguf_bytes *b, const void *bytes, size_t n)
{
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n);
        b->p = realloc(b->p, b->cap);
        if (!b->p) {
            abort();
        }
    }
    if (n > 0) {
        memcpy(b->p + b->n, bytes, n);
    }
    b->n += n;
}

static inline void gguf_put_int(struct gguf_bytes *b, uint64_t x, int n)
{
    for (int i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)(x >> (8 * i));
        gguf_put(b, &byte, 1);
    }
}

static inline void gguf_put_text(struct gguf_bytes *b, const char *text)
{
    gguf_put_int(b, strlen(text), 8);
    gguf_put(b, text, strlen(text));
}

static inline void gguf_put_head(struct gguf_bytes *b, uint64_t n_tensors, uint64_t n_keys)
{
    gguf_put(b, "GGUF", 4);
    gguf_put_int(b, 3, 4);
    gguf_put_int(b, n_tensors, 8);
    gguf_put_int(b, n_keys, 8);
}

/* A pair whose value follows. Types: 4 uint32, 5 int32, 6 float32, 7 bool, 8 string, 9 array ... */
static inline void gguf_put_key(struct gguf_bytes *b, const char *key, uint32_t type)
{
    gguf_put_text(b, key);
    gguf_put_int(b, type, 4);
}

static inline void gguf_put_u32(struct gguf_bytes *b, const char *key, uint32_t value)
{
    gguf_put_key(b, key, 4);
    gguf_put_int(b, value, 4);
}

static inline void gguf_put_f32(struct gguf_bytes *b, const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    gguf_put_key(b, key, 6);
    gguf_put_int(b, bits, 4);
}

static inline void gguf_put_string(struct gguf_bytes *b, const char *key, const char *value)
{
    gguf_put_key(b, key, 8);
    gguf_put_text(b, value);
}

/* An array whose `n` values follow. */
static inline void gguf_put_list(struct gguf_bytes *b, const char *key, uint32_t type, uint64_t n)
{
    gguf_put_key(b, key, 9);
    gguf_put_int(b, type, 4);
    gguf_put_int(b, n, 8);
}

/* Rows first, as the reader tells them; 1 for a dimension that is not there. */
static inline void gguf_put_tensor(struct gguf_bytes *b, const char *name, uint64_t rows,
                                   uint64_t columns, uint32_t type, uint64_t offset)
{
    gguf_put_text(b, name);
    gguf_put_int(b, rows == 1 ? 1 : 2, 4);
    gguf_put_int(b, columns, 8);
    if (rows != 1) {
        gguf_put_int(b, rows, 8);
    }
    gguf_put_int(b, type, 4);
    gguf_put_int(b, offset, 8);
}

/* Zeros up to a multiple of `alignment`. */
static inline void gguf_pad(struct gguf_bytes *b, size_t alignment)
{
    while (b->n % alignment != 0) {
        gguf_put(b, "", 1);
    }
}

#endif
