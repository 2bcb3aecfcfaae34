/* weights_folder.c - config.json beside model.safetensors, or beside an index that says which
 * shard holds which tensor. The index is held against the shards both ways: what it names must be
 * there, and what is there it must name.
 */
#include "weights_private.h"

#include "filemap.h"
#include "jsontree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDEX  "model.safetensors.index.json"
#define SINGLE "model.safetensors"

static bool path_of(const struct weights *w, const char *name, char *path, size_t n_path,
                    struct engine_error *err)
{
    return (size_t)snprintf(path, n_path, "%s/%s", w->folder, name) < n_path ||
           engine_fail(err, ENGINE_IO, "", "the model folder's path is too long");
}

/* An object from a file of the folder. NULL: err says why. */
static json_t *load_object(const struct weights *w, const char *name, size_t n_max,
                           struct engine_error *err)
{
    char path[4200];
    struct filemap map = {0};
    json_error_t je = {.text = "too long, or too many values"};
    json_t *j = NULL;
    if (!path_of(w, name, path, sizeof path, err)) {
        return NULL;
    }
    if (access(path, F_OK) != 0) {
        (void)engine_fail(err, ENGINE_IO, "", "%s: cannot be read in '%.150s': %s", name, w->folder,
                          strerror(errno));
        return NULL;
    }
    if (!filemap_open(&map, path, name, 1, "JSON", err)) {
        return NULL;
    }
    if (map.n <= n_max && jsontree_fits((const char *)map.bytes, map.n)) {
        j = json_loadb((const char *)map.bytes, map.n, JSON_REJECT_DUPLICATES, &je);
    }
    filemap_close(&map);
    if (!json_is_object(j)) {
        (void)engine_fail(err, ENGINE_BAD_FILE, "", "%s: is no JSON object: %.100s", name,
                          j ? "another kind of value" : je.text);
        json_decref(j);
        return NULL;
    }
    return j;
}

static bool add_tensors(struct weights *w, const struct safetensors *st, struct engine_error *err)
{
    size_t n;
    const struct safetensors_tensor *from = safetensors_all(st, &n);
    if (!weights_reserve(w, n, err)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        struct weights_tensor *t = &w->tensor[w->n_tensors++];
        *t = (struct weights_tensor){.name = from[i].name,
                                     .type_name = from[i].dtype,
                                     .n_dims = from[i].n_dims,
                                     .n_elements = from[i].n_elements,
                                     .data = from[i].data,
                                     .n_bytes = from[i].n_bytes,
                                     .file = safetensors_label(st)};
        memcpy(t->dim, from[i].dim, sizeof from[i].dim);
        t->is_computable = weights_type(t->type_name, &t->type);
    }
    return true;
}

static bool open_shard(struct weights *w, const char *name, struct engine_error *err)
{
    char path[4200];
    if (!path_of(w, name, path, sizeof path, err) ||
        !safetensors_open(&w->shard[w->n_shards], path, err)) {
        return false;
    }
    return add_tensors(w, w->shard[w->n_shards++], err);
}

/* ---------------------------------------------------------------- the index */

/* Only files of this folder, and none that error texts cannot show. */
static bool check_shard_name(const char *tensor, const char *name, struct engine_error *err)
{
    size_t len = name ? strlen(name) : 0;
    bool ok = len > 0 && len < 64 && name[0] != '.';
    for (size_t i = 0; ok && i < len; i++) {
        ok = name[i] > 0x20 && name[i] < 0x7f && name[i] != '/';
    }
    return ok || engine_fail(err, ENGINE_BAD_FILE, "",
                             INDEX ": 'weight_map' gives tensor '%.80s' no name of a file of the "
                                   "folder, of at most 63 printable characters",
                             tensor);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The shards' names, each once, in order; borrowed from the index. */
static bool list_shards(const json_t *map, const char **names, size_t *n, struct engine_error *err)
{
    const char *tensor;
    json_t *file;
    size_t n_all = 0;
    json_object_foreach ((json_t *)(uintptr_t)map, tensor, file) {
        names[n_all] = json_string_value(file);
        if (!check_shard_name(tensor, names[n_all++], err)) {
            return false;
        }
    }
    qsort(names, n_all, sizeof *names, by_text);
    *n = 0;
    for (size_t i = 0; i < n_all; i++) {
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0) {
            names[(*n)++] = names[i];
        }
    }
    return (*n > 0 && *n <= WEIGHTS_SHARDS_MAX) ||
           engine_fail(err, ENGINE_BAD_FILE, "",
                       INDEX ": 'weight_map' names %zu files, 1 to %d expected", *n,
                       WEIGHTS_SHARDS_MAX);
}

