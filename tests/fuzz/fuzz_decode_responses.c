/* fuzz_decode_responses.c - any bytes as an answer of the Responses API: see fuzz_decode.h. */
#include "fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_decode(&backend_responses, data, size);
    return 0;
}
