/* jsonio.h - JSON out of and into bytes, the way every part of the gateway needs it.
 *
 * Numbers: a double is written in the shortest form that reads back to the same double, with a
 * point, whatever the locale (0.7 stays 0.7); jansson alone writes 0.69999999999999996. Parsing
 * refuses duplicate keys, deep nesting, invalid UTF-8 and bytes after the end.
 */
#ifndef ISOTHERM_JSONIO_H
#define ISOTHERM_JSONIO_H

#include "buf.h"
#include "failure.h"
#include <jansson.h>

/* Compact, keys in the order of insertion. false: limit or memory. Strings are escaped as JSON
 * needs, UTF-8 as it is. */
bool jsonio_write(struct buf *b, const json_t *v);
bool jsonio_write_string(struct buf *b, const char *s, size_t len);
#define JSONIO_DOUBLE_MAX 32
size_t jsonio_format_double(double d, char out[JSONIO_DOUBLE_MAX]);

/* An integer beyond 64 bits is read as a double, so that the parameter's own check can name it.
 * NULL: failure 400 that names the place. */
json_t *jsonio_parse(const char *p, size_t len, struct failure *f);

/* Whether it holds more than n values, itself included. */
bool jsonio_has_more(const json_t *v, size_t n);

/* Sets `value` (taken over) at a dotted path ("generationConfig.topK"), making objects on the way.
 * false: memory, or a path through a value that is no object. */
bool jsonio_set_path(json_t *object, const char *path, json_t *value);
const json_t *jsonio_get_path(const json_t *object, const char *path);

#endif
