/* api_status.c - GET /healthz: the process answers. GET /readyz: it can do its work: catalog open,
 * records writable, engine up; and which catalog that is, how old, and what is wrong with the one
 * that should be used; and of every provider its breaker and who is on the way to it, which does
 * not make the daemon less ready. */
#include "routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void api_status_health(struct gateway *g, struct conn *c)
{
    (void)g;
    routes_reply_json(c, 200, json_pack("{s:s}", "status", "ok"));
}

/* Whole days since an ISO time, UTC; -1: it is none. */
static int age_days(const char *created)
{
    struct tm tm = {.tm_mday = 0};
    if (sscanf(created, "%4d-%2d-%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday) != 3) {
        return -1;
    }
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    time_t then = timegm(&tm), now = time(NULL);
    return then == (time_t)-1 ? -1 : now < then ? 0 : (int)((now - then) / 86400);
}

static json_t *catalog_json(struct gateway *g)
{
    struct keeper_status s;
    struct prepare_env env;
    char day[11];
    keeper_status(g->keeper, &s);
    gateway_env(g, NULL, day, &env);
    int age = age_days(s.created);
    bool is_stale = age >= 0 && (unsigned)age > env.conf->catalog_stale_days;
    json_t *evidence = json_pack("{s:s,s:I,s:I}", "learn", env.conf->catalog_learn, "stored",
                                 (json_int_t)s.n_evidence, "dropped", (json_int_t)s.n_dropped);
    json_t *o = json_pack(
        "{s:s,s:I,s:I,s:I,s:s,s:o,s:b,s:b,s:o,s:o}", "path", s.path, "version",
        (json_int_t)s.version, "newest", (json_int_t)s.newest, "pin",
        (json_int_t)env.conf->catalog_pin, "created", s.created, "age_days",
        age >= 0 ? json_integer(age) : json_null(), "stale", is_stale, "is_fallback", s.is_fallback,
        "refused", s.refused[0] ? json_string(s.refused) : json_null(), "evidence", evidence);
    gateway_env_release(&env);
    return o;
}

#define PROVIDERS_MAX (CONFIG_PROVIDERS_MAX + 64) /* the catalog's own too */

static json_t *providers_json(struct gateway *g)
{
    struct gate_status *s = calloc(PROVIDERS_MAX, sizeof *s);
    size_t n = s ? gate_list(g->gate, s, PROVIDERS_MAX) : 0;
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, json_pack("{s:s,s:s,s:I,s:I,s:I}", "name", s[i].name,
                                                    "state", gate_state_name(s[i].state),
                                                    "in_flight", (json_int_t)s[i].in_flight,
                                                    "waiting", (json_int_t)s[i].waiting, "failures",
                                                    (json_int_t)s[i].failures));
    }
    free(s);
    return list;
}

void api_status_ready(struct gateway *g, struct conn *c)
{
    struct failure f = {.status = 0};
    struct snapshot *s = gateway_snapshot(g, 0, &f);
    bool engine = g->engine && engine_child_is_ready(g->engine),
         records = records_is_writable(g->records);
    json_t *o = json_pack("{s:s,s:o,s:o,s:b,s:b,s:I,s:o}", "status",
                          s && engine && records ? "ready" : "not ready", "catalog_version",
                          s ? json_integer(snapshot_version(s)) : json_null(), "catalog",
                          catalog_json(g), "engine", engine, "records", records, "records_failed",
                          (json_int_t)records_n_failed(g->records), "providers", providers_json(g));
    snapshot_release(s);
    routes_reply_json(c, s && engine && records ? 200 : 503, o);
}
