/* small_tokenizer.h - a tokenizer of GPT-2's kind for small .gguf files: the bytes, two merges, two
 * special tokens.
 */
#ifndef ISOTHERM_TEST_SMALL_TOKENIZER_H
#define ISOTHERM_TEST_SMALL_TOKENIZER_H

#include "gguf_builder.h"
#include "local-engine/tokenizer_private.h"

#include <stdio.h>

enum { SMALL_TOKENS = 260, SMALL_BOS = 258, SMALL_KEYS = 6 };

/* SMALL_KEYS pairs; n tokens instead of SMALL_TOKENS make a wrong one. */
static inline void put_small_tokenizer(struct gguf_bytes *b, uint32_t n)
{
    static const char *const rest[] = {"ab", "abc", "<s>", "</s>"};
    gguf_put_string(b, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(b, "tokenizer.ggml.pre", "gpt-2");
    gguf_put_list(b, "tokenizer.ggml.tokens", 8, n);
    for (uint32_t i = 0; i < n; i++) {
        char byte[4] = "";
        uint32_t c = i < 256 ? tokenizer_byte_char((unsigned char)i) : 0;
        (void)snprintf(byte, sizeof byte, c < 0x80 ? "%c" : "%c%c",
                       (int)(c < 0x80 ? c : 0xc0 | c >> 6), (int)(0x80 | (c & 0x3f)));
        gguf_put_text(b, i < 256 ? byte : rest[i - 256]);
    }
    gguf_put_list(b, "tokenizer.ggml.token_type", 5, SMALL_TOKENS);
    for (uint32_t i = 0; i < SMALL_TOKENS; i++) {
        gguf_put_int(b, i < SMALL_BOS ? 1 : 3, 4);
    }
    gguf_put_list(b, "tokenizer.ggml.merges", 8, 2);
    gguf_put_text(b, "a b");
    gguf_put_text(b, "ab c");
    gguf_put_string(b, "tokenizer.chat_template", "{% for m in messages %}{{ m }}{% endfor %}");
}

#endif
