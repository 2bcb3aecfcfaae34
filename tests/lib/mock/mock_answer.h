/* mock_answer.h - what is answered: the same words for everybody, fitted to what was asked. Pure
 * and without chance: the same wish and script give the same answer.
 */
#ifndef ISOTHERM_MOCK_ANSWER_H
#define ISOTHERM_MOCK_ANSWER_H

#include "mock_script.h"

/* An answer and what it points to. Release it. */
struct mock_made {
    struct mock_answer a;
    char *text[MOCK_WORDS_MAX + MOCK_CALLS_MAX + 1];
    size_t n_texts;
};

/* `r` and the wish's body must live as long as `out`. `number` goes into the ids; 0: "scripted"
 * alone. */
void mock_answer_make(const struct mock_request *r, const struct mock_dialect *d,
                      const struct mock_wish *w, const struct mock_script *s, uint64_t number,
                      struct mock_made *out);
void mock_answer_release(struct mock_made *m);

#endif
