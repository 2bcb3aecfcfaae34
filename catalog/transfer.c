/* transfer.c - versions and overrides as one JSON document, out and in.
 *
 * The document's "hash" is of what it holds, made the way a version's is: of a whole version it is
 * the version's own. So a slip of an editor, a lost line or a wrong file is found before anything
 * is written.
 */
#include "catalog_inside.h"
#include "hash_list.h"
#include "source.h"
#include "versions_content.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT               1
#define TRANSFER_SOURCES_MAX 64 /* providers of one document; 31 today */

static bool no_memory(struct catalog_error *err)
{
    return catalog_fail(err, CATALOG_NOMEM, "out of memory");
}

/* ---- the hash of a document */

static bool add_hash(struct hash_list *l, const json_t *object, struct catalog_error *err)
{
    unsigned char *out = hash_list_add(l);
    return out ? source_hash(object, out, err) : no_memory(err);
}

/* A claim is hashed with its provider in it. */
static bool hash_claim(struct hash_list *claims, const json_t *claim, json_t *id,
                       struct catalog_error *err)
{
    json_t *whole = json_copy((json_t *)claim);
    bool ok = (whole && json_object_set(whole, "provider", id) == 0) || no_memory(err);
    if (ok) {
        source_normalise(whole);
        ok = add_hash(claims, whole, err);
    }
    json_decref(whole);
    return ok;
}

static bool add_hashes(const json_t *entry, struct hash_list *providers, struct hash_list *claims,
                       struct catalog_error *err)
{
    const json_t *claim, *provider = json_object_get(entry, "provider");
    json_t *plain = json_copy((json_t *)provider); /* jansson copies without const */
    size_t i;
    if (!plain) {
        return no_memory(err);
    }
    source_normalise(plain);
    bool ok = add_hash(providers, plain, err);
    json_decref(plain);
    json_array_foreach (json_object_get(entry, "claims"), i, claim) {
        ok = ok && hash_claim(claims, claim, json_object_get(provider, "id"), err);
    }
    return ok;
}

static bool document_hash(const json_t *providers, char hex[SHA256_HEX_LEN],
                          struct catalog_error *err)
{
    struct hash_list p = {0}, c = {0};
    const json_t *entry;
    size_t i;
    bool ok = true;
    json_array_foreach (providers, i, entry) {
        ok = ok && add_hashes(entry, &p, &c, err);
    }
    if (ok) {
        hash_list_sum(&p, &c, hex);
    }
    hash_list_release(&p);
    hash_list_release(&c);
    return ok;
}

/* ---- out: the document is made whole, then written */

struct export
{
    struct db *db;
    const struct version_export *what;
    struct catalog_version v;
    struct content now, base;
    json_t *providers; /* owned */
    struct catalog_error *err;
};

static bool is_wanted(const struct export *x, const char *provider)
{
    return !x->what->provider || strcmp(provider, x->what->provider) == 0;
}

/* The entry of a provider, made where it is not there yet; borrowed. Of overrides only the id is
 * said, unless the object itself was changed here. */
static json_t *entry_of(struct export *x, const char *provider)
{
    const struct member *now = content_find_provider(&x->now, provider);
    const struct member *base = content_find_provider(&x->base, provider);
    json_t *entry, *object;
    size_t i;
    json_array_foreach (x->providers, i, entry) {
        const json_t *id = json_object_get(json_object_get(entry, "provider"), "id");
        if (strcmp(json_string_value(id), provider) == 0) {
            return entry;
        }
    }
    bool is_short = x->what->overrides_only && (!now || (base && now->id == base->id));
    object = is_short ? json_pack("{s:s}", "id", provider)
                      : content_provider_json(x->db, now->id, x->err);
    entry = object ? json_pack("{s:o, s:[]}", "provider", object, "claims") : NULL;
    if (!entry || json_array_append_new(x->providers, entry) != 0) {
        (void)no_memory(x->err);
        return NULL;
    }
    return entry;
}

