/* engine_error.c - the words are part of the contract with the daemon (link.h, "code"): never
 * change one, add new ones. */
#include "engine_error.h"

#include <stdarg.h>
#include <stdio.h>

bool engine_fail(struct engine_error *err, enum engine_code code, const char *param,
                 const char *fmt, ...)
{
    if (!err || err->code != ENGINE_OK) {
        return false;
    }
    err->code = code;
    (void)snprintf(err->param, sizeof err->param, "%s", param ? param : ""); /* names are short */
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err->text, sizeof err->text, fmt, ap); /* a long file name may be cut */
    va_end(ap);
    for (char *c = err->text; *c; c++) { /* words of a file may be in it: one line all the same */
        *c = (unsigned char)*c < ' ' || *c == '\x7f' ? '?' : *c;
    }
    return false;
}

const char *engine_code_name(enum engine_code code)
{
    switch (code) {
    case ENGINE_OK:
        return "ok";
    case ENGINE_NOMEM:
        return "out_of_memory";
    case ENGINE_IO:
        return "io_error";
    case ENGINE_BAD_FILE:
        return "invalid_model";
    case ENGINE_BAD_PARAM:
        return "invalid_parameter";
    case ENGINE_CONTEXT_FULL:
        return "context_length_exceeded";
    case ENGINE_NO_CANDIDATE:
        return "no_candidate";
    case ENGINE_NONFINITE:
        return "nonfinite_logits";
    case ENGINE_BUSY:
        return "engine_busy";
    case ENGINE_CANCELLED:
        return "cancelled";
    case ENGINE_INTERNAL:
        break;
    }
    return "internal_error";
}
