/* grammar.c - what is productive (has a text) is found from the ends backwards, each edge looked
 * at a constant number of times: an edge counts once its target is productive and, of a call, the
 * start of the rule that it calls.
 */
#include "grammar.h"
#include "room.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void grammar_init(struct grammar *g)
{
    *g = (struct grammar){.root = 0};
}

void grammar_release(struct grammar *g)
{
    if (g) {
        free(g->edges);
        free(g->from);
        free(g->nodes);
        free(g->rules);
        grammar_init(g);
    }
}

/* ---- building */

static bool is_broken(const struct grammar *g)
{
    return g->has_no_memory || g->is_too_large;
}

uint32_t grammar_node(struct grammar *g, uint32_t rule)
{
    g->is_too_large = g->is_too_large || g->n_nodes >= GRAMMAR_EDGES_MAX;
    if (is_broken(g)) {
        return 0;
    }
    if (!room_for(&g->nodes, &g->nodes_cap, g->n_nodes + 2, sizeof *g->nodes)) {
        g->has_no_memory = true;
        return 0;
    }
    g->nodes[g->n_nodes] = (struct grammar_node){.rule = rule};
    return (uint32_t)g->n_nodes++;
}

uint32_t grammar_rule(struct grammar *g)
{
    if (is_broken(g) || !room_for(&g->rules, &g->rules_cap, g->n_rules + 1, sizeof *g->rules)) {
        g->has_no_memory = g->has_no_memory || !is_broken(g);
        return 0;
    }
    uint32_t rule = (uint32_t)g->n_rules++;
    uint32_t start = grammar_node(g, rule), end = grammar_node(g, rule);
    g->rules[rule] = (struct grammar_rule){start, end, 0, GRAMMAR_UNBOUNDED};
    return rule;
}

void grammar_set_count(struct grammar *g, uint32_t rule, uint32_t min, uint32_t max)
{
    assert(min <= max);
    if (!is_broken(g)) {
        g->rules[rule].min = min;
        g->rules[rule].max = max;
    }
}

uint32_t grammar_start(const struct grammar *g, uint32_t rule)
{
    return is_broken(g) ? 0 : g->rules[rule].start;
}

uint32_t grammar_end(const struct grammar *g, uint32_t rule)
{
    return is_broken(g) ? 0 : g->rules[rule].end;
}

static void add(struct grammar *g, uint32_t from, struct grammar_edge e)
{
    g->is_too_large = g->is_too_large || g->n_edges >= GRAMMAR_EDGES_MAX;
    if (is_broken(g)) {
        return;
    }
    if (!room_for(&g->edges, &g->edges_cap, g->n_edges + 1, sizeof *g->edges) ||
        !room_for(&g->from, &g->from_cap, g->n_edges + 1, sizeof *g->from)) {
        g->has_no_memory = true;
        return;
    }
    g->from[g->n_edges] = from;
    g->edges[g->n_edges++] = e;
}

void grammar_byte(struct grammar *g, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to)
{
    add(g, from, (struct grammar_edge){.to = to, .kind = GRAMMAR_BYTE, .lo = lo, .hi = hi});
}

void grammar_nothing(struct grammar *g, uint32_t from, uint32_t to)
{
    add(g, from, (struct grammar_edge){.to = to, .kind = GRAMMAR_NOTHING});
}

void grammar_call(struct grammar *g, uint32_t from, uint32_t rule, uint32_t to)
{
    bool is_last = !is_broken(g) && g->rules[g->nodes[to].rule].end == to;
    add(g, from,
        (struct grammar_edge){
            .to = to, .rule = rule, .kind = is_last ? GRAMMAR_JUMP : GRAMMAR_CALL});
}

void grammar_count(struct grammar *g, uint32_t from, uint32_t to)
{
    add(g, from, (struct grammar_edge){.to = to, .kind = GRAMMAR_COUNT});
}

void grammar_enough(struct grammar *g, uint32_t from, uint32_t to)
{
    add(g, from, (struct grammar_edge){.to = to, .kind = GRAMMAR_ENOUGH});
}

void grammar_text(struct grammar *g, uint32_t from, const char *text, size_t len, uint32_t to)
{
    if (len == 0) {
        grammar_nothing(g, from, to);
        return;
    }
    for (size_t i = 0; i < len && !is_broken(g); i++) {
        uint32_t next = i + 1 < len ? grammar_node(g, g->nodes[from].rule) : to;
        grammar_byte(g, from, (uint8_t)text[i], (uint8_t)text[i], next);
        from = next;
    }
}

/* ---- closing */

/* Edges by the node they lead to, and by the rule they call: lists through arrays. */
struct backward {
    uint32_t *by_node, *by_rule;     /* first edge + 1, 0: none */
    uint32_t *next_node, *next_rule; /* [n_edges] */
    uint32_t *work;                  /* [n_nodes] productive nodes to be looked at */
    size_t n_work;
    bool *is_productive; /* [n_nodes] */
};

static void backward_release(struct backward *b)
{
    free(b->by_node);
    free(b->by_rule);
    free(b->next_node);
    free(b->next_rule);
    free(b->work);
    free(b->is_productive);
}

