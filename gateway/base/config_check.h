/* config_check.h - what the schema of the configuration cannot say: words, addresses, names, what
 * refers to what. Only config.c calls it.
 *
 * Errors name file, line and key; the places tell which file set a key last.
 */
#ifndef ISOTHERM_CONFIG_CHECK_H
#define ISOTHERM_CONFIG_CHECK_H

#include "config.h"
#include "yaml_lines.h"

struct config_file {
    char *name;
    struct yaml_lines *lines;
};
struct config_places {
    struct config_file file[CONFIG_DROPINS_MAX + 1];
    size_t n_files;
}; /* in the order in which they were read */

/* "FILE:LINE: PATH: text" for the last file that sets the path's top-level key. First error wins,
 * err may be NULL. Always returns false. */
bool config_fail_at(const struct config_places *pl, struct config_error *err, const char *path,
                    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The same with a finished place. */
bool config_fail(struct config_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

bool config_check(const struct config *c, const struct config_places *pl, struct config_error *err)
    __attribute__((warn_unused_result));

#endif
