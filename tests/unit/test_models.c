/* test_models.c - which model is loaded, which one goes, and who waits. */
#include "local-engine/models.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODEL "tests/vectors/stories260k"

static struct models *table;
static struct served *a, *b, *c;
static char news[1024]; /* "a loading, a loaded, " */

static void on_change(struct served *m, void *ud)
{
    (void)ud;
    size_t n = strlen(news);
    (void)snprintf(news + n, sizeof news - n, "%s %s, ", m->name, models_state_name(m->state));
}

static void expect_news(const char *wanted)
{
    assert_string_equal(news, wanted);
    news[0] = '\0';
}

/* Until nothing more changes. */
static void turn(void)
{
    for (;;) {
        while (models_turn(table, on_change, NULL)) {
        }
        bool is_loading = false;
        for (size_t i = 0; i < models_n(table); i++) {
            is_loading = is_loading || models_at(table, i)->state == MODELS_LOADING;
        }
        if (!is_loading) {
            return;
        }
        struct pollfd p = {.fd = models_fd(table), .events = POLLIN};
        assert_int_equal(poll(&p, 1, 20000), 1);
    }
}

static int64_t bytes_of_one(void)
{
    struct engine *e;
    assert_true(engine_map(&e, MODEL, NULL, NULL));
    int64_t bytes = engine_loaded_bytes(e);
    engine_close(e);
    return bytes;
}

/* Three models and room for n of them; 0: no limit. */
static void make(int n)
{
    struct models_options o = {.engine.n_threads = 1, .memory_max = n * bytes_of_one()};
    news[0] = '\0';
    assert_true(models_new(&table, &o, NULL));
    assert_true(models_add(table, "a=" MODEL, NULL));
    assert_true(models_add(table, "b=" MODEL, NULL));
    assert_true(models_add(table, "c=" MODEL, NULL));
    a = models_find(table, "a");
    b = models_find(table, "b");
    c = models_find(table, "c");
}

/* As the scheduler serves who waits. */
static void use(struct served *m)
{
    models_want(table, m);
    turn();
    assert_true(models_takes_jobs(table, m));
    models_unwant(m);
    models_hold(table, m);
    models_let_go(table, m);
}

static int teardown(void **state)
{
    (void)state;
    models_free(table);
    table = NULL;
    return 0;
}

static void test_nothing_is_loaded_unasked_or_twice(void **state)
{
    (void)state;
    make(0);
    turn();
    expect_news("");
    use(b);
    use(b);
    expect_news("b loading, b loaded, ");
    use(a);
    use(c);
    expect_news("a loading, a loaded, c loading, c loaded, ");
    assert_int_equal(b->state, MODELS_LOADED);
}

static void test_the_least_recently_used_one_goes(void **state)
{
    (void)state;
    make(2);
    use(a);
    use(b);
    use(a);
    news[0] = '\0';
    use(c);
    expect_news("b unloaded, c loading, c loaded, ");
    use(b);
    expect_news("a unloaded, b loading, b loaded, ");
    assert_null(a->model.engine);
}

static void test_a_busy_one_stays_until_its_jobs_end(void **state)
{
    (void)state;
    make(1);
    use(a);
    models_hold(table, a);
    models_hold(table, a);
    news[0] = '\0';
    models_want(table, b);
    turn();
    expect_news("");
    assert_false(models_takes_jobs(table, a));
    models_let_go(table, a);
    turn();
    expect_news("");
    models_let_go(table, a);
    turn();
    expect_news("a unloaded, b loading, b loaded, ");
    models_unwant(b);
}

static void test_who_no_longer_waits_makes_nobody_leave(void **state)
{
    (void)state;
    make(1);
    use(a);
    models_hold(table, a);
    models_want(table, b);
    turn();
    assert_false(models_takes_jobs(table, a));
    models_unwant(b); /* cancelled */
    turn();
    assert_true(models_takes_jobs(table, a));
    models_let_go(table, a);
    turn();
    assert_int_equal(a->state, MODELS_LOADED);
}

