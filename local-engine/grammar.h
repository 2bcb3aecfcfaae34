/* grammar.h - a context-free language over bytes, as a network: a rule is a graph of nodes from its
 * start to its end, an edge takes a byte, nothing, or a whole text of another rule.
 *
 * A rule may count: min <= the number of its `count` edges on the way <= max. It is built edge by
 * edge, then closed by grammar_finish(), which takes out every edge that leads to no end: from then
 * on each node that can be reached has a way to the end of its rule, so a prefix that is allowed
 * can always be completed. For that a `count` edge must lead to an `enough` edge without more than
 * max of them, and min <= max; whoever builds a counting rule sees to it.
 *
 * A rule may call itself, but for that its start must take a byte first, or the call must lead to
 * the rule's end (`a: b | a`): grammars that are built from schemas are of this kind.
 *
 * Building never fails at once: after the first problem (memory, size) calls do nothing, and
 * grammar_finish() says what it was.
 */
#ifndef ISOTHERM_GRAMMAR_H
#define ISOTHERM_GRAMMAR_H

#include "engine_error.h"
#include <stddef.h>
#include <stdint.h>

enum { GRAMMAR_EDGES_MAX = 1000000 }; /* 16 MB: a schema of 10 KB makes about 30,000 */
#define GRAMMAR_UNBOUNDED UINT32_MAX

enum grammar_kind {
    GRAMMAR_BYTE,    /* takes a byte from lo to hi */
    GRAMMAR_NOTHING, /* takes nothing */
    GRAMMAR_CALL,    /* takes a text of `rule`; JUMP: the same to the rule's end */
    GRAMMAR_JUMP,
    GRAMMAR_COUNT, /* takes nothing, one more is counted; closed at max */
    GRAMMAR_ENOUGH /* takes nothing; open from min on */
};
struct grammar_edge {
    uint32_t to, rule;
    uint8_t kind, lo, hi;
};
struct grammar_node {
    uint32_t rule; /* that it belongs to */
    uint32_t at;   /* first of its edges; they end where the next node's begin */
};
struct grammar_rule {
    uint32_t start, end, min, max;
};
struct grammar {
    struct grammar_edge *edges;
    uint32_t *from; /* [n_edges], while building */
    struct grammar_node *nodes;
    struct grammar_rule *rules;
    size_t n_edges, n_nodes, n_rules, edges_cap, from_cap, nodes_cap, rules_cap;
    uint32_t root;
    uint8_t class_of[256]; /* bytes of one class are the same to every edge */
    int n_classes;
    bool has_no_memory, is_too_large;
};

void grammar_init(struct grammar *g);
void grammar_release(struct grammar *g);

/* A rule that does not count, with a start and an end and nothing between. */
uint32_t grammar_rule(struct grammar *g);
void grammar_set_count(struct grammar *g, uint32_t rule, uint32_t min, uint32_t max);
uint32_t grammar_start(const struct grammar *g, uint32_t rule);
uint32_t grammar_end(const struct grammar *g, uint32_t rule); /* no edge may leave it */
uint32_t grammar_node(struct grammar *g, uint32_t rule);

void grammar_byte(struct grammar *g, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to);
void grammar_nothing(struct grammar *g, uint32_t from, uint32_t to);
void grammar_call(struct grammar *g, uint32_t from, uint32_t rule, uint32_t to);
void grammar_count(struct grammar *g, uint32_t from, uint32_t to);
void grammar_enough(struct grammar *g, uint32_t from, uint32_t to);
/* A chain of bytes. */
void grammar_text(struct grammar *g, uint32_t from, const char *text, size_t len, uint32_t to);

/* Closes it. *is_empty: no text at all is in the language of `root`; then it is of no use. */
ENGINE_WARN_UNUSED bool grammar_finish(struct grammar *g, uint32_t root, bool *is_empty,
                                       struct engine_error *err);

#endif
