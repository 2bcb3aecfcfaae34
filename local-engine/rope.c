/* rope.c - sums and products of double only, so every processor rounds them alike; the C
 * library's pow, sin and cos have variants.
 *
 * The angles of a position are computed when it comes (half a head of them, once for all
 * layers): a table over the whole context would cost more memory than the weights of a small
 * model.
 */
#include "rope.h"

#include <math.h>

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

void rope_frequencies(double theta, int32_t head_dim, double *frequency)
{
    double ratio = root(1.0 / theta, head_dim / 2), f = 1.0;
    for (int32_t i = 0; i < head_dim / 2; i++) {
        frequency[i] = f;
        f *= ratio;
    }
}

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

void rope_angles(const double *frequency, size_t n, int32_t position, float *cosine, float *sine)
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
        double s = sine_near_zero(r), c = cosine_near_zero(r);
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

void rope_rotate(float *x, size_t n_heads, size_t head_dim, const float *cosine, const float *sine)
{
    size_t half = head_dim / 2;
    for (size_t h = 0; h < n_heads; h++) {
        float *a = x + h * head_dim, *b = a + half;
        for (size_t i = 0; i < half; i++) {
            float p = a[i], q = b[i];
            a[i] = p * cosine[i] - q * sine[i];
            b[i] = q * cosine[i] + p * sine[i];
        }
    }
}
