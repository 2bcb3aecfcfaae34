/* How it works: one curl multi handle on the loop's epoll. Curl's callbacks only store what came
 * (head, bytes, result) in the call and put the call on the ready list; when curl has returned, the
 * list is delivered. So a caller may cancel any call from any event, and a body is never read by
 * curl after its call was cancelled. Pieces that came in one turn are one event.
 *
 * First byte and silence are timed here: curl's own limits are averages or totals.
 */
#include "upstream.h"

#include "gateway/base/log.h"
#include <curl/curl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

#ifndef ISOTHERM_VERSION
#define ISOTHERM_VERSION "0.1.0"
#endif
#define HEAD_BYTES_MAX       (64u << 10) /* of an answer; providers send 2 to 4 KB */
#define IDLE_CONNECTIONS_MAX 256
#define PIECE_KEEP_BYTES     (1u << 20)

struct upstream {
    struct loop *loop;
    CURLM *multi;
    struct loop_timer curl_timer, flush_timer;
    struct upstream_call *calls;
    struct upstream_call *ready_first, **ready_last;
    struct upstream_call *current; /* whose event is being delivered; NULL once it was cancelled */
    struct upstream_call *ending;  /* whose on_end is being called */
    struct buf piece;              /* what is being delivered: outlives a cancelled call */
};

struct upstream_call {
    struct upstream *up;
    struct upstream_call *prev, *next, *ready_next;
    CURL *easy;
    struct curl_slist *headers;
    const struct upstream_events *ev;
    void *ud;
    size_t body_len, bytes_max, n_bytes;
    unsigned first_byte_ms, idle_ms;

    struct buf head; /* name, value, ... each ended by NUL, of the newest head */
    int status;
    struct buf inbox;
    struct failure failure;
    CURLcode result;
    char curl_words[CURL_ERROR_SIZE];

    struct loop_timer deadline;
    int64_t last_ms; /* of the last byte, or of the last touch once there was one */
    int64_t n_sent;  /* bytes of the body that had left when it was last looked at */
    unsigned n_requests, n_resends_told; /* times that curl began to send it */
    bool is_in_multi, is_ready, is_paused, is_touched;
    bool has_byte; /* any of an answer */
    bool has_head; /* the final one is complete */
    bool is_head_told, is_done;
};

static void mark_ready(struct upstream_call *c)
{
    struct upstream *u = c->up;
    if (!c->is_ready) {
        c->is_ready = true;
        c->ready_next = NULL;
        *u->ready_last = c;
        u->ready_last = &c->ready_next;
    }
}

static void unmark_ready(struct upstream_call *c)
{
    struct upstream *u = c->up;
    if (!c->is_ready) {
        return;
    }
    struct upstream_call **at = &u->ready_first;
    while (*at != c) {
        at = &(*at)->ready_next;
    }
    *at = c->ready_next;
    if (!*at) {
        u->ready_last = at;
    }
    c->is_ready = false;
}

static void leave_multi(struct upstream_call *c)
{
    if (c->is_in_multi) {
        c->is_in_multi = false;
        (void)curl_multi_remove_handle(c->up->multi,
                                       c->easy); /* it is in there, and we are not inside of curl */
    }
}

static void call_free(struct upstream_call *c)
{
    struct upstream *u = c->up;
    leave_multi(c);
    unmark_ready(c);
    loop_timer_cancel(u->loop, &c->deadline);
    *(c->prev ? &c->prev->next : &u->calls) = c->next;
    if (c->next) {
        c->next->prev = c->prev;
    }
    if (u->current == c) {
        u->current = NULL;
    }
    curl_easy_cleanup(c->easy);
    curl_slist_free_all(c->headers);
    buf_release(&c->head);
    buf_release(&c->inbox);
    free(c);
}

/* ---- delivery */

