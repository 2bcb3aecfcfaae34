/* gguf_bytes.h - .gguf files made to measure, for the tests and the fuzzing of what reads them. */
#ifndef ISOTHERM_TESTS_GGUF_BYTES_H
#define ISOTHERM_TESTS_GGUF_BYTES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GGUF_BYTES_U32 = 4,
    GGUF_BYTES_I32 = 5,
    GGUF_BYTES_F32 = 6,
    GGUF_BYTES_BOOL = 7,
    GGUF_BYTES_STRING = 8
};

/* Pairs are put one after the other; the count is written at the end. */
struct gguf_bytes {
    FILE *f;
    char *p;
    size_t len;
    uint64_t n_pairs;
};

static inline void gguf_bytes_raw(struct gguf_bytes *g, const void *p, size_t n)
{
    if (fwrite(p, 1, n, g->f) != n) {
        abort();
    }
}
static inline void gguf_bytes_u32(struct gguf_bytes *g, uint32_t v)
{
    gguf_bytes_raw(g, &v, sizeof v);
}
static inline void gguf_bytes_u64(struct gguf_bytes *g, uint64_t v)
{
    gguf_bytes_raw(g, &v, sizeof v);
}
static inline void gguf_bytes_text(struct gguf_bytes *g, const char *s, size_t len)
{
    gguf_bytes_u64(g, len);
    gguf_bytes_raw(g, s, len);
}

static inline void gguf_bytes_begin(struct gguf_bytes *g)
{
    *g = (struct gguf_bytes){0};
    g->f = open_memstream(&g->p, &g->len);
    if (!g->f) {
        abort();
    }
    gguf_bytes_raw(g, "GGUF", 4);
    gguf_bytes_u32(g, 3);
    gguf_bytes_u64(g, 0);
    gguf_bytes_u64(g, 0);
}
/* The bytes are g->p, g->len: yours. */
static inline void gguf_bytes_end(struct gguf_bytes *g)
{
    if (fclose(g->f) != 0) {
        abort();
    }
    memcpy(g->p + 16, &g->n_pairs, sizeof g->n_pairs);
}

static inline void gguf_bytes_key(struct gguf_bytes *g, const char *key, uint32_t type)
{
    g->n_pairs++;
    gguf_bytes_text(g, key, strlen(key));
    gguf_bytes_u32(g, type);
}
static inline void gguf_bytes_put_text(struct gguf_bytes *g, const char *key, const char *s)
{
    gguf_bytes_key(g, key, GGUF_BYTES_STRING);
    gguf_bytes_text(g, s, strlen(s));
}
static inline void gguf_bytes_put_int(struct gguf_bytes *g, const char *key, uint32_t v)
{
    gguf_bytes_key(g, key, GGUF_BYTES_U32);
    gguf_bytes_u32(g, v);
}
static inline void gguf_bytes_put_bool(struct gguf_bytes *g, const char *key, char v)
{
    gguf_bytes_key(g, key, GGUF_BYTES_BOOL);
    gguf_bytes_raw(g, &v, 1);
}
/* n elements follow, raw. */
static inline void gguf_bytes_list(struct gguf_bytes *g, const char *key, uint32_t type, uint64_t n)
{
    gguf_bytes_key(g, key, 9);
    gguf_bytes_u32(g, type);
    gguf_bytes_u64(g, n);
}

#endif
