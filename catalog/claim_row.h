/* claim_row.h - a claim out of its row in the database: the one reader of its columns, for the
 * snapshot, which keeps thousands and shares what is equal, and for readers that show a few.
 */
#ifndef ISOTHERM_CATALOG_CLAIM_ROW_H
#define ISOTHERM_CATALOG_CLAIM_ROW_H

#include "db.h"

/* Where the texts and the JSON of a claim live: what is given out lives as long as the claim.
 * false: `err` of the call is set. */
struct claim_keep {
    bool (*text)(void *ud, const char *text, const char **out);
    bool (*json)(void *ud, int64_t id, const char *text, const json_t **out);
    void *ud;
};
/* All but the verdict, which is no part of the row. */
CATALOG_WARN_UNUSED bool claim_row_read(struct claim *out, int64_t id, const struct db_cell *cells,
                                        const struct claim_keep *keep, struct catalog_error *err);

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

/* As the sources have it: only the fields that say something, and "id" and "provider". A new
 * reference; NULL: err is set. */
json_t *claim_row_json(int64_t id, const struct db_cell *cells, struct catalog_error *err);

/* The JSON text of a cell. A new reference; NULL: err is set. */
json_t *claim_row_parse(int64_t id, const char *text, struct catalog_error *err);
/* Always false: what is wrong with the row; with its `models`, as pattern_init() says. */
bool claim_row_bad(int64_t id, const char *what, struct catalog_error *err);
bool claim_row_bad_pattern(int64_t id, const struct catalog_error *why, struct catalog_error *err);

#endif
