/* keeper_notes.c - see keeper_notes.h.
 *
 * What the database holds of live traffic is bounded by what there is to say: one row for each
 * claim, verdict, model, status and day. The queue joins equal observations before they are
 * written, so a provider that refuses ten thousand requests costs a few small writes.
 *
 * An override is made for the very model that refused, not for all that the claim's pattern takes:
 * one model's refusal proves nothing about its family. What somebody has set on this machine by
 * hand is not overridden.
 */
#include "keeper_notes.h"

#include "catalog/versions.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void keeper_now(char out[32])
{
    time_t now = time(NULL);
    struct tm tm;
    (void)strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
}

/* ---- one bit for each claim */

bool keeper_notes_was_confirmed(const struct keeper_notes *q, int64_t claim)
{
    return claim >= 0 && claim < KEEPER_CLAIMS &&
           (atomic_load_explicit(&q->today[claim / 8], memory_order_relaxed) >> (claim % 8) & 1);
}

void keeper_notes_forget(struct keeper_notes *q)
{
    for (size_t i = 0; i < KEEPER_CLAIMS / 8; i++) {
        atomic_store_explicit(&q->today[i], 0, memory_order_relaxed);
    }
    q->n_learned = 0;
}

/* ---- the queue */

bool keeper_notes_init(struct keeper_notes *q)
{
    memset(q, 0, sizeof *q);
    q->last = &q->first;
    q->today = calloc(KEEPER_CLAIMS / 8, sizeof *q->today);
    if (!q->today || pthread_mutex_init(&q->lock, NULL) != 0) {
        free(q->today);
        memset(q, 0, sizeof *q);
        return false;
    }
    return true;
}

void keeper_notes_release(struct keeper_notes *q)
{
    if (q->today) {
        keeper_notes_free(q->first);
        free(q->today);
        (void)pthread_mutex_destroy(&q->lock); /* fails only while it is held */
        memset(q, 0, sizeof *q);
    }
}

void keeper_notes_free(struct keeper_note *list)
{
    while (list) {
        struct keeper_note *n = list;
        list = n->next;
        snapshot_release(n->snap);
        free(n);
    }
}

void keeper_notes_push(struct keeper_notes *q, struct snapshot *s, const struct evidence *e,
                       bool is_proved, bool *was_empty)
{
    struct keeper_note *n = calloc(1, sizeof *n);
    *was_empty = false;
    if (n) {
        n->e = *e;
        n->e.n = 1;
        keeper_now(n->e.seen);
        n->is_proved = is_proved;
    }
    (void)pthread_mutex_lock(&q->lock); /* cannot fail: a plain mutex that is initialised */
    bool has_room = n && q->n < KEEPER_NOTES_MAX;
    if (has_room) {
        n->snap = snapshot_ref(s);
        *was_empty = q->n++ == 0;
        *q->last = n;
        q->last = &n->next;
    }
    (void)pthread_mutex_unlock(&q->lock);
    if (!has_room) {
        free(n);
        (void)atomic_fetch_add(&q->n_dropped, 1);
    } else if (e->verdict == CLAIM_CONFIRMED && e->claim >= 0 && e->claim < KEEPER_CLAIMS) {
        (void)atomic_fetch_or_explicit(&q->today[e->claim / 8],
                                       (unsigned char)(1u << (e->claim % 8)), memory_order_relaxed);
    }
}

struct keeper_note *keeper_notes_take(struct keeper_notes *q)
{
    (void)pthread_mutex_lock(&q->lock);
    struct keeper_note *all = q->first;
    q->first = NULL;
    q->last = &q->first;
    q->n = 0;
    (void)pthread_mutex_unlock(&q->lock);
    return all;
}

bool keeper_notes_wait(struct keeper_notes *q)
{
    (void)pthread_mutex_lock(&q->lock);
    bool any = q->first != NULL;
    (void)pthread_mutex_unlock(&q->lock);
    return any;
}

/* ---- writing */

struct search {
    int64_t id;
    const struct claim *found;
};

static bool is_it(const struct claim *c, void *ud)
{
    struct search *s = ud;
    s->found = c->id == s->id ? c : NULL;
    return !s->found;
}

static const struct claim *find_claim(const struct snapshot *s, int64_t id)
{
    struct search it = {.id = id};
    snapshot_each(s, NULL, NULL, NULL, is_it, &it);
    return it.found;
}

