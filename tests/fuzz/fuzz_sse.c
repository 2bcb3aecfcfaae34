/* Any bytes: no crash, and the same events and verdict whether they come at once, byte by byte, or
 * in pieces the bytes themselves choose. */
#include "gateway/io/sse.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_BYTES_MAX 200

static bool collect(struct slice event, struct slice data, void *ud)
{
    struct buf *b = ud;
    return buf_append(b, event.p, event.len) && buf_append(b, "|", 1) &&
           buf_append(b, data.p, data.len) && buf_append(b, ";", 1);
}

/* A failed feed ends the stream: what came out before is compared all the same. */
static bool run(const char *p, size_t len, size_t piece, const unsigned char *cuts, struct buf *out)
{
    struct sse s;
    struct failure f = {0};
    sse_init(&s, EVENT_BYTES_MAX);
    buf_init(out, 4u << 20);
    bool ok = true;
    for (size_t at = 0; ok && at < len;) {
        size_t n = piece ? piece : 1 + cuts[at] % 16;
        n = n < len - at ? n : len - at;
        ok = sse_feed(&s, (struct slice){p + at, n}, collect, out, &f);
        at += n;
    }
    if (ok) {
        ok = sse_end(&s, collect, out);
    } else if (!f.status) {
        abort();
    }
    sse_release(&s);
    return ok;
}

static bool is_same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(buf_slice(a).p, buf_slice(b).p, a->len) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 20000) {
        return 0;
    }
    /* Exact copies, so that a read past a piece is seen. */
    char *copy = malloc(size);
    if (!copy) {
        return 0;
    }
    memcpy(copy, data, size);
    struct buf whole;
    struct buf bytes;
    struct buf pieces;
    bool ok = run(copy, size, size, data, &whole);
    if (run(copy, size, 1, data, &bytes) != ok || run(copy, size, 0, data, &pieces) != ok) {
        abort();
    }
    if (!is_same(&whole, &bytes) || !is_same(&whole, &pieces)) {
        abort();
    }
    buf_release(&whole);
    buf_release(&bytes);
    buf_release(&pieces);
    free(copy);
    return 0;
}
