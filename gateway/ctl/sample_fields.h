/* sample_fields.h - fields of the operations of `isothermctl sample`: JSON to C and back.
 *
 * A field of the wrong type or out of range is refused with ENGINE_BAD_PARAM and its name; readers
 * that return a pointer return NULL then. A scalar field that is absent or null leaves *out as it
 * is.
 */
#ifndef ISOTHERM_CTL_SAMPLE_FIELDS_H
#define ISOTHERM_CTL_SAMPLE_FIELDS_H

#include "local-engine/sampler.h"

#include <jansson.h>

#define SAMPLE_LIST_MAX                                                                            \
    (1 << 22) /* logits in a row, and anything else in a list: fifteen times the largest           \
                 vocabulary in use */

/* Both return NULL, for readers to return. */
void *sample_refuse(struct engine_error *err, const char *field, const char *must);
void *sample_no_memory(struct engine_error *err);

/* A number, or "-inf", "inf", "nan", for which JSON has no number. */
ENGINE_WARN_UNUSED bool sample_number_of(const json_t *v, double *out);
json_t *sample_json_of(double d);

ENGINE_WARN_UNUSED bool sample_get_number(const json_t *in, const char *name, double *out,
                                          struct engine_error *err);
ENGINE_WARN_UNUSED bool sample_get_int(const json_t *in, const char *name, int64_t *out,
                                       struct engine_error *err);
/* An integer, or its decimal digits in a string, as many JSON readers lose digits beyond 2^53. */
ENGINE_WARN_UNUSED bool sample_get_seed(const json_t *in, const char *name, int64_t *out,
                                        struct engine_error *err);
const json_t *sample_get_array(const json_t *in, const char *name, size_t n_max,
                               struct engine_error *err);
/* All numbers of a list; yours to free. */
double *sample_numbers_of(const json_t *list, const char *name, struct engine_error *err);
/* Ids in 0 .. n_vocab - 1; yours to free. A list that is absent is empty. */
int32_t *sample_get_ids(const json_t *in, const char *name, int32_t n_vocab, size_t *n,
                        struct engine_error *err);
/* The canonical parameters among the fields of `in`, checked against the vocabulary. Release the
 * configuration in any case. */
ENGINE_WARN_UNUSED bool sample_get_config(const json_t *in, int32_t n_vocab,
                                          struct sampler_config *c, struct engine_error *err);

#endif
