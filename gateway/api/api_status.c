/* api_status.c - GET /healthz: the process answers. GET /readyz: it can do its work: catalog open,
 * records writable, engine up. */
#include "routes.h"

void api_status_health(struct gateway *g, struct conn *c)
{
    (void)g;
    routes_reply_json(c, 200, json_pack("{s:s}", "status", "ok"));
}

void api_status_ready(struct gateway *g, struct conn *c)
{
    struct failure f = {.status = 0};
    struct snapshot *s = gateway_snapshot(g, 0, &f);
    bool engine = g->engine && engine_child_is_ready(g->engine),
         records = records_is_writable(g->records);
    json_t *o = json_pack(
        "{s:s,s:o,s:b,s:b,s:I}", "status", s && engine && records ? "ready" : "not ready",
        "catalog_version", s ? json_integer(snapshot_version(s)) : json_null(), "engine", engine,
        "records", records, "records_failed", (json_int_t)records_n_failed(g->records));
    snapshot_release(s);
    routes_reply_json(c, s && engine && records ? 200 : 503, o);
}
