/* fuzz_decode_engine.c - any bytes as frames of the engine, one a line. */
#include "fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_seen seen;
    struct failure f = {.status = 0};
    struct decoder *d = backend_engine.decoder_new(FORM_SSE, true);
    if (!d || !fuzz_begin(&seen, true)) {
        abort();
    }
    bool ok = true;
    for (size_t from = 0; ok && from < size;) {
        const uint8_t *end = memchr(data + from, '\n', size - from);
        size_t n = end ? (size_t)(end - data) - from : size - from;
        ok = backend_engine.decode(d, (struct slice){(const char *)data + from, n}, fuzz_take,
                                   &seen, &f);
        from += n + 1;
    }
    ok = ok && backend_engine.decode_end(d, fuzz_take, &seen, &f);
    fuzz_end(&seen, ok, &f);
    fuzz_release(&seen);
    backend_engine.decoder_free(d);
    return 0;
}
