/* test_gguf.c - files as they should be, and every way in which one may lie. */
#include "gguf_builder.h"
#include "local-engine/gguf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Two tensors and a value of every type. */
static struct gguf_bytes make_file(void)
{
    struct gguf_bytes b = {0};
    static const struct {
        uint32_t type;
        int n;
    } numbers[] = {{0, 1}, {1, 1}, {2, 2}, {3, 2}, {4, 4}, {5, 4}, {10, 8}, {11, 8}};
    gguf_put_head(&b, 2, 16);
    for (size_t i = 0; i < 8; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "int%zu", i);
        gguf_put_key(&b, key, numbers[i].type);
        gguf_put_int(&b, (uint64_t)-2, numbers[i].n);
    }
    gguf_put_f32(&b, "float", 1.5f);
    double d = -0.25;
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    gguf_put_key(&b, "double", 12);
    gguf_put_int(&b, bits, 8);
    gguf_put_key(&b, "yes", 7);
    gguf_put_int(&b, 1, 1);
    gguf_put_string(&b, "word", "w\xc3\xb6rd");
    gguf_put_key(&b, "words", 9);
    gguf_put_int(&b, 8, 4);
    gguf_put_int(&b, 3, 8);
    gguf_put_text(&b, "a");
    gguf_put_text(&b, "");
    gguf_put_text(&b, "ccc");
    gguf_put_key(&b, "numbers", 9);
    gguf_put_int(&b, 5, 4);
    gguf_put_int(&b, 2, 8);
    gguf_put_int(&b, (uint64_t)-7, 4);
    gguf_put_int(&b, 7, 4);
    gguf_put_key(&b, "none", 9);
    gguf_put_int(&b, 6, 4);
    gguf_put_int(&b, 0, 8);
    gguf_put_u32(&b, "general.alignment", 64);
    gguf_put_tensor(&b, "w", 2, 32, 8, 64);
    gguf_put_tensor(&b, "b", 1, 3, 0, 0);
    gguf_pad(&b, 64);
    for (int i = 0; i < 64 + 2 * 34; i++) {
        gguf_put_int(&b, (uint64_t)i, 1);
    }
    return b;
}

static struct gguf *parse(const struct gguf_bytes *b)
{
    struct gguf *g = NULL;
    struct engine_error err = {0};
    if (!gguf_parse(&g, b->p, b->n, "x.gguf", &err)) {
        print_error("%s\n", err.text);
        fail();
    }
    return g;
}

static void values_are_told(void **state)
{
    (void)state;
    static const int64_t want[] = {254, -2, 65534, -2, 4294967294, -2, INT64_MAX, -2};
    struct gguf_bytes b = make_file();
    struct gguf *g = parse(&b);
    int64_t n;
    double x;
    bool yes;
    for (size_t i = 0; i < 8; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "int%zu", i);
        assert_true(gguf_get_int(g, key, INT64_MIN, INT64_MAX, 0, &n, NULL));
        assert_int_equal(n, want[i]);
    }
    assert_true(gguf_get_real(g, "float", 0.0, &x, NULL) && x == 1.5);
    assert_true(gguf_get_real(g, "double", 0.0, &x, NULL) && x == -0.25);
    assert_true(gguf_get_real(g, "int1", 0.0, &x, NULL) && x == -2.0);
    assert_true(gguf_get_real(g, "absent", 3.0, &x, NULL) && x == 3.0);
    assert_true(gguf_get_bool(g, "yes", false, &yes, NULL) && yes);
    assert_true(gguf_get_int(g, "absent", 0, 1, 7, &n, NULL) && n == 7);
    assert_false(gguf_get_int(g, "absent", 0, 1, GGUF_REQUIRED, &n, NULL));
    assert_int_equal(gguf_version(g), 3);
    gguf_close(g);
    free(b.p);
}

