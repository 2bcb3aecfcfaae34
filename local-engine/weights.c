/* weights.c - one sorted table of tensors over whatever files there are; which files those are is
 * weights_folder.c's and weights_gguf.c's to know. */
#include "weights_private.h"

#include "filemap.h"
#include "sha256.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

bool weights_type(const char *name, enum kernels_type *type)
{
    for (int i = 0; i < KERNELS_N_TYPES; i++) {
        if (strcmp(name, kernels_type_name((enum kernels_type)i)) == 0) {
            *type = (enum kernels_type)i;
            return true;
        }
    }
    return false;
}

bool weights_reserve(struct weights *w, size_t n, struct engine_error *err)
{
    if (n <= w->tensor_cap - w->n_tensors) {
        return true;
    }
    struct weights_tensor *grown = realloc(w->tensor, (w->n_tensors + n) * sizeof *grown);
    if (!grown) {
        return engine_fail(err, ENGINE_NOMEM, "", "%s: out of memory for the tensors", w->label);
    }
    w->tensor = grown;
    w->tensor_cap = w->n_tensors + n;
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct weights_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static bool sort_tensors(struct weights *w, struct engine_error *err)
{
    if (w->n_tensors == 0) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: holds no tensor", w->label);
    }
    qsort(w->tensor, w->n_tensors, sizeof *w->tensor, by_name);
    for (size_t i = 1; i < w->n_tensors; i++) {
        const struct weights_tensor *t = &w->tensor[i];
        if (strcmp(t[-1].name, t->name) == 0) {
            return engine_fail(err, ENGINE_BAD_FILE, "", "%s: tensor '%.80s' is there twice",
                               t->file, t->name);
        }
    }
    return true;
}

/* The name for error texts goes along with the object: see weights_config. */
static bool name_config(struct weights *w, struct engine_error *err)
{
    const char *name = w->gguf ? w->label : "config.json";
    return json_object_set_new(w->config, "_file", json_string_nocheck(name)) == 0 ||
           engine_fail(err, ENGINE_NOMEM, "", "%s: out of memory", w->label);
}

/* The folder's path, without the slash at its end; of a file the part before its name. */
static bool set_folder(struct weights *w, const char *path, bool is_folder,
                       struct engine_error *err)
{
    size_t len = is_folder ? strlen(path) : (size_t)(filemap_name(path) - path);
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    if (len >= sizeof w->folder) {
        return engine_fail(err, ENGINE_IO, "", "the model's path is too long");
    }
    (void)snprintf(w->folder, sizeof w->folder, "%.*s", len ? (int)len : 1, len ? path : ".");
    return true;
}

bool weights_open(struct weights **out, const char *path, struct engine_error *err)
{
    struct stat info;
    struct weights *w = calloc(1, sizeof *w);
    if (!w) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the model");
    }
    bool is_there = stat(path, &info) == 0, is_file = is_there && !S_ISDIR(info.st_mode);
    bool ok = (is_there || engine_fail(err, ENGINE_IO, "", "'%.150s' cannot be read: %s", path,
                                       strerror(errno))) &&
              set_folder(w, path, !is_file, err) &&
              (is_file ? weights_open_gguf(w, path, err) : weights_open_folder(w, err)) &&
              sort_tensors(w, err) && name_config(w, err);
    if (!ok) {
        weights_close(w);
        return false;
    }
    *out = w;
    return true;
}

void weights_close(struct weights *w)
{
    if (!w) {
        return;
    }
    for (size_t i = 0; i < w->n_shards; i++) {
        safetensors_close(w->shard[i]);
    }
    for (size_t i = 0; i < w->n_names; i++) {
        free(w->names[i]);
    }
    free(w->shard);
    free(w->names);
    free(w->tensor);
    gguf_close(w->gguf);
    json_decref(w->index);
    json_decref(w->config);
    free(w);
}

/* ---------------------------------------------------------------- asking */

const json_t *weights_config(const struct weights *w)
{
    return w->config;
}

const struct weights_tensor *weights_find(const struct weights *w, const char *name)
{
    struct weights_tensor key = {.name = name};
    return bsearch(&key, w->tensor, w->n_tensors, sizeof key, by_name);
}

const struct weights_tensor *weights_all(const struct weights *w, size_t *n)
{
    *n = w->n_tensors;
    return w->tensor;
}

void weights_format_shape(const struct weights_tensor *t, char *buf, size_t n_buf)
{
    size_t at = 0;
    buf[0] = '\0';
    for (int i = 0; i < t->n_dims && at < n_buf; i++) {
        int n = snprintf(buf + at, n_buf - at, "%s%lld", i ? ", " : "", (long long)t->dim[i]);
        at += n > 0 ? (size_t)n : 0;
    }
}

const struct gguf *weights_gguf(const struct weights *w)
{
    return w->gguf;
}

const char *weights_folder(const struct weights *w)
{
    return w->folder;
}

const char *weights_label(const struct weights *w)
{
    return w->label;
}

/* Files in the order of their names: a .gguf file is alone. */
static const struct filemap *file_of(const struct weights *w, size_t i)
{
    return w->gguf ? gguf_file(w->gguf) : safetensors_file(w->shard[i]);
}

static size_t n_files(const struct weights *w)
{
    return w->gguf ? 1 : w->n_shards;
}

uint64_t weights_file_bytes(const struct weights *w)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n_files(w); i++) {
        sum += file_of(w, i)->n;
    }
    return sum;
}

void weights_need(const struct weights *w)
{
    for (size_t i = 0; i < n_files(w); i++) {
        const struct filemap *f = file_of(w, i);
        void *p = (void *)(uintptr_t)f->bytes;
        if (madvise(p, f->n, MADV_POPULATE_READ) != 0) {
            (void)madvise(p, f->n, MADV_WILLNEED); /* an old kernel: it begins to, at least */
        }
    }
}

void weights_forget(const struct weights *w)
{
    for (size_t i = 0; i < n_files(w); i++) {
        filemap_forget(file_of(w, i));
    }
}

static void finish_hash(struct sha256 *sum, char hex[65])
{
    unsigned char digest[32];
    sha256_final(sum, digest);
    sha256_hex(digest, hex);
}

void weights_identity(const struct weights *w, char hex[65])
{
    struct sha256 sum;
    sha256_init(&sum);
    for (size_t i = 0; i < n_files(w); i++) {
        const struct filemap *f = file_of(w, i);
        uint64_t id[] = {f->device, f->inode, f->n, (uint64_t)f->changed_ns};
        sha256_update(&sum, id, sizeof id);
    }
    finish_hash(&sum, hex);
}

void weights_hash(const struct weights *w, char hex[65])
{
    struct sha256 sum;
    sha256_init(&sum);
    for (size_t i = 0; i < n_files(w); i++) {
        const struct filemap *f = file_of(w, i);
        sha256_update(&sum, f->bytes, f->n);
    }
    finish_hash(&sum, hex);
}
