/* catalog_inside.h - inside of the handle, for the files that read a database which is open:
 * locked, fresh, one state of it until it is let go. */
#ifndef ISOTHERM_CATALOG_INSIDE_H
#define ISOTHERM_CATALOG_INSIDE_H

#include "db.h"

/* NULL: err is set, and there is nothing to let go. Callbacks that run meanwhile must not use the
 * handle. */
struct db *catalog_hold(struct catalog *c, struct catalog_error *err);
void catalog_let_go(struct catalog *c);

#endif
