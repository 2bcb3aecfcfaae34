/* resolve.c - see resolve.h. Aliases are followed once: an alias of an alias is refused when the
 * configuration is read. */
#include "resolve.h"

#include "backend/sigv4.h"
#include "catalog/nearest.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_LOCAL_MODEL "tales"

const char *resolve_first_local(const struct config *conf)
{
    return conf->n_models ? conf->models[0].name : DEFAULT_LOCAL_MODEL;
}

static const struct config_alias *find_alias(const struct config *conf, const char *name)
{
    for (unsigned i = 0; i < conf->n_aliases; i++) {
        if (strcmp(conf->aliases[i].name, name) == 0) {
            return &conf->aliases[i];
        }
    }
    return NULL;
}

size_t resolve_targets(const struct config *conf, const char *name, char *const **targets)
{
    const struct config_alias *a = find_alias(conf, name);
    *targets = a ? a->targets : NULL;
    return a ? a->n_targets : 1;
}

/* The provider that `name` begins with, or the alias that it is, in other letters. */
static void offer_names(const struct config *conf, const struct snapshot *snap, bool has_slash,
                        struct nearest *n)
{
    for (unsigned i = 0; !has_slash && i < conf->n_aliases; i++) {
        nearest_offer(n, conf->aliases[i].name);
    }
    for (unsigned i = 0; has_slash && i < conf->n_providers; i++) {
        nearest_offer(n, conf->providers[i].name);
    }
    for (size_t i = 0; has_slash && i < snapshot_n_providers(snap); i++) {
        nearest_offer(n, snapshot_provider_at(snap, i)->id);
    }
}

static bool unknown_model(const struct config *conf, const struct snapshot *snap, struct failure *f,
                          const char *name)
{
    char word[NEAREST_WORD_MAX], hint[NEAREST_WORD_MAX + 24] = "";
    const char *slash = strchr(name, '/');
    size_t n = slash ? (size_t)(slash - name) : strlen(name);
    struct nearest near;
    (void)snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : 0), name);
    nearest_init(&near, word);
    offer_names(conf, snap, slash, &near);
    if (near.best[0] && !near.is_known) {
        (void)snprintf(hint, sizeof hint, "did you mean '%s%s'? ", near.best, slash ? "/..." : "");
    }
    return failure_set(f, 404, "model_not_found", "model",
                       "model '%.128s' is not known: %sname it provider/model, by an alias of the "
                       "configuration, or local",
                       name, hint);
}

static bool resolve_local(const struct config *conf, const struct snapshot *snap, const char *name,
                          struct target *out, struct failure *f)
{
    const char *model = strchr(name, '/') ? strchr(name, '/') + 1 : resolve_first_local(conf);
    bool is_known = conf->n_models == 0 && strcmp(model, DEFAULT_LOCAL_MODEL) == 0;
    for (unsigned i = 0; i < conf->n_models; i++) {
        is_known = is_known || strcmp(conf->models[i].name, model) == 0;
    }
    if (!is_known) {
        return unknown_model(conf, snap, f, name);
    }
    out->provider_name = "local";
    out->provider = snapshot_provider(snap, "local");
    (void)snprintf(out->model, sizeof out->model, "%s", model);
    (void)snprintf(out->name, sizeof out->name, "local/%.*s", LIMIT_MODEL_NAME - 6, model);
    return out->provider || failure_set(f, 503, "catalog_unavailable", NULL,
                                        "the catalog has no provider 'local': build it again");
}

/* The configured provider of that name, else the catalog's own entry for it. */
static bool find_provider(const struct config *conf, const struct snapshot *snap,
                          const char *prefix, struct target *out,
                          const struct config_provider **configured)
{
    *configured = NULL;
    for (unsigned i = 0; i < conf->n_providers; i++) {
        if (strcmp(conf->providers[i].name, prefix) == 0) {
            *configured = &conf->providers[i];
            out->provider_name = (*configured)->name;
            out->provider =
                snapshot_provider(snap, (*configured)->catalog ? (*configured)->catalog : prefix);
            return out->provider != NULL;
        }
    }
    out->provider = snapshot_provider(snap, prefix);
    if (out->provider) {
        out->provider_name = out->provider->id;
    }
    return out->provider && !out->provider->is_local;
}

/* A provider's usual key goes to the provider's own address only: a configured address needs a
 * configured key. */
static const char *key_name_of(const struct target *t, const struct config_provider *configured)
{
    if (configured && (configured->api_key || configured->api_key_file)) {
        return configured->api_key;
    }
    return configured && configured->base_url ? NULL : t->provider->key_env;
}

/* Before the address: some of these have none, and it would not help to set one. */
static bool set_backend(struct target *t, const char *dialect, struct failure *f)
{
    const struct backend *b = backend_find(dialect);
    if (!b) {
        return failure_set(f, 501, "dialect_not_built", "model",
                           "provider '%.64s' is in the catalog, but this build does not speak its "
                           "dialect '%.32s': ask another one",
                           t->provider_name, dialect);
    }
    t->backend = b;
    return true;
}

