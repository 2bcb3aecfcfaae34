/* session.c - a token passes: constraint and sampler, end ids, text with stop strings, counts; each
 * may end the choice, in this order.
 *
 * Tokens with log-probabilities are reported when their text is: a token that may still turn out
 * to belong to a stop string waits with its text. So each token is remembered with the place of
 * its text in the decoded answer, and a decoder of our own measures that place, because one token
 * may end inside a character.
 *
 * At temperature 0 all choices are equal: one is computed, and each of its events is sent n times.
 */
#include "session.h"
#include "session_beam.h"
#include "session_echo.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- making and freeing */

static bool choice_init(struct session *s, struct session_choice *c,
                        const struct session_request *r, const struct session_engine *e,
                        struct engine_error *err)
{
    size_t n_eos;
    const int32_t *eos = tokenizer_eos(s->tokenizer, &n_eos);
    int32_t n_positions = (int32_t)((int64_t)s->n_prompt + s->n_tokens_max);
    c->matched_stop = -1;
    return kvcache_new_of(&c->cache, e->model, e->kv_type, &s->account, n_positions, err) &&
           (s->beam || sampler_new(&c->sampler, &s->sampling, s->n_vocab, eos, n_eos, s->prompt,
                                   s->n_prompt - s->n_given, r->seed, c->stream, err)) &&
           stop_new(&c->stop, r->stops, r->n_stops, err);
}

static void choice_release(struct session_choice *c)
{
    kvcache_free(c->cache);
    sampler_free(c->sampler);
    stop_free(c->stop);
    constrain_state_free(c->constraint);
    speculate_release(c->speculate);
    free(c->speculate);
    draft_sequence_free(c->draft);
    free(c->tokens);
    free(c->spans);
    free(c->tops);
    free(c->text);
}

/* Whether none of the prompt's tokens adds text. */
static bool has_no_text(const struct tokenizer *t, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!tokenizer_is_special(t, ids[i])) {
            return false;
        }
    }
    return true;
}

static bool choices_init(struct session *s, const struct session_request *r,
                         const struct session_engine *e, struct engine_error *err)
{
    s->choices = calloc(s->n_choices, sizeof *s->choices);
    s->prompt = malloc(r->n_prompt * sizeof *s->prompt);
    s->top = malloc((s->n_top + 1) * sizeof *s->top);
    if (!s->choices || !s->prompt || !s->top) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a session");
    }
    memcpy(s->prompt, r->prompt, r->n_prompt * sizeof *s->prompt);
    if (r->echo && !r->n_distribution && !session_echo_new(&s->echo, s->n_top, err)) {
        return false;
    }
    if (r->n_beams && !r->generates_nothing && !session_beam_new(&s->beam, s, r, err)) {
        return false;
    }
    for (uint32_t i = 0; i < s->n_choices; i++) {
        s->choices[i].stream = i;
        if (!choice_init(s, &s->choices[i], r, e, err)) {
            return false;
        }
    }
    return true;
}

/* One state for each choice; they share what is compiled. */
static bool constraints_init(struct session *s, const struct session_request *r,
                             struct constrain_cache *k, struct engine_error *err)
{
    struct constrain *shared;
    if (r->constraint.kind == CONSTRAIN_NOTHING) {
        return true;
    }
    s->mask = malloc((size_t)s->n_vocab);
    if (!s->mask) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a session");
    }
    if (!constrain_cache_get(k, &r->constraint, &shared, err)) {
        return false;
    }
    bool ok = true;
    for (uint32_t i = 0; ok && i < s->n_choices; i++) {
        ok = constrain_state_new(&s->choices[i].constraint, shared, constrain_cache_trie(k), err);
    }
    constrain_free(shared);
    return ok;
}

/* ---- room for keys and values */

/* Choices that are computed. */
static uint32_t n_computed(const struct session_request *r)
{
    bool is_one = r->sampling->temperature == 0 || r->n_distribution || r->generates_nothing;
    return r->n_beams && !r->generates_nothing ? r->n_beams : is_one ? 1 : r->best_of;
}

static int64_t n_tokens_max(const struct session_request *r, int32_t context)
{
    int64_t room = context - (int64_t)r->n_prompt;
    room = r->generates_nothing ? 0 : room;
    return r->max_tokens > 0 && r->max_tokens < room ? r->max_tokens : room;
}

