/* pretokenize.c - PCRE2's interpreter, with its frames on the heap, under limits.
 *
 * PCRE2_MATCH_INVALID_UTF is not used: it checks the rest of the text at each match, which is
 * quadratic. Instead each run of well-formed text is found once and matched with
 * PCRE2_NO_UTF_CHECK; look-around sees the run's ends as the text's.
 *
 * The published patterns mean \s as Unicode's White_Space. PCRE2's \s is not quite that (U+180E is
 * a space to it), so \s and \S are compiled as \p{White_Space} and \P{White_Space}.
 */
#include "pretokenize.h"

#include "codepoint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { HEAP_KIB_MAX = 65536 };

/* What one run needs; the stages recurse over it, at most PRETOKENIZE_STAGES_MAX deep. */
struct run {
    const struct pretokenize *p;
    pretokenize_fn *fn;
    void *ud;
    struct engine_error *err;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    char *spaced; /* the piece with a space in front */
    size_t spaced_cap;
    bool is_front;
};

static bool run_stage(struct run *r, size_t stage, const char *s, size_t len);

void pretokenize_release(struct pretokenize *p)
{
    if (p) {
        for (size_t i = 0; i < p->n_stages; i++) {
            pcre2_code_free(p->stages[i].code);
        }
        *p = (struct pretokenize){0};
    }
}

/* The pattern with \s and \S spelled out; yours. Every other escape is copied as the pair that it
 * is. */
static char *spell_out_spaces(const char *pattern, size_t len, size_t *out_len)
{
    static const char space[] = "\\p{White_Space}", no_space[] = "\\P{White_Space}";
    char *out = malloc(len * sizeof space + 1);
    size_t n = 0;
    for (size_t i = 0; out && i < len; i++) {
        if (pattern[i] != '\\' || i + 1 == len) {
            out[n++] = pattern[i];
            continue;
        }
        char c = pattern[++i];
        if (c == 's' || c == 'S') {
            memcpy(out + n, c == 's' ? space : no_space, sizeof space - 1);
            n += sizeof space - 1;
        } else {
            out[n++] = '\\';
            out[n++] = c;
        }
    }
    *out_len = n;
    return out;
}

/* The published patterns match every character, so that there are no gaps. */
static enum wordscan_kind find_scan(const char *pattern, size_t len, struct pretokenize_rule rule)
{
    bool keeps_matches = rule.behavior == PRETOKENIZE_ISOLATED ||
                         (rule.behavior == PRETOKENIZE_REMOVED && rule.is_inverted);
    return keeps_matches ? wordscan_recognise(pattern, len) : WORDSCAN_NONE;
}

bool pretokenize_add(struct pretokenize *p, const char *pattern, size_t len,
                     struct pretokenize_rule rule, const char *what, struct engine_error *err)
{
    const uint32_t options =
        PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C;
    int code = 0;
    PCRE2_SIZE at = 0, n;
    if (p->n_stages == PRETOKENIZE_STAGES_MAX) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: more than %d steps", what,
                           PRETOKENIZE_STAGES_MAX);
    }
    if (len > PRETOKENIZE_PATTERN_MAX) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: a pattern of %zu bytes, at most %d are allowed", what, len,
                           PRETOKENIZE_PATTERN_MAX);
    }
    char *text = spell_out_spaces(pattern, len, &n);
    if (!text) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)text, n, options, &code, &at, NULL);
    free(text);
    if (!compiled) {
        char why[120] = "";
        (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: the pattern cannot be compiled: %s", what,
                           why);
    }
    p->stages[p->n_stages++] =
        (struct pretokenize_stage){compiled, rule, find_scan(pattern, len, rule)};
    return true;
}

bool pretokenize_add_space(struct pretokenize *p, const char *what, struct engine_error *err)
{
    if (p->n_stages == PRETOKENIZE_STAGES_MAX) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: more than %d steps", what,
                           PRETOKENIZE_STAGES_MAX);
    }
    p->stages[p->n_stages++] = (struct pretokenize_stage){0};
    return true;
}

static bool run_space(struct run *r, size_t stage, const char *s, size_t len)
{
    bool is_wanted = r->is_front && s[0] != ' ';
    r->is_front = true;
    if (!is_wanted) {
        return run_stage(r, stage + 1, s, len);
    }
    if (len + 1 > r->spaced_cap) {
        char *p = realloc(r->spaced, len + 1);
        if (!p) {
            return engine_fail(r->err, ENGINE_NOMEM, "", "out of memory");
        }
        r->spaced = p;
        r->spaced_cap = len + 1;
    }
    r->spaced[0] = ' ';
    memcpy(r->spaced + 1, s, len);
    return run_stage(r, stage + 1, r->spaced, len + 1);
}

