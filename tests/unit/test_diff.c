/* test_diff.c - the catalog read by people: versions compared, a parameter's history, versions by
 * date, claims without a snapshot, claims as JSON, names that are nearly right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/claim_json.h"
#include "catalog/evidence.h"
#include "catalog/nearest.h"

static char folder[] = "/tmp/isotherm-diff-XXXXXX";
static char db_path[128], p_path[128], q_path[128];

/* ---- helpers */

#define PROVIDER(id, title)                                                                        \
    "\"provider\":{\"id\":\"" id "\",\"title\":\"" title                                           \
    "\",\"dialect\":\"openai\",\"auth\":\"none\",\"chat_endpoint\":\"/chat\"}"
#define CLAIM_FROM(models, param, rest, source, as_of)                                             \
    "{\"models\":\"" models "\",\"endpoint\":\"/chat\",\"param\":\"" param "\",\"wire\":\"" param  \
    "\",\"support\":\"yes\"," rest "\"source\":\"" source "\",\"as_of\":\"" as_of                  \
    "\",\"confidence\":\"high\"}"
#define CLAIM(models, param, rest) CLAIM_FROM(models, param, rest, "s", "2026-01-01")
#define FILE_OF(id, claims)        "{" PROVIDER(id, "T") ",\"claims\":[" claims "]}"

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* A version of provider p, and of q where `q` is not NULL. */
static int64_t build_at(const char *created, const char *p, const char *q)
{
    const char *paths[] = {p_path, q_path};
    struct catalog_version v = {0};
    struct catalog_error err = {0};
    write_file(p_path, p);
    if (q) {
        write_file(q_path, q);
    }
    if (!catalog_build(db_path, paths, q ? 2 : 1, &(struct version_stamp){"me", "because", created},
                       &v, &err)) {
        fail_msg("%s", err.text);
    }
    return v.number;
}

static int64_t build(const char *p)
{
    return build_at("2026-11-30T12:00:00Z", p, NULL);
}

static struct catalog *must_open(void)
{
    struct catalog *c = NULL;
    struct catalog_error err = {0};
    if (!catalog_open_quick(&c, db_path, &err)) {
        fail_msg("%s", err.text);
    }
    return c;
}

static int setup(void **state)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[160];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s%s", db_path, ends[i]);
        (void)remove(path);
    }
    return 0;
}

/* What a reader gives, a word an item: "~p * temperature" and so on. */
struct told {
    char text[2048];
    size_t n, stop_at; /* stop_at 0: never */
};

