/* pushdown.h - reads bytes by a grammar: a state is the set of all places where a reader of the
 * text so far may be, each with the stack of what follows when its rule ends.
 *
 * States are made when they are first reached and have numbers; a state that was reached before is
 * a look-up in a table, as in a finite automaton. Stacks are shared: those who call one rule at one
 * place wait in one set, so that an ambiguous grammar does not double them at each level. Numbers
 * hold until pushdown_reset().
 */
#ifndef ISOTHERM_PUSHDOWN_H
#define ISOTHERM_PUSHDOWN_H

#include "grammar.h"

enum {
    PUSHDOWN_FAILED, /* instead of a state: out of memory, or the grammar is too ambiguous */
    PUSHDOWN_DEAD    /* no text begins so */
};

struct pushdown;
/* The grammar is finished and not empty; borrowed. */
ENGINE_WARN_UNUSED bool pushdown_new(struct pushdown **out, const struct grammar *g,
                                     struct engine_error *err);
void pushdown_free(struct pushdown *p);

/* The state after `n` bytes from the beginning, without keeping those between. */
uint32_t pushdown_replay(struct pushdown *p, const char *bytes, size_t n);
uint32_t pushdown_next(struct pushdown *p, uint32_t state, uint8_t byte);
/* The next states by the class of the byte (grammar.h), PUSHDOWN_FAILED where pushdown_next() was
 * not asked yet; they appear there as it is. Holds until pushdown_reset(). NULL: out of memory. */
const uint32_t *pushdown_row(struct pushdown *p, uint32_t state);
/* The text so far is a whole one; and nothing may follow it. */
bool pushdown_is_complete(const struct pushdown *p, uint32_t state);
bool pushdown_is_final(const struct pushdown *p, uint32_t state);
/* In how many places a reader may be: what a byte more costs. */
size_t pushdown_width(const struct pushdown *p, uint32_t state);

/* The state as it looks to a reader of at most n_bytes more who sees the uppermost `depth` levels
 * of the stacks; states that differ only beyond have the same. Where the reader came to the
 * unknown, pushdown_is_unknown() holds. The state itself where it is too large to be cut. */
uint32_t pushdown_cut(struct pushdown *p, uint32_t state, int depth, uint32_t n_bytes);
bool pushdown_is_unknown(const struct pushdown *p, uint32_t state);

size_t pushdown_n_states(const struct pushdown *p); /* numbers are below */
size_t pushdown_bytes(const struct pushdown *p);    /* memory in use, about */
/* Forgets all states. */
void pushdown_reset(struct pushdown *p);

#endif
