/* bench_model.h - makes a model of the size of Qwen2's 0.5B (494 million weights in BF16, 988 MB)
 * with a vocabulary of 152 thousand tokens, in both formats. The weights are zeros: a hole in the
 * file, which takes no room on the disk and is read like any other bytes. The tokens are put
 * together at random, as merges put them together.
 */
#ifndef ISOTHERM_BENCH_MODEL_H
#define ISOTHERM_BENCH_MODEL_H

#include "local-engine/codepoint.h"
#include "local-engine/vocab.h"
#include "tests/unit/gguf_builder.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BENCH_LAYERS = 24,
    BENCH_DIM = 896,
    BENCH_FFN = 4864,
    BENCH_KV = 128, /* two heads of 64 */
    BENCH_VOCAB = 151936,
    BENCH_TOKENS = 151643, /* the others are special or not used */
    BENCH_CONTEXT = 32768,
    BENCH_TEXT_MAX = 24, /* bytes of a token's spelling */
};

/* ---- tokens */

struct bench_tokens {
    struct vocab vocab;
    int32_t half[BENCH_TOKENS][2]; /* of those from 256 on */
};

static inline uint32_t bench_byte_char(unsigned b) /* GPT-2's characters for bytes */
{
    static const unsigned char gap[] = {33, 127, 161, 173, 174};
    return b < gap[0]                  ? 256 + b
           : b < gap[1]                ? b
           : b < gap[2]                ? 256 + 33 + (b - 127)
           : b >= gap[4] || b < gap[3] ? b
                                       : 256 + 67;
}

static inline bool bench_tokens_make(struct bench_tokens *t)
{
    uint64_t x = 1;
    bool done = vocab_reserve(&t->vocab, BENCH_TOKENS, (size_t)8 * BENCH_TOKENS);
    for (int32_t id = 0; done && id < 256; id++) { /* letters and the space first */
        char text[4];
        unsigned byte = ((unsigned)id + 32) % 256;
        done = vocab_add(&t->vocab, text, codepoint_write(text, bench_byte_char(byte)), id) ==
               VOCAB_DONE;
    }
    for (int32_t id = 256; done && id < BENCH_TOKENS;) {
        char text[2 * BENCH_TEXT_MAX];
        size_t len = 0;
        for (int i = 0; i < 2; i++) {
            size_t n;
            x = x * 6364136223846793005u + 1442695040888963407u;
            uint32_t draw = (uint32_t)(x >> 33) % (uint32_t)(id - 161); /* 95 characters, merges */
            t->half[id][i] = (int32_t)(draw < 95 ? draw : draw + 161);
            const char *s = vocab_spelling(&t->vocab, t->half[id][i], &n);
            memcpy(text + len, s, n);
            len += n;
        }
        enum vocab_result r =
            len > BENCH_TEXT_MAX ? VOCAB_SAME_TEXT : vocab_add(&t->vocab, text, len, id);
        id += r == VOCAB_DONE;
        done = r == VOCAB_DONE || r == VOCAB_SAME_TEXT;
    }
    return done;
}

/* ---- tensors */

struct bench_tensor {
    const char *folder, *gguf; /* names; of a layer's the part behind its number */
    uint32_t rows, columns;
};
static const struct bench_tensor bench_outer[] = {
    {"model.embed_tokens.weight", "token_embd.weight", BENCH_VOCAB, BENCH_DIM},
    {"model.norm.weight", "output_norm.weight", 1, BENCH_DIM},
};
static const struct bench_tensor bench_inner[] = {
    {"input_layernorm.weight", "attn_norm.weight", 1, BENCH_DIM},
    {"self_attn.q_proj.weight", "attn_q.weight", BENCH_DIM, BENCH_DIM},
    {"self_attn.q_proj.bias", "attn_q.bias", 1, BENCH_DIM},
    {"self_attn.k_proj.weight", "attn_k.weight", BENCH_KV, BENCH_DIM},
    {"self_attn.k_proj.bias", "attn_k.bias", 1, BENCH_KV},
    {"self_attn.v_proj.weight", "attn_v.weight", BENCH_KV, BENCH_DIM},
    {"self_attn.v_proj.bias", "attn_v.bias", 1, BENCH_KV},
    {"self_attn.o_proj.weight", "attn_output.weight", BENCH_DIM, BENCH_DIM},
    {"post_attention_layernorm.weight", "ffn_norm.weight", 1, BENCH_DIM},
    {"mlp.gate_proj.weight", "ffn_gate.weight", BENCH_FFN, BENCH_DIM},
    {"mlp.up_proj.weight", "ffn_up.weight", BENCH_FFN, BENCH_DIM},
    {"mlp.down_proj.weight", "ffn_down.weight", BENCH_DIM, BENCH_FFN},
};
enum {
    BENCH_OUTER = sizeof bench_outer / sizeof *bench_outer,
    BENCH_INNER = sizeof bench_inner / sizeof *bench_inner,
    BENCH_TENSORS = BENCH_OUTER + BENCH_LAYERS * BENCH_INNER
};

