/* kernels_avx2.c - the kernels for processors with AVX2, FMA and F16C. Compiled with -mavx2
 * -mfma -mf16c, this file alone, and called only where kernels.c found them.
 *
 * Sixteen lanes are two registers. One row of x (decoding) reads the mapped weights as they lie,
 * four rows of w at once (those in blocks through the scratch). Several rows take blocks of w that
 * fit the first cache (half-precision ones are widened into scratch once for all rows) and tiles of
 * two rows of x by three of w, so twelve sums run beside each other: FMA needs eight to hide its
 * latency, and sixteen registers hold no more. A lane's order never changes, so every path gives
 * the bits of kernels_ref.c.
 */
#include "kernels_quant.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define INLINE      static inline __attribute__((always_inline))
#define UNROLL      _Pragma("GCC unroll 8") /* arrays of registers: gcc at -O2 would store them */
#define BLOCK_BYTES (20u << 10) /* of w: beside two rows of x in a first cache of 32 KiB */

struct lanes {
    __m256 low, high; /* lanes 0 .. 7, 8 .. 15 */
};

INLINE size_t weight_bytes(enum kernels_type type)
{
    return type == KERNELS_F32 ? 4 : 2;
}

/* ---------------------------------------------------------------- loads */

INLINE __m256 load8(enum kernels_type type, const unsigned char *p)
{
    if (type == KERNELS_F32) {
        return _mm256_loadu_ps((const float *)(const void *)p);
    }
    __m128i half = _mm_loadu_si128((const __m128i *)(const void *)p);
    if (type == KERNELS_F16) {
        return _mm256_cvtph_ps(half);
    }
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

INLINE struct lanes load16(enum kernels_type type, const unsigned char *p)
{
    return (struct lanes){load8(type, p), load8(type, p + 8 * weight_bytes(type))};
}

/* Ones for the first n of eight lanes, n <= 8. */
INLINE __m256i first_of_8(size_t n)
{
    static const int ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + 8 - n));
}

/* The last n < 16 of a row, padded with zeros. Masked loads touch only what they load. */
INLINE struct lanes load_tail(enum kernels_type type, const unsigned char *p, size_t n)
{
    size_t n_low = n < 8 ? n : 8;
    if (type == KERNELS_F32) {
        const float *x = (const float *)(const void *)p;
        __m256 low = _mm256_maskload_ps(x, first_of_8(n_low));
        return (struct lanes){low, n > 8 ? _mm256_maskload_ps(x + 8, first_of_8(n - 8))
                                         : _mm256_setzero_ps()};
    }
    unsigned char buf[32] = {0};
    for (size_t i = 0; i < n; i++) {
        buf[2 * i] = p[2 * i];
        buf[2 * i + 1] = p[2 * i + 1];
    }
    return load16(type, buf);
}

INLINE const unsigned char *bytes_of(const float *x)
{
    return (const unsigned char *)x;
}

