/* api_explain.c - POST /v1/explain: the plans and the exact bytes that would leave. Calls nobody.
 */
#include "gateway/explain.h"
#include "routes.h"

void api_explain(struct gateway *g, struct conn *c)
{
    struct failure f = {.status = 0};
    struct prepare_env env;
    char day[11];
    struct snapshot *s = gateway_snapshot(g, 0, &f);
    json_t *out = NULL;
    if (s) {
        gateway_env(g, s, day, &env);
        out = explain_body(&env, conn_body(c), &f);
        gateway_env_release(&env);
    }
    snapshot_release(s);
    if (out) {
        routes_reply_json(c, 200, out);
    } else {
        routes_reply_failure(c, &f);
    }
}
