/* fuzz_decode_dashscope.c - any bytes as a DashScope answer: see fuzz_decode.h. */
#include "fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_decode(&backend_dashscope, data, size);
    return 0;
}
