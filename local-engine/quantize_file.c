/* quantize_file.c - row by row from the mapped file to the new one: a row is widened to float32,
 * put where the format wants it, and narrowed. Memory stays that of a row.
 */
#include "quantize_private.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A tensor of the new file. */
struct item {
    char name[GGUF_NAME_MAX];
    const unsigned char *data;
    enum kernels_type from, to;
    int n_dims;
    int64_t dim[GGUF_DIMS_MAX];
    int64_t rows, columns; /* of the new form */
    bool is_turned;        /* columns of the old form are rows of the new */
    int64_t head_dim;      /* above 0: rows of each head are put in pairs */
    float add;
};

struct work {
    const struct weights *from;
    enum kernels_type type;
    char arch[32];
    struct item *item;
    size_t n_items;
    uint64_t n_done, n_all;
    quantize_progress_fn *progress;
    void *ud;
    struct engine_error *err;
};

/* ---------------------------------------------------------------- what becomes what */

static bool is_end(const char *name)
{
    return strcmp(name, "token_embd.weight") == 0 || strcmp(name, "output.weight") == 0;
}

static enum kernels_type target_of(const struct work *q, const struct item *t)
{
    enum kernels_type to = q->type == KERNELS_Q4_0 && is_end(t->name) ? KERNELS_Q8_0 : q->type;
    if (t->n_dims < 2 || strncmp(t->name, "position_embd", 13) == 0) {
        return KERNELS_F32;
    }
    return t->columns % (int64_t)kernels_type_block(to) == 0 ? to : KERNELS_F16;
}

static bool add_item(struct work *q, const struct weights_tensor *t, const char *name,
                     const char *type_name)
{
    struct item *i = &q->item[q->n_items];
    if (t->n_dims > GGUF_DIMS_MAX || t->n_dims < 1 || !weights_type(type_name, &i->from)) {
        return engine_fail(q->err, ENGINE_BAD_FILE, "",
                           "%s: tensor '%.80s' of type %s and %d "
                           "dimensions cannot be rewritten",
                           t->file, t->name, type_name, t->n_dims);
    }
    (void)snprintf(i->name, sizeof i->name, "%s", name);
    i->data = t->data;
    i->n_dims = t->n_dims;
    memcpy(i->dim, t->dim, sizeof i->dim);
    i->columns = t->dim[t->n_dims - 1];
    i->rows = t->n_elements / i->columns;
    i->to = target_of(q, i);
    q->n_items++;
    q->n_all += (uint64_t)t->n_elements;
    return true;
}

/* A .gguf file's tensors are in order already; those that are part of the metadata go along. */
static bool plan_gguf(struct work *q)
{
    size_t n;
    const struct gguf_tensor *t = gguf_tensors(q->from->gguf, &n);
    for (size_t i = 0; i < n; i++) {
        struct weights_tensor as = {.name = t[i].name,
                                    .n_dims = t[i].n_dims,
                                    .n_elements = t[i].n_elements,
                                    .data = t[i].data,
                                    .file = q->from->label};
        memcpy(as.dim, t[i].dim, sizeof t[i].dim);
        if (!add_item(q, &as, t[i].name, t[i].type_name)) {
            return false;
        }
    }
    return true;
}

static int64_t heads(const struct work *q, const char *name)
{
    const json_t *c = q->from->config;
    const json_t *kv = json_object_get(c, "num_key_value_heads");
    const json_t *n = strstr(name, "attn_k") && json_is_integer(kv)
                          ? kv
                          : json_object_get(c, "num_attention_heads");
    return json_is_integer(n) && json_integer_value(n) > 0 ? json_integer_value(n) : 1;
}

static bool is_tied(const struct work *q)
{
    const json_t *v = json_object_get(q->from->config, "tie_word_embeddings");
    return v ? json_is_true(v) : strcmp(q->arch, "gpt2") == 0 || strncmp(q->arch, "gemma", 5) == 0;
}

static void turn_item(struct item *t)
{
    int64_t rows = t->rows;
    t->is_turned = true;
    t->rows = t->dim[0] = t->columns;
    t->columns = t->dim[1] = rows;
}

/* Tensors without a name there are spare ones: model_open() has seen to that. */
static bool plan_folder(struct work *q)
{
    for (size_t i = 0; i < q->from->n_tensors; i++) {
        const struct weights_tensor *t = &q->from->tensor[i];
        char name[GGUF_NAME_MAX];
        unsigned flags = 0;
        bool has_prefix = strcmp(q->arch, "gpt2") == 0 && strncmp(t->name, "transformer.", 12) == 0;
        if (!weights_gguf_name_back(q->arch, t->name + (has_prefix ? 12 : 0), name, sizeof name,
                                    &flags) ||
            (strcmp(name, "output.weight") == 0 && is_tied(q))) {
            continue;
        }
        if (!add_item(q, t, name, t->type_name)) {
            return false;
        }
        struct item *item = &q->item[q->n_items - 1];
        if ((flags & WEIGHTS_TURNED) && t->n_dims == 2) {
            turn_item(item);
            item->to = target_of(q, item);
        }
        item->head_dim = flags & WEIGHTS_PAIRED ? t->dim[0] / heads(q, name) : 0;
        item->add = flags & WEIGHTS_ONE_ADDED ? 1.0f : 0.0f;
    }
    return true;
}

/* ---------------------------------------------------------------- rows */

