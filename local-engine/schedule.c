/* schedule.c - one turn: read what has come, start what has room, one step of every engine, end
 * what is done, write what is taken.
 *
 * While more than OUT_PAUSE bytes wait for the daemon no step is made, so a daemon that does not
 * read costs a bounded buffer; it is still read from, for a cancel may be what it wants to say, up
 * to OUT_DEAF, which only answers without a session could reach.
 */
#include "schedule.h"
#include "job.h"
#include "link.h"
#include "models.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16, READS_PER_TURN = 16, WAITING_MAX = 1024 };
enum { REST_MS = 60000 }; /* without work for so long, memory is given back */
enum { OUT_PAUSE = 1 << 20, OUT_DEAF = OUT_PAUSE + LINK_FRAME_MAX };

/* A frame for a model that takes no jobs yet. */
struct parked {
    struct parked *next;
    int64_t id;
    json_t *frame;
    struct served *model;
};

struct job_list {
    struct job *first, **last;
};

struct schedule {
    int fd;
    struct models *models;
    struct link_reader reader;
    struct outbox out;
    struct parked *parked, **parked_last;
    struct job_list waiting, running;
    size_t n_waiting; /* parked ones, too */
    bool is_closed;
    bool is_resting; /* no engine has memory to give back */
};

/* ---- lists */

static void list_init(struct job_list *l)
{
    l->first = NULL;
    l->last = &l->first;
}

static void list_add(struct job_list *l, struct job *j)
{
    j->next = NULL;
    *l->last = j;
    l->last = &j->next;
}

/* Takes out the job that *at points to. */
static struct job *list_take(struct job_list *l, struct job **at)
{
    struct job *j = *at;
    *at = j->next;
    if (l->last == &j->next) {
        l->last = at;
    }
    return j;
}

static struct job **list_find(struct job_list *l, int64_t id)
{
    struct job **at = &l->first;
    while (*at && (*at)->id != id) {
        at = &(*at)->next;
    }
    return at;
}

/* A job points to the model inside its struct served. */
static struct served *served_of(struct job *j)
{
    return (struct served *)((char *)(uintptr_t)j->model - offsetof(struct served, model));
}

static void free_job(struct schedule *s, struct job *j)
{
    struct served *m = served_of(j);
    job_free(j);
    m->is_full = false;
    models_let_go(s->models, m);
}

static void list_free(struct schedule *s, struct job_list *l)
{
    while (l->first) {
        free_job(s, list_take(l, &l->first));
    }
}

static struct parked **parked_find(struct schedule *s, int64_t id)
{
    struct parked **at = &s->parked;
    while (*at && (*at)->id != id) {
        at = &(*at)->next;
    }
    return at;
}

/* Takes out and frees what *at points to; its frame is yours. */
static json_t *unpark(struct schedule *s, struct parked **at)
{
    struct parked *p = *at;
    json_t *frame = p->frame;
    *at = p->next;
    if (s->parked_last == &p->next) {
        s->parked_last = at;
    }
    models_unwant(p->model);
    s->n_waiting--;
    free(p);
    return frame;
}

/* ---- making */

bool schedule_new(struct schedule **out, int fd, const struct models_options *o,
                  struct engine_error *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return engine_fail(err, ENGINE_IO, "", "descriptor %d: %s", fd, strerror(errno));
    }
    struct schedule *s = calloc(1, sizeof *s);
    if (!s) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    if (!models_new(&s->models, o, err)) {
        free(s);
        return false;
    }
    s->fd = fd;
    s->parked_last = &s->parked;
    link_reader_init(&s->reader);
    list_init(&s->waiting);
    list_init(&s->running);
    *out = s;
    return true;
}

void schedule_free(struct schedule *s)
{
    if (!s) {
        return;
    }
    while (s->parked) {
        json_decref(unpark(s, &s->parked));
    }
    list_free(s, &s->waiting);
    list_free(s, &s->running);
    models_free(s->models);
    link_reader_release(&s->reader);
    outbox_release(&s->out);
    free(s);
}