/* Of a choice beside the whole blocks of the prompt, which all choices share. */
static size_t n_blocks_choice(const struct session_request *r, int32_t context)
{
    return kvcache_n_blocks((int64_t)r->n_prompt + n_tokens_max(r, context)) -
           r->n_prompt / KVPOOL_TOKENS;
}

size_t session_n_blocks(const struct session_request *r, int32_t context)
{
    return r->n_prompt / KVPOOL_TOKENS + n_computed(r) * n_blocks_choice(r, context);
}

void session_attach(struct session *s)
{
    struct kvcache *c = s->choices[0].cache;
    if (!s->echo && (size_t)kvcache_len(c) == s->n_evaluated) {
        kvpool_forgo(&s->account, kvcache_attach(c, s->prompt, s->n_prompt));
        s->n_evaluated = (size_t)kvcache_len(c);
    }
}

/* What the index has of the prompt needs no promise. */
static bool reserve(struct session *s, const struct session_request *r, int32_t context,
                    struct engine_error *err)
{
    session_attach(s);
    size_t n = session_n_blocks(r, context) - s->n_evaluated / KVPOOL_TOKENS;
    return kvpool_promise(&s->account, n) ||
           engine_fail(err, ENGINE_BUSY, "",
                       "keys and values of others leave no room for %zu blocks: try again later",
                       n);
}

bool session_new(struct session **out, const struct session_request *r,
                 const struct session_engine *e, struct engine_error *err)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a session");
    }
    const struct tokenizer *t = e->tokenizer;
    s->tokenizer = t;
    s->n_vocab = model_get_shape(e->model)->n_vocab;
    s->sampling = *r->sampling;
    s->n_prompt = r->n_prompt;
    s->account.pool = e->pool;
    s->n_blocks_choice = n_blocks_choice(r, e->context);
    s->follows_nothing = has_no_text(t, r->prompt, r->n_prompt);
    s->generates_nothing = r->generates_nothing;
    s->n_tokens_max = n_tokens_max(r, e->context);
    s->n = r->n;
    s->n_distribution = r->n_distribution;
    s->n_given = r->n_given;
    s->n_choices = n_computed(r);
    s->gathers = !r->n_beams && s->n_choices > s->n;
    s->logprobs = r->logprobs;
    s->logprobs_processed = r->logprobs_processed;
    s->n_top = r->n_top_logprobs;
    if (!choices_init(s, r, e, err) || !constraints_init(s, r, e->constraints, err) ||
        !reserve(s, r, e->context, err)) {
        sampler_config_init(&s->sampling); /* still the caller's */
        session_release(s);
        return false;
    }
    sampler_config_init(r->sampling);
    *out = s;
    return true;
}

void session_release(struct session *s)
{
    if (!s) {
        return;
    }
    for (uint32_t i = 0; s->choices && i < s->n_choices; i++) {
        choice_release(&s->choices[i]);
    }
    if (s->account.pool) {
        kvpool_forgo(&s->account, s->account.n_promised);
    }
    free(s->choices);
    free(s->prompt);
    free(s->top);
    session_beam_free(s->beam);
    session_echo_free(s->echo);
    free(s->mask);
    sampler_config_release(&s->sampling);
    free(s);
}

void session_fail(struct session *s, const struct engine_error *err)
{
    if (!s->is_done) {
        s->is_done = true;
        s->fn(&(struct session_event){.kind = SESSION_ERROR, .matched_stop = -1, .error = err},
              s->ud);
    }
}

/* ---- events */

static void send(struct session *s, const struct session_choice *c, struct session_event *ev)
{
    if (s->n_choices == 1) {
        for (ev->choice = 0; ev->choice < s->n; ev->choice++) {
            s->fn(ev, s->ud);
        }
        return;
    }
    ev->choice = c->stream;
    s->fn(ev, s->ud);
}

static void fill_finish(const struct session_choice *c, struct session_event *ev)
{
    *ev = (struct session_event){.kind = SESSION_FINISH,
                                 .finish = c->finish,
                                 .matched_stop = c->matched_stop,
                                 .n_generated = c->n_generated,
                                 .n_guessed = c->n_guessed,
                                 .n_guessed_right = c->n_guessed_right};
}

