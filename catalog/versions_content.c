/* versions_content.c - see versions_content.h. */
#include "versions_content.h"
#include "claim_row.h"
#include "hash_list.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>

void content_init(struct content *c)
{
    *c = (struct content){0};
    arena_init(&c->text);
}

void content_release(struct content *c)
{
    if (c) {
        free(c->claims);
        free(c->providers);
        arena_release(&c->text);
        *c = (struct content){0};
    }
}

static bool no_memory(struct catalog_error *err)
{
    return catalog_fail(err, CATALOG_NOMEM, "out of memory");
}

static bool push(struct member **list, size_t *n, size_t *cap, const struct member *m,
                 struct catalog_error *err)
{
    if (*n == *cap) {
        size_t wanted = *cap ? *cap * 2 : 256;
        struct member *more = realloc(*list, wanted * sizeof *more);
        if (!more) {
            return no_memory(err);
        }
        *list = more;
        *cap = wanted;
    }
    (*list)[(*n)++] = *m;
    return true;
}

bool content_push(struct content *c, const struct member *m, struct catalog_error *err)
{
    return push(&c->claims, &c->n_claims, &c->claims_cap, m, err);
}

bool content_push_provider(struct content *c, const struct member *m, struct catalog_error *err)
{
    return push(&c->providers, &c->n_providers, &c->providers_cap, m, err);
}

/* ---- from the database */

/* "current" is what is meant where nothing is said. */
static const char *variant_of(const char *variant)
{
    return variant ? variant : "current";
}

/* The texts of `m` are borrowed still: they are kept here. */
static bool keep_texts(struct content *c, struct member *m, struct catalog_error *err)
{
    const char **texts[] = {&m->provider, &m->models, &m->endpoint, &m->param,   &m->variant,
                            &m->when,     &m->source, &m->as_of,    &m->valid_to};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        *texts[i] = arena_intern(&c->text, *texts[i] ? *texts[i] : "");
        if (!*texts[i]) {
            return no_memory(err);
        }
    }
    return true;
}

struct load {
    struct content *c;
    struct catalog_error *err;
};

static struct member member_of(const struct db_member *d)
{
    struct member m = {
        .id = d->id,
        .provider = d->provider,
        .models = d->models,
        .endpoint = d->endpoint,
        .param = d->param,
        .variant = variant_of(d->variant),
        .when = d->when,
        .source = d->source,
        .as_of = d->as_of,
        .valid_to = d->valid_to,
        .is_local = d->is_local,
    };
    memcpy(m.hash, d->hash, SHA256_LEN);
    memcpy(m.plain, d->hash, SHA256_LEN);
    return m;
}

static bool take_claim(const struct db_member *d, void *ud)
{
    struct load *l = ud;
    struct member m = member_of(d);
    return keep_texts(l->c, &m, l->err) && content_push(l->c, &m, l->err);
}

static bool take_provider(const struct db_member *d, void *ud)
{
    struct load *l = ud;
    struct member m = member_of(d);
    return keep_texts(l->c, &m, l->err) && content_push_provider(l->c, &m, l->err);
}

static bool hash_plain(const json_t *claim, unsigned char out[SHA256_LEN],
                       struct catalog_error *err)
{
    json_t *plain = json_copy((json_t *)claim); /* jansson copies without const */
    if (!plain) {
        return no_memory(err);
    }
    (void)json_object_del(plain, "local"); /* it may not be there */
    bool ok = source_hash(plain, out, err);
    json_decref(plain);
    return ok;
}

bool content_load(struct content *c, struct db *db, int64_t version, struct catalog_error *err)
{
    struct load l = {c, err};
    content_init(c);
    bool ok = db_provider_members(db, version, take_provider, &l, err) &&
              db_members(db, version, take_claim, &l, err);
    for (size_t i = 0; ok && i < c->n_claims; i++) {
        if (c->claims[i].is_local) {
            json_t *claim = content_claim_json(db, c->claims[i].id, err);
            ok = claim && hash_plain(claim, c->claims[i].plain, err);
            json_decref(claim);
        }
    }
    return ok;
}

struct one {
    json_t *json;
    struct catalog_error *err;
};

static bool take_claim_row(int64_t id, const struct db_cell *cells, void *ud)
{
    struct one *one = ud;
    one->json = claim_row_json(id, cells, one->err);
    return one->json != NULL;
}

json_t *content_claim_json(struct db *db, int64_t id, struct catalog_error *err)
{
    struct one one = {NULL, err};
    if (!db_claim(db, id, take_claim_row, &one, err)) {
        json_decref(one.json);
        return NULL;
    }
    if (!one.json) {
        (void)catalog_fail(err, CATALOG_NOT_FOUND, "the catalog has no claim %lld", (long long)id);
        return NULL;
    }
    (void)json_object_del(one.json, "id"); /* it is there */
    return one.json;
}