/* What the client is told of curl's result: no word of curl's, which changes with its version. */
static const char *words_of(CURLcode result)
{
    static const struct {
        CURLcode result;
        const char *words;
    } rows[] = {
        {CURLE_COULDNT_RESOLVE_HOST, "its name is not known"},
        {CURLE_COULDNT_CONNECT, "nobody accepts a connection at its address"},
        {CURLE_PEER_FAILED_VERIFICATION, "its certificate is not trusted"},
        {CURLE_SSL_ISSUER_ERROR, "its certificate is not trusted"},
        {CURLE_SSL_INVALIDCERTSTATUS, "its certificate is not trusted"},
        {CURLE_SSL_CACERT_BADFILE, "the file of trusted certificates cannot be read"},
        {CURLE_SSL_CONNECT_ERROR, "the TLS handshake failed"},
        {CURLE_GOT_NOTHING, "it closed the connection"},
        {CURLE_PARTIAL_FILE, "it closed the connection"},
        {CURLE_RECV_ERROR, "the connection was lost"},
        {CURLE_SEND_ERROR, "the connection was lost"},
        {CURLE_HTTP2, "it broke the rules of HTTP/2"},
        {CURLE_HTTP2_STREAM, "it ended its HTTP/2 stream with an error"},
        {CURLE_WEIRD_SERVER_REPLY, "it does not speak HTTP as it should"},
        {CURLE_UNSUPPORTED_PROTOCOL, "it does not speak HTTP as it should"},
        {CURLE_URL_MALFORMAT, "its address in the configuration is no URL"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].result == result) {
            return rows[i].words;
        }
    }
    return "the transport failed";
}

/* For the operator alone: who it was, and curl's own words. */
static void log_result(const struct upstream_call *c)
{
    const char *url = NULL;
    char *host = NULL, *port = NULL;
    CURLU *parts = curl_url();
    (void)curl_easy_getinfo(c->easy, CURLINFO_EFFECTIVE_URL, &url);
    if (parts && url && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK) {
        (void)curl_url_get(parts, CURLUPART_HOST, &host, 0);
        (void)curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    }
    log_write(LOG_WARNING, "upstream_failed", "host", host ? host : "-", "port", port ? port : "-",
              "error", c->curl_words[0] ? c->curl_words : curl_easy_strerror(c->result), NULL);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(parts);
}

static void set_failure_of_result(struct upstream_call *c)
{
    const char *why = words_of(c->result);
    if (c->failure.status) { /* a limit of ours was the reason */
        return;
    }
    log_result(c);
    if (c->result == CURLE_OPERATION_TIMEDOUT && !c->has_byte) {
        (void)failure_set(&c->failure, 504, "upstream_timeout_connect", NULL,
                          "the upstream did not accept a connection in time");
    } else if (c->has_byte) {
        (void)failure_set(&c->failure, 502, "stream_incomplete", NULL,
                          "the upstream's answer broke off: %s", why);
    } else if (c->n_requests > 0) { /* it may have been read, and billed: never sent again */
        (void)failure_set(&c->failure, 502, "upstream_no_answer", NULL,
                          "the upstream gave no answer: %s", why);
    } else {
        (void)failure_set(&c->failure, 502, "upstream_unreachable", NULL,
                          "the upstream cannot be reached: %s", why);
    }
}

static void tell_end(struct upstream_call *c)
{
    if (c->result != CURLE_OK) {
        set_failure_of_result(c);
    } else if (!c->has_head) { /* curl is content with a head that was cut */
        (void)failure_set(&c->failure, 502, "stream_incomplete", NULL,
                          "the upstream's answer broke off in its head");
    }
    c->up->current = NULL;
    c->up->ending = c;
    c->ev->on_end(c->failure.status ? &c->failure : NULL, c->ud);
    c->up->ending = NULL;
    call_free(c);
}

static void deliver(struct upstream_call *c)
{
    struct upstream *u = c->up;
    u->current = c;
    while (u->current && c->n_resends_told + 1 < c->n_requests) {
        c->n_resends_told++;
        if (c->ev->on_resend) {
            c->ev->on_resend(c->ud);
        }
    }
    if (u->current && c->has_head && !c->is_head_told) {
        c->is_head_told = true;
        c->ev->on_head(c->status, c->ud);
    }
    if (u->current && c->inbox.len > 0 && !c->is_paused) {
        struct buf piece = c->inbox;
        c->inbox = u->piece;
        c->inbox.limit = piece.limit;
        u->piece = piece;
        c->ev->on_piece(buf_slice(&u->piece), c->ud);
        buf_clear(&u->piece);
        if (u->piece.cap > PIECE_KEEP_BYTES) {
            buf_release(&u->piece);
        }
    }
    if (u->current && c->is_done && c->inbox.len == 0 && !c->is_paused) {
        tell_end(c);
    }
    u->current = NULL;
}