bool schedule_add_model(struct schedule *s, const char *spec, struct engine_error *err)
{
    return models_add(s->models, spec, err);
}

/* ---- ready */

static json_t *model_object(const struct served *m)
{
    const struct model_shape *shape = engine_shape(m->engine);
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:s}", "id", m->name, "state",
                     models_state_name(m->state), "family", shape->family, "context",
                     (int)engine_context(m->engine), "vocab", (int)shape->n_vocab, "params",
                     (json_int_t)shape->n_params, "bytes",
                     (json_int_t)engine_weight_bytes(m->engine), "memory",
                     (json_int_t)engine_loaded_bytes(m->engine), "dtype", shape->dtype);
}

/* refused: what is FAILED from the beginning. */
static void say_ready(struct schedule *s)
{
    json_t *models = json_array(), *refused = json_array();
    bool ok = models && refused;
    for (size_t i = 0; ok && i < models_n(s->models); i++) {
        const struct served *m = models_at(s->models, i);
        ok = m->state != MODELS_FAILED
                 ? json_array_append_new(models, model_object(m)) == 0
                 : json_array_append_new(
                       refused, json_pack("{s:s, s:s}", "id", m->name, "error", m->err.text)) == 0;
    }
    json_t *frame = ok ? json_pack("{s:s, s:s, s:O, s:O}", "op", "ready", "engine", ENGINE_VERSION,
                                   "models", models, "refused", refused)
                       : NULL;
    json_decref(models);
    json_decref(refused);
    if (!outbox_put(&s->out, frame)) {
        s->out.is_broken = true;
    }
}

static void say_state(struct served *m, void *ud)
{
    struct schedule *s = ud;
    const char *error = m->err.code == ENGINE_OK ? NULL : m->err.text, *hash = NULL;
    char identity[65] = "";
    if (m->state == MODELS_LOADED) {
        engine_weights_hash(m->engine, identity, &hash); /* computed by now */
    }
    if (!outbox_put(&s->out, json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:s?}", "op", "state", "model",
                                       m->name, "state", models_state_name(m->state), "error",
                                       error, "identity", hash ? identity : NULL, "hash", hash))) {
        s->out.is_broken = true; /* it is far from too long */
    }
}

/* ---- frames in */

static void refuse(struct schedule *s, int64_t id, enum engine_code code, const char *param,
                   const char *text)
{
    struct engine_error err = {.code = ENGINE_OK};
    (void)engine_fail(&err, code, param, "%s", text);
    job_send_error(&s->out, id, &err);
}

static void on_generate(struct schedule *s, json_t *frame, int64_t id, struct served *m)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct job *j;
    if (!job_new(&j, frame, &m->model, &s->out, &err)) {
        job_send_error(&s->out, id, &err);
        return;
    }
    models_hold(s->models, m);
    list_add(&s->waiting, j);
    s->n_waiting++;
}

static void on_cancel(struct schedule *s, int64_t id)
{
    struct parked **parked = parked_find(s, id);
    struct job **at = list_find(&s->waiting, id);
    if (*parked) {
        json_decref(unpark(s, parked));
        return;
    }
    if (*at) {
        s->n_waiting--;
        free_job(s, list_take(&s->waiting, at));
        return;
    }
    at = list_find(&s->running, id);
    if (*at) {
        free_job(s, list_take(&s->running, at));
    }
}

/* m takes jobs. */
static void on_served_frame(struct schedule *s, json_t *frame, int64_t id, struct served *m)
{
    const char *op = json_string_value(json_object_get(frame, "op"));
    if (strcmp(op, "generate") == 0 || strcmp(op, "distribution") == 0) {
        on_generate(s, frame, id, m);
    } else if (strcmp(op, "tokenize") == 0) {
        job_tokenize(frame, &m->model, &s->out);
    } else if (strcmp(op, "detokenize") == 0) {
        job_detokenize(frame, &m->model, &s->out);
    } else {
        refuse(s, id, ENGINE_BAD_PARAM, "op", "the engine does not know this operation");
    }
}

