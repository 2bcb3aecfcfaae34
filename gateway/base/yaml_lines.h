/* yaml_lines.h - where each key of a YAML text stands: key path -> line. Pure.
 *
 * libcyaml loads the values and forgets where they were; a check that runs afterwards needs the
 * line for its message. This scan also refuses what a configuration has no use for and what would
 * make loading costly or ambiguous: anchors and aliases, tags, several documents, keys given twice,
 * keys that are no plain text, NUL in a value, nesting beyond YAML_LINES_DEPTH, more than
 * YAML_LINES_MAX values.
 *
 * Paths look like "listen", "providers[0].models[2]".
 */
#ifndef ISOTHERM_YAML_LINES_H
#define ISOTHERM_YAML_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define YAML_LINES_DEPTH 8    /* the configuration uses 4 */
#define YAML_LINES_MAX   8192 /* keys and list entries; a large configuration has some hundred */
#define YAML_LINES_KEY   60   /* bytes of one key */
#define YAML_LINES_PATH  200  /* longest path in bytes, with its NUL */

struct yaml_lines;
struct yaml_lines_error {
    unsigned line;  /* 1.. */
    char text[256]; /* "PATH: what is wrong" or what is wrong */
};

/* *out is yours. A text without any key (empty, only comments) is fine and has no paths. */
bool yaml_lines_parse(struct yaml_lines **out, const char *text, size_t len,
                      struct yaml_lines_error *err) __attribute__((warn_unused_result));
void yaml_lines_free(struct yaml_lines *l);
/* The line of a path, or of the nearest one above it that is there ("a.b[1]", "a.b", "a"); 0: none
 * of them. */
unsigned yaml_lines_find(const struct yaml_lines *l, const char *path);
/* The text of the scalar at exactly this path; NULL: not there, or no scalar. Borrowed. For checks
 * that libcyaml 1.3.1 leaves out: it reads the number 3.5 as 3, 10s as 10 and 010 as 8. */
const char *yaml_lines_scalar(const struct yaml_lines *l, const char *path);
/* Whether exactly this path is there. */
bool yaml_lines_has(const struct yaml_lines *l, const char *path);
size_t yaml_lines_count(const struct yaml_lines *l);

#endif