/* What traffic confirms does not outweigh what contradicts (catalog/db.c). */
static bool is_shown(const struct snapshot *s, const struct evidence *e)
{
    const struct claim *c = find_claim(s, e->claim);
    bool is_new = c && c->verdict != e->verdict && c->verdict != CLAIM_CONTRADICTED;
    bool is_of_today = c && c->verdict_on && strncmp(c->verdict_on, e->seen, 10) == 0;
    return !c || (!is_new && (is_of_today || c->verdict != e->verdict));
}

static bool is_same_row(const struct evidence *a, const struct evidence *b)
{
    return a->claim == b->claim && a->verdict == b->verdict && a->origin == b->origin &&
           a->status == b->status && strcmp(a->model, b->model) == 0 &&
           strncmp(a->seen, b->seen, 10) == 0;
}

/* Equal observations become one with a count; what the last one said stays. */
static size_t join(const struct keeper_note *list, struct evidence *rows)
{
    size_t n = 0;
    for (; list; list = list->next) {
        size_t i = 0;
        while (i < n && !is_same_row(&rows[i], &list->e)) {
            i++;
        }
        int64_t before = i < n ? rows[i].n : 0;
        rows[i] = list->e;
        rows[i].n += before;
        n = i < n ? n : n + 1;
    }
    return n;
}

bool keeper_notes_write(struct keeper_notes *q, const char *path, const struct keeper_note *list,
                        const struct snapshot *current, bool *is_news, struct catalog_error *err)
{
    size_t count = 0;
    for (const struct keeper_note *n = list; n; n = n->next) {
        count++;
    }
    struct evidence *rows = calloc(count ? count : 1, sizeof *rows);
    bool ok = rows || catalog_fail(err, CATALOG_NOMEM, "out of memory");
    size_t n_rows = ok ? join(list, rows) : 0;
    ok = ok && evidence_add(path, rows, n_rows, err);
    *is_news = false;
    for (size_t i = 0; ok && !*is_news && i < n_rows; i++) {
        *is_news = !is_shown(current, &rows[i]);
    }
    free(rows);
    (void)atomic_fetch_add(ok ? &q->n_stored : &q->n_dropped, count);
    return ok;
}

/* ---- an override */

/* What the claim said of values means nothing for a parameter that is refused. */
static json_t *rejected_fields(const char *day)
{
    char source[64];
    (void)snprintf(source, sizeof source, "live traffic %s", day);
    return json_pack("{s:s,s:s,s:s,s:s,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n}",
                     "support", "rejected", "source", source, "as_of", day, "confidence", "medium",
                     "required", "min", "max", "min_exclusive", "max_exclusive", "integer",
                     "values", "default", "items_max", "len_max", "len_min", "note", "valid_from",
                     "valid_to");
}

bool keeper_notes_may_apply(const struct keeper_note *list, const struct keeper_note *n,
                            const struct snapshot *newest)
{
    if (!n->is_proved || n->e.verdict != CLAIM_CONTRADICTED || n->snap != newest) {
        return false;
    }
    while (list != n && !(list->is_proved && list->snap == n->snap && list->e.claim == n->e.claim &&
                          strcmp(list->e.model, n->e.model) == 0)) {
        list = list->next;
    }
    return list == n;
}

bool keeper_notes_apply(const char *path, const struct keeper_note *n, int64_t *version,
                        struct catalog_error *err)
{
    const struct claim *c = find_claim(n->snap, n->e.claim);
    char models[2 * sizeof n->e.model + 4], reason[256], day[11];
    *version = 0;
    if (!c || c->support != CLAIM_YES || c->is_local ||
        !catalog_models_exact(n->e.model, models, sizeof models)) {
        return true;
    }
    memcpy(day, n->e.seen, 10);
    day[10] = '\0';
    json_t *fields = rejected_fields(day);
    if (!fields) {
        return catalog_fail(err, CATALOG_NOMEM, "out of memory");
    }
    (void)snprintf(reason, sizeof reason,
                   "model %.128s refused '%.64s' with status %d and answered without it",
                   n->e.model, c->param, n->e.status);
    struct version_override o = {.provider = c->provider,
                                 .models = models,
                                 .endpoint = c->endpoint,
                                 .param = c->param,
                                 .fields = fields,
                                 .like = c->id};
    struct version_stamp stamp = {"isothermd", reason, n->e.seen};
    struct catalog_version v = {.number = 0};
    bool ok = catalog_set(path, &o, &stamp, &v, err);
    json_decref(fields);
    *version = ok ? v.number : 0;
    return ok;
}
