/* fuzz_decode_cohere.c - any bytes as a Cohere answer: see fuzz_decode.h. */
#include "fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_decode(&backend_cohere, data, size);
    return 0;
}
