/* fuzz_decode_anthropic.c - any bytes as an Anthropic answer: see fuzz_decode.h. */
#include "fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_decode(&backend_anthropic, data, size);
    return 0;
}
