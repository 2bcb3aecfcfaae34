/* decoder.h - what llama, mistral, qwen2, qwen3, gemma 2 and 3 and phi3 have in common: RMSNorm,
 * rotary positions (rotate-half), grouped kv heads, a gated ffn; as in Hugging Face's classes.
 *
 *   x = scale tokens[id]; for each layer:
 *     q, k, v = (norm x) Wq, (norm x) Wk, (norm x) Wv;  q, k = rope(norm? q), rope(norm? k)
 *     x += norm?(o(softmax(cap?(q k)) v))      over all positions, or a window of them
 *     x += norm?(down(act(gate(norm x)) * up(norm x)))
 *   logits = cap?(output(norm x))
 *
 * What has a question mark, and the rest in which the families differ, are fields of struct model
 * that the family's configure sets; the one forward pass reads them. A field of config.json that
 * changes the arithmetic is computed or refused by name.
 */
#ifndef ISOTHERM_DECODER_H
#define ISOTHERM_DECODER_H

#include "model_private.h"

/* ---- config.json (decoder_config.c). What a family's file takes as given where a field is
 * absent. */
struct decoder_defaults {
    const char *activation_field, *activation; /* the only one that is computed */
    int32_t n_vocab, n_heads;                  /* 0: there is none, the field must be there */
    int32_t n_kv_heads;                        /* 0: as many as heads */
    int32_t head_dim;                          /* 0: hidden_size / num_attention_heads */
    int32_t context;                           /* 0: 2048 */
    double theta;
    double eps; /* 0: 1e-6 */
    bool is_tied;
    bool can_rotate_in_part; /* partial_rotary_factor below 1 */
};
/* Shape, norms' eps, scales as most families have them, global rotary positions. No window. */
bool decoder_configure(struct model *m, const json_t *config, const struct decoder_defaults *d,
                       struct engine_error *err);
/* 'sliding_window': `absent` where the file does not say, no window for null and 0 (which .gguf
 * files of phi3 say for it). */
bool decoder_configure_window(struct model *m, const json_t *config, int32_t absent,
                              struct engine_error *err);
/* Which layers see the window alone: as 'layer_types' says where `reads_types` and it is there,
 * else is_local(layer, pattern). Nothing where the model has no window. */
typedef bool decoder_local_fn(int32_t layer, int32_t pattern);
bool decoder_configure_layers(struct model *m, const json_t *config, bool reads_types,
                              decoder_local_fn *is_local, int32_t pattern,
                              struct engine_error *err);
bool decoder_every_layer(int32_t layer, int32_t pattern); /* true */
/* 'attention_bias': q, k, v and o have one. */
bool decoder_configure_biases(struct model *m, const json_t *config, struct engine_error *err);
/* 'attn_logit_softcapping' and the like: `absent` where the file does not say, 0 (none) for null.
 */
bool decoder_configure_cap(const json_t *config, const char *field, double absent, float *cap,
                           struct engine_error *err);

/* ---- rotary positions (decoder_rope.c): m->rope[kind] from its theta and the scaling that the
 * file describes. May change the shape's context. */
bool decoder_configure_rope(struct model *m, enum model_rope_kind kind, const json_t *config,
                            const char *theta_field, double theta, struct engine_error *err);

/* ---- tensors (decoder_bind.c) */
bool decoder_bind(struct model *m, struct engine_error *err);
bool decoder_is_spare(const char *tensor);

/* ---- one batch (decoder.c) */
void decoder_forward(struct model_worker *w);

#endif
