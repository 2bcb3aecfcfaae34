/* pushdown.c - sets of places, each kept once.
 *
 * A place is a node, how much its rule has counted, and a stack. A stack is a set of places too:
 * those that the rule's end leads to, each with its own stack. So states and stacks are kept in the
 * same kind of table. Two marks end stacks: DONE (the text is whole) and UNKNOWN (cut off); popped,
 * they become places without edges.
 *
 * Of a state only places with byte edges, and marks, are kept: the rest was followed when it was
 * made. Rules that are called are entered when no other place is left to follow, so that all their
 * callers are known; a caller that is found later makes a second stack, which is as right.
 */
#include "pushdown.h"
#include "room.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLACES_MAX = 1 << 16, /* of one state */
    STATES_MAX = 1 << 20, /* between two resets */
    CUT_STACKS_MAX = 256, /* different stacks of one state that are cut */
    NODE_DONE = -1,       /* as uint32_t: the marks */
    NODE_UNKNOWN = -2
};

struct place {
    uint32_t node, count, stack;
};

/* Sets of places, each once; `at` and `n` say where its places lie. */
struct set {
    uint32_t at, n, hash;
    bool is_done, is_unknown; /* it has the mark */
};
struct sets {
    struct place *places;
    struct set *sets;
    uint32_t *slots; /* set + 1, 0: empty; a power of two */
    size_t n_places, n, places_cap, sets_cap, slots_cap;
};

struct call {
    uint32_t rule;
    struct place back;
};

struct pushdown {
    const struct grammar *g;
    struct sets states, stacks;
    uint32_t **rows; /* [rows_cap] of each state, by class of byte; NULL: not made yet */
    size_t rows_cap, n_rows;
    uint32_t done, unknown; /* stacks */
    /* while a state is made */
    struct place *found; /* places that were reached; the first n_followed were followed */
    size_t n_found, n_followed, found_cap;
    uint64_t *seen; /* turn, place in found; of an earlier turn: empty; a power of two */
    size_t seen_cap;
    uint32_t turn;
    struct place *kept;
    size_t n_kept, kept_cap;
    struct call *calls;
    size_t n_calls, calls_cap;
};

/* ---- sets */

static uint32_t mix(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9E3779B1u;
    return h ^ (h >> 15);
}

static uint32_t hash_place(const struct place *p)
{
    return mix(mix(mix(0x811C9DC5u, p->node), p->count), p->stack);
}

static int compare_places(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct place)); /* any fixed order will do */
}

/* Sorted, each once. */
static size_t sort_places(struct place *p, size_t n)
{
    size_t kept = 0;
    if (n > 1) {
        qsort(p, n, sizeof *p, compare_places);
    }
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || compare_places(&p[kept - 1], &p[i]) != 0) {
            p[kept++] = p[i];
        }
    }
    return kept;
}

static void sets_release(struct sets *s)
{
    free(s->places);
    free(s->sets);
    free(s->slots);
    *s = (struct sets){.n = 0};
}

static void slot_put(struct sets *s, uint32_t id)
{
    size_t i = s->sets[id].hash & (s->slots_cap - 1);
    while (s->slots[i] != 0) {
        i = (i + 1) & (s->slots_cap - 1);
    }
    s->slots[i] = id + 1;
}

static bool slots_grow(struct sets *s)
{
    size_t cap = s->slots_cap ? s->slots_cap * 2 : 64;
    uint32_t *slots = calloc(cap, sizeof *slots);
    if (!slots) {
        return false;
    }
    free(s->slots);
    s->slots = slots;
    s->slots_cap = cap;
    for (uint32_t i = 0; i < s->n; i++) {
        slot_put(s, i);
    }
    return true;
}

static bool set_add(struct sets *s, const struct place *p, size_t n, uint32_t hash, uint32_t *id)
{
    if (s->n >= STATES_MAX || s->n_places + n > UINT32_MAX ||
        (s->slots_cap < 2 * (s->n + 1) && !slots_grow(s)) ||
        !room_for(&s->places, &s->places_cap, s->n_places + n, sizeof *p) ||
        !room_for(&s->sets, &s->sets_cap, s->n + 1, sizeof *s->sets)) {
        return false;
    }
    if (n > 0) {
        memcpy(s->places + s->n_places, p, n * sizeof *p);
    }
    struct set *set = &s->sets[s->n];
    *set = (struct set){.at = (uint32_t)s->n_places, .n = (uint32_t)n, .hash = hash};
    for (size_t i = 0; i < n; i++) {
        set->is_done = set->is_done || p[i].node == (uint32_t)NODE_DONE;
        set->is_unknown = set->is_unknown || p[i].node == (uint32_t)NODE_UNKNOWN;
    }
    s->n_places += n;
    *id = (uint32_t)s->n++;
    slot_put(s, *id);
    return true;
}

