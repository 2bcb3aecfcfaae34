/* versions.c - versions on top of the newest one: an override, taking it back, a step back; and how
 * any version is stored.
 *
 * A change is made on the list of the newest version's members and stored as a whole new list; what
 * did not change is runs of row ids, a few bytes.
 */
#include "versions_content.h"
#include "catalog_inside.h"
#include "check_inside.h"
#include "snapshot.h"
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- storing */

/* Text that a terminal and a JSON document can show: UTF-8 without control characters. */
static bool is_plain(const char *s)
{
    json_t *text = json_string(s); /* NULL: no UTF-8 */
    bool is_utf8 = text != NULL;
    json_decref(text);
    for (; is_utf8 && *s; s++) {
        if ((unsigned char)*s < ' ' || *s == 0x7f) {
            return false;
        }
    }
    return is_utf8;
}

bool stamp_check(const struct version_stamp *stamp, struct catalog_error *err)
{
    const struct catalog_version *v = NULL;
    if (!is_plain(stamp->author) || !is_plain(stamp->reason)) {
        return catalog_fail(err, CATALOG_BAD_SOURCE,
                            "author and reason take one line of text in UTF-8");
    }
    if (strlen(stamp->created) >= sizeof v->created || strlen(stamp->author) >= sizeof v->author ||
        strlen(stamp->reason) >= sizeof v->reason) {
        return catalog_fail(err, CATALOG_BAD_SOURCE,
                            "author takes %zu bytes, reason %zu: say it shorter",
                            sizeof v->author - 1, sizeof v->reason - 1);
    }
    return true;
}

static bool store_claims(struct db *db, int64_t version, const struct content *c,
                         struct catalog_error *err)
{
    size_t end;
    for (size_t first = 0; first < c->n_claims; first = end) {
        int64_t id = c->claims[first].id;
        for (end = first + 1; end < c->n_claims && c->claims[end].id == id + (int64_t)(end - first);
             end++) {
        }
        if (!db_add_claims(db, version, (int64_t)first, id, (int64_t)(end - first), err)) {
            return false;
        }
    }
    return true;
}

bool version_store(struct db *db, int64_t number, const struct version_put *put,
                   struct catalog_version *out, struct catalog_error *err)
{
    struct catalog_version v = {.number = number,
                                .parent = put->parent,
                                .base = put->base ? put->base : number,
                                .kind = put->kind};
    const struct version_stamp *s = put->stamp;
    if (!stamp_check(s, err) || !content_hash(put->content, v.hash, err)) {
        return false;
    }
    (void)snprintf(v.created, sizeof v.created, "%s", s->created);
    (void)snprintf(v.author, sizeof v.author, "%s", s->author);
    (void)snprintf(v.reason, sizeof v.reason, "%s", s->reason);
    bool ok = db_put_version(db, &v, err) && store_claims(db, number, put->content, err);
    for (size_t i = 0; ok && i < put->content->n_providers; i++) {
        ok = db_add_provider(db, number, (int64_t)i, put->content->providers[i].id, err);
    }
    for (size_t i = 0; ok && put->conflicts && i < put->conflicts->n; i++) {
        ok = db_add_conflict(db, number, &put->conflicts->list[i].f, err);
    }
    return ok && db_version(db, number, out, err);
}

/* ---- a change */

bool change_begin(struct change *c, const char *path, const struct version_stamp *stamp,
                  struct catalog_error *err)
{
    *c = (struct change){0};
    return stamp_check(stamp, err) && db_change(&c->db, path, err) &&
           db_version(c->db, 0, &c->newest, err) &&
           content_load(&c->now, c->db, c->newest.number, err) &&
           content_load(&c->base, c->db, c->newest.base, err) &&
           conflicts_load(&c->open, &c->now, c->db, c->newest.number, err);
}

void change_release(struct change *c)
{
    conflicts_release(&c->open);
    content_release(&c->now);
    content_release(&c->base);
    db_close(c->db);
    *c = (struct change){0};
}

/* Whether something can fit claim `id` of the version, which is not committed yet. */
static bool check_possible(struct db *db, int64_t version, int64_t id, struct catalog_error *err)
{
    struct snapshot *s;
    char why[256];
    if (!snapshot_load_inside(db, version, &s, err)) {
        return false;
    }
    bool ok = true;
    for (size_t i = 0; i < s->n_claims && ok; i++) {
        const struct claim *k = &s->claims[i];
        ok = k->id != id || !check_impossible(k, why, sizeof why) ||
             catalog_fail(err, CATALOG_BAD_SOURCE, "%.64s '%.60s' %.40s: %s", k->provider,
                          k->models, k->param, why);
    }
    snapshot_release(s);
    return ok;
}

