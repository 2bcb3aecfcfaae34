/* ctl_catalog.h - `isothermctl catalog ...`: build, versions, show. */
#ifndef ISOTHERM_CTL_CATALOG_H
#define ISOTHERM_CTL_CATALOG_H

/* argv[0] is "catalog". The exit status: 0 done, 1 failed (one line on stderr), 2 usage. */
int ctl_catalog(int argc, char **argv);

#endif