static void on_flush(void *ud);

/* Delivers soon, from a clean stack. */
static void flush_later(struct upstream *u)
{
    if (u->flush_timer.slot == 0) {
        (void)loop_timer_arm(u->loop, &u->flush_timer, 0, on_flush,
                             u); /* its place was reserved by upstream_new */
    }
}

/* What curl has finished. Never inside of curl. */
static void take_finished(struct upstream *u)
{
    CURLMsg *msg;
    int n_left;
    while ((msg = curl_multi_info_read(u->multi, &n_left)) != NULL) {
        if (msg->msg != CURLMSG_DONE) {
            continue;
        }
        struct upstream_call *c = NULL;
        CURLcode result = msg->data.result;
        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&c);
        leave_multi(c); /* msg is invalid from here on */
        loop_timer_cancel(u->loop, &c->deadline);
        c->is_done = true;
        c->result = result;
        mark_ready(c);
    }
}

/* Everything that is ready, at least one. The end of an answer of many megabytes takes long. */
static void deliver_ready(struct upstream *u)
{
    struct upstream_call *c;
    int64_t began_ms = loop_clock_ms();
    while ((c = u->ready_first) != NULL) {
        unmark_ready(c);
        deliver(c);
        if (u->ready_first && loop_clock_ms() - began_ms >= LOOP_SLICE_MS) {
            flush_later(u);
            return;
        }
    }
}

static void on_flush(void *ud)
{
    take_finished(ud);
    deliver_ready(ud);
}

static void flush(struct upstream *u)
{
    take_finished(u);
    if (u->ready_first && loop_clock_ms() - loop_now_ms(u->loop) >= LOOP_SLICE_MS) {
        flush_later(u); /* each socket of this turn comes here */
    } else {
        deliver_ready(u);
    }
}

/* ---- limits of time */

static void fail_call(struct upstream_call *c, int status, const char *code, const char *text)
{
    (void)failure_set(&c->failure, status, code, NULL, "%s", text);
    leave_multi(c);
    c->is_done = true;
    mark_ready(c);
    flush(c->up);
}

static void on_deadline(void *ud);

static void arm(struct upstream_call *c, int64_t ms)
{
    if (!loop_timer_arm(c->up->loop, &c->deadline, ms, on_deadline, c)) {
        (void)failure_set(&c->failure, 503, "out_of_memory", NULL,
                          "out of memory; try again later");
    }
}

