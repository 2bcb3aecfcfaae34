/* test_attempt.c - what comes after each kind of failure: again, the next target, or nothing. */
#include "gateway/attempt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#define NONE (-1)

static const struct config_calls usual = {.retries = 2, .retry_wait_max_ms = 5000};
static const struct config_calls bold = {
    .retries = 2, .retry_wait_max_ms = 5000, .retry_sent = true};

static struct failure failure(int status, const char *code)
{
    struct failure f = {.status = 0};
    (void)failure_set(&f, status, code, NULL, "no");
    return f;
}

/* One row: a failure, and what may come after it. */
static const struct row {
    const char *code;
    int told, status; /* to the client; by the provider */
    int64_t retry_after_ms;
    enum attempt_stage stage;
    bool repeats, repeats_bold, moves, rejects;
    enum gate_outcome outcome;
} rows[] = {
    /* no byte has left */
    {"upstream_unreachable", 502, 0, NONE, ATTEMPT_CALL, 1, 1, 1, 0, GATE_FAILED},
    {"upstream_timeout_connect", 504, 0, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_FAILED},
    /* the provider says when */
    {"rate_limit_exceeded", 429, 429, 1000, ATTEMPT_CALL, 1, 1, 1, 0, GATE_WELL},
    {"rate_limit_exceeded", 429, 429, 0, ATTEMPT_CALL, 1, 1, 1, 0, GATE_WELL},
    {"rate_limit_exceeded", 429, 429, 5001, ATTEMPT_CALL, 0, 0, 1, 0, GATE_WELL},
    {"rate_limit_exceeded", 429, 429, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_WELL},
    {"insufficient_quota", 429, 429, 1000, ATTEMPT_CALL, 0, 0, 1, 0, GATE_WELL},
    {"upstream_overloaded", 503, 503, 1000, ATTEMPT_CALL, 1, 1, 1, 0, GATE_FAILED},
    {"upstream_overloaded", 503, 503, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_FAILED},
    /* it may have been read, and billed */
    {"upstream_overloaded", 503, 529, NONE, ATTEMPT_CALL, 0, 1, 1, 0, GATE_FAILED},
    {"upstream_overloaded", 503, 529, 1000, ATTEMPT_CALL, 0, 1, 1, 0, GATE_FAILED},
    {"upstream_error", 502, 500, NONE, ATTEMPT_CALL, 0, 1, 1, 0, GATE_FAILED},
    {"upstream_error", 502, 502, NONE, ATTEMPT_CALL, 0, 1, 1, 0, GATE_FAILED},
    {"upstream_timeout", 504, 504, NONE, ATTEMPT_CALL, 0, 1, 1, 0, GATE_FAILED},
    {"upstream_no_answer", 502, 0, NONE, ATTEMPT_CALL, 0, 1, 1, 0, GATE_FAILED},
    {"upstream_timeout_first_byte", 504, 0, NONE, ATTEMPT_CALL, 0, 1, 1, 0, GATE_FAILED},
    {"upstream_timeout_idle", 504, 200, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_FAILED},
    {"stream_incomplete", 502, 200, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_FAILED},
    {"upstream_invalid", 502, 200, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_FAILED},
    /* refusals */
    {"invalid_value", 400, 400, NONE, ATTEMPT_CALL, 0, 0, 0, 0, GATE_WELL},
    {"invalid_value", 400, 422, NONE, ATTEMPT_CALL, 0, 0, 0, 0, GATE_WELL},
    {"context_length_exceeded", 400, 400, 1000, ATTEMPT_CALL, 0, 0, 0, 0, GATE_WELL},
    {"too_large", 413, 413, NONE, ATTEMPT_CALL, 0, 0, 0, 0, GATE_WELL},
    {"upstream_auth", 502, 401, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_WELL},
    {"upstream_auth", 502, 400, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_WELL},
    {"", 400, 403, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_WELL},
    {"insufficient_quota", 502, 402, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_WELL},
    {"model_not_found", 404, 404, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_WELL},
    {"upstream_timeout", 504, 408, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_WELL},
    /* inside of an answer with 200 */
    {"rate_limit_exceeded", 429, 200, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_WELL},
    {"upstream_auth", 502, 200, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_WELL},
    /* the local engine */
    {"engine_restarting", 503, 0, NONE, ATTEMPT_CALL, 0, 0, 1, 0, GATE_FAILED},
    {"context_full", 400, 0, NONE, ATTEMPT_CALL, 0, 0, 0, 0, GATE_WELL},
    {"out_of_memory", 503, 0, NONE, ATTEMPT_CALL, 0, 0, 0, 0, GATE_UNKNOWN},
    /* nobody was called */
    {"provider_unavailable", 503, 0, NONE, ATTEMPT_ADMIT, 0, 0, 1, 0, GATE_FAILED},
    {"provider_busy", 503, 0, NONE, ATTEMPT_ADMIT, 0, 0, 1, 0, GATE_FAILED},
    {"unsupported_parameter", 400, 0, NONE, ATTEMPT_PLAN, 0, 0, 1, 1, GATE_WELL},
    {"endpoint_not_supported", 404, 0, NONE, ATTEMPT_PLAN, 0, 0, 1, 1, GATE_WELL},
    {"model_retired", 404, 0, NONE, ATTEMPT_PLAN, 0, 0, 1, 1, GATE_WELL},
    {"model_not_found", 404, 0, NONE, ATTEMPT_PLAN, 0, 0, 1, 0, GATE_WELL},
    {"dialect_not_built", 501, 0, NONE, ATTEMPT_PLAN, 0, 0, 1, 0, GATE_FAILED},
    {"invalid_value", 400, 0, NONE, ATTEMPT_PLAN, 0, 0, 0, 0, GATE_WELL},
    {"invalid_value", 400, 0, NONE, ATTEMPT_ENCODE, 0, 0, 1, 1, GATE_WELL},
    {"body_too_large", 413, 0, NONE, ATTEMPT_ENCODE, 0, 0, 0, 0, GATE_WELL},
    {"upstream_auth", 502, 0, NONE, ATTEMPT_ENCODE, 0, 0, 1, 0, GATE_WELL},
};

