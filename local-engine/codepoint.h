/* codepoint.h - UTF-8 characters in bytes that need not be UTF-8. Pure. */
#ifndef ISOTHERM_CODEPOINT_H
#define ISOTHERM_CODEPOINT_H

#include <stddef.h>
#include <stdint.h>

/* Length (1 to 4) of the well-formed character at `s`, which goes to *cp; 0 where there is none: n
 * is 0, or the bytes are a stray continuation, overlong, a surrogate, above U+10FFFF or cut off. */
size_t codepoint_read(const char *s, size_t n, uint32_t *cp);
/* Writes a scalar value as UTF-8; returns the length. */
size_t codepoint_write(char out[4], uint32_t cp);
/* Length of the longest well-formed beginning of `s`, and of the longest beginning without a
 * well-formed character. */
size_t codepoint_valid_run(const char *s, size_t n);
size_t codepoint_invalid_run(const char *s, size_t n);

#endif