static bool add_claim(struct export *x, const struct member *m, bool is_removed)
{
    json_t *entry = entry_of(x, m->provider);
    json_t *claim = entry ? content_claim_json(x->db, m->id, x->err) : NULL;
    if (!claim) {
        return false;
    }
    (void)json_object_del(claim, "provider"); /* it is there: it belongs to the entry */
    if (is_removed && json_object_set_new(claim, "removed", json_true()) != 0) {
        json_decref(claim);
        return no_memory(x->err);
    }
    return json_array_append_new(json_object_get(entry, "claims"), claim) == 0 || no_memory(x->err);
}

static size_t count_key(const struct content *c, const struct member *key)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_claims; i++) {
        n += member_compare_keys(&c->claims[i], key) == 0;
    }
    return n;
}

static bool add_whole(struct export *x)
{
    bool ok = true;
    for (size_t i = 0; ok && i < x->now.n_providers; i++) {
        const char *provider = x->now.providers[i].provider;
        ok = !is_wanted(x, provider) || entry_of(x, provider);
    }
    for (size_t i = 0; ok && i < x->now.n_claims; i++) {
        const struct member *m = &x->now.claims[i];
        ok = !is_wanted(x, m->provider) || add_claim(x, m, false);
    }
    return ok;
}

struct id_list {
    int64_t *ids; /* owned, in order */
    size_t n;
};

