/* quantize_meta.c - the header of the new file: copied from a .gguf file, or made of config.json by
 * the table that weights_gguf_config.c reads the other way. */
#include "quantize_private.h"

#include "filemap.h"
#include "tokenizer_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t file_type(enum kernels_type type)
{
    switch (type) { /* general.file_type, as the format numbers it */
    case KERNELS_F32:
        return 0;
    case KERNELS_F16:
        return 1;
    case KERNELS_Q4_0:
        return 2;
    default:
        return 7;
    }
}

bool quantize_arch(const struct weights *from, char *arch, size_t n_arch, struct engine_error *err)
{
    static const char *const KNOWN[] = {"llama", "gpt2",  "qwen2", "qwen3",
                                        "phi3",  "gemma", "gemma2"};
    const char *type = json_string_value(json_object_get(from->config, "model_type"));
    type = type ? type : "";
    if (from->gguf) {
        (void)snprintf(arch, n_arch, "%s", strcmp(type, "gemma3_text") == 0 ? "gemma3" : type);
        return true;
    }
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++) {
        if (strcmp(KNOWN[i], type) == 0) {
            (void)snprintf(arch, n_arch, "%s", type);
            return true;
        }
    }
    return engine_fail(err, ENGINE_BAD_FILE, "",
                       "config.json: 'model_type' '%.60s' has no form as .gguf here", type);
}

static bool copy_pairs(struct gguf_writer *w, const struct gguf *g)
{
    struct gguf_pair pair;
    for (size_t i = 0; gguf_pair(g, i, &pair); i++) {
        if (strcmp(pair.key, "general.file_type") != 0 &&
            strcmp(pair.key, "general.quantization_version") != 0 &&
            strcmp(pair.key, "general.alignment") != 0) { /* ours is the default */
            gguf_write_pair(w, &pair);
        }
    }
    return true;
}

/* ---------------------------------------------------------------- from a folder */

static void write_field(struct gguf_writer *w, const char *arch, const json_t *config,
                        const struct weights_field *f)
{
    char key[GGUF_NAME_MAX];
    const json_t *v = json_object_get(config, f->word);
    (void)snprintf(key, sizeof key, "%s.%s", arch, f->key);
    if (f->is_real && json_is_number(v)) {
        gguf_write_f32(w, key, json_number_value(v));
    } else if (!f->is_real && json_is_integer(v)) {
        gguf_write_u32(w, key, (uint32_t)json_integer_value(v));
    }
}

/* Values that config.json may leave out and the format may not. */
static void write_defaults(struct gguf_writer *w, const char *arch, const json_t *config)
{
    static const struct {
        const char *word, *key;
        int64_t n;
        double x;
    } DEFAULTS[] = {{"max_position_embeddings", "context_length", 2048, 0.0},
                    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", 0, 1e-6},
                    {"n_positions", "context_length", 1024, 0.0},
                    {"layer_norm_epsilon", "attention.layer_norm_epsilon", 0, 1e-5}};
    bool is_gpt2 = strcmp(arch, "gpt2") == 0, is_phi3 = strcmp(arch, "phi3") == 0;
    char key[GGUF_NAME_MAX];
    for (size_t i = is_gpt2 ? 2 : 0; i < (is_gpt2 ? 4u : 2u); i++) {
        (void)snprintf(key, sizeof key, "%s.%s", arch, DEFAULTS[i].key);
        if (!json_is_number(json_object_get(config, DEFAULTS[i].word))) {
            if (DEFAULTS[i].n > 0) {
                gguf_write_u32(w, key, (uint32_t)DEFAULTS[i].n);
            } else {
                gguf_write_f32(w, key, is_phi3 ? 1e-5 : DEFAULTS[i].x);
            }
        }
    }
    if (is_gpt2 && !json_is_integer(json_object_get(config, "n_inner"))) {
        gguf_write_u32(w, "gpt2.feed_forward_length",
                       (uint32_t)(4 * json_integer_value(json_object_get(config, "n_embd"))));
    }
}

