/* probe_send.h - sends the requests of probes, one after the other, on a loop of its own, and reads
 * what their answers tell. Waits and repeats where a provider is busy. */
#ifndef ISOTHERM_PROBE_SEND_H
#define ISOTHERM_PROBE_SEND_H

#include "catalog/probe.h"
#include "gateway/base/config.h"
#include "gateway/credentials.h"
#include "gateway/resolve.h"

#define PROBE_SEND_TRIES 5 /* of one request, before it is given up */
#define PROBE_SEND_WAIT_MAX_S                                                                      \
    60                        /* longest wait before the next try, also where more is asked for */
#define PROBE_SEND_LOST_MAX 3 /* requests given up in a row, before all is */

struct probe_sender;
enum probe_sent {
    PROBE_SENT,    /* *out is an answer, or status 0 or 429 or 5xx: given up */
    PROBE_STOPPED, /* ^C */
    PROBE_DEAD     /* no network, a bad key, no such model, busy for too long: f says it */
};

/* All borrowed, for the sender's life. Zeroed credentials: none are sent. false: memory or
 * descriptors. */
bool probe_sender_new(struct probe_sender **out, const struct config *conf,
                      const struct target *target, const struct rules *rules,
                      const struct credentials *with) __attribute__((warn_unused_result));
void probe_sender_free(struct probe_sender *s);

/* The bytes of a trial. false: what cannot be said in this dialect. */
bool probe_sender_body(struct probe_sender *s, const struct probe_trial *t, struct buf *body,
                       struct failure *f) __attribute__((warn_unused_result));
enum probe_sent probe_sender_send(struct probe_sender *s, const struct probe_trial *t,
                                  struct probe_outcome *out, struct failure *f);
/* max_tokens goes under this name from now on. Borrowed for the sender's life. */
void probe_sender_rename_limit(struct probe_sender *s, const char *wire);

struct probe_sender_count {
    unsigned n_requests, n_answers; /* tries included; answers of any status but 429 and 5xx */
    int64_t prompt_tokens, answer_tokens; /* as the provider counts */
};
struct probe_sender_count probe_sender_count(const struct probe_sender *s);
/* Whether ^C was pressed. */
bool probe_sender_is_stopped(void);

#endif
