/* config_keys.c - keys are never in the configuration: it names where they are. */
#include "config_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES_MAX 4095

/* What of a file's mode must not be set. */
static const char *read_closed(const char *path, mode_t open_to, char *out, size_t cap, size_t *len)
{
    /* O_NONBLOCK: a FIFO must not hold the daemon. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    const char *why = NULL;
    *len = 0;
    if (fd < 0 || fstat(fd, &st) != 0) {
        why = strerror(errno);
    } else if (!S_ISREG(st.st_mode)) {
        why = "not a regular file";
    } else if (st.st_mode & open_to) {
        why = "others may read or write it, take that right away (chmod o-rw)";
    }
    ssize_t n = 1;
    while (!why && n > 0 && *len < cap) {
        n = read(fd, out + *len, cap - *len);
        if (n < 0 && errno == EINTR) {
            n = 1;
        } else if (n < 0) {
            why = strerror(errno);
        } else {
            *len += (size_t)n;
        }
    }
    if (fd >= 0) {
        (void)close(fd); /* only read */
    }
    return why;
}

const char *config_read_file(const char *path, char *out, size_t cap, size_t *len)
{
    return read_closed(path, 0, out, cap, len);
}

/* NULL, or why there is no key in the file. */
static const char *read_key(const char *path, mode_t open_to, char *out, size_t cap)
{
    char key[CONFIG_KEY_BYTES_MAX + 2]; /* a line end, and one byte that says too long */
    size_t n;
    const char *why = read_closed(path, open_to, key, sizeof key, &n);
    if (!why) {
        n -= n && n < sizeof key && key[n - 1] == '\n';
        n -= n && n < sizeof key && key[n - 1] == '\r';
        why = n == 0                                         ? "it is empty"
              : n > CONFIG_KEY_BYTES_MAX || n >= cap         ? "it is longer than 4096 bytes"
              : memchr(key, '\0', n) || memchr(key, '\n', n) ? "it holds more than one line"
                                                             : NULL;
    }
    if (!why) {
        memcpy(out, key, n);
        out[n] = '\0';
    }
    explicit_bzero(key, sizeof key);
    return why;
}

static bool read_credential(const char *name, char *out, size_t cap)
{
    const char *dir = getenv("CREDENTIALS_DIRECTORY");
    char path[PATH_BYTES_MAX + 1];
    if (!dir || !*dir || strchr(name, '/') || name[0] == '.') {
        return false;
    }
    int n_path = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n_path > 0 && (size_t)n_path < sizeof path && !read_key(path, 0, out, cap);
}

bool config_key(const char *name, char *out, size_t cap)
{
    if (!name || !*name) {
        return false;
    }
    const char *value = getenv(name);
    if (!value || !*value) {
        return read_credential(name, out, cap);
    }
    size_t n = strlen(value);
    if (n > CONFIG_KEY_BYTES_MAX || n >= cap) {
        return false;
    }
    memcpy(out, value, n + 1);
    return true;
}

const char *config_key_file(const char *path, char *out, size_t cap)
{
    return read_key(path, S_IROTH | S_IWOTH, out, cap);
}
