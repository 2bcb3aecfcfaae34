/* known.h - the hash of weights that were hashed before.
 *
 * Reading a large model whole takes longer than loading it, so the daemon keeps a file of what was
 * computed: one line for each set of files, "IDENTITY HASH\n", both 64 hex digits. The identity is
 * of device, inode, size and time of change of the files (weights_identity()), so it is another one
 * as soon as somebody has written to them.
 */
#ifndef ISOTHERM_KNOWN_H
#define ISOTHERM_KNOWN_H

#include <stdbool.h>

#define KNOWN_LINES_MAX 256

/* false: it is not in the file, or there is no such file. */
bool known_find(const char *path, const char identity[65], char hash[65]);

#endif
