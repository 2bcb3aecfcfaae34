/* routes.c - see routes.h. One table; a path that is known with another method is 405 and says
 * which ones it has. */
#include "routes.h"

#include "gateway/base/jsonio.h"
#include "gateway/reply.h"
#include <stdio.h>
#include <string.h>

static void chat(struct gateway *g, struct conn *c, const char *rest)
{
    (void)rest;
    exchange_start(g, c, REQUEST_CHAT);
}

static void text(struct gateway *g, struct conn *c, const char *rest)
{
    (void)rest;
    exchange_start(g, c, REQUEST_TEXT);
}

static void models(struct gateway *g, struct conn *c, const char *rest)
{
    if (rest[0]) {
        api_models_get(g, c, rest);
    } else {
        api_models_list(g, c);
    }
}

static void explain(struct gateway *g, struct conn *c, const char *rest)
{
    (void)rest;
    api_explain(g, c);
}

static void distribution(struct gateway *g, struct conn *c, const char *rest)
{
    (void)rest;
    api_distribution(g, c);
}

static void catalog(struct gateway *g, struct conn *c, const char *rest)
{
    (void)rest;
    api_catalog_show(g, c);
}

static void catalog_list(struct gateway *g, struct conn *c, const char *rest)
{
    (void)rest;
    api_catalog_versions(g, c);
}

static void catalog_difference(struct gateway *g, struct conn *c, const char *rest)
{
    (void)rest;
    api_catalog_diff(g, c);
}

static void catalog_past(struct gateway *g, struct conn *c, const char *rest)
{
    (void)rest;
    api_catalog_history(g, c);
}

static void health(struct gateway *g, struct conn *c, const char *rest)
{
    (void)rest;
    api_status_health(g, c);
}

static void ready(struct gateway *g, struct conn *c, const char *rest)
{
    (void)rest;
    api_status_ready(g, c);
}

static const struct route {
    const char *method, *path;
    bool is_prefix; /* path, or path + "/" + rest */
    void (*fn)(struct gateway *g, struct conn *c, const char *rest);
} routes[] = {
    {"POST", "/v1/chat/completions", false, chat},
    {"POST", "/v1/completions", false, text},
    {"GET", "/v1/models", true, models},
    {"POST", "/v1/explain", false, explain},
    {"POST", "/v1/distribution", false, distribution},
    {"GET", "/v1/catalog", false, catalog},
    {"GET", "/v1/catalog/versions", false, catalog_list},
    {"GET", "/v1/catalog/diff", false, catalog_difference},
    {"GET", "/v1/catalog/history", false, catalog_past},
    {"GET", "/healthz", false, health},
    {"GET", "/readyz", false, ready},
};

/* What stands behind the path of a prefix route; NULL: another path. */
static const char *match(const struct route *r, const char *path)
{
    size_t n = strlen(r->path);
    if (strncmp(r->path, path, n) != 0) {
        return NULL;
    }
    if (path[n] == '\0') {
        return "";
    }
    return r->is_prefix && path[n] == '/' && path[n + 1] ? path + n + 1 : NULL;
}

static void not_allowed(struct conn *c, const struct route *r)
{
    struct failure f = {.status = 0};
    struct buf out;
    buf_init(&out, 1u << 12);
    (void)failure_set(&f, 405, "method_not_allowed", NULL, "%s takes %s", r->path, r->method);
    (void)reply_failure(&f, NULL, false, &out);
    struct conn_header h = {"allow", r->method};
    conn_reply(c, 405, "application/json", &h, 1, buf_slice(&out));
    buf_release(&out);
}

void routes_handle(struct conn *c, void *gateway)
{
    const char *method = conn_method(c), *path = conn_path(c);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const char *rest = match(&routes[i], path);
        bool is_method = strcmp(method, routes[i].method) == 0 ||
                         (strcmp(method, "HEAD") == 0 && strcmp(routes[i].method, "GET") == 0);
        if (rest && is_method) {
            routes[i].fn(gateway, c, rest);
            return;
        }
        if (rest) {
            not_allowed(c, &routes[i]);
            return;
        }
    }
    struct failure f = {.status = 0};
    (void)failure_set(&f, 404, "not_found", NULL,
                      "there is no '%.128s' here: see /v1/chat/completions, /v1/completions, "
                      "/v1/models, /v1/explain, /v1/distribution, /v1/catalog",
                      path);
    routes_reply_failure(c, &f);
}

void routes_reply_json(struct conn *c, int status, json_t *body)
{
    struct buf out;
    buf_init(&out, LIMIT_ANSWER_BYTES);
    if (body && jsonio_write(&out, body)) {
        conn_reply(c, status, "application/json", NULL, 0, buf_slice(&out));
    } else {
        struct failure f = {.status = 0};
        (void)failure_set(&f, 503, "out_of_memory", NULL, "out of memory");
        routes_reply_failure(c, &f);
    }
    buf_release(&out);
    json_decref(body);
}

void routes_reply_failure(struct conn *c, const struct failure *f)
{
    exchange_reply_failure(c, f, NULL, NULL);
}
