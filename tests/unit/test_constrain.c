/* test_constrain.c - schemas, patterns and choices: texts that are allowed and texts that are not,
 * byte by byte; what is refused and the JSON pointer that says where; masks against every token
 * tried on its own.
 */
#include "local-engine/constrain.h"
#include "tests/lib/tokenizer_recipe.h"

#include <time.h>

static json_t *parse(const char *text)
{
    json_t *v = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!v) {
        fail_msg("no JSON: %s", text);
    }
    return v;
}

static struct constrain *compile(enum constrain_kind kind, const char *value)
{
    struct engine_error err = {.code = ENGINE_OK};
    json_t *v = value ? parse(value) : NULL;
    struct constrain_spec spec = {kind, v, "response_format"};
    struct constrain *c = NULL;
    if (!constrain_new(&c, &spec, &err)) {
        fail_msg("%s: %s", value, err.text);
    }
    json_decref(v);
    return c;
}

/* Whether a text is allowed whole. It is read byte by byte: 'i' bytes are allowed before it fails.
 */
static bool allows(struct constrain *c, const char *text)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain_state *s;
    bool ok = true;
    assert_true(constrain_state_new(&s, c, NULL, &err));
    for (size_t i = 0; ok && text[i]; i++) {
        ok = constrain_advance(s, text + i, 1, NULL);
    }
    ok = ok && constrain_is_complete(s);
    constrain_state_free(s);
    return ok;
}

struct texts {
    const char *value;
    const char *yes[12], *no[16];
};

static void check_texts(enum constrain_kind kind, const struct texts *x)
{
    struct constrain *c = compile(kind, x->value);
    for (size_t i = 0; x->yes[i]; i++) {
        if (!allows(c, x->yes[i])) {
            fail_msg("%s: should allow %s", x->value, x->yes[i]);
        }
    }
    for (size_t i = 0; x->no[i]; i++) {
        if (allows(c, x->no[i])) {
            fail_msg("%s: should not allow %s", x->value, x->no[i]);
        }
    }
    constrain_free(c);
}
#define CHECK_ALL(kind, table)                                                                     \
    for (size_t i_ = 0; i_ < sizeof(table) / sizeof(table)[0]; i_++)                               \
    check_texts(kind, &(table)[i_])

/* ---- keywords */

static void test_types(void **state)
{
    (void)state;
    static const struct texts table[] = {
        {"{\"type\":\"null\"}", {"null"}, {"nul", "true", "0", "\"null\"", " null"}},
        {"{\"type\":\"boolean\"}", {"true", "false"}, {"null", "True", "0"}},
        {"{\"type\":[\"integer\",\"null\"]}", {"7", "null", "-12"}, {"7.5", "true", "\"7\""}},
        {"{\"type\":\"integer\"}",
         {"0", "-1", "10", "9007199254740991"},
         {"-0", "01", "1.", "1.0", "1e2", "+1", "-", "9007199254740992", ""}},
        {"{\"type\":\"number\"}",
         {"0", "-0", "-1.5", "10", "1e9", "1E+10", "0.25e-3", "123456789012345"},
         {"1.", ".5", "01", "1e", "1.e2", "+1", "--1", "1e+", "NaN", "1e400", "0x1"}},
        {"true", {"{}", "[1,\"a\",{\"b\":null}]", "\"x\"", "-1.5"}, {"{,}", "[1,]", "", "x"}},
        {"{}", {"{\"a\":{\"b\":[[]]}}", "null"}, {"{\"a\":}", "[[]"}},
        {"{\"title\":\"t\",\"description\":1,\"examples\":[1],\"default\":2,\"$schema\":\"s\","
         "\"$id\":\"i\",\"$comment\":\"c\",\"readOnly\":true,\"writeOnly\":true,"
         "\"deprecated\":true,\"contentEncoding\":\"base64\",\"contentMediaType\":\"a/b\","
         "\"contentSchema\":{},\"discriminator\":{\"propertyName\":\"kind\"},\"type\":\"null\"}",
         {"null"},
         {"1"}},
    };
    CHECK_ALL(CONSTRAIN_JSON_SCHEMA, table);
}

