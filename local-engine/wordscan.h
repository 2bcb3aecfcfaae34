/* wordscan.h - the published pre-tokenisation patterns, cut by hand: what the regular expressions
 * match, twenty times as fast. A pattern is recognised by its text, so a file that writes it gets
 * this without knowing. Pure; the tests hold it against PCRE2 with the same patterns.
 */
#ifndef ISOTHERM_WORDSCAN_H
#define ISOTHERM_WORDSCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wordscan_kind { WORDSCAN_NONE, WORDSCAN_GPT2, WORDSCAN_LLAMA3, WORDSCAN_QWEN2, WORDSCAN_N };

/* NULL for WORDSCAN_NONE. */
const char *wordscan_pattern(enum wordscan_kind kind);
enum wordscan_kind wordscan_recognise(const char *pattern, size_t len);
/* Length of the piece that well-formed `s` begins with, 1 to len; len > 0. The end of `s` counts as
 * the end of the text. */
size_t wordscan_next(enum wordscan_kind kind, const char *s, size_t len);

#endif
