/* pieces.c - see pieces.h. Pings and comments never get past here; what is left must be JSON. */
#include "pieces.h"

#include "gateway/base/jsonio.h"
#include "gateway/base/limits.h"
#include <ctype.h>
#include <string.h>

void pieces_init(struct pieces *s, bool is_stream)
{
    *s = (struct pieces){.is_stream = is_stream};
    sse_init(&s->sse, LIMIT_SSE_EVENT_BYTES);
    buf_init(&s->whole, LIMIT_UPSTREAM_BYTES);
}

void pieces_release(struct pieces *s)
{
    if (s) {
        sse_release(&s->sse);
        buf_release(&s->whole);
    }
}

struct reading {
    const struct pieces *s;
    pieces_fn *fn;
    void *ud;
    struct failure *f;
    bool is_told; /* fn was asked and refused: it knows why */
};

static struct slice trim(struct slice t)
{
    while (t.len > 0 && isspace((unsigned char)t.p[0])) {
        t = (struct slice){t.p + 1, t.len - 1};
    }
    while (t.len > 0 && isspace((unsigned char)t.p[t.len - 1])) {
        t.len--;
    }
    return t;
}

static bool is_text(struct slice t, const char *word)
{
    return t.len == strlen(word) && memcmp(t.p, word, t.len) == 0;
}

/* jansson refuses U+0000 in strings unless asked; upstreams do send it, as a token among the
 * alternatives. Lengths are kept everywhere, so it does no harm here. */
static json_t *parse(struct slice text)
{
    json_t *v = jsonio_parse(text.p, text.len, NULL);
    if (!v && text.len > 0 && memmem(text.p, text.len, "\\u0000", 6)) {
        v = json_loadb(text.p, text.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    }
    return v;
}

static bool read_json(struct reading *x, struct slice text)
{
    json_t *object = parse(text);
    if (!json_is_object(object)) {
        json_decref(object);
        return x->s->is_stream
                   ? failure_set(x->f, 502, "stream_incomplete", NULL,
                                 "the backend's stream holds a line that is not a JSON object")
                   : failure_set(x->f, 502, "upstream_malformed", NULL,
                                 "the backend's answer is not a JSON object");
    }
    bool go_on = x->fn(object, x->ud);
    x->is_told = !go_on;
    json_decref(object);
    return go_on;
}

static bool on_event(struct slice event, struct slice data, void *ud)
{
    struct reading *x = ud;
    data = trim(data);
    if (data.len == 0 || is_text(event, "ping")) {
        return true;
    }
    if (!is_text(data, "[DONE]")) {
        return read_json(x, data);
    }
    x->is_told = !x->fn(NULL, x->ud);
    return !x->is_told;
}

bool pieces_feed(struct pieces *s, struct slice piece, pieces_fn *fn, void *ud, struct failure *f)
{
    if (s->is_broken) {
        return false;
    }
    struct reading x = {s, fn, ud, f, false};
    bool ok = s->is_stream ? sse_feed(&s->sse, piece, on_event, &x, f)
                           : buf_append(&s->whole, piece.p, piece.len);
    if (!ok && !s->is_stream) {
        (void)failure_set(f, 502, "upstream_too_large", NULL,
                          "the backend's answer is longer than %u bytes", LIMIT_UPSTREAM_BYTES);
    }
    s->is_broken = !ok;
    return ok;
}

bool pieces_end(struct pieces *s, pieces_fn *fn, void *ud, struct failure *f)
{
    if (s->is_broken) {
        return false;
    }
    struct reading x = {s, fn, ud, f, false};
    bool ok =
        s->is_stream ? sse_end(&s->sse, on_event, &x) : read_json(&x, trim(buf_slice(&s->whole)));
    s->is_broken = !ok;
    if (!ok && !x.is_told) { /* where nothing was said yet: sse_end() cannot */
        (void)failure_set(f, 502, "stream_incomplete", NULL,
                          "the backend's stream ends in an event that is too long");
    }
    return ok;
}
