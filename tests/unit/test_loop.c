#include "gateway/io/loop.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#define TIMERS 500

struct fixture {
    struct loop *l;
    int n;
    int64_t last_ms;
    struct loop_timer timers[TIMERS];
    int fds[2], other[2];
};

static struct fixture *fixture_new(void)
{
    struct fixture *x = calloc(1, sizeof *x);
    assert_non_null(x);
    assert_true(loop_new(&x->l));
    assert_int_equal(pipe(x->fds), 0);
    assert_int_equal(pipe(x->other), 0);
    return x;
}

static void fixture_free(struct fixture *x)
{
    loop_free(x->l);
    for (int i = 0; i < 2; i++) {
        (void)close(x->fds[i]);
        (void)close(x->other[i]);
    }
    free(x);
}

static void stop(void *ud)
{
    struct fixture *x = ud;
    loop_stop(x->l);
}

/* ---- timers */

struct expiry {
    struct fixture *x;
    struct loop_timer timer;
    int64_t due_ms;
    int n_fired;
};

static void on_expiry(void *ud)
{
    struct expiry *e = ud;
    assert_true(e->due_ms >= e->x->last_ms); /* in order */
    assert_true(loop_now_ms(e->x->l) >= e->due_ms);
    e->x->last_ms = e->due_ms;
    e->n_fired++;
    e->x->n++;
}

static void test_timers(void **state)
{
    (void)state;
    struct fixture *x = fixture_new();
    static struct expiry e[TIMERS];
    unsigned seed = 7;
    int n_want = 0;
    for (int i = 0; i < TIMERS; i++) {
        seed = seed * 1103515245u + 12345u;
        e[i].x = x;
        assert_true(loop_timer_arm(x->l, &e[i].timer, (seed >> 16) % 40, on_expiry, &e[i]));
        if (i % 3 == 0) { /* moves */
            assert_true(loop_timer_arm(x->l, &e[i].timer, (seed >> 8) % 40, on_expiry, &e[i]));
        }
        e[i].due_ms = e[i].timer.due_ms;
    }
    for (int i = 0; i < TIMERS; i++) {
        if (i % 7 == 0) {
            loop_timer_cancel(x->l, &e[i].timer);
            loop_timer_cancel(x->l, &e[i].timer);
        } else {
            n_want++;
        }
    }
    struct loop_timer end = {0};
    assert_true(loop_timer_arm(x->l, &end, 60, stop, x));
    loop_run(x->l);
    assert_int_equal(x->n, n_want);
    for (int i = 0; i < TIMERS; i++) {
        assert_int_equal(e[i].n_fired, i % 7 != 0);
    }
    fixture_free(x);
}

static void again(void *ud)
{
    struct fixture *x = ud;
    x->n++;
    assert_true(loop_timer_arm(x->l, &x->timers[0], 0, again, x));
}

static void on_input(int fd, uint32_t events, void *ud)
{
    (void)events;
    struct fixture *x = ud;
    char c;
    assert_int_equal(read(fd, &c, 1), 1);
    loop_stop(x->l);
}

/* A timer that is always due must not keep descriptors waiting. */
static void test_busy_timer(void **state)
{
    (void)state;
    struct fixture *x = fixture_new();
    assert_true(loop_timer_arm(x->l, &x->timers[0], 0, again, x));
    assert_true(loop_watch(x->l, x->fds[0], EPOLLIN, on_input, x));
    assert_int_equal(write(x->fds[1], "x", 1), 1);
    loop_run(x->l);
    assert_in_range(x->n, 1, 3);
    fixture_free(x);
}

/* ---- descriptors */

/* Both pipes are readable in one batch; whoever is first closes the other and opens it again
   under the same number. */
static void on_first(int fd, uint32_t events, void *ud)
{
    (void)events;
    struct fixture *x = ud;
    int *victim = fd == x->fds[0] ? x->other : x->fds;
    x->n++;
    assert_int_equal(x->n, 1); /* the second event of the batch was for the closed one */
    int number = victim[0];
    loop_unwatch(x->l, number);
    (void)close(number);
    (void)close(victim[1]);
    assert_int_equal(pipe(victim), 0);
    assert_int_equal(victim[0], number);
    assert_true(loop_watch(x->l, number, EPOLLIN, on_first, x));
    loop_unwatch(x->l, fd);
    assert_true(loop_timer_arm(x->l, &x->timers[0], 5, stop, x));
}

