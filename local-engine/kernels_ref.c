/* kernels_ref.c - the definition of kernels.h in the plainest C. Tests compare the fast sets
 * with it, bit for bit.
 *
 * fmaf is correctly rounded wherever it runs; without the instruction the C library emulates it,
 * slowly. Compiled with -ffp-contract=off, as everything here: what is not written as fmaf is
 * rounded twice.
 */
#include "kernels_quant.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16

static float tree(const float lane[LANES])
{
    float h[8];
    for (int j = 0; j < 8; j++) {
        h[j] = lane[j] + lane[j + 8];
    }
    return ((h[0] + h[1]) + (h[2] + h[3])) + ((h[4] + h[5]) + (h[6] + h[7]));
}

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t to_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

float kernels_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 31) {
        uint32_t quiet = fraction ? 0x400000 : 0; /* the instruction makes a NaN quiet */
        return from_bits(sign | 0x7f800000 | quiet | fraction << 13);
    }
    if (exponent == 0) {
        float x = (float)fraction * 0x1p-24f;
        return from_bits(sign | to_bits(x));
    }
    return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t kernels_to_f16(float x)
{
    uint32_t bits = to_bits(x);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    float size = fabsf(x);
    if (isnan(x)) {
        return (uint16_t)(sign | 0x7e00);
    }
    if (size >= 65520.0f) {
        return (uint16_t)(sign | 0x7c00);
    }
    if (size < 0x1p-14f) { /* subnormal: a whole number of 2^-24 */
        return (uint16_t)(sign | (uint16_t)lrintf(size * 0x1p24f));
    }
    bits &= 0x7fffffff;
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

static float weight(enum kernels_type type, const unsigned char *w, size_t i)
{
    uint16_t half;
    if (type == KERNELS_F32) {
        uint32_t bits;
        memcpy(&bits, w + 4 * i, sizeof bits);
        return from_bits(bits);
    }
    memcpy(&half, w + 2 * i, sizeof half);
    return type == KERNELS_F16 ? kernels_from_f16(half) : from_bits((uint32_t)half << 16);
}

static size_t padded(size_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

static float dot(enum kernels_type type, const unsigned char *w, const float *x, size_t n)
{
    float lane[LANES] = {0};
    for (size_t k = 0; k < padded(n); k++) {
        float a = k < n ? x[k] : 0.0f, b = k < n ? weight(type, w, k) : 0.0f;
        lane[k % LANES] = fmaf(a, b, lane[k % LANES]);
    }
    return tree(lane);
}

static void expand(enum kernels_type type, const unsigned char *w, size_t n, float *out)
{
    if (kernels_type_block(type) > 1) {
        kernels_quant_expand(type, w, n, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        out[i] = weight(type, w, i);
    }
}

static void matmul(const struct kernels_matmul *j, size_t from, size_t to, float *scratch)
{
    for (size_t n = from; n < to; n++) {
        enum kernels_type type = j->type;
        const unsigned char *w = j->w + n * j->row_bytes;
        if (kernels_type_block(type) > 1) {
            expand(type, w, j->k, scratch);
            type = KERNELS_F32;
            w = (const unsigned char *)scratch;
        }
        for (size_t m = 0; m < j->n_rows; m++) {
            j->y[m][n] = dot(type, w, j->x[m], j->k);
        }
    }
}

/* exp(x) = 2^n * exp(r), n the whole number nearest x / ln 2, |r| <= ln 2 / 2. ln 2 is taken off
 * in two parts: n times the first, of 9 bits, is exact. exp(r) = 1 + r + r^2 q(r) with the
 * polynomial of the Cephes library. A NaN passes every comparison. */
float kernels_exp(float x)
{
    float clamped = x > KERNELS_EXP_HIGH ? KERNELS_EXP_HIGH : x;
    float t = fmaf(clamped, KERNELS_EXP_LOG2E, KERNELS_EXP_ROUND);
    float n = t - KERNELS_EXP_ROUND;
    float r = fmaf(-n, KERNELS_EXP_LN2_HIGH, clamped);
    r = fmaf(-n, KERNELS_EXP_LN2_LOW, r);
    float q = KERNELS_EXP_C5;
    q = fmaf(q, r, KERNELS_EXP_C4);
    q = fmaf(q, r, KERNELS_EXP_C3);
    q = fmaf(q, r, KERNELS_EXP_C2);
    q = fmaf(q, r, KERNELS_EXP_C1);
    q = fmaf(q, r, KERNELS_EXP_C0);
    q = fmaf(q, r * r, r) + 1.0f;
    float power = from_bits((to_bits(t) + 127) << 23);
    return x < KERNELS_EXP_LOW ? 0.0f : q * power;
}

static float sum(const float *x, size_t n)
{
    float lane[LANES] = {0};
    for (size_t k = 0; k < padded(n); k++) {
        lane[k % LANES] += k < n ? x[k] : 0.0f;
    }
    return tree(lane);
}

static void scores(const float *q, const float *keys, size_t d, float *s)
{
    for (size_t t = 0; t < KERNELS_TILE; t++) {
        float chain[2] = {0};
        for (size_t i = 0; i < d; i++) {
            chain[i % 2] = fmaf(q[i], keys[i * KERNELS_TILE + t], chain[i % 2]);
        }
        s[t] = chain[0] + chain[1];
    }
}

/* Makes weights of the scores; returns their sum. */
static float weigh(float *s, size_t from, size_t to, float max)
{
    float lane[8] = {0};
    for (size_t t = 0; t < KERNELS_TILE; t++) {
        s[t] = t >= from && t < to ? kernels_exp(s[t] - max) : 0.0f;
        lane[t % 8] += s[t];
    }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static void fold(struct kernels_fold *f, float *s, size_t from, size_t to, float scale,
                 const float *values, size_t ldv)
{
    float max = f->max;
    for (size_t t = from; t < to; t++) {
        s[t] *= scale;
        max = s[t] > max ? s[t] : max;
    }
    float correction = kernels_exp(f->max - max);
    f->sum = fmaf(f->sum, correction, weigh(s, from, to, max));
    f->max = max;
    for (size_t i = 0; i < ldv; i++) {
        float chain = 0.0f;
        for (size_t t = from; t < to; t++) {
            chain = fmaf(s[t], values[t * ldv + i], chain);
        }
        f->out[i] = fmaf(f->out[i], correction, chain);
    }
}

static void rmsnorm(const float *x, const float *gain, size_t n, float eps, float *y)
{
    float squares = dot(KERNELS_F32, (const unsigned char *)x, x, n);
    float scale = 1.0f / sqrtf(squares / (float)n + eps);
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] * scale * gain[i];
    }
}

static void layernorm(const float *x, const float *gain, const float *bias, size_t n, float eps,
                      float *y)
{
    float mean = sum(x, n) / (float)n;
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] - mean;
    }
    float squares = dot(KERNELS_F32, (const unsigned char *)y, y, n);
    float scale = 1.0f / sqrtf(squares / (float)n + eps);
    for (size_t i = 0; i < n; i++) {
        y[i] = fmaf(y[i] * scale, gain[i], bias[i]);
    }
}

static void silu(float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        gate[i] = gate[i] / (1.0f + kernels_exp(-gate[i])) * up[i];
    }
}

static void gelu(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float u = fmaf(x[i] * x[i] * KERNELS_GELU_CUBE, x[i], x[i]);
        x[i] = x[i] / (1.0f + kernels_exp(u * KERNELS_GELU_SCALE));
    }
}

static void softcap(float *x, size_t n, float scale, float cap)
{
    float factor = -2.0f * scale / cap;
    for (size_t i = 0; i < n; i++) {
        float e = kernels_exp(x[i] * factor);
        x[i] = (1.0f - e) / (1.0f + e) * cap;
    }
}

const struct kernels kernels_ref = {
    .name = "ref",
    .matmul = matmul,
    .expand = expand,
    .scores = scores,
    .fold = fold,
    .rmsnorm = rmsnorm,
    .layernorm = layernorm,
    .silu = silu,
    .gelu = gelu,
    .softcap = softcap,
};