/* As change_store(); `id`: the claim that was set, 0: none. */
static bool store_checked(struct change *c, int64_t id, const struct version_stamp *stamp,
                          struct catalog_version *out, struct catalog_error *err)
{
    char hash[SHA256_HEX_LEN];
    struct catalog_version v = c->newest;
    if (!content_hash(&c->now, hash, err)) {
        return false;
    }
    if (strcmp(hash, v.hash) != 0 || (int64_t)c->open.n != v.n_conflicts) {
        struct version_put put = {VERSION_LOCAL, v.number, v.base, &c->now, &c->open, stamp};
        if (!version_store(c->db, v.number + 1, &put, &v, err) ||
            (id && !check_possible(c->db, v.number, id, err)) || !db_commit(c->db, err)) {
            return false;
        }
    }
    if (out) {
        *out = v;
    }
    return true;
}

bool change_store(struct change *c, const struct version_stamp *stamp, struct catalog_version *out,
                  struct catalog_error *err)
{
    return store_checked(c, 0, stamp, out, err);
}

static bool has_ended(const struct member *m, const char *today)
{
    return m->valid_to[0] && strncmp(m->valid_to, today, strlen(m->valid_to)) < 0;
}

/* Of two claims with one key: what was set here, else `like`, else what the planner would take. */
static bool is_better(const struct member *a, const struct member *b, int64_t like,
                      const char *today)
{
    if (a->is_local != b->is_local) {
        return a->is_local;
    }
    if ((a->id == like) != (b->id == like)) {
        return a->id == like;
    }
    if (has_ended(a, today) != has_ended(b, today)) {
        return !has_ended(a, today);
    }
    return strcmp(a->as_of, b->as_of) >= 0; /* further down beats further up */
}

/* The claim of that key, the one that counts where there are several; NULL: none. */
static struct member *find(struct change *c, const struct member *key, int64_t like,
                           const char *today)
{
    struct member *found = NULL;
    for (size_t i = 0; i < c->now.n_claims; i++) {
        struct member *m = &c->now.claims[i];
        if (member_compare_keys(m, key) == 0 && (!found || is_better(m, found, like, today))) {
            found = m;
        }
    }
    return found;
}

void change_take_out(struct change *c, struct member *at)
{
    size_t i = (size_t)(at - c->now.claims);
    memmove(at, at + 1, (c->now.n_claims - i - 1) * sizeof *at);
    c->now.n_claims--;
}

void change_settle(struct change *c, const struct member *key)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->open.n; i++) {
        const struct open_conflict *f = &c->open.list[i];
        if (f->f.is_provider || member_compare_keys(&f->key, key) != 0) {
            c->open.list[kept++] = *f;
        }
    }
    c->open.n = kept;
}

bool change_append(struct change *c, const struct member *m, struct catalog_error *err)
{
    size_t at = c->now.n_claims;
    while (at > 0 && strcmp(c->now.claims[at - 1].provider, m->provider) != 0) {
        at--;
    }
    at = at ? at : c->now.n_claims;
    if (!content_push(&c->now, m, err)) {
        return false;
    }
    memmove(&c->now.claims[at + 1], &c->now.claims[at],
            (c->now.n_claims - 1 - at) * sizeof *c->now.claims);
    c->now.claims[at] = *m;
    return true;
}

bool change_place(struct change *c, const struct member *m, int64_t like, const char *today,
                  struct catalog_error *err)
{
    struct member *at = find(c, m, like, today);
    struct member *same = (struct member *)content_find(&c->now, m->id); /* ours to change */
    change_settle(c, m);
    if (same) { /* it is there already; nothing may be there twice */
        if (at && at != same) {
            change_take_out(c, at);
        }
        return true;
    }
    if (!at) {
        return change_append(c, m, err);
    }
    *at = *m;
    return true;
}

/* ---- set */

static json_t *text_or_none(const char *s)
{
    return s ? json_string(s) : NULL;
}

