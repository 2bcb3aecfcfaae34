/* test_ctl_fingerprints.c - times as --since takes them, and what list and show print of a small
 * database. */
#include "gateway/ctl/ctl_fingerprints.h"
#include "gateway/io/records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64]; /* of this run */
static char path[128];

static void test_since(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t s;
    } good[] = {
        {"1970-01-01", 0},
        {"2026-11-30", 1795996800},
        {"2026-11-30Z", 1795996800},
        {"2026-11-30T09:30", 1796031000},
        {"2026-11-30T09:30:15Z", 1796031015},
        {"2024-02-29", 1709164800},
        {"0s", 1000000},
        {"90s", 999910},
        {"2m", 999880},
        {"1h", 996400},
        {"3d", 740800},
        {"1w", 395200},
    };
    static const char *const bad[] = {
        "",  "yesterday", "2026-02-30", "2026-13-01", "2026-11-30T25:00", "2026-11-30 09:30", "2",
        "h", "2y",        "-2h",        "2h30m",      "99999999999d"};
    int64_t us;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        us = -1;
        assert_true(ctl_fingerprints_since(good[i].text, 1000000000000, &us));
        assert_int_equal(us, good[i].s * 1000000);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (ctl_fingerprints_since(bad[i], 0, &us)) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
}

static void store(struct records *r, int i, const char *asked, const char *model)
{
    struct fingerprint f;
    fingerprint_init(&f);
    (void)snprintf(f.request_id, sizeof f.request_id, "req_%032d", i);
    (void)snprintf(f.requested_model, sizeof f.requested_model, "%s", asked);
    (void)snprintf(f.model, sizeof f.model, "%s", model);
    f.started_us = (1796031000 + i) * INT64_C(1000000);
    f.ended_us = f.started_us + 1500000;
    f.status = 200;
    f.asked = json_pack("{s:f,s:i}", "temperature", 1.7, "max_tokens", 9);
    f.sent = json_pack("{s:i,s:i}", "temperature", 1, "max_tokens", 9);
    f.adjustments =
        i == 1 ? json_array()
               : json_pack("[{s:s,s:f,s:i,s:s,s:s,s:i}]", "param", "temperature", "asked", 1.7,
                           "sent", 1, "action", "clamped", "reason", "above_max", "claim", 12);
    f.fallback = i == 3 ? json_pack("{s:s,s:[s]}", "from", asked, "because", "seed") : NULL;
    f.attempts =
        json_pack("[{s:s,s:s,s:n,s:I,s:I,s:i,s:s},{s:s,s:s,s:i,s:I,s:I,s:i,s:n}]", "backend", "p",
                  "model", "p/one", "status", "started_us", f.started_us, "ended_us",
                  f.started_us + 12590, "waited_us", 36, "error", "upstream_unreachable", "backend",
                  "q", "model", "q/two", "status", 200, "started_us", f.started_us + 20000,
                  "ended_us", f.ended_us, "waited_us", 2000000, "error");
    assert_true(records_append(r, &f, NULL, NULL, NULL));
}

/* Runs the verb with the given words after it; the words end with NULL. What it printed on standard
 * output is yours. */
