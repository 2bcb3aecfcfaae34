/* fmath.h - exponential and logarithm of float64 whose bits depend on the argument alone.
 *
 * The C library's differ: by processor (glibc 2.36 has variants of exp and log with and without
 * fused multiply-add; measured, one exp in 1,400 and one log in 10,000 differed in the last bit)
 * and by version. The sampler's probabilities, and log-probabilities in an answer, would differ
 * with them. Here are additions, multiplications and one division in a fixed order, which IEEE 754
 * rounds in one way. Errors are below 1 ulp (test_fmath).
 */
#ifndef ISOTHERM_FMATH_H
#define ISOTHERM_FMATH_H

#include <stddef.h>

/* x becomes e^x for each of x [n] <= 0: 0 where that is below half the least double; a NaN stays
 * one. In blocks of 8, so there is none for a single number. */
void fmath_exp_all(double *x, size_t n);
/* The natural logarithm of a finite x > 0. */
double fmath_log(double x);

#endif
