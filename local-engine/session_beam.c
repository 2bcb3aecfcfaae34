/* session_beam.c - one sampler follows all hypotheses in turn (sampler_assume); caches are handed
 * from parents to children.
 *
 * The first child of a hypothesis goes on in its cache. Every further one takes the cache of a
 * hypothesis that has died and shares the parent's keys and values in it.
 */
#include "session_beam.h"
#include "beam.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct session_beam {
    struct beam *beam;
    struct sampler *sampler;
    struct stop *stop;       /* NULL: no stop strings */
    uint32_t n_waiting;      /* hypotheses whose logits are still to come in this step */
    int32_t *tokens, *nodes; /* [n_tokens_max]: a path */
    /* With logprobs: */
    float *logits;               /* [width][n_vocab], of each hypothesis */
    struct sampler_top *reports; /* by node: the token itself, then n_top */
    size_t nodes_cap;
};

static bool no_memory(struct engine_error *err)
{
    return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a beam search");
}

bool session_beam_new(struct session_beam **out, struct session *s, const struct session_request *r,
                      struct engine_error *err)
{
    struct session_beam *b = calloc(1, sizeof *b);
    struct beam_config c = {.width = r->n_beams,
                            .n_best = r->n,
                            .len_max = s->n_tokens_max,
                            .length_penalty = r->length_penalty};
    size_t n_eos, n = (size_t)s->n_tokens_max + 1;
    const int32_t *eos = tokenizer_eos(s->tokenizer, &n_eos);
    if (!b) {
        return no_memory(err);
    }
    b->tokens = malloc(n * sizeof *b->tokens);
    b->nodes = malloc(n * sizeof *b->nodes);
    if (s->logprobs) {
        b->logits = malloc((size_t)r->n_beams * (size_t)s->n_vocab * sizeof *b->logits);
    }
    bool ok = b->tokens && b->nodes && (b->logits || !s->logprobs);
    ok = ok || no_memory(err);
    ok = ok && beam_new(&b->beam, &c, err) &&
         sampler_new(&b->sampler, &s->sampling, s->n_vocab, eos, n_eos, s->prompt, s->n_prompt,
                     r->seed, 0, err) &&
         (r->n_stops == 0 || stop_new(&b->stop, r->stops, r->n_stops, err));
    if (!ok) {
        session_beam_free(b);
        return false;
    }
    for (uint32_t i = 0; i < s->n_choices; i++) {
        s->choices[i].is_idle = i > 0;
    }
    b->n_waiting = 1;
    *out = b;
    return true;
}

void session_beam_free(struct session_beam *b)
{
    if (!b) {
        return;
    }
    beam_free(b->beam);
    sampler_free(b->sampler);
    stop_free(b->stop);
    free(b->tokens);
    free(b->nodes);
    free(b->logits);
    free(b->reports);
    free(b);
}

/* ---- new hypotheses */

static bool nodes_reserve(struct session *s, struct session_beam *b, struct engine_error *err)
{
    size_t n = beam_n_nodes(b->beam);
    if (n <= b->nodes_cap) {
        return true;
    }
    size_t cap = b->nodes_cap * 2 > n ? b->nodes_cap * 2 : n + 256;
    struct sampler_top *p = realloc(b->reports, cap * (1 + (size_t)s->n_top) * sizeof *p);
    if (!p) {
        return no_memory(err);
    }
    b->reports = p;
    b->nodes_cap = cap;
    return true;
}

/* The node's own entry; those of the alternatives follow. */
static struct sampler_top *report_of(const struct session *s, int32_t node)
{
    return s->beam->reports + (size_t)node * (1 + (size_t)s->n_top);
}

/* Whether the text of a hypothesis has come to a stop string. */
static bool meets_stop(struct session *s, struct session_beam *b, int32_t node, bool *met,
                       struct engine_error *err)
{
    size_t n = beam_depth(b->beam, node);
    int matched = -1;
    beam_tokens(b->beam, node, b->tokens, NULL);
    stop_reset(b->stop);
    for (size_t i = 0; i < n && matched < 0; i++) {
        const char *text;
        size_t len, n_bytes;
        const char *bytes = session_piece(s, b->tokens[i], (int64_t)i + 1, &n_bytes);
        bool may_match = (int64_t)i + 1 > s->sampling.min_tokens;
        if (!stop_push(b->stop, bytes, n_bytes, may_match, &text, &len, &matched, err)) {
            return false;
        }
    }
    *met = matched >= 0;
    return true;
}

