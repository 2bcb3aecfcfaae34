/* beam.c - a tree of tokens, the alive leaves, and the best that have ended.
 *
 * Hypotheses share what they have in common: each is the path from a node to the root. Of a step's
 * width * n_vocab extensions only the `width` best so far are held, in one sorted list: nearly
 * every other one costs a comparison with the last of them.
 */
#include "beam.h"
#include "fmath.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct node {
    int32_t parent, token; /* parent -1: the empty hypothesis */
    int32_t depth;
};

struct extension {
    double total;
    uint32_t from; /* the alive hypothesis */
    int32_t token;
};

struct alive {
    int32_t node;
    uint32_t parent;
    double total;
};

struct beam {
    struct beam_config c;
    struct node *nodes;
    size_t n_nodes, nodes_cap;
    struct alive alive[BEAM_WIDTH_MAX];
    struct extension best[BEAM_WIDTH_MAX]; /* of the step in progress */
    struct beam_result results[BEAM_WIDTH_MAX];
    uint32_t n_alive, n_best, n_results, n_offered;
    size_t len;
};

bool beam_new(struct beam **out, const struct beam_config *c, struct engine_error *err)
{
    assert(c->width >= 1 && c->width <= BEAM_WIDTH_MAX);
    assert(c->n_best >= 1 && c->n_best <= BEAM_WIDTH_MAX && isfinite(c->length_penalty));
    struct beam *b = calloc(1, sizeof *b);
    if (!b) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a beam search");
    }
    b->c = *c;
    b->n_alive = c->len_max > 0;
    b->alive[0].node = -1;
    *out = b;
    return true;
}

void beam_free(struct beam *b)
{
    if (b) {
        free(b->nodes);
        free(b);
    }
}

uint32_t beam_n_alive(const struct beam *b)
{
    return b->n_alive;
}

size_t beam_len(const struct beam *b)
{
    return b->len;
}

/* ---- a step's extensions */

static bool is_better(const struct extension *a, const struct extension *b)
{
    if (a->total != b->total) {
        return a->total > b->total;
    }
    return a->from != b->from ? a->from < b->from : a->token < b->token;
}

static void insert(struct beam *b, const struct extension *e)
{
    uint32_t j = b->n_best < b->c.width ? b->n_best++ : b->c.width - 1;
    for (; j > 0 && is_better(e, &b->best[j - 1]); j--) {
        b->best[j] = b->best[j - 1];
    }
    b->best[j] = *e;
}

void beam_offer(struct beam *b, uint32_t i, const double *scores, int32_t n_vocab)
{
    assert(i < b->n_alive && b->n_offered < b->n_alive);
    b->n_offered++;
    struct extension e = {.from = i};
    for (int32_t t = 0; scores && t < n_vocab; t++) {
        e.token = t;
        e.total = b->alive[i].total + scores[t];
        bool has_room = b->n_best < b->c.width;
        if (e.total > -INFINITY && (has_room || is_better(&e, &b->best[b->n_best - 1]))) {
            insert(b, &e);
        }
    }
}

/* ---- results */

/* length ^ -|exponent|, in (0, 1]; with our own exponential, for the bits. */
static double shrink(size_t length, double exponent)
{
    double x = -fabs(exponent) * fmath_log((double)length);
    fmath_exp_all(&x, 1);
    return x;
}

static double score_of(const struct beam *b, double total, size_t length)
{
    double alpha = b->c.length_penalty;
    if (alpha == 0.0) {
        return total;
    }
    if (alpha == 1.0) {
        return total / (double)length;
    }
    return alpha > 0 ? total * shrink(length, alpha) : total / shrink(length, alpha);
}

static void collect(struct beam *b, int32_t node, double total)
{
    struct beam_result r = {node, total, score_of(b, total, b->len)};
    if (b->n_results == b->c.n_best && !(r.score > b->results[b->n_results - 1].score)) {
        return;
    }
    uint32_t j = b->n_results < b->c.n_best ? b->n_results++ : b->c.n_best - 1;
    for (; j > 0 && r.score > b->results[j - 1].score; j--) {
        b->results[j] = b->results[j - 1];
    }
    b->results[j] = r;
}

