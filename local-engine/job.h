/* job.h - one request of the daemon inside isotherm-engine: from its frame to the frames that
 * answer it.
 *
 * Everything that can be wrong with a request is found by job_new(), before it waits for a slot.
 */
#ifndef ISOTHERM_JOB_H
#define ISOTHERM_JOB_H

#include "chat.h"
#include "engine.h"
#include "link_params.h"
#include "outbox.h"

/* What a job needs of the model that it runs on. Borrowed. */
struct job_model {
    struct engine *engine; /* borrowed */
    struct chat *chat;     /* owned; NULL: the template of its files is of no use here ... */
    struct engine_error chat_error; /* ... which is why messages are refused */
};
/* chat_template: the name of a style (chat_template.h); NULL: by the model's files. A name that
 * does not fit is an error; with a template of the files that is not known, or not fit for their
 * vocabulary, each request with messages is refused. */
ENGINE_WARN_UNUSED bool job_model_init(struct job_model *m, struct engine *e,
                                       const char *chat_template, struct engine_error *err);
void job_model_release(struct job_model *m);

struct job {
    struct job *next; /* of whoever keeps jobs */
    int64_t id;
    const struct job_model *model;
    struct outbox *out;
    json_t *frame; /* owns the strings */
    struct link_params params;
    int32_t *prompt;
    size_t n_prompt;
    bool is_chat;
    size_t n_given;          /* last tokens of the prompt that count as generated */
    int64_t n_distribution;  /* not 0: a distribution frame, and how many tokens it asks for */
    struct session *session; /* NULL: not started */
    int64_t n_generated;
    bool has_failed; /* an error frame has ended it */
};

/* The id of a frame; -1: none that is an integer from 0. */
int64_t job_frame_id(const json_t *frame);

/* A generate or distribution frame; a reference to it is kept. Frames of the job go to `out`. */
ENGINE_WARN_UNUSED bool job_new(struct job **out, json_t *frame, const struct job_model *m,
                                struct outbox *box, struct engine_error *err);
/* Cancels it where it runs. */
void job_free(struct job *j);
/* Starts the session and sends begin. ENGINE_BUSY: later. */
ENGINE_WARN_UNUSED bool job_start(struct job *j, struct engine_error *err);
/* Whether a started job has ended; then its last frame is sent by job_end(). */
bool job_is_done(const struct job *j);
void job_end(struct job *j);

/* Answers that need no session. An error frame is sent where something is wrong. */
void job_tokenize(const json_t *frame, const struct job_model *m, struct outbox *out);
void job_detokenize(const json_t *frame, const struct job_model *m, struct outbox *out);
void job_send_error(struct outbox *out, int64_t id, const struct engine_error *err);

#endif