/* The base, without the slash at its end, and the path with the model's id in the place of
 * "{model}". */
static bool set_url(struct target *t, const char *path, struct failure *f)
{
    static const char mark[] = "{model}";
    char model[3 * LIMIT_MODEL_NAME + 1] = "";
    const char *place = strstr(path, mark);
    size_t n = strlen(t->base_url), before = place ? (size_t)(place - path) : strlen(path);
    while (n > 0 && t->base_url[n - 1] == '/') {
        n--;
    }
    if (place && !sigv4_url_path(t->model, model, sizeof model)) {
        return failure_set(f, 404, "model_not_found", "model",
                           "model '%.128s' cannot be part of an address", t->name);
    }
    int len = snprintf(t->url, sizeof t->url, "%.*s%.*s%s%s", (int)n, t->base_url, (int)before,
                       path, model, place ? place + sizeof mark - 1 : "");
    return (len > 0 && (size_t)len < sizeof t->url) ||
           failure_set(f, 500, "bad_configuration", NULL,
                       "the address of provider '%.64s' is too long", t->provider_name);
}

static const char *path_of(const struct provider *p, enum request_kind kind, bool is_stream)
{
    bool is_chat = kind == REQUEST_CHAT;
    const char *streamed = is_chat ? p->stream_path : p->text_stream_path;
    return is_stream && streamed ? streamed : is_chat ? p->chat_path : p->text_path;
}

bool resolve_at(struct target *t, const char *base_url, enum request_kind kind, bool is_stream,
                struct failure *f)
{
    const char *path = path_of(t->provider, kind, is_stream);
    t->base_url = base_url;
    if (!path) {
        return failure_set(f, 404, "endpoint_not_supported", "model",
                           "provider '%.64s' has no raw completions: use /v1/chat/completions",
                           t->provider_name);
    }
    return set_url(t, path, f);
}

static bool set_address(struct target *t, const struct config_provider *configured,
                        enum request_kind kind, bool is_stream, struct failure *f)
{
    const char *base =
        configured && configured->base_url ? configured->base_url : t->provider->base_url;
    if (!base) {
        return failure_set(f, 404, "model_not_found", "model",
                           "provider '%.64s' has no address of its own: set base_url for it in the "
                           "configuration, under providers",
                           t->provider_name);
    }
    t->key_name = key_name_of(t, configured);
    t->key_file = configured ? configured->api_key_file : NULL;
    t->ca_file = configured ? configured->ca_file : NULL;
    t->switches = configured ? configured->switches : NULL;
    t->allow_retired = configured && configured->calls.allow_retired;
    return resolve_at(t, base, kind, is_stream, f);
}

bool resolve_also(struct target *t, bool is_stream, struct failure *f)
{
    const struct provider_route *r = &t->provider->also;
    const char *path = is_stream && r->stream_path ? r->stream_path : r->chat_path;
    return r->dialect && set_backend(t, r->dialect, f) && set_url(t, path, f);
}

bool resolve_prefill(struct target *t, struct failure *f)
{
    return !t->provider->prefill_path || set_url(t, t->provider->prefill_path, f);
}

/* "models/gemini-x" and "gemini-x" are one name where the path says "models/". */
static const char *model_id(const struct provider *p, const char *model)
{
    size_t n = p->model_prefix ? strlen(p->model_prefix) : 0;
    return n > 0 && strncmp(model, p->model_prefix, n) == 0 && model[n] ? model + n : model;
}

bool resolve(const struct config *conf, const struct snapshot *snap, enum request_kind kind,
             bool is_stream, const char *model, struct target *out, struct failure *f)
{
    struct target t = {.name = ""};
    const struct config_alias *alias = find_alias(conf, model);
    const char *name = alias ? alias->targets[0] : model;
    const char *slash = strchr(name, '/');
    if (strcmp(name, "local") == 0 || strncmp(name, "local/", 6) == 0) {
        if (!resolve_local(conf, snap, name, &t, f)) {
            return false;
        }
    } else {
        char prefix[65];
        const struct config_provider *configured;
        if (!slash || slash[1] == '\0' || (size_t)(slash - name) >= sizeof prefix ||
            strlen(name) > LIMIT_MODEL_NAME) {
            return unknown_model(conf, snap, f, model);
        }
        memcpy(prefix, name, (size_t)(slash - name));
        prefix[slash - name] = '\0';
        if (!find_provider(conf, snap, prefix, &t, &configured)) {
            return unknown_model(conf, snap, f, model);
        }
        (void)snprintf(t.model, sizeof t.model, "%s", model_id(t.provider, slash + 1));
        (void)snprintf(t.name, sizeof t.name, "%s/%s", prefix, t.model);
        if (!set_backend(&t, t.provider->dialect, f) ||
            !set_address(&t, configured, kind, is_stream, f)) {
            return false;
        }
    }
    if (!t.backend && !set_backend(&t, t.provider->dialect, f)) {
        return false;
    }
    *out = t;
    return true;
}
