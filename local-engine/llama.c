/* llama.c - llama and mistral, as in Hugging Face's LlamaForCausalLM and MistralForCausalLM:
 * decoder.h without any of its question marks; mistral sees a window in every layer. */
#include "decoder.h"

static const struct decoder_defaults DEFAULTS = {
    .activation_field = "hidden_act", .activation = "silu", .theta = 10000.0};

static bool configure_llama(struct model *m, const json_t *config, struct engine_error *err)
{
    return decoder_configure(m, config, &DEFAULTS, err) &&
           decoder_configure_biases(m, config, err) &&
           model_config_bool(config, "mlp_bias", false, &m->has_ffn_bias, err);
}

static bool configure_mistral(struct model *m, const json_t *config, struct engine_error *err)
{
    enum { WINDOW = 4096 }; /* of the first release, whose field may be absent */
    return decoder_configure(m, config, &DEFAULTS, err) &&
           decoder_configure_window(m, config, WINDOW, err) &&
           decoder_configure_layers(m, config, false, decoder_every_layer, 0, err);
}

const struct model_family model_llama = {
    .model_type = "llama",
    .configure = configure_llama,
    .bind = decoder_bind,
    .forward = decoder_forward,
    .is_spare = decoder_is_spare,
};

const struct model_family model_mistral = {
    .model_type = "mistral",
    .configure = configure_mistral,
    .bind = decoder_bind,
    .forward = decoder_forward,
    .is_spare = decoder_is_spare,
};
