/* The server over real sockets: what a client sees, and what the handler hears. */
#include "gateway/base/limits.h"
#include "gateway/io/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 5000 /* a hung test fails; none waits this long */
#define LEAVE_MS    500  /* about 1 ms on a quiet machine */
#define FAT_BYTES   (8u << 20)

/* ---- the handler: one behaviour for each path */

static atomic_int n_held, n_closed, n_drained, n_handled;
static atomic_size_t pending_seen;
static atomic_uint loops_seen;

struct job {
    struct conn *c;
    struct loop_timer timer;
    size_t n_left;
    unsigned step;
};

static struct job *job_new(struct conn *c)
{
    struct job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->c = c;
    return j;
}

static void job_free(struct job *j)
{
    loop_timer_cancel(conn_loop(j->c), &j->timer);
    free(j);
}

static void stream_step(void *ud)
{
    static const char *const pieces[] = {"one ", "two ", "three"};
    struct job *j = ud;
    (void)conn_stream_write(j->c, slice_str(pieces[j->step++]));
    if (j->step < 3) {
        assert_true(loop_timer_arm(conn_loop(j->c), &j->timer, 2, stream_step, j));
        return;
    }
    struct conn *c = j->c;
    job_free(j);
    conn_stream_end(c);
}

static void held_closed(void *ud)
{
    struct job *j = ud;
    struct conn *c = j->c;
    bool is_stream = j->step > 0;
    job_free(j);
    if (is_stream) {
        assert_false(conn_stream_write(c, SLICE_LIT("nobody")));
        conn_stream_end(c);
    } else {
        assert_string_equal(conn_path(c), "/hold"); /* still there */
        conn_reply(c, 200, "text/plain", NULL, 0, SLICE_LIT("too late"));
    }
    atomic_fetch_add(&n_closed, 1);
}

static void hold(struct conn *c, unsigned step)
{
    struct job *j = job_new(c);
    j->step = step;
    conn_on_close(c, held_closed, j);
    atomic_fetch_add(&n_held, 1);
}

static void fat_go_on(struct job *j)
{
    static char block[65536];
    memset(block, 'x', sizeof block);
    while (j->n_left > 0 && conn_stream_pending(j->c) <= LIMIT_STREAM_BUFFER_BYTES) {
        assert_true(conn_stream_write(j->c, (struct slice){block, sizeof block}));
        j->n_left -= sizeof block;
    }
    if (conn_stream_pending(j->c) > atomic_load(&pending_seen)) {
        atomic_store(&pending_seen, conn_stream_pending(j->c));
    }
    if (j->n_left == 0) {
        struct conn *c = j->c;
        job_free(j);
        conn_stream_end(c);
    }
}

static void fat_drained(void *ud)
{
    atomic_fetch_add(&n_drained, 1);
    fat_go_on(ud);
}

static void reply_later(void *ud)
{
    struct job *j = ud;
    struct conn *c = j->c;
    job_free(j);
    conn_reply(c, 200, "text/plain", NULL, 0, SLICE_LIT("later"));
}

static void begin(struct conn *c)
{
    conn_stream_begin(c, 200, "text/event-stream", NULL, 0);
}

static void handle_stream(struct conn *c, const char *path)
{
    begin(c);
    if (strcmp(path, "/stream/hold") == 0) {
        hold(c, 1);
    } else if (strcmp(path, "/stream/middle") == 0) {
        assert_true(conn_stream_write(c, SLICE_LIT("data: 1\n\n")));
        hold(c, 1);
    } else if (strcmp(path, "/stream/fat") == 0) {
        struct job *j = job_new(c);
        j->n_left = FAT_BYTES;
        conn_on_drain(c, fat_drained, j);
        fat_go_on(j);
    } else if (strcmp(path, "/stream/fat/hold") == 0) {
        static char block[LIMIT_STREAM_BUFFER_BYTES * 32];
        assert_true(conn_stream_write(c, (struct slice){block, sizeof block}));
        hold(c, 1);
    } else if (strcmp(path, "/stream/abort") == 0) {
        assert_true(conn_stream_write(c, SLICE_LIT("half")));
        conn_stream_abort(c);
    } else {
        stream_step(job_new(c));
    }
}

