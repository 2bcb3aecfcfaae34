/* refusal_codes.h - what providers mean by error words and numbers of their own. Pure.
 *
 * A row holds wherever its word stands, whoever said it: no two providers use one word for two
 * things. Numbers are only looked at where an error has no `type` beside them.
 */
#ifndef ISOTHERM_REFUSAL_CODES_H
#define ISOTHERM_REFUSAL_CODES_H

struct refusal_code {
    const char *word;
    int status;       /* the HTTP status that it stands for */
    const char *code; /* OpenAI's word for it, or "" */
};
const struct refusal_code *refusal_code_find(const char *word); /* NULL: nothing is known */

#endif
