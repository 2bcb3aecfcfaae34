/* paths.h - where the program's own files are: beside the program (a build tree) or in the folders
 * of an installation. */
#ifndef ISOTHERM_PATHS_H
#define ISOTHERM_PATHS_H

#include <stdbool.h>
#include <stddef.h>

/* The first of <folder of the program>/name, ../share/isotherm/name, ../libexec/isotherm/name that
 * exists. false: none; `out` then holds the first one, for an error text. */
bool paths_find(const char *name, char *out, size_t cap);
/* $STATE_DIRECTORY/name (systemd), else $XDG_STATE_HOME/isotherm/name, else
 * $HOME/.local/state/isotherm/name, else /var/lib/isotherm/name. */
void paths_state(const char *name, char *out, size_t cap);

/* Makes the folders of `path` that are missing, with this mode (less the umask): 0700 for what is
 * the owner's alone. false: errno says why. */
bool paths_make_folders(const char *path, unsigned mode);

#endif