INLINE struct lanes x16(const float *x)
{
    return (struct lanes){_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
}

INLINE void store_tail(float *y, __m256 v, size_t n)
{
    _mm256_maskstore_ps(y, first_of_8(n), v);
}

INLINE struct lanes zero_lanes(void)
{
    return (struct lanes){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

INLINE void fma_lanes(struct lanes *sum, struct lanes a, struct lanes b)
{
    sum->low = _mm256_fmadd_ps(a.low, b.low, sum->low);
    sum->high = _mm256_fmadd_ps(a.high, b.high, sum->high);
}

/* ---------------------------------------------------------------- the tree */

/* Four sums of sixteen lanes -> four numbers. A horizontal add pairs neighbours, twice, then the
 * halves are added. */
INLINE __m128 tree4(struct lanes a, struct lanes b, struct lanes c, struct lanes d)
{
    __m256 ab = _mm256_hadd_ps(_mm256_add_ps(a.low, a.high), _mm256_add_ps(b.low, b.high));
    __m256 cd = _mm256_hadd_ps(_mm256_add_ps(c.low, c.high), _mm256_add_ps(d.low, d.high));
    __m256 all = _mm256_hadd_ps(ab, cd);
    return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

INLINE float tree1(struct lanes a)
{
    return _mm_cvtss_f32(tree4(a, a, a, a));
}

/* ---------------------------------------------------------------- one row of x */

INLINE float dot(enum kernels_type type, const unsigned char *w, const float *x, size_t k)
{
    struct lanes s = zero_lanes();
    size_t full = k & ~(size_t)15;
    for (size_t i = 0; i < full; i += 16) {
        fma_lanes(&s, x16(x + i), load16(type, w + i * weight_bytes(type)));
    }
    if (full < k) {
        fma_lanes(&s, load_tail(KERNELS_F32, bytes_of(x + full), k - full),
                  load_tail(type, w + full * weight_bytes(type), k - full));
    }
    return tree1(s);
}

/* y[0 .. 3] = rows 0 .. 3 of w times x */
INLINE void dot4(enum kernels_type type, const unsigned char *w, size_t row_bytes, const float *x,
                 size_t k, float *y)
{
    const unsigned char *w1 = w + row_bytes, *w2 = w1 + row_bytes, *w3 = w2 + row_bytes;
    struct lanes s0 = zero_lanes(), s1 = s0, s2 = s0, s3 = s0;
    size_t full = k & ~(size_t)15;
    for (size_t i = 0; i < full; i += 16) {
        struct lanes v = x16(x + i);
        size_t at = i * weight_bytes(type);
        fma_lanes(&s0, v, load16(type, w + at));
        fma_lanes(&s1, v, load16(type, w1 + at));
        fma_lanes(&s2, v, load16(type, w2 + at));
        fma_lanes(&s3, v, load16(type, w3 + at));
    }
    if (full < k) {
        struct lanes v = load_tail(KERNELS_F32, bytes_of(x + full), k - full);
        size_t at = full * weight_bytes(type);
        fma_lanes(&s0, v, load_tail(type, w + at, k - full));
        fma_lanes(&s1, v, load_tail(type, w1 + at, k - full));
        fma_lanes(&s2, v, load_tail(type, w2 + at, k - full));
        fma_lanes(&s3, v, load_tail(type, w3 + at, k - full));
    }
    _mm_storeu_ps(y, tree4(s0, s1, s2, s3));
}

INLINE void one_row(enum kernels_type type, const unsigned char *w, size_t row_bytes, size_t k,
                    const float *x, float *y, size_t n_out)
{
    size_t n = 0;
    for (; n + 4 <= n_out; n += 4) {
        dot4(type, w + n * row_bytes, row_bytes, x, k, y + n);
    }
    for (; n < n_out; n++) {
        y[n] = dot(type, w + n * row_bytes, x, k);
    }
}

static void one_row_any(const struct kernels_matmul *j, size_t from, size_t to)
{
    const unsigned char *w = j->w + from * j->row_bytes;
    const float *x = j->x[0];
    float *y = j->y[0] + from;
    if (j->type == KERNELS_F32) {
        one_row(KERNELS_F32, w, j->row_bytes, j->k, x, y, to - from);
    } else if (j->type == KERNELS_F16) {
        one_row(KERNELS_F16, w, j->row_bytes, j->k, x, y, to - from);
    } else {
        one_row(KERNELS_BF16, w, j->row_bytes, j->k, x, y, to - from);
    }
}

/* ---------------------------------------------------------------- several rows of x */

/* The sums of a tile: s[row of w][row of x], one half of the lanes. */
struct half_tile {
    __m256 s00, s01, s10, s11, s20, s21;
};

/* The empty statements keep a weight in its register: gcc would load it twice, and loads are
 * what limits a tile (1.4 times faster). */
INLINE void step_half(struct half_tile *t, __m256 x0, __m256 x1, __m256 w0, __m256 w1, __m256 w2)
{
    __asm__("" : "+x"(w0));
    t->s00 = _mm256_fmadd_ps(x0, w0, t->s00);
    t->s01 = _mm256_fmadd_ps(x1, w0, t->s01);
    __asm__("" : "+x"(w1));
    t->s10 = _mm256_fmadd_ps(x0, w1, t->s10);
    t->s11 = _mm256_fmadd_ps(x1, w1, t->s11);
    __asm__("" : "+x"(w2));
    t->s20 = _mm256_fmadd_ps(x0, w2, t->s20);
    t->s21 = _mm256_fmadd_ps(x1, w2, t->s21);
}

INLINE __m256 f32x8(const unsigned char *p)
{
    return load8(KERNELS_F32, p);
}

/* Three rows of float32 w by two rows of x. */
static void tile(const unsigned char *w, size_t row_bytes, size_t k, const float *x0,
                 const float *x1, float *y0, float *y1)
{
    const unsigned char *w1 = w + row_bytes, *w2 = w1 + row_bytes;
    __m256 z = _mm256_setzero_ps();
    struct half_tile a = {z, z, z, z, z, z}, b = a;
    size_t full = k & ~(size_t)15;
    for (size_t i = 0; i < full; i += 16) {
        size_t at = 4 * i, next = at + 32;
        step_half(&a, _mm256_loadu_ps(x0 + i), _mm256_loadu_ps(x1 + i), f32x8(w + at),
                  f32x8(w1 + at), f32x8(w2 + at));
        step_half(&b, _mm256_loadu_ps(x0 + i + 8), _mm256_loadu_ps(x1 + i + 8), f32x8(w + next),
                  f32x8(w1 + next), f32x8(w2 + next));
    }
    if (full < k) {
        size_t n = k - full;
        struct lanes p0 = load_tail(KERNELS_F32, bytes_of(x0 + full), n);
        struct lanes p1 = load_tail(KERNELS_F32, bytes_of(x1 + full), n);
        struct lanes q0 = load_tail(KERNELS_F32, w + 4 * full, n),
                     q1 = load_tail(KERNELS_F32, w1 + 4 * full, n);
        struct lanes q2 = load_tail(KERNELS_F32, w2 + 4 * full, n);
        step_half(&a, p0.low, p1.low, q0.low, q1.low, q2.low);
        step_half(&b, p0.high, p1.high, q0.high, q1.high, q2.high);
    }
    struct lanes none = {z, z};
    __m128 r0 = tree4((struct lanes){a.s00, b.s00}, (struct lanes){a.s10, b.s10},
                      (struct lanes){a.s20, b.s20}, none);
    __m128 r1 = tree4((struct lanes){a.s01, b.s01}, (struct lanes){a.s11, b.s11},
                      (struct lanes){a.s21, b.s21}, none);
    __m128i three = _mm_setr_epi32(-1, -1, -1, 0);
    _mm_maskstore_ps(y0, three, r0);
    _mm_maskstore_ps(y1, three, r1);
}

/* n_out rows of float32 w by all rows of x; `at` is the first output. */
static void block(const unsigned char *w, size_t row_bytes, size_t n_out,
                  const struct kernels_matmul *j, size_t at)
{
    size_t m = 0;
    for (; m + 2 <= j->n_rows; m += 2) {
        const float *x0 = j->x[m], *x1 = j->x[m + 1];
        float *y0 = j->y[m] + at, *y1 = j->y[m + 1] + at;
        size_t n = 0;
        for (; n + 3 <= n_out; n += 3) {
            tile(w + n * row_bytes, row_bytes, j->k, x0, x1, y0 + n, y1 + n);
        }
        for (; n < n_out; n++) {
            y0[n] = dot(KERNELS_F32, w + n * row_bytes, x0, j->k);
            y1[n] = dot(KERNELS_F32, w + n * row_bytes, x1, j->k);
        }
    }
    if (m < j->n_rows) {
        one_row(KERNELS_F32, w, row_bytes, j->k, j->x[m], j->y[m] + at, n_out);
    }
}

static void expand(enum kernels_type type, const unsigned char *w, size_t n, float *out);

/* Rows of w at a time: as many threes as BLOCK_BYTES holds, within the scratch. */
static size_t block_rows(size_t k)
{
    size_t n = BLOCK_BYTES / (4 * (k + 1)) / 3 * 3;
    return n < 3 ? 3 : n > KERNELS_SCRATCH_ROWS ? KERNELS_SCRATCH_ROWS : n;
}

static void matmul(const struct kernels_matmul *j, size_t from, size_t to, float *scratch)
{
    size_t step = block_rows(j->k);
    if (j->n_rows == 1 && j->type <= KERNELS_BF16) {
        one_row_any(j, from, to);
        return;
    }
    for (size_t at = from; at < to; at += step) {
        size_t n = to - at < step ? to - at : step;
        const unsigned char *w = j->w + at * j->row_bytes;
        if (j->type == KERNELS_F32) {
            block(w, j->row_bytes, n, j, at);
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            expand(j->type, w + i * j->row_bytes, j->k, scratch + i * j->k);
        }
        block(bytes_of(scratch), 4 * j->k, n, j, at);
    }
}

/* ---------------------------------------------------------------- element by element */

INLINE void expand_as(enum kernels_type type, const unsigned char *w, size_t n, float *out)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(out + i, load8(type, w + i * weight_bytes(type)));
    }
    if (i < n) {
        store_tail(out + i, load_tail(type, w + i * weight_bytes(type), n - i).low, n - i);
    }
}

static void expand(enum kernels_type type, const unsigned char *w, size_t n, float *out)
{
    if (type == KERNELS_F32) {
        memcpy(out, w, n * sizeof *out);
    } else if (type == KERNELS_F16) {
        expand_as(KERNELS_F16, w, n, out);
    } else if (type == KERNELS_BF16) {
        expand_as(KERNELS_BF16, w, n, out);
    } else {
        kernels_quant_expand_avx2(type, w, n, out);
    }
}

/* kernels_exp, eight at once */
INLINE __m256 exp8(__m256 x)
{
    __m256 clamped =
        _mm256_min_ps(_mm256_set1_ps(KERNELS_EXP_HIGH), x); /* the second operand when one is NaN */
    __m256 round = _mm256_set1_ps(KERNELS_EXP_ROUND);
    __m256 t = _mm256_fmadd_ps(clamped, _mm256_set1_ps(KERNELS_EXP_LOG2E), round);
    __m256 n = _mm256_sub_ps(t, round);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(KERNELS_EXP_LN2_HIGH), clamped);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(KERNELS_EXP_LN2_LOW), r);
    __m256 q = _mm256_set1_ps(KERNELS_EXP_C5);
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(KERNELS_EXP_C4));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(KERNELS_EXP_C3));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(KERNELS_EXP_C2));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(KERNELS_EXP_C1));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(KERNELS_EXP_C0));
    q = _mm256_add_ps(_mm256_fmadd_ps(q, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
    __m256i bits = _mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(127));
    __m256 power = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
    __m256 is_low = _mm256_cmp_ps(x, _mm256_set1_ps(KERNELS_EXP_LOW), _CMP_LT_OQ);
    return _mm256_andnot_ps(is_low, _mm256_mul_ps(q, power));
}

