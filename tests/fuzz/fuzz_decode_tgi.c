/* fuzz_decode_tgi.c - any bytes as an answer of TGI's /generate, as fuzz_decode_anthropic.c; its
 * chat is openai.c's. */
#include "fuzz_decode.h"

static struct decoder *text_decoder(enum wire_form form, bool is_chat)
{
    (void)is_chat;
    return backend_tgi.decoder_new(form, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct backend text = backend_tgi;
    text.decoder_new = text_decoder;
    fuzz_decode(&text, data, size);
    return 0;
}
