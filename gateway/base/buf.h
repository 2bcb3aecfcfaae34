/* buf.h - a growing byte buffer that was told its limit when it was made.
 *
 * Always NUL-terminated after the first append. At the limit, or without memory, an append fails,
 * changes nothing and sets `is_failed`, so that a row of appends can be checked once at its end.
 */
#ifndef ISOTHERM_BUF_H
#define ISOTHERM_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct slice {
    const char *p;
    size_t len;
};
#define SLICE_LIT(s) ((struct slice){(s), sizeof(s) - 1})
struct slice slice_str(const char *s); /* NULL gives an empty slice */

struct buf {
    char *p;
    size_t len, cap, limit;
    bool is_failed;
};
void buf_init(struct buf *b, size_t limit_bytes);
void buf_release(struct buf *b);
bool buf_append(struct buf *b, const char *p, size_t n);
bool buf_puts(struct buf *b, const char *s);
bool buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_drop(struct buf *b, size_t n_front_bytes);
void buf_clear(struct buf *b);
/* The bytes are yours (free); the buffer is empty afterwards. NULL when it was empty. */
char *buf_take(struct buf *b, size_t *len);
struct slice buf_slice(const struct buf *b);

#endif
