/* config_check.c - one function for each kind of value; the walk over the configuration is at the
 * end.
 *
 * A check returns NULL or what would be right; the caller adds file, line and key. The value of
 * `api_key` is never repeated in a message: the usual mistake is to write the key itself there.
 */
#include "config_check.h"

#include "key_marks.h"
#include "limits.h"
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES  64
#define SOCKET_PATH_MAX 107 /* sun_path of Linux, less its NUL */

struct check {
    const struct config *c;
    const struct config_places *pl;
    struct config_error *err;
};

/* One line, whatever the file held: control bytes of a quoted value must not reach a terminal or a
 * log. */
static void clean_line(char *s)
{
    for (; *s; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f) {
            *s = '?';
        }
    }
}

bool config_fail(struct config_error *err, const char *fmt, ...)
{
    if (err && !err->text[0]) {
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
        clean_line(err->text);
    }
    return false;
}

static const struct config_file *file_of(const struct config_places *pl, const char *path)
{
    char top[64];
    (void)snprintf(top, sizeof top, "%.*s", (int)strcspn(path, ".["), path);
    for (size_t i = pl->n_files; i-- > 0;) {
        /* An unknown key may hold a dot or a bracket itself: then the whole path is there. */
        if (yaml_lines_has(pl->file[i].lines, top) || yaml_lines_has(pl->file[i].lines, path)) {
            return &pl->file[i];
        }
    }
    return NULL;
}

bool config_fail_at(const struct config_places *pl, struct config_error *err, const char *path,
                    const char *fmt, ...)
{
    char text[480];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const struct config_file *f = file_of(pl, path);
    if (!f) {
        return config_fail(err, "%.80s: %s", path, text);
    }
    return config_fail(err, "%.100s:%u: %.80s: %s", f->name, yaml_lines_find(f->lines, path), path,
                       text);
}

/* ---- single values */

static bool is_name(const char *s)
{
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return n > 0 && n <= NAME_MAX_BYTES && s[n] == '\0';
}

/* Printable ASCII without spaces, and UTF-8: what a model id may be made of. */
static bool is_model_id(const char *s)
{
    size_t n = 0;
    for (; s[n]; n++) {
        if ((unsigned char)s[n] <= 0x20 || s[n] == 0x7f) {
            return false;
        }
    }
    return n > 0 && n <= LIMIT_MODEL_NAME;
}

static bool is_port(const char *s)
{
    size_t n = strspn(s, "0123456789");
    return n >= 1 && n <= 5 && s[n] == '\0' && strtol(s, NULL, 10) <= 65535;
}

static const char *check_listen(const char *s)
{
    static const char right[] =
        "a numeric address and a port expected, such as 127.0.0.1:4117 or '[::1]:4117'";
    if (!*s) {
        return NULL;
    }
    const char *colon = strrchr(s, ':');
    char host[64];
    if (!colon || !is_port(colon + 1) || (size_t)(colon - s) >= sizeof host) {
        return right;
    }
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - s), s);
    unsigned char addr[sizeof(struct in6_addr)];
    size_t n = strlen(host);
    if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = '\0';
        return inet_pton(AF_INET6, host + 1, addr) == 1 ? NULL : right;
    }
    return inet_pton(AF_INET, host, addr) == 1 ? NULL : right;
}

static const char *check_url(const char *s)
{
    size_t scheme = strncmp(s, "https://", 8) == 0 ? 8 : strncmp(s, "http://", 7) == 0 ? 7 : 0;
    if (!scheme) {
        return "must begin with https:// or http://";
    }
    for (const char *p = s; *p; p++) {
        if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f) {
            return "spaces, control and non-ASCII characters are not allowed, write them as %XX";
        }
    }
    if (strpbrk(s, "?#")) {
        return "'?' and '#' are not allowed, end it after the path";
    }
    size_t host = strcspn(s + scheme, "/");
    if (memchr(s + scheme, '@', host)) {
        return "user and password are not allowed in it, put the key behind 'api_key'";
    }
    if (host == 0 || s[scheme] == ':') {
        return "the host is missing, such as https://api.example.com/v1";
    }
    return NULL;
}

static const char *check_key_name(const char *s)
{
    if (key_marks_begin(s) || strncmp(s, "Bearer", 6) == 0) {
        return "this looks like a key itself, write the name of the environment variable or "
               "credential that holds it";
    }
    if (!is_name(s) || s[0] == '.') {
        return "the name of an environment variable or credential expected, letters, digits, '_', "
               "'-' and '.', at most 64";
    }
    return NULL;
}

