/* fuzz_safetensors.c - any bytes as a .safetensors file: refused, or every tensor can be read to
 * its last byte. */
#include "local-engine/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors *st = NULL;
    struct engine_error err = {0};
    size_t n;
    unsigned sum = 0;
    if (!safetensors_parse(&st, data, size, "fuzz", &err)) {
        if (err.code == ENGINE_OK || err.text[0] == '\0' || strchr(err.text, '\n')) {
            abort(); /* a failure says what is wrong, on one line */
        }
        return 0;
    }
    const struct safetensors_tensor *t = safetensors_all(st, &n);
    for (size_t i = 0; i < n; i++) {
        for (uint64_t b = 0; b < t[i].n_bytes; b++) {
            sum += t[i].data[b];
        }
        if (safetensors_find(st, t[i].name) != &t[i]) {
            abort();
        }
    }
    safetensors_close(st);
    return (int)(sum & 0); /* the sum keeps the reads */
}