static void test_bounds(void **state)
{
    (void)state;
    static const struct texts table[] = {
        {"{\"type\":\"integer\",\"minimum\":-3,\"maximum\":120}",
         {"-3", "-1", "0", "9", "10", "99", "100", "120"},
         {"-4", "121", "130", "200", "1000", "-10", "-0"}},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":2.5,\"exclusiveMaximum\":10}",
         {"3", "9"},
         {"2", "10", "-3", "30"}},
        {"{\"type\":\"integer\",\"minimum\":1000000000000000000}",
         {"1000000000000000000"},
         {"999999999999999999", "1000000000000000001"}},
        {"{\"type\":\"number\",\"minimum\":0}", {"0", "0.0", "12.75"}, {"-1", "-0", "1e5"}},
        {"{\"type\":\"number\",\"minimum\":0.5,\"maximum\":12.25}",
         {"0.5", "0.50", "0.51", "1", "9.99", "12", "12.2", "12.25"},
         {"0.4", "0.49", "0", "12.26", "12.3", "13", "100", "-1"}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":-0.25,\"exclusiveMaximum\":0}",
         {"-0.24", "-0.1", "-0.001"},
         {"0", "0.1", "-0.25", "-0.3", "-0", "-0.0", "-1"}},
        {"{\"type\":\"number\",\"minimum\":0.1,\"maximum\":0.1}",
         {"0.1"},
         {"0.11", "0.10000000001"}},
        {"{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":-20,\"maximum\":105}",
         {"0", "7", "-14", "14", "98", "105"},
         {"-21", "1", "100", "112", "-0", "70000"}},
        {"{\"allOf\":[{\"multipleOf\":20.0},{\"multipleOf\":50},{\"type\":\"number\"}]}",
         {"0", "100", "-9007199254740900"},
         {"50", "20", "100.0", "1e2", "1"}},
        {"{\"enum\":[1,3,4.5,6.0,9],\"multipleOf\":3}", {"3", "6.0", "9"}, {"1", "4.5"}},
        {"{\"allOf\":[{\"minimum\":2},{\"minimum\":4},{\"maximum\":9},{\"type\":\"integer\"}]}",
         {"4", "9"},
         {"3", "10"}},
    };
    CHECK_ALL(CONSTRAIN_JSON_SCHEMA, table);
}

static void test_strings(void **state)
{
    (void)state;
    static const struct texts table[] = {
        {"{\"type\":\"string\"}",
         {"\"\"", "\"a\"", "\"\\u0041\\ud83d\\ude00\\/\\b\"", "\"\xc3\xa9\xf0\x9f\x98\x80\""},
         {"\"", "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83dx\"", "\"\xc3\"",
          "\"\xff\"", "\"\xed\xa0\x80\"", "a"}},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
         {"\"ab\"", "\"abc\"", "\"\xc3\xa9\xf0\x9f\x98\x80\"", "\"\\ud83d\\ude00\\n\""},
         {"\"a\"", "\"abcd\"", "\"\"", "\"\\ud83d\\ude00\""}},
        {"{\"minLength\":1}", {"\"a\""}, {"\"\"", "1"}},
        {"{\"type\":\"string\",\"pattern\":\"^[a-c]+$\"}", {"\"abc\""}, {"\"\"", "\"abd\""}},
        {"{\"type\":\"string\",\"pattern\":\"b\"}", {"\"b\"", "\"abc\""}, {"\"\"", "\"ac\""}},
        {"{\"type\":\"string\",\"pattern\":\"^(?=.*[A-Z|)])(?=.*\\\\d).{3,4}$\"}",
         {"\"aB1\"", "\"1B\xc3\xa9q\"", "\"1)|\""},
         {"\"ab1\"", "\"aBc\"", "\"B1\"", "\"aB1cd\""}},
        {"{\"type\":\"string\",\"pattern\":\"^(?!^[-+.]*$)[+-]?0*\\\\d*\\\\.?\\\\d*$\"}",
         {"\"1\"", "\"-0.5\"", "\"+007.\""},
         {"\"\"", "\"-\"", "\".\"", "\"1e5\""}},
        {"{\"enum\":[\"ab\",\"b\",\"cb\"],\"pattern\":\"^(?!a)[a-z]*b$\"}",
         {"\"b\"", "\"cb\""},
         {"\"ab\""}},
        {"{\"format\":\"email\",\"pattern\":\"^(?!\\\\.)(?!.*\\\\.\\\\.)([A-Za-z0-9_'+\\\\-\\\\.]*)"
         "[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\\\-]*\\\\.)+[A-Za-z]{2,}$\"}",
         {"\"a.b+c@mail.example.com\""},
         {"\".a@b.com\"", "\"a..b@c.com\"", "\"a@b.c\"", "\"a@b.12\""}},
        {"{\"type\":\"string\",\"pattern\":\"^(a|b)*$\",\"minLength\":2,\"maxLength\":2}",
         {"\"ab\""},
         {"\"a\"", "\"abb\""}},
        {"{\"type\":\"string\",\"pattern\":\"^[\\\"\\\\\\\\\\n\\u0001]+$\"}",
         {"\"\\\"\"", "\"\\\\\\n\"", "\"\\u0001\""},
         {"\"a\"", "\"\\t\"", "\"\\u0002\""}},
        {"{\"allOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b$\"},{\"maxLength\":3}]}",
         {"\"ab\"", "\"axb\""},
         {"\"a\"", "\"axxb\"", "\"b\""}},
    };
    CHECK_ALL(CONSTRAIN_JSON_SCHEMA, table);
}

