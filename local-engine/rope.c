/* rope.c - sums and products of double only, so every processor rounds them alike; the C
 * library's pow, sin and cos have variants.
 *
 * The angles of a position are computed when it comes (half a head of them, once for all
 * layers): a table over the whole context would cost more memory than the weights of a small
 * model.
 */
#include "rope.h"

#include "fmath.h"

#include <math.h>

#define PI 3.14159265358979323846

/* The h-th root of a in (0, 1] by Newton's method from above: the steps fall towards the root
 * and never pass it. */
static double root(double a, int32_t h)
{
    double r = 1.0;
    for (int step = 0; step < 200; step++) {
        double power = 1.0;
        for (int32_t i = 1; i < h; i++) {
            power *= r;
        }
        double next = r - (power * r - a) / ((double)h * power);
        if (!(next < r)) {
            break;
        }
        r = next;
    }
    return r;
}

void rope_frequencies(double theta, int32_t n_rotated, double *frequency)
{
    double ratio = root(1.0 / theta, n_rotated / 2), f = 1.0;
    for (int32_t i = 0; i < n_rotated / 2; i++) {
        frequency[i] = f;
        f *= ratio;
    }
}

/* ---------------------------------------------------------------- scaling */

void rope_scale_linear(double *frequency, size_t n, double factor)
{
    for (size_t i = 0; i < n; i++) {
        frequency[i] /= factor;
    }
}

void rope_scale_llama3(double *frequency, size_t n, const struct rope_llama3 *s)
{
    for (size_t i = 0; i < n; i++) {
        double turns = s->original * frequency[i] / (2.0 * PI); /* over the original context */
        double slow = frequency[i] / s->factor;
        if (turns < s->low_factor) {
            frequency[i] = slow;
        } else if (turns <= s->high_factor) {
            double part = (turns - s->low_factor) / (s->high_factor - s->low_factor);
            frequency[i] = (1.0 - part) * slow + part * frequency[i];
        }
    }
}

/* The index whose wave makes so many turns over the original context, between indices. */
static double index_of_turns(const struct rope_yarn *s, size_t n, double turns)
{
    return (double)n * fmath_log(s->original / (turns * 2.0 * PI)) / fmath_log(s->theta);
}

void rope_scale_yarn(double *frequency, size_t n, const struct rope_yarn *s)
{
    double low = index_of_turns(s, n, s->fast), high = index_of_turns(s, n, s->slow);
    if (s->is_whole) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0.0 ? low : 0.0;
    high = high < (double)(2 * n - 1) ? high : (double)(2 * n - 1); /* as published: not n - 1 */
    if (low == high) {
        high += 0.001;
    }
    for (size_t i = 0; i < n; i++) {
        double ramp = ((double)i - low) / (high - low);
        ramp = ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp;
        frequency[i] = frequency[i] / s->factor * ramp + frequency[i] * (1.0 - ramp);
    }
}

double rope_yarn_gain(double factor, double by)
{
    return factor <= 1.0 ? 1.0 : 0.1 * by * fmath_log(factor) + 1.0;
}

double rope_long_gain(double factor, double original)
{
    return factor <= 1.0 ? 1.0 : sqrt(1.0 + fmath_log(factor) / fmath_log(original));
}

/* ---------------------------------------------------------------- angles */

/* Taylor series on |r| <= pi / 4: the first term left out is below 1e-19. */
static double sine_near_zero(double r)
{
    double s = r * r, sum = 0.0;
    for (int i = 17; i >= 3; i -= 2) {
        sum = (sum + 1.0) * -s / (double)(i * (i - 1));
    }
    return r + r * sum;
}

static double cosine_near_zero(double r)
{
    double s = r * r, sum = 0.0;
    for (int i = 18; i >= 2; i -= 2) {
        sum = (sum + 1.0) * -s / (double)(i * (i - 1));
    }
    return 1.0 + sum;
}

void rope_angles(const double *frequency, size_t n, int32_t position, double gain, float *cosine,
                 float *sine)
{
    /* pi / 2 in three parts; the first two have 33 bits, so their multiples are exact for small
     * quotients */
    static const double part1 = 1.57079632673412561417e+00, part2 = 6.07710050630396597660e-11,
                        part3 = 2.02226624879595063154e-21,
                        two_over_pi = 6.36619772367581382433e-01;
    for (size_t i = 0; i < n; i++) {
        double angle = (double)position * frequency[i];
        double quarter = floor(angle * two_over_pi + 0.5);
        double r = ((angle - quarter * part1) - quarter * part2) - quarter * part3;
        double s = gain * sine_near_zero(r), c = gain * cosine_near_zero(r);
        switch ((int64_t)quarter & 3) {
        case 0:
            cosine[i] = (float)c, sine[i] = (float)s;
            break;
        case 1:
            cosine[i] = (float)-s, sine[i] = (float)c;
            break;
        case 2:
            cosine[i] = (float)-c, sine[i] = (float)-s;
            break;
        default:
            cosine[i] = (float)s, sine[i] = (float)-c;
            break;
        }
    }
}

void rope_rotate(float *x, size_t n_heads, size_t head_dim, size_t half, const float *cosine,
                 const float *sine)
{
    for (size_t h = 0; h < n_heads; h++) {
        float *a = x + h * head_dim, *b = a + half;
        for (size_t i = 0; i < half; i++) {
            float p = a[i], q = b[i];
            a[i] = p * cosine[i] - q * sine[i];
            b[i] = q * cosine[i] + p * sine[i];
        }
    }
}
