/* utf8.c - the decoder of the WHATWG encoding standard: a lead byte says how many bytes follow and
 * what the first of them may be; that range alone excludes overlong forms, surrogates and what lies
 * above U+10FFFF. A byte that does not fit ends the subpart and is looked at again as a lead byte.
 */
#include "utf8.h"

#include <string.h>

static size_t put_replacement(char *out)
{
    memcpy(out, "\xEF\xBF\xBD", 3);
    return 3;
}

/* Whether b can begin a sequence of several bytes; sets what must follow. */
static bool begin(struct utf8 *d, unsigned char b)
{
    d->low = 0x80;
    d->high = 0xBF;
    if (b >= 0xC2 && b <= 0xDF) {
        d->n_missing = 1;
    } else if (b >= 0xE0 && b <= 0xEF) {
        d->n_missing = 2;
        d->low = b == 0xE0 ? 0xA0 : 0x80;
        d->high = b == 0xED ? 0x9F : 0xBF;
    } else if (b >= 0xF0 && b <= 0xF4) {
        d->n_missing = 3;
        d->low = b == 0xF0 ? 0x90 : 0x80;
        d->high = b == 0xF4 ? 0x8F : 0xBF;
    } else {
        return false;
    }
    d->waiting[0] = b;
    d->n_waiting = 1;
    return true;
}

static size_t feed_lead(struct utf8 *d, unsigned char b, char *out)
{
    if (b < 0x80) {
        *out = (char)b;
        return 1;
    }
    return begin(d, b) ? 0 : put_replacement(out);
}

static size_t feed_byte(struct utf8 *d, unsigned char b, char *out)
{
    if (d->n_missing == 0) {
        return feed_lead(d, b, out);
    }
    if (b < d->low || b > d->high) {
        size_t len = utf8_finish(d, out);
        return len + feed_lead(d, b, out + len);
    }
    d->waiting[d->n_waiting++] = b;
    d->low = 0x80;
    d->high = 0xBF;
    if (--d->n_missing > 0) {
        return 0;
    }
    size_t len = d->n_waiting;
    memcpy(out, d->waiting, len);
    d->n_waiting = 0;
    return len;
}

size_t utf8_feed(struct utf8 *d, const char *bytes, size_t n, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        len += feed_byte(d, (unsigned char)bytes[i], out + len);
    }
    return len;
}

size_t utf8_finish(struct utf8 *d, char *out)
{
    bool is_waiting = d->n_waiting > 0;
    d->n_waiting = d->n_missing = 0;
    return is_waiting ? put_replacement(out) : 0;
}

bool utf8_is_valid(const char *s, size_t n)
{
    struct utf8 d = {0};
    for (size_t i = 0; i < n; i++) {
        unsigned char b = (unsigned char)s[i];
        if (d.n_missing == 0) {
            if (b >= 0x80 && !begin(&d, b)) {
                return false;
            }
            continue;
        }
        if (b < d.low || b > d.high) {
            return false;
        }
        d.low = 0x80;
        d.high = 0xBF;
        d.n_missing--;
    }
    return d.n_missing == 0;
}
