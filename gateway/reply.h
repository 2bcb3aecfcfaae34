/* reply.h - answer or failure -> JSON body, SSE events. Pure: bytes into buffers.
 *
 * A stream: the first chunk carries `isotherm`, each chunk `system_fingerprint`; with include_usage
 * every chunk has `usage` (null) and one more chunk without choices has the numbers; the finish
 * chunks come after the record is durable.
 */
#ifndef ISOTHERM_REPLY_H
#define ISOTHERM_REPLY_H

#include "answer.h"
#include "prepare.h"

/* What every chunk and body repeats. Borrowed strings. */
struct reply {
    bool is_chat, include_usage, echo;
    bool hides_logprobs; /* nobody asked for them: some backends send them all the same */
    char id[48];         /* chatcmpl-... or cmpl-... */
    int64_t created_s;
    const char *model; /* as served */
    const char *system_fingerprint;
    uint64_t begun[2]; /* choices that have had their first chunk */
    /* Of completions: characters so far, for legacy logprobs. */
    uint64_t text_offset[ANSWER_CHOICES_MAX];
};

/* The `isotherm` object; new reference, NULL: memory. */
json_t *reply_isotherm(const struct prepared *p, const char *request_id, int64_t catalog_version);

/* `isotherm` is borrowed in all of these and may be NULL where the contract does not ask for it.
 * false: limit or memory. */
bool reply_whole(struct reply *r, const struct answer *a, json_t *isotherm, struct buf *out);
/* One delta as an SSE event; META, USAGE, END and FINISH give nothing. */
bool reply_delta(struct reply *r, const struct delta *d, json_t *isotherm, struct buf *out);
/* Finish chunks of every choice, the usage chunk if asked, and [DONE]. isotherm: only where
 * something was added since the first chunk. */
bool reply_end(struct reply *r, const struct answer *a, json_t *isotherm, struct buf *out);

/* {"error":{...}}, with `isotherm` beside it; is_event: as an SSE event. */
bool reply_failure(const struct failure *f, json_t *isotherm, bool is_event, struct buf *out);

#endif
