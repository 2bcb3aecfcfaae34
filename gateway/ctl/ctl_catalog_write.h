/* ctl_catalog_write.h - what the verbs that make versions share: ctl_catalog_write.c and
 * ctl_catalog_set.c. */
#ifndef ISOTHERM_CTL_CATALOG_WRITE_H
#define ISOTHERM_CTL_CATALOG_WRITE_H

#include "gateway/ctl/ctl_catalog.h"

#include "catalog/versions.h"

/* The machine's own database, made from the one beside the program where it is not there. false:
 * said on stderr. */
bool ctl_catalog_own(char out[CTL_PATH_MAX]);

/* Who, why and now. */
struct write_stamp {
    struct version_stamp stamp; /* points into this struct and to what was given */
    char created[32];
};
void write_stamp_init(struct write_stamp *s, const char *author, const char *reason);

/* MODELS as the catalog has it: "*" and expressions (^...) as they are, a model id as the
 * expression for just this one. false: it is too long. */
#define WRITE_MODELS_MAX 300
bool write_models(const char *given, char out[WRITE_MODELS_MAX]);

/* What became of it: how the new version differs from `before`, its number and open conflicts; for
 * --json one object. `db` is where it was written, `is_tried` whether it was only tried there. The
 * exit status. */
int write_report(const char *db, int64_t before, const struct catalog_version *v, bool is_tried,
                 bool is_json);

#endif
