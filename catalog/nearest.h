/* nearest.h - of the words that are known, the one that somebody meant: for error texts. Pure. */
#ifndef ISOTHERM_CATALOG_NEAREST_H
#define ISOTHERM_CATALOG_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

#define NEAREST_WORD_MAX 64
struct nearest {
    const char *word;            /* what was said; borrowed */
    char best[NEAREST_WORD_MAX]; /* "": none is near */
    size_t distance;             /* edits from `word` to `best` */
    bool is_known;               /* `word` itself was offered */
};
void nearest_init(struct nearest *n, const char *word);
/* One known word. Near is what a third of its letters, and at least one, may differ in; a swap of
 * two neighbours is one edit; a word that begins with what was said, or has it between its dashes
 * or dots, is near too. */
void nearest_offer(struct nearest *n, const char *known);
/* "no provider 'opnai': did you mean 'openai'?", fit for one line on a terminal; returns `out`. */
#define NEAREST_TEXT_MAX 192
const char *nearest_text(const struct nearest *n, const char *what, char out[NEAREST_TEXT_MAX]);

#endif
