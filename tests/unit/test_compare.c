/* test_compare.c - another catalog held against ours: each result, what counts as equal, the forms
 * of the file, and files that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog/compare.h"
#include "catalog/versions.h"

#define DAY     "2026-11-30"
#define CREATED "2026-11-30T12:00:00Z"

static char folder[] = "/tmp/isotherm-compare-XXXXXX";
static char db_path[128], source_path[128], file_path[128];

/* ---- helpers */

#define TAIL "\"source\":\"s\",\"as_of\":\"2026-01-01\",\"confidence\":\"high\""
#define CLAIM(param, rest)                                                                         \
    "{\"models\":\"^command\",\"endpoint\":\"/chat\",\"param\":\"" param "\"," rest TAIL "}"
#define YES(param, rest) CLAIM(param, "\"support\":\"yes\",\"wire\":\"" param "\"," rest)

static const char source[] =
    "{\"provider\":{\"id\":\"cohere\",\"title\":\"P\",\"dialect\":\"openai\",\"auth\":\"none\","
    "\"chat_endpoint\":\"/chat\",\"text_endpoint\":\"/text\"},\"claims\":[" YES(
        "temperature", "\"min\":0,\"max\":1,\"default\":0.3,") "," YES("top_p",
                                                                       "\"min\":0,\"max\":1,\"min_"
                                                                       "exclusive\":true,") "," YES("top_k", "\"min\":0,\"max\":500,\"integer\":true,") "," YES("max_tokens", "\"min\":0,\"min_exclusive\":true,") "," YES("tool_choice",
                                                                                                                                                                                                                           "\"values\":[\"required\",\"none\"],") "," YES("reasoning_effort", "\"values\":[\"low\",\"high\"],") "," YES("logprobs", "\"min\":0,\"max\":5,") "," YES("response_format_json_object",
                                                                                                                                                                                                                                                                                                                                                                                    "") "," CLAIM("seed", "\"support\":\"rejected\",") "," CLAIM("n", "\"support\":\"absent\",") "," YES("presence_penalty",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                         "\"max\":2,\"variant\":\"conditional\",\"when\":{\"param\":\"n\",\"in\":[\"2\"]},") "]}";

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static struct snapshot *snapshot;

static int open_snapshot(void **state)
{
    (void)state;
    struct catalog_error err = {0};
    struct catalog_version v;
    struct catalog *c = NULL;
    const char *one = source_path;
    write_file(source_path, source);
    if (!catalog_build(db_path, &one, 1, &(struct version_stamp){"me", "because", CREATED}, &v,
                       &err) ||
        !catalog_open(&c, db_path, &err) || !catalog_snapshot(c, 0, &snapshot, &err)) {
        print_error("%s\n", err.text);
        return -1;
    }
    catalog_close(c);
    return 0;
}

static int close_snapshot(void **state)
{
    (void)state;
    snapshot_release(snapshot);
    return 0;
}

/* What was found, a line each: "result model param ours | theirs". */
struct found {
    char text[8192];
    size_t n[COMPARE_NOT_COMPARED + 1], n_all, stop_after;
};

static bool take(const struct comparison *c, void *ud)
{
    struct found *all = ud;
    size_t len = strlen(all->text);
    (void)snprintf(all->text + len, sizeof all->text - len, "%s %s %s %s | %s\n",
                   compare_result_name(c->result), c->model, c->param, c->ours, c->theirs);
    assert_true(c->result == COMPARE_NOT_COMPARED || c->provider);
    assert_true(c->result != COMPARE_AGREES || c->claim);
    all->n[c->result]++;
    return ++all->n_all != all->stop_after;
}

static struct found compare_text(const char *text)
{
    struct found all = {.n_all = 0};
    struct catalog_error err = {0};
    write_file(file_path, text);
    if (!catalog_compare(snapshot, file_path, DAY, take, &all, &err)) {
        fail_msg("%s", err.text);
    }
    return all;
}

#define MODEL(params)                                                                              \
    "{\"provider\":\"cohere\",\"authType\":\"api_key\",\"model\":\"command-a\",\"params\":"        \
    "[" params "]}"
#define PARAM(path, rest) "{\"path\":\"" path "\",\"type\":\"x\"" rest "}"

/* One parameter of theirs: the line that it must give. */
static void gives(const char *param, const char *line)
{
    char text[1024];
    (void)snprintf(text, sizeof text, "[" MODEL("%s") "]", param);
    struct found all = compare_text(text);
    if (!strstr(all.text, line)) {
        fail_msg("%s: wanted '%s', found:\n%s", param, line, all.text);
    }
}

/* ---- one parameter */

