/* kernels_quant_avx2.c - kernels_quant.c's definitions, eight values at a time. Compiled with the
 * flags of kernels_avx2.c and called from there. */
#include "kernels_quant.h"

#if defined(__x86_64__)

#include <assert.h>
#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE float half_at(const unsigned char *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return _cvtsh_ss(half);
}

INLINE __m256i bytes32(const unsigned char *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

INLINE __m128i bytes16(const unsigned char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* out[i] = scale * q[i] - minus, for eight signed bytes */
INLINE void put8(float *out, __m128i q, __m256 scale, __m256 minus)
{
    __m256 x = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
    _mm256_storeu_ps(out, _mm256_sub_ps(_mm256_mul_ps(scale, x), minus));
}

INLINE void put16(float *out, __m128i q, __m256 scale, __m256 minus)
{
    put8(out, q, scale, minus);
    put8(out + 8, _mm_srli_si128(q, 8), scale, minus);
}

/* The same without a subtraction, which would make -0 of -0 - 0 but +0 of +0 - 0: products keep
 * their sign of zero. */
INLINE void times16(float *out, __m128i q, __m256 scale)
{
    __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
    __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8)));
    _mm256_storeu_ps(out, _mm256_mul_ps(scale, low));
    _mm256_storeu_ps(out + 8, _mm256_mul_ps(scale, high));
}

static void expand_q8_0(const unsigned char *w, float *out)
{
    __m256 d = _mm256_set1_ps(half_at(w));
    times16(out, bytes16(w + 2), d);
    times16(out + 16, bytes16(w + 18), d);
}

static void expand_q4_0(const unsigned char *w, float *out)
{
    __m256 d = _mm256_set1_ps(half_at(w));
    __m128i n = bytes16(w + 2), four = _mm_set1_epi8(15), eight = _mm_set1_epi8(8);
    times16(out, _mm_sub_epi8(_mm_and_si128(n, four), eight), d);
    times16(out + 16, _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(n, 4), four), eight), d);
}

/* Bit g of each byte as 16, or 0. */
INLINE __m256i fifth_bit(__m256i high, int g)
{
    __m256i bit = _mm256_set1_epi8((char)(1 << g));
    __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(high, bit), bit);
    return _mm256_and_si256(is_set, _mm256_set1_epi8(16));
}

static void expand_k(const unsigned char *w, const unsigned char *high, const unsigned char *n,
                     float *out)
{
    unsigned char a[KERNELS_Q_GROUPS], b[KERNELS_Q_GROUPS];
    float d = half_at(w), m = half_at(w + 2);
    __m256i four = _mm256_set1_epi8(15), h = high ? bytes32(high) : _mm256_setzero_si256();
    kernels_quant_scales(w + 4, a, b);
    for (int g = 0; g < KERNELS_Q_GROUPS; g++) {
        __m256 da = _mm256_set1_ps(d * (float)a[g]), mb = _mm256_set1_ps(m * (float)b[g]);
        __m256i pair = bytes32(n + g / 2 * 32);
        __m256i q = _mm256_and_si256(g % 2 ? _mm256_srli_epi16(pair, 4) : pair, four);
        q = _mm256_or_si256(q, fifth_bit(h, g));
        put16(out + 32 * g, _mm256_castsi256_si128(q), da, mb);
        put16(out + 32 * g + 16, _mm256_extracti128_si256(q, 1), da, mb);
    }
}

static void expand_q6_k(const unsigned char *w, float *out)
{
    float d = half_at(w + 208);
    __m256i four = _mm256_set1_epi8(15), two = _mm256_set1_epi8(3), bias = _mm256_set1_epi8(32);
    for (int part = 0; part < 8; part++) { /* a quarter of a half: 32 values */
        int half = part / 4, c = part % 4;
        __m256i n = bytes32(w + 64 * half + c % 2 * 32), h = bytes32(w + 128 + 32 * half);
        __m256i low = _mm256_and_si256(c / 2 ? _mm256_srli_epi16(n, 4) : n, four);
        h = _mm256_and_si256(_mm256_srl_epi16(h, _mm_cvtsi32_si128(2 * c)), two);
        __m256i q = _mm256_sub_epi8(_mm256_or_si256(low, _mm256_slli_epi16(h, 4)), bias);
        const unsigned char *s = w + 192 + 2 * part;
        times16(out + 32 * part, _mm256_castsi256_si128(q),
                _mm256_set1_ps(d * (float)(int8_t)s[0]));
        times16(out + 32 * part + 16, _mm256_extracti128_si256(q, 1),
                _mm256_set1_ps(d * (float)(int8_t)s[1]));
    }
}

void kernels_quant_expand_avx2(enum kernels_type type, const unsigned char *w, size_t n, float *out)
{
    size_t block = kernels_type_block(type), bytes = kernels_row_bytes(type, block);
    for (size_t i = 0; i < n; i += block, w += bytes) {
        switch (type) {
        case KERNELS_Q8_0:
            expand_q8_0(w, out + i);
            break;
        case KERNELS_Q4_0:
            expand_q4_0(w, out + i);
            break;
        case KERNELS_Q4_K:
            expand_k(w, NULL, w + 16, out + i);
            break;
        case KERNELS_Q5_K:
            expand_k(w, w + 16, w + 48, out + i);
            break;
        case KERNELS_Q6_K:
            expand_q6_k(w, out + i);
            break;
        default:
            assert(!"a type of blocks");
        }
    }
}

#endif