/* Each of two that are wanted all the time gets its turn. */
static void test_two_in_turn_where_one_has_room(void **state)
{
    (void)state;
    make(1);
    for (int i = 0; i < 3; i++) {
        models_want(table, a);
        models_want(table, b);
        turn();
        struct served *first = a->state == MODELS_LOADED ? a : b, *second = first == a ? b : a;
        models_unwant(first);
        models_hold(table, first);
        turn();
        assert_false(models_takes_jobs(table, first));
        models_let_go(table, first);
        turn();
        assert_true(models_takes_jobs(table, second));
        models_unwant(second);
    }
}

static void test_too_large_alone(void **state)
{
    (void)state;
    struct models_options o = {.engine.n_threads = 1, .memory_max = bytes_of_one() - 1};
    char max[40];
    (void)snprintf(max, sizeof max, "%lld", (long long)o.memory_max);
    assert_true(models_new(&table, &o, NULL));
    assert_true(models_add(table, "a=" MODEL, NULL));
    a = models_at(table, 0);
    assert_int_equal(a->state, MODELS_FAILED);
    assert_non_null(strstr(a->err.text, max));
    assert_non_null(strstr(a->err.text, "memory_max"));
}

/* Kilobytes of the model's files that are in this process' memory. */
static long resident_kb(void)
{
    char line[512];
    bool is_model = false;
    long kb, sum = 0;
    FILE *f = fopen("/proc/self/smaps", "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' ')) { /* FROM-TO ... PATH */
            is_model = strstr(line, "/stories260k/") != NULL;
        } else if (is_model && sscanf(line, "Rss: %ld", &kb) == 1) {
            sum += kb;
        }
    }
    assert_int_equal(fclose(f), 0);
    return sum;
}

static void test_unloading_gives_the_memory_of_files_back(void **state)
{
    (void)state;
    struct engine_options o = {.n_threads = 1, .draft_path = MODEL};
    struct engine *e;
    long others_kb = resident_kb(); /* of engines that are open */
    assert_true(engine_map(&e, MODEL, &o, NULL));
    for (int i = 0; i < 2; i++) {
        assert_true(engine_load(e, NULL));
        engine_warm(e);
        assert_true(resident_kb() - others_kb >= 2 * 1020); /* of it, and of its draft model */
        engine_unload(e);
        assert_int_equal(resident_kb(), others_kb);
    }
    engine_close(e);
}

static void test_specs(void **state)
{
    (void)state;
    struct engine_error err = {.code = ENGINE_OK};
    make(0);
    assert_true(models_add(table, "none=tests/nothing-here", NULL));
    assert_int_equal(models_find(table, "none")->state, MODELS_FAILED);
    assert_string_equal(models_find(table, "none")->err.text,
                        "'tests/nothing-here' cannot be read: No such file or directory");
    assert_true(models_add(table, "guess=" MODEL "?draft=tests/nothing-here", NULL));
    assert_string_equal(models_find(table, "guess")->err.text,
                        "draft model 'tests/nothing-here': 'tests/nothing-here' cannot be read: No "
                        "such file or directory");
    assert_false(models_add(table, "a=" MODEL, &err));
    assert_non_null(strstr(err.text, "already"));
    assert_false(models_add(table, "no-equals-sign", NULL));
    assert_false(models_add(table, "=x", NULL));
    assert_false(models_add(table, "x=", NULL));
    assert_null(models_find(table, "x"));
    assert_true(models_add(table, "odd=" MODEL "?template=nobody-knows-it", NULL));
    struct served *odd = models_find(table, "odd");
    models_want(table, odd);
    turn();
    expect_news("odd loading, odd failed, ");
    assert_non_null(strstr(odd->err.text, "nobody-knows-it"));
    assert_int_equal(odd->err.code, ENGINE_BAD_FILE); /* no request is at fault */
    models_unwant(odd);
    use(a);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_is_loaded_unasked_or_twice),
        TEST(test_the_least_recently_used_one_goes),
        TEST(test_a_busy_one_stays_until_its_jobs_end),
        TEST(test_who_no_longer_waits_makes_nobody_leave),
        TEST(test_two_in_turn_where_one_has_room),
        TEST(test_too_large_alone),
        cmocka_unit_test(test_unloading_gives_the_memory_of_files_back),
        TEST(test_specs),
    };
    return cmocka_run_group_tests_name("models", tests, NULL, NULL);
}
