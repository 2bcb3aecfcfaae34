/* source.c - reads a source file. The content of a claim is its canonical text: compact JSON, keys
 * in order, nothing that says nothing; SHA-256 of that is its identity, so that the same claim is
 * the same row in every version, wherever it stands in the file. */
#include "source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool source_bad(const struct source_place *at, const char *field, const char *fmt, ...)
{
    char text[160], where[96] = "provider";
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
    return catalog_fail(at->err, CATALOG_BAD_SOURCE, "'%s': %s: '%s' %s", at->path, where, field,
                        text);
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

static bool parse_file(const char *path, json_t **root, struct catalog_error *err)
{
    char *data = NULL;
    size_t len = 0;
    json_error_t e;
    if (!read_file(path, &data, &len, err)) {
        return false;
    }
    *root = json_loadb(data, len, JSON_REJECT_DUPLICATES, &e);
    free(data);
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

/* ---- one form */

static bool says_nothing(const json_t *v)
{
    return json_is_null(v) || json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0);
}

/* Drops what says nothing, but for `default`, where false is a value. */
static void normalise(json_t *object)
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

static bool hash_json(const json_t *j, unsigned char out[SHA256_LEN], struct catalog_error *err)
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

static bool take_provider(struct source *s, const char *path, struct catalog_error *err)
{
    struct source_place at = {.path = path, .err = err};
    normalise(s->provider);
    if (!source_check_provider(&at, s->provider)) {
        return false;
    }
    s->id = json_string_value(json_object_get(s->provider, "id"));
    return hash_json(s->provider, s->provider_hash, err);
}

static bool take_claim(struct source *s, size_t i, const char *path, struct catalog_error *err)
{
    json_t *claim = json_array_get(s->claims, i);
    struct source_place at = {.path = path, .claim = i + 1, .err = err};
    if (!json_is_object(claim)) {
        return source_bad(&at, "claims", "must hold objects");
    }
    at.param = json_string_value(json_object_get(claim, "param"));
    normalise(claim);
    if (json_object_get(claim, "provider")) {
        return source_bad(&at, "provider", "belongs to the file, not to a claim");
    }
    if (!source_check_claim(&at, claim)) {
        return false;
    }
    if (json_object_set(claim, "provider", json_object_get(s->provider, "id")) != 0) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    return hash_json(claim, s->hashes[i], err);
}

struct hash_at {
    const unsigned char *hash;
    size_t claim;
};

static int compare_hashes(const void *a, const void *b)
{
    const struct hash_at *x = a, *y = b;
    int order = memcmp(x->hash, y->hash, SHA256_LEN);
    return order ? order : (x->claim > y->claim) - (x->claim < y->claim);
}

/* The same claim twice would make two members of one row; in a file it is a slip of the one who
 * wrote it. */
static bool check_unique(const struct source *s, const char *path, struct catalog_error *err)
{
    struct hash_at *sorted = calloc(s->n_claims + 1, sizeof *sorted);
    bool ok = true;
    if (!sorted) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < s->n_claims; i++) {
        sorted[i] = (struct hash_at){s->hashes[i], i + 1};
    }
    qsort(sorted, s->n_claims, sizeof *sorted, compare_hashes);
    for (size_t i = 1; ok && i < s->n_claims; i++) {
        if (memcmp(sorted[i - 1].hash, sorted[i].hash, SHA256_LEN) == 0) {
            ok = catalog_fail(err, CATALOG_BAD_SOURCE, "'%s': claim %zu repeats claim %zu", path,
                              sorted[i].claim, sorted[i - 1].claim);
        }
    }
    free(sorted);
    return ok;
}

bool source_load(struct source *out, const char *path, struct catalog_error *err)
{
    struct source s = {0};
    bool ok =
        parse_file(path, &s.root, err) && check_top(&s, path, err) && take_provider(&s, path, err);
    if (ok) {
        s.hashes = calloc(s.n_claims + 1, sizeof *s.hashes);
        ok = s.hashes || catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    for (size_t i = 0; ok && i < s.n_claims; i++) {
        ok = take_claim(&s, i, path, err);
    }
    if (!ok || !check_unique(&s, path, err)) {
        source_release(&s);
        return false;
    }
    *out = s;
    return true;
}

void source_release(struct source *s)
{
    if (s) {
        json_decref(s->root);
        free(s->hashes);
        *s = (struct source){0};
    }
}
