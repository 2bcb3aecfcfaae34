/* fuzz_tokenizer.c - the first two bytes say how the rest is divided: tokenizer.json (or a .gguf
 * file, by its first bytes), its config, a text to encode. What the ids give back is read, and no
 * id may be out of range.
 */
#include "local-engine/tokenizer_gguf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static volatile unsigned char sink; /* so that reading is not optimised away */

static void encode(const struct tokenizer *t, const char *text, size_t len)
{
    int32_t *ids = NULL;
    size_t n = 0, piece_len = 0;
    if (!tokenizer_encode(t, text, len, true, &ids, &n, NULL)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const char *piece = tokenizer_piece(t, ids[i], i == 0, &piece_len);
        for (size_t k = 0; k < piece_len; k++) {
            sink = (unsigned char)piece[k];
        }
        if (!tokenizer_spelling(t, ids[i])) {
            abort();
        }
    }
    free(ids);
}

static bool open_any(struct tokenizer **t, const char *file, size_t len, const char *config,
                     size_t config_len, struct engine_error *err)
{
    struct gguf *g = NULL;
    if (len < 4 || memcmp(file, "GGUF", 4) != 0) {
        return tokenizer_parse(t, file, len, config, config_len, err);
    }
    bool done = gguf_parse(&g, (const unsigned char *)file, len, "fuzz.gguf", err) &&
                tokenizer_from_gguf(t, g, err);
    gguf_close(g);
    return done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tokenizer *t = NULL;
    struct engine_error err = {0};
    if (size < 2) {
        return 0;
    }
    const char *rest = (const char *)data + 2;
    size_t len = size - 2, text_len = len * data[0] / 1024, config_len = len * data[1] / 1024,
           json_len = len - text_len - config_len;
    const char *config = config_len ? rest + json_len : NULL;
    if (!open_any(&t, rest, json_len, config, config_len, &err)) {
        if (err.code == ENGINE_OK || !memchr(err.text, '\0', sizeof err.text) ||
            err.text[0] == '\0') {
            abort();
        }
        return 0;
    }
    encode(t, rest + json_len + config_len, text_len);
    encode(t, rest, json_len < 4096 ? json_len : 4096);
    tokenizer_close(t);
    return 0;
}
