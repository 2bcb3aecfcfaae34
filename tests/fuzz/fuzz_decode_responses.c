/* fuzz_decode_responses.c - any bytes as an answer of the Responses API. The first byte says
 * whether it is a stream and how long the pieces are; the rest is fed in pieces and at once, and
 * both ways must give the same number of deltas and the same verdict.
 */
#include "fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_decode(&backend_responses, data, size);
    return 0;
}
