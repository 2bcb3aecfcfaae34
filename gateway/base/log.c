/* How it works: the line is made in one array on the stack and leaves in one write(2), so that
 * lines of several threads never mix and nothing is allocated. A line that does not fit is cut at a
 * whole byte and says so with ` cut=1`.
 */
#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 4096 /* below PIPE_BUF: a write of it is atomic on a pipe too */
static const char cut_mark[] = " cut=1\n";

static atomic_int least_level = LOG_INFO;

struct line {
    char p[LINE_BYTES];
    size_t len;
    bool is_cut;
};

static void put(struct line *l, const char *p, size_t n)
{
    if (l->is_cut || n > sizeof l->p - sizeof cut_mark - l->len) {
        l->is_cut = true;
        return;
    }
    memcpy(l->p + l->len, p, n);
    l->len += n;
}

static bool is_plain(const char *s)
{
    if (*s == '\0') {
        return false;
    }
    for (const unsigned char *c = (const unsigned char *)s; *c; c++) {
        if (*c <= ' ' || *c == '"' || *c == '\\' || *c == '=' || *c == 0x7f) {
            return false;
        }
    }
    return true;
}

static void put_quoted(struct line *l, const char *s)
{
    put(l, "\"", 1);
    for (const unsigned char *c = (const unsigned char *)s; *c; c++) {
        char esc[8];
        int n;
        if (*c == '"' || *c == '\\') {
            n = snprintf(esc, sizeof esc, "\\%c", *c);
        } else if (*c == '\n') {
            n = snprintf(esc, sizeof esc, "\\n");
        } else if (*c < ' ' || *c == 0x7f) {
            n = snprintf(esc, sizeof esc, "\\x%02x", *c);
        } else {
            n = snprintf(esc, sizeof esc, "%c", *c);
        }
        put(l, esc, (size_t)n);
    }
    put(l, "\"", 1);
}

static void put_value(struct line *l, const char *s)
{
    if (is_plain(s)) {
        put(l, s, strlen(s));
    } else {
        put_quoted(l, s);
    }
}

void log_init(enum log_level least)
{
    atomic_store(&least_level, (int)least);
}

void log_write(enum log_level level, const char *event, ...)
{
    if ((int)level > atomic_load_explicit(&least_level, memory_order_relaxed)) {
        return;
    }
    struct line l = {.len = 0};
    char prefix[16];
    int n = snprintf(prefix, sizeof prefix, "<%d>", (int)level);
    put(&l, prefix, (size_t)n);
    put(&l, "event=", 6);
    put_value(&l, event);
    va_list ap;
    va_start(ap, event);
    const char *key;
    while ((key = va_arg(ap, const char *)) != NULL) {
        const char *value = va_arg(ap, const char *);
        put(&l, " ", 1);
        put(&l, key, strlen(key));
        put(&l, "=", 1);
        put_value(&l, value ? value : "");
    }
    va_end(ap);
    const char *end = l.is_cut ? cut_mark : "\n";
    size_t end_len = strlen(end);
    memcpy(l.p + l.len, end, end_len); /* put() left room for the longer of both */
    /* A log that cannot be written (closed pipe, full disk) must not stop the daemon. */
    (void)!write(STDERR_FILENO, l.p, l.len + end_len);
}