static int compare_ids(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static bool list_ids(const struct content *c, struct id_list *out, struct catalog_error *err)
{
    out->ids = calloc(c->n_claims + 1, sizeof *out->ids);
    if (!out->ids) {
        return no_memory(err);
    }
    for (; out->n < c->n_claims; out->n++) {
        out->ids[out->n] = c->claims[out->n].id;
    }
    qsort(out->ids, out->n, sizeof *out->ids, compare_ids);
    return true;
}

static bool has_id(const struct id_list *l, int64_t id)
{
    return bsearch(&id, l->ids, l->n, sizeof *l->ids, compare_ids) != NULL;
}

/* A claim that was replaced need not be called removed, where it is plain which one that was. */
static bool is_replaced(const struct export *x, const struct member *b)
{
    return count_key(&x->base, b) == 1 && count_key(&x->now, b) == 1;
}

static bool add_claims_of(struct export *x, const struct id_list *now, const struct id_list *base)
{
    bool ok = true;
    for (size_t i = 0; ok && i < x->base.n_claims; i++) {
        const struct member *b = &x->base.claims[i];
        ok = !is_wanted(x, b->provider) || has_id(now, b->id) || is_replaced(x, b) ||
             add_claim(x, b, true);
    }
    for (size_t i = 0; ok && i < x->now.n_claims; i++) {
        const struct member *m = &x->now.claims[i];
        ok = !is_wanted(x, m->provider) || has_id(base, m->id) || add_claim(x, m, false);
    }
    return ok;
}

static bool add_overrides(struct export *x)
{
    struct id_list now = {0}, base = {0};
    bool ok = list_ids(&x->now, &now, x->err) && list_ids(&x->base, &base, x->err) &&
              add_claims_of(x, &now, &base);
    for (size_t i = 0; ok && i < x->now.n_providers; i++) {
        const struct member *p = &x->now.providers[i];
        const struct member *b = content_find_provider(&x->base, p->provider);
        ok = !is_wanted(x, p->provider) || (b && b->id == p->id) || entry_of(x, p->provider);
    }
    free(now.ids);
    free(base.ids);
    return ok;
}

/* The shortest of the usual precisions that says the same numbers. NULL: memory. */
static char *dump_line(const json_t *j)
{
    json_error_t e;
    char *text = json_dumps(j, JSON_REAL_PRECISION(15));
    json_t *back = text ? json_loads(text, 0, &e) : NULL;
    if (text && !json_equal(back, j)) {
        free(text);
        text = json_dumps(j, JSON_REAL_PRECISION(17));
    }
    json_decref(back);
    return text;
}

struct writer {
    catalog_write_fn *write;
    void *ud;
    struct catalog_error *err;
};

static bool write_text(struct writer *w, const char *text)
{
    return w->write(text, strlen(text), w->ud) ||
           catalog_fail(w->err, CATALOG_IO, "the export could not be written whole");
}

static bool write_json(struct writer *w, const char *before, const json_t *j, const char *after)
{
    char *text = dump_line(j);
    bool ok = text ? write_text(w, before) && write_text(w, text) && write_text(w, after)
                   : no_memory(w->err);
    free(text);
    return ok;
}

static bool write_entry(struct writer *w, const json_t *entry, bool is_last)
{
    const json_t *claims = json_object_get(entry, "claims"), *claim;
    size_t i, n = json_array_size(claims);
    bool ok =
        write_json(w, "{\"provider\": ", json_object_get(entry, "provider"), ", \"claims\": [\n");
    json_array_foreach (claims, i, claim) {
        ok = ok && write_json(w, "", claim, i + 1 < n ? ",\n" : "\n");
    }
    return ok && write_text(w, is_last ? "]}\n" : "]},\n");
}

static json_t *make_head(const struct export *x, const char *hash)
{
    const struct catalog_version *v = &x->v;
    return json_pack("{s:i, s:s, s:s*, s:I, s:s, s:s, s:s, s:s, s:s}", "format", FORMAT, "content",
                     x->what->overrides_only ? "overrides" : "version", "provider",
                     x->what->provider, "version", (json_int_t)v->number, "hash", hash, "kind",
                     version_kind_name(v->kind), "created", v->created, "author", v->author,
                     "reason", v->reason);
}

static bool write_document(struct export *x, catalog_write_fn *write, void *ud)
{
    struct writer w = {write, ud, x->err};
    char hash[SHA256_HEX_LEN];
    const json_t *entry;
    size_t i, n = json_array_size(x->providers);
    if (!document_hash(x->providers, hash, x->err)) {
        return false;
    }
    if (!x->what->provider && !x->what->overrides_only && strcmp(hash, x->v.hash) != 0) {
        return catalog_fail(x->err, CATALOG_BAD_DB,
                            "catalog version %lld is not what was built: build it again",
                            (long long)x->v.number);
    }
    json_t *head = make_head(x, hash);
    bool ok =
        head ? write_json(&w, "{\"catalog\": ", head, ", \"providers\": [\n") : no_memory(x->err);
    json_decref(head);
    json_array_foreach (x->providers, i, entry) {
        ok = ok && write_entry(&w, entry, i + 1 == n);
    }
    return ok && write_text(&w, "]}\n");
}

bool catalog_export(struct catalog *c, const struct version_export *what, catalog_write_fn *write,
                    void *ud, struct catalog_error *err)
{
    struct export x = {.what = what, .err = err};
    x.providers = json_array();
    if (!x.providers) {
        return no_memory(err);
    }
    x.db = catalog_hold(c, err);
    bool ok = x.db && db_version(x.db, what->version, &x.v, err) &&
              content_load(&x.now, x.db, x.v.number, err) &&
              content_load(&x.base, x.db, x.v.base, err);
    if (ok && what->provider && !content_find_provider(&x.now, what->provider)) {
        ok = catalog_fail(err, CATALOG_NOT_FOUND, "the catalog has no provider '%.64s'",
                          what->provider);
    }
    ok = ok && (what->overrides_only ? add_overrides(&x) : add_whole(&x));
    if (x.db) {
        catalog_let_go(c);
    }
    ok = ok && write_document(&x, write, ud);
    content_release(&x.now);
    content_release(&x.base);
    json_decref(x.providers);
    return ok;
}

/* ---- in */

static bool bad_document(const char *file, const char *what, struct catalog_error *err)
{
    return catalog_fail(err, CATALOG_BAD_SOURCE, "'%s' %s", file, what);
}

static bool check_entries(const char *file, const json_t *providers, struct catalog_error *err)
{
    const json_t *entry, *claim;
    size_t i, k;
    if (!json_is_array(providers) || json_array_size(providers) > TRANSFER_SOURCES_MAX) {
        return bad_document(file, "must hold a list of at most 64 \"providers\"", err);
    }
    json_array_foreach (providers, i, entry) {
        const json_t *claims = json_object_get(entry, "claims");
        if (!json_is_string(json_object_get(json_object_get(entry, "provider"), "id")) ||
            !json_is_array(claims) || json_array_size(claims) > SOURCE_CLAIMS_MAX) {
            return bad_document(file, "must hold providers with an id and claims", err);
        }
        json_array_foreach (claims, k, claim) {
            if (!json_is_object(claim)) {
                return bad_document(file, "must hold claims that are objects", err);
            }
        }
    }
    return true;
}

/* The head is right, and the content is that of its hash. */
static bool check_document(const char *file, const json_t *root, struct catalog_error *err)
{
    const json_t *head = json_object_get(root, "catalog");
    const json_t *providers = json_object_get(root, "providers");
    const char *content = json_string_value(json_object_get(head, "content"));
    const char *want = json_string_value(json_object_get(head, "hash"));
    const json_t *format = json_object_get(head, "format");
    char hash[SHA256_HEX_LEN];
    if (!json_is_object(head) || !content || !want || json_object_size(root) != 2) {
        return bad_document(file,
                            "is no export of a catalog: it must be {\"catalog\": {...}, "
                            "\"providers\": [...]}",
                            err);
    }
    if (!json_is_integer(format) || json_integer_value(format) != FORMAT) {
        return bad_document(file, "has a format that this program does not know: use a newer one",
                            err);
    }
    if (strcmp(content, "version") != 0 && strcmp(content, "overrides") != 0) {
        return bad_document(file, "must say \"content\": \"version\" or \"overrides\"", err);
    }
    return check_entries(file, providers, err) && document_hash(providers, hash, err) &&
           (strcmp(hash, want) == 0 ||
            bad_document(file,
                         "was changed after it was exported: export it again, or build "
                         "from source files",
                         err));
}

/* ---- a version, as shipped data */

/* Of a document of one provider: what the newest shipped version holds of the others. */
static bool push_others(struct content *to, const struct content *from, const char *but,
                        struct catalog_error *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < from->n_providers; i++) {
        ok = strcmp(from->providers[i].provider, but) == 0 ||
             content_push_provider(to, &from->providers[i], err);
    }
    for (size_t i = 0; ok && i < from->n_claims; i++) {
        ok = strcmp(from->claims[i].provider, but) == 0 || content_push(to, &from->claims[i], err);
    }
    return ok;
}

