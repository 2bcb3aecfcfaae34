/* fuzz_pieces.c - any bytes as an upstream's answer, in every framing. The first byte picks the
 * form (its remainder by 5), whether the checksums of AWS frames are put right first, and how long
 * the pieces are. The rest is fed at once, byte by byte and in pieces: the objects, their events,
 * the verdict and the form that was decided on must be the same.
 */
#include "gateway/backend/pieces.h"

#include "gateway/base/jsonio.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds) {
        abort();
    }
}

struct seen {
    const struct pieces *s;
    struct buf text;
};

static bool take(const json_t *object, struct slice event, void *ud)
{
    struct seen *x = ud;
    check(x->s->form != FORM_WHOLE || x->text.len == 0);
    check(!x->s->is_exception || (object && x->s->form == FORM_AWS));
    check(!object || json_is_object(object));
    check(event.p != NULL);
    char *json = object ? json_dumps(object, JSON_COMPACT) : strdup("DONE");
    check(json && buf_append(&x->text, event.p, event.len) && buf_append(&x->text, "\0", 1) &&
          buf_puts(&x->text, x->s->is_exception ? "!" : "") && buf_puts(&x->text, json) &&
          buf_append(&x->text, "\n", 1));
    free(json);
    return true;
}

/* Right checksums, as far as the sizes allow: else no mutation gets past them. */
static void mend(uint8_t *p, size_t n)
{
    while (n >= 16) {
        uint32_t crc = (uint32_t)crc32(0, p, 8);
        size_t size = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        for (int i = 0; i < 4; i++) {
            p[8 + i] = (uint8_t)(crc >> (24 - 8 * i));
        }
        if (size < 16 || size > n) {
            return;
        }
        crc = (uint32_t)crc32(0, p, (uInt)(size - 4));
        for (size_t i = 0; i < 4; i++) {
            p[size - 4 + i] = (uint8_t)(crc >> (24 - 8 * i));
        }
        p += size;
        n -= size;
    }
}

struct verdict {
    bool ok;
    enum wire_form form;
    struct buf text;
};

/* Each piece is an exact copy, so that a read beyond it is seen. */
static struct verdict run(enum wire_form form, const uint8_t *p, size_t n, size_t piece)
{
    struct pieces s;
    struct failure f = {.status = 0};
    struct seen x = {.s = &s};
    buf_init(&x.text, 64u << 20);
    pieces_init(&s, form);
    bool ok = true;
    for (size_t at = 0; ok && at < n; at += piece) {
        size_t k = n - at < piece ? n - at : piece;
        char *copy = malloc(k);
        check(copy != NULL);
        memcpy(copy, p + at, k);
        ok = pieces_feed(&s, (struct slice){copy, k}, take, &x, &f);
        free(copy);
    }
    ok = ok && pieces_end(&s, take, &x, &f);
    check(ok == (f.status == 0) && (ok || f.status == 502));
    check(s.is_stream == (s.form != FORM_WHOLE) && (s.form == form || form == FORM_ARRAY));
    check(ok || !pieces_end(&s, take, &x, &f));
    struct verdict v = {ok, s.form, x.text};
    pieces_release(&s);
    return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 20000) {
        return 0;
    }
    enum wire_form form = data[0] % 5;
    unsigned rest = data[0] / 5u;
    size_t n = size - 1;
    uint8_t *p = malloc(n + 1);
    check(p != NULL);
    memcpy(p, data + 1, n);
    if (form == FORM_AWS && rest % 2 == 0) {
        mend(p, n);
    }
    const size_t pieces[] = {SIZE_MAX / 2, 1, 2 + rest / 2};
    struct verdict v[3];
    for (size_t i = 0; i < 3; i++) {
        v[i] = run(form, p, n, pieces[i]);
        check(v[i].ok == v[0].ok && v[i].text.len == v[0].text.len &&
              memcmp(buf_slice(&v[i].text).p, buf_slice(&v[0].text).p, v[0].text.len) == 0);
        /* at the end only: cut after the blanks, nothing was decided yet where it broke */
        check(!v[i].ok || v[i].form == v[0].form);
    }
    for (size_t i = 0; i < 3; i++) {
        buf_release(&v[i].text);
    }
    free(p);
    return 0;
}
