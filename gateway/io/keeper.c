/* keeper.c - see keeper.h. One thread, woken by an eventfd (requests, evidence, a reload) and by
 * inotify (the file). Each turn it does what is due: looks at the file, answers one request for an
 * older version, writes evidence, upgrades. One request a turn, so that a crowd of them does not
 * keep a new version waiting.
 *
 * A look is cheap: the newest number is asked of the handle that is open. Only when that differs,
 * when the file is another one, or when it was written without a new version (evidence of somebody
 * else, or damage) is it opened anew, which checks all of it; for the last reason at most once a
 * second. What the keeper wrote itself is told from the rest by the trace of the files.
 *
 * Snapshots that were replaced stay in the cache for a while: requests still use them, and evidence
 * is only taken for snapshots that are known to come from the file in use.
 */
#include "keeper.h"

#include "catalog/versions.h"
#include "gateway/base/log.h"
#include "gateway/base/paths.h"
#include "keeper_cache.h"
#include "keeper_notes.h"
#include "keeper_source.h"
#include "keeper_watch.h"
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PATH_BYTES   4096
#define LOOK_MS      25    /* from an event to the look: a commit makes a few of them */
#define RELOAD_MS    1000  /* between loads that no new version asks for */
#define REPAIR_MS    200   /* between tries of a file that is being written anew */
#define REFUSED_MS   10000 /* between tries of one that does not change */
#define EVIDENCE_MS  200   /* evidence gathers so long */
#define UPGRADE_MS   500   /* after the daemon is ready: its first requests come first */
#define RETRY_MS     10000 /* after evidence could not be written */
#define TIDY_MS      1500  /* after another snapshot is used: requests let the old one go */
#define NEVER        INT64_MAX
#define WAIT_LONGEST INT64_C(60000)

/* A request for a version. */
struct wish {
    struct wish *next;
    int64_t version;
    struct loop *loop;
    keeper_version_fn *fn;
    void *ud;
    struct snapshot *snap;
    struct failure fail;
    struct loop_post post;
};

struct keeper {
    struct keeper_options o;
    char *path, *shipped; /* owned; shipped NULL: none */
    pthread_t thread;
    int wake_fd;
    struct keeper_watch watch;
    struct keeper_notes notes;
    atomic_int learn;

    pthread_mutex_t lock; /* of what follows */
    struct wish *first, **last;
    struct snapshot *current;
    struct keeper_cache cache; /* all of the file in use */
    struct keeper_status status;
    int64_t pin;
    bool is_closing, is_reconfigured, wants_upgrade;

    /* the thread's own */
    struct catalog *db; /* of the file in use; NULL: it cannot be used now */
    struct keeper_trace trace, own_trace;
    bool is_own;               /* the one in use is the one at `path` */
    enum catalog_code refused; /* CATALOG_OK: not */
    bool is_deaf;              /* evidence cannot be written */
    bool has_litter;           /* a snapshot was replaced since the last tidying */
    bool is_unteachable;       /* nor overrides */
    int64_t loaded_at;         /* the last try */
    int64_t look_at, poll_at, reload_at, notes_at, upgrade_at; /* due times */
    char day[11]; /* of the claims that were confirmed today */
};

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void wake(struct keeper *k)
{
    uint64_t one = 1;
    (void)!write(k->wake_fd, &one, sizeof one); /* a full counter wakes all the same */
}

/* ---- snapshots at hand. The lock is held. */

static struct snapshot *find_loaded(struct keeper *k, int64_t version)
{
    return k->current && snapshot_version(k->current) == version
               ? snapshot_ref(k->current)
               : keeper_cache_find(&k->cache, version);
}

static bool is_of_this_file(struct keeper *k, const struct snapshot *s)
{
    return s == k->current || keeper_cache_has(&k->cache, s);
}

/* What is not needed any more goes back to the system, which a long life would not give it
 * otherwise. */