static void test_formats(void **state)
{
    (void)state;
    static const struct texts table[] = {
        {"{\"format\":\"date\"}",
         {"\"2024-02-29\"", "\"2000-02-29\"", "\"1999-12-31\"", "\"0001-01-01\""},
         {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"2024-13-01\"", "\"2024-1-1\"",
          "\"0000-01-01\""}},
        {"{\"format\":\"time\"}",
         {"\"23:59:59Z\"", "\"00:00:00.5+01:30\""},
         {"\"24:00:00Z\"", "\"00:00:00\"", "\"00:60:00Z\""}},
        {"{\"format\":\"date-time\"}",
         {"\"2024-02-29T23:59:59Z\"", "\"2024-12-31T00:00:00.125-08:00\""},
         {"\"2023-02-29T00:00:00Z\"", "\"2024-01-01 00:00:00Z\""}},
        {"{\"format\":\"uuid\"}",
         {"\"123e4567-e89b-12d3-A456-426614174000\""},
         {"\"123e4567-e89b-12d3-a456-42661417400\"", "\"123e4567e89b12d3a456426614174000\""}},
        {"{\"format\":\"email\"}",
         {"\"a@b.c\"", "\"first.last+tag@mail.example.com\""},
         {"\"a\"", "\"@b.c\"", "\".a@b.c\"", "\"a@b\"", "\"a@-b.c\"", "\"a..b@c.d\""}},
        {"{\"format\":\"ipv4\"}",
         {"\"0.0.0.0\"", "\"255.255.255.255\""},
         {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""}},
        {"{\"format\":\"ipv6\"}",
         {"\"::\"", "\"::1\"", "\"2001:db8::8a2e:370:7334\"", "\"1:2:3:4:5:6:7:8\"", "\"1::\""},
         {"\":\"", "\"1:2:3:4:5:6:7\"", "\"1::2::3\"", "\"12345::\"", "\"1:2:3:4:5:6:7:8:9\""}},
        {"{\"format\":\"hostname\"}",
         {"\"a\"", "\"www.example.com\"", "\"a-b.c\""},
         {"\"\"", "\"-a\"", "\"a-\"", "\"a..b\"", "\"a_b\"", "\"ab--c\""}},
        {"{\"format\":\"duration\"}",
         {"\"P1Y\"", "\"P3Y6M4DT12H30M5S\"", "\"PT20M\"", "\"P2W\"", "\"P10DT1H\""},
         {"\"P\"", "\"PT\"", "\"1Y\"", "\"P1D1Y\"", "\"P1Y2D\"", "\"PT1H1S\"", "\"P1W1D\""}},
        {"{\"format\":\"uri\"}",
         {"\"https://example.com\"", "\"http://a.b:8080/c/d?e=f%20#g\"", "\"x+y://host/\""},
         {"\"example.com\"", "\"/a\"", "\"http://\"", "\"http://a b\"", "\"http://a/%zz\""}},
        /* names that JSON schema does not know are annotations */
        {"{\"type\":\"integer\",\"format\":\"int32\"}", {"1"}, {"\"1\""}},
        {"{\"format\":\"password\"}", {"1", "\"x\""}, {"x"}},
        {"{\"format\":\"ipv4\",\"pattern\":\"^10\\\\.\"}", {"\"10.0.0.1\""}, {"\"11.0.0.1\""}},
    };
    CHECK_ALL(CONSTRAIN_JSON_SCHEMA, table);
}

static void test_values(void **state)
{
    (void)state;
    static const struct texts table[] = {
        {"{\"enum\":[\"a\\\"b\",\"c\\\\d\",\"e/"
         "f\",\"tab\\there\",\"\\u00e9\",\"\\ud83d\\ude00\",\"\"]}",
         {"\"a\\\"b\"", "\"c\\\\d\"", "\"e/f\"", "\"tab\\there\"", "\"\xc3\xa9\"",
          "\"\xf0\x9f\x98\x80\"", "\"\""},
         {"\"a\"", "\"tab\there\"", "\"x\""}},
        {"{\"enum\":[1,2.5,0.1,null,true,[1,{\"a\":\"b\"}],{}]}",
         {"1", "2.5", "0.1", "null", "true", "[1,{\"a\":\"b\"}]", "{}"},
         {"2", "0.10000000000000001", "false", "[]"}},
        {"{\"const\":\"x\"}", {"\"x\""}, {"\"y\"", "x"}},
        {"{\"type\":\"string\",\"enum\":[\"a\",1,null]}", {"\"a\""}, {"1", "null"}},
        {"{\"type\":\"number\",\"enum\":[1,2,3.5],\"minimum\":2}", {"2", "3.5"}, {"1"}},
        {"{\"enum\":[\"ab\",\"b\",\"abc\"],\"pattern\":\"^a\",\"maxLength\":2}",
         {"\"ab\""},
         {"\"b\"", "\"abc\""}},
        {"{\"allOf\":[{\"enum\":[[1,{\"a\":2}],[3]]},{\"enum\":[[1.0,{\"a\":2.0}],[4]]}]}",
         {"[1,{\"a\":2}]"},
         {"[3]", "[4]"}},
        /* as doubles these are one number */
        {"{\"enum\":[9007199254740992,9007199254740993],\"minimum\":9007199254740993}",
         {"9007199254740993"},
         {"9007199254740992"}},
        {"{\"type\":\"integer\",\"allOf\":[{\"maximum\":9007199254740993},{\"maximum\":"
         "9007199254740992}]}",
         {"9007199254740992"},
         {"9007199254740993"}},
        {"{\"allOf\":[{\"enum\":[1,2,3]},{\"enum\":[2.0,3,4]}]}", {"2", "3"}, {"1", "4"}},
    };
    CHECK_ALL(CONSTRAIN_JSON_SCHEMA, table);
}