/* endpoint of the override: given, else the provider's own. NULL: not known; borrowed. */
static const char *endpoint_of(const struct version_override *o, const json_t *provider)
{
    return o->endpoint ? o->endpoint
                       : json_string_value(json_object_get(provider, "chat_endpoint"));
}

/* The key that the fields name; `when` is JSON text of the caller's. */
static struct member key_of(const json_t *claim, const char *when)
{
    const char *variant = json_string_value(json_object_get(claim, "variant"));
    struct member m = {
        .provider = json_string_value(json_object_get(claim, "provider")),
        .models = json_string_value(json_object_get(claim, "models")),
        .endpoint = json_string_value(json_object_get(claim, "endpoint")),
        .param = json_string_value(json_object_get(claim, "param")),
        .variant = variant ? variant
                   : when  ? "conditional"
                           : "current",
        .when = when ? when : "",
        .source = "",
        .as_of = "",
        .valid_to = "",
    };
    return m;
}

/* The claim of that key whatever its endpoint, where neither the caller nor the provider names one.
 */
static struct member *find_anywhere(struct change *c, struct member *key, int64_t like,
                                    const char *today)
{
    struct member *found = NULL;
    for (size_t i = 0; i < c->now.n_claims; i++) {
        struct member *m = &c->now.claims[i];
        key->endpoint = m->endpoint;
        if (member_compare_keys(m, key) == 0 && (!found || is_better(m, found, like, today))) {
            found = m;
        }
    }
    return found;
}

/* What is laid over: the claim of that key, else `like`, else nothing. A new object; NULL: err. */
static json_t *ground_of(struct change *c, const struct version_override *o, const json_t *named,
                         const char *today, struct catalog_error *err)
{
    const json_t *when_given = json_object_get(o->fields, "when");
    char *when =
        json_is_object(when_given) ? json_dumps(when_given, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    struct member key = key_of(named, when);
    const struct member *found =
        key.endpoint ? find(c, &key, o->like, today) : find_anywhere(c, &key, o->like, today);
    free(when);
    if (!found && !o->like) {
        json_t *none = json_object();
        if (!none) {
            (void)catalog_fail(err, CATALOG_NOMEM, "out of memory");
        }
        return none;
    }
    json_t *claim = content_claim_json(c->db, found ? found->id : o->like, err);
    const char *provider = json_string_value(json_object_get(claim, "provider"));
    if (claim && strcmp(provider, o->provider) != 0) {
        (void)catalog_fail(err, CATALOG_NOT_FOUND, "claim %lld is of provider '%s', not of '%s'",
                           (long long)o->like, provider, o->provider);
        json_decref(claim);
        claim = NULL;
    }
    return claim;
}

static bool put(json_t *o, const char *key, json_t *value, struct catalog_error *err)
{
    return json_object_set_new(o, key, value) == 0 ||
           catalog_fail(err, CATALOG_NOMEM, "out of memory");
}

/* A field of the ground, unless it was given too. */
static void drop(json_t *claim, const json_t *fields, const char *field)
{
    if (!json_object_get(fields, field)) {
        (void)json_object_del(claim, field); /* it may not be there */
    }
}

/* What is refused or not there has no limits. */
static void drop_limits(json_t *claim, const json_t *fields, bool is_absent)
{
    static const char *const limits[] = {
        "min",      "max",   "min_exclusive", "max_exclusive",  "integer",
        "values",   "needs", "conflicts",     "items_max",      "len_max",
        "no_blank", "adds",  "required",      "conflicts_text", "len_min"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        drop(claim, fields, limits[i]);
    }
    if (is_absent) {
        drop(claim, fields, "wire");
        drop(claim, fields, "default");
    }
}

/* Fields of the ground that mean nothing any more after these: a list of values and a range take
 * each other's place, and a note is of the source that it came from. */
static void drop_dependent(json_t *claim, const json_t *fields)
{
    static const char *const pairs[][2] = {
        {"min", "min_exclusive"}, {"max", "max_exclusive"}, {"when", "when_text"},
        {"when", "variant"},      {"min", "values"},        {"max", "values"},
        {"values", "min"},        {"values", "max"},        {"source", "note"}};
    const char *support = json_string_value(json_object_get(fields, "support"));
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const json_t *given = json_object_get(fields, pairs[i][0]);
        bool is_list_gone = json_is_null(given) && strcmp(pairs[i][0], "values") == 0;
        if (given && !is_list_gone) {
            drop(claim, fields, pairs[i][1]);
        }
    }
    if (!json_object_get(claim, "min")) {
        drop(claim, fields, "min_exclusive");
    }
    if (!json_object_get(claim, "max")) {
        drop(claim, fields, "max_exclusive");
    }
    if (support && (strcmp(support, "absent") == 0 || strcmp(support, "rejected") == 0)) {
        drop_limits(claim, fields, support[0] == 'a');
    }
    (void)json_object_del(claim, "derived"); /* it follows from nothing but what was set */
}