static void tidy(struct keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    bool is_less = keeper_cache_tidy(&k->cache);
    (void)pthread_mutex_unlock(&k->lock);
    if (is_less || k->has_litter) {
        (void)malloc_trim(0); /* whether it gave anything back does not matter */
        k->has_litter = false;
    }
}

/* ---- taking up */

/* Told when it begins, and when it is for another reason; not at each look. */
static void refuse(struct keeper *k, const struct catalog_error *e)
{
    if (k->refused != e->code) {
        log_write(LOG_ERROR, "catalog_refused", "path", k->path, "error", e->text, "hint",
                  keeper_source_hint(e->code, k->o.is_named), NULL);
    }
    k->refused = e->code;
    (void)pthread_mutex_lock(&k->lock);
    (void)snprintf(k->status.refused, sizeof k->status.refused, "%s", e->text);
    k->status.is_fallback = true;
    (void)pthread_mutex_unlock(&k->lock);
}

static void log_taken(const struct keeper *k, const struct keeper_source *s, const char *path,
                      const struct snapshot *before, bool was_refused)
{
    char version[24], was[24];
    int64_t old = before ? snapshot_version(before) : 0;
    if (snapshot_version(s->snap) != old || strcmp(k->status.path, path) != 0 || was_refused) {
        (void)snprintf(version, sizeof version, "%" PRId64, snapshot_version(s->snap));
        (void)snprintf(was, sizeof was, "%" PRId64, old);
        log_write(LOG_INFO, "catalog_taken_up", "path", path, "version", version, "was", was,
                  "created", s->created, NULL);
    }
}

/* What keeper_status() tells: only when the snapshot is in use. */
static void tell_status(struct keeper *k, const struct keeper_source *s, const char *path)
{
    (void)pthread_mutex_lock(&k->lock);
    k->status.version = snapshot_version(s->snap);
    k->status.newest = s->newest;
    memcpy(k->status.created, s->created, sizeof k->status.created);
    (void)snprintf(k->status.path, sizeof k->status.path, "%s", path);
    if (k->is_own) {
        k->refused = CATALOG_OK;
        k->status.is_fallback = false;
        k->status.refused[0] = '\0';
    }
    (void)pthread_mutex_unlock(&k->lock);
}

/* Puts the source's snapshot in the place of the one before, which is yours then. */
static struct snapshot *replace(struct keeper *k, struct keeper_source *s, const char *path)
{
    bool is_same = k->db && s->knows_previous && strcmp(k->status.path, path) == 0 &&
                   keeper_trace_is_same_file(&k->trace, &s->trace);
    (void)pthread_mutex_lock(&k->lock);
    struct snapshot *before = k->current;
    k->current = s->snap;
    k->is_own = strcmp(path, k->path) == 0;
    if (!is_same) {
        keeper_cache_clear(&k->cache);
        keeper_notes_forget(&k->notes);
    } else if (before) {
        keeper_cache_put(&k->cache, snapshot_ref(before)); /* requests still use it */
    }
    (void)pthread_mutex_unlock(&k->lock);
    return before;
}

/* The source becomes what is used; it is moved. Not called while the lock is held. */
static void adopt(struct keeper *k, struct keeper_source *s, const char *path, bool is_start)
{
    bool was_refused = k->refused != CATALOG_OK;
    struct snapshot *before = replace(k, s, path);
    if (!is_start) { /* keeper_start() gives the first one */
        k->o.on_snapshot(snapshot_ref(s->snap), k->o.ud);
        log_taken(k, s, path, before, was_refused);
    }
    tell_status(k, s, path);
    snapshot_release(before);
    catalog_close(k->db);
    k->db = s->db;
    k->trace = s->trace;
    k->loaded_at = now_ms();
    k->reload_at = NEVER;
    k->has_litter = true;
    k->poll_at = least(k->poll_at, k->loaded_at + TIDY_MS);
}

static int64_t pin_of(struct keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    int64_t pin = k->pin;
    (void)pthread_mutex_unlock(&k->lock);
    return pin;
}

