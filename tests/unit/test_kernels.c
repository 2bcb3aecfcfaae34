/* test_kernels.c - the fast kernels give the bits of kernels_ref.c, which is within a bound of
 * double arithmetic. */
#include "local-engine/kernels_quant.h"
#include "local-engine/pool.h"
#include "local-engine/rope.h"
#include "local-engine/sha256.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS_MAX 17

static uint32_t g_random = 1;

static uint32_t random_bits(void)
{
    g_random = g_random * 1664525u + 1013904223u;
    return g_random >> 8;
}

static float random_float(void)
{
    return ((float)random_bits() / 8388608.0f - 1.0f) * (random_bits() % 8 == 0 ? 100.0f : 1.0f);
}

static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = random_float();
    }
}

/* Finite weights of any size in their stored form; F16 ones include subnormal numbers. */
static void fill_weights(enum kernels_type type, unsigned char *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = random_float();
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        uint16_t half =
            (uint16_t)(type == KERNELS_BF16 ? bits >> 16
                                            : (random_bits() & 0x83ff) | random_bits() % 19 << 10);
        if (type == KERNELS_F32) {
            memcpy(w + 4 * i, &x, 4);
        } else {
            memcpy(w + 2 * i, &half, 2);
        }
    }
}

static const struct kernels *fast(void)
{
    return kernels_best();
}

static void assert_same(const float *a, const float *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(a + i, b + i, sizeof *a) != 0) {
            print_error("%s: element %zu of %zu is %a and %a\n", what, i, n, (double)a[i],
                        (double)b[i]);
            fail();
        }
    }
}

/* ---------------------------------------------------------------- blocks */

static const enum kernels_type BLOCKS[] = {KERNELS_Q8_0, KERNELS_Q4_0, KERNELS_Q4_K, KERNELS_Q5_K,
                                           KERNELS_Q6_K};
enum { N_BLOCKS = sizeof BLOCKS / sizeof BLOCKS[0], BLOCK_MAX = 256, STORED = 4 };

/* Blocks of any bits, but for their float16 factors, which are finite. */
static void fill_blocks(enum kernels_type type, unsigned char *w, size_t n_bytes)
{
    size_t bytes = kernels_row_bytes(type, kernels_type_block(type));
    size_t first = type == KERNELS_Q6_K ? 208 : 0;
    size_t n_halves = type == KERNELS_Q4_K || type == KERNELS_Q5_K ? 2 : 1;
    for (size_t i = 0; i < n_bytes; i++) {
        w[i] = (unsigned char)random_bits();
    }
    for (size_t at = first; at < n_bytes; at += bytes) {
        for (size_t i = 0; i < n_halves; i++) {
            w[at + 2 * i + 1] =
                (unsigned char)((w[at + 2 * i + 1] & 0x83) | random_bits() % 19 << 2);
        }
    }
}

/* ---------------------------------------------------------------- matrix products */

/* One product by both sets; every buffer is exactly as long as it must be, so a sanitizer sees
 * reads past the end. */
static void check_product(enum kernels_type type, size_t n_rows, size_t k, size_t n, size_t from,
                          size_t shift)
{
    size_t bytes = n * kernels_row_bytes(type, k);
    unsigned char *block = malloc(shift + bytes), *w = block + shift;
    float *x[ROWS_MAX], *a[ROWS_MAX], *b[ROWS_MAX],
        *scratch = malloc(KERNELS_SCRATCH_ROWS * k * sizeof *scratch);
    if (kernels_type_block(type) > 1) {
        fill_blocks(type, w, bytes);
    } else {
        fill_weights(type, w, n * k);
    }
    for (size_t m = 0; m < n_rows; m++) {
        x[m] = malloc(k * sizeof(float));
        a[m] = calloc(n, sizeof(float));
        b[m] = calloc(n, sizeof(float));
        fill(x[m], k);
    }
    struct kernels_matmul j = {
        w, kernels_row_bytes(type, k), type, k, (const float *const *)x, a, n_rows};
    kernels_ref.matmul(&j, from, n, scratch);
    j.y = b;
    fast()->matmul(&j, from, n, scratch);
    for (size_t m = 0; m < n_rows; m++) {
        assert_same(a[m], b[m], n, "matmul");
        free(x[m]);
        free(a[m]);
        free(b[m]);
    }
    free(block);
    free(scratch);
}