static bool take_provider_row(int64_t id, const struct db_cell *cells, void *ud)
{
    struct one *one = ud;
    json_error_t e;
    one->json = cells[0].s ? json_loads(cells[0].s, JSON_REJECT_DUPLICATES, &e) : NULL;
    return one->json || catalog_fail(one->err, CATALOG_BAD_DB,
                                     "catalog row %lld: a provider cannot be read: build the "
                                     "catalog again",
                                     (long long)id);
}

json_t *content_provider_json(struct db *db, int64_t id, struct catalog_error *err)
{
    struct one one = {NULL, err};
    if (!db_provider(db, id, take_provider_row, &one, err)) {
        json_decref(one.json);
        return NULL;
    }
    if (!one.json) {
        (void)catalog_fail(err, CATALOG_BAD_DB, "the catalog has no provider row %lld",
                           (long long)id);
    }
    return one.json;
}

/* ---- into the database */

/* A cell borrows its text from the claim, but for lists and the like: their JSON text is made here
 * and freed by the caller. */
static bool make_cell(const json_t *v, bool is_json, struct db_cell *cell, char **owned)
{
    *owned = NULL;
    *cell = (struct db_cell){.type = DB_NULL};
    if (!v) {
        return true;
    }
    if (is_json) {
        *owned = json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
        *cell = (struct db_cell){.type = DB_TEXT, .s = *owned};
        return *owned != NULL;
    }
    if (json_is_string(v)) {
        *cell = (struct db_cell){.type = DB_TEXT, .s = json_string_value(v)};
    } else if (json_is_integer(v)) {
        *cell = (struct db_cell){.type = DB_INT, .i = json_integer_value(v)};
    } else if (json_is_real(v)) {
        *cell = (struct db_cell){.type = DB_REAL, .d = json_real_value(v)};
    } else {
        *cell = (struct db_cell){.type = DB_INT, .i = json_is_true(v)};
    }
    return true;
}

#define IS_JSON_TEXT   0
#define IS_JSON_BOOL   0
#define IS_JSON_NUMBER 0
#define IS_JSON_COUNT  0
#define IS_JSON_LIST   1
#define IS_JSON_OBJECT 1
#define IS_JSON_ANY    1

static const struct {
    const char *name;
    bool is_json;
} columns[COLUMN_COUNT] = {
#define X(name, kind) {#name, IS_JSON_##kind},
    CLAIM_COLUMNS(X)
#undef X
};

static struct member member_of_cells(const struct db_cell *cells)
{
    return (struct member){
        .provider = cells[COLUMN_provider].s,
        .models = cells[COLUMN_models].s,
        .endpoint = cells[COLUMN_endpoint].s,
        .param = cells[COLUMN_param].s,
        .variant = variant_of(cells[COLUMN_variant].s),
        .when = cells[COLUMN_when].s,
        .source = cells[COLUMN_source].s,
        .as_of = cells[COLUMN_as_of].s,
        .valid_to = cells[COLUMN_valid_to].s,
        .is_local = cells[COLUMN_local].i != 0,
    };
}

bool content_put(struct content *c, struct db *db, const json_t *claim, struct member *out,
                 struct catalog_error *err)
{
    struct db_cell cells[COLUMN_COUNT];
    char *owned[COLUMN_COUNT];
    unsigned char hash[SHA256_LEN];
    struct member m = {0};
    bool ok = source_hash(claim, hash, err);
    int n = 0;
    for (; ok && n < COLUMN_COUNT; n++) {
        ok = make_cell(json_object_get(claim, columns[n].name), columns[n].is_json, &cells[n],
                       &owned[n]) ||
             no_memory(err);
    }
    if (ok) {
        m = member_of_cells(cells);
        memcpy(m.hash, hash, SHA256_LEN);
        memcpy(m.plain, hash, SHA256_LEN);
        ok = db_put_claim(db, hash, cells, &m.id, err) && keep_texts(c, &m, err) &&
             (!m.is_local || hash_plain(claim, m.plain, err));
    }
    while (n > 0) {
        free(owned[--n]);
    }
    if (ok) {
        *out = m;
    }
    return ok;
}

bool content_put_provider(struct content *c, struct db *db, const json_t *provider,
                          struct member *out, struct catalog_error *err)
{
    struct member m = {.provider = json_string_value(json_object_get(provider, "id"))};
    char *body = json_dumps(provider, JSON_COMPACT | JSON_SORT_KEYS);
    bool ok = body ? source_hash(provider, m.hash, err) &&
                         db_put_provider(db, m.hash, m.provider, body, &m.id, err) &&
                         keep_texts(c, &m, err)
                   : no_memory(err);
    free(body);
    if (ok) {
        memcpy(m.plain, m.hash, SHA256_LEN);
        *out = m;
    }
    return ok;
}

struct read_one {
    struct content *c;
    struct member *out;
    bool is_there;
    struct catalog_error *err;
};

