/* Lines are read back from a pipe in place of stderr. */
#include "gateway/base/log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int saved_stderr, pipe_out;

static int setup(void **state)
{
    (void)state;
    int fds[2];
    if (pipe2(fds, O_NONBLOCK) != 0) {
        return -1;
    }
    saved_stderr = dup(STDERR_FILENO);
    (void)dup2(fds[1], STDERR_FILENO);
    (void)close(fds[1]);
    pipe_out = fds[0];
    log_init(LOG_INFO);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)dup2(saved_stderr, STDERR_FILENO);
    (void)close(saved_stderr);
    (void)close(pipe_out);
    return 0;
}

static const char *written(void)
{
    static char line[8192];
    ssize_t n = read(pipe_out, line, sizeof line - 1);
    line[n > 0 ? n : 0] = '\0';
    return line;
}

static void test_line(void **state)
{
    (void)state;
    log_write(LOG_INFO, "listening", "address", "127.0.0.1:4117", "n", "2", NULL);
    assert_string_equal(written(), "<6>event=listening address=127.0.0.1:4117 n=2\n");
    log_write(LOG_ERROR, "stopped", NULL);
    assert_string_equal(written(), "<3>event=stopped\n");
}

static void test_values(void **state)
{
    (void)state;
    log_write(LOG_WARNING, "x", "a", "two words", "b", "", "c", NULL, NULL);
    assert_string_equal(written(), "<4>event=x a=\"two words\" b=\"\" c=\"\"\n");
    log_write(LOG_WARNING, "x", "a", "q\"b\\", "b", "\n<0>forged=1\x1b[31m", "c", "na\xc3\xafve",
              NULL);
    assert_string_equal(
        written(), "<4>event=x a=\"q\\\"b\\\\\" b=\"\\n<0>forged=1\\x1b[31m\" c=na\xc3\xafve\n");
}

static void test_levels(void **state)
{
    (void)state;
    log_write(LOG_DEBUG, "x", NULL);
    assert_string_equal(written(), "");
    log_init(LOG_DEBUG);
    log_write(LOG_DEBUG, "x", NULL);
    assert_string_equal(written(), "<7>event=x\n");
    log_init(LOG_ERROR);
    log_write(LOG_WARNING, "x", NULL);
    assert_string_equal(written(), "");
}

static void test_long(void **state)
{
    (void)state;
    char value[6000];
    memset(value, 'v', sizeof value);
    value[sizeof value - 1] = '\0';
    log_write(LOG_INFO, "x", "before", "1", "long", value, "after", "2", NULL);
    assert_string_equal(written(), "<6>event=x before=1 long= cut=1\n");
    value[3000] = '\n';
    log_write(LOG_INFO, "x", "long", value, NULL);
    const char *line = written();
    assert_true(strlen(line) <= 4096);
    assert_string_equal(line + strlen(line) - 7, " cut=1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_line, setup, teardown),
        cmocka_unit_test_setup_teardown(test_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_levels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long, setup, teardown),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
