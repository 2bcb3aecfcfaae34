/* The scripted provider's JSON Schema validator: each keyword on a schema of our own, and the
 * official request schemas against the verdicts of python3-jsonschema, where both are here. */
#include "tests/lib/mock/mock_schema.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
// clang-format off
#include <cmocka.h>
// clang-format on

static json_t *parse(const char *text)
{
    json_error_t why;
    json_t *v = json_loads(text, JSON_DECODE_ANY, &why);
    if (!v) {
        fail_msg("%s: %s", text, why.text);
    }
    return v;
}

static struct mock_schema *schema_of(const char *text)
{
    char why[200];
    json_t *json = parse(text);
    struct mock_schema *s = mock_schema_new(json, why, sizeof why);
    json_decref(json);
    if (!s) {
        fail_msg("%s: %s", text, why);
    }
    return s;
}

struct fitting {
    const char *schema, *value;
    bool fits;
    const char *path; /* of the fault */
};

static const struct fitting cases[] = {
    {"true", "1", true, NULL},
    {"false", "1", false, ""},
    {"{\"type\":\"integer\"}", "3", true, NULL},
    {"{\"type\":\"integer\"}", "3.0", true, NULL},
    {"{\"type\":\"integer\"}", "3.5", false, ""},
    {"{\"type\":\"integer\"}", "true", false, ""},
    {"{\"type\":\"number\"}", "3", true, NULL},
    {"{\"type\":[\"string\",\"null\"]}", "null", true, NULL},
    {"{\"type\":[\"string\",\"null\"]}", "0", false, ""},
    {"{\"enum\":[1,\"a\",null]}", "1.0", true, NULL},
    {"{\"enum\":[1,\"a\",null]}", "true", false, ""},
    {"{\"enum\":[[1,{\"a\":0}]]}", "[1.0,{\"a\":0}]", true, NULL},
    {"{\"const\":\"x\"}", "\"x\"", true, NULL},
    {"{\"const\":0}", "false", false, ""},
    {"{\"minimum\":0,\"maximum\":2}", "2", true, NULL},
    {"{\"minimum\":0,\"maximum\":2}", "2.01", false, ""},
    {"{\"minimum\":0,\"maximum\":2}", "\"9\"", true, NULL},
    {"{\"exclusiveMinimum\":0}", "0", false, ""},
    {"{\"exclusiveMinimum\":0}", "1e-9", true, NULL},
    {"{\"exclusiveMaximum\":1}", "1", false, ""},
    {"{\"minLength\":2,\"maxLength\":3}", "\"\\u00e4\\u00f6\\u00fc\"", true, NULL},
    {"{\"minLength\":2,\"maxLength\":3}", "\"a\"", false, ""},
    {"{\"minLength\":2,\"maxLength\":3}", "\"abcd\"", false, ""},
    {"{\"pattern\":\"^[a-z]+$\"}", "\"abc\"", true, NULL},
    {"{\"pattern\":\"^[a-z]+$\"}", "\"ab1\"", false, ""},
    {"{\"pattern\":\"b\"}", "\"abc\"", true, NULL},
    {"{\"minItems\":1,\"maxItems\":2}", "[]", false, ""},
    {"{\"minItems\":1,\"maxItems\":2}", "[1,2]", true, NULL},
    {"{\"minItems\":1,\"maxItems\":2}", "[1,2,3]", false, ""},
    {"{\"items\":{\"type\":\"string\"}}", "[\"a\",1]", false, "1"},
    {"{\"items\":{\"type\":\"string\"}}", "{}", true, NULL},
    {"{\"required\":[\"a\"]}", "{\"a\":null}", true, NULL},
    {"{\"required\":[\"a\"]}", "{\"b\":1}", false, ""},
    {"{\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"a\":1}", false, "a"},
    {"{\"properties\":{\"a\":{}},\"additionalProperties\":false}", "{\"a\":1,\"b\":2}", false, "b"},
    {"{\"additionalProperties\":{\"type\":\"integer\"}}", "{\"a\":1}", true, NULL},
    {"{\"additionalProperties\":{\"type\":\"integer\"}}", "{\"a\":\"1\"}", false, "a"},
    {"{\"propertyNames\":{\"maxLength\":2}}", "{\"abc\":1}", false, ""},
    {"{\"propertyNames\":{\"maxLength\":2}}", "{\"ab\":1}", true, NULL},
    {"{\"minProperties\":1,\"maxProperties\":1}", "{}", false, ""},
    {"{\"minProperties\":1,\"maxProperties\":1}", "{\"a\":1,\"b\":1}", false, ""},
    {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", "1", true, NULL},
    {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", "[]", false, ""},
    {"{\"oneOf\":[{\"type\":\"number\"},{\"type\":\"integer\"}]}", "1", true, NULL},
    {"{\"allOf\":[{\"type\":\"number\"},{\"maximum\":3}]}", "4", false, ""},
    {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"type\":\"string\"}}}", "1", false, ""},
    {"{\"$ref\":\"#/$defs/a\",\"maximum\":3,\"$defs\":{\"a\":{\"type\":\"number\"}}}", "4", false,
     ""},
    {"{\"$ref\":\"#/$defs/a~1b~0\",\"$defs\":{\"a/b~\":{\"type\":\"string\"}}}", "\"x\"", true,
     NULL},
    {"{\"$defs\":{\"t\":{\"properties\":{\"next\":{\"$ref\":\"#/$defs/t\"},\"v\":{\"type\":"
     "\"integer\"}},\"additionalProperties\":false}},\"$ref\":\"#/$defs/t\"}",
     "{\"next\":{\"next\":{\"v\":\"x\"}}}", false, "next.next.v"},
    {"{\"$ref\":\"#\"}", "1", false, ""},
    {"{\"title\":\"x\",\"format\":\"date\",\"default\":3,\"deprecated\":true}", "1", true, NULL}};

static void keywords_mean_what_the_standard_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct fitting *c = &cases[i];
        struct mock_schema *s = schema_of(c->schema);
        struct mock_schema_fault f = {"?", ""};
        json_t *v = parse(c->value);
        bool fits = mock_schema_check(s, v, &f);
        if (fits != c->fits || (!fits && strcmp(f.path, c->path) != 0)) {
            fail_msg("%s on %s: %s at '%s': %s", c->schema, c->value, fits ? "fits" : "does not",
                     f.path, f.text);
        }
        assert_true(fits || f.text[0] != '\0');
        json_decref(v);
        mock_schema_free(s);
    }
}

