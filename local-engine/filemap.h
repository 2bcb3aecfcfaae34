/* filemap.h - a regular file mapped read-only, for the readers of model files.
 *
 * Who changes such a file while it is mapped changes the model, and who cuts it ends the process;
 * both are true of every program that maps its weights.
 */
#ifndef ISOTHERM_FILEMAP_H
#define ISOTHERM_FILEMAP_H

#include "engine_error.h"
#include <stddef.h>
#include <stdint.h>

struct filemap {
    const unsigned char *bytes; /* NULL: nothing is mapped */
    size_t n;
    uint64_t device, inode; /* which file that is, and ... */
    int64_t changed_ns;     /* ... when it was changed last (ctime) */
};

/* `label` stands for the file in error texts. A file of fewer than n_min bytes (at least 1) is
 * refused as no `kind` file. */
ENGINE_WARN_UNUSED bool filemap_open(struct filemap *out, const char *path, const char *label,
                                     size_t n_min, const char *kind, struct engine_error *err);
void filemap_close(struct filemap *f);
/* Gives the memory of what was read of it back; what is read again comes from the file again. */
void filemap_forget(const struct filemap *f);
/* The path's last part. */
const char *filemap_name(const char *path);

#endif
