/* plan_name.h - whether a parameter goes out under another name. Pure. */
#ifndef ISOTHERM_CATALOG_PLAN_NAME_H
#define ISOTHERM_CATALOG_PLAN_NAME_H

#include "plan.h"

/* Of a parameter in `send`: its wire path does not say its own name, and it asks for something
 * there that the field would not hold without it. */
bool plan_is_renamed(const struct plan *plan, enum param p);

#endif