static void test_stale_event(void **state)
{
    (void)state;
    struct fixture *x = fixture_new();
    assert_int_equal(write(x->fds[1], "x", 1), 1);
    assert_int_equal(write(x->other[1], "x", 1), 1);
    assert_true(loop_watch(x->l, x->fds[0], EPOLLIN, on_first, x));
    assert_true(loop_watch(x->l, x->other[0], EPOLLIN, on_first, x));
    loop_run(x->l);
    assert_int_equal(x->n, 1);
    fixture_free(x);
}

/* Closed without loop_unwatch and opened again: the watch must reach the new one. */
static void test_reopened(void **state)
{
    (void)state;
    struct fixture *x = fixture_new();
    assert_true(loop_watch(x->l, x->fds[0], EPOLLIN, on_input, x));
    int number = x->fds[0];
    (void)close(x->fds[0]);
    (void)close(x->fds[1]);
    assert_int_equal(pipe(x->fds), 0);
    assert_int_equal(x->fds[0], number);
    assert_true(loop_watch(x->l, number, EPOLLIN, on_input, x));
    assert_int_equal(write(x->fds[1], "x", 1), 1);
    loop_run(x->l);
    assert_false(loop_watch(x->l, 9999, EPOLLIN, on_input, x));
    loop_unwatch(x->l, 9999);
    fixture_free(x);
}

/* ---- posts and turns */

struct note {
    struct loop_post post;
    struct fixture *x;
    int number;
};

static void on_note(void *ud)
{
    struct note *n = ud;
    assert_int_equal(n->x->n, n->number); /* in order */
    n->x->n++;
    if (n->number == 999) {
        loop_stop(n->x->l);
    }
    free(n);
}

static void *post_notes(void *ud)
{
    struct fixture *x = ud;
    for (int i = 0; i < 1000; i++) {
        struct note *n = calloc(1, sizeof *n);
        if (!n) {
            abort();
        }
        *n = (struct note){.post = {.fn = on_note, .ud = n}, .x = x, .number = i};
        loop_post(x->l, &n->post);
    }
    return NULL;
}

static void test_posts(void **state)
{
    (void)state;
    struct fixture *x = fixture_new();
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, post_notes, x), 0);
    loop_run(x->l);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(x->n, 1000);
    fixture_free(x);
}

static void on_heard(int fd, uint32_t events, void *ud)
{
    (void)events;
    struct fixture *x = ud;
    loop_unwatch(x->l, fd);
    x->n = x->n * 10 + 2;
}

static void long_post(void *ud)
{
    struct fixture *x = ud;
    int64_t began_ms = loop_clock_ms();
    assert_int_equal(write(x->fds[1], "x", 1), 1);
    while (loop_clock_ms() - began_ms < LOOP_SLICE_MS) {
    }
    x->n = x->n * 10 + 1;
}

static void last_post(void *ud)
{
    struct fixture *x = ud;
    x->n = x->n * 10 + 3;
    loop_stop(x->l);
}

/* Between two posts that take long others are heard, and the posts stay in order. */
static void test_long_posts(void **state)
{
    (void)state;
    struct fixture *x = fixture_new();
    struct loop_post posts[] = {
        {.fn = long_post, .ud = x}, {.fn = long_post, .ud = x}, {.fn = last_post, .ud = x}};
    assert_true(loop_watch(x->l, x->fds[0], EPOLLIN, on_heard, x));
    for (size_t i = 0; i < 3; i++) {
        loop_post(x->l, &posts[i]);
    }
    loop_run(x->l);
    assert_int_equal(x->n, 1213);
    fixture_free(x);
}

static int on_turn(void *ud)
{
    struct fixture *x = ud;
    if (++x->n == 5) {
        loop_stop(x->l);
    }
    return 1;
}

static void test_turns(void **state)
{
    (void)state;
    struct fixture *x = fixture_new();
    assert_true(loop_on_turn(x->l, on_turn, x));
    loop_run(x->l);
    assert_int_equal(x->n, 5);
    loop_stop(x->l); /* before it runs: ends at once */
    loop_run(x->l);
    assert_int_equal(x->n, 6);
    fixture_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timers),      cmocka_unit_test(test_busy_timer),
        cmocka_unit_test(test_stale_event), cmocka_unit_test(test_reopened),
        cmocka_unit_test(test_posts),       cmocka_unit_test(test_long_posts),
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
