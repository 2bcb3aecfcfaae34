/* engine.h - contract 1 of the local engine: an engine (one loaded model, immutable) and sessions
 * (one request each). No tensor crosses it.
 *
 * The same request gives the same bytes whatever else runs or ran before, on any batch, thread
 * count and supported processor. Requests that begin with the same tokens share the work and the
 * memory for them: keys and values of whole blocks of 32 tokens stay until their memory is needed.
 * One thread owns an engine and calls engine_step(); nothing here locks.
 */
#ifndef ISOTHERM_ENGINE_H
#define ISOTHERM_ENGINE_H

#include "constrain.h"
#include "distribution.h"
#include "model.h"
#include "sampler.h"
#include "stop.h"
#include "tokenizer.h"

#define ENGINE_VERSION      "0.1.0"
#define ENGINE_CHOICES_MAX  128 /* n and best_of */
#define ENGINE_SESSIONS_MAX 64  /* so that each gets a row of every prefill chunk */

struct engine;
struct session;

/* Tokens that are guessed and evaluated beside the one that is known (speculate.h). What is drawn,
 * and everything that is said of it, is the same with any of these; choices of one session may get
 * ahead of each other. */
enum engine_speculation {
    ENGINE_SPECULATION_LOOKUP, /* from what the sequence has said before, where it is worth it */
    ENGINE_SPECULATION_OFF,
    ENGINE_SPECULATION_ALWAYS /* for tests: lookup, however seldom it is right */
};

/* "off", "lookup"; false: there is no such word. */
bool engine_speculation_parse(const char *word, enum engine_speculation *out);

struct engine_options {
    int n_threads;      /* 0: one for each core, at most 8 */
    int n_sessions_max; /* 0: 16; at most ENGINE_SESSIONS_MAX */
    /* Keys and values of all sessions, 0: room for 128 contexts (the choices that one request may
     * have), but at most a quarter of the machine's memory and at least one context. What is below
     * one context makes the context as much shorter. */
    int64_t kv_bytes_max;
    bool is_kv_f16;    /* they are kept as float16: half the memory, other bits */
    const char *known; /* a file of hashes (known.h), or NULL */
    enum engine_speculation speculation;
    const char *draft_path; /* NULL, or a model that guesses (draft.h), unless speculation is off */
};
/* `path`: a folder or a .gguf file. Its tokenizer: see tokenizer_source.h. */
ENGINE_WARN_UNUSED bool engine_open(struct engine **out, const char *path,
                                    const struct engine_options *o, struct engine_error *err);
void engine_close(struct engine *e);
/* In two steps, for who can open no files later, and again and again. Mapped: the files are opened,
 * mapped and looked at; shape, bytes and the chat template are known, nothing else may be asked.
 * engine_load() opens nothing and may run on another thread, beside other engines' steps; where it
 * fails the engine is still mapped. engine_unload() is for a loaded one without sessions and gives
 * its memory back. A file that another replaces is read as it was when it was mapped. */
ENGINE_WARN_UNUSED bool engine_map(struct engine **out, const char *path,
                                   const struct engine_options *o, struct engine_error *err);
ENGINE_WARN_UNUSED bool engine_load(struct engine *e, struct engine_error *err);
/* Does now what the first answer, and the steps of all others with it, would wait for: reads the
 * weights, those of a draft model, too, and computes the fingerprint. As engine_load() it may run
 * on another thread. */
void engine_warm(struct engine *e);
void engine_unload(struct engine *e);
const struct tokenizer *engine_tokenizer(const struct engine *e);
const struct model *engine_model(const struct engine *e); /* for measuring it alone */
/* The text of the chat template in the model's files, for chat_open(); NULL: there is none. */
const char *engine_chat_template(const struct engine *e, size_t *len);
const struct model_shape *engine_shape(const struct engine *e);
int32_t engine_context(const struct engine *e); /* positions: the shape's, or what memory allows */
int64_t engine_weight_bytes(const struct engine *e); /* of the weights' file */
/* What it takes when loaded: the weights, read or not, and an estimate of the rest; caches of keys
 * and values come on top. */
int64_t engine_loaded_bytes(const struct engine *e);
/* Stable text of what computes the answers: engine version, numerics, hashes of weights, of the
 * configuration (config.json, generation_config.json, tokenizer_config.json, chat_template.*) and
 * of the tokenizer; how keys and values are kept and what context they leave, where not the usual.
 * Part of the fingerprint. The first call reads all weights; it opens
 * nothing. */
const char *engine_fingerprint(struct engine *e);
/* What known.h wants to keep. Reads all weights where the hash is not known; *hash is the
 * engine's. */
