/* pattern.h - the `models` of a claim: "*", or a POSIX extended regular expression on the
 * provider's own model id. It comes from outside (a source, an import, a database that anybody may
 * have written) and is compiled where a daemon waits, so what it may cost has a limit.
 */
#ifndef ISOTHERM_CATALOG_PATTERN_H
#define ISOTHERM_CATALOG_PATTERN_H

#include "catalog.h"

#include <regex.h>

#define PATTERN_LEN_MAX 256 /* bytes; the longest today has 124 */
/* Pieces when every repetition is written out; the largest today has some 110. libc compiles this
 * many in a few milliseconds. */
#define PATTERN_SIZE_MAX 1000
/* A longer id is no model's name; it would only feed the expressions. */
#define PATTERN_MODEL_MAX 256

struct pattern {
    bool takes_all; /* "*" */
    regex_t re;     /* else; regexec() on it is safe from several threads */
};

/* CATALOG_BAD_SOURCE: the text says what is wrong with it ("repeats too much ..."), for a sentence
 * that begins with the name of the field. */
CATALOG_WARN_UNUSED bool pattern_init(struct pattern *p, const char *text,
                                      struct catalog_error *err);
void pattern_release(struct pattern *p);
bool pattern_takes(const struct pattern *p, const char *model);

/* The three in one, for who asks once. */
CATALOG_WARN_UNUSED bool pattern_ask(const char *text, const char *model, bool *takes,
                                     struct catalog_error *err);

#endif
