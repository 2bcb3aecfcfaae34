/* unigram.c - the tokens are a trie whose edges stand in one hash table by (node, byte). steps[i]
 * holds the best way to reach byte i; no way goes on from inside a character. A long text is done
 * in windows that end where no token goes over, so that memory does not grow with it.
 */
#include "unigram.h"

#include "codepoint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* CHAR_MAX_BYTES: of a character; WINDOW: see unigram_run(). */
enum { SLOTS_MIN = 1024, NODES_MIN = 512, UNKNOWN_PENALTY = 10, CHAR_MAX_BYTES = 4, WINDOW = 8192 };

struct unigram_step {
    double score;
    uint32_t from;
    int32_t id; /* -1: unknown, -2: not reached */
};

void unigram_release(struct unigram *u)
{
    if (u) {
        free(u->slots);
        free(u->ids);
        free(u->scores);
        *u = (struct unigram){0};
    }
}

void unigram_work_release(struct unigram_work *w)
{
    if (w) {
        free(w->pieces);
        free(w->steps);
        *w = (struct unigram_work){0};
    }
}

/* The slot of this edge or the empty one where it belongs. Half are empty, so one is found. */
static struct unigram_slot *find_slot(struct unigram_slot *slots, size_t cap, uint64_t key)
{
    uint64_t h = key * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h ^ h >> 32) & (cap - 1);
    while (slots[i].key != key && slots[i].key != 0) {
        i = (i + 1) & (cap - 1);
    }
    return &slots[i];
}

static uint64_t edge_key(uint32_t node, char c)
{
    return (uint64_t)node * 256 + (unsigned char)c + 1;
}

static bool grow_slots(struct unigram *u)
{
    size_t cap = u->slots_cap ? 2 * u->slots_cap : SLOTS_MIN;
    struct unigram_slot *slots = calloc(cap, sizeof *slots);
    if (!slots) {
        return false;
    }
    for (size_t i = 0; i < u->slots_cap; i++) {
        if (u->slots[i].key != 0) {
            *find_slot(slots, cap, u->slots[i].key) = u->slots[i];
        }
    }
    free(u->slots);
    u->slots = slots;
    u->slots_cap = cap;
    return true;
}

static bool grow_nodes(struct unigram *u)
{
    size_t cap = u->nodes_cap ? 2 * u->nodes_cap : NODES_MIN;
    int32_t *ids = realloc(u->ids, cap * sizeof *ids);
    if (!ids) {
        return false;
    }
    u->ids = ids;
    double *scores = realloc(u->scores, cap * sizeof *scores);
    if (!scores) {
        return false;
    }
    u->scores = scores;
    u->nodes_cap = cap;
    return true;
}

static bool add_node(struct unigram *u, uint32_t *node)
{
    if (u->n_nodes == UNIGRAM_NODES_MAX || (u->n_nodes == u->nodes_cap && !grow_nodes(u))) {
        return false;
    }
    u->ids[u->n_nodes] = -1;
    u->scores[u->n_nodes] = 0;
    *node = u->n_nodes++;
    return true;
}

static bool add_edge(struct unigram *u, uint32_t from, char c, uint32_t *to)
{
    if (2 * ((size_t)u->n_nodes + 1) > u->slots_cap && !grow_slots(u)) {
        return false;
    }
    struct unigram_slot *slot = find_slot(u->slots, u->slots_cap, edge_key(from, c));
    if (slot->key == 0) {
        uint32_t node;
        if (!add_node(u, &node)) {
            return false;
        }
        *slot = (struct unigram_slot){edge_key(from, c), node};
    }
    *to = slot->child;
    return true;
}

bool unigram_add(struct unigram *u, const char *s, size_t len, int32_t id, double score)
{
    uint32_t node = 0;
    assert(len > 0 && len <= UNIGRAM_TOKEN_MAX && id >= 0);
    if (u->n_nodes == 0 && !add_node(u, &node)) {
        return false;
    }
    u->least = u->n_nodes == 1 || score < u->least ? score : u->least;
    for (size_t i = 0; i < len; i++) {
        if (!add_edge(u, node, s[i], &node)) {
            return false;
        }
    }
    u->ids[node] = id;
    u->scores[node] = score;
    return true;
}

static void offer(struct unigram_step *steps, size_t from, size_t to, int32_t id, double score)
{
    struct unigram_step *s = &steps[to];
    double sum = steps[from].score + score;
    if (s->id == -2 || sum > s->score) {
        *s = (struct unigram_step){sum, (uint32_t)from, id};
    }
}

/* All tokens that s begins with, and the unknown character if none is that character alone; `at` is
 * the place of s among the steps. Returns the place that the longest reaches. */
