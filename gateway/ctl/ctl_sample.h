/* ctl_sample.h - the verb `isothermctl sample`: the sampler alone, line by line. */
#ifndef ISOTHERM_CTL_SAMPLE_H
#define ISOTHERM_CTL_SAMPLE_H

/* argv[0] is the verb. Exit status 0: done; 1: a line was no JSON object, or standard output could
 * not be written; 2: usage. */
int ctl_sample(int argc, char **argv);

#endif
