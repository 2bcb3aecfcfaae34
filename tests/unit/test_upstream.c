/* The client over real sockets, against a peer that plays a script: what it sends, when, and how
   it ends. */
#include "gateway/io/upstream.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the peer */

enum step_kind { STEP_END, STEP_SEND, STEP_WAIT_CLOSE, STEP_BIG, STEP_SEND_LATER };
struct step {
    enum step_kind kind;
    const char *text;
};

struct peer {
    int listen_fd;
    unsigned port;
    pthread_t thread;
    const struct step *steps; /* for each request again; STEP_END without text closes */
    unsigned n_requests;
    char request[4096]; /* the last one */
    atomic_uint n_accepted, n_asked;
    atomic_int n_sent; /* of STEP_BIG */
    atomic_bool saw_close;
};

/* A whole request with its Content-Length body; false: closed. */
static bool read_request(struct peer *p, int fd)
{
    size_t len = 0;
    for (;;) {
        ssize_t n = recv(fd, p->request + len, sizeof p->request - 1 - len, 0);
        if (n <= 0) {
            return false;
        }
        len += (size_t)n;
        p->request[len] = '\0';
        const char *body = strstr(p->request, "\r\n\r\n");
        const char *cl = strstr(p->request, "Content-Length: ");
        unsigned long want = cl ? strtoul(cl + 16, NULL, 10) : 0;
        if (body && strlen(body + 4) >= want) {
            return true;
        }
    }
}

static void wait_close(struct peer *p, int fd)
{
    char c;
    struct timeval patience = {5, 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    atomic_store(&p->saw_close, recv(fd, &c, 1, 0) == 0);
}

static void send_big(struct peer *p, int fd)
{
    static char block[65536];
    for (int i = 0; i < 256 && send(fd, block, sizeof block, MSG_NOSIGNAL) == (ssize_t)sizeof block;
         i++) {
        atomic_fetch_add(&p->n_sent, 1);
    }
}

/* False: the script closes the connection here. */
static bool play(struct peer *p, int fd)
{
    const struct step *s = p->steps;
    for (; s->kind != STEP_END; s++) {
        switch (s->kind) {
        case STEP_SEND_LATER:
            (void)poll(NULL, 0, 40); /* so that it is another piece */
            /* fall through */
        case STEP_SEND:
            (void)send(fd, s->text, strlen(s->text), MSG_NOSIGNAL);
            break;
        case STEP_BIG:
            send_big(p, fd);
            break;
        default:
            wait_close(p, fd);
            return false;
        }
    }
    return s->text != NULL;
}

static void *peer_main(void *ud)
{
    struct peer *p = ud;
    while (atomic_load(&p->n_asked) < p->n_requests) {
        int fd = accept(p->listen_fd, NULL, NULL);
        if (fd < 0) {
            break;
        }
        atomic_fetch_add(&p->n_accepted, 1);
        bool go_on = true;
        while (go_on && atomic_load(&p->n_asked) < p->n_requests && read_request(p, fd)) {
            atomic_fetch_add(&p->n_asked, 1);
            go_on = play(p, fd);
        }
        close(fd);
    }
    return NULL;
}

#define KEEP                                                                                       \
    {                                                                                              \
        STEP_END, "keep"                                                                           \
    }
#define CLOSE                                                                                      \
    {                                                                                              \
        STEP_END, NULL                                                                             \
    }

static void peer_start(struct peer *p, const struct step *steps, unsigned n_requests)
{
    memset(p, 0, sizeof *p);
    p->steps = steps;
    p->n_requests = n_requests;
    struct sockaddr_in a = {.sin_family = AF_INET};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    p->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(p->listen_fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(p->listen_fd, 10), 0);
    socklen_t len = sizeof a;
    assert_int_equal(getsockname(p->listen_fd, (struct sockaddr *)&a, &len), 0);
    p->port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&p->thread, NULL, peer_main, p), 0);
}

