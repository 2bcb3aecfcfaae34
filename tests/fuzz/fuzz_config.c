/* fuzz_config.c - the configuration file: any bytes are loaded or refused with one line of text
 * that names the file. */
#include "gateway/base/config.h"

#include <stdint.h>
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
        /* config_load() reads a path: a file in memory has one, and no conf.d beside it. */
        fd = memfd_create("isotherm.yaml", 0);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) {
        abort();
    }
    struct config *c = NULL;
    struct config_error err = {0};
    if (config_load(&c, path, &err)) {
        if (!c || !c->listen || !c->fallback || c->threads > 64 || c->connect_ms < 1) {
            abort();
        }
    } else if (c || strncmp(err.text, path, strlen(path)) != 0 || strpbrk(err.text, "\n\r\t")) {
        abort();
    }
    config_free(c);
    return 0;
}