static void test_arrays(void **state)
{
    (void)state;
    static const struct texts table[] = {
        {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"}}",
         {"[]", "[true]", "[true,false]", "[true, false ]", "[\n\n  true\n]"},
         {"[1]", "[true,]", "[,]", "[true false]", "[\n\n\ntrue]", "[  true]", "[ ]"}},
        {"{\"type\":\"array\",\"minItems\":2,\"maxItems\":3,\"items\":{\"const\":1}}",
         {"[1,1]", "[1,1,1]"},
         {"[]", "[1]", "[1,1,1,1]"}},
        {"{\"prefixItems\":[{\"const\":1},{\"const\":2}]}",
         {"[]", "[1]", "[1,2]", "[1,2,\"x\",{}]"},
         {"[2]", "[1,1]"}},
        {"{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":false,\"minItems\":1}",
         {"[1]", "[1,2]"},
         {"[]", "[1,2,3]"}},
        {"{\"prefixItems\":[{\"const\":1}],\"items\":{\"const\":2},\"minItems\":3,\"maxItems\":4}",
         {"[1,2,2]", "[1,2,2,2]"},
         {"[1,2]", "[1,2,2,2,2]", "[2,2,2]"}},
        {"{\"items\":false}", {"[]"}, {"[1]", "1"}},
        {"{\"type\":\"array\",\"maxItems\":0}", {"[]"}, {"[1]"}},
        {"{\"type\":\"array\",\"uniqueItems\":false,\"maxItems\":1}", {"[1]"}, {"[1,1]"}},
        {"{\"allOf\":[{\"items\":{\"type\":\"integer\"}},{\"items\":{\"minimum\":5},\"maxItems\":2}"
         ","
         "{\"prefixItems\":[{\"const\":7}]}]}",
         {"[7]", "[7,5]"},
         {"[6]", "[7,4]", "[7,5.5]", "[7,5,5]"}},
    };
    CHECK_ALL(CONSTRAIN_JSON_SCHEMA, table);
}

