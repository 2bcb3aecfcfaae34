/* test_catalog.c - building, versions, snapshots and rules; damaged databases and wrong sources. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalog/versions.h"

#define DAY     "2026-11-30"
#define CREATED "2026-11-30T12:00:00Z"

static char folder[] = "/tmp/isotherm-catalog-XXXXXX";
static char db_path[128], source_path[128], other_path[128];

/* ---- helpers */

#define PROVIDER                                                                                   \
    "\"provider\":{\"id\":\"p\",\"title\":\"P\",\"dialect\":\"openai\",\"auth\":\"none\","         \
    "\"chat_endpoint\":\"/chat\",\"text_endpoint\":\"/text\",\"stand_in\":\"new\"}"
#define TAIL "\"source\":\"s\",\"as_of\":\"2026-01-01\",\"confidence\":\"high\""
#define CLAIM(models, param, rest)                                                                 \
    "{\"models\":\"" models "\",\"endpoint\":\"/chat\",\"param\":\"" param "\",\"wire\":\"" param  \
    "\",\"support\":\"yes\"," rest TAIL "}"

static void write_file(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *data = malloc(4 << 20);
    assert_non_null(f);
    assert_non_null(data);
    *len = fread(data, 1, 4 << 20, f);
    (void)fclose(f);
    return data;
}

static bool build_text(const char *text, struct catalog_version *v, struct catalog_error *err)
{
    const char *one = source_path;
    write_file(source_path, text, strlen(text));
    return catalog_build(db_path, &one, 1, &(struct version_stamp){"me", "because", CREATED}, v,
                         err);
}

static void must_build(const char *text, struct catalog_version *v)
{
    struct catalog_error err = {0};
    if (!build_text(text, v, &err)) {
        fail_msg("%s", err.text);
    }
}

static struct snapshot *must_snapshot(int64_t version)
{
    struct catalog_error err = {0};
    struct catalog *c = NULL;
    struct snapshot *s = NULL;
    if (!catalog_open(&c, db_path, &err) || !catalog_snapshot(c, version, &s, &err)) {
        fail_msg("%s", err.text);
    }
    catalog_close(c); /* a snapshot lives without it */
    return s;
}

static void must_rules(const struct snapshot *s, const char *provider, const char *model,
                       const char *day, struct rules *r)
{
    struct catalog_error err = {0};
    if (!snapshot_rules(s, provider, model, CATALOG_CHAT, day, r, &err)) {
        fail_msg("%s", err.text);
    }
}

static void clean(void)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[160];
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s%s", db_path, ends[i]);
        (void)remove(path);
    }
    (void)remove(source_path);
    (void)remove(other_path);
}

static int setup(void **state)
{
    (void)state;
    clean();
    return 0;
}

/* ---- building */

static void test_versions(void **state)
{
    (void)state;
    struct catalog_version a, b, c, d;
    must_build("{" PROVIDER ",\"claims\":[" CLAIM("*", "temperature", "\"max\":1,") "]}", &a);
    must_build("{" PROVIDER ",\"claims\":[" CLAIM("*", "temperature", "\"max\":1,") "]}", &b);
    /* The order of keys and fields that say nothing are no content. */
    must_build("{\"claims\":[" CLAIM("*", "temperature",
                                     "\"integer\":false,\"min\":null,\"max\":1,") "]," PROVIDER "}",
               &b);
    must_build("{" PROVIDER ",\"claims\":[" CLAIM("*", "temperature", "\"max\":2,") "]}", &c);
    must_build("{" PROVIDER ",\"claims\":[" CLAIM("*", "temperature", "\"max\":1,") "]}", &d);
    assert_int_equal(a.number, 1);
    assert_int_equal(a.parent, 0);
    assert_int_equal(b.number, 1);
    assert_int_equal(c.number, 2);
    assert_int_equal(c.parent, 1);
    assert_int_equal(d.number, 3);
    assert_string_equal(a.hash, d.hash);
    assert_string_not_equal(a.hash, c.hash);
    assert_string_equal(c.author, "me");
    assert_string_equal(c.reason, "because");
    assert_string_equal(c.created, CREATED);

    struct snapshot *one = must_snapshot(1), *two = must_snapshot(2), *newest = must_snapshot(0);
    struct rules r1, r2, r3;
    must_rules(one, "p", "m", DAY, &r1);
    must_rules(two, "p", "m", DAY, &r2);
    must_rules(newest, "p", "m", DAY, &r3);
    assert_true(r1.param[PARAM_TEMPERATURE]->max == 1);
    assert_true(r2.param[PARAM_TEMPERATURE]->max == 2);
    assert_int_equal(snapshot_version(newest), 3);
    /* The same claim is the same row in every version. */
    assert_int_equal(r1.param[PARAM_TEMPERATURE]->id, r3.param[PARAM_TEMPERATURE]->id);
    assert_int_not_equal(r1.param[PARAM_TEMPERATURE]->id, r2.param[PARAM_TEMPERATURE]->id);
    assert_string_equal(snapshot_hash(one), a.hash);
    snapshot_release(one);
    snapshot_release(two);
    snapshot_release(newest);
}

