/* safetensors.c - reads the header with jansson, checks every field, then sorts the tensors: by
 * offset to prove that they tile the data, by name to find them. The JSON is kept, because the
 * tensors' names and types are borrowed from it.
 */
#include "safetensors.h"

#include "filemap.h"
#include "jsontree.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct safetensors {
    char label[64];
    const unsigned char *bytes;
    size_t n_bytes;
    struct filemap map; /* what `bytes` is of, unless they are the caller's */
    json_t *header;
    struct safetensors_tensor *tensor;
    size_t n_tensors;
};

static const struct {
    const char *name;
    uint64_t n_bytes;
} DTYPE[] = {
    {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8},     {"I64", 8},
    {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U8", 1},      {"U16", 2},
    {"U32", 4}, {"U64", 8}, {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
};

static uint64_t dtype_bytes(const char *name)
{
    for (size_t i = 0; i < sizeof DTYPE / sizeof DTYPE[0]; i++) {
        if (strcmp(DTYPE[i].name, name) == 0) {
            return DTYPE[i].n_bytes;
        }
    }
    return 0;
}

static bool bad(const struct safetensors *st, struct engine_error *err, const char *name,
                const char *what)
{
    return engine_fail(err, ENGINE_BAD_FILE, "", "%s: tensor '%.100s' %s", st->label, name, what);
}

/* Error texts are one line, so a name must be printable. */
static bool check_name(const struct safetensors *st, const char *name, struct engine_error *err)
{
    size_t len = strlen(name);
    if (len == 0 || len > SAFETENSORS_NAME_MAX) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: a tensor's name has %zu bytes, 1 to %d expected", st->label, len,
                           SAFETENSORS_NAME_MAX);
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f) {
            return engine_fail(err, ENGINE_BAD_FILE, "",
                               "%s: a tensor's name holds a control character", st->label);
        }
    }
    return true;
}

static bool parse_shape(const struct safetensors *st, const json_t *j, struct safetensors_tensor *t,
                        struct engine_error *err)
{
    size_t n = json_array_size(j);
    if (!json_is_array(j) || n > SAFETENSORS_DIMS_MAX) {
        return bad(st, err, t->name, "has no 'shape' of at most 8 dimensions");
    }
    t->n_elements = 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *d = json_array_get(j, i);
        if (!json_is_integer(d) || json_integer_value(d) < 0) {
            return bad(st, err, t->name, "has a dimension that is no whole number");
        }
        t->dim[i] = json_integer_value(d);
        if (__builtin_mul_overflow(t->n_elements, t->dim[i], &t->n_elements)) {
            return bad(st, err, t->name, "has a shape whose product is too large");
        }
    }
    t->n_dims = (int)n;
    return true;
}

static bool parse_extent(const struct safetensors *st, const json_t *j, const unsigned char *data,
                         uint64_t n_data, struct safetensors_tensor *t, struct engine_error *err)
{
    const json_t *a = json_array_get(j, 0), *b = json_array_get(j, 1);
    if (json_array_size(j) != 2 || !json_is_integer(a) || !json_is_integer(b)) {
        return bad(st, err, t->name, "has no 'data_offsets' of two whole numbers");
    }
    json_int_t begin = json_integer_value(a), end = json_integer_value(b);
    if (begin < 0 || end < begin || (uint64_t)end > n_data) {
        return engine_fail(
            err, ENGINE_BAD_FILE, "",
            "%s: tensor '%.100s' has data_offsets [%lld, %lld], the file has %llu bytes of data",
            st->label, t->name, (long long)begin, (long long)end, (unsigned long long)n_data);
    }
    uint64_t want;
    t->n_bytes = (uint64_t)(end - begin);
    if (__builtin_mul_overflow((uint64_t)t->n_elements, dtype_bytes(t->dtype), &want) ||
        want != t->n_bytes) {
        return bad(st, err, t->name, "has data_offsets that do not match its dtype and shape");
    }
    t->data = data + begin;
    return true;
}

static bool parse_tensor(const struct safetensors *st, const char *name, const json_t *j,
                         const unsigned char *data, uint64_t n_data, struct safetensors_tensor *t,
                         struct engine_error *err)
{
    t->name = name;
    if (!check_name(st, name, err)) {
        return false;
    }
    t->dtype = json_string_value(json_object_get(j, "dtype"));
    if (!t->dtype || dtype_bytes(t->dtype) == 0) {
        return bad(st, err, name, "has no known 'dtype'");
    }
    return parse_shape(st, json_object_get(j, "shape"), t, err) &&
           parse_extent(st, json_object_get(j, "data_offsets"), data, n_data, t, err);
}

static int by_offset(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    if (x->data != y->data) {
        return x->data < y->data ? -1 : 1;
    }
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes); /* empty ones first */
}

