/* claim_row.h - one claim out of its row in the database, for readers that do without a snapshot.
 */
#ifndef ISOTHERM_CATALOG_CLAIM_ROW_H
#define ISOTHERM_CATALOG_CLAIM_ROW_H

#include "db.h"

/* As the sources have it: only the fields that say something, and "id" and "provider". A new
 * reference; NULL: err is set. */
json_t *claim_row_json(int64_t id, const struct db_cell *cells, struct catalog_error *err);

/* As a struct; its texts are borrowed from the cells, its JSON is owned by the row. */
#define CLAIM_ROW_JSON 7 /* fields that are JSON text */
struct claim_row {
    struct claim claim;
    json_t *owned[CLAIM_ROW_JSON];
    size_t n_owned;
};
CATALOG_WARN_UNUSED bool claim_row_init(struct claim_row *r, int64_t id,
                                        const struct db_cell *cells, struct catalog_error *err);
void claim_row_release(struct claim_row *r);

#endif