/* The i-th, its name in one of the formats, and its bytes in BF16. */
static inline const struct bench_tensor *bench_tensor_at(int i, bool is_gguf, char name[96],
                                                         uint64_t *bytes)
{
    const struct bench_tensor *t =
        i < BENCH_OUTER ? &bench_outer[i] : &bench_inner[(i - BENCH_OUTER) % BENCH_INNER];
    const char *part = is_gguf ? t->gguf : t->folder;
    if (i < BENCH_OUTER) {
        (void)snprintf(name, 96, "%s", part);
    } else {
        (void)snprintf(name, 96, "%s.%d.%s", is_gguf ? "blk" : "model.layers",
                       (i - BENCH_OUTER) / BENCH_INNER, part);
    }
    *bytes = (uint64_t)t->rows * t->columns * 2;
    return t;
}

/* ---- a folder */

static inline void bench_put_quoted(FILE *f, const struct bench_tokens *t, int32_t id)
{
    (void)fputc('"', f);
    for (const char *s = vocab_spelling(&t->vocab, id, NULL); *s; s++) {
        (void)fprintf(f, "%s%c", *s == '"' || *s == '\\' ? "\\" : "", *s);
    }
    (void)fputc('"', f);
}

/* With the indents of the published files, which are two thirds of their bytes. */
static inline void bench_write_tokenizer(FILE *f, const struct bench_tokens *t)
{
    (void)fputs(
        "{\n  \"version\": \"1.0\",\n  \"added_tokens\": [\n    {\"id\": 151643, \"content\": "
        "\"<|endoftext|>\", \"special\": true}\n  ],\n  \"pre_tokenizer\": {\"type\": "
        "\"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true},\n"
        "  \"decoder\": {\"type\": \"ByteLevel\"},\n"
        "  \"model\": {\n    \"type\": \"BPE\",\n    \"vocab\": {",
        f);
    for (int32_t id = 0; id < BENCH_TOKENS; id++) {
        (void)fputs(id ? ",\n      " : "\n      ", f);
        bench_put_quoted(f, t, id);
        (void)fprintf(f, ": %d", id);
    }
    (void)fputs("\n    },\n    \"merges\": [", f);
    for (int32_t id = 256; id < BENCH_TOKENS; id++) {
        (void)fputs(id > 256 ? ",\n      [\n        " : "\n      [\n        ", f);
        bench_put_quoted(f, t, t->half[id][0]);
        (void)fputs(",\n        ", f);
        bench_put_quoted(f, t, t->half[id][1]);
        (void)fputs("\n      ]", f);
    }
    (void)fputs("\n    ]\n  }\n}\n", f);
}

static inline void bench_write_config(FILE *f)
{
    (void)fprintf(f,
                  "{\"model_type\": \"qwen2\", \"hidden_act\": \"silu\", \"hidden_size\": %d, "
                  "\"intermediate_size\": %d, \"num_hidden_layers\": %d, "
                  "\"num_attention_heads\": 14, \"num_key_value_heads\": 2, "
                  "\"max_position_embeddings\": %d, \"rms_norm_eps\": 1e-6, "
                  "\"rope_theta\": 1000000.0, \"tie_word_embeddings\": true, "
                  "\"vocab_size\": %d, \"eos_token_id\": 151643}\n",
                  BENCH_DIM, BENCH_FFN, BENCH_LAYERS, BENCH_CONTEXT, BENCH_VOCAB);
}

/* The header of model.safetensors; returns the bytes of the data behind it. */
static inline uint64_t bench_write_safetensors(FILE *f)
{
    struct gguf_bytes text = {0};
    uint64_t at = 0, bytes;
    for (int i = 0; i < BENCH_TENSORS; i++) {
        char name[96], line[256];
        const struct bench_tensor *t = bench_tensor_at(i, false, name, &bytes);
        char shape[32];
        (void)snprintf(shape, sizeof shape, t->rows == 1 ? "[%u]" : "[%u, %u]",
                       t->rows == 1 ? t->columns : t->rows, t->columns);
        int n = snprintf(line, sizeof line,
                         "%c\"%s\": {\"dtype\": \"BF16\", \"shape\": %s, \"data_offsets\": "
                         "[%llu, %llu]}",
                         i ? ',' : '{', name, shape, (unsigned long long)at,
                         (unsigned long long)(at + bytes));
        gguf_put(&text, line, (size_t)n);
        at += bytes;
    }
    gguf_put(&text, "}", 1);
    while (text.n % 8) {
        gguf_put(&text, " ", 1);
    }
    uint64_t n = text.n;
    unsigned char head[8];
    for (int i = 0; i < 8; i++) {
        head[i] = (unsigned char)(n >> (8 * i));
    }
    (void)fwrite(head, 1, 8, f);
    (void)fwrite(text.p, 1, text.n, f);
    free(text.p);
    return at;
}

