/* catalog.c - the handle: a database that is open for reading. Everything that is asked often is
 * asked of a snapshot; see snapshot.c for what one is and rules.c for what it answers. */
#include "catalog_inside.h"
#include "claim_row.h"
#include "nearest.h"
#include "pattern.h"
#include "snapshot.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct catalog {
    struct db *db; /* owned; guarded by the lock: its statements are kept between calls */
    char *path;    /* owned */
    bool is_quick; /* without checks of the whole file */
    pthread_mutex_t lock;
};

bool catalog_fail(struct catalog_error *err, enum catalog_code code, const char *fmt, ...)
{
    if (err && err->code == CATALOG_OK) {
        va_list ap;
        va_start(ap, fmt);
        err->code = code;
        (void)vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
        /* Texts quote what came from outside: one line stays one line. */
        for (char *p = err->text; *p; p++) {
            *p = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
        }
    }
    return false;
}

static bool open_db(struct db **out, const char *path, bool is_quick, struct catalog_error *err)
{
    return is_quick ? db_open_quick(out, path, err) : db_open(out, path, err);
}

static bool open_catalog(struct catalog **out, const char *path, bool is_quick,
                         struct catalog_error *err)
{
    struct catalog *c = calloc(1, sizeof *c);
    if (!c) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    if (pthread_mutex_init(&c->lock, NULL) != 0) {
        free(c);
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    c->is_quick = is_quick;
    c->path = strdup(path);
    if (!c->path) {
        (void)catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    if (!c->path || !open_db(&c->db, path, is_quick, err)) {
        catalog_close(c);
        return false;
    }
    *out = c;
    return true;
}

bool catalog_open(struct catalog **out, const char *path, struct catalog_error *err)
{
    return open_catalog(out, path, false, err);
}

bool catalog_open_quick(struct catalog **out, const char *path, struct catalog_error *err)
{
    return open_catalog(out, path, true, err);
}

void catalog_close(struct catalog *c)
{
    if (c) {
        db_close(c->db);
        free(c->path);
        (void)pthread_mutex_destroy(&c->lock); /* fails only while it is held */
        free(c);
    }
}

/* A handle that cannot see the newest state is opened again. */
static bool refresh(struct catalog *c, struct catalog_error *err)
{
    struct db *newer;
    if (!db_is_outdated(c->db)) {
        return true;
    }
    if (!open_db(&newer, c->path, c->is_quick, err)) {
        return false;
    }
    db_close(c->db);
    c->db = newer;
    return true;
}

bool catalog_snapshot(struct catalog *c, int64_t version, struct snapshot **out,
                      struct catalog_error *err)
{
    if (version < 0) {
        return catalog_fail(err, CATALOG_NOT_FOUND, "catalog versions count from 1");
    }
    (void)pthread_mutex_lock(&c->lock); /* cannot fail: a plain mutex that is initialised */
    bool ok = refresh(c, err) && snapshot_load(c->db, version, out, err);
    db_shrink(c->db);
    (void)pthread_mutex_unlock(&c->lock);
    return ok;
}

bool catalog_versions(struct catalog *c, catalog_version_fn *fn, void *ud,
                      struct catalog_error *err)
{
    (void)pthread_mutex_lock(&c->lock);
    bool ok = refresh(c, err) && db_versions(c->db, fn, ud, err);
    (void)pthread_mutex_unlock(&c->lock);
    return ok;
}

struct db *catalog_hold(struct catalog *c, struct catalog_error *err)
{
    (void)pthread_mutex_lock(&c->lock);
    if (refresh(c, err) && db_begin(c->db, err)) {
        return c->db;
    }
    (void)pthread_mutex_unlock(&c->lock);
    return NULL;
}

void catalog_let_go(struct catalog *c)
{
    db_end(c->db);
    (void)pthread_mutex_unlock(&c->lock);
}

const char *version_kind_name(enum version_kind k)
{
    return k == VERSION_LOCAL ? "local" : "shipped";
}

const struct catalog_version *snapshot_header(const struct snapshot *s)
{
    return &s->version;
}

/* ---- reading without a snapshot */

bool catalog_version_at(struct catalog *c, const char *day, int64_t *out, struct catalog_error *err)
{
    struct db *db = catalog_hold(c, err);
    if (!db) {
        return false;
    }
    bool ok = db_version_at(db, day, out, err);
    catalog_let_go(c);
    return ok;
}

bool catalog_get_version(struct catalog *c, int64_t number, struct catalog_version *out,
                         struct catalog_error *err)
{
    struct db *db = catalog_hold(c, err);
    if (!db) {
        return false;
    }
    bool ok = db_version(db, number, out, err);
    catalog_let_go(c);
    return ok;
}

struct verdict {
    int64_t claim;
    enum claim_verdict verdict;
    char on[32];
};

struct find {
    const char *model;
    catalog_claim_fn *fn;
    void *ud;
    struct catalog_error *err;
    struct verdict *verdicts; /* owned; by claim */
    size_t n_verdicts, verdicts_cap;
    char *pattern; /* owned: that of the row before, mostly the same */
    bool pattern_matches;
    bool is_stopped; /* by fn */
};

static bool add_verdict(int64_t claim, enum claim_verdict verdict, const char *on, void *ud)
{
    struct find *f = ud;
    if (f->n_verdicts == f->verdicts_cap) {
        size_t cap = f->verdicts_cap ? f->verdicts_cap * 2 : 64;
        struct verdict *more = realloc(f->verdicts, cap * sizeof *more);
        if (!more) {
            return catalog_fail(f->err, CATALOG_NOMEM, "out of memory");
        }
        f->verdicts = more;
        f->verdicts_cap = cap;
    }
    struct verdict *v = &f->verdicts[f->n_verdicts++];
    *v = (struct verdict){.claim = claim, .verdict = verdict};
    (void)snprintf(v->on, sizeof v->on, "%s", on);
    return true;
}

static int compare_verdicts(const void *a, const void *b)
{
    int64_t x = ((const struct verdict *)a)->claim, y = ((const struct verdict *)b)->claim;
    return (x > y) - (x < y);
}

static void set_verdict(const struct find *f, struct claim *c)
{
    struct verdict key = {.claim = c->id};
    const struct verdict *v =
        f->n_verdicts ? bsearch(&key, f->verdicts, f->n_verdicts, sizeof key, compare_verdicts)
                      : NULL;
    c->verdict = v ? v->verdict : CLAIM_UNVERIFIED;
    c->verdict_on = v ? v->on : NULL;
}

/* Whether the row is about the model that is asked for; *ok false: err is set. */
static bool takes_model(struct find *f, int64_t id, const char *pattern, bool *ok)
{
    struct catalog_error why = {.code = CATALOG_OK};
    if (!f->model || !pattern || strcmp(pattern, "*") == 0) {
        return true;
    }
    if (f->pattern && strcmp(f->pattern, pattern) == 0) {
        return f->pattern_matches;
    }
    free(f->pattern);
    f->pattern = strdup(pattern);
    *ok = f->pattern != NULL || catalog_fail(f->err, CATALOG_NOMEM, "out of memory");
    if (*ok && !pattern_ask(pattern, f->model, &f->pattern_matches, &why)) {
        *ok = claim_row_bad_pattern(id, &why, f->err);
    }
    return *ok && f->pattern_matches;
}

static bool find_row(int64_t id, const struct db_cell *cells, void *ud)
{
    struct find *f = ud;
    struct claim_row row = {.n_owned = 0};
    bool ok = true;
    if (!takes_model(f, id, cells[COLUMN_models].s, &ok)) {
        return ok;
    }
    if (!claim_row_init(&row, id, cells, f->err)) {
        return false;
    }
    set_verdict(f, &row.claim);
    f->is_stopped = !f->fn(&row.claim, f->ud);
    claim_row_release(&row);
    return !f->is_stopped;
}

static bool find_claims(struct db *db, int64_t version, const char *provider, const char *param,
                        struct find *f)
{
    struct catalog_version v;
    if (!db_version(db, version, &v, f->err) ||
        !db_verdicts(db, v.number, add_verdict, f, f->err)) {
        return false;
    }
    if (f->n_verdicts) {
        qsort(f->verdicts, f->n_verdicts, sizeof *f->verdicts, compare_verdicts);
    }
    return db_find_claims(db, v.number, provider, param, find_row, f, f->err) || f->is_stopped;
}

bool catalog_claims(struct catalog *c, int64_t version, const char *provider, const char *model,
                    const char *param, catalog_claim_fn *fn, void *ud, struct catalog_error *err)
{
    struct find f = {.model = model, .fn = fn, .ud = ud, .err = err};
    struct db *db = catalog_hold(c, err);
    if (!db) {
        return false;
    }
    bool ok = find_claims(db, version, provider, param, &f);
    catalog_let_go(c);
    free(f.verdicts);
    free(f.pattern);
    return ok;
}

/* ---- names */

static bool offer(const char *name, void *ud)
{
    struct nearest *n = ud;
    nearest_offer(n, name);
    return !n->is_known;
}

static bool unknown(const struct nearest *n, const char *what, struct catalog_error *err)
{
    char text[NEAREST_TEXT_MAX];
    if (err && err->code == CATALOG_OK) {
        (void)snprintf(err->param, sizeof err->param, "%s", what);
    }
    bool is_param = strcmp(what, "param") == 0;
    return catalog_fail(err, CATALOG_NOT_FOUND, "%s",
                        nearest_text(n, is_param ? "parameter" : what, text));
}

static bool check_provider(struct db *db, int64_t version, const char *provider,
                           struct catalog_error *err)
{
    struct nearest n;
    struct catalog_version v = {.number = version};
    nearest_init(&n, provider);
    return (version < 0 || db_version(db, version, &v, err)) &&
           db_provider_names(db, v.number, offer, &n, err) &&
           (n.is_known || unknown(&n, "provider", err));
}

static bool check_param(struct db *db, const char *param, struct catalog_error *err)
{
    struct nearest n;
    nearest_init(&n, param);
    for (int i = 0; i < PARAM_COUNT; i++) {
        nearest_offer(&n, sampling_table[i].name);
    }
    for (int i = 0; i < BEHAVIOUR_COUNT; i++) {
        nearest_offer(&n, behaviour_name((enum behaviour)i));
    }
    return n.is_known ||
           (db_param_names(db, offer, &n, err) && (n.is_known || unknown(&n, "param", err)));
}

bool catalog_check_names(struct catalog *c, int64_t version, const char *provider,
                         const char *param, struct catalog_error *err)
{
    struct db *db = catalog_hold(c, err);
    if (!db) {
        return false;
    }
    bool ok = (!provider || check_provider(db, version, provider, err)) &&
              (!param || check_param(db, param, err));
    catalog_let_go(c);
    return ok;
}

/* ---- dates */

/* `n` digits as a number; -1: other than digits. */
static int digits(const char *s, int n)
{
    int value = 0;
    for (int i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9') {
            return -1;
        }
        value = value * 10 + s[i] - '0';
    }
    return value;
}

static bool is_day(const char *s)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (strnlen(s, 10) < 10 || s[4] != '-' || s[7] != '-') {
        return false;
    }
    int year = digits(s, 4), month = digits(s + 5, 2), day = digits(s + 8, 2);
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return year >= 1 && month >= 1 && month <= 12 && day >= 1 &&
           day <= days[month - 1] + (month == 2 && is_leap);
}

bool catalog_is_day(const char *text)
{
    return is_day(text) && text[10] == '\0';
}

bool catalog_is_time(const char *text)
{
    if (!is_day(text) || text[10] == '\0') {
        return is_day(text);
    }
    const char *s = text + 10;
    size_t n = strlen(s);
    n -= s[n - 1] == 'Z';
    bool has_seconds = n == 9;
    if ((n != 6 && !has_seconds) || s[0] != 'T' || s[3] != ':' || (has_seconds && s[6] != ':')) {
        return false;
    }
    int hour = digits(s + 1, 2), minute = digits(s + 4, 2);
    int second = has_seconds ? digits(s + 7, 2) : 0;
    return hour >= 0 && hour <= 23 && minute >= 0 && minute <= 59 && second >= 0 && second <= 60;
}
