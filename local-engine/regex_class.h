/* regex_class.h - sets of code points, for regex.c. */
#ifndef ISOTHERM_REGEX_CLASS_H
#define ISOTHERM_REGEX_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REGEX_RANGES_MAX = 512 };
#define REGEX_CODEPOINT_MAX 0x10FFFFu

struct regex_range {
    uint32_t lo, hi;
};
struct regex_class {
    struct regex_range ranges[REGEX_RANGES_MAX];
    size_t n;
};

/* false: it has too many ranges. */
bool regex_class_add(struct regex_class *c, uint32_t lo, uint32_t hi);
/* Adds \d, \D, \w, \W, \s or \S; false: too many, or another letter. */
bool regex_class_add_letter(struct regex_class *c, char letter);
/* Sorts and joins; with `is_negated` it becomes all others. Surrogates are in neither. */
void regex_class_finish(struct regex_class *c, bool is_negated);

/* Byte ranges of a run of code points that are one behind the other in UTF-8 with the same length:
 * `n` of them, and the next code point behind the run. lo is no surrogate. */
struct regex_run {
    uint8_t lo[4], hi[4];
    int n;
};
uint32_t regex_run_next(uint32_t lo, uint32_t hi, struct regex_run *run);

#endif
