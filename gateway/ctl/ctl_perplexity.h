/* ctl_perplexity.h - isothermctl perplexity: how well a model predicts a text. */
#ifndef ISOTHERM_CTL_PERPLEXITY_H
#define ISOTHERM_CTL_PERPLEXITY_H

/* argv[0] is the verb. The exit status: 0 done, 1 failed, 2 usage. */
int ctl_perplexity(int argc, char **argv);

#endif