static void products_have_the_same_bits(void **state)
{
    (void)state;
    static const size_t ks[] = {1, 7, 8, 15, 16, 17, 24, 31, 33, 64, 75, 172, 600};
    static const size_t ns[] = {1, 2, 3, 4, 5, 7, 13, 26};
    for (int type = KERNELS_F32; type <= KERNELS_BF16; type++) {
        for (size_t m = 1; m <= ROWS_MAX; m++) {
            for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
                size_t n = ns[(m + i) % (sizeof ns / sizeof ns[0])];
                check_product((enum kernels_type)type, m, ks[i], n, n > 4 ? 2 : 0, (m + i) % 5);
            }
        }
    }
}

/* Against what NumPy made of the same bytes: tests/vectors/make_blocks.py. */
static void blocks_are_what_the_format_says(void **state)
{
    (void)state;
    for (size_t t = 0; t < N_BLOCKS; t++) {
        char path[64];
        unsigned char w[STORED * 256];
        float want[STORED * BLOCK_MAX], got[STORED * BLOCK_MAX];
        size_t n = STORED * kernels_type_block(BLOCKS[t]), bytes = kernels_row_bytes(BLOCKS[t], n);
        (void)snprintf(path, sizeof path, "tests/vectors/blocks/%s.bin",
                       kernels_type_name(BLOCKS[t]));
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        assert_int_equal(fread(w, 1, bytes, f), bytes);
        assert_int_equal(fread(want, sizeof *want, n, f), n);
        assert_int_equal(fgetc(f), EOF);
        (void)fclose(f);
        kernels_ref.expand(BLOCKS[t], w, n, got);
        assert_same(want, got, n, path);
        fast()->expand(BLOCKS[t], w, n, got);
        assert_same(want, got, n, path);
    }
}

static void blocks_expand_to_the_same_bits(void **state)
{
    (void)state;
    for (size_t t = 0; t < N_BLOCKS; t++) {
        for (size_t n_blocks = 1; n_blocks <= 9; n_blocks++) {
            size_t n = n_blocks * kernels_type_block(BLOCKS[t]), shift = n_blocks % 5;
            size_t bytes = kernels_row_bytes(BLOCKS[t], n);
            unsigned char *w = malloc(shift + bytes);
            float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
            fill_blocks(BLOCKS[t], w + shift, bytes);
            kernels_ref.expand(BLOCKS[t], w + shift, n, a);
            fast()->expand(BLOCKS[t], w + shift, n, b);
            assert_same(a, b, n, kernels_type_name(BLOCKS[t]));
            free(w);
            free(a);
            free(b);
        }
    }
}

static void products_of_blocks_have_the_same_bits(void **state)
{
    (void)state;
    static const size_t ns[] = {1, 2, 3, 5, 13, 26};
    for (size_t t = 0; t < N_BLOCKS; t++) {
        for (size_t m = 1; m <= ROWS_MAX; m += 2) {
            size_t k = (1 + m % 3) * kernels_type_block(BLOCKS[t]);
            for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++) {
                check_product(BLOCKS[t], m, k, ns[i], ns[i] > 4 ? 2 : 0, (m + i) % 5);
            }
        }
    }
}

static void products_are_near_double(void **state)
{
    (void)state;
    float x[601], y[1], *rows[1] = {y}, w[601];
    const float *in[1] = {x};
    struct kernels_matmul j = {(const unsigned char *)w, sizeof w, KERNELS_F32, 601, in, rows, 1};
    for (int round = 0; round < 50; round++) {
        double exact = 0.0, size = 0.0;
        fill(x, 601);
        fill(w, 601);
        for (int i = 0; i < 601; i++) {
            exact += (double)x[i] * (double)w[i];
            size += fabs((double)x[i] * (double)w[i]);
        }
        fast()->matmul(&j, 0, 1, NULL);
        assert_true(fabs((double)y[0] - exact) <= 6e-7 * size);
    }
}

