/* rng.c - SeedSequence mixes entropy and spawn key into a pool of four words, the pool gives 256
 * bits of state, PCG64 runs on.
 *
 * All arithmetic is modulo 2^32 (SeedSequence) and 2^128 (PCG64). The constants are numpy's; tests
 * compare every step with numpy.
 */
#include "rng.h"

#include <assert.h>
#include <string.h>

#define POOL_WORDS        4
#define SPAWN_MAX         8
#define ENTROPY_WORDS_MAX (POOL_WORDS + SPAWN_MAX)

static const rng_u128 multiplier =
    ((rng_u128)UINT64_C(0x2360ed051fc65da4) << 64) | UINT64_C(0x4385df649fccf645);

static uint32_t hashmix(uint32_t v, uint32_t *h)
{
    v ^= *h;
    *h *= 0x931e8875u;
    v *= *h;
    return v ^ (v >> 16);
}

static uint32_t mix(uint32_t x, uint32_t y)
{
    uint32_t r = 0xca01f9ddu * x - 0x4973f715u * y;
    return r ^ (r >> 16);
}

static void fill_pool(uint32_t pool[POOL_WORDS], const uint32_t *word, size_t n_words)
{
    uint32_t h = 0x43b0d7e5u;
    for (size_t i = 0; i < POOL_WORDS; i++) {
        pool[i] = hashmix(i < n_words ? word[i] : 0, &h);
    }
    for (size_t src = 0; src < POOL_WORDS; src++) {
        for (size_t dst = 0; dst < POOL_WORDS; dst++) {
            if (src != dst) {
                pool[dst] = mix(pool[dst], hashmix(pool[src], &h));
            }
        }
    }
    for (size_t i = POOL_WORDS; i < n_words; i++) {
        for (size_t dst = 0; dst < POOL_WORDS; dst++) {
            pool[dst] = mix(pool[dst], hashmix(word[i], &h));
        }
    }
}

static void make_state_words(const uint32_t pool[POOL_WORDS], uint64_t out[4])
{
    uint32_t g = 0x8b51f9ddu;
    uint32_t w[8];
    for (size_t i = 0; i < 8; i++) {
        uint32_t v = pool[i % POOL_WORDS] ^ g;
        g *= 0x58f38dedu;
        v *= g;
        w[i] = v ^ (v >> 16);
    }
    for (size_t j = 0; j < 4; j++) {
        out[j] = w[2 * j] | (uint64_t)w[2 * j + 1] << 32;
    }
}

static void step(struct rng *r)
{
    r->state = r->state * multiplier + r->inc;
}

void rng_init_spawn(struct rng *r, uint64_t entropy, const uint32_t *spawn_key, size_t n_spawn)
{
    assert(n_spawn <= SPAWN_MAX);
    /* Leading zero words do not count, except that 0 is one word; with a spawn key they are filled
     * up to four again, so that no spawned stream can equal the unspawned one of another seed. */
    uint32_t word[ENTROPY_WORDS_MAX] = {(uint32_t)entropy, (uint32_t)(entropy >> 32)};
    size_t n = entropy >> 32 ? 2 : 1;
    if (n_spawn > 0) {
        n = POOL_WORDS;
        memcpy(word + n, spawn_key, n_spawn * sizeof *word);
        n += n_spawn;
    }
    fill_pool(r->pool, word, n);
    make_state_words(r->pool, r->words);
    r->inc = (((rng_u128)r->words[2] << 64 | r->words[3]) << 1) | 1;
    r->state = 0;
    step(r);
    r->state += (rng_u128)r->words[0] << 64 | r->words[1];
    step(r);
}

void rng_init(struct rng *r, int64_t seed, uint32_t choice)
{
    rng_init_spawn(r, (uint64_t)seed, &choice, choice > 0 ? 1 : 0);
}

uint64_t rng_next(struct rng *r)
{
    step(r);
    uint64_t x = (uint64_t)(r->state >> 64) ^ (uint64_t)r->state;
    unsigned rotate = (unsigned)(r->state >> 122);
    return x >> rotate | x << (-rotate & 63);
}

double rng_double(struct rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

/* n steps are one step with other constants: composing s -> m*s + c with itself squares m and gives
 * (m + 1) * c. */
void rng_advance(struct rng *r, uint64_t n)
{
    rng_u128 m = multiplier, c = r->inc;
    rng_u128 all_m = 1, all_c = 0;
    for (; n > 0; n >>= 1) {
        if (n & 1) {
            all_m *= m;
            all_c = all_c * m + c;
        }
        c *= m + 1;
        m *= m;
    }
    r->state = all_m * r->state + all_c;
}