static bool lay_over(json_t *claim, const json_t *fields, struct catalog_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)fields, key, value) { /* jansson's iterators lack const */
        if (json_is_null(value)) {
            (void)json_object_del(claim, key);
        } else if (!put(claim, key, json_incref(value), err)) {
            return false;
        }
    }
    drop_dependent(claim, fields);
    if (json_object_get(claim, "when") && !json_object_get(claim, "variant")) {
        return put(claim, "variant", json_string("conditional"), err);
    }
    return true;
}

static bool check_words(const struct version_override *o, struct catalog_error *err)
{
    const char *const words[] = {o->provider, o->models, o->param, o->endpoint};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i] && !is_plain(words[i])) {
            return catalog_fail(err, CATALOG_BAD_SOURCE,
                                "provider, models, parameter and endpoint take text in UTF-8");
        }
    }
    return true;
}

/* As a source's claim, with words for who set it. */
static bool check_override(const struct version_override *o, const json_t *claim,
                           struct catalog_error *err)
{
    struct catalog_error own = {0};
    struct source_place at = {.path = "set", .claim = 1, .param = o->param, .err = &own};
    if (source_check_claim(&at, claim)) {
        return true;
    }
    const char *text = strstr(own.text, "): ");
    if (err && err->code == CATALOG_OK) {
        memcpy(err->param, own.param, sizeof err->param);
    }
    return catalog_fail(err, own.code, "%.64s '%.60s' %.40s: %s", o->provider, o->models, o->param,
                        text ? text + 3 : own.text);
}

