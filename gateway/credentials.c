/* credentials.c - see credentials.h. Reads the environment and files, so only exchange and the tool
 * call credentials_find(); the rest is pure. */
#include "credentials.h"

#include "backend/sigv4.h"
#include <stdio.h>
#include <string.h>

/* ---- where a request goes */

/* The host, with its port where that is not the scheme's own, as libcurl writes it into the Host
 * header. *path: the rest of the url. false: longer than `cap`. */
static bool host_of(const char *url, char *host, size_t cap, const char **path)
{
    const char *at = strstr(url, "://"), *usual = strncmp(url, "https:", 6) == 0 ? ":443" : ":80";
    at = at ? at + 3 : url;
    size_t n = strcspn(at, "/?#"), port = strlen(usual);
    *path = at + n;
    n -= n > port && memcmp(at + n - port, usual, port) == 0 ? port : 0;
    if (n == 0 || n >= cap) {
        return false;
    }
    memcpy(host, at, n);
    host[n] = '\0';
    return true;
}

/* Whether `host` is "bedrock-runtime.{region}.amazonaws.com"; then the region is filled in. */
static bool is_host_of(const char *host, const char *form, size_t len, char region[65])
{
    static const char mark[] = "{region}";
    const size_t mark_len = sizeof mark - 1;
    const char *place = memmem(form, len, mark, mark_len);
    size_t before = place ? (size_t)(place - form) : len;
    size_t after = place ? len - before - mark_len : 0, n = strlen(host);
    if (!place || n <= before + after || memcmp(host, form, before) != 0 ||
        memcmp(host + n - after, form + len - after, after) != 0) {
        return false;
    }
    size_t size = n - before - after;
    if (size > 64 || strspn(host + before, "abcdefghijklmnopqrstuvwxyz0123456789-") != size) {
        return false;
    }
    (void)snprintf(region, 65, "%.*s", (int)size, host + before);
    return true;
}

/* One of the provider's own hosts: what a machine usually has may go there. */
static bool is_own(const struct target *t, char region[65])
{
    char host[256];
    const char *path, *forms = t->provider->sign_hosts;
    region[0] = '\0';
    if (!forms || strncmp(t->url, "https://", 8) != 0 ||
        !host_of(t->url, host, sizeof host, &path)) {
        return false;
    }
    for (const char *p = forms; *p;) {
        size_t n = strcspn(p, " ");
        if (is_host_of(host, p, n, region)) {
            return true;
        }
        p += n + strspn(p + n, " ");
    }
    return false;
}

static const char *configured_region(const struct config *conf, const struct target *t)
{
    for (unsigned i = 0; i < conf->n_providers; i++) {
        if (strcmp(conf->providers[i].name, t->provider_name) == 0) {
            return conf->providers[i].region;
        }
    }
    return NULL;
}

/* The region to sign for, "" for none: then nothing is signed. *key_name: the key that comes before
 * a signature, or NULL. */
static void find_way(const struct config *conf, const struct target *t, char region[65],
                     const char **key_name)
{
    bool own = is_own(t, region);
    const char *given = configured_region(conf, t);
    *key_name = t->key_name || t->key_file ? t->key_name : own ? t->provider->key_env : NULL;
    if (given) {
        (void)snprintf(region, 65, "%s", given);
    }
}

bool credentials_are_sent(const struct config *conf, const struct target *t)
{
    char region[65];
    const char *key_name;
    if (t->provider->is_local || t->provider->auth != CATALOG_AUTH_SIGV4) {
        return t->key_name || t->key_file;
    }
    find_way(conf, t, region, &key_name);
    return key_name || t->key_file || region[0];
}

/* ---- keys */

