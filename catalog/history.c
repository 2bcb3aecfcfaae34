/* history.c - every claim that versions held about one parameter, and for how long. A claim that
 * was taken away and came back (a rollback) has a life for each time. */
#include "catalog_inside.h"
#include "claim_row.h"
#include "pattern.h"
#include "versions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stamp {
    int64_t number;
    char *created, *author, *reason; /* owned */
};

struct held {
    int64_t id;
    json_t *json; /* owned */
};

struct life {
    int64_t claim, position; /* in the first version */
    size_t first, last;      /* indices of stamps */
};

struct history {
    struct stamp *stamps; /* owned; by number */
    struct held *held;    /* owned; by id */
    struct life *lives;   /* owned */
    size_t n_stamps, stamps_cap, n_held, held_cap, n_lives, lives_cap;
    const char *model; /* NULL: of every model */
    struct catalog_error *err;
};

static bool no_memory(const struct history *h)
{
    return catalog_fail(h->err, CATALOG_NOMEM, "out of memory");
}

/* Room for one more. */
static bool grow(struct history *h, void **list, size_t n, size_t *cap, size_t item)
{
    if (n < *cap) {
        return true;
    }
    size_t wanted = *cap ? *cap * 2 : 64;
    void *more = realloc(*list, wanted * item);
    if (!more) {
        return no_memory(h);
    }
    *list = more;
    *cap = wanted;
    return true;
}

static void history_release(struct history *h)
{
    for (size_t i = 0; i < h->n_stamps; i++) {
        free(h->stamps[i].created);
        free(h->stamps[i].author);
        free(h->stamps[i].reason);
    }
    for (size_t i = 0; i < h->n_held; i++) {
        json_decref(h->held[i].json);
    }
    free(h->stamps);
    free(h->held);
    free(h->lives);
}

/* ---- rows in */

static char *copy(struct db_cell c)
{
    return strdup(c.type == DB_TEXT ? c.s : "");
}

static bool take_stamp(int64_t number, const struct db_cell *cells, void *ud)
{
    struct history *h = ud;
    if (!grow(h, (void **)&h->stamps, h->n_stamps, &h->stamps_cap, sizeof *h->stamps)) {
        return false;
    }
    struct stamp *s = &h->stamps[h->n_stamps++];
    *s = (struct stamp){number, copy(cells[0]), copy(cells[1]), copy(cells[2])};
    return (s->created && s->author && s->reason) || no_memory(h);
}

/* A bad expression is the build's to refuse: nobody's model matches it. *ok false: err is set. */
static bool takes_model(const struct history *h, const char *pattern, bool *ok)
{
    struct catalog_error why = {.code = CATALOG_OK};
    bool takes = true;
    if (h->model && pattern && !pattern_ask(pattern, h->model, &takes, &why)) {
        *ok = why.code != CATALOG_NOMEM || no_memory(h);
        return false;
    }
    return takes;
}

static bool take_claim(int64_t id, const struct db_cell *cells, void *ud)
{
    struct history *h = ud;
    bool ok = true;
    if (!takes_model(h, cells[COLUMN_models].s, &ok)) {
        return ok;
    }
    if (!grow(h, (void **)&h->held, h->n_held, &h->held_cap, sizeof *h->held)) {
        return false;
    }
    json_t *json = claim_row_json(id, cells, h->err);
    if (json) {
        h->held[h->n_held++] = (struct held){id, json};
    }
    return json != NULL;
}

static int compare_held(const void *a, const void *b)
{
    int64_t x = ((const struct held *)a)->id, y = ((const struct held *)b)->id;
    return (x > y) - (x < y);
}

static struct held *find_held(const struct history *h, int64_t id)
{
    struct held key = {.id = id};
    return h->n_held ? bsearch(&key, h->held, h->n_held, sizeof key, compare_held) : NULL;
}

static int compare_stamps(const void *a, const void *b)
{
    int64_t x = ((const struct stamp *)a)->number, y = ((const struct stamp *)b)->number;
    return (x > y) - (x < y);
}

/* Holders come by claim, then version: a life goes on while the version is the next one. */
static bool take_holder(int64_t claim, int64_t version, int64_t position, void *ud)
{
    struct history *h = ud;
    struct stamp key = {.number = version};
    const struct stamp *s =
        h->n_stamps ? bsearch(&key, h->stamps, h->n_stamps, sizeof key, compare_stamps) : NULL;
    if (!s || !find_held(h, claim)) {
        return true;
    }
    size_t at = (size_t)(s - h->stamps);
    struct life *last = h->n_lives ? &h->lives[h->n_lives - 1] : NULL;
    if (last && last->claim == claim && last->last + 1 == at) {
        last->last = at;
        return true;
    }
    if (!grow(h, (void **)&h->lives, h->n_lives, &h->lives_cap, sizeof *h->lives)) {
        return false;
    }
    h->lives[h->n_lives++] = (struct life){claim, position, at, at};
    return true;
}

static bool read_holders(struct db *db, struct history *h)
{
    int64_t *ids = calloc(h->n_held ? h->n_held : 1, sizeof *ids);
    if (!ids) {
        return no_memory(h);
    }
    for (size_t i = 0; i < h->n_held; i++) {
        ids[i] = h->held[i].id;
    }
    bool ok = db_holders(db, ids, h->n_held, take_holder, h, h->err);
    free(ids);
    return ok;
}

/* ---- lives out */

static int compare_lives(const void *a, const void *b)
{
    const struct life *x = a, *y = b;
    if (x->first != y->first) {
        return (x->first > y->first) - (x->first < y->first);
    }
    return (x->position > y->position) - (x->position < y->position);
}

static bool give(struct history *h, const struct life *l, catalog_life_fn *fn, void *ud, bool *stop)
{
    const struct stamp *first = &h->stamps[l->first];
    bool is_held = l->last + 1 == h->n_stamps;
    json_t *claim = find_held(h, l->claim)->json;
    if (json_object_set_new_nocheck(claim, "version", json_integer(first->number)) != 0) {
        return no_memory(h);
    }
    struct version_life out = {
        .claim = claim,
        .first = first->number,
        .last = is_held ? 0 : h->stamps[l->last].number,
        .since = first->created,
        .until = is_held ? NULL : h->stamps[l->last + 1].created,
        .author = first->author,
        .reason = first->reason,
    };
    *stop = !fn(&out, ud);
    return true;
}

bool catalog_history(struct catalog *c, const char *provider, const char *param, const char *model,
                     catalog_life_fn *fn, void *ud, struct catalog_error *err)
{
    struct history h = {.model = model, .err = err};
    struct db *db = catalog_hold(c, err);
    if (!db) {
        return false;
    }
    bool ok = db_stamps(db, take_stamp, &h, err) &&
              db_held_claims(db, provider, param, take_claim, &h, err) && read_holders(db, &h);
    catalog_let_go(c);
    if (ok && h.n_lives) {
        qsort(h.lives, h.n_lives, sizeof *h.lives, compare_lives);
    }
    bool stop = false;
    for (size_t i = 0; ok && !stop && i < h.n_lives; i++) {
        ok = give(&h, &h.lives[i], fn, ud, &stop);
    }
    history_release(&h);
    return ok;
}
