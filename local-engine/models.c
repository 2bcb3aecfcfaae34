/* models.c - a table, a clock that counts uses, and one errand. */
#include "models.h"

#include "errand.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct models {
    struct models_options options;
    struct served served[MODELS_MAX];
    size_t n;
    struct errand *errand;
    struct served *loading; /* NULL: none */
    struct served *leaving; /* takes no new jobs, to make room; NULL: none */
    uint64_t clock;
};

/* ---- making */

bool models_new(struct models **out, const struct models_options *o, struct engine_error *err)
{
    struct models *t = calloc(1, sizeof *t);
    if (!t) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    t->options = *o;
    if (!errand_new(&t->errand, err)) {
        free(t);
        return false;
    }
    *out = t;
    return true;
}

void models_free(struct models *t)
{
    if (!t) {
        return;
    }
    errand_free(t->errand);
    for (size_t i = 0; i < t->n; i++) {
        struct served *m = &t->served[i];
        assert(m->n_jobs == 0);
        job_model_release(&m->model);
        engine_close(m->engine);
        free(m->name);
        free(m->chat_template);
    }
    free(t);
}

/* A model that alone takes too much is refused at once, not when it is wanted. */
static bool check_room(const struct models *t, const struct served *m, struct engine_error *err)
{
    int64_t bytes = engine_loaded_bytes(m->engine), max = t->options.memory_max;
    return max == 0 || bytes <= max ||
           engine_fail(err, ENGINE_BAD_FILE, "model",
                       "model '%s' takes %lld bytes, 'memory_max' is %lld: raise it, or take a "
                       "smaller file",
                       m->name, (long long)bytes, (long long)max);
}

/* What stands behind the folder; NULL: nothing does. */
struct model_options {
    const char *draft, *chat_template, *kv_type, *kv_memory;
};

/* Whether they can be understood. */
static bool read_options(const struct model_options *from, struct engine_options *o,
                         struct engine_error *err)
{
    char *end = "";
    o->draft_path = from->draft;
    o->is_kv_f16 = from->kv_type && strcmp(from->kv_type, "f16") == 0;
    if (from->kv_type && !o->is_kv_f16 && strcmp(from->kv_type, "f32") != 0) {
        return engine_fail(err, ENGINE_BAD_PARAM, "model",
                           "'%s': a type of keys and values is f32 or f16", from->kv_type);
    }
    o->kv_bytes_max = from->kv_memory ? strtoll(from->kv_memory, &end, 10) : 0;
    return (!*end && (o->kv_bytes_max > 0 || !from->kv_memory)) ||
           engine_fail(err, ENGINE_BAD_PARAM, "model",
                       "'%s': bytes for keys and values are a number from 1", from->kv_memory);
}

static void map(struct models *t, struct served *m, const char *folder,
                const struct model_options *from)
{
    struct engine_options o = t->options.engine;
    if (!read_options(from, &o, &m->err) || !engine_map(&m->engine, folder, &o, &m->err) ||
        !check_room(t, m, &m->err)) {
        m->state = MODELS_FAILED;
    }
}

/* Cuts the option off the end of `spec` and returns its value; NULL: it is not there, or no spec.
 */
static const char *cut_option(char *spec, const char *option)
{
    char *at = spec ? strstr(spec, option) : NULL;
    if (at) {
        *at = '\0';
        at += strlen(option);
    }
    return at;
}

bool models_add(struct models *t, const char *spec, struct engine_error *err)
{
    const char *equals = strchr(spec, '=');
    if (!equals || equals == spec || !equals[1]) {
        return engine_fail(err, ENGINE_BAD_PARAM, "model", "'%s': a model is given as NAME=FOLDER",
                           spec);
    }
    if (t->n == MODELS_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "model", "more than %d models: leave some out",
                           MODELS_MAX);
    }
    char *name = strndup(spec, (size_t)(equals - spec)), *folder = strdup(equals + 1);
    struct model_options o = {0};
    o.kv_memory = cut_option(folder, "?kv_memory="); /* the last one first */
    o.kv_type = cut_option(folder, "?kv_type=");
    o.draft = cut_option(folder, "?draft=");
    o.chat_template = cut_option(folder, "?template=");
    char *chat_template = o.chat_template ? strdup(o.chat_template) : NULL;
    bool is_memory = !name || !folder || (o.chat_template && !chat_template);
    if (is_memory || models_find(t, name)) {
        free(name);
        free(folder);
        free(chat_template);
        return is_memory ? engine_fail(err, ENGINE_NOMEM, "", "out of memory")
                         : engine_fail(err, ENGINE_BAD_PARAM, "model",
                                       "'%s': there is a model of that name already", spec);
    }
    struct served *m = &t->served[t->n++];
    m->name = name;
    m->chat_template = chat_template;
    map(t, m, folder, &o);
    free(folder);
    return true;
}

size_t models_n(const struct models *t)
{
    return t->n;
}

struct served *models_at(struct models *t, size_t i)
{
    assert(i < t->n);
    return &t->served[i];
}

struct served *models_find(struct models *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->served[i].name, name) == 0) {
            return &t->served[i];
        }
    }
    return NULL;
}

