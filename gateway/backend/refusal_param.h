/* refusal_param.h - which parameter of a request an upstream's error names. Pure. */
#ifndef ISOTHERM_REFUSAL_PARAM_H
#define ISOTHERM_REFUSAL_PARAM_H

#include "catalog/sampling.h"
#include <stdbool.h>

/* The parameter in `send` that `name` is: its canonical or wire name, or the last part of that, as
 * "maxOutputTokens" or as "max_output_tokens", whatever the request had. Who has the very name
 * comes before who has it in another spelling. PARAM_COUNT: none. is_inside (may be NULL): the name
 * is of something within it ("stop[0]", "response_format.json_schema.name" of "response_format"),
 * which only counts where nothing else has it. */
enum param refusal_param(const char *name, const struct sampling *send,
                         const char *const wire[PARAM_COUNT], bool *is_inside);

#endif
