/* versions_help.h - what test_versions.c and test_versions_moving.c share: small catalogs, built,
 * set and asked. */
#ifndef ISOTHERM_TESTS_VERSIONS_HELP_H
#define ISOTHERM_TESTS_VERSIONS_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "catalog/db.h"
#include "catalog/evidence.h"
#include "catalog/source.h"
#include "catalog/versions.h"

#define CREATED "2026-11-30T12:00:00Z"
#define AS_OF   "2026-01-01"

#define HELPER __attribute__((unused)) static

static char folder[] = "/tmp/isotherm-versions-XXXXXX";
static char db_path[128], other_db[128], source_path[128], second_path[128], file_path[128];
static const struct version_stamp stamp = {"me", "because", CREATED};

/* ---- helpers */

#define PROVIDER(id, title)                                                                        \
    "\"provider\":{\"id\":\"" id "\",\"title\":\"" title                                           \
    "\",\"dialect\":\"openai\",\"auth\":\"none\",\"chat_endpoint\":\"/chat\"}"
#define CLAIM(models, param, rest)                                                                 \
    "{\"models\":\"" models "\",\"endpoint\":\"/chat\",\"param\":\"" param "\",\"wire\":\"" param  \
    "\",\"support\":\"yes\"," rest "\"source\":\"s\",\"as_of\":\"" AS_OF                           \
    "\",\"confidence\":\"high\"}"
#define SOURCE(claims) "{" PROVIDER("p", "P") ",\"claims\":[" claims "]}"

HELPER void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

HELPER char *read_text(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *data = malloc(8 << 20);
    assert_non_null(f);
    assert_non_null(data);
    *len = fread(data, 1, (8 << 20) - 1, f);
    data[*len] = '\0';
    (void)fclose(f);
    return data;
}

HELPER struct catalog_version must_build_at(const char *path, const char *text)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    const char *one = source_path;
    write_text(source_path, text);
    if (!catalog_build(path, &one, 1, &stamp, &v, &err)) {
        fail_msg("%s", err.text);
    }
    return v;
}

HELPER struct catalog_version must_build(const char *text)
{
    return must_build_at(db_path, text);
}

HELPER bool set(const char *models, const char *param, const char *fields, int64_t like,
                struct catalog_version *v, struct catalog_error *err)
{
    json_t *f = json_loads(fields, 0, NULL);
    assert_non_null(f);
    struct version_override o = {"p", models, NULL, param, f, like};
    bool ok = catalog_set(db_path, &o, &stamp, v, err);
    json_decref(f);
    return ok;
}

HELPER struct catalog_version must_set(const char *models, const char *param, const char *fields)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    if (!set(models, param, fields, 0, &v, &err)) {
        fail_msg("%s", err.text);
    }
    return v;
}

HELPER struct catalog_version must_unset(const char *models, const char *param)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    struct version_override o = {"p", models, NULL, param, NULL, 0};
    if (!catalog_unset(db_path, &o, &stamp, &v, &err)) {
        fail_msg("%s", err.text);
    }
    return v;
}

HELPER struct catalog *must_open(const char *path)
{
    struct catalog_error err = {0};
    struct catalog *c = NULL;
    if (!catalog_open(&c, path, &err)) {
        fail_msg("%s", err.text);
    }
    return c;
}

/* What a version says of a parameter: of at most one claim. */
struct said {
    int n;
    double max;
    int64_t id;
    bool is_local;
    char order[256]; /* of all claims: "models/param=max " */
};

HELPER bool note_claim(const struct claim *c, void *ud)
{
    struct said *s = ud;
    size_t n = strlen(s->order);
    s->n++;
    s->max = c->max;
    s->id = c->id;
    s->is_local = c->is_local;
    (void)snprintf(s->order + n, sizeof s->order - n, "%s/%s=%g ", c->models, c->param, c->max);
    return true;
}

/* Loading a snapshot checks the hash of the version, too. */
HELPER struct said say_at(const char *path, int64_t version, const char *param)
{
    struct catalog_error err = {0};
    struct catalog *c = must_open(path);
    struct snapshot *s = NULL;
    struct said said = {0};
    if (!catalog_snapshot(c, version, &s, &err)) {
        fail_msg("%s", err.text);
    }
    snapshot_each(s, NULL, NULL, param, note_claim, &said);
    snapshot_release(s);
    catalog_close(c);
    return said;
}

HELPER struct said say(const char *param)
{
    return say_at(db_path, 0, param);
}

struct conflict_seen {
    int n;
    int64_t version;
    double base, shipped, local; /* max; -1: not there */
};

