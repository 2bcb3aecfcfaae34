/* normalize.c - each step reads one text and writes the next; a step that changes nothing costs no
 * memory where that is cheap to know. */
#include "normalize.h"

#include "codepoint.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* A text on its way; `owned` is what it lives in, NULL: the caller's. */
struct text {
    const char *s;
    size_t len;
    char *owned;
};

static void put_owned(struct text *t, char *s, size_t len)
{
    free(t->owned);
    *t = (struct text){s, len, s};
}

static bool fail_memory(struct engine_error *err)
{
    return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
}

static bool run_form(const struct normalize_step *step, struct text *t, struct engine_error *err)
{
    char *out;
    size_t len;
    if (!nfc_make(step->form, t->s, t->len, &out, &len, err)) {
        return false;
    }
    if (out) {
        put_owned(t, out, len);
    }
    return true;
}

static size_t put_lower(char *w, uint32_t cp)
{
    size_t n;
    if (cp == 0x130) {
        n = codepoint_write(w, 'i');
        return n + codepoint_write(w + n, 0x307);
    }
    return codepoint_write(w, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
}

static bool run_lowercase(struct text *t, struct engine_error *err)
{
    /* two bytes become three at most: U+0130, U+023A, U+023E */
    char *out = malloc(2 * t->len + 4), *w = out;
    uint32_t cp;
    if (!out) {
        return fail_memory(err);
    }
    for (size_t i = 0, n; i < t->len; i += n) {
        n = codepoint_read(t->s + i, t->len - i, &cp);
        if (n == 0) {
            n = 1;
            *w++ = t->s[i];
        } else {
            w += put_lower(w, cp);
        }
    }
    put_owned(t, out, (size_t)(w - out));
    return true;
}

/* Length of what is replaced at s, 0: nothing. */
static size_t match(const struct normalize_step *step, const char *s, size_t len)
{
    size_t n = 0;
    if (step->kind == NORMALIZE_REPLACE) {
        return len >= step->from_len && memcmp(s, step->from, step->from_len) == 0 ? step->from_len
                                                                                   : 0;
    }
    while (n < len && s[n] == ' ') {
        n++;
    }
    return n >= 2 ? n : 0;
}

static bool run_replace(const struct normalize_step *step, struct text *t, struct engine_error *err)
{
    size_t n_matches = 0, n;
    for (size_t i = 0; i<t->len; i += n> 0 ? n : 1) {
        n = match(step, t->s + i, t->len - i);
        n_matches += n > 0;
    }
    if (n_matches == 0) {
        return true;
    }
    if (step->to_len > 0 && n_matches > (SIZE_MAX / 2 - t->len) / step->to_len) {
        return fail_memory(err);
    }
    char *out = malloc(t->len + n_matches * step->to_len + 1), *w = out;
    if (!out) {
        return fail_memory(err);
    }
    for (size_t i = 0; i<t->len; i += n> 0 ? n : 1) {
        n = match(step, t->s + i, t->len - i);
        if (n > 0) {
            memcpy(w, step->to, step->to_len);
            w += step->to_len;
        } else {
            *w++ = t->s[i];
        }
    }
    put_owned(t, out, (size_t)(w - out));
    return true;
}

static bool is_space(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return (cp >= 9 && cp <= 13) || cp == 0x85 ||
           (c >= UTF8PROC_CATEGORY_ZS && c <= UTF8PROC_CATEGORY_ZP);
}

/* Length of the white space at the end of s, one character of it. */
static size_t last_space(const char *s, size_t len)
{
    uint32_t cp;
    for (size_t n = 1; n <= 3 && n <= len; n++) {
        if (codepoint_read(s + len - n, n, &cp) == n) {
            return is_space(cp) ? n : 0;
        }
    }
    return 0;
}

static void run_strip(const struct normalize_step *step, struct text *t)
{
    uint32_t cp;
    size_t n;
    while (step->at_left && (n = codepoint_read(t->s, t->len, &cp)) > 0 && is_space(cp)) {
        t->s += n;
        t->len -= n;
    }
    while (step->at_right && (n = last_space(t->s, t->len)) > 0) {
        t->len -= n;
    }
}

static bool run_step(const struct normalize_step *step, struct text *t, struct engine_error *err)
{
    switch (step->kind) {
    case NORMALIZE_FORM:
        return run_form(step, t, err);
    case NORMALIZE_LOWERCASE:
        return run_lowercase(t, err);
    case NORMALIZE_STRIP:
        run_strip(step, t);
        return true;
    default:
        return run_replace(step, t, err);
    }
}

bool normalize_run(const struct normalize *n, const char *s, size_t len, char **out,
                   size_t *out_len, struct engine_error *err)
{
    struct text t = {s, len, NULL};
    for (size_t i = 0; i < n->n_steps && t.len > 0; i++) {
        if (!run_step(&n->steps[i], &t, err)) {
            free(t.owned);
            return false;
        }
    }
    if (!t.owned && t.len != len) { /* stripped, nothing else */
        t.owned = malloc(t.len + 1);
        if (!t.owned) {
            return fail_memory(err);
        }
        memcpy(t.owned, t.s, t.len);
    } else if (t.owned && t.s != t.owned) {
        memmove(t.owned, t.s, t.len);
    }
    *out = t.owned;
    *out_len = t.len;
    return true;
}
