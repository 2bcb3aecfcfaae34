/* merge.c - a three-way merge of contents: base, shipped, local.
 *
 * Claims are compared in groups of one key. Mostly a group has one claim on each side, and the rule
 * is that of any such merge: what only one side changed is taken, what both changed is the local
 * one's, and a conflict. Where a key is not unique (several histories, two sources), the claims of
 * base are paired with those of each side first: by content, then by source and date, then in
 * order, since an override stands in the place of what it replaces.
 *
 * The outcome is noted in the order of `shipped` and written at the end: `at[i]` says what becomes
 * of its claim i, `tail[j]` whether the local claim j comes at the end of its provider.
 */
#include "versions_content.h"

#include <stdlib.h>
#include <string.h>

#define GROUP_MAX 512 /* claims of one key on one side: more is no catalog */

enum side { BASE, SHIPPED, LOCAL, N_SIDES };
struct ref {
    const struct member *m;
    enum side side;
    size_t i; /* in its content */
};

#define KEEP (-1)
#define DROP (-2)
struct work {
    const struct merge *m;
    struct ref *refs;
    int64_t *at; /* of each shipped claim: KEEP, DROP or the local claim that stands there */
    bool *tail;  /* of each local claim */
    struct catalog_error *err;
};

/* Claims of one key; pairs are indices into the side's list, -1: none. */
struct group {
    const struct ref *side[N_SIDES];
    int n[N_SIDES];
    int pair[N_SIDES][GROUP_MAX]; /* of SHIPPED and LOCAL, by base claim */
    bool is_paired[N_SIDES][GROUP_MAX];
};

static int compare_refs(const void *a, const void *b)
{
    const struct ref *x = a, *y = b;
    int order = member_compare_keys(x->m, y->m);
    if (order == 0) {
        order = (int)x->side - (int)y->side;
    }
    return order ? order : (x->i > y->i) - (x->i < y->i);
}

static bool is_same_source(const struct member *a, const struct member *b)
{
    return strcmp(a->source, b->source) == 0 && strcmp(a->as_of, b->as_of) == 0;
}

static bool is_any(const struct member *a, const struct member *b)
{
    (void)a;
    (void)b;
    return true;
}

static void pair_side(struct group *g, enum side side)
{
    static bool (*const passes[])(const struct member *,
                                  const struct member *) = {member_is_same, is_same_source, is_any};
    for (int b = 0; b < g->n[BASE]; b++) {
        g->pair[side][b] = -1;
    }
    memset(g->is_paired[side], 0, sizeof g->is_paired[side]);
    for (size_t p = 0; p < sizeof passes / sizeof passes[0]; p++) {
        for (int b = 0; b < g->n[BASE]; b++) {
            for (int i = 0; g->pair[side][b] < 0 && i < g->n[side]; i++) {
                if (!g->is_paired[side][i] && passes[p](g->side[BASE][b].m, g->side[side][i].m)) {
                    g->pair[side][b] = i;
                    g->is_paired[side][i] = true;
                }
            }
        }
    }
}

static bool add_conflict(struct work *w, const struct ref *base, const struct ref *shipped,
                         const struct ref *local)
{
    struct db_conflict f = {.since = w->m->since,
                            .base = base ? base->m->id : 0,
                            .shipped = shipped ? shipped->m->id : 0,
                            .local = local ? local->m->id : 0};
    return conflicts_add(w->m->found, &f, (base ? base : shipped)->m, w->err);
}

/* The local claim stands in the place of the shipped one, or at the end where there is none. */
static void take_local(struct work *w, const struct ref *shipped, const struct ref *local)
{
    if (shipped) {
        w->at[shipped->i] = local ? (int64_t)local->i : DROP;
    } else if (local) {
        w->tail[local->i] = true;
    }
}

/* One claim of base, and what the two sides made of it; NULL: gone. */
static bool settle(struct work *w, const struct ref *base, const struct ref *shipped,
                   const struct ref *local)
{
    bool is_shipped_same = shipped && member_is_same(base->m, shipped->m);
    bool is_local_same = local && member_is_same(base->m, local->m);
    if (is_local_same || (!shipped && !local) ||
        (shipped && local && member_is_same(shipped->m, local->m))) {
        return true; /* what is shipped */
    }
    take_local(w, shipped, local);
    return is_shipped_same || add_conflict(w, base, shipped, local);
}

