/* api_catalog.c - GET /v1/catalog, /v1/catalog/versions, /v1/catalog/diff, /v1/catalog/history:
 * what the catalog says, said or once held.
 *
 * All of it runs on a loop that other requests share, so each answer is short: what is given back
 * has a limit ("total" says how much there is), the version in use is in memory, another one is
 * loaded by the keeper while the request waits, its verdicts those of when it was loaded. Lists of
 * versions, differences and histories are a few rows of the database in use: read with a handle of
 * its own without a check of the whole file, never a wait, since readers do not wait for writers.
 */
#include "catalog/claim_json.h"
#include "catalog/nearest.h"
#include "gateway/base/jsonio.h"
#include "routes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUERY_VALUE_MAX 256 /* bytes; the longest name that means anything is a model's */
#define LIST_DEFAULT    100 /* entries; a claim is some 900 bytes and 20 us */
#define LIST_MAX        1000

/* ---- the query */

enum key {
    KEY_PROVIDER,
    KEY_MODEL,
    KEY_PARAM,
    KEY_VERSION,
    KEY_AS_OF,
    KEY_ON,
    KEY_FROM,
    KEY_TO,
    KEY_LIMIT,
    KEY_OFFSET,
    KEY_COUNT
};
static const char *const key_names[KEY_COUNT] = {
    [KEY_PROVIDER] = "provider", [KEY_MODEL] = "model", [KEY_PARAM] = "param",
    [KEY_VERSION] = "version",   [KEY_AS_OF] = "as_of", [KEY_ON] = "on",
    [KEY_FROM] = "from",         [KEY_TO] = "to",       [KEY_LIMIT] = "limit",
    [KEY_OFFSET] = "offset",
};
#define TAKES(k) (1u << (k))

struct query {
    const char *text[KEY_COUNT]; /* NULL: absent; borrowed from the request */
    int64_t number[KEY_COUNT];   /* of version, from, to, limit, offset; 0: absent */
};

static bool bad(struct failure *f, enum key key, const char *what)
{
    return failure_set(f, 400, "invalid_query", key_names[key], "'%s' %s", key_names[key], what);
}

static bool take_pair(struct query *q, unsigned takes, const char *name, const char *value,
                      struct failure *f)
{
    unsigned k = 0;
    while (k < KEY_COUNT && (!(takes & TAKES(k)) || strcmp(key_names[k], name) != 0)) {
        k++;
    }
    if (k == KEY_COUNT) {
        char known[200] = "";
        for (unsigned i = 0, n = 0; i < KEY_COUNT; i++) {
            if (takes & TAKES(i)) {
                n += (unsigned)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "",
                                        key_names[i]);
            }
        }
        return failure_set(f, 400, "unknown_query", NULL, "the query may hold %s%s",
                           known[0] ? known : "nothing here", known[0] ? ", nothing else" : "");
    }
    if (q->text[k]) {
        return bad(f, (enum key)k, "is there twice");
    }
    if (!value[0] || strnlen(value, QUERY_VALUE_MAX + 1) > QUERY_VALUE_MAX) {
        return bad(f, (enum key)k, value[0] ? "is longer than 256 bytes" : "is empty");
    }
    q->text[k] = value;
    return true;
}

static bool take_number(struct query *q, enum key key, int64_t min, int64_t max, struct failure *f)
{
    const char *text = q->text[key];
    char *end, what[80];
    if (!text) {
        return true;
    }
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || *end || text[0] < '0' || text[0] > '9' || n < min || n > max) {
        (void)snprintf(what, sizeof what,
                       max == INT64_MAX ? "must be a whole number from %lld"
                                        : "must be a whole number, %lld to %lld",
                       (long long)min, (long long)max);
        return bad(f, key, what);
    }
    q->number[key] = n;
    return true;
}

