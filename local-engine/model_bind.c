/* model_bind.c - from a tensor's name to a checked matrix or vector. Nothing is computed from a
 * tensor that did not pass here. */
#include "model_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static bool has_shape(const struct weights_tensor *t, int32_t rows, int32_t columns)
{
    if (rows == 0) {
        return t->n_dims == 1 && t->dim[0] == columns;
    }
    return t->n_dims == 2 && t->dim[0] == rows && t->dim[1] == columns;
}

/* rows 0 means a vector. */
static bool check_tensor(const struct weights_tensor *t, int32_t rows, int32_t columns,
                         struct engine_error *err)
{
    char shape[80], want[40];
    if (!has_shape(t, rows, columns)) {
        weights_format_shape(t, shape, sizeof shape);
        (void)snprintf(want, sizeof want, rows ? "%2$d, %1$d" : "%1$d", columns, rows);
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: tensor '%.100s' has shape [%s], [%s] expected", t->file, t->name,
                           shape, want);
    }
    return t->is_computable ||
           engine_fail(err, ENGINE_BAD_FILE, "",
                       "%s: tensor '%.80s' has type %s: F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K or "
                       "Q6_K expected",
                       t->file, t->name, t->type_name);
}

/* The tensor of that name, whatever it is. */
static const struct weights_tensor *find_any(const struct model *m, const char *fmt, int32_t layer,
                                             struct engine_error *err)
{
    char name[WEIGHTS_NAME_MAX];
    format_name(m, fmt, layer, name, sizeof name);
    const struct weights_tensor *t = weights_find(m->weights, name);
    if (!t) {
        (void)engine_fail(err, ENGINE_BAD_FILE, "", "%s: tensor '%s' is missing",
                          weights_label(m->weights), name);
    }
    return t;
}

/* The same, checked. Marks it used and counts its elements. */
static const struct weights_tensor *find(struct model *m, const char *fmt, int32_t layer,
                                         int32_t rows, int32_t columns, struct engine_error *err)
{
    size_t n_all;
    const struct weights_tensor *t = find_any(m, fmt, layer, err);
    if (!t || !check_tensor(t, rows, columns, err)) {
        return NULL;
    }
    m->is_used[t - weights_all(m->weights, &n_all)] = 1;
    m->n_stored[t->type] += t->n_elements;
    return t;
}

bool model_bind_matrix(struct model *m, const char *name_fmt, int32_t layer, int32_t n_out,
                       int32_t n_in, struct model_matrix *out, struct engine_error *err)
{
    const struct weights_tensor *t = find(m, name_fmt, layer, n_out, n_in, err);
    if (!t) {
        return false;
    }
    *out = (struct model_matrix){.w = t->data,
                                 .type = t->type,
                                 .n_out = (size_t)n_out,
                                 .n_in = (size_t)n_in,
                                 .is_paired = (t->flags & WEIGHTS_PAIRED) != 0};
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
    const struct weights_tensor *t = find_any(m, name_fmt, layer, err);
    if (t && (t->flags & WEIGHTS_TURNED)) {
        return model_bind_matrix(m, name_fmt, layer, n_out, n_in, out, err);
    }
    t = t ? find(m, name_fmt, layer, n_in, n_out, err) : NULL;
    if (!t) {
        return false;
    }
    size_t size = kernels_row_bytes(t->type, 1);
    if (kernels_type_block(t->type) > 1) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: tensor '%s' has type %s, which cannot be turned", t->file, t->name,
                           t->type_name);
    }
    unsigned char *own = model_own(m, (size_t)n_out * (size_t)n_in, size, err);
    if (!own) {
        return false;
    }
    if (size == 4) { /* a constant size makes memcpy one move */
        turn(t->data, own, (size_t)n_in, (size_t)n_out, 4);
    } else {
        turn(t->data, own, (size_t)n_in, (size_t)n_out, 2);
    }
    *out = (struct model_matrix){
        .w = own, .type = t->type, .n_out = (size_t)n_out, .n_in = (size_t)n_in};
    return true;
}

bool model_bind_gain(struct model *m, const char *name_fmt, int32_t layer, int32_t n,
                     bool is_from_one, const float **out, struct engine_error *err)
{
    const struct weights_tensor *t = find(m, name_fmt, layer, 0, n, err);
    float *v = t ? model_own(m, (size_t)n, sizeof *v, err) : NULL;
    if (!v) {
        return false;
    }
    kernels_best()->expand(t->type, t->data, (size_t)n, v);
    for (int32_t i = 0; is_from_one && !(t->flags & WEIGHTS_ONE_ADDED) && i < n; i++) {
        v[i] += 1.0f;
    }
    *out = v;
    return true;
}

bool model_bind_vector(struct model *m, const char *name_fmt, int32_t layer, int32_t n,
                       const float **out, struct engine_error *err)
{
    return model_bind_gain(m, name_fmt, layer, n, false, out, err);
}

bool model_bind_finish(struct model *m, struct engine_error *err)
{
    size_t n;
    const struct weights_tensor *t = weights_all(m->weights, &n);
    int most = KERNELS_F32;
    for (size_t i = 0; i < n; i++) {
        if (!m->is_used[i] && !m->family->is_spare(t[i].name)) {
            return engine_fail(err, ENGINE_BAD_FILE, "",
                               "%s: tensor '%.80s' is no part of a %s model as %s describes it",
                               t[i].file, t[i].name, m->shape.family,
                               weights_gguf(m->weights) ? "its metadata" : "config.json");
        }
    }
    for (int i = 0; i < KERNELS_N_TYPES; i++) {
        m->shape.n_params += m->n_stored[i];
        most = m->n_stored[i] > m->n_stored[most] ? i : most;
    }
    (void)snprintf(m->shape.dtype, sizeof m->shape.dtype, "%s",
                   kernels_type_name((enum kernels_type)most));
    return true;
}