INLINE __m256 load_some(const float *x, size_t n)
{
    return n >= 8 ? _mm256_loadu_ps(x) : load_tail(KERNELS_F32, bytes_of(x), n).low;
}

INLINE void store_some(float *y, __m256 v, size_t n)
{
    if (n >= 8) {
        _mm256_storeu_ps(y, v);
    } else {
        store_tail(y, v, n);
    }
}

static float sum(const float *x, size_t n)
{
    struct lanes s = zero_lanes();
    size_t full = n & ~(size_t)15;
    for (size_t i = 0; i < full; i += 16) {
        s.low = _mm256_add_ps(s.low, _mm256_loadu_ps(x + i));
        s.high = _mm256_add_ps(s.high, _mm256_loadu_ps(x + i + 8));
    }
    if (full < n) {
        struct lanes v = load_tail(KERNELS_F32, bytes_of(x + full), n - full);
        s.low = _mm256_add_ps(s.low, v.low);
        s.high = _mm256_add_ps(s.high, v.high);
    }
    return tree1(s);
}

static void rmsnorm(const float *x, const float *gain, size_t n, float eps, float *y)
{
    float squares = dot(KERNELS_F32, bytes_of(x), x, n);
    __m256 scale = _mm256_set1_ps(1.0f / sqrtf(squares / (float)n + eps));
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_mul_ps(load_some(x + i, n - i), scale);
        store_some(y + i, _mm256_mul_ps(v, load_some(gain + i, n - i)), n - i);
    }
}