static void test_results(void **state)
{
    (void)state;
    gives(PARAM("temperature", ",\"default\":0.3,\"range\":{\"min\":0,\"max\":1}"),
          "agrees cohere/command-a temperature yes 0..1 default 0.3 | yes 0..1 default 0.3\n");
    gives(PARAM("temperature", ",\"range\":{\"min\":0,\"max\":2}"),
          "differs cohere/command-a temperature yes 0..1 default 0.3 | yes 0..2\n");
    gives(PARAM("temperature", ",\"range\":{\"min\":0.1}"), "differs cohere/command-a temperature");
    gives(PARAM("temperature", ",\"default\":1"), "differs cohere/command-a temperature");
    gives(PARAM("seed", ""), "differs cohere/command-a seed rejected | yes\n");
    gives(PARAM("n", ""), "only_theirs cohere/command-a n absent | yes\n");
    gives(PARAM("stop_sequences", ""), "only_theirs cohere/command-a stop nothing | yes\n");
    gives(PARAM("temperature", ""), "only_ours cohere/command-a top_k yes 0..500 | not listed\n");
    gives(PARAM("safety_mode", ",\"values\":[\"A\",\"B\"]"),
          "not_compared cohere/command-a safety_mode nothing | yes \"A\"|\"B\"\n");
}

static void test_what_counts_as_equal(void **state)
{
    (void)state;
    /* What one of the two leaves out. */
    gives(PARAM("temperature", ",\"default\":null,\"range\":{}"), "agrees cohere/command-a temp");
    gives(PARAM("temperature", ",\"range\":{\"min\":0,\"max\":1.00000000001}"), "agrees");
    /* A bound that ours excludes: one step inside of it is the same, more is not. */
    gives(PARAM("p", ",\"range\":{\"min\":0.01,\"max\":1,\"step\":0.01}"),
          "agrees cohere/command-a top_p yes (0..1] |");
    gives(PARAM("p", ",\"range\":{\"min\":0.05,\"max\":1,\"step\":0.01}"), "differs");
    gives(PARAM("max_tokens", ",\"range\":{\"min\":1}"), "agrees cohere/command-a max_tokens");
    gives(PARAM("max_tokens", ",\"range\":{\"min\":2}"), "differs cohere/command-a max_tokens");
    gives(PARAM("k", ",\"range\":{\"min\":1}"), "differs cohere/command-a top_k");
    gives(PARAM("tool_choice", ",\"values\":[\"NONE\",\"REQUIRED\"]"), "agrees");
    gives(PARAM("tool_choice", ",\"values\":[\"NONE\"]"), "differs");
    gives(PARAM("reasoning_effort", ",\"values\":[\"low\",\"high\",\"max\"]"), "differs");
    gives(PARAM("k", ",\"range\":{\"min\":0,\"max\":18446744073709552000}"),
          "differs cohere/command-a top_k yes 0..500 | yes 0..1.844674407e+19\n");
    gives(PARAM("logprobs", ",\"range\":{\"min\":0,\"max\":1}"), "agrees");
    /* A path that means a parameter by the values that it lists. */
    gives(PARAM("response_format.type", ",\"values\":[\"text\",\"json_object\"]"),
          "agrees cohere/command-a response_format_json_object yes | yes\n");
    gives(PARAM("response_format.type", ",\"values\":[\"json_schema\"]"),
          "only_theirs cohere/command-a response_format_json_schema nothing | yes\n");
    /* Ours is only conditional. */
    gives(PARAM("presence_penalty", ",\"range\":{\"max\":2}"), "agrees");
}

/* ---- models and forms of the file */

static void test_models(void **state)
{
    (void)state;
    struct found all = compare_text(
        "[{\"provider\":\"cohere\",\"model\":\"other\",\"params\":[]},"
        "{\"provider\":\"xiaomi\",\"model\":\"m\",\"params\":[" PARAM(
            "p",
            "") "]},"
                "{\"provider\":\"openai\",\"model\":\"gpt-4o\",\"params\":[]},"
                "{\"provider\":\"cohere\",\"model\":\"command-a\",\"authType\":\"subscription\","
                "\"params\":[]}]");
    assert_int_equal(all.n_all, 4);
    assert_int_equal(all.n[COMPARE_NOT_COMPARED], 4);
    assert_non_null(strstr(all.text, "cohere/other * no pattern takes it | 0 parameters"));
    assert_non_null(strstr(all.text, "xiaomi/m * no such provider | 1 parameters"));
    assert_non_null(strstr(all.text, "openai/gpt-4o * no such provider"));
    assert_non_null(strstr(all.text, "cohere/command-a * a subscription"));
}

#define ONE MODEL(PARAM("seed", ""))

