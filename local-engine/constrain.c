/* constrain.c - masks: the trie of the vocabulary is walked with the automaton, once for all states
 * that look alike to it.
 *
 * How a state looks depends on its stacks only as deep as a token can end rules. So the walk is
 * tried on the state cut to one level, two, four ...: where it does not come to the unknown, the
 * mask is that of all states which are the same so far, however deep they are nested, and of all
 * counts that a token cannot tell apart. Masks are kept as bits, or as a list where few tokens are
 * allowed.
 *
 * Memory: states and masks are forgotten when they take too much; a sequence then finds its place
 * again from its text.
 */
#include "constrain.h"
#include "constrain_schema.h"
#include "pushdown.h"
#include "room.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEPT_MAX = 16,
    STATES_BYTES_MAX = 16 << 20,
    MASKS_BYTES_MAX = 16 << 20,
    KEPT_BYTES_MAX = 128 << 20, /* of all that are kept */
    CUT_DEPTH_MAX = 64,
    /* Places that one walk may come to, see walk(): the first number is about 50 ms, the second is
     * for each node of the trie, where 1 to 3 are usual. */
    WALK_MAX = 1000000,
    WALK_NODE_MAX = 32
};

struct mask {
    uint32_t n;      /* ids; UINT32_MAX: bits */
    uint32_t data[]; /* [n] or [words_of(n_vocab)] */
};
/* What is known of a state. */
struct known {
    struct mask *mask;
    uint32_t like;   /* its mask is that of this state; 0: not found out */
    bool is_unknown; /* a walk from it comes to the unknown */
};
struct constrain {
    size_t n_owners;
    const char *param; /* static */
    struct grammar g;
    struct pushdown *p;
    const struct token_trie *trie; /* of the first sequence */
    struct known *known;           /* [known_cap] by state */
    uint32_t *bits;                /* scratch of a walk */
    size_t known_cap, mask_bytes;
    size_t states_bytes_max; /* at which the states are forgotten */
    uint32_t generation;
    bool is_too_wide; /* a walk had to be given up */
};

/* ---- compiling */

static bool compile(struct constrain *c, const struct constrain_spec *spec, uint32_t *rule,
                    struct engine_error *err)
{
    bool ok = false;
    json_t *object;
    switch (spec->kind) {
    case CONSTRAIN_JSON_OBJECT:
        object = json_pack("{s:s}", "type", "object");
        ok = object ? constrain_schema(&c->g, object, spec->param, rule, err)
                    : engine_fail(err, ENGINE_NOMEM, "", "out of memory for a schema");
        json_decref(object);
        return ok;
    case CONSTRAIN_JSON_SCHEMA:
        return constrain_schema(&c->g, spec->value, spec->param, rule, err);
    case CONSTRAIN_REGEX:
        return constrain_regex(&c->g, spec->value, spec->param, rule, err);
    case CONSTRAIN_CHOICE:
        return constrain_choice(&c->g, spec->value, spec->param, rule, err);
    case CONSTRAIN_NOTHING:
        break;
    }
    assert(!"a kind that can be compiled");
    return false;
}

static bool finish(struct constrain *c, const struct constrain_spec *spec, uint32_t rule,
                   struct engine_error *err)
{
    struct engine_error inner = {.code = ENGINE_OK};
    bool is_empty;
    if (!grammar_finish(&c->g, rule, &is_empty, &inner)) {
        bool is_theirs = inner.code == ENGINE_BAD_PARAM;
        return engine_fail(err, inner.code, is_theirs ? spec->param : "", "'%s': %s", spec->param,
                           inner.text);
    }
    if (is_empty) {
        return engine_fail(err, ENGINE_BAD_PARAM, spec->param,
                           spec->kind == CONSTRAIN_REGEX
                               ? "'%s': no text at all matches the pattern: mend it"
                               : "'%s': schema at '': no text at all satisfies it: its conditions "
                                 "contradict each other",
                           spec->param);
    }
    return pushdown_new(&c->p, &c->g, err);
}