static void park(struct schedule *s, json_t *frame, int64_t id, struct served *m)
{
    struct parked *p = calloc(1, sizeof *p);
    if (!p) {
        refuse(s, id, ENGINE_NOMEM, "", "out of memory");
        return;
    }
    *p = (struct parked){.id = id, .frame = json_incref(frame), .model = m};
    *s->parked_last = p;
    s->parked_last = &p->next;
    s->n_waiting++;
    models_want(s->models, m);
}

static void on_model_frame(struct schedule *s, json_t *frame, int64_t id)
{
    const char *name = json_string_value(json_object_get(frame, "model"));
    struct served *m = name ? models_find(s->models, name) : NULL;
    if (!m) {
        refuse(s, id, ENGINE_BAD_PARAM, "model", "the engine has no model of that name");
    } else if (m->state == MODELS_FAILED) {
        refuse(s, id, m->err.code, "model", m->err.text);
    } else if (s->n_waiting >= WAITING_MAX) {
        refuse(s, id, ENGINE_BUSY, "", "too many requests are waiting: try again later");
    } else if (*parked_find(s, id) || *list_find(&s->waiting, id) || *list_find(&s->running, id)) {
        refuse(s, id, ENGINE_BAD_PARAM, "id", "the id is in use");
    } else if (models_takes_jobs(s->models, m)) {
        on_served_frame(s, frame, id, m);
    } else {
        park(s, frame, id, m);
    }
}

/* Frames go on when their model takes jobs, and end when it could not be loaded. */
static void serve_parked(struct schedule *s)
{
    struct parked **at = &s->parked;
    while (*at) {
        struct served *m = (*at)->model;
        int64_t id = (*at)->id;
        bool has_failed = m->state != MODELS_LOADING && m->err.code != ENGINE_OK;
        if (!has_failed && !models_takes_jobs(s->models, m)) {
            at = &(*at)->next;
            continue;
        }
        json_t *frame = unpark(s, at);
        if (has_failed) {
            refuse(s, id, m->err.code, "model", m->err.text);
        } else {
            on_served_frame(s, frame, id, m);
        }
        json_decref(frame);
    }
}

/* false: what came is no frame of the daemon's, and nothing after it can be trusted. */
static bool on_frame(struct schedule *s, const char *p, size_t len, struct engine_error *err)
{
    json_error_t why;
    json_t *frame = json_loadb(p, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    const char *op = json_string_value(json_object_get(frame, "op"));
    int64_t id = job_frame_id(frame);
    if (!op || id < 0) {
        (void)engine_fail(err, ENGINE_IO, "", "a frame is not understood: %s",
                          frame ? "it has no op or no id" : why.text);
        json_decref(frame);
        return false;
    }
    if (strcmp(op, "cancel") == 0) {
        on_cancel(s, id);
    } else {
        on_model_frame(s, frame, id);
    }
    json_decref(frame);
    return true;
}

static bool take_frames(struct schedule *s, struct engine_error *err)
{
    const char *frame;
    size_t len;
    int rc;
    while ((rc = link_reader_next(&s->reader, &frame, &len)) == 1) {
        if (!on_frame(s, frame, len, err)) {
            return false;
        }
    }
    return rc == 0 ||
           engine_fail(err, ENGINE_IO, "", "a frame is longer than %u bytes", LINK_FRAME_MAX);
}

static bool read_frames(struct schedule *s, struct engine_error *err)
{
    static char bytes[READ_BYTES]; /* one thread */
    for (int i = 0; i < READS_PER_TURN && !s->is_closed && outbox_len(&s->out) <= OUT_DEAF; i++) {
        ssize_t n = read(s->fd, bytes, sizeof bytes);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return true;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            s->is_closed = true;
        } else if (!link_reader_feed(&s->reader, bytes, (size_t)n, err) || !take_frames(s, err)) {
            return false;
        }
    }
    return true;
}

