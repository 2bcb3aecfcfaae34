/* ctl_logits.h - `isothermctl logits`: raw logits of every position, for checking against other
 * implementations. */
#ifndef ISOTHERM_CTL_LOGITS_H
#define ISOTHERM_CTL_LOGITS_H

/* argv[0] is the verb. Exit status: 0 done, 1 failed (one line on stderr), 2 usage. */
int ctl_logits(int argc, char **argv);

#endif
