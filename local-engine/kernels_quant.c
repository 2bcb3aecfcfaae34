/* kernels_quant.c - the definition of the block types in the plainest C, and their sizes. */
#include "kernels_quant.h"

#include <assert.h>
#include <string.h>

static float half_at(const unsigned char *p)
{
    return kernels_from_f16((uint16_t)(p[0] | p[1] << 8));
}

static void expand_q8_0(const unsigned char *w, float *out)
{
    float d = half_at(w);
    for (int i = 0; i < 32; i++) {
        out[i] = d * (float)(int8_t)w[2 + i];
    }
}

static void expand_q4_0(const unsigned char *w, float *out)
{
    float d = half_at(w);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((w[2 + i] & 15) - 8);
        out[16 + i] = d * (float)((w[2 + i] >> 4) - 8);
    }
}

/* `high` is NULL for Q4_K */
static void expand_k(const unsigned char *w, const unsigned char *high, const unsigned char *n,
                     float *out)
{
    unsigned char a[KERNELS_Q_GROUPS], b[KERNELS_Q_GROUPS];
    float d = half_at(w), m = half_at(w + 2);
    kernels_quant_scales(w + 4, a, b);
    for (int g = 0; g < KERNELS_Q_GROUPS; g++) {
        float da = d * (float)a[g], mb = m * (float)b[g];
        for (int i = 0; i < 32; i++) {
            int q = n[g / 2 * 32 + i] >> (g % 2 * 4) & 15;
            q += high ? (high[i] >> g & 1) << 4 : 0;
            out[32 * g + i] = da * (float)q - mb;
        }
    }
}

/* Two halves of 128 values; in each, quarter c (0 .. 3) of 32 values has its low four bits in the
 * low (c < 2) or high halves of 32 bytes n, its high two bits at bit 2c of 32 bytes h. */
static void expand_q6_k(const unsigned char *w, float *out)
{
    float d = half_at(w + 208);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, c = i % 128 / 32, l = i % 32;
        int low = w[64 * half + c % 2 * 32 + l] >> (c / 2 * 4) & 15;
        int high = w[128 + 32 * half + l] >> (2 * c) & 3;
        int s = (int8_t)w[192 + i / 16];
        out[i] = d * (float)s * (float)((low | high << 4) - 32);
    }
}

void kernels_quant_expand(enum kernels_type type, const unsigned char *w, size_t n, float *out)
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
