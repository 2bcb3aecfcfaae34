/* gguf_write.h - writes a .gguf file of version 3: first everything that the header says, then the
 * data of each tensor in the order in which they were named.
 *
 * The header is gathered in memory. A failed call is remembered: the later ones do nothing, and
 * gguf_writer_end() tells it.
 */
#ifndef ISOTHERM_GGUF_WRITE_H
#define ISOTHERM_GGUF_WRITE_H

#include "engine_error.h"
#include "gguf.h"
#include <stdio.h>

struct gguf_writer;
/* `out` is borrowed and at its beginning. NULL: out of memory. */
struct gguf_writer *gguf_writer_new(FILE *out);
void gguf_writer_free(struct gguf_writer *w);

void gguf_write_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_write_f32(struct gguf_writer *w, const char *key, double value);
void gguf_write_bool(struct gguf_writer *w, const char *key, bool value);
void gguf_write_string(struct gguf_writer *w, const char *key, const char *text, size_t len);
/* A pair of another file as it is. */
void gguf_write_pair(struct gguf_writer *w, const struct gguf_pair *pair);

/* Rows first. n_elements fits the type's blocks. */
void gguf_write_tensor(struct gguf_writer *w, const char *name, const struct gguf_tensor_type *type,
                       int n_dims, const int64_t *dim);
/* The header is complete. */
void gguf_write_header(struct gguf_writer *w);
/* The next bytes of the tensors' data; the last of a tensor brings the padding. */
void gguf_write_data(struct gguf_writer *w, const void *bytes, size_t n);
/* false: something could not be written, or the data are not what the header says. */
ENGINE_WARN_UNUSED bool gguf_writer_end(struct gguf_writer *w, struct engine_error *err);

#endif