static bool parse_query(struct conn *c, unsigned takes, struct query *q, struct failure *f)
{
    const char *name, *value;
    *q = (struct query){.number = {0}};
    for (size_t i = 0; conn_query_at(c, i, &name, &value); i++) {
        if (!take_pair(q, takes, name, value, f)) {
            return false;
        }
    }
    q->number[KEY_LIMIT] = LIST_DEFAULT;
    if (!take_number(q, KEY_VERSION, 1, INT64_MAX, f) ||
        !take_number(q, KEY_FROM, 1, INT64_MAX, f) || !take_number(q, KEY_TO, 1, INT64_MAX, f) ||
        !take_number(q, KEY_LIMIT, 0, LIST_MAX, f) ||
        !take_number(q, KEY_OFFSET, 0, INT64_MAX, f)) {
        return false;
    }
    if (q->text[KEY_ON] && !catalog_is_day(q->text[KEY_ON])) {
        return bad(f, KEY_ON, "must be a day of the calendar, 2026-11-30");
    }
    if (q->text[KEY_AS_OF] && !catalog_is_time(q->text[KEY_AS_OF])) {
        return bad(f, KEY_AS_OF, "must be a day of the calendar, 2026-11-30, or that with a time");
    }
    return !q->text[KEY_AS_OF] || !q->text[KEY_VERSION] ||
           bad(f, KEY_AS_OF, "and 'version' both choose a version: give one of them");
}

/* ---- a list with a limit */

struct page {
    json_t *list; /* owned until it is taken */
    const struct query *q;
    int64_t total; /* what matches, given or not */
    bool has_memory;
};

static bool page_init(struct page *p, const struct query *q, struct failure *f)
{
    *p = (struct page){.list = json_array(), .q = q, .has_memory = true};
    return p->list || failure_set(f, 503, "out_of_memory", NULL, "out of memory");
}

/* Counts one more entry; whether it is one of those that are given back. */
static bool page_wants(struct page *p)
{
    int64_t at = p->total++ - p->q->number[KEY_OFFSET];
    return at >= 0 && at < p->q->number[KEY_LIMIT];
}

static bool page_add(struct page *p, json_t *entry)
{
    p->has_memory = json_array_append_new(p->list, entry) == 0;
    return p->has_memory;
}

/* Answers with `body` (taken over) or with the failure. */
static void reply(struct conn *c, json_t *body, const struct failure *f)
{
    if (f->status) {
        json_decref(body);
        routes_reply_failure(c, f);
    } else {
        routes_reply_json(c, 200, body);
    }
}

/* The database in use, or NULL with a failure. */
static struct catalog *open_database(struct gateway *g, struct failure *f)
{
    struct catalog_error e = {.code = CATALOG_OK};
    struct keeper_status s;
    struct catalog *db;
    keeper_status(g->keeper, &s);
    if (!catalog_open_quick(&db, s.path, &e)) {
        (void)failure_from_catalog(f, &e);
        return NULL;
    }
    return db;
}

static bool version_not_found(struct failure *f, enum key key, int64_t number)
{
    return failure_set(f, 404, "catalog_version_not_found", key_names[key],
                       "the catalog has no version %lld: see GET /v1/catalog/versions",
                       (long long)number);
}

/* The version that `key` names (0: the newest), or 404. */
static bool find_version(struct catalog *db, const struct query *q, enum key key,
                         struct catalog_version *out, struct failure *f)
{
    struct catalog_error e = {.code = CATALOG_OK};
    if (catalog_get_version(db, q->number[key], out, &e)) {
        return true;
    }
    return e.code == CATALOG_NOT_FOUND ? version_not_found(f, key, q->number[key])
                                       : failure_from_catalog(f, &e);
}

/* The version that was the newest at `as_of`, or 404. */
static bool find_version_at(struct catalog *db, const struct query *q, int64_t *out,
                            struct failure *f)
{
    struct catalog_error e = {.code = CATALOG_OK};
    if (catalog_version_at(db, q->text[KEY_AS_OF], out, &e)) {
        return true;
    }
    return e.code == CATALOG_NOT_FOUND
               ? failure_set(f, 404, "catalog_version_not_found", key_names[KEY_AS_OF],
                             "no version is as old as %s: see GET /v1/catalog/versions",
                             q->text[KEY_AS_OF])
               : failure_from_catalog(f, &e);
}

/* ---- GET /v1/catalog */

static bool take_claim(const struct claim *c, void *ud)
{
    struct page *p = ud;
    const char *on = p->q->text[KEY_ON];
    if (on && !claim_holds_on(c, on)) {
        return true;
    }
    return !page_wants(p) || page_add(p, claim_json(c));
}

/* Whether the version knows the provider; a parameter without a claim is an empty list. */
static bool check_names(const struct snapshot *s, const struct query *q, struct failure *f)
{
    const char *provider = q->text[KEY_PROVIDER];
    char text[NEAREST_TEXT_MAX];
    struct nearest n;
    if (!provider || snapshot_provider(s, provider)) {
        return true;
    }
    nearest_init(&n, provider);
    for (size_t i = 0; i < snapshot_n_providers(s); i++) {
        nearest_offer(&n, snapshot_provider_at(s, i)->id);
    }
    return failure_set(f, 404, "not_found", "provider", "%s", nearest_text(&n, "provider", text));
}

