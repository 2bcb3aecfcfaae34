/* exchange_record.h - what an exchange keeps about itself: the struct, and its record and log line.
 * Private to exchange*.c. */
#ifndef ISOTHERM_EXCHANGE_RECORD_H
#define ISOTHERM_EXCHANGE_RECORD_H

#include "exchange.h"
#include "local-engine/link.h"
#include "reply.h"

#define EXCHANGE_HEADERS_MAX 8

struct exchange {
    struct gateway *gw;
    struct conn *conn;
    struct snapshot *snap;
    enum request_kind kind;
    int at;              /* step */
    char request_id[40]; /* "req_" and 32 hex digits */
    char day[11];
    struct prepare_env env;
    struct prepared prep;
    bool is_parsed, client_gone, is_paused, is_sealed, saw_logprobs;
    bool is_attempting; /* the attempt in flight is not in `attempts` yet */
    bool has_begun;     /* the head of a stream was given; from here on nothing is planned anew */
    bool has_opened;    /* so was its first chunk, with the `isotherm` object */
    struct loop_timer silence; /* until the head of a stream is given without a chunk */
    struct buf body;           /* what is sent */
    struct headers headers;
    struct buf refusal;            /* an upstream's error page */
    const struct backend *backend; /* whose decoder dec is: a new plan may have another */
    struct decoder *dec;
    struct answer answer; /* of the call in flight */
    struct answer all;    /* choices of all calls so far */
    unsigned choice_base; /* choices of earlier calls */
    size_t at_call;       /* of prep.n_calls */
    struct upstream_call *up;
    struct engine_call *eng;
    int upstream_status;
    int64_t started_us, attempt_us;
    int64_t wanted_us, waited_us; /* since when the attempt waits (0: it does not), and how long */
    char *const *targets;         /* of an alias with several; NULL: the request's own model */
    size_t n_targets, at_target;
    unsigned n_repeats;     /* at this target */
    int64_t wait_ms;        /* before the next attempt */
    int64_t retry_after_ms; /* what the provider said, -1: nothing */
    uint64_t n_deltas_before;
    struct loop_timer wait;
    struct exchange_turn *turn; /* its place at the provider; NULL: none */
    struct failure first_fail;  /* of the first target */
    bool only_rejections;       /* so far nobody was called */
    struct failure fail;
    struct reply reply;
    size_t n_adj_shown; /* adjustments in the first chunk */
    char adjusted[512]; /* x-isotherm-adjusted */
    char catalog_version[24];
    char served_model[129],
        system_fingerprint[24]; /* of the reply: the record is given away before it */
    struct fingerprint fp;
    struct fingerprint_hash *hash[ANSWER_CHOICES_MAX];
    uint64_t n_deltas;
    struct fingerprint_hash *sent_before; /* bodies of earlier calls of this answer; NULL: none */
    json_t *attempts;
    struct exchange_notes *notes; /* see exchange_evidence.h; NULL: nothing was refused */
};

void exchange_record_init(struct exchange *x);
void exchange_record_release(struct exchange *x);
/* An attempt begins; is_call false: it ends before it came to a call. */
void exchange_record_begin(struct exchange *x, bool is_call);
/* What an attempt failed with, in a word; providers do not always give one. */
const char *exchange_record_word(const struct failure *f);
/* It has ended; error NULL: it was answered. */
void exchange_record_attempt(struct exchange *x, int status, const char *error);
/* Another target will answer: nothing of this one's answer is to be seen. */
void exchange_record_forget(struct exchange *x);
/* The `isotherm` object of the reply, with the attempts where one has failed; yours. */
json_t *exchange_record_isotherm(const struct exchange *x);
/* The one of an error: request_id and all attempts. Yours; NULL: nobody was tried, or memory. */
json_t *exchange_record_tried(const struct exchange *x);
uint32_t exchange_record_random(void);
void exchange_record_upstream_id(struct exchange *x);
/* The call is answered and another one follows: its body counts too. */
void exchange_record_body(struct exchange *x);
/* Text of the answer as it passes. */
void exchange_record_delta(struct exchange *x, const struct delta *d);
/* Fixes model, fingerprint and ids of the reply; once, at its first chunk or at the latest before
 * the record. */
void exchange_record_seal(struct exchange *x);
bool exchange_record_fill(struct exchange *x);
/* What was sent but is not in the answer becomes an adjustment. */
void exchange_check_served(struct exchange *x);
/* A backend that reports no usage, or did not come to it: counted by us and marked as estimated. */
void exchange_estimate_usage(struct exchange *x);
/* Puts stars over the provider's key where `text`, which the provider wrote, repeats it. */
void exchange_hide_key(const struct exchange *x, char *text);
size_t exchange_headers(struct exchange *x, struct conn_header h[EXCHANGE_HEADERS_MAX]);
void exchange_log(const struct exchange *x);

#endif
