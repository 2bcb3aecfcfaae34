/* fuzz_catalog_import.c - any bytes as a document for `catalog import`: refused in one line, or the
 * version that it makes can be read again. The hash in a document is made right first, so that what
 * lies behind that check is reached, too. */
#include "catalog/transfer.c" /* for the hash of a document */

#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char db_path[64], base_path[64], file_path[64];

#define CLAIM(param, rest)                                                                         \
    "{\"models\":\"*\",\"endpoint\":\"/chat\",\"param\":\"" param "\",\"wire\":\"" param           \
    "\",\"support\":\"yes\"," rest "\"source\":\"s\",\"as_of\":\"2026\",\"confidence\":\"high\"}"
static const char base[] =
    "{\"provider\":{\"id\":\"p\",\"title\":\"P\",\"dialect\":\"openai\",\"auth\":\"none\"},"
    "\"claims\":[" CLAIM("seed", "\"max\":1,") "," CLAIM("top_k", "\"max\":40,") "]}";

static void write_file(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, len, f) != len || fclose(f) != 0) {
        abort();
    }
}

static void remove_db(void)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char name[96];
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "%s%s", db_path, ends[i]);
        (void)unlink(name);
    }
}

static void prepare(void)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    struct version_stamp stamp = {"a", "r", "2026-11-30T12:00:00Z"};
    const char *one = base_path;
    char folder[] = "/dev/shm/isotherm-fuzz-XXXXXX";
    if (db_path[0]) {
        return;
    }
    if (!mkdtemp(folder)) {
        abort();
    }
    (void)snprintf(db_path, sizeof db_path, "%s/c.db", folder);
    (void)snprintf(base_path, sizeof base_path, "%s/p.json", folder);
    (void)snprintf(file_path, sizeof file_path, "%s/f.json", folder);
    write_file(base_path, base, sizeof base - 1);
    if (!catalog_build(db_path, &one, 1, &stamp, &v, &err)) {
        abort();
    }
}

static void check_readable(const struct catalog_version *v)
{
    struct catalog_error err = {0};
    struct catalog *c;
    struct snapshot *s;
    if (!catalog_open(&c, db_path, &err) || !catalog_snapshot(c, v->number, &s, &err)) {
        (void)fprintf(stderr, "%s\n", err.text);
        abort();
    }
    snapshot_release(s);
    catalog_close(c);
}

/* Puts the right hash into a document that is one in form. */
static void correct_hash(const uint8_t *data, size_t size)
{
    struct catalog_error err = {0};
    char hash[SHA256_HEX_LEN];
    json_t *root = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    json_t *head = json_object_get(root, "catalog");
    json_t *providers = json_object_get(root, "providers");
    if (json_is_object(head) && check_entries("fuzz", providers, &err) &&
        document_hash(providers, hash, &err) &&
        json_object_set_new(head, "hash", json_string(hash)) == 0) {
        char *text = json_dumps(root, 0);
        if (text) {
            write_file(file_path, text, strlen(text));
        }
        free(text);
    }
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct catalog_error err = {0};
    struct catalog_version v = {0};
    struct version_stamp stamp = {"a", "r", "2026-11-30T12:00:00Z"};
    if (size > 100000) {
        return 0;
    }
    prepare();
    write_file(file_path, data, size);
    correct_hash(data, size);
    if (catalog_import(db_path, file_path, &stamp, &v, &err)) {
        check_readable(&v);
    } else if (err.code == CATALOG_OK || err.text[0] == '\0' || strchr(err.text, '\n')) {
        abort();
    }
    if (v.number > 50) { /* a small database is a quick one */
        remove_db();
        db_path[0] = '\0';
    }
    return 0;
}