static char *run(int want_status, ...)
{
    char name[] = "fingerprints", out[128];
    char *argv[16] = {name};
    int argc = 1;
    va_list ap;
    va_start(ap, want_status);
    while ((argv[argc] = va_arg(ap, char *))) {
        argc++;
    }
    va_end(ap);
    (void)snprintf(out, sizeof out, "%s/out", dir);
    (void)fflush(stdout);
    int saved = dup(1), saved_err = dup(2), fd = open(out, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(saved >= 0 && saved_err >= 0 && fd >= 0 && dup2(fd, 1) == 1 && dup2(fd, 2) == 2);
    int status = ctl_fingerprints(argc, argv);
    (void)fflush(stdout);
    (void)dup2(saved, 1);
    (void)dup2(saved_err, 2);
    (void)close(saved);
    (void)close(saved_err);
    char *text = calloc(1, 65536);
    assert_non_null(text);
    assert_true(pread(fd, text, 65535, 0) >= 0);
    (void)close(fd);
    if (status != want_status) {
        fail_msg("status %d: %s", status, text);
    }
    return text;
}

static void has(char *text, const char *part)
{
    if (!strstr(text, part)) {
        fail_msg("'%s' is not in:\n%s", part, text);
    }
}

static void test_list(void **state)
{
    (void)state;
    char *text = run(0, "list", "--records", path, NULL);
    has(text, "TIME                 ID  ");
    has(text, "2026-11-30T09:30:01Z req_00000000000000000000000000000001 200 ok        -           "
              "         p/one\n");
    has(text,
        "Z req_00000000000000000000000000000002 200 ok        -                    p/a?[31m?b\n"
        "    asked fast -> p/a?[31m?b; temperature 1.7->1 clamped\n");
    has(text, "local\n    fallback from p/one because of seed; temperature 1.7->1 clamped\n");
    has(text, "aaaaaa..\n");
    char *line = text, *end;
    for (; (end = strchr(line, '\n')); line = end + 1) {
        assert_true(end - line <= 120);
    }
    free(text);
    text = run(0, "--records", path, "list", "--json", "--limit=1", NULL);
    has(text, "{\"request_id\":\"req_00000000000000000000000000000004\"");
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    free(text);
    text = run(0, "list", "--records", path, "--model", "p/one", "--since", "2026-11-30T09:30:02",
               NULL);
    has(text, "00003 200");
    assert_null(strstr(text, "00001 200"));
    free(text);
}

static void test_show(void **state)
{
    (void)state;
    char id[] = "req_00000000000000000000000000000003";
    char *text = run(0, "show", id, "--records", path, NULL);
    has(text,
        "attempt                  p/one - upstream_unreachable, took 12.5 ms, waited 0.0 ms\n");
    has(text, "attempt                  q/two 200 ok, took 1480.0 ms, waited 2000.0 ms\n");
    has(text, "started                  2026-11-30T09:30:03.000000Z\nended                    "
              "2026-11-30T09:30:04.500000Z\n");
    has(text, "parameters\n  temperature asked      1.7\n  temperature sent       1\n  max_tokens  "
              "           9\n");
    has(text, "  temperature 1.7->1 clamped (above_max, claim 12)\n");
    free(text);
    text = run(0, "show", id, "--records", path, "--json", NULL);
    has(text, "\"asked\":{\"temperature\":1.7,\"max_tokens\":9},\"sent\":{\"temperature\":1,\"max_"
              "tokens\":9}");
    free(text);
}

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        int status;
        char *word[4];
        const char *text;
    } c[] = {
        {2, {NULL}, "the verbs are"},
        {2, {"list", "x"}, "the verbs are"},
        {2, {"show"}, "the verbs are"},
        {2, {"list", "--since", "soon"}, "--since takes"},
        {2, {"list", "--limit", "0"}, "--limit takes"},
        {2, {"list", "--limit"}, "needs a value"},
        {1, {"show", "req_1"}, "no record of request 'req_1'"},
        {1, {"list", "--records", "/nowhere/r.db"}, "no such file"},
        {1, {"list", "--config", "/nowhere/c.yaml"}, "cannot be read"},
        {0, {"--help"}, "usage: isothermctl fingerprints list"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        char *text = run(c[i].status, c[i].word[0], c[i].word[1], c[i].word[2], NULL);
        has(text, c[i].text);
        free(text);
    }
}

int main(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/test_ctl_fp.XXXXXX");
    if (!mkdtemp(dir) || setenv("STATE_DIRECTORY", dir, 1) != 0) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/records.db", dir);
    struct records *r = NULL;
    if (!records_open(&r, path, NULL)) {
        return 1;
    }
    char longest[200];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    store(r, 1, "p/one", "p/one");
    store(r, 2, "fast", "p/a\x1b[31m\nb");
    store(r, 3, "p/one", "local");
    store(r, 4, longest, longest);
    records_close(r);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_since),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_show),
        cmocka_unit_test(test_errors),
    };
    int rc = cmocka_run_group_tests_name("ctl_fingerprints", tests, NULL, NULL);
    if (rc == 0) { /* kept for a look when something is wrong */
        char cmd[128];
        (void)snprintf(cmd, sizeof cmd, "rm -r %s", dir);
        rc = system(cmd) != 0;
    }
    return rc;
}