static void test_objects(void **state)
{
    (void)state;
    static const struct texts table[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},"
         "\"c\":{\"const\":3}},\"required\":[\"b\"]}",
         {"{\"b\":2}", "{\"a\":1,\"b\":2}", "{\"a\":1, \"b\": 2,\n\"c\":3 }", "{\"b\":2,\"c\":3}"},
         {"{}", "{\"a\":1}", "{\"b\":2,\"a\":1}", "{\"b\":2,}", "{\"b\":2,\"d\":1}",
          "{\"b\":2,\"b\":2}", "{\"b\" :2}", "{,\"b\":2}", "{\"b\":2 \"c\":3}"}},
        {"{\"properties\":{}}", {"{}"}, {"{\"a\":1}", "1"}},
        {"{\"type\":\"object\"}", {"{}", "{\"a\":1,\"b\":{\"c\":[]}}"}, {"{\"a\"}", "[]"}},
        {"{\"type\":\"object\",\"required\":[\"x\",\"y\"]}",
         {"{\"x\":1,\"y\":2}", "{\"x\":1,\"y\":2,\"z\":3}"},
         {"{\"x\":1}", "{\"z\":3,\"x\":1,\"y\":2}"}},
        {"{\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":{\"type\":\"null\"}}",
         {"{\"a\":1}", "{\"b\":null}", "{\"a\":1,\"aa\":null,\"\":null}"},
         {"{\"a\":null}", "{\"b\":1}", "{\"b\":null,\"a\":1}", "{\"\\u0061\":null}"}},
        {"{\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":false}",
         {"{}", "{\"a\":1}"},
         {"{\"b\":1}"}},
        {"{\"patternProperties\":{\"^n_\":{\"type\":\"integer\"},\"_s$\":{\"enum\":[1,\"x\"]}}}",
         {"{\"n_a\":5}", "{\"a_s\":\"x\"}", "{\"n_s\":1}", "{}"},
         {"{\"n_s\":\"x\"}", "{\"n_s\":5}", "{\"q\":1}", "{\"n_a\":\"x\"}"}},
        {"{\"properties\":{\"n_a\":{\"minimum\":3}},\"patternProperties\":{\"^n_\":{\"type\":"
         "\"integer\"}},\"required\":[\"n_a\",\"n_b\"],\"additionalProperties\":true}",
         {"{\"n_a\":3,\"n_b\":0}", "{\"n_a\":3,\"n_b\":0,\"z\":\"q\",\"n_c\":4}"},
         {"{\"n_a\":2,\"n_b\":0}", "{\"n_a\":3,\"n_b\":0.5}", "{\"n_a\":3.5,\"n_b\":0}"}},
        {"{\"type\":\"object\",\"properties\":{\"q\\\"\\n\":{\"const\":1}}}",
         {"{\"q\\\"\\n\":1}"},
         {"{\"q\":1}"}},
        {"{\"type\":\"object\",\"propertyNames\":{\"type\":\"string\"},\"additionalProperties\":{"
         "\"type\":\"null\"}}",
         {"{}", "{\"a\":null,\"\":null}"},
         {"{\"a\":1}"}},
        {"{\"propertyNames\":{\"pattern\":\"^[ab]+$\",\"maxLength\":2},\"additionalProperties\":{"
         "\"const\":1},\"properties\":{\"a\":{\"const\":2},\"c\":true}}",
         {"{}", "{\"a\":2,\"b\":1,\"ab\":1}"},
         {"{\"a\":1}", "{\"c\":1}", "{\"abb\":1}", "{\"\":1}"}},
        {"{\"propertyNames\":{\"minLength\":2,\"maxLength\":2}}",
         {"{}", "{\"ab\":1,\"\xc3\xa9q\":2}"},
         {"{\"a\":1}", "{\"abc\":1}"}},
        {"{\"propertyNames\":{\"enum\":[\"x\",1,\"yy\",\"z\"],\"maxLength\":1},"
         "\"additionalProperties\":{\"type\":\"integer\"},\"required\":[\"z\"]}",
         {"{\"z\":1}", "{\"z\":1,\"x\":2}"},
         {"{}", "{\"z\":1,\"yy\":1}", "{\"z\":1,\"z\":1}", "{\"z\":1,\"q\":1}", "{\"z\":null}"}},
        {"{\"patternProperties\":{\"^a\":{\"const\":1},\"b$\":true},\"propertyNames\":{\"pattern\":"
         "\"^(?!"
         "aa).*c\"}}",
         {"{}", "{\"ac\":1}", "{\"cb\":2}", "{\"acb\":1}"},
         {"{\"a\":1}", "{\"aac\":1}", "{\"b\":1}", "{\"acb\":2}"}},
        {"{\"propertyNames\":false}", {"{}"}, {"{\"a\":1}"}},
        {"{\"propertyNames\":{\"type\":\"integer\"},\"patternProperties\":{\"a\":true}}",
         {"{}"},
         {"{\"a\":1}"}},
        {"{\"properties\":{\"a\":false,\"b\":{\"const\":1}}}", {"{}", "{\"b\":1}"}, {"{\"a\":1}"}},
    };
    CHECK_ALL(CONSTRAIN_JSON_SCHEMA, table);
}

static void test_combinations(void **state)
{
    (void)state;
    static const struct texts table[] = {
        {"{\"anyOf\":[{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2}},\"required\":["
         "\"b\"]},"
         "{\"properties\":{\"a\":{\"type\":\"integer\"}}}]}",
         {"{\"a\":1,\"b\":2}", "{\"a\":5}", "{}"},
         {"{\"a\":5,\"b\":2}"}},
        {"{\"type\":\"integer\",\"anyOf\":[{\"maximum\":3},{\"minimum\":10}]}",
         {"3", "10"},
         {"5", "2.5"}},
        {"{\"anyOf\":[{\"minimum\":3},{\"maximum\":0}],\"oneOf\":[{\"type\":\"integer\"},{\"type\":"
         "\"null\"}]}",
         {"3", "0"},
         {"1", "null", "3.5"}},
        {"{\"oneOf\":[{\"type\":\"null\"},{\"type\":\"string\"}]}", {"null", "\"x\""}, {"1"}},
        {"{\"oneOf\":[{\"properties\":{\"kind\":{\"const\":\"a\"},\"x\":{\"type\":\"integer\"}},"
         "\"required\":[\"kind\"]},{\"properties\":{\"kind\":{\"const\":\"b\"}},\"required\":"
         "[\"kind\"]}]}",
         {"{\"kind\":\"a\",\"x\":1}", "{\"kind\":\"b\"}"},
         {"{\"kind\":\"b\",\"x\":1}", "{}"}},
        {"{\"oneOf\":[{\"type\":\"integer\",\"maximum\":3},{\"type\":\"integer\",\"minimum\":4}]}",
         {"3", "4"},
         {"3.5"}},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},"
         "{\"properties\":{\"b\":{\"const\":2},\"a\":{\"minimum\":5}},\"required\":[\"b\"]}]}",
         {"{\"a\":5,\"b\":2}"},
         {"{\"a\":4,\"b\":2}", "{\"a\":5}", "{\"b\":2,\"a\":5}"}},
        {"{\"$ref\":\"#/$defs/a~1b%20\",\"$defs\":{\"a/b \":{\"const\":1}}}", {"1"}, {"2"}},
        {"{\"definitions\":{\"n\":{\"type\":\"integer\"}},\"$ref\":\"#/definitions/"
         "n\",\"minimum\":2}",
         {"2"},
         {"1", "\"x\""}},
        {"{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"anyOf\":["
         "{\"type\":\"null\"},{\"$ref\":\"#\"}]}},\"required\":[\"v\",\"next\"]}",
         {"{\"v\":1,\"next\":null}",
          "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3,\"next\":null}}}"},
         {"{\"v\":1}", "{\"v\":1,\"next\":{\"v\":2}}",
          "{\"v\":1,\"next\":{\"v\":2,\"next\":null}"}},
        {"{\"anyOf\":[{\"const\":1},{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}]}",
         {"1", "[]", "[1,[1,[]]]"},
         {"[2]", "[1,[1,[]]"}},
        {"{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
         "never\"},\"$defs\":{\"never\":{\"type\":"
         "\"array\",\"items\":{\"$ref\":\"#/$defs/never\"},\"minItems\":1}}}",
         {"[]"},
         {"[[]]"}},
    };
    CHECK_ALL(CONSTRAIN_JSON_SCHEMA, table);
}

