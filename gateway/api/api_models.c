/* api_models.c - GET /v1/models: every reachable model with what its provider takes of each
 * parameter (of a retired one: took on its last day), and where that is known from; of a local one
 * whether it is loaded, and what it takes. */
#include "gateway/prepare.h"
#include "routes.h"

#include <stdio.h>
#include <string.h>

/* "verified": a probe or live traffic has confirmed it; "contradicted" is there where they said
 * otherwise. */
static json_t *parameter_json(const struct claim *c)
{
    json_t *o = json_pack("{s:s,s:o,s:o,s:o,s:s,s:b}", "support", claim_support_name(c->support),
                          "min", c->has_min ? value_json(c->min_value) : json_null(), "max",
                          c->has_max ? value_json(c->max_value) : json_null(), "default",
                          value_json(c->fallback), "as_of", c->as_of, "verified",
                          c->verdict == CLAIM_CONFIRMED);
    if (o && c->verdict == CLAIM_CONTRADICTED) {
        (void)json_object_set_new(o, "contradicted", json_true());
    }
    return o;
}

static json_t *parameters_json(const struct rules *r)
{
    json_t *o = json_object();
    for (unsigned i = 0; o && i < PARAM_COUNT; i++) {
        if (r->param[i]) {
            (void)json_object_set_new(o, sampling_table[i].name, parameter_json(r->param[i]));
        }
    }
    return o;
}

static json_t *model_json(struct gateway *g, const struct prepare_env *env, const char *name)
{
    struct failure f = {.status = 0};
    struct catalog_error e = {.code = CATALOG_OK};
    struct target t;
    struct rules r;
    struct catalog_retired retired = {.on = NULL};
    if (!resolve(env->conf, env->snap, REQUEST_CHAT, false, name, &t, &f) ||
        !snapshot_rules_with(env->snap, t.provider->id, t.model, t.switches, CATALOG_CHAT, env->day,
                             &r, &e)) {
        return NULL;
    }
    if (!r.is_known &&
        snapshot_retired(env->snap, t.provider->id, t.model, t.switches, env->day, &retired) &&
        r.retired_on && /* what held on its last day */
        !snapshot_rules_with(env->snap, t.provider->id, t.model, t.switches, CATALOG_CHAT,
                             r.retired_on, &r, &e)) {
        return NULL;
    }
    json_t *own = json_pack("{s:s,s:s,s:s?,s:o}", "model", t.name, "dialect", t.provider->dialect,
                            "retired_on", retired.on, "parameters", parameters_json(&r));
    if (own && !t.base_url && g->engine) {
        (void)json_object_update_new(own, engine_child_model(g->engine, t.model));
    }
    return json_pack("{s:s,s:s,s:I,s:s,s:o}", "id", name, "object", "model", "created",
                     (json_int_t)(g->started_us / 1000000), "owned_by", t.provider_name, "isotherm",
                     own);
}

static void add(struct gateway *g, const struct prepare_env *env, json_t *list, const char *name)
{
    json_t *m = model_json(g, env, name);
    if (m) {
        (void)json_array_append_new(list, m);
    }
}

static json_t *list_models(struct gateway *g, const struct prepare_env *env)
{
    const struct config *conf = env->conf;
    json_t *list = json_array();
    char name[LIMIT_MODEL_NAME + 80];
    add(g, env, list, "local");
    for (unsigned i = 0; i < conf->n_models; i++) {
        (void)snprintf(name, sizeof name, "local/%s", conf->models[i].name);
        add(g, env, list, name);
    }
    for (unsigned i = 0; i < conf->n_aliases; i++) {
        add(g, env, list, conf->aliases[i].name);
    }
    for (unsigned i = 0; i < conf->n_providers; i++) {
        for (unsigned j = 0; j < conf->providers[i].n_models; j++) {
            (void)snprintf(name, sizeof name, "%s/%s", conf->providers[i].name,
                           conf->providers[i].models[j]);
            add(g, env, list, name);
        }
    }
    return list;
}

void api_models_list(struct gateway *g, struct conn *c)
{
    struct failure f = {.status = 0};
    struct prepare_env env;
    char day[11];
    struct snapshot *s = gateway_snapshot(g, 0, &f);
    if (!s) {
        routes_reply_failure(c, &f);
        return;
    }
    gateway_env(g, s, day, &env);
    routes_reply_json(c, 200,
                      json_pack("{s:s,s:o}", "object", "list", "data", list_models(g, &env)));
    gateway_env_release(&env);
    snapshot_release(s);
}

void api_models_get(struct gateway *g, struct conn *c, const char *id)
{
    struct failure f = {.status = 0};
    struct prepare_env env;
    char day[11];
    struct snapshot *s = gateway_snapshot(g, 0, &f);
    json_t *m = NULL;
    if (s) {
        gateway_env(g, s, day, &env);
        m = model_json(g, &env, id);
        gateway_env_release(&env);
    }
    snapshot_release(s);
    if (m) {
        routes_reply_json(c, 200, m);
        return;
    }
    (void)failure_set(&f, 404, "model_not_found", "model",
                      "model '%.128s' is not known: see GET /v1/models", id);
    routes_reply_failure(c, &f);
}