static bool check_word(const struct check *k, const char *key, const char *value,
                       const char *const *words)
{
    char list[128] = "";
    for (size_t i = 0; words[i]; i++) {
        if (strcmp(value, words[i]) == 0) {
            return true;
        }
        size_t n = strlen(list);
        (void)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", words[i]);
    }
    return config_fail_at(k->pl, k->err, key, "'%.40s' is not one of: %s", value, list);
}

/* ---- model names: "local", "local/NAME", "PROVIDER/MODEL" */

static bool has_local_model(const struct config *c, const char *name)
{
    for (unsigned i = 0; i < c->n_models; i++) {
        if (strcmp(c->models[i].name, name) == 0) {
            return true;
        }
    }
    /* Without a list there is the embedded model, whose name the engine knows. */
    return c->n_models == 0 && is_name(name);
}

static bool check_target(const struct check *k, const char *path, const char *value)
{
    if (strcmp(value, "local") == 0) {
        return true;
    }
    const char *slash = strchr(value, '/');
    char provider[NAME_MAX_BYTES + 2] = "";
    if (slash) {
        (void)snprintf(provider, sizeof provider, "%.*s", (int)(slash - value), value);
    }
    if (!slash || !is_name(provider) || !is_model_id(value) || !slash[1]) {
        return config_fail_at(
            k->pl, k->err, path,
            "'%.80s' is no model, 'local', 'local/NAME' or 'PROVIDER/MODEL' expected", value);
    }
    if (strcmp(provider, "local") == 0 && !has_local_model(k->c, slash + 1)) {
        return config_fail_at(
            k->pl, k->err, path,
            "there is no local model '%.64s', add it to 'models' or name one of those", slash + 1);
    }
    return true;
}

/* ---- the lists */

static bool check_name(const struct check *k, const char *path, const char *name)
{
    if (!is_name(name)) {
        return config_fail_at(
            k->pl, k->err, path,
            "'%.64s' is no name, 1 to 64 of letters, digits, '.', '_' and '-' expected", name);
    }
    return true;
}

/* The name of entry i, against those before it. `entry` is the list, `size` of one entry; the name
 * is its first member. */
static bool check_unique(const struct check *k, const char *list, const void *entry, size_t size,
                         unsigned i)
{
    const char *name, *other;
    memcpy(&name, (const char *)entry + i * size, sizeof name);
    char path[YAML_LINES_PATH];
    (void)snprintf(path, sizeof path, "%s[%u].name", list, i);
    if (!check_name(k, path, name)) {
        return false;
    }
    for (unsigned j = 0; j < i; j++) {
        memcpy(&other, (const char *)entry + j * size, sizeof other);
        if (strcmp(name, other) == 0) {
            return config_fail_at(k->pl, k->err, path,
                                  "'%s' is already the name of %s[%u], choose another", name, list,
                                  j);
        }
    }
    return true;
}

static bool check_provider_models(const struct check *k, unsigned i)
{
    const struct config_provider *p = &k->c->providers[i];
    for (unsigned j = 0; j < p->n_models; j++) {
        if (!is_model_id(p->models[j])) {
            char path[YAML_LINES_PATH];
            (void)snprintf(path, sizeof path, "providers[%u].models[%u]", i, j);
            return config_fail_at(k->pl, k->err, path,
                                  "'%.64s' is no model id, 1 to %d bytes without spaces expected",
                                  p->models[j], LIMIT_MODEL_NAME);
        }
    }
    return true;
}

/* NAME=VALUE[,NAME=VALUE]: letters, digits and _ - . */
static bool is_switches(const char *s)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    for (;;) {
        size_t name = strspn(s, word), value = 0;
        if (name == 0 || s[name] != '=' || (value = strspn(s + name + 1, word)) == 0) {
            return false;
        }
        s += name + 1 + value;
        if (*s == '\0') {
            return true;
        }
        if (*s++ != ',') {
            return false;
        }
        s += strspn(s, " ");
    }
}

/* "us-east-1" */
static bool is_region(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return n > 0 && n <= NAME_MAX_BYTES && s[n] == '\0';
}