static json_t *show_body(const struct catalog_version *v, const struct page *p)
{
    return json_pack("{s:I, s:s, s:s, s:I, s:I, s:I, s:O}", "version", (json_int_t)v->number,
                     "hash", v->hash, "created", v->created, "total", (json_int_t)p->total, "limit",
                     (json_int_t)p->q->number[KEY_LIMIT], "offset",
                     (json_int_t)p->q->number[KEY_OFFSET], "claims", p->list);
}

/* Answers out of a snapshot, which is let go. */
static void show(struct conn *c, struct snapshot *s, const struct query *q)
{
    struct failure f = {.status = 0};
    struct page p = {.list = NULL};
    json_t *body = NULL;
    if (check_names(s, q, &f) && page_init(&p, q, &f)) {
        snapshot_each(s, q->text[KEY_PROVIDER], q->text[KEY_MODEL], q->text[KEY_PARAM], take_claim,
                      &p);
        body = p.has_memory ? show_body(snapshot_header(s), &p) : NULL;
        if (!body) {
            (void)failure_set(&f, 503, "out_of_memory", NULL, "out of memory");
        }
    }
    json_decref(p.list);
    snapshot_release(s);
    reply(c, body, &f);
}

/* A request that waits for another version; its query is borrowed from the connection. */
struct waiting {
    struct conn *c;
    struct query q;
    int64_t version;
};

static void on_version(struct snapshot *s, const struct failure *f, void *ud)
{
    struct waiting *w = ud;
    if (s) {
        show(w->c, s, &w->q);
    } else {
        struct failure own = *f;
        if (f->status == 404) {
            own = (struct failure){.status = 0};
            (void)version_not_found(&own, KEY_VERSION, w->version);
        }
        routes_reply_failure(w->c, &own);
    }
    free(w);
}

static bool ask_keeper(struct gateway *g, struct conn *c, const struct query *q, int64_t version,
                       struct failure *f)
{
    struct waiting *w = malloc(sizeof *w);
    if (w) {
        *w = (struct waiting){c, *q, version};
    }
    if (!w || !keeper_version(g->keeper, version, conn_loop(c), on_version, w)) {
        free(w);
        return failure_set(f, 503, "out_of_memory", NULL, "out of memory");
    }
    return true;
}

/* 0: the one in use. */
static bool choose_version(struct gateway *g, const struct query *q, int64_t *out,
                           struct failure *f)
{
    *out = q->number[KEY_VERSION];
    if (!q->text[KEY_AS_OF]) {
        return true;
    }
    struct catalog *db = open_database(g, f);
    bool ok = db && find_version_at(db, q, out, f);
    catalog_close(db);
    return ok;
}

void api_catalog_show(struct gateway *g, struct conn *c)
{
    struct failure f = {.status = 0};
    struct query q;
    int64_t version = 0;
    unsigned takes = TAKES(KEY_PROVIDER) | TAKES(KEY_MODEL) | TAKES(KEY_PARAM) |
                     TAKES(KEY_VERSION) | TAKES(KEY_AS_OF) | TAKES(KEY_ON) | TAKES(KEY_LIMIT) |
                     TAKES(KEY_OFFSET);
    if (!parse_query(c, takes, &q, &f) || !choose_version(g, &q, &version, &f)) {
        routes_reply_failure(c, &f);
        return;
    }
    struct snapshot *s = gateway_snapshot(g, version, version ? NULL : &f);
    if (s) {
        show(c, s, &q);
    } else if (!version || !ask_keeper(g, c, &q, version, &f)) {
        routes_reply_failure(c, &f);
    }
}

/* ---- GET /v1/catalog/versions */

static bool take_version(const struct catalog_version *v, void *ud)
{
    struct page *p = ud;
    return !page_wants(p) || page_add(p, version_json(v));
}

/* The end of all that read lists out of the database. */
static void reply_page(struct conn *c, struct page *p, const char *name, bool ok, json_t *head,
                       struct failure *f)
{
    if (ok && (!p->has_memory || !head)) {
        ok = failure_set(f, 503, "out_of_memory", NULL, "out of memory");
    }
    if (ok) {
        bool is_put = json_object_set_new(head, "total", json_integer(p->total)) == 0 &&
                      json_object_set(head, name, p->list) == 0;
        ok = is_put || failure_set(f, 503, "out_of_memory", NULL, "out of memory");
    }
    json_decref(p->list);
    reply(c, head, f);
}