static void handle(struct conn *c, void *ud)
{
    (void)ud;
    const char *path = conn_path(c);
    atomic_fetch_add(&n_handled, 1);
    atomic_fetch_or(&loops_seen, 1u << conn_loop_index(c));
    if (strncmp(path, "/stream", 7) == 0) {
        handle_stream(c, path);
    } else if (strcmp(path, "/hold") == 0) {
        hold(c, 0);
    } else if (strcmp(path, "/later") == 0) {
        struct job *j = job_new(c);
        assert_true(loop_timer_arm(conn_loop(c), &j->timer, 1, reply_later, j));
    } else if (strcmp(path, "/echo") == 0) {
        struct conn_header h[] = {{"x-type", conn_header(c, "CONTENT-TYPE")},
                                  {"x-q", conn_query(c, "q")}};
        conn_reply(c, 201, "text/plain", h, h[0].value && h[1].value ? 2 : 0, conn_body(c));
    } else {
        conn_reply(c, 200, "text/plain", NULL, 0, slice_str(conn_method(c)));
    }
}

/* ---- a client of raw bytes */

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* True when *n reached `want` in time. */
static bool wait_for(atomic_int *n, int want, int ms)
{
    int64_t end = now_ms() + ms;
    while (atomic_load(n) < want && now_ms() < end) {
        (void)poll(NULL, 0, 1);
    }
    return atomic_load(n) >= want;
}

static struct server *start_with(struct server_options o)
{
    struct failure f = {0};
    struct server *s = NULL;
    o.handler = handle;
    if (!o.listen && !o.socket_path) {
        o.listen = "127.0.0.1:0";
    }
    if (!server_start(&s, &o, &f)) {
        fail_msg("%s", f.message);
    }
    atomic_store(&n_held, 0);
    atomic_store(&n_closed, 0);
    return s;
}

static struct server *start(void)
{
    return start_with((struct server_options){.n_loops = 1, .body_bytes_max = 100000});
}

static int dial(const struct server *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server_port(s))};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    struct timeval patience = {PATIENCE_MS / 1000, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

static void say_bytes(int fd, const char *p, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n < 0) {
            return; /* refused meanwhile: what matters is the answer */
        }
        p += n;
        len -= (size_t)n;
    }
}

static void say(int fd, const char *text)
{
    say_bytes(fd, text, strlen(text));
}

/* Reads until `until` (NULL: the peer's end) is in the answer; NUL-terminated. Returns the
   length. */
static size_t hear(int fd, char *to, size_t cap, const char *until)
{
    size_t len = 0;
    to[0] = '\0';
    while (len + 1 < cap && !(until && strstr(to, until))) {
        ssize_t n = recv(fd, to + len, until ? 1 : cap - 1 - len, 0);
        if (n <= 0) {
            if (n < 0 && errno == EAGAIN) {
                fail_msg("nothing came after '%s'", to);
            }
            break;
        }
        len += (size_t)n;
        to[len] = '\0';
    }
    return len;
}

