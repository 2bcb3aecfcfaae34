/* model.c - opens a folder or a .gguf file: its configuration names the family, the family reads
 * its fields (model_family.c) and binds its tensors. */
#include "model_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool bind_all(struct model *m, struct engine_error *err)
{
    size_t n;
    (void)weights_all(m->weights, &n);
    m->is_used = model_own(m, n, 1, err);
    m->layers = model_own(m, (size_t)m->shape.n_layers, sizeof *m->layers, err);
    return m->is_used && m->layers && m->family->bind(m, err) && model_bind_finish(m, err);
}

static void release_owned(struct model *m)
{
    for (size_t i = 0; i < m->n_owned; i++) {
        free(m->owned[i]);
    }
    free(m->owned);
}

bool model_read_config(const char *text, size_t n, struct model_shape *out,
                       struct engine_error *err)
{
    struct model m = {.prefix = ""};
    json_t *config = model_config_parse(text, n, err);
    bool ok = config && model_configure(&m, config, err);
    if (ok) {
        *out = m.shape;
    }
    json_decref(config);
    release_owned(&m);
    return ok;
}

bool model_open(struct model **out, const char *path, struct engine_error *err)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the model");
    }
    m->prefix = "";
    (void)pthread_mutex_init(&m->hash_lock, NULL);
    if (!weights_open(&m->weights, path, err) ||
        !model_configure(m, weights_config(m->weights), err) || !bind_all(m, err)) {
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
    release_owned(m);
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

void model_set_hash(struct model *m, const char hash[65])
{
    (void)pthread_mutex_lock(&m->hash_lock);
    memcpy(m->hash, hash, sizeof m->hash);
    (void)pthread_mutex_unlock(&m->hash_lock);
}

const struct weights *model_weights(const struct model *m)
{
    return m->weights;
}
