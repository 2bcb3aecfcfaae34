/* ctl_catalog.h - `isothermctl catalog VERB ...`. ctl_catalog.c holds the table of verbs; each
 * group of verbs has a file of its own, and its options with it. */
#ifndef ISOTHERM_CTL_CATALOG_H
#define ISOTHERM_CTL_CATALOG_H

#include "catalog/catalog.h"
#include <stdbool.h>

/* argv[0] is "catalog". The exit status: 0 done, 1 failed or found (one line on stderr), 2 usage, 3
 * `check` could not tell. */
int ctl_catalog(int argc, char **argv);

/* ---- the verbs: argv[0] is the verb; each knows --help */
int ctl_catalog_build(int argc, char **argv); /* ctl_catalog_write.c */
int ctl_catalog_set(int argc, char **argv);
int ctl_catalog_unset(int argc, char **argv);
int ctl_catalog_rollback(int argc, char **argv);
int ctl_catalog_import(int argc, char **argv);
int ctl_catalog_upgrade(int argc, char **argv);
int ctl_catalog_versions(int argc, char **argv); /* ctl_catalog_read.c */
int ctl_catalog_show(int argc, char **argv);
int ctl_catalog_diff(int argc, char **argv);
int ctl_catalog_history(int argc, char **argv);
int ctl_catalog_export(int argc, char **argv);
int ctl_catalog_check(int argc, char **argv);   /* ctl_catalog_check.c */
int ctl_catalog_compare(int argc, char **argv); /* ctl_catalog_compare.c */
int ctl_catalog_probe(int argc, char **argv);   /* ctl_probe.c */

/* ---- what they share */
#define CTL_PATH_MAX 4096
/* The database of a verb: `given` (--db), else the machine's own (paths_state("catalog.db")) where
 * it is there, else the one beside the program. For a verb that writes, the machine's own: it is
 * made from the one beside the program where it is not there. false: said on stderr. */
bool ctl_catalog_path(const char *given, bool for_writing, char out[CTL_PATH_MAX]);
bool ctl_catalog_open(struct catalog **out, const char *given); /* false: said on stderr */
int ctl_catalog_failed(const struct catalog_error *err);        /* says it; 1 */
int ctl_catalog_usage(const char *verb, const char *text);      /* says it; 2 */
bool ctl_catalog_number(const char *text, int64_t *out);        /* a whole number from 1 */
void ctl_catalog_now(char out[32]);                             /* ISO time */
const char *ctl_catalog_author(const char *given);              /* given, $USER, the user's name */
int ctl_print_json(json_t *j);                                  /* takes it; 0, or 1 and a line */

#endif
