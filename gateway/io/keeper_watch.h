/* keeper_watch.h - tells when a database file may have changed: written, replaced by rename, made,
 * removed. One thread.
 *
 * inotify on the file's folder for the file and its write-ahead log; where that does not work (no
 * such folder yet, a link into another folder, no watches left) the caller polls more often. Either
 * way the trace (inode, size and time of both files) says whether there is something to look at.
 */
#ifndef ISOTHERM_KEEPER_WATCH_H
#define ISOTHERM_KEEPER_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct keeper_trace {
    bool is_there;
    dev_t dev;
    ino_t ino, wal_ino;
    off_t size, wal_size;
    struct timespec time;     /* of the inode's change: rights count too */
    struct timespec wal_time; /* of the content's */
};
void keeper_trace_take(const char *path, struct keeper_trace *t);
bool keeper_trace_equal(const struct keeper_trace *a, const struct keeper_trace *b);
bool keeper_trace_is_same_file(const struct keeper_trace *a, const struct keeper_trace *b);

struct keeper_watch {
    const char *path; /* borrowed */
    int fd, wd;       /* -1: none */
};
void keeper_watch_init(struct keeper_watch *w, const char *path);
void keeper_watch_release(struct keeper_watch *w);
/* Sets the watch where it is not set. */
void keeper_watch_renew(struct keeper_watch *w);
/* Reads all events; whether one was about the file. Never blocks. */
bool keeper_watch_take(struct keeper_watch *w);
/* How long to wait at most before the trace is looked at. */
int64_t keeper_watch_poll_ms(const struct keeper_watch *w);

#endif