static void strings_and_arrays_are_told(void **state)
{
    (void)state;
    struct gguf_bytes b = make_file();
    struct gguf *g = parse(&b);
    struct gguf_string s;
    struct gguf_array a;
    size_t at = 0;
    assert_true(gguf_get_string(g, "word", &s, NULL) && s.is_there);
    assert_int_equal(s.len, 5);
    assert_memory_equal(s.text, "w\xc3\xb6rd", 5);
    assert_true(gguf_get_string(g, "absent", &s, NULL) && !s.is_there && s.len == 0);
    assert_true(gguf_get_array(g, "words", GGUF_STRING, &a, NULL));
    assert_int_equal(a.n, 3);
    assert_memory_equal(gguf_array_string(&a, &at).text, "a", 1);
    assert_int_equal(gguf_array_string(&a, &at).len, 0);
    s = gguf_array_string(&a, &at);
    assert_int_equal(s.len, 3);
    assert_memory_equal(s.text, "ccc", 3);
    assert_true(gguf_get_array(g, "numbers", GGUF_INTEGER, &a, NULL));
    assert_int_equal(gguf_array_int(&a, 0), -7);
    assert_true(gguf_array_real(&a, 1) == 7.0);
    assert_true(gguf_get_array(g, "none", GGUF_REAL, &a, NULL) && a.is_there && a.n == 0);
    assert_true(gguf_get_array(g, "absent", GGUF_REAL, &a, NULL) && !a.is_there && a.n == 0);
    gguf_close(g);
    free(b.p);
}

static void tensors_are_found_rows_first(void **state)
{
    (void)state;
    struct gguf_bytes b = make_file();
    struct gguf *g = parse(&b);
    size_t n;
    const struct gguf_tensor *t = gguf_tensors(g, &n), *w = gguf_find(g, "w");
    assert_int_equal(n, 2);
    assert_string_equal(t[0].name, "b");
    assert_int_equal(t[0].n_dims, 1);
    assert_int_equal(t[0].n_bytes, 12);
    assert_int_equal(t[0].data[1], 1);
    assert_non_null(w);
    assert_int_equal(w->dim[0], 2);
    assert_int_equal(w->dim[1], 32);
    assert_string_equal(w->type_name, "Q8_0");
    assert_int_equal(w->n_bytes, 68);
    assert_int_equal(w->data[0], 64);
    assert_null(gguf_find(g, "W"));
    gguf_close(g);
    free(b.p);
}

static void values_of_another_kind_are_refused_by_key(void **state)
{
    (void)state;
    struct gguf_bytes b = make_file();
    struct gguf *g = parse(&b);
    int64_t n;
    double x;
    bool yes;
    struct gguf_string s;
    struct gguf_array a;
    struct engine_error e[7] = {{0}};
    static const char *const want[] = {"x.gguf: key 'word' must be a whole number",
                                       "x.gguf: key 'int0' is 254, 0 to 9 expected",
                                       "x.gguf: key 'word' must be a finite number",
                                       "x.gguf: key 'int0' must be true or false",
                                       "x.gguf: key 'float' must be a string",
                                       "must be an array of whole numbers",
                                       "x.gguf: key 'word' must be an array of strings"};
    assert_false(gguf_get_int(g, "word", 0, 9, 0, &n, &e[0]));
    assert_false(gguf_get_int(g, "int0", 0, 9, 0, &n, &e[1]));
    assert_false(gguf_get_real(g, "word", 0.0, &x, &e[2]));
    assert_false(gguf_get_bool(g, "int0", false, &yes, &e[3]));
    assert_false(gguf_get_string(g, "float", &s, &e[4]));
    assert_false(gguf_get_array(g, "words", GGUF_INTEGER, &a, &e[5]));
    assert_false(gguf_get_array(g, "word", GGUF_STRING, &a, &e[6]));
    for (size_t i = 0; i < 7; i++) {
        assert_non_null(strstr(e[i].text, want[i]));
    }
    gguf_close(g);
    free(b.p);
}

