/* ctl_sample.c - one line in, one line out, so that a test can keep the program running and ask
 * again. */
#include "gateway/ctl/ctl_sample.h"

#include "gateway/ctl/sample_ops.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define LINE_MAX_BYTES (128u << 20) /* a row of the longest possible list of logits, in digits */

static void print_help(FILE *f)
{
    (void)fprintf(
        f, "usage: isothermctl sample < LINES\n"
           "\n"
           "The sampler alone. Each line {\"id\", \"op\", \"in\"} of standard input is answered by "
           "one\n"
           "line {\"id\", \"out\"}. \"-inf\" is a string; refused input gets {\"error\": name}.\n"
           "\n"
           "Operations and what they read from \"in\":\n");
    for (size_t i = 0; sample_ops_name(i); i++) {
        (void)fprintf(f, "  %-24s %s\n", sample_ops_name(i), sample_ops_help(i));
    }
}

/* false: not JSON, and said so. */
static bool answer(const char *text, size_t len, size_t number)
{
    json_error_t at;
    json_t *line = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &at);
    if (!json_is_object(line)) {
        (void)fprintf(stderr, "isothermctl sample: line %zu is no json object: %s\n", number,
                      line ? "write {\"id\",\"op\",\"in\"}" : at.text);
        json_decref(line);
        return false;
    }
    json_t *id = json_object_get(line, "id");
    json_t *out = sample_ops_run(line);
    json_t *reply = out ? json_pack("{s:O?,s:o}", "id", id, "out", out) : NULL;
    if (reply && !id) {
        (void)json_object_set_new(reply, "id", json_null());
    }
    /* Seventeen digits bring every double back. */
    bool is_good = reply && json_dumpf(reply, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17)) == 0;
    is_good = is_good && fputc('\n', stdout) != EOF && fflush(stdout) == 0;
    if (!is_good) {
        (void)fprintf(stderr, "isothermctl sample: cannot write the answer to line %zu: %s\n",
                      number, reply ? "is standard output open?" : "out of memory");
    }
    json_decref(reply);
    json_decref(line);
    return is_good;
}

static bool is_blank(const char *s, size_t len)
{
    return strspn(s, " \t\r\n") == len;
}

int ctl_sample(int argc, char **argv)
{
    if (argc > 1) {
        bool is_help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
        if (!is_help) {
            (void)fprintf(stderr, "isothermctl sample: unknown argument '%s', see --help\n",
                          argv[1]);
        } else {
            print_help(stdout);
        }
        return is_help ? 0 : 2;
    }
    int status = 0;
    char *line = NULL;
    size_t cap = 0, number = 0;
    ssize_t len;
    while ((len = getline(&line, &cap, stdin)) >= 0) {
        number++;
        if ((size_t)len > LINE_MAX_BYTES) {
            (void)fprintf(stderr, "isothermctl sample: line %zu is longer than %u bytes\n", number,
                          LINE_MAX_BYTES);
            status = 1;
        } else if (!is_blank(line, (size_t)len) && !answer(line, (size_t)len, number)) {
            status = 1;
        }
    }
    if (ferror(stdin)) {
        (void)fprintf(stderr, "isothermctl sample: cannot read standard input: %s\n",
                      strerror(errno));
        status = 1;
    }
    free(line);
    return status;
}
