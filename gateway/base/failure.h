/* failure.h - what a client is told when something went wrong, and the only place that turns
 * library errors into HTTP.
 *
 * By value, no allocation, the first one wins. Body: {"error":{"message","type","param","code"}}.
 */
#ifndef ISOTHERM_FAILURE_H
#define ISOTHERM_FAILURE_H

#include "catalog/catalog.h"
#include "local-engine/engine_error.h"
#include <stdbool.h>

struct failure {
    int status;     /* HTTP status; 0: nothing failed */
    char type[40];  /* "invalid_request_error", "rate_limit_error", "upstream_error", "server_error"
                     */
    char code[48];  /* stable word, or "" for null */
    char param[64]; /* or "" for null */
    char message[512];
    int retry_after_s; /* 0: none */
};

/* First wins; f may be NULL. type follows from status. What is too long is cut, at a character.
 * Always returns false. */
bool failure_set(struct failure *f, int status, const char *code, const char *param,
                 const char *fmt, ...) __attribute__((format(printf, 5, 6)));
bool failure_from_catalog(struct failure *f, const struct catalog_error *e);
bool failure_from_engine(struct failure *f, const struct engine_error *e);
/* The same from an engine's error frame. */
bool failure_from_engine_words(struct failure *f, const char *code, const char *param,
                               const char *text);

#endif
