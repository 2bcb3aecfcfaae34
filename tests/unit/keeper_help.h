/* keeper_help.h - what test_keeper.c and test_keeper_evidence.c share: small databases, and a
 * keeper with whom to wait. */
#ifndef ISOTHERM_TESTS_KEEPER_HELP_H
#define ISOTHERM_TESTS_KEEPER_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "catalog/versions.h"
#include "gateway/base/log.h"
#include "gateway/io/keeper.h"

#define HELPER __attribute__((unused)) static

static char dir[64]; /* of this run */
static unsigned n_names;

/* ---- databases */

HELPER const char *fresh_path(const char *ending)
{
    static char names[64][128];
    char *p = names[n_names++ % 64];
    (void)snprintf(p, 128, "%s/%u%s", dir, n_names, ending);
    return p;
}

/* A new version in the database: its `temperature` ends at `max`. */
HELPER int64_t build(const char *db, double max)
{
    const char *source = fresh_path(".json");
    struct catalog_error err = {.code = CATALOG_OK};
    struct catalog_version v;
    FILE *f = fopen(source, "w");
    assert_non_null(f);
    (void)fprintf(f,
                  "{\"provider\": {\"id\": \"p\", \"title\": \"P\", \"dialect\": \"openai\", "
                  "\"base_url\": \"http://127.0.0.1:1\", \"chat_path\": \"/c\", \"auth\": "
                  "\"none\", \"chat_endpoint\": \"/c\"}, \"claims\": [\n"
                  "{\"models\": \"*\", \"endpoint\": \"/c\", \"param\": \"temperature\", \"wire\": "
                  "\"temperature\", \"support\": \"yes\", \"min\": 0, \"max\": %g, \"source\": "
                  "\"s\", \"as_of\": \"2026-11-30\", \"confidence\": \"high\"},\n"
                  "{\"models\": \"*\", \"endpoint\": \"/c\", \"param\": \"top_p\", \"wire\": "
                  "\"top_p\", \"support\": \"yes\", \"min\": 0, \"max\": 1, \"source\": \"s\", "
                  "\"as_of\": \"2026-11-30\", \"confidence\": \"high\"}]}\n",
                  max);
    assert_int_equal(fclose(f), 0);
    struct version_stamp stamp = {"test", "a test", "2026-11-30T00:00:00Z"};
    if (!catalog_build(db, &source, 1, &stamp, &v, &err)) {
        fail_msg("%s", err.text);
    }
    return v.number;
}

HELPER const struct claim *claim_of(struct snapshot *s, const char *model, enum param p)
{
    struct rules r;
    struct catalog_error err = {.code = CATALOG_OK};
    assert_true(snapshot_rules(s, "p", model, CATALOG_CHAT, "2026-11-30", &r, &err));
    return r.param[p];
}

HELPER double max_of(struct snapshot *s)
{
    return claim_of(s, "m", PARAM_TEMPERATURE)->max;
}

HELPER void spill(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

HELPER char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *all = calloc(1, 1 << 22);
    assert_non_null(f);
    assert_non_null(all);
    *n = fread(all, 1, 1 << 22, f);
    (void)fclose(f);
    return all;
}

HELPER void copy(const char *from, const char *to)
{
    size_t n;
    char *all = slurp(from, &n);
    spill(to, all, n);
    free(all);
}

/* ---- a keeper under test */

struct rig {
    struct keeper *k;
    struct keeper_options o;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct snapshot *snap;
    unsigned n_given;
};

HELPER void on_snapshot(struct snapshot *s, void *ud)
{
    struct rig *r = ud;
    (void)pthread_mutex_lock(&r->lock);
    struct snapshot *old = r->snap;
    r->snap = s;
    r->n_given++;
    (void)pthread_cond_broadcast(&r->changed);
    (void)pthread_mutex_unlock(&r->lock);
    snapshot_release(old);
}

HELPER int64_t now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

HELPER bool start(struct rig *r, const char *path, const char *shipped, struct failure *f)
{
    memset(r, 0, sizeof *r);
    memset(f, 0, sizeof *f);
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->changed, NULL);
    r->o = (struct keeper_options){.path = path,
                                   .shipped = shipped,
                                   .is_named = true,
                                   .learn = KEEPER_LEARN_SUGGEST,
                                   .on_snapshot = on_snapshot,
                                   .ud = r};
    return keeper_start(&r->k, &r->o, &r->snap, f);
}

HELPER void start_ok(struct rig *r, const char *path, const char *shipped)
{
    struct failure f;
    if (!start(r, path, shipped, &f)) {
        fail_msg("%s", f.message);
    }
}

HELPER void stop(struct rig *r)
{
    keeper_stop(r->k);
    snapshot_release(r->snap);
    r->k = NULL;
    r->snap = NULL;
}

/* The snapshot in use; yours. */
HELPER struct snapshot *current(struct rig *r)
{
    (void)pthread_mutex_lock(&r->lock);
    struct snapshot *s = snapshot_ref(r->snap);
    (void)pthread_mutex_unlock(&r->lock);
    return s;
}

/* Waits until `temperature` ends at max; within five seconds. */
HELPER void wait_max(struct rig *r, double max)
{
    int64_t end = now_us() + 5000000;
    for (;;) {
        struct snapshot *s = current(r);
        bool ok = max_of(s) == max;
        snapshot_release(s);
        if (ok) {
            return;
        }
        if (now_us() > end) {
            fail_msg("no version with max %g within 5 s", max);
        }
        (void)usleep(500);
    }
}

HELPER void wait_refused(struct rig *r, bool is_refused)
{
    struct keeper_status s;
    int64_t end = now_us() + 5000000;
    do {
        keeper_status(r->k, &s);
        (void)usleep(1000);
    } while ((s.refused[0] != '\0') != is_refused && now_us() < end);
    assert_int_equal(s.refused[0] != '\0', is_refused);
    assert_int_equal(s.is_fallback, is_refused);
}

/* ---- of all tests */

HELPER int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/test_keeper.XXXXXX");
    log_init(LOG_ERROR);
    return mkdtemp(dir) ? 0 : -1;
}

HELPER int tear_down(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

#endif
