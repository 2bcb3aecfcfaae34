/* kernels.c - which set this processor can run. */
#include "kernels.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

extern const struct kernels kernels_avx2;

static bool has_avx2(void)
{
    unsigned a, b, c, d; /* clang 14 cannot ask for f16c by name */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
#endif

const struct kernels *kernels_best(void)
{
    const struct kernels *k = kernels_find("avx2");
    return k ? k : &kernels_ref;
}

const struct kernels *kernels_find(const char *name)
{
#if defined(__x86_64__)
    if (strcmp(name, "avx2") == 0 && has_avx2()) {
        return &kernels_avx2;
    }
#endif
    return strcmp(name, "ref") == 0 ? &kernels_ref : NULL;
}

static const struct {
    const char *name;
    size_t n_elements, n_bytes; /* of a block */
} TYPES[KERNELS_N_TYPES] = {
    [KERNELS_F32] = {"F32", 1, 4},       [KERNELS_F16] = {"F16", 1, 2},
    [KERNELS_BF16] = {"BF16", 1, 2},     [KERNELS_Q8_0] = {"Q8_0", 32, 34},
    [KERNELS_Q4_0] = {"Q4_0", 32, 18},   [KERNELS_Q4_K] = {"Q4_K", 256, 144},
    [KERNELS_Q5_K] = {"Q5_K", 256, 176}, [KERNELS_Q6_K] = {"Q6_K", 256, 210},
};

const char *kernels_type_name(enum kernels_type type)
{
    return TYPES[type].name;
}

size_t kernels_type_block(enum kernels_type type)
{
    return TYPES[type].n_elements;
}

size_t kernels_row_bytes(enum kernels_type type, size_t n)
{
    return n / TYPES[type].n_elements * TYPES[type].n_bytes;
}
