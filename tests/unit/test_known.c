/* test_known.c - hashes of weights that are kept: by the daemon for the engine. */
#include "gateway/io/known_file.h"
#include "local-engine/engine.h"
#include "local-engine/known.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL "tests/vectors/stories260k/"

static char dir[] = "/tmp/isotherm-known-XXXXXX", path[64], model[64];

static void name_of(char out[65], int i)
{
    (void)snprintf(out, 65, "%064x", (unsigned)i);
}

static void test_kept_and_found(void **state)
{
    (void)state;
    char id[65], other[65], hash[65];
    name_of(id, 1);
    name_of(other, 2);
    assert_false(known_find(path, id, hash)); /* no file */
    known_file_add(path, id, other);
    assert_true(known_find(path, id, hash));
    assert_string_equal(hash, other);
    assert_false(known_find(path, other, hash));
    known_file_add(path, id, id); /* another hash of the same: the last word counts */
    assert_true(known_find(path, id, hash));
    assert_string_equal(hash, id);
}

static void test_nonsense_is_not_kept(void **state)
{
    (void)state;
    char id[65], hash[65];
    name_of(id, 7);
    known_file_add(path, id, "");
    known_file_add(path, "", id);
    known_file_add(path, id, "not a hash");
    assert_int_equal(access(path, F_OK), -1);
    FILE *f = fopen(path, "we");
    (void)fprintf(f, "rubbish\n%s short\n\n%s %s\n", id, id, id);
    assert_int_equal(fclose(f), 0);
    assert_true(known_find(path, id, hash));
    known_file_add("tests/no-such-folder/file", id, id); /* costs a line in the log */
}

static void test_the_oldest_goes(void **state)
{
    (void)state;
    char id[65], hash[65];
    for (int i = 0; i < KNOWN_LINES_MAX + 10; i++) {
        name_of(id, i);
        known_file_add(path, id, id);
    }
    name_of(id, 9);
    assert_false(known_find(path, id, hash));
    name_of(id, 10);
    assert_true(known_find(path, id, hash));
}

static void copy(const char *name)
{
    static char bytes[2 << 20];
    char from[200], to[200];
    (void)snprintf(from, sizeof from, MODEL "%s", name);
    (void)snprintf(to, sizeof to, "%s/%s", model, name);
    FILE *in = fopen(from, "re"), *out = fopen(to, "we");
    assert_true(in && out);
    size_t n = fread(bytes, 1, sizeof bytes, in);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
    (void)fclose(in); /* it was only read */
}

static bool has_fingerprint(const char *part)
{
    struct engine_options o = {.n_threads = 1, .known = path};
    struct engine *e;
    assert_true(engine_map(&e, model, &o, NULL));
    bool has = strstr(engine_fingerprint(e), part) != NULL;
    engine_close(e);
    return has;
}

/* A hash that is known is believed, until somebody writes to the file. */
static void test_engine(void **state)
{
    (void)state;
    static const char *const files[] = {"config.json", "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json", "model.safetensors"};
    char id[65], false_hash[65];
    const char *hash;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        copy(files[i]);
    }
    struct engine *e;
    assert_true(engine_map(&e, model, NULL, NULL));
    engine_weights_hash(e, id, &hash);
    assert_int_equal(strlen(hash), 64);
    engine_close(e);
    (void)memset(false_hash, 'a', 64);
    false_hash[64] = '\0';
    assert_false(has_fingerprint("weights:aaaaaaaaaaaaaaaa"));
    known_file_add(path, id, false_hash);
    assert_true(has_fingerprint("weights:aaaaaaaaaaaaaaaa"));
    copy("model.safetensors");
    assert_false(has_fingerprint("weights:aaaaaaaaaaaaaaaa"));
}

static int setup(void **state)
{
    (void)state;
    if (unlink(path) != 0 && access(path, F_OK) == 0) {
        return -1;
    }
    return 0;
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(dir)) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/known", dir);
    (void)snprintf(model, sizeof model, "%s", dir);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[80];
    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_kept_and_found, setup),
        cmocka_unit_test_setup(test_nonsense_is_not_kept, setup),
        cmocka_unit_test_setup(test_the_oldest_goes, setup),
        cmocka_unit_test_setup(test_engine, setup),
    };
    return cmocka_run_group_tests_name("known", tests, make_folder, remove_folder);
}
