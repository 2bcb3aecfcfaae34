/* mock_route.h - from an address to the provider, its dialect and the model.
 *
 *   /anthropic/v1/messages   the provider's name, the path of its base_url, its chat_path
 *   /v1/messages             the same with --provider anthropic
 *   /v1/chat/completions     without --provider: the provider "scripted", see isotherm_mock.c
 *
 * A provider without a base_url (the user's own host) may have any path before its chat_path.
 */
#ifndef ISOTHERM_MOCK_ROUTE_H
#define ISOTHERM_MOCK_ROUTE_H

#include "mock.h"

struct mock_route {
    const struct provider *provider;
    const struct mock_dialect *dialect;
    bool is_text, is_also;
    bool is_stream;   /* the address is that of a stream and of nothing else */
    char model[257];  /* where the address has it, else "" */
    const char *path; /* below the provider's base; borrowed from the request's path */
};

/* `only`: the provider of --provider, or NULL. false: the address is nobody's; `out` then has the
 * provider and a dialect where at least its name is known, else NULL. */
bool mock_route_find(const struct snapshot *s, const struct provider *only, const char *path,
                     struct mock_route *out);

/* NULL: there is no such dialect. `is_text`: TGI's raw completions have one of their own. */
const struct mock_dialect *mock_route_dialect(const char *name, bool is_text);
#endif
