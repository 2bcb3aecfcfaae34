/* google_schema.h - JSON Schema -> what Gemini takes of it. Pure.
 *
 * Of what has no place there, remarks and bounds of single values (pattern, multipleOf ...) are
 * left out and told; what would change the structure (not, if, allOf of several ...) is refused.
 * The same meaning in other words is no change: const is an enum of one, definitions are $defs,
 * `additionalProperties: false` holds anyway where it cannot be written.
 */
#ifndef ISOTHERM_GOOGLE_SCHEMA_H
#define ISOTHERM_GOOGLE_SCHEMA_H

#include <jansson.h>

enum google_form {
    GOOGLE_JSON,   /* responseJsonSchema: JSON Schema with a limited list of keywords */
    GOOGLE_OPENAPI /* responseSchema: the OpenAPI subset, types in capitals, no references */
};
/* Both are keywords of the schema that was given, borrowed from it; NULL: none. */
struct google_report {
    const char *dropped; /* the first that was left out */
    const char *refused; /* the one that cannot be said */
};
/* New reference. NULL: refused, or memory (then report->refused is NULL). */
json_t *google_schema(const json_t *schema, enum google_form form, struct google_report *report);

#endif
