/* config_keys.h - files that the configuration names, read whole: itself, and keys. Private to
 * config*.c; the keys' functions are in config.h. */
#ifndef ISOTHERM_CONFIG_KEYS_H
#define ISOTHERM_CONFIG_KEYS_H

#include "config.h"

/* The bytes of a regular file, at most cap of them. NULL, or why not. */
const char *config_read_file(const char *path, char *out, size_t cap, size_t *len);

#endif
