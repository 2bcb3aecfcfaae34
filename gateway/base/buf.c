/* How it works: one allocation that doubles (at least), never beyond the limit and one byte for the
 * NUL, so that what a buffer can cost is known when it is made. Nothing is allocated before the
 * first append: many buffers of a request stay empty.
 */
#include "buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST_CAP 64
#define BUF_PAGE      4096

struct slice slice_str(const char *s)
{
    return (struct slice){s, s ? strlen(s) : 0};
}

void buf_init(struct buf *b, size_t limit_bytes)
{
    *b = (struct buf){.limit = limit_bytes};
}

void buf_release(struct buf *b)
{
    if (!b) {
        return;
    }
    free(b->p);
    *b = (struct buf){.limit = b->limit};
}

static bool grow(struct buf *b, size_t need)
{
    size_t cap = b->cap ? b->cap : BUF_FIRST_CAP;
    while (cap < need) { /* small ones reach a page in few steps */
        cap = cap > SIZE_MAX / 4 ? need : cap * (cap < BUF_PAGE ? 4 : 2);
    }
    cap = cap > b->limit + 1 ? b->limit + 1 : cap;
    char *p = realloc(b->p, cap);
    if (!p) {
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

/* Room for n more bytes and a NUL. */
static bool reserve(struct buf *b, size_t n)
{
    if (b->limit == SIZE_MAX || n > b->limit - b->len) {
        return false;
    }
    size_t need = b->len + n + 1;
    return need <= b->cap || grow(b, need);
}

bool buf_append(struct buf *b, const char *p, size_t n)
{
    assert(p || n == 0);
    if (!reserve(b, n)) {
        b->is_failed = true;
        return false;
    }
    if (n > 0) {
        memcpy(b->p + b->len, p, n);
    }
    b->len += n;
    b->p[b->len] = '\0';
    return true;
}

bool buf_puts(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

bool buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    bool ok = n >= 0 && reserve(b, (size_t)n);
    if (ok) {
        (void)vsnprintf(b->p + b->len, (size_t)n + 1, fmt, again); /* cannot fail: measured above */
        b->len += (size_t)n;
    } else {
        b->is_failed = true;
    }
    va_end(again);
    return ok;
}

void buf_drop(struct buf *b, size_t n_front_bytes)
{
    assert(n_front_bytes <= b->len);
    if (n_front_bytes == 0) {
        return;
    }
    b->len -= n_front_bytes;
    memmove(b->p, b->p + n_front_bytes, b->len + 1);
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->is_failed = false;
    if (b->p) {
        b->p[0] = '\0';
    }
}

char *buf_take(struct buf *b, size_t *len)
{
    char *p = b->p;
    size_t n = b->len;
    *b = (struct buf){.limit = b->limit};
    if (len) {
        *len = n;
    }
    if (n == 0) {
        free(p);
        return NULL;
    }
    return p;
}

struct slice buf_slice(const struct buf *b)
{
    return (struct slice){b->p ? b->p : "", b->len};
}