/* The definition once more, by hand: lanes, padding, tree. 2^24 + 1 is lost in a lane, kept
 * across lanes. */
static void the_order_is_the_documented_one(void **state)
{
    (void)state;
    float w[33], x[33] = {0}, y = 0.0f, *rows[1] = {&y};
    const float *in[1] = {x};
    struct kernels_matmul j = {(const unsigned char *)w, sizeof w, KERNELS_F32, 33, in, rows, 1};
    for (int i = 0; i < 33; i++) {
        w[i] = 1.0f;
    }
    x[0] = 0x1p24f; /* lane 0: 2^24, + 1 (rounds to even: lost), - 2^24 */
    x[16] = 1.0f;
    x[32] = -0x1p24f;
    fast()->matmul(&j, 0, 1, NULL);
    assert_true(y == 0.0f);
    x[16] = 0.0f;
    x[17] = 1.0f; /* lane 1: kept */
    fast()->matmul(&j, 0, 1, NULL);
    assert_true(y == 1.0f);
}

static void every_half_is_widened_exactly(void **state)
{
    (void)state;
    static uint16_t half[65536];
    static float a[65536], b[65536];
    for (uint32_t i = 0; i < 65536; i++) {
        half[i] = (uint16_t)i;
    }
    for (int type = KERNELS_F16; type <= KERNELS_BF16; type++) {
        kernels_ref.expand((enum kernels_type)type, (const unsigned char *)half, 65533, a);
        fast()->expand((enum kernels_type)type, (const unsigned char *)half, 65533, b);
        assert_same(a, b, 65533, "expand");
    }
    kernels_ref.expand(KERNELS_F16, (const unsigned char *)half, 65536, a);
    assert_true(a[0x3c00] == 1.0f && a[0xc000] == -2.0f && a[1] == 0x1p-24f &&
                a[0x3ff] == 1023 * 0x1p-24f);
    assert_true(a[0x7bff] == 65504.0f && isinf(a[0x7c00]) && isnan(a[0x7c01]) &&
                signbit(a[0x8000]));
}

/* ---------------------------------------------------------------- the rest */

static void the_exponential_keeps_its_bound(void **state)
{
    (void)state;
    double worst = 0.0;
    for (float x = -87.32f; x < 88.36f; x += 0.00073f) {
        double want = exp((double)x), d = fabs((double)kernels_exp(x) - want) / want;
        worst = d > worst ? d : worst;
    }
    print_message("exp: relative error up to 2^%.2f\n", log2(worst));
    assert_true(worst < 0x1.6ap-24);
    assert_true(kernels_exp(0.0f) == 1.0f && kernels_exp(-88.0f) == 0.0f &&
                kernels_exp(-INFINITY) == 0.0f);
    assert_true(isfinite(kernels_exp(1000.0f)) && isnan(kernels_exp(NAN)));
}

static void each_element_kernel_has_the_same_bits(void **state)
{
    (void)state;
    for (size_t n = 1; n < 80; n++) {
        float *x = malloc(n * sizeof *x), *g = malloc(n * sizeof *g), *h = malloc(n * sizeof *h);
        float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
        fill(x, n);
        fill(g, n);
        fill(h, n);
        kernels_ref.rmsnorm(x, g, n, 1e-5f, a);
        fast()->rmsnorm(x, g, n, 1e-5f, b);
        assert_same(a, b, n, "rmsnorm");
        kernels_ref.layernorm(x, g, h, n, 1e-5f, a);
        fast()->layernorm(x, g, h, n, 1e-5f, b);
        assert_same(a, b, n, "layernorm");
        memcpy(a, x, n * sizeof *a);
        memcpy(b, x, n * sizeof *b);
        kernels_ref.silu(a, g, n);
        fast()->silu(b, g, n);
        assert_same(a, b, n, "silu");
        memcpy(a, x, n * sizeof *a);
        memcpy(b, x, n * sizeof *b);
        kernels_ref.gelu(a, n);
        fast()->gelu(b, n);
        assert_same(a, b, n, "gelu");
        memcpy(a, x, n * sizeof *a);
        memcpy(b, x, n * sizeof *b);
        kernels_ref.softcap(a, n, 0.7f, 1.3f);
        fast()->softcap(b, n, 0.7f, 1.3f);
        assert_same(a, b, n, "softcap");
        free(x);
        free(g);
        free(h);
        free(a);
        free(b);
    }
}