/* The claim that results, without "provider" and "local" as the check wants it; NULL: err. */
static json_t *override_claim(struct change *c, const struct version_override *o,
                              const json_t *provider, const char *today, struct catalog_error *err)
{
    const char *endpoint = endpoint_of(o, provider);
    json_t *named = json_pack("{s:s, s:s, s:s, s:s*}", "provider", o->provider, "models", o->models,
                              "param", o->param, "endpoint", endpoint);
    const json_t *variant = json_object_get(o->fields, "variant");
    bool ok = named && (!json_is_string(variant) ||
                        json_object_set(named, "variant", (json_t *)variant) == 0);
    json_t *claim = ok ? ground_of(c, o, named, today, err) : NULL;
    if (!ok) {
        (void)catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    bool is_new = claim && json_object_size(claim) == 0;
    ok = claim && lay_over(claim, o->fields, err) &&
         (!is_new || override_fill(c, o, endpoint, claim, err)) &&
         put(claim, "models", json_string(o->models), err) &&
         put(claim, "param", json_string(o->param), err) &&
         (!endpoint || put(claim, "endpoint", text_or_none(endpoint), err));
    json_decref(named);
    if (ok) {
        (void)json_object_del(claim, "provider"); /* it may not be there */
        (void)json_object_del(claim, "local");
        source_normalise(claim);
        ok = check_override(o, claim, err);
    }
    if (!ok) {
        json_decref(claim);
        return NULL;
    }
    return claim;
}

bool change_member(struct change *c, json_t *claim, struct member *out, struct catalog_error *err)
{
    unsigned char plain[SHA256_LEN];
    if (!source_hash(claim, plain, err)) {
        return false;
    }
    for (size_t i = 0; i < c->base.n_claims; i++) {
        if (memcmp(c->base.claims[i].plain, plain, SHA256_LEN) == 0) {
            *out = c->base.claims[i];
            return true;
        }
    }
    return put(claim, "local", json_true(), err) && content_put(&c->now, c->db, claim, out, err);
}

/* The provider's object, or NULL: the catalog has none of that name. */
static json_t *provider_json(struct change *c, const char *provider, struct catalog_error *err)
{
    const struct member *p = content_find_provider(&c->now, provider);
    if (!p) {
        (void)catalog_fail(err, CATALOG_NOT_FOUND, "the catalog has no provider '%.64s'", provider);
        return NULL;
    }
    return content_provider_json(c->db, p->id, err);
}

bool catalog_set(const char *path, const struct version_override *o,
                 const struct version_stamp *stamp, struct catalog_version *out,
                 struct catalog_error *err)
{
    struct change c = {.db = NULL};
    struct member m;
    json_t *provider = NULL, *claim = NULL;
    bool ok = check_words(o, err) && change_begin(&c, path, stamp, err);
    if (ok) {
        provider = provider_json(&c, o->provider, err);
        ok = provider && override_check_endpoint(&c, o, provider, err);
        claim = ok ? override_claim(&c, o, provider, stamp->created, err) : NULL;
        ok = claim && put(claim, "provider", json_string(o->provider), err) &&
             change_member(&c, claim, &m, err) &&
             change_place(&c, &m, o->like, stamp->created, err) &&
             store_checked(&c, m.id, stamp, out, err);
    }
    json_decref(provider);
    json_decref(claim);
    change_release(&c);
    return ok;
}

/* ---- unset */

static bool is_meant(const struct version_override *o, const struct member *m)
{
    const char *variant = json_string_value(json_object_get(o->fields, "variant"));
    return strcmp(m->provider, o->provider) == 0 &&
           (!o->models || strcmp(m->models, o->models) == 0) &&
           (!o->param || strcmp(m->param, o->param) == 0) &&
           (!o->endpoint || strcmp(m->endpoint, o->endpoint) == 0) &&
           (!variant || strcmp(m->variant, variant) == 0);
}

/* What is local, but for what is meant: that is as in base. */
static bool put_back(const struct version_override *o, const struct content *base,
                     const struct content *now, struct content *out, struct catalog_error *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < now->n_claims; i++) {
        ok = is_meant(o, &now->claims[i]) || content_push(out, &now->claims[i], err);
    }
    for (size_t i = 0; ok && i < base->n_claims; i++) {
        ok = !is_meant(o, &base->claims[i]) || content_push(out, &base->claims[i], err);
    }
    for (size_t i = 0; ok && i < now->n_providers; i++) {
        const struct member *p = &now->providers[i];
        bool is_whole = !o->models && !o->param && strcmp(p->provider, o->provider) == 0;
        const struct member *b = is_whole ? content_find_provider(base, p->provider) : NULL;
        ok = content_push_provider(out, b ? b : p, err);
    }
    return ok;
}

static void settle_meant(struct open_conflicts *open, const struct version_override *o)
{
    size_t kept = 0;
    for (size_t i = 0; i < open->n; i++) {
        const struct open_conflict *f = &open->list[i];
        bool is_settled = f->f.is_provider
                              ? !o->models && !o->param && strcmp(f->key.provider, o->provider) == 0
                              : is_meant(o, &f->key);
        if (!is_settled) {
            open->list[kept++] = *f;
        }
    }
    open->n = kept;
}

/* *out borrows from c. */
static bool unset_content(struct change *c, const struct version_override *o, struct content *out,
                          struct catalog_error *err)
{
    const struct content *base = &c->base;
    struct content local;
    struct open_conflicts none = {0}; /* shipped is base: only one side can have changed */
    content_init(&local);
    struct merge m = {.base = base, .shipped = base, .local = &local, .out = out, .found = &none};
    bool ok = put_back(o, base, &c->now, &local, err) && merge_contents(&m, err);
    conflicts_release(&none);
    content_release(&local);
    return ok;
}

static bool unset(struct change *c, const struct version_override *o,
                  const struct version_stamp *stamp, struct catalog_version *out,
                  struct catalog_error *err)
{
    struct content then, before = c->now;
    char hash[SHA256_HEX_LEN];
    content_init(&then);
    bool ok = unset_content(c, o, &then, err) && content_hash(&then, hash, err);
    settle_meant(&c->open, o);
    if (ok && strcmp(hash, c->newest.hash) == 0 && (int64_t)c->open.n == c->newest.n_conflicts) {
        ok = catalog_fail(err, CATALOG_NOT_FOUND, "nothing was set of %.64s%s%.60s%s%s%.40s",
                          o->provider, o->models ? " '" : "", o->models ? o->models : "",
                          o->models ? "'" : "", o->param ? " " : "", o->param ? o->param : "");
    }
    if (ok) {
        c->now = then;
        ok = change_store(c, stamp, out, err);
        c->now = before;
    }
    content_release(&then);
    return ok;
}

