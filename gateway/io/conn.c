/* How it works: the library calls conn_on_request once for the head, then for pieces of the body,
 * then for the end. The head is where a request is refused or admitted; the end is where the
 * handler is called, inside the library's callback, so that an answer that is ready at once costs
 * nothing more. Otherwise the connection is suspended: the library forgets its socket, and this
 * file watches it for the peer's hang-up on the loop's own epoll. An answer resumes it; the library
 * then calls again and gets the answer.
 *
 * A stream is the same with a reader callback that suspends whenever the buffer is empty.
 *
 * The handler's on_close and on_drain are always posted: they never run inside the library. What
 * the handler may ask later (path, headers) is copied when the head is complete, because the
 * library frees its copy when the client leaves.
 */
#include "conn.h"

#include "gateway/base/limits.h"
#include "http.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* What the library keeps for one call of the reader, for each stream as long as it lasts; it asks
 * for more where it has room in its own buffer. */
#define STREAM_BLOCK_BYTES 2048
#define COMPACT_BYTES      65536 /* the sent front of a stream's buffer is dropped from here on */
/* A stream whose writer does not heed conn_stream_pending is broken off here. */
#define STREAM_BYTES_MAX (LIMIT_ANSWER_BYTES + LIMIT_STREAM_BUFFER_BYTES)

struct conn {
    struct endpoint *endpoint;
    struct peer *peer; /* NULL once the library is done with the request */
    struct MHD_Connection *mhd;
    struct conn *prev, *next;
    unsigned n_refs;

    struct buf fields; /* method, path, then kind, name, value..., each ended by NUL */
    size_t path_at, fields_at;
    struct http_framing framing;
    size_t n_headers;
    struct buf body;

    struct MHD_Response *response; /* made and not yet queued */
    int status;
    struct buf out;
    size_t out_sent;

    void (*close_fn)(void *ud);
    void *close_ud;
    void (*drain_fn)(void *ud);
    void *drain_ud;
    struct loop_post post;
    struct loop_timer keepalive;
    int64_t last_write_ms;
    char last_byte;

    bool is_bad_target, has_head, is_counted, is_handled, is_in_handler, is_watched, is_suspended;
    bool is_begun;  /* a stream's head was given */
    bool is_ended;  /* the handler's side has let go */
    bool is_cut;    /* the stream ends without its terminator */
    bool is_broken; /* close at once */
    bool is_gone;   /* the client left */
    bool is_over;   /* more than LIMIT_STREAM_BUFFER_BYTES were pending */
    bool is_posted, wants_close, wants_drain;
};

static struct worker *worker_of(const struct conn *c)
{
    return c->endpoint->worker;
}

static const struct server_options *options_of(const struct conn *c)
{
    return &worker_of(c)->shared->o;
}

/* ---- life of a request */

static void conn_free(struct conn *c)
{
    struct worker *w = worker_of(c);
    *(c->prev ? &c->prev->next : &w->conns) = c->next;
    if (c->next) {
        c->next->prev = c->prev;
    }
    loop_timer_cancel(w->loop, &c->keepalive);
    if (c->response) {
        MHD_destroy_response(c->response);
    }
    buf_release(&c->fields);
    buf_release(&c->body);
    buf_release(&c->out);
    atomic_fetch_sub(&w->shared->n_conns, 1);
    free(c);
}

static void unref(struct conn *c)
{
    if (--c->n_refs == 0) {
        conn_free(c);
    }
}

static void on_post(void *ud)
{
    struct conn *c = ud;
    c->is_posted = false;
    if (c->wants_close && c->close_fn) {
        void (*fn)(void *) = c->close_fn;
        c->close_fn = NULL;
        fn(c->close_ud);
    }
    if (c->wants_drain && c->drain_fn && !c->is_gone) {
        c->wants_drain = false;
        c->drain_fn(c->drain_ud);
    }
    unref(c);
}

static void post(struct conn *c)
{
    if (!c->is_posted) {
        c->is_posted = true;
        c->n_refs++;
        c->post.fn = on_post;
        c->post.ud = c;
        loop_post(worker_of(c)->loop, &c->post);
    }
}

static void suspend(struct conn *c)
{
    MHD_suspend_connection(c->mhd);
    c->is_suspended = true;
}

static void resume(struct conn *c)
{
    if (c->is_suspended) {
        c->is_suspended = false;
        c->endpoint->is_due = true;
        MHD_resume_connection(c->mhd);
    }
}