static void on_first_byte_deadline(struct upstream_call *c)
{
    curl_off_t sent = 0;
    (void)curl_easy_getinfo(c->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    if (sent < (curl_off_t)c->body_len &&
        sent > c->n_sent) { /* a large body that still leaves: counts from its end */
        c->n_sent = sent;
        arm(c, c->first_byte_ms);
        return;
    }
    fail_call(c, 504, "upstream_timeout_first_byte",
              "the upstream took too long to begin its answer");
}

static void on_deadline(void *ud)
{
    struct upstream_call *c = ud;
    if (!c->has_byte) {
        on_first_byte_deadline(c);
        return;
    }
    int64_t silent = loop_now_ms(c->up->loop) - c->last_ms;
    if (c->is_paused || silent < c->idle_ms) { /* paused: it is we who do not listen */
        arm(c, c->is_paused ? c->idle_ms : c->idle_ms - silent);
        return;
    }
    fail_call(c, 504, "upstream_timeout_idle",
              "the upstream fell silent in the middle of its answer");
}

static void note_byte(struct upstream_call *c)
{
    int64_t now = loop_now_ms(c->up->loop);
    if (!c->has_byte) {
        c->has_byte = true;
        c->last_ms = now;
        loop_timer_cancel(c->up->loop, &c->deadline);
        if (c->idle_ms > 0) {
            arm(c, c->idle_ms);
        }
    } else if (!c->is_touched) {
        c->last_ms = now;
    }
}

/* ---- curl's callbacks: they only store */

static int on_request(void *ud, char *remote_ip, char *local_ip, int remote_port, int local_port)
{
    (void)remote_ip;
    (void)local_ip;
    (void)remote_port;
    (void)local_port;
    struct upstream_call *c = ud;
    if (++c->n_requests > 1) {
        mark_ready(c);
    }
    if (c->first_byte_ms > 0) {
        arm(c, c->first_byte_ms);
    }
    return CURL_PREREQFUNC_OK;
}

static void store_header(struct upstream_call *c, const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len);
    if (!colon) {
        return;
    }
    const char *value = colon + 1;
    const char *end = line + len;
    while (value < end && (*value == ' ' || *value == '\t')) {
        value++;
    }
    while (end > value &&
           (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    (void)buf_append(&c->head, line, (size_t)(colon - line));
    (void)buf_append(&c->head, "", 1);
    (void)buf_append(&c->head, value, (size_t)(end - value));
    (void)buf_append(&c->head, "", 1);
}

static size_t on_header(char *p, size_t size, size_t n, void *ud)
{
    struct upstream_call *c = ud;
    size_t len = size * n;
    note_byte(c);
    if (c->has_head) { /* trailers */
        return len;
    }
    if (len >= 5 && memcmp(p, "HTTP/", 5) == 0) { /* after an interim head (1xx) comes another */
        buf_clear(&c->head);
    } else if (len <= 2 && (*p == '\r' || *p == '\n')) {
        long status = 0;
        (void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
        c->status = (int)status;
        c->has_head = status >= 200;
        if (c->has_head) {
            mark_ready(c);
        }
    } else if (memchr(p, '\0', len)) {
        (void)failure_set(&c->failure, 502, "upstream_invalid", NULL,
                          "the upstream sent a NUL in a header");
        return 0;
    } else {
        store_header(c, p, len);
    }
    if (c->head.is_failed) {
        (void)failure_set(&c->failure, 502, "upstream_too_large", NULL,
                          "the head of the upstream's answer is longer than %u bytes",
                          HEAD_BYTES_MAX);
        return 0;
    }
    return len;
}

static size_t on_bytes(char *p, size_t size, size_t n, void *ud)
{
    struct upstream_call *c = ud;
    size_t len = size * n;
    note_byte(c);
    if (len > c->bytes_max - c->n_bytes) {
        (void)failure_set(&c->failure, 502, "upstream_too_large", NULL,
                          "the upstream's answer is longer than %zu bytes", c->bytes_max);
        return 0;
    }
    if (!buf_append(&c->inbox, p, len)) {
        (void)failure_set(&c->failure, 503, "out_of_memory", NULL,
                          "out of memory; try again later");
        return 0;
    }
    c->n_bytes += len;
    mark_ready(c);
    return len;
}

/* ---- curl on the loop */

static void on_socket_event(int fd, uint32_t events, void *ud)
{
    struct upstream *u = ud;
    int flags = ((events & (EPOLLIN | EPOLLHUP)) ? CURL_CSELECT_IN : 0) |
                ((events & EPOLLOUT) ? CURL_CSELECT_OUT : 0) |
                ((events & EPOLLERR) ? CURL_CSELECT_ERR : 0);
    int n_running;
    (void)curl_multi_socket_action(u->multi, fd, flags,
                                   &n_running); /* its errors are those of calls */
    flush(u);
}

static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *ud, void *socket_ud)
{
    (void)easy;
    (void)socket_ud;
    struct upstream *u = ud;
    if (what == CURL_POLL_REMOVE) {
        loop_unwatch(u->loop, fd);
        return 0;
    }
    uint32_t events =
        ((what & CURL_POLL_IN) ? EPOLLIN : 0u) | ((what & CURL_POLL_OUT) ? EPOLLOUT : 0u);
    return loop_watch(u->loop, fd, events, on_socket_event, u) ? 0 : -1;
}

/* Curl may close a socket before it says CURL_POLL_REMOVE, or without it. By then the number may be
 * another socket's, of another thread or one that this loop watches, whose watch would end instead:
 * so the watch ends here, while the number is still ours. */
static int on_curl_close(void *ud, curl_socket_t fd)
{
    struct upstream *u = ud; /* which outlives every connection of its multi handle */
    loop_unwatch(u->loop, fd);
    return close(fd);
}

static void on_curl_timeout(void *ud)
{
    struct upstream *u = ud;
    int n_running;
    (void)curl_multi_socket_action(u->multi, CURL_SOCKET_TIMEOUT, 0, &n_running);
    flush(u);
}

static int on_curl_timer(CURLM *multi, long ms, void *ud)
{
    (void)multi;
    struct upstream *u = ud;
    if (ms < 0) {
        loop_timer_cancel(u->loop, &u->curl_timer);
        return 0;
    }
    return loop_timer_arm(u->loop, &u->curl_timer, ms, on_curl_timeout, u) ? 0 : -1;
}

static void init_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* a failure shows in curl_multi_init */
}

bool upstream_new(struct upstream **out, struct loop *l)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, init_curl);
    struct upstream *u = calloc(1, sizeof *u);
    if (!u) {
        return false;
    }
    u->loop = l;
    u->ready_last = &u->ready_first;
    buf_init(&u->piece, SIZE_MAX - 1);
    u->multi = curl_multi_init();
    bool ok =
        u->multi &&
        curl_multi_setopt(u->multi, CURLMOPT_SOCKETFUNCTION, on_curl_socket) == CURLM_OK &&
        curl_multi_setopt(u->multi, CURLMOPT_SOCKETDATA, u) == CURLM_OK &&
        curl_multi_setopt(u->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer) == CURLM_OK &&
        curl_multi_setopt(u->multi, CURLMOPT_TIMERDATA, u) == CURLM_OK &&
        curl_multi_setopt(u->multi, CURLMOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS_MAX) == CURLM_OK &&
        loop_timer_arm(l, &u->flush_timer, 0, on_flush, u);
    if (!ok) {
        upstream_free(u);
        return false;
    }
    *out = u;
    return true;
}