static void test_forms(void **state)
{
    (void)state;
    const char *const forms[] = {
        "[" ONE "]",
        "\xef\xbb\xbf\n [" ONE "]\n",
        "{\"models\":[" ONE "]}",
        "{\"data\":[" ONE "],\"more\":1}",
        "{\"cohere/command-a\":" ONE "}",
        "// by hand\nexport const CATALOG = [" ONE "];\nfunction f() { return \"[\"; }\n",
        "export const VERSION = \"1\";\nexport const CATALOG =\n  {\"x\":" ONE "};\n",
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct found all = compare_text(forms[i]);
        assert_int_equal(all.n[COMPARE_DIFFERS], 1);
        assert_int_equal(all.n[COMPARE_ONLY_OURS], 9);
    }
}

static void test_stop(void **state)
{
    (void)state;
    struct found all = {.stop_after = 3};
    write_file(file_path, "[" ONE "," ONE "]");
    assert_true(catalog_compare(snapshot, file_path, DAY, take, &all, NULL));
    assert_int_equal(all.n_all, 3);
}

/* ---- wrong files */

static void refuse(const char *text, const char *words)
{
    struct found all = {.n_all = 0};
    struct catalog_error err = {0};
    write_file(file_path, text);
    if (catalog_compare(snapshot, file_path, DAY, take, &all, &err)) {
        fail_msg("taken: %.200s", text);
    }
    if (!strstr(err.text, words) || !strstr(err.text, file_path) || strpbrk(err.text, "\n\r")) {
        fail_msg("%.200s: %s", text, err.text);
    }
}

static void test_wrong_files(void **state)
{
    (void)state;
    refuse("", "neither JSON nor a module");
    refuse("export default [1]", "neither JSON nor a module");
    refuse("export const CATALOG = [{provider: 'x'}]", "is no JSON");
    refuse("[", "line 1 of its list is no JSON");
    refuse("[]", "a list of 1 to 20000 models");
    refuse("{}", "a list of 1 to 20000 models");
    refuse("[1]", "model 1: 'provider' and 'model' must be strings");
    refuse("[" ONE ",{\"provider\":\"a\",\"model\":\"\",\"params\":[]}]", "model 2: 'provider'");
    refuse("[{\"provider\":\"a\",\"model\":\"b\"}]", "'params' must be a list");
    refuse("[{\"provider\":\"a\",\"model\":\"b\",\"params\":[1]}]", "'path'");
    refuse("[" MODEL(PARAM("p", ",\"values\":7")) "]", "'values' must be a list");
    char *deep = malloc(5000);
    assert_non_null(deep);
    memset(deep, '[', 4999);
    deep[4999] = '\0';
    refuse(deep, "nested deeper than 32");
    free(deep);
    char *wide = malloc(90000);
    assert_non_null(wide);
    size_t n = (size_t)snprintf(wide, 90000, "[0");
    for (int i = 0; i < 20000; i++) {
        n += (size_t)snprintf(wide + n, 90000 - n, ",%d", i % 10);
    }
    (void)snprintf(wide + n, 90000 - n, "]");
    refuse(wide, "a list of 1 to 20000 models");
    free(wide);
}

static void test_unreadable_files(void **state)
{
    (void)state;
    struct found all = {.n_all = 0};
    struct catalog_error err = {0};
    assert_false(catalog_compare(snapshot, "/nowhere/data.js", DAY, take, &all, &err));
    assert_non_null(strstr(err.text, "cannot read '/nowhere/data.js'"));
    err = (struct catalog_error){0};
    assert_false(catalog_compare(snapshot, folder, DAY, take, &all, &err));
    assert_non_null(strstr(err.text, "cannot read"));
    err = (struct catalog_error){0};
    assert_int_equal(truncate(file_path, (off_t)COMPARE_BYTES_MAX + 1), 0);
    assert_false(catalog_compare(snapshot, file_path, DAY, take, &all, &err));
    assert_non_null(strstr(err.text, "larger than 32 MiB"));
    assert_int_equal(all.n_all, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_what_counts_as_equal),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_unreadable_files),
    };
    static const char *const names[] = {"catalog.db", "catalog.db-wal", "catalog.db-shm",
                                        "source.json", "data.js"};
    char path[160];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(db_path, sizeof db_path, "%s/catalog.db", folder);
    (void)snprintf(source_path, sizeof source_path, "%s/source.json", folder);
    (void)snprintf(file_path, sizeof file_path, "%s/data.js", folder);
    int failed = cmocka_run_group_tests(tests, open_snapshot, close_snapshot);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)remove(path);
    }
    (void)rmdir(folder);
    return failed;
}
