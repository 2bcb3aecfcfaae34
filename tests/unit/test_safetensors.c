/* test_safetensors.c - headers as they should be, and every way in which a file may lie. */
#include "local-engine/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Length, header, n_data bytes 0, 1, 2 ... in a block of exactly that size. */
static unsigned char *make_file(const char *header, size_t n_data, size_t *n)
{
    size_t n_header = strlen(header);
    *n = 8 + n_header + n_data;
    unsigned char *p = malloc(*n);
    assert_non_null(p);
    for (int i = 0; i < 8; i++) {
        p[i] = (unsigned char)(n_header >> (8 * i));
    }
    memcpy(p + 8, header, n_header);
    for (size_t i = 0; i < n_data; i++) {
        p[8 + n_header + i] = (unsigned char)i;
    }
    return p;
}

static void tensors_are_found(void **state)
{
    (void)state;
    size_t n, n_all;
    unsigned char *bytes =
        make_file("{\"__metadata__\":{\"format\":\"pt\"},"
                  "\"w\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
                  "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                  "\"none\":{\"dtype\":\"BF16\",\"shape\":[0,5],\"data_offsets\":[4,4]}}  ",
                  16, &n);
    struct safetensors *st = NULL;
    struct engine_error err = {0};
    assert_true(safetensors_parse(&st, bytes, n, "x", &err));
    const struct safetensors_tensor *w = safetensors_find(st, "w");
    assert_non_null(w);
    assert_string_equal(w->dtype, "F16");
    assert_int_equal(w->n_elements, 6);
    assert_int_equal(w->n_bytes, 12);
    assert_int_equal(w->data[0], 4);
    assert_int_equal(w->n_dims, 2);
    assert_int_equal(w->dim[0], 2);
    assert_int_equal(w->dim[1], 3);
    assert_int_equal(safetensors_find(st, "b")->n_dims, 0);
    assert_int_equal(safetensors_find(st, "none")->n_elements, 0);
    assert_null(safetensors_find(st, "__metadata__"));
    assert_string_equal(safetensors_all(st, &n_all)[0].name, "b");
    assert_int_equal(n_all, 3);
    safetensors_close(st);
    free(bytes);
}

static void expect_refused(const char *header, size_t n_data, const char *text)
{
    size_t n;
    struct safetensors *st = NULL;
    struct engine_error err = {0};
    unsigned char *bytes = make_file(header, n_data, &n);
    assert_false(safetensors_parse(&st, bytes, n, "x.safetensors", &err));
    assert_null(st);
    assert_int_equal(err.code, ENGINE_BAD_FILE);
    if (!strstr(err.text, text)) {
        print_error("got '%s', '%s' expected\n", err.text, text);
        fail();
    }
    free(bytes);
}

#define T(dtype, shape, offsets)                                                                   \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void headers_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t n_data;
        const char *text;
    } cases[] = {
        {"", 0, "is no JSON object"},
        {"[]", 0, "is no JSON object"},
        {"{\"a\":1}", 0, "no known 'dtype'"},
        {"{", 4, "is no JSON object"},
        {T("F99", "[1]", "[0,4]"), 4, "tensor 'a' has no known 'dtype'"},
        {T("F32", "1", "[0,4]"), 4, "has no 'shape'"},
        {T("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "at most 8 dimensions"},
        {T("F32", "[-1]", "[0,4]"), 4, "no whole number"},
        {T("F32", "[1.0]", "[0,4]"), 4, "no whole number"},
        {T("F32", "[4294967296,4294967296]", "[0,4]"), 4, "product is too large"},
        {T("F64", "[4611686018427387904]", "[0,0]"), 0, "do not match its dtype and shape"},
        {T("F32", "[1]", "[0]"), 4, "no 'data_offsets'"},
        {T("F32", "[1]", "[0,4.5]"), 4, "no 'data_offsets'"},
        {T("F32", "[1]", "[0,8]"), 4, "data_offsets [0, 8], the file has 4 bytes"},
        {T("F32", "[1]", "[4,0]"), 4, "data_offsets [4, 0]"},
        {T("F32", "[1]", "[-4,0]"), 4, "data_offsets [-4, 0]"},
        {T("F32", "[1]", "[0,9223372036854775807]"), 4, "data_offsets"},
        {T("F32", "[2]", "[0,4]"), 4, "do not match its dtype and shape"},
        {T("F32", "[1]", "[0,4]"), 5, "belong to none"},
        {T("F32", "[1]", "[4,8]"), 8, "leaves a hole"},
        {"{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "name has 0 bytes"},
        {"{\"a\\n\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "control character"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         4, "overlaps"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, "duplicate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_refused(cases[i].header, cases[i].n_data, cases[i].text);
    }
}

static void lengths_that_lie_are_refused(void **state)
{
    (void)state;
    struct safetensors *st = NULL;
    unsigned char huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    unsigned char longer[10] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    unsigned char empty[10] = {2, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    assert_false(safetensors_parse(&st, huge, sizeof huge, "x", NULL));
    assert_false(safetensors_parse(&st, longer, sizeof longer, "x", NULL));
    for (size_t n = 0; n < 10; n++) {
        assert_false(safetensors_parse(&st, empty, n, "x", NULL));
    }
    assert_true(safetensors_parse(&st, empty, 10, "x", NULL));
    assert_null(safetensors_find(st, "a"));
    safetensors_close(st);
    safetensors_close(NULL);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    size_t n;
    unsigned char *bytes = make_file(T("F32", "[2]", "[0,8]"), 8, &n);
    for (size_t cut = 0; cut < n; cut++) {
        struct safetensors *st = NULL;
        unsigned char *part = malloc(cut ? cut : 1);
        memcpy(part, bytes, cut);
        assert_false(safetensors_parse(&st, part, cut, "x", NULL));
        free(part);
    }
    free(bytes);
}

static void files_are_named_in_errors(void **state)
{
    (void)state;
    struct safetensors *st = NULL;
    struct engine_error missing = {0}, folder = {0};
    assert_false(safetensors_open(&st, "tests/none/model.safetensors", &missing));
    assert_int_equal(missing.code, ENGINE_IO);
    assert_non_null(strstr(missing.text, "model.safetensors: cannot be read: "));
    assert_false(safetensors_open(&st, "tests/unit", &folder));
    assert_non_null(strstr(folder.text, "unit: is no regular file"));
    assert_true(safetensors_open(&st, "tests/vectors/stories260k/model.safetensors", NULL));
    assert_string_equal(safetensors_label(st), "model.safetensors");
    assert_non_null(safetensors_file(st)->bytes);
    assert_int_equal(safetensors_file(st)->n, 1044984);
    safetensors_close(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_found),
        cmocka_unit_test(headers_that_lie_are_refused),
        cmocka_unit_test(lengths_that_lie_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(files_are_named_in_errors),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
