/* wordscan.c - each alternative of a pattern is one function that gives the length it matches, 0:
 * it does not. All patterns end with the two for white space, so something always matches. Classes
 * of characters are utf8proc's; of ASCII they stand in a table.
 */
#include "wordscan.h"

#include "codepoint.h"

#include <assert.h>
#include <string.h>
#include <utf8proc.h>

/* CHAR_NONE: past the end. */
enum char_class { CHAR_NONE, CHAR_LETTER, CHAR_NUMBER, CHAR_SPACE, CHAR_OTHER };

/* GPT-2's is from its encoder.py; Hugging Face's ByteLevel has the same. The others are those of
 * the tokenizer.json files of Llama 3 and Qwen 2, which many others share. */
static const char *const patterns[WORDSCAN_N] = {
    [WORDSCAN_GPT2] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    [WORDSCAN_LLAMA3] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
                        "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    [WORDSCAN_QWEN2] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
                       "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
};

const char *wordscan_pattern(enum wordscan_kind kind)
{
    return patterns[kind];
}

enum wordscan_kind wordscan_recognise(const char *pattern, size_t len)
{
    for (int k = WORDSCAN_NONE + 1; k < WORDSCAN_N; k++) {
        if (strlen(patterns[k]) == len && memcmp(patterns[k], pattern, len) == 0) {
            return (enum wordscan_kind)k;
        }
    }
    return WORDSCAN_NONE;
}

/* Unicode's White_Space beyond ASCII: U+0085 and the separators. */
static enum char_class class_of(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) {
        return CHAR_LETTER;
    }
    if (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO) {
        return CHAR_NUMBER;
    }
    return cp == 0x85 || (c >= UTF8PROC_CATEGORY_ZS && c <= UTF8PROC_CATEGORY_ZP) ? CHAR_SPACE
                                                                                  : CHAR_OTHER;
}

static enum char_class class_of_ascii(unsigned char c)
{
    if ((unsigned)((c | 0x20) - 'a') < 26) {
        return CHAR_LETTER;
    }
    if ((unsigned)(c - '0') < 10) {
        return CHAR_NUMBER;
    }
    return c == ' ' || (c >= 9 && c <= 13) ? CHAR_SPACE : CHAR_OTHER;
}

/* Class and length of the character at s + at. */
static enum char_class look(const char *s, size_t len, size_t at, size_t *n)
{
    uint32_t cp = 0;
    *n = 0;
    if (at >= len) {
        return CHAR_NONE;
    }
    if ((unsigned char)s[at] < 0x80) {
        *n = 1;
        return class_of_ascii((unsigned char)s[at]);
    }
    *n = codepoint_read(s + at, len - at, &cp);
    assert(*n > 0); /* well-formed, as the header asks */
    return class_of(cp);
}

/* Where the run of this class that goes on at `at` ends. */
static size_t run_end(const char *s, size_t len, size_t at, enum char_class class)
{
    size_t n;
    while (look(s, len, at, &n) == class) {
        at += n;
    }
    return at;
}

static bool is_break(char c)
{
    return c == '\r' || c == '\n';
}

static char lower(char c, bool is_caseless)
{
    return is_caseless && c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* 's 't 're 've 'm 'll 'd; s is behind the apostrophe. The length with it; without case, U+017F is
 * an s, too. */
static size_t match_contraction(const char *s, size_t len, bool is_caseless)
{
    char a = len > 0 ? lower(s[0], is_caseless) : '\0';
    char b = len > 1 ? lower(s[1], is_caseless) : '\0';
    if (is_caseless && a == '\xc5' && b == '\xbf') {
        return 3;
    }
    if (a != '\0' && strchr("stmd", a)) {
        return 2;
    }
    return (b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l') ? 3 : 0;
}

/* \s+(?!\S)|\s+: all of it at the end of the text, else all but the last, but at least one. */
static size_t match_space(const char *s, size_t len, size_t n_first)
{
    size_t at = 0, n = n_first, last = 0;
    do {
        last = at;
        at += n;
    } while (look(s, len, at, &n) == CHAR_SPACE);
    return at == len || last == 0 ? at : last;
}

static size_t next_gpt2(const char *s, size_t len)
{
    size_t n, n_next, n_short;
    enum char_class class = look(s, len, 0, &n);
    if (s[0] == '\'' && (n_short = match_contraction(s + 1, len - 1, false)) > 0) {
        return n_short;
    }
    if (s[0] == ' ') {
        enum char_class next = look(s, len, 1, &n_next);
        if (next != CHAR_SPACE && next != CHAR_NONE) {
            return run_end(s, len, 1 + n_next, next);
        }
    }
    return class == CHAR_SPACE ? match_space(s, len, n) : run_end(s, len, n, class);
}

/* \s*[\r\n]+: up to the last line break of the white space. */
static size_t match_breaks(const char *s, size_t len)
{
    size_t end = 0, n;
    for (size_t at = 0; look(s, len, at, &n) == CHAR_SPACE; at += n) {
        end = is_break(s[at]) ? at + n : end;
    }
    return end;
}

/* [^\s\p{L}\p{N}]+[\r\n]*; `at` is behind its first character. */
static size_t match_marks(const char *s, size_t len, size_t at)
{
    at = run_end(s, len, at, CHAR_OTHER);
    while (at < len && is_break(s[at])) {
        at++;
    }
    return at;
}

static size_t match_digits(const char *s, size_t len, size_t at, int n_max)
{
    size_t n;
    for (int i = 1; i < n_max && look(s, len, at, &n) == CHAR_NUMBER; i++) {
        at += n;
    }
    return at;
}

static size_t next_llama3(const char *s, size_t len, int digits_max)
{
    size_t n, n_next, n_short;
    enum char_class class = look(s, len, 0, &n);
    if (class == CHAR_LETTER) {
        return run_end(s, len, n, CHAR_LETTER);
    }
    if (class == CHAR_NUMBER) {
        return match_digits(s, len, n, digits_max);
    }
    if (s[0] == '\'' && (n_short = match_contraction(s + 1, len - 1, true)) > 0) {
        return n_short;
    }
    enum char_class next = look(s, len, n, &n_next);
    if (next == CHAR_LETTER && !is_break(s[0])) {
        return run_end(s, len, n + n_next, CHAR_LETTER);
    }
    if (class == CHAR_OTHER) {
        return match_marks(s, len, n);
    }
    if (s[0] == ' ' && next == CHAR_OTHER) {
        return match_marks(s, len, n + n_next);
    }
    size_t breaks = match_breaks(s, len);
    return breaks > 0 ? breaks : match_space(s, len, n);
}

size_t wordscan_next(enum wordscan_kind kind, const char *s, size_t len)
{
    assert(len > 0 && kind != WORDSCAN_NONE);
    switch (kind) {
    case WORDSCAN_LLAMA3:
        return next_llama3(s, len, 3);
    case WORDSCAN_QWEN2:
        return next_llama3(s, len, 1);
    default:
        return next_gpt2(s, len);
    }
}