/* ---- a turn */

/* Whether a job has ended without a step: then a model may leave that had to stay for it. */
static bool start_waiting(struct schedule *s)
{
    bool has_ended = false;
    struct job **at = &s->waiting.first;
    while (*at) {
        struct served *m = served_of(*at);
        struct engine_error err = {.code = ENGINE_OK};
        if (m->is_full) {
            at = &(*at)->next;
            continue;
        }
        bool is_started = job_start(*at, &err);
        if (!is_started && err.code == ENGINE_BUSY) {
            m->is_full = true;
            continue;
        }
        struct job *j = list_take(&s->waiting, at);
        s->n_waiting--;
        if (is_started) {
            list_add(&s->running, j);
        } else {
            job_send_error(&s->out, j->id, &err);
            free_job(s, j);
            has_ended = true;
        }
    }
    return has_ended;
}

static void end_done(struct schedule *s)
{
    struct job **at = &s->running.first;
    while (*at) {
        if (!job_is_done(*at)) {
            at = &(*at)->next;
            continue;
        }
        struct job *j = list_take(&s->running, at);
        job_end(j);
        free_job(s, j);
    }
}

/* Whether anything was computed. */
static bool step(struct schedule *s)
{
    bool has_worked = false;
    if (outbox_len(&s->out) > OUT_PAUSE) {
        return false;
    }
    for (size_t i = 0; i < models_n(s->models); i++) {
        struct served *m = models_at(s->models, i);
        if (m->n_jobs > 0) {
            has_worked = engine_step(m->engine) || has_worked;
        }
    }
    s->is_resting = s->is_resting && !has_worked;
    return has_worked;
}

/* Nothing is computed, and nothing was for a while; an engine that waits for a slow reader may hold
 * some memory still. */
static void rest(struct schedule *s)
{
    s->is_resting = true;
    for (size_t i = 0; i < models_n(s->models); i++) {
        struct served *m = models_at(s->models, i);
        if (m->state == MODELS_LOADED) {
            s->is_resting = engine_rest(m->engine) && s->is_resting;
        }
    }
}

static void wait_for_daemon(struct schedule *s)
{
    struct pollfd p[2] = {{.fd = s->fd}, {.fd = models_fd(s->models), .events = POLLIN}};
    size_t n = outbox_len(&s->out);
    p[0].events = (short)((n <= OUT_DEAF ? POLLIN : 0) | (n > 0 ? POLLOUT : 0));
    if (poll(p, 2, s->is_resting ? -1 : REST_MS) == 0) { /* a signal only makes one more turn */
        rest(s);
    }
}

/* The first model is loaded before anybody asks, so that the first answer is quick. */
static void want_first(struct schedule *s)
{
    if (models_n(s->models) > 0 && models_at(s->models, 0)->state == MODELS_UNLOADED) {
        models_want(s->models, models_at(s->models, 0));
        (void)models_turn(s->models, say_state, s);
        models_unwant(models_at(s->models, 0));
    }
}

bool schedule_run(struct schedule *s, struct engine_error *err)
{
    say_ready(s);
    want_first(s);
    while (!s->is_closed && !s->out.is_broken) {
        outbox_flush(&s->out, s->fd);
        if (!read_frames(s, err)) {
            return false;
        }
        bool has_worked = models_turn(s->models, say_state, s);
        serve_parked(s);
        has_worked = start_waiting(s) || has_worked;
        has_worked = step(s) || has_worked;
        end_done(s);
        outbox_flush(&s->out, s->fd);
        if (!has_worked && !s->is_closed) {
            wait_for_daemon(s);
        }
    }
    return s->is_closed ||
           engine_fail(err, ENGINE_IO, "", "the daemon cannot be written to, or memory ran out");
}