/* The client left, or is treated so: tells the handler, once. */
static void lose(struct conn *c)
{
    if (c->is_gone) {
        return;
    }
    c->is_gone = true;
    loop_timer_cancel(worker_of(c)->loop, &c->keepalive);
    if (c->close_fn) {
        c->wants_close = true;
        post(c);
    }
}

/* Makes the library notice that the connection is to be closed. */
static void hang_up(struct conn *c)
{
    if (c->is_suspended) {
        resume(c);
    } else if (c->peer) {
        (void)shutdown(c->peer->fd,
                       SHUT_RDWR); /* it waits for this socket: wakes it with an error */
    }
}

static void on_hang_up(int fd, uint32_t events, void *ud)
{
    (void)events;
    struct conn *c = ud;
    loop_unwatch(worker_of(c)->loop, fd);
    c->is_watched = false;
    if (!c->is_ended) {
        lose(c);
        hang_up(c);
    }
}

static void watch_hang_up(struct conn *c)
{
    /* Without memory for the watch the client's leaving is only noticed when something is
       written to it. */
    c->is_watched = loop_watch(worker_of(c)->loop, c->peer->fd, EPOLLRDHUP, on_hang_up, c);
}

/* ---- the library's callbacks */

void conn_on_socket(void *cls, struct MHD_Connection *mhd, void **socket_context,
                    enum MHD_ConnectionNotificationCode code)
{
    struct endpoint *e = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        *socket_context = peer_new(&e->worker->peers, fd);
    } else {
        peer_free(*socket_context);
        *socket_context = NULL;
    }
}

void *conn_on_uri(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct endpoint *e = cls;
    struct peer *p =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    struct conn *c = p ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        return NULL; /* conn_on_request closes the connection */
    }
    struct worker *w = e->worker;
    *c = (struct conn){
        .endpoint = e, .peer = p, .mhd = mhd, .n_refs = 1, .next = w->conns, .last_byte = '\n'};
    buf_init(&c->fields, 2 * LIMIT_HEADER_BYTES);
    buf_init(&c->body, w->shared->o.body_bytes_max);
    buf_init(&c->out, STREAM_BYTES_MAX);
    if (w->conns) {
        w->conns->prev = c;
    }
    w->conns = c;
    atomic_fetch_add(&w->shared->n_conns, 1);
    c->is_bad_target = !uri || !http_target_is_sound(uri);
    p->conn = c;
    if (p->phase != PEER_HEADER) { /* the first request has its time since the accept */
        peer_enter(p, PEER_HEADER);
    }
    return c;
}

static bool add_field(struct conn *c, const char *kind, const char *name, const char *value)
{
    value = value ? value : "";
    return buf_puts(&c->fields, kind) && buf_append(&c->fields, name, strlen(name) + 1) &&
           buf_append(&c->fields, value, strlen(value) + 1);
}

static enum MHD_Result on_header(void *ud, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    (void)kind;
    struct conn *c = ud;
    c->n_headers++;
    http_framing_field(&c->framing, name, value ? value : "");
    return add_field(c, "h", name, value) ? MHD_YES : MHD_NO;
}

static enum MHD_Result on_query(void *ud, enum MHD_ValueKind kind, const char *name,
                                const char *value)
{
    (void)kind;
    return add_field(ud, "q", name, value) ? MHD_YES : MHD_NO;
}

/* Copies and checks the head. `version` and `method` still lie in the library's read buffer,
   whose shape http.h describes. */
static bool head_check(struct conn *c, const char *url, const char *method, const char *version,
                       struct failure *f)
{
    size_t head_len =
        MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
    if (head_len > LIMIT_HEADER_BYTES) {
        return failure_set(f, 431, "headers_too_large", NULL,
                           "the request's head is longer than %u bytes; send less",
                           (unsigned)LIMIT_HEADER_BYTES);
    }
    (void)buf_append(&c->fields, method, strlen(method) + 1);
    c->path_at = c->fields.len;
    (void)buf_append(&c->fields, url, strlen(url) + 1);
    c->fields_at = c->fields.len;
    (void)MHD_get_connection_values(c->mhd, MHD_HEADER_KIND, on_header, c);
    (void)MHD_get_connection_values(c->mhd, MHD_GET_ARGUMENT_KIND, on_query, c);
    if (c->fields.is_failed) {
        return failure_set(f, 431, "headers_too_large", NULL,
                           "the request's head does not fit; send less");
    }
    size_t to_lines = (size_t)(version - method) + strlen("HTTP/1.1");
    bool is_1_1 = strcmp(version, "HTTP/1.1") == 0;
    if (c->is_bad_target || !http_is_token(method) ||
        !(is_1_1 || strcmp(version, "HTTP/1.0") == 0)) {
        return failure_set(f, 400, "invalid_http", NULL, "the request line is malformed");
    }
    if (to_lines > head_len ||
        !http_lines_are_sound(version + strlen("HTTP/1.1"), head_len - to_lines, c->n_headers)) {
        return failure_set(
            f, 400, "invalid_http", NULL,
            "a header line is malformed: folded lines, control bytes, spaces before the colon and "
            "line ends other than cr lf are not accepted");
    }
    return http_framing_check(&c->framing, is_1_1, f);
}