/* Opens the wanted database anew and uses it; or says why not. */
static void load(struct keeper *k)
{
    struct catalog_error err = {.code = CATALOG_OK};
    struct keeper_source s;
    k->look_at = NEVER;
    if (keeper_source_load(&s, k->path, pin_of(k), k->current, &err)) {
        adopt(k, &s, k->path, false);
        return;
    }
    keeper_trace_take(k->path, &k->trace);
    k->reload_at = NEVER;
    k->loaded_at = now_ms();
    if (!k->is_own && !k->trace.is_there && !k->o.is_named) {
        return; /* the machine's own has not been made yet */
    }
    refuse(k, &err);
    if (k->is_own && err.code != CATALOG_NOT_FOUND) { /* older versions cannot be had of it */
        catalog_close(k->db);
        k->db = NULL;
    }
}

/* Another pin while the machine has no database of its own. */
static void load_shipped(struct keeper *k)
{
    struct catalog_error err = {.code = CATALOG_OK};
    struct keeper_trace wanted = k->trace;
    struct keeper_source s;
    if (keeper_source_load(&s, k->shipped, pin_of(k), k->current, &err)) {
        adopt(k, &s, k->shipped, false);
        k->trace = wanted;
    } else {
        log_write(LOG_ERROR, "catalog_refused", "path", k->shipped, "error", err.text, "hint",
                  keeper_source_hint(err.code, false), NULL);
    }
}

/* The file may have changed: what is to be done about it? */
static void look(struct keeper *k)
{
    struct catalog_error err = {.code = CATALOG_OK};
    struct keeper_trace t;
    int64_t newest = 0;
    k->look_at = NEVER;
    keeper_watch_renew(&k->watch);
    k->poll_at = least(k->poll_at, now_ms() + keeper_watch_poll_ms(&k->watch));
    keeper_trace_take(k->path, &t);
    bool is_changed = !keeper_trace_equal(&t, &k->trace);
    if (!k->is_own || !k->db) {
        int64_t pause = is_changed ? REPAIR_MS : REFUSED_MS;
        if (is_changed || k->refused != CATALOG_OK) {
            k->reload_at = most(now_ms(), k->loaded_at + pause);
        }
        return;
    }
    if (!is_changed) {
        return;
    }
    if (!keeper_trace_is_same_file(&t, &k->trace) || !catalog_newest(k->db, &newest, &err) ||
        newest != k->status.newest) {
        load(k);
        return;
    }
    k->trace = t;
    if (!keeper_trace_equal(&t, &k->own_trace)) {
        k->reload_at = least(k->reload_at, k->loaded_at + RELOAD_MS);
    }
}

/* ---- versions for requests */

static void wish_finish(void *wish)
{
    struct wish *w = wish;
    w->fn(w->snap, w->snap ? NULL : &w->fail, w->ud);
    free(w);
}

static void fail_wish(struct keeper *k, struct wish *w, const struct catalog_error *e)
{
    if (e->code == CATALOG_NOT_FOUND) {
        (void)failure_set(&w->fail, 404, "catalog_version_not_found", "isotherm.catalog_version",
                          "the catalog has no version %" PRId64 ": its newest is %" PRId64,
                          w->version, k->status.newest);
    } else if (e->code == CATALOG_OK) {
        (void)failure_set(&w->fail, 503, "catalog_unavailable", "isotherm.catalog_version",
                          "the catalog cannot be read now: only the version in use is there");
    } else {
        (void)failure_from_catalog(&w->fail, e);
    }
}

static struct wish *take_wish(struct keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    struct wish *w = k->first;
    if (w) {
        k->first = w->next;
        k->last = k->first ? k->last : &k->first;
        w->snap = find_loaded(k, w->version);
    }
    (void)pthread_mutex_unlock(&k->lock);
    return w;
}

