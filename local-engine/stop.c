/* stop.c - every stop string is followed by its own Knuth-Morris-Pratt automaton, byte by byte over
 * the decoded text.
 *
 * The state of an automaton is the length of the longest prefix of its stop string that ends the
 * text. So one number gives both answers: a full state is a match, and the largest state of all is
 * what must be held back. The cost is linear in the text whatever the strings are ("aaa...b" over
 * "aaa..." would be quadratic by comparing). The text that is held always covers every match that
 * has begun, so nothing else of the past is kept. On sanitised UTF-8 a match begins at a
 * character's first byte, because a stop string does: half a character is never released.
 */
#include "stop.h"
#include "utf8.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define STOP_BYTES_MAX                                                                             \
    (1u << 20) /* one stop string: the table of an automaton has four bytes for each of its bytes  \
                */

struct automaton {
    char *text;
    uint32_t *fall; /* [len + 1]: state after a mismatch in state q, and after a full match */
    uint32_t len, q;
};

struct stop {
    struct automaton *stops;
    size_t n_stops;
    struct utf8 utf8;
    char *out; /* [cap]: during a call the held text, then the new one; between calls what was
                  released, a NUL, what is held */
    size_t cap;
    size_t n_released;
    size_t held_at, n_held;
    int matched; /* -1: not yet */
    bool is_ended;
};

static bool automaton_init(struct automaton *a, const char *text, size_t len,
                           struct engine_error *err)
{
    if (len == 0) {
        return engine_fail(err, ENGINE_BAD_PARAM, "stop",
                           "a stop string is empty: leave it out of the list");
    }
    if (len > STOP_BYTES_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "stop",
                           "a stop string has %zu bytes, at most %u are possible", len,
                           STOP_BYTES_MAX);
    }
    if (!utf8_is_valid(text, len)) {
        return engine_fail(err, ENGINE_BAD_PARAM, "stop", "a stop string is not valid utf-8");
    }
    a->text = malloc(len);
    a->fall = calloc(len + 1, sizeof *a->fall);
    if (!a->text || !a->fall) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the stop strings");
    }
    memcpy(a->text, text, len);
    a->len = (uint32_t)len;
    uint32_t q = 0;
    for (uint32_t i = 1; i < a->len; i++) {
        while (q > 0 && text[i] != text[q]) {
            q = a->fall[q];
        }
        q += text[i] == text[q];
        a->fall[i + 1] = q;
    }
    return true;
}

/* Takes one byte; whether the stop string ends with it. The state stays that of a proper prefix. */
static bool automaton_take(struct automaton *a, char c)
{
    while (a->q > 0 && a->text[a->q] != c) {
        a->q = a->fall[a->q];
    }
    a->q += a->text[a->q] == c;
    if (a->q < a->len) {
        return false;
    }
    a->q = a->fall[a->len];
    return true;
}

bool stop_new(struct stop **out, const char *const *stops, size_t n, struct engine_error *err)
{
    return stop_new_sized(out, stops, NULL, n, err);
}

bool stop_new_sized(struct stop **out, const char *const *stops, const size_t *lens, size_t n,
                    struct engine_error *err)
{
    struct stop *s = calloc(1, sizeof *s);
    if (!s) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the stop strings");
    }
    s->matched = -1;
    s->stops = calloc(n ? n : 1, sizeof *s->stops);
    if (!s->stops) {
        stop_free(s);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the stop strings");
    }
    for (; s->n_stops < n; s->n_stops++) {
        const char *text = stops[s->n_stops];
        size_t len = lens ? lens[s->n_stops] : strlen(text);
        if (!automaton_init(&s->stops[s->n_stops], text, len, err)) {
            s->n_stops++; /* what it has allocated is freed too */
            stop_free(s);
            return false;
        }
    }
    *out = s;
    return true;
}

void stop_free(struct stop *s)
{
    if (!s) {
        return;
    }
    for (size_t i = 0; i < s->n_stops; i++) {
        free(s->stops[i].text);
        free(s->stops[i].fall);
    }
    free(s->stops);
    free(s->out);
    free(s);
}