/* Whether there is room; the length is looked at before a byte of the body is read. */
static bool head_admit(struct conn *c, struct failure *f)
{
    struct conn_shared *s = worker_of(c)->shared;
    if (c->framing.length > s->o.body_bytes_max) {
        return failure_set(f, 413, "body_too_large", NULL,
                           "the body is longer than %zu bytes; send less", s->o.body_bytes_max);
    }
    if (atomic_fetch_add(&s->n_in_flight, 1) >= s->o.in_flight_max) {
        atomic_fetch_sub(&s->n_in_flight, 1);
        (void)failure_set(f, 503, "overloaded", NULL,
                          "too many requests at once; try again in a second");
        f->retry_after_s = 1;
        return false;
    }
    c->is_counted = true;
    return true;
}

/* Answers with the head alone; the library reads no body then. */
static enum MHD_Result refuse(struct conn *c, const struct failure *f)
{
    struct buf body;
    buf_init(&body, 4096);
    enum MHD_Result rc = MHD_NO;
    struct MHD_Response *r = NULL;
    if (http_error_body(&body, f)) {
        r = MHD_create_response_from_buffer(body.len, body.p, MHD_RESPMEM_MUST_COPY);
    }
    if (r) {
        (void)MHD_add_response_header(
            r, "Content-Type", "application/json"); /* a missing header is better than no answer */
        if (f->retry_after_s > 0) {
            char seconds[16];
            (void)snprintf(seconds, sizeof seconds, "%d", f->retry_after_s);
            (void)MHD_add_response_header(r, "Retry-After", seconds);
        } else {
            (void)MHD_add_response_header(r, "Connection", "close");
        }
        rc = MHD_queue_response(c->mhd, (unsigned)f->status, r);
        MHD_destroy_response(r);
    }
    buf_release(&body);
    c->peer->is_lingering = c->framing.n_length + c->framing.n_coding > 0 || f->status == 400;
    peer_enter(c->peer, PEER_ANSWER);
    return rc;
}

static enum MHD_Result read_head(struct conn *c, const char *url, const char *method,
                                 const char *version)
{
    struct failure f = {0};
    c->has_head = true;
    if (!head_check(c, url, method, version, &f) || !head_admit(c, &f)) {
        return refuse(c, &f);
    }
    peer_enter(c->peer, PEER_BODY);
    return MHD_YES;
}

static enum MHD_Result read_body(struct conn *c, const char *data, size_t *len)
{
    if (buf_append(&c->body, data, *len)) {
        *len = 0;
        return MHD_YES;
    }
    if (*len > c->body.limit - c->body.len) {
        peer_refuse(c->peer, 413, "body_too_large",
                    "the body is longer than this server accepts; send less");
    } else {
        peer_refuse(c->peer, 503, "out_of_memory", "out of memory; try again later");
    }
    return MHD_NO;
}

/* Gives the library what there is: an answer, or nothing yet. */
static enum MHD_Result advance(struct conn *c)
{
    if (c->is_gone || c->is_broken) {
        return MHD_NO;
    }
    if (!c->response) {
        suspend(c);
        return MHD_YES;
    }
    enum MHD_Result rc = MHD_queue_response(c->mhd, (unsigned)c->status, c->response);
    MHD_destroy_response(c->response);
    c->response = NULL;
    return rc;
}

enum MHD_Result conn_on_request(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *data_len, void **request_context)
{
    (void)cls;
    (void)mhd;
    struct conn *c = *request_context;
    if (!c) {
        return MHD_NO;
    }
    if (!c->has_head) {
        return read_head(c, url, method, version);
    }
    if (*data_len > 0) {
        return read_body(c, data, data_len);
    }
    if (!c->is_handled) {
        c->is_handled = true;
        c->n_refs++; /* the handler's side */
        peer_enter(c->peer, PEER_ANSWER);
        c->is_in_handler = true;
        options_of(c)->handler(c, options_of(c)->ud);
        c->is_in_handler = false;
        if (!c->is_ended) {
            watch_hang_up(c);
        }
    }
    return advance(c);
}

