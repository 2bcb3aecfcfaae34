/* model.c - opens a folder or a .gguf file: its configuration names the family, the family reads
 * its fields and binds its tensors. */
#include "model_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct model_family *const FAMILIES[] = {&model_llama, &model_gpt2};

static const struct model_family *find_family(const json_t *config, struct engine_error *err)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    if (!type) {
        (void)engine_fail(err, ENGINE_BAD_FILE, "", "%s: 'model_type' is missing",
                          model_config_file(config));
        return NULL;
    }
    for (size_t i = 0; i < sizeof FAMILIES / sizeof FAMILIES[0]; i++) {
        if (strcmp(FAMILIES[i]->model_type, type) == 0) {
            return FAMILIES[i];
        }
    }
    (void)engine_fail(err, ENGINE_BAD_FILE, "",
                      "%s: 'model_type' is '%.60s', llama or gpt2 expected",
                      model_config_file(config), type);
    return NULL;
}

static bool configure(struct model *m, struct engine_error *err)
{
    const json_t *config = weights_config(m->weights);
    m->family = find_family(config, err);
    if (!m->family ||
        !model_config_absent(config, "quantization_config",
                             "is set: a folder's weights must be F32, F16 or BF16", err) ||
        !m->family->configure(m, config, err)) {
        return false;
    }
    (void)snprintf(m->shape.family, sizeof m->shape.family, "%s", m->family->model_type);
    return true;
}

static bool bind_all(struct model *m, struct engine_error *err)
{
    size_t n;
    (void)weights_all(m->weights, &n);
    m->is_used = model_own(m, n, 1, err);
    m->layers = model_own(m, (size_t)m->shape.n_layers, sizeof *m->layers, err);
    return m->is_used && m->layers && m->family->bind(m, err) && model_bind_finish(m, err);
}

bool model_open(struct model **out, const char *path, struct engine_error *err)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the model");
    }
    m->prefix = "";
    (void)pthread_mutex_init(&m->hash_lock, NULL);
    if (!weights_open(&m->weights, path, err) || !configure(m, err) || !bind_all(m, err)) {
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
    weights_close(m->weights);
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
        weights_hash(m->weights, m->hash);
    }
    (void)pthread_mutex_unlock(&m->hash_lock);
    return m->hash;
}

const struct weights *model_weights(const struct model *m)
{
    return m->weights;
}
