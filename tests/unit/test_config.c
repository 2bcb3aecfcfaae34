/* test_config.c - the shipped example is the defaults; every error case of tests/golden/config has
 * its text; drop-ins; keys from outside. */
#include "gateway/base/config.h"
#include "gateway/base/limits.h"
#include "gateway/base/yaml_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GOLDEN  "tests/golden/config"
#define SHIPPED "config/isotherm.yaml"

static char dir[64]; /* of this run */

static char *slurp(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        fail_msg("%s cannot be read", path);
    }
    char *text = calloc(1, CONFIG_BYTES_MAX);
    assert_non_null(text);
    *len = fread(text, 1, CONFIG_BYTES_MAX - 1, f);
    (void)fclose(f);
    return text;
}

static void spill(const char *name, const char *text, size_t len, char path[128])
{
    (void)snprintf(path, 128, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static struct config *load_ok(const char *path)
{
    struct config *c = NULL;
    struct config_error err = {0};
    if (!config_load(&c, path, &err)) {
        fail_msg("%s", err.text);
    }
    return c;
}

static void load_fails(const char *path, const char *part)
{
    struct config *c = NULL;
    struct config_error err = {0};
    assert_false(config_load(&c, path, &err));
    assert_null(c);
    if (!strstr(err.text, part)) {
        fail_msg("'%s' is not in '%s'", part, err.text);
    }
    assert_false(config_load(&c, path, NULL));
}

static void assert_string(const char *a, const char *b)
{
    if (a && b) {
        assert_string_equal(a, b);
    } else {
        assert_ptr_equal(a, b);
    }
}

static void assert_same(const struct config *a, const struct config *b)
{
    assert_string(a->listen, b->listen);
    assert_string(a->socket, b->socket);
    assert_string(a->log_level, b->log_level);
    assert_string(a->catalog_path, b->catalog_path);
    assert_string(a->catalog_learn, b->catalog_learn);
    assert_int_equal(a->catalog_stale_days, b->catalog_stale_days);
    assert_string(a->records_path, b->records_path);
    assert_string(a->records_on_failure, b->records_on_failure);
    assert_string(a->engine_program, b->engine_program);
    assert_string(a->on_out_of_range, b->on_out_of_range);
    assert_string(a->on_unsupported, b->on_unsupported);
    assert_string(a->on_many, b->on_many);
    assert_string(a->fallback, b->fallback);
    assert_int_equal(a->threads, b->threads);
    assert_int_equal(a->catalog_pin, b->catalog_pin);
    assert_int_equal(a->engine_threads, b->engine_threads);
    assert_int_equal(a->memory_max, b->memory_max);
    assert_string(a->engine_speculation, b->engine_speculation);
    assert_int_equal(a->body_bytes_max, b->body_bytes_max);
    assert_int_equal(a->in_flight_max, b->in_flight_max);
    assert_int_equal(a->connect_ms, b->connect_ms);
    assert_int_equal(a->first_byte_ms, b->first_byte_ms);
    assert_int_equal(a->idle_ms, b->idle_ms);
    assert_int_equal(a->keepalive_ms, b->keepalive_ms);
    assert_int_equal(a->n_providers, b->n_providers);
    assert_int_equal(a->n_aliases, b->n_aliases);
    assert_int_equal(a->n_models, b->n_models);
}

static void test_defaults(void **state)
{
    (void)state;
    struct config *c = load_ok(NULL);
    assert_string_equal(c->listen, "127.0.0.1:4117");
    assert_null(c->socket);
    assert_string_equal(c->log_level, "info");
    assert_null(c->records_path);
    assert_string_equal(c->catalog_learn, "suggest");
    assert_int_equal(c->catalog_stale_days, 180);
    assert_string_equal(c->records_on_failure, "refuse");
    assert_string_equal(c->on_out_of_range, "clamp");
    assert_string_equal(c->on_unsupported, "local");
    assert_string_equal(c->on_many, "calls");
    assert_string_equal(c->fallback, "local");
    assert_int_equal(c->body_bytes_max, LIMIT_BODY_BYTES);
    assert_int_equal(c->in_flight_max, LIMIT_IN_FLIGHT);
    assert_int_equal(c->n_providers + c->n_aliases + c->n_models, 0);
    config_free(c);
    config_free(NULL);
}

static void test_shipped_example(void **state)
{
    (void)state;
    struct config *a = load_ok(NULL), *b = load_ok(SHIPPED);
    assert_same(a, b);
    config_free(a);
    config_free(b);

    struct buf want;
    buf_init(&want, CONFIG_BYTES_MAX);
    assert_true(config_write_default(&want));
    size_t len;
    char *have = slurp(SHIPPED, &len);
    if (len != want.len || memcmp(have, want.p, len) != 0) {
        char path[128];
        spill("isotherm.yaml", want.p, want.len, path);
        free(have);
        fail_msg("%s is not what config.c prints, copy %s there", SHIPPED, path);
    }
    free(have);
    buf_release(&want);

    /* A buffer that is too small is told. */
    buf_init(&want, 100);
    assert_false(config_write_default(&want));
    buf_release(&want);
}

/* What a running daemon can take over, and that a reference outlives the one who gave it. */
static void test_reload(void **state)
{
    (void)state;
    char a[128], b[128];
    static const char *const cases[][3] = {
        {"log_level: info\n", "log_level: debug\n", NULL},
        {"on_out_of_range: clamp\nconnect_ms: 5\n", "fallback: openai/x\n", NULL},
        {"aliases: [{name: a, target: local}]\n", "providers: [{name: p}]\n", NULL},
        {"listen: 127.0.0.1:1\n", "listen: 127.0.0.1:2\n", "listen"},
        {"socket: null\n", "socket: /x\n", "socket"},
        {"threads: 1\n", "threads: 2\n", "threads"},
        {"catalog_pin: 1\n", "catalog_pin: 2\n", NULL},
        {"catalog_learn: off\n", "catalog_learn: apply\ncatalog_stale_days: 7\n", NULL},
        {"catalog_path: /a\n", "catalog_path: /b\n", "catalog_path"},
        {"records_path: /a\n", "records_path: /b\n", "records_path"},
        {"models: [{name: a, path: /a}]\n", "models: [{name: a, path: /b}]\n", "models"},
        {"models: [{name: a, path: /a}]\n", "models: []\n", "models"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spill("from.yaml", cases[i][0], strlen(cases[i][0]), a);
        spill("to.yaml", cases[i][1], strlen(cases[i][1]), b);
        struct config *from = load_ok(a), *to = load_ok(b);
        const char *key = config_needs_restart(from, to);
        assert_true(key ? cases[i][2] && strcmp(key, cases[i][2]) == 0 : !cases[i][2]);
        assert_null(config_needs_restart(to, to));
        const struct config *kept = config_ref(from);
        config_free(from);
        assert_non_null(kept->listen);
        config_free(kept);
        config_free(to);
    }
}

/* The lists in the comments of the example are valid too: the indented comment lines before
 * `providers: []` and the like. */
static void test_shipped_comments(void **state)
{
    (void)state;
    size_t len;
    char *text = slurp(SHIPPED, &len), path[128];
    struct buf out;
    buf_init(&out, CONFIG_BYTES_MAX);
    char *rest = text, *line;
    struct buf list;
    buf_init(&list, CONFIG_BYTES_MAX);
    while ((line = strsep(&rest, "\n"))) {
        if (strncmp(line, "#   ", 4) == 0) {
            assert_true(buf_printf(&list, "%s\n", line + 2));
        } else if (list.len && strstr(line, ": []")) {
            strstr(line, ": []")[1] = '\0';
            assert_true(buf_printf(&out, "%s\n%s", line, list.p));
            buf_clear(&list);
        }
    }
    spill("comments.yaml", out.p, out.len, path);
    struct config *c = load_ok(path);
    assert_int_equal(c->n_providers, 1);
    assert_string_equal(c->providers[0].api_key, "OPENAI_API_KEY");
    assert_int_equal(c->providers[0].n_models, 1);
    assert_memory_equal(&c->providers[0].calls, config_calls_of(c, "nobody"),
                        sizeof c->providers[0].calls);
    assert_int_equal(c->n_aliases, 2);
    assert_int_equal(c->aliases[1].n_targets, 3);
    assert_int_equal(c->n_models, 1);
    config_free(c);
    buf_release(&out);
    buf_release(&list);
    free(text);
}

static int not_hidden(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

/* Each case: in.yaml -> the error's text without its folder, or "ok". GOLDEN_UPDATE=1 rewrites
 * want.txt. */
static void golden_case(const char *name)
{
    char path[400], want_path[400], have[600];
    (void)snprintf(path, sizeof path, GOLDEN "/%s/in.yaml", name);
    (void)snprintf(want_path, sizeof want_path, GOLDEN "/%s/want.txt", name);
    struct config *c = NULL;
    struct config_error err = {0};
    if (config_load(&c, path, &err)) {
        (void)snprintf(have, sizeof have, "ok\n");
    } else {
        size_t skip = strlen(GOLDEN) + strlen(name) + 2;
        assert_true(strlen(err.text) > skip);
        (void)snprintf(have, sizeof have, "%s\n", err.text + skip);
    }
    config_free(c);
    if (getenv("GOLDEN_UPDATE")) {
        FILE *f = fopen(want_path, "w");
        assert_non_null(f);
        (void)fputs(have, f);
        (void)fclose(f);
    }
    size_t len;
    char *want = slurp(want_path, &len);
    if (strcmp(have, want) != 0) {
        fail_msg("%s:\n  have %s  want %s", path, have, want);
    }
    free(want);
}

static void test_golden(void **state)
{
    (void)state;
    struct dirent **list = NULL;
    int n = scandir(GOLDEN, &list, not_hidden, alphasort);
    assert_true(n > 50);
    for (int i = 0; i < n; i++) {
        golden_case(list[i]->d_name);
        free(list[i]);
    }
    free(list);
}

static void test_dropins(void **state)
{
    (void)state;
    struct config *c = load_ok(GOLDEN "/dropin-good/in.yaml");
    assert_int_equal(c->threads, 3);            /* the last file wins */
    assert_string_equal(c->log_level, "debug"); /* only the first file has it */
    assert_null(c->socket);                     /* null over a value */
    assert_int_equal(c->n_providers, 1);        /* lists whole */
    assert_string_equal(c->providers[0].name, "c");
    assert_string_equal(c->providers[0].catalog, "c");
    assert_string_equal(c->providers[0].base_url, "http://127.0.0.1:9/v1");
    assert_int_equal(c->providers[0].n_models, 2);
    assert_string_equal(c->providers[0].models[1], "org/m2");
    config_free(c);
}

static void test_odd_files(void **state)
{
    (void)state;
    char path[128];
    load_fails("/nowhere/isotherm.yaml", "/nowhere/isotherm.yaml: cannot be read: No such file");
    load_fails("tests", "tests: cannot be read: not a regular file");
    (void)snprintf(path, sizeof path, "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    load_fails(path, "not a regular file");

    size_t n = CONFIG_BYTES_MAX + 1;
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, '#', n);
    spill("large.yaml", text, n, path);
    load_fails(path, "larger than");
    spill("large.yaml", text, n - 1, path);
    config_free(load_ok(path)); /* exactly the limit */
    free(text);
}

/* A file of the largest number of keys must not take long, and one more is refused. */
static void test_many_entries(void **state)
{
    (void)state;
    struct buf b;
    char path[128];
    buf_init(&b, CONFIG_BYTES_MAX);
    assert_true(buf_puts(&b, "providers:\n"));
    for (int i = 0; i < 8; i++) {
        assert_true(buf_printf(&b, "  - name: p%d\n    models:\n", i));
        for (int j = 0; j < 1024; j++) {
            assert_true(buf_printf(&b, "      - m%d\n", j));
        }
    }
    spill("many.yaml", b.p, b.len, path);
    load_fails(path, "more than 8192 keys and entries");
    buf_release(&b);
}

static void test_addresses(void **state)
{
    (void)state;
    static const char *const good[] = {"", "0.0.0.0:0", "127.0.0.1:65535", "[::1]:4117", "[::]:0"};
    static const char *const bad[] = {":4117",      "127.0.0.1:",  "[]:1",         "[::1]",
                                      "127.1:4117", "1.2.3.4:5:6", "127.0.0.1:+1", "127.0.0.1: 1"};
    char path[128], text[128];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int n = snprintf(text, sizeof text, "listen: \"%s\"\n", good[i]);
        spill("listen.yaml", text, (size_t)n, path);
        struct config *c = load_ok(path);
        assert_string_equal(c->listen, good[i]);
        config_free(c);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int n = snprintf(text, sizeof text, "\nlisten: \"%s\"\n", bad[i]);
        spill("listen.yaml", text, (size_t)n, path);
        load_fails(path, "listen.yaml:2: listen: '");
    }
}

static void test_lines(void **state)
{
    (void)state;
    static const char text[] = "a: 1\nb:\n  - x: 1\n    y:\n      - p\n      - q\n  - {x: 2,\n     "
                               "y: [r]}\nc: |\n  text\n  more\nd: e\n";
    struct yaml_lines *l = NULL;
    struct yaml_lines_error err = {0};
    assert_true(yaml_lines_parse(&l, text, sizeof text - 1, &err));
    assert_int_equal(yaml_lines_find(l, "a"), 1);
    assert_int_equal(yaml_lines_find(l, "b[0].y[1]"), 6);
    assert_int_equal(yaml_lines_find(l, "b[1].y"), 8);
    assert_int_equal(yaml_lines_find(l, "b[1].z"), 7); /* not there: that of the entry */
    assert_int_equal(yaml_lines_find(l, "d"), 12);
    assert_int_equal(yaml_lines_find(l, "e"), 0);
    assert_string_equal(yaml_lines_scalar(l, "b[0].y[0]"), "p");
    assert_string_equal(yaml_lines_scalar(l, "c"), "text\nmore\n");
    assert_null(yaml_lines_scalar(l, "b"));
    assert_true(yaml_lines_has(l, "b[1].y[0]"));
    assert_false(yaml_lines_has(l, "b[1].y[1]"));
    yaml_lines_free(l);
    yaml_lines_free(NULL);
}

static void test_key(void **state)
{
    (void)state;
    char out[CONFIG_KEY_BYTES_MAX + 1], path[128], text[CONFIG_KEY_BYTES_MAX + 3];
    assert_int_equal(setenv("ISOTHERM_TEST_KEY", "from-env", 1), 0);
    assert_true(config_key("ISOTHERM_TEST_KEY", out, sizeof out));
    assert_string_equal(out, "from-env");
    assert_false(config_key("ISOTHERM_TEST_KEY", out, 8)); /* no room for the NUL: not cut */
    assert_false(config_key("", out, sizeof out));
    assert_false(config_key(NULL, out, sizeof out));
    assert_int_equal(unsetenv("ISOTHERM_TEST_KEY"), 0);
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
    assert_false(config_key("ISOTHERM_TEST_KEY", out, sizeof out));

    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", dir, 1), 0);
    spill("ISOTHERM_TEST_KEY", "from-file\n", 10, path);
    assert_true(config_key("ISOTHERM_TEST_KEY", out, sizeof out));
    assert_string_equal(out, "from-file");
    assert_false(config_key("../../etc/hostname", out, sizeof out));
    assert_false(config_key("..", out, sizeof out));
    assert_false(config_key("fifo", out, sizeof out));

    memset(text, 'k', sizeof text);
    text[CONFIG_KEY_BYTES_MAX] = '\n';
    spill("long-key", text, CONFIG_KEY_BYTES_MAX + 1, path);
    assert_true(config_key("long-key", out, sizeof out));
    assert_int_equal(strlen(out), CONFIG_KEY_BYTES_MAX);
    text[CONFIG_KEY_BYTES_MAX] = 'k';
    spill("long-key", text, CONFIG_KEY_BYTES_MAX + 1, path);
    assert_false(config_key("long-key", out, sizeof out));
    spill("empty-key", "\n", 1, path);
    assert_false(config_key("empty-key", out, sizeof out));
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
}

/* A key of its own file: what is in it now, unless others could have put it there or read it. */
static void test_key_file(void **state)
{
    (void)state;
    char out[CONFIG_KEY_BYTES_MAX + 1] = "untouched", path[128], text[CONFIG_KEY_BYTES_MAX + 2];
    spill("key-file", "one\n", 4, path);
    static const struct {
        mode_t mode;
        bool is_good;
    } modes[] = {{0604, false}, {0602, false}, {0666, false}, {0640, true}, {0600, true}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(path, modes[i].mode), 0);
        const char *why = config_key_file(path, out, sizeof out);
        assert_int_equal(why == NULL, modes[i].is_good);
        assert_string_equal(out, modes[i].is_good ? "one" : "untouched");
    }
    spill("key-file", "two", 3, path);
    assert_null(config_key_file(path, out, sizeof out));
    assert_string_equal(out, "two");
    assert_string_equal(config_key_file(path, out, 3), "it is longer than 4096 bytes");
    static const char *const bad[] = {"", "\n", "a\nb\n", "a\n\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        spill("key-file", bad[i], strlen(bad[i]), path);
        assert_non_null(config_key_file(path, out, sizeof out));
    }
    memset(text, 'k', sizeof text);
    text[CONFIG_KEY_BYTES_MAX] = '\n';
    spill("key-file", text, CONFIG_KEY_BYTES_MAX + 1, path);
    assert_null(config_key_file(path, out, sizeof out));
    assert_int_equal(strlen(out), CONFIG_KEY_BYTES_MAX);
    text[CONFIG_KEY_BYTES_MAX] = 'k';
    spill("key-file", text, CONFIG_KEY_BYTES_MAX + 2, path);
    assert_non_null(config_key_file(path, out, sizeof out));
    assert_int_equal(remove(path), 0);
    assert_string_equal(config_key_file(path, out, sizeof out), "No such file or directory");
    assert_string_equal(config_key_file(dir, out, sizeof out), "not a regular file");
}

/* How calls are made: what an entry says, and the defaults for what it leaves out and for a
 * provider that has no entry; also in a drop-in. */
static void test_calls(void **state)
{
    (void)state;
    char path[128];
    static const char text[] = "providers:\n"
                               "  - {name: a, retries: 0, retry_sent: true, breaker_ms: 7}\n"
                               "  - {name: b, in_flight_max: 3, http2: true, queue_ms: 0}\n"
                               "aliases:\n"
                               "  - {name: one, target: a/x}\n"
                               "  - {name: two, targets: [a/x, b/y]}\n";
    spill("calls.yaml", text, strlen(text), path);
    struct config *c = load_ok(path);
    const struct config_calls *a = config_calls_of(c, "a"), *b = config_calls_of(c, "b"),
                              *none = config_calls_of(c, "c");
    assert_true(a->retries == 0 && a->retry_sent && a->breaker_ms == 7);
    assert_true(a->retry_wait_max_ms == 5000 && a->in_flight_max == 0 && a->queue_ms == 10000);
    assert_true(a->breaker_failures == 5 && !a->http2);
    assert_true(b->retries == 2 && !b->retry_sent && b->in_flight_max == 3 && b->http2);
    assert_true(b->queue_ms == 0 && b->breaker_ms == 10000);
    assert_true(none->retries == 2 && !none->retry_sent && none->breaker_failures == 5);
    assert_int_equal(c->aliases[0].n_targets, 1);
    assert_string_equal(c->aliases[0].targets[0], "a/x");
    assert_int_equal(c->aliases[1].n_targets, 2);
    assert_string_equal(c->aliases[1].targets[1], "b/y");
    config_free(c);
}

static void test_records_path(void **state)
{
    (void)state;
    char out[64];
    struct config c = {.records_path = (char[]){"/data/r.db"}};
    assert_int_equal(setenv("HOME", "/home/u", 1), 0);
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
    assert_int_equal(unsetenv("STATE_DIRECTORY"), 0);
    assert_true(config_records_path(NULL, out, sizeof out));
    assert_string_equal(out, "/home/u/.local/state/isotherm/records.db");
    assert_int_equal(setenv("XDG_STATE_HOME", "/s", 1), 0);
    assert_true(config_records_path(NULL, out, sizeof out));
    assert_string_equal(out, "/s/isotherm/records.db");
    assert_int_equal(setenv("STATE_DIRECTORY", "/var/lib/isotherm:/var/lib/other", 1), 0);
    assert_true(config_records_path(NULL, out, sizeof out));
    assert_string_equal(out, "/var/lib/isotherm/records.db");
    assert_true(config_records_path(&c, out, sizeof out));
    assert_string_equal(out, "/data/r.db");
    assert_false(config_records_path(&c, out, 10));
    assert_false(config_records_path(NULL, out, 10));
}

int main(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/test_config.XXXXXX");
    if (!mkdtemp(dir)) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),  cmocka_unit_test(test_shipped_example),
        cmocka_unit_test(test_reload),    cmocka_unit_test(test_shipped_comments),
        cmocka_unit_test(test_golden),    cmocka_unit_test(test_dropins),
        cmocka_unit_test(test_odd_files), cmocka_unit_test(test_many_entries),
        cmocka_unit_test(test_addresses), cmocka_unit_test(test_lines),
        cmocka_unit_test(test_key),       cmocka_unit_test(test_key_file),
        cmocka_unit_test(test_calls),     cmocka_unit_test(test_records_path),
    };
    int rc = cmocka_run_group_tests_name("config", tests, NULL, NULL);
    if (rc == 0) { /* kept for a look when something is wrong */
        char cmd[128];
        (void)snprintf(cmd, sizeof cmd, "rm -r %s", dir);
        rc = system(cmd) != 0;
    }
    return rc;
}