static void test_raw(void **state)
{
    (void)state;
    static const struct texts patterns[] = {
        {"\"[0-9]{2,3}\"", {"12", "123"}, {"1", "1234", "a12", ""}},
        {"\"a|b\"", {"a", "b"}, {"ab", "xa", ""}},
        {"\"^x$|y*?\"", {"x", "", "yy"}, {"xy"}},
        {"\"(?:ab)+c?(?<n>d)\"", {"abd", "ababcd"}, {"abc", "d"}},
        {"\".\"",
         {"a", "\xc3\xa9", "\xf0\x9f\x98\x80", "\""},
         {"\n", "ab", "\xc3", "\xe2\x80\xa8"}},
        {"\"[^a-y\\\\d]\"", {"z", "\xc3\xa9", "\n"}, {"a", "5"}},
        {"\"\\\\u00e9\\\\x41\\\\u{1f600}\\\\ud83d\\\\ude00\\\\cJ\\\\.\"",
         {"\xc3\xa9"
          "A\xf0\x9f\x98\x80\xf0\x9f\x98\x80\n."},
         {"\xc3\xa9"}},
        {"\"\\\\s\\\\S\\\\w\\\\W\\\\D\"", {" xy.z", "\xe3\x80\x80x_-z"}, {"xxy.z", " xy.5"}},
        {"\"(a{0,2}b){2}\"", {"bb", "aabab"}, {"b", "aaabb"}},
        {"\"a$b|c\"", {"c"}, {"ab", "a"}},
    };
    static const struct texts choice = {"[\"yes\",\"no\",\"yes, but\",\"\"]",
                                        {"yes", "no", "yes, but", ""},
                                        {"ye", "yes,", "maybe"}};
    CHECK_ALL(CONSTRAIN_REGEX, patterns);
    check_texts(CONSTRAIN_CHOICE, &choice);
    struct constrain *c = compile(CONSTRAIN_JSON_OBJECT, NULL);
    assert_true(allows(c, "{\"a\":[1,{}]}"));
    assert_false(allows(c, "[1]"));
    constrain_free(c);
}

/* ---- refusals */

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

static void test_refusals(void **state)
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
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        json_t *v = parse(table[i][0]);
        refused(CONSTRAIN_JSON_SCHEMA, v, table[i][1], table[i][2]);
        json_decref(v);
    }
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

/* ---- masks */

static struct tokenizer *open_default(void)
{
    struct tokenizer *t = NULL;
    struct engine_error err = {.code = ENGINE_OK};
    if (!tokenizer_open(&t, BYTES_FOLDER, &err)) {
        fail_msg("%s", err.text);
    }
    return t;
}

static uint32_t random_next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return (uint32_t)(*s >> 32);
}

struct walk {
    struct constrain *c;
    const struct tokenizer *t;
    const struct token_trie *trie;
    char text[1 << 16];
    size_t n;
};

/* Each token tried on its own, on a state that read the same text. */
static void check_mask(struct walk *w, const uint8_t *mask)
{
    for (int32_t id = 0; id < w->trie->n_vocab; id++) {
        struct engine_error err = {.code = ENGINE_OK};
        struct constrain_state *s;
        size_t len;
        const char *bytes = tokenizer_piece(w->t, id, false, &len);
        assert_true(constrain_state_new(&s, w->c, w->trie, &err));
        assert_true(constrain_advance(s, w->text, w->n, &err));
        bool is_allowed =
            len > 0 && !tokenizer_is_special(w->t, id) && constrain_advance(s, bytes, len, NULL);
        constrain_state_free(s);
        if (is_allowed != mask[id]) {
            fail_msg("'%.*s' and token %d: %d, the mask says %d", (int)w->n, w->text, id,
                     is_allowed, mask[id]);
        }
    }
}