/* Text, and the tokens that are ready. */
static void fill_text(const struct session *s, struct session_choice *c, const char *text,
                      size_t len, struct session_event *ev)
{
    for (size_t i = 0; i < c->n_ready; i++) {
        c->tokens[i].top = s->n_top ? c->tops + i * s->n_top : NULL;
    }
    *ev = (struct session_event){.kind = SESSION_TEXT,
                                 .text = text,
                                 .len = len,
                                 .tokens = c->tokens,
                                 .n_tokens = c->n_ready,
                                 .matched_stop = -1};
}

static void forget_reported(const struct session *s, struct session_choice *c)
{
    if (c->n_ready == 0) {
        return;
    }
    size_t n = c->n_tokens - c->n_ready;
    memmove(c->tokens, c->tokens + c->n_ready, n * sizeof *c->tokens);
    memmove(c->spans, c->spans + c->n_ready, n * sizeof *c->spans);
    if (s->n_top) {
        memmove(c->tops, c->tops + c->n_ready * s->n_top, n * s->n_top * sizeof *c->tops);
    }
    c->n_tokens = n;
    c->n_ready = 0;
}

/* Keeps what candidates of best_of say until they are compared. */
static bool gather(struct session_choice *c, const char *text, size_t len, struct engine_error *err)
{
    if (len > c->text_cap - c->text_len) {
        size_t cap =
            c->text_cap * 2 > c->text_len + len ? c->text_cap * 2 : c->text_len + len + 256;
        char *p = realloc(c->text, cap);
        if (!p) {
            return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the text of an answer");
        }
        c->text = p;
        c->text_cap = cap;
    }
    if (len > 0) {
        memcpy(c->text + c->text_len, text, len);
    }
    c->text_len += len;
    return true;
}

/* Marks tokens as ready: all whose text was released; at a cut those that begin before it; at any
 * other end all. */
static void mark_ready(struct session_choice *c)
{
    while (c->n_ready < c->n_tokens) {
        const struct session_span *p = &c->spans[c->n_ready];
        bool is_out = p->end <= c->n_released;
        if (c->is_done) {
            is_out = c->matched_stop < 0 || p->start < c->n_released;
        }
        if (!is_out) {
            break;
        }
        c->n_ready++;
    }
}

static bool release_text(struct session *s, struct session_choice *c, const char *text, size_t len,
                         struct engine_error *err)
{
    c->n_released += len;
    mark_ready(c);
    if (s->gathers) {
        return gather(c, text, len, err);
    }
    if (len > 0 || c->n_ready > 0) {
        struct session_event ev;
        fill_text(s, c, text, len, &ev);
        send(s, c, &ev);
        forget_reported(s, c);
    }
    return true;
}

/* ---- best_of */

static double mean_logprob(const struct session_choice *c)
{
    assert(c->n_generated > 0);
    return c->logprob_sum / (double)c->n_generated;
}

/* Better first; the lower index at equal means. */
static int compare(const void *a, const void *b)
{
    const struct session_choice *x = *(struct session_choice *const *)a,
                                *y = *(struct session_choice *const *)b;
    double p = mean_logprob(x), q = mean_logprob(y);
    if (p != q) {
        return p > q ? -1 : 1;
    }
    return x->stream < y->stream ? -1 : 1;
}

static void send_best(struct session *s)
{
    struct session_choice *order[ENGINE_CHOICES_MAX];
    for (uint32_t i = 0; i < s->n_choices; i++) {
        order[i] = &s->choices[i];
    }
    qsort(order, s->n_choices, sizeof(order[0]), compare);
    for (uint32_t i = 0; i < s->n; i++) {
        struct session_event ev;
        fill_text(s, order[i], order[i]->text_len ? order[i]->text : "", order[i]->text_len, &ev);
        ev.choice = i;
        s->fn(&ev, s->ud);
        fill_finish(order[i], &ev);
        ev.choice = i;
        s->fn(&ev, s->ud);
    }
}

/* ---- a token */

