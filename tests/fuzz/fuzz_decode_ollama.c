/* fuzz_decode_ollama.c - any bytes as an Ollama answer: see fuzz_decode.h. */
#include "fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_decode_in(&backend_ollama, FORM_LINES, data, size);
    return 0;
}
