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
#include "io/upstream.h"
#include "prepare.h"
#include <pthread.h>

#define GATEWAY_LOOPS_MAX 16

/* What all requests share. Set up by isothermd.c before the server starts; `snap` and `conf` are
 * guarded by `lock`: a reload replaces `conf`, the keeper `snap`, and a request keeps the ones it
 * began with. */
struct gateway {
    const struct config *conf;
    struct keeper *keeper;
    struct snapshot *snap;
    pthread_mutex_t lock;
    struct records *records;
    struct engine_child *_Atomic engine;          /* NULL until loop 0 has started it */
    struct upstream *upstream[GATEWAY_LOOPS_MAX]; /* by loop index */
    struct server *server;
    char build[64]; /* "isotherm/0.1.0" */
    int64_t started_us;
};

/* A reference to the current snapshot, or to `version` when it is not 0 and is loaded. NULL: it is
 * not; keeper_version() is to be asked, which may have to read it (`f` says so). Yours:
 * snapshot_release(). */
struct snapshot *gateway_snapshot(struct gateway *g, int64_t version, struct failure *f);
/* Fills a prepare_env for `snap`: today's date in `day` (11 bytes), fresh randomness, a reference
 * to the configuration: gateway_env_release(). */
void gateway_env(struct gateway *g, struct snapshot *snap, char day[11], struct prepare_env *env);
void gateway_env_release(struct prepare_env *env); /* a zeroed one is allowed */
int64_t gateway_now_us(void);

/* Answers the request on `c`; never fails to answer. */
void exchange_start(struct gateway *g, struct conn *c, enum request_kind kind);

/* An error body, for the endpoints off the main path too. */
void exchange_reply_failure(struct conn *c, const struct failure *f, const char *request_id);

#endif
