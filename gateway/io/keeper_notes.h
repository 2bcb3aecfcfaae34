/* keeper_notes.h - evidence on its way into the catalog: a bounded queue, what was told today
 * already, and how a group is written. Private to keeper.c.
 *
 * keeper_notes_push() and keeper_notes_was_confirmed() may be called by any thread, the others by
 * the keeper's.
 */
#ifndef ISOTHERM_KEEPER_NOTES_H
#define ISOTHERM_KEEPER_NOTES_H

#include "catalog/evidence.h"
#include <pthread.h>
#include <stdatomic.h>

#define KEEPER_NOTES_MAX 1024    /* waiting; the writer takes them several times a second */
#define KEEPER_CLAIMS    1048576 /* row ids that are remembered; a catalog has some ten thousand */
#define KEEPER_LEARNED_MAX                                                                         \
    32 /* overrides a day: clients choose model names, and each makes a version */

struct keeper_note {
    struct keeper_note *next;
    struct evidence e;
    struct snapshot *snap; /* owned: whose claim it is */
    bool is_proved;
};
struct keeper_notes {
    pthread_mutex_t lock; /* of the queue */
    struct keeper_note *first, **last;
    size_t n;
    atomic_uint_least64_t n_stored, n_dropped; /* observations */
    atomic_uchar *today;                       /* one bit for each row id: confirmed today */
    size_t n_learned;                          /* overrides made today; the keeper's thread */
};
bool keeper_notes_init(struct keeper_notes *q);    /* false: memory */
void keeper_notes_release(struct keeper_notes *q); /* zeroed is allowed */
/* *was_empty: the keeper is to be woken. */
void keeper_notes_push(struct keeper_notes *q, struct snapshot *s, const struct evidence *e,
                       bool is_proved, bool *was_empty);
bool keeper_notes_was_confirmed(const struct keeper_notes *q, int64_t claim);
void keeper_notes_forget(struct keeper_notes *q); /* another day, or another database */

struct keeper_note *keeper_notes_take(struct keeper_notes *q); /* all; NULL: none */
void keeper_notes_free(struct keeper_note *list);
bool keeper_notes_wait(struct keeper_notes *q); /* whether there are any */
/* Writes them into the database at `path`; equal ones are one row. *is_news: `current` does not
 * show yet what they say. false: none is written, all are counted as dropped. */
bool keeper_notes_write(struct keeper_notes *q, const char *path, const struct keeper_note *list,
                        const struct snapshot *current, bool *is_news, struct catalog_error *err);
/* Whether an override may be made of `n`, one of `list`: it is proved, about the newest snapshot,
 * and not the same as one before it. */
bool keeper_notes_may_apply(const struct keeper_note *list, const struct keeper_note *n,
                            const struct snapshot *newest);
/* Makes an override of the machine of one that is proved. *version 0: there was nothing to do. */
bool keeper_notes_apply(const char *path, const struct keeper_note *n, int64_t *version,
                        struct catalog_error *err);

/* ISO time of now, in UTC: "2026-11-30T12:00:00Z". */
void keeper_now(char out[32]);

#endif
