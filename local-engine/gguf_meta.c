/* gguf_meta.c - what the metadata say: typed questions, each answered with a value or with a line
 * that names file and key. gguf.c has checked that every value lies inside the file. */
#include "gguf_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_key(const void *a, const void *b)
{
    const struct gguf_entry *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

static const struct gguf_entry *find(const struct gguf *g, const char *key)
{
    struct gguf_entry e = {.key = (char *)(uintptr_t)key};
    const struct gguf_entry *at = &e;
    if (g->n_entries == 0) {
        return NULL;
    }
    struct gguf_entry **found = bsearch(&at, g->by_key, g->n_entries, sizeof(g->by_key[0]), by_key);
    return found ? *found : NULL;
}

static bool fail(const struct gguf *g, const char *key, const char *what, struct engine_error *err)
{
    return engine_fail(err, ENGINE_BAD_FILE, "", "%s: key '%.80s' %s", g->label, key, what);
}

bool gguf_has(const struct gguf *g, const char *key)
{
    return find(g, key) != NULL;
}

/* ---------------------------------------------------------------- scalars */

static bool kind_of(uint32_t type, enum gguf_kind *kind)
{
    if (type == GGUF_F32 || type == GGUF_F64) {
        *kind = GGUF_REAL;
    } else if (type == GGUF_BOOL8) {
        *kind = GGUF_BOOL;
    } else if (type == GGUF_TEXT) {
        *kind = GGUF_STRING;
    } else {
        *kind = GGUF_INTEGER;
    }
    return type != GGUF_ARRAY && type < GGUF_N_TYPES;
}

static int64_t integer(uint32_t type, const unsigned char *p)
{
    int size = gguf_type_size(type);
    uint64_t x = gguf_little(p, size);
    switch (type) {
    case GGUF_I8:
        return (int8_t)(uint8_t)x;
    case GGUF_I16:
        return (int16_t)(uint16_t)x;
    case GGUF_I32:
        return (int32_t)(uint32_t)x;
    case GGUF_I64:
        return (int64_t)x;
    default:
        return x > INT64_MAX ? INT64_MAX : (int64_t)x;
    }
}

static double real(uint32_t type, const unsigned char *p)
{
    if (type == GGUF_F32) {
        uint32_t bits = (uint32_t)gguf_little(p, 4);
        float x;
        memcpy(&x, &bits, sizeof x);
        return (double)x;
    }
    if (type == GGUF_F64) {
        uint64_t bits = gguf_little(p, 8);
        double x;
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    return (double)integer(type, p);
}

bool gguf_get_int(const struct gguf *g, const char *key, int64_t min, int64_t max, int64_t fallback,
                  int64_t *out, struct engine_error *err)
{
    const struct gguf_entry *e = find(g, key);
    enum gguf_kind kind;
    if (!e && fallback == GGUF_REQUIRED) {
        return fail(g, key, "is missing", err);
    }
    if (!e) {
        *out = fallback;
        return true;
    }
    if (!kind_of(e->type, &kind) || kind != GGUF_INTEGER) {
        return fail(g, key, "must be a whole number", err);
    }
    int64_t n = integer(e->type, e->data);
    if (n < min || n > max) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: key '%.80s' is %lld, %lld to %lld expected", g->label, key,
                           (long long)n, (long long)min, (long long)max);
    }
    *out = n;
    return true;
}

bool gguf_get_real(const struct gguf *g, const char *key, double fallback, double *out,
                   struct engine_error *err)
{
    const struct gguf_entry *e = find(g, key);
    enum gguf_kind kind;
    if (!e) {
        *out = fallback;
        return true;
    }
    if (!kind_of(e->type, &kind) || (kind != GGUF_INTEGER && kind != GGUF_REAL) ||
        !isfinite(real(e->type, e->data))) {
        return fail(g, key, "must be a finite number", err);
    }
    *out = real(e->type, e->data);
    return true;
}

bool gguf_get_bool(const struct gguf *g, const char *key, bool fallback, bool *out,
                   struct engine_error *err)
{
    const struct gguf_entry *e = find(g, key);
    if (e && e->type != GGUF_BOOL8) {
        return fail(g, key, "must be true or false", err);
    }
    *out = e ? e->data[0] != 0 : fallback;
    return true;
}

bool gguf_get_string(const struct gguf *g, const char *key, struct gguf_string *out,
                     struct engine_error *err)
{
    const struct gguf_entry *e = find(g, key);
    if (!e) {
        *out = (struct gguf_string){"", 0, false};
        return true;
    }
    if (e->type != GGUF_TEXT) {
        return fail(g, key, "must be a string", err);
    }
    *out = (struct gguf_string){(const char *)e->data, e->n, true};
    return true;
}

/* ---------------------------------------------------------------- arrays */

bool gguf_get_array(const struct gguf *g, const char *key, enum gguf_kind kind,
                    struct gguf_array *out, struct engine_error *err)
{
    static const char *const want[] = {[GGUF_INTEGER] = "must be an array of whole numbers",
                                       [GGUF_REAL] = "must be an array of numbers",
                                       [GGUF_BOOL] = "must be an array of true and false",
                                       [GGUF_STRING] = "must be an array of strings"};
    const struct gguf_entry *e = find(g, key);
    enum gguf_kind is;
    if (!e) {
        *out = (struct gguf_array){.kind = kind};
        return true;
    }
    if (e->type != GGUF_ARRAY || !kind_of(e->element, &is) || is != kind) {
        return fail(g, key, want[kind], err);
    }
    *out = (struct gguf_array){kind, e->element, e->n, e->data, true};
    return true;
}

int64_t gguf_array_int(const struct gguf_array *a, size_t i)
{
    return integer(a->type, a->data + i * (size_t)gguf_type_size(a->type));
}

double gguf_array_real(const struct gguf_array *a, size_t i)
{
    return real(a->type, a->data + i * (size_t)gguf_type_size(a->type));
}

struct gguf_string gguf_array_string(const struct gguf_array *a, size_t *at)
{
    const unsigned char *p = a->data + *at;
    size_t len = (size_t)gguf_little(p, 8);
    *at += 8 + len;
    return (struct gguf_string){(const char *)p + 8, len, true};
}

bool gguf_pair(const struct gguf *g, size_t i, struct gguf_pair *out)
{
    if (i >= g->n_entries) {
        return false;
    }
    *out = g->entry[i].pair;
    return true;
}
