/* mock_send.c - one talk is one small machine: a timer takes it from event to event.
 *
 * Scripts that end an answer early say "after two words". Which event holds the second word is the
 * dialect's business, so the bytes are looked at: the event with the second word, or the fourth
 * where no words are said (calls), is the last one.
 */
#include "mock_send.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_BYTES_MAX (80u << 20)
#define PACE_MS         1          /* between two events: each is a piece of its own on the wire */
#define SLOW_MS         100        /* the same with `slow` */
#define PENDING_MAX     (1u << 20) /* a client that reads slowly is waited for */

static bool has(const struct mock_talk *t, enum mock_word w)
{
    return mock_script_has(&t->script, w);
}

struct mock_talk *mock_talk_new(struct conn *c)
{
    struct mock_talk *t = calloc(1, sizeof *t);
    if (t) {
        t->conn = c;
        t->loop = conn_loop(c);
        buf_init(&t->event, EVENT_BYTES_MAX);
    }
    return t;
}

static void end_talk(struct mock_talk *t)
{
    loop_timer_cancel(t->loop, &t->timer);
    mock_answer_release(&t->made);
    buf_release(&t->event);
    json_decref(t->body);
    free(t);
}

/* ---- heads */

static size_t fill_headers(const struct mock_talk *t, bool is_error, struct mock_headers *h,
                           struct conn_header *out)
{
    const struct mock_answer *a = is_error ? NULL : &t->made.a;
    const struct mock_error *e = is_error ? &t->error : NULL;
    const struct provider *p = is_error ? e->provider : a->provider;
    const char *id_header = p->request_id_header ? p->request_id_header : "x-request-id";
    bool has_id = false;
    h->n = 0;
    if (t->dialect->headers) {
        t->dialect->headers(a, e, h);
    }
    for (size_t i = 0; i < h->n; i++) {
        has_id = has_id || strcasecmp(h->name[i], id_header) == 0;
    }
    if (!has_id) {
        mock_header(h, id_header, "req_%s", is_error ? e->id : a->id);
    }
    if (is_error && e->retry_s > 0 && !t->dialect->no_retry_after) {
        mock_header(h, "retry-after", "%d", e->retry_s);
    }
    for (size_t i = 0; i < h->n; i++) {
        out[i] = (struct conn_header){h->name[i], h->value[i]};
    }
    return h->n;
}

static void send_whole(struct mock_talk *t, int status, struct slice body)
{
    struct mock_headers h;
    struct conn_header list[MOCK_HEADERS_MAX];
    size_t n = fill_headers(t, status >= 400, &h, list);
    if (has(t, MOCK_SCRIPT_CUT) && status < 400) { /* half of it, and then nothing more */
        conn_stream_begin(t->conn, status, "application/json", list, n);
        (void)conn_stream_write(t->conn, (struct slice){body.p, body.len / 2});
        conn_stream_abort(t->conn);
    } else {
        conn_reply(t->conn, status, "application/json", list, n, body);
    }
}

/* ---- bytes of a stream */

/* JSON that does not end: the last brace goes. */
static void break_json(struct buf *b)
{
    size_t at = b->len;
    while (at > 0 && b->p[at - 1] != '}') {
        at--;
    }
    if (at > 0) {
        memmove(b->p + at - 1, b->p + at, b->len - at);
        b->len--;
        b->p[b->len] = '\0';
    }
}

static bool is_data(const struct buf *b, size_t i)
{
    return (i == 0 || b->p[i - 1] == '\n') && b->len - i > 6 && memcmp(b->p + i, "data: ", 6) == 0;
}

/* The same lines with other ends, and without the blank that nobody needs. */
static void reframe(struct mock_talk *t)
{
    struct buf out;
    bool crlf = has(t, MOCK_SCRIPT_CRLF), nospace = has(t, MOCK_SCRIPT_NOSPACE);
    if (t->dialect->is_binary || (!crlf && !nospace)) {
        return;
    }
    buf_init(&out, EVENT_BYTES_MAX);
    for (size_t i = 0; i < t->event.len; i++) {
        char c = t->event.p[i];
        if (nospace && is_data(&t->event, i)) {
            (void)buf_puts(&out, "data:");
            i += 5;
        } else if (crlf && c == '\n' && (i == 0 || t->event.p[i - 1] != '\r')) {
            (void)buf_puts(&out, "\r\n");
        } else {
            (void)buf_append(&out, &c, 1);
        }
    }
    buf_release(&t->event);
    t->event = out;
}

static bool says_second_word(const struct mock_talk *t)
{
    const struct mock_answer *a = &t->made.a;
    if (a->n_words < 2) {
        return t->i >= 4;
    }
    return t->event.len > 0 &&
           memmem(t->event.p, t->event.len, a->word[1], strlen(a->word[1])) != NULL;
}

static void fail_in_stream(struct mock_talk *t)
{
    buf_clear(&t->event);
    t->error.in_stream = true;
    t->dialect->error(&t->error, &t->event);
}

