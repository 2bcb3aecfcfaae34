/* weights.h - the tensors and the configuration of one model, whatever files hold them: a folder
 * with config.json and model.safetensors (or model.safetensors.index.json and its shards), or one
 * .gguf file.
 *
 * Families are written once, against config.json's words and Hugging Face's tensor names; a .gguf
 * file is told in those: its metadata becomes a config object, its tensors get the names. Where its
 * numbers lie differently a tensor's flags say so. Data stay mapped in their stored form.
 *
 * After opening: names are unique, every tensor lies inside its file, and its bytes are what its
 * type and shape say. Whether the tensors fit the configuration is the family's to check
 * (model_bind.c).
 */
#ifndef ISOTHERM_WEIGHTS_H
#define ISOTHERM_WEIGHTS_H

#include "engine_error.h"
#include "kernels.h"

#include <jansson.h>
#include <stdint.h>

#define WEIGHTS_DIMS_MAX   8
#define WEIGHTS_NAME_MAX   256
#define WEIGHTS_SHARDS_MAX 1024

enum weights_flag {
    /* Rows of q or k (matrix or bias) in pairs: of each head, output 2i + a of the product belongs
     * at i + a * head_dim / 2 (a = 0, 1). The llama architecture's .gguf files. */
    WEIGHTS_PAIRED = 1,
    /* [n_out][n_in], where a folder's file of this family has [n_in][n_out] (gpt2) */
    WEIGHTS_TURNED = 2,
    /* A norm's gain with the 1 added already (gemma) */
    WEIGHTS_ONE_ADDED = 4
};

struct weights_tensor {
    const char *name;      /* Hugging Face's; borrowed from the object, as the rest */
    const char *type_name; /* "F32", "Q4_K", "I64" ... */
    bool is_computable;    /* false: `type` means nothing, the kernels do not know it */
    enum kernels_type type;
    unsigned flags; /* of enum weights_flag */
    int n_dims;
    int64_t dim[WEIGHTS_DIMS_MAX]; /* rows first */
    int64_t n_elements;
    const unsigned char *data; /* n_bytes of them, not aligned */
    uint64_t n_bytes;
    const char *file; /* for error texts: "model.safetensors" */
};

struct gguf;
struct weights;

/* `path`: a folder or a .gguf file. A damaged one is refused with one line that names the file and
 * the field. */
ENGINE_WARN_UNUSED bool weights_open(struct weights **out, const char *path,
                                     struct engine_error *err);
void weights_close(struct weights *w);

/* config.json's object, or what stands for it. Its text "_file" is the name for error texts (not
 * the file's own word: one in config.json is overwritten). From a .gguf file:
 *  - model_type is the family in Hugging Face's word, gemma3_text for gemma3; unknown
 *    architectures keep their own;
 *  - tie_word_embeddings is true where there is no output matrix, attention_bias and mlp_bias where
 *    there are such tensors;
 *  - rope_scaling is {"rope_type": "factors", "factors": [head_dim / 2 numbers]} where the file has
 *    a tensor of factors (llama 3): frequency i is divided by factors[i]. */
const json_t *weights_config(const struct weights *w);

const struct weights_tensor *weights_find(const struct weights *w, const char *name); /* or NULL */
/* All of them, in the order of their names. */
const struct weights_tensor *weights_all(const struct weights *w, size_t *n);
/* "64, 32" into buf; cut where it does not fit. */
void weights_format_shape(const struct weights_tensor *t, char *buf, size_t n_buf);

/* NULL: a folder. */
const struct gguf *weights_gguf(const struct weights *w);
/* The folder itself, or the one that holds the .gguf file. */
const char *weights_folder(const struct weights *w);
/* What stands for all tensors in error texts: "model.safetensors", "model.safetensors.index.json",
 * "NAME.gguf". */
const char *weights_label(const struct weights *w);
uint64_t weights_file_bytes(const struct weights *w); /* of all files with tensors */
/* Reads them into memory, so that who computes does not wait for the disk. */
void weights_need(const struct weights *w);
/* Gives the memory of what was read back; what is read again comes from the files again. */
void weights_forget(const struct weights *w);
/* Hex SHA-256 of the file with the tensors; of several, of their bytes in the order of their names.
 * Reads them all. */
void weights_hash(const struct weights *w, char hex[65]);
/* Hex; of which files these are and when they were changed last, without reading them. */
void weights_identity(const struct weights *w, char hex[65]);

#endif
