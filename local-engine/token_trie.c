/* token_trie.c - the tokens are sorted by their bytes; each adds the nodes that its neighbour
 * before does not have. Sorting compares eight bytes as one number first: that decides nearly
 * always.
 */
#include "token_trie.h"
#include "room.h"

#include <stdlib.h>
#include <string.h>

struct item {
    uint64_t head; /* the first eight bytes, the first one highest */
    const char *bytes;
    uint32_t len;
    int32_t id;
};

static uint64_t head_of(const char *bytes, size_t len)
{
    uint64_t h = 0;
    for (size_t i = 0; i < 8; i++) {
        h = h << 8 | (i < len ? (uint8_t)bytes[i] : 0);
    }
    return h;
}

static int compare(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->head != y->head) {
        return x->head < y->head ? -1 : 1;
    }
    int order = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);
    if (order != 0) {
        return order;
    }
    return x->len != y->len ? (x->len < y->len ? -1 : 1) : (x->id > y->id) - (x->id < y->id);
}

static size_t collect(const struct tokenizer *t, int32_t n_vocab, struct item *items)
{
    size_t n = 0;
    for (int32_t id = 0; id < n_vocab && id < tokenizer_n_vocab(t); id++) {
        size_t len;
        const char *bytes = tokenizer_piece(t, id, false, &len);
        if (!tokenizer_is_special(t, id) && len > 0 && len <= TOKEN_TRIE_DEPTH_MAX) {
            items[n++] = (struct item){head_of(bytes, len), bytes, (uint32_t)len, id};
        }
    }
    return n;
}

static size_t common(const struct item *a, const struct item *b)
{
    size_t n = 0;
    while (n < a->len && n < b->len && a->bytes[n] == b->bytes[n]) {
        n++;
    }
    return n;
}

/* Ends the nodes of the path that are deeper than `depth`. */
static void end_path(struct token_trie *t, const uint32_t *path, size_t *len, size_t depth)
{
    while (*len > depth) {
        t->nodes[path[--*len]].skip = (uint32_t)t->n_nodes;
    }
}

static bool build(struct token_trie *t, const struct item *items, size_t n)
{
    static const struct item none = {.len = 0};
    uint32_t path[TOKEN_TRIE_DEPTH_MAX]; /* nodes of the last token */
    size_t len = 0, cap = 0;
    for (size_t i = 0; i < n; i++) {
        const struct item *x = &items[i], *before = i > 0 ? &items[i - 1] : &none;
        size_t shared = common(before, x);
        end_path(t, path, &len, shared);
        if (!room_for(&t->nodes, &cap, t->n_nodes + x->len, sizeof *t->nodes)) {
            return false;
        }
        for (; len < x->len; len++) {
            path[len] = (uint32_t)t->n_nodes;
            t->nodes[t->n_nodes++] = (struct token_trie_node){
                .token = -1, .depth = (uint16_t)(len + 1), .byte = (uint8_t)x->bytes[len]};
        }
        struct token_trie_node *last = &t->nodes[path[len - 1]];
        t->next[x->id] = last->token;
        last->has_others = last->token >= 0;
        last->token = x->id;
        t->depth = (int)x->len > t->depth ? (int)x->len : t->depth;
    }
    end_path(t, path, &len, 0);
    return true;
}

bool token_trie_init(struct token_trie *t, const struct tokenizer *tokenizer, int32_t n_vocab,
                     struct engine_error *err)
{
    size_t room = (size_t)n_vocab + 1;
    struct item *items = malloc(room * sizeof *items);
    *t = (struct token_trie){.n_vocab = n_vocab, .next = malloc(room * sizeof *t->next)};
    bool ok = items && t->next;
    if (ok) {
        memset(t->next, -1, room * sizeof *t->next);
        size_t n = collect(tokenizer, n_vocab, items);
        qsort(items, n, sizeof *items, compare);
        ok = build(t, items, n);
    }
    free(items);
    if (!ok) {
        token_trie_release(t);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the tokens by their bytes");
    }
    return true;
}

void token_trie_release(struct token_trie *t)
{
    if (t) {
        free(t->nodes);
        free(t->next);
        *t = (struct token_trie){.n_nodes = 0};
    }
}
