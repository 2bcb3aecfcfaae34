/* pieces.c - see pieces.h. What lies whole inside one piece is read where it is; only what is cut
 * by a piece's end is gathered in `held`. A limit counts the same bytes either way, so that the
 * verdict does not depend on the cuts. Pings and comments never get past here.
 */
#include "pieces.h"

#include "aws_frame.h"
#include "gateway/base/jsonio.h"
#include "gateway/base/limits.h"
#include <assert.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

enum wire_form pieces_form(const char *content_type, bool is_stream)
{
    static const struct {
        const char *type;
        enum wire_form form;
    } types[] = {
        {"text/event-stream", FORM_SSE},
        {"application/vnd.amazon.eventstream", FORM_AWS},
        {"application/x-ndjson", FORM_LINES},
        {"application/ndjson", FORM_LINES},
        {"application/jsonl", FORM_LINES},
        {"application/x-jsonl", FORM_LINES},
        {"application/jsonlines", FORM_LINES},
        {"application/x-jsonlines", FORM_LINES},
        {"application/json-lines", FORM_LINES},
        {"application/stream+json", FORM_LINES},
        {"application/x-json-stream", FORM_LINES},
        {"application/json", FORM_ARRAY},
        {"text/json", FORM_ARRAY},
    };
    const char *p = content_type ? content_type : "";
    p += strspn(p, " \t");
    size_t n = strcspn(p, "; \t");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strlen(types[i].type) == n && strncasecmp(p, types[i].type, n) == 0) {
            return types[i].form == FORM_ARRAY && !is_stream ? FORM_WHOLE : types[i].form;
        }
    }
    return is_stream ? FORM_SSE : FORM_WHOLE;
}

void pieces_init(struct pieces *s, enum wire_form form)
{
    *s = (struct pieces){.form = form, .is_stream = form != FORM_WHOLE};
    sse_init(&s->sse, LIMIT_SSE_EVENT_BYTES);
    buf_init(&s->held, s->is_stream ? LIMIT_SSE_EVENT_BYTES : LIMIT_UPSTREAM_BYTES);
}

void pieces_release(struct pieces *s)
{
    if (s) {
        sse_release(&s->sse);
        buf_release(&s->held);
    }
}

struct reading {
    struct pieces *s;
    pieces_fn *fn;
    void *ud;
    struct failure *f;
    bool is_told; /* fn was asked and refused: it knows why */
};

/* ---- one object */

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

static bool tell(struct reading *x, const json_t *object, struct slice event)
{
    bool go_on = x->fn(object, event, x->ud);
    x->is_told = !go_on;
    return go_on;
}

static bool read_json(struct reading *x, struct slice event, struct slice text)
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
    bool go_on = tell(x, object, event);
    json_decref(object);
    return go_on;
}

static bool read_data(struct reading *x, struct slice event, struct slice data)
{
    data = trim(data);
    if (data.len == 0) {
        return true;
    }
    return is_text(data, "[DONE]") ? tell(x, NULL, event) : read_json(x, event, data);
}

static bool on_event(struct slice event, struct slice data, void *ud)
{
    return is_text(event, "ping") || read_data(ud, event, data);
}

/* ---- what is cut by the end of a piece */

static bool hold(struct reading *x, struct slice part)
{
    struct buf *held = &x->s->held;
    if (part.len > held->limit - held->len) {
        return failure_set(x->f, 502, "upstream_too_large", NULL, "%s is longer than %zu bytes",
                           x->s->is_stream ? "an event of the backend's stream"
                                           : "the backend's answer",
                           held->limit);
    }
    return buf_append(held, part.p, part.len) ||
           failure_set(x->f, 500, "out_of_memory", NULL,
                       "out of memory while reading the backend's answer");
}

