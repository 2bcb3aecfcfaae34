/* tokenizer_source.h - where the files of a model keep its tokenizer: a .gguf file in its metadata
 * (tokenizer.ggml.*, or a whole tokenizer.json under tokenizer.huggingface.json), a folder in
 * tokenizer.json and its companions. A .gguf file without either takes those of its folder.
 */
#ifndef ISOTHERM_TOKENIZER_SOURCE_H
#define ISOTHERM_TOKENIZER_SOURCE_H

#include "tokenizer.h"

struct weights;

/* The files, opened; by value. */
struct tokenizer_source {
    const struct weights *weights; /* borrowed */
    struct tokenizer_files *files; /* NULL: all is in the .gguf file */
};

#define TOKENIZER_SOURCE_JSON "tokenizer.huggingface.json"
/* Beside it, what its companions say of begin and end, in the words of tokenizer_config.json: the
 * format's own keys hold one end token. */
#define TOKENIZER_SOURCE_CONFIG "isotherm.tokenizer_config"

ENGINE_WARN_UNUSED bool tokenizer_source_open(struct tokenizer_source *out, const struct weights *w,
                                              struct engine_error *err);
void tokenizer_source_close(struct tokenizer_source *s);
/* Gives the memory of what was read of the files back: some have 33 MB. */
void tokenizer_source_forget(const struct tokenizer_source *s);
/* Opens nothing. */
ENGINE_WARN_UNUSED bool tokenizer_source_read(const struct tokenizer_source *s,
                                              struct tokenizer **out, struct engine_error *err);
/* All of that for one tokenizer. */
ENGINE_WARN_UNUSED bool tokenizer_source_tokenizer(struct tokenizer **out, const struct weights *w,
                                                   struct engine_error *err);

#endif
