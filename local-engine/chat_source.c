/* chat_source.c - the newer place first, as transformers looks for it. */
#include "chat_source.h"

#include "filemap.h"
#include "gguf.h"
#include "jsontree.h"
#include "weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONFIG_BYTES_MAX = 64 << 20 }; /* some tokenizer_config.json list 100,000 added tokens */

static bool copy(const char *from, size_t n, char **text, size_t *len, struct engine_error *err)
{
    *text = malloc(n + 1);
    if (!*text) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the chat template");
    }
    memcpy(*text, from, n);
    (*text)[n] = '\0';
    *len = n;
    return true;
}

/* A folder's file, mapped; false with no error: it is not there, or empty. */
static bool map_file(const char *folder, const char *name, struct filemap *map,
                     struct engine_error *err)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
           access(path, F_OK) == 0 && filemap_open(map, path, name, 1, "template", err);
}

/* Of [{"name", "template"} ...] the default one. */
static const json_t *find_default(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && strcmp(name, "default") == 0) {
            return json_object_get(item, "template");
        }
    }
    return NULL;
}

static bool read_config(const char *name, const struct filemap *map, char **text, size_t *len,
                        struct engine_error *err)
{
    static const char *const names[] = {"chat_template", NULL};
    if (map->n > CONFIG_BYTES_MAX) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: larger than %d MiB", name,
                           CONFIG_BYTES_MAX >> 20);
    }
    json_t *config = jsontree_pick((const char *)map->bytes, map->n, names, name, err);
    if (!config) {
        return false;
    }
    const json_t *t = json_object_get(config, "chat_template");
    t = json_is_array(t) ? find_default(t) : t;
    bool ok =
        !json_is_string(t) || copy(json_string_value(t), json_string_length(t), text, len, err);
    json_decref(config);
    return ok;
}

bool chat_source_folder(const char *folder, char **text, size_t *len, struct engine_error *err)
{
    static const char *const names[] = {"chat_template.jinja", "tokenizer_config.json",
                                        "chat_template.json"};
    struct engine_error own = {.code = ENGINE_OK};
    char *found = NULL;
    size_t n = 0;
    for (size_t i = 0; !found && own.code == ENGINE_OK && i < sizeof names / sizeof *names; i++) {
        struct filemap map = {.bytes = NULL};
        if (map_file(folder, names[i], &map, &own)) {
            (void)(i == 0 ? copy((const char *)map.bytes, map.n, &found, &n, &own)
                          : read_config(names[i], &map, &found, &n, &own)); /* own says */
            filemap_close(&map);
        }
    }
    if (own.code != ENGINE_OK) {
        free(found);
        return engine_fail(err, own.code, "", "%s", own.text);
    }
    *text = found;
    *len = n;
    return true;
}

bool chat_source_read(const struct weights *w, char **text, size_t *len, struct engine_error *err)
{
    struct gguf_string s = {.is_there = false};
    if (weights_gguf(w) && !gguf_get_string(weights_gguf(w), "tokenizer.chat_template", &s, err)) {
        return false;
    }
    return s.is_there ? copy(s.text, s.len, text, len, err)
                      : chat_source_folder(weights_folder(w), text, len, err);
}
