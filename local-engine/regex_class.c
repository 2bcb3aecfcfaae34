/* regex_class.c - a range of code points is cut into runs whose UTF-8 is one range for each byte:
 * at the lengths' limits, then where the last bytes begin and end a block of 64, 4096, 262144.
 */
#include "regex_class.h"

#include <stdlib.h>

bool regex_class_add(struct regex_class *c, uint32_t lo, uint32_t hi)
{
    if (c->n >= REGEX_RANGES_MAX) {
        return false;
    }
    c->ranges[c->n++] = (struct regex_range){lo, hi};
    return true;
}

static int compare(const void *a, const void *b)
{
    const struct regex_range *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static void join(struct regex_class *c)
{
    size_t n = 0;
    qsort(c->ranges, c->n, sizeof c->ranges[0], compare);
    for (size_t i = 0; i < c->n; i++) {
        struct regex_range r = c->ranges[i];
        if (n > 0 && r.lo <= c->ranges[n - 1].hi + 1) {
            c->ranges[n - 1].hi = r.hi > c->ranges[n - 1].hi ? r.hi : c->ranges[n - 1].hi;
        } else {
            c->ranges[n++] = r;
        }
    }
    c->n = n;
}

static void negate(struct regex_class *c)
{
    struct regex_class out = {.n = 0};
    uint32_t at = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->ranges[i].lo > at) {
            out.ranges[out.n++] = (struct regex_range){at, c->ranges[i].lo - 1};
        }
        at = c->ranges[i].hi + 1;
    }
    if (at <= REGEX_CODEPOINT_MAX && out.n < REGEX_RANGES_MAX) {
        out.ranges[out.n++] = (struct regex_range){at, REGEX_CODEPOINT_MAX};
    }
    *c = out;
}

void regex_class_finish(struct regex_class *c, bool is_negated)
{
    join(c);
    if (is_negated) {
        negate(c);
    }
}

static const struct regex_range digits[] = {{'0', '9'}},
                                words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                                spaces[] = {{9, 13},          {32, 32},         {0xA0, 0xA0},
                                            {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                            {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                                            {0xFEFF, 0xFEFF}};

bool regex_class_add_letter(struct regex_class *c, char letter)
{
    struct regex_class named = {.n = 0};
    const struct regex_range *from = digits;
    size_t n = 1;
    if (letter == 'w' || letter == 'W') {
        from = words;
        n = sizeof words / sizeof words[0];
    } else if (letter == 's' || letter == 'S') {
        from = spaces;
        n = sizeof spaces / sizeof spaces[0];
    } else if (letter != 'd' && letter != 'D') {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        named.ranges[named.n++] = from[i];
    }
    regex_class_finish(&named, letter < 'a');
    for (size_t i = 0; i < named.n; i++) {
        if (!regex_class_add(c, named.ranges[i].lo, named.ranges[i].hi)) {
            return false;
        }
    }
    return true;
}

/* ---- UTF-8 */

static int encode(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (int i = n - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    out[0] = (uint8_t)(leads[n] | c);
    return n;
}

uint32_t regex_run_next(uint32_t lo, uint32_t hi, struct regex_run *run)
{
    static const uint32_t limits[] = {0x7F, 0x7FF, 0xD7FF, 0xFFFF, REGEX_CODEPOINT_MAX};
    size_t i = 0;
    while (lo > limits[i]) {
        i++;
    }
    uint32_t end = hi < limits[i] ? hi : limits[i];
    for (uint32_t block = 64; block <= 262144 && lo >= 0x80; block *= 64) {
        /* from `lo` to `end` the bytes below this block must be free, or all above be the same */
        if (lo / block == end / block) {
            break;
        }
        if (lo % block != 0) {
            end = lo - lo % block + block - 1;
            break;
        }
        if (end % block != block - 1) {
            end = end - end % block - 1;
        }
    }
    run->n = encode(lo, run->lo);
    (void)encode(end, run->hi);
    uint32_t next = end + 1;
    return next == 0xD800 ? 0xE000 : next;
}