/* ---- a .gguf file */

static inline void bench_put_list(struct gguf_bytes *b, const char *key, uint32_t type, uint64_t n)
{
    gguf_put_key(b, key, 9);
    gguf_put_int(b, type, 4);
    gguf_put_int(b, n, 8);
}

static inline void bench_put_tokens(struct gguf_bytes *b, const struct bench_tokens *t)
{
    gguf_put_string(b, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(b, "tokenizer.ggml.pre", "qwen2");
    gguf_put_u32(b, "tokenizer.ggml.eos_token_id", BENCH_TOKENS);
    bench_put_list(b, "tokenizer.ggml.tokens", 8, BENCH_VOCAB);
    for (int32_t id = 0; id < BENCH_VOCAB; id++) {
        char text[32];
        (void)snprintf(text, sizeof text, "[PAD%d]", id);
        gguf_put_text(b, id < BENCH_TOKENS ? vocab_spelling(&t->vocab, id, NULL) : text);
    }
    bench_put_list(b, "tokenizer.ggml.token_type", 5, BENCH_VOCAB);
    for (int32_t id = 0; id < BENCH_VOCAB; id++) {
        gguf_put_int(b, id < BENCH_TOKENS ? 1 : id == BENCH_TOKENS ? 3 : 5, 4);
    }
    bench_put_list(b, "tokenizer.ggml.merges", 8, BENCH_TOKENS - 256);
    for (int32_t id = 256; id < BENCH_TOKENS; id++) {
        char text[2 * BENCH_TEXT_MAX];
        (void)snprintf(text, sizeof text, "%s %s", vocab_spelling(&t->vocab, t->half[id][0], NULL),
                       vocab_spelling(&t->vocab, t->half[id][1], NULL));
        gguf_put_text(b, text);
    }
}

/* The header of the .gguf file; returns the bytes of the data behind it. */
static inline uint64_t bench_write_gguf(FILE *f, const struct bench_tokens *t)
{
    struct gguf_bytes b = {0};
    uint64_t at = 0, bytes;
    gguf_put_head(&b, BENCH_TENSORS, 15);
    gguf_put_string(&b, "general.architecture", "qwen2");
    gguf_put_u32(&b, "qwen2.context_length", BENCH_CONTEXT);
    gguf_put_u32(&b, "qwen2.embedding_length", BENCH_DIM);
    gguf_put_u32(&b, "qwen2.feed_forward_length", BENCH_FFN);
    gguf_put_u32(&b, "qwen2.block_count", BENCH_LAYERS);
    gguf_put_u32(&b, "qwen2.attention.head_count", 14);
    gguf_put_u32(&b, "qwen2.attention.head_count_kv", 2);
    gguf_put_f32(&b, "qwen2.attention.layer_norm_rms_epsilon", 1e-6f);
    gguf_put_f32(&b, "qwen2.rope.freq_base", 1e6f);
    bench_put_tokens(&b, t);
    for (int i = 0; i < BENCH_TENSORS; i++) {
        char name[96];
        const struct bench_tensor *one = bench_tensor_at(i, true, name, &bytes);
        gguf_put_tensor(&b, name, one->rows, one->columns, 30, at);
        at += (bytes + 31) / 32 * 32;
    }
    gguf_pad(&b, 32);
    (void)fwrite(b.p, 1, b.n, f);
    free(b.p);
    return at;
}

/* ---- both */

static inline FILE *bench_create(const char *folder, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, "w");
}

/* Ends the file with a hole of n bytes. */
static inline bool bench_end(FILE *f, uint64_t n)
{
    long at = ftell(f);
    bool done = fflush(f) == 0 && at >= 0 && (n == 0 || ftruncate(fileno(f), at + (off_t)n) == 0);
    return fclose(f) == 0 && done;
}

/* FOLDER/config.json, tokenizer.json, model.safetensors and model.gguf. */
static inline bool bench_model_make(const char *folder)
{
    struct bench_tokens *t = calloc(1, sizeof *t);
    FILE *tokenizer = bench_create(folder, "tokenizer.json");
    FILE *config = bench_create(folder, "config.json");
    FILE *weights = bench_create(folder, "model.safetensors");
    FILE *gguf = bench_create(folder, "model.gguf");
    bool done = t && tokenizer && config && weights && gguf && bench_tokens_make(t);
    if (done) {
        bench_write_tokenizer(tokenizer, t);
        bench_write_config(config);
        done = bench_end(tokenizer, 0) && bench_end(config, 0) &&
               bench_end(weights, bench_write_safetensors(weights)) &&
               bench_end(gguf, bench_write_gguf(gguf, t));
    }
    if (t) {
        vocab_release(&t->vocab);
    }
    free(t);
    return done;
}

#endif
