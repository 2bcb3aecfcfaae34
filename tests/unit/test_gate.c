/* test_gate.c - every change of a breaker's state, the queue, and both under threads and over a
 * reload. Time is a number that the test moves. */
#include "gateway/gate.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct gate *gate;
static struct config_provider provider;
static struct config conf = {.providers = &provider, .n_providers = 1};
static int64_t now, retry;
static struct gate_change change;

static void configure(unsigned in_flight_max, unsigned failures, unsigned ms)
{
    static char name[] = "p";
    provider = (struct config_provider){.name = name};
    provider.calls = (struct config_calls){
        .in_flight_max = in_flight_max, .breaker_failures = failures, .breaker_ms = ms};
    assert_true(gate_configure(gate, &conf));
}

static int setup(void **state)
{
    (void)state;
    now = 1000;
    return gate_new(&gate) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    gate_free(gate);
    return 0;
}

static enum gate_word enter(struct gate_ticket *t, bool may_wait)
{
    return gate_enter(gate, "p", may_wait, now, t, &retry, &change);
}

/* One call from begin to end; false: not let in. */
static bool call(enum gate_outcome o)
{
    struct gate_ticket t = {.lane = NULL};
    if (enter(&t, false) != GATE_IN) {
        return false;
    }
    assert_false(gate_leave(gate, &t, o, now, &change));
    return true;
}

static struct gate_status status(void)
{
    struct gate_status s = {.name = ""};
    assert_int_equal(gate_list(gate, &s, 1), 1);
    assert_string_equal(s.name, "p");
    return s;
}

static void assert_change(enum gate_state to)
{
    assert_true(change.is_change);
    assert_int_equal(change.to, to);
}

/* ---- the breaker */

static void test_opens_after_failures_in_a_row(void **state)
{
    (void)state;
    configure(0, 3, 100);
    assert_true(call(GATE_FAILED) && call(GATE_FAILED) && call(GATE_WELL));
    assert_int_equal(status().failures, 0);
    assert_true(call(GATE_FAILED) && call(GATE_UNKNOWN) && call(GATE_FAILED));
    assert_false(change.is_change);
    assert_int_equal(status().failures, 2);
    assert_true(call(GATE_FAILED));
    assert_change(GATE_OPEN);
    assert_int_equal(change.failures, 3);
    assert_int_equal(change.open_ms, 100);
    now += 40;
    struct gate_ticket t = {.lane = NULL};
    assert_int_equal(enter(&t, true), GATE_SHUT);
    assert_int_equal(retry, 60);
    assert_int_equal(status().in_flight, 0);
}

static void test_one_request_tries(void **state)
{
    (void)state;
    configure(0, 1, 100);
    assert_true(call(GATE_FAILED));
    now += 100;
    struct gate_ticket one = {.lane = NULL}, two = {.lane = NULL};
    assert_int_equal(enter(&one, true), GATE_IN);
    assert_change(GATE_HALF_OPEN);
    assert_int_equal(enter(&two, true), GATE_SHUT);
    assert_int_equal(retry, 1);
    (void)gate_leave(gate, &one, GATE_WELL, now, &change);
    assert_change(GATE_CLOSED);
    assert_true(call(GATE_WELL));
}

static void test_a_failed_try_doubles_the_time(void **state)
{
    (void)state;
    configure(0, 1, 60000);
    assert_true(call(GATE_FAILED));
    static const int64_t open_ms[] = {120000, 240000, GATE_OPEN_MS_MAX, GATE_OPEN_MS_MAX};
    int64_t wait = 60000;
    for (size_t i = 0; i < sizeof open_ms / sizeof *open_ms; i++) {
        now += wait - 1;
        assert_false(call(GATE_FAILED));
        now += 1;
        assert_true(call(GATE_FAILED));
        assert_change(GATE_OPEN);
        assert_int_equal(change.open_ms, open_ms[i]);
        wait = open_ms[i];
    }
    now += wait;
    assert_true(call(GATE_WELL));
    assert_true(call(GATE_FAILED));
    assert_int_equal(change.open_ms, 60000); /* from the begin again */
}

static void test_a_try_that_was_cancelled_leaves_the_next_one(void **state)
{
    (void)state;
    configure(0, 1, 100);
    assert_true(call(GATE_FAILED));
    now += 100;
    assert_true(call(GATE_UNKNOWN));
    assert_false(change.is_change);
    assert_int_equal(status().state, GATE_HALF_OPEN);
    assert_true(call(GATE_WELL));
    assert_change(GATE_CLOSED);
}

