/* test_constrain_refusals.c - schemas, patterns and choices that are refused: what is said, and the
 * JSON pointer that says where.
 */
#include "tests/lib/constrain_texts.h"

#include <time.h>

static void refused(enum constrain_kind kind, const json_t *value, const char *pointer,
                    const char *what)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain_spec spec = {kind, value, "response_format"};
    struct constrain *c = NULL;
    char want[256];
    if (constrain_new(&c, &spec, &err)) {
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        fail_msg("%s should be refused", text);
    }
    assert_int_equal(err.code, ENGINE_BAD_PARAM);
    assert_string_equal(err.param, "response_format");
    if (pointer) {
        (void)snprintf(want, sizeof want, "'response_format': schema at '%s': ", pointer);
        if (strncmp(err.text, want, strlen(want)) != 0) {
            fail_msg("'%s' should begin with \"%s\"", err.text, want);
        }
    }
    if (!strstr(err.text, what)) {
        fail_msg("'%s' should hold '%s'", err.text, what);
    }
}

static void all_refused(const char *const table[][3], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_t *v = parse(table[i][0]);
        refused(CONSTRAIN_JSON_SCHEMA, v, table[i][1], table[i][2]);
        json_decref(v);
    }
}

static void test_keywords_refused(void **state)
{
    (void)state;
    static const char *const table[][3] = {
        {"{\"type\":\"objekt\"}", "/type", "one of null"},
        {"{\"type\":[]}", "/type", "one of null"},
        {"{\"pattern\":\"(\"}", "/pattern", "')' is missing"},
        {"{\"pattern\":\"^a(?=a)b$\"}", "/pattern", "look-around"},
        {"{\"pattern\":\"^(?=a)b$|c\"}", "/pattern", "look-around"},
        {"{\"pattern\":\"^(?!a)*b$\"}", "/pattern", "look-around"},
        {"{\"pattern\":\"^(?!(?=a))b$\"}", "/pattern", "look-around"},
        {"{\"pattern\":\"^(?<=a)b$\"}", "/pattern", "look-around"},
        {"{\"pattern\":\"^(?=a\"}", "/pattern", "look-around"},
        {"{\"pattern\":\"^(?!a)b)\"}", "/pattern", "without '('"},
        {"{\"pattern\":\"(a)\\\\1\"}", "/pattern", "back-references"},
        {"{\"pattern\":\"\\\\bx\"}", "/pattern", "word boundaries"},
        {"{\"pattern\":\"\\\\p{L}\"}", "/pattern", "\\p"},
        {"{\"pattern\":\"a{3,2}\"}", "/pattern", "at most"},
        {"{\"pattern\":\"*\"}", "/pattern", "nothing to repeat"},
        {"{\"pattern\":\"[b-a]\"}", "/pattern", "ends before"},
        {"{\"pattern\":\"((a{1000}){1000}){1000}\"}", "/pattern", "too large"},
        {"{\"pattern\":\"(a|b)*a(a|b){20}\"}", "/pattern", "simpler"},
        {"{\"pattern\":7}", "/pattern", "string"},
        {"{\"$ref\":\"#/missing\"}", "/$ref", "no schema at '#/missing'"},
        {"{\"$ref\":\"other.json\"}", "/$ref", "into this schema"},
        {"{\"$ref\":\"#\"}", NULL, "back to itself"},
        {"{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#\"}]}", NULL, "back to itself"},
        {"{\"type\":\"object\",\"if\":{}}", "/if", "'if' is not supported"},
    };
    all_refused(table, sizeof table / sizeof table[0]);
}

static void test_values_refused(void **state)
{
    (void)state;
    static const char *const table[][3] = {
        {"{\"enum\":[]}", "/enum", "at least one"},
        {"{\"minLength\":5,\"maxLength\":2,\"type\":\"string\"}", "/minLength", "maxLength"},
        {"{\"minItems\":5,\"maxItems\":2}", "/minItems", "maxItems"},
        {"{\"minimum\":5,\"maximum\":2}", "/minimum", "maximum"},
        {"{\"properties\":{\"a/b\":{\"items\":{\"multipleOf\":0.1}}}}",
         "/properties/a~1b/items/multipleOf", "not supported"},
        {"{\"allOf\":[{\"multipleOf\":50},{\"multipleOf\":99}]}", "/allOf/1/multipleOf",
         "more than 100"},
        {"{\"type\":\"integer\",\"multipleOf\":0}", "/multipleOf", "from 1 to 100"},
        {"{\"multipleOf\":10,\"minimum\":1,\"maximum\":9}", "", "no text at all"},
        {"{\"anyOf\":[{\"type\":\"null\"},{\"not\":{}}]}", "/anyOf/1/not", "not supported"},
        {"{\"uniqueItems\":true}", "/uniqueItems", "not supported"},
        {"{\"format\":\"iri\"}", "/format", "'iri' is not supported"},
        {"{\"properties\":{\"a\":{\"$id\":\"b\",\"$ref\":\"#\"}}}", "/properties/a/$id",
         "only the whole"},
        {"{\"items\":{\"$ref\":\"#/$defs/a/$defs/b\"},\"$defs\":{\"a\":{\"$id\":\"x\",\"$defs\":"
         "{\"b\":{}}}}}",
         "/$defs/a/$id", "only the whole"},
        {"{\"oneOf\":[{\"const\":[1]},{\"const\":[1.0]}]}", "/oneOf", "branches 0 and 1"},
        {"{\"properties\":[]}", "/properties", "object of schemas"},
        {"{\"required\":\"a\"}", "/required", "list of strings"},
        {"{\"minLength\":-1}", "/minLength", "integer"},
        {"{\"minLength\":1.5}", "/minLength", "integer"},
        {"{\"additionalProperties\":1}", "/additionalProperties", "schema"},
        {"{\"anyOf\":[]}", "/anyOf", "list of schemas"},
        {"{\"items\":[{}]}", "/items", "schema"},
        {"{\"maximum\":1e19}", "/maximum", "1e18"},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "/oneOf",
         "branches 0 and 1"},
        {"{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}", "/oneOf",
         "branches 0 and 1"},
        {"{\"enum\":[{\"a\":1}],\"required\":[\"a\"]}", "/enum", "arrays and objects"},
        {"{\"propertyNames\":{\"anyOf\":[{\"pattern\":\"a\"}]}}", "/propertyNames/anyOf",
         "in propertyNames"},
        {"{\"propertyNames\":{\"not\":{}}}", "/propertyNames/not", "not supported"},
        {"{\"propertyNames\":{\"pattern\":\"a\"},\"required\":[\"b\"]}", "", "no text at all"},
        {"false", "", "no text at all"},
        {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "", "no text at all"},
        {"{\"type\":\"object\",\"required\":[\"a\"],\"additionalProperties\":false}", "",
         "no text at all"},
        {"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"minItems\":1}", "", "no text at all"},
        {"{\"pattern\":\"^(ab)*$\",\"minLength\":3,\"maxLength\":3}", "", "no text at all"},
        {"{\"type\":\"integer\",\"minimum\":1.2,\"maximum\":1.8}", "", "no text at all"},
        {"{\"pattern\":\"[^\\\\s\\\\S]\"}", "", "no text at all"},
        {"7", NULL, "must be an object"},
    };
    all_refused(table, sizeof table / sizeof table[0]);
}

