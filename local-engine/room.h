/* room.h - arrays that grow: doubles them, so that adding an element takes constant time on the
 * average. */
#ifndef ISOTHERM_ROOM_H
#define ISOTHERM_ROOM_H

#include <stdbool.h>
#include <stddef.h>

/* Makes room for n elements of `size` bytes. `array` is the address of the pointer to them. false:
 * out of memory, and the array is as it was. */
bool room_for(void *array, size_t *cap, size_t n, size_t size);

#endif