static void test_who_was_in_before_does_not_move_it(void **state)
{
    (void)state;
    configure(0, 1, 100);
    struct gate_ticket early[3] = {{.lane = NULL}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(enter(&early[i], false), GATE_IN);
    }
    assert_true(call(GATE_FAILED));
    now += 50;
    (void)gate_leave(gate, &early[0], GATE_FAILED, now, &change);
    assert_false(change.is_change);
    (void)gate_leave(gate, &early[1], GATE_WELL, now, &change);
    assert_false(change.is_change);
    now += 50;
    struct gate_ticket t = {.lane = NULL};
    assert_int_equal(enter(&t, false), GATE_IN); /* not later than it was said */
    (void)gate_leave(gate, &early[2], GATE_FAILED, now, &change);
    assert_int_equal(status().state, GATE_HALF_OPEN);
    (void)gate_leave(gate, &t, GATE_WELL, now, &change);
    assert_change(GATE_CLOSED);
}

static void test_never_opens_at_zero(void **state)
{
    (void)state;
    configure(0, 0, 100);
    for (int i = 0; i < 100; i++) {
        assert_true(call(GATE_FAILED));
    }
    assert_int_equal(status().state, GATE_CLOSED);
}

/* ---- the queue */

static int woken[8];
static size_t n_woken;

static void on_wake(void *ud)
{
    woken[n_woken++] = *(int *)ud;
}

static void test_first_come_first_served(void **state)
{
    (void)state;
    configure(2, 0, 100);
    struct gate_ticket t[5] = {{.lane = NULL}};
    int id[5];
    n_woken = 0;
    for (int i = 0; i < 5; i++) {
        id[i] = i;
        t[i].wake = on_wake;
        t[i].ud = &id[i];
        assert_int_equal(enter(&t[i], true), i < 2 ? GATE_IN : GATE_WAIT);
    }
    struct gate_ticket late = {.lane = NULL};
    assert_int_equal(enter(&late, false), GATE_FULL);
    assert_int_equal(status().in_flight, 2);
    assert_int_equal(status().waiting, 3);
    assert_false(gate_leave(gate, &t[3], GATE_UNKNOWN, now, &change)); /* left the queue */
    assert_false(gate_leave(gate, &t[1], GATE_FAILED, now, &change));
    assert_int_equal(n_woken, 1);
    assert_int_equal(woken[0], 2);
    assert_int_equal(t[2].word, GATE_IN);
    assert_int_equal(status().in_flight, 2);
    assert_false(gate_leave(gate, &t[0], GATE_WELL, now, &change));
    assert_int_equal(woken[1], 4);
    assert_true(gate_leave(gate, &t[2], GATE_WELL, now, &change));
    assert_true(gate_leave(gate, &t[4], GATE_UNKNOWN, now, &change));
    assert_false(gate_leave(gate, &t[4], GATE_WELL, now, &change)); /* once */
    assert_int_equal(n_woken, 2);
    assert_int_equal(status().in_flight + status().waiting, 0);
}

static void test_who_waits_is_told_that_it_opened(void **state)
{
    (void)state;
    configure(1, 1, 100);
    struct gate_ticket in = {.lane = NULL}, waits[2] = {{.lane = NULL}};
    int id[2] = {7, 8};
    n_woken = 0;
    assert_int_equal(enter(&in, true), GATE_IN);
    for (size_t i = 0; i < 2; i++) {
        waits[i].wake = on_wake;
        waits[i].ud = &id[i];
        assert_int_equal(enter(&waits[i], true), GATE_WAIT);
    }
    (void)gate_leave(gate, &in, GATE_FAILED, now, &change);
    assert_change(GATE_OPEN);
    assert_int_equal(n_woken, 2);
    assert_int_equal(waits[0].word, GATE_SHUT);
    assert_int_equal(enter(&waits[0], true), GATE_SHUT); /* it has left already */
    assert_int_equal(retry, 100);
    assert_true(gate_leave(gate, &waits[1], GATE_UNKNOWN, now, &change));
    assert_int_equal(status().in_flight + status().waiting, 0);
}

static void test_a_try_needs_a_place(void **state)
{
    (void)state;
    configure(2, 1, 100);
    struct gate_ticket hangs[2] = {{.lane = NULL}}, t = {.lane = NULL};
    assert_int_equal(enter(&hangs[0], false), GATE_IN);
    assert_int_equal(enter(&hangs[1], false), GATE_IN);
    (void)gate_leave(gate, &hangs[1], GATE_FAILED, now, &change);
    configure(1, 1, 100); /* smaller by a reload */
    now += 100;
    assert_int_equal(enter(&t, true), GATE_FULL);
    (void)gate_leave(gate, &hangs[0], GATE_UNKNOWN, now, &change);
    assert_true(call(GATE_WELL));
    assert_change(GATE_CLOSED);
}

