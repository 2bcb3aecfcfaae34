/* How it works: a line that lies whole inside one piece is read where it is; only a line cut by the
 * end of a piece is gathered. A CR ends a line at once; if the next byte (perhaps of the next
 * piece) is LF, it belongs to that CR. Following the WHATWG's "event stream" interpretation; `id`
 * and `retry` do not matter to a caller that never reconnects and are skipped like unknown fields.
 */
#include "sse.h"

#include <string.h>

struct feed {
    struct sse *s;
    sse_event_fn *fn;
    void *ud;
    struct failure *f;
};

void sse_init(struct sse *s, size_t event_bytes_max)
{
    *s = (struct sse){.is_started = false};
    buf_init(&s->line, event_bytes_max);
    buf_init(&s->data, event_bytes_max);
    buf_init(&s->event, 256);
}

void sse_release(struct sse *s)
{
    if (!s) {
        return;
    }
    buf_release(&s->line);
    buf_release(&s->data);
    buf_release(&s->event);
}

/* Whether `piece` still fits into `b`. */
static bool fits(const struct buf *b, struct slice piece, struct failure *f)
{
    return piece.len <= b->limit - b->len ||
           failure_set(f, 502, "upstream_too_large", NULL,
                       "an event of the upstream's stream is longer than %zu bytes", b->limit);
}

static bool append(struct buf *b, struct slice piece, struct failure *f)
{
    if (!fits(b, piece, f)) {
        return false;
    }
    if (buf_append(b, piece.p, piece.len)) {
        return true;
    }
    return failure_set(f, 500, "out_of_memory", NULL,
                       "out of memory while reading the upstream's stream");
}

/* The blank line: hands the event out, if there was a data line. Each data line left a LF behind
   it. */
static bool dispatch(struct feed *x)
{
    struct sse *s = x->s;
    bool go_on = true;
    if (s->data.len > 0) {
        struct slice data = {s->data.p, s->data.len - 1};
        go_on = x->fn(buf_slice(&s->event), data, x->ud);
    }
    buf_clear(&s->data);
    buf_clear(&s->event);
    return go_on;
}

static bool is_field(struct slice line, const char *name, struct slice *value)
{
    size_t n = strlen(name);
    if (line.len < n || memcmp(line.p, name, n) != 0 || (line.len > n && line.p[n] != ':')) {
        return false;
    }
    size_t skip = line.len > n ? n + 1 : n;
    if (skip < line.len && line.p[skip] == ' ') {
        skip++;
    }
    *value = (struct slice){line.p + skip, line.len - skip};
    return true;
}

static bool read_line(struct feed *x, struct slice line)
{
    struct sse *s = x->s;
    if (!s->is_started) {
        s->is_started = true;
        if (line.len >= 3 && memcmp(line.p, "\xef\xbb\xbf", 3) == 0) {
            line = (struct slice){line.p + 3, line.len - 3};
        }
    }
    struct slice value;
    if (line.len == 0) {
        return dispatch(x);
    }
    if (is_field(line, "data", &value)) {
        return append(&s->data, value, x->f) && append(&s->data, SLICE_LIT("\n"), x->f);
    }
    if (is_field(line, "event", &value)) {
        buf_clear(&s->event);
        return append(&s->event, value, x->f);
    }
    return true;
}

static bool end_line(struct feed *x, struct slice tail)
{
    struct sse *s = x->s;
    if (s->line.len == 0) { /* as long as one that was cut may be: cuts decide nothing */
        return fits(&s->line, tail, x->f) && read_line(x, tail);
    }
    if (!append(&s->line, tail, x->f)) {
        return false;
    }
    bool go_on = read_line(x, buf_slice(&s->line));
    buf_clear(&s->line);
    return go_on;
}

static const char *find(const char *p, const char *end, char c)
{
    const char *at = p < end ? memchr(p, c, (size_t)(end - p)) : NULL;
    return at ? at : end;
}

bool sse_feed(struct sse *s, struct slice piece, sse_event_fn *fn, void *ud, struct failure *f)
{
    struct feed x = {s, fn, ud, f};
    const char *p = piece.p;
    const char *end = p + piece.len, *lf = NULL; /* the next one, looked for once */
    while (p < end) {
        if (s->last_was_cr && *p == '\n') {
            p++;
        }
        s->last_was_cr = false;
        lf = !lf || lf < p ? find(p, end, '\n') : lf;
        const char *eol = find(p, lf, '\r');
        struct slice text = {p, (size_t)(eol - p)};
        if (eol == end) {
            return append(&s->line, text, f);
        }
        s->last_was_cr = *eol == '\r';
        p = eol + 1;
        if (!end_line(&x, text)) {
            return false;
        }
    }
    return true;
}

bool sse_end(struct sse *s, sse_event_fn *fn, void *ud)
{
    struct feed x = {s, fn, ud, NULL};
    if (s->line.len > 0 && !end_line(&x, (struct slice){"", 0})) {
        return false;
    }
    return dispatch(&x);
}

bool sse_write(struct buf *b, struct slice data)
{
    return buf_append(b, "data: ", 6) && buf_append(b, data.p, data.len) &&
           buf_append(b, "\n\n", 2);
}