static bool is_call(const struct grammar_edge *e)
{
    return e->kind == GRAMMAR_CALL || e->kind == GRAMMAR_JUMP;
}

static bool backward_init(struct backward *b, const struct grammar *g)
{
    *b = (struct backward){
        .by_node = calloc(g->n_nodes, sizeof *b->by_node),
        .by_rule = calloc(g->n_rules, sizeof *b->by_rule),
        .next_node = calloc(g->n_edges + 1, sizeof *b->next_node),
        .next_rule = calloc(g->n_edges + 1, sizeof *b->next_rule),
        .work = calloc(g->n_nodes, sizeof *b->work),
        .is_productive = calloc(g->n_nodes, sizeof *b->is_productive),
    };
    if (!b->by_node || !b->by_rule || !b->next_node || !b->next_rule || !b->work ||
        !b->is_productive) {
        backward_release(b);
        return false;
    }
    for (size_t i = 0; i < g->n_edges; i++) {
        const struct grammar_edge *e = &g->edges[i];
        b->next_node[i] = b->by_node[e->to];
        b->by_node[e->to] = (uint32_t)i + 1;
        if (is_call(e)) {
            b->next_rule[i] = b->by_rule[e->rule];
            b->by_rule[e->rule] = (uint32_t)i + 1;
        }
    }
    return true;
}

static bool edge_is_productive(const struct grammar *g, const struct backward *b,
                               const struct grammar_edge *e)
{
    return b->is_productive[e->to] && (!is_call(e) || b->is_productive[g->rules[e->rule].start]);
}

static void mark(struct backward *b, uint32_t node)
{
    if (!b->is_productive[node]) {
        b->is_productive[node] = true;
        b->work[b->n_work++] = node;
    }
}

/* Marks where the edges of a list come from, as far as they are productive. */
static void mark_list(const struct grammar *g, struct backward *b, uint32_t first,
                      const uint32_t *next)
{
    for (uint32_t i = first; i != 0; i = next[i - 1]) {
        if (edge_is_productive(g, b, &g->edges[i - 1])) {
            mark(b, g->from[i - 1]);
        }
    }
}

static void find_productive(const struct grammar *g, struct backward *b)
{
    for (size_t r = 0; r < g->n_rules; r++) {
        mark(b, g->rules[r].end);
    }
    while (b->n_work > 0) {
        uint32_t node = b->work[--b->n_work];
        uint32_t rule = g->nodes[node].rule;
        mark_list(g, b, b->by_node[node], b->next_node);
        if (g->rules[rule].start == node) {
            mark_list(g, b, b->by_rule[rule], b->next_rule);
        }
    }
}

/* Keeps what is productive, ordered by the node it leaves. */
static bool sort_edges(struct grammar *g, const struct backward *b)
{
    struct grammar_edge *sorted = malloc((g->n_edges + 1) * sizeof *sorted);
    if (!sorted) {
        return false;
    }
    uint32_t n = 0;
    for (size_t i = 0; i <= g->n_nodes; i++) {
        g->nodes[i].at = 0; /* there is room for one more: see grammar_node() */
    }
    for (size_t i = 0; i < g->n_edges; i++) {
        g->nodes[g->from[i]].at += edge_is_productive(g, b, &g->edges[i]);
    }
    for (size_t i = 0; i <= g->n_nodes; i++) {
        n += g->nodes[i].at;
        g->nodes[i].at = n; /* the end, which moves to the beginning as edges are placed */
    }
    for (size_t i = g->n_edges; i-- > 0;) {
        if (edge_is_productive(g, b, &g->edges[i])) {
            sorted[--g->nodes[g->from[i]].at] = g->edges[i];
        }
    }
    free(g->edges);
    g->edges = sorted;
    g->n_edges = n;
    free(g->from);
    g->from = NULL;
    return true;
}

static void find_classes(struct grammar *g)
{
    bool begins[257] = {true};
    for (size_t i = 0; i < g->n_edges; i++) {
        if (g->edges[i].kind == GRAMMAR_BYTE) {
            begins[g->edges[i].lo] = true;
            begins[g->edges[i].hi + 1] = true;
        }
    }
    int class = -1;
    for (int b = 0; b < 256; b++) {
        class += begins[b];
        g->class_of[b] = (uint8_t) class;
    }
    g->n_classes = class + 1;
}

bool grammar_finish(struct grammar *g, uint32_t root, bool *is_empty, struct engine_error *err)
{
    struct backward b;
    if (g->is_too_large) {
        return engine_fail(err, ENGINE_BAD_PARAM, "",
                           "what it allows is too large: at most %d steps of an automaton",
                           GRAMMAR_EDGES_MAX);
    }
    if (g->has_no_memory || !backward_init(&b, g)) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a grammar");
    }
    find_productive(g, &b);
    bool ok = sort_edges(g, &b);
    bool has_text = b.is_productive[g->rules[root].start];
    backward_release(&b);
    if (!ok) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a grammar");
    }
    find_classes(g);
    g->root = root;
    *is_empty = !has_text;
    return true;
}