/* What the format's keys cannot say is refused. */
static bool check_config(const json_t *config, struct engine_error *err)
{
    static const char *const WORDS[] = {"rope_scaling", "quantization_config", "rope_parameters"};
    for (size_t i = 0; i < 3; i++) {
        const json_t *v = json_object_get(config, WORDS[i]);
        if (v && !json_is_null(v)) {
            return engine_fail(
                err, ENGINE_BAD_FILE, "",
                "config.json: '%s' is set, which is not written as .gguf: begin with "
                "a .gguf file of the model",
                WORDS[i]);
        }
    }
    return true;
}

/* What the companions of tokenizer.json say: all of it in a key of ours, and as far as the format
 * has keys, in those. */
static bool write_ids(struct gguf_writer *w, const struct weights *from, struct engine_error *err)
{
    struct tokenizer *t = NULL;
    size_t n_eos;
    if (!tokenizer_open(&t, from->folder, err)) {
        return false;
    }
    const int32_t *eos = tokenizer_eos(t, &n_eos), bos = tokenizer_bos(t);
    json_t *ends = json_array(), *config = json_pack("{s:b,s:O}", "add_bos_token",
                                                     tokenizer_adds_bos(t), "eos_token_id", ends);
    bool ok =
        config && (bos < 0 || json_object_set_new(config, "bos_token_id", json_integer(bos)) == 0);
    for (size_t i = 0; ok && i < n_eos; i++) {
        ok = json_array_append_new(ends, json_integer(eos[i])) == 0;
    }
    char *text = ok ? json_dumps(config, JSON_COMPACT) : NULL;
    if (text) {
        gguf_write_string(w, TOKENIZER_SOURCE_CONFIG, text, strlen(text));
    }
    if (bos >= 0) {
        gguf_write_u32(w, "tokenizer.ggml.bos_token_id", (uint32_t)bos);
    }
    if (n_eos > 0) {
        gguf_write_u32(w, "tokenizer.ggml.eos_token_id", (uint32_t)eos[0]);
    }
    gguf_write_bool(w, "tokenizer.ggml.add_bos_token", tokenizer_adds_bos(t));
    json_decref(config);
    json_decref(ends);
    tokenizer_close(t);
    ok = text != NULL;
    free(text);
    return ok || engine_fail(err, ENGINE_NOMEM, "", "out of memory for the tokenizer");
}

static bool write_tokenizer(struct gguf_writer *w, const struct weights *from,
                            struct engine_error *err)
{
    char path[4200];
    struct filemap map = {0};
    (void)snprintf(path, sizeof path, "%s/tokenizer.json", from->folder);
    if (access(path, F_OK) != 0) {
        return true;
    }
    if (!filemap_open(&map, path, "tokenizer.json", 1, "tokenizer", err)) {
        return false;
    }
    gguf_write_string(w, TOKENIZER_SOURCE_JSON, (const char *)map.bytes, map.n);
    filemap_close(&map);
    return write_ids(w, from, err);
}

static bool write_config(struct gguf_writer *w, const struct weights *from,
                         struct engine_error *err)
{
    char arch[32];
    size_t n;
    const struct weights_field *f = weights_gguf_fields(&n);
    if (!quantize_arch(from, arch, sizeof arch, err) || !check_config(from->config, err)) {
        return false;
    }
    gguf_write_string(w, "general.architecture", arch, strlen(arch));
    for (size_t i = 0; i < n; i++) {
        if (f[i].is_gpt2 == (strcmp(arch, "gpt2") == 0)) {
            write_field(w, arch, from->config, &f[i]);
        }
    }
    const json_t *head_dim = json_object_get(from->config, "head_dim");
    if (json_is_integer(head_dim)) {
        char key[64];
        (void)snprintf(key, sizeof key, "%s.attention.value_length", arch);
        gguf_write_u32(w, key, (uint32_t)json_integer_value(head_dim));
    }
    write_defaults(w, arch, from->config);
    return write_tokenizer(w, from, err);
}

bool quantize_meta(struct gguf_writer *w, const struct weights *from, enum kernels_type type,
                   struct engine_error *err)
{
    bool ok = from->gguf ? copy_pairs(w, from->gguf) : write_config(w, from, err);
    gguf_write_u32(w, "general.file_type", file_type(type));
    gguf_write_u32(w, "general.quantization_version", 2);
    return ok;
}
