/* test_constrain_clients.c - schemas as OpenAI's examples, pydantic and zod write them: all are
 * taken, allow the documents that they should and no others, and what is drawn at random under them
 * is JSON that is allowed when it is read again. The long form, with a validator of other people,
 * is tests/reference/40-json-schema.mjs.
 */
#include "tests/lib/constrain_texts.h"
#include "tests/lib/draw_text.h"

#define SCHEMAS "tests/vectors/client-schemas.json"
enum { SEEDS = 4 };

static void check_texts(struct constrain *c, const json_t *entry, const char *key, bool want)
{
    const json_t *list = json_object_get(entry, key);
    assert_true(json_array_size(list) > 0);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *text = json_array_get(list, i);
        if (allows(c, json_string_value(text)) != want) {
            fail_msg("%s: %s should%s be allowed",
                     json_string_value(json_object_get(entry, "name")), json_string_value(text),
                     want ? "" : " not");
        }
    }
}

/* Returns how many were not cut. */
static size_t check_drawn(struct constrain *c, const struct constrain_cache *k,
                          const struct tokenizer *t, const char *name)
{
    size_t n = 0;
    for (uint64_t i = 1; i <= SEEDS; i++) {
        json_t *text = draw_document(c, k, t, i * 0x9E3779B97F4A7C15u);
        if (json_is_string(text)) {
            const char *s = json_string_value(text);
            json_t *document =
                json_loadb(s, json_string_length(text), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            if (!document || !allows(c, s)) {
                fail_msg("%s: %s was drawn", name, s);
            }
            json_decref(document);
            n++;
        }
        json_decref(text);
    }
    return n;
}

static void test_clients(void **state)
{
    (void)state;
    struct engine_error err = {.code = ENGINE_OK};
    json_t *list = json_load_file(SCHEMAS, 0, NULL);
    struct tokenizer *t = draw_vocabulary();
    struct constrain_cache *k;
    size_t n_drawn = 0, n = json_array_size(list);
    assert_non_null(t);
    assert_true(n >= 50);
    assert_true(constrain_cache_new(&k, t, tokenizer_n_vocab(t), &err));
    draw_fill_weights();
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        struct constrain_spec spec = {CONSTRAIN_JSON_SCHEMA, json_object_get(entry, "schema"),
                                      "response_format"};
        struct constrain *c;
        if (!constrain_cache_get(k, &spec, &c, &err)) {
            fail_msg("%s: %s", name, err.text);
        }
        check_texts(c, entry, "yes", true);
        check_texts(c, entry, "no", false);
        n_drawn += check_drawn(c, k, t, name);
        constrain_free(c);
    }
    assert_true(n_drawn > n * SEEDS * 9 / 10);
    constrain_cache_free(k);
    tokenizer_close(t);
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