bool catalog_unset(const char *path, const struct version_override *o,
                   const struct version_stamp *stamp, struct catalog_version *out,
                   struct catalog_error *err)
{
    struct change c;
    bool ok = change_begin(&c, path, stamp, err) && unset(&c, o, stamp, out, err);
    change_release(&c);
    return ok;
}

/* ---- rollback */

static bool rollback(struct change *c, int64_t number, const struct version_stamp *stamp,
                     struct catalog_version *out, struct catalog_error *err)
{
    struct catalog_version to;
    struct content then = {0};
    struct open_conflicts open = {0};
    bool ok = number > 0 || catalog_fail(err, CATALOG_NOT_FOUND, "catalog versions count from 1");
    ok = ok && db_version(c->db, number, &to, err) && content_load(&then, c->db, number, err) &&
         conflicts_load(&open, &then, c->db, number, err);
    if (ok && (strcmp(to.hash, c->newest.hash) != 0 || to.base != c->newest.base ||
               to.n_conflicts != c->newest.n_conflicts)) {
        struct version_put put = {VERSION_LOCAL, c->newest.number, to.base, &then, &open, stamp};
        ok = version_store(c->db, c->newest.number + 1, &put, &c->newest, err) &&
             db_commit(c->db, err);
    }
    if (ok && out) {
        *out = c->newest;
    }
    conflicts_release(&open);
    content_release(&then);
    return ok;
}

bool catalog_rollback(const char *path, int64_t number, const struct version_stamp *stamp,
                      struct catalog_version *out, struct catalog_error *err)
{
    struct change c;
    bool ok = change_begin(&c, path, stamp, err) && rollback(&c, number, stamp, out, err);
    change_release(&c);
    return ok;
}

/* ---- reading */

bool catalog_newest(struct catalog *c, int64_t *out, struct catalog_error *err)
{
    int64_t number;
    struct db *db = catalog_hold(c, err);
    if (!db) {
        return false;
    }
    bool ok = db_newest_number(db, &number, err);
    if (ok && number < 1) {
        ok = catalog_fail(err, CATALOG_NOT_FOUND, "the catalog has no version");
    }
    catalog_let_go(c);
    if (ok) {
        *out = number;
    }
    return ok;
}

/* One side of a conflict, as it is shown; *out NULL for 0. */
static bool side_json(struct db *db, const struct db_conflict *f, int64_t id, json_t **out,
                      struct catalog_error *err)
{
    *out = NULL;
    if (id) {
        *out =
            f->is_provider ? content_provider_json(db, id, err) : content_claim_json(db, id, err);
        if (*out && !f->is_provider && !put(*out, "id", json_integer(id), err)) {
            json_decref(*out);
            *out = NULL;
        }
    }
    return *out || !id;
}

static bool show_conflict(struct db *db, const struct db_conflict *f, catalog_conflict_fn *fn,
                          void *ud, bool *goes_on, struct catalog_error *err)
{
    json_t *base = NULL, *shipped = NULL, *local = NULL;
    bool ok = side_json(db, f, f->base, &base, err) &&
              side_json(db, f, f->shipped, &shipped, err) &&
              side_json(db, f, f->local, &local, err);
    if (ok) {
        struct version_conflict c = {f->since, base, shipped, local};
        *goes_on = fn(&c, ud);
    }
    json_decref(base);
    json_decref(shipped);
    json_decref(local);
    return ok;
}

bool catalog_conflicts(struct catalog *c, int64_t version, catalog_conflict_fn *fn, void *ud,
                       struct catalog_error *err)
{
    struct catalog_version v;
    struct content text;
    struct open_conflicts open = {0};
    bool goes_on = true;
    struct db *db = catalog_hold(c, err);
    if (!db) {
        return false;
    }
    content_init(&text);
    bool ok = db_version(db, version, &v, err) && conflicts_load(&open, &text, db, v.number, err);
    for (size_t i = 0; ok && goes_on && i < open.n; i++) {
        ok = show_conflict(db, &open.list[i].f, fn, ud, &goes_on, err);
    }
    catalog_let_go(c);
    conflicts_release(&open);
    content_release(&text);
    return ok;
}
