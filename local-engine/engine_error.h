/* engine_error.h - the one error object of the local engine: by value, no allocation, the first
 * error wins. */
#ifndef ISOTHERM_ENGINE_ERROR_H
#define ISOTHERM_ENGINE_ERROR_H

#include <stdbool.h>

#define ENGINE_WARN_UNUSED __attribute__((warn_unused_result))

enum engine_code {
    ENGINE_OK,
    ENGINE_NOMEM,
    ENGINE_IO,           /* a file cannot be read */
    ENGINE_BAD_FILE,     /* a model or tokenizer file is damaged or of an unknown kind */
    ENGINE_BAD_PARAM,    /* `param` names it */
    ENGINE_CONTEXT_FULL, /* prompt longer than the context: context_length_exceeded */
    ENGINE_NO_CANDIDATE, /* bans and masks left no finite logit: no_candidate */
    ENGINE_NONFINITE,    /* NaN or +inf in the logits, or all -inf: nonfinite_logits */
    ENGINE_BUSY,         /* no room for one more session */
    ENGINE_CANCELLED,
    ENGINE_INTERNAL
};

struct engine_error {
    enum engine_code code;
    char param[64]; /* canonical parameter name, or "" */
    char text[384]; /* lower case, no full stop, says what to do */
};

/* First error wins; err may be NULL. Always returns false. */
bool engine_fail(struct engine_error *err, enum engine_code code, const char *param,
                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The stable word of a code: "context_length_exceeded", "nonfinite_logits", "no_candidate",
 * "invalid_model" ... */
const char *engine_code_name(enum engine_code code);

#endif
