/* ctl_catalog_read.h - what the verbs that read the catalog share: ctl_catalog_read.c (versions,
 * show, export) and ctl_catalog_diff.c (diff, history). */
#ifndef ISOTHERM_CTL_CATALOG_READ_H
#define ISOTHERM_CTL_CATALOG_READ_H

#include "gateway/ctl/ctl_catalog.h"

/* Options of a verb; a verb takes those whose letters it names. */
struct read_options {
    const char *db, *provider, *model, *param, *as_of, *on, *since, *output;
    int64_t version;
    bool is_json, is_wide, overrides_only;
    char **words; /* what is no option, borrowed from argv */
    int n_words;
};

struct read_verb {
    const char *name, *help;
    const char *takes; /* letters of the options table in ctl_catalog_read.c */
    int n_words_max;
};

/* Options parsed and checked, the catalog open: -1, go on and close it; else the exit status, said.
 */
int read_begin(const struct read_verb *verb, struct read_options *o, struct catalog **c, int argc,
               char **argv);
/* Prints a JSON list, one item a line, and takes it; NULL is no memory. 0, or 1 and a line. */
int read_print_list(json_t *list);
/* One JSON text on a line of its own, numbers as they were written; not taken. */
bool read_print_json(const json_t *j);
int read_no_memory(void); /* says it; 1 */

#endif