/* false: there was none. */
static bool answer_wish(struct keeper *k)
{
    struct catalog_error err = {.code = CATALOG_OK};
    struct wish *w = take_wish(k);
    if (!w) {
        return false;
    }
    if (!w->snap && k->db && catalog_snapshot(k->db, w->version, &w->snap, &err)) {
        (void)pthread_mutex_lock(&k->lock);
        keeper_cache_put(&k->cache, snapshot_ref(w->snap));
        (void)pthread_mutex_unlock(&k->lock);
    }
    if (!w->snap) {
        fail_wish(k, w, &err);
    }
    w->post = (struct loop_post){.fn = wish_finish, .ud = w};
    loop_post(w->loop, &w->post);
    return true;
}

/* ---- evidence */

/* Takes what cannot be written out of the list. */
static struct keeper_note *keep_own(struct keeper *k, struct keeper_note *list)
{
    struct keeper_note *own = NULL, **end = &own;
    (void)pthread_mutex_lock(&k->lock);
    while (list) {
        struct keeper_note *n = list;
        list = n->next;
        n->next = NULL;
        if (k->is_own && k->db && is_of_this_file(k, n->snap)) {
            *end = n;
            end = &n->next;
        } else {
            (void)atomic_fetch_add(&k->notes.n_dropped, 1);
            keeper_notes_free(n);
        }
    }
    (void)pthread_mutex_unlock(&k->lock);
    return own;
}

/* Once, until it works again: the provider is asked again and again. */
static void tell_not_overridden(struct keeper *k, const struct keeper_note *n,
                                const struct catalog_error *err)
{
    if (!k->is_unteachable) {
        log_write(LOG_WARNING, "claim_not_overridden", "model", n->e.model, "error", err->text,
                  "hint", "it is kept as evidence: see 'isothermctl catalog check'", NULL);
    }
    k->is_unteachable = true;
}

/* Only what was seen of the newest version: in a later one somebody may have set it by hand. */
static void apply_proved(struct keeper *k, const struct keeper_note *list)
{
    int64_t newest = 0;
    bool goes_on = catalog_newest(k->db, &newest, NULL) && newest == k->status.newest &&
                   newest == k->status.version;
    for (const struct keeper_note *n = list;
         goes_on && n && atomic_load(&k->learn) == KEEPER_LEARN_APPLY; n = n->next) {
        struct catalog_error err = {.code = CATALOG_OK};
        char version[24];
        int64_t made = 0;
        if (!keeper_notes_may_apply(list, n, k->current)) {
            continue;
        }
        if (k->notes.n_learned == KEEPER_LEARNED_MAX) {
            (void)catalog_fail(&err, CATALOG_NOT_FOUND, "%d claims were overridden today",
                               KEEPER_LEARNED_MAX);
        }
        if (err.code != CATALOG_OK || !keeper_notes_apply(k->path, n, &made, &err)) {
            tell_not_overridden(k, n, &err);
            goes_on = false; /* what is next would wait and fail, too; it will be seen again */
        } else if (made > k->status.newest) {
            k->notes.n_learned++;
            k->is_unteachable = false;
            (void)snprintf(version, sizeof version, "%" PRId64, made);
            log_write(
                LOG_WARNING, "claim_overridden", "model", n->e.model, "version", version, "hint",
                "see 'isothermctl catalog diff', undo with 'catalog unset' or, for good, with "
                "'catalog set'",
                NULL);
            k->look_at = now_ms();
        }
    }
}

static void write_notes(struct keeper *k)
{
    struct catalog_error err = {.code = CATALOG_OK};
    bool is_news = false;
    k->notes_at = NEVER;
    struct keeper_note *list = keep_own(k, keeper_notes_take(&k->notes));
    struct keeper_trace t;
    keeper_trace_take(k->path, &t);
    if (!list) {
        return;
    }
    if (!keeper_trace_is_same_file(&t,
                                   &k->trace)) { /* never makes a file, nor writes into another */
        (void)catalog_fail(&err, CATALOG_IO, "catalog '%s' was taken away", k->path);
        for (const struct keeper_note *n = list; n; n = n->next) {
            (void)atomic_fetch_add(&k->notes.n_dropped, 1);
        }
        k->look_at = now_ms();
    } else if (keeper_notes_write(&k->notes, k->path, list, k->current, &is_news, &err)) {
        keeper_trace_take(k->path, &k->own_trace);
        apply_proved(k, list);
    }
    if (is_news) {
        k->reload_at = least(k->reload_at, k->loaded_at + RELOAD_MS);
    }
    if (err.code != CATALOG_OK && !k->is_deaf) {
        log_write(LOG_WARNING, "evidence_not_written", "error", err.text, "hint",
                  "it is dropped until that works again", NULL);
    }
    k->is_deaf = err.code != CATALOG_OK;
    keeper_notes_free(list);
}

