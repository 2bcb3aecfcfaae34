/* sample_ops.h - the sampler's stages as operations from JSON to JSON: what `isothermctl sample`
 * answers and the vectors test.
 *
 * Each operation calls the stage functions that sampler_next() calls, or sampler_next() itself;
 * none computes anything of its own. "-inf" is a string in both directions. The operations and
 * their fields are those of tests/vectors/{sampler,rng,stops}.jsonl.
 */
#ifndef ISOTHERM_CTL_SAMPLE_OPS_H
#define ISOTHERM_CTL_SAMPLE_OPS_H

#include <jansson.h>

/* The answer to {"id","op","in"}: what belongs under "out"; yours to json_decref. Refused input
 * gives {"error": name}: the parameter's or field's name, "no_candidate", "nonfinite_logits",
 * "unknown_op" ... NULL: out of memory. */
json_t *sample_ops_run(const json_t *line);

/* Name and one line of help of operation i, or NULL beyond the last. */
const char *sample_ops_name(size_t i);
const char *sample_ops_help(size_t i);

#endif
