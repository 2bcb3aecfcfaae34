/* listen.c - see listen.h. */
#include "listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG           1024
#define ADDRESS_BYTES_MAX 256

static int fail(struct failure *f, const char *subject, const char *why)
{
    (void)failure_set(f, 500, "cannot_listen", NULL, "cannot listen on '%s': %s", subject, why);
    return -1;
}

/* Closes fd (-1 allowed) and reports errno. */
static int fail_errno(struct failure *f, const char *subject, int fd)
{
    int err = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    return fail(f, subject, strerror(err));
}

/* "host:port" or "[v6]:port" -> parts; false: not of this form. */
static bool split_address(const char *address, char *host, char *port, size_t cap)
{
    const char *colon = strrchr(address, ':');
    if (!colon || colon == address || strlen(address) >= cap) {
        return false;
    }
    const char *from = address;
    const char *to = colon;
    if (*from == '[' && to[-1] == ']') {
        from++;
        to--;
    } else if (memchr(from, ':', (size_t)(to - from))) {
        return false;
    }
    (void)snprintf(host, cap, "%.*s", (int)(to - from), from);
    (void)snprintf(port, cap, "%s", colon + 1);
    char *rest;
    unsigned long n = strtoul(port, &rest, 10); /* getaddrinfo would take the number modulo 65536 */
    return *host != '\0' && *port >= '0' && *port <= '9' && *rest == '\0' && n <= 65535;
}

static unsigned port_of(const struct sockaddr_storage *a)
{
    return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port
                                          : ((const struct sockaddr_in *)a)->sin_port);
}

static bool bind_and_listen(int fd, const struct addrinfo *ai, bool is_shared)
{
    int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (is_shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) ||
        (ai->ai_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) != 0)) {
        return false;
    }
    return bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
}

int listen_tcp(const char *address, bool is_shared, unsigned *port, struct failure *f)
{
    char host[ADDRESS_BYTES_MAX];
    char service[ADDRESS_BYTES_MAX];
    if (!split_address(address, host, service, sizeof host)) {
        return fail(f, address, "write host:port, for example 127.0.0.1:4117 or [::1]:4117");
    }
    if (*port) {
        (void)snprintf(service, sizeof service, "%u", *port);
    }
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *ai = NULL;
    int rc = getaddrinfo(host, service, &want, &ai);
    if (rc != 0) {
        return fail(f, address, gai_strerror(rc));
    }
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ok = fd >= 0 && bind_and_listen(fd, ai, is_shared);
    int err = errno;
    freeaddrinfo(ai);
    errno = err;
    struct sockaddr_storage got;
    socklen_t got_len = sizeof got;
    if (!ok || getsockname(fd, (struct sockaddr *)&got, &got_len) != 0) {
        return fail_errno(f, address, fd);
    }
    *port = port_of(&got);
    return fd;
}

/* Removes a socket nobody answers on. */
static bool clear_path(const struct sockaddr_un *a)
{
    struct stat st;
    if (lstat(a->sun_path, &st) != 0) {
        return errno == ENOENT;
    }
    errno = EADDRINUSE;
    if (!S_ISSOCK(st.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    bool is_dead = connect(fd, (const struct sockaddr *)a, sizeof *a) != 0 && errno == ECONNREFUSED;
    (void)close(fd);
    errno = EADDRINUSE;
    return is_dead && unlink(a->sun_path) == 0;
}

int listen_unix(const char *path, struct failure *f)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (*path == '\0' || strlen(path) >= sizeof a.sun_path) {
        return fail(f, path, "a socket's path has 1 to 107 bytes");
    }
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    if (!clear_path(&a)) {
        return fail_errno(f, path, -1);
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* The mode of the socket before bind becomes that of the file: there is no moment in which
       others may connect. */
    if (fd < 0 || fchmod(fd, 0660) != 0 || bind(fd, (const struct sockaddr *)&a, sizeof a) != 0 ||
        listen(fd, BACKLOG) != 0) {
        return fail_errno(f, path, fd);
    }
    return fd;
}