static bool load_others(struct db *db, const char *provider, struct content *others,
                        struct content *to, struct catalog_error *err)
{
    struct catalog_version v;
    struct catalog_error own = {0};
    if (!provider) {
        return true;
    }
    if (!db_newest_shipped(db, &v, &own)) {
        return own.code == CATALOG_NOT_FOUND || catalog_fail(err, own.code, "%s", own.text);
    }
    return content_load(others, db, v.number, err) && push_others(to, others, provider, err);
}

/* Entries are sources; checked whole before the database is touched. */
static bool take_sources(const char *file, const json_t *providers, struct source *out, size_t *n,
                         struct catalog_error *err)
{
    for (; *n < json_array_size(providers); ++*n) {
        json_t *entry = json_incref(json_array_get(providers, *n));
        if (!source_take(&out[*n], entry, file, err)) {
            return false;
        }
        for (size_t i = 0; i < *n; i++) {
            if (strcmp(out[i].id, out[*n].id) == 0) {
                source_release(&out[*n]);
                return bad_document(file, "names a provider twice", err);
            }
        }
    }
    return true;
}

static bool import_version(const char *path, const char *file, const json_t *root,
                           const struct version_stamp *stamp, struct catalog_version *v,
                           struct catalog_error *err)
{
    const json_t *providers = json_object_get(root, "providers");
    const char *only =
        json_string_value(json_object_get(json_object_get(root, "catalog"), "provider"));
    struct source *sources = calloc(TRANSFER_SOURCES_MAX, sizeof *sources);
    struct content c, others = {0};
    struct db *db = NULL;
    size_t n = 0;
    bool is_changed = false;
    content_init(&c);
    bool ok = (sources || no_memory(err)) && take_sources(file, providers, sources, &n, err) &&
              (n > 0 || bad_document(file, "holds no provider", err)) && db_create(&db, path, err);
    for (size_t i = 0; ok && i < n; i++) {
        ok = content_put_source(&c, db, &sources[i], err);
    }
    ok = ok && load_others(db, only, &others, &c, err) &&
         version_ship(db, &c, stamp, &is_changed, v, err) && (!is_changed || db_commit(db, err));
    db_close(db);
    content_release(&c);
    content_release(&others);
    while (n > 0) {
        source_release(&sources[--n]);
    }
    free(sources);
    return ok;
}

