/* versions_override.c - what an override takes from its surroundings: what nobody should have to
 * say of a claim that was laid over nothing, and whether its endpoint is one of the provider's.
 */
#include "nearest.h"
#include "versions_content.h"

#include <stdio.h>
#include <string.h>

static bool put(json_t *o, const char *key, json_t *value, struct catalog_error *err)
{
    return json_object_set_new(o, key, value) == 0 ||
           catalog_fail(err, CATALOG_NOMEM, "out of memory");
}

/* The place in the body that all claims of the provider name for the parameter at that endpoint,
 * *out, which is the caller's; NULL: they differ, or there is none. */
static bool usual_wire(struct change *c, const char *provider, const char *param,
                       const char *endpoint, json_t **out, struct catalog_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < c->now.n_claims; i++) {
        const struct member *m = &c->now.claims[i];
        if (strcmp(m->provider, provider) != 0 || strcmp(m->param, param) != 0 ||
            (endpoint && strcmp(m->endpoint, endpoint) != 0)) {
            continue;
        }
        json_t *claim = content_claim_json(c->db, m->id, err);
        if (!claim) {
            json_decref(*out);
            return false;
        }
        json_t *wire = json_object_get(claim, "wire");
        bool is_other = wire && *out && !json_equal(wire, *out);
        if (wire && !*out) {
            *out = json_incref(wire);
        }
        json_decref(claim);
        if (is_other) {
            json_decref(*out);
            *out = NULL;
            return true;
        }
    }
    return true;
}

bool override_fill(struct change *c, const struct version_override *o, const char *endpoint,
                   json_t *claim, struct catalog_error *err)
{
    json_t *wire = NULL;
    const char *support = json_string_value(json_object_get(claim, "support"));
    if (!json_object_get(claim, "support")) {
        if (err && err->code == CATALOG_OK) {
            (void)snprintf(err->param, sizeof err->param, "support");
        }
        return catalog_fail(err, CATALOG_BAD_SOURCE,
                            "%.64s '%.60s' %.40s: 'support' is missing, and no claim is there to "
                            "take it from: give --support, and limits where there are any",
                            o->provider, o->models, o->param);
    }
    if (!json_object_get(claim, "confidence") &&
        !put(claim, "confidence", json_string("medium"), err)) {
        return false;
    }
    if (!support || strcmp(support, "yes") != 0 || json_object_get(claim, "wire")) {
        return true;
    }
    if (!usual_wire(c, o->provider, o->param, endpoint, &wire, err)) {
        return false;
    }
    return !wire || put(claim, "wire", wire, err);
}

bool override_check_endpoint(const struct change *c, const struct version_override *o,
                             const json_t *provider, struct catalog_error *err)
{
    static const char *const own[] = {"chat_endpoint", "text_endpoint"};
    const char *other =
        json_string_value(json_object_get(json_object_get(provider, "also"), "chat_endpoint"));
    char text[NEAREST_TEXT_MAX];
    struct nearest n;
    if (!o->endpoint) {
        return true;
    }
    nearest_init(&n, o->endpoint);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        const char *name = json_string_value(json_object_get(provider, own[i]));
        nearest_offer(&n, name ? name : "");
    }
    nearest_offer(&n, other ? other : "");
    for (size_t i = 0; i < c->now.n_claims; i++) {
        const struct member *m = &c->now.claims[i];
        if (strcmp(m->provider, o->provider) == 0) {
            nearest_offer(&n, m->endpoint);
        }
    }
    return n.is_known || catalog_fail(err, CATALOG_NOT_FOUND, "provider '%.64s' has %s",
                                      o->provider, nearest_text(&n, "endpoint", text));
}

bool catalog_models_exact(const char *model, char *out, size_t cap)
{
    size_t n = 0;
    if (cap < 3) {
        return false;
    }
    out[n++] = '^';
    for (; *model; model++) {
        if (n + 4 > cap) {
            return false;
        }
        if (strchr(".[]{}()*+?^$|\\", *model)) {
            out[n++] = '\\';
        }
        out[n++] = *model;
    }
    out[n++] = '$';
    out[n] = '\0';
    return true;
}
