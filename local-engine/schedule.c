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

/* A model by its name: served, or refused with an error. */
struct served {
    char *name;
    struct job_model model;
    struct engine_error err;
    bool is_full; /* no slot: until a job of it ends */
};

struct job_list {
    struct job *first, **last;
};

struct schedule {
    int fd, n_threads;
    struct served models[SCHEDULE_MODELS_MAX];
    size_t n_models;
    struct link_reader reader;
    struct outbox out;
    struct job_list waiting, running;
    size_t n_waiting;
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

static void list_free(struct job_list *l)
{
    while (l->first) {
        job_free(list_take(l, &l->first));
    }
}

/* ---- making */

bool schedule_new(struct schedule **out, int fd, int n_threads, struct engine_error *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return engine_fail(err, ENGINE_IO, "", "descriptor %d: %s", fd, strerror(errno));
    }
    struct schedule *s = calloc(1, sizeof *s);
    if (!s) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    s->fd = fd;
    s->n_threads = n_threads;
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
    list_free(&s->waiting);
    list_free(&s->running);
    for (size_t i = 0; i < s->n_models; i++) {
        free(s->models[i].name);
        job_model_release(&s->models[i].model);
    }
    link_reader_release(&s->reader);
    outbox_release(&s->out);
    free(s);
}

static struct served *find_model(struct schedule *s, const char *name)
{
    for (size_t i = 0; i < s->n_models; i++) {
        if (strcmp(s->models[i].name, name) == 0) {
            return &s->models[i];
        }
    }
    return NULL;
}

/* What stands behind the folder: ?template=NAME&kv_type=f16&kv_memory=BYTES, each where wanted. */
struct model_options {
    const char *chat_template;
    struct engine_options engine;
};

static bool read_option(struct model_options *o, const char *text, struct engine_error *err)
{
    static const char template_key[] = "template=", memory_key[] = "kv_memory=";
    char *end;
    if (strncmp(text, template_key, sizeof template_key - 1) == 0) {
        o->chat_template = text + sizeof template_key - 1;
        return true;
    }
    if (strcmp(text, "kv_type=f32") == 0 || strcmp(text, "kv_type=f16") == 0) {
        o->engine.is_kv_f16 = strcmp(text, "kv_type=f16") == 0;
        return true;
    }
    if (strncmp(text, memory_key, sizeof memory_key - 1) == 0) {
        o->engine.kv_bytes_max = strtoll(text + sizeof memory_key - 1, &end, 10);
        if (!*end && o->engine.kv_bytes_max > 0) {
            return true;
        }
    }
    return engine_fail(err, ENGINE_BAD_PARAM, "model",
                       "'%s': template=NAME, kv_type=f32, kv_type=f16 or kv_memory=BYTES expected",
                       text);
}

/* Cuts the options off the folder; they point into it. A question mark before anything else belongs
 * to the folder's name. */
static bool read_options(struct model_options *o, char *folder, struct engine_error *err)
{
    char *at = strstr(folder, "?template="), *rest;
    at = at ? at : strstr(folder, "?kv_");
    if (!at) {
        return true;
    }
    *at = '\0';
    for (char *text = strtok_r(at + 1, "&", &rest); text; text = strtok_r(NULL, "&", &rest)) {
        if (!read_option(o, text, err)) {
            return false;
        }
    }
    return true;
}

/* Also reads what the fingerprint needs: later nothing can be opened. */
static void load(struct schedule *s, struct served *m, char *folder)
{
    struct model_options o = {.engine = {.n_threads = s->n_threads}};
    struct engine *e;
    if (!read_options(&o, folder, &m->err) || !engine_open(&e, folder, &o.engine, &m->err)) {
        return;
    }
    if (!job_model_init(&m->model, e, o.chat_template, &m->err)) {
        engine_close(e);
        return;
    }
    (void)engine_fingerprint(e); /* kept by the engine */
}

bool schedule_add_model(struct schedule *s, const char *spec, struct engine_error *err)
{
    const char *equals = strchr(spec, '=');
    if (!equals || equals == spec || !equals[1]) {
        return engine_fail(err, ENGINE_BAD_PARAM, "model", "'%s': a model is given as NAME=FOLDER",
                           spec);
    }
    if (s->n_models == SCHEDULE_MODELS_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "model", "more than %d models: leave some out",
                           SCHEDULE_MODELS_MAX);
    }
    char *name = strndup(spec, (size_t)(equals - spec)), *folder = strdup(equals + 1);
    if (!name || !folder || find_model(s, name)) {
        bool is_memory = !name || !folder;
        free(name);
        free(folder);
        return is_memory ? engine_fail(err, ENGINE_NOMEM, "", "out of memory")
                         : engine_fail(err, ENGINE_BAD_PARAM, "model",
                                       "'%s': there is a model of that name already", spec);
    }
    struct served *m = &s->models[s->n_models++];
    m->name = name;
    load(s, m, folder);
    free(folder);
    return true;
}

/* ---- ready */

