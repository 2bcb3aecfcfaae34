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

size_t kernels_type_bytes(enum kernels_type type)
{
    return type == KERNELS_F32 ? 4 : 2;
}