/* ---- the machine's own database */

static void upgrade(struct keeper *k)
{
    struct catalog_error err = {.code = CATALOG_OK};
    struct catalog_version v = {.number = 0};
    char now[32], version[24], conflicts[24];
    bool is_changed = false;
    k->upgrade_at = NEVER;
    keeper_now(now);
    struct version_stamp stamp = {"isothermd", "the catalog that came with the program", now};
    if (k->refused != CATALOG_OK) {
        return; /* it is left as it is; once it is whole again the next start does it */
    }
    if (!paths_make_folders(k->path, 0700)) {
        (void)catalog_fail(&err, CATALOG_IO, "the folder of '%s' cannot be made: %s", k->path,
                           strerror(errno));
    }
    if (err.code != CATALOG_OK ||
        !catalog_upgrade(k->path, k->shipped, &stamp, &is_changed, &v, &err)) {
        log_write(LOG_WARNING, "catalog_not_upgraded", "path", k->path, "from", k->shipped, "error",
                  err.text, NULL);
        return;
    }
    k->look_at = now_ms();
    if (is_changed) {
        (void)snprintf(version, sizeof version, "%" PRId64, v.number);
        log_write(LOG_INFO, "catalog_upgraded", "path", k->path, "from", k->shipped, "version",
                  version, NULL);
    }
    if (is_changed && v.n_conflicts > 0) {
        (void)snprintf(conflicts, sizeof conflicts, "%" PRId64, v.n_conflicts);
        log_write(LOG_WARNING, "catalog_conflicts", "n", conflicts, "version", version, "hint",
                  "what was set on this machine holds: see 'isothermctl catalog check'", NULL);
    }
}

/* ---- the thread */

/* Until something is due or somebody wakes it. */
static void wait_for_work(struct keeper *k)
{
    struct pollfd fds[2] = {{.fd = k->wake_fd, .events = POLLIN},
                            {.fd = k->watch.fd, .events = POLLIN}};
    (void)pthread_mutex_lock(&k->lock);
    bool has_work = k->first || k->is_closing || k->is_reconfigured || k->wants_upgrade;
    (void)pthread_mutex_unlock(&k->lock);
    int64_t at = least(least(k->look_at, k->poll_at), least(k->reload_at, k->notes_at));
    int64_t ms = has_work ? 0 : least(at, k->upgrade_at) - now_ms();
    ms = ms < 0 ? 0 : least(ms, WAIT_LONGEST);
    if (poll(fds, 2, (int)ms) > 0 && fds[0].revents) {
        uint64_t n;
        (void)!read(k->wake_fd, &n, sizeof n); /* only empties the counter */
    }
    if (keeper_watch_take(&k->watch) && k->look_at == NEVER) {
        k->look_at = now_ms() + LOOK_MS;
    }
}

/* What other threads have asked for. Whether this is the end. */
static bool take_orders(struct keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    bool is_closing = k->is_closing, is_new = k->is_reconfigured;
    if (k->wants_upgrade) {
        k->upgrade_at = now_ms() + UPGRADE_MS;
    }
    k->is_reconfigured = k->wants_upgrade = false;
    (void)pthread_mutex_unlock(&k->lock);
    if (is_new && k->is_own) {
        load(k);
    } else if (is_new && k->refused == CATALOG_OK) {
        load_shipped(k);
    }
    if (k->notes_at == NEVER && keeper_notes_wait(&k->notes)) {
        k->notes_at = now_ms() + (is_closing ? 0 : k->is_deaf ? RETRY_MS : EVIDENCE_MS);
    }
    return is_closing;
}

