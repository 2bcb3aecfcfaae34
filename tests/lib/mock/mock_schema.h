/* mock_schema.h - a JSON Schema (2020-12) validator for the keywords that published request schemas
 * use: type, enum, const, properties, required, additionalProperties, propertyNames, items, anyOf,
 * allOf, the limits of numbers, strings, lists and objects, pattern, $ref inside the document.
 *
 * oneOf is taken as anyOf: published schemas lose the discriminators of their OpenAPI form, and
 * without those several branches may hold at once. Annotations (title, default, format ...) are not
 * looked at. A keyword that it does not know is an error when the schema is made, not a silent yes.
 */
#ifndef ISOTHERM_MOCK_SCHEMA_H
#define ISOTHERM_MOCK_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct mock_schema;

/* Compiles once: references and patterns are resolved here, so that checking allocates nothing but
 * what a pattern needs. Keeps a reference to `json`, which may not change any more. NULL: `why`
 * says what is wrong with it. */
struct mock_schema *mock_schema_new(json_t *json, char *why, size_t cap)
    __attribute__((warn_unused_result));
void mock_schema_free(struct mock_schema *s);

/* Where a value breaks it, in the place that goes furthest into the value. */
struct mock_schema_fault {
    char path[128]; /* "messages.0.content", "" is the value itself */
    char text[160]; /* "is no string" */
};
/* fault may be NULL. */
bool mock_schema_check(const struct mock_schema *s, const json_t *value,
                       struct mock_schema_fault *fault);
#endif