void upstream_free(struct upstream *u)
{
    if (!u) {
        return;
    }
    while (u->calls) {
        call_free(u->calls);
    }
    if (u->multi) {
        (void)curl_multi_cleanup(u->multi); /* nothing is left in it */
    }
    loop_timer_cancel(u->loop, &u->curl_timer);
    loop_timer_cancel(u->loop, &u->flush_timer);
    buf_release(&u->piece);
    free(u);
}

/* ---- one call */

static bool add_header(struct upstream_call *c, const char *line)
{
    struct curl_slist *l = curl_slist_append(c->headers, line);
    c->headers = l ? l : c->headers;
    return l != NULL;
}

static bool add_headers(struct upstream_call *c, const struct upstream_spec *s, struct failure *f)
{
    struct buf line;
    buf_init(&line, HEAD_BYTES_MAX);
    bool ok = add_header(c, "Expect:"); /* no waiting for "100 Continue" */
    for (size_t i = 0; ok && i < s->n_headers; i++) {
        const char *name = s->headers[i].name;
        const char *value = s->headers[i].value;
        if (strpbrk(name, "\r\n:; ") || strpbrk(value, "\r\n")) {
            buf_release(&line);
            return failure_set(f, 500, "invalid_header", NULL,
                               "the header '%s' for the upstream holds a line break", name);
        }
        buf_clear(&line);
        /* "name;" is how curl is told to send an empty value; "name:" would remove the header. */
        ok = buf_printf(&line, *value ? "%s: %s" : "%s;%s", name, value) && add_header(c, line.p);
    }
    buf_release(&line);
    return ok || failure_set(f, 503, "out_of_memory", NULL, "out of memory; try again later");
}

#define SET(option, value) (ok = ok && curl_easy_setopt(e, option, value) == CURLE_OK)

