/* regex_dfa.c - sets of nodes become states, each once. Besides the patterns a loop over any text
 * runs along, so that a text that is in none of them has a state too (REGEX_WHOLE).
 *
 * ^ is passed in the first set alone. $ is not passed when the set is made: only when it is asked
 * what the text so far is in, for nothing may follow.
 */
#include "regex.h"
#include "regex_class.h"
#include "room.h"

#include <stdlib.h>
#include <string.h>

enum { WORK_MAX = 30000000 }; /* steps: about 0.2 s */

struct subset {
    uint32_t at, n, hash;
};
struct maker {
    const struct regex_set *s;
    struct regex_dfa *d;
    uint32_t *members; /* nodes of all subsets */
    struct subset *subsets;
    uint32_t *slots; /* state + 1 */
    size_t n_members, members_cap, subsets_cap, slots_cap;
    uint32_t *stamp, *stack, *closed; /* [nodes] */
    uint32_t turn;
    size_t n_closed;
    uint32_t **targets; /* by class: nodes + 1 */
    size_t *n_targets, *targets_cap;
    size_t work, next_cap;
};

/* ---- closures */

/* Adds what is reached from `from` without a byte; nodes + 1. */
static void close_over(struct maker *m, uint32_t from, bool begins, bool ends)
{
    size_t n = 0;
    if (from && m->stamp[from - 1] != m->turn) {
        m->stamp[from - 1] = m->turn;
        m->stack[n++] = from;
    }
    while (n > 0) {
        uint32_t x = m->stack[--n];
        const struct regex_node *node = &m->s->nodes[x - 1];
        uint32_t next[2] = {0, 0};
        m->closed[m->n_closed++] = x;
        m->work++;
        if (node->kind == REGEX_SPLIT) {
            next[0] = node->a;
            next[1] = node->b;
        } else if ((node->kind == REGEX_BEGIN && begins) || (node->kind == REGEX_END && ends)) {
            next[0] = node->a;
        }
        for (int i = 0; i < 2; i++) {
            if (next[i] && m->stamp[next[i] - 1] != m->turn) {
                m->stamp[next[i] - 1] = m->turn;
                m->stack[n++] = next[i];
            }
        }
    }
}

static void begin_closure(struct maker *m)
{
    m->turn++;
    m->n_closed = 0;
}

static uint64_t tags_of(struct maker *m, const uint32_t *members, size_t n, bool begins)
{
    uint64_t tags = 0;
    begin_closure(m);
    for (size_t i = 0; i < n; i++) {
        close_over(m, members[i], begins, true);
    }
    for (size_t i = 0; i < m->n_closed; i++) {
        const struct regex_node *node = &m->s->nodes[m->closed[i] - 1];
        tags |= node->kind == REGEX_ACCEPT ? UINT64_C(1) << node->a : 0;
    }
    return tags;
}

/* ---- states */

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool slots_grow(struct maker *m)
{
    size_t cap = m->slots_cap ? m->slots_cap * 2 : 256;
    uint32_t *slots = calloc(cap, sizeof *slots);
    if (!slots) {
        return false;
    }
    free(m->slots);
    m->slots = slots;
    m->slots_cap = cap;
    for (size_t i = 1; i < m->d->n; i++) {
        size_t k = m->subsets[i].hash & (cap - 1);
        while (slots[k] != 0) {
            k = (k + 1) & (cap - 1);
        }
        slots[k] = (uint32_t)i + 1;
    }
    return true;
}

static bool add_state(struct maker *m, const uint32_t *ids, size_t n, uint32_t hash, uint64_t tags)
{
    struct regex_dfa *d = m->d;
    size_t width = (size_t)d->n_classes;
    if (!room_for(&d->next, &m->next_cap, (d->n + 1) * width, sizeof *d->next) ||
        !room_for(&d->tags, &d->tags_cap, d->n + 1, sizeof *d->tags) ||
        !room_for(&m->subsets, &m->subsets_cap, d->n + 1, sizeof *m->subsets) ||
        !room_for(&m->members, &m->members_cap, m->n_members + n, sizeof *ids)) {
        return false;
    }
    memset(d->next + d->n * width, 0, width * sizeof *d->next);
    d->tags[d->n] = tags;
    if (n > 0) {
        memcpy(m->members + m->n_members, ids, n * sizeof *ids);
    }
    m->subsets[d->n++] = (struct subset){(uint32_t)m->n_members, (uint32_t)n, hash};
    m->n_members += n;
    return m->slots_cap > 2 * d->n || slots_grow(m);
}

