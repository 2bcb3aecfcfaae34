/* regex.h - the regular part of ECMA-262's patterns (with the flag u), read for a set of patterns
 * at once: an automaton over the bytes of UTF-8 that says of any text which of them are in it.
 *
 * As in JSON schema a pattern is searched for: it may match anywhere, unless ^ and $ hold it.
 * Taken: literals, ., classes, groups (also named), |, * + ? {n} {n,} {n,m} and their lazy forms,
 * ^ and $, escapes (\d \w \s and their opposites, \t \n \r \v \f \0 \cX \xHH \uHHHH \u{H}, and
 * punctuation). Not taken, because no automaton of this kind can or because it needs tables:
 * look-around, back-references, \b, \B, \p. Nothing recurses by the depth of groups.
 */
#ifndef ISOTHERM_REGEX_H
#define ISOTHERM_REGEX_H

#include "engine_error.h"
#include <stddef.h>
#include <stdint.h>

enum {
    REGEX_TAGS_MAX = 62,
    REGEX_GROUPS_MAX = 256,   /* one in the other */
    REGEX_NODES_MAX = 200000, /* of all patterns of a set, repetitions written out */
    REGEX_STATES_MAX = 20000,
    REGEX_LENGTH_MAX = 1 << 16 /* bytes of a pattern */
};
#define REGEX_WHOLE (UINT64_C(1) << 63) /* set where the text is whole UTF-8 */

enum regex_kind { REGEX_BYTES, REGEX_SPLIT, REGEX_BEGIN, REGEX_END, REGEX_ACCEPT };
struct regex_node {
    uint32_t a,
        b; /* nodes + 1 that follow, 0: none yet. b: of REGEX_SPLIT. a: tag of REGEX_ACCEPT */
    uint8_t kind, lo, hi;
};

/* Patterns, each with a tag. A zeroed one is empty and ready. */
struct regex_set {
    struct regex_node *nodes;
    uint32_t *starts; /* nodes + 1 */
    size_t n, n_starts, cap, starts_cap;
};
void regex_set_release(struct regex_set *s);
/* The error's text has the pattern; `param` is empty. */
ENGINE_WARN_UNUSED bool regex_add(struct regex_set *s, const char *pattern, size_t len, int tag,
                                  struct engine_error *err);
/* This text alone, whole. */
ENGINE_WARN_UNUSED bool regex_add_text(struct regex_set *s, const char *text, size_t len, int tag,
                                       struct engine_error *err);

struct regex_dfa {
    uint32_t *next; /* [n][n_classes]; state 0 is dead, 1 the start */
    uint64_t *tags; /* [n] bits of the patterns that are in the text so far, and REGEX_WHOLE */
    size_t n, cap, tags_cap;
    size_t work; /* that it took: nodes that were looked at, each some nanoseconds */
    int n_classes;
    uint8_t class_of[256];
};
ENGINE_WARN_UNUSED bool regex_dfa_init(struct regex_dfa *d, const struct regex_set *s,
                                       struct engine_error *err);
void regex_dfa_release(struct regex_dfa *d);
static inline uint32_t regex_next(const struct regex_dfa *d, uint32_t state, uint8_t byte)
{
    return d->next[(size_t)state * (size_t)d->n_classes + d->class_of[byte]];
}
/* The tags of a whole text; 0: it is no UTF-8. */
uint64_t regex_tags(const struct regex_dfa *d, const char *text, size_t len);
/* Marks the states [n], yours, from which a text with (tags & care) == want can be reached; NULL:
 * out of memory. */
bool *regex_alive(const struct regex_dfa *d, uint64_t care, uint64_t want);

#endif
