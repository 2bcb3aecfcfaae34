/* api_explain.c - POST /v1/explain: the plans and the exact bytes that would leave. Calls nobody;
 * it waits only where the body names a version of the catalog that is not loaded. */
#include "gateway/base/jsonio.h"
#include "gateway/explain.h"
#include "routes.h"

#include <stdlib.h>

struct explain_wait {
    struct gateway *gateway;
    struct conn *conn;
};

static void answer(struct gateway *g, struct conn *c, struct snapshot *s)
{
    struct failure f = {.status = 0};
    struct prepare_env env;
    char day[11];
    gateway_env(g, s, day, &env);
    json_t *out = explain_body(&env, conn_body(c), &f);
    gateway_env_release(&env);
    if (out) {
        routes_reply_json(c, 200, out);
    } else {
        routes_reply_failure(c, &f);
    }
}

static void on_version(struct snapshot *s, const struct failure *f, void *ud)
{
    struct explain_wait *w = ud;
    if (s) {
        answer(w->gateway, w->conn, s);
    } else {
        routes_reply_failure(w->conn, f);
    }
    snapshot_release(s);
    free(w);
}

/* 0: none, or a body that explain_body() will find fault with. */
static int64_t version_of(struct slice bytes)
{
    json_t *body = bytes.p ? jsonio_parse(bytes.p, bytes.len, NULL) : NULL;
    const json_t *v = json_object_get(json_object_get(body, "isotherm"), "catalog_version");
    int64_t version = json_is_integer(v) && json_integer_value(v) > 0 ? json_integer_value(v) : 0;
    json_decref(body);
    return version;
}

void api_explain(struct gateway *g, struct conn *c)
{
    int64_t version = version_of(conn_body(c));
    struct snapshot *s = gateway_snapshot(g, version, NULL);
    if (s) {
        answer(g, c, s);
        snapshot_release(s);
        return;
    }
    struct explain_wait *w = calloc(1, sizeof *w);
    if (w) {
        *w = (struct explain_wait){g, c};
    }
    if (!w || !keeper_version(g->keeper, version, conn_loop(c), on_version, w)) {
        struct failure f = {.status = 0};
        free(w);
        (void)failure_set(&f, 503, "out_of_memory", NULL, "out of memory");
        routes_reply_failure(c, &f);
    }
}
