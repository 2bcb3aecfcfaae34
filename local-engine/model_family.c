/* model_family.c - from config.json to a family and its shape. */
#include "model_private.h"

#include <stdlib.h>
#include <string.h>

static const struct model_family *const FAMILIES[] = {
    &model_gpt2,   &model_llama,  &model_mistral,       &model_qwen2, &model_qwen3,
    &model_gemma2, &model_gemma3, &model_gemma3_images, &model_phi3};
enum { N_FAMILIES = sizeof FAMILIES / sizeof FAMILIES[0] };

/* Fields of relatives of our families that change the arithmetic: a file that has one was not made
 * for what we compute. */
static const char *const UNKNOWN[] = {
    "alibi",          "attention_multiplier", "clip_qkv",    "embedding_multiplier",
    "logit_scale",    "logits_scaling",       "num_experts", "num_local_experts",
    "no_rope_layers", "residual_multiplier"};

static const struct model_family *unknown_family(const json_t *config, const char *type,
                                                 struct engine_error *err)
{
    char all[160] = "";
    for (size_t i = 0; i < N_FAMILIES; i++) {
        size_t at = strlen(all);
        (void)snprintf(all + at, sizeof all - at, "%s%s",
                       i == 0                ? ""
                       : i + 1 == N_FAMILIES ? " or "
                                             : ", ",
                       FAMILIES[i]->model_type);
    }
    (void)engine_fail(err, ENGINE_BAD_FILE, "", "%s: 'model_type' is '%.60s', %s expected",
                      model_config_file(config), type, all);
    return NULL;
}

static const struct model_family *find_family(const json_t *config, struct engine_error *err)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    if (!type) {
        (void)engine_fail(err, ENGINE_BAD_FILE, "", "%s: 'model_type' is missing",
                          model_config_file(config));
        return NULL;
    }
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (strcmp(FAMILIES[i]->model_type, type) == 0) {
            return FAMILIES[i];
        }
    }
    return unknown_family(config, type, err);
}

static bool check_unknown(const json_t *config, struct engine_error *err)
{
    for (size_t i = 0; i < sizeof UNKNOWN / sizeof UNKNOWN[0]; i++) {
        if (!model_config_absent(config, UNKNOWN[i], "is set, which is not supported", err)) {
            return false;
        }
    }
    return model_config_absent(config, "quantization_config",
                               "is set: only F32, F16 and BF16 weights are supported", err) &&
           model_config_flag(config, "use_bidirectional_attention", false, err) &&
           model_config_flag(config, "is_encoder_decoder", false, err) &&
           model_config_flag(config, "use_mrope", false, err);
}

bool model_configure(struct model *m, const json_t *config, struct engine_error *err)
{
    m->family = find_family(config, err);
    if (!m->family || !check_unknown(config, err) || !m->family->configure(m, config, err)) {
        return false;
    }
    (void)snprintf(m->shape.family, sizeof m->shape.family, "%s", m->family->model_type);
    return true;
}