/* Only nodes that take a byte, accept or end tell sets apart. */
static size_t essential(struct maker *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_closed; i++) {
        uint8_t kind = m->s->nodes[m->closed[i] - 1].kind;
        if (kind == REGEX_BYTES || kind == REGEX_ACCEPT || kind == REGEX_END) {
            m->closed[n++] = m->closed[i];
        }
    }
    qsort(m->closed, n, sizeof *m->closed, compare_ids);
    return n;
}

/* The state of the closure. */
static bool find_state(struct maker *m, bool begins, uint32_t *state)
{
    size_t n = essential(m);
    uint32_t hash = begins ? 77 : 1;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ m->closed[i]) * 0x9E3779B1u;
        hash ^= hash >> 15;
    }
    size_t k = m->slots_cap ? hash & (m->slots_cap - 1) : 0;
    while (m->slots_cap && m->slots[k] != 0) {
        const struct subset *have = &m->subsets[m->slots[k] - 1];
        if (have->hash == hash && have->n == n &&
            (n == 0 || memcmp(m->members + have->at, m->closed, n * sizeof *m->closed) == 0)) {
            *state = m->slots[k] - 1;
            return true;
        }
        k = (k + 1) & (m->slots_cap - 1);
    }
    uint32_t *ids = malloc((n + 1) * sizeof *ids);
    if (!ids) {
        return false;
    }
    if (n > 0) {
        memcpy(ids, m->closed, n * sizeof *ids);
    }
    uint64_t tags = tags_of(m, ids, n, begins);
    *state = (uint32_t)m->d->n;
    bool ok = add_state(m, ids, n, hash, tags);
    if (ok) {
        k = hash & (m->slots_cap - 1);
        while (m->slots[k] != 0 && m->slots[k] != *state + 1) {
            k = (k + 1) & (m->slots_cap - 1);
        }
        m->slots[k] = *state + 1;
    }
    free(ids);
    return ok;
}

/* ---- transitions */

static bool aim(struct maker *m, int class, uint32_t target)
{
    if (!room_for(&m->targets[class], &m->targets_cap[class], m->n_targets[class] + 1,
                  sizeof target)) {
        return false;
    }
    m->targets[class][m->n_targets[class]++] = target;
    return true;
}

/* An earlier class with the same targets, so the same next state; -1: none. */
static int same_targets(const struct maker *m, int class)
{
    size_t n = m->n_targets[class];
    for (int c = class - 1; c >= 0; c--) {
        if (m->n_targets[c] == n &&
            memcmp(m->targets[c], m->targets[class], n * sizeof(uint32_t)) == 0) {
            return c;
        }
    }
    return -1;
}

static bool expand(struct maker *m, uint32_t state)
{
    struct regex_dfa *d = m->d;
    struct subset s = m->subsets[state];
    memset(m->n_targets, 0, (size_t)d->n_classes * sizeof *m->n_targets);
    for (uint32_t i = 0; i < s.n; i++) {
        const struct regex_node *node = &m->s->nodes[m->members[s.at + i] - 1];
        if (node->kind != REGEX_BYTES) {
            continue;
        }
        for (int c = d->class_of[node->lo]; c <= d->class_of[node->hi]; c++) {
            if (!aim(m, c, node->a)) {
                return false;
            }
        }
    }
    for (int c = 0; c < d->n_classes; c++) {
        size_t row = (size_t)state * (size_t)d->n_classes;
        uint32_t next = 0;
        if (m->n_targets[c] == 0) {
            continue;
        }
        int same = same_targets(m, c);
        if (same >= 0) {
            d->next[row + (size_t)c] = d->next[row + (size_t)same];
            continue;
        }
        begin_closure(m);
        for (size_t i = 0; i < m->n_targets[c]; i++) {
            close_over(m, m->targets[c][i], false, false);
        }
        if (!find_state(m, false, &next)) {
            return false;
        }
        d->next[row + (size_t)c] = next; /* the table may have moved */
    }
    return true;
}

static void find_classes(const struct regex_set *s, struct regex_dfa *d)
{
    bool begins[257] = {true};
    for (size_t i = 0; i < s->n; i++) {
        if (s->nodes[i].kind == REGEX_BYTES) {
            begins[s->nodes[i].lo] = true;
            begins[s->nodes[i].hi + 1] = true;
        }
    }
    int class = -1;
    for (int b = 0; b < 256; b++) {
        class += begins[b];
        d->class_of[b] = (uint8_t) class;
    }
    d->n_classes = class + 1;
}

