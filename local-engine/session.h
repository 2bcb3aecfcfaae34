/* session.h - one request inside the engine: its choices, and what a new token means for each. For
 * engine.c and session.c only.
 *
 * The engine evaluates tokens and hands a choice the logits of its last one; session_advance()
 * draws the next token, turns it into events and decides whether the choice ends. Nothing here
 * knows about batches.
 */
#ifndef ISOTHERM_SESSION_H
#define ISOTHERM_SESSION_H

#include "draft.h"
#include "engine.h"
#include "kvcache.h"
#include "speculate.h"
#include "utf8.h"

/* Where a token's text lies in the choice's decoded text. */
struct session_span {
    size_t start, end;
};

struct session_beam; /* session_beam.h */
struct session_echo; /* session_echo.h */

struct session_choice {
    uint32_t stream; /* its random stream */
    struct kvcache *cache;
    struct sampler *sampler;
    struct stop *stop;
    struct constrain_state *constraint; /* NULL: none */
    int32_t last;                       /* to be evaluated next */
    struct speculate *speculate;        /* NULL: nothing is guessed */
    struct draft_sequence *draft;       /* NULL: no draft model. Asked where there is no guess */
    int64_t n_guessed, n_guessed_right;
    bool has_erred; /* in this step: the drawn token was not the guessed one */
    bool is_done;
    bool is_idle;       /* with a beam: nothing of it is to be evaluated now */
    const char *finish; /* once is_done */
    int32_t matched_stop;
    int64_t n_generated;
    double logprob_sum; /* raw; with best_of only */
    size_t n_released;  /* bytes of text */
    /* With logprobs: tokens that were not reported yet; the first n_ready of them may be. */
    struct utf8 measure;
    size_t n_decoded;
    struct session_token *tokens;
    struct session_span *spans;
    struct sampler_top *tops; /* [tokens_cap][n_top] */
    size_t n_tokens, n_ready, tokens_cap;
    /* With best_of: the text so far. */
    char *text;
    size_t text_len, text_cap;
};

struct session {
    struct engine *engine;
    const struct tokenizer *tokenizer;
    int32_t n_vocab;
    session_event_fn *fn;
    void *ud;
    struct sampler_config sampling;
    int32_t *prompt;
    uint32_t n_distribution;      /* 0: generates */
    size_t n_given;               /* last tokens of the prompt that count as generated */
    size_t n_prompt, n_evaluated; /* tokens of the prompt that are in the first choice's cache */
    bool follows_nothing;         /* the prompt has no text */
    int64_t n_tokens_max;         /* of a choice */
    uint32_t n;                   /* choices that the caller gets */
    bool logprobs, logprobs_processed, gathers;
    uint32_t n_top;
    struct sampler_top *top;        /* [n_top]: of the token in hand */
    struct session_choice *choices; /* [n_choices]: those that are computed */
    uint32_t n_choices;
    struct kvaccount account;  /* of the choices' caches */
    size_t n_blocks_choice;    /* what a choice may need beside the prompt */
    struct session_beam *beam; /* NULL: sampling. Else a choice for each hypothesis */
    struct session_echo *echo; /* NULL: the prompt is not told */
    bool generates_nothing;
    uint32_t turn; /* whose row comes first in the next batch, when not all fit */
    bool is_done;
    uint8_t *mask; /* [n_vocab] with a constraint */
};

/* What sessions of an engine have in common. Borrowed. */
struct session_engine {
    const struct model *model;
    const struct tokenizer *tokenizer;
    struct constrain_cache *constraints;
    struct kvpool *pool;
    enum kernels_type kv_type;
    int32_t context; /* the model's, or less where the pool is smaller */
};
/* Blocks of keys and values that the request may need at once; checked but for them. */
size_t session_n_blocks(const struct session_request *r, int32_t context);
/* Checked before. Makes all that a session needs and is promised its blocks, so that memory runs
 * out here or not at all (but for collected text). ENGINE_BUSY: not as many blocks are free now. */
ENGINE_WARN_UNUSED bool session_new(struct session **out, const struct session_request *r,
                                    const struct session_engine *e, struct engine_error *err);
/* Frees the memory alone. */
void session_release(struct session *s);
/* Of the prompt's next blocks those that others have evaluated. */
void session_attach(struct session *s);
/* Whether the logits after token i of the prompt are wanted. */
bool session_wants_logits(const struct session *s, size_t i);
/* Logits [n_vocab] that were wanted, after the first s->n_evaluated tokens of the prompt. After the
 * last one a first token of each choice is drawn. What goes wrong becomes an error event and the
 * session's end. */
void session_prompted(struct session *s, const float *logits);
/* The logits after c's last token: draws the next one. */
void session_advance(struct session *s, struct session_choice *c, const float *logits);
/* Guesses from now on, where that may be of use; row_cost: see speculate_init(); d: NULL, or the
 * draft model that is asked where nothing is found. For a session with no token yet. Without memory
 * there are no guesses. */
void session_speculate(struct session *s, double row_cost, struct draft *d);
/* The tokens after c->last, guessed: those whose logits may be of use, at most n_max. */
size_t session_guess(const struct session *s, struct session_choice *c, int32_t *tokens,
                     size_t n_max);
/* For each guessed token of c in order, once the logits before it were handed over: whether it is
 * the one that was drawn, so that its own logits count. Where it is not, the cache forgets it and
 * what follows it, and no later one holds. */
bool session_guess_holds(const struct session *s, struct session_choice *c, int32_t token);
void session_fail(struct session *s, const struct engine_error *err);

/* ---- for session_beam.c */

/* Whether the token ends a choice: an end token of the model or a stop token. */
bool session_is_end(const struct session *s, int32_t id);
/* Bytes that the token adds to a choice as its n-th one, from 1. */
const char *session_piece(const struct session *s, int32_t id, int64_t n, size_t *len);
/* id is c's next token: events, and the end where it ends c. With logprobs, t has what is to be
 * reported of it; n_top of t->top. */
ENGINE_WARN_UNUSED bool session_accept(struct session *s, struct session_choice *c, int32_t id,
                                       const struct session_token *t, struct engine_error *err);

#endif
