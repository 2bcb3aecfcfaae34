/* qwen.c - qwen2 (biases of q, k and v) and qwen3 (norms of each head's q and k), as in Hugging
 * Face's Qwen2ForCausalLM and Qwen3ForCausalLM. Both may have windows in their upper layers. */
#include "decoder.h"

static bool is_upper(int32_t layer, int32_t n_whole)
{
    return layer >= n_whole;
}

static bool configure(struct model *m, const json_t *config, int32_t head_dim,
                      struct engine_error *err)
{
    const struct decoder_defaults defaults = {.activation_field = "hidden_act",
                                              .activation = "silu",
                                              .head_dim = head_dim,
                                              .theta = 10000.0};
    bool has_window;
    int32_t n_whole;
    if (!decoder_configure(m, config, &defaults, err) ||
        !model_config_bool(config, "use_sliding_window", false, &has_window, err) ||
        !model_config_int(config, "max_window_layers", 0, MODEL_LAYERS_MAX, 28, &n_whole, err) ||
        !decoder_configure_window(m, config, 4096, err)) {
        return false;
    }
    m->window = has_window ? m->window : 0;
    return decoder_configure_layers(m, config, true, is_upper, n_whole, err);
}

static bool configure_qwen2(struct model *m, const json_t *config, struct engine_error *err)
{
    m->has_qkv_bias = true;
    return configure(m, config, 0, err);
}

static bool configure_qwen3(struct model *m, const json_t *config, struct engine_error *err)
{
    m->has_head_norms = true;
    return configure(m, config, 128, err) && decoder_configure_biases(m, config, err);
}

const struct model_family model_qwen2 = {
    .model_type = "qwen2",
    .configure = configure_qwen2,
    .bind = decoder_bind,
    .forward = decoder_forward,
    .is_spare = decoder_is_spare,
};

const struct model_family model_qwen3 = {
    .model_type = "qwen3",
    .configure = configure_qwen3,
    .bind = decoder_bind,
    .forward = decoder_forward,
    .is_spare = decoder_is_spare,
};
