/* safetensors.h - the tensors of one .safetensors file, mapped read-only.
 *
 * Layout: 8 bytes of little-endian header length, a JSON object name -> {dtype, shape,
 * data_offsets}, then the data. All of it comes from outside. After opening these hold: names
 * are unique and printable, every tensor lies inside the file, its bytes are exactly dtype times
 * shape, and the tensors cover the data without overlap or hole, as the format demands. The data
 * may lie at any address: nothing here is aligned.
 */
#ifndef ISOTHERM_SAFETENSORS_H
#define ISOTHERM_SAFETENSORS_H

#include "engine_error.h"
#include "filemap.h"
#include <stddef.h>
#include <stdint.h>

#define SAFETENSORS_DIMS_MAX   8
#define SAFETENSORS_NAME_MAX   256
#define SAFETENSORS_HEADER_MAX (100u << 20) /* the limit of the format's own library */

struct safetensors_tensor {
    const char *name;  /* borrowed from the file object, as the rest */
    const char *dtype; /* "F32", "F16", "BF16", "I64" ... */
    int n_dims;
    int64_t dim[SAFETENSORS_DIMS_MAX];
    int64_t n_elements;
    const unsigned char *data; /* n_bytes of them */
    uint64_t n_bytes;
};

struct safetensors;
ENGINE_WARN_UNUSED bool safetensors_open(struct safetensors **out, const char *path,
                                         struct engine_error *err);
/* The same from bytes in memory, which must outlive the object; `label` stands for the file in
 * error texts. */
ENGINE_WARN_UNUSED bool safetensors_parse(struct safetensors **out, const unsigned char *bytes,
                                          size_t n, const char *label, struct engine_error *err);
void safetensors_close(struct safetensors *st);

/* NULL: no such tensor. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *st, const char *name);
/* All of them, in the order of their names. */
const struct safetensors_tensor *safetensors_all(const struct safetensors *st, size_t *n);
const char *safetensors_label(const struct safetensors *st);
/* Nothing is mapped of safetensors_parse(). */
const struct filemap *safetensors_file(const struct safetensors *st);

#endif
