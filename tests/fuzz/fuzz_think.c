/* fuzz_think.c - any text with reasoning in tags, whole and in pieces of the first byte's length:
 * the same bytes must come out, and of the text nothing may be lost but tags and blanks.
 */
#include "gateway/backend/think.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    struct buf out[2];
};

static bool take(struct slice s, bool is_reasoning, void *ud)
{
    struct seen *seen = ud;
    if (s.len == 0 || !buf_append(&seen->out[is_reasoning], s.p, s.len)) {
        abort();
    }
    return true;
}

static void feed(struct seen *seen, const char *p, size_t n, size_t piece)
{
    struct think t = {.at = THINK_START};
    buf_init(&seen->out[0], 1 << 20);
    buf_init(&seen->out[1], 1 << 20);
    bool ok = true;
    for (size_t i = 0; i < n; i += piece) {
        ok = ok && think_feed(&t, (struct slice){p + i, n - i < piece ? n - i : piece}, take, seen);
    }
    if (!ok || !think_end(&t, take, seen)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole, cut;
    if (size == 0) {
        return 0;
    }
    feed(&whole, (const char *)data + 1, size - 1, size);
    feed(&cut, (const char *)data + 1, size - 1, 1 + data[0] % 16);
    size_t n_out = whole.out[0].len + whole.out[1].len;
    bool is_tagged = size > 7 && memcmp(data + 1, "<think>", 7) == 0;
    if (n_out > size - 1 || (!is_tagged && n_out != size - 1)) {
        abort();
    }
    for (int i = 0; i < 2; i++) {
        if (whole.out[i].len != cut.out[i].len ||
            (whole.out[i].len && memcmp(whole.out[i].p, cut.out[i].p, cut.out[i].len) != 0)) {
            abort();
        }
        buf_release(&whole.out[i]);
        buf_release(&cut.out[i]);
    }
    return 0;
}
