/* headers.h - the headers of one request to a provider, keys among them.
 *
 * Zeroed before the first use. It owns its strings, which stay where they are until they are
 * released; then they are wiped, because a key leaves no copy.
 */
#ifndef ISOTHERM_HEADERS_H
#define ISOTHERM_HEADERS_H

#include <stdbool.h>
#include <stddef.h>

#define HEADERS_MAX       16
#define HEADERS_NAME_MAX  47   /* bytes */
#define HEADERS_VALUE_MAX 4199 /* bytes: a key of the longest kind behind its word */

struct header {
    char *name, *value; /* one allocation */
    bool is_secret;
};
struct headers {
    struct header h[HEADERS_MAX];
    size_t n;
    bool is_failed; /* for want of memory */
};

/* false, and nothing is added: it is no header (a name of other characters, a control character in
 * the value), too long, one too many, or is_failed. */
bool headers_add(struct headers *h, const char *name, const char *value)
    __attribute__((warn_unused_result));
/* One that is never shown; its value is `before` ("Bearer ", or "") and `secret`. */
bool headers_add_secret(struct headers *h, const char *name, const char *before, const char *secret)
    __attribute__((warn_unused_result));
const char *headers_get(const struct headers *h, const char *name); /* NULL: absent; borrowed */
void headers_cut(struct headers *h, size_t n);                      /* the first n of them stay */
void headers_release(struct headers *h);                            /* may be filled again */

#endif