static void layernorm(const float *x, const float *gain, const float *bias, size_t n, float eps,
                      float *y)
{
    __m256 mean = _mm256_set1_ps(sum(x, n) / (float)n);
    for (size_t i = 0; i < n; i += 8) {
        store_some(y + i, _mm256_sub_ps(load_some(x + i, n - i), mean), n - i);
    }
    float squares = dot(KERNELS_F32, bytes_of(y), y, n);
    __m256 scale = _mm256_set1_ps(1.0f / sqrtf(squares / (float)n + eps));
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_mul_ps(load_some(y + i, n - i), scale);
        v = _mm256_fmadd_ps(v, load_some(gain + i, n - i), load_some(bias + i, n - i));
        store_some(y + i, v, n - i);
    }
}

static void silu(float *gate, const float *up, size_t n)
{
    __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
    for (size_t i = 0; i < n; i += 8) {
        __m256 g = load_some(gate + i, n - i);
        __m256 v = _mm256_div_ps(g, _mm256_add_ps(one, exp8(_mm256_xor_ps(g, sign))));
        store_some(gate + i, _mm256_mul_ps(v, load_some(up + i, n - i)), n - i);
    }
}

static void gelu(float *x, size_t n)
{
    __m256 one = _mm256_set1_ps(1.0f), cube = _mm256_set1_ps(KERNELS_GELU_CUBE);
    __m256 scale = _mm256_set1_ps(KERNELS_GELU_SCALE);
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = load_some(x + i, n - i);
        __m256 u = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_mul_ps(v, v), cube), v, v);
        store_some(x + i, _mm256_div_ps(v, _mm256_add_ps(one, exp8(_mm256_mul_ps(u, scale)))),
                   n - i);
    }
}

