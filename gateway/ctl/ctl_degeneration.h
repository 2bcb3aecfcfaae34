/* ctl_degeneration.h - isothermctl degeneration: how much a model repeats itself, under greedy
 * decoding, beam search, sampling, and each penalty. */
#ifndef ISOTHERM_CTL_DEGENERATION_H
#define ISOTHERM_CTL_DEGENERATION_H

#include <stddef.h>
#include <stdint.h>

/* argv[0] is the verb. The exit status: 0 done, 1 failed, 2 usage. */
int ctl_degeneration(int argc, char **argv);

/* The share of the n-grams of ids [n_ids] that stood there before; 0 where there is none. Out of
 * memory: negative. */
double ctl_degeneration_repeated(const int32_t *ids, size_t n_ids, size_t n);

#endif