static void the_deepest_fault_is_named(void **state)
{
    (void)state;
    struct mock_schema *s =
        schema_of("{\"anyOf\":[{\"type\":\"string\"},{\"properties\":{\"a\":{\"items\":{\"type\":"
                  "\"integer\"}}}}]}");
    json_t *v = parse("{\"a\":[1,\"x\"]}");
    struct mock_schema_fault f;
    assert_false(mock_schema_check(s, v, &f));
    assert_string_equal(f.path, "a.1");
    assert_non_null(strstr(f.text, "integer"));
    json_decref(v);
    mock_schema_free(s);
}

static void a_branch_that_fails_is_no_fault_where_another_holds(void **state)
{
    (void)state;
    struct mock_schema *s = schema_of(
        "{\"properties\":{\"a\":{\"anyOf\":[{\"properties\":{\"x\":{\"properties\":{\"y\":"
        "{\"type\":\"string\"}}}}},{\"type\":\"object\"}]},\"b\":{\"type\":\"string\"}}}");
    json_t *v = parse("{\"a\":{\"x\":{\"y\":1}},\"b\":1}");
    struct mock_schema_fault f;
    assert_false(mock_schema_check(s, v, &f));
    assert_string_equal(f.path, "b");
    json_decref(v);
    mock_schema_free(s);
}

static void what_is_not_understood_is_refused_at_once(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"{\"if\":{}}", "unknown keyword 'if'"},
                                         {"{\"type\":\"text\"}", "unknown type 'text'"},
                                         {"{\"$ref\":\"#/nowhere\"}", "leads nowhere"},
                                         {"{\"$ref\":\"other.json\"}", "leads nowhere"},
                                         {"{\"pattern\":\"(\"}", "does not compile"},
                                         {"{\"anyOf\":[]}", "no schemas"},
                                         {"{\"minimum\":\"0\"}", "no number"},
                                         {"{\"items\":3}", "a schema is an object"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char why[200] = "";
        json_t *json = parse(bad[i][0]);
        assert_null(mock_schema_new(json, why, sizeof why));
        json_decref(json);
        if (!strstr(why, bad[i][1])) {
            fail_msg("%s: '%s'", bad[i][0], why);
        }
    }
}

/* ---- against the other validator */

struct loaded {
    char path[256];
    struct mock_schema *schema;
};

static struct mock_schema *load(struct loaded *all, size_t *n, const char *path)
{
    char why[200];
    for (size_t i = 0; i < *n; i++) {
        if (strcmp(all[i].path, path) == 0) {
            return all[i].schema;
        }
    }
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    struct loaded *l = &all[(*n)++];
    (void)snprintf(l->path, sizeof l->path, "%s", path);
    l->schema = mock_schema_new(json, why, sizeof why);
    json_decref(json);
    if (!l->schema) {
        fail_msg("%s: %s", path, why);
    }
    return l->schema;
}

/* SCHEMA, verdict, body, parted by tabs. */
static void compare_line(struct loaded *all, size_t *n, char *line, size_t counts[2])
{
    char *save = NULL, *path = strtok_r(line, "\t", &save), *verdict = strtok_r(NULL, "\t", &save),
         *text = strtok_r(NULL, "\n", &save);
    assert_non_null(text);
    struct mock_schema_fault f = {"", ""};
    json_t *body = parse(text);
    bool wanted = strcmp(verdict, "valid") == 0;
    bool got = mock_schema_check(load(all, n, path), body, &f);
    if (got != wanted) {
        fail_msg("%s: wanted %s: %s: %s\n%.600s", path, verdict, f.path, f.text, text);
    }
    counts[got]++;
    json_decref(body);
}

static void official_schemas_are_read_as_by_jsonschema(void **state)
{
    (void)state;
    static struct loaded all[64];
    size_t n = 0, counts[2] = {0, 0}, cap = 0;
    char *line = NULL, why[200] = "";
    FILE *p = popen("python3 tests/lib/schema_verdicts.py", "r");
    assert_non_null(p);
    while (getline(&line, &cap, p) > 0) {
        if (strchr(line, '\t')) {
            compare_line(all, &n, line, counts);
        } else {
            (void)snprintf(why, sizeof why, "%s", line);
        }
    }
    int status = pclose(p);
    free(line);
    for (size_t i = 0; i < n; i++) {
        mock_schema_free(all[i].schema);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3) {
        print_message("skipped: %s", why);
        skip();
    }
    assert_int_equal(status, 0);
    print_message("# %zu schemas, %zu bodies fit, %zu do not\n", n, counts[1], counts[0]);
    assert_true(n >= 20 && counts[0] > 1000 && counts[1] > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keywords_mean_what_the_standard_says),
        cmocka_unit_test(the_deepest_fault_is_named),
        cmocka_unit_test(a_branch_that_fails_is_no_fault_where_another_holds),
        cmocka_unit_test(what_is_not_understood_is_refused_at_once),
        cmocka_unit_test(official_schemas_are_read_as_by_jsonschema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