static void softcap(float *x, size_t n, float scale, float cap)
{
    __m256 one = _mm256_set1_ps(1.0f), most = _mm256_set1_ps(cap);
    __m256 factor = _mm256_set1_ps(-2.0f * scale / cap);
    for (size_t i = 0; i < n; i += 8) {
        __m256 e = exp8(_mm256_mul_ps(load_some(x + i, n - i), factor));
        __m256 v = _mm256_div_ps(_mm256_sub_ps(one, e), _mm256_add_ps(one, e));
        store_some(x + i, _mm256_mul_ps(v, most), n - i);
    }
}

/* ---------------------------------------------------------------- attention */

/* Four registers of positions, two chains each: eight sums beside each other. */
static void scores(const float *q, const float *keys, size_t d, float *s)
{
    __m256 even[4], odd[4];
    UNROLL for (int j = 0; j < 4; j++)
    {
        even[j] = odd[j] = _mm256_setzero_ps();
    }
    size_t i = 0;
    for (; i + 2 <= d; i += 2, keys += (size_t)2 * KERNELS_TILE) {
        __m256 q0 = _mm256_broadcast_ss(q + i), q1 = _mm256_broadcast_ss(q + i + 1);
        UNROLL for (int j = 0; j < 4; j++)
        {
            even[j] = _mm256_fmadd_ps(q0, _mm256_loadu_ps(keys + 8 * j), even[j]);
            odd[j] = _mm256_fmadd_ps(q1, _mm256_loadu_ps(keys + KERNELS_TILE + 8 * j), odd[j]);
        }
    }
    UNROLL for (int j = 0; j < 4; j++)
    {
        if (i < d) {
            even[j] =
                _mm256_fmadd_ps(_mm256_broadcast_ss(q + i), _mm256_loadu_ps(keys + 8 * j), even[j]);
        }
        _mm256_storeu_ps(s + 8 * j, _mm256_add_ps(even[j], odd[j]));
    }
}

