/* rope.h - rotary positions: angles by our own arithmetic, so that their bits do not depend on
 * the C library or processor.
 *
 * A model's frequencies begin as rope_frequencies() and may be scaled once, by one of the published
 * methods that let a model read further than it was trained to: each keeps its form from
 * transformers' modeling_rope_utils. What changes with the length of the text (dynamic) has no
 * place here: keys that are stored already would have to turn again.
 */
#ifndef ISOTHERM_ROPE_H
#define ISOTHERM_ROPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* frequency[i] = theta^(-2 i / n_rotated), i = 0 .. n_rotated / 2 - 1. theta >= 1, n_rotated even:
 * the elements of a head that turn. */
void rope_frequencies(double theta, int32_t n_rotated, double *frequency);

/* Positions are pressed together: every frequency is divided by factor. */
void rope_scale_linear(double *frequency, size_t n, double factor);

/* Llama 3: of the waves over `original` positions those with fewer than low_factor turns are slowed
 * by factor, those with more than high_factor stay, between them it goes over smoothly. */
struct rope_llama3 {
    double factor, low_factor, high_factor, original;
};
void rope_scale_llama3(double *frequency, size_t n, const struct rope_llama3 *s);

/* YaRN: waves with more than `fast` turns over `original` positions stay, those with fewer than
 * `slow` are slowed by factor, a straight line lies between. is_whole: its ends are whole indices.
 */
struct rope_yarn {
    double factor, fast, slow, original, theta;
    bool is_whole;
};
void rope_scale_yarn(double *frequency, size_t n, const struct rope_yarn *s);
/* What YaRN multiplies cosine and sine with: 0.1 * by * ln factor + 1; 1 where factor <= 1. */
double rope_yarn_gain(double factor, double by);
/* The same of LongRoPE: sqrt(1 + ln factor / ln original), original > 1; 1 where factor <= 1. */
double rope_long_gain(double factor, double original);

/* Cosine and sine of position * frequency[i], times gain, computed in double (error below 1e-8 at
 * position 10,000,000, 1e-15 at small ones). */
void rope_angles(const double *frequency, size_t n, int32_t position, double gain, float *cosine,
                 float *sine);

/* Rotates the first 2 * half elements of each of n_heads heads [head_dim] of x in place; element i
 * is paired with i + half, as in Hugging Face files. */
void rope_rotate(float *x, size_t n_heads, size_t head_dim, size_t half, const float *cosine,
                 const float *sine);

#endif
