/* fuzz_decode_palm.c - any bytes as a PaLM answer: see fuzz_decode.h. */
#include "fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_decode(&backend_palm, data, size);
    return 0;
}