static bool maker_init(struct maker *m, const struct regex_set *s, struct regex_dfa *d)
{
    size_t n_classes = (size_t)d->n_classes;
    *m = (struct maker){.s = s, .d = d};
    m->stamp = calloc(s->n, sizeof *m->stamp);
    m->stack = malloc(s->n * sizeof *m->stack);
    m->closed = malloc(s->n * sizeof *m->closed);
    m->targets = calloc(n_classes, sizeof *m->targets);
    m->n_targets = calloc(n_classes, sizeof *m->n_targets);
    m->targets_cap = calloc(n_classes, sizeof *m->targets_cap);
    return m->stamp && m->stack && m->closed && m->targets && m->n_targets && m->targets_cap;
}

static void maker_release(struct maker *m)
{
    for (int c = 0; m->targets && c < m->d->n_classes; c++) {
        free(m->targets[c]);
    }
    free(m->targets);
    free(m->n_targets);
    free(m->targets_cap);
    free(m->stamp);
    free(m->stack);
    free(m->closed);
    free(m->members);
    free(m->subsets);
    free(m->slots);
}

static bool run(struct maker *m, struct engine_error *err)
{
    uint32_t start;
    bool ok = add_state(m, NULL, 0, 0, 0); /* dead */
    begin_closure(m);
    for (size_t i = 0; ok && i < m->s->n_starts; i++) {
        close_over(m, m->s->starts[i], true, false);
    }
    ok = ok && find_state(m, true, &start);
    for (uint32_t i = 1; ok && i < m->d->n; i++) {
        ok = expand(m, i);
        if (ok && (m->d->n > REGEX_STATES_MAX || m->work > WORK_MAX)) {
            return engine_fail(err, ENGINE_BAD_PARAM, "",
                               "its automaton has more than %d states: write a simpler pattern",
                               (int)REGEX_STATES_MAX);
        }
    }
    m->d->work = m->work;
    return ok || engine_fail(err, ENGINE_NOMEM, "", "out of memory for a pattern");
}

bool regex_dfa_init(struct regex_dfa *d, const struct regex_set *s, struct engine_error *err)
{
    struct maker m;
    struct regex_set all = {.n = 0}; /* the set and the loop over any text */
    *d = (struct regex_dfa){.n = 0};
    if (!regex_add(&all, "", 0, 63, err)) {
        regex_set_release(&all);
        return false;
    }
    size_t shift = all.n;
    bool ok = room_for(&all.nodes, &all.cap, all.n + s->n, sizeof *all.nodes) &&
              room_for(&all.starts, &all.starts_cap, 1 + s->n_starts, sizeof *all.starts);
    for (size_t i = 0; ok && i < s->n; i++) {
        struct regex_node x = s->nodes[i];
        if (x.kind != REGEX_ACCEPT) {
            x.a += x.a ? (uint32_t)shift : 0;
            x.b += x.b ? (uint32_t)shift : 0;
        }
        all.nodes[all.n++] = x;
    }
    for (size_t i = 0; ok && i < s->n_starts; i++) {
        all.starts[all.n_starts++] = s->starts[i] + (uint32_t)shift;
    }
    if (!ok) {
        regex_set_release(&all);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a pattern");
    }
    find_classes(&all, d);
    ok = maker_init(&m, &all, d);
    ok = ok ? run(&m, err) : engine_fail(err, ENGINE_NOMEM, "", "out of memory for a pattern");
    maker_release(&m);
    regex_set_release(&all);
    if (!ok) {
        regex_dfa_release(d);
    }
    return ok;
}

void regex_dfa_release(struct regex_dfa *d)
{
    if (d) {
        free(d->next);
        free(d->tags);
        *d = (struct regex_dfa){.n = 0};
    }
}

uint64_t regex_tags(const struct regex_dfa *d, const char *text, size_t len)
{
    uint32_t state = 1;
    for (size_t i = 0; i < len; i++) {
        state = regex_next(d, state, (uint8_t)text[i]);
    }
    return d->tags[state];
}

bool *regex_alive(const struct regex_dfa *d, uint64_t care, uint64_t want)
{
    bool *alive = calloc(d->n, sizeof *alive);
    if (!alive) {
        return NULL;
    }
    for (size_t i = 1; i < d->n; i++) {
        alive[i] = (d->tags[i] & care) == want;
    }
    /* states are numbered in the order in which they are reached, so few rounds do */
    for (bool is_new = true; is_new;) {
        is_new = false;
        for (size_t i = d->n; i-- > 1;) {
            for (int c = 0; !alive[i] && c < d->n_classes; c++) {
                alive[i] = alive[d->next[i * (size_t)d->n_classes + (size_t)c]];
                is_new = is_new || alive[i];
            }
        }
    }
    return alive;
}
