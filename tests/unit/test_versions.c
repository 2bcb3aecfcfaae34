/* test_versions.c - versions: overrides, taking back, rollback, upgrade, export and import,
 * evidence, migrations, two writers. */
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

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static char *read_text(const char *path, size_t *len)
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

static struct catalog_version must_build_at(const char *path, const char *text)
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

static struct catalog_version must_build(const char *text)
{
    return must_build_at(db_path, text);
}

static bool set(const char *models, const char *param, const char *fields, int64_t like,
                struct catalog_version *v, struct catalog_error *err)
{
    json_t *f = json_loads(fields, 0, NULL);
    assert_non_null(f);
    struct version_override o = {"p", models, NULL, param, f, like};
    bool ok = catalog_set(db_path, &o, &stamp, v, err);
    json_decref(f);
    return ok;
}

static struct catalog_version must_set(const char *models, const char *param, const char *fields)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    if (!set(models, param, fields, 0, &v, &err)) {
        fail_msg("%s", err.text);
    }
    return v;
}

static struct catalog_version must_unset(const char *models, const char *param)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    struct version_override o = {"p", models, NULL, param, NULL, 0};
    if (!catalog_unset(db_path, &o, &stamp, &v, &err)) {
        fail_msg("%s", err.text);
    }
    return v;
}

static struct catalog *must_open(const char *path)
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

static bool note_claim(const struct claim *c, void *ud)
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
static struct said say_at(const char *path, int64_t version, const char *param)
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

static struct said say(const char *param)
{
    return say_at(db_path, 0, param);
}

struct conflict_seen {
    int n;
    int64_t version;
    double base, shipped, local; /* max; -1: not there */
};

static double max_of(const json_t *claim)
{
    return claim ? json_number_value(json_object_get(claim, "max")) : -1;
}

static bool note_conflict(const struct version_conflict *f, void *ud)
{
    struct conflict_seen *s = ud;
    *s = (struct conflict_seen){s->n + 1, f->version, max_of(f->base), max_of(f->shipped),
                                max_of(f->local)};
    return true;
}

static struct conflict_seen conflicts_of(int64_t version)
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

static void remove_db(const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char name[160];
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, ends[i]);
        (void)remove(name);
    }
}

static int setup(void **state)
{
    (void)state;
    remove_db(db_path);
    remove_db(other_db);
    (void)remove(source_path);
    (void)remove(second_path);
    (void)remove(file_path);
    return 0;
}

/* ---- set and unset */

#define OURS ",\"source\":\"ours\",\"as_of\":\"2026-11-30\""
static const char three[] = SOURCE(CLAIM("*", "temperature", "\"min\":0,\"max\":1,") "," CLAIM(
    "^a$", "top_p", "\"max\":1,") "," CLAIM("*", "top_k", "\"max\":40,"));

static void test_set(void **state)
{
    (void)state;
    struct catalog_version one = must_build(three);
    struct catalog_version two = must_set("^a$", "top_p", "{\"max\":0.5" OURS "}");
    assert_int_equal(two.number, 2);
    assert_int_equal(two.parent, 1);
    assert_int_equal(two.base, 1);
    assert_int_equal(two.kind, VERSION_LOCAL);
    assert_int_equal(one.kind, VERSION_SHIPPED);
    assert_int_equal(two.n_claims, 3);
    assert_string_equal(two.author, "me");
    assert_string_not_equal(one.hash, two.hash);
    struct said s = say("top_p");
    assert_int_equal(s.n, 1);
    assert_true(s.max == 0.5 && s.is_local);
    /* In the place of the claim that it replaces; a new key at the end. */
    assert_string_equal(say(NULL).order, "*/temperature=1 ^a$/top_p=0.5 */top_k=40 ");
    (void)must_set("^b$", "top_p",
                   "{\"max\":0.7,\"wire\":\"top_p\",\"support\":\"yes\",\"confidence\":\"low\"" OURS
                   "}");
    assert_string_equal(say(NULL).order, "*/temperature=1 ^a$/top_p=0.5 */top_k=40 ^b$/top_p=0.7 ");
    /* Over what was set before, not over the base. */
    struct catalog_version four = must_set("^a$", "top_p", "{\"min\":0.1}");
    assert_int_equal(four.number, 4);
    assert_true(say("top_p").max != 1);
    assert_string_equal(say_at(db_path, 1, NULL).order, "*/temperature=1 ^a$/top_p=1 */top_k=40 ");
}

static void test_set_the_same(void **state)
{
    (void)state;
    (void)must_build(three);
    assert_int_equal(must_set("*", "top_k", "{\"max\":40}").number, 1); /* what the base says */
    assert_int_equal(must_set("*", "top_k", "{\"max\":50" OURS "}").number, 2);
    assert_int_equal(must_set("*", "top_k", "{\"max\":50" OURS "}").number, 2);
    struct catalog_version back =
        must_set("*", "top_k", "{\"max\":40,\"source\":\"s\",\"as_of\":\"" AS_OF "\"}");
    assert_int_equal(back.number, 3);
    assert_false(say("top_k").is_local);
    assert_string_equal(say(NULL).order, "*/temperature=1 ^a$/top_p=1 */top_k=40 ");
}

