/* test_constrain.c - schemas, patterns and choices: texts that are allowed and texts that are not,
 * byte by byte.
 */
#include "tests/lib/constrain_texts.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),   cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_strings), cmocka_unit_test(test_formats),
        cmocka_unit_test(test_values),  cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_objects), cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_raw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