/* A local claim that stands for none of base: the same key may have come from the other side. */
static bool settle_added(struct work *w, struct group *g, const struct ref *local)
{
    for (int i = 0; i < g->n[SHIPPED]; i++) {
        const struct ref *shipped = &g->side[SHIPPED][i];
        if (w->at[shipped->i] == KEEP && member_is_same(shipped->m, local->m)) {
            g->is_paired[SHIPPED][i] = true;
            return true;
        }
        if (g->is_paired[SHIPPED][i]) {
            continue;
        }
        bool is_single = g->n[BASE] == 0 && g->n[SHIPPED] == 1 && g->n[LOCAL] == 1;
        if (is_single || is_same_source(shipped->m, local->m)) {
            g->is_paired[SHIPPED][i] = true;
            take_local(w, shipped, local);
            return add_conflict(w, NULL, shipped, local);
        }
    }
    take_local(w, NULL, local);
    return true;
}

static const struct ref *partner(const struct group *g, enum side side, int base)
{
    int i = g->pair[side][base];
    return i < 0 ? NULL : &g->side[side][i];
}

static bool merge_group(struct work *w, const struct ref *refs, size_t n)
{
    struct group g = {0};
    for (size_t i = 0; i < n; i++) {
        enum side side = refs[i].side;
        if (g.n[side]++ == 0) {
            g.side[side] = &refs[i];
        }
        if (g.n[side] > GROUP_MAX) {
            return catalog_fail(w->err, CATALOG_BAD_SOURCE,
                                "provider '%s' has more than %d claims about '%s' of '%.60s'",
                                refs[i].m->provider, GROUP_MAX, refs[i].m->param,
                                refs[i].m->models);
        }
    }
    pair_side(&g, SHIPPED);
    pair_side(&g, LOCAL);
    bool ok = true;
    for (int b = 0; ok && b < g.n[BASE]; b++) {
        ok = settle(w, &g.side[BASE][b], partner(&g, SHIPPED, b), partner(&g, LOCAL, b));
    }
    for (int i = 0; ok && i < g.n[LOCAL]; i++) {
        ok = g.is_paired[LOCAL][i] || settle_added(w, &g, &g.side[LOCAL][i]);
    }
    return ok;
}

/* ---- writing it down */

static bool push_tail(struct work *w, const char *provider)
{
    const struct content *local = w->m->local;
    for (size_t i = 0; i < local->n_claims; i++) {
        if (w->tail[i] && strcmp(local->claims[i].provider, provider) == 0) {
            w->tail[i] = false;
            if (!content_push(w->m->out, &local->claims[i], w->err)) {
                return false;
            }
        }
    }
    return true;
}

static bool write_claims(struct work *w)
{
    const struct content *shipped = w->m->shipped, *local = w->m->local;
    bool ok = true;
    for (size_t i = 0; ok && i < shipped->n_claims; i++) {
        const struct member *m = &shipped->claims[i];
        bool is_last =
            i + 1 == shipped->n_claims || strcmp(m->provider, shipped->claims[i + 1].provider) != 0;
        if (w->at[i] != DROP) {
            ok = content_push(w->m->out, w->at[i] == KEEP ? m : &local->claims[w->at[i]], w->err);
        }
        ok = ok && (!is_last || push_tail(w, m->provider));
    }
    for (size_t i = 0; ok && i < local->n_claims; i++) {
        ok = !w->tail[i] || push_tail(w, local->claims[i].provider);
    }
    return ok;
}

/* A provider that is shipped no more stays while claims of it hold here. */
static bool is_needed(const struct content *out, const char *provider)
{
    for (size_t i = 0; i < out->n_claims; i++) {
        if (strcmp(out->claims[i].provider, provider) == 0) {
            return true;
        }
    }
    return false;
}

/* One that is shipped: the local object where that was changed here. */
static bool write_shipped_provider(struct work *w, const struct member *s)
{
    const struct merge *m = w->m;
    const struct member *b = content_find_provider(m->base, s->provider);
    const struct member *l = content_find_provider(m->local, s->provider);
    if (!l || (b && member_is_same(b, l)) || member_is_same(s, l)) {
        return content_push_provider(m->out, s, w->err);
    }
    struct db_conflict f = {.since = m->since,
                            .is_provider = true,
                            .base = b ? b->id : 0,
                            .shipped = s->id,
                            .local = l->id};
    return content_push_provider(m->out, l, w->err) &&
           ((b && member_is_same(b, s)) || conflicts_add(m->found, &f, l, w->err));
}

