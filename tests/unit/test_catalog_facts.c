/* test_catalog_facts.c - the shipped sources hold every row of the collected facts, and no field
 * was lost on the way.
 *
 * The first test counts and needs nothing but the tree. The second compares row by row with
 * ../shared/facts, where that is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#define FACTS "../shared/facts/"

static const struct shipped {
    const char *provider, *source, *facts;
    size_t n_facts, n_derived;
} shipped[] = {
    {"openai", "catalog/providers/openai.json", FACTS "openai-family.jsonl", 1232, 42},
    {"anthropic", "catalog/providers/anthropic.json", FACTS "native-wire.jsonl", 614, 16},
    {"mistral", "catalog/providers/mistral.json", FACTS "native-wire.jsonl", 90, 7},
};
#define N_SHIPPED (sizeof shipped / sizeof shipped[0])

static json_t *load_claims(const struct shipped *s, json_t **root)
{
    json_error_t e;
    *root = json_load_file(s->source, JSON_REJECT_DUPLICATES, &e);
    if (!*root) {
        fail_msg("%s line %d: %s", s->source, e.line, e.text);
    }
    return json_object_get(*root, "claims");
}

static void test_count(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SHIPPED; i++) {
        json_t *root, *claims = load_claims(&shipped[i], &root), *claim;
        size_t index, n_derived = 0;
        json_array_foreach (claims, index, claim) {
            n_derived += json_is_true(json_object_get(claim, "derived"));
        }
        assert_int_equal(n_derived, shipped[i].n_derived);
        assert_int_equal(json_array_size(claims) - n_derived, shipped[i].n_facts);
        json_decref(root);
    }
}

/* Absent, null, false, "" and [] are one and the same: nothing was said. */
static bool says_something(const json_t *v)
{
    return v && !json_is_null(v) && !json_is_false(v) &&
           !(json_is_array(v) && json_array_size(v) == 0) &&
           !(json_is_string(v) && json_string_length(v) == 0);
}

static void same(const char *where, size_t row, const char *field, const json_t *fact,
                 const json_t *claim)
{
    bool is_default_false = strcmp(field, "default") == 0 && json_is_false(fact);
    bool is_same = says_something(fact) || is_default_false ? claim && json_equal(fact, claim)
                                                            : !says_something(claim);
    if (!is_same) {
        fail_msg("%s row %zu: %s differs", where, row, field);
    }
}

/* Field of the facts -> field of the source; the others have rules of their own below. */
static void compare_row(const char *where, size_t row, const json_t *fact, const json_t *claim)
{
    static const char *const fields[][2] = {
        {"models", "models"},
        {"endpoint", "endpoint"},
        {"wire_name", "wire"},
        {"support", "support"},
        {"min", "min"},
        {"max", "max"},
        {"min_exclusive", "min_exclusive"},
        {"max_exclusive", "max_exclusive"},
        {"integer", "integer"},
        {"default", "default"},
        {"values", "values"},
        {"max_items", "items_max"},
        {"max_len", "len_max"},
        {"note", "note"},
        {"source", "source"},
        {"as_of", "as_of"},
        {"confidence", "confidence"},
        {"valid_from", "valid_from"},
        {"valid_to", "valid_to"},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        same(where, row, fields[i][0], json_object_get(fact, fields[i][0]),
             json_object_get(claim, fields[i][1]));
    }
    const json_t *own = json_object_get(claim, "source_param");
    same(where, row, "param", json_object_get(fact, "param"),
         own ? own : json_object_get(claim, "param"));
    /* "needs logprobs" was written as a conflict. */
    const json_t *needs = json_object_get(claim, "needs");
    same(where, row, "conflicts", json_object_get(fact, "conflicts"),
         needs ? needs : json_object_get(claim, "conflicts"));
    const json_t *mode = json_object_get(fact, "mode"), *when = json_object_get(fact, "when");
    same(where, row, "mode or when", says_something(mode) ? mode : when,
         json_object_get(claim, "when_text"));
    const char *variant = json_string_value(json_object_get(fact, "variant"));
    const char *got = json_string_value(json_object_get(claim, "variant"));
    const char *want = says_something(mode) ? "conditional" : variant ? variant : "current";
    assert_string_equal(got ? got : "current", want);
}

static void compare_source(const struct shipped *s)
{
    static char line[16384];
    json_t *root, *claims = load_claims(s, &root);
    size_t row = 0;
    FILE *f = fopen(s->facts, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        json_t *fact = json_loads(line, 0, NULL);
        assert_non_null(fact);
        if (strcmp(json_string_value(json_object_get(fact, "provider")), s->provider) == 0) {
            compare_row(s->provider, row + 1, fact, json_array_get(claims, row));
            row++;
        }
        json_decref(fact);
    }
    (void)fclose(f);
    assert_int_equal(row, s->n_facts);
    json_decref(root);
}

static void test_lossless(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SHIPPED; i++) {
        if (access(shipped[i].facts, R_OK) != 0) {
            print_message("skipped: %s is not there\n", shipped[i].facts);
            skip();
        }
        compare_source(&shipped[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_lossless),
    };
    return cmocka_run_group_tests_name("catalog_facts", tests, NULL, NULL);
}
