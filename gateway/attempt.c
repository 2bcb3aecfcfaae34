/* attempt.c - see attempt.h. */
#include "attempt.h"

#include <stddef.h>
#include <string.h>

#define BACKOFF_MS      100
#define BACKOFF_DOUBLED 5  /* times at most: 3.2 s */
#define TOLD_JITTER_MS  50 /* who was told the same time does not come back at once */

static bool is_code(const struct failure *f, const char *const *codes)
{
    for (size_t i = 0; codes[i]; i++) {
        if (strcmp(f->code, codes[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- the next target */

bool attempt_is_rejection(const struct attempt *a)
{
    static const char *const codes[] = {"unsupported_parameter", "endpoint_not_supported",
                                        "model_retired", "too_many_adjustments", NULL};
    return (a->stage == ATTEMPT_PLAN && is_code(a->fail, codes)) ||
           (a->stage == ATTEMPT_ENCODE && a->fail->status == 400);
}

bool attempt_may_move(const struct attempt *a)
{
    static const char *const ours[] = {"out_of_memory", "internal_error", NULL};
    const struct failure *f = a->fail;
    if (a->has_delta || is_code(f, ours)) {
        return false;
    }
    return attempt_is_rejection(a) || f->status == 404 || f->status == 429 || f->status >= 500 ||
           a->status == 401 || a->status == 403 || a->status == 408;
}

/* ---- again */

static int64_t backoff_ms(const struct attempt *a)
{
    unsigned n = a->n_repeats < BACKOFF_DOUBLED ? a->n_repeats : BACKOFF_DOUBLED;
    int64_t base = (int64_t)BACKOFF_MS << n;
    return base + a->random % (uint32_t)(base / 2 + 1);
}

static bool was_not_billed(const struct attempt *a)
{
    static const char *const unsent[] = {"upstream_unreachable", NULL};
    /* paid for by nobody, but waiting does not bring the money */
    static const char *const hopeless[] = {"insufficient_quota", NULL};
    bool says_when = (a->status == 429 || a->status == 503) && a->retry_after_ms >= 0;
    return is_code(a->fail, unsent) || (says_when && !is_code(a->fail, hopeless));
}

static bool may_be_billed_twice(const struct attempt *a)
{
    static const char *const codes[] = {"upstream_no_answer", "upstream_timeout_first_byte", NULL};
    return a->status == 500 || a->status == 502 || a->status == 504 || a->status == 529 ||
           (a->status == 0 && is_code(a->fail, codes));
}

bool attempt_may_repeat(const struct attempt *a, const struct config_calls *c, int64_t *wait_ms)
{
    bool may = was_not_billed(a) || (c->retry_sent && may_be_billed_twice(a));
    if (!may || a->stage != ATTEMPT_CALL || a->has_delta || a->n_repeats >= c->retries ||
        a->retry_after_ms > (int64_t)c->retry_wait_max_ms) {
        return false;
    }
    int64_t backoff = backoff_ms(a), told = a->retry_after_ms + a->random % (TOLD_JITTER_MS + 1);
    *wait_ms = a->retry_after_ms >= 0 && told > backoff ? told : backoff;
    return true;
}

/* ---- the breaker */

enum gate_outcome attempt_outcome(const struct failure *fail, int status)
{
    static const char *const ours[] = {"out_of_memory", "internal_error", NULL};
    static const char *const answers[] = {"upstream_auth", "insufficient_quota", NULL};
    if (status >= 300) {
        return status >= 500 ? GATE_FAILED : GATE_WELL;
    }
    if (!fail || !fail->status) {
        return GATE_WELL;
    }
    if (is_code(fail, ours)) {
        return GATE_UNKNOWN;
    }
    return fail->status >= 500 && !is_code(fail, answers) ? GATE_FAILED : GATE_WELL;
}
