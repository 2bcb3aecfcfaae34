/* added.h - finds added tokens that are not special ("<tool_call>") in text, before anything else
 * cuts it: leftmost, and the longest of those that begin there, as in Hugging Face's library.
 */
#ifndef ISOTHERM_ADDED_H
#define ISOTHERM_ADDED_H

#include "engine_error.h"
#include <stddef.h>
#include <stdint.h>

enum { ADDED_TEXT_MAX = 256 }; /* bytes of one; bounds the time for each position of the text */

struct added_token {
    char *text; /* owned, len > 0 */
    size_t len;
    int32_t id;
    bool single_word;    /* only where no letter, digit, mark or underscore touches it */
    bool lstrip, rstrip; /* takes the white space before, after it along */
};
struct added {
    struct added_token *tokens;
    size_t n_tokens, tokens_cap;
    bool is_first_byte[256];
};

/* A zeroed one is empty and ready. */
void added_release(struct added *a);
/* Copies text. False: no memory. */
ENGINE_WARN_UNUSED bool added_add(struct added *a, const char *text, size_t len,
                                  const struct added_token *flags);
/* After the last added_add(). */
void added_sort(struct added *a);

struct added_match {
    size_t from, to;
    int32_t id;
};
/* The first match at or after `at`; false: none. */
ENGINE_WARN_UNUSED bool added_find(const struct added *a, const char *s, size_t len, size_t at,
                                   struct added_match *m);

#endif
