/* test_jsontree.c - no text that is said to fit takes more memory than that as a tree, and what is
 * picked out of a file is what the whole file says.
 */
#include "local-engine/jsontree.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t now, peak;

static void *count_malloc(size_t n)
{
    void *p = malloc(n);
    now += malloc_usable_size(p) + 8; /* what malloc keeps before each block */
    peak = now > peak ? now : peak;
    return p;
}

static void count_free(void *p)
{
    now -= p ? malloc_usable_size(p) + 8 : 0;
    free(p);
}

/* OPEN, n times ITEM with a comma between, CLOSE; where ITEM has a '#', it is a number. */
static char *make(const char *open, const char *item, const char *close, size_t n, size_t *len)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, len);
    assert_non_null(f);
    fputs(open, f);
    for (size_t i = 0; i < n; i++) {
        const char *mark = strchr(item, '#');
        fprintf(f, "%s%.*s", i ? "," : "", (int)(mark ? mark - item : (long)strlen(item)), item);
        if (mark) {
            fprintf(f, "%zu%s", i, mark + 1);
        }
    }
    fputs(close, f);
    assert_int_equal(fclose(f), 0);
    return text;
}

static const char *const shapes[][3] = {
    {"[", "0", "]"},
    {"[", "0.5", "]"},
    {"[", "[]", "]"},
    {"[", "{}", "]"},
    {"[", "\"\"", "]"},
    {"[", "\"a string of some length, such as a token of a vocabulary\"", "]"},
    {"[", "true", "]"},
    {"{", "\"#\":0", "}"},
    {"{", "\"#\":{}", "}"},
    {"{", "\"#\":[]", "}"},
    {"{", "\"#\":\"\"", "}"},
    {"[", "{\"a\":0}", "]"},
    {"[", "[0]", "]"},
    {"{", "\"model.layers.#.w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}", "}"},
};

static void what_fits_takes_no_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        size_t len, low = 1, high = 1u << 20;
        while (high - low > 2048) { /* the largest that fits */
            size_t n = (low + high) / 2;
            char *text = make(shapes[i][0], shapes[i][1], shapes[i][2], n, &len);
            *(jsontree_fits(text, len) ? &low : &high) = n;
            free(text);
        }
        assert_true(low > 10000 && high < 1u << 20);
        char *text = make(shapes[i][0], shapes[i][1], shapes[i][2], low, &len);
        now = peak = 0;
        json_set_alloc_funcs(count_malloc, count_free);
        json_t *j = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(j);
        json_decref(j);
        json_set_alloc_funcs(malloc, free);
        if (peak > JSONTREE_MAX || peak < JSONTREE_MAX / 8) {
            fail_msg("%s: %zu items take %zu bytes", shapes[i][1], low, peak);
        }
        assert_int_equal(now, 0);
        free(text);
    }
}

static void strings_are_text(void **state)
{
    (void)state;
    size_t n = 1u << 20;
    char *text = malloc(n);
    memset(text, '{', n);
    text[0] = text[n - 1] = '"';
    assert_true(jsontree_fits(text, n));
    memcpy(text + 1, "\\\"", 2); /* does not end it */
    assert_true(jsontree_fits(text, n));
    text[3] = '"';
    assert_false(jsontree_fits(text, n));
    text[n - 2] = '\\'; /* an escape at the very end */
    assert_false(jsontree_fits(text, n));
    assert_true(jsontree_fits("\"\\", 2));
    assert_true(jsontree_fits("", 0));
    free(text);
}

static json_t *pick(const char *text, struct engine_error *err)
{
    static const char *const names[] = {"a", "long_name", NULL};
    return jsontree_pick(text, strlen(text), names, "x.json", err);
}

static void only_what_is_named_is_picked(void **state)
{
    (void)state;
    struct engine_error err = {.code = ENGINE_OK};
    json_t *j = pick("{\"b\":[{\"a\":1}],\"a\":{\"b\":[1,2]},\"long\\u005fname\":\"\\u0000x\","
                     "\"n\":1000000000000000019884624838656}",
                     &err);
    assert_non_null(j);
    assert_int_equal(json_object_size(j), 2);
    assert_int_equal(json_array_size(json_object_get(json_object_get(j, "a"), "b")), 2);
    assert_int_equal(json_string_length(json_object_get(j, "long_name")), 2);
    json_decref(j);
    j = pick(" {} ", &err);
    assert_int_equal(json_object_size(j), 0);
    json_decref(j);
}

static void what_is_no_object_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } rows[] = {{"", "an object is expected"},
                {"[]", "an object is expected"},
                {"{", "is expected"},
                {"{\"a\":}", "a value is expected"},
                {"{\"a\":tru}", "the value is no JSON"},
                {"{\"a\":[1,]}", "the value is no JSON"},
                {"{\"a\":1} x", "something follows"},
                {"{\"a\":1 \"b\":2}", "a comma or a closing bracket"},
                {"{\"b\":[}", "a bracket closes nothing"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct engine_error err = {.code = ENGINE_OK};
        assert_null(pick(rows[i].text, &err));
        assert_int_equal(err.code, ENGINE_BAD_FILE);
        if (strncmp(err.text, "x.json: not a JSON object", 25) != 0 ||
            !strstr(err.text, rows[i].why)) {
            fail_msg("'%s': %s", rows[i].text, err.text);
        }
    }
    size_t len;
    struct engine_error err = {.code = ENGINE_OK};
    char *large = make("{\"a\":[", "0", "]}", 1u << 20, &len);
    assert_null(pick(large, &err));
    assert_non_null(strstr(err.text, "a field holds too many values"));
    large[2] = 'b';
    json_t *j = pick(large, NULL);
    assert_non_null(j);
    json_decref(j);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_fits_takes_no_more),
                                       cmocka_unit_test(strings_are_text),
                                       cmocka_unit_test(only_what_is_named_is_picked),
                                       cmocka_unit_test(what_is_no_object_is_refused)};
    return cmocka_run_group_tests_name("jsontree", tests, NULL, NULL);
}
