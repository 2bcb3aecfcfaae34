/* constrain_schema.h - JSON schema -> a rule of a grammar whose texts are documents that the schema
 * allows.
 *
 * Every text is valid; not every valid document is a text. What is left out, so that the answer is
 * reproducible and no reader stumbles:
 *  - properties come in the order of `properties` (of allOf: one schema after the other), then
 *    those that only `required` or a list of propertyNames names, then others;
 *  - others come only where additionalProperties or patternProperties speak of them, or nothing
 *    speaks of properties at all; their names are not checked against each other;
 *  - a schema without `type` means the type that its keywords are about;
 *  - integers without bounds are from -(2^53 - 1) to 2^53 - 1, other numbers have at most 15
 *    digits on either side of the point and an exponent of two digits, those with bounds 15
 *    digits and none; numbers with multipleOf are integers;
 *  - strings with conditions, and values of enum and const, are written the shortest way, values
 *    with no white space inside;
 *  - formats have rare spellings that are left out: constrain_format.c;
 *  - white space: none, one space, or one or two line feeds and at most 20 spaces and tabs, and
 *    only behind { [ : , and before } ].
 *
 * oneOf is taken where its branches cannot share a document as far as is looked at: by type,
 * values, bounds, lengths, or a required property for which this holds.
 *
 * A keyword that is not honoured is an error with its JSON pointer: none is ignored. So is a
 * format, unless JSON schema knows no such format: then it is an annotation.
 */
#ifndef ISOTHERM_CONSTRAIN_SCHEMA_H
#define ISOTHERM_CONSTRAIN_SCHEMA_H

#include "grammar.h"
#include <jansson.h>

/* The rule of a schema, which is any JSON value from outside. `param` names the parameter in
 * errors. The grammar is not finished. */
ENGINE_WARN_UNUSED bool constrain_schema(struct grammar *g, const json_t *schema, const char *param,
                                         uint32_t *rule, struct engine_error *err);
/* Texts in which the pattern, of the name `param`, is all of the text (^ and $ are not needed); and
 * the texts of a list of strings. Raw, not as JSON. */
ENGINE_WARN_UNUSED bool constrain_regex(struct grammar *g, const json_t *pattern, const char *param,
                                        uint32_t *rule, struct engine_error *err);
ENGINE_WARN_UNUSED bool constrain_choice(struct grammar *g, const json_t *list, const char *param,
                                         uint32_t *rule, struct engine_error *err);

#endif
