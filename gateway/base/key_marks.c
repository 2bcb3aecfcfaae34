/* key_marks.c - see key_marks.h. */
#include "key_marks.h"

#include <stddef.h>
#include <string.h>

bool key_marks_begin(const char *s)
{
    static const char *const marks[] = {"sk-", "sk_", "gsk_", "xai-", "csk-", "AIza"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (strncmp(s, marks[i], strlen(marks[i])) == 0) {
            return true;
        }
    }
    return false;
}