/* ---- a reload */

static void test_a_reload_keeps_the_state_and_takes_the_limits(void **state)
{
    (void)state;
    configure(1, 5, 100);
    struct gate_ticket t[3] = {{.lane = NULL}};
    int id = 0;
    n_woken = 0;
    assert_true(call(GATE_FAILED) && call(GATE_FAILED));
    assert_int_equal(enter(&t[0], true), GATE_IN);
    for (size_t i = 1; i < 3; i++) {
        t[i].wake = on_wake;
        t[i].ud = &id;
        assert_int_equal(enter(&t[i], true), GATE_WAIT);
    }
    configure(2, 3, 50);
    assert_int_equal(n_woken, 1);
    assert_int_equal(status().failures, 2);
    assert_int_equal(status().in_flight, 2);
    struct config none = {.n_providers = 0};
    assert_true(gate_configure(gate, &none)); /* the defaults: no limit */
    assert_int_equal(n_woken, 2);
    configure(0, 3, 50);
    (void)gate_leave(gate, &t[0], GATE_FAILED, now, &change);
    assert_change(GATE_OPEN);
    (void)gate_leave(gate, &t[1], GATE_UNKNOWN, now, &change);
    (void)gate_leave(gate, &t[2], GATE_UNKNOWN, now, &change);
    configure(0, 3, 50);
    assert_false(call(GATE_WELL));
    configure(0, 0, 50); /* switched off */
    assert_true(call(GATE_WELL));
}

static void test_a_breaker_that_was_switched_off_opens_no_more(void **state)
{
    (void)state;
    configure(0, 1, 100);
    struct gate_ticket t = {.lane = NULL};
    assert_true(call(GATE_FAILED));
    assert_change(GATE_OPEN);
    now += 100;
    assert_int_equal(enter(&t, false), GATE_IN);
    configure(0, 0, 100);
    (void)gate_leave(gate, &t, GATE_FAILED, now, &change);
    assert_false(change.is_change);
    assert_true(call(GATE_WELL));
    assert_false(change.is_change);
    assert_int_equal(status().state, GATE_CLOSED);
}

/* ---- threads: never more than two at once, and everybody comes in */

static atomic_int n_in, n_worst, n_done;

struct waiter {
    struct gate_ticket t;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool is_woken;
};

static void wake_thread(void *ud)
{
    struct waiter *w = ud;
    (void)pthread_mutex_lock(&w->lock);
    w->is_woken = true;
    (void)pthread_cond_signal(&w->cond);
    (void)pthread_mutex_unlock(&w->lock);
}

static void *come_and_go(void *ud)
{
    (void)ud;
    struct waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct gate_change c;
    int64_t ms;
    for (int i = 0; i < 2000; i++) {
        w.t = (struct gate_ticket){.wake = wake_thread, .ud = &w};
        w.is_woken = false;
        if (gate_enter(gate, "p", true, 0, &w.t, &ms, &c) == GATE_WAIT) {
            (void)pthread_mutex_lock(&w.lock);
            while (!w.is_woken) {
                (void)pthread_cond_wait(&w.cond, &w.lock);
            }
            (void)pthread_mutex_unlock(&w.lock);
        }
        int n = atomic_fetch_add(&n_in, 1) + 1, worst = atomic_load(&n_worst);
        while (n > worst && !atomic_compare_exchange_weak(&n_worst, &worst, n)) {
        }
        (void)atomic_fetch_sub(&n_in, 1);
        (void)gate_leave(gate, &w.t, GATE_WELL, 0, &c);
        (void)atomic_fetch_add(&n_done, 1);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[6];
    configure(2, 0, 100);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    }
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&n_done), 6 * 2000);
    assert_true(atomic_load(&n_worst) <= 2);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_opens_after_failures_in_a_row),
        TEST(test_one_request_tries),
        TEST(test_a_failed_try_doubles_the_time),
        TEST(test_a_try_that_was_cancelled_leaves_the_next_one),
        TEST(test_who_was_in_before_does_not_move_it),
        TEST(test_never_opens_at_zero),
        TEST(test_first_come_first_served),
        TEST(test_who_waits_is_told_that_it_opened),
        TEST(test_a_try_needs_a_place),
        TEST(test_a_reload_keeps_the_state_and_takes_the_limits),
        TEST(test_a_breaker_that_was_switched_off_opens_no_more),
        TEST(test_threads),
    };
    return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