static void poll_file(struct keeper *k)
{
    char now[32];
    keeper_now(now);
    if (memcmp(now, k->day, 10) != 0) {
        memcpy(k->day, now, 10);
        keeper_notes_forget(&k->notes);
    }
    k->poll_at = now_ms() + keeper_watch_poll_ms(&k->watch);
    k->look_at = least(k->look_at, now_ms());
    tidy(k);
}

static void *keep(void *keeper)
{
    struct keeper *k = keeper;
    bool is_last = false;
    while (!is_last) {
        wait_for_work(k);
        is_last = take_orders(k);
        int64_t now = now_ms();
        if (k->poll_at <= now) {
            poll_file(k);
        }
        if (k->look_at <= now_ms()) {
            look(k);
        }
        if (k->reload_at <= now_ms()) {
            load(k);
        }
        while (answer_wish(k) && is_last) { /* one a turn, all at the end */
        }
        if (k->notes_at <= now || is_last) {
            write_notes(k);
        }
        if (k->upgrade_at <= now && !is_last) {
            upgrade(k);
        }
    }
    return NULL;
}

static bool thread_start(struct keeper *k)
{
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &old); /* signals are for the daemon's own threads */
    bool ok = pthread_create(&k->thread, NULL, keep, k) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ok;
}

/* ---- the contract */

static void keeper_free(struct keeper *k)
{
    if (k) {
        keeper_cache_clear(&k->cache);
        snapshot_release(k->current);
        catalog_close(k->db);
        keeper_watch_release(&k->watch);
        keeper_notes_release(&k->notes);
        if (k->wake_fd >= 0) {
            (void)close(k->wake_fd); /* only a counter */
        }
        (void)pthread_mutex_destroy(&k->lock); /* fails only while it is held */
        free(k->path);
        free(k->shipped);
        free(k);
    }
}

static struct keeper *keeper_new(const struct keeper_options *o)
{
    struct keeper *k = calloc(1, sizeof *k);
    if (!k || pthread_mutex_init(&k->lock, NULL) != 0) {
        free(k);
        return NULL;
    }
    k->o = *o;
    k->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    k->watch.fd = k->watch.wd = -1;
    k->last = &k->first;
    k->pin = o->pin;
    atomic_init(&k->learn, (int)o->learn);
    k->look_at = k->reload_at = k->notes_at = k->upgrade_at = NEVER;
    k->path = strdup(o->path);
    k->shipped = o->shipped ? strdup(o->shipped) : NULL;
    if (k->wake_fd < 0 || !k->path || (o->shipped && !k->shipped) ||
        !keeper_notes_init(&k->notes)) {
        keeper_free(k);
        return NULL;
    }
    return k;
}

/* The first snapshot: of the wanted database, else of the shipped one. */
static bool load_first(struct keeper *k, struct catalog_error *err)
{
    struct keeper_source s;
    struct keeper_trace t;
    if (keeper_source_load(&s, k->path, k->pin, NULL, err)) {
        adopt(k, &s, k->path, true);
        return true;
    }
    keeper_trace_take(k->path, &t);
    bool is_made_later = !t.is_there && !k->o.is_named && access(k->path, F_OK) != 0;
    bool is_pin = err->code == CATALOG_NOT_FOUND && k->pin;
    if (!k->shipped || strcmp(k->shipped, k->path) == 0 || is_pin) {
        return false;
    }
    struct catalog_error first = *err;
    if (is_made_later) {
        err->code = CATALOG_OK; /* nothing is wrong with it: what counts is the shipped one */
    }
    struct catalog_error second = {.code = CATALOG_OK};
    if (!keeper_source_load(&s, k->shipped, is_made_later ? k->pin : 0, NULL, &second)) {
        *err = is_made_later ? second : first;
        return false;
    }
    if (!is_made_later) {
        refuse(k, &first);
    }
    adopt(k, &s, k->shipped, true);
    k->trace = t; /* from here on the wanted one is watched */
    return true;
}