bool constrain_new(struct constrain **out, const struct constrain_spec *spec,
                   struct engine_error *err)
{
    struct constrain *c = calloc(1, sizeof *c);
    uint32_t rule;
    if (!c) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a schema");
    }
    grammar_init(&c->g);
    c->n_owners = 1;
    c->param = spec->param;
    c->states_bytes_max = STATES_BYTES_MAX;
    if (!compile(c, spec, &rule, err) || !finish(c, spec, rule, err)) {
        constrain_free(c);
        return false;
    }
    *out = c;
    return true;
}

struct constrain *constrain_hold(struct constrain *c)
{
    c->n_owners++;
    return c;
}

static void forget_masks(struct constrain *c)
{
    for (size_t i = 0; i < c->known_cap; i++) {
        free(c->known[i].mask);
    }
    free(c->known);
    c->known = NULL;
    c->known_cap = c->mask_bytes = 0;
}

void constrain_free(struct constrain *c)
{
    if (c && --c->n_owners == 0) {
        forget_masks(c);
        pushdown_free(c->p);
        grammar_release(&c->g);
        free(c->bits);
        free(c);
    }
}

static size_t bytes_of(const struct constrain *c)
{
    return pushdown_bytes(c->p) + c->mask_bytes + c->known_cap * sizeof *c->known +
           c->g.edges_cap * sizeof *c->g.edges + c->g.nodes_cap * sizeof *c->g.nodes;
}

/* ---- masks */

static bool cannot_go_on(const struct constrain *c, struct engine_error *err)
{
    if (c->is_too_wide) {
        return engine_fail(err, ENGINE_BAD_PARAM, c->param,
                           "'%s': too many alternatives are possible at once, each of which must "
                           "be followed: give fewer, or let them differ from the beginning",
                           c->param);
    }
    return engine_fail(err, ENGINE_NOMEM, "",
                       "out of memory for the states of a schema: make it simpler");
}

static size_t words_of(const struct token_trie *t)
{
    return ((size_t)t->n_vocab + 31) / 32;
}

static struct known *known_of(struct constrain *c, uint32_t state)
{
    size_t had = c->known_cap;
    if (state >= had) {
        if (!room_for(&c->known, &c->known_cap, pushdown_n_states(c->p), sizeof *c->known)) {
            return NULL;
        }
        memset(c->known + had, 0, (c->known_cap - had) * sizeof *c->known);
    }
    return &c->known[state];
}

/* The tokens that end at a node. */
static void allow(uint32_t *bits, const struct token_trie *t, const struct token_trie_node *n)
{
    int32_t id = n->token;
    for (bool more = n->has_others; id >= 0; id = more ? t->next[id] : -1) {
        bits[id / 32] |= UINT32_C(1) << (id % 32);
    }
}

/* The tokens from a state, as bits. *is_unknown: it came to the unknown, and they are of no use.
 * false: out of memory, or it would take too long. The places of all states on the way are counted
 * for that, also of those that are known, so that the same text ends the same way each time. Most
 * bytes lead back to the state that they came from, as in a string, so what is known of that one is
 * kept. */
static bool walk(struct constrain *c, uint32_t state, uint32_t *bits, bool *is_unknown)
{
    uint32_t path[TOKEN_TRIE_DEPTH_MAX + 1] = {state};
    const uint32_t *rows[TOKEN_TRIE_DEPTH_MAX + 1] = {NULL}; /* of path; NULL: not asked for yet */
    const struct token_trie *t = c->trie;
    size_t left = WALK_MAX + (size_t)WALK_NODE_MAX * t->n_nodes;
    memset(bits, 0, words_of(t) * sizeof *bits);
    *is_unknown = pushdown_is_unknown(c->p, state);
    for (size_t i = 0; i < t->n_nodes && !*is_unknown;) {
        const struct token_trie_node *n = &t->nodes[i];
        size_t at = n->depth - 1u;
        if (!rows[at] && !(rows[at] = pushdown_row(c->p, path[at]))) {
            return false;
        }
        uint32_t next = rows[at][c->g.class_of[n->byte]];
        if (next == PUSHDOWN_FAILED && !(next = pushdown_next(c->p, path[at], n->byte))) {
            return false;
        }
        if (next == PUSHDOWN_DEAD) {
            i = n->skip;
            continue;
        }
        size_t width = pushdown_width(c->p, next);
        c->is_too_wide = width > left;
        if (c->is_too_wide) {
            return false;
        }
        left -= width;
        rows[at + 1] = next == path[at] ? rows[at] : NULL;
        *is_unknown = next != path[at] && pushdown_is_unknown(c->p, next);
        path[at + 1] = next;
        allow(bits, t, n);
        i++;
    }
    return true;
}

