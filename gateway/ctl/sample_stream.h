/* sample_stream.h - operations of `isothermctl sample` on random numbers and on text; see
 * sample_ops.h. */
#ifndef ISOTHERM_CTL_SAMPLE_STREAM_H
#define ISOTHERM_CTL_SAMPLE_STREAM_H

#include "local-engine/engine_error.h"

#include <jansson.h>

/* Each takes the operation's "in" and gives its "out"; NULL: refused (err names it), or out of
 * memory. */
json_t *sample_stream_pcg64(const json_t *in, struct engine_error *err);
json_t *sample_stream_text(const json_t *in, struct engine_error *err);
json_t *sample_stream_bytes(const json_t *in, struct engine_error *err);

#endif
