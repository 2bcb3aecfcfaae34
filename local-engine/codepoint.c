/* codepoint.c - the table of well-formed sequences of the Unicode standard (table 3-7), as
 * comparisons. */
#include "codepoint.h"

#include <assert.h>
#include <stdbool.h>

static bool is_cont(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

static size_t read_3(const unsigned char *p, size_t n, uint32_t *cp)
{
    unsigned char low = p[0] == 0xe0 ? 0xa0 : 0x80;  /* below: overlong */
    unsigned char high = p[0] == 0xed ? 0x9f : 0xbf; /* above: a surrogate */
    if (n < 3 || p[1] < low || p[1] > high || !is_cont(p[2])) {
        return 0;
    }
    *cp = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    return 3;
}

static size_t read_4(const unsigned char *p, size_t n, uint32_t *cp)
{
    unsigned char low = p[0] == 0xf0 ? 0x90 : 0x80;  /* below: overlong */
    unsigned char high = p[0] == 0xf4 ? 0x8f : 0xbf; /* above: past U+10FFFF */
    if (n < 4 || p[1] < low || p[1] > high || !is_cont(p[2]) || !is_cont(p[3])) {
        return 0;
    }
    *cp = (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
    return 4;
}

size_t codepoint_read(const char *s, size_t n, uint32_t *cp)
{
    const unsigned char *p = (const unsigned char *)s;
    if (n == 0) {
        return 0;
    }
    if (p[0] < 0x80) {
        *cp = p[0];
        return 1;
    }
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        if (n < 2 || !is_cont(p[1])) {
            return 0;
        }
        *cp = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
        return 2;
    }
    if (p[0] >= 0xe0 && p[0] <= 0xef) {
        return read_3(p, n, cp);
    }
    return p[0] >= 0xf0 && p[0] <= 0xf4 ? read_4(p, n, cp) : 0;
}

size_t codepoint_write(char out[4], uint32_t cp)
{
    assert(cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff));
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

size_t codepoint_valid_run(const char *s, size_t n)
{
    uint32_t cp;
    size_t i = 0, len;
    while ((len = codepoint_read(s + i, n - i, &cp)) > 0) {
        i += len;
    }
    return i;
}

size_t codepoint_invalid_run(const char *s, size_t n)
{
    uint32_t cp;
    size_t i = 0;
    while (i < n && codepoint_read(s + i, n - i, &cp) == 0) {
        i++;
    }
    return i;
}
