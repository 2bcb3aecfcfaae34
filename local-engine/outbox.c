/* outbox.c - one buffer; what was written is dropped when it is the larger part, so every byte is
 * moved once at most. */
#include "outbox.h"
#include "link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void outbox_release(struct outbox *o)
{
    if (o) {
        free(o->p);
        memset(o, 0, sizeof *o);
    }
}

static bool append(struct outbox *o, const char *bytes, size_t n)
{
    if (n > o->cap - o->len) {
        size_t cap = o->cap * 2 > o->len + n ? o->cap * 2 : o->len + n;
        char *p = realloc(o->p, cap);
        if (!p) {
            return false;
        }
        o->p = p;
        o->cap = cap;
    }
    memcpy(o->p + o->len, bytes, n);
    o->len += n;
    return true;
}

bool outbox_put(struct outbox *o, json_t *object)
{
    if (!object) {
        o->is_broken = true;
        return true;
    }
    size_t n;
    char *frame = link_frame(object, &n);
    json_decref(object);
    if (!frame) {
        return false;
    }
    if (!append(o, frame, n)) {
        o->is_broken = true;
    }
    free(frame);
    return true;
}

size_t outbox_len(const struct outbox *o)
{
    return o->len - o->at;
}

void outbox_flush(struct outbox *o, int fd)
{
    while (o->at < o->len && !o->is_broken) {
        ssize_t n = write(fd, o->p + o->at, o->len - o->at);
        if (n > 0) {
            o->at += (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            break;
        } else if (n < 0 && errno != EINTR) {
            o->is_broken = true;
        }
    }
    if (o->at >= o->len - o->at && o->at > 0) {
        memmove(o->p, o->p + o->at, o->len - o->at);
        o->len -= o->at;
        o->at = 0;
    }
}