static bool on_new(const struct beam *beam, int32_t node, uint32_t parent, bool *ends, void *ud,
                   struct engine_error *err)
{
    struct session *s = ud;
    struct session_beam *b = s->beam;
    int32_t token = beam_token(beam, node);
    if (s->logprobs) {
        if (!nodes_reserve(s, b, err)) {
            return false;
        }
        struct sampler_top *own = report_of(s, node);
        sampler_logprobs(NULL, b->logits + (size_t)parent * (size_t)s->n_vocab, s->n_vocab, token,
                         s->n_top, &own->logprob, own + 1);
    }
    *ends = session_is_end(s, token);
    return *ends || !b->stop || meets_stop(s, b, node, ends, err);
}

/* ---- caches */

/* A choice as it was before the step. */
struct place {
    struct kvcache *cache;
    bool is_taken;
};

static struct place *free_place(struct place *places, uint32_t n, const bool *is_parent)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!places[i].is_taken && !is_parent[i]) {
            return &places[i];
        }
    }
    return NULL;
}

/* Gives each alive hypothesis a cache with its parent's tokens, and its own token to evaluate. */
static void hand_over(struct session *s)
{
    struct session_beam *b = s->beam;
    struct place places[BEAM_WIDTH_MAX];
    bool is_parent[BEAM_WIDTH_MAX] = {false};
    uint32_t n_alive = beam_n_alive(b->beam), n = s->n_choices;
    for (uint32_t i = 0; i < n; i++) {
        places[i] = (struct place){s->choices[i].cache, false};
    }
    for (uint32_t i = 0; i < n_alive; i++) {
        is_parent[beam_parent(b->beam, i)] = true;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct session_choice *c = &s->choices[i];
        c->is_idle = i >= n_alive;
        struct place *from = c->is_idle ? NULL : &places[beam_parent(b->beam, i)];
        struct place *own = from;
        if (!from || from->is_taken) {
            own = free_place(places, n, is_parent);
        }
        assert(own);
        if (from && own != from) {
            kvcache_share(own->cache, from->cache, kvcache_len(from->cache));
        }
        own->is_taken = true;
        c->cache = own->cache;
        c->last = c->is_idle ? 0 : beam_token(b->beam, beam_node(b->beam, i));
    }
}

/* ---- the end */

static bool say(struct session *s, struct session_choice *c, int32_t node, struct engine_error *err)
{
    struct session_beam *b = s->beam;
    size_t n = beam_depth(b->beam, node);
    beam_tokens(b->beam, node, b->tokens, b->nodes);
    for (size_t i = 0; i < n; i++) {
        assert(!c->is_done);
        struct session_token t = {.id = b->tokens[i]};
        if (s->logprobs) {
            t.logprob = report_of(s, b->nodes[i])->logprob;
            t.top = report_of(s, b->nodes[i]) + 1;
        }
        if (!session_accept(s, c, t.id, &t, err)) {
            return false;
        }
    }
    assert(c->is_done);
    return true;
}

static bool say_all(struct session *s, struct engine_error *err)
{
    const struct beam_result *r;
    size_t n = beam_results(s->beam->beam, &r);
    if (n < s->n) {
        return engine_fail(err, ENGINE_NO_CANDIDATE, "n",
                           "bans leave only %zu of the %u answers of the beam search: allow more "
                           "tokens or ask for fewer answers",
                           n, s->n);
    }
    for (uint32_t i = s->n; i < s->n_choices; i++) {
        s->choices[i].is_done = true;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        if (!say(s, &s->choices[i], r[i].node, err)) {
            return false;
        }
    }
    return true;
}

/* ---- logits */

static bool step(struct session *s, struct engine_error *err)
{
    struct session_beam *b = s->beam;
    if (!beam_step(b->beam, on_new, s, err)) {
        return false;
    }
    b->n_waiting = beam_n_alive(b->beam);
    if (b->n_waiting == 0) {
        return say_all(s, err);
    }
    hand_over(s);
    return true;
}

bool session_beam_take(struct session *s, struct session_choice *c, const float *logits,
                       struct engine_error *err)
{
    struct session_beam *b = s->beam;
    uint32_t i = (uint32_t)(c - s->choices);
    int32_t node = beam_node(b->beam, i);
    struct engine_error own = {.code = ENGINE_OK};
    const double *scores;
    beam_tokens(b->beam, node, b->tokens, NULL);
    if (!sampler_assume(b->sampler, b->tokens, beam_depth(b->beam, node), err)) {
        return false;
    }
    if (!sampler_scores(b->sampler, logits, NULL, &scores, &own)) {
        if (own.code != ENGINE_NO_CANDIDATE) {
            return engine_fail(err, own.code, own.param, "%s", own.text);
        }
        scores = NULL; /* this one cannot go on; others may */
    }
    if (b->logits) {
        memcpy(b->logits + (size_t)i * (size_t)s->n_vocab, logits,
               (size_t)s->n_vocab * sizeof *logits);
    }
    beam_offer(b->beam, i, scores, s->n_vocab);
    c->is_idle = true;
    return --b->n_waiting > 0 || step(s, err);
}
