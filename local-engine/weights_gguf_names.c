/* weights_gguf_names.c - which tensor of a .gguf file is which of a Hugging Face model. The names
 * are those of the format's published list of standard tensor names; how the numbers lie (pairs,
 * turned, one added) is what the published converter does to each architecture.
 */
#include "weights_private.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* "blk.N.FROM.weight" is "HEAD.N.TO.weight"; with bias in place of weight, too. */
struct piece {
    const char *from, *to;
    unsigned flags; /* of the weight and, for pairs, of the bias */
};

struct naming {
    const char *const *archs;          /* ended by NULL */
    const char *head;                  /* of a layer's tensors */
    const struct piece *outer, *inner; /* each ended by a NULL name */
    unsigned norm_flags;               /* of every tensor whose name here ends in norm */
};

static const struct piece LLAMA_OUTER[] = {{"token_embd", "model.embed_tokens", 0},
                                           {"output_norm", "model.norm", 0},
                                           {"output", "lm_head", 0},
                                           {NULL, NULL, 0}};

#define COMMON_INNER(paired)                                                                       \
    {"attn_norm", "input_layernorm", 0}, {"attn_q", "self_attn.q_proj", paired},                   \
        {"attn_k", "self_attn.k_proj", paired}, {"attn_v", "self_attn.v_proj", 0},                 \
        {"attn_output", "self_attn.o_proj", 0}, {"attn_qkv", "self_attn.qkv_proj", 0},             \
        {"attn_q_norm", "self_attn.q_norm", 0}, {"attn_k_norm", "self_attn.k_norm", 0},            \
        {"ffn_gate", "mlp.gate_proj", 0},                                                          \
    {                                                                                              \
        "ffn_down", "mlp.down_proj", 0                                                             \
    }

static const struct piece LLAMA_INNER[] = {COMMON_INNER(WEIGHTS_PAIRED),
                                           {"ffn_up", "mlp.up_proj", 0},
                                           {"ffn_norm", "post_attention_layernorm", 0},
                                           {NULL, NULL, 0}};
static const struct piece QWEN_INNER[] = {COMMON_INNER(0),
                                          {"ffn_up", "mlp.up_proj", 0},
                                          {"ffn_norm", "post_attention_layernorm", 0},
                                          {NULL, NULL, 0}};
static const struct piece PHI_INNER[] = {COMMON_INNER(0),
                                         {"ffn_up", "mlp.gate_up_proj", 0},
                                         {"ffn_norm", "post_attention_layernorm", 0},
                                         {NULL, NULL, 0}};
/* The second norm of the layer stands before the feed-forward part, after comes after it. */
static const struct piece GEMMA_INNER[] = {COMMON_INNER(0),
                                           {"ffn_up", "mlp.up_proj", 0},
                                           {"post_attention_norm", "post_attention_layernorm", 0},
                                           {"ffn_norm", "pre_feedforward_layernorm", 0},
                                           {"post_ffw_norm", "post_feedforward_layernorm", 0},
                                           {NULL, NULL, 0}};
static const struct piece GPT2_OUTER[] = {{"token_embd", "wte", 0},
                                          {"position_embd", "wpe", 0},
                                          {"output_norm", "ln_f", 0},
                                          {"output", "lm_head", 0},
                                          {NULL, NULL, 0}};
static const struct piece GPT2_INNER[] = {{"attn_norm", "ln_1", 0},
                                          {"attn_qkv", "attn.c_attn", WEIGHTS_TURNED},
                                          {"attn_output", "attn.c_proj", WEIGHTS_TURNED},
                                          {"ffn_norm", "ln_2", 0},
                                          {"ffn_up", "mlp.c_fc", WEIGHTS_TURNED},
                                          {"ffn_down", "mlp.c_proj", WEIGHTS_TURNED},
                                          {NULL, NULL, 0}};

static const struct naming NAMINGS[] = {
    {(const char *const[]){"llama", NULL}, "model.layers", LLAMA_OUTER, LLAMA_INNER, 0},
    {(const char *const[]){"qwen2", "qwen3", NULL}, "model.layers", LLAMA_OUTER, QWEN_INNER, 0},
    {(const char *const[]){"phi3", NULL}, "model.layers", LLAMA_OUTER, PHI_INNER, 0},
    {(const char *const[]){"gemma", NULL}, "model.layers", LLAMA_OUTER, QWEN_INNER,
     WEIGHTS_ONE_ADDED},
    {(const char *const[]){"gemma2", "gemma3", NULL}, "model.layers", LLAMA_OUTER, GEMMA_INNER,
     WEIGHTS_ONE_ADDED},
    {(const char *const[]){"gpt2", NULL}, "h", GPT2_OUTER, GPT2_INNER, 0},
};