/* The bytes that leave next; sets is_last where nothing comes after them. */
static void make_event(struct mock_talk *t)
{
    const struct mock_answer *a = &t->made.a;
    bool ends_early = has(t, MOCK_SCRIPT_CUT) || has(t, MOCK_SCRIPT_CUT_CLEAN);
    buf_clear(&t->event);
    t->at = 0;
    if (t->has_said_two && ends_early) {
        t->is_last = true;
        return;
    }
    if (t->has_said_two && has(t, MOCK_SCRIPT_ERROR_IN_STREAM)) {
        fail_in_stream(t);
        t->is_last = true;
        reframe(t);
        return;
    }
    if (t->i > 0 && has(t, MOCK_SCRIPT_PINGS) && t->dialect->ping) {
        (void)buf_puts(&t->event, t->dialect->ping);
    }
    t->is_last = !t->dialect->event(a, t->i++, &t->event);
    if (t->is_last) {
        buf_clear(&t->event);
    }
    bool was_said = t->has_said_two;
    t->has_said_two = was_said || says_second_word(t);
    if (t->has_said_two && !was_said && has(t, MOCK_SCRIPT_MALFORMED)) {
        if (t->dialect->malformed) {
            buf_clear(&t->event);
            t->dialect->malformed(a, &t->event);
        } else {
            break_json(&t->event);
        }
    }
    reframe(t);
}

/* ---- the machine */

static void step(void *ud);

static void wait_then_step(struct mock_talk *t, int ms)
{
    if (!loop_timer_arm(t->loop, &t->timer, ms, step, t)) {
        conn_stream_abort(t->conn);
        end_talk(t);
    }
}

static void end_stream(struct mock_talk *t)
{
    bool is_broken =
        t->is_gone || has(t, MOCK_SCRIPT_CUT) || (t->error.in_stream && t->ends_broken);
    if (is_broken) {
        conn_stream_abort(t->conn);
    } else {
        conn_stream_end(t->conn);
    }
    end_talk(t);
}

static void step(void *ud)
{
    struct mock_talk *t = ud;
    if (t->is_gone || (t->is_last && t->at == t->event.len)) {
        end_stream(t);
        return;
    }
    if (conn_stream_pending(t->conn) > PENDING_MAX) {
        wait_then_step(t, PACE_MS);
        return;
    }
    if (t->at == t->event.len) {
        make_event(t);
    }
    bool in_bytes = has(t, MOCK_SCRIPT_BYTES);
    size_t n = in_bytes && t->event.len > t->at ? 1 : t->event.len - t->at;
    if (n > 0) {
        (void)conn_stream_write(t->conn, (struct slice){t->event.p + t->at, n});
        t->at += n;
    }
    if (t->at < t->event.len) {
        wait_then_step(t, 0);
    } else if (t->is_last) {
        end_stream(t);
    } else {
        wait_then_step(t, has(t, MOCK_SCRIPT_SLOW) ? SLOW_MS : n > 0 ? PACE_MS : 0);
    }
}

static void on_close(void *ud)
{
    struct mock_talk *t = ud;
    t->is_gone = true;
    if (!t->has_begun) { /* it hangs, or is silent */
        conn_reply(t->conn, 500, NULL, NULL, 0, SLICE_LIT(""));
        end_talk(t);
    }
}

static void begin_stream(struct mock_talk *t)
{
    struct mock_headers h;
    struct conn_header list[MOCK_HEADERS_MAX];
    size_t n = fill_headers(t, false, &h, list);
    t->has_begun = true;
    conn_stream_begin(t->conn, 200, t->content_type, list, n);
    step(t);
}

static void answer_whole(struct mock_talk *t)
{
    struct buf b;
    buf_init(&b, EVENT_BYTES_MAX);
    t->dialect->whole(&t->made.a, &b);
    if (has(t, MOCK_SCRIPT_MALFORMED)) {
        break_json(&b);
    }
    send_whole(t, 200, buf_slice(&b));
    buf_release(&b);
    end_talk(t);
}

static void answer_error(struct mock_talk *t)
{
    struct buf b;
    buf_init(&b, EVENT_BYTES_MAX);
    t->dialect->error(&t->error, &b);
    send_whole(t, t->error.status, buf_slice(&b));
    buf_release(&b);
    end_talk(t);
}

static void answer_html(struct mock_talk *t)
{
    conn_reply(t->conn, 502, "text/html", NULL, 0,
               SLICE_LIT("<html><head><title>502 Bad Gateway</title></head><body>"
                         "<center><h1>502 Bad Gateway</h1></center></body></html>\n"));
    end_talk(t);
}

static void begin(void *ud)
{
    struct mock_talk *t = ud;
    if (has(t, MOCK_SCRIPT_RESET)) {
        conn_reset(t->conn);
        end_talk(t);
    } else if (has(t, MOCK_SCRIPT_HTML)) {
        answer_html(t);
    } else if (t->error.fault != MOCK_FAULT_NONE) {
        answer_error(t);
    } else if (has(t, MOCK_SCRIPT_HANG)) {
        return; /* until the client leaves */
    } else if (t->made.a.stream) {
        begin_stream(t);
    } else if (has(t, MOCK_SCRIPT_ERROR_IN_STREAM)) {
        t->error.fault = MOCK_FAULT_STATUS; /* not asked for as a stream: all of it fails */
        answer_error(t);
    } else {
        answer_whole(t);
    }
}

void mock_talk_start(struct mock_talk *t)
{
    conn_on_close(t->conn, on_close, t);
    if (!has(t, MOCK_SCRIPT_SILENT) ||
        !loop_timer_arm(t->loop, &t->timer, t->script.silent_ms, begin, t)) {
        begin(t);
    }
}
