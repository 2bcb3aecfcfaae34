/* ctl_explain.h - the verb `isothermctl explain`. */
#ifndef ISOTHERM_CTL_EXPLAIN_H
#define ISOTHERM_CTL_EXPLAIN_H

int ctl_explain(int argc, char **argv);

#endif
