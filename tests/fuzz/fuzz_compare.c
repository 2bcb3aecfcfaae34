/* fuzz_compare.c - another catalog's file: any bytes are compared or refused with one line of text
 * that names the file, and what is said stays within its fields. */
#include "catalog/compare.h"
#include "catalog/versions.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CLAIM(param, rest)                                                                         \
    "{\"models\":\"^gpt\",\"endpoint\":\"/chat\",\"param\":\"" param "\",\"wire\":\"" param        \
    "\",\"support\":\"yes\"," rest "\"source\":\"s\",\"as_of\":\"2026\",\"confidence\":\"low\"}"
static const char head[] =
    "{\"provider\":{\"id\":\"openai\",\"title\":\"P\",\"dialect\":\"openai\",\"auth\":\"none\","
    "\"chat_endpoint\":\"/chat\"},\"claims\":[";
static const char temperature[] = CLAIM("temperature", "\"min\":0,\"max\":2,\"default\":1,");
static const char max_tokens[] = CLAIM("max_tokens", "\"min\":0,\"min_exclusive\":true,");
static const char effort[] = CLAIM("reasoning_effort", "\"values\":[\"low\",\"high\"],");

/* One small catalog for all runs. */
static struct snapshot *open_snapshot(void)
{
    char folder[] = "/tmp/isotherm-fuzz-XXXXXX", db[64], file[64], rest[64];
    const char *one = file;
    struct catalog_version v;
    struct catalog *c = NULL;
    struct snapshot *s = NULL;
    if (!mkdtemp(folder)) {
        abort();
    }
    (void)snprintf(db, sizeof db, "%s/catalog.db", folder);
    (void)snprintf(file, sizeof file, "%s/source.json", folder);
    FILE *f = fopen(file, "wb");
    if (!f || fprintf(f, "%s%s,%s,%s]}", head, temperature, max_tokens, effort) < 0 ||
        fclose(f) != 0 ||
        !catalog_build(db, &one, 1, &(struct version_stamp){"a", "b", "2026-11-30T00:00:00Z"}, &v,
                       NULL) ||
        !catalog_open(&c, db, NULL) || !catalog_snapshot(c, 0, &s, NULL)) {
        abort();
    }
    catalog_close(c);
    static const char *const ends[] = {"catalog.db", "catalog.db-wal", "catalog.db-shm",
                                       "source.json"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        (void)snprintf(rest, sizeof rest, "%s/%s", folder, ends[i]);
        (void)remove(rest);
    }
    (void)rmdir(folder);
    return s;
}

static bool look(const struct comparison *c, void *ud)
{
    size_t *n = ud;
    ++*n;
    if (!c->model || !*c->model || !c->param || !*c->param || !memchr(c->ours, 0, sizeof c->ours) ||
        !memchr(c->theirs, 0, sizeof c->theirs) || !*c->ours || !*c->theirs ||
        (c->result <= COMPARE_DIFFERS && !c->claim)) {
        abort();
    }
    return *n < 100000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[32];
    static struct snapshot *snapshot;
    if (fd < 0) {
        fd = memfd_create("data.js", 0); /* catalog_compare() reads a path */
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        snapshot = open_snapshot();
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) {
        abort();
    }
    struct catalog_error err = {0};
    size_t n = 0;
    bool ok = catalog_compare(snapshot, path, "2026-11-30", look, &n, &err);
    if (ok ? err.code != CATALOG_OK
           : err.code == CATALOG_OK || !strstr(err.text, path) || strpbrk(err.text, "\n\r")) {
        abort();
    }
    return 0;
}
