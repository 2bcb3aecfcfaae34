/* key_marks.h - how providers' keys begin. */
#ifndef ISOTHERM_KEY_MARKS_H
#define ISOTHERM_KEY_MARKS_H

#include <stdbool.h>

/* `s` begins as keys do and as no name does: what else keys begin with ("hf_", "key-") may well
 * begin the name of a credential. */
bool key_marks_begin(const char *s);

#endif
