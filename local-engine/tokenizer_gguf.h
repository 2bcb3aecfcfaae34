/* tokenizer_gguf.h - the tokenizer of a .gguf file, from its metadata (tokenizer.ggml.*): models
 * "gpt2" (byte-level BPE), "llama" (SentencePiece's BPE by scores) and "t5" (Unigram).
 *
 * Such a file names its pre-tokenisation pattern (tokenizer.ggml.pre) and has no list of steps:
 * names that are not known here are refused, so that no model runs on wrong tokens.
 */
#ifndef ISOTHERM_TOKENIZER_GGUF_H
#define ISOTHERM_TOKENIZER_GGUF_H

#include "gguf.h"
#include "tokenizer.h"

/* Nothing is borrowed from the file afterwards. */
ENGINE_WARN_UNUSED bool tokenizer_from_gguf(struct tokenizer **out, const struct gguf *g,
                                            struct engine_error *err);

#endif
