/* kernels.h - the arithmetic of the engine, in sets by processor that give the same bits.
 *
 * The definition (numerics `exact`), for every sum over k = 0 .. n-1:
 *  - values are float32; stored weights are widened to it exactly, those in blocks
 * (kernels_quant.h) as their definition says, rounded once;
 *  - n is padded with zeros to a multiple of sixteen; lane j (0 .. 15) starts at +0 and takes
 *    k = j, j + 16, j + 32 ... in that order, each by one fused multiply-add (rounded once) or, in
 *    plain sums, one addition;
 *  - h[j] = lane[j] + lane[j + 8]; the sum is
 *    ((h0 + h1) + (h2 + h3)) + ((h4 + h5) + (h6 + h7)).
 * Attention has sums of its own: see struct kernels_fold. Exponentials are our own, operation by
 * operation the same in every set (kernels_exp in kernels_ref.c), because the C library's differ by
 * processor. So a result depends on its inputs
 * alone: not on the set, the number of rows, the tile or the thread. NaN is carried on, but its
 * sign and payload are not defined.
 *
 * Weights need no alignment; rows of x and y are aligned as float. Nothing is read outside the n
 * elements of a row.
 */
#ifndef ISOTHERM_KERNELS_H
#define ISOTHERM_KERNELS_H

#include <stddef.h>

/* Those after BF16 come in blocks (kernels_quant.h); a row is a whole number of them. */
enum kernels_type {
    KERNELS_F32,
    KERNELS_F16,
    KERNELS_BF16,
    KERNELS_Q8_0,
    KERNELS_Q4_0,
    KERNELS_Q4_K,
    KERNELS_Q5_K,
    KERNELS_Q6_K,
    KERNELS_N_TYPES
};

/* y[m][n] = sum over k of x[m][k] * w[n][k] */
struct kernels_matmul {
    const unsigned char *w; /* [n][k], rows row_bytes apart */
    size_t row_bytes;
    enum kernels_type type;
    size_t k;
    const float *const *x; /* [n_rows] rows of k */
    float *const *y;       /* [n_rows] rows of outputs */
    size_t n_rows;
};

/* Attention goes over the positions of a sequence in tiles of KERNELS_TILE, counted from position
 * 0, and keeps for each query what it has found so far. The keys of a tile lie turned, so that a
 * score for each position comes out of one register; rows of values are padded to KERNELS_VALUES.
 *  - score: over i = 0 .. d-1 the even i and the odd i are one chain of fused multiply-adds each,
 *    in order, from +0; their sum is the score;
 *  - fold: s[t] *= scale; m = the larger of `max` and these; c = exp(max - m); p[t] = exp(s[t] -
 * m). Lane j (0 .. 7) adds p[j], p[j + 8] ... in order from +0, positions outside count as +0; h[j]
 * = lane[j] + lane[j + 4]; sum = fma(sum, c, (h0 + h2) + (h1 + h3)); out[i] = fma(out[i], c, chain
 * over t of p[t] * v[t][i] from +0). */
#define KERNELS_TILE   32
#define KERNELS_VALUES 8
struct kernels_fold {
    float max, sum; /* before the first tile -infinity and 0 */
    float *out;     /* [ldv], zeros */
};

/* matmul's scratch has room for this many rows of k floats; NULL will do where weights are F32 */
#define KERNELS_SCRATCH_ROWS 12

struct kernels {
    const char *name;
    /* The outputs n = from .. to - 1 of every row. */
    void (*matmul)(const struct kernels_matmul *j, size_t from, size_t to, float *scratch);
    /* out[i] = the stored weight i of a row as float32; n is a multiple of the type's block */
    void (*expand)(enum kernels_type type, const unsigned char *w, size_t n, float *out);
    /* s[t] = sum over i of q[i] * keys[i][t], for each position of a tile */
    void (*scores)(const float *q, const float *keys, size_t d, float *s);
    /* Adds positions from .. to - 1 of a tile; s [KERNELS_TILE] is overwritten. values:
     * [KERNELS_TILE][ldv], ldv a multiple of KERNELS_VALUES. */
    void (*fold)(struct kernels_fold *f, float *s, size_t from, size_t to, float scale,
                 const float *values, size_t ldv);
    /* y = x / sqrt(mean(x^2) + eps) * gain */
    void (*rmsnorm)(const float *x, const float *gain, size_t n, float eps, float *y);
    /* y = (x - mean) / sqrt(variance + eps) * gain + bias */
    void (*layernorm)(const float *x, const float *gain, const float *bias, size_t n, float eps,
                      float *y);
    /* gate = gate / (1 + exp(-gate)) * up: SwiGLU */
    void (*silu)(float *gate, const float *up, size_t n);
    /* x = x / (1 + exp(-2u)), u = sqrt(2 / pi) * (x + 0.044715 x^3): gelu_new, since 1 + tanh u
     * = 2 / (1 + exp(-2u)) */
    void (*gelu)(float *x, size_t n);
    /* x = cap * tanh(scale * x / cap), as cap * (1 - e) / (1 + e), e = exp(-2 scale / cap * x) */
    void (*softcap)(float *x, size_t n, float scale, float cap);
};

extern const struct kernels kernels_ref; /* portable C, slow: the definition */

/* The best set for this processor; the set of that name, or NULL where this processor cannot run
 * it. */
const struct kernels *kernels_best(void);
const struct kernels *kernels_find(const char *name);

const char *kernels_type_name(enum kernels_type type); /* "F32", "Q4_K" ... */
size_t kernels_type_block(enum kernels_type type); /* elements of a block, 1 where there is none */
/* Bytes of a row of n elements, a multiple of the block. */
size_t kernels_row_bytes(enum kernels_type type, size_t n);

/* Constants of the exponential: see kernels_exp. Kept here so that the sets cannot drift apart. */
#define KERNELS_EXP_HIGH  88.37f    /* larger arguments count as this: 2.4e38, still finite */
#define KERNELS_EXP_LOW   (-87.33f) /* smaller ones give 0 */
#define KERNELS_EXP_LOG2E 1.44269504088896341f
/* 1.5 * 2^23: adding it rounds to a whole number, kept in the low bits */
#define KERNELS_EXP_ROUND    12582912.0f
#define KERNELS_EXP_LN2_HIGH 0.693359375f
#define KERNELS_EXP_LN2_LOW  (-2.12194440e-4f)
#define KERNELS_EXP_C5       1.9875691500e-4f
#define KERNELS_EXP_C4       1.3981999507e-3f
#define KERNELS_EXP_C3       8.3334519073e-3f
#define KERNELS_EXP_C2       4.1665795894e-2f
#define KERNELS_EXP_C1       1.6666665459e-1f
#define KERNELS_EXP_C0       5.0000001201e-1f
#define KERNELS_GELU_SCALE   (-1.59576912160573071f) /* -2 sqrt(2 / pi) */
#define KERNELS_GELU_CUBE    0.044715f

/* The portable exponential, for tests: relative error below 2^-23.5 where it is neither 0 nor cut.
 */
float kernels_exp(float x);

#endif
