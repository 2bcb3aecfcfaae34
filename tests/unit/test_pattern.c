/* test_pattern.c - what an expression may cost: libc would compile some for ever. Every way in
 * refuses them: a source, an override, an import, a database that anybody may have written. */
#include "catalog/pattern.h"

#include "versions_help.h"

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* `piece` n times. */
static const char *many(const char *begin, const char *piece, int n, const char *end)
{
    static char text[2048];
    size_t len = (size_t)snprintf(text, sizeof text, "%s", begin);
    for (int i = 0; i < n; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s", piece);
    }
    (void)snprintf(text + len, sizeof text - len, "%s", end);
    return text;
}

static void refused(const char *text, const char *words)
{
    struct catalog_error err = {0};
    struct pattern p;
    double began = now_ms();
    if (pattern_init(&p, text, &err)) {
        fail_msg("taken: %s", text);
    }
    assert_int_equal(err.code, CATALOG_BAD_SOURCE);
    if (!strstr(err.text, words)) {
        fail_msg("'%s': %s", text, err.text);
    }
    assert_true(now_ms() - began < 50);
}

/* Taken, and neither compiling nor asking takes long, whatever the id. */
static void taken(const char *text)
{
    struct catalog_error err = {0};
    struct pattern p;
    char model[PATTERN_MODEL_MAX + 1];
    double began = now_ms();
    if (!pattern_init(&p, text, &err)) {
        fail_msg("'%s': %s", text, err.text);
    }
    memset(model, 'a', sizeof model);
    model[PATTERN_MODEL_MAX - 1] = '!';
    model[PATTERN_MODEL_MAX] = '\0';
    (void)pattern_takes(&p, model);
    double took = now_ms() - began;
    pattern_release(&p);
    pattern_release(&p);
    if (took > 200) {
        fail_msg("'%s' takes %g ms", text, took);
    }
}

static void test_refused(void **state)
{
    (void)state;
    refused(many("a", "+", 24, ""), "repeats too much");
    refused(many("a", "+?", 12, ""), "repeats too much");
    refused(many("a", "{2}", 12, ""), "repeats too much");
    refused(many("((((((((((((((((((((((((((a", ")+", 26, ""), "repeats too much");
    refused("(a{1,200}){1,200}", "repeats too much");
    refused("((a{1,20}){1,20}){1,20}", "repeats too much");
    refused("(a{20}b{20,}){30}", "repeats too much");
    refused("a{1,32767}", "repeats too much");
    refused("a{99999999999999999999}", "repeats too much");
    refused(many("", "a{99}", 20, ""), "repeats too much");
    refused("([]+]{60}){60}", "repeats too much");
    refused("[[:alpha:]()]{60}{60}", "repeats too much");
    refused("[[.].]]{60}{60}", "repeats too much");
    refused("(\\){60}){60}", "repeats too much");
    refused("^(.*)(.*)(.*)(.*)\\1\\2\\3\\4b$", "refers back");
    refused(many("", "x", PATTERN_LEN_MAX + 1, ""), "longer than 256");
    refused(many("", "(", 200, ""), "no regular expression");
    refused("a{", "no regular expression");
    refused("[a", "no regular expression");
    refused("a{2", "no regular expression");
    refused("*a", "no regular expression");
    refused("a\\", "no regular expression");
}

static void test_taken(void **state)
{
    (void)state;
    taken("*");
    taken("");
    taken("^((us|eu|apac|jp|au|global)[.])?anthropic[.]claude-(opus-5-5|sonnet-5-5|fable-5-[12]|"
          "mythos-5-[12])(-[0-9]{8})?(-v[0-9].*)?$");
    taken("a{1,255}b{1,255}");
    taken("[+]{60}[{]{60}[(]{60}");
    taken("a)b");
    taken(many("", ".*", 100, "b"));
    taken(many("", "(a|b?)+", 30, ""));
    taken(many("((((((((((((((((((((a", ")?", 20, ""));
    taken(many("", "[a-z]{0,32}", 6, "!"));
    taken(many("", "(a?|b?){9}", 12, "c"));
}

static void test_asked(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    bool takes = false;
    char long_id[400];
    assert_true(pattern_ask("^gpt-", "gpt-4o", &takes, &err) && takes);
    assert_true(pattern_ask("^gpt-", "o3", &takes, &err) && !takes);
    assert_true(pattern_ask("*", "o3", &takes, &err) && takes);
    memset(long_id, 'a', sizeof long_id);
    long_id[PATTERN_MODEL_MAX + 1] = '\0';
    assert_true(pattern_ask("a", long_id, &takes, &err) && !takes);
    long_id[PATTERN_MODEL_MAX] = '\0';
    assert_true(pattern_ask("a", long_id, &takes, &err) && takes);
    assert_false(pattern_ask("(", "o3", &takes, &err));
}

#define HOSTILE "((((((((((((((((((((((((((a)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+"

static void test_ways_in(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v;
    const char *one = source_path;
    write_text(source_path, SOURCE(CLAIM(HOSTILE, "top_k", "\"max\":40,")));
    assert_false(catalog_build(other_db, &one, 1, &stamp, &v, &err));
    assert_non_null(strstr(err.text, "repeats too much"));

    (void)must_build(three);
    err = (struct catalog_error){0};
    assert_false(set(HOSTILE, "top_k",
                     "{\"max\":3,\"support\":\"yes\",\"wire\":\"k\",\"confidence\":\"high\"" OURS
                     "}",
                     0, &v, &err));
    if (!strstr(err.text, "repeats too much")) {
        fail_msg("%s", err.text);
    }
}

static void write_hostile_database(void)
{
    sqlite3 *db;
    (void)must_build(three);
    assert_int_equal(sqlite3_open(db_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "DROP TRIGGER claim_stays; UPDATE claim SET models = '" HOSTILE
                                  "' WHERE models <> '*'",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static bool ignore(const struct claim *c, void *ud)
{
    (void)c;
    (void)ud;
    return true;
}

static bool ignore_life(const struct version_life *l, void *ud)
{
    (void)l;
    (void)ud;
    return true;
}

static void test_hostile_database(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct snapshot *s;
    write_hostile_database();
    struct catalog *c = must_open(db_path);
    double began = now_ms();
    assert_false(catalog_snapshot(c, 0, &s, &err));
    assert_int_equal(err.code, CATALOG_BAD_DB);
    assert_non_null(strstr(err.text, "'models' repeats too much"));
    err = (struct catalog_error){0};
    assert_false(catalog_claims(c, 0, "p", "m", NULL, ignore, NULL, &err));
    assert_non_null(strstr(err.text, "'models' repeats too much"));
    err = (struct catalog_error){0};
    assert_true(catalog_history(c, "p", "top_p", "m", ignore_life, NULL, &err));
    assert_true(now_ms() - began < 500);
    catalog_close(c);
}

static int begin(void **state)
{
    (void)state;
    return make_folder() ? 0 : -1;
}

static int end(void **state)
{
    (void)setup(state);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_asked),
        cmocka_unit_test_setup(test_ways_in, setup),
        cmocka_unit_test_setup(test_hostile_database, setup),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