/* Where row r of the new form was: see WEIGHTS_PAIRED. */
static int64_t source_row(const struct item *t, int64_t r)
{
    if (t->head_dim < 2) {
        return r;
    }
    int64_t in = r % t->head_dim;
    return r - in + in % 2 * (t->head_dim / 2) + in / 2;
}

static void read_row(const struct item *t, int64_t r, float *x)
{
    const struct kernels *k = kernels_best();
    size_t n = (size_t)t->columns;
    if (t->is_turned) {
        size_t size = kernels_row_bytes(t->from, 1), ld = (size_t)t->rows;
        for (size_t i = 0; i < n; i++) {
            k->expand(t->from, t->data + (i * ld + (size_t)r) * size, 1, x + i);
        }
        return;
    }
    size_t bytes = kernels_row_bytes(t->from, n);
    k->expand(t->from, t->data + (size_t)source_row(t, r) * bytes, n, x);
}

/* A bias of paired rows is one row whose elements are put in order. */
static void pair_vector(const struct item *t, float *x, float *scratch)
{
    if (t->n_dims == 1 && t->head_dim > 1) {
        memcpy(scratch, x, (size_t)t->columns * sizeof *x);
        for (int64_t i = 0; i < t->columns; i++) {
            x[i] = scratch[source_row(t, i)];
        }
    }
}

static bool finish_row(struct work *q, const struct item *t, float *x)
{
    for (int64_t i = 0; i < t->columns; i++) {
        if (!isfinite(x[i])) {
            return engine_fail(q->err, ENGINE_BAD_FILE, "", "%s: tensor '%.80s' holds %s",
                               q->from->label, t->name, isnan(x[i]) ? "NaN" : "an infinite number");
        }
        x[i] += t->add;
    }
    return true;
}

static bool write_item(struct work *q, struct gguf_writer *w, const struct item *t)
{
    size_t n = (size_t)t->columns, bytes = kernels_row_bytes(t->to, n);
    float *x = malloc(2 * n * sizeof *x);
    unsigned char *row = malloc(bytes);
    bool ok = (x && row) || engine_fail(q->err, ENGINE_NOMEM, "", "out of memory for a row");
    for (int64_t r = 0; ok && r < t->rows; r++) {
        read_row(t, t->n_dims == 1 ? 0 : r, x);
        pair_vector(t, x, x + n);
        ok = finish_row(q, t, x);
        if (ok) {
            quantize_row(t->to, x, n, row);
            gguf_write_data(w, row, bytes);
        }
        q->n_done += (uint64_t)n;
        if (ok && q->progress && (r % 256 == 0 || r + 1 == t->rows) &&
            !q->progress(q->ud, q->n_done, q->n_all)) {
            ok = engine_fail(q->err, ENGINE_CANCELLED, "", "stopped");
        }
    }
    free(x);
    free(row);
    return ok;
}

/* ---------------------------------------------------------------- the file */

static bool write_all(struct work *q, FILE *out)
{
    struct gguf_writer *w = gguf_writer_new(out);
    if (!w) {
        return engine_fail(q->err, ENGINE_NOMEM, "", "out of memory for the file");
    }
    bool ok = quantize_meta(w, q->from, q->type, q->err);
    for (size_t i = 0; ok && i < q->n_items; i++) {
        const struct item *t = &q->item[i];
        gguf_write_tensor(w, t->name, gguf_type_by_name(kernels_type_name(t->to)), t->n_dims,
                          t->dim);
    }
    if (ok) {
        gguf_write_header(w);
    }
    for (size_t i = 0; ok && i < q->n_items; i++) {
        ok = write_item(q, w, &q->item[i]);
    }
    ok = ok && gguf_writer_end(w, q->err);
    gguf_writer_free(w);
    return ok;
}

static bool write_beside(struct work *q, const char *path)
{
    char temporary[4096];
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= sizeof temporary) {
        return engine_fail(q->err, ENGINE_IO, "", "the path is too long");
    }
    int fd = mkostemp(temporary, O_CLOEXEC);
    FILE *out = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!out) {
        return engine_fail(q->err, ENGINE_IO, "", "'%.150s' cannot be written: %s", path,
                           strerror(errno));
    }
    mode_t mask = umask(0);
    (void)umask(mask);
    bool ok = write_all(q, out);
    bool is_safe = fflush(out) == 0 && fchmod(fd, 0666 & ~mask) == 0 && fsync(fd) == 0;
    is_safe = fclose(out) == 0 && is_safe;
    if (ok && (!is_safe || rename(temporary, path) != 0)) {
        ok = engine_fail(q->err, ENGINE_IO, "", "'%.150s' cannot be written: %s", path,
                         strerror(errno));
    }
    if (!ok) {
        (void)unlink(temporary);
    }
    return ok;
}

bool quantize_file(const struct weights *from, enum kernels_type type, const char *path,
                   quantize_progress_fn *progress, void *ud, struct engine_error *err)
{
    struct work q = {.from = from, .type = type, .progress = progress, .ud = ud, .err = err};
    size_t n = from->n_tensors;
    if (from->gguf) {
        (void)gguf_tensors(from->gguf, &n);
    }
    q.item = calloc(n + 1, sizeof *q.item);
    bool ok = q.item || engine_fail(err, ENGINE_NOMEM, "", "out of memory for the tensors");
    ok = ok && quantize_arch(from, q.arch, sizeof q.arch, err) &&
         (from->gguf ? plan_gguf(&q) : plan_folder(&q)) && write_beside(&q, path);
    free(q.item);
    return ok;
}