/* The next part of a line or of an object, the last one when is_end. */
static bool gather(struct reading *x, struct slice part, bool is_end)
{
    struct buf *held = &x->s->held;
    if (is_end && held->len == 0 && part.len <= held->limit) {
        return read_data(x, SLICE_LIT(""), part);
    }
    if (!hold(x, part)) {
        return false;
    }
    if (!is_end) {
        return true;
    }
    bool go_on = read_data(x, SLICE_LIT(""), buf_slice(held));
    buf_clear(held);
    return go_on;
}

static bool feed_lines(struct reading *x, struct slice t)
{
    while (t.len > 0) {
        const char *lf = memchr(t.p, '\n', t.len);
        size_t n = lf ? (size_t)(lf - t.p) : t.len;
        if (!gather(x, (struct slice){t.p, n}, lf != NULL)) {
            return false;
        }
        n += lf != NULL;
        t = (struct slice){t.p + n, t.len - n};
    }
    return true;
}

/* ---- an array of objects. Only the brackets are looked at here, the rest is the parser's. */

/* How many bytes belong to the object that was begun; its last one: at becomes ARRAY_AFTER. */
static size_t scan_object(struct array_scan *a, struct slice t)
{
    for (size_t i = 0; i < t.len; i++) {
        char c = t.p[i];
        if (a->is_escaped) {
            a->is_escaped = false;
        } else if (a->is_string) {
            a->is_escaped = c == '\\';
            a->is_string = c != '"';
        } else if (c == '"') {
            a->is_string = true;
        } else if (c == '{' || c == '[') {
            a->depth++;
        } else if ((c == '}' || c == ']') && --a->depth == 0) {
            a->at = ARRAY_AFTER;
            return i + 1;
        }
    }
    return t.len;
}