static bool count_version(const struct catalog_version *v, void *ud)
{
    int64_t *n = ud;
    assert_int_equal(v->number, ++*n);
    assert_int_equal(v->n_claims, 1);
    return *n < 2;
}

static void test_list_versions(void **state)
{
    (void)state;
    struct catalog_version v;
    struct catalog_error err = {0};
    struct catalog *c = NULL;
    struct snapshot *s = NULL;
    int64_t n = 0;
    must_build("{" PROVIDER ",\"claims\":[" CLAIM("*", "top_p", "\"max\":1,") "]}", &v);
    must_build("{" PROVIDER ",\"claims\":[" CLAIM("*", "top_p", "\"max\":2,") "]}", &v);
    must_build("{" PROVIDER ",\"claims\":[" CLAIM("*", "top_p", "\"max\":3,") "]}", &v);
    assert_true(catalog_open(&c, db_path, &err));
    assert_true(catalog_versions(c, count_version, &n, &err));
    assert_int_equal(n, 2); /* it stops when told to */
    assert_false(catalog_snapshot(c, 4, &s, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
    assert_non_null(strstr(err.text, "no version 4"));
    catalog_close(c);
}

/* A reader that is open sees a version that another process adds, without opening again. */
static void test_new_version_is_seen(void **state)
{
    (void)state;
    struct catalog_version v;
    struct catalog_error err = {0};
    struct catalog *c = NULL;
    struct snapshot *old, *new;
    must_build("{" PROVIDER ",\"claims\":[" CLAIM("*", "top_p", "\"max\":1,") "]}", &v);
    assert_true(catalog_open(&c, db_path, &err));
    assert_true(catalog_snapshot(c, 0, &old, &err));
    must_build("{" PROVIDER ",\"claims\":[" CLAIM("*", "top_p", "\"max\":2,") "]}", &v);
    assert_true(catalog_snapshot(c, 0, &new, &err));
    assert_int_equal(snapshot_version(old), 1);
    assert_int_equal(snapshot_version(new), 2);
    catalog_close(c);
    snapshot_release(old);
    snapshot_release(new);
}

/* ---- wrong sources: the error names file, claim and field; nothing is written */

static void refuse(const char *text, const char *param, const char *words)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    if (build_text(text, &v, &err)) {
        fail_msg("taken: %s", text);
    }
    if (strcmp(err.param, param) != 0 || !strstr(err.text, words) ||
        !strstr(err.text, "source.json")) {
        fail_msg("param '%s', text: %s", err.param, err.text);
    }
    assert_int_equal(err.code, CATALOG_BAD_SOURCE);
    assert_int_not_equal(access(db_path, F_OK), 0);
}

#define REFUSE_CLAIM(claim, param, words)                                                          \
    refuse("{" PROVIDER ",\"claims\":[" CLAIM("*", "top_p", "") "," claim "]}", param, words)

static void test_wrong_claims(void **state)
{
    (void)state;
    REFUSE_CLAIM(CLAIM("*", "temprature", ""), "param", "claim 2 (temprature)");
    REFUSE_CLAIM(CLAIM("*", "temperature", "\"min\":2,\"max\":1,"), "min", "above 'max'");
    REFUSE_CLAIM(CLAIM("*", "temperature", "\"min\":\"0\","), "min", "number");
    REFUSE_CLAIM(CLAIM("*", "temperature", "\"min\":1,\"max\":1,\"min_exclusive\":true,"), "min",
                 "no value");
    REFUSE_CLAIM(CLAIM("*", "temperature", "\"max_exclusive\":true,"), "max_exclusive",
                 "needs 'max'");
    REFUSE_CLAIM(CLAIM("*", "top_k", "\"integer\":true,\"max\":1.5,"), "integer", "fraction");
    REFUSE_CLAIM(CLAIM("^(a", "top_k", ""), "models", "regular expression");
    REFUSE_CLAIM(CLAIM("*", "top_k", "\"colour\":1,"), "colour", "not a field");
    REFUSE_CLAIM(CLAIM("*", "top_k", "\"valid_from\":\"tomorrow\","), "valid_from", "date");
    REFUSE_CLAIM(CLAIM("*", "top_k", "\"valid_from\":\"2026-02\",\"valid_to\":\"2026-01\","),
                 "valid_to", "before");
    REFUSE_CLAIM(CLAIM("*", "top_k", "\"valid_to\":\"2026-13-01\","), "valid_to", "date");
    REFUSE_CLAIM(CLAIM("*", "top_k", "\"variant\":\"old\","), "variant", "must be");
    REFUSE_CLAIM(CLAIM("*", "top_k", "\"variant\":\"conditional\","), "when", "always");
    REFUSE_CLAIM(CLAIM("*", "top_k", "\"when\":{\"param\":\"x\",\"in\":[\"a\"]},"), "when",
                 "always");
    REFUSE_CLAIM(
        CLAIM("*", "top_k", "\"variant\":\"conditional\",\"when\":{\"param\":\"x\",\"in\":[]},"),
        "when", "must be");
    REFUSE_CLAIM(
        CLAIM("*", "top_k", "\"variant\":\"conditional\",\"when\":{\"param\":\"x\",\"in\":[1]},"),
        "when", "strings");
    REFUSE_CLAIM(CLAIM("*", "top_k", "\"conflicts\":[\"x\"],"), "conflicts", "names");
    REFUSE_CLAIM(CLAIM("*", "top_k", "\"items_max\":0,"), "items_max", "above 0");
    REFUSE_CLAIM(CLAIM("*", "top_k", "\"note\":1,"), "note", "string");
    REFUSE_CLAIM(CLAIM("*", "top_k", "\"provider\":\"q\","), "provider", "belongs to the file");
    REFUSE_CLAIM("7", "claims", "objects");
    REFUSE_CLAIM(
        "{\"models\":\"*\",\"endpoint\":\"/\",\"param\":\"top_k\",\"support\":\"yes\"," TAIL "}",
        "wire", "missing");
    REFUSE_CLAIM(
        "{\"models\":\"*\",\"endpoint\":\"/\",\"param\":\"top_k\",\"support\":\"maybe\"," TAIL "}",
        "support", "must be");
    REFUSE_CLAIM(
        "{\"models\":\"*\",\"endpoint\":\"/"
        "\",\"param\":\"top_k\",\"support\":\"absent\",\"as_of\":\"2026\",\"confidence\":\"low\"}",
        "source", "missing");
    REFUSE_CLAIM(
        "{\"models\":\"*\",\"endpoint\":\"/"
        "\",\"param\":\"top_k\",\"support\":\"absent\",\"source\":\"s\",\"confidence\":\"low\"}",
        "as_of", "missing");
    REFUSE_CLAIM(
        "{\"models\":\"*\",\"endpoint\":\"/"
        "\",\"param\":\"top_k\",\"support\":\"absent\",\"source\":\"s\",\"as_of\":\"2026\"}",
        "confidence", "missing");
    REFUSE_CLAIM(CLAIM("*", "top_p", ""), "", "claim 2 repeats claim 1");
    REFUSE_CLAIM("{\"models\":\"*\",\"models\":\"^a\"}", "", "duplicate");
}

static void test_wrong_files(void **state)
{
    (void)state;
    refuse("", "", "line 1");
    refuse("[]", "", "must be");
    refuse("{" PROVIDER "}", "", "must be");
    refuse("{" PROVIDER ",\"claims\":[],\"more\":1}", "", "must be");
    refuse("{\"provider\":{\"id\":\"p\"},\"claims\":[]}", "title", "missing");
    refuse("{\"provider\":{\"id\":\"P/"
           "\",\"title\":\"P\",\"dialect\":\"x\",\"auth\":\"none\"},\"claims\":[]}",
           "id", "a-z");
    refuse("{\"provider\":{\"id\":\"p\",\"title\":\"P\",\"dialect\":\"x\",\"auth\":\"key\"},"
           "\"claims\":[]}",
           "auth", "bearer");
    refuse("{\"provider\":{\"id\":\"p\",\"title\":\"P\",\"dialect\":\"x\",\"auth\":\"header\"},"
           "\"claims\":[]}",
           "auth_header", "always");
    refuse("{\"provider\":{\"id\":\"p\",\"title\":\"P\",\"dialect\":\"x\",\"auth\":\"none\",\"x\":"
           "1},\"claims\":[]}",
           "x", "not a field");
    refuse("{\"provider\":{\"id\":\"p\",\"title\":\"P\",\"dialect\":\"x\",\"auth\":\"none\","
           "\"headers\":{\"a\":\"b\\r\\nc\"}},\"claims\":[]}",
           "headers", "header");
}

static void test_wrong_source_sets(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v;
    const char *paths[2] = {source_path, other_path};
    const char *text = "{" PROVIDER ",\"claims\":[]}";
    write_file(source_path, text, strlen(text));
    assert_false(
        catalog_build(db_path, paths, 2, &(struct version_stamp){"a", "r", CREATED}, &v, &err));
    assert_int_equal(err.code, CATALOG_IO);
    write_file(other_path, text, strlen(text));
    err = (struct catalog_error){0};
    assert_false(
        catalog_build(db_path, paths, 2, &(struct version_stamp){"a", "r", CREATED}, &v, &err));
    assert_non_null(strstr(err.text, "two source files"));
    err = (struct catalog_error){0};
    assert_false(
        catalog_build(db_path, paths, 0, &(struct version_stamp){"a", "r", CREATED}, &v, &err));
    assert_int_not_equal(access(db_path, F_OK), 0);
}

static void test_failed_build_changes_nothing(void **state)
{
    (void)state;
    struct catalog_version v;
    struct catalog_error err = {0};
    char reason[400];
    size_t before_len, after_len;
    must_build("{" PROVIDER ",\"claims\":[" CLAIM("*", "top_p", "\"max\":1,") "]}", &v);
    char *before = read_file(db_path, &before_len);
    assert_false(build_text("{" PROVIDER ",\"claims\":[" CLAIM("*", "top_q", "") "]}", &v, &err));
    /* Refused when the database is open and locked already. */
    const char *one = source_path;
    const char *good = "{" PROVIDER ",\"claims\":[" CLAIM("*", "top_p", "\"max\":2,") "]}";
    write_file(source_path, good, strlen(good));
    memset(reason, 'r', sizeof reason);
    reason[sizeof reason - 1] = '\0';
    err = (struct catalog_error){0};
    assert_false(
        catalog_build(db_path, &one, 1, &(struct version_stamp){"a", reason, CREATED}, &v, &err));
    assert_non_null(strstr(err.text, "shorter"));
    char *after = read_file(db_path, &after_len);
    assert_int_equal(before_len, after_len);
    assert_memory_equal(before, after, before_len);
    free(before);
    free(after);
}

/* ---- damaged databases */

static void refuse_db(const char *words)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    struct catalog *c = NULL;
    size_t before_len, after_len;
    char *before = read_file(db_path, &before_len);
    if (catalog_open(&c, db_path, &err)) {
        fail_msg("opened: %s", words);
    }
    if (!strstr(err.text, words)) {
        fail_msg("not '%s': %s", words, err.text);
    }
    if (before_len >
        0) { /* a build must not lay a catalog over it either; an empty file is a new one */
        err = (struct catalog_error){0};
        assert_false(build_text("{" PROVIDER ",\"claims\":[]}", &v, &err));
    }
    char *after = read_file(db_path, &after_len);
    assert_int_equal(before_len, after_len);
    assert_memory_equal(before, after, before_len);
    free(before);
    free(after);
}