static void test_each_failure(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct failure f = failure(r->told, r->code);
        struct attempt a = {.stage = r->stage,
                            .fail = &f,
                            .status = r->status,
                            .retry_after_ms = r->retry_after_ms};
        int64_t ms = 0;
        if (attempt_may_repeat(&a, &usual, &ms) != r->repeats ||
            attempt_may_repeat(&a, &bold, &ms) != r->repeats_bold ||
            attempt_may_move(&a) != r->moves || attempt_is_rejection(&a) != r->rejects ||
            attempt_outcome(&f, r->status) != r->outcome) {
            fail_msg("row %zu, '%s' with status %d", i, r->code, r->status);
        }
        a.has_delta = true;
        assert_false(attempt_may_repeat(&a, &bold, &ms));
        assert_false(attempt_may_move(&a));
    }
    assert_int_equal(attempt_outcome(NULL, 200), GATE_WELL);
}

static void test_how_long_and_how_often(void **state)
{
    (void)state;
    struct failure f = failure(502, "upstream_unreachable");
    struct config_calls c = {.retries = 10, .retry_wait_max_ms = 0};
    int64_t ms;
    for (unsigned n = 0; n < 10; n++) {
        int64_t base = n < 5 ? 100 << n : 3200;
        struct attempt a = {
            .stage = ATTEMPT_CALL, .fail = &f, .retry_after_ms = NONE, .n_repeats = n};
        for (uint32_t random = 0; random < 5000; random += 7) {
            a.random = random;
            assert_true(attempt_may_repeat(&a, &c, &ms));
            assert_in_range(ms, base, base + base / 2);
        }
        a.random = 0;
        assert_true(attempt_may_repeat(&a, &c, &ms));
        assert_int_equal(ms, base);
        a.random = (uint32_t)base / 2;
        assert_true(attempt_may_repeat(&a, &c, &ms));
        assert_int_equal(ms, base + base / 2);
    }
    struct attempt last = {
        .stage = ATTEMPT_CALL, .fail = &f, .retry_after_ms = NONE, .n_repeats = 10};
    assert_false(attempt_may_repeat(&last, &c, &ms));
    last.n_repeats = 0;
    c.retries = 0;
    assert_false(attempt_may_repeat(&last, &c, &ms));

    struct failure busy = failure(429, "rate_limit_exceeded");
    struct attempt told = {
        .stage = ATTEMPT_CALL, .fail = &busy, .status = 429, .retry_after_ms = 1000};
    assert_true(attempt_may_repeat(&told, &usual, &ms));
    assert_int_equal(ms, 1000);
    told.random = 12345;
    assert_true(attempt_may_repeat(&told, &usual, &ms));
    assert_in_range(ms, 1000, 1050);
    told.random = 0;
    told.retry_after_ms = 20; /* the backoff is longer */
    assert_true(attempt_may_repeat(&told, &usual, &ms));
    assert_int_equal(ms, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_failure),
        cmocka_unit_test(test_how_long_and_how_often),
    };
    return cmocka_run_group_tests_name("attempt", tests, NULL, NULL);
}
