/* jsonscan.h - reads JSON piece by piece from memory, without building a tree: for tables too large
 * for one (a vocabulary of 152 thousand tokens takes a tree of jansson's five times as long). Small
 * parts are skipped here, and given to jansson as spans.
 *
 * After the first problem every call fails; `problem` says what, `problem_at` is the byte where.
 * Nesting is limited.
 */
#ifndef ISOTHERM_JSONSCAN_H
#define ISOTHERM_JSONSCAN_H

#include "engine_error.h"
#include <stddef.h>
#include <stdint.h>

enum { JSONSCAN_DEPTH_MAX = 64 };

struct jsonscan_span {
    const char *at; /* borrowed; NULL: absent */
    size_t len;
    size_t n_strings; /* inside a value that jsonscan_skip() stepped over, its keys among them */
};

struct jsonscan {
    const char *start, *at, *end; /* borrowed */
    char *scratch;                /* holds the last string that had escapes */
    size_t scratch_cap;
    const char *problem; /* a literal, NULL: none so far */
    size_t problem_at;
};

void jsonscan_init(struct jsonscan *s, const char *text, size_t len);
void jsonscan_release(struct jsonscan *s);

/* First byte of the next value (or bracket, comma), 0 at the end. */
char jsonscan_peek(struct jsonscan *s);
/* Consumes '{' or '['. */
ENGINE_WARN_UNUSED bool jsonscan_open(struct jsonscan *s, char bracket);
/* Inside: true when another item follows, false at `close` (consumed) or at a problem. *n_seen
 * counts, from 0. */
ENGINE_WARN_UNUSED bool jsonscan_next(struct jsonscan *s, char close, size_t *n_seen);
/* A string, decoded, well-formed UTF-8; it lives until the next string. A key is a string and its
 * colon. */
ENGINE_WARN_UNUSED bool jsonscan_string(struct jsonscan *s, struct jsonscan_span *out);
ENGINE_WARN_UNUSED bool jsonscan_key(struct jsonscan *s, struct jsonscan_span *out);
/* An integer of at most 15 digits. */
ENGINE_WARN_UNUSED bool jsonscan_int(struct jsonscan *s, int64_t *out);
/* A finite number of at most 63 characters. */
ENGINE_WARN_UNUSED bool jsonscan_real(struct jsonscan *s, double *out);
/* Steps over any value. Only brackets and strings are checked: whoever uses the span must parse it.
 */
ENGINE_WARN_UNUSED bool jsonscan_skip(struct jsonscan *s, struct jsonscan_span *out);
/* True at the end of the text (white space apart). */
ENGINE_WARN_UNUSED bool jsonscan_end(struct jsonscan *s);
/* Records a problem at the present place, if it is the first. Always false. */
bool jsonscan_fail(struct jsonscan *s, const char *problem);

#endif