static bool check_path(const struct check *k, unsigned i, const char *key, const char *value)
{
    char path[YAML_LINES_PATH];
    (void)snprintf(path, sizeof path, "providers[%u].%s", i, key);
    return !value || value[0] == '/' ||
           config_fail_at(k->pl, k->err, path, "'%.64s': an absolute path expected", value);
}

static bool check_files(const struct check *k, unsigned i)
{
    const struct config_provider *p = &k->c->providers[i];
    char path[YAML_LINES_PATH];
    (void)snprintf(path, sizeof path, "providers[%u].api_key_file", i);
    if (p->api_key && p->api_key_file) {
        return config_fail_at(k->pl, k->err, path, "'api_key' is there too, leave one of them out");
    }
    return check_path(k, i, "api_key_file", p->api_key_file) &&
           check_path(k, i, "ca_file", p->ca_file);
}

static bool check_provider(const struct check *k, unsigned i)
{
    const struct config_provider *p = &k->c->providers[i];
    char path[YAML_LINES_PATH];
    const char *right;
    if (!check_unique(k, "providers", k->c->providers, sizeof *p, i)) {
        return false;
    }
    if (strcasecmp(p->name, "local") == 0) {
        (void)snprintf(path, sizeof path, "providers[%u].name", i);
        return config_fail_at(k->pl, k->err, path,
                              "'%s' is the built-in engine's, choose another name", p->name);
    }
    (void)snprintf(path, sizeof path, "providers[%u].catalog", i);
    if (p->catalog && !check_name(k, path, p->catalog)) {
        return false;
    }
    (void)snprintf(path, sizeof path, "providers[%u].base_url", i);
    if (p->base_url && (right = check_url(p->base_url))) {
        return config_fail_at(k->pl, k->err, path, "%s", right);
    }
    (void)snprintf(path, sizeof path, "providers[%u].api_key", i);
    if (p->api_key && (right = check_key_name(p->api_key))) {
        return config_fail_at(k->pl, k->err, path, "%s", right);
    }
    (void)snprintf(path, sizeof path, "providers[%u].region", i);
    if (p->region && !is_region(p->region)) {
        return config_fail_at(k->pl, k->err, path,
                              "'%.64s' is no region: letters, digits and - expected, such as "
                              "us-east-1",
                              p->region);
    }
    (void)snprintf(path, sizeof path, "providers[%u].switches", i);
    if (p->switches && !is_switches(p->switches)) {
        return config_fail_at(k->pl, k->err, path,
                              "'%.64s' is no list of switches: write NAME=VALUE, with commas "
                              "between several",
                              p->switches);
    }
    return check_files(k, i) && check_provider_models(k, i);
}

static bool check_targets(const struct check *k, unsigned i)
{
    const struct config_alias *a = &k->c->aliases[i];
    char path[YAML_LINES_PATH];
    (void)snprintf(path, sizeof path, "aliases[%u].target", i);
    if (a->target) {
        return check_target(k, path, a->target);
    }
    for (unsigned j = 0; j < a->n_targets; j++) {
        (void)snprintf(path, sizeof path, "aliases[%u].targets[%u]", i, j);
        if (!check_target(k, path, a->targets[j])) {
            return false;
        }
    }
    return true;
}

static bool check_alias(const struct check *k, unsigned i)
{
    const struct config_alias *a = &k->c->aliases[i];
    char path[YAML_LINES_PATH];
    if (!check_unique(k, "aliases", k->c->aliases, sizeof *a, i)) {
        return false;
    }
    if (strcmp(a->name, "local") == 0) {
        (void)snprintf(path, sizeof path, "aliases[%u].name", i);
        return config_fail_at(k->pl, k->err, path,
                              "'local' is the built-in engine's, choose another name");
    }
    if (a->target ? a->n_targets > 0 : a->n_targets == 0) {
        (void)snprintf(path, sizeof path, "aliases[%u]", i);
        return config_fail_at(k->pl, k->err, path,
                              "either 'target' or a list 'targets' of 1 to %d expected",
                              CONFIG_ALIAS_TARGETS_MAX);
    }
    return check_targets(k, i);
}

int64_t config_bytes(const char *text)
{
    static const char suffixes[] = "KMGT";
    char *end;
    if (*text < '0' || *text > '9') {
        return 0;
    }
    unsigned long long n = strtoull(text, &end, 10);
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;
    unsigned shift = suffix ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
    bool is_whole = *end == '\0' || (suffix && end[1] == '\0');
    return is_whole && n <= (unsigned long long)INT64_MAX >> shift ? (int64_t)(n << shift) : 0;
}