static bool write_providers(struct work *w)
{
    const struct merge *m = w->m;
    bool ok = true;
    for (size_t i = 0; ok && i < m->shipped->n_providers; i++) {
        ok = write_shipped_provider(w, &m->shipped->providers[i]);
    }
    for (size_t i = 0; ok && i < m->local->n_providers; i++) {
        const struct member *l = &m->local->providers[i];
        if (!content_find_provider(m->shipped, l->provider) &&
            (!content_find_provider(m->base, l->provider) || is_needed(m->out, l->provider))) {
            ok = content_push_provider(m->out, l, w->err);
        }
    }
    return ok;
}

/* ---- the whole */

static size_t add_refs(struct ref *refs, size_t n, const struct content *c, enum side side)
{
    for (size_t i = 0; i < c->n_claims; i++) {
        refs[n++] = (struct ref){&c->claims[i], side, i};
    }
    return n;
}

static bool merge_groups(struct work *w)
{
    size_t n = add_refs(w->refs, 0, w->m->base, BASE), end;
    n = add_refs(w->refs, n, w->m->shipped, SHIPPED);
    n = add_refs(w->refs, n, w->m->local, LOCAL);
    qsort(w->refs, n, sizeof *w->refs, compare_refs);
    for (size_t first = 0; first < n; first = end) {
        for (end = first + 1; end < n && member_compare_keys(w->refs[first].m, w->refs[end].m) == 0;
             end++) {
        }
        if (!merge_group(w, w->refs + first, end - first)) {
            return false;
        }
    }
    return true;
}

bool merge_contents(const struct merge *m, struct catalog_error *err)
{
    size_t n_shipped = m->shipped->n_claims, n_local = m->local->n_claims;
    struct work w = {.m = m, .err = err};
    w.refs = calloc(m->base->n_claims + n_shipped + n_local + 1, sizeof *w.refs);
    w.at = calloc(n_shipped + 1, sizeof *w.at);
    w.tail = calloc(n_local + 1, sizeof *w.tail);
    bool ok = (w.refs && w.at && w.tail) || catalog_fail(err, CATALOG_NOMEM, "out of memory");
    for (size_t i = 0; ok && i < n_shipped; i++) {
        w.at[i] = KEEP;
    }
    ok = ok && merge_groups(&w) && write_claims(&w) && write_providers(&w);
    free(w.refs);
    free(w.at);
    free(w.tail);
    return ok;
}

/* ---- conflicts */

static bool is_open_still(const struct open_conflict *c, const struct content *now)
{
    if (c->f.is_provider) {
        const struct member *p = content_find_provider(now, c->key.provider);
        return p && p->id == c->f.local;
    }
    if (c->f.local) {
        return content_find(now, c->f.local) != NULL;
    }
    for (size_t i = 0; i < now->n_claims; i++) {
        if (member_compare_keys(&now->claims[i], &c->key) == 0) {
            return false;
        }
    }
    return true;
}

static bool is_found_again(const struct open_conflicts *found, size_t n,
                           const struct open_conflict *c)
{
    for (size_t i = 0; i < n; i++) {
        const struct open_conflict *f = &found->list[i];
        if (f->f.is_provider == c->f.is_provider &&
            (c->f.is_provider ? strcmp(f->key.provider, c->key.provider) == 0
                              : member_compare_keys(&f->key, &c->key) == 0)) {
            return true;
        }
    }
    return false;
}

bool merge_carry_conflicts(const struct open_conflicts *before, const struct content *now,
                           struct open_conflicts *found, struct catalog_error *err)
{
    size_t n_new = found->n; /* several of one key may be carried */
    for (size_t i = 0; i < before->n; i++) {
        const struct open_conflict *c = &before->list[i];
        if (is_open_still(c, now) && !is_found_again(found, n_new, c) &&
            !conflicts_add(found, &c->f, &c->key, err)) {
            return false;
        }
    }
    return true;
}
