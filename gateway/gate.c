/* gate.c - see gate.h. One lock for all providers: what is done under it is a handful of
 * instructions, and a request takes it twice.
 *
 * A place that becomes free is handed to the first who waits, not offered to all: so nobody
 * overtakes, and the number in flight does not change. While the breaker is not closed nobody
 * waits: who asks for a try and finds the places taken by requests that hang is told that it is
 * full.
 */
#include "gate.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gate_lane {
    struct gate_lane *next;
    char name[65];
    struct config_calls limits;
    enum gate_state state;
    bool has_trial;
    unsigned in_flight, waiting;
    unsigned failures;         /* in a row */
    int64_t open_ms, until_ms; /* of the last time that it opened */
    struct gate_ticket *first, *last;
};

struct gate {
    pthread_mutex_t lock;
    struct gate_lane *lanes;
};

bool gate_new(struct gate **out)
{
    struct gate *g = calloc(1, sizeof *g);
    if (!g || pthread_mutex_init(&g->lock, NULL) != 0) {
        free(g);
        return false;
    }
    *out = g;
    return true;
}

void gate_free(struct gate *g)
{
    if (!g) {
        return;
    }
    for (struct gate_lane *l = g->lanes; l;) {
        struct gate_lane *next = l->next;
        assert(l->in_flight == 0 && l->waiting == 0 && !l->has_trial);
        free(l);
        l = next;
    }
    (void)pthread_mutex_destroy(&g->lock);
    free(g);
}

const char *gate_state_name(enum gate_state s)
{
    static const char *const names[] = {"closed", "open", "half_open"};
    return names[s];
}

/* ---- lanes; the lock is held from here on */

/* In the order in which they were met, for whoever reads the list. */
static struct gate_lane *find_or_add(struct gate *g, const char *name,
                                     const struct config_calls *limits)
{
    struct gate_lane **at = &g->lanes;
    while (*at && strcmp((*at)->name, name) != 0) {
        at = &(*at)->next;
    }
    if (!*at && (*at = calloc(1, sizeof **at))) {
        (void)snprintf((*at)->name, sizeof(*at)->name, "%s", name);
        (*at)->limits = *limits;
    }
    return *at;
}

static bool is_full(const struct gate_lane *l)
{
    return l->limits.in_flight_max > 0 && l->in_flight >= l->limits.in_flight_max;
}

static void enqueue(struct gate_lane *l, struct gate_ticket *t)
{
    t->prev = l->last;
    *(l->last ? &l->last->next : &l->first) = t;
    l->last = t;
    l->waiting++;
}

static void dequeue(struct gate_lane *l, struct gate_ticket *t)
{
    *(t->prev ? &t->prev->next : &l->first) = t->next;
    *(t->next ? &t->next->prev : &l->last) = t->prev;
    t->prev = t->next = NULL;
    l->waiting--;
}

static void call(struct gate_lane *l, struct gate_ticket *t, enum gate_word word)
{
    dequeue(l, t);
    t->word = word;
    t->is_called = true;
    if (word == GATE_SHUT) {
        t->lane = NULL;
    } else {
        l->in_flight++;
    }
    t->wake(t->ud);
}

static void let_in(struct gate_lane *l)
{
    while (l->first && !is_full(l)) {
        call(l, l->first, GATE_IN);
    }
}

/* ---- the breaker */

static void change_to(struct gate_lane *l, enum gate_state to, struct gate_change *change)
{
    l->state = to;
    *change = (struct gate_change){
        .is_change = true, .to = to, .failures = l->failures, .open_ms = l->open_ms};
}

static void open_for(struct gate_lane *l, int64_t ms, int64_t now_ms, struct gate_change *change)
{
    l->open_ms = ms > GATE_OPEN_MS_MAX ? GATE_OPEN_MS_MAX : ms;
    l->until_ms = now_ms + l->open_ms;
    change_to(l, GATE_OPEN, change);
    while (l->first) {
        call(l, l->first, GATE_SHUT);
    }
}

static void close_again(struct gate_lane *l, struct gate_change *change)
{
    l->failures = 0;
    l->open_ms = 0;
    change_to(l, GATE_CLOSED, change);
}