static int by_name(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static bool check_tiling(struct safetensors *st, const unsigned char *data, uint64_t n_data,
                         struct engine_error *err)
{
    const unsigned char *at = data;
    qsort(st->tensor, st->n_tensors, sizeof st->tensor[0], by_offset);
    for (size_t i = 0; i < st->n_tensors; i++) {
        if (st->tensor[i].data != at) {
            return bad(st, err, st->tensor[i].name,
                       "overlaps another tensor or leaves a hole before it");
        }
        at += st->tensor[i].n_bytes;
    }
    if ((uint64_t)(at - data) != n_data) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: %llu bytes after the last tensor belong to none", st->label,
                           (unsigned long long)(n_data - (uint64_t)(at - data)));
    }
    qsort(st->tensor, st->n_tensors, sizeof st->tensor[0], by_name);
    return true;
}

static bool parse_tensors(struct safetensors *st, const unsigned char *data, uint64_t n_data,
                          struct engine_error *err)
{
    const char *name;
    json_t *j;
    st->tensor = calloc(json_object_size(st->header) + 1, sizeof st->tensor[0]);
    if (!st->tensor) {
        return engine_fail(err, ENGINE_NOMEM, "", "%s: out of memory for the header", st->label);
    }
    json_object_foreach (st->header, name, j) {
        if (strcmp(name, "__metadata__") == 0) {
            continue;
        }
        if (!parse_tensor(st, name, j, data, n_data, &st->tensor[st->n_tensors], err)) {
            return false;
        }
        st->n_tensors++;
    }
    return check_tiling(st, data, n_data, err);
}

static bool parse_header(struct safetensors *st, struct engine_error *err)
{
    if (st->n_bytes < 8) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: %zu bytes are no safetensors file",
                           st->label, st->n_bytes);
    }
    uint64_t n_header = 0;
    for (int i = 7; i >= 0; i--) {
        n_header = n_header << 8 | st->bytes[i];
    }
    if (n_header > SAFETENSORS_HEADER_MAX || n_header > st->n_bytes - 8) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: header of %llu bytes does not fit the file of %zu bytes (limit %u)",
                           st->label, (unsigned long long)n_header, st->n_bytes,
                           SAFETENSORS_HEADER_MAX);
    }
    json_error_t je = {.text = "too many values"};
    const char *text = (const char *)st->bytes + 8;
    st->header = jsontree_fits(text, (size_t)n_header)
                     ? json_loadb(text, (size_t)n_header, JSON_REJECT_DUPLICATES, &je)
                     : NULL;
    if (!json_is_object(st->header)) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: header is no JSON object: %.100s",
                           st->label, st->header ? "another kind of value" : je.text);
    }
    return parse_tensors(st, st->bytes + 8 + n_header, st->n_bytes - 8 - n_header, err);
}

static struct safetensors *new_object(const char *label, struct engine_error *err)
{
    struct safetensors *st = calloc(1, sizeof *st);
    if (!st) {
        (void)engine_fail(err, ENGINE_NOMEM, "", "%s: out of memory", label);
        return NULL;
    }
    (void)snprintf(st->label, sizeof st->label, "%s", label);
    return st;
}

bool safetensors_parse(struct safetensors **out, const unsigned char *bytes, size_t n,
                       const char *label, struct engine_error *err)
{
    struct safetensors *st = new_object(label, err);
    if (!st) {
        return false;
    }
    st->bytes = bytes;
    st->n_bytes = n;
    if (!parse_header(st, err)) {
        safetensors_close(st);
        return false;
    }
    *out = st;
    return true;
}

bool safetensors_open(struct safetensors **out, const char *path, struct engine_error *err)
{
    struct safetensors *st = new_object(filemap_name(path), err);
    if (!st) {
        return false;
    }
    if (!filemap_open(&st->map, path, st->label, 8, "safetensors", err)) {
        safetensors_close(st);
        return false;
    }
    st->bytes = st->map.bytes;
    st->n_bytes = st->map.n;
    if (!parse_header(st, err)) {
        safetensors_close(st);
        return false;
    }
    *out = st;
    return true;
}

void safetensors_close(struct safetensors *st)
{
    if (!st) {
        return;
    }
    filemap_close(&st->map);
    json_decref(st->header);
    free(st->tensor);
    free(st);
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *st, const char *name)
{
    struct safetensors_tensor key = {.name = name};
    if (st->n_tensors == 0) {
        return NULL;
    }
    return bsearch(&key, st->tensor, st->n_tensors, sizeof key, by_name);
}

const struct safetensors_tensor *safetensors_all(const struct safetensors *st, size_t *n)
{
    *n = st->n_tensors;
    return st->tensor;
}

const char *safetensors_label(const struct safetensors *st)
{
    return st->label;
}

const struct filemap *safetensors_file(const struct safetensors *st)
{
    return &st->map;
}