/* ---------------------------------------------------------------- files that lie */

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static long peak_kib(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

/* Refused with one line that holds `text`, soon and without much memory. The bytes are given in a
 * block of exactly their size. */
static void expect_refused(struct gguf_bytes *b, const char *text)
{
    struct gguf *g = NULL;
    struct engine_error err = {0};
    unsigned char *exact = malloc(b->n ? b->n : 1);
    memcpy(exact, b->p, b->n);
    long before = peak_kib();
    double from = now_ms();
    bool ok = gguf_parse(&g, exact, b->n, "x.gguf", &err);
    assert_true(now_ms() - from < 1000.0);
    assert_true(peak_kib() - before < 16 * 1024);
    if (ok || !strstr(err.text, text) || strchr(err.text, '\n') || err.code != ENGINE_BAD_FILE) {
        print_error("got '%s', '%s' expected\n", ok ? "a file" : err.text, text);
        fail();
    }
    free(exact);
    free(b->p);
    *b = (struct gguf_bytes){0};
}

static void counts_that_the_file_cannot_hold_are_refused(void **state)
{
    (void)state;
    static const uint64_t counts[] = {(uint64_t)1 << 60, UINT64_MAX, 70000, 2};
    struct gguf_bytes b = {0};
    for (size_t i = 0; i < 4; i++) {
        gguf_put_head(&b, counts[i], 0);
        expect_refused(&b, "the tensor count is");
        gguf_put_head(&b, 0, counts[i]);
        expect_refused(&b, "the metadata count is");
    }
}

static void lengths_that_the_file_cannot_hold_are_refused(void **state)
{
    (void)state;
    struct gguf_bytes b = {0};
    gguf_put_head(&b, 0, 1);
    gguf_put_int(&b, (uint64_t)1 << 63, 8);
    gguf_put(&b, "abcdefgh", 8);
    expect_refused(&b, "a metadata key has 9223372036854775808 bytes");
    gguf_put_head(&b, 0, 1);
    gguf_put_key(&b, "a", 8);
    gguf_put_int(&b, (uint64_t)1 << 63, 8);
    expect_refused(&b, "the string of a has 9223372036854775808 bytes");
    gguf_put_head(&b, 0, 1);
    gguf_put_key(&b, "a", 9);
    gguf_put_int(&b, 9, 4);
    gguf_put_int(&b, (uint64_t)1 << 62, 8);
    expect_refused(&b, "key 'a' is an array of arrays");
    for (uint32_t type = 0; type < 13; type++) {
        gguf_put_head(&b, 0, 1);
        gguf_put_key(&b, "a", 9);
        gguf_put_int(&b, type, 4);
        gguf_put_int(&b, (uint64_t)1 << 62, 8);
        expect_refused(&b, "key 'a' is an array of");
    }
    gguf_put_head(&b, 0, 1);
    gguf_put_key(&b, "a", 9);
    gguf_put_int(&b, 8, 4);
    gguf_put_int(&b, 2, 8);
    gguf_put_text(&b, "short");
    gguf_put_int(&b, 3, 8);
    expect_refused(&b, "a string of a has 3 bytes, 0 are left");
}

static void keys_and_types_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *text;
        uint32_t type;
    } cases[] = {{"", "a metadata key has 0 bytes", 4},
                 {"a\n", "a metadata key holds a byte that is no printable ASCII", 4},
                 {"\xc3\xb6", "a metadata key holds a byte", 4},
                 {"a", "key 'a' has the unknown type 13", 13},
                 {"a", "key 'a' has the unknown type 4294967295", UINT32_MAX}};
    struct gguf_bytes b = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_put_head(&b, 0, 1);
        gguf_put_key(&b, cases[i].key, cases[i].type);
        gguf_put_int(&b, 0, 8);
        expect_refused(&b, cases[i].text);
    }
    gguf_put_head(&b, 0, 2);
    gguf_put_u32(&b, "twice", 1);
    gguf_put_u32(&b, "twice", 2);
    expect_refused(&b, "key 'twice' is there twice");
    gguf_put_head(&b, 0, 1);
    gguf_put_key(&b, "b", 7);
    gguf_put_int(&b, 2, 1);
    expect_refused(&b, "key 'b' is neither true nor false");
}

static void alignments_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, 3, 48, 1, (uint32_t)1 << 31, 131072};
    struct gguf_bytes b = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gguf_put_head(&b, 0, 1);
        gguf_put_u32(&b, "general.alignment", bad[i]);
        expect_refused(&b, "key 'general.alignment' is");
    }
    gguf_put_head(&b, 0, 1);
    gguf_put_string(&b, "general.alignment", "32");
    expect_refused(&b, "key 'general.alignment' must be a whole number");
}