static void judge(struct gate_lane *l, bool is_trial, enum gate_outcome o, int64_t now_ms,
                  struct gate_change *change)
{
    bool decides = is_trial && l->state == GATE_HALF_OPEN; /* not when it was switched off */
    if (is_trial) {
        l->has_trial = false;
    }
    if (o == GATE_UNKNOWN || (l->state != GATE_CLOSED && !decides)) {
        return; /* half open without a trial: the next one is it */
    }
    l->failures = o == GATE_WELL ? 0 : l->failures + 1;
    if (decides && o == GATE_WELL) {
        close_again(l, change);
    } else if (decides) {
        open_for(l, l->open_ms * 2, now_ms, change);
    } else if (l->limits.breaker_failures > 0 && l->failures >= l->limits.breaker_failures) {
        open_for(l, l->limits.breaker_ms, now_ms, change);
    }
}

/* The breaker is not closed. */
static enum gate_word try_one(struct gate_lane *l, int64_t now_ms, struct gate_ticket *t,
                              int64_t *retry_ms, struct gate_change *change)
{
    if (now_ms < l->until_ms || l->has_trial) {
        *retry_ms = now_ms < l->until_ms ? l->until_ms - now_ms : 1;
        return GATE_SHUT;
    }
    if (is_full(l)) {
        return GATE_FULL;
    }
    if (l->state == GATE_OPEN) {
        change_to(l, GATE_HALF_OPEN, change);
    }
    l->has_trial = t->is_trial = true;
    return GATE_IN;
}

/* ---- from outside */

enum gate_word gate_enter(struct gate *g, const char *provider, bool may_wait, int64_t now_ms,
                          struct gate_ticket *t, int64_t *retry_ms, struct gate_change *change)
{
    static const struct config none = {.n_providers = 0};
    enum gate_word word = GATE_IN;
    assert(!t->lane);
    *change = (struct gate_change){.is_change = false};
    *retry_ms = 0;
    (void)pthread_mutex_lock(&g->lock);
    struct gate_lane *l = find_or_add(g, provider, config_calls_of(&none, NULL));
    t->is_trial = t->is_called = false;
    if (!l) {
        word = GATE_FULL; /* out of memory */
    } else if (l->state != GATE_CLOSED) {
        word = try_one(l, now_ms, t, retry_ms, change);
    } else if (is_full(l) || l->first) {
        word = may_wait ? GATE_WAIT : GATE_FULL;
    }
    if (word == GATE_IN) {
        l->in_flight++;
    } else if (word == GATE_WAIT) {
        enqueue(l, t);
    }
    t->lane = word == GATE_IN || word == GATE_WAIT ? l : NULL;
    t->word = word;
    (void)pthread_mutex_unlock(&g->lock);
    return word;
}

bool gate_leave(struct gate *g, struct gate_ticket *t, enum gate_outcome o, int64_t now_ms,
                struct gate_change *change)
{
    *change = (struct gate_change){.is_change = false};
    (void)pthread_mutex_lock(&g->lock);
    struct gate_lane *l = t->lane;
    if (l && t->word == GATE_WAIT) {
        dequeue(l, t);
    } else if (l) {
        assert(l->in_flight > 0);
        l->in_flight--;
        judge(l, t->is_trial, o, now_ms, change);
        let_in(l);
    }
    t->lane = NULL;
    t->is_trial = false;
    bool was_called = t->is_called;
    t->is_called = false;
    (void)pthread_mutex_unlock(&g->lock);
    return was_called;
}

bool gate_configure(struct gate *g, const struct config *c)
{
    bool ok = true;
    (void)pthread_mutex_lock(&g->lock);
    for (unsigned i = 0; i < c->n_providers; i++) {
        ok = find_or_add(g, c->providers[i].name, &c->providers[i].calls) && ok;
    }
    for (struct gate_lane *l = g->lanes; l; l = l->next) {
        l->limits = *config_calls_of(c, l->name);
        if (l->limits.breaker_failures == 0) { /* switched off */
            l->state = GATE_CLOSED;
            l->failures = 0;
        }
        let_in(l);
    }
    (void)pthread_mutex_unlock(&g->lock);
    return ok;
}

size_t gate_list(struct gate *g, struct gate_status *out, size_t cap)
{
    size_t n = 0;
    (void)pthread_mutex_lock(&g->lock);
    for (const struct gate_lane *l = g->lanes; l && n < cap; l = l->next, n++) {
        out[n] = (struct gate_status){.state = l->state,
                                      .in_flight = l->in_flight,
                                      .waiting = l->waiting,
                                      .failures = l->failures};
        memcpy(out[n].name, l->name, sizeof out[n].name);
    }
    (void)pthread_mutex_unlock(&g->lock);
    return n;
}