static const struct naming *find_naming(const char *arch)
{
    for (size_t i = 0; i < sizeof NAMINGS / sizeof NAMINGS[0]; i++) {
        for (const char *const *a = NAMINGS[i].archs; *a; a++) {
            if (strcmp(*a, arch) == 0) {
                return &NAMINGS[i];
            }
        }
    }
    return NULL;
}

/* The piece whose name is s[0 .. len) */
static const struct piece *find_piece(const struct piece *p, const char *s, size_t len)
{
    for (; p->from; p++) {
        if (strlen(p->from) == len && memcmp(p->from, s, len) == 0) {
            return p;
        }
    }
    return NULL;
}

/* Digits of a layer's number in the one way to write it, and the point behind them; 0: none. */
static size_t number_length(const char *s)
{
    size_t n = 0;
    while (isdigit((unsigned char)s[n])) {
        n++;
    }
    return n > 0 && n < 7 && (n == 1 || s[0] != '0') && s[n] == '.' ? n : 0;
}

static bool ends_with(const char *s, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len >= n && memcmp(s + len - n, end, n) == 0;
}

static unsigned flags_of(const struct naming *naming, const struct piece *p, const char *end)
{
    bool is_weight = strcmp(end, ".weight") == 0;
    unsigned flags = is_weight ? p->flags : p->flags & WEIGHTS_PAIRED;
    return flags |
           (is_weight && ends_with(p->from, strlen(p->from), "norm") ? naming->norm_flags : 0);
}

bool weights_gguf_name(const char *arch, const char *name, char *out, size_t n_out, unsigned *flags)
{
    const struct naming *naming = find_naming(arch);
    const char *end = strrchr(name, '.');
    bool is_inner = strncmp(name, "blk.", 4) == 0;
    size_t n_number = is_inner ? number_length(name + 4) : 0;
    const struct piece *p = NULL;
    *flags = 0;
    (void)snprintf(out, n_out, "%s", name);
    if (!naming || !end || (strcmp(end, ".weight") != 0 && strcmp(end, ".bias") != 0)) {
        return false;
    }
    const char *from = is_inner ? name + 4 + n_number + 1 : name;
    if (from < end && (!is_inner || n_number > 0)) {
        p = find_piece(is_inner ? naming->inner : naming->outer, from, (size_t)(end - from));
    }
    if (!p) {
        return false;
    }
    if (is_inner) {
        (void)snprintf(out, n_out, "%s.%.*s.%s%s", naming->head, (int)n_number, name + 4, p->to,
                       end);
    } else {
        (void)snprintf(out, n_out, "%s%s", p->to, end);
    }
    *flags = flags_of(naming, p, end);
    return true;
}

/* The piece whose name there is s[0 .. len) */
static const struct piece *find_back(const struct piece *p, const char *s, size_t len)
{
    for (; p->from; p++) {
        if (strlen(p->to) == len && memcmp(p->to, s, len) == 0) {
            return p;
        }
    }
    return NULL;
}

bool weights_gguf_name_back(const char *arch, const char *name, char *out, size_t n_out,
                            unsigned *flags)
{
    const struct naming *naming = find_naming(arch);
    const char *end = strrchr(name, '.');
    if (!naming || !end || (strcmp(end, ".weight") != 0 && strcmp(end, ".bias") != 0)) {
        return false;
    }
    size_t n_head = strlen(naming->head), n_number = 0;
    const char *from = name;
    if (strncmp(name, naming->head, n_head) == 0 && name[n_head] == '.') {
        n_number = number_length(name + n_head + 1);
        from = name + n_head + 1 + n_number + 1;
    }
    const struct piece *p =
        from < end ? find_back(n_number ? naming->inner : naming->outer, from, (size_t)(end - from))
                   : NULL;
    if (!p) {
        return false;
    }
    if (n_number) {
        (void)snprintf(out, n_out, "blk.%.*s.%s%s", (int)n_number, name + n_head + 1, p->from, end);
    } else {
        (void)snprintf(out, n_out, "%s%s", p->from, end);
    }
    *flags = flags_of(naming, p, end);
    return true;
}
