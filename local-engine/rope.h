/* rope.h - rotary positions: angles by our own arithmetic, so that their bits do not depend on
 * the C library or processor. */
#ifndef ISOTHERM_ROPE_H
#define ISOTHERM_ROPE_H

#include <stddef.h>
#include <stdint.h>

/* frequency[i] = theta^(-2 i / head_dim), i = 0 .. head_dim / 2 - 1. theta >= 1, head_dim even. */
void rope_frequencies(double theta, int32_t head_dim, double *frequency);

/* Cosine and sine of position * frequency[i], computed in double (error below 1e-8 at position
 * 10,000,000, 1e-15 at small ones). */
void rope_angles(const double *frequency, size_t n, int32_t position, float *cosine, float *sine);

/* Rotates each of n_heads heads [head_dim] of x in place; element i is paired with i + head_dim
 * / 2, as in Hugging Face files. */
void rope_rotate(float *x, size_t n_heads, size_t head_dim, const float *cosine, const float *sine);

#endif
