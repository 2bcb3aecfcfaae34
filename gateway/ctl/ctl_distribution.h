/* ctl_distribution.h - isothermctl distribution: what each stage of the sampler keeps of the next
 * token's distribution, without a daemon. */
#ifndef ISOTHERM_CTL_DISTRIBUTION_H
#define ISOTHERM_CTL_DISTRIBUTION_H

/* argv[0] is the verb. The exit status: 0 done, 1 failed, 2 usage. */
int ctl_distribution(int argc, char **argv);

#endif
