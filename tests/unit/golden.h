/* golden.h - for the tests that are data: tests/golden/<stage>/<dialect>/<case>/. Included by their
 * runners only.
 *
 * With GOLDEN_UPDATE=1 in the environment the wanted files are written anew instead of compared:
 * read the diff like code. GOLDEN_DIALECT=x takes the cases of that dialect alone.
 */
#ifndef ISOTHERM_TEST_GOLDEN_H
#define ISOTHERM_TEST_GOLDEN_H

#include <dirent.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* New reference; NULL: there is no such file. */
static inline json_t *golden_load(const char *folder, const char *file)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    if (access(path, R_OK) != 0) {
        return NULL;
    }
    json_error_t e;
    json_t *v = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!v) {
        fail_msg("%s:%d: %s", path, e.line, e.text);
    }
    return v;
}

/* The bytes of a file (free them); NULL: there is none. */
static inline char *golden_bytes(const char *folder, const char *file, size_t *len)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *in = fopen(path, "rb");
    if (!in) {
        return NULL;
    }
    char *p = malloc(1 << 20);
    assert_non_null(p);
    *len = fread(p, 1, 1 << 20, in);
    fclose(in);
    return p;
}

/* Compares `got` with want.json of the folder, or writes it. */
static inline void golden_check(const char *folder, const json_t *got)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/want.json", folder);
    if (getenv("GOLDEN_UPDATE")) {
        assert_int_equal(json_dump_file(got, path, JSON_INDENT(2) | JSON_REAL_PRECISION(15)), 0);
        return;
    }
    json_t *want = golden_load(folder, "want.json");
    if (!want || !json_equal(want, (json_t *)got)) {
        char *a = want ? json_dumps(want, JSON_INDENT(1)) : strdup("nothing");
        char *b = json_dumps(got, JSON_INDENT(1));
        print_error("%s\nwanted %s\ngot %s\n", folder, a, b);
        free(a);
        free(b);
        fail();
    }
    json_decref(want);
}

static inline int golden_not_hidden(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

/* Calls fn(folder, dialect, case) for each case of a stage; returns their number. */
static inline unsigned golden_each(const char *stage,
                                   void (*fn)(const char *folder, const char *dialect,
                                              const char *name))
{
    struct dirent **dialects, **cases;
    char path[512], folder[1024];
    unsigned n = 0;
    (void)snprintf(path, sizeof path, "tests/golden/%s", stage);
    int n_dialects = scandir(path, &dialects, golden_not_hidden, alphasort);
    assert_true(n_dialects > 0);
    for (int i = 0; i < n_dialects; i++) {
        (void)snprintf(path, sizeof path, "tests/golden/%s/%s", stage, dialects[i]->d_name);
        const char *only = getenv("GOLDEN_DIALECT");
        if (only && strcmp(only, dialects[i]->d_name) != 0) {
            free(dialects[i]);
            continue;
        }
        int n_cases = scandir(path, &cases, golden_not_hidden, alphasort);
        for (int k = 0; k < n_cases; k++) {
            (void)snprintf(folder, sizeof folder, "%s/%s", path, cases[k]->d_name);
            fn(folder, dialects[i]->d_name, cases[k]->d_name);
            free(cases[k]);
            n++;
        }
        free(cases);
        free(dialects[i]);
    }
    free(dialects);
    return n;
}

#endif