/* A byte between the objects that is not blank. false: it must not be there. */
static bool step_array(struct array_scan *a, char c)
{
    switch (a->at) {
    case ARRAY_BEGUN:
    case ARRAY_NEXT:
        if (c == ']' && a->at == ARRAY_BEGUN) {
            a->at = ARRAY_CLOSED;
            return true;
        }
        a->at = ARRAY_INSIDE;
        return c == '{';
    case ARRAY_AFTER:
        a->at = c == ',' ? ARRAY_NEXT : ARRAY_CLOSED;
        return c == ',' || c == ']';
    case ARRAY_UNSEEN:
    case ARRAY_INSIDE:
    case ARRAY_CLOSED:
        break;
    }
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static void turn_whole(struct pieces *s)
{
    s->form = FORM_WHOLE;
    s->is_stream = false;
    s->held.limit = LIMIT_UPSTREAM_BYTES; /* nothing is held yet */
}

static bool feed_array(struct reading *x, struct slice t)
{
    struct array_scan *a = &x->s->array;
    for (size_t i = 0; i < t.len;) {
        if (a->at != ARRAY_INSIDE) {
            if (is_blank(t.p[i])) {
                i++;
                continue;
            }
            if (a->at == ARRAY_UNSEEN && t.p[i] != '[') {
                turn_whole(x->s);
                return hold(x, (struct slice){t.p + i, t.len - i});
            }
            if (a->at == ARRAY_UNSEEN) {
                a->at = ARRAY_BEGUN;
                i++;
                continue;
            }
            if (!step_array(a, t.p[i])) {
                return failure_set(x->f, 502, "stream_incomplete", NULL,
                                   "the backend's stream is not a JSON array of objects");
            }
            if (a->at != ARRAY_INSIDE) {
                i++;
                continue;
            }
        }
        size_t n = scan_object(a, (struct slice){t.p + i, t.len - i});
        if (!gather(x, (struct slice){t.p + i, n}, a->at == ARRAY_AFTER)) {
            return false;
        }
        i += n;
    }
    return true;
}

/* ---- AWS frames */

/* Exceptions must not be lost: one whose payload is no JSON object is told by its text. */
static json_t *exception_object(const struct aws_frame *a)
{
    json_t *object = parse(trim(a->payload));
    if (json_is_object(object)) {
        return object;
    }
    json_decref(object);
    struct slice text = a->message.len > 0 ? a->message : a->payload;
    object = json_object();
    json_t *message = object ? json_stringn(text.p, text.len) : NULL;
    if (message) { /* NULL: it is not UTF-8; the type must do */
        (void)json_object_set_new(object, "message", message); /* the same */
    }
    return object;
}

static bool read_frame(struct reading *x, struct slice frame)
{
    struct aws_frame a;
    if (!aws_frame_parse(frame, &a, x->f)) {
        return false;
    }
    struct slice type = a.type.p ? a.type : SLICE_LIT("");
    if (!a.is_exception) {
        return read_data(x, type, a.payload);
    }
    json_t *object = exception_object(&a);
    if (!object) {
        return failure_set(x->f, 500, "out_of_memory", NULL,
                           "out of memory while reading the backend's answer");
    }
    x->s->is_exception = true;
    bool go_on = tell(x, object, type);
    x->s->is_exception = false;
    json_decref(object);
    return go_on;
}

static bool feed_aws(struct reading *x, struct slice t)
{
    struct buf *held = &x->s->held;
    while (t.len > 0) {
        struct slice begin = held->len > 0 ? buf_slice(held) : t;
        size_t size = AWS_FRAME_PRELUDE_BYTES; /* until it can be read */
        bool is_known = begin.len >= size;
        if (is_known && !aws_frame_size(begin, &size, x->f)) {
            return false;
        }
        size_t n = size - held->len < t.len ? size - held->len : t.len;
        struct slice part = {t.p, n};
        t = (struct slice){t.p + n, t.len - n};
        if (is_known && n == size) {
            if (!read_frame(x, part)) {
                return false;
            }
            continue;
        }
        if (!hold(x, part)) {
            return false;
        }
        if (is_known && held->len == size) {
            if (!read_frame(x, buf_slice(held))) {
                return false;
            }
            buf_clear(held);
        }
    }
    return true;
}

/* ---- the two calls */

bool pieces_feed(struct pieces *s, struct slice piece, pieces_fn *fn, void *ud, struct failure *f)
{
    if (s->is_broken) {
        return false;
    }
    struct reading x = {s, fn, ud, f, false};
    bool ok = false;
    switch (s->form) {
    case FORM_WHOLE:
        ok = hold(&x, piece);
        break;
    case FORM_SSE:
        ok = sse_feed(&s->sse, piece, on_event, &x, f);
        break;
    case FORM_LINES:
        ok = feed_lines(&x, piece);
        break;
    case FORM_ARRAY:
        ok = feed_array(&x, piece);
        break;
    case FORM_AWS:
        ok = feed_aws(&x, piece);
        break;
    }
    s->is_broken = !ok;
    return ok;
}

static bool cut_off(struct reading *x, const char *what)
{
    return failure_set(x->f, 502, "stream_incomplete", NULL, "the backend's stream ends inside %s",
                       what);
}

bool pieces_end(struct pieces *s, pieces_fn *fn, void *ud, struct failure *f)
{
    if (s->is_broken) {
        return false;
    }
    struct reading x = {s, fn, ud, f, false};
    bool ok = false;
    if (s->form == FORM_ARRAY && s->array.at == ARRAY_UNSEEN) {
        turn_whole(s);
    }
    switch (s->form) {
    case FORM_WHOLE:
        ok = read_json(&x, SLICE_LIT(""), trim(buf_slice(&s->held)));
        break;
    case FORM_SSE:
        ok = sse_end(&s->sse, on_event, &x);
        if (!ok && !x.is_told) { /* where nothing was said yet: sse_end() cannot */
            (void)failure_set(f, 502, "stream_incomplete", NULL,
                              "the backend's stream ends in an event that is too long");
        }
        break;
    case FORM_LINES:
        ok = gather(&x, SLICE_LIT(""), true);
        break;
    case FORM_ARRAY:
        ok = s->array.at == ARRAY_CLOSED || cut_off(&x, "its JSON array");
        break;
    case FORM_AWS:
        ok = s->held.len == 0 || cut_off(&x, "a frame");
        break;
    }
    s->is_broken = !ok;
    return ok;
}
