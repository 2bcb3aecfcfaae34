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
    void *p;
    memcpy(&p, array, sizeof p);
    p = realloc(p, more * size);
    if (!p) {
        return false;
    }
    memcpy(array, &p, sizeof p);
    *cap = more;
    return true;
}
