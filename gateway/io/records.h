/* records.h - records.db: one row for each response, durable before its last byte. All SQL of that
 * database is in records_db.c.
 *
 * One writer thread gathers what was appended and commits it as a group (WAL, synchronous FULL),
 * then tells each caller on its own loop. The request path never waits for the disk. Readers
 * (command line, API) open their own read-only handle.
 *
 * When a commit fails (disk full, read-only, another process held the write lock for more than 5 s)
 * each caller of that group is told, and records_is_writable() is false until a later commit works.
 * The writer tries by itself once a second, so it comes back without an append when there is room
 * again; it opens the file again when it was moved away or replaced. What was acknowledged survives
 * kill -9.
 */
#ifndef ISOTHERM_RECORDS_H
#define ISOTHERM_RECORDS_H

#include "gateway/base/failure.h"
#include "gateway/fingerprint.h"
#include "loop.h"

#define RECORDS_QUEUE_MAX 65536 /* some 2 KB each: what a daemon can hold while the disk stalls */

struct records;
/* Makes the file (0600) and its folders (0700) where they are missing. A file that is damaged, of
 * another program or of a newer version is left as it is: failure 500 records_unusable, one line
 * that names the file and what to do. */
bool records_open(struct records **out, const char *path, struct failure *f)
    __attribute__((warn_unused_result));
void records_close(struct records *r); /* commits what is waiting; before the loops of its callers
                                          are freed. NULL allowed */

/* Takes the fingerprint over (moved; *fp is zeroed). done(ok) is called exactly once on `loop` when
 * the row is durable or could not be written. `loop` NULL: from the writer's thread. A request id
 * that is there already is not written: done(false). false: not taken (the queue is full, memory):
 * done is not called, *fp is as it was. */
typedef void records_done_fn(bool ok, void *ud);
bool records_append(struct records *r, struct fingerprint *fp, struct loop *loop,
                    records_done_fn *done, void *ud) __attribute__((warn_unused_result));
bool records_is_writable(struct records *r);  /* the last commit worked */
uint64_t records_n_failed(struct records *r); /* rows that were not written */

/* ---- reading: its own handle on the file */
struct records_reader;
/* Works whether the daemon runs or not. One thread at a time. No such file: failure 404. */
bool records_reader_open(struct records_reader **out, const char *path, struct failure *f)
    __attribute__((warn_unused_result));
void records_reader_close(struct records_reader *r);
/* NULL, 0, 0: all, at most 100; newest first. `model` is the model that answered or the name that
 * was asked for. */
#define RECORDS_LIMIT_MAX 100000
struct records_query {
    const char *model;
    int64_t since_us;
    int64_t limit;
};
typedef bool records_row_fn(const json_t *record,
                            void *ud); /* record as fingerprint_json gives it; false: stop */
bool records_list(struct records_reader *r, const struct records_query *q, records_row_fn *fn,
                  void *ud, struct failure *f) __attribute__((warn_unused_result));
/* The models of the records since then, each once: the names that were asked for and those that
 * answered ("openai/gpt-4o", an alias, "local/tales"); at most RECORDS_MODELS_MAX. Does not read
 * the rows between: quick in a large database. */
#define RECORDS_MODELS_MAX 10000
typedef bool records_model_fn(const char *model, void *ud); /* false: stop */
bool records_models(struct records_reader *r, int64_t since_us, records_model_fn *fn, void *ud,
                    struct failure *f) __attribute__((warn_unused_result));
/* One record by request id; NULL: not found (failure 404) or unreadable. Yours. */
json_t *records_get(struct records_reader *r, const char *request_id, struct failure *f);

#endif