static bool is_template_name(const char *t)
{
    return *t && !t[strspn(t, "abcdefghijklmnopqrstuvwxyz0123456789.-")];
}

static bool check_model(const struct check *k, unsigned i)
{
    const struct config_model *m = &k->c->models[i];
    const char *key = NULL, *value = "", *expected = "";
    char path[YAML_LINES_PATH];
    if (!check_unique(k, "models", k->c->models, sizeof *m, i)) {
        return false;
    }
    if (!*m->path) {
        (void)snprintf(path, sizeof path, "models[%u].path", i);
        return config_fail_at(k->pl, k->err, path, "a folder or a .gguf file expected");
    }
    if (strstr(m->path, "?template=") || strstr(m->path, "?draft=") ||
        strstr(m->path, "?kv_type=") || strstr(m->path, "?kv_memory=")) { /* see models_add() */
        (void)snprintf(path, sizeof path, "models[%u].path", i);
        return config_fail_at(k->pl, k->err, path,
                              "'%.64s' holds '?template=' or the like, say that with a key such as "
                              "'chat_template'",
                              m->path);
    }
    if (m->chat_template && !is_template_name(m->chat_template)) {
        key = "chat_template";
        value = m->chat_template;
        expected = "no chat template, a name such as chatml or null";
    } else if (m->kv_type && strcmp(m->kv_type, "f32") != 0 && strcmp(m->kv_type, "f16") != 0) {
        key = "kv_type";
        value = m->kv_type;
        expected = "no type of keys and values, f32 or f16";
    } else if (m->kv_memory && config_bytes(m->kv_memory) == 0) {
        key = "kv_memory";
        value = m->kv_memory;
        expected = "no size, bytes such as 4G, 512M or null";
    }
    if (!key) {
        return true;
    }
    (void)snprintf(path, sizeof path, "models[%u].%s", i, key);
    return config_fail_at(k->pl, k->err, path, "'%.64s' is %s expected", value, expected);
}

static bool check_lists(const struct check *k)
{
    for (unsigned i = 0; i < k->c->n_providers; i++) {
        if (!check_provider(k, i)) {
            return false;
        }
    }
    for (unsigned i = 0; i < k->c->n_models; i++) {
        if (!check_model(k, i)) {
            return false;
        }
    }
    for (unsigned i = 0; i < k->c->n_aliases; i++) {
        if (!check_alias(k, i)) {
            return false;
        }
    }
    return true;
}

static bool check_socket(const struct check *k)
{
    const char *s = k->c->socket;
    if (s && (s[0] != '/' || strlen(s) > SOCKET_PATH_MAX)) {
        return config_fail_at(k->pl, k->err, "socket",
                              "an absolute path of at most %d bytes expected", SOCKET_PATH_MAX);
    }
    return true;
}

bool config_check(const struct config *c, const struct config_places *pl, struct config_error *err)
{
    static const char *const levels[] = {"error", "warning", "info", "debug", NULL};
    static const char *const on_failure[] = {"refuse", "flag", NULL};
    static const char *const learn[] = {"off", "suggest", "apply", NULL};
    static const char *const speculation[] = {"off", "lookup", NULL};
    static const char *const on_range[] = {"clamp", "reject", "local", NULL};
    static const char *const on_unsupported[] = {"local", "drop", "reject", NULL};
    static const char *const on_many[] = {"calls", "local", NULL};
    const struct check k = {c, pl, err};
    const char *right = check_listen(c->listen);
    if (right) {
        return config_fail_at(pl, err, "listen", "'%.64s': %s", c->listen, right);
    }
    return check_socket(&k) && check_word(&k, "log_level", c->log_level, levels) &&
           check_word(&k, "catalog_learn", c->catalog_learn, learn) &&
           check_word(&k, "records_on_failure", c->records_on_failure, on_failure) &&
           check_word(&k, "engine_speculation", c->engine_speculation, speculation) &&
           check_word(&k, "on_out_of_range", c->on_out_of_range, on_range) &&
           check_word(&k, "on_unsupported", c->on_unsupported, on_unsupported) &&
           check_word(&k, "on_many", c->on_many, on_many) && check_lists(&k) &&
           check_target(&k, "fallback", c->fallback);
}