/* The same for a new connection that is closed by the server. Returns the status, 0: none. */
static int ask_bytes(const struct server *s, const char *p, size_t len, char *answer, size_t cap)
{
    int fd = dial(s);
    say_bytes(fd, p, len);
    (void)hear(fd, answer, cap, NULL);
    close(fd);
    int status = 0;
    return sscanf(answer, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

static int ask(const struct server *s, const char *request, char *answer, size_t cap)
{
    return ask_bytes(s, request, strlen(request), answer, cap);
}

#define CLOSE "Host: x\r\nConnection: close\r\n"

/* ---- requests and answers */

static void test_plain(void **state)
{
    (void)state;
    struct server *s = start();
    char a[4096];
    assert_int_equal(ask(s, "GET /hi HTTP/1.1\r\n" CLOSE "\r\n", a, sizeof a), 200);
    assert_non_null(strstr(a, "\r\nContent-Type: text/plain\r\n"));
    assert_non_null(strstr(a, "\r\n\r\nGET"));
    assert_int_equal(ask(s, "HEAD /hi HTTP/1.1\r\n" CLOSE "\r\n", a, sizeof a), 200);
    assert_int_equal(
        ask(s,
            "POST /e%63ho?q=a%20b HTTP/1.1\r\nContent-Type: t/x\r\nContent-Length: 5\r\n" CLOSE
            "\r\nhello",
            a, sizeof a),
        201);
    assert_non_null(strstr(a, "x-type: t/x\r\nx-q: a b\r\n"));
    assert_non_null(strstr(a, "\r\n\r\nhello"));
    assert_int_equal(ask(s, "GET /later HTTP/1.0\r\n\r\n", a, sizeof a), 200);
    assert_non_null(strstr(a, "\r\n\r\nlater"));
    server_stop(s, 1000);
}

static void test_keep_alive_and_pipeline(void **state)
{
    (void)state;
    struct server *s = start();
    char a[4096];
    int fd = dial(s);
    for (int i = 0; i < 3; i++) {
        say(fd, i == 1 ? "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"
                       : "GET /hi HTTP/1.1\r\nHost: x\r\n\r\n");
        (void)hear(fd, a, sizeof a, i == 1 ? "later" : "GET");
        assert_non_null(strstr(a, "200 OK"));
    }
    say(fd, "GET /later HTTP/1.1\r\nHost: x\r\n\r\nPOST /echo HTTP/1.1\r\nHost: "
            "x\r\nContent-Length: 2\r\n\r\nabDELETE /hi HTTP/1.1\r\nHost: "
            "x\r\n\r\n");
    (void)hear(fd, a, sizeof a, "DELETE");
    char *first = strstr(a, "later");
    assert_non_null(first);
    assert_non_null(strstr(first, "\r\n\r\nab"));
    close(fd);
    server_stop(s, 1000);
}

static void test_upload(void **state)
{
    (void)state;
    struct server *s = start();
    char a[4096];
    assert_int_equal(ask(s,
                         "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" CLOSE
                         "\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
                         a, sizeof a),
                     201);
    assert_non_null(strstr(a, "\r\n\r\nabc0123456789"));
    int fd = dial(s);
    say(fd, "POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n" CLOSE "\r\n");
    (void)hear(fd, a, sizeof a, "\r\n\r\n");
    assert_string_equal(a, "HTTP/1.1 100 Continue\r\n\r\n");
    say(fd, "xyz");
    (void)hear(fd, a, sizeof a, NULL);
    assert_non_null(strstr(a, "\r\n\r\nxyz"));
    close(fd);
    server_stop(s, 1000);
}

static void check_error(const char *answer, const char *code)
{
    char want[100];
    (void)snprintf(want, sizeof want, "\"param\":null,\"code\":\"%s\"}}", code);
    assert_non_null(strstr(answer, "application/json"));
    assert_non_null(strstr(answer, "\r\n\r\n{\"error\":{\"message\":\""));
    assert_non_null(strstr(answer, want));
}

static void test_too_large(void **state)
{
    (void)state;
    struct server *s = start();
    char a[4096];
    atomic_store(&n_handled, 0);
    /* By length: before a byte of the body. */
    assert_int_equal(
        ask(s, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n", a, sizeof a),
        413);
    check_error(a, "body_too_large");
    assert_int_equal(ask(s,
                         "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: "
                         "100-continue\r\nContent-Length: 99999999999999\r\n\r\n",
                         a, sizeof a),
                     413);
    /* By chunks, with more in flight than was read: the answer must survive the close. */
    static char big[400000];
    size_t len = (size_t)snprintf(
        big, sizeof big, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20; i++) {
        len += (size_t)snprintf(big + len, sizeof big - len, "2710\r\n%010000d\r\n", i);
    }
    int fd = dial(s);
    say_bytes(fd, big, len);
    (void)hear(fd, a, sizeof a, "}}");
    check_error(a, "body_too_large");
    assert_memory_equal(a, "HTTP/1.1 413 ", 13);
    assert_int_equal(recv(fd, a, 1, 0), 0); /* an end, and no reset after it */
    struct pollfd reset = {.fd = fd};
    assert_int_equal(poll(&reset, 1, 20), 0);
    close(fd);
    assert_int_equal(atomic_load(&n_handled), 0);
    server_stop(s, 1000);
}

static void test_large_head(void **state)
{
    (void)state;
    struct server *s = start();
    static char r[120000];
    char a[4096];
    size_t len =
        (size_t)snprintf(r, sizeof r, "GET /hi HTTP/1.1\r\n" CLOSE "X: %020000d\r\n\r\n", 1);
    assert_int_equal(ask_bytes(s, r, len, a, sizeof a), 200);
    len = (size_t)snprintf(r, sizeof r, "GET /hi HTTP/1.1\r\n" CLOSE "X: %034000d\r\n\r\n", 1);
    assert_int_equal(ask_bytes(s, r, len, a, sizeof a), 431);
    check_error(a, "headers_too_large");
    len = (size_t)snprintf(r, sizeof r, "GET /hi HTTP/1.1\r\n" CLOSE "X: %0100000d\r\n\r\n", 1);
    assert_int_equal(ask_bytes(s, r, len, a, sizeof a), 431);
    server_stop(s, 1000);
}

struct raw_case {
    const char *bytes;
    size_t len;
    int status;
};
#define RAW(status, text)                                                                          \
    {                                                                                              \
        text, sizeof(text) - 1, status                                                             \
    }

static const struct raw_case raw_cases[] = {
    RAW(200, "GET / HTTP/1.1\r\n" CLOSE "\r\n"),
    RAW(200, "\r\nGET / HTTP/1.1\r\n" CLOSE "\r\n"),
    RAW(200, "GET / HTTP/1.0\r\n\r\n"),
    RAW(200, "GET / HTTP/1.1\r\nHost:x\r\nConnection: close\r\nEmpty:\r\nTab:\ta\tb\t\r\n\r\n"),
    RAW(200, "GET /%20?%41=%42&c HTTP/1.1\r\n" CLOSE "\r\n"),
    RAW(400, "GET / HTTP/1.1\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\nX: y\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\nHost: a\r\nFold: a\r\n b\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\nHost: a\r\nFold: a\r\n\tContent-Length: 5\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\nHost: a\r\nNul: a\0b\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\nHost: a\r\nNul: a\0\0Evil\0b\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\nHost: a\r\nNul: a\0\0b: c\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\nHost: a\r\nCr: a\rb: c\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\nHost: a\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\nHost: a\r\nSpace : y\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\nHost: a\r\nControl: \x01\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\nHost: a\r\n: no name\r\n\r\n"),
    RAW(400, "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
    RAW(400, "GET /a%00b HTTP/1.1\r\nHost: a\r\n\r\n"),
    RAW(400, "G=(T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    RAW(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
    RAW(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\na"),
    RAW(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: "
             "chunked\r\n\r\n0\r\n\r\n"),
    RAW(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"),
    RAW(400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\na"),
    RAW(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nabc"),
    RAW(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    RAW(400,
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nContent-Length: 1\r\n\r\na"),
    RAW(400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    RAW(400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n"),
};

static void test_raw_requests(void **state)
{
    (void)state;
    struct server *s = start();
    char a[4096];
    for (size_t i = 0; i < sizeof raw_cases / sizeof *raw_cases; i++) {
        int status = ask_bytes(s, raw_cases[i].bytes, raw_cases[i].len, a, sizeof a);
        if (status != raw_cases[i].status) {
            fail_msg("case %zu (%s): %d, not %d: %s", i, raw_cases[i].bytes, status,
                     raw_cases[i].status, a);
        }
    }
    server_stop(s, 1000);
}

static void test_deadlines(void **state)
{
    (void)state;
    struct server *s =
        start_with((struct server_options){.n_loops = 1, .header_ms = 60, .body_ms = 60});
    char a[4096];
    int64_t from = now_ms();
    assert_int_equal(ask(s, "", a, sizeof a), 0);
    assert_int_equal(ask(s, "GET /hi HTTP/1.1\r\nHost: x\r\n", a, sizeof a), 408);
    check_error(a, "request_timeout");
    assert_int_equal(
        ask(s, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabc", a, sizeof a), 408);
    /* Dribbling does not help, and neither does a first request that was in time. */
    int fd = dial(s);
    say(fd, "GET /hi HTTP/1.1\r\nHost: x\r\n\r\n");
    (void)hear(fd, a, sizeof a, "\r\n\r\nGET");
    for (int i = 0; i < 200 && recv(fd, a, 1, MSG_DONTWAIT) < 0; i++) {
        say(fd, "G");
        (void)poll(NULL, 0, 5);
    }
    assert_true(recv(fd, a, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET);
    close(fd);
    int64_t took = now_ms() - from;
    assert_true(took >= 180 && took < 1500);
    server_stop(s, 1000);
}

/* ---- streams */

static void test_stream(void **state)
{
    (void)state;
    struct server *s = start();
    char a[4096];
    assert_int_equal(ask(s, "GET /stream HTTP/1.1\r\n" CLOSE "\r\n", a, sizeof a), 200);
    assert_non_null(strstr(a, "Transfer-Encoding: chunked"));
    assert_non_null(strstr(a, "\r\n\r\n4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n"));
    assert_int_equal(ask(s, "GET /stream/abort HTTP/1.1\r\n" CLOSE "\r\n", a, sizeof a), 200);
    assert_non_null(strstr(a, "half"));
    assert_null(strstr(a, "0\r\n\r\n"));
    server_stop(s, 1000);
}

static void test_stream_comments(void **state)
{
    (void)state;
    struct server *s = start_with((struct server_options){.n_loops = 1, .keepalive_ms = 20});
    char a[4096];
    int fd = dial(s);
    say(fd, "GET /stream/middle HTTP/1.1\r\nHost: x\r\n\r\n");
    (void)hear(fd, a, sizeof a, ": wait\n\n\r\n8\r\n: wait\n\n\r\n");
    assert_non_null(strstr(a, "data: 1\n\n\r\n8\r\n: wait\n\n"));
    close(fd);
    assert_true(wait_for(&n_closed, 1, LEAVE_MS));
    server_stop(s, 1000);
}

static void test_slow_client(void **state)
{
    (void)state;
    struct server *s = start();
    atomic_store(&n_drained, 0);
    atomic_store(&pending_seen, 0);
    int fd = dial(s);
    say(fd, "GET /stream/fat HTTP/1.0\r\n\r\n");
    static char a[FAT_BYTES + 4096];
    (void)hear(fd, a, 512, "\r\n\r\n");
    /* Nothing is read: the writer must be stopped by what is pending, far below the whole. */
    (void)poll(NULL, 0, 30);
    assert_in_range(atomic_load(&pending_seen), LIMIT_STREAM_BUFFER_BYTES,
                    2 * LIMIT_STREAM_BUFFER_BYTES);
    assert_int_equal(hear(fd, a, sizeof a, NULL), FAT_BYTES);
    assert_true(atomic_load(&n_drained) > 5);
    close(fd);
    server_stop(s, 1000);
}

/* ---- clients that leave */

static void check_leave(const char *request, const char *until)
{
    struct server *s = start();
    char a[4096];
    int fd = dial(s);
    say(fd, request);
    assert_true(wait_for(&n_held, 1, PATIENCE_MS));
    if (until) {
        (void)hear(fd, a, sizeof a, until);
    }
    assert_int_equal(server_in_flight(s), 1);
    assert_int_equal(atomic_load(&n_closed), 0);
    close(fd);
    assert_true(wait_for(&n_closed, 1, LEAVE_MS));
    server_stop(s, 1000);
    assert_int_equal(atomic_load(&n_closed), 1);
}

static void test_leave_while_waiting(void **state)
{
    (void)state;
    check_leave("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n", NULL);
}

static void test_leave_before_first_piece(void **state)
{
    (void)state;
    check_leave("GET /stream/hold HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n\r\n");
}

static void test_leave_in_the_middle(void **state)
{
    (void)state;
    check_leave("GET /stream/middle HTTP/1.1\r\nHost: x\r\n\r\n", "data: 1\n\n");
}

static void test_leave_with_a_full_pipe(void **state)
{
    (void)state;
    check_leave("GET /stream/fat/hold HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n\r\n");
}

static void test_leave_with_pipelined_request(void **state)
{
    (void)state;
    check_leave("GET /hold HTTP/1.1\r\nHost: x\r\n\r\nGET /hi HTTP/1.1\r\nHost: x\r\n\r\n", NULL);
}

static void test_leave_in_body(void **state)
{
    (void)state;
    struct server *s = start();
    char a[4096];
    atomic_store(&n_handled, 0);
    int fd = dial(s);
    say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
    close(fd);
    assert_int_equal(ask(s, "GET /hi HTTP/1.1\r\n" CLOSE "\r\n", a, sizeof a), 200);
    server_stop(s, 1000);
    assert_int_equal(atomic_load(&n_handled), 1);
}

static void test_stop_ends_what_waits(void **state)
{
    (void)state;
    struct server *s = start();
    int fd = dial(s);
    int idle = dial(s);
    say(fd, "GET /stream/middle HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(wait_for(&n_held, 1, PATIENCE_MS));
    int64_t from = now_ms();
    server_stop(s, 20);
    assert_int_equal(atomic_load(&n_closed), 1);
    assert_true(now_ms() - from < 1500);
    close(fd);
    close(idle);
}

/* ---- admission, sockets, loops */

static void test_in_flight_limit(void **state)
{
    (void)state;
    struct server *s = start_with((struct server_options){.n_loops = 1, .in_flight_max = 2});
    char a[4096];
    int one = dial(s);
    int two = dial(s);
    say(one, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    say(two, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_true(wait_for(&n_held, 2, PATIENCE_MS));
    assert_int_equal(
        ask(s, "POST /hi HTTP/1.1\r\n" CLOSE "Content-Length: 1000\r\n\r\n", a, sizeof a), 503);
    check_error(a, "overloaded");
    assert_non_null(strstr(a, "Retry-After: 1\r\n"));
    close(one);
    assert_true(wait_for(&n_closed, 1, LEAVE_MS));
    while (server_in_flight(s) > 1) {
        (void)poll(NULL, 0, 1);
    }
    assert_int_equal(ask(s, "GET /hi HTTP/1.1\r\n" CLOSE "\r\n", a, sizeof a), 200);
    close(two);
    server_stop(s, 1000);
}

static int dial_unix(const char *path)
{
    struct sockaddr_un u = {.sun_family = AF_UNIX};
    (void)snprintf(u.sun_path, sizeof u.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&u, sizeof u), 0);
    return fd;
}

static void test_unix_socket(void **state)
{
    (void)state;
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/isotherm-test-%d.sock", (int)getpid());
    struct server *s = start_with((struct server_options){.n_loops = 2, .socket_path = path});
    char a[4096];
    int fd = dial_unix(path);
    say(fd, "GET /hi HTTP/1.1\r\n" CLOSE "\r\n");
    (void)hear(fd, a, sizeof a, NULL);
    assert_non_null(strstr(a, "\r\n\r\nGET"));
    close(fd);
    fd = dial_unix(path);
    say(fd, "GET /hold HTTP/1.1\r\n" CLOSE "\r\n");
    assert_true(wait_for(&n_held, 1, PATIENCE_MS));
    /* A second server must not take a living socket away. */
    struct failure f = {0};
    struct server *other = NULL;
    struct server_options o = {.n_loops = 1, .socket_path = path, .handler = handle};
    assert_false(server_start(&other, &o, &f));
    assert_non_null(strstr(f.message, "in use"));
    close(fd);
    assert_true(wait_for(&n_closed, 1, LEAVE_MS));
    server_stop(s, 1000);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_two_loops(void **state)
{
    (void)state;
    struct server *s = start_with((struct server_options){.n_loops = 2, .listen = "127.0.0.1:0"});
    char a[4096];
    atomic_store(&loops_seen, 0);
    for (int i = 0; i < 200 && atomic_load(&loops_seen) != 3; i++) {
        assert_int_equal(ask(s, "GET /later HTTP/1.1\r\n" CLOSE "\r\n", a, sizeof a), 200);
    }
    assert_int_equal(atomic_load(&loops_seen), 3);
    assert_ptr_not_equal(server_loop(s, 0), server_loop(s, 1));
    server_stop(s, 1000);
}

static void test_adopted_socket(void **state)
{
    (void)state;
    struct sockaddr_in a4 = {.sin_family = AF_INET};
    a4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a4, sizeof a4), 0);
    assert_int_equal(listen(fd, 10), 0);
    socklen_t len = sizeof a4;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a4, &len), 0);
    struct server *s = start_with((struct server_options){
        .n_loops = 2, .listen = "ignored", .adopted_fds = &fd, .n_adopted = 1});
    char a[4096];
    for (int i = 0; i < 5; i++) {
        int c = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(c, (struct sockaddr *)&a4, sizeof a4), 0);
        say(c, "GET /hi HTTP/1.1\r\n" CLOSE "\r\n");
        (void)hear(c, a, sizeof a, NULL);
        assert_non_null(strstr(a, "200 OK"));
        close(c);
    }
    server_stop(s, 1000);
    close(fd);
}

static void test_bad_addresses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "127.0.0.1", ":80", "127.0.0.1:", "127.0.0.1:x", "::1:80", "127.0.0.1:99999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct failure f = {0};
        struct server *s = NULL;
        struct server_options o = {.n_loops = 1, .listen = bad[i], .handler = handle};
        assert_false(server_start(&s, &o, &f));
        assert_int_equal(f.status, 500);
        assert_null(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_keep_alive_and_pipeline),
        cmocka_unit_test(test_upload),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_large_head),
        cmocka_unit_test(test_raw_requests),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_stream_comments),
        cmocka_unit_test(test_slow_client),
        cmocka_unit_test(test_leave_while_waiting),
        cmocka_unit_test(test_leave_before_first_piece),
        cmocka_unit_test(test_leave_in_the_middle),
        cmocka_unit_test(test_leave_with_a_full_pipe),
        cmocka_unit_test(test_leave_with_pipelined_request),
        cmocka_unit_test(test_leave_in_body),
        cmocka_unit_test(test_stop_ends_what_waits),
        cmocka_unit_test(test_in_flight_limit),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_two_loops),
        cmocka_unit_test(test_adopted_socket),
        cmocka_unit_test(test_bad_addresses),
    };
    return cmocka_run_group_tests_name("server", tests, NULL, NULL);
}
