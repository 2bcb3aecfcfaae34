/* exchange.h - the path of one request, from the read body to the last byte of its answer.
 *
 * exchange_start() runs the table of steps in exchange.c. The exchange owns the request, the plan,
 * the answer and the buffers and releases them in one place; it keeps the catalog snapshot that it
 * began with.
 */
#ifndef ISOTHERM_EXCHANGE_H
#define ISOTHERM_EXCHANGE_H

#include "io/engine_child.h"
#include "io/keeper.h"
#include "io/records.h"
#include "io/server.h"
#include "gate.h"
#include "io/upstream.h"
#include "prepare.h"
#include <pthread.h>

#define GATEWAY_LOOPS_MAX 16

/* What requests of one loop begin with: references of the loop's own, which its thread reads
 * without a lock. The rest is guarded by the gateway's. */
struct gateway_view {
    const struct config *conf;
    struct snapshot *snap;
    struct gateway *gateway;
    struct loop *loop; /* NULL: it does not run */
    uint64_t change;   /* the last one that it has seen */
    bool is_called;    /* `post` is in use */
    struct loop_post post;
};

/* What all requests share. Set up by isothermd.c before the server starts; `snap` and `conf` are
 * guarded by `lock`: a reload replaces `conf`, the keeper `snap` (gateway_change()), and a request
 * keeps the ones it began with. */
struct gateway {
    const struct config *conf;
    struct keeper *keeper;
    struct snapshot *snap;
    pthread_mutex_t lock;
    pthread_cond_t seen;                         /* a loop has seen a change */
    uint64_t change;                             /* counts them */
    struct gateway_view view[GATEWAY_LOOPS_MAX]; /* by loop index */
    struct records *records;
    struct engine_child *_Atomic engine;          /* NULL until loop 0 has started it */
    struct upstream *upstream[GATEWAY_LOOPS_MAX]; /* by loop index */
    struct server *server;
    struct gate *gate; /* who may call a provider now */
    char build[64];    /* "isotherm/0.1.0" */
    int64_t started_us;
};

/* exchange_view.c: a loop's view, from its begin to its end; on its thread. */
void gateway_view_open(struct gateway *g, struct loop *l, unsigned index);
void gateway_view_close(struct gateway *g, unsigned index);
/* Puts another configuration or snapshot, or both (NULL: not), in the place of the one there is;
 * takes the references. Returns when every loop has seen it, or after a second. Not from a loop's
 * thread. */
void gateway_change(struct gateway *g, const struct config *conf, struct snapshot *snap);

/* A reference to the current snapshot, or to `version` when it is not 0 and is loaded. NULL: it is
 * not; keeper_version() is to be asked, which may have to read it (`f` says so). Yours:
 * snapshot_release(). */
struct snapshot *gateway_snapshot(struct gateway *g, int64_t version, struct failure *f);
/* Fills a prepare_env for `snap`: today's date in `day` (11 bytes), fresh randomness, a reference
 * to the configuration: gateway_env_release(). With `conf`, which is taken, instead of the current
 * one. */
void gateway_env(struct gateway *g, struct snapshot *snap, char day[11], struct prepare_env *env);
void gateway_env_with(const struct config *conf, struct snapshot *snap, char day[11],
                      struct prepare_env *env);
void gateway_env_release(struct prepare_env *env); /* a zeroed one is allowed */
int64_t gateway_now_us(void);

/* Answers the request on `c`; never fails to answer. */
void exchange_start(struct gateway *g, struct conn *c, enum request_kind kind);

/* An error body, for the endpoints off the main path too. */
void exchange_reply_failure(struct conn *c, const struct failure *f, const char *request_id);

#endif