static void test_raw_refusals(void **state)
{
    (void)state;
    static const char *const raw[][2] = {
        {"\"a)(b\"", "without '('"}, {"7", "string"}, {"\"(\"", "is missing"}};
    for (size_t i = 0; i < sizeof raw / sizeof raw[0]; i++) {
        json_t *v = parse(raw[i][0]);
        refused(CONSTRAIN_REGEX, v, NULL, raw[i][1]);
        json_decref(v);
    }
    static const char *const lists[] = {"[]", "[1]", "\"a\"", "{}"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        json_t *v = parse(lists[i]);
        refused(CONSTRAIN_CHOICE, v, NULL, "list of 1 to 1024 strings");
        json_decref(v);
    }
}

/* ---- too deep, too large: an error, soon, and no stack that grows with the input */

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static json_t *nested(size_t depth, const char *key)
{
    json_t *v = json_object();
    for (size_t i = 0; i < depth; i++) {
        v = json_pack("{s:s, s:{s:o}}", "type", "object", key, "a", v);
    }
    return v;
}

/* {"$defs":{"d0":..., "dN":...}}: each is two of the next one, so there are 2^n ways down. */
static json_t *doubling(int n, const char *word)
{
    json_t *defs = json_object();
    for (int i = 0; i < n; i++) {
        char name[16], next[32];
        (void)snprintf(name, sizeof name, "d%d", i);
        (void)snprintf(next, sizeof next, "#/$defs/d%d", i + 1);
        json_t *ref = json_pack("{s:s}", "$ref", next);
        json_object_set_new(defs, name, json_pack("{s:[O,{s:[O]}]}", word, ref, "anyOf", ref));
        json_decref(ref);
    }
    char last[16];
    (void)snprintf(last, sizeof last, "d%d", n);
    json_object_set_new(defs, last, json_pack("{s:s}", "type", "null"));
    return json_pack("{s:s, s:o}", "$ref", "#/$defs/d0", "$defs", defs);
}

static void test_hostile(void **state)
{
    (void)state;
    enum { N_GROUPS = 20000 };
    double start = seconds();
    json_t *deep = nested(1000, "properties");
    refused(CONSTRAIN_JSON_SCHEMA, deep, NULL, "nested too deep, 128 levels");
    json_decref(deep);
    char *groups = malloc(2 * N_GROUPS + 1);
    assert_non_null(groups);
    memset(groups, '(', N_GROUPS);
    memset(groups + N_GROUPS, ')', N_GROUPS);
    groups[2 * N_GROUPS] = '\0';
    json_t *pattern = json_pack("{s:s}", "pattern", groups);
    refused(CONSTRAIN_JSON_SCHEMA, pattern, "/pattern", "256 at most");
    json_decref(pattern);
    free(groups);
    json_t *twice = doubling(40, "allOf");
    struct constrain_spec spec = {CONSTRAIN_JSON_SCHEMA, twice, "response_format"};
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain *c = NULL;
    if (constrain_new(&c, &spec, &err)) { /* either is right, but soon */
        assert_true(allows(c, "null"));
        constrain_free(c);
    }
    json_decref(twice);
    /* 20 levels are nothing unusual */
    json_t *usual = nested(20, "properties");
    spec.value = usual;
    err = (struct engine_error){.code = ENGINE_OK};
    assert_true(constrain_new(&c, &spec, &err));
    assert_true(allows(c, "{\"a\":{\"a\":{}}}"));
    constrain_free(c);
    json_decref(usual);
    assert_true(seconds() - start < 8); /* 0.1 s as a rule */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keywords_refused),
        cmocka_unit_test(test_values_refused),
        cmocka_unit_test(test_raw_refusals),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
