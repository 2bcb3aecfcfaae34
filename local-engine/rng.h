/* rng.h - numpy's default_rng, bit for bit: SeedSequence and PCG64 (XSL-RR 128/64).
 *
 * A random number is a function of (seed, choice, position), never of a shared state. Choice 0 uses
 * SeedSequence(seed), choice i >= 1 uses SeedSequence(seed, spawn_key = (i,)): choice 0 does not
 * depend on n, and choices cannot collide with other seeds. Source: sampling semantics, section 4;
 * numpy/random/bit_generator.pyx and pcg64.h.
 */
#ifndef ISOTHERM_RNG_H
#define ISOTHERM_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned __int128 rng_u128;
struct rng {
    rng_u128 state, inc;
    uint32_t pool[4]; /* of the SeedSequence, kept for tests */
    uint64_t words[4];
};

/* The stream of choice `choice` under `seed` (negative seeds are taken mod 2^64). */
void rng_init(struct rng *r, int64_t seed, uint32_t choice);
/* The same with entropy and spawn key spelled out, for vectors. n_spawn <= 8. */
void rng_init_spawn(struct rng *r, uint64_t entropy, const uint32_t *spawn_key, size_t n_spawn);

uint64_t rng_next(struct rng *r);
double rng_double(struct rng *r);            /* [0, 1 - 2^-53] */
void rng_advance(struct rng *r, uint64_t n); /* as n calls of rng_next, in log n steps */

#endif