static void peer_stop(struct peer *p)
{
    (void)shutdown(p->listen_fd, SHUT_RDWR);
    assert_int_equal(pthread_join(p->thread, NULL), 0);
    close(p->listen_fd);
}

/* ---- the caller */

struct caller {
    struct loop *loop;
    struct upstream *up;
    struct upstream_call *call;
    struct peer peer;
    int status;
    struct buf got;
    unsigned n_pieces, n_ends;
    struct failure failure;
    struct loop_timer timer;
    int64_t pause_ms;
    bool cancels_on_head, cancels_on_piece, pauses, touches;
    char header[100];
};

static void stop_loop(void *ud)
{
    struct caller *x = ud;
    loop_stop(x->loop);
}

static void on_head(int status, void *ud)
{
    struct caller *x = ud;
    assert_int_equal(x->status, 0);
    x->status = status;
    const char *h = upstream_header(x->call, "X-THING");
    (void)snprintf(x->header, sizeof x->header, "%s", h ? h : "");
    assert_null(upstream_header(x->call, "absent"));
    if (x->cancels_on_head) {
        upstream_cancel(x->call);
        assert_true(loop_timer_arm(x->loop, &x->timer, 20, stop_loop, x));
    }
}

static void go_on(void *ud)
{
    struct caller *x = ud;
    x->pauses = false;
    assert_true(atomic_load(&x->peer.n_sent) < 200); /* the peer was held back */
    upstream_pause(x->call, false);
}

static void on_piece(struct slice piece, void *ud)
{
    struct caller *x = ud;
    assert_true(piece.len > 0);
    assert_int_not_equal(x->status, 0);
    x->n_pieces++;
    assert_true(buf_append(&x->got, piece.p, piece.len));
    if (x->touches) {
        upstream_touch(x->call);
        x->touches = false;
    }
    if (x->cancels_on_piece) {
        upstream_cancel(x->call);
        assert_true(buf_append(&x->got, piece.p, piece.len)); /* the piece outlives its call */
        assert_true(loop_timer_arm(x->loop, &x->timer, 20, stop_loop, x));
    } else if (x->pauses) {
        assert_int_equal(x->timer.slot, 0); /* nothing comes while it is paused */
        upstream_pause(x->call, true);
        assert_true(loop_timer_arm(x->loop, &x->timer, x->pause_ms, go_on, x));
    }
}

static void on_end(const struct failure *f, void *ud)
{
    struct caller *x = ud;
    x->n_ends++;
    if (f) {
        x->failure = *f;
    }
    upstream_cancel(x->call); /* allowed, does nothing */
    loop_stop(x->loop);
}

static const struct upstream_events events = {
    .on_head = on_head, .on_piece = on_piece, .on_end = on_end};

static struct caller *caller_new(const struct step *steps, unsigned n_requests)
{
    struct caller *x = calloc(1, sizeof *x);
    assert_non_null(x);
    assert_true(loop_new(&x->loop));
    assert_true(upstream_new(&x->up, x->loop));
    buf_init(&x->got, 64u << 20);
    peer_start(&x->peer, steps, n_requests);
    return x;
}

static void caller_free(struct caller *x)
{
    upstream_free(x->up);
    peer_stop(&x->peer);
    loop_free(x->loop);
    buf_release(&x->got);
    free(x);
}

static struct upstream_spec make_spec(const struct caller *x, char url[100])
{
    static const struct upstream_header headers[] = {
        {"Content-Type", "application/json"}, {"x-key", "secret"}, {"x-empty", ""}};
    (void)snprintf(url, 100, "http://127.0.0.1:%u/v1/x?y=z", x->peer.port);
    return (struct upstream_spec){.url = url,
                                  .headers = headers,
                                  .n_headers = 3,
                                  .body = SLICE_LIT("{\"a\":1}"),
                                  .connect_ms = 1000,
                                  .first_byte_ms = 2000,
                                  .idle_ms = 2000,
                                  .bytes_max = 32u << 20};
}