/* ---- overrides */

/* Something that was taken away where the document comes from. */
struct removed {
    struct member key;
    int64_t id; /* of the claim here that is meant; 0: there is none any more */
    bool is_used;
};

struct import {
    struct change c;
    const char *file;
    const struct version_stamp *stamp;
    struct removed *removed; /* owned */
    size_t n_removed;
    struct catalog_error *err;
};

/* The claim itself, or the only one of its key. */
static int64_t find_removed(struct import *x, const struct member *key)
{
    int64_t only = 0;
    size_t n = 0;
    for (size_t i = 0; i < x->c.now.n_claims; i++) {
        const struct member *m = &x->c.now.claims[i];
        if (member_is_same(m, key)) {
            return m->id;
        }
        if (member_compare_keys(m, key) == 0) {
            only = m->id;
            n++;
        }
    }
    return n == 1 ? only : 0;
}

static bool take_removed(struct import *x, json_t *claim)
{
    struct removed r = {0};
    if (!content_put(&x->c.now, x->c.db, claim, &r.key, x->err)) {
        return false;
    }
    r.id = find_removed(x, &r.key);
    x->removed[x->n_removed++] = r;
    change_settle(&x->c, &r.key);
    return true;
}

/* In the place of what the document says was removed with the same key, where it says so. */
static bool take_override(struct import *x, json_t *claim)
{
    struct member m;
    if (!change_member(&x->c, claim, &m, x->err)) {
        return false;
    }
    bool is_paired = false;
    for (size_t i = 0; i < x->n_removed; i++) {
        struct removed *r = &x->removed[i];
        if (member_compare_keys(&r->key, &m) != 0) {
            continue;
        }
        is_paired = true;
        struct member *at =
            r->is_used ? NULL : (struct member *)content_find(&x->c.now, r->id); /* ours */
        r->is_used = true;
        if (at && !content_find(&x->c.now, m.id)) {
            *at = m;
            return true;
        }
    }
    if (is_paired) {
        return content_find(&x->c.now, m.id) || change_append(&x->c, &m, x->err);
    }
    return change_place(&x->c, &m, 0, x->stamp->created, x->err);
}

static bool take_entry_claim(struct import *x, const json_t *id, const json_t *given, size_t number,
                             bool is_removal)
{
    struct source_place at = {.path = x->file, .claim = number, .err = x->err};
    bool is_removed = json_is_true(json_object_get(given, "removed"));
    if (is_removed != is_removal) {
        return true;
    }
    json_t *claim = json_copy((json_t *)given); /* jansson copies without const */
    if (!claim) {
        return no_memory(x->err);
    }
    at.param = json_string_value(json_object_get(claim, "param"));
    (void)json_object_del(claim, "removed"); /* they may not be there */
    if (!is_removed) {
        (void)json_object_del(claim, "local");
    }
    source_normalise(claim);
    bool ok = (!json_object_get(claim, "provider") ||
               source_bad(&at, "provider", "belongs to the entry, not to a claim")) &&
              source_check_claim(&at, claim) &&
              (json_object_set(claim, "provider", (json_t *)id) == 0 || no_memory(x->err)) &&
              (is_removed ? take_removed(x, claim) : take_override(x, claim));
    json_decref(claim);
    return ok;
}

