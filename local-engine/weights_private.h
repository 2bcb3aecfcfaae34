/* weights_private.h - what weights.c and its two sources share: weights_folder.c (safetensors and
 * their index) and weights_gguf.c (names and configuration of a .gguf file). */
#ifndef ISOTHERM_WEIGHTS_PRIVATE_H
#define ISOTHERM_WEIGHTS_PRIVATE_H

#include "gguf.h"
#include "safetensors.h"
#include "weights.h"

#define WEIGHTS_CONFIG_MAX (1u << 20)
#define WEIGHTS_INDEX_MAX  (16u << 20) /* a line for each tensor */

struct weights {
    char label[64];
    char folder[4096];
    json_t *config;
    struct weights_tensor *tensor; /* by name */
    size_t n_tensors, tensor_cap;
    struct safetensors **shard; /* in the order of their names */
    size_t n_shards;
    json_t *index; /* holds the shards' names */
    struct gguf *gguf;
    char **names; /* of a .gguf file's tensors in Hugging Face's words; own */
    size_t n_names;
};

bool weights_open_folder(struct weights *w, struct engine_error *err);
bool weights_open_gguf(struct weights *w, const char *path, struct engine_error *err);

/* Room for n more tensors. */
bool weights_reserve(struct weights *w, size_t n, struct engine_error *err);
/* The kernels' type of that name; false: they know none. */
bool weights_type(const char *name, enum kernels_type *type);

/* weights_gguf_names.c: the Hugging Face name of a .gguf file's tensor and its flags. false: the
 * architecture or the name is unknown, `out` is the file's own name. */
bool weights_gguf_name(const char *arch, const char *name, char *out, size_t n_out,
                       unsigned *flags);
/* The other way: the .gguf file's name of a Hugging Face tensor. false: it has none. */
bool weights_gguf_name_back(const char *arch, const char *name, char *out, size_t n_out,
                            unsigned *flags);
/* weights_gguf_config.c: the metadata as config.json's object. NULL: err says why. */
json_t *weights_gguf_config(const struct gguf *g, struct engine_error *err);
/* The fields of one value, for who writes them the other way, too. */
struct weights_field {
    const char *key;  /* after "ARCH." */
    const char *word; /* in config.json */
    bool is_real, is_required;
    bool is_gpt2; /* gpt2 has its own words for the same keys */
};
const struct weights_field *weights_gguf_fields(size_t *n);
/* Whether that tensor holds what the config object already tells. */
bool weights_gguf_is_config(const char *name);

#endif