/* A file of one tensor that is described so. */
static void one_tensor(struct gguf_bytes *b, const char *name, uint32_t n_dims,
                       const uint64_t *dims, uint32_t type, uint64_t offset)
{
    gguf_put_head(b, 1, 0);
    gguf_put_text(b, name);
    gguf_put_int(b, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++) {
        gguf_put_int(b, dims[i], 8);
    }
    gguf_put_int(b, type, 4);
    gguf_put_int(b, offset, 8);
    gguf_pad(b, 32);
    for (int i = 0; i < 64; i++) {
        gguf_put_int(b, 0, 1);
    }
}

static void tensors_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        uint32_t n_dims;
        uint64_t dims[5];
        uint32_t type;
        uint64_t offset;
    } cases[] = {
        {"t", "tensor 't' has n_dims 5, 1 to 4 expected", 5, {1, 1, 1, 1, 1}, 0, 0},
        {"t", "tensor 't' has n_dims 0", 0, {0}, 0, 0},
        {"t", "dimensions whose product is too large", 2, {((uint64_t)1 << 42) + 1, 1 << 22}, 0, 0},
        {"t", "dimensions whose product is too large", 1, {UINT64_MAX}, 0, 0},
        {"t", "dimensions whose product is too large", 1, {(uint64_t)1 << 62}, 0, 0},
        {"t", "has a dimension of 0", 2, {0, 5}, 0, 0},
        {"t", "has offset 128 and 4 bytes, the file has", 1, {1}, 0, 128},
        {"t", "has offset 32 and 64 bytes, the file has", 1, {16}, 0, 32},
        {"t", "has offset 18446744073709551584", 1, {1}, 0, UINT64_MAX - 31},
        {"t", "has offset 4, no multiple of the alignment 32", 1, {1}, 0, 4},
        {"t", "tensor 't' has the unknown type 99", 1, {1}, 99, 0},
        {"t", "tensor 't' has the unknown type 4", 1, {1}, 4, 0},
        {"t", "has rows of 33, which type Q8_0 cannot hold", 1, {33}, 8, 0},
        {"t", "has rows of 128, which type Q4_K cannot hold", 2, {128, 2}, 12, 0},
        {"", "a tensor's name has 0 bytes", 1, {1}, 0, 0},
        {"a\t", "a tensor's name holds a byte", 1, {1}, 0, 0},
    };
    struct gguf_bytes b = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        one_tensor(&b, cases[i].name, cases[i].n_dims, cases[i].dims, cases[i].type,
                   cases[i].offset);
        expect_refused(&b, cases[i].text);
    }
}

static void tensors_that_meet_are_refused(void **state)
{
    (void)state;
    struct gguf_bytes b = {0};
    gguf_put_head(&b, 2, 0);
    gguf_put_tensor(&b, "a", 1, 9, 0, 0);
    gguf_put_tensor(&b, "b", 1, 1, 0, 32);
    gguf_pad(&b, 32);
    gguf_put(&b, (const unsigned char[64]){0}, 64);
    expect_refused(&b, "tensor 'b' overlaps another tensor");
    gguf_put_head(&b, 2, 0);
    gguf_put_tensor(&b, "a", 1, 8, 0, 0);
    gguf_put_tensor(&b, "a", 1, 1, 0, 32);
    gguf_pad(&b, 32);
    gguf_put(&b, (const unsigned char[64]){0}, 64);
    expect_refused(&b, "tensor 'a' is there twice");
}

static void other_versions_are_refused(void **state)
{
    (void)state;
    struct gguf_bytes b = {0};
    gguf_put_head(&b, 0, 0);
    b.p[4] = 1;
    expect_refused(&b, "has version 1, 2 or 3 expected");
    gguf_put_head(&b, 0, 0);
    memcpy(b.p + 4, "\0\0\0\3", 4);
    expect_refused(&b, "(big-endian)");
    gguf_put_head(&b, 0, 0);
    b.p[0] = 'g';
    expect_refused(&b, "does not begin with 'GGUF'");
    struct gguf_bytes two = make_file();
    two.p[4] = 2;
    gguf_close(parse(&two));
    free(two.p);
}

