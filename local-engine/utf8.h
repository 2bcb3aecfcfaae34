/* utf8.h - an incremental UTF-8 decoder: whole characters come out, half ones wait.
 *
 * An invalid sequence becomes one U+FFFD for each maximal subpart (Unicode, chapter 3, "U+FFFD
 * substitution of maximal subparts"); surrogates, overlong forms and code points above U+10FFFF are
 * invalid. The result does not depend on how bytes were split.
 */
#ifndef ISOTHERM_UTF8_H
#define ISOTHERM_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A zeroed one is ready. At most 3 bytes wait. */
struct utf8 {
    unsigned char waiting[4];
    uint8_t n_waiting, n_missing;
    uint8_t low, high; /* what the next byte may be */
};

/* Room that utf8_feed() needs for n bytes. */
#define UTF8_OUT_MAX(n) (3 * (n) + 4)

/* Appends the characters that are whole now to out [UTF8_OUT_MAX(n)]; returns their bytes. */
size_t utf8_feed(struct utf8 *d, const char *bytes, size_t n, char *out);
/* The end: what still waits becomes one U+FFFD. out [4]. */
size_t utf8_finish(struct utf8 *d, char *out);
/* Whether a string is valid as it stands. */
bool utf8_is_valid(const char *s, size_t n);

#endif