static bool set_transport(CURL *e, const struct upstream_spec *s)
{
    bool ok = true;
    SET(CURLOPT_URL, s->url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_HTTP_VERSION, (long)(s->http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
    if (s->http2) { /* a burst waits for one connection rather than making one each */
        SET(CURLOPT_PIPEWAIT, 1L);
    }
    if (s->ca_file) {
        SET(CURLOPT_CAINFO, s->ca_file);
        SET(CURLOPT_CAPATH, (char *)NULL); /* else the system's are trusted as well */
    }
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_TCP_NODELAY, 1L);
    SET(CURLOPT_PROXY, ""); /* also keeps curl from reading http_proxy and its like */
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_USERAGENT, "isotherm/" ISOTHERM_VERSION);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)s->connect_ms);
    if (s->body.p) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDS, s->body.p); /* not copied */
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->body.len);
    }
    return ok;
}

static bool set_callbacks(CURL *e, struct upstream_call *c)
{
    bool ok = true;
    SET(CURLOPT_HTTPHEADER, c->headers);
    SET(CURLOPT_PRIVATE, (void *)c);
    SET(CURLOPT_ERRORBUFFER, c->curl_words);
    SET(CURLOPT_WRITEFUNCTION, on_bytes);
    SET(CURLOPT_WRITEDATA, (void *)c);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, (void *)c);
    SET(CURLOPT_PREREQFUNCTION, on_request);
    SET(CURLOPT_PREREQDATA, (void *)c);
    SET(CURLOPT_CLOSESOCKETFUNCTION, on_curl_close);
    SET(CURLOPT_CLOSESOCKETDATA, (void *)c->up); /* the connection outlives the call */
    return ok;
}

#undef SET

static struct upstream_call *call_new(struct upstream *u, const struct upstream_spec *s,
                                      const struct upstream_events *ev, void *ud)
{
    struct upstream_call *c = calloc(1, sizeof *c);
    if (!c) {
        return NULL;
    }
    *c = (struct upstream_call){.up = u, .next = u->calls, .ev = ev, .ud = ud};
    c->body_len = s->body.len;
    c->bytes_max = s->bytes_max;
    c->first_byte_ms = s->first_byte_ms;
    c->idle_ms = s->idle_ms;
    buf_init(&c->head, HEAD_BYTES_MAX);
    buf_init(&c->inbox, s->bytes_max);
    if (u->calls) {
        u->calls->prev = c;
    }
    u->calls = c;
    c->easy = curl_easy_init();
    return c;
}

bool upstream_start(struct upstream *u, const struct upstream_spec *s,
                    const struct upstream_events *ev, void *ud, struct upstream_call **out,
                    struct failure *f)
{
    struct upstream_call *c = call_new(u, s, ev, ud);
    if (!c) {
        return failure_set(f, 503, "out_of_memory", NULL, "out of memory; try again later");
    }
    if (!add_headers(c, s, f)) {
        call_free(c);
        return false;
    }
    if (!c->easy || !set_transport(c->easy, s) || !set_callbacks(c->easy, c) ||
        curl_multi_add_handle(u->multi, c->easy) != CURLM_OK) {
        call_free(c);
        return failure_set(f, 503, "out_of_memory", NULL,
                           "the call to the upstream could not be prepared; try again later");
    }
    c->is_in_multi = true;
    *out = c;
    return true;
}

void upstream_cancel(struct upstream_call *c)
{
    if (c && c->up->ending != c) {
        call_free(c);
    }
}

void upstream_pause(struct upstream_call *c, bool is_paused)
{
    if (c->is_paused == is_paused) {
        return;
    }
    c->is_paused = is_paused;
    if (!is_paused) {
        c->last_ms = loop_now_ms(c->up->loop);
        mark_ready(c);
        flush_later(c->up);
    }
    if (c->is_in_multi) {
        /* Unpausing may call on_bytes at once; that only stores. */
        (void)curl_easy_pause(c->easy, is_paused ? CURLPAUSE_RECV : CURLPAUSE_CONT);
    }
}

void upstream_touch(struct upstream_call *c)
{
    c->is_touched = true;
    c->last_ms = loop_now_ms(c->up->loop);
}

const char *upstream_header(const struct upstream_call *c, const char *name)
{
    const char *p = c->head.p;
    const char *end = p ? p + c->head.len : p; /* a head without fields has no bytes */
    while (p < end) {
        const char *value = p + strlen(p) + 1;
        if (strcasecmp(p, name) == 0) {
            return value;
        }
        p = value + strlen(value) + 1;
    }
    return NULL;
}