void stop_reset(struct stop *s)
{
    for (size_t i = 0; i < s->n_stops; i++) {
        s->stops[i].q = 0;
    }
    s->utf8 = (struct utf8){.n_waiting = 0};
    s->n_released = s->held_at = s->n_held = 0;
    s->matched = -1;
    s->is_ended = false;
}

/* Moves the held text to the front and makes room for n new bytes, decoded, and a NUL. */
static bool make_room(struct stop *s, size_t n, struct engine_error *err)
{
    if (n > SIZE_MAX / 8) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the text of an answer");
    }
    size_t need = s->n_held + UTF8_OUT_MAX(n) + 2;
    if (need > s->cap || !s->out) {
        size_t cap = need > 2 * s->cap ? need : 2 * s->cap;
        cap = cap < 256 ? 256 : cap;
        /* Not realloc: the released text in front of what is held need not be copied. */
        char *p = malloc(cap);
        if (!p) {
            return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the text of an answer");
        }
        if (s->n_held > 0) {
            memcpy(p, s->out + s->held_at, s->n_held);
        }
        free(s->out);
        s->out = p;
        s->cap = cap;
    } else {
        memmove(s->out, s->out + s->held_at, s->n_held);
    }
    s->held_at = 0;
    return true;
}

/* Runs the automata over the n new bytes behind the held ones. Returns where the earliest match
 * begins, or SIZE_MAX. */
static size_t search(struct stop *s, size_t n, bool may_match)
{
    size_t earliest = SIZE_MAX;
    for (size_t i = s->n_held; i < s->n_held + n; i++) {
        for (size_t j = 0; j < s->n_stops; j++) {
            struct automaton *a = &s->stops[j];
            if (!automaton_take(a, s->out[i]) || !may_match) {
                continue;
            }
            assert(i + 1 >= a->len);
            size_t start = i + 1 - a->len;
            if (start < earliest || (start == earliest && (int)j < s->matched)) {
                earliest = start;
                s->matched = (int)j;
            }
        }
    }
    return earliest;
}

/* Decides over out[0 .. n_held + n): cuts at a match, else holds back what a match may still need.
 */
static void absorb(struct stop *s, size_t n, bool may_match, bool is_last)
{
    size_t start = search(s, n, may_match);
    size_t total = s->n_held + n;
    size_t hold = 0;
    if (start != SIZE_MAX || is_last) {
        s->is_ended = true;
    } else {
        for (size_t j = 0; j < s->n_stops; j++) {
            hold = s->stops[j].q > hold ? s->stops[j].q : hold;
        }
        assert(hold <= total);
    }
    s->n_released = start != SIZE_MAX ? start : total - hold;
    s->n_held = hold;
    s->held_at = s->n_released + 1;
    memmove(s->out + s->held_at, s->out + s->n_released, hold);
    s->out[s->n_released] = '\0';
}

static void report(const struct stop *s, const char **text, size_t *len, int *matched)
{
    *text = s->out;
    *len = s->n_released;
    *matched = s->matched;
}

static void report_nothing(const struct stop *s, const char **text, size_t *len, int *matched)
{
    *text = "";
    *len = 0;
    *matched = s->matched;
}

bool stop_push(struct stop *s, const char *bytes, size_t n, bool may_match, const char **text,
               size_t *len, int *matched, struct engine_error *err)
{
    if (s->is_ended) {
        report_nothing(s, text, len, matched);
        return true;
    }
    if (!make_room(s, n, err)) {
        return false;
    }
    size_t n_new = utf8_feed(&s->utf8, bytes, n, s->out + s->n_held);
    absorb(s, n_new, may_match, false);
    report(s, text, len, matched);
    return true;
}

bool stop_finish(struct stop *s, const char **text, size_t *len, int *matched,
                 struct engine_error *err)
{
    if (s->is_ended) {
        report_nothing(s, text, len, matched);
        return true;
    }
    if (!make_room(s, 0, err)) {
        return false;
    }
    size_t n_new = utf8_finish(&s->utf8, s->out + s->n_held);
    absorb(s, n_new, true, true);
    report(s, text, len, matched);
    return true;
}
