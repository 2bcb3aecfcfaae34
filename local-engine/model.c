/* model.c - opens a folder: config.json names the family, the family reads its fields and binds
 * its tensors. */
#include "model_private.h"

#include "sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct model_family *const FAMILIES[] = {&model_llama, &model_gpt2};

static const struct model_family *find_family(const json_t *config, struct engine_error *err)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    if (!type) {
        (void)engine_fail(err, ENGINE_BAD_FILE, "", "config.json: 'model_type' is missing");
        return NULL;
    }
    for (size_t i = 0; i < sizeof FAMILIES / sizeof FAMILIES[0]; i++) {
        if (strcmp(FAMILIES[i]->model_type, type) == 0) {
            return FAMILIES[i];
        }
    }
    (void)engine_fail(err, ENGINE_BAD_FILE, "",
                      "config.json: 'model_type' is '%.60s', llama or gpt2 expected", type);
    return NULL;
}

static bool configure(struct model *m, const char *folder, struct engine_error *err)
{
    json_t *config = model_config_load(folder, err);
    if (!config) {
        return false;
    }
    m->family = find_family(config, err);
    bool ok = m->family &&
              model_config_absent(config, "quantization_config",
                                  "is set: only F32, F16 and BF16 weights are supported", err) &&
              m->family->configure(m, config, err);
    json_decref(config);
    if (ok) {
        (void)snprintf(m->shape.family, sizeof m->shape.family, "%s", m->family->model_type);
    }
    return ok;
}

static bool open_weights(struct model *m, const char *folder, struct engine_error *err)
{
    char path[4096];
    size_t n;
    if ((size_t)snprintf(path, sizeof path, "%s/model.safetensors", folder) >= sizeof path) {
        return engine_fail(err, ENGINE_IO, "", "the model folder's path is too long");
    }
    if (!safetensors_open(&m->file, path, err)) {
        return false;
    }
    (void)safetensors_all(m->file, &n);
    m->is_used = model_own(m, n, 1, err);
    m->layers = model_own(m, (size_t)m->shape.n_layers, sizeof *m->layers, err);
    return m->is_used && m->layers && m->family->bind(m, err) && model_bind_finish(m, err);
}

bool model_open(struct model **out, const char *folder, struct engine_error *err)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the model");
    }
    m->prefix = "";
    (void)pthread_mutex_init(&m->hash_lock, NULL);
    if (!configure(m, folder, err) || !open_weights(m, folder, err)) {
        model_close(m);
        return false;
    }
    *out = m;
    return true;
}

void model_close(struct model *m)
{
    if (!m) {
        return;
    }
    for (size_t i = 0; i < m->n_owned; i++) {
        free(m->owned[i]);
    }
    free(m->owned);
    safetensors_close(m->file);
    (void)pthread_mutex_destroy(&m->hash_lock);
    free(m);
}

const struct model_shape *model_get_shape(const struct model *m)
{
    return &m->shape;
}

const char *model_hash(struct model *m)
{
    (void)pthread_mutex_lock(&m->hash_lock);
    if (m->hash[0] == '\0') {
        struct sha256 sum;
        uint8_t digest[32];
        size_t n;
        const unsigned char *bytes = safetensors_bytes(m->file, &n);
        sha256_init(&sum);
        sha256_update(&sum, bytes, n);
        sha256_final(&sum, digest);
        sha256_hex(digest, m->hash);
    }
    (void)pthread_mutex_unlock(&m->hash_lock);
    return m->hash;
}