/* p: sorted. */
static bool sets_find(struct sets *s, const struct place *p, size_t n, uint32_t *id)
{
    uint32_t hash = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        hash = mix(hash, hash_place(&p[i]));
    }
    size_t slot = s->slots_cap ? hash & (s->slots_cap - 1) : 0;
    while (s->slots_cap && s->slots[slot] != 0) {
        const struct set *have = &s->sets[s->slots[slot] - 1];
        if (have->hash == hash && have->n == n &&
            (n == 0 || memcmp(s->places + have->at, p, n * sizeof *p) == 0)) {
            *id = s->slots[slot] - 1;
            return true;
        }
        slot = (slot + 1) & (s->slots_cap - 1);
    }
    return set_add(s, p, n, hash, id);
}

/* ---- making a state: places are reached, followed, kept */

static void begin(struct pushdown *p)
{
    p->n_found = p->n_followed = p->n_kept = p->n_calls = 0;
    if (++p->turn == 0) {
        p->turn = 1;
        memset(p->seen, 0, p->seen_cap * sizeof *p->seen);
    }
}

static bool is_seen(const struct pushdown *p, size_t slot)
{
    return p->seen[slot] >> 32 == p->turn;
}

static void seen_put(struct pushdown *p, size_t at)
{
    size_t i = hash_place(&p->found[at]) & (p->seen_cap - 1);
    while (is_seen(p, i)) {
        i = (i + 1) & (p->seen_cap - 1);
    }
    p->seen[i] = (uint64_t)p->turn << 32 | at;
}

static bool seen_grow(struct pushdown *p)
{
    size_t cap = p->seen_cap ? p->seen_cap * 2 : 16;
    uint64_t *seen = calloc(cap, sizeof *seen);
    if (!seen) {
        return false;
    }
    free(p->seen);
    p->seen = seen;
    p->seen_cap = cap;
    for (size_t i = 0; i < p->n_found; i++) {
        seen_put(p, i);
    }
    return true;
}

static bool reach(struct pushdown *p, struct place x)
{
    size_t i = p->seen_cap ? hash_place(&x) & (p->seen_cap - 1) : 0;
    while (p->seen_cap && is_seen(p, i)) {
        if (memcmp(&p->found[(uint32_t)p->seen[i]], &x, sizeof x) == 0) {
            return true;
        }
        i = (i + 1) & (p->seen_cap - 1);
    }
    if (p->n_found >= PLACES_MAX || (p->seen_cap < 2 * (p->n_found + 1) && !seen_grow(p)) ||
        !room_for(&p->found, &p->found_cap, p->n_found + 1, sizeof x)) {
        return false;
    }
    p->found[p->n_found++] = x;
    seen_put(p, p->n_found - 1);
    return true;
}

static bool keep(struct pushdown *p, struct place x)
{
    if (!room_for(&p->kept, &p->kept_cap, p->n_kept + 1, sizeof x)) {
        return false;
    }
    p->kept[p->n_kept++] = x;
    return true;
}

/* The end of a rule: on with those that wait for it. */
static bool pop(struct pushdown *p, uint32_t stack)
{
    struct set s = p->stacks.sets[stack];
    for (uint32_t i = 0; i < s.n; i++) {
        if (!reach(p, p->stacks.places[s.at + i])) {
            return false;
        }
    }
    return true;
}

/* Counting beyond min means nothing where there is no max. */
static uint32_t count_up(const struct grammar_rule *r, uint32_t count)
{
    return r->max == GRAMMAR_UNBOUNDED && count >= r->min ? count : count + 1;
}

