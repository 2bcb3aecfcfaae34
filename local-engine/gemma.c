/* gemma.c - gemma 2 and 3 (text), as in Hugging Face's Gemma2ForCausalLM and Gemma3ForCausalLM:
 * scaled embeddings, norms that multiply by 1 + gain, also after attention and ffn, a gelu gate,
 * local layers between global ones. Gemma 2 caps scores and logits; gemma 3 norms each head's q and
 * k instead (its attn_logit_softcapping is a field that the class keeps and does not compute with)
 * and turns positions of its local layers at another base. The larger gemma 3 also read
 * images (Gemma3ForConditionalGeneration): of them the part that reads text is computed, which is a
 * gemma3_text under another prefix; its text_config leaves out what the class has as defaults.
 */
#include "decoder.h"

#include <string.h>

static bool is_even(int32_t layer, int32_t pattern)
{
    (void)pattern;
    return layer % 2 == 0;
}

static bool is_between(int32_t layer, int32_t pattern)
{
    return (layer + 1) % pattern != 0;
}

#define DEFAULTS                                                                                   \
    .activation_field = "hidden_activation", .activation = "gelu_pytorch_tanh", .head_dim = 256,   \
    .is_tied = true
static const struct decoder_defaults GEMMA2 = {DEFAULTS, .theta = 10000.0};
static const struct decoder_defaults GEMMA3 = {DEFAULTS,     .theta = 1e6,    .n_vocab = 262208,
                                               .n_heads = 8, .n_kv_heads = 4, .context = 131072};

static bool configure(struct model *m, const json_t *config, const struct decoder_defaults *d,
                      struct engine_error *err)
{
    double scalar;
    if (!decoder_configure(m, config, d, err) || !decoder_configure_biases(m, config, err) ||
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
    return configure(m, config, &GEMMA2, err) &&
           decoder_configure_cap(config, "attn_logit_softcapping", 50.0, &m->attention_cap, err) &&
           decoder_configure_cap(config, "final_logit_softcapping", 30.0, &m->logit_cap, err) &&
           decoder_configure_layers(m, config, true, is_even, 0, err);
}

static bool configure_gemma3(struct model *m, const json_t *config, struct engine_error *err)
{
    int32_t pattern;
    m->has_head_norms = true;
    return configure(m, config, &GEMMA3, err) &&
           decoder_configure_cap(config, "final_logit_softcapping", 0.0, &m->logit_cap, err) &&
           decoder_configure_rope(m, MODEL_ROPE_LOCAL, config, "rope_local_base_freq", 10000.0,
                                  err) &&
           model_config_int(config, "sliding_window_pattern", 1, MODEL_LAYERS_MAX, 6, &pattern,
                            err) &&
           decoder_configure_layers(m, config, true, is_between, pattern, err);
}

static bool configure_images(struct model *m, const json_t *config, struct engine_error *err)
{
    const json_t *text = json_object_get(config, "text_config");
    if (!json_is_object(text)) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: 'text_config' must be an object",
                           model_config_file(config));
    }
    m->prefix = "language_model.";
    return model_config_word(text, "model_type", "gemma3_text", err) &&
           configure_gemma3(m, text, err);
}

static bool is_spare_images(const char *tensor)
{
    static const char *const parts[] = {"vision_tower.", "multi_modal_projector.",
                                        "language_model.lm_head."};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strncmp(tensor, parts[i], strlen(parts[i])) == 0) {
            return true;
        }
    }
    return false;
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

const struct model_family model_gemma3_images = {
    .model_type = "gemma3",
    .configure = configure_images,
    .bind = decoder_bind,
    .forward = decoder_forward,
    .is_spare = is_spare_images,
};
