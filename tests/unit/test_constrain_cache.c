/* test_constrain_cache.c - what a cache of constraints refuses: what is no schema, and what would
 * take too long to follow.
 */
#include "local-engine/constrain.h"
#include "tests/lib/tokenizer_recipe.h"

static struct tokenizer *vocabulary(void)
{
    static const struct recipe r = {.vocab = "\"\\\"}\":256,\"aaaa\":257"};
    struct tokenizer *t = make(make_bytes_json, &r);
    assert_int_equal(tokenizer_n_vocab(t), 258);
    return t;
}

/* A schema of strings of n different lengths: n places to be in, in each of them. */
static json_t *lengths(int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        assert_int_equal(
            json_array_append_new(list, json_pack("{s:s,s:i}", "type", "string", "minLength", i)),
            0);
    }
    return json_pack("{s:o}", "anyOf", list);
}

/* Whether `text` can be followed with masks for each byte of it; else the error. */
static bool masks_of(struct constrain_cache *k, const json_t *v, const char *param,
                     struct engine_error *err)
{
    static uint8_t mask[258];
    struct constrain_spec spec = {CONSTRAIN_JSON_SCHEMA, v, param};
    struct constrain *c;
    struct constrain_state *s;
    assert_true(constrain_cache_get(k, &spec, &c, err));
    assert_true(constrain_state_new(&s, c, constrain_cache_trie(k), err));
    bool ok = constrain_mask(s, mask, err);
    for (const char *p = "\"abcdef"; ok && *p; p++) {
        ok = constrain_advance(s, p, 1, err) && constrain_mask(s, mask, err);
    }
    constrain_state_free(s);
    constrain_free(c);
    return ok;
}

/* What takes too long is refused, each time alike, and by the name of the field that asked. */
static void test_too_wide(void **state)
{
    (void)state;
    static const char *const params[] = {"response_format", "structured_outputs",
                                         "response_format"};
    struct tokenizer *t = vocabulary();
    struct constrain_cache *k;
    struct engine_error err = {.code = ENGINE_OK};
    json_t *few = lengths(60), *many = lengths(8000);
    assert_true(constrain_cache_new(&k, t, tokenizer_n_vocab(t), &err));
    for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
        struct engine_error e = {.code = ENGINE_OK};
        assert_false(masks_of(k, many, params[i], &e));
        assert_int_equal(e.code, ENGINE_BAD_PARAM);
        assert_string_equal(e.param, params[i]);
        assert_non_null(strstr(e.text, "too many alternatives"));
        assert_true(masks_of(k, few, params[i], &err));
    }
    json_decref(few);
    json_decref(many);
    constrain_cache_free(k);
    tokenizer_close(t);
}

/* What is no schema is said to be none, by the cache too. */
static void test_no_schema(void **state)
{
    (void)state;
    struct tokenizer *t = vocabulary();
    struct constrain_cache *k;
    struct engine_error err = {.code = ENGINE_OK};
    static const char *const values[] = {"[]", "5", "\"{}\"", "null", "0.5"};
    assert_true(constrain_cache_new(&k, t, tokenizer_n_vocab(t), &err));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct engine_error e = {.code = ENGINE_OK};
        json_t *v = json_loads(values[i], JSON_DECODE_ANY, NULL);
        struct constrain_spec spec = {CONSTRAIN_JSON_SCHEMA, v, "response_format"};
        struct constrain *c;
        assert_false(constrain_cache_get(k, &spec, &c, &e));
        assert_int_equal(e.code, ENGINE_BAD_PARAM);
        assert_string_equal(e.param, "response_format");
        assert_non_null(strstr(e.text, "must be an object"));
        json_decref(v);
    }
    constrain_cache_free(k);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_wide),
        cmocka_unit_test(test_no_schema),
    };
    return cmocka_run_group_tests_name("constrain_cache", tests, NULL, NULL);
}