static bool is_in_shard(const struct weights *w, const char *file, const char *name)
{
    size_t i = 0;
    while (i < w->n_shards && strcmp(safetensors_label(w->shard[i]), file) != 0) {
        i++;
    }
    return i < w->n_shards && safetensors_find(w->shard[i], name);
}

/* Every tensor of the shards is where the index says, and the index says no more. */
static bool check_index(const struct weights *w, const json_t *map, struct engine_error *err)
{
    for (size_t i = 0; i < w->n_tensors; i++) {
        const struct weights_tensor *t = &w->tensor[i];
        const char *file = json_string_value(json_object_get(map, t->name));
        if (!file || strcmp(file, t->file) != 0) {
            return engine_fail(err, ENGINE_BAD_FILE, "",
                               INDEX ": 'weight_map' does not have tensor '%.80s' in '%.63s', "
                                     "which holds it",
                               t->name, t->file);
        }
    }
    if (w->n_tensors == json_object_size(map)) {
        return true;
    }
    const char *name;
    json_t *file;
    json_object_foreach ((json_t *)(uintptr_t)map, name, file) {
        if (!is_in_shard(w, json_string_value(file), name)) {
            return engine_fail(err, ENGINE_BAD_FILE, "",
                               "%.63s: tensor '%.80s' of " INDEX " is missing",
                               json_string_value(file), name);
        }
    }
    return engine_fail(err, ENGINE_BAD_FILE, "", INDEX ": a tensor is in two files");
}

static bool open_shards(struct weights *w, struct engine_error *err)
{
    w->index = load_object(w, INDEX, WEIGHTS_INDEX_MAX, err);
    if (!w->index) {
        return false;
    }
    const json_t *map = json_object_get(w->index, "weight_map");
    if (!json_is_object(map)) {
        return engine_fail(err, ENGINE_BAD_FILE, "", INDEX ": 'weight_map' is no object");
    }
    size_t n = 0;
    const char **names = calloc(json_object_size(map) + 1, sizeof *names);
    bool ok = names || engine_fail(err, ENGINE_NOMEM, "", INDEX ": out of memory");
    ok = ok && list_shards(map, names, &n, err);
    if (ok) {
        w->shard = calloc(n, sizeof(w->shard[0]));
        ok = w->shard || engine_fail(err, ENGINE_NOMEM, "", INDEX ": out of memory");
    }
    for (size_t i = 0; ok && i < n; i++) {
        ok = open_shard(w, names[i], err);
    }
    free(names);
    return ok && check_index(w, map, err);
}

static bool has_file(const struct weights *w, const char *name)
{
    char path[4200];
    return path_of(w, name, path, sizeof path, NULL) && access(path, F_OK) == 0;
}

/* A single file goes before an index, as in Hugging Face's own loader. */
bool weights_open_folder(struct weights *w, struct engine_error *err)
{
    bool has_index = !has_file(w, SINGLE) && has_file(w, INDEX);
    (void)snprintf(w->label, sizeof w->label, "%s", has_index ? INDEX : SINGLE);
    w->config = load_object(w, "config.json", WEIGHTS_CONFIG_MAX, err);
    if (!w->config) {
        return false;
    }
    if (has_index) {
        return open_shards(w, err);
    }
    w->shard = calloc(1, sizeof(w->shard[0]));
    return w->shard ? open_shard(w, SINGLE, err)
                    : engine_fail(err, ENGINE_NOMEM, "", SINGLE ": out of memory");
}