static struct mask *mask_of_bits(struct constrain *c, const uint32_t *bits)
{
    size_t n_words = words_of(c->trie), n = 0;
    for (size_t i = 0; i < n_words; i++) {
        n += (size_t)__builtin_popcount(bits[i]);
    }
    bool is_list = n <= n_words;
    size_t n_data = is_list ? n : n_words;
    struct mask *m = malloc(sizeof *m + n_data * sizeof *m->data);
    if (!m) {
        return NULL;
    }
    m->n = is_list ? (uint32_t)n : UINT32_MAX;
    c->mask_bytes += sizeof *m + n_data * sizeof *m->data;
    if (!is_list) {
        memcpy(m->data, bits, n_words * sizeof *bits);
        return m;
    }
    size_t k = 0;
    for (size_t i = 0; i < n_words; i++) {
        for (uint32_t left = bits[i]; left; left &= left - 1) {
            m->data[k++] = (uint32_t)(i * 32) + (uint32_t)__builtin_ctz(left);
        }
    }
    return m;
}

/* Finds out the mask of a state, unless it needs to see deeper. false: as walk(). */
static bool find_mask(struct constrain *c, uint32_t state)
{
    struct known *k = known_of(c, state);
    bool is_unknown;
    if (k && (k->mask || k->is_unknown)) {
        return true;
    }
    if (!k || !walk(c, state, c->bits, &is_unknown)) {
        return false;
    }
    k = known_of(c, state); /* the walk may have moved it */
    if (k && !is_unknown) {
        k->mask = mask_of_bits(c, c->bits);
    }
    if (k) {
        k->is_unknown = is_unknown;
    }
    return k && (k->mask || is_unknown);
}

/* The state whose mask is that of `state`, with it; 0: as walk() fails. */
static uint32_t find_like(struct constrain *c, uint32_t state)
{
    for (int depth = 1; depth <= CUT_DEPTH_MAX; depth *= 2) {
        uint32_t cut = pushdown_cut(c->p, state, depth, (uint32_t)c->trie->depth);
        if (!find_mask(c, cut)) {
            return 0;
        }
        if (c->known[cut].mask) {
            return cut;
        }
    }
    return find_mask(c, state) ? state : 0;
}

static const struct mask *mask_of(struct constrain *c, uint32_t state)
{
    struct known *k = known_of(c, state);
    if (k && k->like) {
        return c->known[k->like].mask;
    }
    uint32_t like = k ? find_like(c, state) : 0;
    k = like ? known_of(c, state) : NULL;
    if (!k) {
        return NULL;
    }
    k->like = like;
    return c->known[like].mask;
}

/* Eight tokens at a time: byte i of an entry is bit i. */
static const uint64_t *spread_table(void)
{
    static uint64_t table[256];
    if (!table[1]) {
        for (uint32_t b = 0; b < 256; b++) {
            uint8_t bytes[8];
            for (int i = 0; i < 8; i++) {
                bytes[i] = b >> i & 1;
            }
            memcpy(&table[b], bytes, sizeof bytes);
        }
    }
    return table;
}

static void write_mask(const struct mask *m, const struct token_trie *t, uint8_t *out)
{
    size_t n = (size_t)t->n_vocab;
    if (m->n != UINT32_MAX) {
        memset(out, 0, n);
        for (uint32_t i = 0; i < m->n; i++) {
            out[m->data[i]] = 1;
        }
        return;
    }
    const uint64_t *table = spread_table();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(out + i, &table[m->data[i / 32] >> (i % 32) & 255], 8);
    }
    for (; i < n; i++) {
        out[i] = m->data[i / 32] >> (i % 32) & 1;
    }
}

/* ---- sequences */

struct constrain_state {
    struct constrain *c;
    uint32_t state, generation;
    bool is_complete, is_final;
    char *text; /* so far */
    size_t n, cap;
};

static void look(struct constrain_state *s, uint32_t state)
{
    s->state = state;
    s->generation = s->c->generation;
    s->is_complete = pushdown_is_complete(s->c->p, state);
    s->is_final = pushdown_is_final(s->c->p, state);
}