static char *shipped_db(size_t *len)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    const char *sources[] = {"catalog/providers/mistral.json", "catalog/providers/local.json"};
    if (!catalog_build(db_path, sources, 2, &(struct version_stamp){"a", "r", CREATED}, &v, &err)) {
        fail_msg("%s", err.text);
    }
    return read_file(db_path, len);
}

static void test_damaged(void **state)
{
    (void)state;
    size_t len;
    char *good = shipped_db(&len), *bad = malloc(len);
    assert_non_null(bad);
    assert_true(len > 8 * 4096);
    write_file(db_path, good, len / 2); /* cut in half */
    refuse_db("damaged");
    write_file(db_path, "", 0);
    refuse_db("not a catalog");
    memset(bad, 0, len);
    write_file(db_path, bad, len);
    refuse_db("damaged");
    for (size_t page = 1; page < len / 4096; page++) { /* one page of zeros, each in turn */
        memcpy(bad, good, len);
        memset(bad + page * 4096, 0, 4096);
        write_file(db_path, bad, len);
        refuse_db("damaged");
    }
    write_file(db_path, "hello, this is a text and no database at all\n", 45);
    refuse_db("damaged");
    memcpy(bad, good, len);
    bad[63] = 9; /* the last byte of user_version in SQLite's header */
    write_file(db_path, bad, len);
    refuse_db("schema 9");
    free(good);
    free(bad);
}