/* Whether no alive hypothesis can enter the results. The best that one can come to is its total,
 * over the length that flatters it most; the margin covers the rounding of both scores. */
static bool is_settled(const struct beam *b)
{
    if (b->n_results < b->c.n_best) {
        return false;
    }
    size_t length = b->c.length_penalty > 0 ? (size_t)b->c.len_max : b->len + 1;
    double last = b->results[b->n_results - 1].score;
    for (uint32_t i = 0; i < b->n_alive; i++) {
        if (!(last >= score_of(b, b->alive[i].total, length) * (1 - 1e-12))) {
            return false;
        }
    }
    return true;
}

size_t beam_results(const struct beam *b, const struct beam_result **out)
{
    *out = b->results;
    return b->n_results;
}

/* ---- nodes */

static bool nodes_reserve(struct beam *b, size_t n, struct engine_error *err)
{
    if (n <= b->nodes_cap - b->n_nodes) {
        return true;
    }
    size_t cap = b->nodes_cap * 2 + 256;
    struct node *p = cap <= INT32_MAX ? realloc(b->nodes, cap * sizeof *p) : NULL;
    if (!p) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a beam search");
    }
    b->nodes = p;
    b->nodes_cap = cap;
    return true;
}

static int32_t node_add(struct beam *b, int32_t parent, int32_t token)
{
    b->nodes[b->n_nodes] = (struct node){parent, token, (int32_t)b->len};
    return (int32_t)b->n_nodes++;
}

uint32_t beam_parent(const struct beam *b, uint32_t i)
{
    assert(i < b->n_alive);
    return b->alive[i].parent;
}

int32_t beam_node(const struct beam *b, uint32_t i)
{
    assert(i < b->n_alive);
    return b->alive[i].node;
}

size_t beam_n_nodes(const struct beam *b)
{
    return b->n_nodes;
}

int32_t beam_token(const struct beam *b, int32_t node)
{
    return b->nodes[node].token;
}

size_t beam_depth(const struct beam *b, int32_t node)
{
    return node < 0 ? 0 : (size_t)b->nodes[node].depth;
}

void beam_tokens(const struct beam *b, int32_t node, int32_t *tokens, int32_t *nodes)
{
    for (size_t i = beam_depth(b, node); i > 0; i--) {
        tokens[i - 1] = b->nodes[node].token;
        if (nodes) {
            nodes[i - 1] = node;
        }
        node = b->nodes[node].parent;
    }
}

/* ---- a step */

/* After the last step, or when nothing can change any more. */
static void end_search(struct beam *b, bool collects)
{
    for (uint32_t i = 0; collects && i < b->n_alive; i++) {
        collect(b, b->alive[i].node, b->alive[i].total);
    }
    b->n_alive = 0;
}

bool beam_step(struct beam *b, beam_ends_fn *fn, void *ud, struct engine_error *err)
{
    assert(b->n_alive > 0 && b->n_offered == b->n_alive);
    struct alive before[BEAM_WIDTH_MAX];
    memcpy(before, b->alive, b->n_alive * sizeof before[0]);
    if (!nodes_reserve(b, b->n_best, err)) {
        return false;
    }
    b->len++;
    b->n_alive = 0;
    for (uint32_t i = 0; i < b->n_best; i++) {
        const struct extension *e = &b->best[i];
        int32_t node = node_add(b, before[e->from].node, e->token);
        bool ends = false;
        if (!fn(b, node, e->from, &ends, ud, err)) {
            return false;
        }
        if (ends) {
            collect(b, node, e->total);
        } else {
            b->alive[b->n_alive++] = (struct alive){node, e->from, e->total};
        }
    }
    b->n_best = 0;
    b->n_offered = 0;
    bool is_last = b->len >= (uint64_t)b->c.len_max;
    if (is_last || is_settled(b)) {
        end_search(b, is_last);
    }
    return true;
}