static bool find_pair(struct credentials *c)
{
    bool ok =
        config_key("AWS_ACCESS_KEY_ID", c->access_key_id, sizeof c->access_key_id) &&
        config_key("AWS_SECRET_ACCESS_KEY", c->secret_access_key, sizeof c->secret_access_key);
    if (ok && !config_key("AWS_SESSION_TOKEN", c->session_token, sizeof c->session_token)) {
        c->session_token[0] = '\0'; /* these are not temporary */
    }
    return ok;
}

static bool find_to_sign(const struct config *conf, const struct target *t, struct credentials *c,
                         struct failure *f)
{
    const char *key_name;
    find_way(conf, t, c->region, &key_name);
    if (key_name && config_key(key_name, c->key, sizeof c->key)) {
        return true;
    }
    c->key[0] = '\0';
    c->signs = c->region[0] && find_pair(c);
    if (c->signs || (!key_name && !c->region[0])) {
        return true;
    }
    if (!c->region[0]) {
        return failure_set(f, 502, "upstream_auth", NULL,
                           "no key for provider '%.64s': set the environment variable %.64s, or a "
                           "region in its configuration to sign with AWS credentials",
                           t->provider_name, key_name);
    }
    return failure_set(f, 502, "upstream_auth", NULL,
                       "no key for provider '%.64s': set the environment variables %.64s%s"
                       "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and start again",
                       t->provider_name, key_name ? key_name : "", key_name ? ", or " : "");
}

/* The path is the operator's to know: whoever logs the failure
 * names it, the answer does not. */
static bool find_in_file(const struct target *t, struct credentials *c, struct failure *f)
{
    const char *why = config_key_file(t->key_file, c->key, sizeof c->key);
    return !why || failure_set(f, 502, "upstream_auth", NULL,
                               "the key file of provider '%.64s' cannot be used: %s",
                               t->provider_name, why);
}

bool credentials_find(const struct config *conf, const struct target *t, struct credentials *out,
                      struct failure *f)
{
    memset(out, 0, sizeof *out);
    if (t->key_file) {
        return find_in_file(t, out, f);
    }
    if (!t->provider->is_local && t->provider->auth == CATALOG_AUTH_SIGV4) {
        return find_to_sign(conf, t, out, f);
    }
    if (!t->key_name || config_key(t->key_name, out->key, sizeof out->key)) {
        return true;
    }
    return failure_set(
        f, 502, "upstream_auth", NULL,
        "no key for provider '%.64s': set the environment variable %.64s and start again",
        t->provider_name, t->key_name);
}

void credentials_wipe(struct credentials *c)
{
    explicit_bzero(c, sizeof *c);
}

/* ---- signature */

bool credentials_sign(const struct credentials *c, const struct target *t, struct slice body,
                      int64_t time_s, struct headers *h, struct failure *f)
{
    if (!c->signs) {
        return true;
    }
    char host[256] = "";
    const char *path = "", *content_type = headers_get(h, "content-type");
    (void)host_of(t->url, host, sizeof host, &path); /* "" is refused below */
    struct sigv4_request r = {.method = "POST",
                              .host = host,
                              .path = path,
                              .content_type = content_type ? content_type : "",
                              .body = body,
                              .region = c->region,
                              .service = t->provider->sign_service,
                              .access_key_id = c->access_key_id,
                              .secret_access_key = c->secret_access_key,
                              .session_token = c->session_token[0] ? c->session_token : NULL,
                              .time_s = time_s};
    struct sigv4_headers s;
    if (!sigv4_sign(&r, &s, f)) {
        return false;
    }
    bool ok =
        headers_add(h, "x-amz-date", s.date) &&
        headers_add(h, "x-amz-content-sha256", s.content_sha256) &&
        (!r.session_token || headers_add_secret(h, "x-amz-security-token", "", r.session_token)) &&
        headers_add_secret(h, "authorization", "", s.authorization);
    explicit_bzero(&s, sizeof s);
    return ok || failure_set(f, 500, "bad_header", NULL,
                             "the signature of a request to provider '%.64s' cannot be sent",
                             t->provider_name);
}
