/* models.h - the models of isotherm-engine: loaded when somebody wants one, unloaded when another
 * one needs the room.
 *
 * Loading runs on a thread of its own, one model at a time, in the order in which they were first
 * wanted, so the others' steps go on meanwhile. With memory_max the loaded models together take at
 * most so many bytes (engine_loaded_bytes()); for one more the least recently used one goes that
 * has no jobs, and where all have some, the least recently used one takes no new jobs and goes when
 * it has none. One thread owns the table; nothing is opened after models_add().
 */
#ifndef ISOTHERM_MODELS_H
#define ISOTHERM_MODELS_H

#include "job.h"

#define MODELS_MAX 64

/* FAILED is for good: damaged files, or a model that is larger than memory_max. When memory runs
 * out while it is loaded a model is refused, and UNLOADED again. */
enum models_state { MODELS_UNLOADED, MODELS_LOADING, MODELS_LOADED, MODELS_FAILED };

struct models;

/* Fields are for reading, but for is_full. */
struct served {
    char *name;
    enum models_state state;
    struct engine *engine;   /* mapped; NULL: the files are damaged */
    struct job_model model;  /* of a LOADED one */
    struct engine_error err; /* why it is FAILED, or was not loaded */
    bool is_full;            /* no slot: until a job of it ends */
    /* models.c's own: */
    char *chat_template;
    bool is_ok; /* what load() says */
    size_t n_jobs, n_wanting;
    uint64_t used, wanted; /* when it was used last, and wanted first: counts */
};

struct models_options {
    struct engine_options engine; /* of every model; what it points to is borrowed */
    int64_t memory_max;           /* 0: no limit */
};
ENGINE_WARN_UNUSED bool models_new(struct models **out, const struct models_options *o,
                                   struct engine_error *err);
/* No jobs may be left. */
void models_free(struct models *t);
/* "NAME=FOLDER", and after it any of "?template=plain", "?draft=FOLDER", "?kv_type=f16" and
 * "?kv_memory=1000000", in this order. Files that are damaged are no failure: the model is FAILED.
 * false: the text has another form, the name is there already, or memory. */
ENGINE_WARN_UNUSED bool models_add(struct models *t, const char *spec, struct engine_error *err);
size_t models_n(const struct models *t);
struct served *models_at(struct models *t, size_t i);
struct served *models_find(struct models *t, const char *name); /* or NULL */
const char *models_state_name(enum models_state s);             /* "unloaded" ... */

/* Whether a job may be made on it now. */
bool models_takes_jobs(const struct models *t, const struct served *m);
/* Jobs hold it: from job_new() to job_free(). */
void models_hold(struct models *t, struct served *m);
void models_let_go(struct models *t, struct served *m);
/* Somebody waits for it to take jobs, and no longer. For one that is not FAILED. */
void models_want(struct models *t, struct served *m);
void models_unwant(struct served *m);

/* Readable when models_turn() has something to say. */
int models_fd(const struct models *t);
/* Takes what was loaded, or starts to load what is wanted; on_change is called for each change of a
 * state. After this the caller serves who waits for a model that takes jobs, or is not LOADING and
 * has an error. true: something has changed, and there may be more to do. */
bool models_turn(struct models *t, void (*on_change)(struct served *m, void *ud), void *ud);

#endif