static void call_with(struct caller *x, const struct upstream_spec *s)
{
    struct failure f = {0};
    x->status = 0;
    x->n_pieces = x->n_ends = 0;
    x->failure = (struct failure){0};
    buf_clear(&x->got);
    assert_true(upstream_start(x->up, s, &events, x, &x->call, &f));
    loop_run(x->loop);
}

static void call(struct caller *x)
{
    char url[100];
    struct upstream_spec s = make_spec(x, url);
    call_with(x, &s);
}

static void check_failure(struct caller *x, int status, const char *code)
{
    assert_int_equal(x->n_ends, 1);
    if (x->failure.status != status || strcmp(x->failure.code, code) != 0) {
        fail_msg("%d %s: %s", x->failure.status, x->failure.code, x->failure.message);
    }
    assert_null(strstr(x->failure.message, "127.0.0.1"));
    assert_null(strstr(x->failure.message, "localhost"));
}

/* ---- whole answers */

static void test_plain(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {STEP_SEND, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 No\r\nX-Thing:  a b "
                    "\r\nContent-Length: 5\r\n\r\nhel"},
        {STEP_SEND, "lo"},
        KEEP};
    struct caller *x = caller_new(steps, 3);
    for (int i = 0; i < 3; i++) {
        call(x);
        assert_int_equal(x->failure.status, 0);
        assert_int_equal(x->n_ends, 1);
        assert_int_equal(x->status, 429);
        assert_string_equal(x->header, "a b");
        assert_string_equal(x->got.p, "hello");
    }
    assert_int_equal(atomic_load(&x->peer.n_accepted), 1); /* one connection for all */
    const char *r = x->peer.request;
    assert_memory_equal(r, "POST /v1/x?y=z HTTP/1.1\r\n", 25);
    assert_non_null(strstr(r, "\r\nUser-Agent: isotherm/"));
    assert_non_null(strstr(r, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(r, "\r\nx-key: secret\r\nx-empty:\r\n"));
    assert_non_null(strstr(r, "\r\n\r\n{\"a\":1}"));
    assert_null(strstr(r, "Accept-Encoding"));
    assert_null(strstr(r, "Expect"));
    caller_free(x);
}

static void test_get(void **state)
{
    (void)state;
    static const struct step steps[] = {{STEP_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
                                        KEEP};
    struct caller *x = caller_new(steps, 1);
    char url[100];
    struct upstream_spec s = make_spec(x, url);
    s.body = (struct slice){NULL, 0};
    call_with(x, &s);
    assert_int_equal(x->failure.status, 0);
    assert_int_equal(x->status, 200); /* also without a body */
    assert_int_equal(x->n_pieces, 0);
    assert_memory_equal(x->peer.request, "GET /", 5);
    caller_free(x);
}

static void test_chunked(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {STEP_SEND, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"},
        {STEP_SEND_LATER, "3\r\ntwo\r\n"},
        {STEP_SEND_LATER, "0\r\nX-Thing: trailer\r\n\r\n"},
        KEEP};
    struct caller *x = caller_new(steps, 1);
    call(x);
    assert_int_equal(x->failure.status, 0);
    assert_string_equal(x->got.p, "onetwo");
    assert_int_equal(x->n_pieces, 2);
    assert_string_equal(x->header, "");
    caller_free(x);
}

static void test_redirect_is_an_answer(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {STEP_SEND,
         "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"},
        KEEP};
    struct caller *x = caller_new(steps, 1);
    call(x);
    assert_int_equal(x->failure.status, 0);
    assert_int_equal(x->status, 302);
    caller_free(x);
}

/* ---- failures */

static void test_refused(void **state)
{
    (void)state;
    static const struct step steps[] = {CLOSE};
    struct caller *x = caller_new(steps, 1);
    peer_stop(&x->peer);
    call(x);
    check_failure(x, 502, "upstream_unreachable");
    assert_int_equal(x->status, 0);
    peer_start(&x->peer, steps, 1);
    call(x); /* closes without a byte */
    check_failure(x, 502, "upstream_no_answer");
    caller_free(x);
}