static void test_set_over_like(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v;
    (void)must_build(three);
    int64_t like = say("top_p").id;
    assert_true(set("^a-1$", "top_p", "{\"max\":0.2" OURS "}", like, &v, &err));
    assert_string_equal(say(NULL).order, "*/temperature=1 ^a$/top_p=1 */top_k=40 ^a-1$/top_p=0.2 ");
    /* The same key again: over that one, whatever `like` is. */
    assert_true(set("^a-1$", "top_p", "{\"min\":0.1" OURS "}", like, &v, &err));
    assert_string_equal(say(NULL).order, "*/temperature=1 ^a$/top_p=1 */top_k=40 ^a-1$/top_p=0.2 ");
    assert_false(set("^c$", "top_p", "{\"min\":0.1" OURS "}", 999, &v, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
}

static void test_set_takes_away(void **state)
{
    (void)state;
    struct catalog *c;
    struct catalog_error err = {0};
    struct snapshot *s;
    struct rules r;
    (void)must_build(
        SOURCE(CLAIM("*", "temperature", "\"min\":0,\"max\":1,\"max_exclusive\":true,")));
    (void)must_set("*", "temperature", "{\"max\":null" OURS "}");
    c = must_open(db_path);
    assert_true(catalog_snapshot(c, 0, &s, &err));
    assert_true(snapshot_rules(s, "p", "m", CATALOG_CHAT, "2026-11-30", &r, &err));
    assert_false(r.param[PARAM_TEMPERATURE]->has_max);
    assert_false(r.param[PARAM_TEMPERATURE]->max_exclusive);
    assert_true(r.param[PARAM_TEMPERATURE]->has_min);
    snapshot_release(s);
    catalog_close(c);
    /* What is absent has no place in the body. */
    (void)must_set("*", "temperature", "{\"support\":\"absent\",\"min\":null" OURS "}");
    assert_int_equal(say("temperature").n, 1);
}

static void refuse_set(const char *models, const char *param, const char *fields, const char *field,
                       const char *words)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    if (set(models, param, fields, 0, &v, &err)) {
        fail_msg("taken: %s", fields);
    }
    if (strcmp(err.param, field) != 0 || !strstr(err.text, words) || strchr(err.text, '\n')) {
        fail_msg("param '%s', text: %s", err.param, err.text);
    }
}

static void test_set_refused(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    (void)must_build(three);
    refuse_set("*", "top_k", "{\"max\":\"x\"}", "max", "'max' must be a number");
    refuse_set("*", "temperature", "{\"max\":-1}", "min", "above 'max'");
    refuse_set("^(", "top_k",
               "{\"max\":1,\"support\":\"yes\",\"wire\":\"x\",\"source\":\"s\","
               "\"as_of\":\"2026\",\"confidence\":\"low\"}",
               "models", "regular expression");
    refuse_set("^z$", "top_k", "{\"max\":1}", "support", "missing");
    refuse_set("*", "top_q", "{}", "support", "missing");
    refuse_set("*", "top_k", "{\"colour\":1}", "colour", "not a field");
    refuse_set("*", "top_k", "{\"as_of\":\"tomorrow\"}", "as_of", "date");
    struct version_override o = {"nobody", "*", NULL, "top_k", json_null(), 0};
    assert_false(catalog_set(db_path, &o, &stamp, NULL, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
    assert_non_null(strstr(err.text, "no provider 'nobody'"));
    err = (struct catalog_error){0};
    o.provider = "p";
    assert_false(catalog_set(other_db, &o, &stamp, NULL, &err));
    assert_non_null(strstr(err.text, "catalog build"));
    assert_int_not_equal(access(other_db, F_OK), 0);
    assert_int_equal(say_at(db_path, 0, NULL).n, 3);
}

static void test_conditions_are_keys(void **state)
{
    (void)state;
    (void)must_build(three);
    struct catalog_version v = must_set(
        "*", "top_k",
        "{\"max\":7,\"when\":{\"param\":\"reasoning_effort\",\"in\":[\"none\"]},\"wire\":\"top_k\","
        "\"support\":\"yes\",\"confidence\":\"low\"" OURS "}");
    assert_int_equal(v.n_claims, 4);
    assert_string_equal(say("top_k").order, "*/top_k=40 */top_k=7 ");
    v = must_set("*", "top_k",
                 "{\"max\":8,\"when\":{\"in\":[\"none\"],\"param\":\"reasoning_effort\"}" OURS "}");
    assert_int_equal(v.n_claims, 4);
    assert_string_equal(say("top_k").order, "*/top_k=40 */top_k=8 ");
}

/* Several histories of one key: the override stands for the one that holds. */
static void test_key_that_is_not_unique(void **state)
{
    (void)state;
    (void)must_build(SOURCE(CLAIM("*", "top_k", "\"max\":1,\"valid_to\":\"2025\",") "," CLAIM(
        "*", "top_k", "\"max\":2,\"valid_from\":\"2026\",") "," CLAIM("*", "top_k",
                                                                      "\"max\":3,\"valid_to\":"
                                                                      "\"2024\",")));
    (void)must_set("*", "top_k", "{\"max\":9" OURS "}");
    assert_string_equal(say("top_k").order, "*/top_k=1 */top_k=9 */top_k=3 ");
    /* One of the others is changed by the shipped data: both changes are there, no conflict. */
    struct catalog_version v =
        must_build(SOURCE(CLAIM("*", "top_k", "\"max\":1.5,\"valid_to\":\"2025\",") "," CLAIM(
            "*", "top_k", "\"max\":2,\"valid_from\":\"2026\",") "," CLAIM("*", "top_k",
                                                                          "\"max\":3,\"valid_to\":"
                                                                          "\"2024\",")));
    assert_string_equal(say("top_k").order, "*/top_k=1.5 */top_k=9 */top_k=3 ");
    assert_int_equal(v.n_conflicts, 0);
    (void)must_unset("*", "top_k");
    assert_string_equal(say("top_k").order, "*/top_k=1.5 */top_k=2 */top_k=3 ");
}

static void test_unset(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v, one = must_build(three);
    struct version_override o = {"p", "*", NULL, "temperature", NULL, 0};
    (void)must_set("*", "temperature", "{\"max\":1.5" OURS "}");
    (void)must_set("^a$", "top_p", "{\"max\":0.5" OURS "}");
    (void)must_set("^new$", "top_p",
                   "{\"max\":0.7,\"wire\":\"top_p\",\"support\":\"yes\",\"confidence\":\"low\"" OURS
                   "}");
    v = must_unset("*", "temperature");
    assert_int_equal(v.number, 5);
    assert_int_equal(v.kind, VERSION_LOCAL);
    assert_string_equal(say(NULL).order,
                        "*/temperature=1 ^a$/top_p=0.5 */top_k=40 ^new$/top_p=0.7 ");
    assert_false(catalog_unset(db_path, &o, &stamp, &v, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
    assert_non_null(strstr(err.text, "nothing was set"));
    v = must_unset(NULL, NULL); /* everything of the provider */
    assert_string_equal(v.hash, one.hash);
    assert_int_equal(v.base, 1);
    assert_string_equal(say(NULL).order, "*/temperature=1 ^a$/top_p=1 */top_k=40 ");
}

static void test_rollback(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v, one = must_build(three), two;
    two = must_set("*", "top_k", "{\"max\":50" OURS "}");
    (void)must_build(SOURCE(CLAIM("*", "top_k", "\"max\":60,"))); /* 3, and 4 with the override */
    assert_true(catalog_rollback(db_path, 2, &stamp, &v, &err));
    assert_int_equal(v.number, 5);
    assert_int_equal(v.parent, 4);
    assert_int_equal(v.base, 1);
    assert_string_equal(v.hash, two.hash);
    assert_int_equal(say_at(db_path, 4, NULL).n, 1); /* nothing is lost */
    assert_true(catalog_rollback(db_path, 2, &stamp, &v, &err));
    assert_int_equal(v.number, 5); /* it is so already */
    assert_true(catalog_rollback(db_path, 1, &stamp, &v, &err));
    assert_string_equal(v.hash, one.hash);
    /* The same shipped data again do not undo it; other shipped data do. */
    assert_int_equal(must_build(SOURCE(CLAIM("*", "top_k", "\"max\":60,"))).number, 6);
    v = must_build(SOURCE(CLAIM("*", "top_k", "\"max\":61,")));
    assert_int_equal(v.number, 7);
    assert_int_equal(v.kind, VERSION_SHIPPED);
    assert_true(say("top_k").max == 61);
    assert_false(catalog_rollback(db_path, 99, &stamp, &v, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
    err = (struct catalog_error){0};
    assert_false(catalog_rollback(db_path, 0, &stamp, &v, &err));
}

/* ---- upgrades with overrides */

/* A document with one claim that was taken away; its hash is made here by the rule in transfer.c.
 */
static void write_removal(double max)
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

static void set_local(int base, int local)
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
static struct catalog_version ship(int max, int other)
{
    char text[1600], claim[300];
    (void)snprintf(claim, sizeof claim, CLAIM("*", "seed", "\"max\":%d,") ",", max);
    (void)snprintf(
        text, sizeof text,
        SOURCE(CLAIM("*", "top_k", "\"max\":%d,") ",%s" CLAIM("*", "top_p", "\"max\":1,")), other,
        max ? claim : "");
    return must_build(text);
}

static void try_combination(int base, int shipped, int local)
{
    bool is_local_changed = local != base, is_shipped_changed = shipped != base;
    bool is_conflict = is_local_changed && is_shipped_changed && local != shipped;
    int want = is_local_changed && (is_conflict || !is_shipped_changed) ? local : shipped;
    remove_db(db_path);
    (void)ship(base, 1);
    set_local(base, local);
    struct catalog_version v = ship(shipped, 2);
    struct said s = say("seed");
    struct conflict_seen f = conflicts_of(0);
    if (s.n != (want != 0) || (want && s.max != want) || say("top_k").max != 2 ||
        f.n != is_conflict || v.n_conflicts != is_conflict ||
        (v.kind == VERSION_LOCAL) != (want != shipped)) {
        fail_msg("base %d shipped %d local %d: %d of max %g, %d conflicts, %s", base, shipped,
                 local, s.n, s.max, f.n, version_kind_name(v.kind));
    }
    if (is_conflict) {
        assert_true(f.base == (base ? base : -1) && f.shipped == (shipped ? shipped : -1) &&
                    f.local == (local ? local : -1));
        assert_int_equal(f.version, v.number);
    }
    if (want != shipped) { /* what the shipped data say holds again, and no conflict is open */
        v = must_unset("*", "seed");
        s = say("seed");
        assert_int_equal(s.n, shipped != 0);
        assert_true(!shipped || s.max == shipped);
        assert_int_equal(v.n_conflicts, 0);
        assert_string_equal(say(NULL).order, say_at(db_path, v.base, NULL).order);
    }
}

static void test_upgrade_in_all_combinations(void **state)
{
    (void)state;
    for (int base = 0; base <= 1; base++) {
        for (int shipped = 0; shipped <= 3; shipped++) {
            for (int local = 0; local <= 3; local++) {
                try_combination(base, shipped, local);
            }
        }
    }
}

static void test_conflicts_stay_open(void **state)
{
    (void)state;
    (void)ship(1, 1);
    (void)must_set("*", "seed", "{\"max\":5" OURS "}");
    struct catalog_version v = ship(2, 1); /* 3, 4 */
    assert_int_equal(v.number, 4);
    assert_int_equal(v.n_conflicts, 1);
    v = must_set("*", "top_k", "{\"max\":9" OURS "}"); /* something else: still open */
    assert_int_equal(v.n_conflicts, 1);
    v = ship(2, 7); /* the next upgrade does not touch it: still open */
    assert_int_equal(v.n_conflicts, 2);
    assert_int_equal(conflicts_of(0).n, 2);
    v = ship(3, 7); /* a newer conflict of the same key takes its place */
    assert_int_equal(v.n_conflicts, 2);
    /* Set again, to the same: it is settled. */
    v = must_set("*", "seed", "{\"max\":5" OURS "}");
    assert_int_equal(v.n_conflicts, 1);
    assert_true(say("seed").max == 5);
    int64_t settled = v.number;
    v = must_unset("*", "top_k");
    assert_int_equal(v.n_conflicts, 0);
    assert_int_equal(conflicts_of(settled).n, 1);
    assert_int_equal(conflicts_of(4).n, 1); /* versions keep what was open in them */
}

static void test_overrides_outlive_a_provider(void **state)
{
    (void)state;
    (void)must_build(three);
    (void)must_set("*", "top_k", "{\"max\":50" OURS "}");
    struct catalog_version v =
        must_build("{" PROVIDER("q", "Q") ",\"claims\":[" CLAIM("*", "top_p", "\"max\":1,") "]}");
    assert_string_equal(say(NULL).order, "*/top_p=1 */top_k=50 ");
    assert_int_equal(v.n_conflicts, 1);
    v = must_unset(NULL, NULL);
    assert_string_equal(say(NULL).order, "*/top_p=1 ");
    assert_int_equal(v.n_conflicts, 0);
}

/* ---- shipped databases */

static void test_upgrade_from_a_database(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v, theirs;
    bool is_changed = false;
    (void)must_build_at(other_db, three);
    theirs = must_build_at(other_db, SOURCE(CLAIM("*", "top_k", "\"max\":60,")));
    assert_true(catalog_upgrade(db_path, other_db, &stamp, &is_changed, &v, &err));
    assert_true(is_changed);
    assert_int_equal(v.number, theirs.number); /* a copy, with its numbers */
    assert_string_equal(v.hash, theirs.hash);
    assert_int_equal(say_at(db_path, 1, NULL).n, 3);
    assert_true(catalog_upgrade(db_path, other_db, &stamp, &is_changed, &v, &err));
    assert_false(is_changed);
    assert_int_equal(v.number, 2);
    (void)must_set("*", "top_k", "{\"max\":70" OURS "}");
    theirs = must_build_at(other_db, SOURCE(CLAIM("*", "top_k", "\"max\":60,") "," CLAIM(
                                         "*", "stop", "\"items_max\":4,")));
    assert_true(catalog_upgrade(db_path, other_db, &stamp, &is_changed, &v, &err));
    assert_true(is_changed);
    assert_int_equal(v.number, 5);
    assert_int_equal(v.base, 4);
    assert_string_equal(say(NULL).order, "*/top_k=70 */stop=0 ");
    assert_true(catalog_upgrade(db_path, other_db, &stamp, &is_changed, &v, &err));
    assert_false(is_changed);
    v = must_unset(NULL, NULL);
    assert_string_equal(v.hash, theirs.hash);
    err = (struct catalog_error){0};
    assert_false(catalog_upgrade(db_path, file_path, &stamp, &is_changed, &v, &err));
    assert_int_equal(err.code, CATALOG_IO);
    err = (struct catalog_error){0};
    assert_false(catalog_upgrade("/nowhere/at/all.db", other_db, &stamp, &is_changed, &v, &err));
    assert_non_null(strstr(err.text, "folder"));
}

static void test_any_order_same_hash(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version a, b;
    const char *forth[] = {source_path, second_path}, *back[] = {second_path, source_path};
    write_text(second_path, "{" PROVIDER("q", "Q") ",\"claims\":[" CLAIM("*", "top_p", "") "]}");
    write_text(source_path, SOURCE(CLAIM("*", "top_k", "\"max\":1,") "," CLAIM("*", "seed", "")));
    assert_true(catalog_build(db_path, forth, 2, &stamp, &a, &err));
    write_text(source_path, SOURCE(CLAIM("*", "seed", "") "," CLAIM("*", "top_k", "\"max\":1,")));
    assert_true(catalog_build(other_db, back, 2, &stamp, &b, &err));
    assert_string_equal(a.hash, b.hash);
    assert_true(catalog_build(db_path, back, 2, &stamp, &b, &err));
    assert_int_equal(b.number, 1);
}

/* ---- export and import */

static bool append_file(const char *text, size_t len, void *ud)
{
    return fwrite(text, 1, len, ud) == len;
}

static void must_export(struct version_export what)
{
    struct catalog_error err = {0};
    struct catalog *c = must_open(db_path);
    FILE *f = fopen(file_path, "wb");
    assert_non_null(f);
    if (!catalog_export(c, &what, append_file, f, &err)) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(fclose(f), 0);
    catalog_close(c);
}

static struct catalog_version must_import(const char *path)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    if (!catalog_import(path, file_path, &stamp, &v, &err)) {
        fail_msg("%s", err.text);
    }
    return v;
}

static const char *const shipped[] = {
    "catalog/providers/openai.json", "catalog/providers/anthropic.json",
    "catalog/providers/mistral.json", "catalog/providers/local.json"};

static struct catalog_version build_shipped(const char *path)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    if (!catalog_build(path, shipped, 4, &stamp, &v, &err)) {
        fail_msg("%s", err.text);
    }
    return v;
}

static void test_export_import(void **state)
{
    (void)state;
    struct catalog_version a = build_shipped(db_path), b;
    size_t len;
    must_export((struct version_export){0});
    b = must_import(other_db);
    assert_string_equal(a.hash, b.hash);
    assert_int_equal(b.kind, VERSION_SHIPPED);
    assert_int_equal(a.n_claims, b.n_claims);
    assert_int_equal(must_import(other_db).number, 1); /* it is there already */
    char *text = read_text(file_path, &len);
    size_t lines = 0;
    for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++) {
        lines++;
    }
    assert_int_equal(lines, (size_t)a.n_claims + 2 + 2 * 4); /* one claim a line */
    free(text);
    /* One provider: the others stay. */
    must_export((struct version_export){.provider = "mistral"});
    remove_db(other_db);
    (void)must_build_at(other_db, three);
    b = must_import(other_db);
    assert_int_equal(say_at(other_db, 0, "top_k").n > 1, 1);
    assert_true(b.n_claims > 3);
    assert_int_equal(must_import(other_db).number, 2);
}

static void test_export_overrides(void **state)
{
    (void)state;
    struct catalog_version a, b;
    (void)must_build(three);
    (void)must_build_at(other_db, three);
    (void)must_set("*", "top_k", "{\"max\":50" OURS "}");
    (void)must_set("^new$", "top_p",
                   "{\"max\":0.1,\"wire\":\"top_p\",\"support\":\"yes\",\"confidence\":\"low\"" OURS
                   "}");
    must_export((struct version_export){.overrides_only = true});
    a = must_set("*", "top_k", "{\"max\":50" OURS "}");
    b = must_import(other_db);
    assert_string_equal(a.hash, b.hash);
    assert_int_equal(b.kind, VERSION_LOCAL);
    assert_int_equal(b.number, 2); /* one version with all of them */
    assert_int_equal(must_import(other_db).number, 2);
    /* Onto other shipped data: what is there replaces what it can, the rest comes besides. */
    remove_db(other_db);
    (void)must_build_at(other_db, SOURCE(CLAIM("*", "top_k", "\"max\":41,")));
    b = must_import(other_db);
    assert_string_equal(say_at(other_db, 0, NULL).order, "*/top_k=50 ^new$/top_p=0.1 ");
    /* A removal travels, too. */
    remove_db(db_path);
    remove_db(other_db);
    (void)ship(1, 1);
    set_local(1, 0);
    assert_string_equal(say(NULL).order, "*/top_k=1 */top_p=1 ");
    must_export((struct version_export){.overrides_only = true});
    must_build_at(other_db, SOURCE(CLAIM("*", "top_k", "\"max\":1,") "," CLAIM(
                                "*", "seed", "\"max\":1,") "," CLAIM("*", "top_p", "\"max\":1,")));
    b = must_import(other_db);
    assert_string_equal(say_at(other_db, 0, NULL).order, "*/top_k=1 */top_p=1 ");
    assert_int_equal(must_import(other_db).number, b.number);
}

static bool refuse_write(const char *text, size_t len, void *ud)
{
    (void)text;
    (void)len;
    return ++*(int *)ud < 3;
}

static void test_export_that_cannot_be_written(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    int n = 0;
    (void)must_build(three);
    struct catalog *c = must_open(db_path);
    assert_false(catalog_export(c, &(struct version_export){0}, refuse_write, &n, &err));
    assert_int_equal(err.code, CATALOG_IO);
    err = (struct catalog_error){0};
    assert_false(
        catalog_export(c, &(struct version_export){.provider = "x"}, refuse_write, &n, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
    err = (struct catalog_error){0};
    assert_false(catalog_export(c, &(struct version_export){.version = 9}, refuse_write, &n, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
    catalog_close(c);
}

static void refuse_import(const char *text, const char *words)
{
    struct catalog_error err = {0};
    struct catalog_version v;
    write_text(file_path, text);
    if (catalog_import(db_path, file_path, &stamp, &v, &err)) {
        fail_msg("taken: %.200s", text);
    }
    if (!strstr(err.text, words) || strchr(err.text, '\n')) {
        fail_msg("not '%s': %s", words, err.text);
    }
}

static void test_damaged_exports(void **state)
{
    (void)state;
    size_t len;
    (void)must_build(three);
    for (int overrides = 0; overrides <= 1; overrides++) {
        (void)must_set("*", "top_k", overrides ? "{\"max\":51" OURS "}" : "{\"max\":50" OURS "}");
        must_export((struct version_export){.overrides_only = overrides});
        int64_t newest = must_import(db_path).number;
        char *text = read_text(file_path, &len);
        for (size_t cut = 0; cut < len - 2; cut++) { /* cut anywhere */
            char *part = strndup(text, cut);
            refuse_import(part, "");
            free(part);
        }
        for (size_t at = 0; at < len; at++) { /* one character changed anywhere */
            struct catalog_error err = {0};
            struct catalog_version v;
            char was = text[at];
            text[at] = was == '4' ? '5' : '4';
            write_text(file_path, text);
            if (catalog_import(db_path, file_path, &stamp, &v, &err)) {
                assert_int_equal(v.number, newest); /* of the head: author, created ... */
            }
            text[at] = was;
        }
        free(text);
    }
    refuse_import("[]", "no export");
    refuse_import("{\"catalog\":{},\"providers\":[]}", "no export");
    refuse_import("{\"catalog\":{\"format\":2,\"content\":\"version\",\"hash\":\"\"},"
                  "\"providers\":[]}",
                  "newer");
    refuse_import("{\"catalog\":{\"format\":1,\"content\":\"all\",\"hash\":\"\"},"
                  "\"providers\":[]}",
                  "content");
    refuse_import("{\"catalog\":{\"format\":1,\"content\":\"version\",\"hash\":\"\"},"
                  "\"providers\":[7]}",
                  "id and claims");
    refuse_import("{\"catalog\":{\"format\":1,\"content\":\"version\",\"hash\":\"x\"},"
                  "\"providers\":[]}",
                  "was changed");
    assert_int_equal(say(NULL).n, 3);
}

/* ---- evidence */

static struct evidence evidence_of(int64_t claim, enum claim_verdict verdict,
                                   enum evidence_origin origin, const char *seen)
{
    struct evidence e = {
        .claim = claim, .verdict = verdict, .origin = origin, .status = 400, .n = 1};
    (void)snprintf(e.model, sizeof e.model, "m-1");
    (void)snprintf(e.value, sizeof e.value, "2.1");
    (void)snprintf(e.excerpt, sizeof e.excerpt, "too high, said at %s", seen);
    (void)snprintf(e.seen, sizeof e.seen, "%s", seen);
    return e;
}

static bool note_verdict(int64_t claim, enum claim_verdict verdict, const char *on, void *ud)
{
    (void)claim;
    (void)snprintf(ud, 64, "%s %s", claim_verdict_name(verdict), on);
    return true;
}

static void check_verdict(const struct evidence *e, const char *want)
{
    struct catalog_error err = {0};
    struct db *db;
    char got[64] = "";
    if (!evidence_add(db_path, e, 1, &err) || !db_open(&db, db_path, &err) ||
        !db_verdicts(db, 1, note_verdict, got, &err)) {
        fail_msg("%s", err.text);
    }
    db_close(db);
    assert_string_equal(got, want);
}

static bool note_evidence(const struct evidence *e, void *ud)
{
    char *out = ud;
    size_t n = strlen(out);
    (void)snprintf(out + n, 400 - n, "%s/%s/%s/%lld ", claim_verdict_name(e->verdict),
                   evidence_origin_name(e->origin), e->seen, (long long)e->n);
    return true;
}

static void test_evidence(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    char list[400] = "";
    (void)must_build(three);
    int64_t claim = say("top_k").id;
    struct evidence e =
        evidence_of(claim, CLAIM_CONFIRMED, EVIDENCE_TRAFFIC, "2026-11-01T10:00:00Z");
    check_verdict(&e, "confirmed 2026-11-01T10:00:00Z");
    e = evidence_of(claim, CLAIM_CONTRADICTED, EVIDENCE_TRAFFIC, "2026-11-02T10:00:00Z");
    check_verdict(&e, "contradicted 2026-11-02T10:00:00Z");
    e = evidence_of(claim, CLAIM_CONTRADICTED, EVIDENCE_TRAFFIC, "2026-11-02T09:00:00Z");
    check_verdict(&e, "contradicted 2026-11-02T10:00:00Z"); /* the same row: its time stays */
    e = evidence_of(claim, CLAIM_CONFIRMED, EVIDENCE_TRAFFIC, "2026-11-03T10:00:00Z");
    check_verdict(&e, "contradicted 2026-11-02T10:00:00Z"); /* traffic does not clear it */
    e = evidence_of(claim, CLAIM_CONFIRMED, EVIDENCE_PROBE, "2026-11-04T10:00:00Z");
    check_verdict(&e, "confirmed 2026-11-04T10:00:00Z");
    e = evidence_of(claim, CLAIM_CONTRADICTED, EVIDENCE_PROBE, "2026-11-05T10:00:00Z");
    check_verdict(&e, "contradicted 2026-11-05T10:00:00Z");
    struct catalog *c = must_open(db_path);
    assert_true(evidence_each(c, claim, note_evidence, list, &err));
    assert_string_equal(list, "contradicted/probe/2026-11-05T10:00:00Z/1 "
                              "confirmed/probe/2026-11-04T10:00:00Z/1 "
                              "confirmed/traffic/2026-11-03T10:00:00Z/1 "
                              "contradicted/traffic/2026-11-02T10:00:00Z/2 "
                              "confirmed/traffic/2026-11-01T10:00:00Z/1 ");
    list[0] = '\0';
    (void)must_set("*", "top_k", "{\"max\":50" OURS "}"); /* the claim is not in the newest */
    assert_true(evidence_each(c, 0, note_evidence, list, &err));
    assert_string_equal(list, "");
    catalog_close(c);
    e.claim = 999;
    assert_false(evidence_add(db_path, &e, 1, &err));
    assert_int_equal(err.code, CATALOG_NOT_FOUND);
}

/* ---- schemas of older programs */

static void make_old(const char *path)
{
    size_t len;
    sqlite3 *s;
    char *sql = read_text("tests/golden/catalog/schema-1.sql", &len);
    assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s, "PRAGMA journal_mode = WAL", NULL, NULL, NULL), SQLITE_OK);
    if (sqlite3_exec(s, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fail_msg("%s", sqlite3_errmsg(s));
    }
    assert_int_equal(sqlite3_close(s), SQLITE_OK);
    free(sql);
}

/* All tables and views with their columns, and the names of everything else. */
static char *shape_of(const char *path)
{
    sqlite3 *s;
    sqlite3_stmt *q;
    char *out = NULL;
    assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(
            s,
            "SELECT group_concat(line, char(10)) FROM (SELECT m.type || ' ' || m.name || ' ' || "
            "coalesce(c.name || ' ' || c.type || ' ' || c.\"notnull\" || coalesce(c.dflt_value, "
            "'') || c.pk, '') AS line FROM sqlite_schema m LEFT JOIN pragma_table_info(m.name) c "
            "WHERE m.name NOT LIKE 'sqlite_%' ORDER BY line)",
            -1, &q, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    out = strdup((const char *)sqlite3_column_text(q, 0));
    sqlite3_finalize(q);
    assert_int_equal(sqlite3_prepare_v2(s, "SELECT * FROM pragma_integrity_check", -1, &q, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(q, 0), "ok");
    sqlite3_finalize(q);
    sqlite3_close(s);
    return out;
}

static bool note_version(const struct catalog_version *v, void *ud)
{
    struct said s = say_at(db_path, v->number, NULL); /* checks the hash */
    assert_int_equal(s.n, v->n_claims);
    assert_int_equal(v->kind, VERSION_SHIPPED);
    assert_int_equal(v->base, v->number);
    ++*(int *)ud;
    return true;
}

static void test_migration(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    int n = 0;
    make_old(db_path);
    struct catalog *c = must_open(db_path); /* a reader that may write brings it up to date */
    assert_true(catalog_versions(c, note_version, &n, &err));
    assert_int_equal(n, 3);
    catalog_close(c);
    assert_string_equal(say_at(db_path, 2, "temperature").order,
                        "*/temperature=1 ^m-[0-9]+$/temperature=2 ");
    assert_string_equal(say_at(db_path, 3, NULL).order,
                        "*/stop=0 */seed=0 ^m-[0-9]+$/temperature=2 */temperature=1 ");
    (void)must_build_at(other_db, three);
    char *old = shape_of(db_path), *fresh = shape_of(other_db);
    assert_string_equal(old, fresh);
    free(old);
    free(fresh);
    /* A writer does so, too, and its work is kept. */
    remove_db(db_path);
    make_old(db_path);
    struct catalog_version v = must_set("*", "seed", "{\"note\":\"still\"}");
    assert_int_equal(v.number, 4);
    assert_int_equal(v.base, 3);
    assert_int_equal(say_at(db_path, 1, NULL).n, 6);
}

/* Another user for a while, where we are root: root may write everywhere. */
static void lose_rights(void)
{
    assert_int_equal(chmod(folder, 0555), 0);
    if (geteuid() == 0) {
        assert_int_equal(chmod(db_path, 0644), 0);
        assert_int_equal(setresuid(65534, 65534, 0), 0);
    }
}

static void regain_rights(void)
{
    if (getuid() == 65534) {
        assert_int_equal(setresuid(0, 0, 0), 0);
    }
    assert_int_equal(chmod(folder, 0700), 0);
}

static void test_where_nothing_may_be_written(void **state)
{
    (void)state;
    struct catalog_error err = {0}, other = {0}, third = {0};
    struct catalog *c = NULL;
    struct catalog_version v;
    bool is_changed;
    make_old(db_path);
    lose_rights();
    bool ok = catalog_open(&c, db_path, &err);
    regain_rights();
    assert_false(ok);
    assert_non_null(strstr(err.text, "open it once"));
    remove_db(db_path);
    (void)must_build(three);
    lose_rights();
    ok = set("*", "top_k", "{\"max\":50" OURS "}", 0, &v, &other) ||
         catalog_upgrade(other_db, db_path, &stamp, &is_changed, &v, &third);
    regain_rights();
    assert_false(ok);
    assert_non_null(strstr(other.text, "may not be written"));
    assert_non_null(strstr(third.text, "may not be made there"));
    assert_true(say("top_k").max == 40);
}

static void test_newer_schema(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct version_override o = {"p", "*", NULL, "top_k", NULL, 0};
    sqlite3 *s;
    (void)must_build(three);
    assert_int_equal(sqlite3_open(db_path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s, "PRAGMA user_version = 3", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(s), SQLITE_OK);
    assert_false(catalog_unset(db_path, &o, &stamp, NULL, &err));
    assert_int_equal(err.code, CATALOG_BAD_DB);
    assert_non_null(strstr(err.text, "schema 3"));
    err = (struct catalog_error){0};
    assert_false(catalog_migrate(db_path, &err));
    err = (struct catalog_error){0};
    assert_false(catalog_migrate(other_db, &err));
    assert_int_not_equal(access(other_db, F_OK), 0);
}

/* ---- two writers */

static void *set_many(void *ud)
{
    const char *param = ud;
    struct catalog_error err = {0};
    struct catalog_version v;
    char fields[128];
    for (int i = 1; i <= 20; i++) {
        (void)snprintf(fields, sizeof fields, "{\"max\":%d" OURS "}", 100 + i);
        if (!set("*", param, fields, 0, &v, &err)) {
            return "failed";
        }
    }
    return NULL;
}

static void test_two_writers(void **state)
{
    (void)state;
    pthread_t a, b;
    void *failed_a, *failed_b;
    int64_t newest;
    struct catalog_error err = {0};
    (void)must_build(three);
    assert_int_equal(pthread_create(&a, NULL, set_many, "top_k"), 0);
    assert_int_equal(pthread_create(&b, NULL, set_many, "temperature"), 0);
    assert_int_equal(pthread_join(a, &failed_a), 0);
    assert_int_equal(pthread_join(b, &failed_b), 0);
    assert_null(failed_a);
    assert_null(failed_b);
    struct catalog *c = must_open(db_path);
    assert_true(catalog_newest(c, &newest, &err));
    assert_int_equal(newest, 41);
    catalog_close(c);
    assert_string_equal(say(NULL).order, "*/temperature=120 ^a$/top_p=1 */top_k=120 ");
}

static void test_a_writer_that_stays(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v;
    struct timespec began, ended;
    sqlite3 *s;
    (void)must_build(three);
    assert_int_equal(sqlite3_open(db_path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    assert_false(set("*", "top_k", "{\"max\":50" OURS "}", 0, &v, &err));
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    assert_int_equal(sqlite3_close(s), SQLITE_OK);
    assert_non_null(strstr(err.text, "another program writes to catalog"));
    assert_in_range(ended.tv_sec - began.tv_sec, 3, 9);
    assert_true(say("top_k").max == 40);
}

static void test_newest_is_seen(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    int64_t newest = 0;
    (void)must_build(three);
    struct catalog *c = must_open(db_path);
    assert_true(catalog_newest(c, &newest, &err));
    assert_int_equal(newest, 1);
    (void)must_set("*", "top_k", "{\"max\":50" OURS "}");
    assert_true(catalog_newest(c, &newest, &err));
    assert_int_equal(newest, 2);
    /* Another file in its place. */
    remove_db(db_path);
    (void)must_build(three);
    assert_true(catalog_newest(c, &newest, &err));
    assert_int_equal(newest, 1);
    catalog_close(c);
}

/* ---- size */

static long size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (long)st.st_size;
}

static void test_versions_are_cheap(void **state)
{
    (void)state;
    struct catalog_version v;
    struct catalog_error err = {0};
    char fields[160];
    (void)build_shipped(db_path);
    long before = size_of(db_path);
    json_t *f;
    for (int i = 1; i <= 100; i++) {
        (void)snprintf(fields, sizeof fields, "{\"max\":%d" OURS "}", i);
        f = json_loads(fields, 0, NULL);
        struct version_override o = {"mistral", "*", NULL, i % 2 ? "top_p" : "temperature", f, 0};
        (void)json_object_set_new(f, "min", json_integer(0));
        (void)json_object_set_new(f, "wire", json_string("x"));
        (void)json_object_set_new(f, "support", json_string("yes"));
        (void)json_object_set_new(f, "confidence", json_string("low"));
        if (!catalog_set(db_path, &o, &stamp, &v, &err)) {
            fail_msg("%s", err.text);
        }
        json_decref(f);
    }
    assert_int_equal(v.number, 101);
    if (size_of(db_path) - before > 256 * 1024) {
        fail_msg("100 overrides took %ld bytes", size_of(db_path) - before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_set, setup),
        cmocka_unit_test_setup(test_set_the_same, setup),
        cmocka_unit_test_setup(test_set_over_like, setup),
        cmocka_unit_test_setup(test_set_takes_away, setup),
        cmocka_unit_test_setup(test_set_refused, setup),
        cmocka_unit_test_setup(test_conditions_are_keys, setup),
        cmocka_unit_test_setup(test_key_that_is_not_unique, setup),
        cmocka_unit_test_setup(test_unset, setup),
        cmocka_unit_test_setup(test_rollback, setup),
        cmocka_unit_test_setup(test_upgrade_in_all_combinations, setup),
        cmocka_unit_test_setup(test_conflicts_stay_open, setup),
        cmocka_unit_test_setup(test_overrides_outlive_a_provider, setup),
        cmocka_unit_test_setup(test_upgrade_from_a_database, setup),
        cmocka_unit_test_setup(test_any_order_same_hash, setup),
        cmocka_unit_test_setup(test_export_import, setup),
        cmocka_unit_test_setup(test_export_overrides, setup),
        cmocka_unit_test_setup(test_export_that_cannot_be_written, setup),
        cmocka_unit_test_setup(test_damaged_exports, setup),
        cmocka_unit_test_setup(test_evidence, setup),
        cmocka_unit_test_setup(test_migration, setup),
        cmocka_unit_test_setup(test_where_nothing_may_be_written, setup),
        cmocka_unit_test_setup(test_newer_schema, setup),
        cmocka_unit_test_setup(test_two_writers, setup),
        cmocka_unit_test_setup(test_a_writer_that_stays, setup),
        cmocka_unit_test_setup(test_newest_is_seen, setup),
        cmocka_unit_test_setup(test_versions_are_cheap, setup),
    };
    if (!mkdtemp(folder)) {
        return 1;
    }
    (void)snprintf(db_path, sizeof db_path, "%s/catalog.db", folder);
    (void)snprintf(other_db, sizeof other_db, "%s/other.db", folder);
    (void)snprintf(source_path, sizeof source_path, "%s/source.json", folder);
    (void)snprintf(second_path, sizeof second_path, "%s/second.json", folder);
    (void)snprintf(file_path, sizeof file_path, "%s/export.json", folder);
    int rc = cmocka_run_group_tests_name("versions", tests, NULL, NULL);
    (void)setup(NULL);
    (void)rmdir(folder);
    return rc;
}