static bool tokens_reserve(const struct session *s, struct session_choice *c,
                           struct engine_error *err)
{
    if (c->n_tokens < c->tokens_cap) {
        return true;
    }
    size_t cap = c->tokens_cap ? c->tokens_cap * 2 : 16;
    struct session_token *tokens = realloc(c->tokens, cap * sizeof *tokens);
    c->tokens = tokens ? tokens : c->tokens;
    struct session_span *spans = realloc(c->spans, cap * sizeof *spans);
    c->spans = spans ? spans : c->spans;
    struct sampler_top *tops = realloc(c->tops, (cap * s->n_top + 1) * sizeof *tops);
    c->tops = tops ? tops : c->tops;
    if (!tokens || !spans || !tops) {
        return engine_fail(err, ENGINE_NOMEM, "",
                           "out of memory for the log-probabilities of an answer");
    }
    c->tokens_cap = cap;
    return true;
}

/* Bytes of decoded text that these bytes complete. */
static size_t measure(struct utf8 *u, const char *bytes, size_t n)
{
    enum { STRIDE = 64 };
    char out[UTF8_OUT_MAX(STRIDE)];
    size_t len = 0;
    for (size_t i = 0; i < n; i += STRIDE) {
        len += utf8_feed(u, bytes + i, n - i < STRIDE ? n - i : STRIDE, out);
    }
    return len;
}

static bool record(struct session *s, struct session_choice *c, const struct session_token *t,
                   struct engine_error *err)
{
    if (!s->logprobs) {
        return true;
    }
    if (!tokens_reserve(s, c, err)) {
        return false;
    }
    c->tokens[c->n_tokens] = *t;
    c->tokens[c->n_tokens].is_first = s->follows_nothing && c->n_generated == 1;
    if (s->n_top) {
        memcpy(c->tops + c->n_tokens * s->n_top, t->top, s->n_top * sizeof *c->tops);
    }
    return true;
}

/* After record(): the token takes its place in the text. */
static void place(struct session_choice *c, const char *bytes, size_t n)
{
    size_t start = c->n_decoded;
    c->n_decoded += measure(&c->measure, bytes, n);
    c->spans[c->n_tokens++] = (struct session_span){start, c->n_decoded};
}