static void activations_are_near_double(void **state)
{
    (void)state;
    float one = 1.0f;
    for (double x = -30.0; x < 30.0; x += 0.037) {
        float s = (float)x, g = (float)x;
        double v = (double)s,
               want = 0.5 * v * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (v + 0.044715 * v * v * v)));
        fast()->gelu(&g, 1);
        assert_true(fabs((double)g - want) <= 3e-7 * (fabs(v) + 1.0));
        fast()->silu(&s, &one, 1);
        assert_true(fabs((double)s - v / (1.0 + exp(-v))) <= 3e-7 * (fabs(v) + 1.0));
        float capped = (float)x;
        fast()->softcap(&capped, 1, 2.0f, 30.0f);
        assert_true(fabs((double)capped - 30.0 * tanh(2.0 * v / 30.0)) <= 3e-7 * 30.0);
    }
}

/* Three tiles of random keys and values, then what one query has of them. */
struct tiles {
    size_t d, ldv, first, end; /* positions that are seen */
    float *q, *keys, *values, *out;
};
enum { N_TILES = 3 };

static void tiles_init(struct tiles *t, size_t d, size_t first, size_t end)
{
    *t = (struct tiles){.d = d,
                        .ldv = (d + KERNELS_VALUES - 1) / KERNELS_VALUES * KERNELS_VALUES,
                        .first = first,
                        .end = end};
    size_t n_values = N_TILES * KERNELS_TILE * t->ldv, n_keys = N_TILES * KERNELS_TILE * d;
    t->q = malloc(d * sizeof *t->q);
    t->keys = malloc(n_keys * sizeof *t->keys);
    t->values = malloc(n_values * sizeof *t->values);
    t->out = malloc(t->ldv * sizeof *t->out);
    fill(t->q, d);
    fill(t->keys, n_keys);
    fill(t->values, n_values);
}

static void tiles_release(struct tiles *t)
{
    free(t->q);
    free(t->keys);
    free(t->values);
    free(t->out);
}

static struct kernels_fold attend(const struct kernels *k, const struct tiles *t, float scale)
{
    struct kernels_fold f = {-INFINITY, 0.0f, t->out};
    memset(t->out, 0, t->ldv * sizeof *t->out);
    for (size_t i = t->first / KERNELS_TILE; i * KERNELS_TILE < t->end; i++) {
        size_t at = i * KERNELS_TILE;
        float s[KERNELS_TILE];
        k->scores(t->q, t->keys + at * t->d, t->d, s);
        k->fold(&f, s, t->first > at ? t->first - at : 0,
                t->end - at < KERNELS_TILE ? t->end - at : KERNELS_TILE, scale,
                t->values + at * t->ldv, t->ldv);
    }
    return f;
}

static void attention_has_the_same_bits(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 7, 8, 10, 16, 20, 64, 80, 96, 128};
    for (size_t n = 1; n <= (size_t)N_TILES * KERNELS_TILE; n++) {
        struct tiles t;
        tiles_init(&t, sizes[n % 10], n % 3 ? 0 : n / 2, n);
        struct kernels_fold a = attend(&kernels_ref, &t, 0.3f);
        float *want = malloc(t.ldv * sizeof *want);
        memcpy(want, t.out, t.ldv * sizeof *want);
        struct kernels_fold b = attend(fast(), &t, 0.3f);
        assert_same(want, t.out, t.ldv, "fold");
        assert_same(&a.sum, &b.sum, 1, "sum");
        assert_same(&a.max, &b.max, 1, "max");
        free(want);
        tiles_release(&t);
    }
}

