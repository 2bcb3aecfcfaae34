/* bench_stream.c - what the daemon adds to the way of a streamed chunk: a provider of our own sends
 * one every 5 ms with the time of its sending as its text, to a client that reads from it directly
 * and to one that reads through isothermd, by turns, on the loopback. Median and 99th percentile of
 * each run; the last line is the median over the pairs. BENCH_CHECK=1: fails where that is above
 * its target. Usage: bench_stream; it starts the daemon of its own build folder.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAIRS      7
#define CHUNKS     200
#define PACE_NS    5000000
#define ADDED_US   100.0 /* at the median */
#define BODY_MAX   4096
#define STREAM_MAX (1 << 20)

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void send_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent <= 0) {
            fail("send");
        }
        p += sent;
        n -= (size_t)sent;
    }
}

/* ---- the provider */

/* One request, head and body. false: the other side has closed. */
static bool read_request(int fd)
{
    char text[BODY_MAX];
    size_t n = 0;
    for (;;) {
        ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
        if (got <= 0) {
            return false;
        }
        n += (size_t)got;
        text[n] = '\0';
        const char *end = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "content-length:");
        if (end && length && n >= (size_t)(end + 4 - text) + strtoul(length + 15, NULL, 10)) {
            return true;
        }
    }
}

/* One event as one chunk of the transfer coding. */
static void send_event(int fd, const char *data)
{
    char event[512], chunk[600];
    int n = snprintf(event, sizeof event, "data: %s\n\n", data);
    n = snprintf(chunk, sizeof chunk, "%x\r\n%s\r\n", (unsigned)n, event);
    send_all(fd, chunk, (size_t)n);
}

static void send_text(int fd, const char *text, const char *finish)
{
    char data[400];
    (void)snprintf(data, sizeof data,
                   "{\"id\":\"c-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":"
                   "\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},"
                   "\"finish_reason\":%s}]}",
                   text, finish);
    send_event(fd, data);
}

static void *serve(void *ud)
{
    int fd = (int)(intptr_t)ud, on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    static const char head[] = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                               "transfer-encoding: chunked\r\n\r\n";
    while (read_request(fd)) {
        send_all(fd, head, sizeof head - 1);
        uint64_t at = now_ns();
        for (int i = 0; i < CHUNKS; i++) {
            char text[32];
            at += PACE_NS;
            struct timespec t = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)};
            (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
            (void)snprintf(text, sizeof text, "%llu", (unsigned long long)now_ns());
            send_text(fd, text, "null");
        }
        send_text(fd, "", "\"stop\"");
        send_event(fd, "[DONE]");
        send_all(fd, "0\r\n\r\n", 5);
    }
    (void)close(fd);
    return NULL;
}

static void *accept_all(void *ud)
{
    for (;;) {
        pthread_t thread;
        int fd = accept((int)(intptr_t)ud, NULL, NULL);
        if (fd < 0 || pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) != 0) {
            fail("accept");
        }
        (void)pthread_detach(thread);
    }
    return NULL;
}

static struct sockaddr_in loopback(unsigned port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static unsigned start_provider(void)
{
    struct sockaddr_in a = loopback(0);
    socklen_t len = sizeof a;
    pthread_t thread;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, 16) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0 ||
        pthread_create(&thread, NULL, accept_all, (void *)(intptr_t)fd) != 0) {
        fail("provider");
    }
    return ntohs(a.sin_port);
}

/* ---- the daemon */

static char folder[] = "/tmp/bench-stream-XXXXXX";
static pid_t daemon_pid;

static void write_config(const char *path, const char *build, unsigned provider_port)
{
    FILE *f = fopen(path, "w");
    if (!f) {
        fail(path);
    }
    fprintf(f,
            "listen: 127.0.0.1:0\ncatalog_path: %s/catalog.db\nrecords_path: %s/records.db\n"
            "providers:\n  - name: bench\n    catalog: vllm\n"
            "    base_url: http://127.0.0.1:%u/v1\n",
            build, folder, provider_port);
    if (fclose(f) != 0) {
        fail(path);
    }
}

/* Its port, which it says in its log. The rest of the log is dropped. */
static unsigned wait_port(int log)
{
    char text[8192];
    size_t n = 0;
    while (n + 1 < sizeof text) {
        ssize_t got = read(log, text + n, sizeof text - 1 - n);
        if (got <= 0) {
            break;
        }
        n += (size_t)got;
        text[n] = '\0';
        const char *line = strstr(text, "listening"), *port = line ? strstr(line, "port=") : NULL;
        if (port && strpbrk(port, " \n")) {
            return (unsigned)strtoul(port + 5, NULL, 10);
        }
    }
    fprintf(stderr, "isothermd did not start\n");
    exit(1);
}

