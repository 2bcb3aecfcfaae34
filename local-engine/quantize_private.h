/* quantize_private.h - what quantize.c (numbers), quantize_file.c (tensors) and quantize_meta.c
 * (header) share. */
#ifndef ISOTHERM_QUANTIZE_PRIVATE_H
#define ISOTHERM_QUANTIZE_PRIVATE_H

#include "gguf_write.h"
#include "quantize.h"
#include "weights_private.h"

/* The metadata of the new file. arch receives the architecture in the format's word. */
bool quantize_meta(struct gguf_writer *w, const struct weights *from, enum kernels_type type,
                   struct engine_error *err);
/* The format's word for the model's architecture; false: it has none that we know. */
bool quantize_arch(const struct weights *from, char *arch, size_t n_arch, struct engine_error *err);

#endif
