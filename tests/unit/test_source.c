/* test_source.c - what a source file may not hold: each slip is named with file, line, claim and
 * field, and nothing is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/source.h"
#include "catalog/versions.h"

static char folder[] = "/tmp/isotherm-source-XXXXXX";
static char path[64], db_path[64];

#define PROVIDER                                                                                   \
    "{\"provider\": {\"id\": \"p\", \"title\": \"P\",\n \"dialect\": \"openai\", \"auth\": "       \
    "\"none\"}, \"claims\": [\n"
#define TAIL "\"source\": \"s\", \"as_of\": \"2026-01-01\", \"confidence\": \"high\"}"
/* The first claim stands on line 3, the second on line 4. */
#define FIRST                                                                                      \
    "{\"models\": \"*\", \"endpoint\": \"[{/\\\"chat\", \"param\": \"top_p\", \"wire\": "          \
    "\"top_p\", \"support\": \"yes\", " TAIL ",\n"
#define CLAIM(rest)                                                                                \
    "{\"models\": \"*\", \"endpoint\": \"/chat\", \"param\": \"temperature\", \"wire\": "          \
    "\"temperature\", \"support\": \"yes\", " rest TAIL
#define FILE_OF(second) PROVIDER FIRST second "\n]}\n"

static void write_file(const char *text, size_t len)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void must_load(const char *text)
{
    struct catalog_error err = {0};
    struct source s;
    write_file(text, strlen(text));
    if (!source_load(&s, path, &err)) {
        fail_msg("%s", err.text);
    }
    source_release(&s);
}

/* The file, what it says and where; and that a build of it leaves no database. */
static void refuse(const char *text, const char *field, const char *where, const char *words)
{
    struct catalog_error err = {0}, again = {0};
    struct source s;
    struct catalog_version v;
    const char *one = path;
    write_file(text, strlen(text));
    if (source_load(&s, path, &err)) {
        fail_msg("taken: %s", text);
    }
    if (strcmp(err.param, field) != 0 || !strstr(err.text, words) || !strstr(err.text, where) ||
        !strstr(err.text, path)) {
        fail_msg("field '%s', text: %s", err.param, err.text);
    }
    assert_int_equal(err.code, CATALOG_BAD_SOURCE);
    assert_null(strpbrk(err.text, "\n"));
    assert_false(catalog_build(
        db_path, &one, 1, &(struct version_stamp){"a", "r", "2026-01-01T00:00:00Z"}, &v, &again));
    assert_string_equal(again.text, err.text);
    assert_int_not_equal(access(db_path, F_OK), 0);
}

#define REFUSE(rest, field, words)                                                                 \
    refuse(FILE_OF(CLAIM(rest)), field, " line 4: claim 2 (temperature): ", words)

static void test_place(void **state)
{
    (void)state;
    must_load(FILE_OF(CLAIM("")));
    REFUSE("\"colour\": 1, ", "colour", "not a field");
    REFUSE("\"min\": 2, \"max\": 1, ", "min", "above 'max'");
    REFUSE("\"min\": \"0\", ", "min", "must be a number");
    REFUSE("\"derived\": 1, ", "derived", "true or false");
    refuse(FILE_OF("7"), "claims", " line 4: claim 2 (no param): ", "objects");
    refuse(FILE_OF("{\"models\": \"(\", \"endpoint\": \"/\", \"param\": \"top_k\", \"wire\": "
                   "\"k\", \"support\": \"yes\", " TAIL),
           "models", " line 4: claim 2 (top_k): ", "regular expression");
    refuse(FILE_OF("{\"models\": \"*\", \"endpoint\": \"/\", \"param\": \"temprature\", "
                   "\"support\": \"absent\", " TAIL),
           "param", " line 4: claim 2 (temprature): ", "neither a parameter");
    refuse(FILE_OF("{\"models\": \"*\", \"endpoint\": \"/\", \"param\": \"te\\nmp\\u007f\", "
                   "\"support\": \"absent\", " TAIL),
           "param", " line 4: claim 2 (te?mp?): ", "neither a parameter");
    /* The line is where the claim begins, not where the slip is; several on one line are told apart
     * by number. */
    refuse(FILE_OF("\n  {\n\"models\": 1}"), "models", " line 5: claim 2 (no param): ", "string");
    refuse(PROVIDER "{}, {}]}", "models", " line 3: claim 1 (no param): ", "missing");
    refuse("{\"claims\": [\n[]], \"provider\": {\"id\": \"p\", \"title\": \"P\", \"dialect\": "
           "\"x\", \"auth\": \"none\"}}",
           "claims", " line 2: claim 1 (no param): ", "objects");
    refuse("{\"claims\": [],\n \"provider\": {\"id\": \"a b\", \"title\": \"P\", \"dialect\": "
           "\"x\", \"auth\": \"none\"}}",
           "id", " line 2: provider: ", "must be of");
}

