/* refusal_param.c - see refusal_param.h. */
#include "refusal_param.h"

#include <ctype.h>
#include <string.h>

#define NAME_MAX_BYTES 64 /* longer ones are no parameter's */

enum fit { FIT_NONE, FIT_INSIDE, FIT_SPELLING, FIT_EXACT };

/* "maxOutputTokens" -> "max_output_tokens", as some providers name in their errors what they read
 * from the other; false: too long for a name. */
static bool snake_case(const char *name, char out[NAME_MAX_BYTES])
{
    size_t n = 0;
    for (const char *p = name; *p; p++) {
        bool begins = isupper((unsigned char)*p) && p > name &&
                      (islower((unsigned char)p[-1]) || isdigit((unsigned char)p[-1]));
        if (n + 3 > NAME_MAX_BYTES) {
            return false;
        }
        if (begins) {
            out[n++] = '_';
        }
        out[n++] = (char)tolower((unsigned char)*p);
    }
    out[n] = '\0';
    return true;
}

/* `name` begins with `whole`, and there ends or goes on inside of it. */
static enum fit fit_of(const char *name, const char *whole)
{
    size_t n = strlen(whole);
    if (strncmp(name, whole, n) != 0) {
        return FIT_NONE;
    }
    return name[n] == '\0'                    ? FIT_SPELLING
           : name[n] == '.' || name[n] == '[' ? FIT_INSIDE
                                              : FIT_NONE;
}

static enum fit fit_of_wire(const char *name, const char *wire)
{
    char of_wire[NAME_MAX_BYTES], of_name[NAME_MAX_BYTES];
    if (strcmp(name, wire) == 0) {
        return FIT_EXACT;
    }
    if (!snake_case(wire, of_wire) || !snake_case(name, of_name)) {
        return FIT_NONE;
    }
    const char *dot = strrchr(of_wire, '.');
    enum fit whole = fit_of(of_name, of_wire), leaf = dot ? fit_of(of_name, dot + 1) : FIT_NONE;
    return whole > leaf ? whole : leaf;
}

enum param refusal_param(const char *name, const struct sampling *send,
                         const char *const wire[PARAM_COUNT], bool *is_inside)
{
    enum param found = PARAM_COUNT;
    enum fit best = FIT_NONE;
    for (unsigned i = 0; name[0] && i < PARAM_COUNT; i++) {
        if (!sampling_has(send, (enum param)i)) {
            continue;
        }
        enum fit own = fit_of_wire(name, sampling_table[i].name);
        enum fit there = wire[i] ? fit_of_wire(name, wire[i]) : FIT_NONE;
        enum fit fit = own > there ? own : there;
        if (fit > best) {
            best = fit;
            found = (enum param)i;
        }
    }
    if (is_inside) {
        *is_inside = best == FIT_INSIDE;
    }
    return found;
}
