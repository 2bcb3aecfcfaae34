/* fuzz_decode_openai.c - any bytes as an OpenAI answer: see fuzz_decode.h. */
#include "fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_decode(&backend_openai, data, size);
    return 0;
}
