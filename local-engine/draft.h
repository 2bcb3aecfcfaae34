/* draft.h - a smaller model of the same vocabulary that guesses how sequences of a larger one go
 * on. What speculate.h says of guesses holds: they change no answer, and what goes wrong in a
 * running sequence only ends its guesses.
 *
 * A guess is the draft's most likely token, computed with a cache of its own for each sequence. How
 * many there are follows how many were right; a sequence in which they are seldom right gets few
 * and at long intervals.
 */
#ifndef ISOTHERM_DRAFT_H
#define ISOTHERM_DRAFT_H

#include "engine_error.h"

#include <stddef.h>
#include <stdint.h>

#define DRAFT_GUESSES_MAX 8 /* at once */

struct draft;
struct draft_sequence;
struct tokenizer;

/* `path`: a folder or a .gguf file. Mapped and loaded as the engine it is for, see engine_map(). */
ENGINE_WARN_UNUSED bool draft_map(struct draft **out, const char *path, struct engine_error *err);
void draft_close(struct draft *d);
/* Refused where its tokens are not those of `t`, one by one. Opens nothing. */
ENGINE_WARN_UNUSED bool draft_load(struct draft *d, const struct tokenizer *t, int n_threads,
                                   struct engine_error *err);
void draft_unload(struct draft *d);         /* no sequences are left; NULL allowed */
void draft_need(const struct draft *d);     /* weights_need() of its weights */
int64_t draft_bytes(const struct draft *d); /* of its weights' files */

/* For a sequence of at most n_tokens_max tokens; NULL: no memory. Borrows d. */
struct draft_sequence *draft_sequence_new(struct draft *d, int32_t n_tokens_max);
void draft_sequence_free(struct draft_sequence *s);
/* Guesses what follows tokens [n]: the ones of the call before, with what has come since (at least
 * one). At most n_max and DRAFT_GUESSES_MAX. A long prompt is read in parts, one a call: there are
 * no guesses until then. */
size_t draft_guess(struct draft_sequence *s, const int32_t *tokens, size_t n, int32_t *out,
                   size_t n_max);

#endif
