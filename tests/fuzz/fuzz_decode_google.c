/* fuzz_decode_google.c - any bytes as a Google answer: see fuzz_decode.h. It has no raw
 * completions: bit 7 says that a stream is an array. */
#include "fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool is_array = size > 0 && data[0] & 0x80;
    fuzz_decode_in(&backend_google, is_array ? FORM_ARRAY : FORM_SSE, data, size);
    return 0;
}