static bool follow_edge(struct pushdown *p, const struct place *x, const struct grammar_edge *e)
{
    const struct grammar *g = p->g;
    const struct grammar_rule *own = &g->rules[g->nodes[x->node].rule];
    switch ((enum grammar_kind)e->kind) {
    case GRAMMAR_BYTE:
        return true;
    case GRAMMAR_NOTHING:
        return reach(p, (struct place){e->to, x->count, x->stack});
    case GRAMMAR_JUMP:
        return reach(p, (struct place){g->rules[e->rule].start, 0, x->stack});
    case GRAMMAR_COUNT:
        return x->count >= own->max ||
               reach(p, (struct place){e->to, count_up(own, x->count), x->stack});
    case GRAMMAR_ENOUGH:
        return x->count < own->min || reach(p, (struct place){e->to, x->count, x->stack});
    case GRAMMAR_CALL:
        break;
    }
    if (!room_for(&p->calls, &p->calls_cap, p->n_calls + 1, sizeof *p->calls)) {
        return false;
    }
    p->calls[p->n_calls++] = (struct call){e->rule, {e->to, x->count, x->stack}};
    return true;
}

static bool follow(struct pushdown *p, struct place x)
{
    const struct grammar *g = p->g;
    if (x.node >= (uint32_t)NODE_UNKNOWN) {
        return keep(p, x);
    }
    if (g->rules[g->nodes[x.node].rule].end == x.node) {
        return pop(p, x.stack);
    }
    bool has_bytes = false;
    for (uint32_t i = g->nodes[x.node].at; i < g->nodes[x.node + 1].at; i++) {
        has_bytes = has_bytes || g->edges[i].kind == GRAMMAR_BYTE;
        if (!follow_edge(p, &x, &g->edges[i])) {
            return false;
        }
    }
    return !has_bytes || keep(p, x);
}

static int compare_calls(const void *a, const void *b)
{
    const struct call *x = a, *y = b;
    return (x->rule > y->rule) - (x->rule < y->rule);
}

/* Enters each rule that was called, once, with all its callers on the stack. */
static bool enter_calls(struct pushdown *p)
{
    size_t n = p->n_calls;
    if (n > 1) {
        qsort(p->calls, n, sizeof *p->calls, compare_calls);
    }
    for (size_t i = 0; i < n;) {
        uint32_t rule = p->calls[i].rule, stack;
        size_t n_kept = p->n_kept; /* what is kept ends here: scratch begins */
        for (; i < n && p->calls[i].rule == rule; i++) {
            if (!keep(p, p->calls[i].back)) {
                return false;
            }
        }
        size_t n_back = sort_places(p->kept + n_kept, p->n_kept - n_kept);
        p->n_kept = n_kept;
        if (!sets_find(&p->stacks, p->kept + n_kept, n_back, &stack) ||
            !reach(p, (struct place){p->g->rules[rule].start, 0, stack})) {
            return false;
        }
    }
    p->n_calls = 0;
    return true;
}

/* Follows all that was reached; then `kept` is the state. */
static bool complete(struct pushdown *p)
{
    while (p->n_followed < p->n_found || p->n_calls > 0) {
        bool ok =
            p->n_followed < p->n_found ? follow(p, p->found[p->n_followed++]) : enter_calls(p);
        if (!ok) {
            return false;
        }
    }
    p->n_kept = sort_places(p->kept, p->n_kept);
    return true;
}

/* Reaches what a byte leads to from a place. */
static bool take_byte(struct pushdown *p, struct place x, uint8_t byte)
{
    const struct grammar *g = p->g;
    if (x.node >= (uint32_t)NODE_UNKNOWN) {
        return true;
    }
    for (uint32_t i = g->nodes[x.node].at; i < g->nodes[x.node + 1].at; i++) {
        const struct grammar_edge *e = &g->edges[i];
        if (e->kind == GRAMMAR_BYTE && byte >= e->lo && byte <= e->hi &&
            !reach(p, (struct place){e->to, x.count, x.stack})) {
            return false;
        }
    }
    return true;
}

static uint32_t number_kept(struct pushdown *p)
{
    uint32_t id;
    return sets_find(&p->states, p->kept, p->n_kept, &id) ? id : (uint32_t)PUSHDOWN_FAILED;
}

/* ---- making one */

