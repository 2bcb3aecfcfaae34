/* gateway.c - how a change of configuration or catalog comes to the loops, so that a request
 * begins without a lock: whoever makes it calls every loop (loop_post()), and each takes references
 * of its own, on its own thread, between two requests.
 *
 * The one who changes waits for them, so that what it says afterwards ("reloaded") is true of every
 * request that comes from then on; not for ever, since a loop may be ending.
 */
#include "gateway.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/random.h>
#include <time.h>

/* ---- views */

/* The lock is held; what was there before is yours. */
static void look(struct gateway_view *v, const struct config **conf, struct snapshot **snap)
{
    struct gateway *g = v->gateway;
    *conf = v->conf;
    *snap = v->snap;
    v->conf = config_ref(g->conf);
    v->snap = snapshot_ref(g->snap);
    v->change = g->change;
    v->is_called = false;
}

static void on_called(void *view)
{
    struct gateway_view *v = view;
    const struct config *conf;
    struct snapshot *snap;
    (void)pthread_mutex_lock(&v->gateway->lock);
    look(v, &conf, &snap);
    (void)pthread_cond_broadcast(&v->gateway->seen);
    (void)pthread_mutex_unlock(&v->gateway->lock);
    config_free(conf);
    snapshot_release(snap);
}

void gateway_view_open(struct gateway *g, struct loop *l, unsigned index)
{
    struct gateway_view *v = &g->view[index];
    const struct config *conf;
    struct snapshot *snap;
    (void)pthread_mutex_lock(&g->lock);
    *v = (struct gateway_view){.gateway = g, .loop = l};
    look(v, &conf, &snap); /* there is nothing before */
    (void)pthread_mutex_unlock(&g->lock);
}

void gateway_view_close(struct gateway *g, unsigned index)
{
    struct gateway_view *v = &g->view[index];
    (void)pthread_mutex_lock(&g->lock);
    v->loop = NULL;
    (void)pthread_cond_broadcast(&g->seen);
    (void)pthread_mutex_unlock(&g->lock);
    config_free(v->conf);
    snapshot_release(v->snap);
    v->conf = NULL;
    v->snap = NULL;
}

static void call_loops(struct gateway *g)
{
    for (size_t i = 0; i < GATEWAY_LOOPS_MAX; i++) {
        struct gateway_view *v = &g->view[i];
        if (v->loop && !v->is_called) {
            v->is_called = true;
            v->post = (struct loop_post){.fn = on_called, .ud = v};
            loop_post(v->loop, &v->post);
        }
    }
}

static bool have_all_seen(const struct gateway *g, uint64_t change)
{
    for (size_t i = 0; i < GATEWAY_LOOPS_MAX; i++) {
        if (g->view[i].loop && g->view[i].change < change) {
            return false;
        }
    }
    return true;
}

void gateway_change(struct gateway *g, const struct config *conf, struct snapshot *snap)
{
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 1;
    (void)pthread_mutex_lock(&g->lock);
    const struct config *old_conf = conf ? g->conf : NULL;
    struct snapshot *old_snap = snap ? g->snap : NULL;
    if (conf) { /* the one who changes it may read it without the lock: nobody else writes it */
        g->conf = conf;
    }
    if (snap) {
        g->snap = snap;
    }
    uint64_t change = ++g->change;
    call_loops(g);
    int rc = 0;
    while (rc != ETIMEDOUT && !have_all_seen(g, change)) {
        rc = pthread_cond_timedwait(&g->seen, &g->lock, &end);
    }
    (void)pthread_mutex_unlock(&g->lock);
    config_free(old_conf); /* requests that began with them hold them */
    snapshot_release(old_snap);
}

/* ---- what a request begins with */

int64_t gateway_now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

struct snapshot *gateway_snapshot(struct gateway *g, int64_t version, struct failure *f)
{
    (void)pthread_mutex_lock(&g->lock);
    struct snapshot *s =
        version == 0 || version == snapshot_version(g->snap) ? snapshot_ref(g->snap) : NULL;
    (void)pthread_mutex_unlock(&g->lock);
    if (!s && !(s = keeper_loaded(g->keeper, version))) {
        (void)failure_set(f, 503, "catalog_version_not_loaded", NULL,
                          "catalog version %" PRId64 " is not loaded", version);
    }
    return s;
}

void gateway_env(struct gateway *g, struct snapshot *snap, char day[11], struct prepare_env *env)
{
    (void)pthread_mutex_lock(&g->lock);
    const struct config *conf = config_ref(g->conf);
    (void)pthread_mutex_unlock(&g->lock);
    gateway_env_with(conf, snap, day, env);
}

void gateway_env_with(const struct config *conf, struct snapshot *snap, char day[11],
                      struct prepare_env *env)
{
    time_t now = time(NULL);
    struct tm tm;
    (void)strftime(day, 11, "%Y-%m-%d", gmtime_r(&now, &tm));
    *env = (struct prepare_env){.conf = conf, .snap = snap, .day = day};
    (void)request_policy_range(conf->on_out_of_range, &env->policy.on_out_of_range);
    (void)request_policy_unsupported(conf->on_unsupported, &env->policy.on_unsupported);
    (void)request_policy_many(conf->on_many, &env->policy.on_many);
    if (getrandom(&env->random, sizeof env->random, 0) != (ssize_t)sizeof env->random) {
        env->random = (uint64_t)gateway_now_us() *
                      UINT64_C(0x9e3779b97f4a7c15); /* only before the kernel's pool is ready */
    }
}

void gateway_env_release(struct prepare_env *env)
{
    config_free(env->conf);
    env->conf = NULL;
}

/* ---- a call */

struct upstream_spec gateway_call_spec(const struct config *conf, const struct target *t,
                                       const struct headers *h,
                                       struct upstream_header list[HEADERS_MAX])
{
    for (size_t i = 0; i < h->n; i++) {
        list[i] = (struct upstream_header){h->h[i].name, h->h[i].value};
    }
    return (struct upstream_spec){.url = t->url,
                                  .headers = list,
                                  .n_headers = h->n,
                                  .connect_ms = conf->connect_ms,
                                  .first_byte_ms = conf->first_byte_ms,
                                  .idle_ms = conf->idle_ms,
                                  .ca_file = t->ca_file,
                                  .http2 = config_calls_of(conf, t->provider_name)->http2};
}
