/* routes.h - method and path -> endpoint. */
#ifndef ISOTHERM_ROUTES_H
#define ISOTHERM_ROUTES_H

#include "gateway/exchange.h"

/* A server_handler_fn; ud is the struct gateway. */
void routes_handle(struct conn *c, void *gateway);

/* The endpoints off the main path. Each answers before it returns, but for api_catalog_show(),
 * which may wait for a version to be loaded, and api_distribution(), which asks the engine. */
void api_models_list(struct gateway *g, struct conn *c);
void api_models_get(struct gateway *g, struct conn *c, const char *id);
void api_catalog_show(struct gateway *g, struct conn *c);
void api_catalog_versions(struct gateway *g, struct conn *c);
void api_catalog_diff(struct gateway *g, struct conn *c);
void api_catalog_history(struct gateway *g, struct conn *c);
void api_explain(struct gateway *g, struct conn *c);
void api_distribution(struct gateway *g, struct conn *c);
void api_status_health(struct gateway *g, struct conn *c);
void api_status_ready(struct gateway *g, struct conn *c);

/* For endpoints: a JSON body (taken over) with status, or a failure. */
void routes_reply_json(struct conn *c, int status, json_t *body);
void routes_reply_failure(struct conn *c, const struct failure *f);

#endif