static bool make_marks(struct pushdown *p)
{
    struct place none = {0, 0, 0}, done = {(uint32_t)NODE_DONE, 0, 0},
                 unknown = {(uint32_t)NODE_UNKNOWN, 0, 0};
    uint32_t failed, dead;
    bool ok = sets_find(&p->stacks, &done, 1, &p->done) &&
              sets_find(&p->stacks, &unknown, 1, &p->unknown) &&
              /* no state is a place at node 0 that counted to the limit */
              (none.count = GRAMMAR_UNBOUNDED, sets_find(&p->states, &none, 1, &failed)) &&
              sets_find(&p->states, NULL, 0, &dead);
    assert(!ok || (failed == PUSHDOWN_FAILED && dead == PUSHDOWN_DEAD));
    return ok;
}

bool pushdown_new(struct pushdown **out, const struct grammar *g, struct engine_error *err)
{
    struct pushdown *p = calloc(1, sizeof *p);
    if (p) {
        p->g = g;
    }
    if (!p || !make_marks(p)) {
        pushdown_free(p);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for an automaton");
    }
    *out = p;
    return true;
}

static void forget(struct pushdown *p)
{
    for (size_t i = 0; i < p->rows_cap; i++) {
        free(p->rows[i]);
    }
    free(p->rows);
    p->rows = NULL;
    p->rows_cap = p->n_rows = 0;
    sets_release(&p->states);
    sets_release(&p->stacks);
}

void pushdown_free(struct pushdown *p)
{
    if (p) {
        forget(p);
        free(p->found);
        free(p->seen);
        free(p->kept);
        free(p->calls);
        free(p);
    }
}

void pushdown_reset(struct pushdown *p)
{
    forget(p);
    if (!make_marks(p)) {
        forget(p); /* every call fails from now on: see row_of() and pushdown_replay() */
    }
}

/* ---- reading */

uint32_t pushdown_replay(struct pushdown *p, const char *bytes, size_t n)
{
    if (p->states.n == 0) {
        return PUSHDOWN_FAILED;
    }
    struct place start = {p->g->rules[p->g->root].start, 0, p->done};
    begin(p);
    if (!reach(p, start) || !complete(p)) {
        return PUSHDOWN_FAILED;
    }
    struct place *now = NULL;
    size_t cap = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        size_t n_now = p->n_kept;
        ok = room_for(&now, &cap, n_now, sizeof *now);
        if (ok && n_now > 0) {
            memcpy(now, p->kept, n_now * sizeof *now);
        }
        begin(p);
        for (size_t k = 0; ok && k < n_now; k++) {
            ok = take_byte(p, now[k], (uint8_t)bytes[i]);
        }
        ok = ok && complete(p);
    }
    free(now);
    return ok ? number_kept(p) : (uint32_t)PUSHDOWN_FAILED;
}

/* The row of a state, made if need be; NULL: out of memory. */
static uint32_t *make_row(struct pushdown *p, uint32_t state)
{
    if (state >= p->rows_cap) {
        size_t had = p->rows_cap;
        if (!room_for(&p->rows, &p->rows_cap, p->states.n, sizeof(uint32_t *))) {
            return NULL;
        }
        memset(p->rows + had, 0, (p->rows_cap - had) * sizeof *p->rows);
    }
    if (!p->rows[state]) {
        p->rows[state] = calloc((size_t)p->g->n_classes, sizeof **p->rows);
        p->n_rows++;
    }
    return p->rows[state];
}

static uint32_t *row_of(struct pushdown *p, uint32_t state)
{
    assert(state != PUSHDOWN_FAILED && state < p->states.n);
    return state < p->rows_cap && p->rows[state] ? p->rows[state] : make_row(p, state);
}

const uint32_t *pushdown_row(struct pushdown *p, uint32_t state)
{
    return row_of(p, state);
}

static uint32_t make_next(struct pushdown *p, uint32_t state, uint8_t byte)
{
    struct set s = p->states.sets[state];
    begin(p);
    for (uint32_t i = 0; i < s.n; i++) {
        if (!take_byte(p, p->states.places[s.at + i], byte)) {
            return PUSHDOWN_FAILED;
        }
    }
    return complete(p) ? number_kept(p) : (uint32_t)PUSHDOWN_FAILED;
}

uint32_t pushdown_next(struct pushdown *p, uint32_t state, uint8_t byte)
{
    uint32_t *row = row_of(p, state);
    if (!row) {
        return PUSHDOWN_FAILED;
    }
    uint32_t *next = &row[p->g->class_of[byte]];
    if (*next == PUSHDOWN_FAILED) {
        *next = make_next(p, state, byte);
    }
    return *next;
}

bool pushdown_is_complete(const struct pushdown *p, uint32_t state)
{
    return p->states.sets[state].is_done;
}