void conn_on_completed(void *cls, struct MHD_Connection *mhd, void **request_context,
                       enum MHD_RequestTerminationCode code)
{
    (void)cls;
    (void)mhd;
    (void)code;
    struct conn *c = *request_context;
    if (!c) {
        return;
    }
    *request_context = NULL;
    struct worker *w = worker_of(c);
    struct peer *p = c->peer;
    if (c->is_watched) {
        loop_unwatch(w->loop, p->fd);
        c->is_watched = false;
    }
    if (c->is_counted) {
        atomic_fetch_sub(&w->shared->n_in_flight, 1);
    }
    c->peer = NULL;
    c->mhd = NULL;
    c->is_suspended = false;
    p->conn = NULL;
    peer_enter(p, PEER_IDLE);
    if (!c->is_ended) {
        lose(c);
    }
    unref(c);
}

/* ---- the request, for the handler */

const char *conn_method(const struct conn *c)
{
    return c->fields.p;
}

const char *conn_path(const struct conn *c)
{
    return c->fields.p + c->path_at;
}

static const char *find_field(const struct conn *c, char kind, const char *name, bool has_case)
{
    const char *p = c->fields.p + c->fields_at;
    const char *end = c->fields.p + c->fields.len;
    while (p < end) {
        const char *key = p + 1;
        const char *value = key + strlen(key) + 1;
        if (*p == kind && (has_case ? strcmp(key, name) : strcasecmp(key, name)) == 0) {
            return value;
        }
        p = value + strlen(value) + 1;
    }
    return NULL;
}

const char *conn_query(const struct conn *c, const char *name)
{
    return find_field(c, 'q', name, true);
}

bool conn_query_at(const struct conn *c, size_t i, const char **name, const char **value)
{
    const char *p = c->fields.p + c->fields_at;
    const char *end = c->fields.p + c->fields.len;
    for (; p < end; p += strlen(p) + 1) {
        const char *key = p + 1;
        p = key + strlen(key) + 1; /* the value */
        if (key[-1] == 'q' && i-- == 0) {
            *name = key;
            *value = p;
            return true;
        }
    }
    return false;
}

const char *conn_header(const struct conn *c, const char *name)
{
    return find_field(c, 'h', name, false);
}

struct slice conn_body(const struct conn *c)
{
    return buf_slice(&c->body);
}

void conn_drop_body(struct conn *c)
{
    buf_release(&c->body);
}

struct loop *conn_loop(const struct conn *c)
{
    return worker_of(c)->loop;
}

unsigned conn_loop_index(const struct conn *c)
{
    return worker_of(c)->index;
}

/* ---- the answer */

/* The handler lets go; the request may be freed by this. */
static void end_answer(struct conn *c)
{
    assert(!c->is_ended);
    c->is_ended = true;
    c->close_fn = NULL;
    c->drain_fn = NULL;
    loop_timer_cancel(worker_of(c)->loop, &c->keepalive);
    if (!c->is_in_handler) {
        resume(c);
    }
    unref(c);
}

static void set_head(struct conn *c, int status, const char *content_type,
                     const struct conn_header *h, size_t n_h)
{
    c->status = status;
    bool ok = c->response != NULL;
    ok = ok && (!content_type ||
                MHD_add_response_header(c->response, "Content-Type", content_type) == MHD_YES);
    for (size_t i = 0; ok && i < n_h; i++) {
        ok = MHD_add_response_header(c->response, h[i].name, h[i].value) == MHD_YES;
    }
    if (ok && atomic_load(&worker_of(c)->shared->is_stopping)) {
        ok = MHD_add_response_header(c->response, "Connection", "close") == MHD_YES;
    }
    c->is_broken = !ok; /* memory, or a line break in a value: no answer rather than a wrong one */
}

void conn_reply(struct conn *c, int status, const char *content_type, const struct conn_header *h,
                size_t n_h, struct slice body)
{
    assert(!c->is_begun && !c->is_ended);
    if (!c->is_gone) {
        c->response = MHD_create_response_from_buffer(
            body.len, (void *)(uintptr_t)(body.len ? body.p : ""), MHD_RESPMEM_MUST_COPY);
        set_head(c, status, content_type, h, n_h);
    }
    end_answer(c);
}

