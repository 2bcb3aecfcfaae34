/* model_bind.c - from a tensor's name to a checked matrix or vector. Nothing is computed from a
 * tensor that did not pass here. */
#include "model_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const TYPE_NAME[3] = {
    [KERNELS_F32] = "F32", [KERNELS_F16] = "F16", [KERNELS_BF16] = "BF16"};

void *model_own(struct model *m, size_t n, size_t size, struct engine_error *err)
{
    if (m->n_owned == m->owned_cap) {
        size_t cap = m->owned_cap ? 2 * m->owned_cap : 64;
        void **grown = realloc(m->owned, cap * sizeof *grown);
        if (!grown) {
            (void)engine_fail(err, ENGINE_NOMEM, "", "out of memory for the model");
            return NULL;
        }
        m->owned = grown;
        m->owned_cap = cap;
    }
    void *p = calloc(n ? n : 1, size);
    if (!p) {
        (void)engine_fail(err, ENGINE_NOMEM, "", "out of memory for the model");
        return NULL;
    }
    m->owned[m->n_owned++] = p;
    return p;
}

static bool find_type(const char *dtype, enum kernels_type *type)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(dtype, TYPE_NAME[i]) == 0) {
            *type = (enum kernels_type)i;
            return true;
        }
    }
    return false;
}

static void format_name(const struct model *m, const char *fmt, int32_t layer, char *buf,
                        size_t n_buf)
{
    const char *at = strstr(fmt, "%d");
    int n_head = at ? (int)(at - fmt) : (int)strlen(fmt);
    if (at) {
        (void)snprintf(buf, n_buf, "%s%.*s%d%s", m->prefix, n_head, fmt, layer, at + 2);
    } else {
        (void)snprintf(buf, n_buf, "%s%s", m->prefix, fmt);
    }
}

static bool has_shape(const struct safetensors_tensor *t, int32_t rows, int32_t columns)
{
    if (rows == 0) {
        return t->n_dims == 1 && t->dim[0] == columns;
    }
    return t->n_dims == 2 && t->dim[0] == rows && t->dim[1] == columns;
}

/* The tensor of that name; rows 0 means a vector. Marks it used and counts its elements. */
static const struct safetensors_tensor *find(struct model *m, const char *fmt, int32_t layer,
                                             int32_t rows, int32_t columns, enum kernels_type *type,
                                             struct engine_error *err)
{
    char name[SAFETENSORS_NAME_MAX], shape[80], want[40];
    size_t n_all;
    const char *file = safetensors_label(m->file);
    format_name(m, fmt, layer, name, sizeof name);
    const struct safetensors_tensor *t = safetensors_find(m->file, name);
    if (!t) {
        (void)engine_fail(err, ENGINE_BAD_FILE, "", "%s: tensor '%s' is missing", file, name);
        return NULL;
    }
    if (!has_shape(t, rows, columns)) {
        safetensors_format_shape(t, shape, sizeof shape);
        (void)snprintf(want, sizeof want, rows ? "%2$d, %1$d" : "%1$d", columns, rows);
        (void)engine_fail(err, ENGINE_BAD_FILE, "", "%s: tensor '%s' has shape [%s], [%s] expected",
                          file, name, shape, want);
        return NULL;
    }
    if (!find_type(t->dtype, type)) {
        (void)engine_fail(err, ENGINE_BAD_FILE, "",
                          "%s: tensor '%s' has dtype %s, F32, F16 or BF16 expected", file, name,
                          t->dtype);
        return NULL;
    }
    m->is_used[t - safetensors_all(m->file, &n_all)] = 1;
    m->n_stored[*type] += t->n_elements;
    return t;
}

bool model_bind_matrix(struct model *m, const char *name_fmt, int32_t layer, int32_t n_out,
                       int32_t n_in, struct model_matrix *out, struct engine_error *err)
{
    enum kernels_type type;
    const struct safetensors_tensor *t = find(m, name_fmt, layer, n_out, n_in, &type, err);
    if (!t) {
        return false;
    }
    *out = (struct model_matrix){
        .w = t->data, .type = type, .n_out = (size_t)n_out, .n_in = (size_t)n_in};
    return true;
}

/* [n_in][n_out] -> [n_out][n_in], in squares that stay in the first cache */
static void turn(const unsigned char *from, unsigned char *to, size_t n_in, size_t n_out,
                 size_t size)
{
    enum { SQUARE = 32 };
    for (size_t i0 = 0; i0 < n_in; i0 += SQUARE) {
        for (size_t o0 = 0; o0 < n_out; o0 += SQUARE) {
            for (size_t o = o0; o < o0 + SQUARE && o < n_out; o++) {
                for (size_t i = i0; i < i0 + SQUARE && i < n_in; i++) {
                    memcpy(to + (o * n_in + i) * size, from + (i * n_out + o) * size, size);
                }
            }
        }
    }
}

bool model_bind_turned(struct model *m, const char *name_fmt, int32_t layer, int32_t n_out,
                       int32_t n_in, struct model_matrix *out, struct engine_error *err)
{
    enum kernels_type type;
    const struct safetensors_tensor *t = find(m, name_fmt, layer, n_in, n_out, &type, err);
    if (!t) {
        return false;
    }
    size_t size = kernels_type_bytes(type);
    unsigned char *own = model_own(m, (size_t)n_out * (size_t)n_in, size, err);
    if (!own) {
        return false;
    }
    if (size == 4) { /* a constant size makes memcpy one move */
        turn(t->data, own, (size_t)n_in, (size_t)n_out, 4);
    } else {
        turn(t->data, own, (size_t)n_in, (size_t)n_out, 2);
    }
    *out =
        (struct model_matrix){.w = own, .type = type, .n_out = (size_t)n_out, .n_in = (size_t)n_in};
    return true;
}

bool model_bind_vector(struct model *m, const char *name_fmt, int32_t layer, int32_t n,
                       const float **out, struct engine_error *err)
{
    enum kernels_type type;
    const struct safetensors_tensor *t = find(m, name_fmt, layer, 0, n, &type, err);
    float *v = t ? model_own(m, (size_t)n, sizeof *v, err) : NULL;
    if (!v) {
        return false;
    }
    kernels_best()->expand(type, t->data, (size_t)n, v);
    *out = v;
    return true;
}

bool model_bind_finish(struct model *m, struct engine_error *err)
{
    size_t n;
    const struct safetensors_tensor *t = safetensors_all(m->file, &n);
    int most = KERNELS_F32;
    for (size_t i = 0; i < n; i++) {
        if (!m->is_used[i] && !m->family->is_spare(t[i].name)) {
            return engine_fail(
                err, ENGINE_BAD_FILE, "",
                "%s: tensor '%.100s' is no part of a %s model as config.json describes it",
                safetensors_label(m->file), t[i].name, m->shape.family);
        }
    }
    for (int i = 0; i < 3; i++) {
        m->shape.n_params += m->n_stored[i];
        most = m->n_stored[i] > m->n_stored[most] ? i : most;
    }
    (void)snprintf(m->shape.dtype, sizeof m->shape.dtype, "%s", TYPE_NAME[most]);
    return true;
}
