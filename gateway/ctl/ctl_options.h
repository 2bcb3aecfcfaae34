/* ctl_options.h - the options of a verb as a table: what each is called and where its value goes.
 * --help is among them by itself. */
#ifndef ISOTHERM_CTL_OPTIONS_H
#define ISOTHERM_CTL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { CTL_OPTIONS_MAX = 16 };

/* One of flag, text, sha256 and number is there. Texts are borrowed from argv. */
struct ctl_option {
    const char *name;
    char letter; /* 0: none */
    bool *flag;
    const char **text;
    const char **sha256; /* 64 hexadecimal digits */
    long *number, min, max;
};
struct ctl_verb {
    const char *name;  /* behind "isothermctl", for errors: "model info" */
    const char *usage; /* for --help */
    int n_arguments;   /* what is left, in argv from optind on */
    const char *arguments;
    const struct ctl_option *options;
    size_t n_options; /* at most CTL_OPTIONS_MAX */
};

/* -1: go on; otherwise the exit status, and what there is to say is said. */
int ctl_options_parse(const struct ctl_verb *v, int argc, char **argv);
/* Says it, and where the help is. Returns 2. */
int ctl_options_misused(const struct ctl_verb *v, const char *what);

#endif
