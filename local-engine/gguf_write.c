/* gguf_write.c - pairs and tensor descriptions go into two growing buffers, since their counts
 * stand before them. */
#include "gguf_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 32
enum { TYPE_U32 = 4, TYPE_F32 = 6, TYPE_BOOL = 7, TYPE_STRING = 8 };

struct bytes {
    unsigned char *p;
    size_t n, cap;
};

struct gguf_writer {
    FILE *out;
    struct bytes pairs, tensors;
    uint64_t n_pairs, n_tensors;
    uint64_t offset;          /* of the next tensor */
    uint64_t *size;           /* of each tensor */
    uint64_t current, n_done; /* the tensor whose data come, and how much of it came */
    int error;                /* errno, or 0 */
};

struct gguf_writer *gguf_writer_new(FILE *out)
{
    struct gguf_writer *w = calloc(1, sizeof *w);
    if (w) {
        w->out = out;
    }
    return w;
}

void gguf_writer_free(struct gguf_writer *w)
{
    if (w) {
        free(w->pairs.p);
        free(w->tensors.p);
        free(w->size);
        free(w);
    }
}

static void put(struct gguf_writer *w, struct bytes *b, const void *bytes, size_t n)
{
    if (w->error || n == 0) {
        return;
    }
    if (n > b->cap - b->n) {
        size_t cap = 2 * (b->n + n);
        unsigned char *grown = realloc(b->p, cap);
        if (!grown) {
            w->error = ENOMEM;
            return;
        }
        b->p = grown;
        b->cap = cap;
    }
    memcpy(b->p + b->n, bytes, n);
    b->n += n;
}

static void put_int(struct gguf_writer *w, struct bytes *b, uint64_t x, int n)
{
    unsigned char bytes[8];
    for (int i = 0; i < n; i++) {
        bytes[i] = (unsigned char)(x >> (8 * i));
    }
    put(w, b, bytes, (size_t)n);
}

static void put_text(struct gguf_writer *w, struct bytes *b, const char *text, size_t len)
{
    put_int(w, b, len, 8);
    put(w, b, text, len);
}

static void put_key(struct gguf_writer *w, const char *key, uint32_t type)
{
    put_text(w, &w->pairs, key, strlen(key));
    put_int(w, &w->pairs, type, 4);
    w->n_pairs++;
}

void gguf_write_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
    put_key(w, key, TYPE_U32);
    put_int(w, &w->pairs, value, 4);
}

void gguf_write_f32(struct gguf_writer *w, const char *key, double value)
{
    float x = (float)value;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_key(w, key, TYPE_F32);
    put_int(w, &w->pairs, bits, 4);
}

void gguf_write_bool(struct gguf_writer *w, const char *key, bool value)
{
    put_key(w, key, TYPE_BOOL);
    put_int(w, &w->pairs, value, 1);
}

void gguf_write_string(struct gguf_writer *w, const char *key, const char *text, size_t len)
{
    put_key(w, key, TYPE_STRING);
    put_text(w, &w->pairs, text, len);
}

void gguf_write_pair(struct gguf_writer *w, const struct gguf_pair *pair)
{
    put_key(w, pair->key, pair->type);
    put(w, &w->pairs, pair->data, pair->n_bytes);
}

static uint64_t padded(uint64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void gguf_write_tensor(struct gguf_writer *w, const char *name, const struct gguf_tensor_type *type,
                       int n_dims, const int64_t *dim)
{
    uint64_t n = 1;
    uint64_t *grown = realloc(w->size, (w->n_tensors + 1) * sizeof *grown);
    if (!grown) {
        w->error = ENOMEM;
        return;
    }
    w->size = grown;
    put_text(w, &w->tensors, name, strlen(name));
    put_int(w, &w->tensors, (uint64_t)n_dims, 4);
    for (int i = n_dims - 1; i >= 0; i--) {
        put_int(w, &w->tensors, (uint64_t)dim[i], 8);
        n *= (uint64_t)dim[i];
    }
    put_int(w, &w->tensors, type->id, 4);
    put_int(w, &w->tensors, w->offset, 8);
    w->size[w->n_tensors++] = n / type->n_elements * type->n_bytes;
    w->offset += padded(w->size[w->n_tensors - 1]);
}

static void out(struct gguf_writer *w, const void *bytes, size_t n)
{
    errno = 0;
    if (!w->error && n > 0 && fwrite(bytes, 1, n, w->out) != n) {
        w->error = errno ? errno : EIO;
    }
}

static void pad(struct gguf_writer *w, uint64_t n)
{
    static const unsigned char zeros[ALIGNMENT];
    out(w, zeros, (size_t)(padded(n) - n));
}

void gguf_write_header(struct gguf_writer *w)
{
    struct bytes head = {0};
    put(w, &head, "GGUF", 4);
    put_int(w, &head, 3, 4);
    put_int(w, &head, w->n_tensors, 8);
    put_int(w, &head, w->n_pairs, 8);
    out(w, head.p, head.n);
    out(w, w->pairs.p, w->pairs.n);
    out(w, w->tensors.p, w->tensors.n);
    pad(w, head.n + w->pairs.n + w->tensors.n);
    free(head.p);
}

void gguf_write_data(struct gguf_writer *w, const void *bytes, size_t n)
{
    if (w->error) {
        return;
    }
    if (w->current >= w->n_tensors || n > w->size[w->current] - w->n_done) {
        w->error = EMSGSIZE;
        return;
    }
    out(w, bytes, n);
    w->n_done += n;
    if (w->n_done == w->size[w->current]) {
        pad(w, w->n_done);
        w->current++;
        w->n_done = 0;
    }
}

bool gguf_writer_end(struct gguf_writer *w, struct engine_error *err)
{
    if (!w->error && w->current != w->n_tensors) {
        w->error = EMSGSIZE;
    }
    return !w->error || engine_fail(err, w->error == ENOMEM ? ENGINE_NOMEM : ENGINE_IO, "",
                                    "the file cannot be written: %s", strerror(w->error));
}
