/* stop.h - from tokens' bytes to text that may be shown: UTF-8 across tokens, stop strings with
 * hold-back.
 *
 * Bytes first pass an incremental UTF-8 decoder (an incomplete sequence waits; an invalid one
 * becomes U+FFFD, one for each maximal subpart), then the stop search: the EARLIEST occurrence of
 * any stop string cuts the text; otherwise everything is released except the longest suffix that is
 * a proper prefix of some stop string. The stop string never reaches the user, nor half a
 * character. Sampling semantics, section 7.
 */
#ifndef ISOTHERM_STOP_H
#define ISOTHERM_STOP_H

#include "engine_error.h"
#include <stddef.h>

struct stop;
/* stops: n UTF-8 strings, copied; an empty one is refused. */
ENGINE_WARN_UNUSED bool stop_new(struct stop **out, const char *const *stops, size_t n,
                                 struct engine_error *err);
/* The same for strings that may hold a NUL: lens [n] are their bytes. */
ENGINE_WARN_UNUSED bool stop_new_sized(struct stop **out, const char *const *stops,
                                       const size_t *lens, size_t n, struct engine_error *err);
void stop_free(struct stop *s);
/* As if nothing had been pushed yet. */
void stop_reset(struct stop *s);

/* Adds bytes; `*text` (borrowed until the next call, NUL-terminated, `*len` bytes) is what may be
 * shown now. `may_match` false: the text is remembered but cannot end the answer (min_tokens not
 * reached); a match must END after the text of such calls. *matched: index of the stop string, or
 * -1. After a match every further call releases nothing and reports the same match. */
ENGINE_WARN_UNUSED bool stop_push(struct stop *s, const char *bytes, size_t n, bool may_match,
                                  const char **text, size_t *len, int *matched,
                                  struct engine_error *err);
/* The end without a stop: what is held is released; an incomplete character becomes one U+FFFD and
 * may still complete a match. */
ENGINE_WARN_UNUSED bool stop_finish(struct stop *s, const char **text, size_t *len, int *matched,
                                    struct engine_error *err);

#endif
