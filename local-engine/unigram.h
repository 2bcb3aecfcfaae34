/* unigram.h - SentencePiece's Unigram: of all ways to cut a text into tokens, the one with the
 * highest sum of scores (Viterbi). A character that no token covers alone counts as unknown, ten
 * below the lowest score, and unknown neighbours are one piece: as in Hugging Face's library.
 *
 * Time is the length of the text times the longest token at worst; no recursion.
 */
#ifndef ISOTHERM_UNIGRAM_H
#define ISOTHERM_UNIGRAM_H

#include "engine_error.h"
#include <stddef.h>
#include <stdint.h>

enum {
    UNIGRAM_TOKEN_MAX = 512,     /* bytes of one; SentencePiece makes 16 characters unless told */
    UNIGRAM_NODES_MAX = 16 << 20 /* a vocabulary of 256 thousand has a million */
};

struct unigram_slot {
    uint64_t key; /* node * 256 + byte + 1; 0: empty */
    uint32_t child;
};
struct unigram {
    struct unigram_slot *slots; /* [slots_cap], a power of two */
    size_t slots_cap, nodes_cap;
    uint32_t n_nodes;
    int32_t *ids;   /* [n_nodes]: token that ends there, -1: none */
    double *scores; /* [n_nodes] */
    double least;
};

/* A zeroed one is empty and ready. */
void unigram_release(struct unigram *u);
/* A finite score; len of 1 to UNIGRAM_TOKEN_MAX. False: no memory or too large. A text that comes
 * again is overwritten. */
ENGINE_WARN_UNUSED bool unigram_add(struct unigram *u, const char *s, size_t len, int32_t id,
                                    double score);

struct unigram_piece {
    size_t from, to;
    int32_t id; /* -1: unknown */
};
struct unigram_work {
    struct unigram_piece *pieces; /* the answer: n_pieces in order */
    size_t n_pieces, pieces_cap;
    struct unigram_step *steps;
    size_t n_steps, steps_cap;
};
void unigram_work_release(struct unigram_work *w);
/* Bytes that are not UTF-8 are characters of their own. False: no memory, or 2^32 bytes. */
ENGINE_WARN_UNUSED bool unigram_run(const struct unigram *u, const char *s, size_t len,
                                    struct unigram_work *w);

#endif
