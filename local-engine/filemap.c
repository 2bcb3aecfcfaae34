/* filemap.c - open, look, map, close: the mapping outlives the descriptor. */
#include "filemap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* O_NONBLOCK: a pipe with that name is refused, not waited for. */
bool filemap_open(struct filemap *out, const char *path, const char *label, size_t n_min,
                  const char *kind, struct engine_error *err)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return engine_fail(err, ENGINE_IO, "", "%s: cannot be read: %s", label, strerror(errno));
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)close(fd);
        return engine_fail(err, ENGINE_IO, "", "%s: is no regular file", label);
    }
    if ((uint64_t)info.st_size < n_min) {
        (void)close(fd);
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: %lld bytes are no %s file", label,
                           (long long)info.st_size, kind);
    }
    void *p = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    if (p == MAP_FAILED) {
        return engine_fail(err, ENGINE_IO, "", "%s: cannot be mapped: %s", label, strerror(errno));
    }
    *out = (struct filemap){.bytes = p,
                            .n = (size_t)info.st_size,
                            .device = (uint64_t)info.st_dev,
                            .inode = (uint64_t)info.st_ino,
                            .changed_ns =
                                (int64_t)info.st_ctim.tv_sec * 1000000000 + info.st_ctim.tv_nsec};
    return true;
}

void filemap_close(struct filemap *f)
{
    if (f->bytes) {
        (void)munmap((void *)(uintptr_t)f->bytes, f->n);
    }
    *f = (struct filemap){0};
}

void filemap_forget(const struct filemap *f)
{
    if (f->bytes) {
        (void)madvise((void *)(uintptr_t)f->bytes, f->n, MADV_DONTNEED); /* nothing is lost */
    }
}

const char *filemap_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