HELPER double max_of(const json_t *claim)
{
    return claim ? json_number_value(json_object_get(claim, "max")) : -1;
}

HELPER bool note_conflict(const struct version_conflict *f, void *ud)
{
    struct conflict_seen *s = ud;
    *s = (struct conflict_seen){s->n + 1, f->version, max_of(f->base), max_of(f->shipped),
                                max_of(f->local)};
    return true;
}

HELPER struct conflict_seen conflicts_of(int64_t version)
{
    struct catalog_error err = {0};
    struct catalog *c = must_open(db_path);
    struct conflict_seen s = {0};
    if (!catalog_conflicts(c, version, note_conflict, &s, &err)) {
        fail_msg("%s", err.text);
    }
    catalog_close(c);
    return s;
}

HELPER void remove_db(const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char name[160];
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, ends[i]);
        (void)remove(name);
    }
}

HELPER bool make_folder(void)
{
    if (!mkdtemp(folder)) {
        return false;
    }
    (void)snprintf(db_path, sizeof db_path, "%s/catalog.db", folder);
    (void)snprintf(other_db, sizeof other_db, "%s/other.db", folder);
    (void)snprintf(source_path, sizeof source_path, "%s/source.json", folder);
    (void)snprintf(second_path, sizeof second_path, "%s/second.json", folder);
    (void)snprintf(file_path, sizeof file_path, "%s/export.json", folder);
    return true;
}

HELPER int setup(void **state)
{
    (void)state;
    remove_db(db_path);
    remove_db(other_db);
    (void)remove(source_path);
    (void)remove(second_path);
    (void)remove(file_path);
    return 0;
}

#define OURS ",\"source\":\"ours\",\"as_of\":\"2026-11-30\""
static const char three[] = SOURCE(CLAIM("*", "temperature", "\"min\":0,\"max\":1,") "," CLAIM(
    "^a$", "top_p", "\"max\":1,") "," CLAIM("*", "top_k", "\"max\":40,"));

/* A document with one claim that was taken away; its hash is made here by the rule in transfer.c.
 */
HELPER void write_removal(double max)
{
    char claim[400], text[1200], hex[SHA256_HEX_LEN];
    unsigned char hashes[2][SHA256_LEN], digest[SHA256_LEN];
    struct catalog_error err = {0};
    struct catalog_sha256 h;
    (void)snprintf(claim, sizeof claim, CLAIM("*", "seed", "\"max\":%g,\"removed\":true,"), max);
    json_t *provider = json_pack("{s:s}", "id", "p"), *j = json_loads(claim, 0, NULL);
    assert_int_equal(json_object_set_new(j, "provider", json_string("p")), 0);
    assert_true(source_hash(provider, hashes[0], &err) && source_hash(j, hashes[1], &err));
    catalog_sha256_init(&h);
    catalog_sha256_add(&h, hashes, sizeof hashes);
    catalog_sha256_end(&h, digest);
    catalog_sha256_hex(digest, hex);
    (void)snprintf(text, sizeof text,
                   "{\"catalog\":{\"format\":1,\"content\":\"overrides\",\"hash\":\"%s\"},"
                   "\"providers\":[{\"provider\":{\"id\":\"p\"},\"claims\":[%s]}]}",
                   hex, claim);
    write_text(file_path, text);
    json_decref(provider);
    json_decref(j);
}

HELPER void set_local(int base, int local)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    char fields[200];
    if (local == base) {
        return;
    }
    if (local == 0) {
        write_removal(base);
        if (!catalog_import(db_path, file_path, &stamp, &v, &err)) {
            fail_msg("%s", err.text);
        }
        return;
    }
    (void)snprintf(fields, sizeof fields,
                   "{\"max\":%d,\"wire\":\"seed\",\"support\":\"yes\",\"confidence\":\"high\","
                   "\"source\":\"s\",\"as_of\":\"" AS_OF "\"}",
                   local);
    (void)must_set("*", "seed", fields);
}

/* Shipped data: the claim in question with that maximum (0: without it), between two others. */
HELPER struct catalog_version ship(int max, int other)
{
    char text[1600], claim[300];
    (void)snprintf(claim, sizeof claim, CLAIM("*", "seed", "\"max\":%d,") ",", max);
    (void)snprintf(
        text, sizeof text,
        SOURCE(CLAIM("*", "top_k", "\"max\":%d,") ",%s" CLAIM("*", "top_p", "\"max\":1,")), other,
        max ? claim : "");
    return must_build(text);
}

#endif