bool keeper_start(struct keeper **out, const struct keeper_options *o, struct snapshot **first,
                  struct failure *f)
{
    struct catalog_error err = {.code = CATALOG_OK};
    struct keeper *k = keeper_new(o);
    if (!k) {
        return failure_set(f, 500, "out_of_memory", NULL, "out of memory");
    }
    keeper_watch_init(&k->watch, k->path); /* before the file is read: nothing is missed */
    if (!load_first(k, &err)) {
        keeper_free(k);
        return failure_from_catalog(f, &err);
    }
    char now[32];
    keeper_now(now);
    memcpy(k->day, now, 10);
    k->poll_at = now_ms() + keeper_watch_poll_ms(&k->watch);
    struct snapshot *s = snapshot_ref(k->current);
    if (!thread_start(k)) {
        snapshot_release(s);
        keeper_free(k);
        return failure_set(f, 500, "no_thread", NULL,
                           "no thread for the catalog, raise the limit of tasks");
    }
    *first = s;
    *out = k;
    return true;
}

void keeper_stop(struct keeper *k)
{
    if (!k) {
        return;
    }
    (void)pthread_mutex_lock(&k->lock);
    k->is_closing = true;
    (void)pthread_mutex_unlock(&k->lock);
    wake(k);
    (void)pthread_join(k->thread, NULL);
    keeper_free(k);
}

void keeper_upgrade(struct keeper *k)
{
    if (k->o.is_named || !k->shipped || strcmp(k->shipped, k->path) == 0) {
        return;
    }
    (void)pthread_mutex_lock(&k->lock);
    k->wants_upgrade = true;
    (void)pthread_mutex_unlock(&k->lock);
    wake(k);
}

void keeper_set(struct keeper *k, int64_t pin, enum keeper_learn learn)
{
    atomic_store(&k->learn, (int)learn);
    (void)pthread_mutex_lock(&k->lock);
    bool is_new = k->pin != pin;
    k->pin = pin;
    k->is_reconfigured = k->is_reconfigured || is_new;
    (void)pthread_mutex_unlock(&k->lock);
    if (is_new) {
        wake(k);
    }
}

struct snapshot *keeper_loaded(struct keeper *k, int64_t version)
{
    (void)pthread_mutex_lock(&k->lock);
    struct snapshot *s = find_loaded(k, version);
    (void)pthread_mutex_unlock(&k->lock);
    return s;
}

bool keeper_version(struct keeper *k, int64_t version, struct loop *loop, keeper_version_fn *fn,
                    void *ud)
{
    struct wish *w = calloc(1, sizeof *w);
    if (!w) {
        return false;
    }
    *w = (struct wish){.version = version, .loop = loop, .fn = fn, .ud = ud};
    (void)pthread_mutex_lock(&k->lock);
    *k->last = w;
    k->last = &w->next;
    (void)pthread_mutex_unlock(&k->lock);
    wake(k);
    return true;
}

void keeper_evidence(struct keeper *k, struct snapshot *s, const struct evidence *e, bool is_proved)
{
    bool was_empty = false;
    if (atomic_load(&k->learn) != KEEPER_LEARN_OFF) {
        keeper_notes_push(&k->notes, s, e, is_proved, &was_empty);
    }
    if (was_empty) {
        wake(k);
    }
}

bool keeper_is_confirmed(const struct keeper *k, int64_t claim)
{
    return keeper_notes_was_confirmed(&k->notes, claim);
}

void keeper_status(struct keeper *k, struct keeper_status *out)
{
    (void)pthread_mutex_lock(&k->lock);
    *out = k->status;
    (void)pthread_mutex_unlock(&k->lock);
    out->n_evidence = atomic_load(&k->notes.n_stored);
    out->n_dropped = atomic_load(&k->notes.n_dropped);
}