static void test_doubles(void **state)
{
    (void)state;
    refuse(FILE_OF(CLAIM("") ",\n" CLAIM("")), "", " line 5: claim 3 repeats claim 2 of line 4",
           "");
    refuse(FILE_OF(CLAIM("\"max\": 1, ") ",\n" CLAIM("\"max\": 2, ")), "",
           " line 5: claim 3 contradicts claim 2 of line 4", "");
    /* "current" is what is meant where nothing is said. */
    refuse(FILE_OF(CLAIM("\"variant\": \"current\", ") ",\n" CLAIM("\"max\": 2, ")), "",
           "claim 3 contradicts claim 2", "");
    /* Another condition, another variant, or what follows from a claim is another key. */
    must_load(FILE_OF(CLAIM("\"max\": 1, ") ",\n" CLAIM("\"max\": 2, \"derived\": true, ")));
    must_load(FILE_OF(CLAIM("\"max\": 1, ") ",\n" CLAIM("\"max\": 2, \"variant\": \"history\", ")));
    must_load(FILE_OF(CLAIM("\"max\": 1, ") ",\n" CLAIM(
        "\"max\": 2, \"variant\": \"conditional\", \"when\": {\"param\": \"x\", \"in\": "
        "[\"a\"]}, ")));
}

#define WHEN(when) "\"variant\": \"conditional\", \"when\": " when ", "

static void test_shapes(void **state)
{
    (void)state;
    must_load(FILE_OF(CLAIM(WHEN("{\"param\": \"top_k\", \"not_in\": [\"0\", \"absent\"]}"))));
    REFUSE(WHEN("{\"param\": \"top_k\"}"), "when", "must be {");
    REFUSE(WHEN("{\"in\": [\"0\"], \"not_in\": [\"1\"]}"), "when", "must be {");
    REFUSE(WHEN("{\"param\": \"top_k\", \"in\": [\"0\"], \"x\": 1}"), "when", "must be {");
    REFUSE(WHEN("{\"param\": \"top k\", \"in\": [\"0\"]}"), "when", "a-z");
    REFUSE(WHEN("{\"param\": \"top_k\", \"in\": [0]}"), "when", "strings");
    REFUSE(WHEN("{\"param\": \"top_k\", \"in\": \"0\"}"), "when", "must be {");
    REFUSE("\"when\": [1], ", "when", "must be an object");
    REFUSE("\"when\": {\"param\": \"x\", \"in\": [\"a\"]}, ", "when", "always");

    must_load(FILE_OF(CLAIM("\"adds\": {\"a.b-c.d_e\": {\"x\": [1, null]}}, ")));
    REFUSE("\"adds\": {}, ", "adds", "must hold something");
    REFUSE("\"adds\": [1], ", "adds", "must be an object");
    REFUSE("\"adds\": {\"a..b\": 1}, ", "adds", "paths");
    REFUSE("\"adds\": {\".b\": 1}, ", "adds", "paths");
    REFUSE("\"adds\": {\"b.\": 1}, ", "adds", "paths");
    REFUSE("\"adds\": {\"\": 1}, ", "adds", "paths");
    REFUSE("\"adds\": {\"a[0]\": 1}, ", "adds", "paths");
    REFUSE("\"adds\": {\"a\": [[[[[[[[[1]]]]]]]]]}, ", "adds", "nested deeper");
    REFUSE("\"default\": [[[[[[[[[[1]]]]]]]]]], ", "default", "nested deeper");
    refuse(FILE_OF("{\"models\": \"*\", \"endpoint\": \"/\", \"param\": \"seed\", \"support\": "
                   "\"absent\", \"adds\": {\"a\": 1}, " TAIL),
           "adds", " line 4: claim 2 (seed): ", "goes with");

    must_load(FILE_OF(CLAIM("\"conflicts_text\": [\"not on Sundays\"], ")));
    REFUSE("\"conflicts_text\": [1], ", "conflicts_text", "strings");
    REFUSE("\"conflicts_text\": [\"\"], ", "conflicts_text", "not empty");
    REFUSE("\"conflicts_text\": \"x\", ", "conflicts_text", "list");
    REFUSE("\"conflicts\": [\"not on Sundays\"], ", "conflicts", "names");
    REFUSE("\"needs\": [1], ", "needs", "names");
    REFUSE("\"values\": [[1]], ", "values", "plain values");
}

/* JSON has no NaN; what overflows a double is refused by the parser, what only exceeds all sense
 * here. */
