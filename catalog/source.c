/* source.c - reads a source file. The content of a claim is its canonical text: compact JSON, keys
 * in order, nothing that says nothing; SHA-256 of that is its identity, so that the same claim is
 * the same row in every version, wherever it stands in the file. */
#include "source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- where an error is */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The end of the string that begins at `i`. JSON has no line breaks inside of strings. */
static size_t skip_string(const char *text, size_t len, size_t i)
{
    for (i++; i < len && text[i] != '"'; i++) {
        i += text[i] == '\\';
    }
    return i;
}

/* What a bracket does to the depth. */
static int step_of(char c)
{
    return c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
}

/* One pass over brackets and strings: the provider is the object inside the outer one, the claims
 * are the items of the array inside of it. jansson has found the text to be JSON. */
size_t source_line(const char *text, size_t len, size_t claim)
{
    size_t line = 1, n = 0;
    int depth = 0;
    bool in_list = false, is_due = false; /* is_due: the next item begins with what comes */
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        line += c == '\n';
        if (is_space(c)) {
            continue;
        }
        bool is_item = is_due && c != ']', is_provider = depth == 1 && c == '{';
        n += is_item;
        if (claim == 0 ? is_provider : is_item && n == claim) {
            return line;
        }
        depth += step_of(c);
        in_list = depth == 2 && step_of(c) > 0 ? c == '[' : in_list;
        is_due = depth == 2 && in_list && (c == '[' || c == ',');
        i = c == '"' ? skip_string(text, len, i) : i;
    }
    return 0;
}

/* " line 7", or nothing. */
static void line_text(const struct source_place *at, size_t claim, char out[32])
{
    size_t line = at->text ? source_line(at->text, at->text_len, claim) : 0;
    out[0] = '\0';
    if (line > 0) {
        (void)snprintf(out, 32, " line %zu", line);
    }
}

bool source_bad(const struct source_place *at, const char *field, const char *fmt, ...)
{
    char text[160], line[32], where[96] = "provider";
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (at->claim) {
        (void)snprintf(where, sizeof where, "claim %zu (%.60s)", at->claim,
                       at->param ? at->param : "no param");
    }
    if (at->err && at->err->code == CATALOG_OK) {
        (void)snprintf(at->err->param, sizeof at->err->param, "%s", field);
    }
    line_text(at, at->claim, line);
    return catalog_fail(at->err, CATALOG_BAD_SOURCE, "'%s'%s: %s: '%s' %s", at->path, line, where,
                        field, text);
}

/* ---- reading */

static bool read_file(const char *path, char **out, size_t *out_len, struct catalog_error *err)
{
    size_t len = 0, cap = 1 << 16;
    FILE *f = fopen(path, "rb");
    if (!f) {
        return catalog_fail(err, CATALOG_IO, "'%s': %s", path, strerror(errno));
    }
    char *data = malloc(cap);
    while (data) {
        len += fread(data + len, 1, cap - len, f);
        if (len < cap || len > SOURCE_BYTES_MAX) {
            break;
        }
        cap *= 2;
        char *more = realloc(data, cap);
        if (!more) {
            free(data);
        }
        data = more;
    }
    bool ok = true;
    if (!data) {
        ok = catalog_fail(err, CATALOG_NOMEM, "out of memory");
    } else if (ferror(f)) {
        ok = catalog_fail(err, CATALOG_IO, "'%s' cannot be read: %s", path, strerror(errno));
    } else if (len > SOURCE_BYTES_MAX) {
        ok = catalog_fail(err, CATALOG_BAD_SOURCE, "'%s' is longer than %u bytes: split it", path,
                          SOURCE_BYTES_MAX);
    }
    (void)fclose(f); /* only read */
    if (!ok) {
        free(data);
        return false;
    }
    *out = data;
    *out_len = len;
    return true;
}

static bool parse(const char *path, const char *data, size_t len, json_t **root,
                  struct catalog_error *err)
{
    json_error_t e;
    *root = json_loadb(data, len, JSON_REJECT_DUPLICATES, &e);
    if (*root) {
        return true;
    }
    /* jansson mostly says so by saying nothing. */
    if (json_error_code(&e) == json_error_out_of_memory || (e.line < 1 && !e.text[0])) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    return catalog_fail(err, CATALOG_BAD_SOURCE, "'%s' line %d column %d: %s", path, e.line,
                        e.column, e.text);
}

bool source_read(const char *path, json_t **root, struct catalog_error *err)
{
    char *data = NULL;
    size_t len = 0;
    bool ok = read_file(path, &data, &len, err) && parse(path, data, len, root, err);
    free(data);
    return ok;
}

/* ---- one form */

static bool says_nothing(const json_t *v)
{
    return json_is_null(v) || json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0);
}

/* Drops what says nothing, but for `default`, where false is a value. */
void source_normalise(json_t *object)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe (object, next, key, value) {
        bool is_default = strcmp(key, "default") == 0;
        if (is_default ? json_is_null(value) : says_nothing(value)) {
            (void)json_object_del(object, key); /* it is there */
        }
    }
}

bool source_hash(const json_t *j, unsigned char out[SHA256_LEN], struct catalog_error *err)
{
    char *text = json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS);
    struct catalog_sha256 h;
    if (!text) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    catalog_sha256_init(&h);
    catalog_sha256_add(&h, text, strlen(text));
    catalog_sha256_end(&h, out);
    free(text);
    return true;
}

