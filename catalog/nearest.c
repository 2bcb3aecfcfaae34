/* nearest.c - see nearest.h: edit distance with swaps, three rows of its table at a time. */
#include "nearest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool is_swap(const char *a, const char *b, size_t i, size_t j)
{
    return i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
}

static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t rows[3][NEAREST_WORD_MAX + 1];
    for (size_t j = 0; j <= n_b; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= n_a; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            row[j] = least(least(above[j] + 1, row[j - 1] + 1),
                           above[j - 1] + (tolower((unsigned char)a[i - 1]) !=
                                           tolower((unsigned char)b[j - 1])));
            if (is_swap(a, b, i, j)) {
                row[j] = least(row[j], before[j - 2] + 1);
            }
        }
    }
    return rows[n_a % 3][n_b];
}

void nearest_init(struct nearest *n, const char *word)
{
    *n = (struct nearest){.word = word, .distance = (size_t)-1};
}

/* "bedrock" in "aws-bedrock". */
static bool is_part(const char *word, size_t n, const char *known)
{
    for (const char *at = strstr(known, word); at; at = strstr(at + 1, word)) {
        if ((at == known || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[n])) {
            return true;
        }
    }
    return false;
}

void nearest_offer(struct nearest *n, const char *known)
{
    size_t n_word = strlen(n->word), n_known = strlen(known);
    if (strcmp(n->word, known) == 0) {
        n->is_known = true;
    }
    if (n_word == 0 || n_word >= NEAREST_WORD_MAX || n_known >= NEAREST_WORD_MAX) {
        return;
    }
    size_t d = distance(n->word, n_word, known, n_known);
    bool is_in =
        n_word >= 3 && (strncmp(n->word, known, n_word) == 0 || is_part(n->word, n_word, known));
    size_t allowed = n_known / 3 ? n_known / 3 : 1;
    if ((d <= allowed || is_in) && d < n->distance) {
        n->distance = d;
        memcpy(n->best, known, n_known + 1);
    }
}

/* What was given came from outside: nothing but printable ASCII, and no more than a name has. */
static void printable(const char *in, char *out, size_t cap)
{
    size_t n = 0;
    for (; *in && n + 1 < cap; in++) {
        bool is_plain = (unsigned char)*in >= ' ' && (unsigned char)*in < 0x7f;
        out[n++] = is_plain ? *in : '?';
    }
    out[n] = '\0';
}

const char *nearest_text(const struct nearest *n, const char *what, char out[NEAREST_TEXT_MAX])
{
    char word[NEAREST_WORD_MAX];
    printable(n->word, word, sizeof word);
    (void)snprintf(out, NEAREST_TEXT_MAX,
                   n->best[0] ? "no %s '%s': did you mean '%s'?" : "no %s '%s'%s", what, word,
                   n->best);
    return out;
}