/* Makes the state's number hold: forgets what takes too much memory, and finds the place again. A
 * text that needs so much by itself gets twice of it, so that this stays rare. */
static bool refresh(struct constrain_state *s, struct engine_error *err)
{
    struct constrain *c = s->c;
    if (pushdown_bytes(c->p) > c->states_bytes_max || c->mask_bytes > MASKS_BYTES_MAX) {
        forget_masks(c);
        pushdown_reset(c->p);
        c->generation++;
        c->states_bytes_max = STATES_BYTES_MAX;
    }
    if (s->generation != c->generation) {
        uint32_t state = pushdown_replay(c->p, s->text, s->n);
        if (state == PUSHDOWN_FAILED) {
            return cannot_go_on(c, err);
        }
        look(s, state);
        size_t enough = 2 * pushdown_bytes(c->p);
        c->states_bytes_max = enough > c->states_bytes_max ? enough : c->states_bytes_max;
    }
    return true;
}

bool constrain_state_new(struct constrain_state **out, struct constrain *c,
                         const struct token_trie *trie, struct engine_error *err)
{
    struct constrain_state *s = calloc(1, sizeof *s);
    assert(!trie || !c->trie || c->trie == trie);
    if (trie && !c->bits) {
        c->trie = trie;
        c->bits = malloc((words_of(trie) + 1) * sizeof *c->bits);
    }
    uint32_t state =
        s && (!trie || c->bits) ? pushdown_replay(c->p, NULL, 0) : (uint32_t)PUSHDOWN_FAILED;
    if (state == PUSHDOWN_FAILED) {
        free(s);
        return cannot_go_on(c, err);
    }
    s->c = constrain_hold(c);
    look(s, state);
    *out = s;
    return true;
}

void constrain_state_free(struct constrain_state *s)
{
    if (s) {
        constrain_free(s->c);
        free(s->text);
        free(s);
    }
}

bool constrain_mask(struct constrain_state *s, uint8_t *mask, struct engine_error *err)
{
    assert(s->c->trie);
    const struct mask *m = refresh(s, err) ? mask_of(s->c, s->state) : NULL;
    if (!m) {
        return cannot_go_on(s->c, err);
    }
    write_mask(m, s->c->trie, mask);
    return true;
}

/* The state after some bytes; PUSHDOWN_DEAD: they are not allowed. */
static uint32_t read_bytes(struct constrain *c, uint32_t state, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && state > PUSHDOWN_DEAD; i++) {
        state = pushdown_next(c->p, state, (uint8_t)bytes[i]);
    }
    return state;
}

bool constrain_mask_first(struct constrain_state *s, const struct tokenizer *t, uint8_t *mask,
                          struct engine_error *err)
{
    if (!refresh(s, err)) {
        return false;
    }
    int32_t n = s->c->trie->n_vocab, n_known = tokenizer_n_vocab(t);
    memset(mask, 0, (size_t)n);
    for (int32_t id = 0; id < n && id < n_known; id++) {
        size_t len;
        const char *bytes = tokenizer_piece(t, id, true, &len);
        uint32_t state = len > 0 && !tokenizer_is_special(t, id)
                             ? read_bytes(s->c, s->state, bytes, len)
                             : (uint32_t)PUSHDOWN_DEAD;
        if (state == PUSHDOWN_FAILED) {
            return cannot_go_on(s->c, err);
        }
        mask[id] = state != PUSHDOWN_DEAD;
    }
    return true;
}

bool constrain_advance(struct constrain_state *s, const char *bytes, size_t n,
                       struct engine_error *err)
{
    if (!refresh(s, err) || !room_for(&s->text, &s->cap, s->n + n, 1)) {
        return cannot_go_on(s->c, err);
    }
    uint32_t state = read_bytes(s->c, s->state, bytes, n);
    if (state == PUSHDOWN_FAILED) {
        return cannot_go_on(s->c, err);
    }
    if (state == PUSHDOWN_DEAD) {
        return engine_fail(err, ENGINE_INTERNAL, "", "a token was drawn that a mask forbids");
    }
    if (n > 0) {
        memcpy(s->text + s->n, bytes, n);
    }
    s->n += n;
    look(s, state);
    return true;
}