bool pushdown_is_unknown(const struct pushdown *p, uint32_t state)
{
    return p->states.sets[state].is_unknown;
}

bool pushdown_is_final(const struct pushdown *p, uint32_t state)
{
    return p->states.sets[state].n == 1 && pushdown_is_complete(p, state);
}

size_t pushdown_width(const struct pushdown *p, uint32_t state)
{
    return p->states.sets[state].n;
}

/* ---- cutting */

/* Stacks that were cut before, by depth. */
struct cut {
    struct pushdown *p;
    uint32_t n_bytes;
    size_t n;
    struct {
        uint32_t stack, cut;
        int depth;
    } memory[CUT_STACKS_MAX];
};

/* The least count that a reader of n_bytes cannot tell from this one. */
static uint32_t cut_count(const struct cut *c, const struct place *x)
{
    const struct grammar *g = c->p->g;
    if (x->node >= (uint32_t)NODE_UNKNOWN) {
        return x->count;
    }
    const struct grammar_rule *r = &g->rules[g->nodes[x->node].rule];
    uint64_t reach_to = (uint64_t)x->count + c->n_bytes + 1;
    bool is_bounded = r->max != GRAMMAR_UNBOUNDED && reach_to > r->max;
    if (is_bounded) {
        return x->count;
    }
    return x->count >= r->min ? r->min : reach_to <= r->min ? 0 : x->count;
}

static bool cut_stack(struct cut *c, uint32_t stack, int depth, uint32_t *out);

/* Places, cut, in their order; yours. n is not 0. */
static struct place *cut_places(struct cut *c, const struct sets *in, struct set s, int depth,
                                size_t *n)
{
    struct place *cut = malloc(s.n * sizeof *cut);
    for (uint32_t i = 0; cut && i < s.n; i++) {
        struct place x = in->places[s.at + i];
        cut[i] = (struct place){x.node, cut_count(c, &x), x.stack};
        if (x.node < (uint32_t)NODE_UNKNOWN && !cut_stack(c, x.stack, depth, &cut[i].stack)) {
            free(cut);
            return NULL;
        }
    }
    *n = cut ? sort_places(cut, s.n) : 0;
    return cut;
}

/* As deep as `depth`, which is small. */
static bool cut_stack(struct cut *c, uint32_t stack, int depth, uint32_t *out)
{
    if (depth == 0 || stack == c->p->done || stack == c->p->unknown) {
        *out = depth == 0 ? c->p->unknown : stack;
        return true;
    }
    for (size_t i = 0; i < c->n; i++) {
        if (c->memory[i].stack == stack && c->memory[i].depth == depth) {
            *out = c->memory[i].cut;
            return true;
        }
    }
    size_t n;
    struct place *places =
        c->n < CUT_STACKS_MAX
            ? cut_places(c, &c->p->stacks, c->p->stacks.sets[stack], depth - 1, &n)
            : NULL;
    bool ok = places && sets_find(&c->p->stacks, places, n, out) && c->n < CUT_STACKS_MAX;
    if (ok) {
        c->memory[c->n].stack = stack;
        c->memory[c->n].depth = depth;
        c->memory[c->n++].cut = *out;
    }
    free(places);
    return ok;
}

uint32_t pushdown_cut(struct pushdown *p, uint32_t state, int depth, uint32_t n_bytes)
{
    struct cut c = {.p = p, .n_bytes = n_bytes};
    struct set s = p->states.sets[state];
    size_t n;
    uint32_t id = state;
    if (s.n == 0) {
        return state;
    }
    struct place *places = cut_places(&c, &p->states, s, depth, &n);
    if (!places || !sets_find(&p->states, places, n, &id)) {
        id = state;
    }
    free(places);
    return id;
}

/* ---- memory */

size_t pushdown_n_states(const struct pushdown *p)
{
    return p->states.n;
}

static size_t sets_bytes(const struct sets *s)
{
    return s->places_cap * sizeof *s->places + s->sets_cap * sizeof *s->sets +
           s->slots_cap * sizeof *s->slots;
}

size_t pushdown_bytes(const struct pushdown *p)
{
    return sets_bytes(&p->states) + sets_bytes(&p->stacks) +
           p->n_rows * (size_t)p->g->n_classes * sizeof(uint32_t) + p->rows_cap * sizeof *p->rows;
}
