/* tokenizer_pieces.c - what each token adds to the text, worked out once at loading: byte-level
 * spellings are turned back into bytes, SentencePiece's U+2581 into spaces and <0xNN> into its
 * byte; a byte-level vocabulary's added token stands for its own spelling, a special one for
 * nothing.
 */
#include "tokenizer_private.h"

#include "codepoint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { BYTE_CHARS_MAX = 0x144 }; /* 256 + the 68 bytes that are not printable */

static bool is_printable(unsigned b)
{
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
}

/* GPT-2's bytes_to_unicode(): printable bytes of Latin-1 stand for themselves, the others for
 * U+0100 and up, in order. */
uint32_t tokenizer_byte_char(unsigned char b)
{
    uint32_t n = 0;
    if (is_printable(b)) {
        return b;
    }
    for (unsigned i = 0; i < b; i++) {
        n += !is_printable(i);
    }
    return 256 + n;
}

/* The byte that a character stands for, or -1. */
static void make_char_table(int16_t table[BYTE_CHARS_MAX])
{
    memset(table, 0xff, BYTE_CHARS_MAX * sizeof *table);
    for (int b = 0; b < 256; b++) {
        table[tokenizer_byte_char((unsigned char)b)] = (int16_t)b;
    }
}

static size_t copy(char *out, const char *s, size_t len)
{
    memcpy(out, s, len);
    return len;
}

/* Writes a byte-level spelling's bytes; one that holds another character, or bytes that are none (a
 * .gguf file's may), stands for itself, as in Hugging Face's decoder. */
static size_t put_bytes(const int16_t *table, const char *s, size_t len, char *out)
{
    size_t n = 0;
    uint32_t cp = 0;
    for (size_t i = 0; i < len;) {
        size_t read = codepoint_read(s + i, len - i, &cp);
        if (read == 0 || cp >= BYTE_CHARS_MAX || table[cp] < 0) {
            return copy(out, s, len);
        }
        out[n++] = (char)table[cp];
        i += read;
    }
    return n;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of a spelling <0xNN>, or -1. */
static int fallback_byte(const char *s, size_t len)
{
    if (len != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>' || hex_digit(s[3]) < 0 ||
        hex_digit(s[4]) < 0) {
        return -1;
    }
    return hex_digit(s[3]) * 16 + hex_digit(s[4]);
}

static size_t put_spaces(const struct tokenizer *t, const char *s, size_t len, char *out)
{
    int byte = t->has_byte_fallback ? fallback_byte(s, len) : -1;
    size_t n = 0;
    if (byte >= 0) {
        out[0] = (char)byte;
        return 1;
    }
    for (size_t i = 0; i < len;) {
        bool is_space = len - i >= TOKENIZER_SPACE_LEN &&
                        memcmp(s + i, TOKENIZER_SPACE, TOKENIZER_SPACE_LEN) == 0;
        out[n++] = is_space ? ' ' : s[i];
        i += is_space ? TOKENIZER_SPACE_LEN : 1;
    }
    return n;
}

/* Bytes of token `id`, no more than its spelling has. */
static size_t put_piece(const struct tokenizer *t, const int16_t *table, size_t id, char *out)
{
    size_t len = 0;
    const char *s = vocab_spelling(&t->vocab, (int64_t)id, &len);
    if (!s || (t->flags[id] & TOKENIZER_SPECIAL)) {
        return 0;
    }
    if (t->kind != TOKENIZER_BYTES) {
        return put_spaces(t, s, len, out); /* Gemma's runs of U+2581 are added tokens, too */
    }
    return t->flags[id] & TOKENIZER_ADDED ? copy(out, s, len) : put_bytes(table, s, len, out);
}

/* Only an ordinary token can stand for a byte of text. */
static void make_byte_ids(struct tokenizer *t)
{
    static const char hex[] = "0123456789ABCDEF";
    for (int b = 0; b < 256; b++) {
        char text[6] = {'<', '0', 'x', hex[b >> 4], hex[b & 15], '>'};
        size_t len = t->kind == TOKENIZER_BYTES
                         ? codepoint_write(text, tokenizer_byte_char((unsigned char)b))
                         : 6;
        int32_t id = t->kind == TOKENIZER_BYTES || t->has_byte_fallback
                         ? vocab_find(&t->vocab, text, len)
                         : -1;
        t->byte_ids[b] = id >= 0 && !(t->flags[id] & TOKENIZER_SPECIAL) ? id : -1;
    }
}

static void make_ascii_ids(struct tokenizer *t)
{
    for (int c = 0; c < 128; c++) {
        const char text = (char)c;
        t->ascii_ids[c] = vocab_find(&t->vocab, &text, 1);
    }
}

bool tokenizer_pieces_make(struct tokenizer *t, struct engine_error *err)
{
    int16_t table[BYTE_CHARS_MAX];
    size_t n = t->vocab.n_ids, used = 0;
    t->pieces = malloc(t->vocab.arena_len);
    t->pieces_at = malloc((n + 1) * sizeof *t->pieces_at);
    if (!t->pieces || !t->pieces_at) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    make_char_table(table);
    for (size_t id = 0; id < n; id++) {
        t->pieces_at[id] = (uint32_t)used;
        used += put_piece(t, table, id, t->pieces + used);
    }
    assert(used <= t->vocab.arena_len);
    t->pieces_at[n] = (uint32_t)used;
    make_byte_ids(t);
    make_ascii_ids(t);
    return true;
}