static void *drop_log(void *ud)
{
    char text[4096];
    while (read((int)(intptr_t)ud, text, sizeof text) > 0) {
    }
    return NULL;
}

static unsigned start_daemon(const char *build, unsigned provider_port)
{
    char config[128], program[512];
    int log[2];
    pthread_t thread;
    if (!mkdtemp(folder) || pipe(log) != 0) {
        fail("temporary folder");
    }
    (void)snprintf(config, sizeof config, "%s/isotherm.yaml", folder);
    (void)snprintf(program, sizeof program, "%s/isothermd", build);
    write_config(config, build, provider_port);
    daemon_pid = fork();
    if (daemon_pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void)dup2(log[1], STDERR_FILENO);
        (void)setenv("XDG_STATE_HOME", folder, 1);
        (void)execl(program, program, "--config", config, (char *)NULL);
        _exit(127);
    }
    (void)close(log[1]);
    unsigned port = wait_port(log[0]);
    if (pthread_create(&thread, NULL, drop_log, (void *)(intptr_t)log[0]) != 0) {
        fail("thread");
    }
    return port;
}

static void stop_daemon(void)
{
    char command[160];
    (void)kill(daemon_pid, SIGTERM);
    (void)waitpid(daemon_pid, NULL, 0);
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0) {
        fail(folder);
    }
}

/* ---- the client */

/* One stream: how long each chunk was under way. Returns their number. */
static size_t read_stream(unsigned port, double us[CHUNKS])
{
    static const char body[] = "{\"model\":\"bench/m\",\"stream\":true,"
                               "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}";
    static char text[STREAM_MAX];
    struct sockaddr_in a = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        fail("connect");
    }
    char head[256];
    int len = snprintf(head, sizeof head,
                       "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
                       "content-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
                       sizeof body - 1, body);
    send_all(fd, head, (size_t)len);
    size_t n = 0, n_chunks = 0;
    const char *seen = text;
    text[0] = '\0';
    while (!strstr(seen, "[DONE]")) {
        ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
        uint64_t at = now_ns();
        if (got <= 0) {
            fail("stream");
        }
        n += (size_t)got;
        text[n] = '\0';
        for (const char *p; (p = strstr(seen, "\"content\":\"")) && strchr(p + 11, '"');) {
            uint64_t sent = strtoull(p + 11, NULL, 10);
            if (sent > 0 && n_chunks < CHUNKS) {
                us[n_chunks++] = (double)(at - sent) / 1e3;
            }
            seen = p + 11;
        }
    }
    (void)close(fd);
    return n_chunks;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct figures {
    double median, p99;
};

static struct figures run(unsigned port)
{
    double us[CHUNKS];
    if (read_stream(port, us) != CHUNKS) {
        fprintf(stderr, "a chunk is missing\n");
        exit(1);
    }
    qsort(us, CHUNKS, sizeof *us, compare);
    return (struct figures){us[CHUNKS / 2], us[CHUNKS * 99 / 100]};
}

int main(int argc, char **argv)
{
    char build[400];
    double median[PAIRS], p99[PAIRS];
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    (void)snprintf(build, sizeof build, "%.*s/..", slash ? (int)(slash - argv[0]) : 1,
                   slash ? argv[0] : ".");
    unsigned direct_port = start_provider(), port = start_daemon(build, direct_port);
    double warm[CHUNKS];
    (void)read_stream(port, warm);
    for (int i = 0; i < PAIRS; i++) {
        struct figures direct = run(direct_port), through = run(port);
        median[i] = through.median - direct.median;
        p99[i] = through.p99 - direct.p99;
        printf("direct %6.1f us (99%%: %7.1f)   through %6.1f us (99%%: %7.1f)   added %6.1f us "
               "(99%%: %7.1f)\n",
               direct.median, direct.p99, through.median, through.p99, median[i], p99[i]);
    }
    stop_daemon();
    qsort(median, PAIRS, sizeof *median, compare);
    qsort(p99, PAIRS, sizeof *p99, compare);
    printf("added to a chunk: %.1f us at the median, %.1f us at the 99th percentile "
           "(medians of %d pairs of %d chunks; target %.0f us)\n",
           median[PAIRS / 2], p99[PAIRS / 2], PAIRS, CHUNKS, ADDED_US);
    return getenv("BENCH_CHECK") && median[PAIRS / 2] > ADDED_US;
}