static json_t *model_object(const struct served *m)
{
    const struct model_shape *shape = engine_shape(m->model.engine);
    return json_pack("{s:s, s:s, s:i, s:i, s:I, s:I, s:s, s:s, s:s}", "id", m->name, "family",
                     shape->family, "context", (int)engine_context(m->model.engine), "vocab",
                     (int)shape->n_vocab, "params", (json_int_t)shape->n_params, "bytes",
                     (json_int_t)engine_weight_bytes(m->model.engine), "dtype", shape->dtype,
                     "template", m->model.chat ? chat_name(m->model.chat) : "unknown",
                     "fingerprint", engine_fingerprint(m->model.engine));
}

static void say_ready(struct schedule *s)
{
    json_t *models = json_array(), *refused = json_array();
    bool ok = models && refused;
    for (size_t i = 0; ok && i < s->n_models; i++) {
        const struct served *m = &s->models[i];
        if (m->model.engine) {
            ok = json_array_append_new(models, model_object(m)) == 0;
        } else {
            ok = json_array_append_new(
                     refused, json_pack("{s:s, s:s}", "id", m->name, "error", m->err.text)) == 0;
        }
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

/* ---- frames in */

/* A job points to the model inside its struct served. */
static struct served *served_of(struct job *j)
{
    return (struct served *)((char *)(uintptr_t)j->model - offsetof(struct served, model));
}

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
    if (s->n_waiting == WAITING_MAX) {
        refuse(s, id, ENGINE_BUSY, "", "too many requests are waiting: try again later");
        return;
    }
    if (*list_find(&s->waiting, id) || *list_find(&s->running, id)) {
        refuse(s, id, ENGINE_BAD_PARAM, "id", "the id is in use");
        return;
    }
    if (!job_new(&j, frame, &m->model, &s->out, &err)) {
        job_send_error(&s->out, id, &err);
        return;
    }
    list_add(&s->waiting, j);
    s->n_waiting++;
}

static void on_cancel(struct schedule *s, int64_t id)
{
    struct job **at = list_find(&s->waiting, id);
    if (*at) {
        s->n_waiting--;
        job_free(list_take(&s->waiting, at));
        return;
    }
    at = list_find(&s->running, id);
    if (*at) {
        struct job *j = list_take(&s->running, at);
        served_of(j)->is_full = false;
        job_free(j);
    }
}

static void on_model_frame(struct schedule *s, json_t *frame, const char *op, int64_t id)
{
    const char *name = json_string_value(json_object_get(frame, "model"));
    struct served *m = name ? find_model(s, name) : NULL;
    if (!m) {
        refuse(s, id, ENGINE_BAD_PARAM, "model", "the engine has no model of that name");
    } else if (!m->model.engine) {
        refuse(s, id, m->err.code, "model", m->err.text);
    } else if (strcmp(op, "generate") == 0 || strcmp(op, "distribution") == 0) {
        on_generate(s, frame, id, m);
    } else if (strcmp(op, "tokenize") == 0) {
        job_tokenize(frame, &m->model, &s->out);
    } else if (strcmp(op, "detokenize") == 0) {
        job_detokenize(frame, &m->model, &s->out);
    } else {
        refuse(s, id, ENGINE_BAD_PARAM, "op", "the engine does not know this operation");
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
        on_model_frame(s, frame, op, id);
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

static void start_waiting(struct schedule *s)
{
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
            job_free(j);
        }
    }
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
        served_of(j)->is_full = false;
        job_free(j);
    }
}

/* Whether anything was computed. */
static bool step(struct schedule *s)
{
    bool has_worked = false;
    if (outbox_len(&s->out) > OUT_PAUSE) {
        return false;
    }
    for (size_t i = 0; i < s->n_models; i++) {
        if (s->models[i].model.engine) {
            has_worked = engine_step(s->models[i].model.engine) || has_worked;
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
    for (size_t i = 0; i < s->n_models; i++) {
        if (s->models[i].model.engine) {
            s->is_resting = engine_rest(s->models[i].model.engine) && s->is_resting;
        }
    }
}

static void wait_for_daemon(struct schedule *s)
{
    struct pollfd p = {.fd = s->fd};
    size_t n = outbox_len(&s->out);
    p.events = (short)((n <= OUT_DEAF ? POLLIN : 0) | (n > 0 ? POLLOUT : 0));
    if (poll(&p, 1, s->is_resting ? -1 : REST_MS) == 0) { /* a signal only makes one more turn */
        rest(s);
    }
}

bool schedule_run(struct schedule *s, struct engine_error *err)
{
    say_ready(s);
    while (!s->is_closed && !s->out.is_broken) {
        outbox_flush(&s->out, s->fd);
        if (!read_frames(s, err)) {
            return false;
        }
        start_waiting(s);
        bool has_worked = step(s);
        end_done(s);
        outbox_flush(&s->out, s->fd);
        if (!has_worked && !s->is_closed) {
            wait_for_daemon(s);
        }
    }
    return s->is_closed ||
           engine_fail(err, ENGINE_IO, "", "the daemon cannot be written to, or memory ran out");
}
