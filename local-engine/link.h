/* link.h - contract 2 of the local engine: frames between the daemon and isotherm-engine. Both
 * directions, pure. What `params` mean is link_params.h.
 *
 * A frame is 4 bytes of little-endian length and that many bytes of JSON: one object, UTF-8, at
 * most LINK_FRAME_MAX. Which fields an op has:
 *
 * To the engine
 *  - generate: id, model, one of prompt (a text or token ids) and messages [{role, content}],
 *    params {canonical names: temperature ... echo}; seed is always there
 *  - distribution: as generate, and top (how many tokens), generated (a text or token ids after the
 *    prompt that count as said by the model); answered by begin, one distribution and done
 *  - cancel: id; answered by nothing, no frame of that id follows
 *  - tokenize: id, model, text
 *  - detokenize: id, model, ids; answered by one text frame and done
 *
 * From the engine
 *  - ready: engine (its version), models [{id, state, family, context, vocab, params, bytes (of the
 *    files), memory (when loaded), dtype}], refused [{id, error}]
 *  - state: model, state ("unloaded", "loading", "loaded", "failed"), error (null where there is
 *    none), identity and hash of the weights (known.h) once it is loaded; whenever it changes
 *  - begin: id, prompt_tokens, fingerprint
 *  - text: id, choice, text; with logprobs also tokens [{token, logprob, bytes, top [...]}]; with
 *    echo the first ones hold the prompt, whose first token has the logprob null
 *  - finish: id, choice, reason ("stop" or "length"), stop (the matched string or null), tokens
 *  - distribution: id, and what distribution_json.h says
 *  - tokens: id, ids, pieces; of tokenize, without bos
 *  - done: id, prompt_tokens, completion_tokens, fingerprint; 0 where nothing was generated
 *  - error: id, code (a word of engine_code_name()), param, text
 *
 * A text frame holds text of one choice; finish comes once a choice; done or error ends the id. A
 * token's "token" is its text with U+FFFD for what is no UTF-8, of a special token its spelling;
 * "bytes" are the bytes it adds to the text.
 */
#ifndef ISOTHERM_LINK_H
#define ISOTHERM_LINK_H

#include "engine_error.h"
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_FRAME_MAX (32u << 20) /* a whole request body and its escapes fit */

/* Splits a byte stream into frames. */
struct link_reader {
    char *buf;
    size_t len, cap, at; /* frames before `at` were given out */
};
void link_reader_init(struct link_reader *r);
void link_reader_release(struct link_reader *r);
/* Take the frames out before feeding more: what is not taken is kept. */
ENGINE_WARN_UNUSED bool link_reader_feed(struct link_reader *r, const char *bytes, size_t n,
                                         struct engine_error *err);
/* 1: *frame/len is a whole frame, borrowed until the next call; 0: more bytes are needed; -1: the
 * stream is broken (too long a frame). */
int link_reader_next(struct link_reader *r, const char **frame, size_t *len);

/* Header and text in one malloc'd buffer (free it); NULL: out of memory or too long. */
char *link_frame(const json_t *object, size_t *len);

/* Every parameter name that `params` may hold, NULL-terminated: a test compares it with the
 * daemon's table. */
extern const char *const link_param_names[];

#endif
