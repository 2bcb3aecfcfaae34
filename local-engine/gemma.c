/* gemma.c - gemma 2 and 3 (text), as in Hugging Face's Gemma2ForCausalLM and Gemma3ForCausalLM:
 * scaled embeddings, norms that multiply by 1 + gain, also after attention and ffn, a gelu gate,
 * local layers between global ones. Gemma 2 caps scores and logits; gemma 3 norms each head's q and
 * k instead and turns positions of its local layers at another base.
 */
#include "decoder.h"

static bool is_even(int32_t layer, int32_t pattern)
{
    (void)pattern;
    return layer % 2 == 0;
}

static bool is_between(int32_t layer, int32_t pattern)
{
    return (layer + 1) % pattern != 0;
}

static bool configure(struct model *m, const json_t *config, double theta, struct engine_error *err)
{
    const struct decoder_defaults defaults = {.activation_field = "hidden_activation",
                                              .activation = "gelu_pytorch_tanh",
                                              .head_dim = 256,
                                              .theta = theta,
                                              .is_tied = true};
    double scalar;
    if (!decoder_configure(m, config, &defaults, err) ||
        !decoder_configure_biases(m, config, err) ||
        !model_config_real(config, "query_pre_attn_scalar", 1e-3, 1e9, 256.0, &scalar, err) ||
        !decoder_configure_window(m, config, 4096, err)) {
        return false;
    }
    m->has_post_norms = m->is_gain_from_one = m->is_gelu = true;
    m->embedding_scale = sqrtf((float)m->shape.dim);
    m->attention_scale = 1.0f / sqrtf((float)scalar);
    return true;
}

static bool configure_gemma2(struct model *m, const json_t *config, struct engine_error *err)
{
    return configure(m, config, 10000.0, err) &&
           decoder_configure_cap(config, "attn_logit_softcapping", 50.0, &m->attention_cap, err) &&
           decoder_configure_cap(config, "final_logit_softcapping", 30.0, &m->logit_cap, err) &&
           decoder_configure_layers(m, config, true, is_even, 0, err);
}

static bool configure_gemma3(struct model *m, const json_t *config, struct engine_error *err)
{
    int32_t pattern;
    m->has_head_norms = true;
    return configure(m, config, 1e6, err) &&
           decoder_configure_cap(config, "attn_logit_softcapping", 0.0, &m->attention_cap, err) &&
           decoder_configure_cap(config, "final_logit_softcapping", 0.0, &m->logit_cap, err) &&
           decoder_configure_rope(m, MODEL_ROPE_LOCAL, config, "rope_local_base_freq", 10000.0,
                                  err) &&
           model_config_int(config, "sliding_window_pattern", 1, MODEL_LAYERS_MAX, 6, &pattern,
                            err) &&
           decoder_configure_layers(m, config, true, is_between, pattern, err);
}

const struct model_family model_gemma2 = {
    .model_type = "gemma2",
    .configure = configure_gemma2,
    .bind = decoder_bind,
    .forward = decoder_forward,
    .is_spare = decoder_is_spare,
};

const struct model_family model_gemma3 = {
    .model_type = "gemma3_text",
    .configure = configure_gemma3,
    .bind = decoder_bind,
    .forward = decoder_forward,
    .is_spare = decoder_is_spare,
};
