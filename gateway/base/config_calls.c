/* config_calls.c - see config_calls.h. */
#include "config_calls.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct config_calls defaults = {.retries = 2,
                                             .retry_wait_max_ms = 5000,
                                             .retry_sent = false,
                                             .in_flight_max = 0,
                                             .queue_ms = 10000,
                                             .breaker_failures = 5,
                                             .breaker_ms = 10000,
                                             .http2 = false,
                                             .allow_retired = false};

#define NUMBER(m) #m, offsetof(struct config_calls, m)
static const struct key {
    const char *name;
    size_t at;
    unsigned lowest, highest; /* equal: a switch */
    const char *doc;          /* a line each */
} keys[] = {
    {NUMBER(retries), 0, 10,
     "how often a request is sent again, 0 to 10, where nothing was billed: it\n"
     "could not be sent (refused, no address, no TLS), or 429 or 503 with Retry-After"},
    {NUMBER(retry_wait_max_ms), 0, 600000,
     "a Retry-After longer than this is told to the client\ninstead, 0 to 600000"},
    {NUMBER(retry_sent), 0, 0,
     "true: also after 500, 502, 504, 529, no answer, no first byte in time; the\n"
     "provider may bill each of them"},
    {NUMBER(in_flight_max), 0, 65536,
     "requests at once to this provider, 0 to 65536; 0 for no limit"},
    {NUMBER(queue_ms), 0, 3600000, "how long one more waits for its turn, 0 to 3600000; then 503"},
    {NUMBER(breaker_failures), 0, 1000,
     "failures in a row (not reached, too late, 5xx, broken answers)\n"
     "after which it is not called for a while, 0 to 1000; 0 for never"},
    {NUMBER(breaker_ms), 1, 300000,
     "that while, 1 to 300000; then one request tries, and doubles it when it\n"
     "fails, up to five minutes"},
    {NUMBER(allow_retired), 0, 0, "true: also a model that the catalog says is retired"},
    {NUMBER(http2), 0, 0, "true: HTTP/2, over TLS and where the provider speaks it"},
};
#define N_KEYS (sizeof keys / sizeof *keys)

static bool is_switch(const struct key *k)
{
    return k->lowest == k->highest;
}

static bool check_value(const struct config_file *f, const char *path, const struct key *k,
                        const char *s, struct config_error *err)
{
    unsigned line = yaml_lines_find(f->lines, path);
    if (is_switch(k)) {
        return strcmp(s, "true") == 0 || strcmp(s, "false") == 0 ||
               config_fail(err, "%.100s:%u: %s: '%.40s' is not allowed, true or false expected",
                           f->name, line, path, s);
    }
    size_t n = strspn(s, "0123456789");
    bool is_number = n > 0 && n <= 9 && !s[n] && !(s[0] == '0' && n > 1);
    unsigned long v = is_number ? strtoul(s, NULL, 10) : 0;
    return (is_number && v >= k->lowest && v <= k->highest) ||
           config_fail(err,
                       "%.100s:%u: %s: '%.40s' is not allowed, a whole number from %u to %u "
                       "expected",
                       f->name, line, path, s, k->lowest, k->highest);
}

bool config_calls_check(const struct config_file *f, struct config_error *err)
{
    char path[YAML_LINES_PATH];
    for (unsigned i = 0; i < CONFIG_PROVIDERS_MAX; i++) {
        (void)snprintf(path, sizeof path, "providers[%u]", i);
        if (!yaml_lines_has(f->lines, path)) {
            return true;
        }
        for (size_t j = 0; j < N_KEYS; j++) {
            (void)snprintf(path, sizeof path, "providers[%u].%s", i, keys[j].name);
            const char *s = yaml_lines_scalar(f->lines, path);
            if (s && !check_value(f, path, &keys[j], s, err)) {
                return false;
            }
        }
    }
    return true; /* what comes after so many is refused for its number */
}

void config_calls_fill(struct config *c, const struct yaml_lines *lines)
{
    char path[YAML_LINES_PATH];
    for (unsigned i = 0; i < c->n_providers; i++) {
        for (size_t j = 0; j < N_KEYS; j++) {
            (void)snprintf(path, sizeof path, "providers[%u].%s", i, keys[j].name);
            if (!yaml_lines_has(lines, path)) {
                memcpy((char *)&c->providers[i].calls + keys[j].at,
                       (const char *)&defaults + keys[j].at,
                       is_switch(&keys[j]) ? sizeof(bool) : sizeof(unsigned));
            }
        }
    }
}

const struct config_calls *config_calls_of(const struct config *c, const char *provider)
{
    for (unsigned i = 0; provider && i < c->n_providers; i++) {
        if (strcmp(c->providers[i].name, provider) == 0) {
            return &c->providers[i].calls;
        }
    }
    return &defaults;
}

bool config_calls_document(struct buf *b)
{
    bool ok = true;
    for (size_t j = 0; ok && j < N_KEYS; j++) {
        const char *value = (const char *)&defaults + keys[j].at;
        char text[64], number[16];
        unsigned v = 0;
        if (!is_switch(&keys[j])) {
            memcpy(&v, value, sizeof v);
        }
        (void)snprintf(number, sizeof number, "%u", v);
        (void)snprintf(text, sizeof text, "%s: %s", keys[j].name,
                       is_switch(&keys[j]) ? "false" : number);
        for (const char *p = keys[j].doc; ok && *p;) {
            int n = (int)strcspn(p, "\n");
            ok = buf_printf(b, "#     %-25s # %.*s\n", p == keys[j].doc ? text : "", n, p);
            p += n + (p[n] == '\n');
        }
    }
    return ok;
}