static size_t step_from(const struct unigram *u, const char *s, size_t len, size_t n_char,
                        struct unigram_step *steps, size_t at)
{
    bool has_char = false;
    uint32_t node = 0;
    size_t reach = at + n_char;
    for (size_t n = 0; u->n_nodes > 0 && n < len; n++) {
        const struct unigram_slot *slot = find_slot(u->slots, u->slots_cap, edge_key(node, s[n]));
        if (slot->key == 0) {
            break;
        }
        node = slot->child;
        if (u->ids[node] >= 0) {
            has_char = has_char || n + 1 == n_char;
            reach = at + n + 1 > reach ? at + n + 1 : reach;
            offer(steps, at, at + n + 1, u->ids[node], u->scores[node]);
        }
    }
    if (!has_char) {
        offer(steps, at, at + n_char, -1, u->least - UNKNOWN_PENALTY);
    }
    return reach;
}

/* Steps 0 .. n-1 exist, those that are new are not reached. */
static bool make_steps(struct unigram_work *w, size_t n)
{
    if (n > w->steps_cap) {
        struct unigram_step *p = realloc(w->steps, 2 * n * sizeof *p);
        if (!p) {
            return false;
        }
        w->steps = p;
        w->steps_cap = 2 * n;
    }
    for (; w->n_steps < n; w->n_steps++) {
        w->steps[w->n_steps] = (struct unigram_step){0, 0, -2};
    }
    return true;
}

static bool make_pieces(struct unigram_work *w, size_t n)
{
    if (n > w->pieces_cap) {
        size_t cap = n > 2 * w->pieces_cap ? n : 2 * w->pieces_cap;
        struct unigram_piece *p = realloc(w->pieces, cap * sizeof *p);
        if (!p) {
            return false;
        }
        w->pieces = p;
        w->pieces_cap = cap;
    }
    return true;
}

/* Appends the pieces of the best way to step `len`, from the end back: first they are counted. Byte
 * 0 of the steps is byte `start` of the text. */
static bool collect(struct unigram_work *w, size_t start, size_t len)
{
    const struct unigram_step *steps = w->steps;
    size_t n = w->n_pieces;
    int32_t behind = 0;
    for (size_t at = len; at > 0; behind = steps[at].id, at = steps[at].from) {
        n += steps[at].id != -1 || behind != -1;
    }
    if (!make_pieces(w, n)) {
        return false;
    }
    w->n_pieces = n;
    behind = 0;
    for (size_t at = len; at > 0; behind = steps[at].id, at = steps[at].from) {
        if (steps[at].id == -1 && behind == -1) {
            w->pieces[n].from = start + steps[at].from;
        } else {
            w->pieces[--n] =
                (struct unigram_piece){start + steps[at].from, start + at, steps[at].id};
        }
    }
    return true;
}

/* The best way from byte `start` to a byte that every way goes through, WINDOW bytes on or later,
 * or to the end. Returns that byte, 0: no memory. */
static size_t run_window(const struct unigram *u, const char *s, size_t len, size_t start,
                         struct unigram_work *w)
{
    size_t at = 0, reach = 0, n;
    uint32_t cp;
    w->n_steps = 0;
    for (; start + at < len && (at < WINDOW || reach > at); at += n) {
        n = codepoint_read(s + start + at, len - start - at, &cp);
        n = n > 0 ? n : 1;
        if (!make_steps(w, at + UNIGRAM_TOKEN_MAX + CHAR_MAX_BYTES + 1)) {
            return 0;
        }
        w->steps[0].id = -1;
        if (w->steps[at].id != -2) {
            size_t to = step_from(u, s + start + at, len - start - at, n, w->steps, at);
            reach = to > reach ? to : reach;
        }
    }
    return collect(w, start, at) ? start + at : 0;
}

/* Unknown pieces that two windows cut. */
static void join_unknown(struct unigram_work *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_pieces; i++) {
        if (n > 0 && w->pieces[i].id == -1 && w->pieces[n - 1].id == -1) {
            w->pieces[n - 1].to = w->pieces[i].to;
        } else {
            w->pieces[n++] = w->pieces[i];
        }
    }
    w->n_pieces = n;
}

bool unigram_run(const struct unigram *u, const char *s, size_t len, struct unigram_work *w)
{
    w->n_pieces = 0;
    if (len >= UINT32_MAX) {
        return false;
    }
    for (size_t start = 0; start < len;) {
        start = run_window(u, s, len, start, w);
        if (start == 0) {
            return false;
        }
    }
    join_unknown(w);
    return true;
}