static void test_bad_urls(void **state)
{
    (void)state;
    static const struct step steps[] = {CLOSE};
    static const char *const urls[] = {"ftp://127.0.0.1/", "file:///etc/passwd", "", "http://"};
    struct caller *x = caller_new(steps, 1);
    char url[100];
    struct upstream_spec s = make_spec(x, url);
    for (size_t i = 0; i < 4; i++) {
        s.url = urls[i];
        call_with(x, &s);
        check_failure(x, 502, "upstream_unreachable");
    }
    caller_free(x);
}

static void test_bad_header(void **state)
{
    (void)state;
    static const struct step steps[] = {CLOSE};
    struct caller *x = caller_new(steps, 1);
    char url[100];
    struct upstream_spec s = make_spec(x, url);
    struct upstream_header h = {"x-key", "a\r\nEvil: b"};
    s.headers = &h;
    s.n_headers = 1;
    struct failure f = {0};
    assert_false(upstream_start(x->up, &s, &events, x, &x->call, &f));
    assert_string_equal(f.code, "invalid_header");
    assert_null(strstr(f.message, "Evil"));
    caller_free(x);
}

static void test_cut(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"};
    for (size_t i = 0; i < 2; i++) {
        const struct step steps[] = {{STEP_SEND, answers[i]}, CLOSE};
        struct caller *x = caller_new(steps, 1);
        call(x);
        check_failure(x, 502, "stream_incomplete");
        assert_string_equal(x->got.p, "abc"); /* what came is delivered first */
        caller_free(x);
    }
}

static void test_first_byte_timeout(void **state)
{
    (void)state;
    static const struct step steps[] = {{STEP_WAIT_CLOSE, NULL}};
    struct caller *x = caller_new(steps, 1);
    char url[100];
    struct upstream_spec s = make_spec(x, url);
    s.first_byte_ms = 40;
    call_with(x, &s);
    check_failure(x, 504, "upstream_timeout_first_byte");
    caller_free(x);
}

static void test_idle_timeout(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {STEP_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"},
        {STEP_SEND_LATER, "d"},
        {STEP_WAIT_CLOSE, NULL}};
    struct caller *x = caller_new(steps, 1);
    char url[100];
    struct upstream_spec s = make_spec(x, url);
    s.idle_ms = 150;
    call_with(x, &s);
    check_failure(x, 504, "upstream_timeout_idle");
    assert_string_equal(x->got.p, "abcd");
    caller_free(x);
}

/* Pings keep a connection that was never touched, and do not keep one that was. */
static void test_touch(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {STEP_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"},
        {STEP_SEND_LATER, "d"},
        {STEP_SEND_LATER, "e"},
        {STEP_SEND_LATER, "f"},
        {STEP_SEND_LATER, "ghij"},
        CLOSE};
    for (int touches = 0; touches < 2; touches++) {
        struct caller *x = caller_new(steps, 1);
        char url[100];
        struct upstream_spec s = make_spec(x, url);
        s.idle_ms = 130;
        x->touches = touches;
        call_with(x, &s);
        assert_int_equal(x->failure.status, touches ? 504 : 0);
        caller_free(x);
    }
}

static void test_too_large(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {STEP_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 16777216\r\n\r\n"},
        {STEP_BIG, NULL},
        CLOSE};
    struct caller *x = caller_new(steps, 1);
    char url[100];
    struct upstream_spec s = make_spec(x, url);
    s.bytes_max = 100000;
    call_with(x, &s);
    check_failure(x, 502, "upstream_too_large");
    assert_true(x->got.len <= 100000);
    caller_free(x);
}

static void test_large_head(void **state)
{
    (void)state;
    static char head[90000];
    memset(head, 'x', sizeof head - 1);
    memcpy(head, "HTTP/1.1 200 OK\r\n", 17);
    for (size_t i = 1000; i < sizeof head - 1; i += 1000) {
        memcpy(head + i, "\r\nA: ", 5);
    }
    memcpy(head + 17, "A: ", 3);
    const struct step steps[] = {{STEP_SEND, head}, CLOSE};
    struct caller *x = caller_new(steps, 1);
    call(x);
    check_failure(x, 502, "upstream_too_large");
    caller_free(x);
}

