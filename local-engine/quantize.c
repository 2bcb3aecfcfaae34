/* quantize.c - float32 to the stored types, block by block, in plain float32 arithmetic: the same
 * bits on every processor. */
#include "quantize.h"
#include "kernels_quant.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static void put_f16(unsigned char *out, float x)
{
    uint16_t half = kernels_to_f16(x);
    out[0] = (unsigned char)half;
    out[1] = (unsigned char)(half >> 8);
}

static void block_q8_0(const float *x, unsigned char *out)
{
    float most = 0.0f;
    for (int i = 0; i < 32; i++) {
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    }
    float d = most / 127.0f, inverse = d > 0.0f ? 1.0f / d : 0.0f;
    put_f16(out, d);
    for (int i = 0; i < 32; i++) {
        out[2 + i] = (unsigned char)(int8_t)roundf(x[i] * inverse);
    }
}

/* The value of largest size becomes -8, so that its sign has the wider side. */
static void block_q4_0(const float *x, unsigned char *out)
{
    float most = 0.0f;
    for (int i = 0; i < 32; i++) {
        most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    }
    float d = most / -8.0f, inverse = d != 0.0f ? 1.0f / d : 0.0f;
    put_f16(out, d);
    memset(out + 2, 0, 16);
    for (int i = 0; i < 32; i++) {
        int q = (int)(x[i] * inverse + 8.5f);
        out[2 + i % 16] |= (unsigned char)((q > 15 ? 15 : q) << (i / 16 * 4));
    }
}

void quantize_row(enum kernels_type type, const float *x, size_t n, unsigned char *out)
{
    size_t block = kernels_type_block(type), bytes = kernels_row_bytes(type, block);
    for (size_t i = 0; i < n; i += block, out += bytes) {
        switch (type) {
        case KERNELS_F32:
            memcpy(out, x + i, 4);
            break;
        case KERNELS_F16:
            put_f16(out, x[i]);
            break;
        case KERNELS_Q8_0:
            block_q8_0(x + i, out);
            break;
        case KERNELS_Q4_0:
            block_q4_0(x + i, out);
            break;
        default:
            assert(!"a type that is written");
        }
    }
}
