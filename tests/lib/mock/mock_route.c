/* mock_route.c - each path of a provider is a template with at most one "{model}"; a model may hold
 * slashes, so a template is matched by what is before and behind it. */
#include "mock_route.h"
#include <stdio.h>
#include <string.h>

static const struct mock_dialect *const dialects[] = {
    &mock_dialect_openai, &mock_dialect_responses, &mock_dialect_anthropic, &mock_dialect_google,
    &mock_dialect_palm,   &mock_dialect_converse,  &mock_dialect_cohere,    &mock_dialect_ollama,
    &mock_dialect_tgi,    &mock_dialect_dashscope,
};

const struct mock_dialect *mock_route_dialect(const char *name, bool is_text)
{
    /* TGI's chat is OpenAI's; its own dialect is that of /generate. */
    if (name && strcmp(name, "tgi") == 0 && !is_text) {
        name = "openai";
    }
    if (name && strcmp(name, "palm-predict") == 0) {
        name = "palm"; /* one file for all three: the path says which */
    }
    for (size_t i = 0; name && i < sizeof dialects / sizeof *dialects; i++) {
        if (strcmp(dialects[i]->name, name) == 0) {
            return dialects[i];
        }
    }
    return NULL;
}

/* The path of "https://host:1/v1": "/v1"; "" where there is none. */
static const char *base_path(const char *base_url)
{
    const char *host = base_url ? strstr(base_url, "://") : NULL;
    const char *path = host ? strchr(host + 3, '/') : NULL;
    return path ? path : "";
}

/* `path` is `template` up to a '?'; is_suffix: something may be before it. Where the path below the
 * base begins goes into *below. */
static bool matches(const char *template, bool is_suffix, const char *path, char *model, size_t cap,
                    const char **below)
{
    size_t len = strcspn(template, "?"), path_len = strlen(path);
    const char *hole = strstr(template, "{model}");
    size_t head = hole ? (size_t)(hole - template) : len;
    const char *tail = hole ? hole + 7 : template + len;
    size_t tail_len = len - (size_t)(tail - template);
    const char *at = path;
    model[0] = '\0';
    while (true) {
        size_t left = path_len - (size_t)(at - path);
        if (left >= head + tail_len && strncmp(at, template, head) == 0 &&
            strncmp(path + path_len - tail_len, tail, tail_len) == 0) {
            size_t model_len = left - head - tail_len;
            *below = at;
            if (hole ? model_len > 0 && model_len < cap : model_len == 0) {
                (void)snprintf(model, cap, "%.*s", (int)model_len, hole ? at + head : "");
                return true;
            }
        }
        at = is_suffix && at[0] ? strchr(at + 1, '/') : NULL;
        if (!at) {
            return false;
        }
    }
}

bool mock_route_find(const struct snapshot *s, const struct provider *only, const char *path,
                     struct mock_route *out)
{
    *out = (struct mock_route){.provider = only, .path = path};
    if (!only && path[0] == '/') {
        char name[64];
        size_t len = strcspn(path + 1, "/");
        (void)snprintf(name, sizeof name, "%.*s", (int)len, path + 1);
        out->provider = s ? snapshot_provider(s, name) : NULL;
        path += 1 + len;
    }
    const struct provider *p = out->provider;
    if (!p) {
        return false;
    }
    out->dialect = mock_route_dialect(p->dialect, false);
    const char *base = base_path(p->base_url);
    size_t base_len = strlen(base);
    if (strncmp(path, base, base_len) != 0) {
        return false;
    }
    const struct {
        const char *template, *dialect;
        bool is_text, is_also, is_stream;
    } routes[] = {{p->stream_path, p->dialect, false, false, true},
                  {p->chat_path, p->dialect, false, false, false},
                  {p->text_stream_path, p->dialect, true, false, true},
                  {p->text_path, p->dialect, true, false, false},
                  {p->also.stream_path, p->also.dialect, false, true, true},
                  {p->also.chat_path, p->also.dialect, false, true, false}};
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const struct mock_dialect *d = mock_route_dialect(routes[i].dialect, routes[i].is_text);
        if (routes[i].template && d &&
            matches(routes[i].template, !p->base_url, path + base_len, out->model,
                    sizeof out->model, &out->path)) {
            out->dialect = d;
            out->is_text = routes[i].is_text;
            out->is_also = routes[i].is_also;
            out->is_stream = routes[i].is_stream;
            return true;
        }
    }
    return false;
}
