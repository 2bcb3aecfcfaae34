/* model_private.h - what the families share: the weights as they are bound, helpers to read
 * config.json and to find tensors, and the forward pass's steps. Included by model*.c, decoder*.c
 * and the families only.
 */
#ifndef ISOTHERM_MODEL_PRIVATE_H
#define ISOTHERM_MODEL_PRIVATE_H

#include "kernels.h"
#include "kvcache.h"
#include "model.h"
#include "pool.h"
#include "weights.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>

/* Limits of what a model may be; the files are checked against these before anything is computed
 * from them. */
#define MODEL_LAYERS_MAX  1024
#define MODEL_DIM_MAX     65536
#define MODEL_FFN_MAX     1048576
#define MODEL_VOCAB_MAX   2000000
#define MODEL_CONTEXT_MAX 10000000

struct model_matrix {
    const unsigned char *w; /* [n_out][n_in], stored form */
    enum kernels_type type;
    size_t n_out, n_in;
    const float *bias; /* [n_out] or NULL */
    bool is_paired;    /* its outputs wait to be put in order: model_worker_unpair */
};

struct model_norm {
    const float *gain; /* [dim] */
    const float *bias; /* [dim] or NULL */
};

/* One layer of any family; what a family lacks stays zero. */
struct model_layer {
    struct model_norm attention_norm, ffn_norm;
    struct model_norm post_attention_norm, post_ffn_norm; /* before the residual is added */
    struct model_norm q_norm, k_norm;                     /* [head_dim], of each head */
    struct model_matrix q, k, v, o;
    struct model_matrix gate, up, down; /* gpt2 has no gate */
};

/* Rotary positions; a model may have others in its local layers. */
struct model_rope {
    double *frequency; /* [n_rotated / 2] */
    double gain;       /* of cosine and sine */
};
enum model_rope_kind { MODEL_ROPE_GLOBAL, MODEL_ROPE_LOCAL, MODEL_ROPES };

struct model_family;

struct model {
    struct model_shape shape;
    const struct model_family *family;
    struct weights *weights;
    float eps;    /* of the norms */
    bool is_tied; /* output matrix = token embedding */
    bool has_qkv_bias, has_o_bias, has_ffn_bias;
    bool has_head_norms;            /* q and k of each head, before they turn */
    bool has_post_norms;            /* of what attention and ffn give, before it is added */
    bool is_gain_from_one;          /* norms multiply by 1 + their gain */
    bool is_fused;                  /* q, k and v are one tensor, gate and up another */
    bool is_gelu;                   /* the gate's activation is gelu_new, not silu */
    float embedding_scale;          /* of the token embeddings */
    float attention_scale;          /* of q k */
    float attention_cap, logit_cap; /* cap * tanh(x / cap); 0: none */
    int32_t window;                 /* positions that a local layer sees, itself included */
    unsigned char *is_local;        /* [n_layers] 1: sees the window alone; NULL: none is */
    int32_t n_rotated;              /* elements of a head that turn with the position */
    size_t n_ropes;                 /* 2: the local layers have their own */
    struct model_rope rope[MODEL_ROPES];
    const char *prefix; /* gpt2: "" or "transformer." */
    struct model_matrix tokens, positions, output;
    struct model_norm final_norm;
    struct model_layer *layers;
    void **owned; /* blocks that model_close frees */
    size_t n_owned, owned_cap;
    unsigned char *is_used;            /* one for each tensor of the file */
    int64_t n_stored[KERNELS_N_TYPES]; /* elements bound, by enum kernels_type */
    pthread_mutex_t hash_lock;
    char hash[65];
};

struct model_worker;

/* A family: reads its fields of config.json, binds its tensors, runs a batch. */
struct model_family {
    const char *model_type;
    bool (*configure)(struct model *m, const json_t *config, struct engine_error *err);
    bool (*bind)(struct model *m, struct engine_error *err);
    void (*forward)(struct model_worker *w);
    bool (*is_spare)(const char *tensor); /* a tensor that files of this family hold and the model
                                             does not need */
};
extern const struct model_family model_gpt2, model_llama, model_mistral, model_qwen2, model_qwen3,
    model_gemma2, model_gemma3, model_gemma3_images, model_phi3;

/* The family that config.json names, configured by it; no tensor is looked at (model_family.c). */
bool model_configure(struct model *m, const json_t *config, struct engine_error *err);

/* ---- config.json (model_config.c). `fallback` is used where the field is absent or null. A
 * field of an object inside is named with a dot: "rope_scaling.factor". */
#define MODEL_CONFIG_REQUIRED      INT64_MIN
#define MODEL_CONFIG_REAL_REQUIRED ((double)NAN)
/* NULL: there is no such field. */
const json_t *model_config_find(const json_t *config, const char *field);
bool model_config_int(const json_t *config, const char *field, int64_t min, int64_t max,
                      int64_t fallback, int32_t *out, struct engine_error *err);