/* Against softmax and sum in double, element by element. */
static void attention_is_near_double(void **state)
{
    (void)state;
    for (size_t n = 1; n <= (size_t)N_TILES * KERNELS_TILE; n += 5) {
        struct tiles t;
        double s[N_TILES * KERNELS_TILE], max = -INFINITY, sum = 0;
        tiles_init(&t, 64, n / 3, n);
        struct kernels_fold f = attend(fast(), &t, 2.0f);
        for (size_t p = t.first; p < n; p++) {
            const float *key = t.keys + p / KERNELS_TILE * KERNELS_TILE * t.d + p % KERNELS_TILE;
            s[p] = 0;
            for (size_t i = 0; i < t.d; i++) {
                s[p] += 2.0 * (double)t.q[i] * (double)key[i * KERNELS_TILE];
            }
            max = fmax(max, s[p]);
        }
        for (size_t p = t.first; p < n; p++) {
            sum += s[p] = exp(s[p] - max);
        }
        for (size_t i = 0; i < t.d; i++) {
            double want = 0;
            for (size_t p = t.first; p < n; p++) {
                want += s[p] / sum * (double)t.values[p * t.ldv + i];
            }
            assert_true(fabs((double)(t.out[i] / f.sum) - want) < 1e-5);
        }
        tiles_release(&t);
    }
}

static void halves_are_the_nearest(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) { /* each number itself, and the middle to its next */
        float x = kernels_from_f16((uint16_t)h), next = kernels_from_f16((uint16_t)(h + 1));
        float middle = h == 0x7bff ? 65520.0f : (x + next) / 2;
        assert_int_equal(kernels_to_f16(x), h);
        assert_int_equal(kernels_to_f16(-x), h | 0x8000);
        assert_int_equal(kernels_to_f16(middle), h + (h & 1));
        assert_int_equal(kernels_to_f16(nextafterf(middle, 0.0f)), h);
        assert_int_equal(kernels_to_f16(nextafterf(middle, INFINITY)), h + 1);
    }
    assert_true(isnan(kernels_from_f16(kernels_to_f16(NAN))));
}

static void not_a_number_is_carried_on(void **state)
{
    (void)state;
    const struct kernels *sets[] = {&kernels_ref, fast()};
    for (int i = 0; i < 2; i++) {
        float s[KERNELS_TILE] = {1, 2, NAN, 4, 5, 6, 7, 8, 9}, g[9] = {NAN}, up[9] = {1};
        float v[KERNELS_TILE * KERNELS_VALUES] = {0}, out[KERNELS_VALUES] = {0};
        struct kernels_fold f = {-INFINITY, 0.0f, out};
        sets[i]->fold(&f, s, 0, 9, 1.0f, v, KERNELS_VALUES);
        sets[i]->silu(g, up, 9);
        assert_true(isnan(f.sum) && isnan(out[0]) && isnan(g[0]));
        g[0] = NAN;
        sets[i]->gelu(g, 9);
        assert_true(isnan(g[0]) && g[1] == 0.0f);
        float c[9] = {NAN, 1e30f, -1e30f};
        sets[i]->softcap(c, 9, 1.0f, 50.0f);
        assert_true(isnan(c[0]) && c[1] == 50.0f && c[2] == -50.0f && c[3] == 0.0f);
    }
}

/* ---------------------------------------------------------------- rope, pool, sha256 */