bool constrain_is_complete(const struct constrain_state *s)
{
    return s->is_complete;
}

bool constrain_is_final(const struct constrain_state *s)
{
    return s->is_final;
}

/* ---- those that were compiled last */

struct kept {
    struct constrain *c; /* NULL: none */
    char *text;          /* of its kind and value */
    uint64_t used;       /* when */
};
struct constrain_cache {
    const struct tokenizer *tokenizer;
    struct token_trie trie;
    bool has_trie;
    int32_t n_vocab;
    uint64_t now;
    struct kept kept[KEPT_MAX];
};

bool constrain_cache_new(struct constrain_cache **out, const struct tokenizer *t, int32_t n_vocab,
                         struct engine_error *err)
{
    struct constrain_cache *k = calloc(1, sizeof *k);
    if (!k) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for schemas");
    }
    k->tokenizer = t;
    k->n_vocab = n_vocab;
    *out = k;
    return true;
}

static void drop(struct kept *x)
{
    constrain_free(x->c);
    free(x->text);
    *x = (struct kept){.c = NULL};
}

void constrain_cache_free(struct constrain_cache *k)
{
    if (k) {
        for (size_t i = 0; i < KEPT_MAX; i++) {
            drop(&k->kept[i]);
        }
        token_trie_release(&k->trie);
        free(k);
    }
}

const struct token_trie *constrain_cache_trie(const struct constrain_cache *k)
{
    return &k->trie;
}

/* Names the field too, for errors of a later time do. The order of keys matters: properties come
 * in it. NULL: out of memory. */
static char *key_of(const struct constrain_spec *spec)
{
    static const char *const words[] = {"", "object ", "schema ", "regex ", "choice "};
    char *value = spec->value ? json_dumps(spec->value,
                                           JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17))
                              : strdup("");
    const char *word = words[spec->kind];
    size_t n = value ? strlen(spec->param) + strlen(word) + strlen(value) + 2 : 0;
    char *key = value ? malloc(n) : NULL;
    if (key) {
        (void)snprintf(key, n, "%s %s%s", spec->param, word, value);
    }
    free(value);
    return key;
}

/* The slot to be used next: an empty one, else the one that was not asked for the longest. */
static struct kept *oldest(struct constrain_cache *k)
{
    struct kept *at = &k->kept[0];
    for (size_t i = 0; i < KEPT_MAX; i++) {
        at = k->kept[i].used < at->used ? &k->kept[i] : at;
    }
    return at;
}

/* Lets go of the oldest until the rest is small enough. */
static void trim(struct constrain_cache *k)
{
    for (;;) {
        size_t bytes = 0, n = 0;
        struct kept *old = NULL;
        for (size_t i = 0; i < KEPT_MAX; i++) {
            struct kept *x = &k->kept[i];
            bytes += x->c ? bytes_of(x->c) : 0;
            n += x->c != NULL;
            old = x->c && (!old || x->used < old->used) ? x : old;
        }
        if (bytes <= KEPT_BYTES_MAX || n <= 1) {
            return;
        }
        drop(old);
    }
}

static bool add(struct constrain_cache *k, const struct constrain_spec *spec, char *key,
                struct constrain **out, struct engine_error *err)
{
    struct constrain *c;
    if (!constrain_new(&c, spec, err)) {
        free(key);
        return false;
    }
    struct kept *x = oldest(k);
    drop(x);
    *x = (struct kept){.c = c, .text = key, .used = ++k->now};
    trim(k);
    *out = constrain_hold(c);
    return true;
}

bool constrain_cache_get(struct constrain_cache *k, const struct constrain_spec *spec,
                         struct constrain **out, struct engine_error *err)
{
    char *key = key_of(spec);
    if (!k->has_trie) {
        k->has_trie = token_trie_init(&k->trie, k->tokenizer, k->n_vocab, err);
    }
    for (size_t i = 0; k->has_trie && key && i < KEPT_MAX; i++) {
        struct kept *x = &k->kept[i];
        if (x->c && strcmp(x->text, key) == 0) {
            x->used = ++k->now;
            *out = constrain_hold(x->c);
            free(key);
            return true;
        }
    }
    if (!k->has_trie) {
        free(key);
        return false;
    }
    if (!key) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a schema");
    }
    return add(k, spec, key, out, err);
}
