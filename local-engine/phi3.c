/* phi3.c - phi3, as in Hugging Face's Phi3ForCausalLM: q, k and v in one tensor, gate and up in
 * another, a window in every layer, positions that may turn a part of each head only. */
#include "decoder.h"

static bool configure(struct model *m, const json_t *config, struct engine_error *err)
{
    static const struct decoder_defaults defaults = {.activation_field = "hidden_act",
                                                     .activation = "silu",
                                                     .theta = 10000.0,
                                                     .eps = 1e-5,
                                                     .can_rotate_in_part = true};
    m->is_fused = true;
    return decoder_configure(m, config, &defaults, err) &&
           model_config_flag(config, "attention_bias", false, err) &&
           decoder_configure_window(m, config, 0, err) &&
           decoder_configure_layers(m, config, false, decoder_every_layer, 0, err);
}

const struct model_family model_phi3 = {
    .model_type = "phi3",
    .configure = configure,
    .bind = decoder_bind,
    .forward = decoder_forward,
    .is_spare = decoder_is_spare,
};