static bool tell(struct told *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool tell(struct told *t, const char *fmt, ...)
{
    size_t len = strlen(t->text);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(t->text + len, sizeof t->text - len, fmt, ap);
    va_end(ap);
    return ++t->n != t->stop_at;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "-";
}

/* ---- diff */

static bool tell_difference(const struct version_difference *d, void *ud)
{
    const json_t *any = d->after ? d->after : d->before;
    char fields[256] = "";
    assert_int_equal(d->before == NULL, d->change == VERSION_ADDED);
    assert_int_equal(d->after == NULL, d->change == VERSION_REMOVED);
    if (d->change == VERSION_CHANGED) {
        json_t *list = difference_fields(d->before, d->after);
        for (size_t i = 0; i < json_array_size(list); i++) {
            size_t n = strlen(fields);
            (void)snprintf(fields + n, sizeof fields - n, "%s%s", i ? "," : ":",
                           json_string_value(json_array_get(list, i)));
        }
        json_decref(list);
    }
    return tell(ud, "%c%s %s %s%s; ", "+-~"[d->change],
                text_of(any, d->is_provider ? "id" : "provider"), text_of(any, "models"),
                text_of(any, "param"), fields);
}

static const char *diff(int64_t from, int64_t to, struct told *t)
{
    struct catalog *c = must_open();
    struct catalog_error err = {0};
    if (!catalog_diff(c, from, to, tell_difference, t, &err)) {
        (void)snprintf(t->text, sizeof t->text, "%s", err.text);
    }
    catalog_close(c);
    return t->text;
}
#define DIFF(from, to) diff(from, to, &(struct told){.n = 0})

static void test_diff_of_claims(void **state)
{
    (void)state;
    build(FILE_OF("p", CLAIM("*", "temperature", "\"max\":1,") "," CLAIM(
                           "^a", "top_k", "") "," CLAIM("*", "top_p", "")));
    build(FILE_OF("p", CLAIM("*", "temperature", "\"max\":1.5,") "," CLAIM(
                           "*", "seed", "") "," CLAIM("*", "top_p", "")));
    assert_string_equal(DIFF(1, 2), "+p * seed; ~p * temperature:max; -p ^a top_k; ");
    assert_string_equal(DIFF(2, 1), "-p * seed; ~p * temperature:max; +p ^a top_k; ");
    assert_string_equal(DIFF(1, 0), DIFF(1, 2));
    assert_string_equal(DIFF(2, 2), "");
    struct told one = {.stop_at = 1};
    assert_string_equal(diff(1, 2, &one), "+p * seed; ");
    assert_non_null(strstr(DIFF(1, 3), "has no version 3"));
}

static void test_diff_of_providers(void **state)
{
    (void)state;
    build_at("2026-01-01T00:00:00Z", FILE_OF("p", CLAIM("*", "n", "")),
             FILE_OF("q", CLAIM("*", "n", "")));
    build_at("2026-01-02T00:00:00Z", "{" PROVIDER("p", "new") ",\"claims\":[]}",
             FILE_OF("r", CLAIM("*", "n", "")));
    assert_string_equal(DIFF(1, 2), "~p - -:title; -p * n; -q - -; -q * n; +r - -; +r * n; ");
}

/* A field of the key makes another claim; source and date are of the key only where they must be.
 */
static void test_diff_keys(void **state)
{
    (void)state;
#define WHEN(value)                                                                                \
    "\"variant\":\"conditional\",\"when\":{\"param\":\"seed\",\"in\":[\"" value "\"]},"
    build(FILE_OF("p", CLAIM("*", "n", "\"variant\":\"history\",") "," CLAIM(
                           "*", "top_k", WHEN("1")) "," CLAIM_FROM("*", "top_p", "", "s", "2026")));
    build(FILE_OF("p", CLAIM("*", "n", "\"variant\":\"disputed\",") "," CLAIM(
                           "*", "top_k", WHEN("2")) "," CLAIM_FROM("*", "top_p", "", "t", "2025")));
    assert_string_equal(DIFF(1, 2), "+p * n; -p * n; -p * top_k; +p * top_k; "
                                    "~p * top_p:source,as_of; ");
}

static void test_diff_of_claims_of_one_key(void **state)
{
    (void)state;
#define DISPUTED "\"variant\":\"disputed\","
    build(FILE_OF("p", CLAIM_FROM("*", "n", DISPUTED "\"max\":1,", "a", "2026") "," CLAIM_FROM(
                           "*", "n", DISPUTED "\"max\":2,", "b", "2026")));
    build(FILE_OF("p", CLAIM_FROM("*", "n", DISPUTED "\"max\":3,", "b", "2026") "," CLAIM_FROM(
                           "*", "n", DISPUTED "\"max\":4,", "c", "2026")));
    /* b is the same source; a and c are what is left alone on each side */
    assert_string_equal(DIFF(1, 2), "~p * n:max; ~p * n:max,source; ");
    build(FILE_OF("p", CLAIM_FROM("*", "n", DISPUTED "\"max\":3,", "b", "2026") "," CLAIM_FROM(
                           "*", "n", DISPUTED "\"max\":5,", "d",
                           "2026") "," CLAIM_FROM("*", "n", DISPUTED "\"max\":6,", "e", "2026")));
    assert_string_equal(DIFF(2, 3), "-p * n; +p * n; +p * n; ");
}

static bool take_json(const struct version_difference *d, void *ud)
{
    json_t **out = ud;
    *out = difference_json(d);
    return false;
}

static void test_diff_as_json(void **state)
{
    (void)state;
    json_t *j = NULL;
    struct catalog_error err = {0};
    build(FILE_OF("p", CLAIM("*", "seed", "\"max\":9223372036854775807,")));
    build(FILE_OF("p", CLAIM("*", "seed", "\"max\":9223372036854775806,\"local\":true,")));
    struct catalog *c = must_open();
    assert_true(catalog_diff(c, 1, 2, take_json, &j, &err));
    catalog_close(c);
    assert_string_equal(text_of(j, "change"), "changed");
    assert_string_equal(text_of(j, "kind"), "claim");
    const json_t *before = json_object_get(j, "before"), *after = json_object_get(j, "after");
    assert_int_equal(json_integer_value(json_object_get(before, "max")), INT64_MAX);
    assert_int_equal(json_integer_value(json_object_get(after, "max")), INT64_MAX - 1);
    assert_int_equal(json_integer_value(json_object_get(before, "version")), 1);
    assert_int_equal(json_integer_value(json_object_get(after, "version")), 2);
    assert_true(json_integer_value(json_object_get(after, "id")) > 0);
    assert_null(json_object_get(before, "local")); /* the sources' form: what says nothing is out */
    json_decref(j);
}

/* ---- history */

static bool tell_life(const struct version_life *l, void *ud)
{
    char range[64];
    claim_range_text_json(l->claim, range, sizeof range);
    return tell(ud, "%s %s %lld-%lld %s..%s; ", text_of(l->claim, "models"), range,
                (long long)l->first, (long long)l->last, l->since, l->until ? l->until : "");
}

static const char *history(const char *provider, const char *model, struct told *t)
{
    struct catalog *c = must_open();
    struct catalog_error err = {0};
    if (!catalog_history(c, provider, "top_k", model, tell_life, t, &err)) {
        (void)snprintf(t->text, sizeof t->text, "%s", err.text);
    }
    catalog_close(c);
    return t->text;
}
#define HISTORY(provider, model) history(provider, model, &(struct told){.n = 0})

static void test_history(void **state)
{
    (void)state;
#define A CLAIM("^a", "top_k", "\"max\":1,")
#define B CLAIM("^b", "top_k", "\"max\":2,")
    build_at("2026-01", FILE_OF("p", A), NULL);
    build_at("2026-02", FILE_OF("p", A "," B "," CLAIM("*", "n", "")), NULL);
    build_at("2026-03", FILE_OF("p", B), NULL);
    build_at("2026-04", FILE_OF("p", B "," A), NULL);
    assert_string_equal(HISTORY("p", NULL), "^a ..1 1-2 2026-01..2026-03; ^b ..2 2-0 2026-02..; "
                                            "^a ..1 4-0 2026-04..; ");
    assert_string_equal(HISTORY("p", "b1"), "^b ..2 2-0 2026-02..; ");
    assert_string_equal(HISTORY("p", "c"), "");
    assert_string_equal(HISTORY("nobody", NULL), "");
    struct told one = {.stop_at = 1};
    assert_string_equal(history("p", NULL, &one), "^a ..1 1-2 2026-01..2026-03; ");
}

/* ---- versions by date */

static int64_t version_at(struct catalog *c, const char *day)
{
    struct catalog_error err = {0};
    int64_t n = -1;
    if (!catalog_version_at(c, day, &n, &err)) {
        assert_int_equal(err.code, CATALOG_NOT_FOUND);
        return -1;
    }
    return n;
}

static void test_version_at(void **state)
{
    (void)state;
    build_at("2026-01-10T08:00:00Z", FILE_OF("p", CLAIM("*", "n", "\"max\":1,")), NULL);
    build_at("2026-01-10T09:00:00Z", FILE_OF("p", CLAIM("*", "n", "\"max\":2,")), NULL);
    build_at("2026-02-01T00:00:00Z", FILE_OF("p", CLAIM("*", "n", "\"max\":3,")), NULL);
    struct catalog *c = must_open();
    assert_int_equal(version_at(c, "2026-01-09"), -1);
    assert_int_equal(version_at(c, "2026-01-10"), 2);
    assert_int_equal(version_at(c, "2026-01-10T08:30"), 1);
    assert_int_equal(version_at(c, "2026-01-10T07:59:59Z"), -1);
    assert_int_equal(version_at(c, "2026-01-10T09:00:00Z"), 2);
    assert_int_equal(version_at(c, "2026-01-31"), 2);
    assert_int_equal(version_at(c, "2026-02-01"), 3);
    assert_int_equal(version_at(c, "2030-01-01"), 3);
    catalog_close(c);
}

static void test_days(void **state)
{
    (void)state;
    static const char *const days[] = {"2026-11-30", "2024-02-29", "2000-02-29", "0001-01-01"};
    static const char *const none[] = {"",           "2026",       "2026-11",    "2026-11-31",
                                       "2026-02-31", "2026-02-29", "1900-02-29", "2026-00-10",
                                       "2026-13-01", "2026-1-01",  "2026-11-0x", "2026-11-300",
                                       "-026-11-30", "0000-01-01", "2026-11-00"};
    static const char *const times[] = {"2026-11-30", "2026-11-30T09:30", "2026-11-30T09:30Z",
                                        "2026-11-30T23:59:60", "2026-11-30T00:00:00Z"};
    static const char *const bad[] = {
        "2026-11-30T",        "2026-11-30T9:30",        "2026-11-30 09:30",
        "2026-11-30T24:00",   "2026-11-30T09:60",       "2026-11-30Z",
        "2026-11-30T09:30:0", "2026-11-30T09:30+01:00", "2026-02-31T00:00:00Z"};
    for (size_t i = 0; i < sizeof days / sizeof days[0]; i++) {
        assert_true(catalog_is_day(days[i]));
    }
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_false(catalog_is_day(none[i]) || catalog_is_time(none[i]));
    }
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        assert_true(catalog_is_time(times[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(catalog_is_time(bad[i]));
    }
}

static void test_claim_holds_on(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *day;
        bool holds;
    } cases[] = {
        {NULL, NULL, "2026-06-15", true},          {"2026-06-15", NULL, "2026-06-14", false},
        {"2026-06-15", NULL, "2026-06-15", true},  {"2026-06", NULL, "2026-05-31", false},
        {"2026-06", NULL, "2026-06-01", true},     {"2026", NULL, "2025-12-31", false},
        {"2026", NULL, "2026-01-01", true},        {NULL, "2026-06-15", "2026-06-15", true},
        {NULL, "2026-06-15", "2026-06-16", false}, {NULL, "2026-06", "2026-06-30", true},
        {NULL, "2026-06", "2026-07-01", false},    {NULL, "2026", "2026-12-31", true},
        {NULL, "2026", "2027-01-01", false},       {"2026-01-01", "2026-06-30", "2026-03-03", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct claim c = {.valid_from = cases[i].from, .valid_to = cases[i].to};
        if (claim_holds_on(&c, cases[i].day) != cases[i].holds) {
            fail_msg("case %zu", i);
        }
    }
}

/* ---- claims without a snapshot, as JSON */

#define WHOLE                                                                                      \
    "{\"models\":\"^a\",\"endpoint\":\"/chat\",\"param\":\"seed\",\"source_param\":\"Seed\","      \
    "\"wire\":\"x.seed\",\"support\":\"yes\",\"required\":true,\"min\":-9223372036854775808,"      \
    "\"max\":9223372036854775807,\"min_exclusive\":true,\"max_exclusive\":true,\"integer\":true,"  \
    "\"values\":[1,2],\"default\":7,\"items_max\":4,\"len_max\":5,\"len_min\":2,\"no_blank\":"     \
    "true,"                                                                                        \
    "\"conflicts\":[\"top_p\"],\"conflicts_text\":[\"some mode\"],\"needs\":[\"n\"],"              \
    "\"adds\":{\"do_sample\":true},\"when\":{\"param\":\"seed\",\"not_in\":[\"0\"]},"              \
    "\"when_text\":\"not always\",\"variant\":\"conditional\",\"derived\":true,\"local\":true,"    \
    "\"valid_from\":\"2026-01\",\"valid_to\":\"2026-12-31\",\"source\":\"s\",\"as_of\":\"2026\","  \
    "\"confidence\":\"low\",\"note\":\"n\"}"

static bool keep_json(const struct claim *c, void *ud)
{
    json_t **out = ud;
    *out = claim_json(c);
    return false;
}

/* Every field of the source comes back as it was written, from the database and from a snapshot. */
static void test_round_trip(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct snapshot *s = NULL;
    json_t *rows[2] = {NULL, NULL}, *want = json_loads(WHOLE, 0, NULL), *value;
    const char *key;
    assert_non_null(want);
    build(FILE_OF("p", WHOLE));
    struct catalog *c = must_open();
    assert_true(catalog_claims(c, 0, NULL, NULL, NULL, keep_json, &rows[0], &err));
    assert_true(catalog_snapshot(c, 0, &s, &err));
    snapshot_each(s, NULL, NULL, NULL, keep_json, &rows[1]);
    for (int i = 0; i < 2; i++) {
        json_object_foreach (want, key, value) {
            if (!json_equal(json_object_get(rows[i], key), value)) {
                fail_msg("%s of '%s' differs", i ? "snapshot" : "row", key);
            }
        }
        assert_string_equal(text_of(rows[i], "provider"), "p");
        assert_string_equal(text_of(rows[i], "verdict"), "unverified");
        assert_true(json_is_null(json_object_get(rows[i], "verdict_on")));
    }
    assert_true(json_equal(rows[0], rows[1]));
    json_decref(rows[0]);
    json_decref(rows[1]);
    json_decref(want);
    snapshot_release(s);
    catalog_close(c);
}

static bool tell_claim(const struct claim *c, void *ud)
{
    return tell(ud, "%s %s %s; ", c->provider, c->models, c->param);
}

static int64_t asked_version; /* of claims() */

static const char *claims(const char *provider, const char *model, const char *param,
                          struct told *t)
{
    struct catalog *c = must_open();
    struct catalog_error err = {0};
    if (!catalog_claims(c, asked_version, provider, model, param, tell_claim, t, &err)) {
        (void)snprintf(t->text, sizeof t->text, "%s", err.text);
    }
    catalog_close(c);
    return t->text;
}
#define CLAIMS(provider, model, param) claims(provider, model, param, &(struct told){.n = 0})

static void test_filters(void **state)
{
    (void)state;
    char long_model[400];
    build_at("2026-01-01T00:00:00Z",
             FILE_OF("p", CLAIM("^a", "n", "") "," CLAIM("*", "n", "") "," CLAIM("^a", "seed", "")),
             FILE_OF("q", CLAIM("^b", "n", "")));
    assert_string_equal(CLAIMS(NULL, NULL, NULL), "p ^a n; p * n; p ^a seed; q ^b n; ");
    assert_string_equal(CLAIMS("p", NULL, NULL), "p ^a n; p * n; p ^a seed; ");
    assert_string_equal(CLAIMS(NULL, NULL, "n"), "p ^a n; p * n; q ^b n; ");
    assert_string_equal(CLAIMS("p", NULL, "n"), "p ^a n; p * n; ");
    assert_string_equal(CLAIMS(NULL, "b1", NULL), "p * n; q ^b n; ");
    assert_string_equal(CLAIMS("p", "a", "seed"), "p ^a seed; ");
    assert_string_equal(CLAIMS("x' OR 1=1 --", NULL, NULL), "");
    struct told one = {.stop_at = 1};
    assert_string_equal(claims(NULL, NULL, NULL, &one), "p ^a n; ");
    memset(long_model, 'a', sizeof long_model - 1);
    long_model[sizeof long_model - 1] = '\0';
    assert_string_equal(CLAIMS("p", long_model, "n"), "p * n; ");
}

/* The claims of that version and no other, in its order, whatever came first. */
static void test_filters_of_versions(void **state)
{
    (void)state;
    build(FILE_OF("p", CLAIM("^a", "n", "") "," CLAIM("*", "n", "")));
    build(FILE_OF("p", CLAIM("^c", "n", "") "," CLAIM("*", "n", "")));
    assert_string_equal(CLAIMS("p", NULL, NULL), "p ^c n; p * n; ");
    assert_string_equal(CLAIMS(NULL, NULL, "n"), "p ^c n; p * n; ");
    asked_version = 1;
    assert_string_equal(CLAIMS("p", NULL, NULL), "p ^a n; p * n; ");
    assert_string_equal(CLAIMS("p", NULL, "n"), "p ^a n; p * n; ");
    asked_version = 3;
    assert_non_null(strstr(CLAIMS("p", NULL, NULL), "has no version 3"));
    asked_version = 0;
}

static bool keep_id(const struct claim *c, void *ud)
{
    *(int64_t *)ud = c->id;
    return false;
}

static bool tell_verdict(const struct claim *c, void *ud)
{
    return tell(ud, "%s %s; ", claim_verdict_name(c->verdict), c->verdict_on ? c->verdict_on : "-");
}

static void test_verdict_of_a_row(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct told t = {.n = 0};
    int64_t id = 0;
    build(FILE_OF("p", CLAIM("*", "n", "") "," CLAIM("*", "seed", "")));
    struct catalog *c = must_open();
    assert_true(catalog_claims(c, 0, "p", NULL, "seed", keep_id, &id, &err));
    struct evidence e = {.claim = id,
                         .verdict = CLAIM_CONTRADICTED,
                         .origin = EVIDENCE_TRAFFIC,
                         .model = "m",
                         .status = 400,
                         .seen = "2026-11-30T10:00:00Z",
                         .n = 1};
    if (!evidence_add(db_path, &e, 1, &err) ||
        !catalog_claims(c, 0, "p", NULL, NULL, tell_verdict, &t, &err)) {
        fail_msg("%s", err.text);
    }
    assert_string_equal(t.text, "unverified -; contradicted 2026-11-30T10:00:00Z; ");
    catalog_close(c);
}

static void test_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *claim, *want;
    } cases[] = {
        {"{}", ""},
        {"{\"min\":0,\"max\":2}", "0..2"},
        {"{\"min\":0,\"max\":1.5,\"min_exclusive\":true}", "(0..1.5]"},
        {"{\"max\":9223372036854775807}", "..9223372036854775807"},
        {"{\"min\":-0.5}", "-0.5.."},
        {"{\"values\":[\"low\",2]}", "\"low\"|2"},
        {"{\"items_max\":4,\"len_max\":16}", "4 items 16 chars"},
        {"{\"len_min\":6,\"len_max\":128}", "6..128 chars"},
        {"{\"len_min\":6}", ">=6 chars"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[64];
        json_t *j = json_loads(cases[i].claim, 0, NULL);
        claim_range_text_json(j, out, sizeof out);
        json_decref(j);
        assert_string_equal(out, cases[i].want);
    }
}

/* ---- names */

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *provider, *param, *wrong, *says;
    } cases[] = {
        {"p", "seed", NULL, NULL},
        {NULL, NULL, NULL, NULL},
        {"openia", NULL, "provider", "no provider 'openia': did you mean 'openai'?"},
        {"zzz", NULL, "provider", "no provider 'zzz'"},
        {"", NULL, "provider", "no provider ''"},
        {"\033[31m", NULL, "provider", "no provider '?[31m'"},
        {"p", "temprature", "param", "no parameter 'temprature': did you mean 'temperature'?"},
        {"p", "sytem_role", "param", "no parameter 'sytem_role': did you mean 'system_role'?"},
    };
    struct catalog_version v;
    build_at("2026-01-01T00:00:00Z", FILE_OF("p", CLAIM("*", "n", "")), FILE_OF("openai", ""));
    build(FILE_OF("p", CLAIM("*", "n", "")));
    struct catalog *c = must_open();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct catalog_error err = {0};
        bool ok = catalog_check_names(c, 1, cases[i].provider, cases[i].param, &err);
        assert_int_equal(ok, cases[i].says == NULL);
        if (!ok) {
            assert_int_equal(err.code, CATALOG_NOT_FOUND);
            assert_string_equal(err.text, cases[i].says);
            assert_string_equal(err.param, cases[i].wrong);
        }
    }
    assert_false(catalog_check_names(c, 0, "openai", NULL, NULL)); /* version 2 has it no more */
    assert_true(catalog_check_names(c, CATALOG_ANY_VERSION, "openai", NULL, NULL));
    assert_false(catalog_get_version(c, 9, &v, NULL));
    assert_true(catalog_get_version(c, 0, &v, NULL));
    assert_int_equal(v.number, 2);
    catalog_close(c);
}