/* Random tokens: every prefix goes on or is whole. Some masks are checked token by token. */
static void write_one(struct walk *w, uint64_t *seed, bool checks)
{
    static uint8_t mask[1 << 16];
    static int32_t ids[1 << 16];
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain_state *s;
    assert_true(constrain_state_new(&s, w->c, w->trie, &err));
    w->n = 0;
    for (int i = 0; i < 60; i++) {
        size_t n_ids = 0, len;
        assert_true(constrain_mask(s, mask, &err));
        if (checks && i % 6 == 3) {
            check_mask(w, mask);
        }
        for (int32_t id = 0; id < w->trie->n_vocab; id++) {
            if (mask[id]) {
                ids[n_ids++] = id;
            }
        }
        assert_true(n_ids > 0 || constrain_is_complete(s));
        assert_int_equal(n_ids == 0, constrain_is_final(s));
        if (n_ids == 0) {
            break;
        }
        int32_t id = ids[random_next(seed) % n_ids];
        const char *bytes = tokenizer_piece(w->t, id, false, &len);
        assert_true(constrain_advance(s, bytes, len, &err));
        memcpy(w->text + w->n, bytes, len);
        w->n += len;
    }
    constrain_state_free(s);
}

static const char *const walked[] = {
    "{\"type\":\"object\"}",
    "{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{\"type\":\"array\"},\"maxItems\":"
    "2}}",
    "{\"anyOf\":[{\"properties\":{\"a\":{\"$ref\":\"#\"}}},{\"properties\":{\"a\":{\"$ref\":\"#\"},"
    "\"b\":{\"type\":\"integer\"}}}]}",
    "{\"type\":\"string\",\"minLength\":3,\"maxLength\":9}",
    "{\"type\":\"string\",\"minLength\":12,\"maxLength\":2000}",
    "{\"type\":\"array\",\"items\":{\"const\":1},\"minItems\":8}",
    "{\"anyOf\":[{\"type\":\"boolean\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},"
    "\"minItems\":1}]}",
    "{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"ab\",1]},\"minItems\":3,\"maxItems\":30}",
    "{\"properties\":{\"x\":{\"format\":\"date-time\"},\"y\":{\"type\":\"number\",\"minimum\":0.5}}"
    ","
    "\"required\":[\"x\",\"y\"],\"additionalProperties\":{\"type\":\"boolean\"}}",
};

static void check_masks(const struct tokenizer *t, int n_runs)
{
    static struct walk w;
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain_cache *k;
    uint64_t seed = 88172645463325252u;
    assert_true(constrain_cache_new(&k, t, tokenizer_n_vocab(t), &err));
    for (size_t i = 0; i < sizeof walked / sizeof walked[0]; i++) {
        json_t *v = parse(walked[i]);
        struct constrain_spec spec = {CONSTRAIN_JSON_SCHEMA, v, "response_format"};
        w.t = t;
        if (!constrain_cache_get(k, &spec, &w.c, &err)) {
            fail_msg("%s: %s", walked[i], err.text);
        }
        json_decref(v);
        w.trie = constrain_cache_trie(k);
        for (int run = 0; run < n_runs; run++) {
            write_one(&w, &seed, run % 12 == 0);
        }
        constrain_free(w.c);
    }
    constrain_cache_free(k);
}

static void test_masks(void **state)
{
    (void)state;
    struct tokenizer *t = open_default();
    check_masks(t, 12);
    tokenizer_close(t);
}

/* Tokens that end one thing and begin another, several levels at once, as large vocabularies have
 * them. */
static void test_masks_across_levels(void **state)
{
    (void)state;
    static const struct recipe r = {
        .vocab = "\"\\\"}\":256,\"\\\"}}\":257,\"}}}\":258,\"]]\":259,\"]]]]]]\":260,\"],[\":261,"
                 "\"{\\\"\":262,\"\\\":\":263,\"\\\",\\\"\":264,\"}]\":265,\"]}\":266,\"[[[\":267,"
                 "\"aaaa\":268,"
                 "\"aaa\\\"\":269,\"1,1,1\":270,\":{\\\"\":271,\"{\\\"a\\\":{\\\"a\\\":\":272,\"]]]"
                 ",\":273"};
    struct tokenizer *t = make(make_bytes_json, &r);
    check_masks(t, 120);
    tokenizer_close(t);
}