/* {"id": ...} alone says which one is meant; more is the object itself. */
static bool take_entry_provider(struct import *x, const json_t *given)
{
    const char *id = json_string_value(json_object_get(given, "id"));
    struct member *there = (struct member *)content_find_provider(&x->c.now, id); /* ours */
    struct source_place at = {.path = x->file, .err = x->err};
    struct member m;
    if (json_object_size(given) == 1) {
        return there || catalog_fail(x->err, CATALOG_NOT_FOUND,
                                     "'%s': the catalog has no provider '%.64s'", x->file, id);
    }
    json_t *provider = json_copy((json_t *)given);
    if (!provider) {
        return no_memory(x->err);
    }
    source_normalise(provider);
    bool ok = source_check_provider(&at, provider) &&
              content_put_provider(&x->c.now, x->c.db, provider, &m, x->err);
    json_decref(provider);
    if (ok && there) {
        *there = m;
    }
    return ok && (there || content_push_provider(&x->c.now, &m, x->err));
}

static bool take_entry(struct import *x, const json_t *entry)
{
    const json_t *provider = json_object_get(entry, "provider"), *claim;
    const json_t *id = json_object_get(provider, "id"), *claims = json_object_get(entry, "claims");
    size_t i;
    x->n_removed = 0;
    x->removed = calloc(json_array_size(claims) + 1, sizeof *x->removed);
    bool ok = (x->removed || no_memory(x->err)) && take_entry_provider(x, provider);
    json_array_foreach (claims, i, claim) {
        ok = ok && take_entry_claim(x, id, claim, i + 1, true);
    }
    json_array_foreach (claims, i, claim) {
        ok = ok && take_entry_claim(x, id, claim, i + 1, false);
    }
    for (i = 0; ok && i < x->n_removed; i++) {
        const struct removed *r = &x->removed[i];
        struct member *at = r->is_used ? NULL : (struct member *)content_find(&x->c.now, r->id);
        if (at) {
            change_take_out(&x->c, at);
        }
    }
    free(x->removed);
    x->removed = NULL;
    return ok;
}

static bool import_overrides(const char *path, const char *file, const json_t *root,
                             const struct version_stamp *stamp, struct catalog_version *v,
                             struct catalog_error *err)
{
    struct import x = {.file = file, .stamp = stamp, .err = err};
    const json_t *entry;
    size_t i;
    bool ok = change_begin(&x.c, path, stamp, err);
    json_array_foreach (json_object_get(root, "providers"), i, entry) {
        ok = ok && take_entry(&x, entry);
    }
    ok = ok && change_store(&x.c, stamp, v, err);
    change_release(&x.c);
    return ok;
}

bool catalog_import(const char *path, const char *file, const struct version_stamp *stamp,
                    struct catalog_version *out, struct catalog_error *err)
{
    json_t *root = NULL;
    struct catalog_version v;
    bool ok =
        stamp_check(stamp, err) && source_read(file, &root, err) && check_document(file, root, err);
    if (ok) {
        const json_t *content = json_object_get(json_object_get(root, "catalog"), "content");
        bool is_version = strcmp(json_string_value(content), "version") == 0;
        ok = is_version ? import_version(path, file, root, stamp, &v, err)
                        : import_overrides(path, file, root, stamp, &v, err);
    }
    json_decref(root);
    if (ok && out) {
        *out = v;
    }
    return ok;
}
