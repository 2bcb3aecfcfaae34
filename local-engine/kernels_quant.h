/* kernels_quant.h - the block types that .gguf files hold, as llama.cpp defines them: how a row of
 * them becomes float32. Little-endian; d and m are float16, widened exactly. For kernels_*.c, and
 * float16 for whoever stores it.
 *
 * Q8_0   32 values   { d; int8 q[32] }                                    x = d q
 * Q4_0   32 values   { d; byte n[16] }                                    x = d (q - 8)
 *                    q of value i is the low half of n[i], of value 16 + i the high half
 * Q4_K  256 values   { d; m; byte s[12]; byte n[128] }                    x = d a q - m b
 * Q5_K  256 values   { d; m; byte s[12]; byte h[32]; byte n[128] }        x = d a q - m b
 *                    eight groups of 32, each with its a and b, six bits each, packed in s; of two
 *                    groups the first has the low, the second the high halves of 32 bytes n; bit g
 *                    of h[i] is bit 4 of value i of group g
 * Q6_K  256 values   { byte n[128]; byte h[64]; int8 s[16]; d }           x = d s (q - 32)
 *                    sixteen groups of 16, each with its s; see kernels_quant.c for the bits
 *
 * Every product is exact in float32 (at most 24 bits), so the only rounding is that of the one
 * subtraction, and no order of the operations can change a bit.
 */
#ifndef ISOTHERM_KERNELS_QUANT_H
#define ISOTHERM_KERNELS_QUANT_H

#include "kernels.h"

#include <stdint.h>

#define KERNELS_Q_GROUPS 8 /* of a Q4_K or Q5_K block */

/* The n values of a row; n is a multiple of the type's block. */
void kernels_quant_expand(enum kernels_type type, const unsigned char *w, size_t n, float *out);
#if defined(__x86_64__)
void kernels_quant_expand_avx2(enum kernels_type type, const unsigned char *w, size_t n,
                               float *out);
#endif

float kernels_from_f16(uint16_t half); /* kernels_ref.c */
/* The nearest, ties to even; beyond the largest it is infinite. */
uint16_t kernels_to_f16(float x);

/* a and b of each group from the twelve bytes: the low six bits of s[0..3] are a, of s[4..7] b, for
 * groups 0 to 3; groups 4 to 7 have their low four bits in s[8..11], their high two on top of the
 * others. */
static inline void kernels_quant_scales(const unsigned char *s, unsigned char a[KERNELS_Q_GROUPS],
                                        unsigned char b[KERNELS_Q_GROUPS])
{
    for (int g = 0; g < 4; g++) {
        a[g] = s[g] & 63;
        b[g] = s[g + 4] & 63;
        a[g + 4] = (unsigned char)((s[g + 8] & 15) | s[g] >> 6 << 4);
        b[g + 4] = (unsigned char)(s[g + 8] >> 4 | s[g + 4] >> 6 << 4);
    }
}

#endif
