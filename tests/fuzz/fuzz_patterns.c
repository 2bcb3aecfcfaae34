/* fuzz_patterns.c - whether two expressions take one model. Two ways through the same bytes:
 *
 *  - as they are, split at the first newline: no crash, bounded time, and a model that is found is
 *    taken by both, as regexec() says;
 *  - as a row of pieces of expressions, so that most are expressions: besides, where one of all
 *    strings of up to four of "ab-" is taken by both, one must be found. */
#include "catalog/check.h"

#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool compile(regex_t *re, const char *text)
{
    return regcomp(re, text, REG_EXTENDED | REG_NOSUB) == 0;
}

static bool takes(const char *text, const char *model)
{
    regex_t re;
    if (strcmp(text, "*") == 0) {
        return true;
    }
    if (!compile(&re, text)) {
        abort();
    }
    bool ok = regexec(&re, model, 0, NULL, 0) == 0;
    regfree(&re);
    return ok;
}

/* Whether one was found; what was found must be right. */
static bool look(const char *a, const char *b)
{
    char model[256];
    memset(model, 'x', sizeof model);
    if (!check_common_model(a, b, model, sizeof model)) {
        return false;
    }
    if (!memchr(model, 0, sizeof model) || !*model || !takes(a, model) || !takes(b, model)) {
        abort();
    }
    return true;
}

static bool have_a_short_one(const char *a, const char *b)
{
    static const char letters[] = "ab-";
    regex_t x, y;
    bool is_found = false;
    if (!compile(&x, a)) {
        return false;
    }
    if (!compile(&y, b)) {
        regfree(&x);
        return false;
    }
    for (int len = 1, n = 3; len <= 4 && !is_found; len++, n *= 3) {
        for (int i = 0; i < n && !is_found; i++) {
            char s[5] = "";
            for (int k = 0, rest = i; k < len; k++, rest /= 3) {
                s[k] = letters[rest % 3];
            }
            is_found = regexec(&x, s, 0, NULL, 0) == 0 && regexec(&y, s, 0, NULL, 0) == 0;
        }
    }
    regfree(&x);
    regfree(&y);
    return is_found;
}

/* At most two counts: counts of counts are soon too large to be told. "^" and "$" only where the
 * whole begins and ends: inside of one libc's reading is its own. */
static void spell(const uint8_t *data, size_t size, char *out, size_t cap)
{
    static const char *const pieces[] = {"a", "b",     "-",     "[ab]",  "[^a]",  ".",   "?",
                                         "*", "+",     "{2}",   "{1,2}", "{0,1}", "(",   ")",
                                         "|", "(a|b)", "(-a)?", "[a-b]", ".*",    "(b|)"};
    size_t n = 0, n_counts = 0, n_repeats = 0;
    out[0] = '\0';
    if (size && data[0] % 2) {
        n += (size_t)snprintf(out + n, cap - n, "^(");
    }
    for (size_t i = 1; i < size && i < 14; i++) {
        const char *piece = pieces[data[i] % (sizeof pieces / sizeof pieces[0])];
        n_counts += piece[0] == '{';
        n_repeats += strpbrk(piece, "*+?{|") != NULL; /* libc closes over them one in the other */
        if ((piece[0] != '{' || n_counts <= 2) && (n_repeats <= 3 || !strpbrk(piece, "*+?{|"))) {
            n += (size_t)snprintf(out + n, cap - n, "%s", piece);
        }
    }
    if (size && data[0] % 2) {
        (void)snprintf(out + n, cap - n, data[0] % 4 == 3 ? ")$" : ")");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char a[256], b[256];
    const uint8_t *newline = memchr(data, '\n', size);
    if (size > 500 || !newline) {
        return 0;
    }
    size_t n = (size_t)(newline - data), m = size - n - 1;
    if (n >= sizeof a || m >= sizeof b) {
        return 0;
    }
    /* libc takes very long over nested counts and doubled stars: not what is tried here. */
    size_t n_repeats = 0;
    for (size_t i = 0; i < size; i++) {
        n_repeats += memchr("*+?", data[i], 3) != NULL;
    }
    if (!memchr(data, '{', size) && n_repeats <= 4) {
        memcpy(a, data, n);
        a[n] = '\0';
        memcpy(b, newline + 1, m);
        b[m] = '\0';
        (void)look(a, b);
    }
    spell(data, n, a, sizeof a);
    spell(newline + 1, m, b, sizeof b);
    if (have_a_short_one(a, b) && !look(a, b)) {
        (void)fprintf(stderr, "not found: %s and %s\n", a, b);
        abort();
    }
    return 0;
}
