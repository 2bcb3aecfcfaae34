/* quantize.h - writes a model's weights as a .gguf file of another type.
 *
 * Matrices whose rows fit the type's blocks get it, other matrices become F16, norms, biases and
 * learned positions stay float32. In Q4_0 files the token embedding and the output matrix are Q8_0,
 * as in published ones. From a .gguf file all metadata are kept; from a folder they are made of
 * config.json, with tokenizer.json whole under the format's key for it, tokenizer.huggingface.json.
 */
#ifndef ISOTHERM_QUANTIZE_H
#define ISOTHERM_QUANTIZE_H

#include "weights.h"

/* n floats, a multiple of the block, as F32, F16, Q8_0 or Q4_0. The scale of a block is the one
 * that llama.cpp's reference takes. */
void quantize_row(enum kernels_type type, const float *x, size_t n, unsigned char *out);

/* Called now and then with the elements done and all of them; false stops the work. */
typedef bool quantize_progress_fn(void *ud, uint64_t done, uint64_t total);

/* `from` is a model's that opened (model.h): its tensors are those of its family. Writes beside
 * `path` and renames at the end, so that no half file has that name; an existing one is replaced.
 * `type` is F32, F16, Q8_0 or Q4_0. progress may be NULL. */
ENGINE_WARN_UNUSED bool quantize_file(const struct weights *from, enum kernels_type type,
                                      const char *path, quantize_progress_fn *progress, void *ud,
                                      struct engine_error *err);

#endif
