/* model.h - a transformer's weights, immutable, and one forward pass a family behind it.
 *
 * Weights stay mapped in their stored form (F32, F16, BF16, the block types of .gguf files); every
 * tensor's name, type, shape and extent is checked before the first use. Numerics `exact`: every
 * output is float32, summed in sixteen strided lanes (lane j takes k = j mod 16, in order) and then
 * one fixed tree, so the same bits come out on any batch, thread count and instruction set.
 */
#ifndef ISOTHERM_MODEL_H
#define ISOTHERM_MODEL_H

#include "engine_error.h"
#include <stddef.h>
#include <stdint.h>

struct model;
struct kvcache;
struct weights;

struct model_shape {
    char family[16]; /* config.json's model_type: "llama", "gpt2" */
    int32_t n_vocab, n_layers, dim, n_heads, n_kv_heads, head_dim, ffn, context;
    int64_t n_params;
    char dtype[8]; /* of most weights: "F32", "F16", "Q4_K" ... */
};

/* `path`: a folder or a .gguf file (weights.h). A damaged one is refused with one line that names
 * the file and the field. */
ENGINE_WARN_UNUSED bool model_open(struct model **out, const char *path, struct engine_error *err);
void model_close(struct model *m);
const struct model_shape *model_get_shape(const struct model *m);
const struct weights *model_weights(const struct model *m);
/* Hex SHA-256 over the weights' files (weights_hash), computed once on first use (thread-safe):
 * part of the fingerprint. */
const char *model_hash(struct model *m);
/* It was computed before (known.h), and is not computed again. */
void model_set_hash(struct model *m, const char hash[65]);

/* What config.json alone says: the shape without n_params and dtype, or why no such model can be
 * computed. Families: gpt2, llama, mistral, qwen2, qwen3, gemma2, gemma3_text, gemma3 (its text
 * part), phi3. */
ENGINE_WARN_UNUSED bool model_read_config(const char *text, size_t n, struct model_shape *out,
                                          struct engine_error *err);

/* Keys and values of one sequence, room for `n_tokens_max` positions. */
ENGINE_WARN_UNUSED bool kvcache_new(struct kvcache **out, const struct model *m,
                                    int32_t n_tokens_max, struct engine_error *err);
void kvcache_free(struct kvcache *c);
int32_t kvcache_len(const struct kvcache *c);
void kvcache_truncate(struct kvcache *c, int32_t n_tokens);
/* dst has the first n positions of src from now on, and shares their memory until one of them goes
 * on: choices 1.. of one prompt. Both take their memory from the same account (kvcache.h). */
void kvcache_share(struct kvcache *dst, const struct kvcache *src, int32_t n_tokens);

/* One row of work: a token for one sequence at the sequence's next position. */
struct model_row {
    struct kvcache *cache; /* rows of one cache must be in order */
    int32_t token;
    float *logits; /* [n_vocab], or NULL: not wanted */
};

/* Scratch for up to n_rows_max rows at once and the worker threads (n_threads >= 1). */
struct model_worker;
ENGINE_WARN_UNUSED bool model_worker_new(struct model_worker **out, const struct model *m,
                                         int32_t n_rows_max, int n_threads,
                                         struct engine_error *err);
void model_worker_free(struct model_worker *w);
const char *
model_worker_kernels(const struct model_worker *w); /* "avx2", "ref": the set chosen at run time */

/* Another set, by name, for tests and for measuring determinism; false: this processor cannot run
 * it. */
bool model_worker_set_kernels(struct model_worker *w, const char *name);

/* Runs the rows through the model: any mix of sequences, prefill and decode together. Bits do not
 * depend on how rows are batched; more rows than n_rows_max run one part after the other. Fails
 * only when a cache is full (ENGINE_CONTEXT_FULL), a token is outside the vocabulary, or keys and
 * values find no memory; then nothing was changed. */
ENGINE_WARN_UNUSED bool model_forward(struct model_worker *w, const struct model_row *rows,
                                      size_t n_rows, struct engine_error *err);

#endif