void engine_weights_hash(struct engine *e, char identity[65], const char **hash);

/* A request. Strings and arrays are borrowed until session_start returns. */
struct session_request {
    const int32_t *prompt;
    size_t n_prompt;                 /* token ids, with bos */
    struct sampler_config *sampling; /* taken over: moved into the session */
    int64_t max_tokens;              /* <= 0: as many as the context has room for */
    bool generates_nothing;          /* the prompt may then fill the context; each of the n answers
                                        ends with "length" */
    bool echo; /* the prompt's text begins each answer; with logprobs so do its tokens, with raw
                  log-probabilities, the first without */
    uint32_t n, best_of;   /* 1 <= n <= best_of */
    uint32_t n_beams;      /* 0: sampling; else n <= n_beams <= BEAM_WIDTH_MAX */
    double length_penalty; /* with beams */
    int64_t seed;
    const char *const *stops;
    size_t n_stops;
    bool logprobs;
    uint32_t n_top_logprobs;
    bool logprobs_processed;
    struct constrain_spec constraint; /* what the text must be; CONSTRAIN_NOTHING: anything */
    /* Not 0: nothing is generated. The distribution after the prompt, its n_distribution first
     * tokens, is all there is; the prompt's last n_given tokens count as generated. */
    uint32_t n_distribution;
    size_t n_given;
};

enum session_event_kind { SESSION_TEXT, SESSION_FINISH, SESSION_ERROR, SESSION_DISTRIBUTION };
/* top: n_top_logprobs of them. is_first: see tokenizer_piece(). */
struct session_token {
    int32_t id;
    bool is_first;
    bool is_unscored; /* the first of an echoed prompt: nothing comes before it */
    double logprob;
    const struct sampler_top *top;
};
struct session_event {
    enum session_event_kind kind;
    uint32_t choice;
    const char *text;
    size_t len; /* SESSION_TEXT: may be "" when only tokens are reported */
    /* With logprobs asked: the tokens whose text is whole in what was released. The end token and
     * those of a stop string are not reported. */
    const struct session_token *tokens;
    size_t n_tokens;
    const char *finish;   /* SESSION_FINISH: "stop" or "length" */
    int32_t matched_stop; /* SESSION_FINISH: index into stops, or -1 */
    int64_t n_generated;  /* SESSION_FINISH: tokens of this choice, the end token included */
    /* SESSION_FINISH: tokens of this choice that were guessed, and those of them that were right.
     * They depend on the company. */
    int64_t n_guessed, n_guessed_right;
    const struct engine_error *error;        /* SESSION_ERROR: ends the whole session */
    const struct distribution *distribution; /* SESSION_DISTRIBUTION: ends it too */
    bool is_first; /* SESSION_DISTRIBUTION: as a token's, see tokenizer_piece() */
};
/* Called from engine_step(); pointers are valid during the call, and it may not start or free
 * sessions. */
typedef void session_event_fn(const struct session_event *ev, void *ud);

/* Checks, and queues the session. ENGINE_CONTEXT_FULL names both numbers; ENGINE_BUSY:
 * n_sessions_max are running, or they leave no memory for the keys and values that this one may
 * come to; what could never have it is ENGINE_CONTEXT_FULL, with both numbers. best_of > n: the
 * candidates are gathered and the n best by mean logprob come at the end, in order. n > 1 at
 * temperature 0: computed once, copied. n_beams: the n best of a beam search (beam.h) over
 * log-probabilities after penalties and bans; temperature, filters and seed do nothing; a stop
 * string ends a hypothesis as an end token does. On failure r->sampling is still the caller's. */
ENGINE_WARN_UNUSED bool session_start(struct engine *e, const struct session_request *r,
                                      session_event_fn *fn, void *ud, struct session **out,
                                      struct engine_error *err);
/* The checks alone: what session_start() would say of it but for memory and ENGINE_BUSY. A
 * constraint is compiled here, and kept for the session. */
ENGINE_WARN_UNUSED bool session_check(const struct engine *e, const struct session_request *r,
                                      struct engine_error *err);
/* Frees a running or an ended session; no event after this. Its slot is free at once; an ended one
 * holds none. */
void session_free(struct session *s);
bool session_is_done(const struct session *s);

/* One batch over all sessions: prefill in chunks beside decoding, so a long prompt does not stop
 * the others. false: nothing to do. */
bool engine_step(struct engine *e);
/* Gives memory back to the system that no session holds: keys and values of prompts and answers
 * that were kept for the next request that begins with them. Whether no more is left. */
bool engine_rest(struct engine *e);

#endif
