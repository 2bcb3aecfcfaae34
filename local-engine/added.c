/* added.c - the texts are sorted; at each position whose byte begins one, the range of candidates
 * is narrowed byte by byte. That costs at most ADDED_TEXT_MAX steps a position, and no automaton
 * has to be built for what is mostly a handful of tokens.
 */
#include "added.h"

#include "codepoint.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void added_release(struct added *a)
{
    if (a) {
        for (size_t i = 0; i < a->n_tokens; i++) {
            free(a->tokens[i].text);
        }
        free(a->tokens);
        *a = (struct added){0};
    }
}

bool added_add(struct added *a, const char *text, size_t len, const struct added_token *flags)
{
    if (a->n_tokens == a->tokens_cap) {
        size_t cap = a->tokens_cap ? 2 * a->tokens_cap : 16;
        struct added_token *p = realloc(a->tokens, cap * sizeof *p);
        if (!p) {
            return false;
        }
        a->tokens = p;
        a->tokens_cap = cap;
    }
    struct added_token t = *flags;
    t.text = malloc(len);
    t.len = len;
    if (!t.text) {
        return false;
    }
    memcpy(t.text, text, len);
    a->tokens[a->n_tokens++] = t;
    a->is_first_byte[(unsigned char)text[0]] = true;
    return true;
}

static int compare(const void *x, const void *y)
{
    const struct added_token *a = x, *b = y;
    int d = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);
    return d ? d : (a->len > b->len) - (a->len < b->len);
}

void added_sort(struct added *a)
{
    if (a->n_tokens > 1) {
        qsort(a->tokens, a->n_tokens, sizeof *a->tokens, compare);
    }
}

/* First index in [lo, hi) whose byte k is above `c` (or not below it); all of them are longer than
 * k but perhaps the first. */
static size_t bound(const struct added *a, size_t lo, size_t hi, size_t k, int c)
{
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int b = a->tokens[mid].len > k ? (unsigned char)a->tokens[mid].text[k] : -1;
        if (b < c) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

/* The longest token that s begins with, or NULL. */
static const struct added_token *longest_at(const struct added *a, const char *s, size_t len)
{
    size_t lo = 0, hi = a->n_tokens;
    const struct added_token *best = NULL;
    for (size_t k = 0; k < len && lo < hi; k++) {
        int c = (unsigned char)s[k];
        lo = bound(a, lo, hi, k, c);
        hi = bound(a, lo, hi, k, c + 1);
        if (lo < hi && a->tokens[lo].len == k + 1) {
            best = &a->tokens[lo];
        }
    }
    return best;
}

static bool is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == 0x85 ||
           (utf8proc_category((utf8proc_int32_t)cp) >= UTF8PROC_CATEGORY_ZS &&
            utf8proc_category((utf8proc_int32_t)cp) <= UTF8PROC_CATEGORY_ZP);
}

static bool is_word(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NO) || c == UTF8PROC_CATEGORY_PC;
}

/* The character that ends at s + at; its length, 0: none. */
static size_t read_back(const char *s, size_t at, uint32_t *cp)
{
    for (size_t n = 1; n <= 4 && n <= at; n++) {
        if (codepoint_read(s + at - n, n, cp) == n) {
            return n;
        }
    }
    return 0;
}

static bool touches_word(const char *s, size_t len, size_t from, size_t to)
{
    uint32_t cp;
    return (read_back(s, from, &cp) > 0 && is_word(cp)) ||
           (codepoint_read(s + to, len - to, &cp) > 0 && is_word(cp));
}

/* Takes white space along; never before `at`, where the last match ended. */
static void widen(const struct added_token *t, const char *s, size_t len, size_t at,
                  struct added_match *m)
{
    uint32_t cp;
    size_t n;
    while (t->lstrip && m->from > at && (n = read_back(s + at, m->from - at, &cp)) > 0 &&
           is_space(cp)) {
        m->from -= n;
    }
    while (t->rstrip && (n = codepoint_read(s + m->to, len - m->to, &cp)) > 0 && is_space(cp)) {
        m->to += n;
    }
}

bool added_find(const struct added *a, const char *s, size_t len, size_t at, struct added_match *m)
{
    if (a->n_tokens == 0) {
        return false;
    }
    for (size_t i = at; i < len; i++) {
        if (!a->is_first_byte[(unsigned char)s[i]]) {
            continue;
        }
        const struct added_token *t = longest_at(a, s + i, len - i);
        if (!t) {
            continue;
        }
        if (t->single_word && touches_word(s, len, i, i + t->len)) {
            i += t->len - 1; /* the library, too, goes on behind a match that it does not take */
            continue;
        }
        *m = (struct added_match){i, i + t->len, t->id};
        widen(t, s, len, at, m);
        return true;
    }
    return false;
}
