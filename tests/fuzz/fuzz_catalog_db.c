/* fuzz_catalog_db.c - any bytes as a catalog database: refused in one line, or every claim of its
 * newest version can be read. In a folder in memory, since SQLite wants a file. */
#include "catalog/versions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void remove_all(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char name[96];
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, ends[i]);
        (void)unlink(name);
    }
}

static void make_folder(void)
{
    char folder[] = "/dev/shm/isotherm-fuzz-XXXXXX";
    if (!mkdtemp(folder)) {
        abort();
    }
    (void)snprintf(path, sizeof path, "%s/c.db", folder);
}

static void must_say_why(const struct catalog_error *err)
{
    if (err->code == CATALOG_OK || err->text[0] == '\0' || strchr(err->text, '\n')) {
        abort();
    }
}

static bool read_claim(const struct claim *c, void *ud)
{
    *(size_t *)ud += strlen(c->provider) + strlen(c->models) + strlen(c->param) + strlen(c->source);
    return true;
}

static bool read_version(const struct catalog_version *v, void *ud)
{
    *(size_t *)ud += strlen(v->reason);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct catalog_error err = {0};
    struct catalog *c = NULL;
    struct snapshot *s = NULL;
    size_t sum = 0;
    if (!path[0]) {
        make_folder();
    }
    remove_all();
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) {
        abort();
    }
    if (!catalog_open(&c, path, &err)) {
        must_say_why(&err);
        return 0;
    }
    if (catalog_snapshot(c, 0, &s, &err)) {
        snapshot_each(s, NULL, "m", NULL, read_claim, &sum);
        snapshot_release(s);
    } else {
        must_say_why(&err);
    }
    err = (struct catalog_error){0};
    if (!catalog_versions(c, read_version, &sum, &err)) {
        must_say_why(&err);
    }
    catalog_close(c);
    remove_all();
    return (int)(sum & 0); /* the sum keeps the reads */
}