static void test_missing(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog *c = NULL;
    assert_false(catalog_open(&c, db_path, &err));
    assert_int_equal(err.code, CATALOG_IO);
    assert_non_null(strstr(err.text, "catalog build"));
    err = (struct catalog_error){0};
    assert_false(catalog_open(&c, folder, &err));
    assert_int_not_equal(access(db_path, F_OK), 0);
}

static void test_read_only_folder(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v;
    struct catalog *c = NULL;
    struct snapshot *s = NULL;
    must_build("{" PROVIDER ",\"claims\":[" CLAIM("*", "top_p", "\"max\":1,") "]}", &v);
    assert_int_equal(chmod(folder, 0500),
                     0); /* root writes all the same; others take the other path */
    bool ok = catalog_open(&c, db_path, &err) && catalog_snapshot(c, 0, &s, &err);
    assert_int_equal(chmod(folder, 0700), 0);
    if (!ok) {
        fail_msg("%s", err.text);
    }
    snapshot_release(s);
    catalog_close(c);
}

/* ---- rules */

static void test_rules(void **state)
{
    (void)state;
    struct catalog_version v;
    struct rules r;
    struct catalog_error err = {0};
    must_build(
        "{" PROVIDER
        ",\"claims\":[" CLAIM("*", "temperature", "\"max\":1,") "," CLAIM("^old", "temperature", "\"max\":2,\"valid_to\":\"2026-06\",") "," CLAIM(
            "^new", "temperature",
            "\"max\":3,") "," CLAIM("^new", "top_p",
                                    "\"max\":0.5,\"variant\":\"history\",") "," CLAIM("^new",
                                                                                      "seed",
                                                                                      "\"variant\":"
                                                                                      "\"conditiona"
                                                                                      "l\","
                                                                                      "\"when\":{"
                                                                                      "\"param\":"
                                                                                      "\"thinking\""
                                                                                      ","
                                                                                      "\"in\":["
                                                                                      "\"on\"]},") "," CLAIM("^new",
                                                                                                             "top_"
                                                                                                             "k",
                                                                                                             "\"var"
                                                                                                             "iant"
                                                                                                             "\":"
                                                                                                             "\"con"
                                                                                                             "ditio"
                                                                                                             "nal\""
                                                                                                             ",\"wh"
                                                                                                             "en\":"
                                                                                                             "{\"pa"
                                                                                                             "ram\""
                                                                                                             ":\"se"
                                                                                                             "ed\","
                                                                                                             "\"in"
                                                                                                             "\":["
                                                                                                             "\"abs"
                                                                                                             "ent\""
                                                                                                             ",\"7"
                                                                                                             "\"]}"
                                                                                                             ",") "," CLAIM("^new",
                                                                                                                            "system_role",
                                                                                                                            "\"variant\":\"conditional\",\"when\":{\"param\":\"reasoning_effort\",\"not_in\":[\"none\"]},") "]}",
        &v);
    struct snapshot *s = must_snapshot(0);

    must_rules(s, "p", "old-1", "2026-06-30", &r); /* a month holds to its end */
    assert_true(r.param[PARAM_TEMPERATURE]->max == 2);
    assert_false(r.is_stand_in);
    must_rules(s, "p", "old-1", "2026-07-01", &r);
    assert_true(r.param[PARAM_TEMPERATURE]->max == 3);
    assert_true(r.is_stand_in);
    assert_string_equal(r.retired_on, "2026-06");
    must_rules(s, "p", "unheard-of", DAY, &r);
    assert_true(r.is_stand_in);
    assert_null(r.retired_on);
    assert_string_equal(r.model, "unheard-of");

    must_rules(s, "p", "new", DAY, &r);
    assert_null(r.param[PARAM_TOP_P]); /* history is no rule */
    assert_null(r.param[PARAM_SEED]);
    assert_string_equal(r.behaviour[BEHAVIOUR_SYSTEM_ROLE]->param, "system_role");
    struct sampling asked = {0};
    assert_non_null(rules_claim(&r, PARAM_TOP_K, &asked));
    sampling_set(&asked, PARAM_SEED, (struct value){.type = VALUE_INT, .i = 8});
    assert_null(rules_claim(&r, PARAM_TOP_K, &asked));
    sampling_set(&asked, PARAM_SEED, (struct value){.type = VALUE_INT, .i = 7});
    assert_non_null(rules_claim(&r, PARAM_TOP_K, &asked));
    assert_null(rules_claim(&r, PARAM_SEED, &asked)); /* nothing can set "thinking" */

    assert_true(snapshot_rules(s, "p", "new", CATALOG_TEXT, DAY, &r, &err));
    assert_null(r.param[PARAM_TEMPERATURE]); /* said of another endpoint */
    assert_false(snapshot_rules(s, "q", "new", CATALOG_CHAT, DAY, &r, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
    snapshot_release(s);
}

static bool count_claim(const struct claim *c, void *ud)
{
    assert_string_equal(c->param, "temperature");
    ++*(size_t *)ud;
    return true;
}

static void test_shipped(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "catalog/providers/openai.json",        "catalog/providers/anthropic.json",
        "catalog/providers/mistral.json",       "catalog/providers/local.json",
        "catalog/providers/google-gemini.json", "tests/lib/scripted.json"};
    struct catalog_error err = {0};
    struct catalog_version v;
    struct rules r;
    size_t n = 0;
    if (!catalog_build(db_path, sources, 6, &(struct version_stamp){"a", "r", CREATED}, &v, &err)) {
        fail_msg("%s", err.text);
    }
    struct snapshot *s = must_snapshot(0);
    assert_int_equal(snapshot_n_providers(s), 6);
    assert_string_equal(snapshot_provider_at(s, 0)->id, "anthropic");
    const struct provider *p = snapshot_provider(s, "anthropic");
    assert_string_equal(json_string_value(json_object_get(p->headers, "anthropic-version")),
                        "2023-06-01");
    assert_int_equal(p->auth, CATALOG_AUTH_HEADER);
    assert_string_equal(p->auth_header, "x-api-key");
    assert_string_equal(p->request_id_header, "request-id");
    p = snapshot_provider(s, "mistral");
    assert_int_equal(p->quirks.tool_id_len, 9);
    assert_true(p->quirks.has_turn_after_tool && p->quirks.has_strict_messages);
    assert_false(p->quirks.has_one_system || p->quirks.thinks_in_tags);
    assert_null(p->quirks.reasoning_key);
    assert_false(p->quirks.has_call_ids || p->quirks.has_untyped_links);
    p = snapshot_provider(s, "google-gemini");
    assert_true(p->quirks.has_call_ids && p->quirks.has_untyped_links);
    must_rules(s, "google-gemini", "gemini-2.5-pro", DAY, &r);
    assert_null(r.behaviour[BEHAVIOUR_CALL_SIGNATURE]);
    must_rules(s, "google-gemini", "gemini-3-pro", DAY, &r);
    assert_int_equal(r.behaviour[BEHAVIOUR_CALL_SIGNATURE]->support, CLAIM_YES);
    p = snapshot_provider(s, "openai");
    assert_string_equal(p->also.dialect, "responses");
    assert_string_equal(p->also.chat_path, "/responses");
    assert_int_equal(p->quirks.tool_id_len_max, 40);
    assert_null(p->model_prefix);
    assert_null(p->prefill_path);
    assert_true(snapshot_provider(s, "local")->is_local);
    assert_null(snapshot_provider(s, "local")->base_url);
    assert_null(snapshot_provider(s, "scripted")->key_env);
    assert_null(snapshot_provider(s, "nobody"));
    must_rules(s, "anthropic", "claude-sonnet-4-5", DAY, &r);
    assert_true(r.param[PARAM_MAX_TOKENS]->is_required);
    assert_true(r.param[PARAM_STOP]->no_blank);
    assert_string_equal(r.behaviour[BEHAVIOUR_SYSTEM_ROLE]->wire, "system");
    must_rules(s, "openai", "gpt-5.4-mini", DAY,
               &r); /* all its claims are conditional: none may be cut off */
    assert_true(r.n_conditional > 64 && r.n_conditional < RULES_CONDITIONAL_MAX);
    assert_non_null(r.behaviour[BEHAVIOUR_ENDPOINT]);
    must_rules(s, "openai", "o1-pro", DAY, &r);
    assert_int_equal(r.behaviour[BEHAVIOUR_ENDPOINT]->support, CLAIM_REJECTED);
    must_rules(s, "local", "anything", DAY, &r);
    for (int i = 0; i < PARAM_COUNT; i++) {
        if (!r.param[i]) {
            fail_msg("the engine says nothing about %s", sampling_table[i].name);
        }
    }
    snapshot_each(s, "anthropic", "claude-sonnet-4-5", "temperature", count_claim, &n);
    assert_int_equal(
        n, 4); /* its own, two of "*" (history, the other version of the API), one conditional */
    snapshot_release(s);
}

/* ---- sharing */

static void *use_snapshot(void *ud)
{
    struct snapshot *s = ud;
    struct rules r;
    for (int i = 0; i < 200; i++) {
        struct snapshot *mine = snapshot_ref(s);
        if (!snapshot_rules(mine, "p", i % 2 ? "new-1" : "other", CATALOG_CHAT, DAY, &r, NULL) ||
            r.param[PARAM_TEMPERATURE]->max != 3) {
            return s;
        }
        snapshot_release(mine);
    }
    snapshot_release(s);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct catalog_version v;
    pthread_t threads[4];
    must_build("{" PROVIDER ",\"claims\":[" CLAIM("^new", "temperature", "\"max\":3,") "]}", &v);
    struct snapshot *s = must_snapshot(0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_snapshot, snapshot_ref(s)), 0);
    }
    snapshot_release(s);
    for (int i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    snapshot_release(NULL);
    catalog_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_versions, setup),
        cmocka_unit_test_setup(test_list_versions, setup),
        cmocka_unit_test_setup(test_new_version_is_seen, setup),
        cmocka_unit_test_setup(test_wrong_claims, setup),
        cmocka_unit_test_setup(test_wrong_files, setup),
        cmocka_unit_test_setup(test_wrong_source_sets, setup),
        cmocka_unit_test_setup(test_failed_build_changes_nothing, setup),
        cmocka_unit_test_setup(test_damaged, setup),
        cmocka_unit_test_setup(test_missing, setup),
        cmocka_unit_test_setup(test_read_only_folder, setup),
        cmocka_unit_test_setup(test_rules, setup),
        cmocka_unit_test_setup(test_shipped, setup),
        cmocka_unit_test_setup(test_threads, setup),
    };
    if (!mkdtemp(folder)) {
        return 1;
    }
    (void)snprintf(db_path, sizeof db_path, "%s/catalog.db", folder);
    (void)snprintf(source_path, sizeof source_path, "%s/source.json", folder);
    (void)snprintf(other_path, sizeof other_path, "%s/other.json", folder);
    int rc = cmocka_run_group_tests_name("catalog", tests, NULL, NULL);
    clean();
    (void)rmdir(folder);
    return rc;
}