void conn_reset(struct conn *c)
{
    static const struct linger at_once = {.l_onoff = 1};
    assert(!c->is_begun && !c->is_ended);
    if (c->peer) { /* where it fails the peer sees an end in place of a reset */
        (void)setsockopt(c->peer->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    c->is_broken = true;
    end_answer(c);
}

static size_t pending(const struct conn *c)
{
    return c->out.len - c->out_sent;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *to, size_t max)
{
    (void)pos;
    struct conn *c = cls;
    if (c->is_gone || c->is_broken) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t n = pending(c) < max ? pending(c) : max;
    if (n == 0) {
        if (!c->is_ended) {
            suspend(c);
            return 0;
        }
        return c->is_cut ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
    }
    memcpy(to, c->out.p + c->out_sent, n);
    c->out_sent += n;
    if (pending(c) == 0) {
        buf_clear(&c->out);
        c->out_sent = 0;
    } else if (c->out_sent > COMPACT_BYTES && c->out_sent > pending(c)) {
        buf_drop(&c->out, c->out_sent);
        c->out_sent = 0;
    }
    if (c->is_over && pending(c) < LIMIT_STREAM_BUFFER_BYTES / 2) {
        c->is_over = false;
        c->wants_drain = c->drain_fn != NULL;
        if (c->wants_drain) {
            post(c);
        }
    }
    return (ssize_t)n;
}

/* A comment keeps proxies and clients from taking silence for a dead connection; never inside of
   an event, never on top of a full pipe. */
static void on_keepalive(void *ud)
{
    struct conn *c = ud;
    int64_t every = options_of(c)->keepalive_ms;
    int64_t silent = loop_now_ms(worker_of(c)->loop) - c->last_write_ms;
    if (silent >= every) {
        silent = 0;
        if (c->last_byte == '\n' && pending(c) == 0) {
            (void)conn_stream_write(c, SLICE_LIT(": wait\n\n"));
        }
    }
    if (!c->is_gone) {
        (void)loop_timer_arm(worker_of(c)->loop, &c->keepalive, every - silent, on_keepalive,
                             c); /* no memory: no comments */
    }
}

void conn_stream_begin(struct conn *c, int status, const char *content_type,
                       const struct conn_header *h, size_t n_h)
{
    assert(!c->is_begun && !c->is_ended);
    c->is_begun = true;
    if (c->is_gone) {
        return;
    }
    c->response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES,
                                                    read_stream, c, NULL);
    set_head(c, status, content_type, h, n_h);
    unsigned every = options_of(c)->keepalive_ms;
    c->last_write_ms = loop_now_ms(worker_of(c)->loop);
    if (every > 0 && content_type && strncmp(content_type, "text/event-stream", 17) == 0) {
        (void)loop_timer_arm(worker_of(c)->loop, &c->keepalive, every, on_keepalive,
                             c); /* no memory: no comments */
    }
    if (!c->is_in_handler) {
        resume(c);
    }
}

bool conn_stream_write(struct conn *c, struct slice piece)
{
    assert(c->is_begun && !c->is_ended);
    if (c->is_gone || c->is_broken) {
        return false;
    }
    if (!buf_append(&c->out, piece.p, piece.len)) {
        c->is_broken = true;
        lose(c);
        if (!c->is_in_handler) {
            hang_up(c);
        }
        return false;
    }
    if (piece.len > 0) {
        c->last_byte = piece.p[piece.len - 1];
        c->last_write_ms = loop_now_ms(worker_of(c)->loop);
    }
    c->is_over = c->is_over || pending(c) > LIMIT_STREAM_BUFFER_BYTES;
    if (!c->is_in_handler) {
        resume(c);
    }
    return true;
}

void conn_stream_end(struct conn *c)
{
    assert(c->is_begun);
    end_answer(c);
}

void conn_stream_abort(struct conn *c)
{
    assert(c->is_begun);
    c->is_cut = true;
    end_answer(c);
}

size_t conn_stream_pending(const struct conn *c)
{
    return pending(c);
}

void conn_on_close(struct conn *c, void (*fn)(void *ud), void *ud)
{
    assert(!c->is_ended);
    c->close_fn = fn;
    c->close_ud = ud;
    if (fn && c->is_gone && !c->wants_close) {
        c->wants_close = true;
        post(c);
    }
}

void conn_on_drain(struct conn *c, void (*fn)(void *ud), void *ud)
{
    assert(!c->is_ended);
    c->drain_fn = fn;
    c->drain_ud = ud;
}

/* ---- the end of a loop */

void conn_abort_all(struct worker *w)
{
    for (struct conn *c = w->conns; c; c = c->next) {
        if (!c->is_ended) {
            lose(c);
        }
        c->is_broken = true;
        hang_up(c);
    }
}

void conn_free_all(struct worker *w)
{
    while (w->conns) { /* their handlers did not end: nobody is left to do it */
        conn_free(w->conns);
    }
}
