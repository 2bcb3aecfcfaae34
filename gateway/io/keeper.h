/* keeper.h - the one thread of the daemon that touches catalog.db: it loads snapshots, takes up new
 * versions within a second, loads older ones that a request asks for, and writes evidence down.
 *
 * The request path holds a snapshot and never waits for this thread, but for a version that is not
 * loaded. A database that cannot be used (missing, damaged, cut, empty, of a newer schema) is
 * refused with one line of log, and the last good version stays in use; at a start that is the one
 * that came with the program. The machine's own database is made from the shipped one, and upgraded
 * when a newer one is shipped (catalog/versions.h), after the daemon is ready, not before.
 *
 * While it runs: the file is watched (keeper_watch.h). What cannot be used is told once, when that
 * begins, and the last good version stays; it is left as soon as a usable file is there again. A
 * version is taken up whole or not at all: its content hash is checked while it is read.
 */
#ifndef ISOTHERM_KEEPER_H
#define ISOTHERM_KEEPER_H

#include "catalog/evidence.h"
#include "gateway/base/failure.h"
#include "loop.h"

enum keeper_learn {
    KEEPER_LEARN_OFF,     /* evidence is not stored */
    KEEPER_LEARN_SUGGEST, /* stored and shown */
    KEEPER_LEARN_APPLY    /* ... and a claim that a refusal contradicted, where the request without
                             the parameter was accepted, becomes an override of the machine for
                             that model: of the newest version, where nobody has set it by hand,
                             KEEPER_LEARNED_MAX a day */
};
struct keeper_options {
    const char *path;    /* the machine's database; it need not be there */
    const char *shipped; /* the one that came with the program; may be the same, or NULL: the
                            program has none */
    bool is_named;       /* the configuration named `path`: nothing is copied or upgraded, and it is
                            a fault where it is missing */
    int64_t pin;         /* 0: newest */
    enum keeper_learn learn;
    /* From the keeper's thread, when another snapshot is to be used; takes the reference. */
    void (*on_snapshot)(struct snapshot *s, void *ud);
    void *ud;
};
struct keeper;
/* Loads the first snapshot (*first, yours) before it returns. false: neither database can be used,
 * or the one that can has no version `pin`: who pins means that one. (When `path` is damaged there
 * is no telling: then the newest of `shipped` is used whatever the pin.) */
bool keeper_start(struct keeper **out, const struct keeper_options *o, struct snapshot **first,
                  struct failure *f) __attribute__((warn_unused_result));
/* Writes what is waiting and answers who is waiting; before the loops are freed. NULL allowed. */
void keeper_stop(struct keeper *k);
/* The daemon is ready: from now on the machine's database may be made or upgraded. */
void keeper_upgrade(struct keeper *k);
void keeper_set(struct keeper *k, int64_t pin, enum keeper_learn learn); /* after a reload */

/* The snapshot of `version` for one request. Called once on `loop`: snap is yours, or NULL with a
 * failure (404 catalog_version_not_found). The few last ones are kept loaded. */
typedef void keeper_version_fn(struct snapshot *snap, const struct failure *f, void *ud);
/* The snapshot of a version that is loaded, at once; NULL: ask with keeper_version(). Yours. */
struct snapshot *keeper_loaded(struct keeper *k, int64_t version);
bool keeper_version(struct keeper *k, int64_t version, struct loop *loop, keeper_version_fn *fn,
                    void *ud) __attribute__((warn_unused_result));

/* About a claim of `s`, which is the snapshot that the request used: row ids mean nothing in
 * another database, so evidence from before a change of the file is dropped. Never blocks; copies.
 * What does not fit into the queue is dropped and counted, and so is everything while the database
 * in use is not the one at `path`. `is_proved`: the provider refused the parameter itself, not its
 * value nor beside another one, and accepted the same request without it. `seen` and `n` are set
 * here. */
void keeper_evidence(struct keeper *k, struct snapshot *s, const struct evidence *e,
                     bool is_proved);
/* Whether this claim was confirmed today already: then there is nothing to tell. No lock. */
bool keeper_is_confirmed(const struct keeper *k, int64_t claim);

/* For the status: strings are copied. */
struct keeper_status {
    char path[4096];   /* the database in use */
    bool is_fallback;  /* the wanted one was refused */
    char refused[256]; /* why, or "" */
    char created[32];  /* of the version in use */
    int64_t version, newest;
    uint64_t n_evidence, n_dropped; /* observations since the start */
};
void keeper_status(struct keeper *k, struct keeper_status *out);

#endif