/* The next match that is not empty at or after `at`: its bounds. len, len: there is none. */
static bool find_match(struct run *r, const pcre2_code *code, const char *s, size_t len, size_t at,
                       size_t *from, size_t *to)
{
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(r->match);
    int rc = pcre2_match(code, (PCRE2_SPTR)s, len, at, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                         r->match, r->limits);
    if (rc == PCRE2_ERROR_NOMATCH) {
        *from = *to = len;
        return true;
    }
    if (rc == PCRE2_ERROR_NOMEMORY) {
        return engine_fail(r->err, ENGINE_NOMEM, "", "out of memory");
    }
    if (rc < 0 || bounds[0] < at || bounds[1] <= bounds[0]) { /* the second: \K in a look-ahead */
        return engine_fail(
            r->err, ENGINE_BAD_PARAM, "prompt",
            "the tokenizer's pattern takes too many steps on this text; shorten the text");
    }
    *from = bounds[0];
    *to = bounds[1];
    return true;
}

static bool run_scan(struct run *r, size_t stage, const char *s, size_t len)
{
    enum wordscan_kind kind = r->p->stages[stage].scan;
    for (size_t at = 0, n; at < len; at += n) {
        n = wordscan_next(kind, s + at, len - at);
        if (!run_stage(r, stage + 1, s + at, n)) {
            return false;
        }
    }
    return true;
}

/* A part of the text that waits for what comes behind it. */
struct part {
    size_t from, to; /* equal: none */
    bool is_match;
};

static bool flush(struct run *r, size_t stage, const char *s, const struct part *p)
{
    bool is_dropped = p->is_match && r->p->stages[stage].rule.behavior == PRETOKENIZE_REMOVED;
    return p->from == p->to || is_dropped || run_stage(r, stage + 1, s + p->from, p->to - p->from);
}

/* Whether the part b goes into one piece with a, which it follows. */
static bool goes_with(enum pretokenize_behavior behavior, const struct part *a,
                      const struct part *b)
{
    switch (behavior) {
    case PRETOKENIZE_MERGED_WITH_PREVIOUS:
        return b->is_match && !a->is_match;
    case PRETOKENIZE_MERGED_WITH_NEXT:
        return a->is_match && !b->is_match;
    case PRETOKENIZE_CONTIGUOUS:
        return a->is_match && b->is_match;
    default:
        return false;
    }
}

static bool put_part(struct run *r, size_t stage, const char *s, struct part *waiting,
                     struct part part)
{
    if (part.from == part.to) {
        return true;
    }
    if (waiting->from < waiting->to &&
        goes_with(r->p->stages[stage].rule.behavior, waiting, &part)) {
        waiting->to = part.to;
        waiting->is_match = part.is_match;
        return true;
    }
    struct part before = *waiting;
    *waiting = part;
    return flush(r, stage, s, &before);
}

/* One stage over well-formed text. */
static bool run_pattern(struct run *r, size_t stage, const char *s, size_t len)
{
    const struct pretokenize_stage *st = &r->p->stages[stage];
    bool is_match = !st->rule.is_inverted;
    struct part waiting = {0};
    size_t from = 0, to = 0;
    if (st->scan != WORDSCAN_NONE) {
        return run_scan(r, stage, s, len);
    }
    for (size_t at = 0; at < len; at = to) {
        if (!find_match(r, st->code, s, len, at, &from, &to) ||
            !put_part(r, stage, s, &waiting, (struct part){at, from, !is_match}) ||
            !put_part(r, stage, s, &waiting, (struct part){from, to, is_match})) {
            return false;
        }
    }
    return flush(r, stage, s, &waiting);
}

static bool run_stage(struct run *r, size_t stage, const char *s, size_t len)
{
    assert(len > 0);
    if (stage == r->p->n_stages) {
        return r->fn(r->ud, s, len, r->err);
    }
    if (!r->p->stages[stage].code) {
        return run_space(r, stage, s, len);
    }
    for (size_t at = 0, n; at < len; at += n) {
        n = codepoint_valid_run(s + at, len - at);
        bool is_valid = n > 0;
        if (!is_valid) {
            n = codepoint_invalid_run(s + at, len - at);
        }
        if (!(is_valid ? run_pattern(r, stage, s + at, n) : run_stage(r, stage + 1, s + at, n))) {
            return false;
        }
    }
    return true;
}

bool pretokenize_run(const struct pretokenize *p, const char *text, size_t len, bool is_front,
                     pretokenize_fn *fn, void *ud, struct engine_error *err)
{
    struct run r = {.p = p, .fn = fn, .ud = ud, .err = err, .is_front = is_front};
    bool done = false;
    if (len == 0) {
        return true;
    }
    r.match = pcre2_match_data_create(1, NULL);
    r.limits = pcre2_match_context_create(NULL);
    if (!r.match || !r.limits) {
        engine_fail(err, ENGINE_NOMEM, "", "out of memory");
        goto out;
    }
    size_t steps = len < PRETOKENIZE_STEPS_MIN / 16 ? PRETOKENIZE_STEPS_MIN
                   : len > UINT32_MAX / 16          ? UINT32_MAX
                                                    : len * 16;
    (void)pcre2_set_match_limit(r.limits, (uint32_t)steps);
    (void)pcre2_set_heap_limit(r.limits, HEAP_KIB_MAX);
    done = run_stage(&r, 0, text, len);
out:
    free(r.spaced);
    pcre2_match_context_free(r.limits);
    pcre2_match_data_free(r.match);
    return done;
}