bool model_config_real(const json_t *config, const char *field, double min, double max,
                       double fallback, double *out, struct engine_error *err);
bool model_config_bool(const json_t *config, const char *field, bool fallback, bool *out,
                       struct engine_error *err);
/* Refuses every value but `want`; absent and null count as `want`. */
bool model_config_word(const json_t *config, const char *field, const char *want,
                       struct engine_error *err);
bool model_config_flag(const json_t *config, const char *field, bool want,
                       struct engine_error *err);
/* Refuses a field that is present and not null: `why` says what is not supported. */
bool model_config_absent(const json_t *config, const char *field, const char *why,
                         struct engine_error *err);
json_t *model_config_parse(const char *text, size_t n, struct engine_error *err);
/* The name of the file for error texts: weights_config() has put it there. */
const char *model_config_file(const json_t *config);

/* ---- tensors (model_bind.c). Each checks type and shape, and counts the tensor as used. Names
 * by printf of one number. */
void *model_own(struct model *m, size_t n, size_t size,
                struct engine_error *err); /* calloc; freed with the model */
bool model_bind_matrix(struct model *m, const char *name_fmt, int32_t layer, int32_t n_out,
                       int32_t n_in, struct model_matrix *out, struct engine_error *err);
/* A matrix that folders store as [n_in][n_out] is copied, turned, into memory of ours, in its
 * stored type; one of a .gguf file lies the right way. */
bool model_bind_turned(struct model *m, const char *name_fmt, int32_t layer, int32_t n_out,
                       int32_t n_in, struct model_matrix *out, struct engine_error *err);
/* A vector is widened to float32: norms and biases are small. */
bool model_bind_vector(struct model *m, const char *name_fmt, int32_t layer, int32_t n,
                       const float **out, struct engine_error *err);
/* The gain of a norm; is_from_one: 1 is added where the file leaves it out, as folders do. */
bool model_bind_gain(struct model *m, const char *name_fmt, int32_t layer, int32_t n,
                     bool is_from_one, const float **out, struct engine_error *err);
/* Refuses a file with tensors that nothing used: they would change the answers of whoever wrote
 * it. */
bool model_bind_finish(struct model *m, struct engine_error *err);

/* ---- one batch (model_worker.c) */
struct model_rows {
    float *data;
    float **row; /* [n_rows_max] */
};

struct model_worker {
    const struct model *model;
    const struct kernels *kernels;
    struct pool *pool;
    int n_threads;
    size_t n_rows_max;
    /* the batch in progress */
    const struct model_row *rows;
    size_t n_rows;
    int32_t *position; /* [n_rows_max] */
    size_t layer;
    /* activations, a row each */
    struct model_rows x, h, q, k, v, attended, gate, up;
    float *cosine, *sine; /* [n_ropes][n_rows_max][n_rotated / 2] */
    float **wanted_in, **wanted_out;
    /* scratch of each thread */
    float *weights_scratch; /* [n_threads][KERNELS_SCRATCH_ROWS * widest row] */
    size_t weights_scratch_floats;
    float *attention_scratch;
    size_t attention_floats; /* of a thread */
    size_t group;            /* query heads of one kv head */
};

/* A product with one matrix for every row of the batch: y = w x (+ bias). */
struct model_product {
    const struct model_matrix *w;
    float *const *x, *const *y;
};
/* Several products over the same rows as one job. */
void model_worker_multiply(struct model_worker *w, const struct model_product *p, size_t n_products,
                           size_t n_rows);
/* fn(w, row) for every row of the batch, over the threads where it pays; `cost` is about the
 * operations of a row. */
void model_worker_each_row(struct model_worker *w, size_t n_rows, size_t cost,
                           void (*fn)(struct model_worker *, size_t));
/* A row's outputs of a matrix that is_paired, head by head, in the order of Hugging Face's files:
 * each is summed alone, so its bits are the same wherever it stands. `scratch` has head_dim floats.
 */
void model_worker_unpair(float *x, size_t n_heads, size_t head_dim, float *scratch);
/* h = norm(x) */
void model_worker_norm(struct model_worker *w, const struct model_norm *norm);
/* h = norm(h) */
void model_worker_norm_again(struct model_worker *w, const struct model_norm *norm);
/* x = x + h */
void model_worker_add(struct model_worker *w);
/* Stores k and v in the caches, then attended = softmax(cap(attention_scale q k)) v over what the
 * layer sees of each row's sequence. */
void model_worker_attend(struct model_worker *w);
/* The final norm and the logits of the rows that want them, capped where the model does so. */
void model_worker_output(struct model_worker *w);

#endif