bool session_is_end(const struct session *s, int32_t id)
{
    size_t n;
    const int32_t *eos = tokenizer_eos(s->tokenizer, &n);
    for (size_t i = 0; i < n; i++) {
        if (eos[i] == id) {
            return true;
        }
    }
    for (size_t i = 0; i < s->sampling.n_stop_ids; i++) {
        if (s->sampling.stop_ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* The end of a choice, and of the session when it was the last. */
static void finish(struct session *s, struct session_choice *c)
{
    kvcache_free(c->cache);
    c->cache = NULL;
    kvpool_forgo(&s->account, s->n_blocks_choice);
    if (!s->gathers) {
        struct session_event ev;
        fill_finish(c, &ev);
        send(s, c, &ev);
    }
    for (uint32_t i = 0; i < s->n_choices; i++) {
        if (!s->choices[i].is_done) {
            return;
        }
    }
    if (s->gathers) {
        send_best(s);
    }
    s->is_done = true;
}

/* Ends c but for a stop string: what was held back is released, and may complete one after all. */
static bool end_choice(struct session *s, struct session_choice *c, const char *word,
                       struct engine_error *err)
{
    const char *text;
    size_t len;
    int matched;
    if (!stop_finish(c->stop, &text, &len, &matched, err)) {
        return false;
    }
    c->is_done = true;
    c->finish = matched >= 0 ? "stop" : word;
    c->matched_stop = matched;
    if (!release_text(s, c, text, len, err)) {
        return false;
    }
    finish(s, c);
    return true;
}

const char *session_piece(const struct session *s, int32_t id, int64_t n, size_t *len)
{
    return tokenizer_piece(s->tokenizer, id, s->follows_nothing && n == 1, len);
}

static bool add_text(struct session *s, struct session_choice *c, int32_t id,
                     struct engine_error *err)
{
    const char *text;
    size_t n, len;
    int matched;
    const char *bytes = session_piece(s, id, c->n_generated, &n);
    if (c->constraint && !constrain_advance(c->constraint, bytes, n, err)) {
        return false;
    }
    bool may_match = c->n_generated > s->sampling.min_tokens;
    if (!stop_push(c->stop, bytes, n, may_match, &text, &len, &matched, err)) {
        return false;
    }
    if (s->logprobs) {
        place(c, bytes, n);
    }
    if (matched >= 0) {
        c->is_done = true;
        c->finish = "stop";
        c->matched_stop = matched;
    }
    return release_text(s, c, text, len, err);
}

/* ---- a constraint */

/* The end token may come where the text is whole, whatever the constraint says of other tokens; so
 * may those of stop_token_ids, which end the answer as well. */
static void allow_ends(const struct session *s, const struct session_choice *c)
{
    size_t n;
    const int32_t *eos = tokenizer_eos(s->tokenizer, &n);
    bool is_complete = constrain_is_complete(c->constraint);
    for (size_t i = 0; i < n; i++) {
        s->mask[eos[i]] = is_complete;
    }
    for (size_t i = 0; i < s->sampling.n_stop_ids; i++) {
        s->mask[s->sampling.stop_ids[i]] = is_complete;
    }
}

/* Nothing can follow and no end token may be drawn: the text ends all the same. */
static bool is_over(const struct session *s, const struct session_choice *c)
{
    size_t n_eos;
    (void)tokenizer_eos(s->tokenizer, &n_eos);
    bool can_end = c->n_generated >= s->sampling.min_tokens &&
                   ((n_eos > 0 && !s->sampling.ignore_eos) || s->sampling.n_stop_ids > 0);
    return c->constraint && constrain_is_final(c->constraint) && !can_end;
}

/* *mask: NULL without a constraint. */
static bool find_mask(const struct session *s, const struct session_choice *c, const uint8_t **mask,
                      struct engine_error *err)
{
    *mask = NULL;
    if (!c->constraint) {
        return true;
    }
    bool is_first = s->follows_nothing && c->n_generated == 0;
    if (!(is_first ? constrain_mask_first(c->constraint, s->tokenizer, s->mask, err)
                   : constrain_mask(c->constraint, s->mask, err))) {
        return false;
    }
    allow_ends(s, c);
    *mask = s->mask;
    return true;
}

bool session_accept(struct session *s, struct session_choice *c, int32_t id,
                    const struct session_token *t, struct engine_error *err)
{
    c->n_generated++;
    if (session_is_end(s, id)) {
        return end_choice(s, c, "stop", err);
    }
    if (!record(s, c, t, err) || !add_text(s, c, id, err)) {
        return false;
    }
    if (c->is_done) {
        finish(s, c);
        return true;
    }
    c->last = id;
    if (c->speculate) {
        speculate_push(c->speculate, id);
    }
    /* n_tokens_max is what was asked for or what the context has room for, whichever is less: both
     * end with "length". */
    return c->n_generated < s->n_tokens_max || end_choice(s, c, "length", err);
}

static bool take(struct session *s, struct session_choice *c, const float *logits,
                 struct engine_error *err)
{
    struct session_token t = {.top = s->top};
    const uint8_t *mask;
    if (is_over(s, c)) {
        return end_choice(s, c, "stop", err);
    }
    if (!find_mask(s, c, &mask, err) || !sampler_next(c->sampler, logits, mask, &t.id, err)) {
        return false;
    }
    if (s->gathers) {
        double logprob;
        sampler_logprobs(NULL, logits, s->n_vocab, t.id, 0, &logprob, NULL);
        c->logprob_sum += logprob;
    }
    if (s->logprobs && !session_is_end(s, t.id)) {
        sampler_logprobs(s->logprobs_processed ? c->sampler : NULL, logits, s->n_vocab, t.id,
                         s->n_top, &t.logprob, s->top);
    }
    return session_accept(s, c, t.id, &t, err);
}

void session_advance(struct session *s, struct session_choice *c, const float *logits)
{
    struct engine_error err = {.code = ENGINE_OK};
    assert(!s->is_done && !c->is_done);
    bool ok = s->beam ? session_beam_take(s, c, logits, &err) : take(s, c, logits, &err);
    if (!ok) {
        session_fail(s, &err);
    }
}

/* ---- guesses */

void session_speculate(struct session *s, double row_cost, struct draft *d)
{
    if (s->beam || s->n_distribution) {
        return;
    }
    for (uint32_t i = 0; i < s->n_choices; i++) {
        struct speculate *p = malloc(sizeof *p);
        if (!p) {
            return;
        }
        speculate_init(p, row_cost);
        for (size_t j = 0; j < s->n_prompt; j++) {
            speculate_push(p, s->prompt[j]);
        }
        s->choices[i].speculate = p;
        if (d) {
            s->choices[i].draft =
                draft_sequence_new(d, (int32_t)((int64_t)s->n_prompt + s->n_tokens_max));
        }
    }
}

size_t session_guess(const struct session *s, struct session_choice *c, int32_t *tokens,
                     size_t n_max)
{
    /* the last token of all is drawn, never evaluated */
    size_t n_useful = (size_t)(s->n_tokens_max - c->n_generated - 1), n = 0;
    n_max = n_max < n_useful ? n_max : n_useful;
    if (c->speculate) {
        n = speculate_guess(c->speculate, tokens, n_max);
    }
    if (n == 0 && c->draft && !c->speculate->is_over) {
        n = draft_guess(c->draft, c->speculate->tokens, c->speculate->n, tokens, n_max);
    }
    for (size_t i = 0; i < n; i++) {
        if (session_is_end(s, tokens[i])) {
            n = i;
        }
    }
    c->has_erred = false;
    c->n_guessed += (int64_t)n;
    return n;
}

bool session_guess_holds(const struct session *s, struct session_choice *c, int32_t token)
{
    if (c->is_done || c->has_erred) {
        return false;
    }
    if (c->last == token) {
        c->n_guessed_right++;
        return true;
    }
    c->has_erred = true;
    kvcache_truncate(c->cache, (int32_t)((int64_t)s->n_prompt + c->n_generated - 1));
    return false;
}

/* The given tokens are c's first ones. */
static bool assume_given(struct session *s, struct session_choice *c, struct engine_error *err)
{
    const int32_t *ids = s->prompt + s->n_prompt - s->n_given;
    struct engine_error own = {.code = ENGINE_OK};
    for (size_t i = 0; c->constraint && i < s->n_given; i++) {
        size_t n;
        const char *bytes = session_piece(s, ids[i], (int64_t)i + 1, &n);
        if (!constrain_advance(c->constraint, bytes, n, &own)) {
            return engine_fail(err, own.code == ENGINE_INTERNAL ? ENGINE_BAD_PARAM : own.code,
                               "generated",
                               "the answer's form does not allow token %zu of "
                               "'generated'",
                               i);
        }
        c->n_generated++;
    }
    return sampler_assume(c->sampler, ids, s->n_given, err);
}

static bool distribute(struct session *s, const float *logits, struct engine_error *err)
{
    struct session_choice *c = &s->choices[0];
    struct distribution *d;
    const uint8_t *mask;
    if (!assume_given(s, c, err) || !find_mask(s, c, &mask, err) ||
        !distribution_new(&d, c->sampler, &s->sampling, logits, mask, s->n_vocab, s->n_distribution,
                          err)) {
        return false;
    }
    s->is_done = true;
    s->fn(&(struct session_event){.kind = SESSION_DISTRIBUTION,
                                  .matched_stop = -1,
                                  .distribution = d,
                                  .is_first = s->follows_nothing},
          s->ud);
    distribution_free(d);
    return true;
}

bool session_wants_logits(const struct session *s, size_t i)
{
    return (s->echo && s->logprobs) || i + 1 == s->n_prompt;
}

static bool begin(struct session *s, const float *logits, struct engine_error *err)
{
    if (s->n_distribution) {
        return distribute(s, logits, err);
    }
    if (s->generates_nothing) {
        return end_choice(s, &s->choices[0], "length", err);
    }
    uint32_t n = s->beam ? 1 : s->n_choices; /* one hypothesis, which is empty */
    for (uint32_t i = 1; i < n; i++) {
        kvcache_share(s->choices[i].cache, s->choices[0].cache, (int32_t)s->n_prompt);
    }
    for (uint32_t i = 0; i < n && !s->is_done; i++) {
        session_advance(s, &s->choices[i], logits);
    }
    return true;
}

void session_prompted(struct session *s, const float *logits)
{
    struct engine_error err = {.code = ENGINE_OK};
    bool ok = !s->echo || session_echo_take(s, logits, &err);
    if (ok && s->n_evaluated == s->n_prompt) {
        ok = begin(s, logits, &err);
    }
    if (!ok) {
        session_fail(s, &err);
    }
}