static void test_numbers(void **state)
{
    (void)state;
    must_load(FILE_OF(CLAIM("\"min\": -9223372036854775808, \"max\": 1.8446744073709552e19, ")));
    REFUSE("\"max\": 1.9e19, ", "max", "beyond 64 bits");
    REFUSE("\"min\": -1e300, ", "min", "beyond 64 bits");
    refuse(FILE_OF(CLAIM("\"max\": 1e999, ")), "", " line 4 ", "overflow");
    refuse(FILE_OF(CLAIM("\"max\": 99999999999999999999, ")), "", " line 4 ", "too big");
    refuse(FILE_OF(CLAIM("\"max\": NaN, ")), "", " line 4 ", "invalid token");
}

static void test_providers(void **state)
{
    (void)state;
#define ONE(id, rest)                                                                              \
    "{\"provider\": {\"id\": \"" id "\", \"title\": \"P\", \"dialect\": \"x\", \"auth\": "         \
    "\"none\"" rest "}, \"claims\": []}"
    must_load(ONE("llama.cpp", ", \"base_url\": \"http://127.0.0.1:8080/v1\""));
    refuse(ONE(".hidden", ""), "id", " line 1: provider: ", "must be of");
    refuse(ONE("p", ", \"base_url\": \"ftp://x\""), "base_url", " line 1: provider: ", "https://");
    refuse(ONE("p", ", \"quirks\": [1]"), "quirks", " line 1: provider: ", "object");
    refuse(ONE("p", ", \"quirks\": {\"one_sytem\": true}"), "quirks",
           " line 1: provider: ", "'one_sytem'");
    refuse(ONE("p", ", \"quirks\": {\"one_system\": 1}"), "quirks",
           " line 1: provider: ", "true or false");
    refuse(ONE("p", ", \"quirks\": {\"call_ids\": \"x\"}"), "quirks",
           " line 1: provider: ", "true or false");
    must_load(ONE("p", ", \"quirks\": {\"call_ids\": true, \"untyped_links\": false}"));
    refuse(ONE("p", ", \"quirks\": {\"tool_id_len\": 2}"), "quirks",
           " line 1: provider: ", "from 6 to 40");
    refuse(ONE("p", ", \"quirks\": {\"tool_id_len_max\": 41}"), "quirks",
           " line 1: provider: ", "tool_id_len_max from 6 to 40");
    refuse(ONE("p", ", \"prefill_path\": \"\""), "prefill_path", " line 1: provider: ", "string");
    refuse(ONE("p", ", \"model_prefix\": 1"), "model_prefix", " line 1: provider: ", "string");
    refuse(ONE("p", ", \"quirks\": {\"reasoning_key\": true}"), "quirks",
           " line 1: provider: ", "string");
    refuse(ONE("p", ", \"stand_in\": 1"), "stand_in", " line 1: provider: ", "string");
    refuse(ONE("p", ", \"sign_service\": \"s\""), "sign_service", " line 1: provider: ", "sigv4");
    refuse(ONE("p", ", \"sign_hosts\": \"s\""), "sign_hosts", " line 1: provider: ", "sigv4");
    refuse("{\"provider\": {\"id\": \"p\", \"title\": \"P\", \"dialect\": \"x\", \"auth\": "
           "\"sigv4\"}, \"claims\": []}",
           "sign_service", " line 1: provider: ", "always");
}

/* Whatever is cut off: an error, never a crash, and no line without a number. */
static void test_truncated(void **state)
{
    (void)state;
    static const char whole[] = FILE_OF(CLAIM(""));
    struct source s;
    for (size_t n = 0; n + 2 < sizeof whole; n++) {
        struct catalog_error err = {0};
        write_file(whole, n);
        assert_false(source_load(&s, path, &err));
        assert_non_null(strstr(err.text, path));
    }
}

static void test_lines(void **state)
{
    (void)state;
    static const char text[] = FILE_OF(CLAIM(""));
    size_t len = sizeof text - 1;
    assert_int_equal(source_line(text, len, 0), 1);
    assert_int_equal(source_line(text, len, 1), 3);
    assert_int_equal(source_line(text, len, 2), 4);
    assert_int_equal(source_line(text, len, 3), 0);
    assert_int_equal(source_line("{\"claims\":[ ]}", 15, 1), 0);
    assert_int_equal(source_line("", 0, 1), 0);
    assert_int_equal(source_line("\"\\", 2, 1), 0);
}

static int setup_all(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/p.json", folder);
    (void)snprintf(db_path, sizeof db_path, "%s/catalog.db", folder);
    return 0;
}

static int teardown_all(void **state)
{
    (void)state;
    (void)remove(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place),     cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_shapes),    cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_providers), cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_lines),
    };
    return cmocka_run_group_tests_name("source", tests, setup_all, teardown_all);
}