INLINE float max8(__m256 v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

INLINE float sum8(__m256 v)
{
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}

/* Ones for the positions from .. to - 1 of the eight from `first` on. */
INLINE __m256 is_seen(int first, size_t from, size_t to)
{
    __m256i t =
        _mm256_add_epi32(_mm256_set1_epi32(first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    __m256i low = _mm256_cmpgt_epi32(t, _mm256_set1_epi32((int)from - 1));
    __m256i high = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)to), t);
    return _mm256_castsi256_ps(_mm256_and_si256(low, high));
}

/* Eight times n_vectors elements of out. */
INLINE void add_values(const float *p, size_t from, size_t to, __m256 correction,
                       const float *values, size_t ldv, int n_vectors, float *out)
{
    __m256 chain[8];
    UNROLL for (int j = 0; j < n_vectors; j++)
    {
        chain[j] = _mm256_setzero_ps();
    }
    for (size_t t = from; t < to; t++) {
        __m256 weight = _mm256_broadcast_ss(p + t);
        UNROLL for (int j = 0; j < n_vectors; j++)
        {
            chain[j] = _mm256_fmadd_ps(weight, _mm256_loadu_ps(values + t * ldv + 8 * j), chain[j]);
        }
    }
    UNROLL for (int j = 0; j < n_vectors; j++)
    {
        __m256 o = _mm256_fmadd_ps(_mm256_loadu_ps(out + 8 * j), correction, chain[j]);
        _mm256_storeu_ps(out + 8 * j, o);
    }
}

static void fold(struct kernels_fold *f, float *s, size_t from, size_t to, float scale,
                 const float *values, size_t ldv)
{
    __m256 v[4], seen[4], factor = _mm256_set1_ps(scale), none = _mm256_set1_ps(-INFINITY);
    __m256 most = none;
    UNROLL for (int j = 0; j < 4; j++)
    {
        seen[j] = is_seen(8 * j, from, to);
        v[j] = _mm256_mul_ps(_mm256_loadu_ps(s + 8 * j), factor);
        /* the second operand when one is NaN */
        most = _mm256_max_ps(_mm256_blendv_ps(none, v[j], seen[j]), most);
    }
    float max = max8(most); /* a maximum has no rounding, so its order is free */
    max = max > f->max ? max : f->max;
    __m256 shift = _mm256_set1_ps(max), lane = _mm256_setzero_ps();
    UNROLL for (int j = 0; j < 4; j++)
    {
        v[j] = _mm256_and_ps(exp8(_mm256_sub_ps(v[j], shift)), seen[j]);
        _mm256_storeu_ps(s + 8 * j, v[j]);
        lane = _mm256_add_ps(lane, v[j]);
    }
    __m256 correction = exp8(_mm256_set1_ps(f->max - max));
    f->sum = fmaf(f->sum, _mm256_cvtss_f32(correction), sum8(lane));
    f->max = max;
    size_t i = 0;
    for (; i + 64 <= ldv; i += 64) {
        add_values(s, from, to, correction, values + i, ldv, 8, f->out + i);
    }
    for (; i + 32 <= ldv; i += 32) {
        add_values(s, from, to, correction, values + i, ldv, 4, f->out + i);
    }
    for (; i < ldv; i += KERNELS_VALUES) {
        add_values(s, from, to, correction, values + i, ldv, 1, f->out + i);
    }
}

const struct kernels kernels_avx2 = {
    .name = "avx2",
    .matmul = matmul,
    .expand = expand,
    .scores = scores,
    .fold = fold,
    .rmsnorm = rmsnorm,
    .layernorm = layernorm,
    .silu = silu,
    .gelu = gelu,
    .softcap = softcap,
};

#endif
