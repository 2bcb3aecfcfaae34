/* speculate.h - guesses how a sequence goes on from what it has said before, so that several of its
 * tokens can be evaluated at once. Pure: no model, no I/O, no clock.
 *
 * A guess is a guess: whoever uses one draws every token as ever, and goes on in the guessed rows
 * only while the drawn token is the guessed one. So nothing here can change an answer, and what
 * goes wrong here (memory) is no error: there are no guesses then.
 *
 * The sequence is looked up in itself: where its last SPECULATE_GRAM tokens stood before, the token
 * that followed them then is the guess, and as long as that stays right the ones after it are. Each
 * token costs one look into a table, whatever the length. Guessing without rows is free, so how
 * often guesses would have been right is known before the first one is used: text that does not
 * repeat gets none.
 */
#ifndef ISOTHERM_SPECULATE_H
#define ISOTHERM_SPECULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPECULATE_GRAM    3
#define SPECULATE_LEVELS  4 /* of what is known by how long a match is */
#define SPECULATE_CERTAIN 65536

struct speculate {
    int32_t *tokens; /* [n], owned */
    uint32_t *table; /* [n_slots], owned: where a token follows the n-gram of this hash; 0: free */
    size_t n, cap, n_slots;
    size_t at;      /* tokens[at] is the guess; 0: there is none */
    size_t n_match; /* as many tokens before `at` are the sequence's last ones, at least */
    uint32_t trust[SPECULATE_LEVELS]; /* of SPECULATE_CERTAIN: how often such guesses were right */
    uint32_t cost;                    /* of a row more, of SPECULATE_CERTAIN: a step with one row */
    bool is_over;                     /* no memory: nothing is remembered */
};

/* Empty; allocates nothing. `cost`: what a row more adds to a step of one row; a token is guessed
 * when it is right at least so often. */
void speculate_init(struct speculate *s, double cost);
void speculate_release(struct speculate *s);
/* The sequence's next token. */
void speculate_push(struct speculate *s, int32_t token);
/* The next tokens, as far as they are worth a row: at most n_max of them. */
size_t speculate_guess(const struct speculate *s, int32_t *tokens, size_t n_max);
/* The same without regard to what was right before. */
size_t speculate_guess_all(const struct speculate *s, int32_t *tokens, size_t n_max);

#endif
