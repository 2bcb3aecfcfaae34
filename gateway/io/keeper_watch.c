/* keeper_watch.c - see keeper_watch.h. The folder is watched and not the file: a file that is
 * renamed over another one never shows an event of its own. */
#include "keeper_watch.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define POLL_MS         10000 /* a net below inotify */
#define POLL_UNAIDED_MS 400   /* a new version is to be found within a second */
#define FOLDER_MAX      4096

void keeper_trace_take(const char *path, struct keeper_trace *t)
{
    char wal[FOLDER_MAX + 8];
    struct stat st;
    memset(t, 0, sizeof *t);
    if (stat(path, &st) != 0) {
        return;
    }
    t->is_there = true;
    t->dev = st.st_dev;
    t->ino = st.st_ino;
    t->size = st.st_size;
    t->time = st.st_ctim;
    /* Not when its state was changed: SQLite gives the log to the file's owner whenever root opens
     * it, so the keeper's own load would be news to it, once a second for ever. */
    if ((size_t)snprintf(wal, sizeof wal, "%s-wal", path) < sizeof wal && stat(wal, &st) == 0) {
        t->wal_ino = st.st_ino;
        t->wal_size = st.st_size;
        t->wal_time = st.st_mtim;
    }
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool keeper_trace_is_same_file(const struct keeper_trace *a, const struct keeper_trace *b)
{
    return a->is_there && b->is_there && a->dev == b->dev && a->ino == b->ino;
}

bool keeper_trace_equal(const struct keeper_trace *a, const struct keeper_trace *b)
{
    if (!a->is_there || !b->is_there) {
        return a->is_there == b->is_there;
    }
    return keeper_trace_is_same_file(a, b) && a->size == b->size && a->wal_ino == b->wal_ino &&
           a->wal_size == b->wal_size && same_time(a->time, b->time) &&
           same_time(a->wal_time, b->wal_time);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void keeper_watch_init(struct keeper_watch *w, const char *path)
{
    *w = (struct keeper_watch){.path = path, .fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    w->wd = -1;
    keeper_watch_renew(w);
}

void keeper_watch_release(struct keeper_watch *w)
{
    if (w->fd >= 0) {
        (void)close(w->fd); /* only read */
    }
    w->fd = w->wd = -1;
}

static void drop_watch(struct keeper_watch *w)
{
    if (w->wd >= 0) {
        (void)inotify_rm_watch(w->fd, w->wd); /* it may have gone by itself */
        w->wd = -1;
    }
}

/* Asked again for a folder that is watched already, the kernel gives the same number; another one
 * where a folder above it was replaced, of which no event tells. */
void keeper_watch_renew(struct keeper_watch *w)
{
    char folder[FOLDER_MAX];
    struct stat st;
    const char *base = base_name(w->path);
    int n = (int)(base - w->path);
    if (w->fd < 0 || n >= FOLDER_MAX || (lstat(w->path, &st) == 0 && S_ISLNK(st.st_mode))) {
        drop_watch(w); /* what a link points to changes in a folder that is not watched */
        return;
    }
    (void)snprintf(folder, sizeof folder, "%.*s", n ? n : 1, n ? w->path : ".");
    int wd = inotify_add_watch(w->fd, folder,
                               IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE |
                                   IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF |
                                   IN_ONLYDIR);
    if (wd != w->wd) {
        drop_watch(w);
        w->wd = wd;
    }
}

static bool is_about(const struct keeper_watch *w, const struct inotify_event *e)
{
    const char *base = base_name(w->path);
    size_t n = strlen(base);
    return e->len > 0 && strncmp(e->name, base, n) == 0 &&
           (e->name[n] == '\0' || strcmp(e->name + n, "-wal") == 0);
}

bool keeper_watch_take(struct keeper_watch *w)
{
    _Alignas(struct inotify_event) char buf[4096 + NAME_MAX];
    bool found = false, is_gone = false;
    ssize_t n;
    while (w->fd >= 0 && (n = read(w->fd, buf, sizeof buf)) > 0) {
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const struct inotify_event *)(buf + at);
            at += (ssize_t)(sizeof *e + e->len);
            /* an overflow has lost events, perhaps of ours */
            found = found || is_about(w, e) || (e->mask & IN_Q_OVERFLOW);
            is_gone =
                is_gone || (e->wd == w->wd &&
                            (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)));
        }
    }
    if (is_gone) {
        drop_watch(w);
        found = true;
    }
    return found;
}

int64_t keeper_watch_poll_ms(const struct keeper_watch *w)
{
    return w->wd >= 0 ? POLL_MS : POLL_UNAIDED_MS;
}