static void angles_are_those_of_the_library(void **state)
{
    (void)state;
    static const int32_t positions[] = {0, 1, 2, 3, 511, 8191, 131071, 9999999};
    double f[64];
    float c[64], s[64];
    rope_frequencies(500000.0, 128, f);
    for (int p = 0; p < 8; p++) {
        rope_angles(f, 64, positions[p], 1.0, c, s);
        for (int i = 0; i < 64; i++) {
            double angle = positions[p] * pow(500000.0, -2.0 * i / 128.0),
                   bound = 1e-7 + 1e-14 * angle;
            assert_true(fabs(f[i] * positions[p] - angle) <= 1e-13 * angle);
            assert_true(fabs((double)c[i] - cos(angle)) <= bound &&
                        fabs((double)s[i] - sin(angle)) <= bound);
        }
    }
    float x[6] = {1, 2, 3, 4, 5, 6};
    const float quarter_c[3] = {0, 0, 0}, quarter_s[3] = {1, 1, 1};
    rope_rotate(x, 1, 6, 3, quarter_c, quarter_s);
    assert_true(x[0] == -4 && x[2] == -6 && x[3] == 1 && x[5] == 3);
    float y[8] = {1, 2, 3, 4, 5, 6, 7, 8}; /* two heads of four, of which two turn */
    rope_rotate(y, 2, 4, 1, quarter_c, quarter_s);
    assert_true(y[0] == -2 && y[1] == 1 && y[2] == 3 && y[3] == 4);
    assert_true(y[4] == -6 && y[5] == 5 && y[6] == 7 && y[7] == 8);
    rope_angles(f, 2, 3, 1.5, c, s);
    assert_true(fabs((double)c[0] - 1.5 * cos(3.0)) < 1e-7 &&
                fabs((double)s[0] - 1.5 * sin(3.0)) < 1e-7);
}

struct count {
    atomic_int done[1000];
};

static void count_item(void *arg, size_t item, int thread)
{
    struct count *c = arg;
    assert_in_range(thread, 0, 2);
    atomic_fetch_add(&c->done[item], 1);
    for (volatile int i = 0; i < 100; i++) { /* time for the others to come in */
    }
}

static void a_pool_does_every_item_once(void **state)
{
    (void)state;
    struct pool *p = NULL;
    static struct count c;
    assert_false(pool_new(&p, 0, NULL));
    assert_false(pool_new(&p, POOL_THREADS_MAX + 1, NULL));
    assert_true(pool_new(&p, 3, NULL));
    for (int round = 1; round <= 300; round++) {
        pool_run(p, 1000, count_item, &c);
        for (int i = 0; i < 1000; i++) {
            assert_int_equal(atomic_load(&c.done[i]), round);
        }
    }
    pool_run(p, 0, count_item, &c);
    pool_free(p);
    assert_true(pool_new(&p, 1, NULL));
    pool_run(p, 1000, count_item, &c);
    assert_int_equal(atomic_load(&c.done[999]), 301);
    pool_free(p);
}

static void check_sum(const char *text, size_t step, const char *want)
{
    struct sha256 s;
    uint8_t digest[32];
    char hex[65];
    sha256_init(&s);
    for (size_t at = 0, n = strlen(text); at < n; at += step) {
        sha256_update(&s, text + at, n - at < step ? n - at : step);
    }
    sha256_final(&s, digest);
    sha256_hex(digest, hex);
    assert_string_equal(hex, want);
}

/* FIPS 180-4's examples, and a million times "a". */
static void sha256_gives_the_published_sums(void **state)
{
    (void)state;
    static char million[1000001];
    check_sum("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sum("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (size_t step = 1; step < 60; step += 7) {
        check_sum("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", step,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }
    memset(million, 'a', 1000000);
    check_sum(million, 997, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_have_the_same_bits),
        cmocka_unit_test(blocks_are_what_the_format_says),
        cmocka_unit_test(blocks_expand_to_the_same_bits),
        cmocka_unit_test(products_of_blocks_have_the_same_bits),
        cmocka_unit_test(products_are_near_double),
        cmocka_unit_test(the_order_is_the_documented_one),
        cmocka_unit_test(every_half_is_widened_exactly),
        cmocka_unit_test(the_exponential_keeps_its_bound),
        cmocka_unit_test(each_element_kernel_has_the_same_bits),
        cmocka_unit_test(activations_are_near_double),
        cmocka_unit_test(attention_has_the_same_bits),
        cmocka_unit_test(attention_is_near_double),
        cmocka_unit_test(halves_are_the_nearest),
        cmocka_unit_test(not_a_number_is_carried_on),
        cmocka_unit_test(angles_are_those_of_the_library),
        cmocka_unit_test(a_pool_does_every_item_once),
        cmocka_unit_test(sha256_gives_the_published_sums),
    };
    print_message("kernels: %s\n", kernels_best()->name);
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