static bool check_top(struct source *s, const char *path, struct catalog_error *err)
{
    s->provider = json_object_get(s->root, "provider");
    s->claims = json_object_get(s->root, "claims");
    if (json_object_size(s->root) != 2 || !json_is_object(s->provider) ||
        !json_is_array(s->claims)) {
        return catalog_fail(err, CATALOG_BAD_SOURCE,
                            "'%s' must be {\"provider\": {...}, \"claims\": [...]} and no more",
                            path);
    }
    s->n_claims = json_array_size(s->claims);
    if (s->n_claims > SOURCE_CLAIMS_MAX) {
        return catalog_fail(err, CATALOG_BAD_SOURCE, "'%s' has %zu claims, at most %d are taken",
                            path, s->n_claims, SOURCE_CLAIMS_MAX);
    }
    return true;
}

static bool take_provider(struct source *s, const struct source_place *at)
{
    source_normalise(s->provider);
    if (!source_check_provider(at, s->provider)) {
        return false;
    }
    s->id = json_string_value(json_object_get(s->provider, "id"));
    return source_hash(s->provider, s->provider_hash, at->err);
}

static bool take_claim(struct source *s, size_t i, struct source_place *at)
{
    json_t *claim = json_array_get(s->claims, i);
    at->claim = i + 1;
    at->param = NULL;
    if (!json_is_object(claim)) {
        return source_bad(at, "claims", "must hold objects");
    }
    at->param = json_string_value(json_object_get(claim, "param"));
    source_normalise(claim);
    if (json_object_get(claim, "provider")) {
        return source_bad(at, "provider", "belongs to the file, not to a claim");
    }
    if (!source_check_claim(at, claim)) {
        return false;
    }
    if (json_object_set(claim, "provider", json_object_get(s->provider, "id")) != 0) {
        return catalog_fail(at->err, CATALOG_NOMEM, "out of memory");
    }
    return source_hash(claim, s->hashes[i], at->err);
}

/* ---- no claim twice */

struct keyed {
    unsigned char key[SHA256_LEN];
    size_t claim;
};

static int compare_keys(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    int order = memcmp(x->key, y->key, SHA256_LEN);
    return order ? order : (x->claim > y->claim) - (x->claim < y->claim);
}

static bool hash_key(const json_t *claim, unsigned char out[SHA256_LEN], struct catalog_error *err)
{
    static const char *const fields[] = {"models", "endpoint",   "param",   "variant",
                                         "when",   "source",     "as_of",   "derived",
                                         "local",  "valid_from", "valid_to"};
    json_t *key = json_object();
    bool ok = key != NULL;
    for (size_t i = 0; ok && i < sizeof fields / sizeof fields[0]; i++) {
        json_t *value = json_object_get(claim, fields[i]);
        bool is_usual = json_is_string(value) && strcmp(json_string_value(value), "current") == 0;
        ok = !value || is_usual || json_object_set(key, fields[i], value) == 0;
    }
    ok = ok ? source_hash(key, out, err) : catalog_fail(err, CATALOG_NOMEM, "out of memory");
    json_decref(key);
    return ok;
}

static bool say_double(const struct source *s, const struct source_place *at, size_t first,
                       size_t second)
{
    char line[32], other[32];
    bool is_same = memcmp(s->hashes[first - 1], s->hashes[second - 1], SHA256_LEN) == 0;
    line_text(at, second, line);
    line_text(at, first, other);
    return catalog_fail(at->err, CATALOG_BAD_SOURCE, "'%s'%s: claim %zu %s claim %zu%s%s", at->path,
                        line, second, is_same ? "repeats" : "contradicts", first,
                        other[0] ? " of" : "", other);
}

static bool check_unique(const struct source *s, const struct source_place *at)
{
    struct keyed *sorted = calloc(s->n_claims + 1, sizeof *sorted);
    bool ok = sorted || catalog_fail(at->err, CATALOG_NOMEM, "out of memory");
    for (size_t i = 0; ok && i < s->n_claims; i++) {
        sorted[i].claim = i + 1;
        ok = hash_key(json_array_get(s->claims, i), sorted[i].key, at->err);
    }
    if (ok) {
        qsort(sorted, s->n_claims, sizeof *sorted, compare_keys);
    }
    for (size_t i = 1; ok && i < s->n_claims; i++) {
        ok = memcmp(sorted[i - 1].key, sorted[i].key, SHA256_LEN) != 0 ||
             say_double(s, at, sorted[i - 1].claim, sorted[i].claim);
    }
    free(sorted);
    return ok;
}

/* ---- the whole */

static bool take(struct source *out, json_t *root, struct source_place *at)
{
    struct source s = {.root = root};
    bool ok = check_top(&s, at->path, at->err) && take_provider(&s, at);
    if (ok) {
        s.hashes = calloc(s.n_claims + 1, sizeof *s.hashes);
        ok = s.hashes || catalog_fail(at->err, CATALOG_NOMEM, "out of memory");
    }
    for (size_t i = 0; ok && i < s.n_claims; i++) {
        ok = take_claim(&s, i, at);
    }
    if (!ok || !check_unique(&s, at)) {
        source_release(&s);
        return false;
    }
    *out = s;
    return true;
}

bool source_take(struct source *out, json_t *root, const char *path, struct catalog_error *err)
{
    struct source_place at = {.path = path, .err = err};
    return take(out, root, &at);
}

bool source_load(struct source *out, const char *path, struct catalog_error *err)
{
    struct source_place at = {.path = path, .err = err};
    json_t *root;
    char *data = NULL;
    if (!read_file(path, &data, &at.text_len, err)) {
        return false;
    }
    at.text = data;
    bool ok = parse(path, data, at.text_len, &root, err) && take(out, root, &at);
    free(data);
    return ok;
}

void source_release(struct source *s)
{
    if (s) {
        json_decref(s->root);
        free(s->hashes);
        *s = (struct source){0};
    }
}
