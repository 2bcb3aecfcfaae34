/* diff.c - two versions compared. Versions share what they have in common by row id, so only what
 * one has and the other has not is read; of these, what has the same key is one change. */
#include "catalog_inside.h"
#include "claim_row.h"
#include "versions.h"

#include <stdlib.h>
#include <string.h>

struct item {
    json_t *json;    /* owned */
    char *key, *end; /* owned: the key; its source and date, which tell claims of one key apart */
    bool is_after, is_taken;
};

struct diff {
    struct item *items; /* owned */
    size_t n, cap;
    int64_t version; /* of the rows that are coming in */
    bool is_after;
    struct catalog_error *err;
    catalog_difference_fn *fn;
    void *ud;
};

static bool no_memory(struct diff *d)
{
    return catalog_fail(d->err, CATALOG_NOMEM, "out of memory");
}

static void diff_release(struct diff *d)
{
    for (size_t i = 0; i < d->n; i++) {
        json_decref(d->items[i].json);
        free(d->items[i].key);
        free(d->items[i].end);
    }
    free(d->items);
}

/* ---- keys: the parts joined by a byte that sorts before every other */

static char *join(const char *const *parts, size_t n)
{
    size_t len = 1;
    for (size_t i = 0; i < n; i++) {
        len += strlen(parts[i]) + 1;
    }
    char *out = malloc(len), *p = out;
    for (size_t i = 0; out && i < n; i++) {
        size_t part = strlen(parts[i]);
        memcpy(p, parts[i], part);
        p += part;
        *p++ = '\1';
    }
    if (out) {
        *p = '\0';
    }
    return out;
}

static const char *cell_text(const struct db_cell *cells, enum claim_column column)
{
    return cells[column].type == DB_TEXT ? cells[column].s : "";
}

static bool make_keys(struct item *item, const struct db_cell *cells)
{
    const char *variant = cell_text(cells, COLUMN_variant);
    const char *key[] = {
        cell_text(cells, COLUMN_provider), cell_text(cells, COLUMN_models),
        cell_text(cells, COLUMN_endpoint), cell_text(cells, COLUMN_param),
        variant[0] ? variant : "current",  cell_text(cells, COLUMN_when),
    };
    const char *end[] = {cell_text(cells, COLUMN_source), cell_text(cells, COLUMN_as_of)};
    item->key = join(key, sizeof key / sizeof key[0]);
    item->end = join(end, sizeof end / sizeof end[0]);
    return item->key && item->end;
}

/* ---- rows in */

static struct item *add_item(struct diff *d)
{
    if (d->n == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 64;
        struct item *more = realloc(d->items, cap * sizeof *more);
        if (!more) {
            (void)no_memory(d);
            return NULL;
        }
        d->items = more;
        d->cap = cap;
    }
    struct item *item = &d->items[d->n++];
    *item = (struct item){.is_after = d->is_after};
    return item;
}

static bool set_version(struct diff *d, json_t *o)
{
    return json_object_set_new_nocheck(o, "version", json_integer(d->version)) == 0 || no_memory(d);
}

static bool take_claim(int64_t id, const struct db_cell *cells, void *ud)
{
    struct diff *d = ud;
    struct item *item = add_item(d);
    if (!item) {
        return false;
    }
    item->json = claim_row_json(id, cells, d->err);
    return item->json && set_version(d, item->json) && (make_keys(item, cells) || no_memory(d));
}

static bool take_provider(int64_t id, const struct db_cell *cells, void *ud)
{
    struct diff *d = ud;
    struct item *item = add_item(d);
    (void)id;
    if (!item) {
        return false;
    }
    item->json =
        json_loads(cells[0].type == DB_TEXT ? cells[0].s : "", JSON_REJECT_DUPLICATES, NULL);
    const char *name = json_string_value(json_object_get(item->json, "id"));
    if (!name) {
        return catalog_fail(d->err, CATALOG_BAD_DB,
                            "a provider's row cannot be read: build the catalog again");
    }
    item->key = strdup(name); /* without the joining byte: before all claims of the provider */
    item->end = strdup("");
    return (item->key && item->end) || no_memory(d);
}

/* ---- pairs out */

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int c = strcmp(x->key, y->key);
    c = c ? c : strcmp(x->end, y->end);
    return c ? c : (int)x->is_after - (int)y->is_after;
}

static bool give(struct diff *d, struct item *before, struct item *after)
{
    const struct item *any = before ? before : after;
    struct version_difference out = {
        .change = !before  ? VERSION_ADDED
                  : !after ? VERSION_REMOVED
                           : VERSION_CHANGED,
        .before = before ? before->json : NULL,
        .after = after ? after->json : NULL,
        .is_provider = strchr(any->key, '\1') == NULL,
    };
    if (before) {
        before->is_taken = true;
    }
    if (after) {
        after->is_taken = true;
    }
    return d->fn(&out, d->ud);
}

/* The one item of a side that is left in a run of one key; NULL: none or several. */
static struct item *only_left(struct item *run, size_t n, bool is_after)
{
    struct item *found = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!run[i].is_taken && run[i].is_after == is_after) {
            if (found) {
                return NULL;
            }
            found = &run[i];
        }
    }
    return found;
}

/* A run of one key. Claims that also have the same source and date belong together; then what is
 * left alone on both sides does. */
static bool give_run(struct diff *d, struct item *run, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++) {
        bool is_pair =
            !run[i].is_after && run[i + 1].is_after && strcmp(run[i].end, run[i + 1].end) == 0;
        if (is_pair && !give(d, &run[i], &run[i + 1])) {
            return false;
        }
    }
    struct item *before = only_left(run, n, false), *after = only_left(run, n, true);
    if (before && after && !give(d, before, after)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        struct item *it = &run[i];
        if (!it->is_taken && !give(d, it->is_after ? NULL : it, it->is_after ? it : NULL)) {
            return false;
        }
    }
    return true;
}

static void give_all(struct diff *d)
{
    size_t first = 0;
    while (first < d->n) {
        size_t end = first + 1;
        while (end < d->n && strcmp(d->items[end].key, d->items[first].key) == 0) {
            end++;
        }
        if (!give_run(d, d->items + first, end - first)) {
            return;
        }
        first = end;
    }
}

static bool read_side(struct db *db, struct diff *d, int64_t in, int64_t not_in, bool is_after)
{
    d->version = in;
    d->is_after = is_after;
    return db_only_providers(db, in, not_in, take_provider, d, d->err) &&
           db_only_claims(db, in, not_in, take_claim, d, d->err);
}

bool catalog_diff(struct catalog *c, int64_t from, int64_t to, catalog_difference_fn *fn, void *ud,
                  struct catalog_error *err)
{
    struct diff d = {.err = err, .fn = fn, .ud = ud};
    struct catalog_version a, b;
    struct db *db = catalog_hold(c, err);
    if (!db) {
        return false;
    }
    bool ok = db_version(db, from, &a, err) && db_version(db, to, &b, err) &&
              read_side(db, &d, a.number, b.number, false) &&
              read_side(db, &d, b.number, a.number, true);
    catalog_let_go(c);
    if (ok && d.n) {
        qsort(d.items, d.n, sizeof *d.items, compare_items);
        give_all(&d);
    }
    diff_release(&d);
    return ok;
}