void api_catalog_versions(struct gateway *g, struct conn *c)
{
    struct failure f = {.status = 0};
    struct catalog_error e = {.code = CATALOG_OK};
    struct query q;
    struct page p = {.list = NULL};
    struct catalog *db = NULL;
    bool ok = parse_query(c, TAKES(KEY_LIMIT) | TAKES(KEY_OFFSET), &q, &f) &&
              page_init(&p, &q, &f) && (db = open_database(g, &f)) != NULL &&
              (catalog_versions(db, take_version, &p, &e) || failure_from_catalog(&f, &e));
    catalog_close(db);
    reply_page(c, &p, "versions", ok, json_object(), &f);
}

/* ---- GET /v1/catalog/diff */

static bool take_difference(const struct version_difference *d, void *ud)
{
    struct page *p = ud;
    const json_t *any = d->after ? d->after : d->before;
    const char *id = json_string_value(json_object_get(any, d->is_provider ? "id" : "provider"));
    const char *wanted = p->q->text[KEY_PROVIDER];
    if (wanted && (!id || strcmp(id, wanted) != 0)) {
        return true;
    }
    return !page_wants(p) || page_add(p, difference_json(d));
}

void api_catalog_diff(struct gateway *g, struct conn *c)
{
    struct failure f = {.status = 0};
    struct catalog_error e = {.code = CATALOG_OK};
    struct catalog_version from = {.number = 0}, to = {.number = 0};
    struct query q;
    struct page p = {.list = NULL};
    struct catalog *db = NULL;
    unsigned takes = TAKES(KEY_FROM) | TAKES(KEY_TO) | TAKES(KEY_PROVIDER) | TAKES(KEY_LIMIT) |
                     TAKES(KEY_OFFSET);
    bool ok = parse_query(c, takes, &q, &f) && page_init(&p, &q, &f) &&
              (q.text[KEY_FROM] || bad(&f, KEY_FROM, "is missing: a version's number")) &&
              (db = open_database(g, &f)) != NULL && find_version(db, &q, KEY_FROM, &from, &f) &&
              find_version(db, &q, KEY_TO, &to, &f);
    if (ok) {
        ok = catalog_check_names(db, CATALOG_ANY_VERSION, q.text[KEY_PROVIDER], NULL, &e) &&
             catalog_diff(db, from.number, to.number, take_difference, &p, &e);
        ok = ok || failure_from_catalog(&f, &e);
    }
    catalog_close(db);
    reply_page(
        c, &p, "differences", ok,
        json_pack("{s:I, s:I}", "from", (json_int_t)from.number, "to", (json_int_t)to.number), &f);
}

/* ---- GET /v1/catalog/history */

static bool take_life(const struct version_life *l, void *ud)
{
    struct page *p = ud;
    return !page_wants(p) || page_add(p, life_json(l));
}

void api_catalog_history(struct gateway *g, struct conn *c)
{
    struct failure f = {.status = 0};
    struct catalog_error e = {.code = CATALOG_OK};
    struct query q;
    struct page p = {.list = NULL};
    struct catalog *db = NULL;
    unsigned takes = TAKES(KEY_PROVIDER) | TAKES(KEY_PARAM) | TAKES(KEY_MODEL) | TAKES(KEY_LIMIT) |
                     TAKES(KEY_OFFSET);
    bool ok = parse_query(c, takes, &q, &f) && page_init(&p, &q, &f) &&
              (q.text[KEY_PROVIDER] || bad(&f, KEY_PROVIDER, "is missing")) &&
              (q.text[KEY_PARAM] || bad(&f, KEY_PARAM, "is missing")) &&
              (db = open_database(g, &f)) != NULL;
    if (ok) {
        const char *provider = q.text[KEY_PROVIDER], *param = q.text[KEY_PARAM];
        ok = catalog_check_names(db, CATALOG_ANY_VERSION, provider, param, &e) &&
             catalog_history(db, provider, param, q.text[KEY_MODEL], take_life, &p, &e) &&
             evidence_add_json(db, p.list, &e);
        ok = ok || failure_from_catalog(&f, &e);
    }
    catalog_close(db);
    reply_page(c, &p, "history", ok, json_object(), &f);
}
