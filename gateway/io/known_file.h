/* known_file.h - keeps the hashes of weights for the engine: the file that local-engine/known.h
 * describes, in the state folder.
 */
#ifndef ISOTHERM_KNOWN_FILE_H
#define ISOTHERM_KNOWN_FILE_H

/* A line is put before the others, the oldest beyond KNOWN_LINES_MAX go; written beside it and
 * renamed. One thread. What cannot be kept is computed again. */
void known_file_add(const char *path, const char *identity, const char *hash);

#endif