/* Counts the tokens of a trie, and those that have the bytes of another. */
static size_t count_tokens(const struct token_trie *t, size_t *n_shared)
{
    size_t n = 0;
    *n_shared = 0;
    for (size_t i = 0; i < t->n_nodes; i++) {
        size_t before = n;
        for (int32_t id = t->nodes[i].token; id >= 0; id = t->next[id]) {
            n++;
            assert_in_range(id, 0, t->n_vocab - 1);
        }
        assert_int_equal(t->nodes[i].has_others, n > before + 1);
        *n_shared += n > before + 1 ? n - before : 0;
        assert_in_range(t->nodes[i].skip, i + 1, t->n_nodes);
    }
    return n;
}

/* The trie of a vocabulary that has more ids than the model. */
static void test_trie(void **state)
{
    (void)state;
    struct engine_error err = {.code = ENGINE_OK};
    const struct recipe r = {.vocab = "\"aa\":256,\"aab\":257,\"b\\u0120\":258"};
    struct tokenizer *t = make(make_bytes_json, &r);
    struct token_trie trie;
    size_t n_shared;
    assert_true(token_trie_init(&trie, t, 258, &err));
    assert_int_equal(count_tokens(&trie, &n_shared), 258);
    assert_int_equal(n_shared, 0);
    assert_int_equal(trie.n_nodes, 258); /* "aa" and "aab" share their beginnings */
    assert_int_equal(trie.depth, 3);
    token_trie_release(&trie);
    tokenizer_close(t);
}

/* Characters that are tokens and come once more as bytes: both are in the trie and in masks. */
static void test_same_bytes(void **state)
{
    (void)state;
    struct engine_error err = {.code = ENGINE_OK};
    struct tokenizer *t;
    struct token_trie trie;
    size_t n = 0, n_shared, len;
    assert_true(tokenizer_open(&t, SPACES_FOLDER, &err));
    for (int32_t id = 0; id < tokenizer_n_vocab(t); id++) {
        n += !tokenizer_is_special(t, id) && tokenizer_piece(t, id, false, &len) && len > 0;
    }
    assert_true(token_trie_init(&trie, t, tokenizer_n_vocab(t), &err));
    assert_int_equal(count_tokens(&trie, &n_shared), n);
    assert_true(n_shared >= 100);
    token_trie_release(&trie);
    check_masks(t, 12);
    tokenizer_close(t);
}

/* The same schema again is the same object; another order of its keys is another. */
static void test_cache(void **state)
{
    (void)state;
    struct engine_error err = {.code = ENGINE_OK};
    struct tokenizer *t = open_default();
    struct constrain_cache *k;
    struct constrain *a, *b, *c;
    json_t *v = parse("{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}}}"),
           *w = parse("{\"type\":\"object\",\"properties\":{\"b\":{},\"a\":{}}}");
    struct constrain_spec spec = {CONSTRAIN_JSON_SCHEMA, v, "response_format"};
    assert_true(constrain_cache_new(&k, t, tokenizer_n_vocab(t), &err));
    assert_true(constrain_cache_get(k, &spec, &a, &err));
    assert_true(constrain_cache_get(k, &spec, &b, &err));
    assert_ptr_equal(a, b);
    spec.value = w;
    assert_true(constrain_cache_get(k, &spec, &c, &err));
    assert_ptr_not_equal(a, c);
    assert_true(allows(c, "{\"b\":1,\"a\":2}"));
    assert_false(allows(a, "{\"b\":1,\"a\":2}"));
    /* one that was pushed out lives as long as it has an owner */
    for (int i = 0; i < 40; i++) {
        json_t *x = json_pack("{s:i}", "const", i);
        struct constrain *other;
        spec.value = x;
        assert_true(constrain_cache_get(k, &spec, &other, &err));
        constrain_free(other);
        json_decref(x);
    }
    assert_true(allows(a, "{\"a\":1,\"b\":2}"));
    constrain_free(a);
    constrain_free(b);
    constrain_free(c);
    json_decref(v);
    json_decref(w);
    constrain_cache_free(k);
    tokenizer_close(t);
}

/* Each bracket is a state of its own: they are forgotten on the way, and the place is found again.
 */
static void test_forgets(void **state)
{
    (void)state;
    enum { DEPTH = 150000 };
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain *c = compile(CONSTRAIN_JSON_SCHEMA, "{\"type\":\"array\"}");
    struct constrain_state *s;
    assert_true(constrain_state_new(&s, c, NULL, &err));
    for (int i = 0; i < 2 * DEPTH; i++) {
        if (!constrain_advance(s, i < DEPTH ? "[" : "]", 1, &err)) {
            fail_msg("bracket %d: %s", i, err.text);
        }
        assert_int_equal(constrain_is_complete(s), i == 2 * DEPTH - 1);
    }
    assert_true(constrain_is_final(s));
    constrain_state_free(s);
    constrain_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_strings),      cmocka_unit_test(test_formats),
        cmocka_unit_test(test_values),       cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_objects),      cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_raw),          cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_raw_refusals), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_masks),        cmocka_unit_test(test_masks_across_levels),
        cmocka_unit_test(test_trie),         cmocka_unit_test(test_cache),
        cmocka_unit_test(test_forgets),      cmocka_unit_test(test_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
