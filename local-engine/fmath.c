/* fmath.c - series of Taylor on a small range around 0, after whole powers of two were taken off.
 *
 * What keeps the error below 1 ulp is that the large terms are added last and that ln 2 is taken
 * off in two parts: the first has 33 bits, so that its multiples by an exponent are exact. The
 * shape of the logarithm is that of fdlibm's.
 *
 * Compiled with -ffp-contract=off like everything here: no sum and product become one rounding.
 */
#include "fmath.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW  1.90821492927058770002e-10
#define LOG2E    1.44269504088896338700
#define ROUND    0x1.8p52 /* adding it rounds to a whole number, kept in the low bits */
#define EXP_LOW  (-746.0) /* e^x is below half the least double: 0 */
#define BLOCK    16

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t to_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* e^r = 1 + r + r^2 q(r), |r| <= ln 2 / 2, q to r^11 / 13!: the first term left out is below 2^-57
 * of the sum. Even and odd powers apart, so that a processor can do both at once. */
static inline double exp_series(double r)
{
    double s = r * r;
    double even = 1.0 / 479001600, odd = 1.0 / 6227020800;
    even = even * s + 1.0 / 3628800;
    odd = odd * s + 1.0 / 39916800;
    even = even * s + 1.0 / 40320;
    odd = odd * s + 1.0 / 362880;
    even = even * s + 1.0 / 720;
    odd = odd * s + 1.0 / 5040;
    even = even * s + 1.0 / 24;
    odd = odd * s + 1.0 / 120;
    even = even * s + 1.0 / 2;
    odd = odd * s + 1.0 / 6;
    return s * (even + r * odd);
}

/* e^x = 2^n e^r, n the whole number nearest x / ln 2. The power is made 2^512 too large and taken
 * back by a product, which rounds once where the result is subnormal. Loops of a fixed length
 * without a branch, which compilers make vector code of at -O2. */
static void exp_block(double x[BLOCK])
{
    double t[BLOCK], r[BLOCK], lost[BLOCK], power[BLOCK];
    uint64_t bits[BLOCK];
    for (size_t l = 0; l < BLOCK; l++) {
        x[l] = x[l] < EXP_LOW ? EXP_LOW : x[l]; /* a NaN stays */
        t[l] = x[l] * LOG2E + ROUND;
    }
    for (size_t l = 0; l < BLOCK; l++) {
        double n = t[l] - ROUND, a = x[l] - n * LN2_HIGH /* exact */, w = n * LN2_LOW;
        r[l] = a - w;
        lost[l] = (a - r[l]) - w; /* by the rounding of r */
    }
    memcpy(bits, t, sizeof bits);
    for (size_t l = 0; l < BLOCK; l++) {
        bits[l] = (bits[l] + 1023 + 512) << 52;
    }
    memcpy(power, bits, sizeof power);
    for (size_t l = 0; l < BLOCK; l++) {
        double y = 1.0 + (r[l] + (lost[l] + exp_series(r[l])));
        x[l] = y * power[l] * 0x1p-512;
    }
}

void fmath_exp_all(double *x, size_t n)
{
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        exp_block(x + i);
    }
    if (i < n) {
        double rest[BLOCK] = {0};
        memcpy(rest, x + i, (n - i) * sizeof *x);
        exp_block(rest);
        memcpy(x + i, rest, (n - i) * sizeof *x);
    }
}

/* log x = k ln 2 + log(1 + f), 1 + f from sqrt(1/2) to sqrt(2). With s = f / (2 + f), log(1 + f) =
 * 2 (s + s^3 / 3 + s^5 / 5 ...) = f - f^2 / 2 + s (f^2 / 2 + R), R = 2 (s^2 / 3 + s^4 / 5 ...); the
 * first term left out is below 2^-60 of the sum. */
double fmath_log(double x)
{
    /* offset: so that the exponent is not negative */
    static const uint64_t sqrt_half = 0x3fe6a09e667f3bcd, offset = (uint64_t)1024 << 52;
    double shift = 0.0;
    if (x < 0x1p-1022) { /* subnormal */
        x *= 0x1p54;
        shift = -54.0;
    }
    uint64_t bits = to_bits(x);
    uint64_t e = (bits - sqrt_half + offset) >> 52;
    double k = (double)(int64_t)e - 1024.0 + shift;
    double f = from_bits(bits - (e << 52) + offset) - 1.0;
    double s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
    double z2 = z * z, even = 2.0 / 19, odd = 2.0 / 21;
    even = even * z2 + 2.0 / 15;
    odd = odd * z2 + 2.0 / 17;
    even = even * z2 + 2.0 / 11;
    odd = odd * z2 + 2.0 / 13;
    even = even * z2 + 2.0 / 7;
    odd = odd * z2 + 2.0 / 9;
    even = even * z2 + 2.0 / 3;
    odd = odd * z2 + 2.0 / 5;
    double r = z * (even + z * odd);
    return k * LN2_HIGH - ((h - (s * (h + r) + k * LN2_LOW)) - f);
}