const char *models_state_name(enum models_state s)
{
    static const char *const names[] = {
        [MODELS_UNLOADED] = "unloaded",
        [MODELS_LOADING] = "loading",
        [MODELS_LOADED] = "loaded",
        [MODELS_FAILED] = "failed",
    };
    return names[s];
}

/* ---- who uses and who waits */

bool models_takes_jobs(const struct models *t, const struct served *m)
{
    return m->state == MODELS_LOADED && m != t->leaving;
}

void models_hold(struct models *t, struct served *m)
{
    assert(m->state == MODELS_LOADED);
    m->n_jobs++;
    m->used = ++t->clock;
}

void models_let_go(struct models *t, struct served *m)
{
    assert(m->n_jobs > 0);
    m->n_jobs--;
    m->used = ++t->clock;
}

void models_want(struct models *t, struct served *m)
{
    assert(m->state != MODELS_FAILED);
    if (m->n_wanting++ == 0) {
        m->wanted = ++t->clock;
        m->err = (struct engine_error){.code = ENGINE_OK}; /* it is tried again */
    }
}

void models_unwant(struct served *m)
{
    assert(m->n_wanting > 0);
    m->n_wanting--;
}

/* ---- loading */

/* On the errand's thread, which has m to itself. */
static void load(void *arg)
{
    struct served *m = arg;
    m->is_ok = engine_load(m->engine, &m->err);
    if (m->is_ok && !job_model_init(&m->model, m->engine, m->chat_template, &m->err)) {
        engine_unload(m->engine);
        m->is_ok = false;
    }
    if (m->is_ok) {
        engine_warm(m->engine);
    }
}

static void unload(struct served *m)
{
    assert(m->n_jobs == 0);
    job_model_release(&m->model);
    engine_unload(m->engine);
    m->state = MODELS_UNLOADED;
    m->is_full = false;
}

/* The one that waits longest of those that can be loaded. */
static struct served *next_wanted(struct models *t)
{
    struct served *first = NULL;
    for (size_t i = 0; i < t->n; i++) {
        struct served *m = &t->served[i];
        if (m->state == MODELS_UNLOADED && m->n_wanting > 0 &&
            (!first || m->wanted < first->wanted)) {
            first = m;
        }
    }
    return first;
}

/* Nobody is to lose it: it has no jobs, and nobody waits to give it one, but for what it was told
 * to leave. */
static bool is_idle(const struct models *t, const struct served *m)
{
    return m->n_jobs == 0 && (m->n_wanting == 0 || m == t->leaving);
}

static struct served *least_used(struct models *t, bool wants_idle)
{
    struct served *least = NULL;
    for (size_t i = 0; i < t->n; i++) {
        struct served *m = &t->served[i];
        if (m->state == MODELS_LOADED && is_idle(t, m) == wants_idle &&
            (!least || m->used < least->used)) {
            least = m;
        }
    }
    return least;
}

static int64_t loaded_bytes(const struct models *t)
{
    int64_t sum = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct served *m = &t->served[i];
        if (m->state == MODELS_LOADED || m->state == MODELS_LOADING) {
            sum += engine_loaded_bytes(m->engine);
        }
    }
    return sum;
}

/* false: not yet, for jobs are running on what would have to go. */
static bool make_room(struct models *t, const struct served *m,
                      void (*on_change)(struct served *m, void *ud), void *ud)
{
    int64_t max = t->options.memory_max, need = engine_loaded_bytes(m->engine);
    while (max > 0 && loaded_bytes(t) + need > max) {
        struct served *idle = least_used(t, true);
        if (!idle) {
            t->leaving = t->leaving ? t->leaving : least_used(t, false);
            return false;
        }
        unload(idle);
        t->leaving = idle == t->leaving ? NULL : t->leaving;
        on_change(idle, ud);
    }
    t->leaving = NULL;
    return true;
}

static bool take_loaded(struct models *t, void (*on_change)(struct served *m, void *ud), void *ud)
{
    struct served *m = t->loading;
    if (!m || !errand_take(t->errand)) {
        return false;
    }
    t->loading = NULL;
    m->used = ++t->clock;
    m->state = m->is_ok                      ? MODELS_LOADED
               : m->err.code == ENGINE_NOMEM ? MODELS_UNLOADED
                                             : MODELS_FAILED;
    on_change(m, ud);
    return true;
}

int models_fd(const struct models *t)
{
    return errand_fd(t->errand);
}

bool models_turn(struct models *t, void (*on_change)(struct served *m, void *ud), void *ud)
{
    if (take_loaded(t, on_change, ud)) {
        return true;
    }
    struct served *m = t->loading ? NULL : next_wanted(t);
    if (!m) {
        t->leaving = t->loading ? t->leaving : NULL;
        return false;
    }
    if (!make_room(t, m, on_change, ud)) {
        return false;
    }
    m->state = MODELS_LOADING;
    m->err = (struct engine_error){.code = ENGINE_OK};
    t->loading = m;
    on_change(m, ud);
    errand_start(t->errand, load, m);
    return true;
}
