/* records_db.h - the database under records.h: schema, checks, statements. Private to records.c.
 * One thread at a time. */
#ifndef ISOTHERM_RECORDS_DB_H
#define ISOTHERM_RECORDS_DB_H

#include "records.h"

struct records_db;

/* For writing: makes what is missing, checks, migrates. */
bool records_db_open(struct records_db **out, const char *path, struct failure *f)
    __attribute__((warn_unused_result));
/* For reading only: changes nothing. */
bool records_db_open_reader(struct records_db **out, const char *path, struct failure *f)
    __attribute__((warn_unused_result));
void records_db_close(struct records_db *db); /* NULL allowed */

enum records_db_result {
    RECORDS_DB_OK,
    RECORDS_DB_ROW,   /* this row cannot be written (its id is there already); go on */
    RECORDS_DB_WAIT,  /* no room, or locked too long: the handle is good, try again later */
    RECORDS_DB_BROKEN /* close and open again */
};
enum records_db_result records_db_begin(struct records_db *db);
/* detail: the whole record as JSON */
enum records_db_result records_db_insert(struct records_db *db, const struct fingerprint *fp,
                                         struct slice detail);
enum records_db_result records_db_commit(struct records_db *db);
void records_db_rollback(struct records_db *db);
/* Why the last of these three did not work, in the words of records_db_open(); before the rollback.
 */
void records_db_why(struct records_db *db, const char *path, struct failure *f);
/* One small write of our own, committed: whether writing works. */
enum records_db_result records_db_probe(struct records_db *db);
/* Whether the path still leads to the file that is open. */
bool records_db_is_in_place(struct records_db *db);
/* Brings the log into the file: for one that was moved away without its log, before it is closed.
 * SQLite does not do that for a moved file. */
void records_db_settle(struct records_db *db);

bool records_db_list(struct records_db *db, const struct records_query *q, records_row_fn *fn,
                     void *ud, struct failure *f) __attribute__((warn_unused_result));
bool records_db_models(struct records_db *db, int64_t since_us, records_model_fn *fn, void *ud,
                       struct failure *f) __attribute__((warn_unused_result));
json_t *records_db_get(struct records_db *db, const char *request_id, struct failure *f);

#endif