/* ---------------------------------------------------------------- damage */

/* Whatever a damaged file gives, all of it can be read. */
static size_t read_all(const struct gguf *g)
{
    size_t n, sum = 0;
    struct gguf_pair pair;
    const struct gguf_tensor *t = gguf_tensors(g, &n);
    for (size_t i = 0; i < n; i++) {
        for (uint64_t k = 0; k < t[i].n_bytes; k++) {
            sum += t[i].data[k];
        }
    }
    for (size_t i = 0; gguf_pair(g, i, &pair); i++) {
        struct gguf_array a;
        size_t at = 0;
        if (gguf_get_array(g, pair.key, GGUF_STRING, &a, NULL)) {
            for (size_t k = 0; k < a.n; k++) {
                sum += gguf_array_string(&a, &at).len;
            }
        }
        sum += pair.n_bytes;
    }
    return sum;
}

static void try_bytes(const unsigned char *bytes, size_t n)
{
    struct gguf *g = NULL;
    struct engine_error err = {0};
    unsigned char *exact = malloc(n ? n : 1);
    memcpy(exact, bytes, n);
    if (gguf_parse(&g, exact, n, "x.gguf", &err)) {
        assert_true(read_all(g) > 0);
        gguf_close(g);
    } else {
        assert_true(err.text[0] != '\0' && !strchr(err.text, '\n'));
    }
    free(exact);
}

static void a_file_that_is_cut_is_refused_at_every_byte(void **state)
{
    (void)state;
    struct gguf_bytes b = make_file();
    for (size_t n = 0; n < b.n; n++) {
        struct gguf *g = NULL;
        struct engine_error err = {0};
        unsigned char *exact = malloc(n ? n : 1);
        memcpy(exact, b.p, n);
        assert_false(gguf_parse(&g, exact, n, "x.gguf", &err));
        assert_int_equal(err.code, ENGINE_BAD_FILE);
        free(exact);
    }
    free(b.p);
}

static void random_changes_of_a_byte_do_no_harm(void **state)
{
    (void)state;
    struct gguf_bytes b = make_file();
    uint32_t random = 5;
    for (int i = 0; i < 10000; i++) {
        random = random * 1664525u + 1013904223u;
        size_t at = (random >> 8) % b.n;
        unsigned char old = b.p[at];
        b.p[at] = (unsigned char)(random >> 24);
        try_bytes(b.p, b.n);
        b.p[at] = old;
    }
    free(b.p);
}

static void a_path_that_is_no_file_is_refused(void **state)
{
    (void)state;
    struct gguf *g = NULL;
    struct engine_error none = {0}, folder = {0}, small = {0};
    assert_false(gguf_open(&g, "/nonexistent/x.gguf", &none));
    assert_string_equal(none.text, "x.gguf: cannot be read: No such file or directory");
    assert_false(gguf_open(&g, "/tmp", &folder));
    assert_string_equal(folder.text, "tmp: is no regular file");
    char path[] = "/tmp/isotherm-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "GGUF", 4) == 4);
    (void)close(fd);
    assert_false(gguf_open(&g, path, &small));
    assert_non_null(strstr(small.text, ": 4 bytes are no GGUF file"));
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_told),
        cmocka_unit_test(strings_and_arrays_are_told),
        cmocka_unit_test(tensors_are_found_rows_first),
        cmocka_unit_test(values_of_another_kind_are_refused_by_key),
        cmocka_unit_test(counts_that_the_file_cannot_hold_are_refused),
        cmocka_unit_test(lengths_that_the_file_cannot_hold_are_refused),
        cmocka_unit_test(keys_and_types_that_cannot_be_are_refused),
        cmocka_unit_test(alignments_that_cannot_be_are_refused),
        cmocka_unit_test(tensors_that_cannot_be_are_refused),
        cmocka_unit_test(tensors_that_meet_are_refused),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(a_file_that_is_cut_is_refused_at_every_byte),
        cmocka_unit_test(random_changes_of_a_byte_do_no_harm),
        cmocka_unit_test(a_path_that_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
