/* known_file.c - read whole, written whole: it has a few lines. */
#include "known_file.h"

#include "gateway/base/buf.h"
#include "gateway/base/log.h"
#include "local-engine/known.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HEX = 64, LINE = 2 * HEX + 2 };

static bool is_hash(const char *s)
{
    return strlen(s) == HEX && strspn(s, "0123456789abcdef") == HEX;
}

/* The lines that stay, after the new one. */
static void add_old(struct buf *b, const char *path, const char *identity)
{
    char line[160];
    FILE *f = fopen(path, "re");
    for (int n = 1; f && n < KNOWN_LINES_MAX && fgets(line, sizeof line, f);) {
        if (strlen(line) == LINE && strncmp(line, identity, HEX) != 0) {
            (void)buf_append(b, line, LINE); /* failure shows in b */
            n++;
        }
    }
    if (f) {
        (void)fclose(f); /* it was only read */
    }
}

static bool replace(const char *path, const struct buf *b)
{
    char temp[PATH_MAX];
    if (snprintf(temp, sizeof temp, "%s.new", path) >= (int)sizeof temp) {
        errno = ENAMETOOLONG;
        return false;
    }
    FILE *f = fopen(temp, "we");
    bool ok = f && fwrite(b->p, 1, b->len, f) == b->len;
    if (f) {
        ok = fclose(f) == 0 && ok;
    }
    ok = ok && rename(temp, path) == 0;
    if (!ok) {
        int why = errno;
        (void)unlink(temp);
        errno = why;
    }
    return ok;
}

void known_file_add(const char *path, const char *identity, const char *hash)
{
    char old[HEX + 1];
    struct buf b;
    if (!is_hash(identity) || !is_hash(hash) ||
        (known_find(path, identity, old) && strcmp(old, hash) == 0)) {
        return;
    }
    buf_init(&b, (size_t)KNOWN_LINES_MAX * LINE);
    (void)buf_printf(&b, "%s %s\n", identity, hash); /* failure shows in b */
    add_old(&b, path, identity);
    if (b.is_failed || !replace(path, &b)) {
        log_write(LOG_INFO, "weights_hash_not_kept", "path", path, "error", strerror(errno), NULL);
    }
    buf_release(&b);
}