static bool take_cells(int64_t id, const struct db_cell *cells, void *ud)
{
    struct read_one *r = ud;
    *r->out = member_of_cells(cells);
    r->out->id = id;
    r->is_there = true;
    return keep_texts(r->c, r->out, r->err);
}

/* The member of a row of `claim`. */
static bool read_member(struct content *c, struct db *db, int64_t id, struct member *out,
                        struct catalog_error *err)
{
    struct member m;
    struct read_one r = {c, &m, false, err};
    if (!db_claim(db, id, take_cells, &r, err)) {
        return false;
    }
    if (!r.is_there) {
        return catalog_fail(err, CATALOG_NOT_FOUND, "the catalog has no claim %lld", (long long)id);
    }
    json_t *claim = content_claim_json(db, id, err);
    bool ok = claim && source_hash(claim, m.hash, err) && hash_plain(claim, m.plain, err);
    json_decref(claim);
    if (ok) {
        *out = m;
    }
    return ok;
}

/* ---- hash */

static bool add_hash(struct hash_list *l, const unsigned char *hash, struct catalog_error *err)
{
    unsigned char *out = hash_list_add(l);
    if (!out) {
        return no_memory(err);
    }
    memcpy(out, hash, SHA256_LEN);
    return true;
}

bool content_hash(const struct content *c, char hex[SHA256_HEX_LEN], struct catalog_error *err)
{
    struct hash_list providers = {0}, claims = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < c->n_providers; i++) {
        ok = add_hash(&providers, c->providers[i].hash, err);
    }
    for (size_t i = 0; ok && i < c->n_claims; i++) {
        ok = add_hash(&claims, c->claims[i].hash, err);
    }
    if (ok) {
        hash_list_sum(&providers, &claims, hex);
    }
    hash_list_release(&providers);
    hash_list_release(&claims);
    return ok;
}

/* ---- keys */

int member_compare_keys(const struct member *a, const struct member *b)
{
    const char *const x[] = {a->provider, a->models, a->endpoint, a->param, a->variant, a->when};
    const char *const y[] = {b->provider, b->models, b->endpoint, b->param, b->variant, b->when};
    int order = 0;
    for (size_t i = 0; order == 0 && i < sizeof x / sizeof x[0]; i++) {
        order = x[i] == y[i] ? 0 : strcmp(x[i], y[i]);
    }
    return order;
}

bool member_is_same(const struct member *a, const struct member *b)
{
    return memcmp(a->plain, b->plain, SHA256_LEN) == 0;
}

const struct member *content_find(const struct content *c, int64_t id)
{
    for (size_t i = 0; i < c->n_claims; i++) {
        if (c->claims[i].id == id) {
            return &c->claims[i];
        }
    }
    return NULL;
}

const struct member *content_find_provider(const struct content *c, const char *provider)
{
    for (size_t i = 0; i < c->n_providers; i++) {
        if (strcmp(c->providers[i].provider, provider) == 0) {
            return &c->providers[i];
        }
    }
    return NULL;
}

/* ---- conflicts */

bool conflicts_add(struct open_conflicts *o, const struct db_conflict *f, const struct member *key,
                   struct catalog_error *err)
{
    if (o->n == o->cap) {
        size_t wanted = o->cap ? o->cap * 2 : 16;
        struct open_conflict *more = realloc(o->list, wanted * sizeof *more);
        if (!more) {
            return no_memory(err);
        }
        o->list = more;
        o->cap = wanted;
    }
    o->list[o->n++] = (struct open_conflict){*f, *key};
    return true;
}

struct load_conflicts {
    struct open_conflicts *o;
    struct catalog_error *err;
};

static bool take_conflict(const struct db_conflict *f, void *ud)
{
    struct load_conflicts *l = ud;
    return conflicts_add(l->o, f, &(struct member){0}, l->err);
}

static bool read_provider_key(struct content *c, struct db *db, int64_t id, struct member *out,
                              struct catalog_error *err)
{
    json_t *p = content_provider_json(db, id, err);
    struct member m = {.id = id, .provider = json_string_value(json_object_get(p, "id"))};
    bool ok = p && keep_texts(c, &m, err);
    json_decref(p);
    if (ok) {
        *out = m;
    }
    return ok;
}

bool conflicts_load(struct open_conflicts *o, struct content *c, struct db *db, int64_t version,
                    struct catalog_error *err)
{
    struct load_conflicts l = {o, err};
    bool ok = db_conflicts(db, version, take_conflict, &l, err);
    for (size_t i = 0; ok && i < o->n; i++) {
        const struct db_conflict *f = &o->list[i].f;
        int64_t id = f->local ? f->local : f->shipped ? f->shipped : f->base;
        ok = f->is_provider ? read_provider_key(c, db, id, &o->list[i].key, err)
                            : read_member(c, db, id, &o->list[i].key, err);
    }
    return ok;
}

void conflicts_release(struct open_conflicts *o)
{
    free(o->list);
    *o = (struct open_conflicts){0};
}