/* ---- cancel and pause */

static void check_cancelled(struct caller *x)
{
    assert_int_equal(x->n_ends, 0);
    pthread_join(x->peer.thread, NULL);
    assert_true(atomic_load(&x->peer.saw_close)); /* before upstream_free */
    x->peer.n_requests = 0;
    assert_int_equal(pthread_create(&x->peer.thread, NULL, peer_main, &x->peer), 0);
    caller_free(x);
}

static const struct step waiting[] = {
    {STEP_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"}, {STEP_WAIT_CLOSE, NULL}};

static void test_cancel_in_head(void **state)
{
    (void)state;
    struct caller *x = caller_new(waiting, 1);
    x->cancels_on_head = true;
    call(x);
    assert_int_equal(x->n_pieces, 0);
    check_cancelled(x);
}

static void test_cancel_in_piece(void **state)
{
    (void)state;
    struct caller *x = caller_new(waiting, 1);
    x->cancels_on_piece = true;
    call(x);
    assert_string_equal(x->got.p, "abcabc");
    check_cancelled(x);
}

static void cancel_now(void *ud)
{
    struct caller *x = ud;
    upstream_cancel(x->call);
    upstream_cancel(NULL);
    assert_true(loop_timer_arm(x->loop, &x->timer, 20, stop_loop, x));
}

static void test_cancel_before_answer(void **state)
{
    (void)state;
    static const struct step steps[] = {{STEP_WAIT_CLOSE, NULL}};
    struct caller *x = caller_new(steps, 1);
    assert_true(loop_timer_arm(x->loop, &x->timer, 20, cancel_now, x));
    call(x);
    check_cancelled(x);
}

static void test_free_cancels(void **state)
{
    (void)state;
    static const struct step steps[] = {{STEP_WAIT_CLOSE, NULL}};
    struct caller *x = caller_new(steps, 1);
    assert_true(loop_timer_arm(x->loop, &x->timer, 20, stop_loop, x));
    call(x);
    assert_int_equal(x->n_ends, 0);
    caller_free(x);
}

static void test_pause(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {STEP_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 16777216\r\n\r\n"}, {STEP_BIG, NULL}, KEEP};
    struct caller *x = caller_new(steps, 1);
    char url[100];
    struct upstream_spec s = make_spec(x, url);
    s.idle_ms = 150; /* does not count while paused */
    x->pauses = true;
    x->pause_ms = 250;
    call_with(x, &s);
    assert_int_equal(x->failure.status, 0);
    assert_int_equal(x->got.len, 16777216);
    caller_free(x);
}

/* A short answer that is complete while the caller is paused: its end waits too. */
static void test_pause_at_end(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {STEP_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc"},
        {STEP_SEND_LATER, "def"},
        KEEP};
    struct caller *x = caller_new(steps, 1);
    x->pauses = true;
    x->pause_ms = 100;
    call(x);
    assert_int_equal(x->failure.status, 0);
    assert_string_equal(x->got.p, "abcdef");
    assert_int_equal(x->timer.slot, 0);
    caller_free(x);
}

int main(void)
{
    (void)setenv("http_proxy", "http://127.0.0.1:1", 1); /* must not be used */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_chunked),
        cmocka_unit_test(test_redirect_is_an_answer),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_bad_header),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_first_byte_timeout),
        cmocka_unit_test(test_idle_timeout),
        cmocka_unit_test(test_touch),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_large_head),
        cmocka_unit_test(test_cancel_in_head),
        cmocka_unit_test(test_cancel_in_piece),
        cmocka_unit_test(test_cancel_before_answer),
        cmocka_unit_test(test_free_cancels),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_pause_at_end),
    };
    return cmocka_run_group_tests_name("upstream", tests, NULL, NULL);
}
