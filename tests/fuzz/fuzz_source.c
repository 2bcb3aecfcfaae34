/* fuzz_source.c - a source of the catalog: any bytes are loaded or refused with one line of text
 * that names the file; what is loaded is whole. */
#include "catalog/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[32];
    if (fd < 0) {
        /* source_load() reads a path: a file in memory has one. */
        fd = memfd_create("source.json", 0);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) {
        abort();
    }
    struct catalog_error err = {0};
    struct source s = {0};
    if (source_load(&s, path, &err)) {
        size_t last = source_line((const char *)data, size, s.n_claims);
        if (!s.id || !s.hashes || s.n_claims != json_array_size(s.claims) || last == 0) {
            abort();
        }
    } else if (s.root || err.code == CATALOG_OK || !strstr(err.text, path) ||
               strpbrk(err.text, "\n\r\t")) {
        abort();
    }
    source_release(&s);
    return 0;
}