static void test_nearest(void **state)
{
    (void)state;
    static const char *const known[] = {"openai",    "openrouter", "anthropic",
                                        "zhipu-glm", "n",          "seed"};
    static const struct {
        const char *word, *best;
    } cases[] = {{"opnai", "openai"},
                 {"OpenAI", "openai"},
                 {"open", "openai"},
                 {"zhipu", "zhipu-glm"},
                 {"glm", "zhipu-glm"},
                 {"lm", ""},
                 {"openrotuer", "openrouter"},
                 {"x", "n"},
                 {"", ""},
                 {"mistral", ""},
                 {"anthropics", "anthropic"},
                 {"sede", "seed"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct nearest n;
        nearest_init(&n, cases[i].word);
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
            nearest_offer(&n, known[k]);
        }
        assert_string_equal(n.best, cases[i].best);
        assert_false(n.is_known);
    }
}

/* ---- damaged files */

static void fill_page(long at)
{
    char page[4096];
    FILE *f = fopen(db_path, "r+b");
    assert_non_null(f);
    memset(page, 0x5a, sizeof page);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fwrite(page, 1, sizeof page, f), sizeof page);
    assert_int_equal(fclose(f), 0);
}

/* Each page damaged in turn: a reader shows all, or says in one line that the file is damaged. */
static void test_damaged_pages(void **state)
{
    (void)state;
    size_t n_failed = 0, n_pages = 0;
    char *all = malloc(1u << 20);
    assert_non_null(all);
    build(FILE_OF("p", CLAIM("^a", "n", "") "," CLAIM("*", "seed", "\"note\":\"x\",")));
    FILE *f = fopen(db_path, "rb");
    assert_non_null(f);
    size_t len = fread(all, 1, 1u << 20, f);
    (void)fclose(f);
    for (size_t at = 0; at + 4096 <= len; at += 4096, n_pages++) {
        struct told t = {.n = 0};
        struct catalog *c = NULL;
        struct catalog_error err = {0};
        f = fopen(db_path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(all, 1, len, f), len);
        (void)fclose(f);
        fill_page((long)at);
        bool ok = catalog_open_quick(&c, db_path, &err) &&
                  catalog_claims(c, 0, NULL, NULL, NULL, tell_claim, &t, &err);
        catalog_close(c);
        n_failed += !ok;
        if (!ok) {
            assert_true(err.text[0] && !strchr(err.text, '\n'));
            assert_true(err.code == CATALOG_BAD_DB || err.code == CATALOG_NOT_FOUND);
        } else {
            assert_string_equal(t.text, "p ^a n; p * seed; ");
        }
    }
    assert_true(n_failed >= 4 && n_pages > n_failed);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_diff_of_claims, setup),
        cmocka_unit_test_setup(test_diff_of_providers, setup),
        cmocka_unit_test_setup(test_diff_keys, setup),
        cmocka_unit_test_setup(test_diff_of_claims_of_one_key, setup),
        cmocka_unit_test_setup(test_diff_as_json, setup),
        cmocka_unit_test_setup(test_history, setup),
        cmocka_unit_test_setup(test_version_at, setup),
        cmocka_unit_test(test_days),
        cmocka_unit_test(test_claim_holds_on),
        cmocka_unit_test_setup(test_round_trip, setup),
        cmocka_unit_test_setup(test_filters, setup),
        cmocka_unit_test_setup(test_filters_of_versions, setup),
        cmocka_unit_test_setup(test_verdict_of_a_row, setup),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test_setup(test_names, setup),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test_setup(test_damaged_pages, setup),
    };
    if (!mkdtemp(folder)) {
        return 1;
    }
    (void)snprintf(db_path, sizeof db_path, "%s/catalog.db", folder);
    (void)snprintf(p_path, sizeof p_path, "%s/p.json", folder);
    (void)snprintf(q_path, sizeof q_path, "%s/q.json", folder);
    int rc = cmocka_run_group_tests_name("diff", tests, NULL, NULL);
    (void)setup(NULL);
    (void)remove(p_path);
    (void)remove(q_path);
    (void)rmdir(folder);
    return rc;
}
