/* room.c - the pointer is copied in and out, because a T ** is no void **. */
#include "room.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool room_for(void *array, size_t *cap, size_t n, size_t size)
{
    if (n <= *cap) {
        return true;
    }
    size_t more = *cap * 2 > n ? *cap * 2 : n + 16;
    if (more > SIZE_MAX / size) {
        return false;
    }
    void *old, *new;
    memcpy(&old, array, sizeof old);
    new = realloc(old, more * size);
    if (!new) {
        return false;
    }
    memcpy(array, &new, sizeof new);
    *cap = more;
    /* cppcheck-suppress memleak ; the caller's pointer has it now */
    return true;
}
