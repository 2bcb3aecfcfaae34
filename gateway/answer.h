/* answer.h - what a backend says, in one shape: deltas, and what is normalised the same way for
 * every backend.
 *
 * A backend yields deltas; `answer` gathers what the reply, the record and the client's usage need,
 * enforces stop strings that the backend was not given, and counts.
 */
#ifndef ISOTHERM_ANSWER_H
#define ISOTHERM_ANSWER_H

#include "base/buf.h"
#include "base/failure.h"
#include <jansson.h>
#include <stdint.h>

enum finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_TOOL_CALLS, FINISH_CONTENT_FILTER };
const char *finish_name(enum finish f); /* "stop"; NULL for FINISH_NONE */

struct usage {
    bool is_known, is_estimated;
    int64_t prompt_tokens, completion_tokens, reasoning_tokens, cached_tokens;
};

enum delta_kind {
    DELTA_META,      /* meta: provider's id, model, fingerprint, seed (any may be NULL) */
    DELTA_TEXT,      /* text of one choice; lp may be set; text may be empty when only lp matters */
    DELTA_REASONING, /* reasoning text */
    DELTA_REFUSAL,   /* refusal text */
    DELTA_TOOL,   /* json: one element of OpenAI's delta.tool_calls (index, id, type, function{name,
                     arguments}) */
    DELTA_FINISH, /* finish, and `text` = the provider's own word */
    DELTA_USAGE,  /* usage; the last one counts */
    DELTA_END     /* the answer is complete: without it the stream was cut */
};
struct delta_meta {
    const char *id, *model, *fingerprint;
    int64_t seed;
    bool has_seed;
};
struct delta {
    enum delta_kind kind;
    unsigned choice;
    struct slice text;
    json_t *json; /* DELTA_TOOL; DELTA_TEXT: array of OpenAI logprobs items or NULL; borrowed */
    enum finish finish;
    struct usage usage;
    struct delta_meta meta;
};
/* false: stop decoding (the receiver has failed or has enough). */
typedef bool delta_fn(const struct delta *d, void *ud);

#define ANSWER_CHOICES_MAX 128
struct answer_call {   /* of a tool */
    json_t *id, *name; /* NULL: not said */
    struct buf arguments;
};
struct answer_choice {
    struct buf text, reasoning, refusal;
    json_t *logprobs;          /* array, or NULL */
    json_t *tools;             /* array, or NULL: what `calls` come to, by answer_finish() */
    struct answer_call *calls; /* [n_calls], as they are gathered */
    size_t n_calls;
    enum finish finish;
    char native_finish[40]; /* the provider's word */
    struct stop *stop;      /* enforces stop strings of ours; NULL: none */
    bool is_stopped;        /* the gateway cut this choice: later text of it is swallowed */
    uint64_t n_deltas;      /* content deltas that the backend sent for it, up to a cut */
    /* Log-probabilities wait until the text of their token is out: a stop string may still cut it
     * off. */
    json_t *held;                 /* items, oldest first, or NULL */
    size_t held_at;               /* the first of them that still waits */
    uint64_t n_taken, n_released; /* bytes of text that came, that went on */
    uint64_t n_described;         /* bytes of text of all items that went on */
};
struct answer {
    struct answer_choice *choice; /* [n_choices] */
    unsigned n_choices, n_choices_max;
    struct usage usage;
    char provider_id[128], provider_model[128], provider_fingerprint[128];
    bool has_provider_seed;
    int64_t provider_seed;
    bool is_complete; /* DELTA_END was seen */
    bool keeps_text;  /* false while streaming: text is forwarded, only counted and hashed here */
    uint64_t text_bytes;
    delta_fn *out;
    void *out_ud;           /* receives every delta after normalisation (stop strings trimmed) */
    struct failure failure; /* status 0: nothing failed */
};

/* stops: JSON array of strings the gateway must enforce itself, or NULL. n_choices_max: choices
 * that were asked for; text for another one is a failure of the backend. `out` may be NULL. */
bool answer_init(struct answer *a, unsigned n_choices_max, const json_t *stops, bool keeps_text,
                 delta_fn *out, void *out_ud, struct failure *f)
    __attribute__((warn_unused_result));
void answer_release(struct answer *a);
/* A delta_fn: feed the backend's deltas here, with the answer as ud. false: see answer_failure();
 * NULL there means that `out` refused. It stays true after a cut, so that a whole body still
 * delivers its usage: ask answer_has_enough() after each piece. */
bool answer_take(const struct delta *d, void *answer);
const struct failure *answer_failure(const struct answer *a); /* NULL: nothing failed */
/* Every choice that was asked for has ended, at least one because the gateway cut it: the upstream
 * call may be cancelled now. */
bool answer_has_enough(const struct answer *a);
/* The end: releases held-back text, checks that every choice has a finish and the answer is
 * complete; without usage from the backend none is invented here. false: 502 stream_incomplete. */
bool answer_finish(struct answer *a, struct failure *f) __attribute__((warn_unused_result));

#endif
