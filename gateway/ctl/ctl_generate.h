/* ctl_generate.h - isothermctl generate: text from a local model, without a daemon. */
#ifndef ISOTHERM_CTL_GENERATE_H
#define ISOTHERM_CTL_GENERATE_H

/* argv[0] is the verb. The exit status: 0 done, 1 failed, 2 usage. */
int ctl_generate(int argc, char **argv);

#endif
