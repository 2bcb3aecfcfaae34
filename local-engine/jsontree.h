/* jsontree.h - JSON of a model's files as a tree of jansson's, in little memory. A tree takes up to
 * a hundred times the memory of its text, and the text is somebody else's: so what a tree would
 * take is estimated first, and of files that may hold long lists only what is needed becomes one.
 */
#ifndef ISOTHERM_JSONTREE_H
#define ISOTHERM_JSONTREE_H

#include "engine_error.h"
#include <jansson.h>
#include <stddef.h>

/* Room for the header of 11,000 tensors, an index of 60,000; the largest files that are known have
 * a tenth of that. */
#define JSONTREE_MAX (16u << 20)

/* Whether the tree of this text, well-formed or not, takes at most JSONTREE_MAX bytes. */
bool jsontree_fits(const char *text, size_t len);

/* An object of those fields of the file's object that have one of `names` (ended by NULL), yours.
 * Of the others only brackets and strings are checked. NULL: ENGINE_BAD_FILE, with the file's name,
 * or ENGINE_NOMEM. */
json_t *jsontree_pick(const char *text, size_t len, const char *const *names, const char *file,
                      struct engine_error *err);

#endif
