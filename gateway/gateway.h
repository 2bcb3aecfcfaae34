/* gateway.h - what all requests share, and the part of it that each loop has to itself.
 *
 * Configuration and catalog are immutable and counted: a request keeps the ones that it began with.
 */
#ifndef ISOTHERM_GATEWAY_H
#define ISOTHERM_GATEWAY_H

#include "gate.h"
#include "io/engine_child.h"
#include "io/keeper.h"
#include "io/records.h"
#include "io/server.h"
#include "io/upstream.h"
#include "prepare.h"
#include <pthread.h>
#include <stdatomic.h>

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

/* A loop's view, from its begin to its end; on its thread. */
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
/* How a call to `t` is started: address, headers, whom to trust, limits of time; body and bytes_max
 * are the caller's. Borrows all of it; the headers stand in `list`, until upstream_start() returns.
 */
struct upstream_spec gateway_call_spec(const struct config *conf, const struct target *t,
                                       const struct headers *h,
                                       struct upstream_header list[HEADERS_MAX]);

#endif
